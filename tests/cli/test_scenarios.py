"""``headrace paper scenario``: stories with a verdict."""

import dataclasses
import json
from functools import cache
from pathlib import Path

import pytest

from headrace import UserCodeError
from headrace_cli.terminal.exit import ExitCode, exit_code_of_run
from headrace_properties.verdict import Holds, Unknown, Violated
from headrace_scenarios.catalogue import SCENARIOS
from headrace_scenarios.scenario import Scenario, Story
from headrace_sim import Protocol
from tests.cli.rig import Run

RUN_ONCE = cache(Scenario.run)


@pytest.fixture(autouse=True)
def each_is_run_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command has run is what a test asks for; that it comes out the same each time is proved elsewhere."""
    monkeypatch.setattr(Scenario, "run", RUN_ONCE)


def words(text: str) -> str:
    return " ".join(text.split())


def test_list_shows_each_scenario_with_its_place_in_the_papers(run: Run) -> None:
    result = run("paper", "scenario", "list")
    assert result.exit_code == 0
    for scenario in SCENARIOS.values():
        assert scenario.name in result.stdout
        assert scenario.source in result.stdout


def test_list_as_json_is_one_document_in_the_same_order(run: Run) -> None:
    document = json.loads(run("paper", "scenario", "list", "--json").stdout)
    assert [scenario["name"] for scenario in document] == list(SCENARIOS)
    assert set(document[0]) == {"name", "title", "source", "story"}


@pytest.mark.parametrize("name", SCENARIOS)
def test_on_the_sound_protocol_each_scenario_exits_0_and_is_printed_in_full(run: Run, name: str) -> None:
    result = run("paper", "scenario", "run", name)
    scenario, outcome = SCENARIOS[name], SCENARIOS[name].run("")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(scenario.title)
    assert scenario.source in result.stdout
    assert words(scenario.story) in words(result.stdout)
    assert outcome.timeline in result.stdout, "the timeline must not be wrapped"
    for sentence in outcome.conclusion:
        assert words(sentence) in words(result.stdout)
    for invariant in outcome.verdicts:
        assert f"\n  {invariant} " in result.stdout
    assert "VIOLATED" not in result.stdout


@pytest.mark.parametrize("name", ["zombie-timer", "zombie-production"])
def test_without_sequencers_both_forms_of_figure_12_exit_1_and_say_what_is_violated(
    run: Run, name: str
) -> None:
    result = run("paper", "scenario", "run", name, "--without", "sequencers")
    assert result.exit_code == 1
    assert "protocol: without sequencers" in result.stdout
    assert "S6, only the latest owner writes: VIOLATED\n" in result.stdout


def test_as_json_it_is_one_document_with_timeline_and_verdicts(run: Run) -> None:
    result = run("paper", "scenario", "run", "zombie-production", "--without", "sequencers", "--json")
    outcome = SCENARIOS["zombie-production"].run("sequencers")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["result"] == "violated"
    assert document["protocol"] == "without sequencers"
    assert document["digest"] == outcome.history.digest()
    assert document["timeline"] == outcome.timeline.splitlines()
    assert document["conclusion"] == list(outcome.conclusion)
    assert set(document["invariants"]) == set(outcome.verdicts)
    broken = document["invariants"]["S6"]
    assert broken["verdict"] == "violated"
    assert broken["message"]
    assert broken["witness"][-1]["type"] == "Applied"


def test_unknown_scenario_exits_2_and_lists_the_valid_names(run: Run) -> None:
    result = run("paper", "scenario", "run", "zombie")
    assert (result.exit_code, result.stdout) == (2, "")
    assert (
        result.stderr
        == "Error: there is no scenario 'zombie'. Did you mean 'zombie-timer'? The scenarios are: "
        f"{', '.join(SCENARIOS)}\n"
    )


def test_unknown_without_exits_2_and_says_what_can_be_left_out(run: Run) -> None:
    result = run("paper", "scenario", "run", "zombie-timer", "--without", "luck")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(
        "Error: --without: there is no part 'luck' to leave out. It takes sequencers"
    )


def test_user_code_failing_because_of_a_broken_protocol_is_a_violation_and_not_wrong_use(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def tell(_: Protocol) -> Story:
        raise UserCodeError("B", "cat videos", "B@2.2!window 1", 3, "KeyError: '1'")

    broken = dataclasses.replace(SCENARIOS["zombie-timer"], tell=tell)
    monkeypatch.setitem(SCENARIOS, "zombie-timer", broken)
    result = run("paper", "scenario", "run", "zombie-timer", "--without", "sequencers")
    assert result.exit_code == 1
    assert "user code failed 3 times on B@2.2!window 1" in result.stderr


def test_a_run_is_unknown_only_if_nothing_at_all_could_be_judged() -> None:
    assert exit_code_of_run({"S1": Unknown("no record"), "S8": Unknown("no timer")}) is ExitCode.UNKNOWN
    assert exit_code_of_run({"S1": Holds(1), "S8": Unknown("no timer")}) is ExitCode.HOLDS
    assert exit_code_of_run({"S1": Violated("lost", ()), "S8": Holds(1)}) is ExitCode.VIOLATED


def test_a_finding_about_weak_user_code_changes_no_exit_code() -> None:
    assert exit_code_of_run({"S1": Holds(1), "S5-weak": Violated("two values", ())}) is ExitCode.HOLDS


def test_a_scenario_is_explained_and_drawn(run: Run, tmp_path: Path) -> None:
    page, trace = tmp_path / "zombie.html", tmp_path / "zombie.json"
    result = run(
        "paper", "scenario", "run", "zombie-timer", "--without", "sequencers", "--explain", "--html", str(page),
        "--perfetto", str(trace),
    )  # fmt: skip
    assert result.exit_code == 1
    assert "How S6 was violated" in result.stdout
    assert "it still believes that it owns them (sequencer 2)" in words(result.stdout)
    assert SCENARIOS["zombie-timer"].title.replace("'", "&#x27;") in page.read_text()
    assert json.loads(trace.read_text())["otherData"]["title"] == SCENARIOS["zombie-timer"].title


def test_values_of_a_scenarios_picture_are_decoded_by_its_pipelines_codecs(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "fig14.html"
    assert run("paper", "scenario", "run", "dataflow-fig14", "--html", str(page)).exit_code == 0
    assert "state: {'[26.666667s, 86.666667s)': 5}" in page.read_text()


def test_a_sound_scenario_has_nothing_to_explain_in_json_either(run: Run) -> None:
    document = json.loads(run("paper", "scenario", "run", "zombie-timer", "--explain", "--json").stdout)
    assert document["explanation"] is None


def test_a_figure_of_the_dataflow_paper_is_printed_and_drawn(run: Run, tmp_path: Path) -> None:
    page = tmp_path / "fig12.html"
    result = run("paper", "scenario", "run", "dataflow-fig12", "--chart", str(page))
    assert result.exit_code == 0, result.stderr
    assert "12:08:19.7  14 of [12:00:00.0, 12:02:00.0), late, index 1" in result.stdout
    assert "These are the 5 panes of Figure 12" in result.stdout
    assert str(page) in words(result.stdout)
    assert "<title>14 of [12:00:00.0, 12:02:00.0), late, index 1" in page.read_text()


def test_a_chart_of_a_scenario_that_has_none_is_refused_before_it_runs(run: Run, tmp_path: Path) -> None:
    result = run("paper", "scenario", "run", "zombie-timer", "--chart", str(tmp_path / "zombie.svg"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "zombie-timer has no figure of the Dataflow paper; --html draws any run" in words(result.stderr)


def test_a_chart_of_an_unknown_kind_is_refused_before_it_runs(run: Run, tmp_path: Path) -> None:
    result = run("paper", "scenario", "run", "dataflow-fig6", "--chart", str(tmp_path / "six.gif"))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "its name must end with one of .svg, .png, .html" in words(result.stderr)
