"""A grouping with its input and its panes, as data: played by a source, and read back from a run.

Choice: the source has an element some time before that of its step, which is when the pipeline is to have it. So one on a
boundary of the clock is in time for it, as in the papers' figures.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from headrace import MILLISECOND, MIN_TIME, SECOND, Pipeline
from headrace.dataflow import (
    Accumulation,
    CombineFn,
    Element,
    Engine,
    Pane,
    Streaming,
    TimestampCombiner,
    Timing,
    Trigger,
    Window,
    WindowFn,
)
from headrace.history import Applied, Event
from headrace_sim import Feed, FeedBuilder

LEAD_US = 50 * MILLISECOND
"""From the source to user code, at most; wall time."""

AFTER_US = 5 * SECOND
"""Wall time from the last step to the end of the source."""

LOST = "lost"
"""The stream of the elements that a grouping drops."""


@dataclass(frozen=True, slots=True)
class Query:
    """The four questions, answered: what, where, when and how; and on which engine.

    Attributes:
        windows: where.
        trigger: when.
        accumulation: how.
        combine: what.
        allowed_lateness_us: how long after the watermark has passed its end a window takes elements; ``None``: for ever.
        engine: streaming, batch or micro-batch.
        timestamps: which event times panes have.
        compacts: what would replace a pane by the same is left out.
    """

    windows: WindowFn
    trigger: Trigger
    accumulation: Accumulation
    combine: CombineFn
    allowed_lateness_us: int | None = None
    engine: Engine = field(default_factory=Streaming)
    timestamps: TimestampCombiner = TimestampCombiner.END_OF_WINDOW
    compacts: bool = False


@dataclass(frozen=True, slots=True)
class InputStep:
    """An input to a grouping: time passes, and perhaps an element or a watermark arrives.

    Attributes:
        at_us: wall time, microseconds.
        element: what arrives.
        watermark: the input's low watermark from now on, event time in microseconds.
    """

    at_us: int
    element: Element | None = None
    watermark: int | None = None


@dataclass(frozen=True, slots=True)
class EmittedPane:
    """A pane that is emitted.

    Attributes:
        step: the number of the step at which it was emitted, or on the way to which.
        at_us: wall time, microseconds; what the clock does at t comes 1 us later.
        key: whose.
        window: whose result it is.
        value: of its contents.
        index: how many panes its window, or those that it was merged from, had emitted before.
        timing: early, on time or late.
        time: event time, microseconds.
        retraction: it takes back an earlier pane.
    """

    step: int
    at_us: int
    key: str
    window: Window
    value: Any
    index: int
    timing: Timing
    time: int
    retraction: bool = False


def feed_of(pipeline: Pipeline, steps: Sequence[InputStep], lead_us: int = LEAD_US) -> Feed:
    """Play the steps from a source, elements ahead of their time. Retractions cannot come from a source."""
    builder = FeedBuilder(pipeline)
    for step in steps:
        if step.element is not None:
            assert not step.element.retraction, "a source has no retractions"
            element = step.element
            builder.record(
                at_us=step.at_us - lead_us, value=element.value, timestamp=element.time, key=element.key
            )
        if step.watermark is not None:
            builder.watermark(at_us=step.at_us, low_watermark=step.watermark)
    end_us = max((step.at_us for step in steps), default=0) + AFTER_US
    builder.watermark(at_us=end_us, low_watermark=_watermark_after(steps))
    return builder.build()


def _watermark_after(steps: Iterable[InputStep]) -> int:
    """Return the last watermark; event time, microseconds."""
    return max((step.watermark for step in steps if step.watermark is not None), default=MIN_TIME)


def committed_panes(events: Iterable[Event], pipeline: Pipeline) -> list[EmittedPane]:
    """Return the panes of a pipeline that ends with a grouping, in the order of their writes, each at the time of its write."""
    stream, decode = panes_of(pipeline)
    panes: dict[str, EmittedPane] = {}
    for event in events:
        for production in event.delta.productions if isinstance(event, Applied) else ():
            if production.stream == stream:
                panes.setdefault(
                    production.record_id,
                    emission_of(-1, event.at_us, production.key, decode(production.value)),
                )
    return list(panes.values())


def panes_of(pipeline: Pipeline) -> tuple[str, Callable[[bytes], Pane]]:
    """Return the stream of a pipeline's panes, and what decodes one."""
    (stream,) = [name for name in pipeline.output_streams if name != LOST]
    return stream, pipeline.codec(stream).decode


def emission_of(step: int, at_us: int, key: str, pane: Pane) -> EmittedPane:
    """Return a pane of the layer as the model emits it."""
    return EmittedPane(
        step, at_us, key, pane.window, pane.value, pane.index, pane.timing, pane.time, pane.retraction
    )
