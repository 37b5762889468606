"""The rate of failure beside the time of a run, with the event at which it jumps."""

import json
import re
from itertools import pairwise
from xml.etree import ElementTree as ET

import pytest

from headrace_properties.explain.causality import numbers_of
from headrace_properties.explain.pictures.spacetime import spacetime_html
from headrace_properties.explain.pictures.spacetime.still import spacetime_svg
from headrace_properties.search.inevitability import FailureRates, RatePoint
from headrace_scenarios.catalogue import SCENARIOS
from headrace_scenarios.scenario import ScenarioRun

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def zombie() -> ScenarioRun:
    return SCENARIOS["zombie-timer"].run("sequencers")


@pytest.fixture(scope="module")
def rates(zombie: ScenarioRun) -> FailureRates:
    """One in ten continuations fails, until the late write is applied."""
    stale = max(numbers_of(zombie.history, zombie.violations["S6"].witness))
    at_us = zombie.history[stale].at_us
    points = (RatePoint(0, 5, 50), RatePoint(2_500_000, 10, 50), RatePoint(at_us, 50, 50))
    return FailureRates(points, (stale, stale))


def test_the_strip_is_as_wide_as_the_rate_from_each_moment_to_the_next(
    zombie: ScenarioRun, rates: FailureRates
) -> None:
    svg = spacetime_svg(zombie.history, zombie.verdicts, title="A run", rates=rates)
    root = ET.fromstring(svg)  # noqa: S314  it was written a line above
    bars = [element for element in root.iter(f"{SVG}rect") if element.get("data-rate")]
    widths = [float(bar.get("width", "")) for bar in bars]
    assert [round(width / widths[2], 2) for width in widths] == [0.1, 0.2, 1.0]
    edges = [(float(bar.get("y", "")), float(bar.get("height", ""))) for bar in bars]
    for (top, height), (below, _) in pairwise(edges):
        assert abs(top + height - below) < 0.2


def test_the_event_at_which_the_rate_jumps_says_so(zombie: ScenarioRun, rates: FailureRates) -> None:
    svg = spacetime_svg(zombie.history, zombie.verdicts, title="A run", rates=rates)
    said = " ".join("".join(text.itertext()) for text in ET.fromstring(svg).iter(f"{SVG}text"))  # noqa: S314  as above
    assert "here, the share of continuations that fail rises from 20 % to 100 %" in said
    page = spacetime_html(zombie.history, zombie.verdicts, title="A run", rates=rates)
    found = re.search(r'id="data">(.*?)</script>', page, re.DOTALL)
    assert found
    data = json.loads(found[1])
    assert data["rates"] == [[0, 0.1], [2_500_000, 0.2], [rates.points[2].at_us, 1.0]]
    assert data["jump"]["event"] == max(numbers_of(zombie.history, zombie.violations["S6"].witness))


def test_without_rates_there_is_no_strip(zombie: ScenarioRun) -> None:
    svg = spacetime_svg(zombie.history, zombie.verdicts, title="A run")
    assert "data-rate" not in svg
    assert ">fails<" not in svg
