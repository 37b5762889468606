"""What Spark makes of a value of each type, in each place that a stateful job can put it, is what is recorded of it."""

import json
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.sim.spark.outcomes import keep_if_asked
from tests.sim.spark.value_table import FEED, INPUT, OUTCOMES, QUERIES, told
from tests.spark.recorded.test_stateful_conformance import ROCKS, write_batches


def on_spark(spark: SparkSession, name: str, place: Path) -> dict[str, str]:
    """Run a query on Spark, one file for each batch."""
    for file in write_batches(spark, FEED, INPUT, place):
        file.rename(place / "source" / file.name)
    outputs: list[tuple[Any, ...]] = []

    def take(batch: DataFrame, _number: int) -> None:
        outputs.extend(map(tuple, batch.collect()))

    events = spark.readStream.schema(INPUT).option("maxFilesPerTrigger", 1).parquet(str(place / "source"))
    writer = QUERIES[name](events).writeStream.foreachBatch(take)
    writer = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True)
    writer.start().awaitTermination()
    return told(outputs)


def test_spark_makes_of_values_what_is_recorded_of_it(fresh_session: SparkSession, tmp_path: Path) -> None:
    fresh_session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
    outcomes = {name: on_spark(fresh_session, name, tmp_path / name) for name in QUERIES}
    keep_if_asked(OUTCOMES, outcomes, sort_keys=True)
    assert outcomes == json.loads(OUTCOMES.read_text())
