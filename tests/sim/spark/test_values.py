"""The simulation makes of a value of each type, in each place, what Spark 4.3 makes of it, and refuses what Spark refuses."""

import json
from typing import Any

import pytest

from headrace_sim.spark.job import SparkJobError
from headrace_sim.spark.queries import run_job
from headrace_sim.spark.recording import record
from tests.sim.spark.bad_inputs import Quiet
from tests.sim.spark.value_table import FEED, INPUT, OUTCOMES, QUERIES, told

RECORDED = json.loads(OUTCOMES.read_text())


@pytest.mark.parametrize("name", QUERIES)
def test_values_of_each_type_are_kept_as_recorded_on_spark(name: str) -> None:
    def build(events: Any) -> Any:
        return QUERIES[name](events).writeStream.format("memory").queryName("q").start()

    outcome = run_job(record(build, INPUT), FEED)
    assert outcome.failure is None
    assert told([row for rows in outcome.outputs.values() for row in rows]) == RECORDED[name]


@pytest.mark.parametrize(
    ("key", "told"), [("interval", "Unexpected type"), ("array", "KeyError: 'elementType'")]
)
def test_key_that_spark_cannot_keep_is_refused(key: str, told: str) -> None:
    def build(events: Any) -> Any:
        made = events.groupBy(key).transformWithState(Quiet(), "n INT", "append", "None")
        return made.writeStream.format("memory").queryName("q").start()

    with pytest.raises(SparkJobError, match=told):
        run_job(record(build, INPUT), FEED)
