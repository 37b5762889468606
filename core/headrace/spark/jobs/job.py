"""Settings of a deployment, and the properties that its directory fixes for good.

Rules of this file: Spark's checkpoints store state by key interval, so the layout cannot change, and the number of intervals only
at a start of the job (`headrace.spark.jobs.resharding`). A pipeline that does not fit its directory is refused before any
query starts.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from headrace.api.json_text import JsonError, read_json
from headrace.api.pipeline import Pipeline
from headrace.api.versions import check_version, switches_of
from headrace.spark.errors import SparkHostError
from headrace.spark.hosting.history_sample import FULL, Sample
from headrace.spark.hosting.layout import Reshard, Splits
from headrace.spark.hosting.placement import partitions_for
from headrace.spark.io_errors import CheckpointDamagedError
from headrace.spark.runtime.hadoop import Place, files_in, write
from headrace.spark.runtime.session import most_partitions
from headrace.spark.sinks.job_sinks import Sinks


class Shape(msgspec.Struct, frozen=True):
    """The deployment that a directory was created for.

    Attributes:
        layout: ``pipelined`` or ``staged``.
        pipeline: name of the pipeline.
        intervals: number of key intervals of each computation, but for those that splits have added.
        injectors: names, in order.
        stages: computations, level by level.
        place: path of the directory.
        switches: switches of all computations ever deployed there (see `headrace.api.versions`).
        levels: levels of all computations ever deployed there; pipelined only.
        partitions: number of Spark's partitions, which the names of the groups depend on; 0: they are plain.
        fused: whether one operator hosts all levels; pipelined only.
        reshards: how often its keys were divided anew into intervals.
        reshard: the last time, until all intervals are known to have their rows.
        consumers: by computation, who consumes its outputs or follows its pending work; ``None``: not known. Pipelined only.
        wake_until: number of the last micro-batch in which all intervals are called, because ``consumers`` changed.
        splits: by computation, the intervals that were split.
        own_sources: sources of its query beside the inputs; ``None``: they are not known. Pipelined only.
    """

    layout: str
    pipeline: str
    intervals: int
    injectors: list[str]
    stages: list[list[str]]
    place: str = ""
    switches: dict[str, list[str]] = {}
    levels: dict[str, int] = {}
    partitions: int = 0
    fused: bool = False
    own_sources: list[str] | None = None
    consumers: dict[str, list[str]] | None = None
    wake_until: int = -1
    reshards: int = 0
    reshard: Reshard | None = None
    splits: Splits = {}

    def division_at(self, batch: int, computation: str) -> tuple[int, Splits]:
        """Return a computation's intervals and splits in the state which a micro-batch has committed, if it is the last one."""
        if self.reshard is not None and batch <= self.reshard.of(computation).batch:
            return self.reshard.before, self.reshard.splits_before
        return self.intervals, self.splits

    def operator_of(self, computation: str) -> int:
        """Return the number of the operator with a computation's state. Spark numbers them from the last one to the first."""
        if self.fused or self.layout == "staged":
            return 0
        return len(self.stages) - 1 - self.known_levels()[computation]

    @property
    def computations(self) -> list[str]:
        """The computations, level by level."""
        return [name for names in self.stages for name in names]

    def known_levels(self) -> dict[str, int]:
        """Return the levels of all computations whose state is stored: also of removed ones, if the layout is pipelined."""
        return {name: level for level, names in enumerate(self.stages) for name in names} | self.levels


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a deployment; see `deploy`."""

    spark: SparkSession
    directory: Place
    sinks: Sinks
    intervals: int
    clock_us: int | None
    trigger_us: int | None
    max_records: int
    retention_us: int | None
    sample: Sample = FULL
    available_now: bool = False
    idle_us: Mapping[str, int] = field(default_factory=dict)
    splits: Splits = field(default_factory=dict)
    partitions: int = 0
    """Partitions of each query; 0: those of the session, because the directory is of an earlier version."""
    fused: bool = False
    """Whether one operator hosts all levels; pipelined only."""

    def placed(self, before: Shape | None) -> "Settings":
        """Return these settings with the partitions and operators of the deployment before, or else of a new one."""
        if before is not None:
            return replace(self, partitions=before.partitions, fused=before.fused)
        partitions = partitions_for(self.intervals, most_partitions(self.spark))
        return replace(self, partitions=partitions, fused=partitions == 1)

    @property
    def history(self) -> Sample | None:
        """The keys that the History includes; ``None``: no History."""
        return self.sample if self.sinks.history is not None else None

    def checkpoint(self, name: str) -> Place:
        """Return the directory of a query's checkpoint."""
        return self.directory / "checkpoints" / name


