"""Percentile watermarks (MillWheel 7.2) as a table, and what holds for all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.watermarks.percentile import percentile_watermark

Buckets = list[tuple[int, int]]

TABLE: list[tuple[str, float, int, int, int, Buckets, int]] = [
    # what, per cent, previous, low watermark, frontier, pending, expected
    ("one straggler of ten is stripped away", 90, MIN_TIME, 10, 90, [(10, 1), (40, 9)], 40),
    ("one straggler of nine is too many", 90, MIN_TIME, 10, 90, [(10, 1), (40, 8)], 10),
    ("a whole bucket stays or goes", 80, MIN_TIME, 10, 90, [(10, 1), (20, 2), (40, 7)], 20),
    (
        "the same time in several reports counts together",
        90,
        MIN_TIME,
        10,
        90,
        [(40, 9), (10, 1), (10, 1)],
        10,
    ),
    ("nothing pending: as far as the source promises", 99, MIN_TIME, 10, 90, [], 90),
    ("few pending: none may be stripped away", 99, MIN_TIME, 10, 90, [(10, 1), (20, 98)], 10),
    ("it does not run ahead of the source", 50, MIN_TIME, 10, 30, [(10, 1), (40, 9)], 30),
    ("it does not fall behind the low watermark", 90, MIN_TIME, 50, 90, [(40, 9)], 50),
    ("it does not go back", 90, 70, 10, 90, [(10, 1), (40, 9)], 70),
    ("a source that has ended", 90, MIN_TIME, 10, MAX_TIME, [(10, 1), (40, 9)], 40),
    ("nothing pending after the end", 90, MIN_TIME, MAX_TIME, MAX_TIME, [], MAX_TIME),
    ("100 per cent strips nothing away", 100, MIN_TIME, 10, 90, [(10, 1), (40, 999)], 10),
    ("a tenth of a per cent is exact", 99.9, MIN_TIME, 10, 90, [(10, 1), (40, 999)], 40),
    ("and so is one record less", 99.9, MIN_TIME, 10, 90, [(10, 1), (40, 998)], 10),
]


@pytest.mark.parametrize(
    ("percent", "previous", "low_watermark", "frontier", "pending", "expected"),
    [row[1:] for row in TABLE],
    ids=[row[0] for row in TABLE],
)
def test_percentile_watermark(
    percent: float, previous: int, low_watermark: int, frontier: int, pending: Buckets, expected: int
) -> None:
    assert percentile_watermark(percent, previous, low_watermark, frontier, pending) == expected


@given(
    st.sampled_from([50, 80, 90, 99, 99.9]),
    st.integers(0, 50),
    st.lists(st.tuples(st.integers(0, 100), st.integers(1, 20)), max_size=20),
)
def test_no_more_than_the_rest_is_left_behind_and_no_later_time_would_do(
    percent: float, frontier: int, pending: Buckets
) -> None:
    found = percentile_watermark(percent, MIN_TIME, MIN_TIME, frontier, pending)
    total = sum(count for _, count in pending)

    def left_behind(time_us: int) -> bool:
        before = sum(count for at, count in pending if at < time_us)
        return before * 1_000 <= total * (1_000 - round(percent * 10))

    assert left_behind(found)
    assert found == frontier or not left_behind(found + 1)


@given(st.lists(st.tuples(st.integers(0, 100), st.integers(1, 20)), max_size=20))
def test_a_smaller_percentile_is_never_behind_a_greater_one(pending: Buckets) -> None:
    found = [percentile_watermark(percent, MIN_TIME, 5, 90, pending) for percent in (10, 50, 90, 99, 100)]
    assert found == sorted(found, reverse=True)
