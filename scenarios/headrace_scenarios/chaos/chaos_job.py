"""Communication between `headrace chaos` and the drivers that it starts, through files in one directory.

Rules of this file:

* It uses files because either side may be killed or paused at any time, and a pipe would then fail or block the other side.
* A *hold* is a file that stops any process at a given moment of a micro-batch until the file is removed. So a fault strikes in
  the middle of the work, not before or after it. A held process first records its process id.
* A driver's reports are in a `Ledger` of its own.
"""

import enum
import os
import time
from dataclasses import dataclass
from pathlib import Path

import msgspec

_LOOK_EVERY_S = 0.02
_HELD_AT_MOST_S = 300.0
"""Maximum time that a process is held."""


class BatchMoment(enum.StrEnum):
    """A moment of a micro-batch."""

    READING = "reading"
    """Its first tasks have their input, and no state has been touched."""
    WRITTEN = "written"
    """The sink has the batch, but Spark's commit log does not."""
    CHANGING = "changing"
    """No batch: all that a change of the job needs is written, and what makes it count is not."""


class ChaosJob(msgspec.Struct, frozen=True):
    """The job that a driver runs."""

    target: str  # the pipeline, ``MODULE:PIPELINE``
    directory: str  # directory of the run, which has all its files
    master: str  # Spark's master
    intervals: int = 2  # number of key intervals of each computation
    # whether the sink is a `TableSink`, or a `FileSink` in the store; otherwise any driver can append rows
    fencing: bool = True
    config: dict[str, str] = {}  # Spark's settings
    additions: int = 0  # number of computations that were added to the pipeline
    # URI of the object store with the checkpoint, the job's files and its outputs; empty: they are in ``directory``
    store: str = ""
    splits: dict[str, tuple[int, ...]] = {}  # by computation, the intervals that are split

    @property
    def landing(self) -> Path:
        """Directory of the input."""
        return Path(self.directory, "landing")

    @property
    def home(self) -> str:
        """Directory of the job: a path or a URI."""
        return f"{self.store or self.directory}/job"

    @property
    def outputs(self) -> str:
        """URI of the outputs in the store; empty: they are written to `database` at once."""
        return f"{self.store}/outputs" if self.store and self.fencing else ""

    @property
    def states(self) -> Path:
        """The file with all states of the job, once it has ended: lines of JSON, a `SavedState` each."""
        return Path(self.directory, "states.jsonl")

    @property
    def database(self) -> Path:
        """The SQLite file with the outputs, in the table `TABLE`; those in a store, once the job has ended."""
        return Path(self.directory, "outputs.sqlite")

    @property
    def control(self) -> Path:
        """Directory of the holds."""
        return Path(self.directory, "control")

    @property
    def stop_file(self) -> Path:
        """The file whose existence makes a driver stop its query and exit; if it has any text, with the states of the job."""
        return self.control / "stop"

    @property
    def additions_file(self) -> Path:
        """The file with the number of computations that a running driver is to have added."""
        return self.control / "additions"

    def go_file(self, driver: int) -> Path:
        """Return the file that a driver waits for once its Spark is started. It then reads the job again."""
        return self.control / f"go-{driver}"

    def reports_file(self, driver: int) -> Path:
        """Return the file of the `Ledger` with a driver's reports."""
        return Path(self.directory, f"driver-{driver}.ledger")

    def log(self, driver: int) -> Path:
        """Return the file with the stdout and stderr of a driver and its Java."""
        return Path(self.directory, f"driver-{driver}.log")


TABLE = "outputs"

ADDED = "chaos addition "
"""Name of a computation that was added, before its number."""


class SavedState(msgspec.Struct, frozen=True):
    """A state that a job has stored; ``state`` is as the codec wrote it."""

    computation: str
    key: str
    state: bytes


@dataclass(frozen=True, slots=True)
class Idle:
    """All input so far is processed: this many files."""

    files: int


@dataclass(frozen=True, slots=True)
class Added:
    """The running job now has this many additional computations."""

    additions: int


@dataclass(frozen=True, slots=True)
class Ended:
    """The query has ended: ``error`` is the class of its error, or empty; ``text`` is the message."""

    error: str
    text: str


def hold(control: Path, moment: BatchMoment) -> None:
    """Hold any process that reaches this moment, from now on."""
    for mark in control.glob("held-*"):
        mark.unlink()
    (control / f"hold-{moment}").touch()


def release(control: Path) -> None:
    """Remove all holds."""
    for gate in control.glob("hold-*"):
        gate.unlink()


def held(control: Path) -> tuple[int, ...]:
    """Return the ids of the held processes, in order."""
    return tuple(sorted(int(mark.name.rpartition("-")[2]) for mark in control.glob("held-*")))


def pass_moment(control: Path, moment: BatchMoment) -> None:
    """Pass a moment: at once, or when its hold is removed."""
    gate = control / f"hold-{moment}"
    if not gate.exists():
        return
    (control / f"held-{moment}-{os.getpid()}").touch()
    until = time.monotonic() + _HELD_AT_MOST_S
    while gate.exists() and time.monotonic() < until:
        time.sleep(_LOOK_EVERY_S)
