"""Broken Dataflow layers, by name: each is the layer's own logic with one rule broken (Dataflow 2.2 to 2.4).

A transcript that no mutant fails proves nothing. The layer itself has no switch for being wrong: a mutant is a subclass of
`Grouping`, or makes one of other parts. It is killed by a transcript that it fails, and by a random case on which it differs
from the model.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from headrace import MIN_TIME
from headrace.dataflow import (
    Accumulation,
    AfterDelay,
    AllOf,
    AnyOf,
    AtPeriod,
    Element,
    Grouping,
    KeyState,
    OrFinally,
    Pane,
    Repeat,
    RepeatUntil,
    Sessions,
    Trigger,
    Window,
    WindowState,
)
from headrace.dataflow.contents import Contents
from headrace.dataflow.firing import Seen, start
from tests.core.dataflow.evidence import everywhere

TriggerT = TypeVar("TriggerT", bound=Trigger)


@dataclass(frozen=True, slots=True)
class DataflowMutant:
    """A broken layer.

    Attributes:
        name: what it gets wrong, in a few words.
        section: of the paper, whose rule it breaks.
        wrong: the same in a sentence.
        make: takes the fields of `Grouping`.
    """

    name: str
    section: str
    wrong: str
    make: Callable[..., Grouping]


class RetractionLast(Grouping):
    """Retracts what a pane replaces only after the pane."""

    def _emit(self, window: WindowState, watermark: int) -> list[Pane]:
        return sorted(super()._emit(window, watermark), key=lambda pane: pane.retraction)


class EarliestOfAll(Grouping):
    """Takes late elements' event times for a pane's, too."""

    def _time_of(self, element: Element, window: Window, seen: Seen) -> int:
        return super()._time_of(element, window, replace(seen, watermark=MIN_TIME))


class NoRetraction(Grouping):
    """Retracts nothing."""

    def _emit(self, window: WindowState, watermark: int) -> list[Pane]:
        return [pane for pane in super()._emit(window, watermark) if not pane.retraction]


class RetractsTwice(Grouping):
    """Retracts all panes ever emitted."""

    def _emit(self, window: WindowState, watermark: int) -> list[Pane]:
        before = list(window.emitted)
        panes = super()._emit(window, watermark)
        if window.emitted:
            window.emitted = before + window.emitted
        return panes


class MergeLosesBuffer(Grouping):
    """Keeps the contents of one of the windows that merge."""

    def _joined(self, parts: Sequence[WindowState], target: Window, seen: Seen) -> WindowState:
        joined = super()._joined(parts, target, seen)
        if len(parts) > 1:
            joined.contents = parts[0].contents
        return joined


class MergeLosesPanes(Grouping):
    """Forgets what the windows that merge have emitted."""

    def _joined(self, parts: Sequence[WindowState], target: Window, seen: Seen) -> WindowState:
        joined = super()._joined(parts, target, seen)
        if len(parts) > 1:
            joined.emitted = []
        return joined


class MergeStartsAnew(Grouping):
    """Starts the trigger of a merged window anew."""

    def _joined(self, parts: Sequence[WindowState], target: Window, seen: Seen) -> WindowState:
        joined = super()._joined(parts, target, seen)
        if parts and joined is not parts[0]:
            joined.trigger = start(self.trigger, seen)
        return joined


class MergeRestartsIndex(Grouping):
    """Counts the panes of a merged window from 0."""

    def _joined(self, parts: Sequence[WindowState], target: Window, seen: Seen) -> WindowState:
        joined = super()._joined(parts, target, seen)
        if len(parts) > 1:
            joined.panes = 0
        return joined


class MergeForgetsTiming(Grouping):
    """Forgets that a part was on time."""

    def _joined(self, parts: Sequence[WindowState], target: Window, seen: Seen) -> WindowState:
        joined = super()._joined(parts, target, seen)
        if parts and joined is not parts[0]:
            joined.was_on_time = False
        return joined


class MergeEmits(Grouping):
    """Emits a pane because windows merged."""

    def _take(
        self, state: KeyState, window: Window, element: Element, now: int, watermark: int, *rest: Any
    ) -> list[Pane]:
        before = len(state.windows)
        panes = super()._take(state, window, element, now, watermark, *rest)
        merged = len(state.windows) < before
        return panes + (self._emit(state.windows[-1], watermark) if merged and not panes else [])


class OnTimeTwice(Grouping):
    """Says of each pane behind the watermark that it is on time."""

    def _emit(self, window: WindowState, watermark: int) -> list[Pane]:
        window.was_on_time = False
        return super()._emit(window, watermark)


class LateOnTime(Grouping):
    """Says of a window's first pane behind the watermark that it is on time, whatever it holds."""

    def _emit(self, window: WindowState, watermark: int) -> list[Pane]:
        window.holds = window.holds or window.passed
        return super()._emit(window, watermark)


