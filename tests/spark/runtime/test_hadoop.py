"""A job's directory behind Hadoop's file systems: here a mount table (``viewfs``), which is no path of this machine."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from headrace import Computation, Context, OptionsError, Pipeline, Record
from headrace.spark import (
    Deployment,
    FileSink,
    Input,
    JobState,
    JobStoppedError,
    committed_files,
    deploy,
    skip_record,
)
from headrace.spark.runtime.hadoop import HadoopPath, create, files_in, job_directory, remove, write
from headrace_cli.main import app
from headrace_scenarios.chaos.object_store import ObjectStore


class Sums(Computation):
    """Adds up what comes, if its text is a number."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state["sum"] = context.state.get("sum", 0) + int(record.value["text"])
        context.produce("sums", context.state["sum"])


MANAGERS = "org.apache.spark.sql.execution.streaming.checkpointing"
SETTING = "spark.sql.streaming.checkpointFileManagerClass"


@pytest.fixture
def session(fresh_session: SparkSession) -> SparkSession:
    """One with Spark's own way of keeping checkpoints."""
    fresh_session.conf.set(SETTING, f"{MANAGERS}.FileContextBasedCheckpointFileManager")
    return fresh_session


@pytest.fixture
def mounted(spark: SparkSession, tmp_path: Path) -> Iterator[str]:
    """The URI of an empty directory."""
    (tmp_path / "store").mkdir()
    context: Any = spark.sparkContext
    settings = context._jsc.hadoopConfiguration()
    link = "fs.viewfs.mounttable.tests.link./data"
    settings.set(link, (tmp_path / "store").as_uri())
    yield "viewfs://tests/data"
    settings.unset(link)
    context._jvm.org.apache.hadoop.fs.FileSystem.closeAll()  # a mount table is read once


def test_a_file_is_replaced_whole_and_found_by_name(session: SparkSession, mounted: str) -> None:
    place = job_directory(f"{mounted}/job", session)
    assert isinstance(place, HadoopPath)
    assert (str(place), place.exists(), files_in(place)) == ("viewfs://tests/data/job", False, [])
    for text in (b"", b"one", bytes(range(256)) * 1000):
        write(place / "b.json", text)
        assert (place / "b.json").read_bytes() == text
    write(place / "a" / "c.json", b"{}")
    assert [path.name for path in files_in(place)] == ["a", "b.json"]
    with pytest.raises(FileNotFoundError):
        (place / "none").read_bytes()


def test_any_manager_of_checkpoints_will_do(fresh_session: SparkSession, mounted: str) -> None:
    fresh_session.conf.set(
        SETTING, f"{MANAGERS}.FileSystemBasedCheckpointFileManager"
    )  # it cannot replace a file there
    place = job_directory(mounted, fresh_session) / "a.json"
    for text in (b"one", b"two"):
        write(place, text)
        assert place.read_bytes() == text


class Broken(ObjectStore):
    """A store on which the clients of renames die before the first step, as often as it is told."""

    broken = 0

    def rename(self, path: str, target: str, is_wanted: Callable[[], bool]) -> None:
        self.broken -= 1
        super().rename(path, target, (lambda: False) if self.broken >= 0 else is_wanted)


def test_a_driver_that_dies_while_it_writes_leaves_the_file_as_it_was(session: SparkSession) -> None:
    with Broken() as store:
        place = job_directory(f"{store.uri}/job", session) / "a.json"
        write(place, b"one")
        store.broken = 100
        with pytest.raises(
            OSError, match=r"a\.json was written 5 times, and the store has something else each time"
        ):
            write(place, b"two")
        assert place.read_bytes() == b"one"
        store.broken = 1
        write(place, b"two")
        assert place.read_bytes() == b"two"
        assert [
            path.name for path in files_in(job_directory(f"{store.uri}/job", session)) if path.name[0] != "."
        ] == ["a.json"]


def test_what_is_written_again_is_no_new_version(session: SparkSession, object_store: ObjectStore) -> None:
    place = job_directory(f"{object_store.uri}/job", session) / "a.json"
    write(place, b"one")
    write(place, b"one")
    assert list(object_store.objects) == ["/job/a.json"]
    for text in (b"two", b"three"):
        write(place, text)
    assert list(object_store.objects) == ["/job/a.json.version-3"]
    assert place.exists()
    with pytest.raises(FileExistsError):
        create(job_directory(f"{object_store.uri}/job/a.json.version-3", session), b"four")
    remove(place)
    left = [path for path in object_store.objects if not path.startswith("/job/.")]  # of what was not created
    assert (place.exists(), left) == (False, [])


