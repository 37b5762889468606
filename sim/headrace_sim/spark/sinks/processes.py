"""Attempts: processes that call a sink's function for one batch after another, as Spark's driver does.

Each is a fork of this process, so that it starts with a fresh driver's memory, and can really die. One runs
at a time.
"""

import gc
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import Enum
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NoReturn, Protocol

import time_machine
from pyspark.sql import types as t

from headrace.api.errors import HeadraceError
from headrace_sim.spark import refusals
from headrace_sim.spark.client.connect_answers import Answers, SessionState
from headrace_sim.spark.client.sessions import ClientSession, connected
from headrace_sim.spark.columns.draws import forget_draws
from headrace_sim.spark.columns.evaluations import begin_noting, differing
from headrace_sim.spark.columns.task_context import begin_batch
from headrace_sim.spark.columns.zones import machines_clock
from headrace_sim.spark.real.answers import is_open_way, opened
from headrace_sim.spark.refusals import definition_of, place_of_error
from headrace_sim.spark.sink_faults import SinkFault
from headrace_sim.spark.sinks.background_threads import BackgroundThreads
from headrace_sim.spark.sinks.database_servers import answer_databases, loaded, look_for_bindings
from headrace_sim.spark.sinks.file_effects import WRITING, full_path, watch_files
from headrace_sim.spark.sinks.heard_errors import HeardErrors
from headrace_sim.spark.sinks.requests_over_http import answer_http
from headrace_sim.spark.sinks.sink_effects import (
    Effect,
    EffectProbe,
    Failed,
    Ledger,
    Loaded,
    UntraceableEffect,
)
from headrace_sim.spark.sinks.sqlite_effects import watch_sqlite
from headrace_sim.spark.sinks.store_clients import StoreClients, is_store_client
from headrace_sim.spark.sinks.trial_contents import Raw, collected
from headrace_sim.spark.sinks.write_fence import fence

SinkFunction = Callable[[Any, int], Any]
_START = datetime(2030, 1, 1, tzinfo=UTC)
_CHANGES: Mapping[str, Mapping[int, int | None]] = {
    "os.chmod": {0: 2},
    "os.chown": {0: 3},
    "os.link": {0: 2, 1: 3},
    "os.mkdir": {0: 2},
    "os.remove": {0: 1},
    "os.removexattr": {0: None},
    "os.rename": {0: 2, 1: 3},
    "os.rmdir": {0: 1},
    "os.setxattr": {0: None},
    "os.symlink": {1: 2},
    "os.truncate": {0: None},
    "os.utime": {0: 3},
    "sqlite3.connect": {0: None},
}
"""By a call that changes a file: where its arguments have a path, and the directory to which that is relative."""
_PROGRAMS = frozenset({"os.exec", "os.posix_spawn", "os.system", "subprocess.Popen"})


@dataclass(frozen=True, slots=True)
class Sink:
    """A sink's function and what it is called with."""

    # what the user gives to ``foreachBatch``; None: the query has another sink, and only a real Spark runs it
    function: SinkFunction | None
    schema: t.StructType  # of the rows
    batches: tuple[
        tuple[tuple[Any, ...], ...], ...
    ]  # the rows of each micro-batch, whose ids are 0, 1, and so on
    # called once, in the trial's directory, before the first batch: it makes tables, or directories. Or None
    prepare: Callable[[], Any] | None
    # the columns of the key of each table of ``df.write`` whose connector is not known, as the author says
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    in_order: bool = (
        False  # whether the rows of a batch come in one partition, in their order, instead of in two
    )
    heard: bool = False  # whether the errors are noted that the function catches
    stepping: bool = False  # whether what is there is looked at behind each effect, where its host can
    first_id: int = 0  # of the first batch
    state: SessionState | None = None  # what the session knows when a driver begins, or None
    host: "AttemptHost" = field(default_factory=lambda: SIMULATED)  # what runs it
    # whether it is the whole of a Headrace pipeline: the source repeats rows in their order, and a reference says what an
    # undisturbed run leaves
    of_pipeline: bool = False
    # the first batch of those that the owner's own source gives, which its undisturbed run says; those before it have no rows
    # here. None: ``batches`` are given
    begins: int | None = None
    by_clock: bool = False  # whether that source gives other rows at another time


