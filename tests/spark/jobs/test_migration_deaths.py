"""State that moves to a new checkpoint while drivers die: a job is the old one or the new one, mounted and in a store."""

from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession

from headrace.spark import SparkHostError
from headrace.spark.hosting.images import Image
from headrace.spark.hosting.layout import JobPlan, Splits, computation_of
from headrace.spark.jobs import deployment_settings as _job
from headrace.spark.jobs import migration as _migration
from headrace.spark.jobs.deployment_settings import Shape, checkpoint_of, read_shape, write_shape
from headrace.spark.jobs.migration import check_movable, migrate, needs_migration
from headrace.spark.runtime.hadoop import HadoopPath, Place, create, files_in, job_directory
from headrace_properties.reference import run_reference
from headrace_scenarios.chaos.object_store import ObjectStore
from tests.sim.rig import letters, mail
from tests.spark.microbatches import half, query, rest


class Killed(BaseException):
    """The driver has died."""


class Machine:
    """A job at rest with its directory; the state of its checkpoints is in memory."""

    def __init__(self, directory: Place, monkeypatch: pytest.MonkeyPatch) -> None:
        self.pipeline = mail()
        feed = letters(self.pipeline)
        self.expected = run_reference(self.pipeline, feed).outputs
        self.running = query(self.pipeline, intervals=2)
        self.left = half(self.running, feed)
        self.directory = directory
        self.batches_before = 0
        self.plan(self.running.number - 1)
        self._seeds: dict[str, tuple[JobPlan, Mapping[str, Image]]] = {}
        write_shape(self.directory, self._shape(2), self.pipeline)
        monkeypatch.setattr(_migration, "StoredState", self._stored)
        monkeypatch.setattr(_migration, "_seed", self._seed)

    def _shape(self, intervals: int, splits: Splits | None = None) -> Shape:
        return Shape(
            "mail",
            intervals,
            ["mail"],
            [["sorter"], ["counter"]],
            splits=splits or {},
            sources=[["mail/0"]],
            partitions=1,
        )

    def _stored(self, _spark: object, _directory: object, _shape: object, name: str) -> SimpleNamespace:
        def images() -> dict[str, Image]:
            return {
                group: (store.head, dict(store.chunks))
                for group, store in self.running.stores.items()
                if store.head is not None and computation_of(group) == name
            }

        return SimpleNamespace(images=images)

    def _seed(self, _settings: object, plan: JobPlan, checkpoint: Place, images: Mapping[str, Image]) -> None:
        self._seeds[checkpoint.name] = plan, images
        for log in ("offsets", "commits"):
            create(checkpoint / log / "0", b"v1\n{}\nseed")

    def plan(self, batch: int, *, commit: bool = True) -> None:
        """Plan a micro-batch of the first checkpoint, and commit it."""
        low = self.running.watermark_ms
        times = {"batchWatermarkMs": low, "batchTimestampMs": 0, "nextBatchWatermarkMs": low}
        for log in ("offsets", "commits") if commit else ("offsets",):
            create(
                self.directory / f"checkpoints/pipeline/{log}/{batch}",
                b"v1\n" + msgspec.json.encode(times) + b"\nread",
            )

    def deploy(self, intervals: int, splits: Splits | None = None) -> None:
        """Start it with this number of intervals; it may die before it runs."""
        before = read_shape(self.directory)
        assert before is not None
        shape = msgspec.structs.replace(
            self._shape(intervals, splits), checkpoint=before.checkpoint, batches_before=before.batches_before
        )
        if needs_migration(before, shape):
            self._go_on(before)
            settings: Any = SimpleNamespace(directory=self.directory, spark=None)
            migrate(settings, before, shape, self.pipeline, self.running.laid_out(intervals, splits))
            moved = read_shape(self.directory)
            assert moved is not None
            shape = moved
        write_shape(self.directory, shape, self.pipeline)
        self._go_on(shape)

    def _go_on(self, shape: Shape) -> None:
        """Go on with what a checkpoint has."""
        if shape.checkpoint in self._seeds:
            assert shape.batches_before == self.running.number - 1
            self.running.seed(*self._seeds[shape.checkpoint])

    def run(self) -> None:
        """Process what is left."""
        rest(self.running, self.left)
        assert self.running.outputs == self.expected


