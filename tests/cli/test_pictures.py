"""The space-time diagram in a real browser: what a reader sees, steps to, and saves.

The page is driven by its address (``#event=12``), keys and scripts, and examined as the browser's resulting document.
"""

import dataclasses
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from headrace import SECOND
from headrace.history import Applied, History
from headrace_properties.explain.causality import numbers_of
from headrace_properties.explain.pictures.spacetime import spacetime_html
from headrace_scenarios.catalogue import SCENARIOS
from headrace_scenarios.scenario import ScenarioRun
from tests.cli.browser import PHONE, Browser, Screen, browser_in, needs_browser

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    yield from browser_in(tmp_path_factory.mktemp("browser"))


@pytest.fixture(scope="module")
def zombie() -> ScenarioRun:
    return SCENARIOS["zombie-timer"].run("sequencers")


@pytest.fixture
def seen(browser: Browser, tmp_path: Path) -> "Seen":
    return Seen(browser, tmp_path / "run.html")


@dataclasses.dataclass(frozen=True, slots=True)
class Seen:
    """Shows runs as pages."""

    browser: Browser
    path: Path

    def __call__(
        self, outcome: ScenarioRun, address: str = "", script: str = "", screen: Screen | None = None
    ) -> str:
        """The document as the browser shows it, after a script has run in it."""
        page = spacetime_html(
            outcome.history, outcome.verdicts, title="A zombie's write", names=outcome.names
        )
        self.path.write_text(page)
        self.browser.open(f"{self.path.as_uri()}#{address}", screen or Screen())
        self.browser.run(f"(async () => {{ {script} }})()")
        assert not self.browser.complaints
        document: str = self.browser.run("document.documentElement.outerHTML")
        return document


def drawn(document: str) -> set[int]:
    return {int(number) for number in re.findall(r'<g data-event="(\d+)"', document)}


def words(document: str, element: str) -> str:
    found = re.search(rf'<(\w+) id="{element}"[^>]*>(.*?)</\1>', document, re.DOTALL)
    assert found
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", found[2])).replace("&nbsp;", " ").strip()


def test_it_opens_at_the_witness_and_its_causes_under_the_verdict(seen: Seen, zombie: ScenarioRun) -> None:
    document = seen(zombie)
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
    assert "B (zombie) still believes that it owns" in words(document, "story")


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


def test_no_text_is_crossed_or_overlapped_or_cut_off_on_a_phone(seen: Seen, zombie: ScenarioRun) -> None:
    """A wide figure is measured in tests/properties/explain/pictures/test_still.py."""
    for scope in ("S6", "S7", "S10", "all"):
        document = seen(zombie, f"scope={scope}&kinds=record,run,write,ack,ownership,fault", CROSSINGS, PHONE)
        assert int(re.findall(r'data-texts="(\d+)"', document)[0]) > 20
        for fault in ("overlaps", "crossed", "outside"):
            assert re.findall(rf'data-{fault}="(\d+)"', document) == ["0"], (scope, fault)
        if scope == "S6":
            assert 'data-scrolls="false"' in document


PLAYED = """
  let frame = 0; // a browser without a screen draws no frames
  window.requestAnimationFrame = (draw) => setTimeout(() => draw((frame += 16)), 1);
  $('speed').value = '16';
  $('play').click();
  document.body.dataset.label = $('play').getAttribute('aria-label');
  while (play.on) await new Promise((go) => setTimeout(go, 20));
  Object.assign(document.body.dataset, { ended: play.y, at: state.event });"""


def test_the_animation_plays_to_the_end_and_stops(seen: Seen, zombie: ScenarioRun) -> None:
    document = seen(zombie, "", PLAYED)
    assert 'data-label="Pause"' in document
    shown = sorted(drawn(document))
    assert re.findall(r'data-at="(\d+)"', document) == [str(shown[-1])]
    assert 'aria-label="Play"' in document


IN_VIEW = """(() => {
  const row = document.querySelector('#body [data-event="%s"]')?.getBoundingClientRect();
  const { y, bottom } = $('figure').getBoundingClientRect();
  return Boolean(row) && y < row.top && row.bottom < bottom;
})()"""


