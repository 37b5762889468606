"""Balancing (MillWheel 7.1): pure functions, so each case is a table and the changes that it requires."""

from dataclasses import replace
from typing import TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.api.computation import Computation
from headrace.api.options import EngineOptions
from headrace.api.pipeline import Pipeline
from headrace.ownership.balance import (
    BalanceView,
    Candidate,
    Unowned,
    assign,
    first_intervals,
    merge_intervals,
    move_interval,
    rebalance,
    split_interval,
)
from headrace.wire.keys import ALL_KEYS, KeyInterval, cover_same_keys
from headrace.wire.messages import (
    Assignment,
    IntervalLoad,
    MergeIntervals,
    MintChange,
    MoveInterval,
    SplitInterval,
    Table,
)
from tests.core.driver import LEFT, RIGHT

OPTIONS = EngineOptions(
    split_load=100, split_cpu_us=50_000, merge_load=10, overload=1.5, memory_limit_bytes=1_000
)

Row: TypeAlias = tuple[str, KeyInterval, str, int, int]
"""Computation, interval, owner, records, bytes; ``records`` -1: not listed."""


def cluster(*rows: Row, workers: tuple[str, ...] = ("w0", "w1", "w2"), split_key: str = "") -> BalanceView:
    """Sequencers count from 1 in the order of the rows; every worker is in its first incarnation."""
    assignments = tuple(
        Assignment(name, interval, at, owner, 1) for at, (name, interval, owner, *_) in enumerate(rows, 1)
    )
    loads = {
        at: IntervalLoad(name, at, records, size, split_key, 0)
        for at, (name, _, _, records, size) in enumerate(rows, 1)
        if records >= 0
    }
    return BalanceView(Table(1, 0, (), assignments), [Candidate(worker, 1) for worker in workers], loads)


def change(interval: KeyInterval, owner: str, name: str = "a") -> MintChange:
    return MintChange(name, interval, owner, 1)


# Finding owners


def test_the_first_intervals_are_split_where_the_user_said_and_assigned_in_turn() -> None:
    pipeline = Pipeline("p")
    pipeline.injector("source")
    pipeline.add(Computation(), name="a", inputs=["source"], outputs=["x"], split_at=["g", "m"])
    pipeline.add(Computation(), name="b", inputs=["x"])
    empty = cluster(workers=("w0", "w1", "w2"))
    assert assign(first_intervals(pipeline, empty.table), empty) == [
        change(KeyInterval("", "g"), "w0"),
        change(KeyInterval("g", "m"), "w1"),
        change(KeyInterval("m"), "w2"),
        change(ALL_KEYS, "w0", "b"),
    ]


def test_computations_that_have_intervals_are_not_divided_again() -> None:
    pipeline = Pipeline("p")
    pipeline.injector("source")
    pipeline.add(Computation(), name="a", inputs=["source"], split_at=["g"])
    assert first_intervals(pipeline, cluster(("a", ALL_KEYS, "w0", 0, 0)).table) == []


def test_an_interval_goes_to_the_live_worker_that_has_the_fewest() -> None:
    now = cluster(("a", LEFT, "w0", 0, 0), ("a", RIGHT, "gone", 0, 0), ("b", ALL_KEYS, "w1", 0, 0))
    assert assign([Unowned("a", RIGHT), Unowned("c", ALL_KEYS)], now) == [
        change(RIGHT, "w2"),
        change(ALL_KEYS, "w0", "c"),
    ]


def test_what_a_former_incarnation_owned_does_not_count_for_its_successor() -> None:
    now = cluster(("a", LEFT, "w0", 0, 0), ("a", RIGHT, "w1", 0, 0))
    now = replace(now, workers=[Candidate("w0", 2), Candidate("w1", 1)])
    assert assign([Unowned("a", LEFT)], now) == [MintChange("a", LEFT, "w0", 2)]


def test_nothing_is_assigned_without_live_workers() -> None:
    assert assign([Unowned("a", LEFT)], cluster(workers=())) == []


# The operator's verbs