class LatchOutlivesMerge(Grouping):
    """Assumes that a part of `AllOf` fired by the watermark has also fired in the merged window."""

    def _joined(self, parts: Sequence[WindowState], target: Window, seen: Seen) -> WindowState:
        joined = super()._joined(parts, target, seen)
        repeated = self.trigger.trigger if isinstance(self.trigger, Repeat) else self.trigger
        if isinstance(repeated, AllOf) and parts and joined is not parts[0]:
            for number, latch in enumerate(joined.trigger):
                latch[0] = max(part.trigger[number][0] for part in parts)
        return joined


class LateDropped(Grouping):
    """Drops each element that is behind the watermark."""

    def element(self, state: KeyState, element: Element, now: int, watermark: int, *rest: Any) -> list[Pane]:
        """Take it in, unless it is late."""
        if element.time < watermark:
            return self.advance(state, now - 1, watermark)
        return super().element(state, element, now, watermark, *rest)


class EmitsUnchanged(Grouping):
    """Emits a pane of a window that has not changed."""

    def _evaluate(self, window: WindowState, *rest: Any) -> list[Pane]:
        window.fresh = max(window.fresh, 1)
        return super()._evaluate(window, *rest)


class EmitsAnyhow(Grouping):
    """Emits due windows in an order other than that of their ends."""

    def _evaluate_all(self, windows: Iterable[WindowState], *rest: Any) -> list[Pane]:
        found = sorted(windows, key=lambda pane: pane.window.order, reverse=True)
        return [pane for state in found for pane in super(EmitsAnyhow, self)._evaluate_all([state], *rest)]


class DiscardsNothing(Grouping):
    """Discarding, keeps what it has emitted."""

    def _emit(self, window: WindowState, watermark: int) -> list[Pane]:
        contents = Contents(
            window.contents.count, list(window.contents.accumulator), dict(window.contents.values)
        )
        panes = super()._emit(window, watermark)
        if self.accumulation is Accumulation.DISCARDING:
            window.contents = contents
        return panes


class AccumulatesNothing(Grouping):
    """Accumulating, forgets what it has emitted."""

    def _emit(self, window: WindowState, watermark: int) -> list[Pane]:
        panes = super()._emit(window, watermark)
        window.contents = Contents()
        return panes


class BoundaryExcluded(Grouping):
    """Puts an element on a boundary of the clock into the next pane."""

    def element(self, state: KeyState, element: Element, now: int, watermark: int, *rest: Any) -> list[Pane]:
        """Take it in after what the clock does at this instant."""
        return self.advance(state, now, watermark) + super().element(state, element, now, watermark, *rest)


class OverTooSoon(Grouping):
    """Accepts no element once the watermark has passed its window."""

    def _is_expired(self, window: Window, watermark: int) -> bool:
        return self.allowed_lateness_us is not None and window.end <= watermark


class LosesWhatIsLeft(Grouping):
    """Does not emit the remaining contents of an expired window."""

    def _collect(self, state: KeyState, watermark: int) -> list[Pane]:
        super()._collect(state, watermark)
        return []


class FinishedTakesMore(Grouping):
    """Restarts a window whose trigger is finished."""

    def _take(self, state: KeyState, window: Window, *rest: Any) -> list[Pane]:
        state.windows = [window_state for window_state in state.windows if not window_state.finished]
        return super()._take(state, window, *rest)


class LateWaits(Grouping):
    """Does not ask a trigger when an element arrives behind the watermark."""

    def element(self, state: KeyState, element: Element, now: int, watermark: int, *rest: Any) -> list[Pane]:
        """Take it in, and leave it if it is late."""
        before = {window.window: window.passed for window in state.windows}
        panes = super().element(state, element, now, min(watermark, element.time), *rest)
        for window in state.windows:
            window.passed = window.passed or before.get(window.window, False)
        return panes


class BatchForgets(Grouping):
    """Ends a batch for good, though something in it waits for the clock."""

    def _run_batch(self, state: KeyState, now: int, watermark: int) -> list[Pane]:
        over = state.next_batch is not None and state.next_batch <= now
        panes = super()._run_batch(state, now, watermark)
        if over:
            state.next_batch = None
        return panes