_NAME = "deployment.json"
_decode = msgspec.json.Decoder(Shape).decode


def read_shape(directory: Place) -> Shape | None:
    """Read the deployment that a directory was created for; ``None``: there is none yet.

    Raises:
        SparkHostError: it cannot be read.
    """
    path = directory / _NAME
    try:
        return read_json(path.read_bytes(), _decode)
    except FileNotFoundError:
        return None
    except (OSError, JsonError) as error:
        raise unreadable(path, error) from error


def unreadable(path: Place, error: OSError | JsonError) -> SparkHostError:
    """Return the error for a file in a job's directory that is damaged."""
    reason = (error.strerror if isinstance(error, OSError) else "") or error
    return SparkHostError(
        f"{str(path)!r} cannot be read: {reason}", "Restore it, or the whole directory, from a backup"
    )


def shape_of_job(directory: Place) -> Shape:
    """Read the deployment that a directory was created for.

    Raises:
        SparkHostError: there is none, or it cannot be read.
    """
    shape = read_shape(directory)
    if shape is None:
        problem = f"no job was deployed in the directory {str(directory)!r}"
        raise SparkHostError(
            problem,
            "Give the directory that was given to deploy; the error that stopped a job has it",
        )
    return shape


def check_computation(directory: Place, name: str, known: Collection[str]) -> None:
    """Refuse a computation that the job in a directory does not have.

    Raises:
        SparkHostError: it is unknown.
    """
    if name not in known:
        problem = f"the job in {str(directory)!r} has no computation {name!r}"
        raise SparkHostError(problem, f"Its computations are: {', '.join(map(repr, known))}")


def last_committed(checkpoint: Place) -> int:
    """Return the number of the last micro-batch that Spark committed, from its checkpoint; -1: none."""
    return newest_in(checkpoint / "commits")


def newest_in(log: Place) -> int:
    """Return the number of the newest entry of one of Spark's logs; -1: none."""
    return max([int(path.name) for path in files_in(log) if path.name.isdigit()], default=-1)


def write_shape(directory: Place, shape: Shape, pipeline: Pipeline) -> None:
    """Write the shape of a deployment to its directory, with everything that can no longer change."""
    before = read_shape(directory)
    switches = {} if before is None else dict(before.switches)
    for name, spec in pipeline.computations.items():
        switches.setdefault(name, list(switches_of(spec)))
    now = msgspec.structs.replace(shape, place=str(directory), switches=switches)
    write(directory / _NAME, msgspec.json.encode(now))


def check_switches(directory: Place, pipeline: Pipeline) -> None:
    """Compare a pipeline with all versions ever deployed in a directory.

    Raises:
        PipelineError: a computation had other ``productions`` or ``exactly_once``.
    """
    before = read_shape(directory)
    known = {} if before is None else before.switches
    check_version(
        pipeline,
        "this one",
        {name: ("a version that was deployed", tuple(switches)) for name, switches in known.items()},
    )


def _check_place(directory: Place, before: Shape) -> None:
    """Refuse a moved or copied directory: state records the absolute path of its schema, so a copy would corrupt the original."""
    place = before.place or str(directory)
    if place != str(directory) and not _is_same(place, directory):
        problem = f"it was moved or copied here from {place}, and Spark's state records that path"
        raise CheckpointDamagedError(
            str(directory),
            problem,
            "Move it back, make that path point here, or start in an empty directory",
        )


def _is_same(place: str, directory: Place) -> bool:
    """Return whether a path leads to the directory, though it reads otherwise."""
    return isinstance(directory, Path) and Path(place).exists() and Path(place).samefile(directory)


def check_shape(directory: Place, before: Shape | None, now: Shape) -> None:
    """Refuse a deployment that does not fit the state in its directory.

    Raises:
        SparkHostError: it does not fit.
        CheckpointDamagedError: the directory was moved or copied.
    """
    if before is None:
        return
    _check_place(directory, before)
    where = f"the directory {str(directory)!r} belongs to"
    if (before.layout, before.pipeline) != (now.layout, now.pipeline):
        problem = f"{where} the {before.layout} pipeline {before.pipeline!r}, not to the {now.layout} {now.pipeline!r}"
        raise SparkHostError(problem, "Give each deployment a separate directory")
    if (before.intervals, before.splits) != (now.intervals, now.splits):
        problem = f"{where} a deployment whose keys another driver has just divided into {before.intervals} key intervals"
        raise SparkHostError(problem, "Stop that driver, and deploy again")
