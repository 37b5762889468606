"""Running a pipeline on Spark to its end while killing and pausing its processes (MillWheel 6.2, 7.1).

The harness runs outside Spark: it starts drivers as separate processes, feeds the input part by part, injects faults by the plan,
and a successor for each driver that is gone. The next driver starts Spark ahead of time, and waits until it is needed.

Rules of this file: a fault strikes a process that is held in the middle of a micro-batch, and only processes that this run
started. A part is processed completely before the next one is fed. A fault counts only if its effect was observed.
"""

import signal
import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from pathlib import Path

import msgspec

from headrace import HeadraceError, Pipeline
from headrace.spark.jobs.recorded_input import Landing
from headrace.wire.effects import SourceEvent
from headrace_properties.findings import Finding
from headrace_properties.reference import run_reference
from headrace_properties.search.parallel import signals_deferred
from headrace_properties.spark_jobs.hosted_outcomes import HostedOutcome, Row, outcome_of
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from headrace_scenarios.chaos.chaos_job import (
    ADDED,
    TABLE,
    BatchMoment,
    ChaosJob,
    Ended,
    SavedState,
    held,
    hold,
    release,
)
from headrace_scenarios.chaos.drivers import Driver
from headrace_scenarios.chaos.object_store import ObjectStore
from headrace_scenarios.chaos.plan import ChaosPlan, Strike, Verb
from headrace_scenarios.chaos.system_processes import (
    ancestor,
    check_process_table,
    processes_of,
    send,
    signal_all,
    wait_until_gone,
)
from headrace_sim.feed import Feed

