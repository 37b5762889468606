"""`headrace paper bench` prints figures beside their goals, in words and as JSON; only a figure about correctness can fail it."""

import dataclasses
import json
from collections.abc import Iterator
from typing import Any

import pytest

from headrace_benchmarks import harness, sampled_runs
from headrace_benchmarks.benchmark_catalogue import BENCHMARKS
from headrace_benchmarks.figures import Benchmark, BenchOptions, Figure, OnProgress, at_least, at_most
from headrace_benchmarks.sampled_runs import SampleResult
from headrace_benchmarks.section8.experiments import EXPERIMENTS
from headrace_benchmarks.section8.paper import BUSIEST
from tests.cli.rig import Run, plain


def benchmark(*figures: Figure) -> Benchmark:
    def measure(options: BenchOptions, on_progress: OnProgress) -> Iterator[Figure]:
        for done, figure in enumerate(figures, 1):
            on_progress("measuring", done, len(figures))
            yield figure

    return Benchmark("some", "something", measure)


KILLS = at_least("kills", 3, 4, "of 4", binding=True, detail="one survived")
SPEED = at_most("seconds", 12.5, 10, "s of CPU time")
ALARMS = at_most("false alarms", 0, 0, "in 1,000 runs", binding=True)


def test_without_a_name_it_lists_the_benchmarks(run: Run) -> None:
    assert "harness the verification harness" in plain(run("paper", "bench").stdout)
    rows = json.loads(run("paper", "bench", "--json").stdout)
    assert [row["name"] for row in rows] == list(BENCHMARKS)


def test_figures_are_printed_beside_their_goals_with_versions_seed_and_machine(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(BENCHMARKS, "some", benchmark(ALARMS, SPEED))
    result = run("paper", "bench", "some", "--seed", "7", "--jobs", "2")
    assert result.exit_code == 0, "a speed never fails"
    text = plain(result.stdout)
    assert "false alarms 0 in 1,000 runs 0 reached" in text
    assert "seconds 12.50 s of CPU time at most 10 not reached" in text
    for word in ("seed 7, 2 processes", "python 3.", "hypothesis ", "cores "):
        assert word in text


def test_a_missed_correctness_goal_is_exit_code_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS, "some", benchmark(ALARMS, KILLS))
    result = run("paper", "bench", "some")
    assert result.exit_code == 1
    assert "kills 3 of 4 at least 4 MISSED" in plain(result.stdout)
    assert "kills: one survived" in plain(result.stdout)
    result = run("paper", "bench", "some", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["result"] == "missed"
    assert [(figure["name"], figure["met"], figure["binding"]) for figure in document["figures"]] == [
        ("false alarms", True, True),
        ("kills", False, True),
    ]
    assert {"versions", "machine", "options", "elapsed_s"} <= document.keys()


def test_a_benchmark_without_its_requirements_says_so(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(BENCHMARKS, "some", dataclasses.replace(benchmark(KILLS), needs="no_such_module"))
    result = run("paper", "bench", "some")
    assert result.exit_code == 0
    assert "not measured: no_such_module is not installed" in plain(result.stdout)


@pytest.mark.parametrize("options", [["no luck"], ["harness", "--runs", "0"], ["harness", "--jobs", "0"]])
def test_wrong_use_is_exit_code_2(run: Run, options: list[str]) -> None:
    assert run("paper", "bench", *options).exit_code == 2


def test_an_unknown_benchmark_lists_the_valid_names(run: Run) -> None:
    assert "there is no benchmark 'luck'. The benchmarks are: harness" in run("paper", "bench", "luck").stderr


@pytest.mark.slow
def test_the_harness_measures_every_figure_of_its_own(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out single faults, all of which `test_enumeration` tries."""
    monkeypatch.setattr(harness, "QUICK", dataclasses.replace(harness.QUICK, enumerated=()))
    result = run("paper", "bench", "harness", "--quick", "--json", "--jobs", "1")
    document = json.loads(result.stdout)
    assert result.exit_code == 0, [figure for figure in document["figures"] if figure["met"] is False]
    names = " ".join(figure["name"] for figure in document["figures"])
    for word in ("activated", "killed", "false alarms", "hashes", "hard cases", "small runs", "2 cores"):
        assert word in names
    assert document["result"] == "reached"


def test_false_alarms_are_counted_by_a_separate_command(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def alarmed() -> int:
        result = run("paper", "bench", "alarms", "--runs", "2", "--jobs", "1", "--json")
        (alarms,) = [
            figure for figure in json.loads(result.stdout)["figures"] if "false alarms" in figure["name"]
        ]
        assert (alarms["value"], alarms["unit"]) == (result.exit_code, "in 2 runs")
        return result.exit_code

    assert alarmed() == 0
    monkeypatch.setattr(sampled_runs, "fired", lambda judged: ("error",) * (judged.strikes == {}))
    assert alarmed() == 1


def test_a_count_of_false_alarms_that_is_ended_early_tells_what_it_has(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(numbers: range, *args: Any, **options: Any) -> Iterator[SampleResult]:
        yield sampled_runs.run_sample(numbers[:2], seed=0)
        raise KeyboardInterrupt

    monkeypatch.setattr(harness, "spread_sample", interrupted)
    result = run("paper", "bench", "alarms", "--runs", "50", "--jobs", "1", "--json")
    (alarms,) = [
        figure for figure in json.loads(result.stdout)["figures"] if "false alarms" in figure["name"]
    ]
    assert (result.exit_code, alarms["value"], alarms["unit"]) == (130, 0, "in 2 runs")
    assert "Stopped by SIGINT: the other figures were not measured." in result.stderr


def test_each_experiment_of_the_report_can_be_measured_by_itself(run: Run) -> None:
    assert set(EXPERIMENTS) < set(BENCHMARKS)
    result = run("paper", "bench", "hot-key", "--quick", "--runs", "1", "--jobs", "1", "--json")
    assert result.exit_code == 0, result.stderr
    figures = {load["name"]: load for load in json.loads(result.stdout)["figures"]}
    sample = EXPERIMENTS["hot-key"].sample("90 %", 0)
    for point, figure, value in sample.values:
        assert figures[f"{point}: {figure}"]["value"] == pytest.approx(value), "it is the report's figure"
    assert figures[f"90 %: {BUSIEST}"]["anchor"] == "90"
