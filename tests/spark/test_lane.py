"""The short way of injected records leads where the long one does, whatever the records are."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from millrace import MAX_TIME, MIN_TIME, Computation, DeadLetter, MalformedRecordError, Pipeline, Record
from millrace.spark._injecting import Injection
from millrace.spark._lane import Lane
from millrace.spark._parcels import Packed
from millrace.spark._plan import plan_of

KEPT_US = 7


class LongWay(Injection):
    """Takes no short way."""

    def _lane(self, *_: object) -> Lane | None:
        return None


def _of_value(record: Record) -> Any:
    """A key, or none of the right kind, or an error."""
    return record.value["key"]


def pipeline(*, dead_letters: bool, keyed: bool) -> Pipeline:
    made = Pipeline("lanes")
    policy = {"on_malformed": DeadLetter("dead")} if dead_letters else {}
    made.injector("records", outputs=["records"], **policy)  # type: ignore[arg-type]
    inputs = {"records": _of_value} if keyed else ["records"]
    made.add(Computation(), name="one", inputs=inputs)
    return made


KEYS = st.sampled_from(["a", "b", "Ä", "", None, 3])
VALUES = st.sampled_from(
    [b'{"key":"x"}', b'{"key":"\xc3\xa9"}', b'{"key":1}', b"{}", b"not JSON", None, '{"key":"x"}']
)
TIMES = st.sampled_from([0, 5, -5, MIN_TIME, MIN_TIME + 1, MAX_TIME - 1, MAX_TIME, None, 1.5])
ROWS = st.tuples(
    st.just("records"), st.just("records"), KEYS, VALUES, TIMES, st.sampled_from([None, "mine"]),
    st.sampled_from([None, 4]), st.none(),
)  # fmt: skip


def _sent(injection: Injection, row: tuple[Any, ...]) -> dict[str, list[Packed]] | str:
    try:
        return {group: parcel.records for group, parcel in injection.inject([row]).parcels.items()}
    except MalformedRecordError as error:
        return str(error)


@pytest.mark.parametrize("dead_letters", [False, True])
@pytest.mark.parametrize("keyed", [False, True])
@pytest.mark.parametrize("timed", [False, True])
@given(rows=st.lists(ROWS, max_size=8))
def test_both_ways_send_the_same_and_refuse_the_same(
    *, dead_letters: bool, keyed: bool, timed: bool, rows: list[tuple[Any, ...]]
) -> None:
    plan = plan_of(
        pipeline(dead_letters=dead_letters, keyed=keyed),
        intervals=3,
        with_ids=frozenset(),
        timed_by_source=frozenset({"records"}) if timed else frozenset(),
    )
    kept = {} if timed else {"records": KEPT_US}
    short, long = Injection(plan, kept, 4, 2), LongWay(plan, kept, 4, 2)
    for row in rows:
        assert _sent(short, row) == _sent(long, row)


def test_records_that_are_as_they_should_be_go_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    def long_way(*_: object) -> None:
        pytest.fail("it took the long way")

    monkeypatch.setattr(Injection, "_send", long_way)
    plan = plan_of(pipeline(dead_letters=False, keyed=True), intervals=3, with_ids=frozenset())
    post = Injection(plan, {"records": KEPT_US}, 4, 2).inject(
        ("records", "records", "own", b'{"key":"x"}', at, None, None, None) for at in (5, 6)
    )
    (parcel,) = post.parcels.values()
    assert parcel.records == [
        ("records", "records/4.2:1", "x", b'{"key":"x"}', 5, 5 + KEPT_US),
        ("records", "records/4.2:2", "x", b'{"key":"x"}', 6, 6 + KEPT_US),
    ]
