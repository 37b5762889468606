"""Steps, computed anew (MillWheel 6.2, 7.1): an owner's memory is what the rows say, state included.

Each step that was applied is run again on the state that its row had then. If it comes to something else, its owner worked on a
state that was not the row's, or user code keeps something outside its state. `Unknown` for code that is not deterministic, or
looks at the wall clock, which a History does not tell.
"""

from collections.abc import Iterable

from headrace import Pipeline, format_time
from headrace.api.specs import OUTSIDE
from headrace.delivery.deployed import Deployed
from headrace.history import Applied, DeadLettered, Event, Executed, Injected
from headrace.wire.rows import Production
from headrace.worker.execution import run_record, run_timer
from headrace_properties.user_code.findings import with_code_for_each_call
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated

_Made = tuple[bytes | None, tuple[tuple[str, str, bytes, int], ...]]
"""What a step came to: its row's new state, and its productions."""


def check_replay(history: Iterable[Event], pipeline: Pipeline) -> Verdict:
    """Run all applied steps of a History again.

    Args:
        history: of the whole run.
        pipeline: that ran.
    """
    replay = _Replay(pipeline)
    for event in history:
        verdict = replay.take(event)
        if verdict is not None:
            return verdict
    return Holds(replay.steps) if replay.steps else Unknown("no step was applied")


class _Replay:
    def __init__(self, pipeline: Pipeline) -> None:
        pipeline = with_code_for_each_call(pipeline)
        present = frozenset([OUTSIDE, *pipeline.computations])
        self._deployed = {
            name: Deployed(spec, pipeline, present) for name, spec in pipeline.computations.items()
        }
        self._records: dict[tuple[str, str], Production] = {}
        self._runs: dict[tuple[int, int], list[Executed]] = {}
        self._states: dict[tuple[str, str], bytes] = {}
        self._dead: set[str] = set()
        self.steps = 0

    def take(self, event: Event) -> Verdict | None:
        """Take an event; a verdict ends it."""
        if isinstance(event, Injected):
            self._learn(event.productions)
        elif isinstance(event, DeadLettered):
            self._dead.add(event.cause)
        elif isinstance(event, Executed):
            self._learn(event.productions)
            version = (event.version.sequencer, event.version.number)
            self._runs.setdefault(version, []).append(event)
        elif isinstance(event, Applied):
            return self._judge(event)
        return None

    def _learn(self, productions: Iterable[Production]) -> None:
        for production in productions:
            self._records[production.record_id, production.consumer] = production

    def _judge(self, event: Applied) -> Verdict | None:
        delta = event.delta
        name = (event.computation, delta.key)
        runs = self._runs.get((event.sequencer, delta.number), [])
        before = self._states.get(name, b"")
        if delta.state is not None:
            self._states[name] = delta.state
        if not runs or any(run.cause in self._dead for run in runs):
            return None
        made = tuple(_content(production) for run in runs for production in run.productions)
        again = self._again(runs, before, 0)
        if again == (delta.state, made):
            self.steps += 1
            return None
        if again != self._again(runs, before, 0) or again != self._again(runs, before, 1_000_003):
            return Unknown(
                f"user code of {event.computation!r} is not deterministic, or looks at the wall clock"
            )
        text = (
            f"step {event.sequencer}.{delta.number} of key {delta.key!r} at {event.computation!r}, applied at"
            f" {format_time(event.at_us)}, does not follow from its row: it came to {(delta.state, made)!r:.160}, and on the"
            f" row's state {before!r:.60} user code comes to {again!r:.160} (MillWheel 6.2, 7.1)"
        )
        return Violated(text, (*runs, event))

    def _again(self, runs: list[Executed], state: bytes, later_us: int) -> _Made | None:
        """Run a step's user code again; ``None``: it fails."""
        after: bytes | None = None
        made: list[tuple[str, str, bytes, int]] = []
        for run in runs:
            where, now = self._deployed[run.computation], run.at_us + later_us
            try:
                if run.timer is None:
                    record = self._records[run.cause, run.computation]
                    context = run_record(where, run.key, state, record, run.input_watermark, now)
                else:
                    context = run_timer(where, run.key, state, run.timer, run.input_watermark, now)
                changed = context.new_state()
            except Exception:  # noqa: BLE001  user code may raise anything
                return None
            if changed is not None:
                after = state = changed
            for one in context.emissions or ():
                made += [
                    (one.stream, consumer, one.value, one.timestamp)
                    for consumer, _ in where.consumers(one.stream)
                ]
        return after, tuple(made)


def _content(production: Production) -> tuple[str, str, bytes, int]:
    return production.stream, production.consumer, production.value, production.timestamp
