"""What Spark gives for each processor is what is recorded of it: output by batch, state, timers, watermarks, late rows.

The simulated Spark is compared with what is recorded, in tests/sim/spark/test_stateful.py.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from headrace_sim.spark.job import TimeMode, TransformWithState
from tests.sim.spark.processors import CASES, INPUT, OUTCOMES, OUTPUT, Case, told

SAMPLE = ("NumberMap", "PassesOn, then CountsTold, late rows")
_ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def on_spark(spark: SparkSession, case: Case, place: Path) -> dict[str, Any]:
    """Run a case on Spark, one file for each batch, as a backlog."""
    source, checkpoint = place / "source", str(place / "checkpoint")
    write_batches(spark, case.feed(), INPUT, source)
    frame = spark.readStream.schema(INPUT).option("maxFilesPerTrigger", 1).parquet(str(source))
    outputs: dict[int, list[Any]] = {}

    def take(batch: DataFrame, number: int) -> None:
        outputs[number] = [tuple(row) for row in batch.collect()]

    writer = _stateful(spark, frame, case).writeStream.foreachBatch(take)
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [step for step in query.recentProgress if step["batchId"] in outputs]
    late = sum(part["numRowsDroppedByWatermark"] for step in progress for part in step["stateOperators"])
    watermarks = [_watermark_ms(checkpoint, batch) for batch in outputs]
    state, timers = _state(spark, checkpoint, case.mode)
    return told(outputs, state, timers) | {"watermarks": watermarks, "late": late}


def write_batches(spark: SparkSession, feed: Any, schema: Any, source: Path) -> None:
    """Write a file for each batch, in order of their times."""
    source.mkdir(parents=True)
    for number, rows in enumerate(feed):
        part = source.parent / f"part{number}"
        spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(part))
        (file,) = part.glob("*.parquet")
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
        file.rename(source / f"{number}.parquet")


def _stateful(spark: SparkSession, frame: DataFrame, case: Case) -> DataFrame:
    mode = {TimeMode.NONE: "None", TimeMode.EVENT_TIME: "EventTime"}[case.mode]
    if case.mode is TimeMode.EVENT_TIME:
        frame = frame.withWatermark("at", f"{case.watermark_ms or 0} milliseconds")
    first = case.job().stateful[0]
    assert isinstance(first, TransformWithState)
    grouped = frame.groupBy("k")
    transform = grouped.transformWithStateInPandas if first.pandas else grouped.transformWithState
    initial = None
    if case.initial is not None:
        initial = spark.createDataFrame(list(case.initial.rows), case.initial.schema).groupBy("k")
    given = transform(case.processor(), OUTPUT, "Append", mode, initial, first.event_time)
    return (
        given
        if case.then is None
        else given.groupBy("k").transformWithState(case.then(), OUTPUT, "Append", mode)
    )


def _watermark_ms(checkpoint: str, batch: int) -> int:
    return int(
        json.loads((Path(checkpoint) / "offsets" / str(batch)).read_text().splitlines()[1])[
            "batchWatermarkMs"
        ]
    )


def _state(spark: SparkSession, checkpoint: str, mode: TimeMode) -> tuple[list[str], list[str]]:
    """Read the state after the last batch by Spark's own readers."""
    state, timers = [], []
    reader = spark.read.format("statestore").option("path", checkpoint)
    for operator in spark.read.format("state-metadata").load(checkpoint).collect():
        reader = reader.option("operatorId", operator.operatorId)
        properties = json.loads(operator.operatorProperties)
        for variable in properties["stateVariables"]:
            name = variable["stateName"]
            if not name.startswith("$"):
                rows = (
                    reader.option("stateVarName", name)
                    .option("readRegisteredTimers", "false")
                    .load()
                    .collect()
                )
                state += [f"{name} {tuple(row.key)} {_held(row)}" for row in rows]
        if mode is not TimeMode.NONE:
            plain = (
                spark.read.format("statestore")
                .option("path", checkpoint)
                .option("operatorId", operator.operatorId)
            )
            found = plain.option("readRegisteredTimers", "true").load().collect()
            timers += [f"{tuple(row.key)} {row.expiration_timestamp_ms}" for row in found]
    return state, timers


def _held(row: Any) -> Any:
    if "user_map_key" in row:
        return tuple(row.user_map_key), tuple(row.user_map_value)
    return tuple(row.list_element if "list_element" in row else row.value)


@pytest.fixture
def rocks(fresh_session: SparkSession) -> SparkSession:
    fresh_session.conf.set("spark.sql.streaming.stateStore.providerClass", _ROCKS)
    return fresh_session


@pytest.mark.parametrize("name", SAMPLE)
def test_spark_gives_what_is_recorded_of_it(name: str, rocks: SparkSession, tmp_path: Path) -> None:
    assert on_spark(rocks, CASES[name], tmp_path) == json.loads(OUTCOMES.read_text())[name]


@pytest.mark.nightly
def test_spark_gives_what_is_recorded_of_it_for_all_processors(rocks: SparkSession, tmp_path: Path) -> None:
    outcomes = {
        name: on_spark(rocks, case, tmp_path / str(number))
        for number, (name, case) in enumerate(CASES.items())
    }
    if os.environ.get("WRITE") == "yes":
        OUTCOMES.write_text(json.dumps(outcomes, indent=1, ensure_ascii=False) + "\n")
    assert outcomes == json.loads(OUTCOMES.read_text())