def _replacing(kind: type[TriggerT], change: Callable[[TriggerT], Trigger]) -> Callable[..., Grouping]:
    def changed(trigger: Trigger) -> Trigger:
        return change(trigger) if isinstance(trigger, kind) else trigger

    def make(**fields: Any) -> Grouping:
        return Grouping(**{**fields, "trigger": everywhere(fields["trigger"], changed)})

    return make


def _never_over(**fields: Any) -> Grouping:
    return Grouping(**{**fields, "allowed_lateness_us": None})


def _apart(**fields: Any) -> Grouping:
    windows = fields["windows"]
    if isinstance(windows, Sessions):
        windows = replace(windows, touching_merge=False)
    return Grouping(**{**fields, "windows": windows})


MUTANTS = (
    DataflowMutant("retraction last", "2.3", "a pane goes out before what it replaces is taken back", RetractionLast),
    DataflowMutant("no retraction", "2.3", "what a pane replaces is not taken back", NoRetraction),
    DataflowMutant("retracts twice", "2.3", "what was taken back is taken back again", RetractsTwice),
    DataflowMutant("merge loses a buffer", "2.2.2", "of windows that merge, one's contents are kept", MergeLosesBuffer),
    DataflowMutant("merge loses panes", "2.4", "panes of windows that merge are not taken back", MergeLosesPanes),
    DataflowMutant("merge starts anew", "2.3", "a merged window's trigger begins again", MergeStartsAnew),
    DataflowMutant("merge restarts index", "2.3", "a merged window's panes are counted from 0", MergeRestartsIndex),
    DataflowMutant("merge forgets timing", "2.3", "a merged window can be on time twice", MergeForgetsTiming),
    DataflowMutant("merge emits", "2.4", "a pane goes out because windows merge", MergeEmits),
    DataflowMutant("on time twice", "2.3", "late panes say that they are on time", OnTimeTwice),
    DataflowMutant("late on time", "2.4", "a first pane of late elements says that it is on time", LateOnTime),
    DataflowMutant("latch outlives merge", "2.3", "a merged window is past since a part of it was", LatchOutlivesMerge),
    DataflowMutant("late dropped", "2.4", "elements behind the watermark are dropped", LateDropped),
    DataflowMutant("late waits", "2.4", "an element behind the watermark is not emitted at once", LateWaits),
    DataflowMutant("emits unchanged", "2.4", "a window that has not changed is emitted again", EmitsUnchanged),
    DataflowMutant("emits in any order", "2.4", "windows are not emitted in the order of their ends", EmitsAnyhow),
    DataflowMutant("discards nothing", "2.3", "discarding, what was emitted is emitted again", DiscardsNothing),
    DataflowMutant("accumulates nothing", "2.3", "accumulating, what was emitted is forgotten", AccumulatesNothing),
    DataflowMutant("boundary excluded", "2.4", "an element on a boundary is in the next pane", BoundaryExcluded),
    DataflowMutant("never over", "2.3", "no element is too late", _never_over),
    DataflowMutant("over too soon", "2.3", "the allowed lateness is not allowed", OverTooSoon),
    DataflowMutant("loses what is left", "2.3", "what waits in a window when it is over is lost", LosesWhatIsLeft),
    DataflowMutant("finished takes more", "2.3", "a finished trigger's window begins anew", FinishedTakesMore),
    DataflowMutant("batch forgets", "2.4", "what waits for the clock when a batch ends is forgotten", BatchForgets),
    DataflowMutant(
        "period unaligned", "2.4", "a period begins with its first element",
        _replacing(AtPeriod, lambda period: AfterDelay(period.period_us)),
    ),
    DataflowMutant(
        "all is any", "2.3", "the first part of AllOf fires it",
        _replacing(AllOf, lambda trigger: AnyOf(*trigger.triggers)),
    ),
    DataflowMutant("repeat once", "2.3", "Repeat fires once", _replacing(Repeat, lambda trigger: trigger.trigger)),
    DataflowMutant(
        "or finally never", "2.3", "OrFinally is never finished by its second trigger",
        _replacing(OrFinally, lambda trigger: trigger.trigger),
    ),
    DataflowMutant(
        "until never", "2.3", "RepeatUntil goes on for ever",
        _replacing(RepeatUntil, lambda trigger: Repeat(trigger.trigger)),
    ),
    DataflowMutant("earliest of all", "2.2", "late elements count for the event time of a pane", EarliestOfAll),
    DataflowMutant("touching apart", "2.4", "sessions that touch are two", _apart),
)  # fmt: skip
"""All Dataflow mutants."""
