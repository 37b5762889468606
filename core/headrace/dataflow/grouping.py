"""GroupByKeyAndWindow (Dataflow 2.2, 2.3), sans-IO: one key's windows, as elements arrive and as clock and watermark advance.

Rules of this file:

* A window's trigger is evaluated when one of its elements arrives, when the watermark reaches its end, and when a time that the
  trigger asked for has come. It is evaluated once for each of these and at no other time, so extra calls of `Grouping.advance`
  change nothing.
* A firing with nothing new emits nothing. Windows are emitted in the order in which they end; retractions come before new values.
* An element's windows are merged before the element is counted. A merge loses no buffered data, and emits nothing.
* A window is over when the watermark has passed its end by the allowed lateness, or is at the end of time. New contents are then
  emitted, whatever its trigger waits for. Unless the lateness is unlimited, the window is collected; later elements for it are
  dropped and counted.

Delivery is not ordered: a retraction may arrive before its element. Counts of values may become negative, and recover.
"""

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from headrace import MAX_TIME, MIN_TIME, Clock
from headrace.dataflow.combining import LIST, CombineFn
from headrace.dataflow.contents import Contents
from headrace.dataflow.dataflow_errors import DataflowError, WindowMergeError
from headrace.dataflow.elements import END_OF_TIME, GLOBAL, Element, Window, within_time
from headrace.dataflow.engines import Batch, Engine, MicroBatch, Streaming
from headrace.dataflow.firing import (
    ElementArrival,
    Seen,
    evaluate,
    merge,
    note,
    percentile_name,
    start,
    wishes,
)
from headrace.dataflow.key_text import key_of, shown
from headrace.dataflow.panes import Accumulation, Pane, TimestampCombiner, Timing
from headrace.dataflow.row_codec import MOST, HeldKeyState, KeyState, RowCodec
from headrace.dataflow.triggers import DEFAULT_TRIGGER, Trigger, waits_for_watermark
from headrace.dataflow.value_codecs import ValueCodec
from headrace.dataflow.window_states import NOTHING_DUE, Due, WindowState, in_order
from headrace.dataflow.windows import (
    FixedWindows,
    GlobalWindows,
    Sessions,
    SlidingWindows,
    WindowFn,
    never_merges,
)


class Alarm(NamedTuple):
    """A time at which to call `Grouping.advance`.

    Attributes:
        time: microseconds of its clock. For wall time, elements that arrive at this instant come first.
        clock: the clock.
        hold: event time that the output watermark must not pass before, because a window with a pending pane ends there;
            ``None``: no hold.
    """

    time: int
    clock: Clock
    hold: int | None = None


_EVERYWHERE, _STREAMING, _VALUES = GlobalWindows(), Streaming(), ValueCodec()


