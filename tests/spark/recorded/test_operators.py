"""What Spark gives for its own stateful operators is what is recorded of it: output by batch, watermarks, and what it refuses.

The simulated Spark is compared with what is recorded, in tests/sim/spark/query/test_operators.py.
"""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as t

from tests.sim.spark.operated import CASES, OPERATED, Operated, told
from tests.sim.spark.outcomes import keep_if_asked
from tests.sim.spark.processors import INPUT
from tests.spark.recorded.test_stateful_conformance import offset_log, write_batches

BOTH = t.StructType([t.StructField(side, INPUT) for side in ("left", "right")])
SAMPLE = "left join, bounded, late rows, with pauses"


def on_spark(spark: SparkSession, case: Operated, place: Path) -> dict[str, Any]:
    """Run a case on Spark, with one file of each stream for each batch."""
    spark.conf.set("spark.sql.streaming.multipleWatermarkPolicy", case.policy)
    checkpoint = str(place / "checkpoint")
    rows = [
        [*((row, None) for row in left), *((None, row) for row in right)]
        for left, right in map(case.rows, range(len(case.left)))
    ]
    files = write_batches(spark, rows, BOTH, place)
    outputs: dict[int, list[Any]] = {}

    def take(batch: DataFrame, number: int) -> None:
        outputs[number] = [tuple(row) for row in batch.collect()]

    stream = spark.readStream.schema(BOTH).option("maxFilesPerTrigger", 1)
    both = stream.parquet(str(place / "source"))
    left, right = (both.filter(f"{side} IS NOT NULL").select(f"{side}.*") for side in ("left", "right"))
    try:
        for file in files[: 1 if case.pauses else None]:
            file.rename(place / "source" / file.name)
        writer = case.build(left, right).writeStream.outputMode(case.mode).foreachBatch(take)
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            query.processAllAvailable()
            for file in files[1:] if case.pauses else ():
                file.rename(place / "source" / file.name)
                query.processAllAvailable()
        finally:
            query.stop()
    except (AnalysisException, StreamingQueryException) as error:
        return {
            "refused": error.getCondition(),
            "message": re.sub(r"[;\n].*", "", str(error), flags=re.DOTALL)[:240],
        }
    watermarks = [offset_log(checkpoint, batch)["batchWatermarkMs"] for batch in sorted(outputs)]
    return {"outputs": told(outputs), "watermarks": watermarks}


def test_spark_gives_what_is_recorded_of_it(fresh_session: SparkSession, tmp_path: Path) -> None:
    assert on_spark(fresh_session, CASES[SAMPLE], tmp_path) == json.loads(OPERATED.read_text())[SAMPLE]


@pytest.mark.nightly
def test_spark_gives_what_is_recorded_of_all(fresh_session: SparkSession, tmp_path: Path) -> None:
    outcomes = {
        name: on_spark(fresh_session, case, tmp_path / str(number))
        for number, (name, case) in enumerate(CASES.items())
    }
    keep_if_asked(OPERATED, outcomes, indent=None)
    assert outcomes == json.loads(OPERATED.read_text())
