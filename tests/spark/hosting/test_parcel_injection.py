"""The short way of injected records leads where the long one does, whatever the records are."""

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from headrace import MAX_TIME, MIN_TIME, Computation, DeadLetter, MalformedRecordError, Pipeline, Record
from headrace.api.codecs import JsonCodec
from headrace.spark import Input
from headrace.spark.hosting.direct_injection import Lane
from headrace.spark.hosting.layout import JobPlan
from headrace.spark.hosting.parcel_injection import Injection, _values
from headrace.spark.hosting.parcels import Packed
from headrace.spark.jobs.attach import prepared_input

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
    plan = JobPlan(
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
    plan = JobPlan(pipeline(dead_letters=False, keyed=True), intervals=3)
    post = Injection(plan, {"records": KEPT_US}, 4, 2).inject(
        ("records", "records", "own", b'{"key":"x"}', at, None, None, None) for at in (5, 6)
    )
    (parcel,) = post.parcels.values()
    assert parcel.records == [
        ("records", "records/4.2:1", "x", b'{"key":"x"}', 5, 5 + KEPT_US),
        ("records", "records/4.2:2", "x", b'{"key":"x"}', 6, 6 + KEPT_US),
    ]


@pytest.mark.parametrize(
    "values", [["a", "a"], ["a", "b"], ["a", None], [None, None], [], ["a"], ["", ""], ["", None, ""]]
)
def test_a_column_is_read_as_it_is_whether_it_changes_or_not(values: list[str | None]) -> None:
    assert list(_values(pa.array(values, pa.string()))) == values


@pytest.mark.parametrize("kind", ["byte", "short", "int", "long", "string", "double"])
def test_a_column_becomes_the_json_that_spark_would_write(spark: SparkSession, kind: str) -> None:
    """Whole numbers are written without Spark's writer of JSON."""
    other: dict[str, list[Any]] = {"string": ["a", None, "ä"], "double": [1.5, None, -0.25]}
    values = other.get(kind, [0, -7, None])
    frame = spark.createDataFrame([("k", 5, value) for value in values], f"key string, at long, value {kind}")
    given = Input(frame, key="key", timestamp="at", value="value")
    rows = prepared_input(pipeline(dead_letters=False, keyed=False), "records", given).collect()
    assert [JsonCodec().decode(bytes(row["value"])) for row in rows] == values
