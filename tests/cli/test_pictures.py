"""The space-time diagram in a real browser: what a reader sees, steps to, and saves.

The page is driven by its address (``#event=12``) and by a script at its end, and examined as the browser's resulting
document: only the browser is needed.
"""

import dataclasses
import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from headrace import SECOND
from headrace.history import Applied, History
from headrace_properties.explain.causality import numbers_of
from headrace_properties.explain.pictures.spacetime import spacetime_html
from headrace_scenarios.catalogue import SCENARIOS
from headrace_scenarios.scenario import ScenarioRun

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(BROWSER is None, reason="there is no Chromium on this machine")

QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--virtual-time-budget=4000",
)  # fmt: skip


@pytest.fixture(scope="module")
def zombie() -> ScenarioRun:
    return SCENARIOS["zombie-timer"].run("sequencers")


def seen(tmp_path: Path, outcome: ScenarioRun, address: str = "", script: str = "", width: int = 1500) -> str:
    """The document as the browser shows it, after a script has run in it."""
    page = spacetime_html(outcome.history, outcome.verdicts, title="A zombie's write")
    page = page.replace("</body>", f"<script>{script}</script></body>")
    path = tmp_path / "run.html"
    path.write_text(page)
    folder = f"--user-data-dir={tmp_path / 'profile'}"
    command = [
        str(BROWSER),
        *QUIET,
        f"--window-size={width},1000",
        folder,
        "--dump-dom",
        f"{path.as_uri()}#{address}",
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    assert 'data-ready="yes"' in done.stdout, "the page's script did not come to its end"
    return done.stdout


def drawn(document: str) -> set[int]:
    return {int(number) for number in re.findall(r'<g data-event="(\d+)"', document)}


def words(document: str, element: str) -> str:
    found = re.search(rf'<(\w+) id="{element}"[^>]*>(.*?)</\1>', document, re.DOTALL)
    assert found
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found[2])).replace("&nbsp;", " ").strip()


def test_it_opens_at_the_witness_and_its_causes_under_the_verdict(
    tmp_path: Path, zombie: ScenarioRun
) -> None:
    document = seen(tmp_path, zombie)
    witness = set(numbers_of(zombie.history.events, zombie.violations["S6"].witness))
    assert witness <= drawn(document)
    assert len(drawn(document)) < 40
    assert words(document, "caption").startswith(
        "S6 violated: only the latest owner writes. A write of key 'cat videos'"
    )
    body = document.split('<svg id="body"', 1)[1].split("</svg>", 1)[0]
    assert body.count('r="10"') == len(witness)
    assert 'stroke-dasharray="3 2"' in body  # the zombie's belief
    assert body.count("<polygon") >= 8  # messages
    assert "worker-1 still believes that it owns" in words(document, "story")


CROSSINGS = """
  const texts = [...document.querySelectorAll('#body text')].map((one) => one.getBBox());
  const meets = (a, b) => Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x) > 1 &&
    Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y) > 3;
  const crosses = (box, one) => {
    const [x1, y1, x2, y2] = ['x1', 'y1', 'x2', 'y2'].map((name) => Number(one.getAttribute(name)));
    for (let t = 0; t <= 1; t += 0.005) {
      const x = x1 + (x2 - x1) * t, y = y1 + (y2 - y1) * t;
      if (x > box.x && x < box.x + box.width && y > box.y + 3 && y < box.y + box.height - 3) return true;
    }
    return false;
  };
  const lines = [...document.querySelectorAll('#body line')];
  document.body.dataset.texts = texts.length;
  document.body.dataset.overlaps = texts.flatMap((a, i) => texts.slice(i + 1).filter((b) => meets(a, b))).length;
  document.body.dataset.crossed = texts.filter((box) => lines.some((one) => crosses(box, one))).length;
  document.body.dataset.outside = texts.filter((box) => box.x < 0 || box.x + box.width > plan.width + 1).length;
  document.body.dataset.scrolls = plan.width > $('figure').clientWidth;"""


