"""Watermarks that the driver tells (MillWheel 4.5, 5.2): of inputs that bring nothing, and of a topic's partitions."""

import json
import time
from base64 import b64encode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace import MIN_TIME, SECOND, Computation, Context, OptionsError, Pipeline, Record, Timer
from headrace.spark import Input, QueryFailedError, SparkHostError, deploy
from headrace.spark.jobs.attach import check_followed
from headrace.spark.jobs.deploy import _check_idle
from headrace.spark.jobs.heartbeats import Heartbeats, InputWatermark, metric_of
from headrace.spark.runtime.event_time import END_MS
from headrace.spark.sources.driver_file import heartbeat_reader


class Inputs:
    """Three inputs, of which only the first two may be idle, and the driver that looks at them."""

    def __init__(self) -> None:
        self.now_us = 0
        inputs = {
            "a": InputWatermark(timeout_us=10),
            "b": InputWatermark(timeout_us=10),
            "c": InputWatermark(),
        }
        self.idle = Heartbeats(inputs, None, lambda: self.now_us)
        self.readers = {
            name: heartbeat_reader({"injector": name, "path": self.idle.file.path}) for name in inputs
        }
        self.offsets = {name: reader.initialOffset() for name, reader in self.readers.items()}
        self.batch = 0

    def look(self, at_us: int, **brought: int | None) -> dict[str, int]:
        """A micro-batch, with the watermarks that inputs have brought, and ``None`` for records alone; returns the heartbeats."""
        self.now_us = at_us
        metrics: dict[str, Any] = {
            metric_of(name): {"records_0": int(name in brought), "low_0": brought.get(name)}
            for name in self.readers
        }
        self.idle.look({"batchId": self.batch, "observedMetrics": metrics} if brought else None)
        self.batch += bool(brought)
        found = {}
        for name, reader in self.readers.items():
            start = self.offsets[name]
            self.offsets[name] = end = reader.latestOffset(start, ReadAllAvailable())
            for part in reader.partitions(start, end):
                (rows,) = reader.read(part)
                found[name] = rows.column("low").to_pylist()[0]
        return found


def test_an_idle_input_follows_those_that_are_not() -> None:
    inputs = Inputs()
    assert inputs.look(1, a=100, b=90, c=200) == {}
    assert inputs.look(9, a=110, c=210) == {}
    assert inputs.look(11, a=120, c=220) == {"b": 120}
    assert inputs.look(12, c=230) == {}  # `a` is the slowest, and not idle yet
    assert inputs.look(13, a=125, c=240) == {"b": 125}


def test_an_input_is_idle_also_if_there_are_no_more_micro_batches() -> None:
    inputs = Inputs()
    inputs.look(5, c=200)
    assert inputs.look(9) == {}
    assert inputs.look(11) == {"a": 200, "b": 200}


def test_a_report_that_is_seen_again_brings_nothing() -> None:
    inputs = Inputs()
    inputs.look(1, a=100, c=100)
    report = {"batchId": 0, "observedMetrics": {metric_of("a"): {"records_0": 5, "low_0": 100}}}
    inputs.now_us = 10
    inputs.idle.look(report)
    assert inputs.look(11) == {"a": 100, "b": 100}


def test_an_input_that_comes_back_is_followed_and_holds_again() -> None:
    inputs = Inputs()
    inputs.look(1, a=100, b=100, c=100)
    assert inputs.look(12, c=200) == {"a": 200, "b": 200}
    assert inputs.look(13, a=None) == {}  # a record behind all that was told
    assert (
        inputs.look(14, a=150, c=300) == {}
    )  # now `b` follows `a`, which is the slowest, and has been told more already
    assert inputs.look(15, a=400, c=500) == {"b": 400}


def test_nobody_tells_if_all_are_idle_or_ended() -> None:
    inputs = Inputs()
    inputs.look(1, a=100, b=110, c=END_MS * 1_000)
    assert inputs.look(20) == {}


