"""The simulation makes of a value of each type, in each place, what Spark 4.3 makes of it, and refuses what Spark refuses."""

import json
from typing import Any

import pytest
from pyspark.sql import types as t

from headrace_sim.spark.client.recording import record
from headrace_sim.spark.columns.values import Altered, altered_told, note_altered
from headrace_sim.spark.pyspark_versions import VERSION
from headrace_sim.spark.query.streaming_query import run_job
from headrace_sim.spark.spark_job import SparkJobError
from tests.sim.spark.bad_inputs import Quiet
from tests.sim.spark.value_table import FEED, INPUT, OUTCOMES, QUERIES, told

RECORDED = json.loads(OUTCOMES.read_text())
EARLIER = {
    "dtype timestamp": ((4, 0), "str 'datetime64[us]'"),
    "input array": ((4, 2), "ndarray array([ 1., nan])"),
    "output binary": ((4, 1), r"bytearray bytearray(b'\x00\xff')"),
}
"""What functions on pandas frames are given otherwise before a release."""


@pytest.mark.parametrize("name", QUERIES)
def test_values_of_each_type_are_kept_as_recorded_on_spark(name: str) -> None:
    def build(events: Any) -> Any:
        return QUERIES[name](events).writeStream.format("memory").queryName("q").start()

    outcome = run_job(record(build, INPUT), FEED)
    assert outcome.failure is None
    earlier = {place: text for place, (before, text) in EARLIER.items() if before > VERSION}
    assert told([row for rows in outcome.outputs.values() for row in rows]) == RECORDED[name] | earlier


@pytest.mark.parametrize(
    ("key", "told"), [("interval", "Unexpected type"), ("array", "KeyError: 'elementType'")]
)
def test_key_that_spark_cannot_keep_is_refused(key: str, told: str) -> None:
    def build(events: Any) -> Any:
        made = events.groupBy(key).transformWithState(Quiet(), "n INT", "append", "None")
        return made.writeStream.format("memory").queryName("q").start()

    with pytest.raises(SparkJobError, match=told):
        run_job(record(build, INPUT), FEED)


def test_a_value_that_is_not_kept_as_given_is_told_to_the_innermost_who_asked() -> None:
    schema = t.StructType([t.StructField("n", t.ByteType())])
    outer: list[Altered] = []
    inner: list[Altered] = []
    note_altered("count", schema, (300,), (44,), "job.py:1")
    with altered_told(outer.append):
        note_altered("count", schema, (300,), (44,), "job.py:2")
        with altered_told(inner.append):
            note_altered("count", schema, (301,), (45,), "job.py:3")
        note_altered("count", schema, (44,), (44,), "job.py:4")
        note_altered("count", schema, (302,), (46,), "job.py:5")
    assert [altered.place for altered in outer] == ["job.py:2", "job.py:5"]
    assert [altered.place for altered in inner] == ["job.py:3"]
