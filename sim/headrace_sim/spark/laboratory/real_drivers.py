"""The host of trials on the real Spark: their directories, their sessions of Java, and their attempts."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from headrace.spark.sinks.table_sink import WRITERS
from headrace_sim.spark.client.script_needs import ProgramError
from headrace_sim.spark.laboratory.inputs import held_back, write_batch
from headrace_sim.spark.laboratory.jvm import SparkJvm, running
from headrace_sim.spark.laboratory.kept_files import KeptFiles
from headrace_sim.spark.laboratory.laboratory_program import LaboratoryProgram, drive, look
from headrace_sim.spark.laboratory.places import ROOT, copied, looked_at, settings_of
from headrace_sim.spark.laboratory.postgres import PostgresDatabase, server_for
from headrace_sim.spark.laboratory.postgres import contents as tables_of
from headrace_sim.spark.laboratory.trial_outputs import collected
from headrace_sim.spark.laboratory.watched_frames import EMPTY_BATCHES
from headrace_sim.spark.laboratory.workers import AttemptSettings, end_workers
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.processes import Attempt, AttemptPlan, Sink
from headrace_sim.spark.sinks.sink_effects import (
    KILLED,
    Effect,
    EffectProbe,
    Failed,
    Ledger,
    Returned,
    UntraceableEffect,
)
from headrace_sim.spark.sinks.sink_runs import SinkFailsError, UnfollowableSinkError, trial_folder
from headrace_sim.spark.sinks.streaming_sinks import BatchAgain, streaming_sink
from headrace_sim.spark.sinks.trial_contents import Raw
from headrace_sim.spark.spark_job import SparkJob

_BETWEEN = {SinkFaultKind.KILL, SinkFaultKind.REORDER, SinkFaultKind.RESTART}
"""What may strike between two batches, where no function of the user's is called: such a query gets the batches up to there."""