def test_no_text_is_crossed_or_overlapped_or_cut_off_on_a_phone(tmp_path: Path, zombie: ScenarioRun) -> None:
    """A wide figure is measured in tests/properties/explain/pictures/test_still.py."""
    for scope in ("S6", "S7", "S10", "all"):
        document = seen(
            tmp_path, zombie, f"scope={scope}&kinds=record,run,write,ack,ownership,fault", CROSSINGS, 500
        )
        assert int(re.findall(r'data-texts="(\d+)"', document)[0]) > 20
        for fault in ("overlaps", "crossed", "outside"):
            assert re.findall(rf'data-{fault}="(\d+)"', document) == ["0"], (scope, fault)
        if scope == "S6":
            assert 'data-scrolls="false"' in document


PLAYED = """
  let frame = 0; // a browser without a screen draws no frames
  window.requestAnimationFrame = (draw) => setTimeout(() => draw((frame += 16)), 1);
  const wait = () => play.on ? setTimeout(wait, 20) : Object.assign(document.body.dataset, { ended: play.y, at: state.event });
  $('speed').value = '16';
  $('play').click();
  document.body.dataset.label = $('play').getAttribute('aria-label');
  wait();"""


def test_the_animation_plays_to_the_end_and_stops(tmp_path: Path, zombie: ScenarioRun) -> None:
    document = seen(tmp_path, zombie, "", PLAYED)
    assert 'data-label="Pause"' in document
    shown = sorted(drawn(document))
    assert re.findall(r'data-at="(\d+)"', document) == [str(shown[-1])]
    assert 'aria-label="Play"' in document


def test_a_message_in_flight_is_a_dot_between_its_processes(tmp_path: Path, zombie: ScenarioRun) -> None:
    stale = max(numbers_of(zombie.history.events, zombie.violations["S6"].witness))
    script = f"""
      const late = flights(plan).find((one) => one.effect === {stale});
      moveTo((late.y1 + late.y2) / 2);
      const dots = [...document.querySelectorAll('#stage [data-flight="write"]')];
      document.body.dataset.dots = dots.map((one) => one.getAttribute('r')).join();
      document.body.dataset.zombie = $('stage').textContent.includes('partition');
      moveTo(late.y2);
      document.body.dataset.after = document.querySelectorAll('#stage [data-flight="write"]').length;"""
    document = seen(tmp_path, zombie, "", script)
    assert 'data-dots="8"' in document
    assert 'data-zombie="true"' in document
    assert 'data-after="0"' in document
    assert f"{stale}: Applied" in words(document, "event")


def test_stepping_moves_the_animation_and_rewinding_starts_it_again(
    tmp_path: Path, zombie: ScenarioRun
) -> None:
    script = """
      const press = (key) => dispatchEvent(new KeyboardEvent('keydown', { key }));
      press('ArrowRight'); press('ArrowRight');
      document.body.dataset.second = play.y === plan.rows.get(plan.shown[1]).y;
      press('Home');
      document.body.dataset.rewound = play.y === plan.start && state.event === null;"""
    document = seen(tmp_path, zombie, "", script)
    assert 'data-second="true"' in document
    assert 'data-rewound="true"' in document
    assert words(document, "now") == "the run starts"


def test_a_reader_steps_with_the_keyboard_and_reads_the_event(tmp_path: Path, zombie: ScenarioRun) -> None:
    press = "for (const key of ['w', 'w', 'j']) dispatchEvent(new KeyboardEvent('keydown', { key }));"
    events = zombie.history.events
    stale = max(numbers_of(events, zombie.violations["S6"].witness))
    document = seen(tmp_path, zombie, "", press)
    following = min(number for number in drawn(document) if number > stale)
    assert words(document, "event").startswith(f"{following}: {type(events[following]).__name__} ")
    assert f"because of {stale} STALE write 2.2" in words(document, "event")


def test_the_address_chooses_event_kinds_key_and_theme(tmp_path: Path, zombie: ScenarioRun) -> None:
    events = zombie.history.events
    number = next(number for number, event in enumerate(events) if isinstance(event, Applied))
    document = seen(tmp_path, zombie, f"scope=all&kinds=write&key=dog&theme=dark&event={number}")
    assert drawn(document)
    assert {type(events[number]).__name__ for number in drawn(document)} <= {"Applied", "CheckpointsDeleted"}
    assert words(document, "event").startswith(f"{number}: Applied")
    assert 'data-theme="dark"' in document