class Topic:
    """An input of three partitions, and the driver that looks at them."""

    def __init__(self, place: Path, timeout_us: int | None = None) -> None:
        self.now_us, self.batch = 0, 0
        inputs = {"topic": InputWatermark(timeout_us=timeout_us, processes=3)}
        self.heartbeats = Heartbeats(inputs, place / "inputs.json", lambda: self.now_us)
        self.reader = heartbeat_reader({"injector": "topic", "path": self.heartbeats.file.path})
        self.low = self.reader.initialOffset()

    def look(self, at_us: int, **lows: int) -> int:
        """A micro-batch in which partitions (``p0``...) bring records; returns the low watermark that is told."""
        self.now_us = at_us
        metrics: dict[str, int | None] = {}
        for number in range(3):
            metrics[f"records_{number}"] = int(f"p{number}" in lows)
            metrics[f"low_{number}"] = lows.get(f"p{number}")
        self.heartbeats.look({"batchId": self.batch, "observedMetrics": {metric_of("topic"): metrics}})
        self.batch += 1
        self.low = self.reader.latestOffset(self.low, ReadAllAvailable())
        return int(self.low["low"])


def test_the_slowest_partition_counts_and_one_that_has_brought_nothing_holds(tmp_path: Path) -> None:
    topic = Topic(tmp_path)
    assert topic.look(1, p0=900, p1=100) == MIN_TIME
    assert topic.look(2, p2=500) == 100
    assert topic.look(3, p1=700, p0=950) == 500
    assert topic.look(4, p1=600, p2=800) == 700  # a record out of order


def test_an_idle_partition_does_not_hold_the_others(tmp_path: Path) -> None:
    topic = Topic(tmp_path, timeout_us=10)
    assert topic.look(9, p0=900, p1=100) == MIN_TIME
    assert topic.look(12, p1=200) == 200
    assert topic.look(13, p2=50) == 200
    assert topic.look(21, p1=300) == 200  # the first one is idle, and the third one is not yet
    assert topic.look(22, p2=400) == 300


def test_what_partitions_have_reached_outlasts_a_restart(tmp_path: Path) -> None:
    Topic(tmp_path).look(1, p0=900, p1=100, p2=500)
    assert Topic(tmp_path).look(1, p1=700) == 500


def test_an_input_of_processes_is_refused_where_nobody_follows_them() -> None:
    given, pipeline = Input(None, key="key", timestamp="ts", process="partition"), Pipeline("sums")
    pipeline.injector("topic")
    with pytest.raises(
        SparkHostError, match=r"'topic' names the column of its process, .*your own query.*Use deploy"
    ):
        check_followed(pipeline, {"topic": given}, "your own query")


def test_what_an_idle_timeout_can_be_given_for() -> None:
    pipeline = Pipeline("sums")
    pipeline.injector("orders")
    with pytest.raises(
        OptionsError, match="idle_us='nobody': expected an injector of pipeline 'sums': 'orders'"
    ):
        _check_idle({"nobody": SECOND}, pipeline)
    with pytest.raises(OptionsError, match=r"idle_us\['orders'\]=0: expected at least 1"):
        _check_idle({"orders": 0}, pipeline)


