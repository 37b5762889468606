"""One run of a sink: undisturbed, or under a fault, with the attempts that follow; in a directory of its own."""

import contextlib
import importlib
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from headrace.api.errors import HeadraceError
from headrace_sim.deliveries import Batches
from headrace_sim.spark.refusals import shown_place
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.processes import AttemptPlan, Sink
from headrace_sim.spark.sinks.sink_effects import (
    Effect,
    Entry,
    Failed,
    Ledger,
    Loaded,
    Returned,
    UntraceableEffect,
)
from headrace_sim.spark.sinks.trial_contents import Item


class SinkFailsError(HeadraceError):
    """A sink raises an error in an undisturbed run. Fields: batch (-1: while preparing), error, message, place."""

    def __init__(self, batch: int, error: str, message: str, place: str) -> None:
        super().__init__(batch, error, message, place)
        self.batch, self.error, self.message, self.place = batch, error, message, place

    def __str__(self) -> str:
        """Name the error, its place and the batch."""
        when = "the preparation" if self.batch < 0 else f"batch {self.batch}"
        problem = f"{self.error}: {self.message.rstrip('.')}"
        failed = f"{shown_place(self.place)}: the sink fails on {when}, undisturbed: {problem}. Fix it first"
        return failed if self.batch < 0 else f"{failed}, or give it rows that it takes: --sample FILE"