_LOOK_EVERY_S = 0.05
_ORPHANS_S = 20.0
"""How long executors may survive their driver before they are killed too."""
_TRIES = 3
"""Consecutive drivers that may exit by themselves without any progress."""
_SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Choice: these JVMs live for seconds, which they would otherwise spend on compilation."""
_NEVER_S = "86400"
_STEP_S = 0.002
"""How long each step of a rename in the object store takes: long enough to be killed in."""

_SELECT = f"SELECT stream, key, value, timestamp FROM {TABLE}"  # noqa: S608  our own name
_REFUSALS = (
    ("FencedWriterError", "the sink: a newer epoch owns the table or files"),
    ("DriverReplacedError", "Spark: its log already has the batch"),
)


class ChaosStoppedError(HeadraceError):
    """A run could not continue. Fields: doing, reason, log."""

    def __init__(self, doing: str, reason: str, log: str) -> None:
        super().__init__(doing, reason, log)
        self.doing, self.reason, self.log = doing, reason, log

    def __str__(self) -> str:
        """Name the step, the reason and the log."""
        return f"{self.doing}: {self.reason}. See {self.log}"


@dataclass(frozen=True, slots=True)
class ChaosOptions:
    """Options of a run."""

    # Spark's master; ``local-cluster[executors,cores,megabytes]`` has separate processes for executors
    master: str = "local-cluster[1,2,1024]"
    fencing: bool = True  # the sink lets only the newest driver write; without it, any driver can append rows
    # each attempt writes separate state files, and the commit log says which count (``checkpointFormatVersion`` 2); without
    # it, the last write wins
    state_ids: bool = True
    intervals: int = 2  # number of key intervals of each computation
    patience_s: float = 300.0  # maximum wait for any single step, seconds of wall time
    object_store: bool = False  # keep the checkpoint, the job's own files and its outputs in an `ObjectStore`


@dataclass(slots=True)
class StrikeResult:
    """The observed effect of a strike."""

    strike: Strike
    struck: bool = False  # whether it took effect
    notes: list[str] = field(default_factory=list)  # observations
    recovered_s: float = 0.0  # time from the strike until its part was processed, seconds of wall time


@dataclass(frozen=True, slots=True)
class ChaosReport:
    """The result of a run."""

    plan: ChaosPlan  # the planned faults
    seen: tuple[StrikeResult, ...]  # their observed effects
    outcome: HostedOutcome  # the result of the job
    findings: tuple[Finding, ...]  # what is wrong with it
    drivers: int  # number of drivers started
    elapsed_s: float  # wall time, seconds

    @property
    def verdict(self) -> Verdict:
        """The verdict on the run."""
        if self.findings:
            return Violated("; ".join(finding.message for finding in self.findings), ())
        idle = [seen.strike.describe() for seen in self.seen if not seen.struck]
        if idle:
            return Unknown(f"never struck: {'; '.join(idle)}")
        return Holds(len(self.seen))


def run_chaos(
    target: str,
    pipeline: Pipeline,
    feed: Feed,
    plan: ChaosPlan,
    directory: Path,
    options: ChaosOptions | None = None,
    on_progress: Callable[[float, str], object] = lambda _done, _what: None,
    on_strike: Callable[[StrikeResult], object] = lambda _seen: None,
) -> ChaosReport:
    """Run a pipeline over a feed on Spark, under faults, to the end.

    Args:
        target: the pipeline, ``MODULE:PIPELINE``, for drivers to import.
        pipeline: the same pipeline.
        feed: all input; it must have no late records, because hosts differ in what they find late.
        plan: the faults.
        directory: an empty directory for all files of the run.
        options: options of the run.
        on_progress: called with the fraction done, 0 to 1, and the current step.
        on_strike: called with each fault's effect, once its part of the input was processed.

    Raises:
        ChaosStoppedError: the run cannot continue.
        NoProcessTableError: processes cannot be found on this machine.
        HeadraceError: user code failed in the reference too.
    """
    check_process_table()
    expected = run_reference(pipeline, feed)
    run = _Run(target, pipeline, feed, plan, directory, options or ChaosOptions(), on_progress, on_strike)
    began = time.monotonic()
    run.run()
    rows = read_rows(run.job.database)
    on_progress(1.0, "judging the run")
    outcome = outcome_of(pipeline, rows, stored=read_states(run.job.states))
    return ChaosReport(
        plan,
        tuple(run.seen),
        outcome,
        tuple(outcome.findings(expected)),
        len(run.drivers),
        time.monotonic() - began,
    )


class _Run:
    def __init__(
        self, target: str, pipeline: Pipeline, feed: Feed, plan: ChaosPlan, directory: Path, options: ChaosOptions,
        on_progress: Callable[[float, str], object], on_strike: Callable[[StrikeResult], object],
    ) -> None:  # fmt: skip
        self._store = ObjectStore(_STEP_S) if options.object_store else None
        self.job = ChaosJob(
            target, str(directory.absolute()), options.master, options.intervals,
            options.fencing, _config(options),
            store="" if self._store is None else self._store.uri,
        )  # fmt: skip
        self.drivers: list[Driver] = []
        self._standby: Driver | None = None
        self.seen: list[StrikeResult] = []
        self._job_file = directory / "job.json"
        self._options = options
        self._parts = _parts(feed, plan.parts)
        self._strikes = {strike.part: strike for strike in plan.strikes}
        self._on_progress, self._on_strike = on_progress, on_strike
        self._doing = ""
        self._begun = 0
        self._divisions = cycle(_divisions(options.intervals, pipeline))
        self.job.control.mkdir(parents=True)
        (directory / "plan.json").write_bytes(msgspec.json.encode(plan))
        self._landing = Landing(pipeline, self.job.landing)

    @property
    def _driver(self) -> Driver:
        return self.drivers[-1]

    def run(self) -> None:
        """Run all parts and stop; kill everything that was started in any case."""
        with self._store or nullcontext():
            self._run()

    def _run(self) -> None:
        try:
            self._begin("starting Spark", 0)
            self._start()
            for number, events in enumerate(self._parts):
                self._prepare(number)
                strike = self._strikes.get(number)
                self._begin(strike.describe() if strike else f"part {number}", number)
                if strike is None:
                    self._work_off(events)
                else:
                    seen = StrikeResult(strike)
                    self.seen.append(seen)
                    _STRIKES[strike.verb](self, seen, events)
                    self._on_strike(seen)
            self._begin("stopping Spark", len(self._parts))
            self._stop("with the states")
        finally:
            release(self.job.control)
            for driver in (*self.drivers, *([self._standby] if self._standby else [])):
                driver.kill()

    def _begin(self, doing: str, part: int) -> None:
        self._doing = doing
        self._on_progress(part / (len(self._parts) + 1), doing)

    # Drivers

    def _prepare(self, part: int) -> None:
        """Start the driver that will succeed the present one, if one will: it waits with a Spark of its own."""
        to_come = [strike for number, strike in self._strikes.items() if number >= part]
        if self._standby is None and any(strike.verb is not Verb.KILL_EXECUTOR for strike in to_come):
            with signals_deferred():  # an unrecorded driver would outlive the run
                self._standby = self._new_driver()

    def _start(self) -> None:
        with signals_deferred():
            if self._standby is not None and not self._standby.is_running:
                self._standby.kill()
                self._standby = None
            self._job_file.write_bytes(msgspec.json.encode(self.job))
            self.drivers.append(self._standby or self._new_driver())
            self._standby = None
            self.job.go_file(self._driver.number).touch()

    def _new_driver(self) -> Driver:
        self._job_file.write_bytes(msgspec.json.encode(self.job))
        self._begun += 1
        return Driver(self.job, self._job_file, self._begun - 1)

    def _stop(self, how: str = "") -> None:
        """Let the driver stop its query and exit; ``how``: the text of its stop file."""
        driver = self._driver
        self.job.stop_file.write_text(how)
        self._wait(lambda: not driver.is_running, "the driver did not stop")
        self.job.stop_file.unlink()
        driver.kill()

    def _work_off(self, events: Sequence[tuple[str, SourceEvent]]) -> None:
        """Feed a part, and wait until it is processed."""
        self._feed(events)
        self._await_idle()

    def _feed(self, events: Sequence[tuple[str, SourceEvent]]) -> None:
        """Feed a part. The libraries that write it are imported at the first one, and some swallow any exception meanwhile."""
        with signals_deferred():
            self._landing.put(events)

    def _await_idle(self) -> None:
        """Wait until all input so far is processed; start a successor for each driver that exits by itself."""
        files = sum(1 for _ in self.job.landing.glob("*/*.parquet"))
        lost = 0
        until = time.monotonic() + self._options.patience_s
        while self._driver.idle_files() < files:
            if not self._driver.is_running:
                lost += 1
                if lost == _TRIES:
                    raise self._stopped(_reason(self._driver))
                self._driver.kill()
                self._start()
            if time.monotonic() > until:
                raise self._stopped(f"no result within {self._options.patience_s:g} s")
            time.sleep(_LOOK_EVERY_S)

    def _wait(self, condition: Callable[[], bool], otherwise: str) -> None:
        until = time.monotonic() + self._options.patience_s
        while not condition():
            if time.monotonic() > until:
                raise self._stopped(otherwise)
            time.sleep(_LOOK_EVERY_S)

    def _stopped(self, reason: str) -> ChaosStoppedError:
        return ChaosStoppedError(self._doing, reason, self._driver.log)

    def _hold(self, moment: BatchMoment, events: Sequence[tuple[str, SourceEvent]]) -> int:
        """Feed a part, wait until a process is held in the middle of it, and return its id."""
        hold(self.job.control, moment)
        self._feed(events)
        return self._await_held()

    def _await_held(self) -> int:
        control, driver = self.job.control, self._driver
        self._wait(lambda: bool(held(control)) or not driver.is_running, "no task reached the hold")
        tasks = held(control)
        if not tasks:
            raise self._stopped(_reason(driver))
        return tasks[0]

    # Strikes

    def kill_executor(self, seen: StrikeResult, events: Sequence[tuple[str, SourceEvent]]) -> None:
        worker = self._hold(seen.strike.moment, events)
        processes = processes_of(self._driver.session)
        executor = ancestor(processes, worker)
        assert executor is not None, "a Python worker works for an executor"
        others = [process.pid for process in processes if ancestor(processes, process.pid) == executor]
        for pid in others:
            send(pid, signal.SIGKILL)
        seen.struck = True
        seen.notes.append(f"executor and {len(others) - 1} Python processes killed")
        self._recover(seen)

    def kill_driver(self, seen: StrikeResult, events: Sequence[tuple[str, SourceEvent]]) -> None:
        self._hold(seen.strike.moment, events)
        driver = self._driver
        for process in driver.main_processes():
            send(process.pid, signal.SIGKILL)
        seen.struck = True
        release(self.job.control)
        began = time.monotonic()
        if wait_until_gone(driver.session, _ORPHANS_S):
            seen.notes.append(f"its executors exited within {time.monotonic() - began:.1f} s")
        else:
            seen.notes.append(f"its executors survived for {_ORPHANS_S:g} s and were killed")
        driver.kill()
        self._start()
        self._recover(seen)

    def zombie(self, seen: StrikeResult, events: Sequence[tuple[str, SourceEvent]]) -> None:
        self._hold(seen.strike.moment, events)
        zombie = self._driver
        stopped = signal_all(zombie.session, signal.SIGSTOP)
        release(self.job.control)
        self._start()
        self._recover(seen)
        signal_all(zombie.session, signal.SIGCONT)
        self._wait(lambda: not zombie.is_running, "the zombie did not exit")
        ended = zombie.ended()
        refused = None if ended is None else _refused_by(ended)
        seen.struck = refused is not None
        seen.notes.append(
            f"{stopped} processes paused; {f'refused by {refused}' if refused else f'not refused: {_reason(zombie)}'}"
        )
        zombie.kill()

    def reshard(self, seen: StrikeResult, events: Sequence[tuple[str, SourceEvent]]) -> None:
        before, moment = self.job.intervals, seen.strike.moment
        self._stop()
        intervals, splits = next(self._divisions)
        self.job = msgspec.structs.replace(self.job, intervals=intervals, splits=splits)
        if moment is BatchMoment.CHANGING:  # the old intervals must first come to rest
            self._feed(events)
            hold(self.job.control, moment)
            self._start()
        else:
            self._start()
            self._await_idle()
            hold(self.job.control, moment)
            self._feed(events)
        self._await_held()
        seen.notes.append(f"{before} intervals became {intervals}{', one of them split' if splits else ''}")
        self._killed(seen)

    def change(self, seen: StrikeResult, events: Sequence[tuple[str, SourceEvent]]) -> None:
        moment, additions = seen.strike.moment, self.job.additions + 1
        self.job = msgspec.structs.replace(self.job, additions=additions)
        if moment is BatchMoment.CHANGING:
            hold(self.job.control, moment)
        self._write_additions()
        if moment is not BatchMoment.CHANGING:
            driver = self._driver
            self._wait(lambda: driver.additions() == additions, "the job was not changed")
            hold(self.job.control, moment)
        self._feed(events)
        self._await_held()
        seen.notes.append(f"the pipeline has {ADDED}{additions - 1}")
        self._killed(seen)

    def _write_additions(self) -> None:
        """Tell the driver how many computations to add, in one piece."""
        target = self.job.additions_file
        hidden = target.with_name(f".{target.name}")
        hidden.write_text(str(self.job.additions))
        hidden.rename(target)

    def _killed(self, seen: StrikeResult) -> None:
        """Kill the held driver with all its processes, and let a successor go on."""
        self._driver.kill()
        seen.struck = True
        release(self.job.control)
        self._start()
        self._recover(seen)

    def _recover(self, seen: StrikeResult) -> None:
        """Release all held processes, and wait until the part is processed."""
        began = time.monotonic()
        release(self.job.control)
        self._await_idle()
        seen.recovered_s = time.monotonic() - began


_STRIKES: dict[Verb, Callable[[_Run, StrikeResult, Sequence[tuple[str, SourceEvent]]], None]] = {
    Verb.KILL_EXECUTOR: _Run.kill_executor,
    Verb.KILL_DRIVER: _Run.kill_driver,
    Verb.ZOMBIE: _Run.zombie,
    Verb.RESHARD: _Run.reshard,
    Verb.CHANGE: _Run.change,
}


def _divisions(intervals: int, pipeline: Pipeline) -> list[tuple[int, dict[str, tuple[int, ...]]]]:
    """Return the numbers and splits of key intervals that a job gets one after the other, each another than the one before."""
    splits: dict[str, tuple[int, ...]] = dict.fromkeys(pipeline.computations, (0,))
    return [(intervals + 1, {}), (intervals + 1, splits), (intervals, {}), (intervals, splits)]


def _config(options: ChaosOptions) -> dict[str, str]:
    return {
        "spark.driver.extraJavaOptions": _SHORT_LIVED,
        "spark.executor.extraJavaOptions": _SHORT_LIVED,
        "spark.sql.streaming.pollingDelay": "50ms",
        "spark.worker.timeout": _NEVER_S,  # a paused driver finds its executors unchanged
        "spark.network.timeout": f"{_NEVER_S}s",
        "spark.sql.streaming.stateStore.checkpointFormatVersion": "2" if options.state_ids else "1",
    }


def _parts(feed: Feed, parts: int) -> list[list[tuple[str, SourceEvent]]]:
    """Divide a feed's entries into parts, none of them empty."""
    entries = [(entry.address, entry.event) for entry in feed.entries]
    cuts = [number * len(entries) // parts for number in range(parts + 1)]
    return [entries[begin:end] for begin, end in pairwise(cuts)]


def _refused_by(ended: Ended) -> str | None:
    said = f"{ended.error} {ended.text}"
    return next((who for mark, who in _REFUSALS if mark in said), None)


def _reason(driver: Driver) -> str:
    ended = driver.ended()
    if ended is None:
        return "the driver exited without a report"
    return f"the driver exited: {ended.error}: {ended.text[:600]}" if ended.error else "the driver exited"


def read_states(path: Path) -> dict[tuple[str, str], bytes]:
    """Return the states that a job had stored when it ended, without those of additions."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    rows = [msgspec.json.decode(line, type=SavedState) for line in lines]
    return {(row.computation, row.key): row.state for row in rows if not row.computation.startswith(ADDED)}


def read_rows(database: Path) -> list[Row]:
    """Return all rows of the sink's table; none if nothing was ever written."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(database)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (TABLE,)).fetchall():
            return []
        return connection.execute(_SELECT).fetchall()