class Sums(Computation):
    """Tells at 2 s how many came before, and what is late."""

    def process_record(self, context: Context, record: Record) -> None:
        if record.late:
            context.produce("sums", "late")
            return
        context.state["count"] = context.state.get("count", 0) + 1
        context.set_timer("end", 2 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("sums", context.state["count"])


@pytest.mark.spark
def test_a_job_goes_on_without_an_input_that_brings_nothing(spark: SparkSession, tmp_path: Path) -> None:
    """Until 2 s have passed on ``mail`` alone. Then ``post`` brings a letter from before."""
    pipeline, seen = Pipeline("letters"), list[object]()
    inputs = {}
    for name, delay_us in (("mail", 0), ("post", SECOND)):
        pipeline.injector(name)
        (tmp_path / name).mkdir()
        stream = spark.readStream.schema("key string, ts long").json(str(tmp_path / name))
        inputs[name] = Input(stream, key="key", timestamp="ts", delay_us=delay_us)
    pipeline.add(Sums(), name="sums", inputs=["mail", "post"], outputs=["sums"])

    def put(name: str, *timestamps: int) -> None:
        lines = [json.dumps({"key": "anna", "ts": timestamp}) for timestamp in timestamps]
        draft = tmp_path / f"{name}.json"
        draft.write_text("\n".join(lines) + "\n")
        draft.rename(tmp_path / name / f"{timestamps[0]}.json")

    def take(frame: DataFrame, _batch: int) -> None:
        seen.extend(json.loads(row["value"]) for row in frame.select("value").collect())

    sinks = {"sums": take}
    with deploy(
        pipeline, inputs, directory=tmp_path / "job", sinks=sinks, intervals=1, idle_us={"post": SECOND}
    ) as job:
        put("mail", SECOND, 3 * SECOND)
        job.await_idle()
        _await(lambda: bool(seen))
        assert seen == [2]
        put("post", SECOND + 1)
        job.await_idle()
        assert seen == [2, "late"]
    with deploy(pipeline, inputs, directory=tmp_path / "job", sinks=sinks, intervals=1) as job:
        put("mail", 4 * SECOND)  # without the timeout the job has a source less, and goes on
        job.await_idle()
        assert [progress.records for progress in job.progress()] == [4]


@pytest.mark.spark
@pytest.mark.nightly
def test_a_partition_of_a_topic_that_lags_does_not_make_its_own_records_late(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Rows of the shape that Spark's connector for Kafka gives, as docs/how-to/spark-job.md reads them."""
    pipeline, seen, landing = Pipeline("letters"), list[object](), tmp_path / "topic"
    pipeline.injector("mail", processes=2)
    pipeline.add(Sums(), name="sums", inputs=["mail"], outputs=["sums"])
    landing.mkdir()
    schema = "key binary, value binary, topic string, partition int, offset long, timestamp timestamp"
    topic = spark.readStream.schema(schema).json(str(landing))
    records = topic.selectExpr(
        "CAST(key AS STRING) AS key",
        "value",
        "timestamp",
        "partition",
        "concat_ws('/', topic, partition, offset) AS id",
    )
    given = Input(
        records, key="key", timestamp="timestamp", value="value", record_id="id", keep_ids_us=0, process="partition"
    )  # fmt: skip

    def put(partition: int, *seconds: int) -> None:
        rows = [
            {
                "key": b64encode(b"anna").decode(), "value": b64encode(b"1").decode(), "topic": "mail", "partition": partition,
                "offset": second, "timestamp": f"1970-01-01T00:00:{second:02}Z",
            }
            for second in seconds
        ]  # fmt: skip
        draft = tmp_path / "draft.json"
        draft.write_text("\n".join(map(json.dumps, rows)) + "\n")
        draft.rename(landing / f"{partition}-{seconds[0]}.json")

    def take(frame: DataFrame, _batch: int) -> None:
        seen.extend(json.loads(row["value"]) for row in frame.select("value").collect())

    with deploy(
        pipeline, {"mail": given}, directory=tmp_path / "job", sinks={"sums": take}, intervals=1
    ) as job:
        put(0, 1, 12)
        job.await_idle()
        put(1, 1, 13)
        job.await_idle()
        _await(lambda: bool(seen))
        assert seen == [4]
        put(2, 14)
        with pytest.raises(
            QueryFailedError, match=r"comes from process 2, but the pipeline gives it 2, from 0"
        ):
            job.await_idle()


def _await(is_there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not is_there():
        assert time.monotonic() < deadline
        time.sleep(0.1)
