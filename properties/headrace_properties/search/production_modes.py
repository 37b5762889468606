"""Strong against weak productions: the same faults under each way to run a pipeline, and what it loses and costs (6.1.2, 6.1.3).

Rules of this file:

* Every way gets the same plans: the same faults at the same times, the same seed, the same knobs.
* Output is compared with the plain sequential reference; if user code depends on the order of arrival or on wall time, every
  way differs from it, so compare the ways with each other.
* Costs are computed from the History. Times are simulated, never wall time.
"""

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import msgspec

from headrace import HeadraceError, Pipeline, Productions
from headrace.history import (
    Acked,
    Applied,
    Checkpointed,
    Executed,
    FaultStruck,
    History,
    Injected,
    Output,
    Resent,
)
from headrace.wire.rows import Production, Version
from headrace_properties.reference import Emitted, run_reference
from headrace_properties.results import outputs_of
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import run_plan, violations
from headrace_properties.search.plans import Plan, draw_faults, ground_of
from headrace_properties.verdict import Verdict
from headrace_sim import ClusterOptions, Feed
from headrace_sim.faults import NO_FAULTS
from headrace_sim.kernel import seldom_collected

_NEVER_US = 10**15
"""Longer than any run: no straggler is ever checkpointed."""


@dataclass(frozen=True, slots=True)
class ProductionMode:
    """One way to run a pipeline.

    Attributes:
        name: what reports call it.
        productions: of every computation.
        exactly_once: of every computation.
        checkpoints: whether weak stragglers are checkpointed (6.1.3).
    """

    name: str
    productions: Productions
    exactly_once: bool = True
    checkpoints: bool = True

    def pipeline(self, pipeline: Pipeline) -> Pipeline:
        """Return a pipeline that runs this way."""
        for name in pipeline.computations:
            pipeline = pipeline.with_computation(
                name, productions=self.productions, exactly_once=self.exactly_once
            )
        return pipeline

    def options(self, options: ClusterOptions) -> ClusterOptions:
        """Return options of a cluster that runs this way."""
        if self.checkpoints:
            return options
        engine = dataclasses.replace(options.engine, straggler_delay_us=_NEVER_US)
        return msgspec.structs.replace(options, engine=engine)


WAYS = (
    ProductionMode("strong", Productions.STRONG),
    ProductionMode("weak", Productions.WEAK),
    ProductionMode("weak, no straggler checkpoints", Productions.WEAK, checkpoints=False),
    ProductionMode("strong, exactly-once off", Productions.STRONG, exactly_once=False),
    ProductionMode("weak, exactly-once off", Productions.WEAK, exactly_once=False),
)
"""The ways that `compare` tries, safest first."""


@dataclass(slots=True)
class Costs:
    """The costs of runs, computed from their Histories.

    Attributes:
        executions: runs of user code.
        again: runs of user code for a record or timer that it had run for before.
        in_vain: runs of user code that came to nothing, because they were never applied.
        counted_twice: times that a record or timer was applied after it had been.
        diverged: productions that were made more than once with one id, and bit-wise different (6.1.2).
        writes: row deltas that the store applied.
        written_bytes: the encoded size of these.
        checkpointed: weak stragglers.
        resent: deliveries that were sent again.
        crashes: of any process.
        latencies_us: of each record that went outside: since its cause was injected, or its timer first ran.
        held_us: of each production: how long its sender had to keep it until it was ACKed.
        held_byte_us: the same, times its bytes: what senders retained, over time.
    """

    executions: int = 0
    again: int = 0
    in_vain: int = 0
    counted_twice: int = 0
    diverged: int = 0
    writes: int = 0
    written_bytes: int = 0
    checkpointed: int = 0
    resent: int = 0
    crashes: int = 0
    latencies_us: list[int] = field(default_factory=list)
    held_us: list[int] = field(default_factory=list)
    held_byte_us: int = 0

    def take(self, history: History) -> None:
        """Add a run."""
        reading = _CostReader(self)
        for event in history:
            reading.take(event)
        reading.end()


@dataclass(slots=True)
class Account:
    """The results of one way.

    Attributes:
        way: which.
        without_faults: what one run without faults took.
        runs: runs with faults that came to their end.
        lost: records of the reference that never went outside in these.
        repeated: records that went outside more often than in the reference.
        changed: records that went outside with another value than in the reference.
        with_faults: what the runs with faults took.
        violated: invariant to the number of runs that broke it.
        errors: what runs stopped with.
    """

    way: ProductionMode
    without_faults: Costs = field(default_factory=Costs)
    runs: int = 0
    lost: int = 0
    repeated: int = 0
    changed: int = 0
    with_faults: Costs = field(default_factory=Costs)
    violated: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def take(self, history: History, expected: Counter[Emitted]) -> None:
        """Add a run with faults."""
        self.runs += 1
        self._compare(expected, outputs_of(history))
        self.with_faults.take(history)

    def _compare(self, expected: Counter[Emitted], outputs: Counter[Emitted]) -> None:
        missing, extra = _by_place(expected - outputs), _by_place(outputs - expected)
        for place in sorted({*missing, *extra}):
            changed = min(missing[place], extra[place])
            self.changed += changed
            self.lost += missing[place] - changed
            self.repeated += extra[place] - changed


