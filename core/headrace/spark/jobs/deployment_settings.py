"""Settings of a deployment, and the properties that its directory fixes for good.

Rules of this file:

* A checkpoint fixes the sources, the operators and the key intervals of its query. What needs others goes to a new checkpoint of
  the same job (`headrace.spark.jobs.migration`).
* A **seal** ends a checkpoint: an entry of its offset log, which has the shape of the job from then on. Whoever reads the shape
  follows the seals, since a driver may have died before it wrote that to ``deployment.json``.
* A pipeline that does not fit its directory is refused before any query starts.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
from pyspark.sql import SparkSession

from headrace.api.json_text import JsonError, read_json
from headrace.api.pipeline import Pipeline
from headrace.api.versions import check_version, switches_of
from headrace.spark.host_errors import SparkHostError
from headrace.spark.hosting.history_sample import FULL, Sample
from headrace.spark.hosting.layout import Splits
from headrace.spark.hosting.placement import partitions_for
from headrace.spark.io_errors import CheckpointDamagedError
from headrace.spark.runtime.hadoop import Place, create_once, files_in, write
from headrace.spark.runtime.spark_session import most_partitions
from headrace.spark.sinks.job_sinks import Sinks

_LAYOUT, _DIVIDED = "one variable", "pipelined"


class Shape(msgspec.Struct, frozen=True):
    """The deployment that a directory was created for.

    Attributes:
        pipeline: name of the pipeline.
        intervals: number of key intervals of each computation, but for those that splits have added.
        injectors: names, in order.
        stages: computations, level by level.
        place: path of the directory.
        layout: how its state is stored. Of ``pipelined``, as earlier versions began it, the operators of levels keep headers and
            chunks in two variables.
        switches: switches of all computations ever deployed there (see `headrace.api.versions`).
        levels: levels of all computations ever deployed there.
        partitions: number of Spark's partitions, which the groups' names depend on; 0: an earlier version passed frames.
        fused: whether one operator hosts all levels.
        consumers: by computation, who consumes its outputs or follows its pending work; ``None``: not known.
        wake_until: number of the last micro-batch in which all intervals are called, because ``consumers`` changed.
        splits: by computation, the intervals that were split.
        own_sources: sources of its query beside the inputs; ``None``: they are not known.
        sources: for each source of its query, in the order of the offset log, what reads it: ``INJECTOR/NUMBER`` for one of an
            input, or one of ``own_sources``; ``None``: not known.
        checkpoint: name of the directory of its checkpoint.
        batches_before: number of micro-batches of its earlier checkpoints. The first one of another only takes their state.
        reshard: what a version before this one had begun, and this one cannot finish.
    """

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
    splits: Splits = {}
    layout: str = _LAYOUT
    sources: list[list[str]] | None = None
    checkpoint: str = "pipeline"
    batches_before: int = 0
    reshard: dict[str, Any] | None = None

    def operator_of(self, computation: str) -> int:
        """Return the number of the operator with a computation's state. Spark numbers them from the last one to the first."""
        if self.fused:
            return 0
        return len(self.stages) - 1 - self.known_levels()[computation]

    @property
    def is_divided(self) -> bool:
        """Whether the state is in two variables, as earlier versions began it: then it can be read, and moved."""
        return self.layout == _DIVIDED and not self.fused

    @property
    def computations(self) -> list[str]:
        """The computations, level by level."""
        return [name for names in self.stages for name in names]

    def known_levels(self) -> dict[str, int]:
        """Return the levels of all computations whose state is stored: also of removed ones."""
        return {name: level for level, names in enumerate(self.stages) for name in names} | self.levels


