"""What runs in Spark's Python workers: functions of tasks, writers of data sources. Their effects are those of their attempt.

Whatever is sent to a worker is pickled by one function of PySpark's. There, a note goes with it that says of which attempt it is,
and the worker settles in the attempt's trial before it reads on (`restored`). Workers are forks of `task_workers`. As on a
cluster, one runs task after task, and keeps what modules hold; it ends with its attempt (`end_workers`): none knows two.
"""

import functools
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.serializers import CPickleSerializer
from pyspark.sql.streaming.state import GroupState

from headrace_sim.spark.client.script_needs import StandIns, named_stand_ins
from headrace_sim.spark.columns.task_context import BATCH_PROPERTY
from headrace_sim.spark.laboratory.kept_files import KeptFiles, KeptTrial
from headrace_sim.spark.laboratory.places import watch_paths
from headrace_sim.spark.laboratory.postgres import PostgresDatabase
from headrace_sim.spark.laboratory.postgres_watch import watch_postgres
from headrace_sim.spark.pyspark_versions import StatefulProcessorApiClient, rdd
from headrace_sim.spark.refusals import is_library
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.heard_errors import HeardErrors
from headrace_sim.spark.sinks.processes import LetThrough, PausePoint, settle, settle_random
from headrace_sim.spark.sinks.sink_effects import EffectProbe, Ledger, Settled, die
from headrace_sim.spark.sinks.store_clients import StoreClients

_REAPED_S, _LOOKS = 0.01, 100
"""How long a process that was killed takes to go, in real seconds, and how often that is waited for."""
_OF_RDD = 4
"""How many parts the command of a task has that runs a function over its rows; functions of columns have two."""
_ATTEMPT = "HEADRACE_ATTEMPT"
"""The environment variable by which Spark keeps the workers of a driver that hangs apart from those of its successor."""
_in_driver = False
"""Whether this process is a driver, which reads what it sends."""
_settled: "tuple[AttemptNote, EffectProbe] | None" = None
"""The attempt in whose trial this worker has settled."""


@dataclass(frozen=True, slots=True)
class AttemptSettings:
    """How a driver and its workers settle in a trial."""

    folder: Path  # the trial's working directory
    sparks: Path  # the directory of Spark's temporary files
    lets: frozenset[LetThrough]  # what is done outside the trial
    seed: int = 0  # of the clock and of random numbers
    database: PostgresDatabase | None = None  # what stands for each PostgreSQL; None: as in the simulation
    kept: KeptFiles | None = None  # the owner's files, if sources are left as they are
    heard: bool = False  # whether the errors are noted that the query's own code catches

    def settle(self, probe: EffectProbe) -> StoreClients:
        """Confine this process to its trial, irreversibly, but for the paths that it names."""
        if self.database is not None:
            watch_postgres(probe, self.database)
        probe.private = os.path.relpath(self.sparks, self.folder)
        return settle(self.folder, probe, self.seed, sparks=self.sparks, lets=self.lets)

    def watch_paths(self, probe: EffectProbe) -> KeptTrial | None:
        """Redirect the paths that this process names, irreversibly; return what does it if sources are left as they are."""
        of_owner = None if self.kept is None else KeptTrial(self.kept, self.folder, probe)
        inside = self.folder.parent, self.sparks
        watch_paths(self.folder, inside, None if of_owner is None else of_owner.moved)
        return of_owner


@dataclass(frozen=True, slots=True)
class AttemptNote:
    """The attempt that a worker belongs to."""

    settings: AttemptSettings
    number: int  # of the attempt
    fault: SinkFault | None  # what strikes it
    driver: int  # the id of its driver's process
    halt: PausePoint  # where it waits, as the driver has it
    dies_held: bool  # as its driver's probe has it
    path: tuple[str, ...]  # where it finds modules
    stand_ins: frozenset[str]  # the modules that the user has replaced


@dataclass(frozen=True, slots=True)
class _Noted:
    """What is sent, with its note."""

    note: AttemptNote
    pickled: bytes

    def __reduce__(self) -> Any:
        return restored, (self.note, self.pickled)


def watch_workers(settings: AttemptSettings, probe: EffectProbe) -> None:
    """Let what this driver sends to workers carry the note of its attempt, irreversibly. ``probe``: the driver's."""
    global _in_driver  # noqa: PLW0603  a process is one once
    _in_driver = True
    probe.driver = os.getpid()
    assert isinstance(probe.pause, PausePoint)
    note = AttemptNote(
        settings, probe.attempt, probe.fault, os.getpid(), probe.pause, probe.dies_held, tuple(sys.path), named_stand_ins()
    )  # fmt: skip
    really_prepare = rdd._prepare_for_python_RDD

    def prepare(context: Any, command: Any) -> Any:
        context.environment[_ATTEMPT] = str(note.number)
        pickled, *rest = really_prepare(context, command)
        return CPickleSerializer().dumps(_Noted(note, pickled)), *rest

    rdd._prepare_for_python_RDD = prepare


def restored(note: AttemptNote, pickled: bytes) -> Any:
    """Return what was sent. A worker that reads it settles in the note's trial first."""
    probe = None if _in_driver else _joined(note)
    command = CPickleSerializer().loads(pickled)
    if probe is None or not note.settings.heard or not isinstance(command, tuple) or len(command) != _OF_RDD:
        return command
    function, *rest = command

    def heard(*args: Any) -> Iterator[Any]:
        with HeardErrors(probe, probe.batch):
            yield from function(*args)

    return heard, *rest