class LetThrough(Enum):
    """What its owner lets a trial do outside it."""

    WRITES = "writes"
    NETWORK = "network"


class OutsideError(HeadraceError):
    """A sink accesses something outside its trial. Fields: what, place."""

    def __init__(self, what: str, place: str) -> None:
        super().__init__(what, place)
        self.what, self.place = what, place

    def __str__(self) -> str:
        """Name what it accesses, and how to keep it inside."""
        return (
            f"{refusals.shown_place(self.place)}: the sink {self.what}, outside the directory of its trial. "
            "Use paths relative to the working directory, SQLite, HTTP through http.client, urllib or requests, or df.write"
            f"{'; on the real Spark, --allow-network lets it' * self.what.startswith('connects')}"
        )


_PAUSED, _BEHIND_EFFECT = b"p", b"e"
"""Why an attempt waits."""
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@dataclass(frozen=True, slots=True)
class PausePoint:
    """Where an attempt waits until another has taken over: the ends of two named pipes."""

    paused: int  # says that it waits
    resumed: int  # ends when it goes on
    place: Path  # the directory of the pipes

    def __call__(self) -> None:
        """Say so, and wait."""
        self._wait(_PAUSED)

    def behind_effect(self) -> None:
        """Wait until somebody has looked at what is there."""
        self._wait(_BEHIND_EFFECT)

    def _wait(self, why: bytes) -> None:
        os.write(self.paused, why)
        os.read(self.resumed, 1)

    def here(self) -> "PausePoint":
        """Return the same for this process, if another one has those ends."""
        return PausePoint(
            os.open(self.place / "paused", os.O_WRONLY), _reader(self.place / "resumed"), self.place
        )


def _pipe(place: Path) -> tuple[int, int]:
    """Make a named pipe; return the ends to read and to write."""
    os.mkfifo(place)
    return _reader(place), os.open(place, os.O_WRONLY)


