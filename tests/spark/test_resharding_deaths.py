"""Keys that are divided anew while drivers die: a job is the old one or the new one, in a mounted directory and in a store."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
from pyspark.sql import SparkSession

from headrace.spark import CheckpointDamagedError, SparkHostError
from headrace.spark.hosting.layout import JobPlan, Splits, computation_of
from headrace.spark.hosting.resharding import Image
from headrace.spark.jobs import resharding as _resharding
from headrace.spark.jobs.job import Shape, read_shape, write_shape
from headrace.spark.jobs.resharding import (
    carried,
    check_reshardable,
    folder_of,
    forget,
    has_taken,
    pending,
    reshard,
    sent_images,
)
from headrace.spark.runtime.hadoop import HadoopPath, Place, files_in, job_directory, remove, write
from headrace_properties.reference import run_reference
from headrace_scenarios.chaos.object_store import ObjectStore
from tests.sim.rig import letters, mail
from tests.spark.microbatches import Store, half, query, rest
from tests.spark.stages import Stages


class Killed(BaseException):
    """The driver has died."""


class Machine:
    """A job at rest with its directory; its checkpoint is in memory."""

    def __init__(self, directory: Place, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pipeline = mail()
        feed = letters(self.pipeline)
        self.expected = run_reference(self.pipeline, feed).outputs
        self.running = query(self.pipeline, intervals=2)
        self.left = half(self.running, feed)
        self.directory, self._spark = directory, spark
        self.commit(self.running.number - 1)
        write_shape(self.directory, self._shape(2), self.pipeline)
        monkeypatch.setattr(_resharding, "StoredState", self._stored)

    def _shape(self, intervals: int, splits: Splits | None = None) -> Shape:
        return Shape("pipelined", "mail", intervals, ["mail"], [["sorter"], ["counter"]], splits=splits or {})

    def _stored(
        self, _spark: object, _checkpoint: object, _operator: int, name: str, **_options: bool
    ) -> "Machine":
        return replace_computation(self, name)

    def images(self) -> dict[str, Image]:
        return {
            group: (store.head, dict(store.chunks))
            for group, store in self.running.stores.items()
            if store.head is not None and computation_of(group) == self.computation
        }

    computation = ""

    def commit(self, batch: int) -> None:
        write(self.directory / f"checkpoints/pipeline/commits/{batch}", b"")

    def deploy(self, intervals: int, splits: Splits | None = None) -> None:
        """Start it with this number of intervals; it may die before it runs."""
        before = read_shape(self.directory)
        assert before is not None
        shape = self._shape(intervals, splits)
        if (before.intervals, before.splits) != (shape.intervals, shape.splits):
            plan = self.running.laid_out(intervals, splits=splits)
            checkpoint = self.directory / "checkpoints/pipeline"
            reshard(self._spark, self.directory, {checkpoint: plan}, shape, self.pipeline)
        written = read_shape(self.directory)
        change = pending(self.directory, written)
        sent = sent_images(self._spark, self.directory, change)
        write_shape(self.directory, carried(written, shape, change), self.pipeline)
        forget(self.directory, written, change)
        self.running.plan = replace(self.running.laid_out(intervals, change, splits), sent=sent)

    def run(self) -> None:
        """Process what is left."""
        for store in (
            group for name in self.pipeline.computations for group in self.running.plan.groups[name]
        ):
            self.running.stores.setdefault(store, Store())
        rest(self.running, self.left)
        assert self.running.outputs == self.expected


def replace_computation(machine: Machine, name: str) -> Machine:
    machine.computation = name
    return machine


class StagedMachine:
    """A staged job with its directory; its state is in memory. The counter has not taken all that the sorter has made."""

    def __init__(self, directory: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(os, "fsync", lambda _descriptor: None)
        self.pipeline, self.directory, self._spark = mail(), directory, spark
        feed = letters(self.pipeline)
        self.expected = run_reference(self.pipeline, feed).outputs
        self.running = Stages(self.pipeline, directory, intervals=2)
        for at, name in ((0, "sorter"), (15, "counter"), (30, "sorter")):
            self.running.inject(feed.entries[at : at + 15])
            self.running.run(name)
        self.left = feed.entries[45:]
        self._commit()
        write_shape(self.directory, self._shape(2), self.pipeline)
        monkeypatch.setattr(_resharding, "StoredState", self._stored)

    def _shape(self, intervals: int, splits: Splits | None = None) -> Shape:
        return Shape("staged", "mail", intervals, ["mail"], [["sorter"], ["counter"]], splits=splits or {})

    def _stored(
        self, _spark: object, checkpoint: Path, operator: int, name: str, **_options: bool
    ) -> SimpleNamespace:
        assert (checkpoint.name, operator) == (name, 0)
        return SimpleNamespace(images=partial(self.running.stored, name))

    def _checkpoint(self, name: str) -> Path:
        return self.directory / "checkpoints" / name

    def _commit(self) -> None:
        for name, stage in self.running._stages.items():
            number, path = stage.number - 1, self._checkpoint(name)
            write(path / f"offsets/{number}", b"v1\n{}\n" + msgspec.json.encode(stage.offset))
            write(path / f"commits/{number}", b"")

    def deploy(self, intervals: int, splits: Splits | None = None) -> None:
        """Start it with this number of intervals; it may die before it runs."""
        before, shape = read_shape(self.directory), self._shape(intervals, splits)
        assert before is not None
        if (before.intervals, before.splits) != (shape.intervals, shape.splits):
            if not all(
                has_taken(self._checkpoint(name), before.reshards) for name in self.pipeline.computations
            ):
                self.running.finish()
                self._commit()
            queries: dict[Place, JobPlan] = {
                self._checkpoint(name): self.running.laid_out(name, intervals, splits)
                for name in self.pipeline.computations
            }
            reshard(self._spark, self.directory, queries, shape, self.pipeline)
        written = read_shape(self.directory)
        assert written is not None
        change = pending(self.directory, written)
        write_shape(self.directory, carried(written, shape, change), self.pipeline)
        forget(self.directory, written, change)
        self.running.divided(intervals, splits, written.reshards, change)

    def run(self) -> None:
        """Process what is left."""
        self.running.inject(self.left)
        self.running.settle()
        assert self.running.outputs == self.expected
        self._commit()
        shape = read_shape(self.directory)
        assert shape is not None
        self.deploy(shape.intervals, shape.splits)
        assert shape.reshard is None or files_in(self.directory / "intervals") == []


@pytest.fixture(params=["mounted", "object store"])
def machine(
    request: pytest.FixtureRequest, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Machine | StagedMachine:
    """One with its directory on a file system that is mounted, one in a store, and a staged one."""
    if request.param == "staged":
        return StagedMachine(tmp_path / "job", spark, monkeypatch)
    if request.param == "mounted":
        return Machine(tmp_path / "job", spark, monkeypatch)
    store: ObjectStore = request.getfixturevalue("object_store")
    return Machine(job_directory(f"{store.uri}/job", spark), spark, monkeypatch)


def _dying(monkeypatch: pytest.MonkeyPatch, at: int) -> None:
    """Let the driver die at this write to a file: halfway through it, or, in a store, before the file appears."""
    count = 0

    def dies() -> bool:
        nonlocal count
        count += 1
        return count == at

    def write_file(path: Path, data: bytes) -> None:
        dead = dies()
        path.write_bytes(data[: len(data) // 2] if dead else data)
        if dead:
            raise Killed

    def in_store(write: Callable[[HadoopPath, bytes], None]) -> Callable[[HadoopPath, bytes], None]:
        def writing(path: HadoopPath, data: bytes) -> None:
            if dies():
                raise Killed
            write(path, data)

        return writing

    monkeypatch.setattr("headrace.spark.runtime.hadoop.write_file", write_file)
    monkeypatch.setattr("headrace.spark.runtime.files.write_file", write_file)
    for name in ("create", "write"):
        monkeypatch.setattr(HadoopPath, name, in_store(getattr(HadoopPath, name)))


WRITES = 2 * 3 + 1
"""An image of each interval, and the shape with them. The start of the query writes the shape once more."""


@pytest.mark.parametrize(
    ("machine", "then"),
    [
        *[(layout, then) for layout in ("mounted", "staged") for then in (2, 3, 1)],
        ("object store", 3),
        *[pytest.param("object store", then, marks=pytest.mark.nightly) for then in (2, 1)],
    ],
    indirect=["machine"],
)
@pytest.mark.parametrize("at", range(1, WRITES + 2))
def test_a_driver_that_dies_leaves_the_old_intervals_or_the_new_ones(
    machine: Machine | StagedMachine, monkeypatch: pytest.MonkeyPatch, at: int, then: int
) -> None:
    """It dies at each of its writes. The next one is given the old number, the new one, or another."""
    with monkeypatch.context() as patched:
        _dying(patched, at)
        with pytest.raises(Killed):
            machine.deploy(3)
    shape = read_shape(machine.directory)
    assert shape is not None
    assert (shape.intervals, shape.reshards) == ((2, 0) if at <= WRITES else (3, 1))
    machine.deploy(then)
    machine.run()


SPLIT: Splits = {"counter": (1, 2)}


@pytest.mark.parametrize(
    "machine", ["mounted", "staged", pytest.param("object store", marks=pytest.mark.nightly)], indirect=True
)
@pytest.mark.parametrize("then", [None, SPLIT], ids=["without the splits", "with them"])
@pytest.mark.parametrize("at", range(1, WRITES + 2))
def test_a_driver_that_dies_as_it_splits_a_hot_interval_leaves_it_whole_or_split(
    machine: Machine | StagedMachine, monkeypatch: pytest.MonkeyPatch, at: int, then: Splits | None
) -> None:
    with monkeypatch.context() as patched:
        _dying(patched, at)
        with pytest.raises(Killed):
            machine.deploy(2, SPLIT)
    shape = read_shape(machine.directory)
    assert shape is not None
    assert (shape.splits, shape.reshards) == (({}, 0) if at <= WRITES else (SPLIT, 1))
    machine.deploy(2, then)
    machine.run()


@pytest.mark.parametrize("machine", ["staged"], indirect=True)
def test_a_staged_computation_that_was_removed_and_comes_back_brings_its_rows(machine: StagedMachine) -> None:
    """It comes back with other intervals, and its checkpoint is still there."""
    without = msgspec.structs.replace(machine._shape(2), stages=[["sorter"]])
    write_shape(machine.directory, without, machine.pipeline)
    machine.deploy(3)
    machine.run()


def test_another_change_waits_until_all_intervals_have_their_rows(machine: Machine) -> None:
    machine.deploy(3)
    machine.commit(machine.running.number)
    with pytest.raises(SparkHostError, match="6 of its key intervals have not taken their rows yet"):
        machine.deploy(1)


def test_a_change_is_forgotten_once_all_have_committed_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what a start has left that died at the last image."""
    with monkeypatch.context() as patched:
        _dying(patched, WRITES - 1)
        with pytest.raises(Killed):
            machine.deploy(3)
    machine.deploy(3)
    change, folder = machine.running.plan.reshard, machine.directory / "intervals"
    assert change is not None
    assert len(files_in(folder)) == 2
    machine.deploy(3)
    assert len(files_in(folder)) == 2
    write(folder_of(machine.directory, change) / "done", b"")
    machine.deploy(3)
    assert files_in(folder) == []
    assert machine.running.plan.reshard is None
    machine.deploy(3)


@pytest.mark.parametrize("machine", ["object store"], indirect=True)
def test_a_missing_image_is_an_error_of_the_driver_that_has_to_send_it(machine: Machine) -> None:
    machine.deploy(3)
    change = machine.running.plan.reshard
    assert change is not None
    remove(files_in(folder_of(machine.directory, change))[0])
    with pytest.raises(CheckpointDamagedError, match=r"webhdfs://.*/job/intervals/1-\w+/\w+.*it is missing"):
        machine.deploy(3)


@pytest.mark.parametrize("machine", ["mounted"], indirect=True)
def test_what_keeps_the_number_as_it_is(machine: Machine) -> None:
    shape = read_shape(machine.directory)
    assert shape is not None
    with pytest.raises(
        SparkHostError, match=r"2 key intervals, which the names in its History contain.*intervals=2"
    ):
        check_reshardable(machine.directory, shape, machine.pipeline, history=True)
    with pytest.raises(
        SparkHostError, match=r"keeps the state of \['counter'\].*with a pipeline that has them"
    ):
        check_reshardable(machine.directory, shape, machine.pipeline.without("counter"), history=False)
