"""The Dataflow Model by brute force: a grouping's panes, recomputed from the whole history at each instant (Dataflow 2).

The incremental layer is compared with it; the two share only definitions. Rules of this file:

* Nothing is kept from one instant to the next: `_tell` replays the whole history, and only what happens at its last moment
  is new. A pane's contents, index, timing and retractions are derived from the panes before it.
* A trigger's state is evidence; see `tests.core.dataflow.evidence`.
* What arrives at wall time t precedes what the clock does at t, which is modelled as a moment at t + 1 us.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from headrace import MAX_TIME, MIN_TIME
from headrace.dataflow import (
    END_OF_TIME,
    GLOBAL,
    Accumulation,
    Batch,
    Element,
    FixedWindows,
    MicroBatch,
    Sessions,
    SlidingWindows,
    TimestampCombiner,
    Timing,
    Window,
    WindowFn,
)
from headrace_scenarios.figures.groupings import EmittedPane, InputStep, Query
from tests.core.dataflow.evidence import (
    TriggerEvidence,
    TriggerView,
    asked,
    begin,
    dues,
    observe,
    together,
)


@dataclass(frozen=True, slots=True)
class ModelResult:
    """The result of a history.

    Attributes:
        panes: in the order of emission.
        dropped: elements that arrived too late, or after their window's trigger had finished: (number of the step, window).
    """

    panes: tuple[EmittedPane, ...]
    dropped: tuple[tuple[int, Window], ...]


def run_model(query: Query, steps: Sequence[InputStep]) -> ModelResult:
    """Compute the panes of a history.

    Args:
        query: what is grouped, and how.
        steps: in order of time.
    """
    moments = [_Moment(step, number) for number, step in enumerate(steps)]
    keys = sorted({moment.step.element.key for moment in moments if moment.step.element is not None})
    stories = [_tell_key(query, moments, key) for key in keys]
    panes = sorted(
        (pane for story in stories for pane in story.panes), key=lambda pane: (pane.at_us, pane.step)
    )
    dropped = sorted(
        (record for story in stories for record in story.dropped), key=lambda kept: (kept[0], kept[1].order)
    )
    return ModelResult(tuple(panes), tuple(dropped))


@dataclass(frozen=True, slots=True)
class _Moment:
    """A step, or a moment on the way to it at which the clock may make a trigger fire."""

    step: InputStep
    number: int


def _tell_key(query: Query, moments: Sequence[_Moment], key: str) -> ModelResult:
    """Advance from moment to moment, replaying everything from the beginning each time."""
    history: list[_Moment] = []
    panes: list[EmittedPane] = []
    told = _Story()
    for moment in moments:
        while (due_us := _next_due(query, told, history)) < moment.step.at_us:
            history.append(_Moment(InputStep(due_us + 1), moment.number))
            told = _tell(query, history, key)
            panes.extend(told.last)
        history.append(moment)
        told = _tell(query, history, key)
        panes.extend(told.last)
    return ModelResult(tuple(panes), tuple(told.dropped))


# The history of a key.


@dataclass(slots=True)
class _WindowedElement:
    """An element in a window.

    Attributes:
        moment: when it came.
        window: as it is by now, after all merges.
        on_time: the watermark had not reached the window's end when it came.
        in_time: nor had it passed the element's own event time.
    """

    moment: int
    window: Window
    on_time: bool
    in_time: bool


@dataclass(slots=True)
class _Page:
    """A firing: its pane, and the elements in it.

    Attributes:
        emission: the pane.
        elements: their moments.
        window: as it is by now, after all merges.
        shown: the pane was emitted: something was left in the window.
        said: it was, or panes were taken back.
        in_force: it was emitted, and not taken back yet.
    """

    emission: EmittedPane
    elements: frozenset[int]
    window: Window
    shown: bool
    said: bool
    in_force: bool


@dataclass(slots=True)
class _Story:
    """The result of a key's history so far.

    Attributes:
        triggers: the live windows, each with its trigger's evidence; ``None``: it is finished.
        members: the elements that are in them.
        pages: their firings that had something new, in order.
        last: panes and retractions of the last moment.
        dropped: (step, window) of what was dropped.
        watermark: as it is by now.
    """

    triggers: dict[Window, TriggerEvidence | None] = field(default_factory=dict)
    members: list[_WindowedElement] = field(default_factory=list)
    pages: list[_Page] = field(default_factory=list)
    last: list[EmittedPane] = field(default_factory=list)
    dropped: list[tuple[int, Window]] = field(default_factory=list)
    watermark: int = MIN_TIME


def _tell(query: Query, history: Sequence[_Moment], key: str) -> _Story:
    """Replay a key's whole history."""
    story = _Story()
    for number, moment in enumerate(history):
        _Chapter(query, story, history, number).tell(moment, key)
    return story


