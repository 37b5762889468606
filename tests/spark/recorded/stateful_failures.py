"""Make each failure on Spark, and keep what the query came to: ``python -m tests.spark.recorded.stateful_failures [NAME ...]``.

Spark runs a task again only if its master says so (``local[2,4]``), and an executor is lost alone only if it is a process
(``local-cluster``), so this is a process of its own. It needs Java, and minutes. ``--driver NAME FOLDER`` is the driver that will
be replaced.
"""

import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from headrace.spark import session
from tests.sim.spark.failures import FAILED, FAILURES, After, Failure, Totals, case
from tests.sim.spark.outcomes import keep
from tests.sim.spark.processors import INPUT, OUTPUT, told
from tests.spark.recorded.test_stateful_conformance import (
    ROCKS,
    offset_log,
    state_of,
    stateful,
    write_batches,
)

MASTERS = {False: "local[2,4]", True: "local-cluster[2,1,1024]"}
"""By whether a failure takes executors that are processes of their own."""
_PATIENCE_S = 300


class Driver:
    """What the query's drivers do; what they have done is in files, since a zombie is in a process of its own.

    Args:
        spark: A session.
        failure: What fails.
        place: A folder for the source, the checkpoint and the sink.
        held: It is the driver that will be replaced, and waits in its sink for its successor's end.

    """

    def __init__(self, spark: SparkSession, failure: Failure, place: Path, *, held: bool = False) -> None:
        self._spark, self._failure, self._place, self._held = spark, failure, place, held
        self._checkpoint, self._calls = place / "checkpoint", place / "sink"

    def run(self) -> None:
        """Run the query to its end.

        Raises:
            StreamingQueryException: The query has ended with an error, perhaps because it was to.
        """
        made = case(lambda: Totals(self._failure.dies, self._place / "died"))
        source = str(self._place / "source")
        frame = self._spark.readStream.schema(INPUT).option("maxFilesPerTrigger", 1).parquet(source)
        output = stateful(self._spark, frame, made)
        if self._failure.output:
            output = output.mapInPandas(_ends_badly(self._place / "died"), OUTPUT)
        writer = output.writeStream.foreachBatch(self._take)
        query = writer.option("checkpointLocation", str(self._checkpoint)).trigger(availableNow=True).start()
        query.awaitTermination()

    def _take(self, batch: DataFrame, number: int) -> None:
        backup = self._place / "backup"
        if self._failure.after is After.RESTORE and number == 1 and not backup.exists():
            shutil.copytree(self._checkpoint, backup)
        rows = [tuple(row) for row in batch.collect()]
        self._strike(number, "before")
        with self._calls.open("a") as calls:
            calls.write(json.dumps([number, rows], default=str) + "\n")
        self._strike(number, "after")

    def _strike(self, number: int, moment: str) -> None:
        struck = self._place / "struck"
        if (number, moment) != self._failure.sink or (struck.exists() and not self._held):
            return
        struck.touch()
        if not self._held:
            problem = f"the driver dies {moment} the sink's effect"
            raise RuntimeError(problem)
        wait_for(self._place / "replaced")

    def restart(self) -> None:
        """Do about the driver that has ended what the failure says, and run the query again."""
        if self._failure.after is After.RESTORE:
            shutil.rmtree(self._checkpoint)
            (self._place / "backup").rename(self._checkpoint)
        for entry in self._failure.lost:
            (self._checkpoint / entry).unlink()
            (self._checkpoint / entry).with_name(f".{Path(entry).name}.crc").unlink(missing_ok=True)
        self.run()

    def outcome(self) -> dict[str, Any]:
        """Return what the query came to."""
        calls = [json.loads(line) for line in self._calls.read_text().splitlines()]
        outputs = {number: [tuple(row) for row in rows] for number, rows in calls}
        mode = case().mode
        state, timers = state_of(self._spark, str(self._checkpoint), mode)
        watermarks = [
            offset_log(str(self._checkpoint), batch)["batchWatermarkMs"] for batch in sorted(outputs)
        ]
        kept = told(outputs, state, timers)
        return kept | {"watermarks": watermarks, "late": 0, "sink": [number for number, _ in calls]}


def on_spark(spark: SparkSession, failure: Failure, place: Path) -> dict[str, Any]:
    """Run the job with the failure, start it again if it ends, and return what it came to."""
    for file in write_batches(spark, case().feed(), INPUT, place):
        file.rename(place / "source" / file.name)
    driver = Driver(spark, failure, place)
    if failure.after is After.REPLACE:
        _run_beside_a_zombie(driver, failure, place)
        return driver.outcome()
    try:
        driver.run()
        assert failure.sink is None
    except StreamingQueryException:
        assert failure.sink is not None
        assert (place / "struck").exists()
        driver.restart()
    assert (place / "died").exists() == bool(failure.dies or failure.output)
    return driver.outcome()


def _run_beside_a_zombie(driver: Driver, failure: Failure, place: Path) -> None:
    name = next(name for name, one in FAILURES.items() if one is failure)
    command = [sys.executable, "-m", "tests.spark.recorded.stateful_failures", "--driver", name, str(place)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as zombie:
        wait_for(place / "struck")
        driver.run()
        (place / "replaced").touch()
        _, said = zombie.communicate(timeout=_PATIENCE_S)
    assert zombie.returncode == 1  # the commit log has the batch already
    assert "CONCURRENT_STREAM_LOG_UPDATE" in said, said


def wait_for(path: Path) -> None:
    """Wait until a file exists."""
    deadline = time.monotonic() + _PATIENCE_S
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.05)


def _ends_badly(mark: Path) -> Any:
    """Return what hands on the output of a task, and raises at its end: by then the state is committed."""

    def hand_on(frames: Iterator[Any]) -> Iterator[Any]:
        wanted = False
        for frame in frames:
            wanted = wanted or ("5" in set(frame["said"]))  # which batch 1 alone says
            yield frame
        if wanted and not mark.exists():
            mark.touch()
            problem = "the task dies with its state committed"
            raise RuntimeError(problem)

    return hand_on


def _session(folder: str, *, executors: bool) -> SparkSession:
    settings = {
        "spark.local.dir": f"{folder}/local",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.sql.streaming.stateStore.providerClass": ROCKS,
    }
    return session(MASTERS[executors], "headrace failures", config=settings)


def main() -> int:
    """Make them all, or those that are named, and write what came of them."""
    if sys.argv[1:2] == ["--driver"]:
        name, place = sys.argv[2:]
        with _session(f"{place}/zombie", executors=False) as spark:
            Driver(spark, FAILURES[name], Path(place), held=True).run()
    kept = json.loads(FAILED.read_text()) if FAILED.exists() else {}
    wanted = sys.argv[1:] or [*FAILURES]
    for executors in MASTERS:
        names = [name for name in wanted if FAILURES[name].executors is executors]
        if not names:
            continue
        with tempfile.TemporaryDirectory() as folder, _session(folder, executors=executors) as spark:
            for number, name in enumerate(names):
                kept[name] = on_spark(spark, FAILURES[name], Path(folder) / str(number))
                sys.stdout.write(f"{name}: {json.dumps(kept[name])}\n")
                sys.stdout.flush()
                keep(FAILED, kept)
    return 0


if __name__ == "__main__":
    sys.exit(main())
