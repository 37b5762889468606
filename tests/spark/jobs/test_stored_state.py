"""The stored state of a job, by key: what `JobState` and ``headrace job state`` tell, also while the job runs."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from headrace import MINUTE, SECOND, Computation, Context, Pipeline, Record, Timer
from headrace.spark import (
    CheckpointDamagedError,
    Deployment,
    Input,
    JobState,
    SparkHostError,
    deploy,
)
from headrace_cli.main import app

pytestmark = pytest.mark.spark


class Visits(Computation):
    """Counts visits; the visit is over a minute after the last one."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state["visits"] = context.state.get("visits", 0) + 1
        context.set_timer("over", record.timestamp + MINUTE)
        if record.value["vip"]:
            context.hold_watermark(record.timestamp)
        context.produce("greeted", context.state["visits"])

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.state.clear()


class Total(Computation):
    """Adds up greetings in a state that is a number."""

    def initial_state(self) -> int:
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        context.state = context.state + 1


def visits() -> Pipeline:
    pipeline = Pipeline("visits")
    pipeline.injector("doors")
    pipeline.add(Visits(), name="visits", inputs=["doors"], outputs=["greeted"])
    pipeline.add(Total(), name="total", inputs=["greeted"])
    return pipeline


def files_of(directory: Path) -> dict[str, int]:
    return {str(path): path.stat().st_mtime_ns for path in directory.rglob("*")}


def told(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> Any:
    """Run the command in this process's session, which a process has only one of."""

    class Kept:
        def __enter__(self) -> SparkSession:
            return spark

        def __exit__(self, *_: object) -> None:
            pass

    monkeypatch.setattr("headrace.spark.session", lambda *_, **__: Kept())
    return CliRunner().invoke(app, ["job", "state", *map(str, arguments)])


class Job:
    """Anna comes twice, bert is a VIP."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        (place / "in").mkdir()
        seen = [("anna", 1, False), ("anna", 2, False), ("bert", 3, True)]
        lines = [json.dumps({"key": key, "ts": ts * SECOND, "vip": vip, "id": ts}) for key, ts, vip in seen]
        (place / "in" / "1.json").write_text("\n".join(lines))
        self._frame = spark.readStream.schema("key string, ts long, vip boolean, id string").json(
            str(place / "in")
        )
        self.directory = place / "a job"

    def deploy(self) -> Deployment:
        doors = Input(self._frame, key="key", timestamp="ts", record_id="id", delay_us=MINUTE)
        return deploy(visits(), {"doors": doors}, directory=self.directory, sinks={}, intervals=4)


def test_rows_timers_and_holds_of_a_running_job_are_read_and_nothing_is_written(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(spark, tmp_path)
    with job.deploy() as running:
        running.await_idle()
        query = running._query.running
        assert [one["numShufflePartitions"] for one in query.query.lastProgress["stateOperators"]] == [2, 2]
        before = files_of(job.directory)
        document = json.loads(told(spark, monkeypatch, job.directory, "visits", "--json").stdout)
        rows = {row["key"]: row for row in document["rows"]}
        assert rows["anna"]["state"] == {"visits": 2}
        over = {"tag": "over", "clock": "watermark", "timestamp": 62 * SECOND, "due": 62 * SECOND}
        assert rows["anna"]["timers"] == [{**over, "hold": 62 * SECOND}]
        assert (rows["anna"]["hold"], rows["bert"]["hold"]) == (None, 3 * SECOND)
        assert sorted(rows["anna"]["seen"]) == ["doors:1", "doors:2"]
        (computation,) = document["computations"]
        assert sum(interval["keys"] for interval in computation["intervals"]) == 2
        printed = told(spark, monkeypatch, job.directory, "visits", "bert").stdout
        assert 'state: {"visits":1}\nhold: 3.000000s\n' in printed
        assert "'over', watermark, due 63.000000s" in printed
        assert files_of(job.directory) == before
        assert running.errors == ()
    with pytest.raises(
        SparkHostError, match=r"no computation 'visit'. Its computations are: 'visits', 'total'"
    ):
        JobState(spark, job.directory).row("visit", "anna")


@pytest.mark.nightly
def test_a_damaged_file_of_the_state_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(spark, tmp_path)
    with job.deploy() as running:
        running.await_idle()
    state = JobState(spark, job.directory)
    row = state.row("total", "anna")
    assert row is not None
    assert row.state == b"2"
    printed = told(spark, monkeypatch, job.directory).stdout
    assert re.search(r"visits +0 +2 +2 +2 +\d+ bytes +3\.000000s", printed), printed
    stored = job.directory / "checkpoints" / "pipeline" / "state"
    changelogs, snapshots = stored.rglob("*.changelog"), stored.rglob("*.zip")  # the latter on a slow machine
    for file in [*changelogs, *snapshots]:
        file.unlink()
    with pytest.raises(CheckpointDamagedError):
        state.row("total", "anna")