HALVES = cluster(("a", LEFT, "w0", 5, 0), ("a", RIGHT, "w1", 1, 0), ("b", ALL_KEYS, "w1", 1, 0))


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        (MoveInterval("a", "c", "w2"), [change(LEFT, "w2")]),
        (MoveInterval("a", "m", "w0"), [change(RIGHT, "w0")]),
        (MoveInterval("a", "c"), [change(LEFT, "w2")]),
        (MoveInterval("a", "z"), [change(RIGHT, "w2")]),
        (MoveInterval("a", "c", "w0"), []),
        (MoveInterval("a", "c", "stranger"), []),
        (MoveInterval("stranger", "c"), []),
    ],
)
def test_move(verb: MoveInterval, expected: list[MintChange]) -> None:
    assert move_interval(verb, HALVES, OPTIONS) == expected


def test_among_equally_loaded_workers_an_interval_moves_to_the_one_with_fewest() -> None:
    now = cluster(("a", LEFT, "w0", 5, 0), ("a", RIGHT, "w1", 0, 0))
    assert move_interval(MoveInterval("a", ""), now, OPTIONS) == [change(LEFT, "w2")]


def test_no_interval_moves_without_another_worker() -> None:
    alone = cluster(("a", ALL_KEYS, "w0", 0, 0), workers=("w0",))
    assert move_interval(MoveInterval("a", ""), alone, OPTIONS) == []


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        (SplitInterval("a", "g"), [change(KeyInterval("", "g"), "w0"), change(KeyInterval("g", "m"), "w0")]),
        (SplitInterval("a", "z"), [change(KeyInterval("m", "z"), "w1"), change(KeyInterval("z"), "w1")]),
        (SplitInterval("a", "m"), []),
        (SplitInterval("a", ""), []),
        (SplitInterval("stranger", "g"), []),
    ],
)
def test_split(verb: SplitInterval, expected: list[MintChange]) -> None:
    assert split_interval(verb, HALVES) == expected


@pytest.mark.parametrize(
    ("verb", "expected"),
    [
        (MergeIntervals("a", "c"), [change(ALL_KEYS, "w0")]),
        (MergeIntervals("a", "m"), []),
        (MergeIntervals("b", ""), []),
        (MergeIntervals("stranger", ""), []),
    ],
)
def test_merge(verb: MergeIntervals, expected: list[MintChange]) -> None:
    assert merge_intervals(verb, HALVES) == expected


# By load


def test_a_hot_interval_is_split_and_its_upper_part_goes_to_the_least_loaded() -> None:
    now = cluster(("a", LEFT, "w0", 101, 0), ("a", RIGHT, "w1", 50, 0), split_key="g")
    assert rebalance(now, OPTIONS) == [
        change(KeyInterval("", "g"), "w0"),
        change(KeyInterval("g", "m"), "w2"),
    ]


def test_an_interval_at_the_limit_is_not_split() -> None:
    now = cluster(("a", LEFT, "w0", 100, 0), ("a", RIGHT, "w1", 50, 0), split_key="g")
    assert rebalance(now, OPTIONS) == []


@pytest.mark.parametrize("split_key", ["", "m", "z"])
def test_a_hot_interval_without_a_key_inside_is_not_split(split_key: str) -> None:
    now = cluster(("a", LEFT, "w0", 101, 0), ("b", ALL_KEYS, "w1", 101, 0), ("c", ALL_KEYS, "w2", 101, 0))
    now = replace(now, loads={1: replace_split(now.loads[1], split_key), 2: now.loads[2], 3: now.loads[3]})
    assert rebalance(now, OPTIONS) == []


def replace_split(load: IntervalLoad, split_key: str) -> IntervalLoad:
    return IntervalLoad(load.computation, load.sequencer, load.records, load.bytes, split_key, load.pending)


def test_upper_parts_of_several_hot_intervals_are_spread() -> None:
    rows: list[Row] = [("a", LEFT, "w0", 200, 0), ("b", LEFT, "w0", 200, 0)]
    now = cluster(*rows, ("a", RIGHT, "w1", 0, 0), split_key="g")
    uppers = [change.owner for change in rebalance(now, OPTIONS)[1::2]]
    assert uppers == ["w2", "w1"]


def test_an_overloaded_worker_hands_over_its_hottest_interval_that_helps() -> None:
    now = cluster(
        ("a", LEFT, "w0", 90, 0),
        ("a", RIGHT, "w0", 80, 0),
        ("b", ALL_KEYS, "w1", 20, 0),
        ("c", ALL_KEYS, "w2", 20, 0),
    )
    assert rebalance(now, OPTIONS) == [change(LEFT, "w1")]