@dataclass(frozen=True, slots=True)
class DeploymentSettings:
    """Settings of a deployment; see `deploy`."""

    spark: SparkSession
    directory: Place
    sinks: Sinks
    intervals: int
    clock_us: int | None
    trigger_us: int | None
    sample: Sample = FULL
    available_now: bool = False
    idle_us: Mapping[str, int] = field(default_factory=dict)
    splits: Splits = field(default_factory=dict)
    partitions: int = 0
    """Partitions of each query; 0: they are not known yet."""
    fused: bool = False
    """Whether one operator hosts all levels."""

    def placed(self, before: Shape | None) -> "DeploymentSettings":
        """Return these settings with the partitions and operators of the deployment before, or else of a new one.

        With another number of intervals the state moves to a new checkpoint, which has its own. So does that of a version that
        passed pandas frames to the operators, and noted no partitions.
        """
        if before is not None and before.partitions and before.intervals == self.intervals:
            return replace(self, partitions=before.partitions, fused=before.fused)
        partitions = partitions_for(self.intervals, most_partitions(self.spark))
        return replace(self, partitions=partitions, fused=partitions == 1)

    @property
    def history(self) -> Sample | None:
        """The keys that the History includes; ``None``: no History."""
        return self.sample if self.sinks.history is not None else None


_NAME = "deployment.json"
_decode = msgspec.json.Decoder(Shape).decode


def read_shape(directory: Place) -> Shape | None:
    """Read the deployment that a directory was created for; ``None``: there is none yet.

    Raises:
        SparkHostError: it cannot be read, or is of an earlier version.
    """
    path = directory / _NAME
    try:
        shape = read_json(path.read_bytes(), _decode)
        _check_version(directory, shape)
        while (sealed := seal_of(checkpoint_of(directory, shape))) is not None:
            shape = sealed
    except FileNotFoundError:
        return None
    except (OSError, JsonError) as error:
        raise unreadable(path, error) from error
    return shape


def _check_version(directory: Place, shape: Shape) -> None:
    """Refuse what an earlier version has left that this one would not see."""
    left = ""
    if shape.layout not in (_DIVIDED, _LAYOUT):
        left = f"is laid out as {shape.layout!r}, which this version does not run"
    elif shape.reshard is not None and not _is_taken(directory, shape.reshard):
        left = "has key intervals that an earlier version was still moving"
    if left:
        remedy = "Let the earlier version process what it has read; docs/how-to/operate.md says how the job moves over"
        raise SparkHostError(f"the job in {str(directory)!r} {left}", remedy)


def _is_taken(directory: Place, reshard: dict[str, Any]) -> bool:
    return bool((directory / "intervals" / reshard["path"].rpartition("/")[2] / "done").exists())


def checkpoint_of(directory: Place, shape: Shape) -> Place:
    """Return the directory of the checkpoint of a job."""
    return directory / "checkpoints" / shape.checkpoint


_SEAL = b"sealed by headrace\n"


def seal(checkpoint: Place, committed: int, shape: Shape) -> None:
    """End a checkpoint: from now on the job has another shape.

    Args:
        checkpoint: its directory.
        committed: number of its last micro-batch; -1: there was none.
        shape: of the job from now on.

    Raises:
        FileExistsError: another driver has planned a further micro-batch there, or has sealed it.
    """
    create_once(checkpoint / "offsets" / str(committed + 1), _SEAL + msgspec.json.encode(shape))


def seal_of(checkpoint: Place) -> Shape | None:
    """Return the shape in the seal of a checkpoint; ``None``: it has none."""
    newest = newest_in(checkpoint / "offsets")
    if newest < 0:
        return None
    data = (checkpoint / "offsets" / str(newest)).read_bytes()
    return read_json(data.removeprefix(_SEAL), _decode) if data.startswith(_SEAL) else None


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
    write(directory / _NAME, msgspec.json.encode(completed(directory, shape, pipeline)))


def completed(directory: Place, shape: Shape, pipeline: Pipeline) -> Shape:
    """Return a shape with the switches of all computations ever deployed in a directory."""
    before = read_shape(directory)
    switches = {} if before is None else dict(before.switches)
    for name, spec in pipeline.computations.items():
        switches.setdefault(name, list(switches_of(spec)))
    return msgspec.structs.replace(shape, place=str(directory), switches=switches)


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


def check_shape(directory: Place, before: Shape | None, pipeline: str) -> None:
    """Refuse a deployment in the directory of another one.

    Raises:
        SparkHostError: it has that of another pipeline.
        CheckpointDamagedError: the directory was moved or copied.
    """
    if before is None:
        return
    _check_place(directory, before)
    if before.pipeline != pipeline:
        problem = f"the directory {str(directory)!r} belongs to the pipeline {before.pipeline!r}, not to {pipeline!r}"
        raise SparkHostError(problem, "Give each deployment a separate directory")