@seldom_collected()
def compare(
    pipeline: Pipeline, feed: Feed, *, runs: int = 20, faults: int = 10, seed: int = 0,
    options: ClusterOptions | None = None, on_run: Callable[[int], None] | None = None,
    should_stop: Callable[[], bool] = lambda: False,
) -> list[Account]:  # fmt: skip
    """Run a pipeline in each of `WAYS` under the same plans.

    Args:
        pipeline: what to run; its own switches for productions and exactly-once are overridden.
        feed: the input.
        runs: plans, each with its own faults.
        faults: faults of a plan.
        seed: of the plans.
        options: of the cluster.
        on_run: told after each run how many are done, of ``runs * len(WAYS)``.
        should_stop: called before each plan; ``True``: return the results so far.

    Raises:
        HeadraceError: user code or input fails without any fault.
    """
    base = options or ClusterOptions()
    expected = run_reference(pipeline, feed).outputs
    accounts = [Account(way) for way in WAYS]
    for account in accounts:
        account.without_faults.take(_run(account.way, pipeline, feed, Plan(NO_FAULTS, base, seed))[0])
    done = 0
    for plan in _plans(pipeline, feed, runs, faults, seed, base):
        if should_stop():
            break
        for account in accounts:
            _add(account, pipeline, feed, plan, expected)
            done += 1
            if on_run is not None:
                on_run(done)
    return accounts


def _plans(
    pipeline: Pipeline, feed: Feed, runs: int, faults: int, seed: int, options: ClusterOptions
) -> Iterator[Plan]:
    ground = ground_of(pipeline, feed, options)
    for number in range(runs):
        run_seed = seed * 1_000_003 + number
        yield Plan(draw_faults(ground, faults, run_seed), options, run_seed)


def _run(
    way: ProductionMode, pipeline: Pipeline, feed: Feed, plan: Plan
) -> tuple[History, dict[str, Verdict]]:
    plan = msgspec.structs.replace(plan, options=way.options(plan.options))
    history, verdicts, _ = run_plan(Application.with_input(way.pipeline(pipeline), feed), PipelineTrial(plan))
    return history, verdicts


def _add(account: Account, pipeline: Pipeline, feed: Feed, plan: Plan, expected: Counter[Emitted]) -> None:
    try:
        history, verdicts = _run(account.way, pipeline, feed, plan)
    except HeadraceError as error:  # user code may refuse what a rerun produced
        account.errors.append(str(error))
        return
    account.violated.update(violations(verdicts))
    account.take(history, expected)


class _CostReader:
    """Computes the costs of one run from its History, in one pass."""

    def __init__(self, costs: Costs) -> None:
        self._costs = costs
        self._began: dict[str, int] = {}
        """When the work that led to a record or timer began, by record id or timer."""
        self._sent: dict[tuple[str, str], tuple[int, int]] = {}
        """When a production was first sent, and its size."""
        self._values: dict[str, set[tuple[bytes, int]]] = defaultdict(set)
        self._running: dict[Version, list[str]] = defaultdict(list)
        """The causes that each write is to consume."""
        self._executed: set[tuple[str, str]] = set()
        self._effects: Counter[tuple[str, str]] = Counter()
        self._handlers: dict[type, Callable[..., None]] = {
            Injected: self._on_injected,
            Executed: self._on_executed,
            Applied: self._on_applied,
            Acked: self._on_acked,
            Output: self._on_output,
            Checkpointed: self._on_checkpointed,
            Resent: self._on_resent,
            FaultStruck: self._on_fault,
        }

    def take(self, event: object) -> None:
        """Take an event."""
        handler = self._handlers.get(type(event))
        if handler is not None:
            handler(event)

    def end(self) -> None:
        """Count what is known only at the end of the run."""
        effects, values_of = self._effects, self._values
        self._costs.in_vain += sum(len(causes) for causes in self._running.values())
        self._costs.counted_twice += effects.total() - len(effects)
        self._costs.diverged += sum(len(values) > 1 for values in values_of.values())

    def _on_injected(self, event: Injected) -> None:
        for production in event.productions:
            self._began.setdefault(production.record_id, event.at_us)
            self._note_sent(production, event.at_us)

    def _on_executed(self, event: Executed) -> None:
        self._costs.executions += 1
        place = (event.computation, event.cause)
        self._costs.again += place in self._executed
        self._executed.add(place)
        self._running[event.version].append(event.cause)
        began = self._began.setdefault(event.cause, event.at_us)
        for production in event.productions:
            self._began.setdefault(production.record_id, began)
            self._note_sent(production, event.at_us)
            self._values[production.record_id].add((production.value, production.timestamp))

    def _on_applied(self, event: Applied) -> None:
        self._costs.writes += 1
        self._costs.written_bytes += len(_ENCODER.encode(event.delta))
        causes = self._running.pop(Version(event.sequencer, event.delta.number), ())
        self._effects.update((event.computation, cause) for cause in causes)

    def _on_acked(self, event: Acked) -> None:
        sent = self._sent.pop((event.record_id, event.consumer), None)
        if sent is not None:
            held_us = event.at_us - sent[0]
            self._costs.held_us.append(held_us)
            self._costs.held_byte_us += held_us * sent[1]

    def _note_sent(self, production: Production, at_us: int) -> None:
        place = (production.record_id, production.consumer)
        self._sent.setdefault(place, (at_us, len(_ENCODER.encode(production))))

    def _on_output(self, event: Output) -> None:
        self._costs.latencies_us.append(event.at_us - self._began[event.production.record_id])

    def _on_checkpointed(self, _event: Checkpointed) -> None:
        self._costs.checkpointed += 1

    def _on_resent(self, _event: Resent) -> None:
        self._costs.resent += 1

    def _on_fault(self, event: FaultStruck) -> None:
        self._costs.crashes += event.kind == "crash"


_ENCODER = msgspec.msgpack.Encoder()


def _by_place(outputs: Counter[Emitted]) -> Counter[tuple[str, str, int]]:
    """Count the records of each stream, key and timestamp, ignoring values."""
    places: Counter[tuple[str, str, int]] = Counter()
    for output, count in outputs.items():
        places[output.stream, output.key, output.timestamp] += count
    return places
