"""The still picture of a run: well-formed, of this run, and the same each time."""

from xml.etree import ElementTree as ET

import pytest

from headrace_scenarios.catalogue import SCENARIOS
from headrace_scenarios.pictures.spacetime.still import spacetime_svg
from headrace_scenarios.scenario import ScenarioRun
from tests.properties.stories import healthy

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def zombie() -> ScenarioRun:
    return SCENARIOS["zombie-timer"].run("sequencers")


def drawn(outcome: ScenarioRun) -> ET.Element:
    return ET.fromstring(picture(outcome))  # noqa: S314  it was written a line above


def picture(outcome: ScenarioRun) -> str:
    return spacetime_svg(outcome.history.events, outcome.verdicts, title="A <zombie>'s write", subtitle="B")


def texts(root: ET.Element) -> list[str]:
    return ["".join(one.itertext()) for one in root.iter(f"{SVG}text")]


def test_it_names_the_broken_rule_and_shows_what_led_to_it(zombie: ScenarioRun) -> None:
    said = texts(drawn(zombie))
    assert said[:3] == ["A <zombie>'s write", "B", "S6 violated: only the latest owner writes"]
    lanes = ["searches/0", "worker-0", "worker-1", "worker-2", "store"]
    assert said[3 : 3 + len(lanes)] == lanes
    assert any(one.startswith("STALE write 2.2") for one in said)
    assert any(one.startswith("delay_commit") for one in said)


def test_both_ends_of_the_violation_are_ringed(zombie: ScenarioRun) -> None:
    rings = [one for one in drawn(zombie).iter(f"{SVG}circle") if one.get("r") == "10"]
    assert len(rings) == len(zombie.violations["S6"].witness) == 2


def test_an_owner_that_was_replaced_is_dashed_from_then_on(zombie: ScenarioRun) -> None:
    dashed = [one for one in drawn(zombie).iter(f"{SVG}line") if one.get("stroke-dasharray") == "3 2"]
    assert len(dashed) == 1


def test_a_run_that_violates_nothing_shows_its_steps_and_the_refused_write() -> None:
    said = texts(drawn(SCENARIOS["zombie-timer"].run()))
    assert not any("violated" in one for one in said)
    assert any(one.startswith("REFUSE write of 2") for one in said)
    assert "master-0" not in said  # only faults struck there
    assert [one for one in said if one.startswith("partition")] == [
        "partition begins"
    ]  # it strikes 65 messages


def test_a_picture_is_the_same_each_time_and_needs_nothing_beside_it(zombie: ScenarioRun) -> None:
    svg = picture(zombie)
    assert svg == picture(SCENARIOS["zombie-timer"].run("sequencers"))
    assert svg.count("http") == 1  # the name of SVG itself
    assert "script" not in svg
    assert "style" not in svg


@pytest.mark.parametrize("length", [0, 1, 12])
def test_a_run_that_has_only_begun_is_drawn_too(length: int) -> None:
    events = healthy().events[:length]
    assert ET.fromstring(spacetime_svg(events, {}, title="")).tag == f"{SVG}svg"  # noqa: S314