def test_the_store_shows_the_steps_of_a_rename_and_ends_it_with_its_client(object_store: ObjectStore) -> None:
    store = object_store
    for name in "ab":
        store.put(f"/from/{name}", name.encode())
    seen: list[list[str]] = []

    def is_wanted() -> bool:
        seen.append(sorted(store.objects))
        return len(seen) < 4

    store.rename("/from", "/to", is_wanted)
    assert seen == [
        ["/from/a", "/from/b"],
        ["/from/a", "/from/b", "/to/a"],
        ["/from/b", "/to/a"],
        ["/from/b", "/to/a", "/to/b"],
    ]
    assert sorted(store.objects) == seen[-1]


@pytest.mark.parametrize(
    "place", ["s3a://bucket/job", "dbfs:/job", "viewfs://nowhere/job", "hdfs://no-such-host.invalid:8020/job"]
)
def test_a_store_that_hadoop_does_not_reach_is_refused(spark: SparkSession, place: str) -> None:
    scheme = place.partition(":")[0]
    with pytest.raises(
        OptionsError, match=f"Hadoop says: .*the connector of '{scheme}' is missing.*jars.packages"
    ):
        job_directory(place, spark)
    with pytest.raises(OptionsError, match="Hadoop says"):
        skip_record(place, "adder", "numbers:1")


class Job:
    """A job that adds up letters' texts."""

    def __init__(self, spark: SparkSession, directory: str, landing: Path) -> None:
        self.spark, self.directory, self.landing = spark, directory, landing
        self.outputs = f"{directory}-outputs"
        self.sums: list[str] = []
        landing.mkdir()

    def put(self, number: int, text: str) -> None:
        draft = self.landing / f".{number}"
        draft.write_text(json.dumps({"id": number, "key": "anna", "text": text, "ts": number}))
        draft.rename(self.landing / f"{number}.json")

    def start(self) -> Deployment:
        pipeline = Pipeline("sums")
        pipeline.injector("numbers")
        pipeline.add(Sums(), name="adder", inputs=["numbers"], outputs=["sums"])
        frame = self.spark.readStream.schema("id long, key string, text string, ts long").json(
            str(self.landing)
        )
        given = {"numbers": Input(frame, key="key", timestamp="ts", record_id="id")}

        files = FileSink(self.outputs, spark=self.spark)

        def take(rows: DataFrame, batch: int) -> None:
            files(rows, batch)
            self.sums += [row["value"] for row in rows.collect()]

        return deploy(pipeline, given, directory=self.directory, sinks={"sums": take}, intervals=2)


def test_a_job_resumes_from_there_and_skips_what_stops_it(
    session: SparkSession, object_store: ObjectStore, tmp_path: Path
) -> None:
    job = Job(session, f"{object_store.uri}/job", tmp_path / "in")
    job.put(1, "1")
    with job.start() as running:
        running.await_idle()
        job.put(2, "two")
        with pytest.raises(JobStoppedError, match=f"headrace job skip {job.directory} adder numbers:2"):
            running.await_idle()
    done = CliRunner().invoke(
        app, ["job", "skip", job.directory, "adder", "numbers:2"], catch_exceptions=False
    )
    assert done.exit_code == 0
    assert f"{job.directory}/dead-letters/" in done.stdout
    job.put(3, "3")
    with job.start() as running:
        running.await_idle()
        (progress,) = running.progress()
    assert job.sums == ["1", "4"]
    written = session.read.parquet(*committed_files(job.outputs, session))
    assert [row["value"] for row in written.orderBy("timestamp").collect()] == job.sums
    (row,) = JobState(session, job.directory).rows("adder")
    assert (row.key, row.state) == ("anna", b'{"sum":4}')
    assert progress.records == 3  # one of them was skipped
    names = object_store.names_in("/job")
    assert {name.partition(".version-")[0] for name in names} == {
        "checkpoints", "dead-letters", "deployment.json", "progress.json", "skips"
    }  # fmt: skip
    assert len(names) == 5  # one version of each
