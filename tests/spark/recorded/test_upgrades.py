"""What Spark makes of the checkpoint of an earlier version is as recorded; simulated Spark is asked the same elsewhere."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from tests.sim.spark.outcomes import keep_if_asked
from tests.sim.spark.upgraded import CASES, FIRST, SCHEMA, SECOND, UPGRADES, Upgraded

_CODE = re.compile(r"\[([A-Z_.]+)\]")


def on_spark(spark: SparkSession, case: Upgraded, place: Path) -> dict[str, Any]:
    """Run the first version on its rows, and the second one from its checkpoint on more."""
    spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    (place / "in").mkdir(parents=True)
    names = [column.split()[0] for column in SCHEMA.split(", ")]
    outputs: list[list[Any]] = []
    for number, rows in enumerate((FIRST, SECOND)):
        lines = (json.dumps(dict(zip(names, row, strict=True))) for row in rows)
        (place / "in" / f"{number}.json").write_text("\n".join(lines))
        outputs.clear()

        def take(batch: DataFrame, _: int) -> None:
            outputs.append([[str(value) for value in row] for row in batch.collect()])

        build, mode = case.version(number)
        frame = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).json(str(place / "in"))
        writer = build(frame).writeStream.outputMode(mode).foreachBatch(take)
        query = writer.option("checkpointLocation", str(place / "checkpoint")).start()
        try:
            query.processAllAvailable()
        except StreamingQueryException as error:
            if not number:
                raise
            return {"refused": _CODE.findall(str(error).replace("[STREAM_FAILED]", ""))[0]}
        finally:
            query.stop()
    return {"outputs": sorted(row for batch in outputs for row in batch)}


@pytest.mark.nightly
def test_spark_makes_of_each_checkpoint_what_is_recorded(fresh_session: SparkSession, tmp_path: Path) -> None:
    outcomes = {
        name: on_spark(fresh_session, case, tmp_path / str(number))
        for number, (name, case) in enumerate(CASES.items())
    }
    keep_if_asked(UPGRADES, outcomes)
    assert outcomes == json.loads(UPGRADES.read_text())