def test_the_story_is_links_and_each_moves_the_diagram_by_keyboard_alone(
    seen: Seen, zombie: ScenarioRun
) -> None:
    document = seen(zombie)
    told = re.findall(r'<a href="#event=(\d+)" data-go="(\d+)">', document)
    assert [(first, second) for first, second in told if first != second] == []
    last, browser = told[-1][0], seen.browser
    assert not browser.run(IN_VIEW % last)
    browser.run("document.querySelector('#story a').focus()")
    browser.press(*["Tab"] * (len(told) - 1), "Enter")
    assert browser.run("String(state.event)") == last
    assert browser.run(IN_VIEW % last)
    assert browser.run("document.activeElement.getAttribute('aria-current')") == "true"
    assert browser.run("location.hash").endswith(f"event={last}")


SECONDS = """
  let frame = 0;
  window.requestAnimationFrame = (draw) => setTimeout(() => draw((frame += 50)), 0);
  document.body.dataset.before = plan.rows.get(story().sentences[0].event).y - play.y;
  $('play').click();
  while (play.on) await new Promise((go) => setTimeout(go, 5));
  document.body.dataset.seconds = frame / 1000;"""


@pytest.mark.parametrize("scope", ["S6", "all"])
@pytest.mark.parametrize("screen", [Screen(), Screen(has_reduced_motion=True)], ids=["moving", "still"])
def test_a_run_begins_where_the_story_does_and_takes_at_most_15_s(
    scope: str, screen: Screen, seen: Seen, zombie: ScenarioRun
) -> None:
    document = seen(zombie, f"scope={scope}", SECONDS, screen)
    before, seconds = (
        float(re.findall(rf'data-{name}="(.*?)"', document)[0]) for name in ("before", "seconds")
    )
    assert 0 < before < 25
    assert 3 < seconds < 15.5


def test_the_papers_names_are_in_the_story_the_diagram_and_the_animation(
    seen: Seen, zombie: ScenarioRun
) -> None:
    document = seen(zombie)
    assert words(document, "story").count("B (zombie)") >= 5
    assert "worker-1" not in words(document, "story")
    assert "B (zombie) worker-1" in words(document, "head")
    assert "B (zombie)" in words(document, "stage")


def test_a_message_in_flight_is_a_dot_between_its_processes(seen: Seen, zombie: ScenarioRun) -> None:
    stale = max(numbers_of(zombie.history.events, zombie.violations["S6"].witness))
    script = f"""
      const late = flights(plan).find((one) => one.effect === {stale});
      moveTo((late.y1 + late.y2) / 2);
      const dots = [...document.querySelectorAll('#stage [data-flight="write"]')];
      document.body.dataset.dots = dots.map((one) => one.getAttribute('r')).join();
      document.body.dataset.zombie = $('stage').textContent.includes('partition');
      moveTo(late.y2);
      document.body.dataset.after = document.querySelectorAll('#stage [data-flight="write"]').length;"""
    document = seen(zombie, "", script)
    assert 'data-dots="8"' in document
    assert 'data-zombie="true"' in document
    assert 'data-after="0"' in document
    assert f"{stale}: Applied" in words(document, "event")


def test_stepping_moves_the_animation_and_rewinding_starts_it_again(seen: Seen, zombie: ScenarioRun) -> None:
    script = """
      const press = (key) => dispatchEvent(new KeyboardEvent('keydown', { key }));
      press('ArrowRight'); press('ArrowRight');
      document.body.dataset.second = play.y === plan.rows.get(plan.shown[1]).y;
      press('Home');
      document.body.dataset.rewound = play.y === plan.begin;"""
    document = seen(zombie, "", script)
    assert 'data-second="true"' in document
    assert 'data-rewound="true"' in document


