"""The page of a failure of a Spark job or a sink in a real browser, by keys, on a phone and in the dark."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace_properties.explain.pictures.compared_runs import compared_html
from tests.cli.browser import PHONE, Browser, Screen, browser_in, needs_browser
from tests.properties.explain.pictures.test_compared_runs import AGAIN_FROM_SOURCE, TWICE

pytestmark = needs_browser
SAID = ("each row exactly once (twice)", "stream.py:12: keep the batch id.")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    yield from browser_in(tmp_path_factory.mktemp("browser"))


@pytest.mark.parametrize(
    "screen", [Screen(1280), PHONE, Screen(1280, is_dark=True)], ids=["wide", "phone", "dark"]
)
def test_keys_step_through_the_tables_to_both_outcomes(
    browser: Browser, tmp_path: Path, screen: Screen
) -> None:
    """The story is reached by Tab; its sentences choose steps, behind which the tables are; then come the outcomes."""
    path = tmp_path / "page.html"
    path.write_text(compared_html(TWICE, title="stream:write", said=SAID))
    browser.open(path.as_uri(), screen)
    assert browser.run("$('caption').textContent") == SAID[0]
    assert browser.run("[...$('legend').querySelectorAll('text')].map((one) => one.textContent)") == [
        "a write",
        "a fault, or other rows",
        "down, paused or cut off",
        "witness: an event that proves the violation",
    ]
    assert browser.run(
        "['scope', 'key'].map((id) => (($('filters').open = true), $(id).getClientRects().length))"
    ) == [1, 0]
    browser.run("$('filters').open = false")
    browser.press("Tab", "Tab", "Enter")
    assert browser.run("document.activeElement.textContent") == "The driver died."
    assert browser.run("EVENTS[state.event].group") == "fault"
    browser.press("j")
    assert browser.run("[...$('event').querySelectorAll('tbody tr')].map((row) => row.textContent)") == [
        "'ann'7",
        "!'ann'7",
    ]
    outcomes = "[...document.querySelectorAll('#outcomes h3')].map((one) => one.textContent)"
    assert browser.run(outcomes) == ["Under the fault", "Undisturbed"]
    assert browser.run("document.querySelectorAll('#outcomes .wrong').length") == 1
    assert browser.run("document.documentElement.scrollWidth <= innerWidth")
    assert not browser.complaints


def test_page_without_runs_says_that_nothing_is_violated(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text(compared_html(None, title="stream:write", said=("Nothing is violated.",)))
    browser.open(path.as_uri(), dataclasses.replace(PHONE, is_dark=True))
    assert "Nothing is violated." in browser.run("$('story').textContent")
    assert not browser.complaints


def test_what_the_source_gives_otherwise_is_drawn_though_nothing_else_happens_there(
    browser: Browser, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text(compared_html(AGAIN_FROM_SOURCE, title="counting", said=("counts again",)))
    browser.open(path.as_uri(), PHONE)
    assert browser.run("$('count').textContent") == "4 of 4 events"
    assert browser.run("$('story').scrollWidth <= $('story').clientWidth")
