"""A Python function in a frame is called anew for each action on it: two writes of one batch may differ without any failure."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from pyspark.sql import functions as F

from headrace_properties.sinks import SinkReport, check_sink
from headrace_properties.sinks.story import SinkTopic
from headrace_sim.spark.columns.ddl import parse_schema
from tests.sim.spark.apart import call


def _drawn(_: str) -> str:
    return str(uuid.uuid4())


def _of_the_row(item: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_OID, item))


def _written(df: Any, batch_id: int, ids: str, items: str) -> None:
    df.select("id").write.mode("overwrite").parquet(f"{ids}/{batch_id}")
    df.select("id", "item").write.mode("overwrite").parquet(f"{items}/{batch_id}")


def evaluated_twice(df: Any, batch_id: int) -> None:
    _written(df.withColumn("id", F.udf(_drawn)("item")), batch_id, "ids", "items")


def _numbered(frames: Iterator[Any]) -> Iterator[Any]:
    for frame in frames:
        yield frame.assign(id=[str(uuid.uuid4()) for _ in range(len(frame))])


def mapped_twice(df: Any, batch_id: int) -> None:
    _written(df.mapInPandas(_numbered, "item STRING, id STRING"), batch_id, "ids", "items")


def evaluated_once(df: Any, batch_id: int) -> None:
    _written(df.withColumn("id", F.udf(_drawn)("item")).cache(), batch_id, "ids", "items")


def made_of_the_row(df: Any, batch_id: int) -> None:
    _written(df.withColumn("id", F.udf(_of_the_row)("item")), batch_id, "ids", "items")


def counted_first(df: Any, batch_id: int) -> None:
    """What the first action drew is not left anywhere."""
    drawn = df.withColumn("id", F.udf(_drawn)("item"))
    if drawn.count():
        drawn.write.mode("overwrite").parquet(f"items/{batch_id}")


def _checked(sink: Callable[[Any, int], None], allow: Sequence[str] = ()) -> SinkReport:
    return call(check_sink, sink, [[("a",), ("b",)]], parse_schema("item STRING"), allow=allow)


def test_results_of_two_actions_that_are_both_left_are_asked_about() -> None:
    (asked,) = _checked(evaluated_twice).questions
    assert (asked.about, "calls _drawn() again" in asked.message) == (SinkTopic.EVALUATED, True)
    assert _checked(evaluated_twice, ["evaluated"]).questions == ()


def test_rows_that_two_actions_make_are_asked_about() -> None:
    assert [asked.about for asked in _checked(mapped_twice).questions] == [SinkTopic.EVALUATED]


@pytest.mark.parametrize("sink", [evaluated_once, made_of_the_row, counted_first])
def test_results_of_one_action_or_of_the_row_are_not(sink: Callable[[Any, int], None]) -> None:
    assert _checked(sink).questions == ()