def _next_due(query: Query, story: _Story, history: Sequence[_Moment]) -> int:
    """Return the next wall time at which a clock may make something fire."""
    if isinstance(query.engine, MicroBatch):
        return _batch_end(query.engine, history[-1].step.at_us) if story.members else MAX_TIME
    found = (dues(query.trigger, trigger) for trigger in story.triggers.values() if trigger is not None)
    return min((due for dues in found for due in dues), default=MAX_TIME)


def _batch_end(engine: MicroBatch, at_us: int) -> int:
    return -(-at_us // engine.period_us) * engine.period_us


@dataclass(slots=True)
class _Chapter:
    """One moment of a history."""

    query: Query
    story: _Story
    history: Sequence[_Moment]
    number: int

    def tell(self, moment: _Moment, key: str) -> None:
        """Process first what the watermark reaches, then what arrives, then what the clock makes due."""
        story, step = self.story, moment.step
        story.last = []
        if step.watermark is not None:
            before, story.watermark = (
                story.watermark,
                max(story.watermark, self._seen_by_engine(step.watermark)),
            )
            if not self._batched:
                self._ask([trigger for trigger in story.triggers if before < trigger.end <= story.watermark])
        if step.element is not None and step.element.key == key:
            concerned = self._arrive(step.element)
            self._ask([] if self._batched else concerned)
        if step.element is None and step.watermark is None:
            self._ask(self._due_now())
        self._collect()

    def _seen_by_engine(self, watermark: int) -> int:
        """At the end of time everything is complete; a batch knows nothing before that (Figure 10)."""
        if watermark >= END_OF_TIME:
            return MAX_TIME
        return MIN_TIME if isinstance(self.query.engine, Batch) else watermark

    @property
    def _batched(self) -> bool:
        return isinstance(self.query.engine, MicroBatch)

    def _due_now(self) -> list[Window]:
        """Return the windows that the clock affects: those whose trigger waited for it, or that changed in a batch."""
        if isinstance(self.query.engine, MicroBatch):
            before_us = self.history[self.number - 1].step.at_us
            over = _batch_end(self.query.engine, before_us) < self._now
            return [trigger for trigger in self.story.triggers if over and self._new(trigger)]
        found = ((window, state) for window, state in self.story.triggers.items() if state is not None)
        return [w for w, state in found if any(due < self._now for due in dues(self.query.trigger, state))]

    def _arrive(self, element: Element) -> list[Window]:
        """Add an element to its windows, merge these, and show it to their triggers."""
        concerned = []
        for window in _assigned(self.query.windows, element):
            whole = self._merged_with(window)
            parts = [trigger for trigger in self.story.triggers if whole.covers(trigger)]
            closed = self._is_over(whole) and self.query.allowed_lateness_us is not None
            if closed or any(self.story.triggers[part] is None for part in parts):
                self.story.dropped.append((self.history[self.number].number, window))
                continue
            self._merge(parts, whole)
            on_time, in_time = self.story.watermark < whole.end, self.story.watermark <= element.time
            self.story.members.append(_WindowedElement(self.number, whole, on_time, in_time))
            evidence = self.story.triggers[whole]
            assert evidence is not None, "a window that is finished takes nothing"
            contents = self._value(self._contents_of_pane(whole))
            trigger, now = self.query.trigger, self._now
            self.story.triggers[whole] = observe(trigger, evidence, self.number, now, contents)
            concerned.append(whole)
        return concerned

    def _merged_with(self, window: Window) -> Window:
        """Return what a window becomes among the live ones."""
        known = list(dict.fromkeys([*self.story.triggers, window]))
        return next(
            merge_window
            for merge_window in _merging(self.query.windows, known)
            if merge_window.covers(window)
        )

    def _merge(self, parts: Sequence[Window], whole: Window) -> None:
        """Merge the parts; start a window if there are none. One that stays as it is is not merged."""
        if parts == [whole]:
            return
        known = [progress for part in parts if (progress := self.story.triggers.pop(part)) is not None]
        trigger = self.query.trigger
        self.story.triggers[whole] = together(trigger, known) if known else begin(trigger)
        things: list[_WindowedElement | _Page] = [*self.story.members, *self.story.pages]
        for thing in things:
            if thing.window in parts:
                thing.window = whole

    def _ask(self, windows: Iterable[Window]) -> None:
        """Evaluate triggers, and emit what fires, in the order of the windows' ends."""
        for window in sorted(windows, key=lambda window: window.order):
            evidence = self.story.triggers[window]
            if evidence is not None:
                view = TriggerView(self._now, self._effective, window)
                fires, self.story.triggers[window] = asked(self.query.trigger, evidence, view)
                if fires and self._new(window):
                    self._emit(window)

    @property
    def _effective(self) -> int:
        """Return the watermark that triggers see: at the end of a micro-batch, it is past everything (Figure 11)."""
        return MAX_TIME if self._batched else self.story.watermark

    def _emit(self, window: Window) -> None:
        """Retract the panes that a pane replaces, then emit it, unless the window is empty."""
        moment, earlier = self.history[self.number], self._pages(window)
        timing = self._timing(window, earlier)
        key = self._element(min(self._contents(window))).key
        contents = self._contents_of_pane(window)
        retracts = self.query.accumulation is Accumulation.ACCUMULATING_AND_RETRACTING
        replaced = [page for page in earlier if page.in_force] if retracts else []
        if self.query.compacts and self._says_the_same(replaced, contents, window):
            untold = EmittedPane(moment.number, self._now, key, window, None, -1, timing, self._time(window))
            self.story.pages.append(_Page(untold, contents, window, shown=False, said=False, in_force=False))
            return
        for page in sorted(replaced, key=lambda pane: pane.emission.window.order):
            page.in_force = False
            self.story.last.append(
                replace(page.emission, step=moment.number, at_us=self._now, timing=timing, retraction=True)
            )
        shown = not retracts or self._left(contents) > 0
        index = sum(page.shown for page in earlier)
        value, time = self._value(contents), self._time(window)
        pane = EmittedPane(moment.number, self._now, key, window, value, index, timing, time)
        self.story.pages.append(_Page(pane, contents, window, shown, shown or bool(replaced), shown))
        if shown:
            self.story.last.append(pane)

    def _says_the_same(self, replaced: Sequence[_Page], contents: frozenset[int], window: Window) -> bool:
        """Whether a pane of these contents would replace one that differs in nothing but its index."""
        told = [(page.emission.window, page.emission.value, page.emission.time) for page in replaced]
        return self._left(contents) > 0 and told == [(window, self._value(contents), self._time(window))]

    def _time(self, window: Window) -> int:
        """The event time of a pane: of the new elements that were in time, as asked; else that of the window's end."""
        new = self._new(window)
        moments = [
            m.moment for m in self.story.members if m.window == window and m.in_time and m.moment in new
        ]
        if moments and self.query.timestamps is not TimestampCombiner.END_OF_WINDOW:
            earliest = self.query.timestamps is TimestampCombiner.EARLIEST
            return (min if earliest else max)(self._element(moment).time for moment in moments)
        if window != GLOBAL:
            return window.last
        known = [self._element(moment).time for moment in self._contents(window)]
        if self.query.timestamps is not TimestampCombiner.END_OF_WINDOW:
            known = []
        return min(max([*known, self.story.watermark]), window.last)

    def _timing(self, window: Window, earlier: Sequence[_Page]) -> Timing:
        if self._effective < window.end:
            return Timing.EARLY
        been = any(page.said and page.emission.timing is not Timing.EARLY for page in earlier)
        new = self._new(window)
        in_time = any(
            member.on_time
            for member in self.story.members
            if member.window == window and member.moment in new
        )
        return Timing.ON_TIME if in_time and not been else Timing.LATE

    def _collect(self) -> None:
        """Emit what is new in expired windows, and forget those that accept no more elements."""
        over = [trigger for trigger in self.story.triggers if self._is_over(trigger)]
        for window in sorted(over, key=lambda window: window.order):
            if self.story.triggers[window] is not None and self._new(window):
                self._emit(window)
        for window in over:
            if self.query.allowed_lateness_us is not None:
                del self.story.triggers[window]
                self.story.members = [member for member in self.story.members if member.window != window]
                self.story.pages = [page for page in self.story.pages if page.window != window]

    def _is_over(self, window: Window) -> bool:
        lateness_us = self.query.allowed_lateness_us
        end = END_OF_TIME if lateness_us is None else min(window.end + lateness_us, END_OF_TIME)
        return self.story.watermark >= end

    # Derived from the past.

    def _pages(self, window: Window) -> list[_Page]:
        return [page for page in self.story.pages if page.window == window]

    def _contents(self, window: Window) -> frozenset[int]:
        """Return the elements of a window, by their moments."""
        return frozenset(member.moment for member in self.story.members if member.window == window)

    def _new(self, window: Window) -> frozenset[int]:
        """Return the elements that were in no pane yet."""
        return self._contents(window).difference(*(page.elements for page in self._pages(window)))

    def _contents_of_pane(self, window: Window) -> frozenset[int]:
        """Return the elements that a pane would contain now."""
        discarding = self.query.accumulation is Accumulation.DISCARDING
        return self._new(window) if discarding else self._contents(window)

    def _left(self, contents: frozenset[int]) -> int:
        """Return the number of elements less the number of retractions."""
        return sum(-1 if self._element(number).retraction else 1 for number in contents)

    def _value(self, contents: frozenset[int]) -> Any:
        """Combine the elements of these moments, in the order of their arrival.

        A retraction cancels an equal value, which may also have been dropped, or emitted in an earlier pane: then a combiner that
        can be reversed takes it back all the same, and another one leaves it out.
        """
        elements = [self._element(number) for number in sorted(contents)]
        values: list[Any] = [element.value for element in elements if not element.retraction]
        owed: list[Any] = []
        for element in elements:
            if element.retraction:
                (values.remove if element.value in values else owed.append)(element.value)
        combine = self.query.combine
        result = combine.create()
        for value in values:
            result = combine.add(result, value)
        for value in owed:
            if combine.uncombine is not None:
                result = combine.uncombine(result, value)
            elif self.query.accumulation is Accumulation.DISCARDING:
                raise AssertionError("what is owed can be told of combiners that can be reversed only")
        return combine.extract(result)

    def _element(self, moment: int) -> Element:
        element = self.history[moment].step.element
        assert element is not None, "only elements are in windows"
        return element

    @property
    def _now(self) -> int:
        return self.history[self.number].step.at_us


def _assigned(windows: WindowFn, element: Element) -> Iterable[Window]:
    """Return an element's windows, in other words than the layer, except where each key has a phase."""
    match windows:
        case FixedWindows(size_us, offset_us, phase_spread=False):
            begin = (element.time - offset_us) // size_us * size_us + offset_us
            return [Window(begin, begin + size_us)]
        case SlidingWindows(size_us, period_us, offset_us):
            latest = (element.time - offset_us) // period_us
            begins = [
                offset_us + number * period_us
                for number in range(latest - size_us // period_us - 1, latest + 1)
            ]
            return [Window(begin, begin + size_us) for begin in begins if element.time < begin + size_us]
        case _:
            return windows.assign_windows(element)


def _merging(windows: WindowFn, known: Sequence[Window]) -> Iterable[Window]:
    """Merge windows; sessions until no two of them overlap, or touch if they may not."""
    if not isinstance(windows, Sessions):
        return windows.merge_windows(known)
    reach_us = 0 if windows.touching_merge else -1
    merged = [*known]
    while True:
        for one, other in combinations(merged, 2):
            if max(one.start, other.start) - min(one.end, other.end) <= reach_us:
                rest = [window for window in merged if window not in (one, other)]
                merged = [*rest, Window(min(one.start, other.start), max(one.end, other.end))]
                break
        else:
            return merged
