"""What is said of a deployment beside its pipeline, and what stays the same for as long as its directory lives.

Rules of this file: state lies in Spark's checkpoints by key interval, so the number of intervals and the layout can not change
under it; what does not fit a directory is refused before any query starts.
"""

from dataclasses import dataclass
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from headrace.api.pipeline import Pipeline
from headrace.api.versions import check_version, switches_of
from headrace.spark.errors import SparkHostError
from headrace.spark.hosting.history_sample import FULL, Sample
from headrace.spark.io_errors import CheckpointDamagedError
from headrace.spark.runtime.files import replace_file
from headrace.spark.sinks.job_sinks import Sinks


@dataclass(frozen=True, slots=True)
class Settings:
    """Of a deployment; see `deploy`."""

    spark: SparkSession
    directory: Path
    sinks: Sinks
    intervals: int
    clock_us: int | None
    trigger_us: int | None
    max_records: int
    retention_us: int | None
    sample: Sample = FULL

    @property
    def history(self) -> Sample | bool:
        """Of which keys the History is asked for; ``False``: it is not."""
        return self.sample if self.sinks.history is not None else False

    def checkpoint(self, name: str) -> Path:
        """Where a query's checkpoint is."""
        return self.directory / "checkpoints" / name


class Shape(msgspec.Struct, frozen=True):
    """What a directory was made for.

    Attributes:
        layout: ``pipelined`` or ``staged``.
        pipeline: name.
        intervals: of each computation.
        injectors: names, in order.
        stages: computations, level by level.
        place: of the directory.
        switches: of all computations that were ever deployed there (see `headrace.api.versions`).
        levels: pipelined, of all computations that were ever deployed there.
    """

    layout: str
    pipeline: str
    intervals: int
    injectors: list[str]
    stages: list[list[str]]
    place: str = ""
    switches: dict[str, list[str]] = {}
    levels: dict[str, int] = {}


_NAME = "deployment.json"
_decode = msgspec.json.Decoder(Shape).decode


def read_shape(directory: Path) -> Shape | None:
    """What a directory was made for; ``None``: nothing yet."""
    try:
        return _decode((directory / _NAME).read_bytes())
    except FileNotFoundError:
        return None


def write_shape(directory: Path, shape: Shape, pipeline: Pipeline) -> None:
    """Write it down, and with it what can not change any more."""
    before = read_shape(directory)
    switches = {} if before is None else dict(before.switches)
    for name, spec in pipeline.computations.items():
        switches.setdefault(name, list(switches_of(spec)))
    now = msgspec.structs.replace(shape, place=str(directory), switches=switches)
    replace_file(directory / _NAME, msgspec.json.encode(now))


def check_switches(directory: Path, pipeline: Pipeline) -> None:
    """Compare a pipeline with all that were deployed in a directory.

    Raises:
        PipelineError: a computation's ``productions`` or ``exactly_once`` were others.
    """
    before = read_shape(directory)
    known = {} if before is None else before.switches
    check_version(
        pipeline,
        "this one",
        {name: ("a version that was deployed", tuple(one)) for name, one in known.items()},
    )


def _check_place(directory: Path, before: Shape) -> None:
    """Spark writes the place of a state's schema into it, in full: a copy would read, and spoil, what it was copied from."""
    place = Path(before.place or directory)
    if place != directory and not (place.exists() and place.samefile(directory)):
        problem = f"it was moved or copied here, and was made as {place}: Spark's state knows its place"
        raise CheckpointDamagedError(
            str(directory),
            problem,
            "Move it back, or let that path lead here; or begin in an empty directory",
        )


def check_shape(directory: Path, before: Shape | None, now: Shape) -> None:
    """Refuse what does not fit the state that lies in a directory.

    Raises:
        SparkHostError: it does not.
        CheckpointDamagedError: the directory was made elsewhere.
    """
    if before is None:
        return
    _check_place(directory, before)
    where = f"the directory {str(directory)!r} belongs to"
    if (before.layout, before.pipeline) != (now.layout, now.pipeline):
        problem = f"{where} the {before.layout} pipeline {before.pipeline!r}, not to the {now.layout} {now.pipeline!r}"
        raise SparkHostError(problem, "Give each deployment a directory of its own")
    if before.intervals != now.intervals:
        problem = f"{where} a deployment with {before.intervals} key intervals, not {now.intervals}"
        raise SparkHostError(
            problem, "State lies there by interval: keep their number, or begin in an empty directory"
        )