@dataclass(slots=True)
class RealDrivers:
    """Attempts that run a program on the real Spark."""

    program: LaboratoryProgram
    jvm: SparkJvm  # where Spark runs
    home: Path = field(default_factory=Path.cwd)  # the owner's working directory
    most_runs: int = 8  # as `Host` has it
    # the URL of the owner's PostgreSQL for tests, in which each trial has a database. "": of ours
    postgres: str = ""
    runs_tasks_again: bool = True  # as `Host` has it
    shares_java: bool = True  # as `Host` has it
    # the owner's files, from which trials go on if sources are left as they are. None: batches are given
    kept: KeptFiles | None = None
    _known: dict[Path, Mapping[str, tuple[int, int]]] = field(default_factory=dict)
    _sessions: dict[Path, Any] = field(default_factory=dict)
    _database: PostgresDatabase | None = None
    _alive: dict[Path, int] = field(default_factory=dict)
    _has_function: bool = True

    @property
    def trials(self) -> Path:
        """Where the directories of trials are: where Java may write."""
        return self.jvm.trial_folders

    def begin(self, sink: Sink, folder: Path) -> None:
        """Copy the owner's files, write the input, and open a catalog."""
        name = f"trial{next(self.jvm.trials)}"
        if self.kept is not None:
            self.kept.begin(folder, name)
        else:
            (folder / ROOT).mkdir()
            self._known = {folder.parent: copied(self.home, folder)}
        self.give(sink, folder)
        settings = settings_of(name, folder, () if self.kept is None else (self.home, folder))
        self._sessions = {folder: self.jvm.new_catalog(settings)}
        self._alive = {}
        script = self.program.script
        server = server_for(script.file or self.home, self.postgres)
        self._database = None if server is None else server.create("trial")

    def give(self, sink: Sink, folder: Path) -> None:
        """Let the next attempt read the sink's batches, behind as many without rows as its first id says, and nothing else."""
        rows = folder.parent / "input"
        if rows.exists():
            shutil.rmtree(rows)
        for batch in range(sink.first_id):
            write_batch(rows, self.program.job, batch, ())
        self._write(sink, folder)

    def attempt(self, sink: Sink, folder: Path, ledger: Ledger, plan: AttemptPlan) -> "RealAttempt":
        """Start an attempt. Spark's checkpoint says with which batch it begins."""
        fault, reordered = plan.fault, plan.reordered
        rows = folder.parent / "input"
        part_bytes = None
        if reordered is not None:
            part_bytes = write_batch(
                rows, self.program.job, reordered, sink.batches[reordered][::-1], parts=2
            )
        before = self._sessions[folder]
        session = self.jvm.successor_of(before, overtaken=bool(self._alive.get(folder)))
        if part_bytes is not None:
            session.conf().set("spark.sql.files.maxPartitionBytes", str(part_bytes))
        self._sessions[folder] = session
        self._alive[folder] = self._alive.get(folder, 0) + 1
        os.environ.setdefault("TZ", "UTC")
        cut = fault if fault is not None and self._strikes_between(fault, len(sink.batches) - 1) else None
        if cut is not None and self.kept is None:
            held_back(rows, cut.batch - (cut.effect == 0))
            session.conf().set(EMPTY_BATCHES, "false")
        # Spark notes a batch as done after the function has returned, where no probe is: `watch_queries` waits for it.
        restarted = fault is not None and fault.kind is SinkFaultKind.RESTART

        settings = AttemptSettings(
            folder, self.jvm.folder, self.jvm.lets, plan.seed, self._database, self.kept, sink.heard
        )

        def run(probe: EffectProbe) -> int:
            probe.dies_held = plan.with_java
            return drive(self.program, self.jvm, session, settings, probe, fault, sink.prepare)

        attempt = Attempt(run, ledger, plan.number, None if restarted else fault)
        return RealAttempt(attempt, self, sink, folder, session, ledger, plan, cut)

    def rewind(self, sink: Sink, folder: Path) -> None:
        """Remove what the checkpoint knows of batches from ``sink.first_id`` on, as `Host` says; all of it if that is 0."""
        checkpoints = [path.parent for path in folder.rglob("offsets") if (path.parent / "commits").is_dir()]
        for checkpoint in checkpoints:
            if sink.first_id == 0:
                shutil.rmtree(checkpoint)
            for entry in (*checkpoint.glob("[oc]*/*"), *checkpoint.glob("sources/*/*")):
                number = entry.name.strip(".").partition(".")[0]
                if number.isdigit() and int(number) >= sink.first_id:
                    entry.unlink()
        held_back(folder.parent / "input", sink.first_id - 1)
        self._write(sink, folder)

    def _write(self, sink: Sink, folder: Path) -> None:
        if self.kept is not None:
            return
        for batch, rows in enumerate(sink.batches, sink.first_id):
            write_batch(folder.parent / "input", self.program.job, batch, rows)

    def kill_with_java(self, attempt: "RealAttempt") -> None:
        """Kill an attempt that waits to die, and Java, with SIGKILL; start another Java, which knows the same tables."""
        folder, session = attempt.folder, attempt.session
        settings, tables = dict(self.jvm.settings_of(session)), self.jvm.tables_of(session)
        attempt.run.kill()
        self.jvm.restart()
        self._alive[folder] = 0
        self._sessions[folder] = self.jvm.new_catalog(settings)
        self.jvm.make_tables(self._sessions[folder], tables)

    def _strikes_between(self, fault: SinkFault, last: int) -> bool:
        """Return whether a fault strikes where no function of the user's is called. Behind the last batch nothing can change.

        A sink that skips a batch which it has does not read it again, either: Spark then learns the watermark of the last batch,
        and lets go what that one closes, with the next input only.
        """
        if self._has_function or fault.kind not in _BETWEEN:
            return False
        if fault.batch < last or fault.effect == 0:
            return self.kept is None
        row = streaming_sink(self.program.job.sink.format)
        is_skipped = row is not None and row.again is BatchAgain.SKIPPED
        return fault.kind is not SinkFaultKind.RESTART and not is_skipped

    def ended(self, attempt: "RealAttempt") -> None:
        """End what an attempt that has ended left running in Java."""
        folder = attempt.folder
        self._alive[folder] -= 1
        end_workers(attempt.ledger, attempt.plan.number)
        self.jvm.end_queries(attempt.session, jobs=not self._alive[folder])
        undisturbed = AttemptPlan(chance=attempt.plan.chance, look=attempt.plan.look)
        if attempt.plan == undisturbed:  # it says what the program calls
            entries = attempt.ledger.entries()
            self._has_function = any(isinstance(entry, Returned) and entry.batch >= 0 for entry in entries)

    @contextmanager
    def another(self) -> Iterator["RealDrivers"]:
        """Give one with a Spark of its own."""
        with running(self.jvm.settings, self.jvm.lets) as jvm:
            yield replace(self, jvm=jvm, kept=self.kept and self.kept.another(jvm.folder))

    def contents(self, folder: Path, effects: list[Effect]) -> Raw:
        """Return what a trial left, without what was there before it, and without the epochs of Headrace's own sink."""
        rows = {} if self._database is None else tables_of(self._database)
        (session,) = self._sessions.values()
        read = partial(self.jvm.read_iceberg, session, folder)
        known = self._known.get(folder.parent, {}) if self.kept is None else looked_at(self.kept.snapshot)
        raw = collected(folder, effects, known, read) | rows
        raw = {name: items for name, items in raw.items() if not name.endswith(f": {WRITERS}")}
        return self.program.read(raw)


