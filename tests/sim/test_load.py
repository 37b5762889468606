"""Intervals are split, moved and merged by load, and nothing is lost on the way (MillWheel 7.1)."""

from itertools import pairwise

import msgspec
import pytest

from headrace import MILLISECOND, SECOND, KeyInterval
from headrace import history as h
from headrace_sim import ClusterOptions, Constant, Feed
from headrace_sim import faults as f
from tests.sim.rig import Run, assert_as_reference, assert_sound, calm_owner, letters, mail, run, with_engine

BUSY_MS = 1
"""A letter a millisecond: 250 a heartbeat at each stage."""


def busy(options: ClusterOptions, *faults: f.AnyFault, whole: bool = False, count: int = 900) -> Run:
    pipeline = mail(split_at=[]) if whole else mail()
    feed: Feed = letters(pipeline, count, every_us=BUSY_MS * MILLISECOND)
    done = run(pipeline, feed, *faults, options=options)
    assert_sound(done)
    assert_as_reference(done)
    return done


def changes(done: Run, computation: str) -> list[h.IntervalMinted]:
    """The intervals minted after the first ones."""
    return [
        event
        for event in done.all(h.IntervalMinted)
        if event.computation == computation and event.at_us > SECOND
    ]


def intervals(done: Run, computation: str) -> list[str]:
    """Where its intervals begin, in the end."""
    return [
        assignment.interval.low
        for assignment in done.cluster.table.assignments
        if assignment.computation == computation
    ]


def test_by_default_a_small_load_changes_nothing() -> None:
    done = busy(with_engine())
    assert changes(done, "sorter") == changes(done, "counter") == []


def test_a_hot_interval_is_split() -> None:
    done = busy(with_engine(split_load=100, balance_period_us=200 * MILLISECOND), whole=True)
    for computation in ("sorter", "counter"):
        first = changes(done, computation)[:2]
        assert first[0].interval.high == first[1].interval.low > ""
        assert len(intervals(done, computation)) > 1
    assert len({event.owner for event in changes(done, "counter")}) > 1, "the load is shared"


def test_an_overloaded_worker_hands_over_an_interval() -> None:
    """One worker has an interval of both stages, together more than any interval that would be worth a split."""
    both = calm_owner("counter", "riva")
    assert both == calm_owner("sorter", "anna")
    done = busy(with_engine(split_load=210, overload=1.05, balance_period_us=200 * MILLISECOND))
    moved = [event for name in ("sorter", "counter") for event in changes(done, name)]
    assert moved
    assert all(event.owner != both for event in moved[:1])
    assert {name: len(intervals(done, name)) for name in ("sorter", "counter")} == {"sorter": 2, "counter": 2}


def test_a_worker_that_is_short_of_memory_hands_over_an_interval() -> None:
    done = busy(with_engine(memory_limit_bytes=12_000, balance_period_us=200 * MILLISECOND))
    moved = [event for name in ("sorter", "counter") for event in changes(done, name)]
    assert moved
    assert moved[0].owner != calm_owner("counter", "riva"), "which has an interval of both stages"


EXPENSIVE = Constant(4 * MILLISECOND)
"""So much of a CPU for a record: at 25 records a heartbeat, 100 of its 250 ms. By records it is nothing."""


def slow(options: ClusterOptions, *computations: str, whole: bool = False) -> Run:
    """A letter every ten milliseconds."""
    pipeline = mail(split_at=[]) if whole else mail()
    expensive = msgspec.structs.replace(options, user_code_cpu_of=dict.fromkeys(computations, EXPENSIVE))
    done = run(pipeline, letters(pipeline, 200, every_us=10 * MILLISECOND), options=expensive)
    assert_sound(done)
    assert_as_reference(done)
    return done


def test_a_computation_whose_few_records_take_much_cpu_time_is_split() -> None:
    options = with_engine(split_cpu_us=50 * MILLISECOND, balance_period_us=200 * MILLISECOND)
    done = slow(options, "counter", whole=True)
    first = changes(done, "counter")[:2]
    assert first[0].interval.high == first[1].interval.low > ""
    assert first[0].owner != first[1].owner, "the load is shared"
    assert changes(done, "sorter") == []
    assert changes(slow(options, whole=True), "counter") == [], "it is the CPU time"


def test_a_worker_with_a_busy_cpu_hands_over_an_interval() -> None:
    """One worker has an interval of both stages, together more CPU time than any interval that would be worth a split."""
    both = calm_owner("counter", "riva")
    assert both == calm_owner("sorter", "anna")
    options = with_engine(split_cpu_us=100 * MILLISECOND, overload=1.05, balance_period_us=200 * MILLISECOND)
    done = slow(options, "sorter", "counter")
    moved = [event for name in ("sorter", "counter") for event in changes(done, name)]
    assert moved
    assert moved[0].owner != both
    assert moved[0].interval in (KeyInterval("", "m"), KeyInterval("m")), "it is no split"


def test_idle_neighbours_are_merged() -> None:
    done = busy(with_engine(merge_load=50, balance_period_us=200 * MILLISECOND), count=300)
    assert intervals(done, "sorter") == intervals(done, "counter") == [""]


def test_a_key_space_that_was_hot_is_split_and_then_merged_again() -> None:
    options = with_engine(split_load=100, merge_load=20, balance_period_us=200 * MILLISECOND)
    done = busy(options, whole=True)
    lows = {event.interval.low for event in changes(done, "counter")}
    assert len(lows) > 1
    assert intervals(done, "counter") == [""]


def test_a_balanced_cluster_settles() -> None:
    """An even load, but for some per cent between two heartbeats: after a second nothing is moved to and fro."""
    done = busy(with_engine(split_load=150, overload=1.1, balance_period_us=100 * MILLISECOND), count=2_200)
    late = [
        event
        for event in done.all(h.IntervalMinted)
        if 2_300 * MILLISECOND < event.at_us < 3_200 * MILLISECOND
    ]
    assert late == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("crashed", ["worker-0", "worker-1", "worker-2", "master-0"])
def test_nothing_is_lost_while_everything_is_split_and_merged_under_crashes(crashed: str, seed: int) -> None:
    pipeline = mail(split_at=[])
    feed = letters(pipeline, 600, every_us=4 * MILLISECOND)
    restless = with_engine(
        split_load=20, merge_load=15, overload=1.01, balance_period_us=50 * MILLISECOND, memory_limit_bytes=3_000,
        heartbeat_period_us=100 * MILLISECOND, scan_page_rows=1,
    )  # fmt: skip
    done = run(
        pipeline,
        feed,
        f.Crash(at_us=1_500 * MILLISECOND, process=crashed, restart_after_us=700 * MILLISECOND),
        f.Noise(
            at_us=2 * SECOND, for_us=SECOND, drop=0.1, duplicate=0.1, delay=0.3, delay_us=300 * MILLISECOND
        ),
        options=msgspec.structs.replace(restless, check_invariants=False),
        seed=seed,
    )
    assert_sound(done)
    assert_as_reference(done)
    versions = [event.at_us for event in done.all(h.IntervalMinted) if event.at_us > SECOND]
    assert len(set(versions)) >= 3
    assert all(one <= two for one, two in pairwise(versions))
