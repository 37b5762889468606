"""The command that tries every fault at every step: it tells what it tried, goes on behind an alarm, and says so by its end."""

import json

import pytest

from headrace_benchmarks import single_faults
from headrace_benchmarks.search_engines import CHOSEN_BY, MUTANTS
from headrace_benchmarks.single_faults import try_all
from headrace_benchmarks.studies import main
from headrace_properties.proof.mutants import CATALOGUE
from headrace_properties.proof.oracles import try_workload
from headrace_properties.proof.workloads import Workload
from headrace_properties.search.judging import JudgedRun
from headrace_properties.search.plans import Plan
from headrace_sim import Feed


def test_pairs_are_tried_and_counted() -> None:
    found = try_all("tallies", pairs=12)
    assert (found.workload, found.runs, found.alarms) == ("tallies", 12, ())
    assert 0 < found.struck <= 12
    assert found.events > 0
    assert try_all("tallies", pairs=12).events == found.events


def test_an_alarm_is_reported_and_the_other_faults_are_still_tried(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    protocol = CATALOGUE["ack before commit"].protocol()

    def try_broken(workload: Workload, feed: Feed, plan: Plan) -> JudgedRun:
        return try_workload(workload, feed, plan, protocol)

    monkeypatch.setattr(single_faults, "try_workload", try_broken)
    assert main(["pairs", "tallies", "--runs", "8"]) == 1
    tallies, together = map(json.loads, capsys.readouterr().out.splitlines())
    assert (tallies["workload"], tallies["runs"], tallies["alarms"]) == ("tallies", "8", "8")
    assert tallies["told"].count(": S3") == 5, "a few of them are enough"
    assert (together["workload"], together["alarms"]) == ("all", "8")


def test_an_unknown_workload_is_refused() -> None:
    with pytest.raises(SystemExit) as refused:
        main(["pairs", "nowhere"])
    assert refused.value.code == 2


def test_engines_are_compared_on_held_out_mutants() -> None:
    assert set(CHOSEN_BY) <= CATALOGUE.keys()
    assert set(MUTANTS) <= CATALOGUE.keys() - set(CHOSEN_BY)
    assert len(MUTANTS) >= 12
