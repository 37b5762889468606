"""All workloads under random plans: no oracle fires, hard cases are reached, and each run is reproducible.

A hundred seeds here, each run twice; the night and ``headrace paper bench harness`` take more.
"""

from pathlib import Path

import msgspec
import pytest

from headrace_benchmarks.harness import NOT_BY_CHANCE
from headrace_benchmarks.sampled_runs import SampleResult, case_of, run_sample, spread_sample
from headrace_properties.checkers import CASES
from headrace_properties.proof.mutants import MUTANTS
from headrace_properties.proof.oracles import fired, try_workload
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.search.plans import Plan

PROBED = 1_000
REPEATED = 100
SEEDS = 10_000


class Regression(msgspec.Struct, frozen=True):
    """A run in which an oracle once fired, made small. ``kept``: which of the input's records it needs."""

    story: str
    workload: str
    feed_seed: int
    kept: tuple[int, ...] | None
    plan: Plan


REGRESSIONS = {
    path.stem: msgspec.json.decode(path.read_bytes(), type=Regression)
    for path in sorted(Path(__file__).with_name("regressions").glob("*.json"))
}


def check(sample: SampleResult, runs: int) -> None:
    assert sample.alarms == []
    assert sample.unlike == []
    assert sample.runs.total() == runs


@pytest.mark.slow
@pytest.mark.nightly
def test_the_first_thousand_reach_every_case_that_chance_can_and_hold() -> None:
    """What is never reached was never tested."""
    sample = run_sample(range(PROBED))
    check(sample, PROBED)
    assert set(sample.runs) == set(WORKLOADS)
    assert {case for case in CASES if not sample.reached[case]} == set(NOT_BY_CHANCE)
    assert sample.idle < PROBED / 10


def test_the_sound_protocol_runs_the_same_again() -> None:
    sample = run_sample(range(REPEATED), again=True)
    check(sample, REPEATED)
    assert sample.again == REPEATED


@pytest.mark.nightly
@pytest.mark.parametrize("begin", range(0, SEEDS, PROBED))
def test_the_sound_protocol_holds_and_runs_the_same_again(begin: int) -> None:
    sample = run_sample(range(begin, begin + PROBED), again=True)
    check(sample, PROBED)
    assert sample.again == PROBED


@pytest.mark.parametrize("regression", REGRESSIONS.values(), ids=REGRESSIONS)
def test_former_failures_hold(regression: Regression) -> None:
    assert regression.story
    workload = WORKLOADS[regression.workload]
    feed = workload.feed(regression.feed_seed)
    feed = feed if regression.kept is None else feed.only(regression.kept)
    assert fired(try_workload(workload, feed, regression.plan)) == ()


def test_a_run_is_a_function_of_its_number_and_the_seed() -> None:
    assert case_of(25).plan == case_of(25).plan
    again = 25 + len(WORKLOADS)  # the workloads take turns
    assert case_of(25).workload is case_of(25, seed=1).workload is case_of(again).workload
    assert len({case_of(25).seed, case_of(25, seed=1).seed, case_of(again).seed}) == 3
    assert case_of(25).digest() == case_of(25).judged().digest


def test_a_report_that_came_twice_and_names_work_long_done_is_no_alarm() -> None:
    """It makes the percentile pass more than its share; see S19."""
    assert fired(case_of(79_030, seed=7).judged()) == ()


def test_a_firing_oracle_and_a_differing_rerun_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """The judged runs are those of a broken protocol, and those that are only compared are sound."""
    protocol = MUTANTS["ack before commit"]
    monkeypatch.setattr(
        "headrace_benchmarks.sampled_runs.try_workload",
        lambda workload, feed, plan: try_workload(workload, feed, plan, protocol),
    )
    sample = run_sample([0], again=True)
    assert [(alarm.workload, alarm.seed, alarm.oracles) for alarm in sample.alarms] == [
        ("tallies", 0, ("S3", "calm"))
    ]
    assert sample.alarms[0].message
    assert sample.unlike == [("tallies", 0)]


def test_the_parts_of_a_sample_are_the_sample() -> None:
    whole, parts = run_sample(range(20, 26)), SampleResult()
    for part in spread_sample(range(20, 26), jobs=1):
        parts.add(part)
    assert (parts.runs, parts.struck, parts.reached) == (whole.runs, whole.struck, whole.reached)
