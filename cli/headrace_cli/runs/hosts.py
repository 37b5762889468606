"""The hosts on which a pipeline can run: functions from (pipeline, input, options, progress) to a result.

To add a host: write such a function, and enter it in `HOSTS`. What it gives is compared with the other hosts' by
`headrace_properties.user_code.comparison.same_output`, so it must be the whole output, each record as often as it went outside.
"""

import signal
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from headrace import SECOND, ComputationProgress, Pipeline
from headrace.histories import Header, header_of
from headrace.history import Event, FaultStruck, History
from headrace_cli.options.run_options import HostName
from headrace_cli.terminal.files import SIMULATED
from headrace_cli.terminal.live_progress import RunProgress
from headrace_cli.terminal.signals import stop_requested
from headrace_cli.terminal.usage_errors import WrongOptionError
from headrace_properties.checkers import Judge, engine_checkers, judge
from headrace_properties.checkers.drops import DropCounter
from headrace_properties.explain.progress_counter import ProgressCounter
from headrace_properties.promises import Promise, promise_checkers
from headrace_properties.reference import Emitted, run_reference
from headrace_properties.results import outputs_of
from headrace_properties.search.plans import draw_faults, ground_of
from headrace_properties.verdict import Verdict
from headrace_sim import ClusterOptions, Feed, start
from headrace_sim.faults import LateRecords

_STEPS = 200
"""Choice: number of progress updates in a simulated run."""

_ENTRIES = 500
"""Choice: and after this many entries of the input in a sequential one."""


_SPARK_CONFIG: Mapping[str, str] = {
    # Java's optimizing compiler takes more CPU time than its code saves in the minutes of a run, most of which are Python's.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1",
    # A run's checkpoint is on this machine's disk and is not kept. The default manager starts a hundred processes a micro-batch
    # to look after files there; this one writes beside and renames, too.
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
    ),
}


_BATCH_EVENTS = 12_000
"""Choice: a micro-batch costs as much as thousands of records. One of more records has larger states, which cost more."""
_MOST_INTERVALS = 4
"""Choice: each key interval has a part of that cost, and cores beyond these would wait for the keys with most records."""
_CLOCK_US = SECOND // 10


@dataclass(frozen=True, slots=True)
class HostOptions:
    """The options of a run on a host.

    Attributes:
        seed: of all that the host draws.
        faults: how many faults are to strike, at most; only the simulated cluster can make them.
        judge: on Spark, judge the History of this part of the keys, up to 1; ``None``: do not. The cluster is always judged.
        promises: what to judge by besides the invariants.
        keep_history: return the History; on Spark of all keys, or of the part that is judged.
    """

    seed: int = 0
    faults: int = 0
    judge: float | None = None
    promises: tuple[Promise, ...] = ()
    keep_history: bool = False


