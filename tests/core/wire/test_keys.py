"""Key intervals (MillWheel 7.1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import KeyInterval
from headrace.wire.keys import ALL_KEYS, cover_same_keys, split_all_keys

ENDS = ["", "a", "b", "c"]
INTERVALS = [
    KeyInterval(low, high) for low in ENDS for high in [*ENDS[1:], None] if high is None or low < high
]
PROBES = ["", "a", "a\0", "b", "bz", "c", "z", "\U0010ffff"]

keys = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)


@pytest.mark.parametrize(
    ("interval", "key", "expected"),
    [
        (KeyInterval("a", "m"), "a", True),
        (KeyInterval("a", "m"), "lzz", True),
        (KeyInterval("a", "m"), "m", False),
        (KeyInterval("a", "m"), "Z", False),
        (KeyInterval("m"), "\U0010ffff", True),
        (KeyInterval("", "a"), "", True),
        (ALL_KEYS, "", True),
    ],
)
def test_an_interval_has_its_low_end_and_not_its_high_one(
    interval: KeyInterval,
    key: str,
    expected: bool,  # noqa: FBT001  a column of the table
) -> None:
    assert interval.contains(key) is expected


@given(keys, keys)
def test_keys_are_in_the_order_of_their_utf8_bytes(left: str, right: str) -> None:
    assert (left < right) == (left.encode() < right.encode())


@pytest.mark.parametrize("left", INTERVALS, ids=str)
@pytest.mark.parametrize("right", INTERVALS, ids=str)
def test_intervals_overlap_if_some_key_is_in_both(left: KeyInterval, right: KeyInterval) -> None:
    shared = any(left.contains(key) and right.contains(key) for key in PROBES)
    assert left.overlaps(right) is shared


@given(st.lists(keys, max_size=5), keys)
def test_a_division_of_all_keys_has_each_key_once(boundaries: list[str], key: str) -> None:
    intervals = split_all_keys(boundaries)
    assert sum(interval.contains(key) for interval in intervals) == 1
    assert cover_same_keys(intervals, [ALL_KEYS])


@pytest.mark.parametrize(
    ("left", "right", "expected"),
    [
        ([ALL_KEYS], [KeyInterval("m"), KeyInterval("", "m")], True),
        ([KeyInterval("a", "c")], [KeyInterval("a", "b"), KeyInterval("b", "c")], True),
        ([KeyInterval("a", "c")], [KeyInterval("a", "b")], False),
        ([KeyInterval("a", "c")], [KeyInterval("a", "b"), KeyInterval("c", "d")], False),
        ([ALL_KEYS], [KeyInterval("", "m"), KeyInterval("n")], False),
        ([ALL_KEYS], [KeyInterval("", "m"), KeyInterval("l")], False),
        ([ALL_KEYS], [], False),
        ([], [], True),
    ],
    ids=["split", "split inner", "short", "gap", "hole", "overlap", "none", "nothing"],
)
def test_two_sets_of_intervals_cover_the_same_keys_or_not(
    left: list[KeyInterval],
    right: list[KeyInterval],
    expected: bool,  # noqa: FBT001  a column of the table
) -> None:
    assert cover_same_keys(left, right) is expected
    assert cover_same_keys(right, left) is expected
