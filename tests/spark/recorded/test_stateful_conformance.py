"""What Spark gives for each processor is what is recorded of it: output by batch, state, timers, watermarks, late rows.

The simulated Spark is compared with what is recorded, in tests/sim/spark/state/test_stateful.py.
"""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from pyspark.sql import DataFrame, SparkSession

from headrace_sim.spark.spark_job import TimeMode, TransformWithState
from tests.sim.spark.outcomes import keep_if_asked
from tests.sim.spark.processors import (
    CASES,
    CLOCKED,
    CLOCKED_OUTCOMES,
    INPUT,
    OUTCOMES,
    OUTPUT,
    Case,
    simulated,
    told,
)
from tests.sim.spark.programs import PROGRAMS, RECORDED, Program, case_of

_ALL: Any = {"availableNow": True}
_ONE_BATCH: Any = {"once": True}  # a query by processing time never says that it is done
SAMPLE = ("NumberMap", "PassesOn, then CountsTold, late rows")
ROCKS = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def on_spark(spark: SparkSession, case: Case, place: Path) -> dict[str, Any]:
    """Run a case on Spark, one file for each batch, as a backlog; where the clock matters, each batch by a query of its own."""
    source, checkpoint = place / "source", str(place / "checkpoint")
    files = write_batches(spark, case.feed(), INPUT, place)
    outputs: dict[int, list[Any]] = {}
    progress: list[Any] = []

    def take(batch: DataFrame, number: int) -> None:
        outputs[number] = [tuple(row) for row in batch.collect()]

    for wait_s, ready in zip(
        case.waits_s or (0,), [[file] for file in files] if case.waits_s else [files], strict=True
    ):
        time.sleep(wait_s)
        for file in ready:
            file.rename(source / file.name)
        frame = spark.readStream.schema(INPUT).option("maxFilesPerTrigger", 1).parquet(str(source))
        writer = (
            stateful(spark, frame, case).writeStream.outputMode(case.output_mode.value).foreachBatch(take)
        )
        query = (
            writer.option("checkpointLocation", checkpoint)
            .trigger(**_ONE_BATCH if case.waits_s else _ALL)
            .start()
        )
        query.awaitTermination()
        progress += [step for step in query.recentProgress if step["batchId"] in outputs]
    late = sum(part["numRowsDroppedByWatermark"] for step in progress for part in step["stateOperators"])
    logs = [offset_log(checkpoint, batch) for batch in outputs]
    state, timers = state_of(spark, checkpoint, case.mode)
    found = told(outputs, state, timers) | {
        "watermarks": [log["batchWatermarkMs"] for log in logs],
        "late": late,
    }
    if not case.waits_s:
        return found
    rows = {step["batchId"]: step["numInputRows"] for step in progress}
    return found | {
        "clock": [
            [log["batchTimestampMs"], rows.get(batch, 0)] for batch, log in zip(outputs, logs, strict=True)
        ]
    }


def write_batches(spark: SparkSession, feed: Any, schema: Any, place: Path) -> list[Path]:
    """Write a file for each batch, in order of their times, beside the directory of the source."""
    (place / "source").mkdir(parents=True)
    files = []
    for number, rows in enumerate(feed):
        part = place / f"part{number}"
        spark.createDataFrame(rows, schema).coalesce(1).write.parquet(str(part))
        (file,) = part.glob("*.parquet")
        os.utime(file, (1_000_000 + number, 1_000_000 + number))
        files.append(file.rename(place / f"{number}.parquet"))
    return files


def stateful(spark: SparkSession, frame: DataFrame, case: Case) -> DataFrame:
    mode = {
        TimeMode.NONE: "None",
        TimeMode.EVENT_TIME: "EventTime",
        TimeMode.PROCESSING_TIME: "ProcessingTime",
    }[case.mode]
    if case.mode is TimeMode.EVENT_TIME:
        frame = frame.withWatermark("at", f"{case.watermark_ms or 0} milliseconds")
    first = case.job().stateful[0]
    assert isinstance(first, TransformWithState)
    grouped = frame.groupBy("k")
    transform = grouped.transformWithStateInPandas if first.pandas else grouped.transformWithState
    initial = None
    if case.initial is not None:
        initial = spark.createDataFrame(list(case.initial.rows), case.initial.schema).groupBy("k")
    given = transform(case.processor(), OUTPUT, case.output_mode.value, mode, initial, first.event_time)
    return (
        given
        if case.then is None
        else given.groupBy("k").transformWithState(case.then(), OUTPUT, "Append", mode)
    )


def offset_log(checkpoint: str, batch: int) -> Any:
    """Return the metadata of a batch."""
    return json.loads((Path(checkpoint) / "offsets" / str(batch)).read_text().splitlines()[1])


def state_of(spark: SparkSession, checkpoint: str, mode: TimeMode) -> tuple[list[str], list[str]]:
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
        return tuple(row.user_map_key), _lasting(row.user_map_value)
    return _lasting(row.list_element if "list_element" in row else row.value)


def _lasting(held: Any) -> Any:
    """Return what is held, without when it expires."""
    return tuple(held.value if "ttlExpirationMs" in held else held)


@pytest.fixture
def rocks(fresh_session: SparkSession) -> SparkSession:
    fresh_session.conf.set("spark.sql.streaming.stateStore.providerClass", ROCKS)
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
    keep_if_asked(OUTCOMES, outcomes)
    assert outcomes == json.loads(OUTCOMES.read_text())


@pytest.mark.nightly
def test_ttl_and_timers_by_the_clock_agree_with_spark_at_the_same_times(
    rocks: SparkSession, tmp_path: Path
) -> None:
    outcomes = {
        name: json.loads(json.dumps(on_spark(rocks, case, tmp_path / name))) for name, case in CLOCKED.items()
    }
    keep_if_asked(CLOCKED_OUTCOMES, outcomes)
    again = {name: simulated(case, outcomes[name]["clock"]) for name, case in CLOCKED.items()}
    assert json.loads(json.dumps(again)) == outcomes


@pytest.mark.nightly
def test_programs_drawn_anew_agree_with_spark(rocks: SparkSession, tmp_path: Path) -> None:
    """``--hypothesis-seed`` draws others; a program that differs is named by its number, and is a key of the outputs."""
    programs: list[Program] = []

    @settings(max_examples=150, phases=[Phase.generate], database=None, deadline=None)
    @given(PROGRAMS)
    def draw(program: Program) -> None:
        programs.append(json.loads(json.dumps(program)))

    draw()
    outcome = json.loads(json.dumps(on_spark(rocks, case_of(programs), tmp_path)))
    keep_if_asked(RECORDED, {"programs": programs, "outcome": outcome})
    assert json.loads(json.dumps(simulated(case_of(programs)))) == outcome, programs