def raised_in_worker(message: str) -> tuple[str, str, str] | None:
    """Return the class, the message and the place of an error that a worker raised, if Spark says of one."""
    traceback = _TRACEBACK.search(message)
    if traceback is None:
        return None
    places = [f"{file}:{line}" for file, line in _PLACE.findall(traceback[0]) if not is_library(file)]
    message = traceback["message"].removesuffix(" SQLSTATE: 38000")
    return traceback["error"].rpartition(".")[2], message, (places or [""])[-1]


_TRACEBACK = re.compile(
    r"Traceback \(most recent call last\):\n(?:[ ].*\n)+(?P<error>[\w.]+): (?P<message>.*)"
)
_PLACE = re.compile(r'File "([^"]+)", line (\d+)')


def end_workers(ledger: Ledger, attempt: int) -> None:
    """End the workers of an attempt that has ended, and wait for it."""
    for entry in ledger.entries():
        if isinstance(entry, Settled) and entry.attempt == attempt:
            with suppress(ProcessLookupError):
                for _ in range(_LOOKS):
                    if os.getpgid(entry.pid) != entry.group:
                        break  # another process has got its number
                    os.kill(entry.pid, signal.SIGKILL)
                    time.sleep(_REAPED_S)


def _joined(note: AttemptNote) -> EffectProbe:
    """Let this worker run a task of an attempt; return its probe."""
    global _settled  # noqa: PLW0603  a process settles once
    if _settled is None:
        _settled = note, _settle(note)
    known, probe = _settled
    if (known.settings.folder, known.number) != (note.settings.folder, note.number):
        die()  # Spark runs the task again, in a worker that knows no other attempt
    probe.batch = _running_batch(TaskContext.get(), note.settings.folder)  # begun in another process
    return probe


def _settle(note: AttemptNote) -> EffectProbe:
    """Let this worker be one of a trial; return its probe."""
    sys.path[:] = [*sys.path, *(place for place in note.path if place not in sys.path)]
    sys.meta_path.insert(0, StandIns(note.stand_ins))
    waits = note.dies_held or (note.fault is not None and note.fault.kind is SinkFaultKind.PAUSE)
    halt = note.halt.here() if waits else note.halt
    settings = note.settings
    probe = EffectProbe(Ledger(settings.folder.parent / "ledger"), note.number, note.fault, halt, note.driver)
    probe.dies_held = note.dies_held
    probe.ledger.append(Settled(note.number, os.getpid(), os.getpgrp()))
    context = TaskContext.get()
    settings.settle(probe).sends_at_once = True
    # No two tasks of an attempt draw the same:
    settle_random(f"{settings.seed} {context and context.partitionId()} {len(probe.ledger.entries())}")
    settings.watch_paths(probe)
    _watch_state(probe)
    _pass_on(note)
    return probe


def _watch_state(probe: EffectProbe) -> None:
    """Tell the probe of each call of the state, and of each key whose rows or timers come."""
    if hasattr(StatefulProcessorApiClient, "_send_proto_message"):
        really_send = StatefulProcessorApiClient._send_proto_message

        def send(self: Any, message: bytes) -> None:
            name = sys._getframe(1).f_code.co_name
            if name not in _OF_HANDLE:
                probe.state_call(_CALLS.get(name) or re.sub("_(.)", lambda initial: initial[1].upper(), name))
            really_send(self, message)

        StatefulProcessorApiClient._send_proto_message = send
    for name in ("remove", "setTimeoutDuration", "setTimeoutTimestamp", "update"):
        setattr(GroupState, name, _noting(probe, getattr(GroupState, name)))


_OF_HANDLE = (
    "set_handle_state", "remove_implicit_key", "_parse_string_schema", "_get_batch_timestamp", "_get_watermark_timestamp",
)  # fmt: skip
"""What PySpark itself asks or tells Spark."""
_CALLS = {
    "set_implicit_key": "the rows or the timer of a key",
    "get_expiry_timers_iterator": "the timers of its keys",
}


def _noting(probe: EffectProbe, really: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(really)
    def called(*args: Any, **named: Any) -> Any:
        probe.state_call(really.__name__)
        return really(*args, **named)

    return called


def _running_batch(context: TaskContext | None, folder: Path) -> int:
    """Return the batch that runs: a task knows it, and of what else Spark does for it the log of offsets says it."""
    number = context and context.getLocalProperty(BATCH_PROPERTY)
    if number:
        return int(number)
    return max(batches_of(folder, "offsets"), default=-1)


def batches_of(folder: Path, log: str) -> set[int]:
    """Return the batches that a log of the checkpoints in a folder has: ``offsets``, ``commits``."""
    return {int(path.name) for path in folder.rglob(f"{log}/*") if path.name.isdigit()}


def _pass_on(note: AttemptNote) -> None:
    """Let what this worker makes for other workers, such as a data source's writer, carry the note, too."""
    from pyspark.worker_util import pickleSer  # noqa: PLC0415  it is there in workers only

    really_dump = pickleSer.dumps
    pickleSer.dumps = lambda sent: CPickleSerializer().dumps(_Noted(note, really_dump(sent)))