STEPS = """
  document.body.dataset.columns = JSON.stringify([plan.width, ...plan.x.values()]);
  document.body.dataset.rows = JSON.stringify(plan.shown.map((number) => {
    const { top, y, bottom } = plan.rows.get(number);
    return [number, y, y - top, bottom - y];
  }));"""


def steps(document: str) -> tuple[str, dict[int, tuple[float, ...]], dict[int, float]]:
    """The columns; how far each row reaches above and below its event; how far down it is from the row before."""
    columns, shown = (re.findall(rf'data-{name}="(.*?)"', document)[0] for name in ("columns", "rows"))
    rows = json.loads(shown)
    above = {row[0]: row[1] - before[1] for before, row in itertools.pairwise(rows)}
    return columns, {number: tuple(extent) for number, _, *extent in rows}, above


def test_zooming_stretches_time_and_nothing_else(tmp_path: Path, zombie: ScenarioRun) -> None:
    events = zombie.history.events
    columns, extents, near = steps(seen(tmp_path, zombie, "zoom=1", STEPS))
    zoomed_columns, zoomed_extents, far = steps(seen(tmp_path, zombie, "zoom=4", STEPS))
    assert zoomed_columns == columns
    assert {n: pytest.approx(extent) for n, extent in extents.items()} == zoomed_extents
    assert all(far[number] >= near[number] for number in near)
    for before, number in itertools.pairwise(extents):
        if events[before].at_us == events[number].at_us:
            assert far[number] == pytest.approx(near[number])
    stretched = [number for number in near if far[number] > 1.5 * near[number]]
    assert len(stretched) >= 3


def test_the_saved_figure_is_a_whole_svg_with_all_that_is_chosen(tmp_path: Path, zombie: ScenarioRun) -> None:
    script = "const out = document.createElement('pre'); out.id = 'saved'; out.textContent = figure(); document.body.append(out);"
    document = seen(tmp_path, zombie, "scope=all&theme=dark", script)
    saved = re.search(r'<pre id="saved">(.*?)</pre>', document, re.DOTALL)
    assert saved
    figure = saved[1]
    assert figure.startswith('&lt;svg xmlns="http://www.w3.org/2000/svg"')
    shown = re.search(r'data-shown="(\d+)"', document)
    assert shown
    assert figure.count("data-event=") == int(shown[1]) > len(drawn(document.split('<pre id="saved">')[0]))
    assert "var(--" not in figure
    assert 'fill="#ffffff"' in figure  # on white, whatever the page is on


def test_low_watermarks_are_a_chart_that_can_be_left_out(tmp_path: Path, zombie: ScenarioRun) -> None:
    with_chart, without = seen(tmp_path, zombie, "scope=S10"), seen(tmp_path, zombie, "scope=S10&kinds=write")
    assert "low watermark of B</title>" in with_chart
    assert "low watermarks" in words(with_chart, "head")
    assert "low watermarks" not in words(without, "head")


def test_thousands_of_events_are_drawn_as_the_reader_scrolls(tmp_path: Path, zombie: ScenarioRun) -> None:
    events = zombie.history.events
    times = [
        msgspec.structs.replace(event, at_us=event.at_us + again * 20 * SECOND)
        for again in range(20)
        for event in events
    ]
    many = dataclasses.replace(zombie, history=History(times), verdicts={})
    script = """
      const marks = [...document.querySelectorAll('#body [data-event]')];
      document.body.dataset.first = Math.min(...marks.map((one) => +one.dataset.event));
      $('figure').scrollTop = 60000; repaint();"""
    document = seen(tmp_path, many, "scope=all&kinds=record,run,write,ack,ownership,watermark", script)
    assert 'data-first="0"' in document
    assert 20 < len(drawn(document)) < 400
    assert min(drawn(document)) > 1000
