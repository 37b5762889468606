"""Runs of a Dataflow pipeline, compared by what their panes settle to (Dataflow 2.3).

Two runs on the same elements may fire at different times, since the watermark may pass before or after a late element. Then their
panes differ, but not what these settle to, provided that

* the sources end, so that each window is over in the end, and has emitted everything unless its trigger has finished;
* nothing was dropped for being too late, which depends on the watermark;
* a function that makes panes of panes gets retractions when these change, so that what it made of them is retracted, too.

What a grouping makes of another grouping's panes settles as well, if it is right. A sum of sums that replace one another, without
retractions, depends on how often they fired.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, Literal

from headrace import Pipeline
from headrace.api.specs import ComputationSpec
from headrace.dataflow import (
    COUNT,
    DEFAULT_TRIGGER,
    LIST,
    SUM,
    Accumulation,
    AtWatermark,
    GroupByKeyAndWindow,
    Grouping,
    ParDo,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Trigger,
    Window,
)
from headrace.dataflow.transforms import PercentileProbe
from headrace_properties.checkers.drops import DropCounter
from headrace_properties.reference import Emitted, RunResult
from headrace_properties.settling import settled
from headrace_properties.user_code.comparison import level
from headrace_sim import Feed
from headrace_sim.feed import ends_source

_ALL = 100.0
"""Percentile of a low watermark that waits for all records."""

_RETRACTING = Accumulation.ACCUMULATING_AND_RETRACTING

_Mode = Accumulation | Literal["unsettled"] | None
"""How the panes of a stream relate. Unsettled: a function made them of panes that are not retracted."""


@dataclass(frozen=True, slots=True)
class _KeyedPane:
    """A pane with its key; see `headrace.dataflow.Pane`."""

    key: str
    window: Window
    value: Any
    index: int
    retraction: bool


@dataclass(frozen=True, slots=True)
class Settling:
    """A pipeline whose runs on a feed can be compared by what their panes settle to.

    Attributes:
        pipeline: the pipeline.
        modes: how the panes of each outside stream relate; ``None``: no grouping has made them, if they are panes at all.
        regrouping: the first grouping that takes panes that are not retracted; ``""``: none.
    """

    pipeline: Pipeline
    modes: Mapping[str, Accumulation | None]
    regrouping: str = ""

    def outputs(self, result: RunResult) -> Counter[Emitted]:
        """Return what a run's outputs settle to, as records whose timestamps, which follow the watermark, are 0."""
        outputs: Counter[Emitted] = Counter()
        panes: dict[str, list[_KeyedPane]] = {}
        for emitted, times in result.outputs.items():
            stream, key = emitted.stream, emitted.key
            value = self.pipeline.codec(stream).decode(emitted.value)
            if self.modes[stream] is None:
                outputs[Emitted(stream, key, repr(level(value, is_state=True)).encode(), 0)] += times
            else:
                pane = _KeyedPane(key, value.window, value.value, value.index, value.retraction)
                panes.setdefault(stream, []).extend([pane] * times)
        for stream, on_stream in panes.items():
            mode = self.modes[stream]
            assert mode is not None
            for (key, window, value), times in settled(on_stream, mode).items():
                text = f"{level(value, is_state=True)!r}{f' in {window}' if window else ''}{' too often' * (times < 0)}"
                outputs[Emitted(stream, key, text.encode(), 0)] += abs(times)
        return outputs

    def has_dropped(self, result: RunResult) -> bool:
        """Return whether a grouping of a run has dropped elements."""
        drops = DropCounter([self.pipeline])
        drops.take_states(result.states)
        return bool(drops.counts())


def settling_of(pipeline: Pipeline, feed: Feed) -> Settling | None:
    """Return how to compare a pipeline's runs on a feed; ``None``: by their records, since its panes need not settle."""
    modes: dict[str, _Mode] = {
        stream: None for spec in pipeline.injectors.values() for stream in spec.all_outputs
    }
    pending, regrouping = list(pipeline.computations.values()), ""
    while pending:
        unknown = {stream for spec in pending for stream in spec.all_outputs}
        spec = next((spec for spec in pending if unknown.isdisjoint(spec.inputs)), None)
        if spec is None:
            return None
        inputs = {modes[stream] for stream in spec.inputs}
        output_modes = _modes(spec, inputs)
        if output_modes is None:
            return None
        if inputs - {None, _RETRACTING} and isinstance(spec.computation, GroupByKeyAndWindow):
            regrouping = regrouping or spec.name
        pending.remove(spec)
        if any(modes.setdefault(stream, mode) is not mode for stream, mode in output_modes.items()):
            return None
    ended = {entry.address for entry in feed.entries if ends_source(entry.event)}
    if not any(modes.values()) or not ended.issuperset(_sources(pipeline)):
        return None
    outside: dict[str, Accumulation | None] = {}
    for stream in pipeline.output_streams:
        mode = modes[stream]
        if mode == "unsettled":
            return None
        outside[stream] = mode
    return Settling(pipeline, outside, regrouping)


def _modes(spec: ComputationSpec, inputs: AbstractSet[_Mode]) -> dict[str, _Mode] | None:
    """Return how the panes of each output relate, given those of the inputs; ``None``: they need not settle, or it is unknown."""
    computation = spec.computation
    match computation:
        case ParDo() | PercentileProbe():
            unsettled: _Mode = "unsettled" if inputs - {None, _RETRACTING} else None
            return dict.fromkeys(spec.all_outputs, unsettled or (_RETRACTING if any(inputs) else None))
        case GroupByKeyAndWindow() if _settles(computation.grouping):
            fires_once = _fires_once(computation.grouping)
            mode = Accumulation.ACCUMULATING if fires_once else computation.grouping.accumulation
            modes: dict[str, _Mode] = dict.fromkeys(spec.all_outputs, mode)
            return {**modes, **({computation.dropped: None} if computation.dropped else {})}
        case _:
            return None


def _sources(pipeline: Pipeline) -> Iterator[str]:
    for spec in pipeline.injectors.values():
        yield from spec.addresses()


def _settles(grouping: Grouping) -> bool:
    if _fires_once(grouping):
        return True
    if grouping.accumulation is Accumulation.DISCARDING and grouping.combine not in (SUM, COUNT, LIST):
        return False  # panes of other combiners cannot be added up
    return _never_finishes(grouping.trigger) or (
        grouping.allowed_lateness_us == 0 and _finishes_on_time(grouping.trigger)
    )


def _finishes_on_time(trigger: Trigger) -> bool:
    """Return whether a trigger's last pane is the one on time, which has everything if nothing may be late."""
    match trigger:
        case AtWatermark(percentile=percentile):
            return percentile == _ALL
        case RepeatUntil(until=until):
            return _finishes_on_time(until)
        case _:
            return False


def _fires_once(grouping: Grouping) -> bool:
    """Return whether a window has one pane, which is not retracted: each of its modes then means the same."""
    is_last = grouping.trigger == DEFAULT_TRIGGER and grouping.allowed_lateness_us == 0
    return is_last and grouping.accumulation is not _RETRACTING


def _never_finishes(trigger: Trigger) -> bool:
    """Return whether a trigger can fire again and again."""
    match trigger:
        case Repeat():
            return True
        case SequenceOf(triggers):
            return _never_finishes(triggers[-1])
        case _:
            return False
