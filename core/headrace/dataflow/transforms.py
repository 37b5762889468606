"""The transforms as computations (Dataflow 2.1, 2.2; MillWheel 5.1), built on the public API and independent of the host.

How timestamps work: a pane has its own event time, in its value: its window's last microsecond, so that another grouping by the
same windows puts it into the same window. Its record cannot have this timestamp: its cause is the watermark timer at the window's
end, and a production is never older than its cause (MillWheel 4.5). Therefore

* a pane's record is stamped with its window's **end** (as in Figure 4), one microsecond after its event time;
* a grouping's **lag** is the number of groupings above it. Each adds a microsecond, so on-time elements with event time t arrive
  in records stamped t + lag at most. Once the low watermark has reached T + lag, all elements before T have arrived: a grouping's
  triggers see the low watermark minus the lag, and its timer for T is set to T + lag.

So nothing polls, a pane is sent with the write of the timer that fires it, and only the pending timer holds the watermark for a
pane that will be on time. A pane that the clock will fire holds it at the window's end through its wall timer.
"""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from headrace import MAX_TIME, MIN_TIME, Clock, Computation, Context, Record, Timer
from headrace.dataflow.dataflow_errors import DataflowError
from headrace.dataflow.elements import END_OF_TIME, EVENT_TIME, Element, Window
from headrace.dataflow.grouping import Alarm, Grouping
from headrace.dataflow.panes import Pane, Timing
from headrace.dataflow.pardo import Step, Tagging
from headrace.dataflow.row_codec import HeldKeyState, KeyState

KeyExtractor = Callable[[Record], str]


class ParDo(Computation):
    """Applies functions to each element separately (2.1). The outputs of a retraction are retractions.

    Args:
        steps: chain of functions on elements. They must be deterministic, or retractions do not match what was emitted (2.3).
        output: output stream.
        panes: those of the input streams whose values are panes; the others' are plain values.
        makes_panes: whether the output's values are panes.
    """

    def __init__(
        self, steps: Sequence[Step], output: str, *, panes: Collection[str] = (), makes_panes: bool = False
    ) -> None:
        self._steps = tuple(steps)
        self._output = output
        self._panes = frozenset(panes)
        self._makes_panes = makes_panes

    def process_record(self, context: Context, record: Record) -> None:
        """Pass the element through the steps; keep the other fields of a pane."""
        for element in _apply(self._steps, element_of(record, self._panes)):
            self._send(context, record, element, self._output)

    def _send(self, context: Context, record: Record, element: Element, output: str) -> None:
        value = element.value
        if self._makes_panes:
            said = record.value if record.stream in self._panes else pane_of(element)
            value = msgspec.structs.replace(said, value=element.value, time=element.time)
        context.produce(output, value, key=element.key)


class TaggedParDo(ParDo):
    """Applies a function that has several outputs.

    Args:
        steps: chain of functions before it.
        function: the function.
        outputs: stream by tag; elements with other tags go nowhere.
        panes: as for a `ParDo`.
        makes_panes: as for a `ParDo`.
    """

    def __init__(
        self,
        steps: Sequence[Step],
        function: Tagging,
        outputs: Mapping[str, str],
        *,
        panes: Collection[str] = (),
        makes_panes: bool = False,
    ) -> None:
        super().__init__(steps, "", panes=panes, makes_panes=makes_panes)
        self._function = function
        self._outputs = dict(outputs)

    def process_record(self, context: Context, record: Record) -> None:
        """Send each of the function's elements to its tag's stream."""
        for element in _apply(self._steps, element_of(record, self._panes)):
            for tag, output_element in self._function(element):
                output = self._outputs.get(tag)
                if output is not None:
                    self._send(context, record, output_element, output)


