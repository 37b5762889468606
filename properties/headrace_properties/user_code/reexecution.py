"""Rerun applied steps (MillWheel 6.2, 7.1): an owner's memory must agree with the rows, state included.

Each applied step is rerun on the state that its row had then. If the outcome differs, its owner worked on a state that was not
the row's, or user code keeps something outside its state. The verdict is `Unknown` for code that is nondeterministic or reads the
wall clock, which a History does not record.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from headrace import Encoded, Pipeline, format_time
from headrace.api.specs import OUTSIDE
from headrace.delivery.deployed import Deployed
from headrace.history import Applied, DeadLettered, Event, Executed, Injected
from headrace.wire.rows import Production
from headrace.worker.hooks import run_record, run_timer
from headrace_properties.user_code.comparison import leveled_value
from headrace_properties.user_code.hosting import with_code_for_each_call
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated


@dataclass(frozen=True, slots=True)
class AppliedStep:
    """A step that was applied.

    Attributes:
        event: its write.
        runs: the executions that the write covers, in order.
        before: the row's state before it, encoded.
    """

    event: Applied
    runs: tuple[Executed, ...]
    before: Encoded


@dataclass(frozen=True, slots=True)
class RerunResult:
    """The outcome of rerunning a step's user code.

    Attributes:
        state: the row's new state, encoded; ``None``: unchanged.
        emissions: (stream, value, timestamp) of each record that it sends, in order.
        productions: (stream, consumer, value, timestamp): the same, for each consumer.
    """

    state: Encoded | None
    emissions: tuple[tuple[str, bytes, int], ...]
    productions: tuple[tuple[str, str, bytes, int], ...]


def check_replay(history: Iterable[Event], pipeline: Pipeline) -> Verdict:
    """Rerun all applied steps of a History.

    Args:
        history: of the whole run.
        pipeline: that ran.
    """
    replay = StepReplay(pipeline)
    steps = 0
    for event in history:
        step = replay.take(event)
        if step is None:
            continue
        verdict = _judge(replay, step)
        if verdict is not None:
            return verdict
        steps += 1
    return Holds(steps) if steps else Unknown("no step was applied")


def _judge(replay: "StepReplay", step: AppliedStep) -> Verdict | None:
    event, delta = step.event, step.event.delta
    recorded = (
        delta.state,
        tuple(_content(production) for run in step.runs for production in run.productions),
    )
    again = replay.again(step)
    outcome = None if again is None else (again.state, again.productions)
    if outcome == recorded or (
        outcome is not None and replay.compared(step, *outcome) == replay.compared(step, *recorded)
    ):
        return None
    if again != replay.again(step) or again != replay.again(step, 1_000_003):
        return Unknown(f"user code of {event.computation!r} is nondeterministic, or reads the wall clock")
    text = (
        f"step {event.sequencer}.{delta.number} of key {delta.key!r} at {event.computation!r}, applied at"
        f" {format_time(event.at_us)}, does not follow from its row: it came to {recorded!r:.160}, and on the"
        f" row's state {step.before!r:.60} user code comes to {outcome!r:.160} (MillWheel 6.2, 7.1)"
    )
    return Violated(text, (*step.runs, event))


class StepReplay:
    """Finds the applied steps in a History, and reruns them.

    Args:
        pipeline: the pipeline whose user code is rerun.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self._pipeline = pipeline = with_code_for_each_call(pipeline)
        present = frozenset([OUTSIDE, *pipeline.computations])
        self._deployed = {
            name: Deployed(spec, pipeline, present) for name, spec in pipeline.computations.items()
        }
        self._records: dict[tuple[str, str], Production] = {}
        self._runs: dict[tuple[int, int], list[Executed]] = {}
        self._states: dict[tuple[str, str], Encoded] = {}
        self._dead: set[str] = set()

    def take(self, event: Event) -> AppliedStep | None:
        """Take an event; return the step that it applies, unless one of its records failed for good."""
        if isinstance(event, Injected):
            self._learn(event.productions)
        elif isinstance(event, DeadLettered):
            self._dead.add(event.cause)
        elif isinstance(event, Executed):
            self._learn(event.productions)
            version = (event.version.sequencer, event.version.number)
            self._runs.setdefault(version, []).append(event)
        elif isinstance(event, Applied):
            return self._step(event)
        return None

    def _learn(self, productions: Iterable[Production]) -> None:
        for production in productions:
            self._records[production.record_id, production.consumer] = production

    def _step(self, event: Applied) -> AppliedStep | None:
        delta = event.delta
        name = (event.computation, delta.key)
        runs = self._runs.get((event.sequencer, delta.number), [])
        before = self._states.get(name, b"")
        if delta.state is not None:
            self._states[name] = delta.state
        if not runs or any(run.cause in self._dead for run in runs):
            return None
        return AppliedStep(event, tuple(runs), before)

    def record(self, run: Executed) -> Production | None:
        """Return the record that an execution was for; ``None`` for a timer, or if the History does not contain it."""
        return self._records.get((run.cause, run.computation))

    def compared(self, step: AppliedStep, state: Encoded | None, sent: Iterable[tuple[Any, ...]]) -> object:
        """Return the value by which two outcomes of a step are compared.

        It is the bytes; if runs of a step share the state, it is the decoded value, which is the same with copies.

        Args:
            step: that came to it.
            state: the row's new state, encoded; ``None``: unchanged.
            sent: what it sent; each has its stream first, and its value and timestamp last.
        """
        state, spec = step.before if state is None else state, self._deployed[step.event.computation].spec
        if not spec.share_state:
            return state, tuple(sent)
        read = leveled_value(spec.state_codec, state or spec.initial_state)
        codec = self._pipeline.codec
        return read, [(*place, leveled_value(codec(place[0]), value), at) for *place, value, at in sent]

    def again(self, step: AppliedStep, later_us: int = 0) -> RerunResult | None:
        """Rerun a step's user code, with ``later_us`` added to its wall clock; return ``None`` if it fails."""
        state, after = step.before, None
        emissions: list[tuple[str, bytes, int]] = []
        productions: list[tuple[str, str, bytes, int]] = []
        for run in step.runs:
            where, now = self._deployed[run.computation], run.at_us + later_us
            try:
                if run.timer is None:
                    record = self._records[run.cause, run.computation]
                    context = run_record(
                        where, run.key, state, record, run.input_watermark, now, late=run.late
                    )
                else:
                    context = run_timer(where, run.key, state, run.timer, run.input_watermark, now)
                changed = context.new_state()
            except Exception:  # noqa: BLE001  user code may raise anything
                return None
            if changed is not None:
                after = state = changed
            for emission in context.emissions or ():
                emissions.append((emission.stream, emission.value, emission.timestamp))
                productions += [
                    (emission.stream, consumer, emission.value, emission.timestamp)
                    for consumer, _ in where.consumers(emission.stream)
                ]
        return RerunResult(after, tuple(emissions), tuple(productions))


def _content(production: Production) -> tuple[str, str, bytes, int]:
    return production.stream, production.consumer, production.value, production.timestamp