@dataclass(frozen=True, slots=True)
class Grouping:
    """The definition of one grouping, and its logic. The caller owns the state, which is changed in place.

    Attributes:
        windows: where: the windowing strategy; ``None``: elements keep their windows, which merge by ``merging``.
        trigger: when: the trigger.
        accumulation: how: the relation between panes.
        combine: what: the combiner.
        allowed_lateness_us: how far behind the watermark a window is kept, event time, microseconds; ``None``: without limit.
            Choice: 0 by default, as in Beam, so that a key's state holds only open windows, not every window that ever existed.
        engine: one of the three engines.
        takes_retractions: whether retractions may arrive.
        merging: windowing strategy of the windows that elements arrive in.
        codec: codec of values that are kept since they may be retracted.
        timestamps: what the event time of a pane is.
        compacts: whether a pane that would replace one by the same is left out, when retracting.
        strategy: the one of ``windows`` and ``merging`` by which windows merge.
    """

    windows: WindowFn | None = _EVERYWHERE
    trigger: Trigger = DEFAULT_TRIGGER
    accumulation: Accumulation = Accumulation.DISCARDING
    combine: CombineFn = LIST
    allowed_lateness_us: int | None = 0
    engine: Engine = _STREAMING
    takes_retractions: bool = False
    merging: WindowFn = _EVERYWHERE
    codec: ValueCodec = _VALUES
    timestamps: TimestampCombiner = TimestampCombiner.END_OF_WINDOW
    compacts: bool = False
    strategy: WindowFn = field(init=False, repr=False, compare=False)
    _only_adds: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        """Note whether an element only adds to its window as long as the watermark has not passed that."""
        object.__setattr__(self, "strategy", self.merging if self.windows is None else self.windows)
        is_simple = (
            never_merges(self.strategy) and not isinstance(self.engine, MicroBatch) and not self.holds_times
        )
        object.__setattr__(self, "_only_adds", is_simple and waits_for_watermark(self.trigger))

    @property
    def holds_times(self) -> bool:
        """Whether the output watermark waits for the event times of elements, which panes will have."""
        return self.timestamps is not TimestampCombiner.END_OF_WINDOW

    def initial_state(self) -> KeyState:
        """Return the state of a key without windows."""
        return HeldKeyState() if self.holds_times else KeyState()

    def row_codec(self, values: ValueCodec, *, most: int = MOST) -> RowCodec:
        """Return the codec of such states; ``values``: that of users' values in them."""
        return RowCodec(values, self.due_of, held=self.holds_times, most=most)

    def element(
        self,
        state: KeyState,
        element: Element,
        now: int,
        watermark: int,
        dropped: list[Window] | None = None,
    ) -> list[Pane]:
        """Add an element, after emitting what was due before it; return the panes.

        Args:
            state: state of the element's key.
            element: the element.
            now: its arrival, wall time, microseconds.
            watermark: known watermark, event time, microseconds.
            dropped: list to which to add those of its windows that dropped it.
        """
        watermark = self._watermark(watermark)
        panes = self.advance(state, now - 1, watermark)
        windows = list(self.assigned(element))
        self._read(state, windows)
        known = (
            {window_state.window: window_state for window_state in state.windows}
            if len(windows) > 1
            else None
        )
        for window in windows:
            before = state.dropped
            panes += self._take(state, window, element, now, watermark, known)
            if dropped is not None and state.dropped > before:
                dropped.append(window)
        return panes

    def advance(self, state: KeyState, now: int, watermark: int) -> list[Pane]:
        """Return the panes that are due at these readings of clock and watermark, and collect windows.

        Args:
            state: state of a key.
            now: wall time, microseconds; all elements up to it have been added.
            watermark: event time, microseconds.
        """
        watermark = self._watermark(watermark)
        wall = min(state.due.wall, state.due.idle) if state.next_batch is None else state.next_batch
        if now < wall and watermark < min(state.due.event, state.due.end):
            return []
        unread = state.unread
        if unread is not None:
            state.read(unread.due_by(now, watermark))
        if isinstance(self.engine, MicroBatch):
            panes = self._run_batch(state, now, watermark)
        else:
            due = [
                window_state for window_state in state.windows if self._is_due(window_state, now, watermark)
            ]
            panes = self._evaluate_all(due, now, watermark, state)
        panes += self._collect(state, watermark)
        self._look_at_all(state)
        return panes

    def percentile(
        self, state: KeyState, percentile: float, reached: int, now: int, watermark: int
    ) -> list[Pane]:
        """Handle the report that a percentile watermark has reached an event time (MillWheel 7.2); return the panes."""
        watermark = self._watermark(watermark)
        panes = self.advance(state, now - 1, watermark)
        name = percentile_name(percentile)
        before = state.percentiles.get(name, MIN_TIME)
        if reached <= before:
            return panes
        state.percentiles[name] = reached
        if state.unread is not None:
            state.read(state.unread.all())
        passed = [
            window_state
            for window_state in state.windows
            if before < window_state.window.end <= reached
            and not (window_state.passed or window_state.finished)
        ]
        panes += self._evaluate_all(passed, now - 1, watermark, state)
        self._look_at_all(state)
        return panes

    def alarms(self, state: KeyState) -> set[Alarm]:
        """Return when to call `advance` next: at most one alarm per clock, determined by the state alone."""
        return self.alarms_at(state.due, state.next_batch)

    @staticmethod
    def alarms_at(due: Due, next_batch: int | None) -> set[Alarm]:
        """Return the alarms of a key with these due times."""
        alarms = set()
        if due.event < MAX_TIME:
            alarms.add(Alarm(due.event, Clock.WATERMARK))
        wall = due.wall if next_batch is None else next_batch
        if wall < MAX_TIME:
            alarms.add(Alarm(wall, Clock.WALL, due.hold if due.hold < MAX_TIME else None))
        return alarms

    def check_invariants(self, state: KeyState) -> None:
        """Assert what must hold between events: the stored due times are those of the windows."""
        due, windows = self._due_of_all(state), [window_state.window for window_state in state.windows]
        assert state.due == due, f"{state.due} is stored, but the windows are due at {due}"
        assert len(set(windows)) == len(windows), f"duplicate window: {windows}"

    def assigned(self, element: Element) -> Iterable[Window]:
        """Return an element's windows, before any merge."""
        if self.windows is None:
            return (element.window,)
        if type(self.windows) in _OURS:
            windows = self.windows.assign_windows(element)
        else:
            windows = self.windows.assign_windows(shown(element))
            windows = _checked(self.windows, "assign_windows", windows, element.key)
        return [within_time(window) for window in windows]

    # Elements

    def _read(self, state: KeyState, windows: Sequence[Window]) -> None:
        """Read the part of the row that an element in these windows may change: all of it for a user's merging strategy."""
        unread, strategy = state.unread, self.strategy
        if unread is None:
            return
        if never_merges(strategy):
            state.read(unread.near(windows))
        elif type(strategy) is Sessions:
            for window in windows:
                state.read(unread.touching(window))
        else:
            state.read(unread.all())

    def _take(
        self,
        state: KeyState,
        window: Window,
        element: Element,
        now: int,
        watermark: int,
        known: Mapping[Window, WindowState] | None = None,
    ) -> list[Pane]:
        if self._only_adds and watermark < window.end:
            self._add_only(state, window, element, now, watermark, known)
            return []
        target, parts = self._merged(state, window, element.key, known)
        if self._is_expired(target, watermark) or any(part.finished for part in parts):
            state.dropped += 1
            return []
        seen = Seen(now - 1, watermark, target, state.percentiles)
        before = [(part.window, self.due_of(part)) for part in parts]
        window_state = self._joined(parts, target, seen)
        if len(parts) != 1 or window_state is not parts[0]:
            if parts:
                state.windows = [other for other in state.windows if all(other is not part for part in parts)]
            state.windows.append(window_state)
        self._add(window_state, element, now, seen)
        panes = []
        if isinstance(self.engine, MicroBatch):
            state.next_batch = self._boundary(now)
        else:
            panes = self._evaluate(window_state, now - 1, watermark, state)
        self._look_at(state, window_state, before)
        return panes

    def _add_only(
        self,
        state: KeyState,
        window: Window,
        element: Element,
        now: int,
        watermark: int,
        known: Mapping[Window, WindowState] | None,
    ) -> None:
        """Add an element to a window that only the watermark can make fire, which has not reached it: no time changes by it."""
        window_state = _window_state_of(state, window, known)
        if window_state is None:
            trigger = start(self.trigger, Seen(now - 1, watermark, window, state.percentiles))
            window_state = WindowState(window, trigger, holds=True)
            state.windows.append(window_state)
            self._look_at(state, window_state, ())
        window_state.contents.add(
            element.value, self.combine, keeps=self._keeps, retraction=element.retraction
        )
        window_state.fresh += 1
        window_state.latest = max(window_state.latest, element.time)

    def _merged(
        self, state: KeyState, window: Window, key: str, indexed: Mapping[Window, WindowState] | None
    ) -> tuple[Window, list[WindowState]]:
        """Return the window that an element's window becomes, and the existing windows that are merged into it."""
        strategy = self.strategy
        if never_merges(strategy):
            existing = _window_state_of(state, window, indexed)
            return window, [] if existing is None else [existing]
        known = dict.fromkeys([*(window_state.window for window_state in state.windows), window])
        windows = strategy.merge_windows(list(known))
        if type(strategy) not in _OURS:
            windows = _checked(strategy, "merge_windows", windows, key)
        merged = [within_time(returned) for returned in windows]
        for each in known:
            if sum(target.covers(each) for target in merged) != 1:
                raise WindowMergeError(repr(strategy), tuple(known), tuple(merged))
        target = next(target for target in merged if target.covers(window))
        return target, [window_state for window_state in state.windows if target.covers(window_state.window)]

    def _joined(self, parts: Sequence[WindowState], target: Window, seen: Seen) -> WindowState:
        """Merge parts into one window; without parts, make a new window."""
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
            latest=self._together(*(part.latest for part in parts)),
            fresh=sum(part.fresh for part in parts),
            panes=sum(part.panes for part in parts),
            passed=passed,
            was_on_time=any(part.was_on_time for part in parts),
            emitted=[pane for part in in_order(parts) for pane in part.emitted],
            holds=any(part.holds for part in parts),
        )

    def _add(self, window_state: WindowState, element: Element, now: int, seen: Seen) -> None:
        window_state.contents.add(
            element.value, self.combine, keeps=self._keeps, retraction=element.retraction
        )
        window_state.latest = self._together(
            window_state.latest, self._time_of(element, window_state.window, seen)
        )
        window_state.fresh += 1
        window_state.holds = window_state.holds or seen.watermark < window_state.window.end
        arrival = ElementArrival(
            now, element.value, lambda: window_state.contents.value(self.combine, self.codec), seen
        )
        window_state.trigger = note(self.trigger, window_state.trigger, arrival)

    def _time_of(self, element: Element, window: Window, seen: Seen) -> int:
        """Return what an element contributes to the time of its pane; `MIN_TIME`: nothing, since it is late."""
        if not self.holds_times:
            return element.time
        time = min(max(element.time, window.start), window.last)
        return time if time >= seen.watermark else MIN_TIME

    def _together(self, *times: int) -> int:
        """Combine times of elements."""
        if self.timestamps is TimestampCombiner.EARLIEST:
            return min((time for time in times if time > MIN_TIME), default=MIN_TIME)
        return max(times)

    # Firing

    def _is_due(self, window_state: WindowState, now: int, watermark: int) -> bool:
        """Return whether the watermark has just reached the window's end, or a time that its trigger asked for has come."""
        if window_state.finished:
            return False
        if not window_state.passed and watermark >= window_state.window.end:
            return True
        for wanted, _ in wishes(self.trigger, window_state.trigger, window_state.window):
            if wanted.clock is Clock.WALL:
                if wanted.time <= now:
                    return True
            elif wanted.time <= watermark and wanted.time != window_state.window.end:
                return True
        return False

    def _evaluate_all(
        self, windows: Iterable[WindowState], now: int, watermark: int, state: KeyState
    ) -> list[Pane]:
        return [
            pane
            for window_state in in_order(windows)
            for pane in self._evaluate(window_state, now, watermark, state)
        ]

    def _run_batch(self, state: KeyState, now: int, watermark: int) -> list[Pane]:
        """Evaluate every window with new contents at a boundary; the watermark counts as past everything read (Figure 11)."""
        if state.next_batch is None or state.next_batch > now:
            return []
        if state.unread is not None:
            state.read(state.unread.fresh())
        changed = [window_state for window_state in state.windows if window_state.fresh]
        panes = self._evaluate_all(changed, now, watermark, state)
        waits = [
            wish.wanted.time
            for window_state in changed
            if window_state.fresh
            for wish in wishes(self.trigger, window_state.trigger, window_state.window)
            if wish.wanted.clock is Clock.WALL
        ]
        state.next_batch = self._boundary(max(min(waits), now + 1)) if waits else None
        return panes

    def _boundary(self, time: int) -> int:
        """Return the end of the batch that contains a wall time, microseconds."""
        assert isinstance(self.engine, MicroBatch)
        return -(-time // self.engine.period_us) * self.engine.period_us

    def _evaluate(self, window_state: WindowState, now: int, watermark: int, state: KeyState) -> list[Pane]:
        """Evaluate a window's trigger, and emit a pane if it fires."""
        effective = MAX_TIME if isinstance(self.engine, MicroBatch) else watermark
        seen = Seen(now, effective, window_state.window, state.percentiles)
        window_state.passed = effective >= window_state.window.end
        window_state.trigger, fired, finished = evaluate(self.trigger, window_state.trigger, seen)
        panes = self._emit(window_state, watermark) if fired and window_state.fresh else []
        if finished:
            _finish(window_state)
        return panes

    def _emit(self, window_state: WindowState, watermark: int) -> list[Pane]:
        timing = Timing.ON_TIME if window_state.holds and not window_state.was_on_time else Timing.LATE
        if not window_state.passed:
            timing = Timing.EARLY
        time = window_state.window.last
        if self.holds_times and window_state.latest > MIN_TIME:
            time = window_state.latest
        elif window_state.window == GLOBAL:
            time = min(max(window_state.latest, watermark), time)
        panes = [msgspec.structs.replace(old, retraction=True, timing=timing) for old in window_state.emitted]
        new = [
            Pane(deepcopy(value), window_state.window, time, window_state.panes, timing, retraction)
            for value, retraction in window_state.contents.results(
                self.combine, self.accumulation, self.codec
            )
        ]
        if self.compacts and self._is_same(window_state.emitted, new):
            panes, new = [], []
        elif self.accumulation is Accumulation.ACCUMULATING_AND_RETRACTING:
            window_state.emitted = new
        elif self.accumulation is Accumulation.DISCARDING:
            window_state.contents = Contents()
        panes += new
        window_state.was_on_time = window_state.was_on_time or (window_state.passed and bool(panes))
        window_state.panes += bool(new)
        window_state.fresh = 0
        window_state.holds = False
        if self.holds_times:
            window_state.latest = MIN_TIME
        return panes

    def _is_same(self, before: Sequence[Pane], after: Sequence[Pane]) -> bool:
        """Return whether panes say the same as those that they would replace: value, window and event time."""
        said = [
            [(pane.window, pane.time, self.codec.encode(pane.value)) for pane in panes]
            for panes in (before, after)
        ]
        return bool(before) and said[0] == said[1]

    # Lateness

    def _collect(self, state: KeyState, watermark: int) -> list[Pane]:
        """Emit the new contents of windows that are over, and remove these windows unless lateness is unlimited."""
        over = [
            window_state for window_state in state.windows if self._limit(window_state.window) <= watermark
        ]
        panes = []
        for window_state in in_order(window_state for window_state in over if window_state.fresh):
            window_state.passed = True
            panes += self._emit(window_state, watermark)
        if over and self.allowed_lateness_us is not None:
            state.windows = [
                window_state for window_state in state.windows if self._limit(window_state.window) > watermark
            ]
            if not state.windows:
                state.percentiles.clear()
        return panes

    def _limit(self, window: Window) -> int:
        """Return the watermark at which a window is over."""
        lateness_us = self.allowed_lateness_us
        return END_OF_TIME if lateness_us is None else self._clipped(window.end + lateness_us)

    def _is_expired(self, window: Window, watermark: int) -> bool:
        return self.allowed_lateness_us is not None and self._limit(window) <= watermark

    # Times

    def _look_at(
        self, state: KeyState, window_state: WindowState, before: Sequence[tuple[Window, Due]]
    ) -> None:
        """Update the due times after a window changed; ``before``: its parts, and when something was due for each."""
        after = self.due_of(window_state)
        if state.unread is not None:
            state.read(state.unread.note(window_state.window, before, after))
        if any(state.due.loses(each, after) for _, each in before):
            self._look_at_all(state)
        else:
            state.due |= after

    def _look_at_all(self, state: KeyState) -> None:
        if state.unread is not None:
            state.unread.changed = True
        state.due = self._due_of_all(state)

    def _due_of_all(self, state: KeyState) -> Due:
        due = NOTHING_DUE if state.unread is None else state.unread.due()
        for window_state in state.windows:
            due |= self.due_of(window_state)
        return due

    def due_of(self, window_state: WindowState) -> Due:
        """Return a window's due times."""
        event = (
            self._limit(window_state.window)
            if window_state.fresh or self.allowed_lateness_us is not None
            else MAX_TIME
        )
        held = window_state.window.end if window_state.holds and window_state.window != GLOBAL else MAX_TIME
        if self.holds_times:
            held = self._held(window_state, held)
        if isinstance(self.engine, MicroBatch):
            return Due(event, hold=held)
        if window_state.finished:
            return Due(event)
        wall, hold, idle_at = MAX_TIME, held if self.holds_times else MAX_TIME, MAX_TIME
        for wanted, idle in wishes(self.trigger, window_state.trigger, window_state.window):
            if wanted.clock is Clock.WALL:
                if window_state.fresh or not idle:
                    wall, hold = min(wall, wanted.time), held
                else:
                    idle_at = min(idle_at, wanted.time)
            elif not (window_state.passed and wanted.time == window_state.window.end):
                event = min(event, self._clipped(wanted.time))
        return Due(event, wall, hold, MAX_TIME if window_state.passed else window_state.window.end, idle_at)

    def _held(self, window_state: WindowState, until_end: int) -> int:
        """Return the event time that the output watermark must not pass, for the pane's time and those of panes to retract."""
        times = [pane.time + 1 for pane in window_state.emitted if not window_state.passed]
        if window_state.latest > MIN_TIME:
            return min([*times, window_state.latest + 1])
        return min([*times, until_end])

    def _watermark(self, watermark: int) -> int:
        """Return the watermark that triggers see (Figures 10, 12); at the end of time all windows are complete."""
        if watermark >= END_OF_TIME:
            return MAX_TIME
        return MIN_TIME if isinstance(self.engine, Batch) else watermark

    def _clipped(self, time: int) -> int:
        """Return the watermark to wait for, as this engine shows it: nothing waits beyond the end of time."""
        return END_OF_TIME if isinstance(self.engine, Batch) else min(time, END_OF_TIME)

    @property
    def _keeps(self) -> ValueCodec | None:
        """The codec if values are kept: some may be retracted, and the combiner is not reversible."""
        return self.codec if self.takes_retractions and self.combine.uncombine is None else None


def _window_state_of(
    state: KeyState, window: Window, known: Mapping[Window, WindowState] | None
) -> WindowState | None:
    """Return the state of a window, if it is open; ``known``: all states by window, if several are looked for."""
    if known is not None:
        return known.get(window)
    for window_state in state.windows:
        if window_state.window == window:
            return window_state
    return None


_OURS = (GlobalWindows, FixedWindows, SlidingWindows, Sessions)


def _checked(strategy: WindowFn, method: str, returned: Any, key: str) -> Sequence[Window]:
    """Refuse anything but windows from a custom strategy."""
    windows = list(returned) if isinstance(returned, Iterable) else returned
    if isinstance(windows, list) and all(
        type(window) is Window and _is_in_time(window) for window in windows
    ):
        return windows
    problem = f"{method} returned {windows!r:.80} for key {key_of(key)!r:.80}, not windows in event time"
    remedy = "Return an iterable of windows, such as [Window(start, end)], each overlapping MIN_TIME to END_OF_TIME"
    raise DataflowError(f"windows {strategy!r}", problem, remedy)


def _is_in_time(window: Window) -> bool:
    return window.start < GLOBAL.end and window.end > GLOBAL.start


def _finish(window_state: WindowState) -> None:
    """Clear everything but the fact that the window is finished; its last pane has just had all that was new."""
    window_state.trigger = None
    window_state.contents = Contents()
    window_state.latest = MIN_TIME
    window_state.finished = True
    window_state.emitted = []
