"""Repeat calls of user code under other circumstances: another day, other random numbers, fresh surroundings (MillWheel 6.1.3).

Rules of this file: a call is a `HookCall`, and depends on nothing else. Before each call the clock is frozen and the random
generators are seeded, so any difference in the outcome is caused by what this file has changed.
"""

import os
import random
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from headrace import Pipeline, Record
from headrace.api.codecs import decode_state
from headrace.api.ropes import Encoded
from headrace.api.specs import ComputationSpec
from headrace_properties.reference import HookCall, StepResult, run_step
from headrace_properties.reference.running_computation import KeyRow, RunningComputation
from headrace_properties.search.limits import CodeOverrunError
from headrace_properties.user_code.comparison import leveled_value
from headrace_properties.user_code.surroundings import Surroundings

LOTS = 0
"""Seeds the random generators before each call."""

OTHER_LOTS = (30_818, 331_748)
"""Seeds whose first random number is close to 0, and close to 1."""

THE_DAY = datetime(2024, 2, 28, 10, 41, 7, 123_456, tzinfo=UTC)
ANOTHER_DAY = THE_DAY + timedelta(days=401, hours=9, minutes=17, seconds=31, microseconds=654_321)
"""An instant that differs in year, month, day of the week, hour, minute and second."""
ANOTHER_ZONE = "ELSEWHERE+9:30"
"""A time zone far from most machines' own, as POSIX writes it: 9.5 hours behind UTC."""


@dataclass(frozen=True, slots=True)
class Raised:
    """A call that raised something.

    Attributes:
        kind: name of its type.
        text: its message.
    """

    kind: str
    text: str


Outcome = StepResult | Raised


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A call made in another process.

    Attributes:
        outcome: its outcome.
        key: what the key extractor returns there for its record; ``None`` for a timer.
    """

    outcome: Outcome
    key: object = None


@contextmanager
def clock_at(moment: datetime, zone: str = "") -> Iterator[None]:
    """Freeze the wall clock. ``zone``: the machine's time zone; default: as it is."""
    import time_machine  # noqa: PLC0415  it imports pytest, where that is installed: a tenth of a command's start

    with time_machine.travel(moment, tick=False):
        before = os.environ.get("TZ")
        changes_zone = bool(zone) and hasattr(time, "tzset")
        if changes_zone:
            _set_zone(zone)
        try:
            yield
        finally:
            if changes_zone:
                _set_zone(before)
            os.environ.setdefault(
                "TZ", ""
            )  # user code may have emptied the environment; the clock takes it back


def _set_zone(zone: str | None) -> None:
    if zone is None:
        os.environ.pop("TZ", None)
    else:
        os.environ["TZ"] = zone
    time.tzset()


