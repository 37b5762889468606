"""GroupByKeyAndWindow (Dataflow 2.2, 2.3), sans-IO: one key's windows, as elements, clock and watermark come.

Rules of this file:

* A window's trigger is evaluated when an element of it arrives; when the watermark reaches its end; and when the clock reaches
  what the trigger asked for: once for each of these, never else, so that it does not matter who else calls `Grouping.advance`.
* A firing with nothing new emits nothing. Windows are emitted as they end; retractions go before the new value.
* What an element merges happens before it is counted. A merge loses nothing that is buffered, and emits nothing.
* A window is over when the watermark has passed its end by the allowed lateness, or is at the end of time. What is new in it then
  goes out, whatever its trigger waits for. With a lateness it is collected; what comes for it after that is dropped, and counted.

Nothing orders what travels: a retraction may come before what it takes back. Counts of values may go below zero, and come back.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from headrace import MAX_TIME, MIN_TIME, Clock
from headrace.dataflow.combining import LIST, CombineFn
from headrace.dataflow.contents import Contents
from headrace.dataflow.elements import END_OF_TIME, GLOBAL, Element, Window, within_time
from headrace.dataflow.engines import Batch, Engine, MicroBatch, Streaming
from headrace.dataflow.errors import DataflowError, WindowMergeError
from headrace.dataflow.firing import Arrival, Seen, evaluate, merge, note, percentile_name, start, wishes
from headrace.dataflow.panes import Accumulation, Pane, Timing
from headrace.dataflow.triggers import DEFAULT_TRIGGER, Trigger
from headrace.dataflow.windows import FixedWindows, GlobalWindows, Sessions, SlidingWindows, WindowFn


class WindowState(msgspec.Struct, array_like=True, omit_defaults=True, gc=False):
    """What a key has of one window.

    Attributes:
        window: which.
        trigger: its trigger's state.
        contents: what a pane is made of.
        latest: the greatest event time of its elements, microseconds.
        fresh: how many elements came since the last pane.
        panes: how many panes there were; a merge adds up those of its parts.
        passed: the watermark has reached its end.
        was_on_time: a pane was emitted after that, here or in a part.
        finished: its trigger is; nothing else is kept.
        emitted: panes that are to be taken back.
        holds: an element that was on time waits in it, so the output watermark must not pass its end.
    """

    window: Window
    trigger: Any = None
    contents: Contents = msgspec.field(default_factory=Contents)
    latest: int = MIN_TIME
    fresh: int = 0
    panes: int = 0
    passed: bool = False
    was_on_time: bool = False
    finished: bool = False
    emitted: list[Pane] = msgspec.field(default_factory=list)
    holds: bool = False


class Due(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True, gc=False):
    """When the next thing is to be done for a window, or for the first of several; `MAX_TIME`: never.

    Attributes:
        event: event time, microseconds, at which the watermark makes something due.
        wall: the same of the clock; the boundaries of a micro-batch engine are not in it.
        hold: what the output watermark must not pass before the clock has made it due; event time, microseconds.
        end: event time, microseconds, of the first end that the watermark has not passed; nothing waits for it.
        idle: wall time, microseconds, at which a trigger starts anew that has nothing to emit; nothing waits for it.
    """

    event: int = MAX_TIME
    wall: int = MAX_TIME
    hold: int = MAX_TIME
    end: int = MAX_TIME
    idle: int = MAX_TIME

    def __or__(self, other: "Due") -> "Due":
        """Take the earlier of each."""
        return Due(
            min(self.event, other.event),
            min(self.wall, other.wall),
            min(self.hold, other.hold),
            min(self.end, other.end),
            min(self.idle, other.idle),
        )

    def loses(self, before: "Due", after: "Due") -> bool:
        """Tell whether it rests on what one of its windows waited for, and waits for no more."""
        return (
            self.event == before.event < after.event
            or self.wall == before.wall < after.wall
            or self.hold == before.hold < after.hold
            or self.end == before.end < after.end
            or self.idle == before.idle < after.idle
        )


NOTHING_DUE = Due()


class KeyState(msgspec.Struct, array_like=True, omit_defaults=True):
    """What is durable of one key.

    Attributes:
        windows: those that are not collected.
        next_batch: boundary at which a micro-batch engine evaluates, wall time, microseconds; ``None``: nothing is new.
        percentiles: percentile watermarks that were told, by name.
        dropped: how many elements were: late beyond what is allowed, or after their trigger was finished.
        due: what its windows wait for, taken together, so that not all are looked at for each element.
    """

    windows: list[WindowState] = msgspec.field(default_factory=list)
    next_batch: int | None = None
    percentiles: dict[str, int] = msgspec.field(default_factory=dict)
    dropped: int = 0
    due: Due = NOTHING_DUE


class Alarm(NamedTuple):
    """A time at which `Grouping.advance` is to be called.

    Attributes:
        time: microseconds of its clock. Wall time: all that arrives at this instant comes before.
        clock: which clock.
        hold: the output watermark must not pass this event time before, for a pane of a window that ends then; ``None``: it may.
    """

    time: int
    clock: Clock
    hold: int | None = None


_EVERYWHERE, _STREAMING = GlobalWindows(), Streaming()


@dataclass(frozen=True, slots=True)
class Grouping:
    """The definition of one grouping, and its logic. State is the caller's, and changed in place.

    Attributes:
        windows: where; ``None``: elements stay in the windows that they came in, and these merge by ``merging``.
        trigger: when.
        accumulation: how.
        combine: what.
        allowed_lateness_us: how far behind the watermark a window is kept, event time, microseconds; ``None``: without limit.
            Choice: none by default, as in Beam, so that a key's state has the windows that are open, and not all that there were.
        engine: which of the three.
        takes_retractions: such may arrive.
        merging: the strategy of windows that elements came in.
    """

    windows: WindowFn | None = _EVERYWHERE
    trigger: Trigger = DEFAULT_TRIGGER
    accumulation: Accumulation = Accumulation.DISCARDING
    combine: CombineFn = LIST
    allowed_lateness_us: int | None = 0
    engine: Engine = _STREAMING
    takes_retractions: bool = False
    merging: WindowFn = _EVERYWHERE

    def element(
        self,
        state: KeyState,
        element: Element,
        now: int,
        watermark: int,
        dropped: list[Window] | None = None,
    ) -> list[Pane]:
        """Take an element in, after what was due before it.

        Args:
            state: of the element's key.
            element: it.
            now: when it arrived, wall time, microseconds.
            watermark: as it is known, event time, microseconds.
            dropped: gets those of its windows that take it no more.
        """
        watermark = self._watermark(watermark)
        panes = self.advance(state, now - 1, watermark)
        windows = list(self.assigned(element))
        known = {one.window: one for one in state.windows} if len(windows) > 1 else None
        for window in windows:
            before = state.dropped
            panes += self._take(state, window, element, now, watermark, known)
            if dropped is not None and state.dropped > before:
                dropped.append(window)
        return panes

    def advance(self, state: KeyState, now: int, watermark: int) -> list[Pane]:
        """Emit what is due now that clock and watermark have got so far; collect windows.

        Args:
            state: of a key.
            now: wall time, microseconds, all of whose elements are in.
            watermark: event time, microseconds.
        """
        watermark = self._watermark(watermark)
        wall = min(state.due.wall, state.due.idle) if state.next_batch is None else state.next_batch
        if now < wall and watermark < min(state.due.event, state.due.end):
            return []
        if isinstance(self.engine, MicroBatch):
            panes = self._run_batch(state, now, watermark)
        else:
            due = [one for one in state.windows if self._is_due(one, now, watermark)]
            panes = self._evaluate_all(due, now, watermark, state)
        panes += self._collect(state, watermark)
        self._look_at_all(state)
        return panes

    def percentile(
        self, state: KeyState, percentile: float, reached: int, now: int, watermark: int
    ) -> list[Pane]:
        """Take in that a percentile's watermark has reached an event time (MillWheel 7.2)."""
        watermark = self._watermark(watermark)
        panes = self.advance(state, now - 1, watermark)
        name = percentile_name(percentile)
        before = state.percentiles.get(name, MIN_TIME)
        if reached <= before:
            return panes
        state.percentiles[name] = reached
        passed = [one for one in state.windows if before < one.window.end <= reached and not one.passed]
        panes += self._evaluate_all(passed, now - 1, watermark, state)
        self._look_at_all(state)
        return panes

    def alarms(self, state: KeyState) -> set[Alarm]:
        """Tell when to call `advance` next: a function of the state alone, at most one alarm for each clock."""
        due = state.due
        found = set()
        if due.event < MAX_TIME:
            found.add(Alarm(due.event, Clock.WATERMARK))
        wall = due.wall if state.next_batch is None else state.next_batch
        if wall < MAX_TIME:
            found.add(Alarm(wall, Clock.WALL, due.hold if due.hold < MAX_TIME else None))
        return found

    def check_invariants(self, state: KeyState) -> None:
        """Assert what must hold between events: what is noted as due is what the windows wait for."""
        known, windows = state.due, [one.window for one in state.windows]
        self._look_at_all(state)
        assert state.due == known, f"{known} is noted, and {state.due} is waited for"
        assert len(set(windows)) == len(windows), f"a window is there twice: {windows}"

    def assigned(self, element: Element) -> Iterable[Window]:
        """Assign an element to windows, before any merge."""
        if self.windows is None:
            return (element.window,)
        given = self.windows.assign_windows(element)
        if type(self.windows) not in _OURS:
            given = _checked(self.windows, "assign_windows", given, element.key)
        return [within_time(window) for window in given]

    # Elements

    def _take(
        self,
        state: KeyState,
        window: Window,
        element: Element,
        now: int,
        watermark: int,
        known: Mapping[Window, WindowState] | None = None,
    ) -> list[Pane]:
        target, parts = self._merged(state, window, element.key, known)
        if self._is_expired(target, watermark) or any(part.finished for part in parts):
            state.dropped += 1
            return []
        seen = Seen(now - 1, watermark, target, state.percentiles)
        before = [self._due(part) for part in parts]
        one = self._joined(parts, target, seen)
        if len(parts) != 1 or one is not parts[0]:
            if parts:
                state.windows = [other for other in state.windows if all(other is not part for part in parts)]
            state.windows.append(one)
        self._add(one, element, now, seen)
        panes = []
        if isinstance(self.engine, MicroBatch):
            state.next_batch = self._boundary(now)
        else:
            panes = self._evaluate(one, now - 1, watermark, state)
        self._look_at(state, one, before)
        return panes

    def _merged(
        self, state: KeyState, window: Window, key: str, indexed: Mapping[Window, WindowState] | None
    ) -> tuple[Window, list[WindowState]]:
        """Find the window that an element's window becomes, and those that are merged into it."""
        strategy = self.merging if self.windows is None else self.windows
        if isinstance(strategy, _NEVER_MERGING):
            if indexed is not None:
                return window, [indexed[window]] if window in indexed else []
            return window, [one for one in state.windows if one.window == window]
        known = dict.fromkeys([*(one.window for one in state.windows), window])
        given = strategy.merge_windows(list(known))
        if type(strategy) not in _OURS:
            given = _checked(strategy, "merge_windows", given, key)
        merged = [within_time(one) for one in given]
        for each in known:
            if sum(target.covers(each) for target in merged) != 1:
                raise WindowMergeError(repr(strategy), tuple(known), tuple(merged))
        target = next(target for target in merged if target.covers(window))
        return target, [one for one in state.windows if target.covers(one.window)]

    def _joined(self, parts: Sequence[WindowState], target: Window, seen: Seen) -> WindowState:
        """Make one of the parts that are merged; a new one if there is none."""
        passed = seen.watermark >= target.end
        if not parts:
            return WindowState(target, start(self.trigger, seen), passed=passed)
        if len(parts) == 1 and parts[0].window == target:
            return parts[0]
        contents = parts[0].contents
        for part in parts[1:]:
            contents = contents.merged(part.contents, self.combine)
        return WindowState(
            target,
            merge(self.trigger, [part.trigger for part in parts], seen),
            contents,
            latest=max(part.latest for part in parts),
            fresh=sum(part.fresh for part in parts),
            panes=sum(part.panes for part in parts),
            passed=passed,
            was_on_time=any(part.was_on_time for part in parts),
            emitted=[pane for part in sorted(parts, key=_order) for pane in part.emitted],
            holds=any(part.holds for part in parts),
        )

    def _add(self, one: WindowState, element: Element, now: int, seen: Seen) -> None:
        one.contents.add(element.value, self.combine, keeps=self._keeps, retraction=element.retraction)
        one.latest = max(one.latest, element.time)
        one.fresh += 1
        one.holds = one.holds or seen.watermark < one.window.end
        arrival = Arrival(now, element.value, lambda: one.contents.value(self.combine), seen)
        one.trigger = note(self.trigger, one.trigger, arrival)

    # Firing

    def _is_due(self, one: WindowState, now: int, watermark: int) -> bool:
        """The watermark has just reached its end, or the clock what its trigger asked for."""
        if one.finished:
            return False
        if not one.passed and watermark >= one.window.end:
            return True
        for wanted, _ in wishes(self.trigger, one.trigger, one.window):
            if wanted.clock is Clock.WALL:
                if wanted.time <= now:
                    return True
            elif wanted.time <= watermark and wanted.time != one.window.end:
                return True
        return False

    def _evaluate_all(
        self, windows: Iterable[WindowState], now: int, watermark: int, state: KeyState
    ) -> list[Pane]:
        return [
            pane for one in sorted(windows, key=_order) for pane in self._evaluate(one, now, watermark, state)
        ]

    def _run_batch(self, state: KeyState, now: int, watermark: int) -> list[Pane]:
        """At a boundary: every window with something new, and the watermark is past all that was read (Figure 11)."""
        if state.next_batch is None or state.next_batch > now:
            return []
        changed = [one for one in state.windows if one.fresh]
        panes = self._evaluate_all(changed, now, watermark, state)
        waits = [
            wish.wanted.time
            for one in changed
            if one.fresh
            for wish in wishes(self.trigger, one.trigger, one.window)
            if wish.wanted.clock is Clock.WALL
        ]
        state.next_batch = self._boundary(max(min(waits), now + 1)) if waits else None
        return panes

    def _boundary(self, time: int) -> int:
        """The end of the batch that a wall time is in; microseconds."""
        assert isinstance(self.engine, MicroBatch)
        return -(-time // self.engine.period_us) * self.engine.period_us

    def _evaluate(self, one: WindowState, now: int, watermark: int, state: KeyState) -> list[Pane]:
        """Ask its trigger, and emit if it fires."""
        effective = MAX_TIME if isinstance(self.engine, MicroBatch) else watermark
        seen = Seen(now, effective, one.window, state.percentiles)
        one.passed = effective >= one.window.end
        one.trigger, fired, finished = evaluate(self.trigger, one.trigger, seen)
        panes = self._emit(one, watermark) if fired and one.fresh else []
        if finished:
            _finish(one)
        return panes

    def _emit(self, one: WindowState, watermark: int) -> list[Pane]:
        timing = Timing.ON_TIME if one.holds and not one.was_on_time else Timing.LATE
        if not one.passed:
            timing = Timing.EARLY
        time = one.window.last
        if one.window == GLOBAL:
            time = min(max(one.latest, watermark), time)
        panes = [msgspec.structs.replace(old, retraction=True, timing=timing) for old in one.emitted]
        new = [
            Pane(deepcopy(value), one.window, time, one.panes, timing, retraction)
            for value, retraction in one.contents.results(self.combine, self.accumulation)
        ]
        if self.accumulation is Accumulation.ACCUMULATING_AND_RETRACTING:
            one.emitted = new
        elif self.accumulation is Accumulation.DISCARDING:
            one.contents = Contents()
        panes += new
        one.was_on_time = one.was_on_time or (one.passed and bool(panes))
        one.panes += bool(new)
        one.fresh = 0
        one.holds = False
        return panes

    # Lateness

    def _collect(self, state: KeyState, watermark: int) -> list[Pane]:
        """Emit what is new in the windows that are over, and forget them if nothing more is taken."""
        over = [one for one in state.windows if self._limit(one.window) <= watermark]
        panes = []
        for one in sorted((one for one in over if one.fresh), key=_order):
            one.passed = True
            panes += self._emit(one, watermark)
        if over and self.allowed_lateness_us is not None:
            state.windows = [one for one in state.windows if self._limit(one.window) > watermark]
            if not state.windows:
                state.percentiles.clear()
        return panes

    def _limit(self, window: Window) -> int:
        """The watermark at which a window is over."""
        lateness_us = self.allowed_lateness_us
        return END_OF_TIME if lateness_us is None else self._clipped(window.end + lateness_us)

    def _is_expired(self, window: Window, watermark: int) -> bool:
        return self.allowed_lateness_us is not None and self._limit(window) <= watermark

    # Times

    def _look_at(self, state: KeyState, one: WindowState, before: Sequence[Due]) -> None:
        """Take note of what a window waits for that has changed; ``before``: what its parts waited for."""
        after = self._due(one)
        if any(state.due.loses(each, after) for each in before):
            self._look_at_all(state)
        else:
            state.due |= after

    def _look_at_all(self, state: KeyState) -> None:
        due = NOTHING_DUE
        for one in state.windows:
            due |= self._due(one)
        state.due = due

    def _due(self, one: WindowState) -> Due:
        """What a window waits for."""
        event = self._limit(one.window) if one.fresh or self.allowed_lateness_us is not None else MAX_TIME
        held = one.window.end if one.holds and one.window != GLOBAL else MAX_TIME
        if isinstance(self.engine, MicroBatch):
            return Due(event, hold=held)
        if one.finished:
            return Due(event)
        wall, hold, idle_at = MAX_TIME, MAX_TIME, MAX_TIME
        for wanted, idle in wishes(self.trigger, one.trigger, one.window):
            if wanted.clock is Clock.WALL:
                if one.fresh or not idle:
                    wall, hold = min(wall, wanted.time), held
                else:
                    idle_at = min(idle_at, wanted.time)
            elif not (one.passed and wanted.time == one.window.end):
                event = min(event, self._clipped(wanted.time))
        return Due(event, wall, hold, MAX_TIME if one.passed else one.window.end, idle_at)

    def _watermark(self, watermark: int) -> int:
        """What the engine lets triggers know of it (Figures 10 and 12). At the end of time all windows are complete."""
        if watermark >= END_OF_TIME:
            return MAX_TIME
        return MIN_TIME if isinstance(self.engine, Batch) else watermark

    def _clipped(self, time: int) -> int:
        """When the watermark reaches a time, as the engine lets it: nothing waits for longer than the end of time."""
        return END_OF_TIME if isinstance(self.engine, Batch) else min(time, END_OF_TIME)

    @property
    def _keeps(self) -> bool:
        """Values are kept, since some may be taken back and the combiner can not be reversed."""
        return self.takes_retractions and self.combine.uncombine is None


_NEVER_MERGING = (GlobalWindows, FixedWindows, SlidingWindows)
_OURS = (*_NEVER_MERGING, Sessions)


def _checked(strategy: WindowFn, method: str, given: Any, key: str) -> Sequence[Window]:
    """Refuse what a strategy of the user's own gives in place of windows."""
    windows = list(given) if isinstance(given, Iterable) else given
    if isinstance(windows, list) and all(type(one) is Window and _is_in_time(one) for one in windows):
        return windows
    problem = f"{method} gave {windows!r:.80} for key {key!r:.80}, and not windows in event time"
    remedy = "Return several windows, such as [Window(start, end)], each with a part between MIN_TIME and END_OF_TIME"
    raise DataflowError(f"windows {strategy!r}", problem, remedy)


def _is_in_time(window: Window) -> bool:
    return window.start < GLOBAL.end and window.end > GLOBAL.start


def _order(one: WindowState) -> tuple[int, int]:
    return one.window.order


def _finish(one: WindowState) -> None:
    """Keep nothing but that it is finished; what had not fired with it is in its last pane."""
    one.trigger = None
    one.contents = Contents()
    one.fresh = 0
    one.holds = False
    one.finished = True
    one.emitted = []