@dataclass(frozen=True, slots=True)
class RealAttempt:
    """An attempt on the real Spark."""

    run: Attempt
    host: RealDrivers
    sink: Sink
    folder: Path
    session: Any
    ledger: Ledger
    plan: AttemptPlan
    cut: SinkFault | None

    def paused(self) -> bool:
        """Wait until it pauses or ends; return whether it paused."""
        return self.run.paused()

    def finish(self) -> int:
        """Resume it if it paused, or kill it with Java if it waits to die; wait for its end; return its exit status."""
        is_held = self.plan.with_java and self.run.paused()
        if is_held:
            self.host.kill_with_java(self)
        try:
            status = self.run.finish()
        finally:
            if not is_held:
                self.host.ended(self)
        return status if self.cut is None else self._died_between(status, self.cut)

    def _died_between(self, status: int, cut: SinkFault) -> int:
        """Let what ran to the end of a batch have died before or behind the entry of the commit log."""
        for batch in range(cut.batch, len(self.sink.batches) if self.host.kept is None else 0):
            write_batch(self.folder.parent / "input", self.host.program.job, batch, self.sink.batches[batch])
        if status in {0, KILLED} and cut.effect and cut.kind is not SinkFaultKind.RESTART:
            for name in (f"{cut.batch}", f".{cut.batch}.crc"):
                for entry in self.folder.rglob(f"commits/{name}"):
                    entry.unlink()
        return status or KILLED


def in_turn(sinks: Sequence[Sink]) -> Raw:
    """Run queries of one program one behind another in one trial, each to its end; return what they left.

    Raise `SinkFailsError` if one of them fails, or `UnfollowableSinkError` if it does something outside its trial.
    """
    host = sinks[0].host
    assert isinstance(host, RealDrivers), "it is of a laboratory"
    with trial_folder(host.trials) as (folder, ledger):
        for number, sink in enumerate(sinks):
            assert isinstance(sink.host, RealDrivers), "all are of one program"
            host = replace(host, program=sink.host.program)  # and what this trial knows
            host.give(sink, folder) if number else host.begin(sink, folder)
            host.attempt(sink, folder, ledger, AttemptPlan(number, chance=0)).finish()
        for entry in ledger.entries():
            if isinstance(entry, UntraceableEffect):
                raise UnfollowableSinkError(entry.message)
            if isinstance(entry, Failed):
                raise SinkFailsError(entry.batch, entry.error, entry.message, entry.place)
        return host.contents(folder, ledger.effects())


def looked(
    program: LaboratoryProgram, jvm: SparkJvm, home: Path | None = None
) -> tuple[tuple[SparkJob, ...], dict[str, Any]]:
    """Run a program that the simulation cannot read, without rows, in a copy of ``home``; return its queries and its variables.

    Raise `ProgramError` if it starts no query, fails before, or does not say the schema of a stream, and
    `UnfollowableSinkError` if it does something outside its trial.
    """
    with trial_folder(jvm.trial_folders) as (folder, ledger):
        (folder / ROOT).mkdir()
        copied(home or Path.cwd(), folder)
        session = jvm.new_catalog(settings_of(f"look{next(jvm.trials)}", folder))
        settings = AttemptSettings(folder, jvm.folder, jvm.lets)
        Attempt(lambda probe: look(program, jvm, session, settings, probe), ledger, 0, None).finish()
        jvm.end_queries(session, jobs=True)
        end_workers(ledger, 0)
        entries: list[Any] = ledger.entries()
    jobs = tuple(entry for entry in entries if isinstance(entry, SparkJob))
    for entry in entries:
        match entry:
            case ProgramError():
                raise entry
            case UntraceableEffect():
                raise UnfollowableSinkError(entry.message)
            case Failed() if not jobs:
                problem = f"it raises {entry.error}: {entry.message}"
                raise ProgramError(problem, entry.place, "Fix it so that Spark runs it up to its queries")
    if not jobs:
        raise ProgramError("it starts no query", program.script.name, "Let it call what starts its query")
    return jobs, next((entry for entry in entries if isinstance(entry, dict)), {})
