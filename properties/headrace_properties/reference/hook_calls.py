"""One call of user code, as a value (MillWheel 5.1): it depends on nothing else, and so can be repeated."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.api.codecs import decode_at
from headrace.api.pipeline import Pipeline
from headrace.api.records import Record, Timer
from headrace.api.ropes import Encoded
from headrace_properties.reference.hook_context import HookContext
from headrace_properties.reference.running_computation import Emitted, PendingTimer, RunningComputation


@dataclass(frozen=True, slots=True)
class HookCall:
    """A call of ``process_record`` or ``process_timer``, with everything that it may depend on.

    Attributes:
        computation: its name.
        key: of the row.
        state: the row's, encoded; empty: the initial one.
        now: wall time, microseconds.
        input_us: low watermark of the input, event time in microseconds.
        cause: id of the record or timer.
        moment_us: event time at which it runs: the input low watermark, or that of the timer that fires.
        earliest_us: productions are not older than this (4.5).
        stamp: the default timestamp of productions.
        record: the record to process; ``None``: it processes a timer.
        timer: the same for a timer.
    """

    computation: str
    key: str
    state: Encoded
    now: int
    input_us: int
    cause: str
    moment_us: int
    earliest_us: int
    stamp: int
    record: Emitted | None = None
    timer: Timer | None = None


@dataclass(frozen=True, slots=True)
class StepResult:
    """The outcome of a call.

    Attributes:
        state: the new one, encoded; ``None``: user code has not read it.
        made: its productions.
        hold: the new hold of the low watermark; ``None``: as before.
        timers: those that it set, by tag; ``None``: cancelled.
        refused: why its context refused what it asked for, as text; it went on all the same.
    """

    state: Encoded | None
    made: tuple[Emitted, ...]
    hold: int | None
    timers: Mapping[str, PendingTimer | None]
    refused: tuple[str, ...] = field(default=(), compare=False)


StepHost = Callable[[Pipeline, RunningComputation, HookCall], StepResult]
"""Runs user code for a step; re-raises user code's exceptions."""


def run_step(pipeline: Pipeline, stage: RunningComputation, step: HookCall) -> StepResult:
    """Run user code for a step; re-raise user code's exceptions.

    Args:
        pipeline: has the streams' codecs.
        stage: whose code it is.
        step: what to run it for.
    """
    context = HookContext(
        stage, step.key, step.now, moment_us=step.moment_us, earliest_us=step.earliest_us, stamp=step.stamp
    )
    computation = stage.spec.computation
    if step.timer is not None:
        computation.process_timer(_as_context(context), step.timer)
    else:
        computation.process_record(_as_context(context), _record_of(pipeline, step))
    refused = tuple(map(str, context.refused))
    return StepResult(context.new_state(), tuple(context.made), context.hold, context.timers, refused)


def _record_of(pipeline: Pipeline, step: HookCall) -> Record:
    emitted = step.record
    assert emitted is not None
    where, codec = "stream {!r}, consumed by {!r}, record {}", pipeline.codec(emitted.stream)
    value = decode_at(where, codec, emitted.value, emitted.stream, step.computation, step.cause)
    late = emitted.timestamp < step.input_us
    return Record(step.key, value, emitted.timestamp, emitted.stream, late, step.cause)


def _as_context(context: HookContext) -> Any:
    """Return the `headrace.Context` that user code sees."""
    return context
