"""Changes of a running job: what is refused, and that the job then runs on."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from pickle import PicklingError
from typing import Any, NoReturn
from unittest.mock import MagicMock

import msgspec
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle, TimerValues

from headrace import SECOND, Computation, Context, Pipeline, Record
from headrace.spark import (
    Deployment,
    DiskFullError,
    Input,
    JobState,
    NoSinkWarning,
    QueryFailedError,
    QueryStoppedError,
    SparkHostError,
    deploy,
    skip_record,
)
from headrace.spark.hosting.images import Image
from headrace.spark.hosting.layout import JobPlan
from headrace.spark.hosting.processor import OperatorProcessor
from headrace.spark.jobs.deployment_settings import shape_of_job


class Counter(Computation):
    """Counts the letters of a key."""

    def __init__(self, output: str = "counts") -> None:
        self._output = output

    def initial_state(self) -> int:
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        context.state = context.state + 1
        context.produce(self._output, context.state)


class Named(Counter):
    """The same with a state of another shape."""

    def initial_state(self) -> dict[str, int]:  # type: ignore[override]
        return {"letters": 0}

    def process_record(self, context: Context, record: Record) -> None:
        context.state["letters"] += 1
        context.produce("counts", context.state["letters"])


def named(count: int) -> dict[str, int]:
    return {"letters": count}


class Relay(Computation):
    """Passes letters on."""

    def __init__(self, output: str) -> None:
        self._output = output

    def process_record(self, context: Context, record: Record) -> None:
        context.produce(self._output, record.value)


def counter_last() -> Pipeline:
    """The counter is on level 1, behind a relay."""
    pipeline = Pipeline("letters")
    pipeline.injector("mail")
    pipeline.add(Relay("relayed"), name="relay", inputs=["mail"], outputs=["relayed"])
    pipeline.add(Counter(), name="counter", inputs=["relayed"], outputs=["counts"])
    return pipeline


def counter_first() -> Pipeline:
    """The counter is on level 0, beside the relay: as many levels as before."""
    pipeline = Pipeline("letters")
    pipeline.injector("mail")
    pipeline.add(Relay("relayed"), name="relay", inputs=["mail"], outputs=["relayed"])
    pipeline.add(Counter(), name="counter", inputs=["mail"], outputs=["counts"])
    pipeline.add(Relay("sent"), name="sender", inputs=["relayed"], outputs=["sent"])
    return pipeline


class Job:
    """A job that reads files of letters, and keeps the values that come out by stream."""

    def __init__(
        self,
        spark: SparkSession,
        place: Path,
        *,
        files_in_batch: int = 1_000,
    ) -> None:
        self._spark, self._place = spark, place
        self._files_in_batch = files_in_batch
        self._letters = place / "letters"
        self._letters.mkdir(parents=True)
        self.values: dict[str, list[object]] = {}

    def input(self) -> Input:
        reader = self._spark.readStream.schema("key string, ts long")
        stream = reader.option("maxFilesPerTrigger", self._files_in_batch).json(str(self._letters))
        return Input(stream, key="key", timestamp="ts")

    def deploy(self, pipeline: Pipeline, *streams: str, intervals: int = 2, **options: object) -> Deployment:
        sinks = {stream: self._sink(stream) for stream in streams or ("counts",)}
        given: Mapping[str, Input] = {"mail": self.input()}
        return deploy(
            pipeline, given, directory=self._place / "job", sinks=sinks,
            intervals=intervals, **options,  # type: ignore[arg-type]
        )  # fmt: skip

    def _sink(self, stream: str) -> Callable[[DataFrame, int], None]:
        def take(frame: DataFrame, _batch: int) -> None:
            self.values.setdefault(stream, []).extend(
                json.loads(row["value"]) for row in frame.select("value").collect()
            )

        return take

    def put(self, second: int) -> None:
        draft = self._letters / f".{second}"
        draft.write_text(json.dumps({"key": "anna", "ts": second * SECOND}))
        draft.rename(self._letters / f"{second}.json")


def with_post() -> Pipeline:
    """A second injector before the first, and a further level behind the counter."""
    pipeline = Pipeline("letters")
    pipeline.injector("post")
    pipeline.injector("mail")
    pipeline.add(Relay("relayed"), name="relay", inputs=["mail", "post"], outputs=["relayed"])
    pipeline.add(Counter("counted"), name="counter", inputs=["relayed"], outputs=["counted"])
    pipeline.add(Relay("counts"), name="sender", inputs=["counted"], outputs=["counts"])
    return pipeline


@pytest.mark.spark
def test_a_computation_takes_its_state_to_another_level_and_new_injectors_begin(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The counter is on level 1, then on 0, as the job runs; after a restart on 1 again, of three, with a second injector.

    The letters of the first injector are read once, those of the second from the first one on.
    """
    job = Job(spark, tmp_path)
    with job.deploy(counter_last()) as running:
        job.put(1)
        running.await_idle()
        running.change(counter_first(), sinks={"sent": None})
        job.put(2)
        running.await_idle()
        assert running.progress()[1].records == 2
    assert job.values == {"counts": [1, 2]}
    second = Job(spark, tmp_path / "second")
    second.put(3)
    given = {"mail": job.input(), "post": second.input()}
    sinks = {"counts": job._sink("counts")}
    with deploy(with_post(), given, directory=tmp_path / "job", sinks=sinks, intervals=3) as running:
        running.await_idle()
        job.put(4)
        running.await_idle()
    assert job.values == {"counts": [1, 2, 3, 4]}
    (computation,) = [
        one for one in JobState(spark, tmp_path / "job").computations() if one.name == "counter"
    ]
    assert computation.micro_batch > 4, "micro-batches are counted on"


