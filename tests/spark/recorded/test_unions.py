"""What Spark gives for several streams with watermarks of their own is what is recorded of it.

The simulated Spark is compared with what is recorded, in tests/sim/spark/query/test_unions.py.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from headrace_sim.spark.spark_job import TimeMode
from tests.sim.spark.outcomes import keep_if_asked
from tests.sim.spark.processors import INPUT, told
from tests.sim.spark.unions import CASES, UNITED, United, timed_apart_and_together
from tests.spark.recorded.test_stateful_conformance import ROCKS, offset_log, state_of, write_batches

POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
SAMPLE = "a new driver does not know of the one that is ahead"


def on_spark(spark: SparkSession, case: United, place: Path) -> dict[str, Any]:
    """Run a case on Spark, with one file of each stream for each batch."""
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
    spark.conf.set(POLICY, case.policy.value)
    checkpoint = str(place / "checkpoint")
    for number, side in enumerate(("left", "right")):
        rows = [case.rows(batch)[number] for batch in range(len(case.batches))]
        for file in write_batches(spark, rows, INPUT, place / side):
            file.rename(place / side / "source" / file.name)
    outputs: dict[int, list[Any]] = {}
    late: dict[int, int] = {}
    dying = [case.dies_after]

    def take(batch: DataFrame, number: int) -> None:
        outputs[number] = [tuple(row) for row in batch.collect()]
        if dying == [number]:
            dying.clear()
            raise RuntimeError("the driver dies after the sink's effect")

    def run() -> None:
        left, right = (
            spark.readStream.schema(INPUT)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(place / side / "source"))
            for side in ("left", "right")
        )
        writer = case.build(left, right).writeStream.foreachBatch(take)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        try:
            query.awaitTermination()
        finally:
            for step in query.recentProgress:
                dropped = [part["numRowsDroppedByWatermark"] for part in step["stateOperators"]]
                if step["batchId"] in outputs:
                    late[step["batchId"]] = sum(dropped)

    try:
        run()
        assert case.dies_after is None
    except StreamingQueryException:
        if dying:
            raise
        run()
    state, timers = state_of(spark, checkpoint, TimeMode.EVENT_TIME)
    watermarks = [offset_log(checkpoint, batch)["batchWatermarkMs"] for batch in sorted(outputs)]
    return told(outputs, state, timers) | {"watermarks": watermarks, "late": sum(late.values())}


def test_spark_gives_what_is_recorded_of_it(fresh_session: SparkSession, tmp_path: Path) -> None:
    assert on_spark(fresh_session, CASES[SAMPLE], tmp_path) == json.loads(UNITED.read_text())[SAMPLE]


@pytest.mark.nightly
def test_spark_refuses_a_watermark_on_a_watermark(fresh_session: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(StreamingQueryException, match="Redefining watermark is disallowed"):
        on_spark(fresh_session, United(timed_apart_and_together), tmp_path)


@pytest.mark.nightly
def test_spark_gives_what_is_recorded_of_all(fresh_session: SparkSession, tmp_path: Path) -> None:
    outcomes = {
        name: on_spark(fresh_session, case, tmp_path / str(number))
        for number, (name, case) in enumerate(CASES.items())
    }
    keep_if_asked(UNITED, outcomes)
    assert outcomes == json.loads(UNITED.read_text())