def _reader(place: Path) -> int:
    """Open a pipe to read, whether anybody writes yet or not."""
    reader = os.open(place, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(reader, True)
    return reader


class Attempt:
    """A process that runs a sink.

    ``run``: does it, in the process, and returns its exit status. ``ledger``: where it notes what it does. ``number``: its
    number in the trial. ``fault``: what strikes it. ``look``: called behind each effect, while the process waits; or None.
    """

    def __init__(
        self,
        run: Callable[[EffectProbe], int],
        ledger: Ledger,
        number: int,
        fault: SinkFault | None,
        look: Callable[[], object] | None = None,
    ) -> None:
        opened()
        self._look, self._waits = look, False
        place = Path(tempfile.mkdtemp("-halt", dir=ledger.path.parent))
        self._resume_reader, self._resume_writer = _pipe(place / "resumed")
        self._paused_reader, self._paused_writer = _pipe(place / "paused")
        look_for_bindings()
        loaded(is_store_client)
        with warnings.catch_warnings():
            # of threads of numerical libraries, which sink trials do not use
            warnings.simplefilter("ignore", DeprecationWarning)
            # a signal in the child would unwind the parent's code
            signals = signal.pthread_sigmask(signal.SIG_BLOCK, _ENDING)
            self._pid = os.fork()
        if self._pid == 0:
            os.close(self._resume_writer)
            halt = PausePoint(self._paused_writer, self._resume_reader, place)
            probe = EffectProbe(ledger, number, fault, halt)
            probe.behind_effect = None if look is None else halt.behind_effect
            _run_to_end(run, probe)
        signal.pthread_sigmask(signal.SIG_SETMASK, signals)
        os.close(self._paused_writer)
        os.close(self._resume_reader)

    def paused(self) -> bool:
        """Wait until it pauses or ends; return whether it paused."""
        while (why := os.read(self._paused_reader, 1)) == _BEHIND_EFFECT:
            assert self._look is not None
            self._look()
            os.write(self._resume_writer, b".")
        self._waits = bool(why)
        return self._waits

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        os.kill(self._pid, signal.SIGKILL)

    def finish(self) -> int:
        """Resume it if it paused; wait for its end; return its exit status. Ctrl-C ends it."""
        try:
            if self._look is not None:
                os.write(self._resume_writer, b"." * self._waits)
                self.paused()
            os.close(self._resume_writer)
            _, status = os.waitpid(self._pid, 0)
        except BaseException:
            self.kill()
            os.waitpid(self._pid, 0)
            raise
        finally:
            os.close(self._paused_reader)
        return os.waitstatus_to_exitcode(status)


def _run_to_end(run: Callable[[EffectProbe], int], probe: EffectProbe) -> NoReturn:
    """Run in this process, a fork, and end it: none of the parent's cleanup may run here."""
    status = 1
    gc.freeze()  # else each collection here copies all pages of the parent's objects
    try:
        status = run(probe)
    except BaseException as bug:  # noqa: BLE001  of ours: it must be seen, and must not escape into the parent's code
        probe.ledger.append(UntraceableEffect(refusals.traceback_told(bug)))
    finally:
        os._exit(status)


@dataclass(frozen=True, slots=True)
class AttemptPlan:
    """How an attempt of a trial is made."""

    number: int = 0  # its number in the trial
    first: int = 0  # the index of the first batch that it processes
    fault: SinkFault | None = None  # what strikes it
    reordered: int | None = None  # the index of the batch whose rows come in another order
    with_java: bool = False  # whether Java is killed, too, where it dies
    chance: int | None = None  # the seed of its clock and of its random numbers; None: one of its own
    look: Callable[[], object] | None = (
        None  # called behind each effect, while it waits, if it has one process
    )

    @property
    def seed(self) -> int:
        """The seed of its clock and of its random numbers."""
        return self.number + 2 if self.chance is None else self.chance


class RunningAttempt(Protocol):
    """An attempt that has been started."""

    def paused(self) -> bool:
        """Wait until it pauses or ends; return whether it paused."""

    def finish(self) -> int:
        """Resume it if it paused; wait for its end; return its exit status."""


class AttemptHost(Protocol):
    """Runs the attempts of trials, and knows what they leave."""

    most_runs: (
        int  # how many runs are made for rows that leave no trace. Choice: as many as take some seconds
    )
    runs_tasks_again: bool  # whether a task that dies is run again
    shares_java: bool  # whether all attempts are served by one Java, which does not die with them

    @property
    def trials(self) -> Path | None:
        """Where the directories of trials are; None: with the temporary files."""

    def begin(self, sink: Sink, folder: Path) -> None:
        """Make a trial's directory ready."""

    def attempt(self, sink: Sink, folder: Path, ledger: Ledger, plan: AttemptPlan) -> RunningAttempt:
        """Start an attempt that works in the trial's directory and notes in the ledger what it does."""

    def rewind(self, sink: Sink, folder: Path) -> None:
        """Let the next attempt have the sink's batches, and a checkpoint that knows none from ``sink.first_id`` on."""

    def contents(self, folder: Path, effects: list[Effect]) -> Raw:
        """Return what a trial left."""

    def another(self) -> AbstractContextManager["AttemptHost"]:
        """Give another process, a fork of this one, a host like this."""


class SimulatedDrivers:
    """Attempts that call a sink's function with frames in memory."""

    most_runs = 40
    runs_tasks_again = False
    shares_java = False
    trials = None

    def begin(self, sink: Sink, folder: Path) -> None:
        """Leave the directory empty."""

    def attempt(self, sink: Sink, folder: Path, ledger: Ledger, plan: AttemptPlan) -> Attempt:
        """Start an attempt, as `AttemptHost` says."""
        run = partial(_run, sink, folder, plan)
        return Attempt(run, ledger, plan.number, plan.fault, plan.look)

    def rewind(self, sink: Sink, folder: Path) -> None:
        """Do nothing: an attempt has the batches of its sink, and keeps no checkpoint."""

    def contents(self, folder: Path, effects: list[Effect]) -> Raw:
        """Return what a trial left: files, and what stand-ins keep."""
        return collected(folder, effects)

    def another(self) -> AbstractContextManager[AttemptHost]:
        """Give this one, which keeps nothing."""
        return nullcontext(self)


SIMULATED: AttemptHost = SimulatedDrivers()


def _run(sink: Sink, folder: Path, plan: AttemptPlan, probe: EffectProbe) -> int:
    """Run as an attempt, and return its exit status."""
    behind = _Behind(probe, settle(folder, probe, plan.seed, keys=sink.keys), BackgroundThreads())
    state = sink.state.copy() if sink.state else SessionState()
    session = ClientSession(Answers(action=probe.action, watch=probe, keys=sink.keys, state=state))
    with connected(session):
        before = len(sys.modules)
        ready = probe.attempt > 0 or sink.prepare is None or _call(sink.prepare, (), probe, -1)
        status = 0 if ready and _process(sink, session, probe, behind, plan) else 1
        # Only the last ones: to read the names of all would copy their pages.
        latest = islice(reversed(sys.modules), max(0, len(sys.modules) - before))
        probe.ledger.append(Loaded(tuple(filter(refusals.is_installed, latest))[::-1]))
    return status


def _process(
    sink: Sink, session: ClientSession, probe: EffectProbe, behind: "_Behind", plan: AttemptPlan
) -> bool:
    """Call the function for each batch. Return whether all went well."""
    session.answers.batches = batches = Answers(
        action=probe.action, watch=probe, keys=sink.keys, state=session.answers.state.copy()
    )
    of_query = ClientSession(batches)
    assert sink.function is not None
    for batch in range(plan.first, len(sink.batches)):
        rows = sink.batches[batch]
        parts = [rows] if sink.in_order else [rows[0::2], rows[1::2]]
        frame = of_query.frame(sink.schema, [rows[::-1]] if batch == plan.reordered else parts)
        begin_batch(sink.first_id + batch)
        probe.begin(batch)
        begin_noting()
        behind.go_on()
        heard = HeardErrors(probe, batch) if sink.heard else nullcontext()
        if not _call(sink.function, (frame, sink.first_id + batch), probe, batch, heard):
            return False
        for each in differing():
            probe.ledger.append(each)
        probe.returned()
        if probe.was_paused:
            break  # its commit of the batch is refused, or overwritten by the process that took over
    probe.begin(len(sink.batches))
    behind.go_on()
    return True


@dataclass(frozen=True, slots=True)
class _Behind:
    """What goes on in the background when a function has returned."""

    probe: EffectProbe
    clients: StoreClients
    threads: BackgroundThreads

    def go_on(self) -> None:
        """Let it, until it is done or waits."""
        with self.probe.nobody_waits():
            self.clients.send_waiting()
            self.threads.run_on()
            self.clients.send_waiting()


def _call(
    function: Callable[..., Any],
    arguments: tuple[Any, ...],
    probe: EffectProbe,
    batch: int,
    within: AbstractContextManager[object] = nullcontext(),  # noqa: B008  it has no state
) -> bool:
    """Call the user's code in a context. Record what it raises."""
    error: BaseException | None = None
    try:
        with within:
            function(*arguments)
    except BaseException as raised:  # noqa: BLE001  SystemExit ends a driver too
        error = raised
        refusals.gap_in(raised)  # it is heard
    if refusals.HEARD:
        probe.ledger.append(UntraceableEffect(str(refusals.HEARD[0])))
    elif error is not None:
        operational = next(
            (raised for raised in (error, error.__cause__) if isinstance(raised, sqlite3.OperationalError)),
            "",
        )
        locked = "locked" in str(operational) or "busy" in str(operational)
        place = place_of_error(error, definition_of(function))
        probe.ledger.append(
            Failed(probe.attempt, batch, type(error).__name__, refusals.text_of(error), place, locked)
        )
    return error is None and not refusals.HEARD


def settle(
    folder: Path,
    probe: EffectProbe,
    seed: int,
    *,
    sparks: Path | None = None,
    lets: frozenset[LetThrough] = frozenset(),
    keys: Mapping[str, tuple[str, ...]] | None = None,
) -> StoreClients:
    """Confine this process to the folder, and report its effects to the probe. Return what answers clients of stores.

    ``folder``: the trial's directory. ``probe``: told of effects. ``seed``: of the clock and of random numbers. ``sparks``: the
    directory of a real Spark's temporary files, which it may use, and this machine's network; or None. ``lets``: what it does
    outside its trial. With writes, it has no fence: what Python itself does is guarded nevertheless. ``keys``: the columns of
    the keys of tables, as the author says them, by table.
    """
    for number in _ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _ENDING)
    os.chdir(folder)
    scratch = folder.parent / "tmp"
    sys.stdout = sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  it stays open
    sys.dont_write_bytecode = True
    warnings.simplefilter("ignore")
    refusals.HEARD.clear()
    forget_draws()
    _settle_chance(seed)
    tempfile.tempdir = str(scratch)
    watch_files(probe)
    watch_sqlite(probe)
    answer_databases()
    answer_http(probe)
    clients = StoreClients(probe, keys or {})

    def heard(error: OutsideError) -> None:
        refusals.HEARD.append(error)
        if sparks is not None:  # this process may not be the one that looks there
            probe.ledger.append(UntraceableEffect(str(error)))

    def may_reach(address: Any) -> bool:
        is_here = not isinstance(address, tuple) or address[0] in {"127.0.0.1", "::1", "localhost"}
        return LetThrough.NETWORK in lets or (sparks is not None and is_here)

    folders = [folder.parent, *([sparks] if sparks else [])]
    if LetThrough.WRITES not in lets:
        fence(folders)
    sys.addaudithook(_guard(folders, heard, may_reach))
    return clients


