"""What happens to files: one clear error each, and when the file is mended, the run goes on and nothing is lost."""

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from headrace.spark.io_errors import (
    CheckpointDamagedError,
    DiskFullError,
    DriverReplacedError,
    InputFileError,
    StorageError,
)
from headrace.spark.jobs.attach import attach
from headrace.spark.jobs.recorded_input import Landing, landed
from headrace.spark.runtime.file_errors import storage_error_of
from headrace_properties.reference import run_reference
from tests.sim.rig import letters, mail
from tests.spark.rig import Collected, begin

PIPELINE = mail()
FEED = letters(PIPELINE)
PARTS = 3


class Job:
    """A query, started anew for each part, whose last part is still to be worked off."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self.spark, self.place = spark, place
        self.checkpoint, self.landing = place / "checkpoint", place / "landing"
        self.collected = Collected()
        self._entries = [(entry.address, entry.event) for entry in FEED.entries]
        self._land = Landing(PIPELINE, self.landing)
        self._part = 0

    def put(self) -> None:
        size = -(-len(self._entries) // PARTS)
        self._land.put(self._entries[self._part * size : (self._part + 1) * size])
        self._part += 1

    def run(self) -> None:
        inputs = landed(self.spark, PIPELINE, self.landing)
        query = begin(attach(PIPELINE, inputs, intervals=2), self.collected, self.checkpoint)
        try:
            query.processAllAvailable()
        finally:
            query.stop()

    def mishap(self) -> StorageError:
        with pytest.raises((PySparkException, Py4JJavaError)) as raised:
            self.run()
        found = storage_error_of(str(raised.value), self.checkpoint)
        assert found is not None, str(raised.value)
        return found

    def check(self) -> None:
        self.run()
        assert self.collected.outputs() == run_reference(PIPELINE, FEED).outputs


def started(job: Job) -> Job:
    """One that has done all but its last part."""
    for _ in range(PARTS - 1):
        job.put()
    job.run()
    job.put()
    return job


def newest(checkpoint: Path, pattern: str) -> Path:
    return max(checkpoint.glob(pattern), key=lambda path: (path.stat().st_mtime_ns, path.name))


def empty(path: Path) -> None:
    path.write_bytes(b"")


def half(path: Path) -> None:
    """And no checksum beside it, as after a copy by other tools."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    (path.parent / f".{path.name}.crc").unlink(missing_ok=True)


def check_what_breaks_off_in_a_checkpoint(job: Job) -> None:
    cases: list[tuple[str, Callable[[Path], None]]] = [
        ("offsets/[0-9]*", empty),
        ("offsets/[0-9]*", half),
        ("commits/[0-9]*", half),
        ("sources/0/[0-9]*", half),
        ("metadata", half),
        ("state/0/0/*.changelog", half),
    ]
    for pattern, damage in cases:
        path = newest(job.checkpoint, pattern)
        whole = path.read_bytes()
        damage(path)
        error = job.mishap()
        path.write_bytes(whole)
        assert type(error) is CheckpointDamagedError, pattern
        assert error.place == str(path), pattern
        assert "start the query again" in str(error)


def check_an_unreadable_input_file(job: Job) -> None:
    path = max((job.landing / "mail").glob("*.parquet"))
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    error = job.mishap()
    assert type(error) is InputFileError
    assert str(error).startswith(f"{path}: this input file cannot be read. Replace it with an intact one")
    path.write_bytes(whole)


def check_a_missing_input_directory(job: Job) -> None:
    job.landing.rename(job.place / "elsewhere")
    error = job.mishap()
    assert type(error) is InputFileError
    assert str(error).startswith(f"{job.landing / 'mail'}: this input directory does not exist")
    (job.place / "elsewhere").rename(job.landing)


def check_a_checkpoint_that_was_moved(job: Job) -> None:
    """Spark writes the place of a state's schema into the checkpoint, in full."""
    home = job.checkpoint
    job.checkpoint = home.rename(job.place / "moved")
    error = job.mishap()
    assert type(error) is CheckpointDamagedError
    assert error.place == str(job.checkpoint)
    assert f"it was moved from {home}, and its state records that path. Move it back" in str(error)
    shutil.rmtree(home, ignore_errors=True)  # what the vain attempt has left there
    job.checkpoint.rename(home)
    job.checkpoint = home


@pytest.mark.nightly
def test_each_mishap_is_named_and_when_all_are_mended_nothing_is_lost(
    spark: SparkSession, tmp_path: Path
) -> None:
    """One job for all of them, each mended before the next: a run on Spark takes seconds."""
    job = started(Job(spark, tmp_path / "job"))
    check_what_breaks_off_in_a_checkpoint(job)
    check_a_checkpoint_that_was_moved(job)
    check_a_missing_input_directory(job)
    check_an_unreadable_input_file(job)
    job.check()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mount, umount = shutil.which("mount"), shutil.which("umount")
    if mount is None or umount is None:
        pytest.skip("a small disk needs the commands mount and umount, which are not installed here")
    command = [mount, "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        pytest.skip(f"a small disk cannot be mounted here: {done.stderr.strip()}")
    yield place
    subprocess.run([umount, str(place)], check=True)


@pytest.mark.nightly
def test_a_full_disk_is_told_and_with_room_again_nothing_is_lost(
    spark: SparkSession, tmp_path: Path, small_disk: Path
) -> None:
    job = Job(spark, tmp_path)
    job.checkpoint = small_disk / "checkpoint"
    started(job)
    filler = small_disk / "filler"
    filler.write_bytes(bytes(shutil.disk_usage(small_disk).free - 4096))
    error = job.mishap()
    assert type(error) is DiskFullError
    assert str(error).startswith(f"{job.checkpoint}: its disk is full. Free some space")
    filler.unlink()
    job.check()


@pytest.mark.parametrize(
    "said",
    [
        "[CONCURRENT_STREAM_LOG_UPDATE] Concurrent update to the log",
        "Multiple streaming queries are concurrently using file:/jobs/checkpoint/commits. SQLSTATE: XXKST",
    ],
)
def test_a_driver_that_was_replaced_is_told_so(tmp_path: Path, said: str) -> None:
    """Spark gives the error's name where it writes what a batch reads, and not where it writes that a batch is done."""
    error = storage_error_of(f"terminated with exception: {said}", tmp_path)
    assert type(error) is DriverReplacedError
    assert "Leave the other driver running" in str(error)


def test_what_is_no_mishap_of_files_is_left_to_others(tmp_path: Path) -> None:
    assert storage_error_of("ValueError: a bad letter", tmp_path) is None