def test_a_reader_steps_with_the_keyboard_and_reads_the_event(seen: Seen, zombie: ScenarioRun) -> None:
    press = "for (const key of ['w', 'w', 'j']) dispatchEvent(new KeyboardEvent('keydown', { key }));"
    events = zombie.history.events
    stale = max(numbers_of(events, zombie.violations["S6"].witness))
    document = seen(zombie, "", press)
    following = min(number for number in drawn(document) if number > stale)
    assert words(document, "event").startswith(f"{following}: {type(events[following]).__name__} ")
    assert f"because of {stale} STALE write 2.2" in words(document, "event")


def test_processes_that_did_nothing_are_shown_if_chosen(seen: Seen) -> None:
    sound = SCENARIOS["zombie-timer"].run()
    assert "worker-3" not in words(seen(sound), "head")
    assert "worker-3" in words(seen(sound, "hidden="), "head")
    chosen = "document.querySelector('#lanes [value=\"worker-3\"]').click();"
    assert "worker-3" in words(seen(sound, "", chosen), "head")


def test_the_address_chooses_event_kinds_key_and_theme(seen: Seen, zombie: ScenarioRun) -> None:
    events = zombie.history.events
    number = next(number for number, event in enumerate(events) if isinstance(event, Applied))
    document = seen(zombie, f"scope=all&kinds=write&key=dog&theme=dark&event={number}")
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


def test_zooming_stretches_time_and_nothing_else(seen: Seen, zombie: ScenarioRun) -> None:
    events = zombie.history.events
    columns, extents, near = steps(seen(zombie, "zoom=1", STEPS))
    zoomed_columns, zoomed_extents, far = steps(seen(zombie, "zoom=4", STEPS))
    assert zoomed_columns == columns
    assert {n: pytest.approx(extent) for n, extent in extents.items()} == zoomed_extents
    assert [n for n in near if far[n] < near[n] - 0.01] == []
    for before, number in itertools.pairwise(extents):
        if events[before].at_us == events[number].at_us:
            assert far[number] == pytest.approx(near[number])
    stretched = [number for number in near if far[number] > 1.5 * near[number]]
    assert len(stretched) >= 3


def test_the_saved_figure_is_a_whole_svg_with_all_that_is_chosen(seen: Seen, zombie: ScenarioRun) -> None:
    script = "const out = document.createElement('pre'); out.id = 'saved'; out.textContent = figure(); document.body.append(out);"
    document = seen(zombie, "scope=all&theme=dark", script)
    saved = re.search(r'<pre id="saved">(.*?)</pre>', document, re.DOTALL)
    assert saved
    figure = saved[1]
    assert figure.startswith('&lt;svg xmlns="http://www.w3.org/2000/svg"')
    shown = re.search(r'data-shown="(\d+)"', document)
    assert shown
    assert figure.count("data-event=") == int(shown[1]) > len(drawn(document.split('<pre id="saved">')[0]))
    assert "var(--" not in figure
    assert 'fill="#ffffff"' in figure  # on white, whatever the page is on


def test_low_watermarks_are_a_labelled_chart_of_the_whole_run(seen: Seen, zombie: ScenarioRun) -> None:
    document = seen(zombie)
    chart = words(document, "watermarks")
    assert chart.startswith("Low watermarks, in event time, of searches , A , B")
    assert all(text in chart for text in ("unknown", "3.000 s", "time of the run"))
    assert "low watermark of B</title>" in document


def test_thousands_of_events_are_drawn_as_the_reader_scrolls(seen: Seen, zombie: ScenarioRun) -> None:
    events = zombie.history.events
    times = [
        msgspec.structs.replace(event, at_us=event.at_us + again * 20 * SECOND)
        for again in range(20)
        for event in events
    ]
    many = dataclasses.replace(zombie, history=History(times), verdicts={})
    script = """
      $('figure').scrollTop = 0; repaint();
      const marks = [...document.querySelectorAll('#body [data-event]')];
      document.body.dataset.first = Math.min(...marks.map((one) => +one.dataset.event));
      $('figure').scrollTop = 60000; repaint();"""
    document = seen(many, "scope=all&kinds=record,run,write,ack,ownership,watermark", script)
    assert 'data-first="0"' in document
    assert 20 < len(drawn(document)) < 400
    assert min(drawn(document)) > 1000