def test_a_worker_with_one_interval_cannot_get_rid_of_its_load_by_a_move() -> None:
    now = cluster(("a", ALL_KEYS, "w0", 300, 0), ("b", ALL_KEYS, "w1", 11, 0), ("c", ALL_KEYS, "w2", 0, 0))
    assert rebalance(now, OPTIONS) == []


def test_a_worker_that_runs_less_than_one_interval_may_is_not_overloaded() -> None:
    now = cluster(("a", LEFT, "w0", 40, 0), ("a", RIGHT, "w0", 40, 0), ("b", ALL_KEYS, "w1", 0, 0))
    assert rebalance(now, OPTIONS) == []


def test_a_worker_short_of_memory_hands_over_its_largest_interval() -> None:
    now = cluster(("a", LEFT, "w0", 9, 400), ("a", RIGHT, "w0", 9, 601), ("b", ALL_KEYS, "w1", 9, 300))
    assert rebalance(now, OPTIONS) == [change(RIGHT, "w2")]


def test_a_worker_at_its_memory_limit_keeps_what_it_has() -> None:
    now = cluster(("a", LEFT, "w0", 9, 400), ("a", RIGHT, "w0", 9, 600), ("b", ALL_KEYS, "w1", 9, 300))
    assert rebalance(now, OPTIONS) == []


def test_load_is_not_moved_to_where_memory_would_be_short() -> None:
    now = cluster(
        ("a", LEFT, "w0", 90, 400),
        ("a", RIGHT, "w0", 80, 100),
        ("b", ALL_KEYS, "w1", 0, 700),
        ("c", ALL_KEYS, "w2", 5, 500),
    )
    assert rebalance(now, OPTIONS) == [change(LEFT, "w2")]


def test_an_interval_that_fits_no_workers_memory_stays() -> None:
    now = cluster(
        ("a", LEFT, "w0", 9, 1_001),
        ("a", RIGHT, "w0", 9, 900),
        ("b", ALL_KEYS, "w1", 9, 101),
        ("c", ALL_KEYS, "w2", 9, 101),
    )
    assert rebalance(now, OPTIONS) == []


def test_idle_neighbours_are_merged() -> None:
    thirds = [KeyInterval("", "g"), KeyInterval("g", "m"), KeyInterval("m", "t"), KeyInterval("t")]
    rows: list[Row] = [("a", interval, f"w{at % 3}", 4, 0) for at, interval in enumerate(thirds)]
    now = cluster(*rows, ("b", ALL_KEYS, "w0", 0, 0))
    assert rebalance(now, OPTIONS) == [change(LEFT, "w0"), change(RIGHT, "w2")]


def test_neighbours_that_are_busy_together_are_not_merged() -> None:
    assert rebalance(cluster(("a", LEFT, "w0", 5, 0), ("a", RIGHT, "w1", 5, 0)), OPTIONS) == []


def test_intervals_of_different_computations_are_not_merged() -> None:
    assert rebalance(cluster(("a", ALL_KEYS, "w0", 0, 0), ("b", ALL_KEYS, "w1", 0, 0)), OPTIONS) == []


def test_nothing_is_merged_by_default() -> None:
    assert rebalance(cluster(("a", LEFT, "w0", 0, 0), ("a", RIGHT, "w1", 0, 0)), EngineOptions()) == []


@pytest.mark.parametrize(
    "rows",
    [
        (("a", LEFT, "w0", 90, 0), ("a", RIGHT, "w0", 80, 0), ("b", ALL_KEYS, "w1", -1, 0)),
        (("a", LEFT, "w0", 0, 0), ("a", RIGHT, "w0", 0, 0), ("b", ALL_KEYS, "w1", -1, 0)),
    ],
)
def test_moves_and_merges_wait_until_every_interval_is_listed(rows: tuple[Row, ...]) -> None:
    assert rebalance(cluster(*rows), OPTIONS) == []


def test_a_hot_interval_is_split_while_others_are_scanned() -> None:
    now = cluster(("a", LEFT, "w0", 101, 0), ("a", RIGHT, "w1", -1, 0), split_key="g")
    assert len(rebalance(now, OPTIONS)) == 2


