"""Looking up who owns a key (MillWheel 6.2, 7.1)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import KeyInterval
from headrace.delivery.routing import NOWHERE, OUTSIDE_ADDRESS, Routing, routing_of
from headrace.wire.keys import split_all_keys
from headrace.wire.messages import Assignment, Table


def table_of(*assignments: Assignment) -> Table:
    return Table(1, 0, (), assignments)


COUNTER_LOW = Assignment("counter", KeyInterval("", "m"), 4, "worker-0", 1)
COUNTER_HIGH = Assignment("counter", KeyInterval("m", None), 7, "worker-1", 2)
SORTER = Assignment("sorter", KeyInterval(), 5, "worker-0", 1)
TABLE = table_of(COUNTER_LOW, COUNTER_HIGH, SORTER)


@pytest.mark.parametrize(
    ("computation", "key", "owner", "sequencer"),
    [
        ("counter", "", "worker-0", 4),
        ("counter", "lzzz", "worker-0", 4),
        ("counter", "m", "worker-1", 7),
        ("counter", "\U0010ffff", "worker-1", 7),
        ("sorter", "m", "worker-0", 5),
        ("nobody's", "m", None, 0),
        ("", "any key", OUTSIDE_ADDRESS, 0),
    ],
)
def test_a_key_belongs_to_the_interval_that_begins_at_or_before_it(
    computation: str, key: str, owner: str | None, sequencer: int
) -> None:
    routing = Routing(TABLE)
    assert (routing.owner(computation, key), routing.sequencer(computation, key)) == (owner, sequencer)


def test_before_the_first_table_only_the_outside_has_an_owner() -> None:
    assert (NOWHERE.owner("counter", "a"), NOWHERE.owner("", "a")) == (None, "outside")


def test_a_process_is_assigned_intervals_of_all_its_incarnations() -> None:
    routing = Routing(TABLE)
    assert routing.assigned_to("worker-0") == (COUNTER_LOW, SORTER)
    assert routing.assigned_to("worker-1") == (COUNTER_HIGH,)


@pytest.mark.parametrize(
    "intervals",
    [
        [KeyInterval("a", None)],
        [KeyInterval("", "m")],
        [KeyInterval("", "k"), KeyInterval("m", None)],
        [KeyInterval("", "m"), KeyInterval("k", None)],
        [KeyInterval("m", None), KeyInterval("", "m")],
    ],
    ids=["no beginning", "no end", "gap", "overlap", "unsorted"],
)
def test_a_table_that_does_not_cover_all_keys_once_is_a_bug(intervals: list[KeyInterval]) -> None:
    assignments = (Assignment("counter", interval, 1, "worker-0", 1) for interval in intervals)
    with pytest.raises(AssertionError, match="missing"):
        Routing(table_of(*assignments))


def test_processes_with_the_same_table_share_its_routing_and_others_do_not() -> None:
    tables = [
        table_of(Assignment("counter", KeyInterval(), number, f"worker-{number}", 1)) for number in range(40)
    ]
    assert routing_of(tables[0]) is routing_of(tables[0])
    found = [routing_of(table).owner("counter", "a") for table in tables]
    assert found == [f"worker-{number}" for number in range(40)]
    assert routing_of(tables[0]).owner("counter", "a") == "worker-0"


@given(boundaries=st.lists(st.text(max_size=2), max_size=6), key=st.text(max_size=3))
def test_the_owner_found_is_the_one_whose_interval_contains_the_key(boundaries: list[str], key: str) -> None:
    intervals = split_all_keys(boundaries)
    assignments = [
        Assignment("c", interval, number, f"worker-{number}", 1) for number, interval in enumerate(intervals)
    ]
    (expected,) = [assignment for assignment in assignments if assignment.interval.contains(key)]
    routing = Routing(table_of(*assignments))
    assert (routing.owner("c", key), routing.sequencer("c", key)) == (expected.owner, expected.sequencer)
