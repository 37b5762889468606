"""The effects of a sink: each is counted before it happens, so that the process can die, or be overtaken, at exactly that point.

Each attempt is a separate process (`processes`), whose memory dies with it. What survives is in the trial's directory, and
in its ledger, a file to which each attempt appends its effects.
"""

import os
import pickle
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import current_thread
from typing import Any, NoReturn

from pyspark.errors import PySparkException

from headrace_sim.spark.columns.evaluations import Evaluated
from headrace_sim.spark.columns.task_context import running_partition
from headrace_sim.spark.refusals import is_library, shown_place, users_place
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind

PLACE_OF_START = "_headrace_started_at"
"""The attribute of a thread that says where it was started, ``file:line``."""
DEADLY = {SinkFaultKind.KILL, SinkFaultKind.REORDER, SinkFaultKind.RESTART, SinkFaultKind.TEAR}
"""Of what a driver dies."""
KILLED = -signal.SIGKILL
"""The exit status of a process that was killed."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that a sink did that outlives its process."""

    attempt: int  # the number of the process, from 0
    batch: int  # the index of the batch
    action: str  # what was done: ``INSERT INTO payments``, ``rename``
    target: str  # to what: ``out.db: payments``, ``done/batch-1``
    place: str  # ``file:line`` in the user's code
    parts: bool = False  # whether it has several parts, so that a process can die in the middle of it
    replied: bool = False  # whether it is a request, whose reply can be lost
    pending: bool = False  # whether it is part of a transaction that is not committed
    payload: Any = None  # what a stand-in has to keep of it
    connection: int = 0  # the number of the database connection, from 1; 0: none
    partition: int | None = None  # that of the task that did it; None: no task did
    is_late: bool = False  # whether it was done in the background, and the function did not wait for it


@dataclass(frozen=True, slots=True)
class AssumedTable:
    """A table that nothing has made: it is made as a statement that inserts into it says."""

    is_assumed = True


@dataclass(frozen=True, slots=True)
class Acted:
    """The function began an action on a DataFrame, such as ``collect``, after so many effects of this batch."""

    batch: int
    effect: int


@dataclass(frozen=True, slots=True)
class StateCall:
    """A task is about to call its state, or begins with a key's rows."""

    batch: int
    call: str
    place: str  # ``file:line`` in the user's code; "": in Spark's


@dataclass(frozen=True, slots=True)
class Settled:
    """A worker runs tasks of this attempt, and keeps what they leave in memory: its process, and its group of processes."""

    attempt: int
    pid: int
    group: int


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The function rolled back the transaction of this connection."""

    connection: int


@dataclass(frozen=True, slots=True)
class Returned:
    """The function returned from this batch."""

    attempt: int
    batch: int


@dataclass(frozen=True, slots=True)
class Failed:
    """The function raised an error: its class, its message, its place in the user's code, and whether a lock was held."""

    attempt: int
    batch: int
    error: str
    message: str
    place: str
    locked: bool


@dataclass(frozen=True, slots=True)
class Swallowed:
    """The function returned from this batch, though an error had been raised in the user's code, at this place."""

    attempt: int
    batch: int
    error: str
    message: str
    place: str

    def __str__(self) -> str:
        """Name the error and its place."""
        return f"{self.error}: {self.message} ({shown_place(self.place)})"


@dataclass(frozen=True, slots=True)
class UntraceableEffect:
    """The function did something that cannot be followed."""

    message: str


@dataclass(frozen=True, slots=True)
class Loaded:
    """The process imported these modules of Python or of installed packages while it ran."""

    modules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Struck:
    """A fault has struck this attempt, in whichever of its processes, and does not strike it again."""

    attempt: int
    is_end: bool  # whether it is dead, and nothing that is left of it may do anything


Entry = (
    Effect
    | Acted
    | StateCall
    | Settled
    | RolledBack
    | Returned
    | Failed
    | Swallowed
    | UntraceableEffect
    | Loaded
    | Struck
    | Evaluated
)