def test_nothing_is_balanced_without_live_workers() -> None:
    assert rebalance(cluster(("a", ALL_KEYS, "w0", 999, 0), workers=(), split_key="g"), OPTIONS) == []


# By CPU time: 50 ms are worth 100 records


def burning(now: BalanceView, *cpu_us: int) -> BalanceView:
    """The same, with this CPU time for each interval's user code."""
    loads = {
        sequencer: IntervalLoad(old.computation, sequencer, old.records, old.bytes, old.split_key, 0, used)
        for (sequencer, old), used in zip(now.loads.items(), cpu_us, strict=True)
    }
    return replace(now, loads=loads)


def test_an_interval_of_few_records_that_take_long_is_split() -> None:
    now = cluster(("a", LEFT, "w0", 3, 0), ("a", RIGHT, "w1", 50, 0), split_key="g")
    assert rebalance(burning(now, 50_000, 1_000), OPTIONS) == []
    assert rebalance(burning(now, 50_500, 1_000), OPTIONS) == [
        change(KeyInterval("", "g"), "w0"),
        change(KeyInterval("g", "m"), "w2"),
    ]


def test_an_interval_of_many_records_is_split_however_little_they_take() -> None:
    now = cluster(("a", LEFT, "w0", 101, 0), ("a", RIGHT, "w1", 50, 0), split_key="g")
    assert len(rebalance(burning(now, 10, 10), OPTIONS)) == 2


def test_a_worker_with_a_busy_cpu_hands_over_the_busiest_interval() -> None:
    """By records the second interval is the heavier one."""
    now = cluster(
        ("a", LEFT, "w0", 2, 0), ("a", RIGHT, "w0", 30, 0), ("b", ALL_KEYS, "w1", 60, 0), ("c", ALL_KEYS, "w2", 5, 0)
    )  # fmt: skip
    assert rebalance(now, OPTIONS) == []
    assert rebalance(burning(now, 45_000, 10_000, 1_000, 1_000), OPTIONS) == [change(LEFT, "w2")]


def test_what_an_operator_moves_goes_to_the_worker_whose_cpu_is_least_busy() -> None:
    now = burning(HALVES, 0, 20_000, 0)
    assert move_interval(MoveInterval("a", "c"), now, OPTIONS) == [change(LEFT, "w2")]
    two = replace(now, workers=now.workers[:2])
    assert move_interval(MoveInterval("a", "z"), two, OPTIONS) == [change(RIGHT, "w0")]


def test_neighbours_that_keep_a_cpu_busy_are_not_merged() -> None:
    now = cluster(("a", LEFT, "w0", 1, 0), ("a", RIGHT, "w1", 1, 0))
    assert rebalance(burning(now, 2_500, 2_500), OPTIONS) == []
    assert rebalance(burning(now, 2_000, 2_000), OPTIONS) == [change(ALL_KEYS, "w0")]


LOADS = st.lists(
    st.tuples(st.integers(0, 2), st.integers(0, 150), st.integers(0, 800)), min_size=1, max_size=8
)


@given(LOADS)
@example([(0, 1, 488), (0, 1, 513), (0, 2, 257), (0, 100, 256)])  # memory drove one away, load drove it back
def test_balancing_never_changes_which_keys_are_owned_and_settles(
    loads: list[tuple[int, int, int]],
) -> None:
    # Under a load that stays as it is (parts of an interval share it evenly), the changes end.
    boundaries = "bcdefgh"[: len(loads) - 1]
    lows, highs = ["", *boundaries], [*boundaries, None]
    rows: list[Row] = [
        ("a", KeyInterval(low, high), f"w{owner}", records, size)
        for low, high, (owner, records, size) in zip(lows, highs, loads, strict=True)
    ]
    options = replace(OPTIONS, merge_load=0)
    for _ in range(20):
        now = cluster(*rows)
        changes = rebalance(now, options)
        if not changes:
            return
        old = [row for row in rows if any(row[1].overlaps(change.interval) for change in changes)]
        assert cover_same_keys([change.interval for change in changes], [row[1] for row in old])
        (moved,) = changes
        rows = [(*row[:2], moved.owner, *row[3:]) if row[1] == moved.interval else row for row in rows]
    pytest.fail("intervals go to and fro")