@dataclass(frozen=True, slots=True)
class HostRun:
    """The result of a run.

    Attributes:
        outputs: how often each record went outside.
        notes: what there is to say of the run, in sentences.
        verdicts: invariant to verdict, where the host can be judged.
        struck: fault to how often it struck.
        progress: of each computation, as far as this host tells.
        dropped: elements that groupings of the Dataflow layer dropped, by computation; on Spark, where the run is judged.
        stopped_by: the signal that has ended it before its input was done, if one has.
        history: what happened, if wanted.
        header: of the History's file, if wanted.
    """

    outputs: Counter[Emitted]
    notes: tuple[str, ...] = ()
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    struck: Mapping[str, int] = field(default_factory=dict)
    progress: tuple[ComputationProgress, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    stopped_by: signal.Signals | None = None
    history: Sequence[Event] = ()
    header: Header | None = None


Host = Callable[[Pipeline, Feed, HostOptions, RunProgress], HostRun]


def run_on_sim(pipeline: Pipeline, feed: Feed, options: HostOptions, progress: RunProgress) -> HostRun:
    """Run in the simulated cluster, under faults if requested, and judge the run.

    Choice: records that a faulty source brings too late are left out of the faults: they change the input, and so the output.

    Raises:
        HeadraceError: user code or input failed for good.
    """
    cluster_options = ClusterOptions()
    ground = ground_of(pipeline, feed, cluster_options)
    schedule = draw_faults(ground, options.faults, options.seed, without=(LateRecords,))
    cluster = start(pipeline, feed, options=cluster_options, faults=schedule, seed=options.seed)
    until_us, reading = (
        max(schedule.heals_at_us, feed.end_us),
        _HistoryReader(pipeline, cluster_options, options.promises),
    )
    reading.kept = [] if options.keep_history else None
    with stop_requested() as stop:
        for step in range(1, _STEPS + 1):
            if stop():
                break
            cluster.run_until(until_us * step // _STEPS)
            reading.take(cluster.history)
            progress.advance(0.95 * step / _STEPS, computations=reading.counter.progress())
        stopped_by = stop.signal
        if stopped_by is None:
            progress.advance(0.95, "waiting until all is at rest")
            cluster.heal(schedule.lasting)
            cluster.run_to_the_end()
            reading.take(cluster.history)
    done = f"{cluster.kernel.now / SECOND:.1f} simulated seconds, {reading.events:,} events judged"
    return HostRun(
        outputs=reading.outputs,
        notes=(done, *_of_stop(stopped_by)),
        stopped_by=stopped_by,
        verdicts=reading.judge.verdicts(),
        struck=dict(sorted(reading.struck.items())),
        progress=reading.counter.progress(),
        dropped=reading.drops.counts(),
        history=reading.kept or (),
        header=header_of([pipeline], SIMULATED, cluster_options.engine) if options.keep_history else None,
    )


class _HistoryReader:
    """A consumer that reads a run's History piece by piece and discards it: a long run needs little more memory than a short one.

    Attributes:
        judge: all checkers.
        counter: of each computation's progress.
        drops: elements that were dropped.
        outputs: how often each record went outside.
        struck: fault to how often it struck.
        events: how many there were.
        kept: all events; ``None``: they are not wanted.
    """

    def __init__(self, pipeline: Pipeline, options: ClusterOptions, promises: tuple[Promise, ...]) -> None:
        self.judge = Judge(
            engine_checkers([pipeline], options.engine), promise_checkers(promises, [pipeline])
        )
        self.counter = ProgressCounter(pipeline)
        self.drops = DropCounter([pipeline])
        self.outputs: Counter[Emitted] = Counter()
        self.struck: Counter[str] = Counter()
        self.events = 0
        self.kept: list[Event] | None = None

    def take(self, history: History) -> None:
        """Take the events since the last call."""
        events = history.events
        self.judge.take(events)
        self.counter.take(events)
        self.drops.take(events)
        self.outputs += outputs_of(events)
        self.struck.update(event.kind for event in events if isinstance(event, FaultStruck))
        self.events += len(events)
        if self.kept is not None:
            self.kept += events
        events.clear()


def run_on_reference(pipeline: Pipeline, feed: Feed, options: HostOptions, progress: RunProgress) -> HostRun:
    """Run one record at a time, without distribution: the result that every other host should reproduce.

    Raises:
        WrongOptionError: faults are wanted.
        HeadraceError: user code or input failed.
    """
    _refuse_faults("reference", options)
    entries = max(len(feed.entries), 1)

    with stop_requested() as stop:

        def on_entry(done: int) -> bool:
            if done % _ENTRIES == 0:
                progress.advance(done / entries)
            return stop()

        outcome = run_reference(pipeline, feed, on_entry)
    drops = DropCounter([pipeline])
    drops.take_states(outcome.states)
    return HostRun(outcome.outputs, _of_stop(stop.signal), dropped=drops.counts(), stopped_by=stop.signal)


def _of_stop(number: signal.Signals | None) -> tuple[str, ...]:
    if number is None:
        return ()
    return (f"Stopped by {number.name} before the end: the output is what went outside until then",)


def run_on_spark(pipeline: Pipeline, feed: Feed, options: HostOptions, progress: RunProgress) -> HostRun:
    """Run on Apache Spark in this process, on all cores, as a stream in micro-batches.

    SIGINT, SIGTERM or SIGHUP ends it after the current micro-batch.

    Raises:
        WrongOptionError: faults are wanted, or Spark is not installed.
        HeadraceError: there is no Java, or the pipeline needs something that Spark cannot do.
    """
    _refuse_faults("spark", options)
    try:
        from headrace import spark as host
    except ImportError as error:
        raise WrongOptionError("--on spark", str(error), "Or run it on sim or reference") from error
    progress.advance(0.0, "starting Spark")
    events = [(entry.address, entry.event) for entry in feed.entries]

    def on_batch(run: host.RecordedRun) -> None:
        progress.advance(run.events / max(len(events), 1), computations=run.progress)

    # Signals within the session: PySpark has a handler of its own.
    with host.session(config=_SPARK_CONFIG) as session, stop_requested() as stop:
        sample = host.Sample(options.judge) if options.judge is not None else options.keep_history
        run = host.run_recorded(
            session,
            pipeline,
            events,
            batch_events=_BATCH_EVENTS,
            intervals=min(max(session.sparkContext.defaultParallelism, 2), _MOST_INTERVALS),
            clock_us=_CLOCK_US,
            history=sample,
            on_batch=on_batch,
            should_stop=stop,
        )
        notes = [f"Spark {session.version}: {run.batches} micro-batches in {run.seconds:.1f} s"]
    stopped_by = stop.signal if run.events < len(events) else None
    if stopped_by is not None:
        done = f"{run.events:,} of {len(events):,} records and watermarks"
        notes.append(f"Stopped by {stopped_by.name} after {done}: what those have led to is in the output")
    verdicts: dict[str, Verdict] = {}
    if run.history is not None:
        promised = promise_checkers(options.promises, [pipeline], host.user_key)
        verdicts = judge(run.history, [pipeline], None, promised)
    outputs = Counter(Emitted(*output) for output in run.outputs)
    drops = DropCounter([pipeline])
    drops.take(run.history or ())
    return HostRun(
        outputs,
        tuple(notes),
        verdicts,
        progress=run.progress,
        dropped=drops.counts(),
        stopped_by=stopped_by,
        history=run.history.events if run.history is not None and options.keep_history else (),
        header=header_of([pipeline], "Spark", prefixed_keys=True) if options.keep_history else None,
    )


def _refuse_faults(host: str, options: HostOptions) -> None:
    if options.faults:
        raise WrongOptionError(
            f"--on {host}",
            "faults can be made in the simulated cluster only",
            "Leave out --faults, or use --on sim",
        )


HOSTS: dict[HostName, Host] = {
    HostName.SIM: run_on_sim,
    HostName.SPARK: run_on_spark,
    HostName.REFERENCE: run_on_reference,
}
"""All hosts."""