class Caller:
    """Repeats calls, each on the surroundings as they were when the caller was created.

    Args:
        pipeline: whose code to call.

    Attributes:
        surroundings: what each computation can reach, by name.
        changed: the computations that are known to change theirs; at first, all may.
    """

    def __init__(self, pipeline: Pipeline) -> None:
        self.pipeline = pipeline
        self.surroundings = {
            name: Surroundings(spec.computation) for name, spec in pipeline.computations.items()
        }
        self._keying = {
            name: Surroundings(list(spec.inputs.values())) for name, spec in pipeline.computations.items()
        }
        self.changed: set[str] = set(pipeline.computations)
        self._stages = {name: RunningComputation(spec, ()) for name, spec in pipeline.computations.items()}
        self._sharing = {name: _Sharing(spec) for name, spec in pipeline.computations.items()}

    def restore(self) -> None:
        """Restore what the code can reach."""
        for surrounding in (*self.surroundings.values(), *self._keying.values()):
            surrounding.restore()

    def note_change(self, computation: str) -> None:
        """Note whether a computation has changed what it can reach."""
        if computation not in self.changed and self.surroundings[computation].changed:
            self.changed.add(computation)

    def call(self, step: HookCall, lots: int = LOTS) -> Outcome:
        """Make a call."""
        if step.computation in self.changed:
            self.surroundings[step.computation].restore()
        return self.call_on(step, lots)

    def call_sharing(self, step: HookCall, *, begins: bool) -> Outcome:
        """Make a call on the state object that the key's last one left. ``begins``: decode the state, as each step does."""
        stage = self._sharing[step.computation]
        if begins:
            stage.left.pop(step.key, None)
        if step.computation in self.changed:
            self.surroundings[step.computation].restore()
        return self._call_in(stage, step, LOTS)

    def call_on(self, step: HookCall, lots: int = LOTS) -> Outcome:
        """Make a call on the surroundings left by earlier ones."""
        return self._call_in(self._stages[step.computation], step, lots)

    def _call_in(self, stage: RunningComputation, step: HookCall, lots: int) -> Outcome:
        stage.rows[step.key] = KeyRow(step.state)
        stage.input_us = step.input_us
        random.seed(lots)
        try:
            return run_step(self.pipeline, stage, step)
        except (Exception, SystemExit, CodeOverrunError) as error:  # noqa: BLE001  user code may raise anything
            return Raised(type(error).__name__, str(error))

    def key_of(self, step: HookCall, lots: int = LOTS) -> object:
        """Ask the key extractor for the key of a call's record, as if it had seen no other; return the name of what it raises."""
        self._keying[step.computation].restore()
        record = step.record
        assert record is not None
        injected = any(record.stream in injector.outputs for injector in self.pipeline.injectors.values())
        value = self.pipeline.codec(record.stream).decode(record.value)
        record_id = step.cause if injected else ""
        seen = Record(record.key, value, record.timestamp, record.stream, record_id=record_id)
        extractor = self.pipeline.computations[step.computation].inputs[record.stream]
        random.seed(lots)
        try:
            return extractor(seen)
        except (Exception, SystemExit, CodeOverrunError) as error:  # noqa: BLE001  user code may raise anything
            return type(error).__name__

    def same(self, step: HookCall, first: Outcome, second: Outcome) -> bool:
        """Return whether two outcomes of a call are equal, byte for byte or as values. Exceptions' messages may differ."""
        if first == second:
            return True
        if isinstance(first, Raised) or isinstance(second, Raised):
            return isinstance(first, Raised) and isinstance(second, Raised) and first.kind == second.kind
        return bool(self.decoded(step, first) == self.decoded(step, second))

    def same_leveled(
        self, step: HookCall, first: StepResult, second: StepResult, *, unordered: bool = False
    ) -> bool:
        """Return whether two outcomes are the same in what was sent and in the state as it is read.

        ``unordered``: the order of entries in lists does not count.
        """
        return self._leveled(step, first, unordered) == self._leveled(step, second, unordered)

    def _leveled(self, step: HookCall, outcome: StepResult, unordered: bool) -> object:  # noqa: FBT001
        spec, state = self.pipeline.computations[step.computation], outcome.state
        level = partial(leveled_value, is_state=unordered)
        read = None if state is None else level(spec.state_codec, state or spec.initial_state)
        sent = [
            (*_place(emitted), level(self.pipeline.codec(emitted.stream), emitted.value))
            for emitted in outcome.made
        ]
        return read, sent, outcome.hold, outcome.timers

    def decoded(self, step: HookCall, outcome: StepResult) -> Any:
        """Return an outcome as values."""
        spec = self.pipeline.computations[step.computation]
        state = None if not outcome.state else decode_state(spec.state_codec, outcome.state)
        sent = [
            (*_place(emitted), self.pipeline.codec(emitted.stream).decode(emitted.value))
            for emitted in outcome.made
        ]
        return state, outcome.state == b"", sent, outcome.hold, outcome.timers

    def shown(self, step: HookCall, outcome: Outcome) -> str:
        """Describe an outcome for people: what was sent, the state, the timers."""
        if isinstance(outcome, Raised):
            return f"{outcome.kind}: {outcome.text}"
        state, _, sent, hold, timers = self.decoded(step, outcome)
        parts = [
            f"{value!r} on {stream!r}{'' if key == step.key else f', key {key!r}'}"
            for stream, key, _, value in sent
        ]
        if outcome.state is not None:
            parts.append(f"state {state!r}" if outcome.state else "the initial state")
        parts += [
            f"timer {tag!r} {'cancelled' if timer is None else f'at {timer.at}'}"
            for tag, timer in timers.items()
        ]
        if hold is not None:
            parts.append(f"a hold at {hold}")
        return ", ".join(parts) or "nothing"


@dataclass(slots=True)
class SharedStep:
    """A step of a key, as far as it has come.

    Attributes:
        set_timers: tags of the timers that it has set or cancelled.
        has_records: it has run for a record, and runs for no more timers.
        has_begun: it has run for anything.
    """

    set_timers: set[str] = field(default_factory=set)
    has_records: bool = False
    has_begun: bool = False

    def begins(self, step: HookCall) -> bool:
        """Return whether a call begins a new step."""
        timer = step.timer
        new = not self.has_begun or (timer is not None and (self.has_records or timer.tag in self.set_timers))
        if new:
            self.set_timers.clear()
            self.has_records = False
        self.has_begun = True
        self.has_records |= timer is None
        return new


class _Sharing(RunningComputation):
    """A computation that gives each call the state as the last one left it, without decoding it.

    Attributes:
        left: the state by key.
    """

    __slots__ = ("left",)

    def __init__(self, spec: ComputationSpec) -> None:
        super().__init__(spec, ())
        self.left: dict[str, Any] = {}

    def load(self, key: str) -> Any:
        return self.left[key] if key in self.left else super().load(key)

    def encode(self, key: str, state: Any) -> Encoded:
        self.left[key] = state
        return super().encode(key, state)


def _place(value: Any) -> tuple[str, str, int]:
    return value.stream, value.key, value.timestamp
