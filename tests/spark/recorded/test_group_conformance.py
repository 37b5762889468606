"""What Spark gives for ``applyInPandasWithState`` is what is recorded of it."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.sim.spark.group_functions import CASES, FEED, INPUT, OUTCOMES, grouped
from tests.sim.spark.outcomes import keep_if_asked
from tests.spark.recorded.test_stateful_conformance import write_batches


def on_spark(spark: SparkSession, name: str, place: Path) -> dict[str, Any]:
    """Run a case on Spark, one file for each batch, as a backlog."""
    source, checkpoint = place / "source", str(place / "checkpoint")
    for file in write_batches(spark, FEED, INPUT, place):
        file.rename(source / file.name)
    outputs: dict[str, list[Any]] = {}

    def take(batch: DataFrame, number: int) -> None:
        outputs[str(number)] = sorted(list(row) for row in batch.collect())

    events = spark.readStream.schema(INPUT).option("maxFilesPerTrigger", 1).parquet(str(source))
    writer = grouped(events, name).writeStream.foreachBatch(take).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [step for step in query.recentProgress if str(step["batchId"]) in outputs]
    late = sum(part["numRowsDroppedByWatermark"] for step in progress for part in step["stateOperators"])
    state = sorted(str(row) for row in spark.read.format("statestore").load(checkpoint).collect())
    return {"outputs": outputs, "state": state, "late": late}


@pytest.mark.nightly
def test_spark_gives_what_is_recorded_of_it(fresh_session: SparkSession, tmp_path: Path) -> None:
    outcomes = {name: on_spark(fresh_session, name, tmp_path / name) for name in CASES}
    keep_if_asked(OUTCOMES, outcomes, sort_keys=True)
    assert outcomes == json.loads(OUTCOMES.read_text())
