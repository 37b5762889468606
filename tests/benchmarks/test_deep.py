"""Deep pipelines on failing machines, in small (6.1.3)."""

import dataclasses

import pytest

from headrace_benchmarks.section8.deep import Depth, chance_to_meet_a_failure, closed_form, failures, run_deep
from headrace_benchmarks.section8.section_6_1_3 import WAYS

NO_CHECKPOINTS, CHECKPOINTS, STRONG = WAYS
SMALL = Depth(5, CHECKPOINTS, workers=10, minutes=2, records_a_second=50)
STRUCK = next(seed for seed in range(100) if len(failures(SMALL, seed).faults) == 2)


def test_machines_fail_as_often_as_the_paper_assumes_and_in_the_same_way_for_each_way() -> None:
    drawn = [failures(SMALL, seed) for seed in range(2_000)]
    chance = sum(len(schedule.faults) for schedule in drawn) / (2_000 * SMALL.workers * SMALL.minutes)
    assert chance == pytest.approx(0.01, rel=0.1)
    assert failures(dataclasses.replace(SMALL, way=STRONG), 7) == drawn[7]


def test_without_failures_no_record_is_affected() -> None:
    calm = next(seed for seed in range(100) if not failures(SMALL, seed).faults)
    found = run_deep(SMALL, calm)
    assert found.costs.checkpointed == 0
    assert max(found.costs.latencies_us) < 1_000_000


@pytest.mark.slow
@pytest.mark.nightly
def test_the_chance_of_a_failure_is_close_to_the_closed_form() -> None:
    """A dozen machines fail in a run, here in two runs."""
    chance = sum(chance_to_meet_a_failure(5, seed) for seed in range(2)) / 2
    assert 0.02 < chance < 0.09


def test_only_checkpoints_of_stragglers_free_the_senders_before_them() -> None:
    without, with_, strong = (run_deep(dataclasses.replace(SMALL, way=way), STRUCK) for way in WAYS)
    assert without.costs.checkpointed == 0 < with_.costs.checkpointed
    assert strong.retained_bytes < with_.retained_bytes < without.retained_bytes
    assert len(without.costs.latencies_us) == len(with_.costs.latencies_us) == len(strong.costs.latencies_us)


def test_the_closed_form_is_the_papers_nearly_5_percent() -> None:
    assert closed_form(1) == pytest.approx(0.01)
    assert closed_form(5) == pytest.approx(0.049, abs=0.0005)