class Ledger:
    """A file that outlives processes, with what they did, in order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file = os.open(path, os.O_CREAT | os.O_RDWR | os.O_APPEND)
        self._write = os.write  # `os.write` itself is watched in attempts

    def append(self, entry: Any) -> None:
        """Append an entry, at once and whole."""
        self._write(self._file, pickle.dumps(entry))

    def entries(self) -> list[Entry]:
        """Return all entries so far, of all processes."""
        entries: list[Entry] = []
        size = os.fstat(self._file).st_size
        written = os.pread(self._file, size, 0)
        start = 0
        while start < size:
            reader = _Reader(written, start)
            entries.append(pickle.Unpickler(reader).load())  # noqa: S301  our own attempts wrote it
            start = reader.start
        return entries

    def effects(self) -> list[Effect]:
        """Return the effects so far."""
        return [entry for entry in self.entries() if isinstance(entry, Effect)]

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


class _Reader:
    """Reads pickles that follow each other, without reading ahead."""

    def __init__(self, data: bytes, start: int) -> None:
        self.data, self.start = data, start

    def read(self, size: int) -> bytes:
        begin, self.start = self.start, self.start + size
        return self.data[begin : self.start]

    def readline(self) -> bytes:
        end = self.data.index(b"\n", self.start) + 1
        return self.read(end - self.start)


class EffectProbe:
    """Counts the effects of an attempt, and injects a fault at one of them.

    ``ledger``: where effects are noted. ``attempt``: the number of this process. ``fault``: what strikes it, or None.
    ``pause``: called where it is overtaken; returns when the process continues. ``driver``: the id of its driver's process,
    where it has several processes, which count together; None: it has this one.
    """

    def __init__(
        self,
        ledger: Ledger,
        attempt: int,
        fault: SinkFault | None,
        pause: Callable[[], None],
        driver: int | None = None,
    ) -> None:
        self.ledger = ledger
        self.attempt = attempt
        self.was_paused = False
        self.private = ""  # what targets of Spark's own begin with
        self.home = ""  # what targets begin with that are told as relative to the trial
        self.dies_held = False  # whether it waits where it dies, until it is killed together with its Java
        self.fault = fault
        self.pause = pause
        self.behind_effect: Callable[[], None] | None = None  # called behind each effect; or None
        self.driver = driver
        self.batch = -1  # the index of the batch that runs; -1: none yet
        self._count = 0
        self._busy = self._acting = self._is_behind = False

    @contextmanager
    def nobody_waits(self) -> Iterator[None]:
        """Count what is done within as done in the background, after the function."""
        self._is_behind = True
        try:
            yield
        finally:
            self._is_behind = False

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """Leave what is done within unrecorded: it is none of the user's."""
        before, self._busy = self._busy, True
        try:
            yield
        finally:
            self._busy = before

    def begin(self, batch: int) -> None:
        """Start counting for a batch."""
        self.batch, self._count = batch, -1
        self._pause_if_due()
        self._count = 0

    @property
    def is_preparing(self) -> bool:
        """Whether no batch has begun: nothing strikes then."""
        return self.batch < 0

    def done(self) -> list[Effect]:
        """Return the effects so far, of all processes."""
        return self.ledger.effects()

    def returned(self) -> None:
        """Record that the function returned; inject the fault here if it is due."""
        self._count_together()
        self.ledger.append(Returned(self.attempt, self.batch))
        if self._due(SinkFaultKind.KILL, SinkFaultKind.REORDER, SinkFaultKind.RESTART):
            self.die()

    def _pause_if_due(self) -> None:
        if self._due(SinkFaultKind.PAUSE):
            self.was_paused = True
            self.pause()

    def _due(self, *kinds: SinkFaultKind) -> bool:
        fault = self.fault
        due = (
            fault is not None
            and fault.kind in kinds
            and (fault.batch, fault.effect) == (self.batch, self._count)
        )
        if due and self.driver is not None:
            self.fault = None
            self.ledger.append(Struck(self.attempt, kinds[0] in DEADLY))
        return due

    def die(self) -> NoReturn:
        """End the attempt, from whichever of its processes."""
        if self.dies_held:
            self.pause()
        elif self.driver not in {None, os.getpid()}:
            os.kill(self.driver, signal.SIGKILL)
        die()

    def _count_together(self) -> None:
        """Read what the other processes of this attempt have done. A process that outlives its attempt ends here."""
        if self.driver is None:
            return
        kinds = Effect | Struck
        mine = [
            each for each in self.ledger.entries() if isinstance(each, kinds) and each.attempt == self.attempt
        ]
        if any(isinstance(entry, Struck) for entry in mine):
            self.fault = None
        if any(isinstance(entry, Struck) and entry.is_end for entry in mine):
            die()
        self._count = sum(isinstance(entry, Effect) and entry.batch == self.batch for entry in mine)

    @contextmanager
    def effect(
        self,
        action: str,
        target: str,
        *,
        half: Callable[[], Any] | None = None,
        replied: bool = False,
        pending: Callable[[], bool] = lambda: False,
        payload: Callable[[], Any] = lambda: None,
        connection: int = 0,
        place: str = "",
        is_late: bool = False,
    ) -> Iterator[None]:
        """Perform an effect in this context: count it, inject the fault if due, and record it once done.

        ``action``: what is done. ``target``: to what. ``half``: does the first part of it, if it has several. ``replied``:
        whether it is a request. ``pending``: returns, once it is done, whether it belongs to an uncommitted transaction.
        ``payload``: returns, once it is done, what a stand-in keeps of it. ``connection``: the number of the database
        connection. ``place``: ``file:line`` of the user's code, if it is not what runs. ``is_late``: whether it is done in the
        background, and the function did not wait for it. Raise `ConnectionResetError` if this is the request whose reply is
        lost, which is carried out, or `ConnectionRefusedError` if it is the one that is refused, which is not.
        """
        if self._busy or self.batch < 0 or (self.private and target.startswith(self.private)):
            yield  # part of another effect, or of the preparation, or nothing of the user's
            return
        self._busy = True
        target = target.removeprefix(self.home)
        place = place or users_place()
        if is_library(place.rpartition(":")[0]) or place.startswith("unknown:"):
            place = getattr(current_thread(), PLACE_OF_START, place)
        try:
            self._count_together()
            if self._due(SinkFaultKind.KILL, SinkFaultKind.REORDER):
                self.die()
            self._pause_if_due()
            if self._due(SinkFaultKind.REFUSE):
                self.fault = None  # or else a loop that tries again would never end
                raise ConnectionRefusedError(111, "Connection refused")
            if half is not None and self._due(SinkFaultKind.TEAR):
                half()
                self.die()
            yield
            done = Effect(
                self.attempt, self.batch, action, target, place, half is not None, replied, pending(), payload(), connection,
                running_partition(), is_late or self._is_behind,
            )  # fmt: skip
            self.ledger.append(done)
            if self.behind_effect is not None:
                self.behind_effect()
            lost = self._due(SinkFaultKind.LOSE_REPLY)
            self._count += 1
            if running_partition() is not None and self._due(SinkFaultKind.TASK):
                die()
        finally:
            self._busy = False
        if lost:
            raise ConnectionResetError(104, "Connection reset by peer")

    @contextmanager
    def action(self) -> Iterator[None]:
        """Perform an action on a DataFrame in this context; inject the fault if due.

        Raise `PySparkException` if this is the action that fails.
        """
        if self._acting or self._busy or self.batch < 0:  # part of another one, or of the preparation
            yield
            return
        self._count_together()
        self.ledger.append(Acted(self.batch, self._count))
        if self._due(SinkFaultKind.FAIL):
            self.fault = None  # or else a loop that tries again would never end
            raise PySparkException("Job aborted due to stage failure: an executor was lost")
        self._acting = True
        try:
            yield
        finally:
            self._acting = False

    def state_call(self, call: str) -> None:
        """Note a call of the state in a run without faults, or end this process if it is the one that is due."""
        fault = self.fault
        is_due = fault is not None and (fault.kind, fault.batch) == (SinkFaultKind.STATE, self.batch)
        if self._busy or not (is_due or (fault is None and self.attempt == 0)):
            return
        place = users_place()
        place = "" if is_library(place.rpartition(":")[0]) or place.startswith("unknown:") else place
        before = [entry for entry in self.ledger.entries() if isinstance(entry, StateCall)] if is_due else []
        self.ledger.append(StateCall(self.batch, call, place))
        if fault is not None and len(before) == fault.effect:
            die()

    def assumed(self, target: str) -> None:
        """Record that a table is taken to be there."""
        effect = Effect(self.attempt, -1, "CREATE TABLE", target, users_place(), payload=AssumedTable())
        self.ledger.append(effect)

    def rolled_back(self, connection: int) -> None:
        """Record that a connection's pending changes were discarded on purpose."""
        self.ledger.append(RolledBack(connection))

    def wrote(self, batches: Iterable[int], writes: Iterable[tuple[str, str, str]]) -> None:
        """Record what Spark itself wrote of batches in which nothing else had an effect.

        ``batches``: their numbers. ``writes``: what is done for each, to what, and the ``file:line`` of the user's code.
        """
        seen = {entry.batch for entry in self.ledger.effects() if entry.attempt == self.attempt}
        for batch in batches:
            for action, target, place in () if batch in seen else writes:
                self.ledger.append(Effect(self.attempt, batch, action, target, place))

    def note(self, action: str, target: str, payload: Any) -> None:
        """Record the first part of an effect, in the middle of which the process dies."""
        self.ledger.append(Effect(self.attempt, self.batch, action, target, users_place(), payload=payload))


def die() -> NoReturn:
    """End this process with SIGKILL: it flushes, closes and rolls back nothing."""
    while True:
        os.kill(os.getpid(), signal.SIGKILL)
