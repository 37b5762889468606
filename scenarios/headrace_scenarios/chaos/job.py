"""What `headrace chaos` and the drivers that it starts say to each other: files in one directory.

Rules of this file:

* Files, since whoever writes or reads may be killed or stopped at any moment, and a pipe would then tell or hang the other.
* A *hold* keeps whoever comes to a moment of a micro-batch there, until the file is gone. So a fault strikes in the middle of
  the work and not before or after it. Whoever is held says so first, with its process id.
* What a driver has to tell are lines of JSON, a file for each driver; a line that is not finished does not count.
"""

import enum
import os
import time
from pathlib import Path

import msgspec

_LOOK_EVERY_S = 0.02
_HELD_AT_MOST_S = 300.0
"""Whoever was forgotten goes on."""


class BatchMoment(enum.StrEnum):
    """Of a micro-batch."""

    READING = "reading"
    """Its first tasks have their input, and no state was touched."""
    WORKING = "working"
    """The tasks of the last level run: rows are on their way to the sink, and some state may be written."""
    WRITTEN = "written"
    """The sink has the batch, and Spark's log of committed batches does not."""


class ChaosJob(msgspec.Struct, frozen=True):
    """What a driver is to run.

    Attributes:
        target: the pipeline, ``MODULE:PIPELINE``.
        directory: of the run; everything else is in it.
        master: Spark's.
        intervals: key intervals of each computation.
        fencing: the sink is a `DatabaseSink`; otherwise rows are appended, whoever asks.
        config: Spark's settings.
    """

    target: str
    directory: str
    master: str
    intervals: int = 2
    fencing: bool = True
    config: dict[str, str] = {}

    @property
    def landing(self) -> Path:
        """Where the input falls."""
        return Path(self.directory, "landing")

    @property
    def checkpoint(self) -> Path:
        """The query's."""
        return Path(self.directory, "checkpoint")

    @property
    def database(self) -> Path:
        """The outputs', a file of SQLite; the table is `TABLE`."""
        return Path(self.directory, "outputs.sqlite")

    @property
    def control(self) -> Path:
        """Where holds are."""
        return Path(self.directory, "control")

    @property
    def stop_file(self) -> Path:
        """When it is there, a driver stops its query, and ends."""
        return self.control / "stop"

    def told(self, driver: int) -> Path:
        """What a driver tells."""
        return Path(self.directory, f"driver-{driver}.jsonl")

    def log(self, driver: int) -> Path:
        """What a driver and its Java write to stdout and stderr."""
        return Path(self.directory, f"driver-{driver}.log")


TABLE = "outputs"


class Begun(msgspec.Struct, frozen=True, tag=True):
    """The sink is called with a micro-batch; now it is computed."""

    batch: int


class BatchWritten(msgspec.Struct, frozen=True, tag=True):
    """The sink has it; ``new``: and did not have it before."""

    batch: int
    new: bool


class Idle(msgspec.Struct, frozen=True, tag=True):
    """All is done that was there: so many files."""

    files: int


class Ended(msgspec.Struct, frozen=True, tag=True):
    """The query has ended: ``error``, the name of its class, or nothing; and what it says."""

    error: str
    text: str


Told = Begun | BatchWritten | Idle | Ended

_encode = msgspec.json.encode
_decode_told = msgspec.json.Decoder(Told).decode


def tell(path: Path, told: Told) -> None:
    """Add a line."""
    with path.open("ab") as file:
        file.write(_encode(told) + b"\n")


def read_told(path: Path) -> list[Told]:
    """All lines that are finished."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    return [_decode_told(line) for line in lines[:-1]]


def hold(control: Path, moment: BatchMoment) -> None:
    """Hold whoever comes to this moment, from now on."""
    for mark in control.glob("held-*"):
        mark.unlink()
    (control / f"hold-{moment}").touch()


def release(control: Path) -> None:
    """Hold nobody any more."""
    for one in control.glob("hold-*"):
        one.unlink()


def held(control: Path) -> tuple[int, ...]:
    """The processes that are held, by id."""
    return tuple(sorted(int(mark.name.rpartition("-")[2]) for mark in control.glob("held-*")))


def pass_moment(control: Path, moment: BatchMoment) -> None:
    """Come to a moment: at once, or when there is no hold any more."""
    gate = control / f"hold-{moment}"
    if not gate.exists():
        return
    (control / f"held-{moment}-{os.getpid()}").touch()
    until = time.monotonic() + _HELD_AT_MOST_S
    while gate.exists() and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_S)