@pytest.fixture(params=["mounted", "object store"])
def machine(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """One with its directory on a file system that is mounted, and one in a store."""
    if request.param == "mounted":
        return Machine(tmp_path / "job", monkeypatch)
    store: ObjectStore = request.getfixturevalue("object_store")
    spark: SparkSession = request.getfixturevalue("spark")
    return Machine(job_directory(f"{store.uri}/job", spark), monkeypatch)


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
    monkeypatch.setattr("headrace.spark.runtime.job_files.write_file", write_file)
    for name in ("create", "write"):
        monkeypatch.setattr(HadoopPath, name, in_store(getattr(HadoopPath, name)))


SEAL = 5
"""The write that makes the new checkpoint count: behind two of the seed, and two that tell its logs. Two of the shape follow."""


@pytest.mark.parametrize(
    ("machine", "then"),
    [
        *[("mounted", then) for then in (2, 3, 1)],
        ("object store", 3),
        *[pytest.param("object store", then, marks=pytest.mark.nightly) for then in (2, 1)],
    ],
    indirect=["machine"],
)
@pytest.mark.parametrize("at", range(1, SEAL + 3))
def test_a_driver_that_dies_leaves_the_old_intervals_or_the_new_ones(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, at: int, then: int
) -> None:
    """It dies at each of its writes. The next one is given the old number, the new one, or another."""
    with monkeypatch.context() as patched:
        _dying(patched, at)
        with pytest.raises(Killed):
            machine.deploy(3)
    shape = read_shape(machine.directory)
    assert shape is not None
    assert shape.intervals == (2 if at <= SEAL else 3)
    machine.deploy(then)
    machine.run()


SPLIT: Splits = {"counter": (1, 2)}


@pytest.mark.parametrize(
    "machine", ["mounted", pytest.param("object store", marks=pytest.mark.nightly)], indirect=True
)
@pytest.mark.parametrize("then", [None, SPLIT], ids=["without the splits", "with them"])
@pytest.mark.parametrize("at", range(1, SEAL + 3))
def test_a_driver_that_dies_as_it_splits_a_hot_interval_leaves_it_whole_or_split(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, at: int, then: Splits | None
) -> None:
    with monkeypatch.context() as patched:
        _dying(patched, at)
        with pytest.raises(Killed):
            machine.deploy(2, SPLIT)
    shape = read_shape(machine.directory)
    assert shape is not None
    assert shape.splits == ({} if at <= SEAL else SPLIT)
    machine.deploy(2, then)
    machine.run()


@pytest.mark.parametrize("machine", ["mounted"], indirect=True)
def test_what_a_start_has_left_that_died_is_deleted(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        _dying(patched, SEAL)
        with pytest.raises(Killed):
            machine.deploy(3)
    assert len(files_in(machine.directory / "checkpoints")) == 2
    machine.deploy(3)
    shape = read_shape(machine.directory)
    assert shape is not None
    left = files_in(machine.directory / "checkpoints")
    assert {place.name for place in left} == {"pipeline", shape.checkpoint}
    assert [place.name for place in files_in(machine.directory / "checkpoints/pipeline")] == ["offsets"]


@pytest.mark.parametrize("machine", ["mounted"], indirect=True)
@pytest.mark.parametrize("commit", [False, True])
def test_a_driver_that_has_gone_on_meanwhile_wins(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, *, commit: bool
) -> None:
    """It plans a micro-batch of the old checkpoint just before the seal, which comes too late."""
    seal = _job.seal

    def late(*args: Any) -> None:
        machine.plan(machine.running.number, commit=commit)
        seal(*args)

    monkeypatch.setattr(_migration, "seal", late)
    with pytest.raises(SparkHostError, match="another driver has gone on with the job"):
        machine.deploy(3)
    shape = read_shape(machine.directory)
    assert shape is not None
    assert (shape.intervals, shape.checkpoint) == (2, "pipeline")
    assert len(files_in(machine.directory / "checkpoints")) == 1


@pytest.mark.parametrize("machine", ["mounted"], indirect=True)
def test_an_input_that_stays_goes_on_where_it_was(machine: Machine) -> None:
    """Another injector takes the place of the one before it, and reads from the beginning."""
    before = read_shape(machine.directory)
    assert before is not None
    before = msgspec.structs.replace(before, injectors=["gone", "mail"], sources=[["gone/0"], ["mail/0"]])
    now = msgspec.structs.replace(before, injectors=["post", "mail"], sources=[["post/0"], ["mail/0"]])
    assert needs_migration(before, now)
    settings: Any = SimpleNamespace(directory=machine.directory, spark=None)
    entry = machine.directory / f"checkpoints/pipeline/offsets/{machine.running.number - 1}"
    create(entry, entry.read_bytes().replace(b"\nread", b"\nof another\nread"))
    create(machine.directory / "checkpoints/pipeline/sources/1/0", b"files")
    migrate(settings, before, now, machine.pipeline, machine.running.laid_out(2))
    moved = read_shape(machine.directory)
    assert moved is not None
    checkpoint = checkpoint_of(machine.directory, moved)
    assert (checkpoint / "offsets/0").read_bytes().splitlines()[2:] == [b"-", b"read"]
    assert [place.name for place in files_in(checkpoint / "sources")] == ["1"]
    assert (checkpoint / "sources/1/0").read_bytes() == b"files"
    assert moved.batches_before == machine.running.number - 1 < moved.wake_until
    for log, name in (("offsets", "batchWatermarkMs"), ("commits", "nextBatchWatermarkMs")):
        told = msgspec.json.decode((checkpoint / log / "0").read_bytes().splitlines()[1])
        assert told[name] == machine.running.watermark_ms


@pytest.mark.parametrize("machine", ["mounted"], indirect=True)
def test_what_cannot_move(machine: Machine) -> None:
    shape = read_shape(machine.directory)
    assert shape is not None
    other = msgspec.structs.replace(shape, intervals=3)
    with pytest.raises(
        SparkHostError, match=r"2 key intervals, which the names in its History contain.*intervals=2"
    ):
        check_movable(machine.directory, shape, other, history=True)
    unknown = msgspec.structs.replace(shape, sources=None, injectors=["mail", "post"])
    settings: Any = SimpleNamespace(directory=machine.directory, spark=None)
    with pytest.raises(SparkHostError, match="1 sources were read, and which is which was not noted"):
        migrate(settings, unknown, other, machine.pipeline, machine.running.laid_out(3))


@pytest.mark.parametrize(
    "left", [{"layout": "staged"}, {"reshard": {"path": "/old/intervals/1-ab"}}], ids=["staged", "intervals"]
)
def test_what_an_earlier_version_has_not_finished_is_refused(tmp_path: Path, left: dict[str, Any]) -> None:
    shape = {"pipeline": "mail", "intervals": 2, "injectors": ["mail"], "stages": [["sorter"]]} | left
    (tmp_path / "deployment.json").write_bytes(msgspec.json.encode(shape))
    with pytest.raises(SparkHostError, match="earlier version"):
        read_shape(tmp_path)