class GroupByKeyAndWindow(Computation):
    """Groups elements by key and window, and emits panes (2.2, 2.3).

    Args:
        grouping: the grouping's definition: where, when, how and what.
        outputs: output streams; each gets all panes.
        lag: number of transforms above it that emit at a watermark: how much later its timers are.
        panes: those of the input streams whose values are panes; the others' are plain values.
        signals: stream that reports percentile watermarks; ``""``: none.
        dropped: stream for dropped elements, each sent as a late pane of each window that dropped it; ``""``: none.
    """

    def __init__(
        self,
        grouping: Grouping,
        outputs: Iterable[str],
        *,
        lag: int = 0,
        panes: Collection[str] = (),
        signals: str = "",
        dropped: str = "",
    ) -> None:
        self.grouping = grouping
        self.dropped = dropped
        self._outputs = tuple(outputs)
        self.lag = lag
        self._panes = frozenset(panes)
        self._signals = signals

    def initial_state(self) -> KeyState:
        """Return a state without windows."""
        return self.grouping.initial_state()

    def count_dropped(self, state: KeyState) -> int:
        """Return how many elements a key has dropped so far: see `KeyState`."""
        return state.dropped

    def process_record(self, context: Context, record: Record) -> None:
        """Handle an element, or the report of a percentile watermark."""
        state: KeyState = context.state
        due, next_batch = state.due, state.next_batch
        now, watermark = context.wall_time, watermark_at(context, self.lag)
        if record.stream == self._signals:
            signal = record.value
            panes = self.grouping.percentile(state, signal["percentile"], signal["reached"], now, watermark)
        else:
            element = element_of(record, self._panes)
            lost: list[Window] = []
            panes = self.grouping.element(state, element, now, watermark, lost)
            self._give_up(context, element, lost)
        self._emit(context, panes)
        if state.due is not due or state.next_batch != next_batch:
            before = self.grouping.alarms_at(due, next_batch)
            self._set_alarms(context, before, self.grouping.alarms(state))
        self._hold(context, state)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Emit the panes that are due."""
        state: KeyState = context.state
        if timer.tag == _LEAVE:
            assert isinstance(state, HeldKeyState)
            self._send(context, state.leaving)
            state.leaving = []
            self._hold(context, state)
            return
        before = {alarm for alarm in self.grouping.alarms(state) if tag_of(alarm) != timer.tag}
        panes = self.grouping.advance(state, context.wall_time - 1, watermark_at(context, self.lag))
        self._emit(context, panes)
        self._set_alarms(context, before, self.grouping.alarms(state))
        self._hold(context, state)

    def _emit(self, context: Context, panes: Sequence[Pane]) -> None:
        """Send panes; those that are older than their cause later, by a timer that is due at once and holds the watermark."""
        if not self.grouping.holds_times:
            self._send(context, panes)
        elif panes:
            context.state.leaving += panes

    def _hold(self, context: Context, state: KeyState) -> None:
        """Hold the output watermark for the panes that have the event times of elements."""
        if not isinstance(state, HeldKeyState):
            return
        held = state.due.hold
        context.hold_watermark(None if held == MAX_TIME else held + self.lag)
        if state.leaving:
            first = min(pane.time + 1 for pane in state.leaving)
            context.set_wall_timer(_LEAVE, context.wall_time, first + self.lag)

    def _send(self, context: Context, panes: Iterable[Pane]) -> None:
        for pane in panes:
            end = min(pane.time + 1, END_OF_TIME)
            for output in self._outputs:
                context.produce(output, pane, timestamp=max(end + self.lag, context.stamp))

    def _give_up(self, context: Context, element: Element, windows: Iterable[Window]) -> None:
        """Send a dropped element to the stream for dropped elements, if there is one."""
        for window in windows if self.dropped else ():
            pane = Pane(element.value, window, element.time, 0, Timing.LATE, element.retraction)
            context.produce(self.dropped, pane)

    def _set_alarms(self, context: Context, before: set[Alarm], after: set[Alarm]) -> None:
        """Set and cancel timers to match the grouping's alarms.

        A wall timer is set one microsecond later, since elements that arrive at that instant come first.
        """
        wanted = {tag_of(alarm) for alarm in after}
        for tag in sorted({tag_of(alarm) for alarm in before} - wanted):
            context.cancel_timer(tag)
        for alarm in sorted(after - before, key=lambda alarm: (alarm.time, alarm.clock.value)):
            if alarm.clock is Clock.WATERMARK:
                context.set_timer(tag_of(alarm), alarm.time + self.lag)
            else:
                hold = None if alarm.hold is None else alarm.hold + self.lag
                context.set_wall_timer(tag_of(alarm), alarm.time + 1, hold)


@dataclass(eq=False, repr=False)
class PercentileProbe(Computation):
    """Tells a grouping when a percentile watermark has passed a window's end (2.3; MillWheel 7.2).

    It runs with that percentile as its watermark. A computation has only one watermark, so a second one takes a second
    computation.

    Attributes:
        grouping: the grouping whose windows to use.
        percentile: the percentile.
        output: stream of signals.
        lag: the grouping's lag.
        panes: those of the input streams whose values are panes, as for the grouping.
    """

    grouping: Grouping
    percentile: float
    output: str
    lag: int
    panes: Collection[str]

    def process_record(self, context: Context, record: Record) -> None:
        """Set timers for the ends of an element's windows; the last end of merging windows is that of the merged one."""
        element = element_of(record, self.panes)
        for window in self.grouping.assigned(element):
            end = min(window.end, END_OF_TIME)
            context.set_timer(str(end), end + self.lag)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Report that the percentile watermark has reached a window's end."""
        context.produce(self.output, {"percentile": self.percentile, "reached": timer.timestamp - self.lag})


def element_of(record: Record, panes: Container[str]) -> Element:
    """Return the element in a record.

    Raises:
        DataflowError: its event time is beyond the global window.
    """
    if record.stream not in panes:
        if record.timestamp >= END_OF_TIME:
            where = f"stream {record.stream!r}, record {record.record_id}, key {record.key!r:.80}"
            problem = f"event time {record.timestamp} is beyond the global window"
            raise DataflowError(where, problem, f"Stamp it with {EVENT_TIME}")
        return Element(record.key, record.value, record.timestamp)
    pane: Pane = record.value
    return Element(record.key, pane.value, pane.time, pane.window, pane.retraction)


def pane_of(element: Element) -> Pane:
    """Return an element as the value of a record: a pane that says its event time and its window."""
    return Pane(element.value, element.window, element.time, retraction=element.retraction)


def _apply(steps: Sequence[Step], element: Element) -> Iterator[Element]:
    """Yield the outputs of a chain of steps for an element."""
    if not steps:
        yield element
        return
    first, *rest = steps
    for result in first(element):
        yield from _apply(rest, result)


def watermark_at(context: Context, lag: int) -> int:
    """Return the watermark of elements, before which all have arrived, event time in microseconds."""
    low = context.low_watermark
    if low >= END_OF_TIME + lag:
        return MAX_TIME
    return MIN_TIME if low == MIN_TIME else low - lag


_LEAVE = "leave"


def tag_of(alarm: Alarm) -> str:
    """Return an alarm's timer tag: one timer per clock."""
    return "at" if alarm.clock is Clock.WATERMARK else "clock"