def settle_random(seed: int | str) -> random.Random:
    """Let this process draw by a seed, irreversibly; return what it draws bytes from."""
    chance = random.Random(seed)
    random.seed(seed)
    os.urandom = random._urandom = chance.randbytes  # type: ignore[attr-defined]
    return chance


def _settle_chance(seed: int) -> None:
    """Make the day, the hour and random numbers differ between attempts, but reproducible for each attempt."""
    chance = settle_random(seed)
    names = (f"{seed}{chance.getrandbits(32):08x}" for _ in iter(int, 1))
    tempfile._name_sequence = names  # type: ignore[attr-defined]
    clock = time_machine.travel(machines_clock(_START + timedelta(days=seed, hours=seed))).start()
    time.sleep = clock.shift  # type: ignore[assignment]  # who waits for something to pass need not


def _guard(
    folders: Sequence[Path], heard: Callable[[OutsideError], None], may_reach: Callable[[Any], bool]
) -> Callable[[str, tuple[Any, ...]], None]:
    """Return an audit hook that refuses access outside the folders: a trial must not touch anything real."""
    places = tuple(f"{folder}{os.sep}" for folder in folders)

    def refuse(what: str) -> NoReturn:
        error = OutsideError(what, refusals.users_place())
        heard(error)
        raise error

    def inside(path: str) -> bool:
        return path in {os.devnull, ":memory:", ""} or os.path.realpath(
            path.removeprefix("file:")
        ).startswith(places)

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event == "open":
            path, _, flags = arguments
            if flags & WRITING and not isinstance(path, int) and not inside(os.fsdecode(path)):
                refuse(f"writes to {path}")
        elif event in _CHANGES:
            for place, folder in _CHANGES[event].items():
                path = full_path(arguments[place], -1 if folder is None else arguments[folder])
                if path is not None and not inside(path):
                    refuse(f"changes {path}")
        elif event == "socket.connect" and not (is_open_way(arguments[1]) or may_reach(arguments[1])):
            refuse(f"connects to {arguments[1]}")
        elif event in _PROGRAMS:
            refuse(f"starts {arguments[0]}")

    return hook