class UnfollowableSinkError(HeadraceError):
    """A sink does something that a trial cannot follow. Fields: message."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def __str__(self) -> str:
        """Repeat what was refused, and where."""
        return shown_place(self.message)  # it begins with its place, as seen from the directory of the trial


@dataclass(frozen=True, slots=True)
class Sight:
    """What anyone sees of the destinations at one moment of a run."""

    fault: SinkFault  # under which
    batches: int  # the number of batches that have begun
    contents: dict[str, list[Item]]
    effects: list[Effect]  # so far, of all processes
    is_end: bool  # whether the run has come to its end; else the driver has just died, or hangs


@dataclass(frozen=True, slots=True)
class Watcher:
    """What is called with what is seen in the undisturbed run, and at the end of each trial."""

    tell: Callable[[Sight], object]
    at_deaths: bool = False  # whether also where a driver has died, which takes a copy of what is there


@dataclass(frozen=True, slots=True)
class Trial:
    """What came of one run: a trial, or an undisturbed one."""

    fault: SinkFault | None
    entries: list[Entry]
    contents: dict[str, list[Item]]
    struck: Sight | None = None  # what was there before another process took over, if it was looked at
    steps: tuple[Sight, ...] = ()  # what was there behind each effect, if that was looked at

    def at_end(self, batches: int) -> Sight:
        """Return what is seen in the end. ``batches``: how many there were."""
        fault = self.fault or SinkFault(SinkFaultKind.NONE, 0, 0)
        return Sight(fault, batches, self.contents, self.effects, is_end=True)

    @property
    def effects(self) -> list[Effect]:
        """The effects of all processes."""
        return [entry for entry in self.entries if isinstance(entry, Effect)]


def undisturbed(sink: Sink, chance: int = 0) -> Trial:
    """Run a sink without faults.

    ``chance``: the seed of its clock and of its random numbers. Raise `SinkFailsError` if the function fails, or
    `UnfollowableSinkError` if it does something that cannot be simulated.
    """
    with trial_folder(sink.host.trials) as (folder, ledger):
        steps, plan = _looked_at(sink, folder, ledger, SinkFault(SinkFaultKind.NONE, 0, 0))
        sink.host.begin(sink, folder)
        sink.host.attempt(sink, folder, ledger, replace(plan, chance=chance)).finish()
        trial = replace(_left(None, sink, folder, ledger), steps=tuple(steps))
    for entry in trial.entries:
        if isinstance(entry, Failed):
            raise SinkFailsError(entry.batch, entry.error, entry.message, entry.place)
        if isinstance(entry, Loaded):
            _load(entry.modules)
    return trial


def tried(
    sink: Sink,
    fault: SinkFault,
    *,
    looking: bool = False,
    heard: bool = False,
    with_java: bool = False,
) -> Trial:
    """Run a sink under a fault.

    ``fault``: what strikes. ``looking``: whether to look at what is there before another process takes over. ``heard``: whether
    the errors are noted that its code catches. ``with_java``: whether Java dies with the driver.
    """
    sink, seen = replace(sink, heard=heard), None
    with trial_folder(sink.host.trials) as (folder, ledger):
        steps, plan = _looked_at(sink, folder, ledger, fault)
        sink.host.begin(sink, folder)
        struck = sink.host.attempt(sink, folder, ledger, replace(plan, fault=fault, with_java=with_java))
        first = fault.batch + (fault.kind is SinkFaultKind.RESTART)
        if fault.kind is SinkFaultKind.PAUSE and struck.paused():
            seen = _look(sink, folder, ledger, fault) if looking else None
            sink.host.attempt(sink, folder, ledger, replace(plan, number=1, first=first)).finish()
            struck.finish()
            failures = (entry for entry in ledger.entries() if isinstance(entry, Failed))
            if any(
                entry.attempt == 1 and entry.locked for entry in failures
            ):  # the paused process held a lock
                sink.host.attempt(sink, folder, ledger, replace(plan, number=2, first=first)).finish()
        elif struck.finish() != 0:
            seen = _look(sink, folder, ledger, fault) if looking else None
            reordered = fault.batch if fault.kind is SinkFaultKind.REORDER else None
            plan = replace(plan, number=1, first=first, reordered=reordered)
            sink.host.attempt(sink, folder, ledger, plan).finish()
        return replace(_left(fault, sink, folder, ledger), struck=seen, steps=tuple(steps))


@dataclass(frozen=True, slots=True)
class Restart:
    """A checkpoint that is replaced, and what comes before and behind that."""

    fault: SinkFault  # its kind, the index of the first batch that comes again, and its number
    how: str  # from where the query goes on
    before: Batches
    behind: Batches
    first_id: int  # of the batches behind it
    cut: Batches  # all rows, cut as they are behind it. Undisturbed, they must leave what is left as they are given


def restarted(sink: Sink, restart: Restart) -> Trial:
    """Run a sink, replace its checkpoint, and run it again."""
    lives = (
        replace(sink, batches=tuple(map(tuple, batches)), first_id=first_id)
        for batches, first_id in ((restart.before, 0), (restart.behind, restart.first_id))
    )
    with trial_folder(sink.host.trials) as (folder, ledger):
        steps, plan = _looked_at(sink, folder, ledger, restart.fault)
        for number, life in enumerate(lives):
            if number == 0:
                life.host.begin(life, folder)
            else:
                life.host.rewind(life, folder)
            life.host.attempt(life, folder, ledger, replace(plan, number=number, chance=number)).finish()
        return replace(_left(restart.fault, sink, folder, ledger), steps=tuple(steps))


@contextlib.contextmanager
def trial_folder(within: Path | None) -> Iterator[tuple[Path, Ledger]]:
    """Create a working directory and a ledger, and remove both afterwards. ``within``: as `Host.trials`."""
    parent = Path(os.path.realpath(tempfile.mkdtemp(prefix="headrace-sink-", dir=within)))
    ledger = Ledger(parent / "ledger")
    try:
        for name in ("work", "tmp"):
            (parent / name).mkdir()
        yield parent / "work", ledger
    finally:
        ledger.close()
        shutil.rmtree(parent)


def _left(fault: SinkFault | None, sink: Sink, folder: Path, ledger: Ledger) -> Trial:
    entries = ledger.entries()
    for entry in entries:
        if isinstance(entry, UntraceableEffect):
            raise UnfollowableSinkError(entry.message)
    return Trial(fault, entries, sink.host.contents(folder, ledger.effects()))


def _looked_at(sink: Sink, folder: Path, ledger: Ledger, fault: SinkFault) -> tuple[list[Sight], AttemptPlan]:
    """Return what is there behind each effect, once it is done, and the plan of an attempt that is looked at so."""
    steps = list[Sight]()
    look = (lambda: steps.append(_look(sink, folder, ledger, fault))) if sink.stepping else None
    return steps, AttemptPlan(look=look)


def _look(sink: Sink, folder: Path, ledger: Ledger, fault: SinkFault) -> Sight:
    """Return what is there now. A copy is looked at: to open a database may change it."""
    copy, effects = folder.parent / "copy", ledger.effects()
    shutil.copytree(folder, copy, symlinks=True)
    try:
        return Sight(fault, fault.batch + 1, sink.host.contents(copy, effects), effects, is_end=False)
    finally:
        shutil.rmtree(copy)


def stuck_at(entries: list[Entry]) -> Failed | None:
    """Return the error of the last process to take over, if any: the query never gets past this batch."""
    last = max(
        (entry.attempt for entry in entries if isinstance(entry, (Effect, Failed, Returned))), default=0
    )
    failures = [entry for entry in entries if isinstance(entry, Failed) and entry.attempt == last]
    return failures[-1] if failures and last > 0 else None


def _load(modules: tuple[str, ...]) -> None:
    """Import what the function imports when it is called, so that not every attempt spends a second on pandas."""
    for name in modules:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
