"""What is said of a deployment beside its pipeline, and what stays the same for as long as its directory lives.

Rules of this file: state lies in Spark's checkpoints by key interval, so the number of intervals and the layout can not change
under it; what does not fit a directory is refused before any query starts.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from millrace.spark._errors import SparkHostError
from millrace.spark._sample import FULL, Sample
from millrace.spark._sinking import Sinks


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
    """

    layout: str
    pipeline: str
    intervals: int
    injectors: list[str]
    stages: list[list[str]]


_NAME = "deployment.json"
_decode = msgspec.json.Decoder(Shape).decode


def read_shape(directory: Path) -> Shape | None:
    """What a directory was made for; ``None``: nothing yet."""
    try:
        return _decode((directory / _NAME).read_bytes())
    except FileNotFoundError:
        return None


def write_shape(directory: Path, shape: Shape) -> None:
    """Write it down."""
    replace_file(directory / _NAME, msgspec.json.encode(shape))


def replace_file(path: Path, data: bytes) -> None:
    """Write a file, as a whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(data)
    draft.replace(path)


def check_shape(directory: Path, before: Shape | None, now: Shape) -> None:
    """Refuse what does not fit the state that lies in a directory.

    Raises:
        SparkHostError: it does not.
    """
    if before is None:
        return
    where = f"the directory {str(directory)!r} belongs to"
    if (before.layout, before.pipeline) != (now.layout, now.pipeline):
        problem = f"{where} the {before.layout} pipeline {before.pipeline!r}, not to the {now.layout} {now.pipeline!r}"
        raise SparkHostError(problem, "Give each deployment a directory of its own")
    if before.intervals != now.intervals:
        problem = f"{where} a deployment with {before.intervals} key intervals, not {now.intervals}"
        raise SparkHostError(
            problem, "State lies there by interval: keep their number, or begin in an empty directory"
        )
