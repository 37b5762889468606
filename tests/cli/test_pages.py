"""What every page has that a command writes or serves, on a desktop, on a phone, in the dark, in a real browser.

Nothing that axe-core objects to, texts that can be read and are not cut off, all of it within reach of the keyboard, and a
console without complaints.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from importlib.resources import files
from pathlib import Path

import pytest

from headrace_properties.explain.pictures.compared_runs import compared_html
from headrace_properties.explain.pictures.spacetime import spacetime_html
from headrace_scenarios.catalogue import SCENARIOS
from tests.cli.browser import PHONE, Browser, Screen, browser_in, needs_browser
from tests.cli.test_explore import served
from tests.properties.explain.pictures.test_compared_runs import TWICE

pytestmark = needs_browser

AXE = files("axe_core_python").joinpath("axe.min.js").read_text()

SCREENS = {
    "desktop": Screen(1280, 800),
    "phone": PHONE,
    "dark": Screen(1100, 700, is_dark=True),
    "dark phone": Screen(390, 844, is_phone=True, is_dark=True),
}

Page = Callable[[Path], AbstractContextManager[str]]
"""Makes a page in a folder, and gives its address."""


@contextmanager
def page_of_run(folder: Path) -> Iterator[str]:
    run = SCENARIOS["zombie-timer"].run("sequencers")
    path = folder / "run.html"
    path.write_text(spacetime_html(run.history, run.verdicts, title=run.scenario.title, names=run.names))
    yield path.as_uri()


@contextmanager
def page_of_sink(folder: Path) -> Iterator[str]:
    path = folder / "sink.html"
    path.write_text(
        compared_html(TWICE, title="stream:write", said=("twice", "stream.py:12: keep the batch id."))
    )
    yield f"{path.as_uri()}#event=5"


@contextmanager
def page_of_explorer(_folder: Path) -> Iterator[str]:
    with served("views:pipeline") as server:
        yield f"{server.address}#choices=60.0&at=300"


@contextmanager
def page_of_chart(folder: Path) -> Iterator[str]:
    path = folder / "chart.html"
    drawing = SCENARIOS["dataflow-fig14"].run().drawing
    assert drawing is not None
    drawing.save(path)
    yield path.as_uri()


PAGES: dict[str, Page] = {
    "a run": page_of_run,
    "a sink": page_of_sink,
    "the explorer": page_of_explorer,
    "a chart": page_of_chart,
}

COLOURS = """
  for (const kind of ['broken', 'breaks', 'holds', 'unknown']) { // all that the explorer may come to show
    const line = document.createElement('p');
    [line.className, line.textContent] = [kind, kind];
    document.querySelector('#verdicts')?.append(line);
  }"""

OBJECTIONS = """axe.run({ iframes: false, resultTypes: ['violations'] }).then(({ violations }) => violations.map(
  ({ id, nodes }) => [id, ...nodes.map((one) => `${one.html.slice(0, 100)}: ${one.failureSummary}`)]))"""

PICTURES = """(() => { // of texts in drawings: their contrast with what is painted behind them, and whether they are whole
  const channel = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const shares = [0.2126, 0.7152, 0.0722], parts = (rgb) => rgb.match(/[\\d.]+/g).slice(0, 3);
  const light = (rgb) => parts(rgb).reduce((sum, part, i) => sum + channel(Number(part)) * shares[i], 0);
  const page = getComputedStyle(document.body).backgroundColor, seen = [];
  for (const svg of [...document.querySelectorAll('svg')].filter((one) => one.checkVisibility())) {
    const box = svg.getBoundingClientRect(), behind = [];
    for (const one of svg.querySelectorAll('rect, text, tspan')) {
      const { left, right, top, bottom } = one.getBoundingClientRect(), fill = getComputedStyle(one).fill;
      if (one.tagName === 'rect') {
        if (/^rgb\\(/.test(fill)) behind.unshift({ left, right, top, bottom, fill });
        continue;
      }
      const [x, y] = [(left + right) / 2, (top + bottom) / 2];
      const under = behind.find((r) => r.left <= x && x <= r.right && r.top <= y && y <= r.bottom);
      const [a, b] = [fill, under?.fill ?? page].map(light);
      const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
      const cut = left < box.left - 1 || right > box.right + 1 || one.textContent.includes('…');
      if (contrast < 4.5 || cut) seen.push([one.textContent, contrast.toFixed(2), cut ? 'cut off' : 'too faint']);
    }
  }
  return seen;
})()"""

CUT = """[...document.querySelectorAll('body, body *:not(svg, svg *, script, option)')]
  .filter((one) => one.clientWidth && one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== 'inline')
  .map((one) => one.outerHTML.slice(0, 120))"""

REACHABLE = """(() => {
  window.all = [...document.querySelectorAll('a, button, select, input, summary, [tabindex="0"]')]
    .filter((one) => one.checkVisibility() && !one.disabled);
  document.activeElement.blur();
  return all.length;
})()"""

FOCUSED = """(() => {
  const one = document.activeElement, { outlineStyle, outlineWidth } = getComputedStyle(one);
  return [all.indexOf(one), outlineStyle !== 'none' && outlineWidth !== '0px', one.outerHTML.slice(0, 80)];
})()"""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    yield from browser_in(tmp_path_factory.mktemp("browser"))


@pytest.mark.parametrize("page", PAGES)
def test_page_is_whole_and_readable_on_each_screen(page: str, browser: Browser, folder: Path) -> None:
    """Closed as it opens, and with each of its folded parts open."""
    with PAGES[page](folder) as address:
        for name, screen in SCREENS.items():
            browser.open(address, screen)
            browser.run(AXE)
            browser.run(COLOURS)
            parts = browser.run("document.querySelectorAll('details').length")
            for part in range(-1, min(parts, 2)):
                browser.run(
                    f"{{ const part = document.querySelectorAll('details')[{part}]; if (part) part.open = true; }}"
                )
                assert browser.run(OBJECTIONS) == [], (name, part)
                assert browser.run(PICTURES) == [], (name, part)
                assert [
                    one for one in browser.run(CUT) if not (screen.is_phone and 'id="figure"' in one)
                ] == [], (name, part)
            for key in "www":  # in the page of a run: the next event of the witness
                browser.press(key)
                assert browser.run(PICTURES) == [], (name, key)
            assert browser.complaints == []


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("screen", ["desktop", "phone"])
def test_all_that_can_be_used_is_reached_by_tab_and_shows_it(
    page: str, screen: str, browser: Browser, folder: Path
) -> None:
    with PAGES[page](folder) as address:
        browser.open(address, SCREENS[screen])
        count = browser.run(REACHABLE)
        reached = set()
        for _ in range(count):
            browser.press("Tab")
            number, is_shown, element = browser.run(FOCUSED)
            assert is_shown, element
            reached.add(number)
        assert reached == set(range(count))


@pytest.mark.parametrize("width", [20, 200])
def test_a_page_that_has_no_room_complains_of_nothing(width: int, browser: Browser, folder: Path) -> None:
    """A diagram in a folded frame."""
    with PAGES["a run"](folder) as address:
        browser.open(address, Screen(width, 400))
        assert browser.complaints == []