@pytest.mark.spark
def test_a_version_that_cannot_finish_what_the_one_before_has_begun_is_refused(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Job(spark, tmp_path)
    job.put(1)

    def fail(_frame: DataFrame, _batch: int) -> NoReturn:
        raise OSError("the sink is broken")

    given = {"mail": job.input()}
    with (
        deploy(
            counter_last(), given, directory=tmp_path / "job", sinks={"counts": fail}, intervals=2
        ) as running,
        pytest.raises(QueryFailedError),
    ):
        running.await_idle()
    with pytest.raises(SparkHostError, match=r"in the middle of its work.*the version before once more"):
        job.deploy(counter_first(), "counts", "sent")
    with job.deploy(counter_last(), available_now=True) as running:
        running.await_termination()
    job.put(2)
    with job.deploy(counter_first(), "counts", "sent") as running:
        running.await_idle()
    assert job.values["counts"] == [1, 2]


class TwoVariables(StatefulProcessor):
    """Takes images of intervals as the version before did: headers and chunks are two variables."""

    def __init__(self, plan: JobPlan, level: int, *, seeds: bool) -> None:
        assert seeds
        self._hosted = plan.hosted(level)

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._header = handle.getValueState("header", "data binary")
        self._chunks = handle.getMapState("chunks", "number int", "data binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: TimerValues) -> Iterator[Any]:  # noqa: N802, N803  Spark's names
        if key[0] not in self._hosted:
            yield from rows
            return
        for row in rows:
            for image in msgspec.msgpack.decode(row["parcel"], type=dict[str, bytes]).values():
                header, chunks = msgspec.msgpack.decode(image, type=Image)
                self._header.update((header,))
                for number, chunk in chunks.items():
                    self._chunks.updateValue((number,), (chunk,))


@pytest.mark.spark
def test_state_that_an_earlier_version_keeps_in_two_variables_is_read_and_moved(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(spark, tmp_path)
    job.put(1)
    with job.deploy(counter_last()) as running:
        running.await_idle()
    query = running._query
    start = query._checked(query._settings, query.pipeline, query._inputs)
    with monkeypatch.context() as before:
        before.setattr("headrace.spark.jobs.migration.OperatorProcessor", TwoVariables)
        replace(start, now=msgspec.structs.replace(start.now, layout="pipelined")).migrate()
    assert shape_of_job(tmp_path / "job").layout == "pipelined"
    row = JobState(spark, tmp_path / "job").row("counter", "anna")
    assert row is not None
    assert row.state == b"1"
    job.put(2)
    with job.deploy(counter_last()) as running:
        running.await_idle()
    assert shape_of_job(tmp_path / "job").layout == "one variable"
    assert job.values == {"counts": [1, 2]}


def test_a_timer_of_a_removed_computation_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark still calls for it, on the level where the relay is left."""
    plan = JobPlan(counter_first().without("counter"), intervals=2, partitions=2)
    monkeypatch.setattr("headrace.spark.hosting.processor.TaskContext", MagicMock())
    handle, times = MagicMock(), MagicMock()
    handle.getMapState().getValue.return_value = None
    times.getCurrentWatermarkInMs.return_value = times.getCurrentProcessingTimeInMs.return_value = 5_000
    processor = OperatorProcessor(plan, 0)
    processor.init(handle)
    assert list(processor.handleExpiredTimer(("counter/0",), times, MagicMock())) == []
    assert not handle.getMapState().updateValue.called


@pytest.mark.spark
@pytest.mark.nightly
def test_with_one_interval_a_computation_takes_its_state_to_another_level(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One operator hosts all levels. After the change the counter comes first; after the restart no output passes the driver."""
    job = Job(spark, tmp_path)
    with job.deploy(counter_last(), intervals=1) as running:
        job.put(1)
        running.await_idle()
        query = running._query.running
        assert [one["numShufflePartitions"] for one in query.query.lastProgress["stateOperators"]] == [1]
        running.change(counter_first(), sinks={"sent": None})
        job.put(2)
        running.await_idle()
        assert running.progress()[1].records == 2
    monkeypatch.setattr("headrace.spark.jobs.query.HERE_BYTES", 0)
    with job.deploy(counter_first(), "counts", "sent", intervals=1) as running:
        job.put(3)
        running.await_idle()
    assert job.values == {"counts": [1, 2, 3], "sent": [{"key": "anna", "ts": 3 * SECOND}]}
    row = JobState(spark, tmp_path / "job").row("counter", "anna")
    assert row is not None
    assert (row.state, row.interval) == (b"3", 0)


def without_counts() -> Pipeline:
    """The same levels, but nothing is counted."""
    pipeline = counter_last().without("counter")
    pipeline.add(Relay("sent"), name="sender", inputs=["relayed"], outputs=["sent"])
    return pipeline


def unsendable() -> Pipeline:
    """A counter with a lock, which cannot be sent to Spark's workers."""
    pipeline = Pipeline("letters")
    pipeline.injector("mail")
    pipeline.add(Relay("relayed"), name="relay", inputs=["mail"], outputs=["relayed"])
    locked = Counter()
    locked.lock = threading.Lock()  # type: ignore[attr-defined]
    pipeline.add(locked, name="counter", inputs=["relayed"], outputs=["counts"])
    return pipeline


@pytest.mark.spark
def test_a_change_that_is_refused_leaves_the_job_running(spark: SparkSession, tmp_path: Path) -> None:
    """Refused: a sink for a stream that is not there; a stream without a sink, where warnings are errors; an input that lacks a
    column; a bounded input; user code that cannot be sent."""
    job = Job(spark, tmp_path)
    with job.deploy(counter_last()) as running:
        job.put(1)
        running.await_idle()
        run = running._query.running.query.runId
        with pytest.raises(SparkHostError, match=r"sinks are given for \['sent'\]"):
            running.change(counter_last(), sinks={"counts": None, "sent": None})
        with pytest.raises(NoSinkWarning, match="no sink is given for 'sent'"):
            running.change(without_counts())
        with pytest.raises(SparkHostError, match=r"names the columns \['name'\]"):
            running.change(counter_last(), {"mail": replace(job.input(), key="name")})
        with pytest.raises(SparkHostError, match="a job needs streaming inputs"):
            running.change(
                counter_last(),
                {"mail": replace(job.input(), frame=spark.createDataFrame([], "key string, ts long"))},
            )
        with pytest.raises(PicklingError, match="cannot pickle"):
            running.change(unsendable())
        assert running._query.running.query.runId == run
        assert running.errors == ()
        job.put(2)
        running.await_idle()
    assert job.values == {"counts": [1, 2]}


@pytest.mark.spark
def test_a_job_that_has_ended_says_so_from_every_call(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A query cannot be started again after a change: the disk is full. Later the job goes on, and is stopped."""
    job = Job(spark, tmp_path)
    full = DiskFullError("checkpoint", "no room", "Make room")

    def fail(*_: object) -> NoReturn:
        raise full

    with job.deploy(counter_last()) as running:
        with monkeypatch.context() as patched:
            patched.setattr("headrace.spark.jobs.query.RunningQuery", fail)
            with pytest.raises(DiskFullError):
                running.change(counter_last(), {"mail": job.input()})
        assert running.errors == (full,)
        for call in calls(running):
            with pytest.raises(DiskFullError):
                call()
        with pytest.raises(DiskFullError):
            running.await_termination(0)
    with job.deploy(counter_last()) as running:
        job.put(1)
        running.await_idle()
    assert job.values == {"counts": [1]}
    assert running.await_termination(0)
    assert running.errors == ()
    for call in calls(running):
        with pytest.raises(
            QueryStoppedError, match=r"was stopped\. Deploy the pipeline in the same directory"
        ):
            call()


def calls(running: Deployment) -> list[Callable[[], object]]:
    """All that only a job that runs can do."""
    return [
        running.await_idle,
        lambda: running.change(counter_last()),
        lambda: running.add(Relay("sent"), name="sender", inputs=["relayed"], outputs=["sent"]),
        lambda: running.remove("counter"),
    ]


@pytest.mark.spark
def test_a_computation_that_was_removed_comes_back_with_its_state_on_another_level(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Job(spark, tmp_path)
    relayed = counter_last()
    relayed.add(Relay("sent"), name="sender", inputs=["relayed"], outputs=["sent"])
    with job.deploy(relayed, "counts", "sent") as running:
        job.put(1)
        running.await_idle()
    with job.deploy(relayed.without("counter"), "sent") as running:
        with pytest.raises(SparkHostError, match="has no computation 'counter'"):
            skip_record(tmp_path / "job", "counter", "mail:1")
        back = running.pipeline.copy()
        back.add(Counter(), name="counter", inputs=["mail"], outputs=["counts"])
        running.change(back, sinks={"counts": job._sink("counts")})
        job.put(2)
        running.await_idle()
    assert job.values["counts"] == [1, 2]


@pytest.mark.spark
@pytest.mark.nightly
def test_a_job_goes_on_when_its_inputs_are_given_in_another_order(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Each injector reads a directory of its own. After the restart none of them reads what the other one has left behind."""
    pipeline, seen = Pipeline("letters"), list[str]()
    for name in ("mail", "post"):
        pipeline.injector(name)
        (tmp_path / name).mkdir()
    pipeline.add(Relay("relayed"), name="relay", inputs=["mail", "post"], outputs=["relayed"])

    def take(frame: DataFrame, _batch: int) -> None:
        seen.extend(row["key"] for row in frame.select("key").collect())

    for number, order in enumerate((["mail", "post"], ["post", "mail"])):
        given = {}
        for name in order:
            letter = tmp_path / name / f"{number}.json"
            letter.write_text(json.dumps({"key": f"{name} {number}", "ts": number * SECOND}))
            stream = spark.readStream.schema("key string, ts long").json(str(tmp_path / name))
            given[name] = Input(stream, key="key", timestamp="ts")
        with deploy(
            pipeline, given, directory=tmp_path / "job", sinks={"relayed": take}, intervals=2
        ) as running:
            running.await_idle()
    assert sorted(seen) == ["mail 0", "mail 1", "post 0", "post 1"]


@pytest.mark.spark
def test_stored_states_are_migrated_at_a_restart(spark: SparkSession, tmp_path: Path) -> None:
    job = Job(spark, tmp_path)
    old, new = Pipeline("letters"), Pipeline("letters")
    for pipeline in (old, new):
        pipeline.injector("mail")
    old.add(Counter(), name="counter", inputs=["mail"], outputs=["counts"])
    new.add(Named(), name="counter", inputs=["mail"], outputs=["counts"], migrate=[named])
    for second, pipeline in enumerate((old, new), 1):
        with job.deploy(pipeline) as running:
            job.put(second)
            running.await_idle()
    assert job.values["counts"] == [1, 2]
