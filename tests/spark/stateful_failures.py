"""Make each failure on Spark, and keep what the query came to: ``python -m tests.spark.stateful_failures [NAME ...]``.

Spark runs a task again only if its master says so (``local[2,4]``), so this is a process of its own. It needs Java, and minutes.
"""

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from headrace.spark import session
from tests.sim.spark.failures import FAILED, FAILURES, Failure, Totals, case
from tests.sim.spark.processors import INPUT, told
from tests.spark.test_stateful_conformance import ROCKS, offset_log, state_of, stateful, write_batches


def on_spark(spark: SparkSession, failure: Failure, place: Path) -> dict[str, Any]:
    """Run the job with the failure, start it again if it ends, and return what it came to."""
    made = case(lambda: Totals(failure.dies, place / "died"))
    checkpoint, source = place / "checkpoint", place / "source"
    for file in write_batches(spark, made.feed(), INPUT, place):
        file.rename(source / file.name)
    frame = spark.readStream.schema(INPUT).option("maxFilesPerTrigger", 1).parquet(str(source))
    outputs: dict[int, list[Any]] = {}
    calls: list[int] = []
    pending = [] if failure.sink is None else [failure.sink]

    def take(batch: DataFrame, number: int) -> None:
        rows = [tuple(row) for row in batch.collect()]
        if (number, "before") in pending:
            pending.clear()
            raise RuntimeError("the driver dies before the sink's effect")
        outputs[number] = rows
        calls.append(number)
        if (number, "after") in pending:
            pending.clear()
            raise RuntimeError("the driver dies after the sink's effect")

    def run() -> None:
        writer = stateful(spark, frame, made).writeStream.foreachBatch(take)
        query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()

    try:
        run()
        assert failure.sink is None
    except StreamingQueryException:
        assert failure.sink is not None
        assert not pending
        for entry in failure.lost:
            (checkpoint / entry).unlink()
            (checkpoint / entry).with_name(f".{Path(entry).name}.crc").unlink(missing_ok=True)
        run()
    assert not failure.dies or (place / "died").exists()
    state, timers = state_of(spark, str(checkpoint), made.mode)
    watermarks = [offset_log(str(checkpoint), batch)["batchWatermarkMs"] for batch in sorted(outputs)]
    return told(outputs, state, timers) | {"watermarks": watermarks, "late": 0, "sink": calls}


def main() -> int:
    """Make them all, or those that are named, and write what came of them."""
    kept = json.loads(FAILED.read_text()) if FAILED.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "spark.local.dir": f"{folder}/local",
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.sql.streaming.stateStore.providerClass": ROCKS,
        }
        with session("local[2,4]", "headrace failures", config=settings) as spark:
            for number, name in enumerate(sys.argv[1:] or FAILURES):
                kept[name] = on_spark(spark, FAILURES[name], Path(folder) / str(number))
                sys.stdout.write(f"{name}: {json.dumps(kept[name])}\n")
                sys.stdout.flush()
                FAILED.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
