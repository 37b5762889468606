"""The transforms as computations (Dataflow 2.1, 2.2; MillWheel 5.1): what runs on the public API, and knows of no host.

The rule of timestamps. A pane has an event time of its own, in its value: its window's last microsecond, so that a further
grouping by the same windows puts it into the same window. The record that carries it can not be stamped so: the watermark timer
that fires at the window's end is its cause, and a production is never older than its cause (MillWheel 4.5). Therefore

* a pane's record is stamped with its window's **end** (as in Figure 4), one microsecond after its event time;
* a grouping's **lag** is how many groupings are above it. Each adds a microsecond, so that elements of event time t that are on
  time come in records of at most t + lag. When the low watermark has reached T + lag, all elements before T are in: the watermark
  that a grouping's triggers see is the low watermark less the lag, and its timer for T is set to T + lag.

So nothing polls, a pane leaves with the write of the timer that fires it, and the pending timer is all that holds the watermark
back for a pane that is to come on time. A pane that the clock is to fire holds it at the window's end by its wall timer.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from headrace import MAX_TIME, MIN_TIME, Clock, Computation, Context, Record, Timer
from headrace.dataflow.elements import END_OF_TIME, EVENT_TIME, Element, Window
from headrace.dataflow.errors import DataflowError
from headrace.dataflow.grouping import Alarm, Grouping, KeyState
from headrace.dataflow.panes import Pane, Timing
from headrace.dataflow.pardo import Step

KeyExtractor = Callable[[Record], str]


class ParDo(Computation):
    """Applies functions to each element by itself (2.1). What is made of a retraction is retracted.

    Args:
        steps: each takes an element, and the next one what it yields. Deterministic, or retractions do not take back what went
            out (2.3).
        output: stream.
        carries_panes: its input's values are panes; else plain values.
        makes_panes: its output's are.
    """

    def __init__(self, steps: Sequence[Step], output: str, *, carries_panes: bool, makes_panes: bool) -> None:
        self._steps = tuple(steps)
        self._output = output
        self._carries_panes = carries_panes
        self._makes_panes = makes_panes

    def process_record(self, context: Context, record: Record) -> None:
        """Pass the element through the steps; what a pane says of itself stays as it was."""
        for element in _apply(self._steps, element_of(record, carries_panes=self._carries_panes)):
            made = element.value
            if self._makes_panes:
                said = record.value if self._carries_panes else Pane(None, element.window, element.time)
                made = msgspec.structs.replace(said, value=element.value, time=element.time)
            context.produce(self._output, made, key=element.key)


class GroupByKeyAndWindow(Computation):
    """Groups elements by key and window, and emits panes (2.2, 2.3).

    Args:
        grouping: where, when, how and what.
        outputs: streams of the panes; each has all.
        lag: how many groupings are above it.
        carries_panes: its input's values are panes; else plain values.
        signals: stream on which percentile watermarks are told; ``""``: none.
        dropped: stream of the elements that are dropped, each as a late pane of each window that did not take it; ``""``: none.
    """

    def __init__(
        self,
        grouping: Grouping,
        outputs: Iterable[str],
        *,
        lag: int = 0,
        carries_panes: bool = False,
        signals: str = "",
        dropped: str = "",
    ) -> None:
        self.grouping = grouping
        self._dropped = dropped
        self._outputs = tuple(outputs)
        self._lag = lag
        self._carries_panes = carries_panes
        self._signals = signals

    def initial_state(self) -> KeyState:
        """No window is open."""
        return KeyState()

    def process_record(self, context: Context, record: Record) -> None:
        """Take an element, or word of a percentile watermark, in."""
        state: KeyState = context.state
        before = self.grouping.alarms(state)
        now, watermark = context.wall_time, watermark_at(context, self._lag)
        if record.stream == self._signals:
            signal = record.value
            panes = self.grouping.percentile(state, signal["percentile"], signal["reached"], now, watermark)
        else:
            element = element_of(record, carries_panes=self._carries_panes)
            lost: list[Window] = []
            panes = self.grouping.element(state, element, now, watermark, lost)
            self._give_up(context, element, lost)
        self._emit(context, panes)
        self._set_alarms(context, before, self.grouping.alarms(state))

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Emit what is due."""
        state: KeyState = context.state
        before = {one for one in self.grouping.alarms(state) if _tag(one) != timer.tag}
        panes = self.grouping.advance(state, context.wall_time - 1, watermark_at(context, self._lag))
        self._emit(context, panes)
        self._set_alarms(context, before, self.grouping.alarms(state))

    def _emit(self, context: Context, panes: Iterable[Pane]) -> None:
        for pane in panes:
            end = min(pane.time + 1, END_OF_TIME)
            for output in self._outputs:
                context.produce(output, pane, timestamp=max(end + self._lag, context.stamp))

    def _give_up(self, context: Context, element: Element, windows: Iterable[Window]) -> None:
        """Send an element where those go that are dropped, if anywhere."""
        for window in windows if self._dropped else ():
            pane = Pane(element.value, window, element.time, 0, Timing.LATE, element.retraction)
            context.produce(self._dropped, pane)

    def _set_alarms(self, context: Context, before: set[Alarm], after: set[Alarm]) -> None:
        """Bring the row's timers in line with what the grouping asks for.

        A wall timer is set a microsecond later: what arrives at that instant comes before it.
        """
        wanted = {_tag(one) for one in after}
        for tag in sorted({_tag(one) for one in before} - wanted):
            context.cancel_timer(tag)
        for one in sorted(after - before, key=_alarm_order):
            if one.clock is Clock.WATERMARK:
                context.set_timer(_tag(one), one.time + self._lag)
            else:
                hold = None if one.hold is None else one.hold + self._lag
                context.set_wall_timer(_tag(one), one.time + 1, hold)


class PercentileProbe(Computation):
    """Tells a grouping when a percentile of the records has passed a window's end (2.3; MillWheel 7.2).

    It runs with that percentile as its watermark. A computation has one watermark only: so it takes one more to have two.

    Args:
        grouping: whose windows.
        percentile: which.
        output: the stream of signals.
        lag: as the grouping's.
        carries_panes: likewise.
    """

    def __init__(
        self, grouping: Grouping, percentile: float, output: str, *, lag: int, carries_panes: bool
    ) -> None:
        self._grouping = grouping
        self._percentile = percentile
        self._output = output
        self._lag = lag
        self._carries_panes = carries_panes

    def process_record(self, context: Context, record: Record) -> None:
        """Wait for the ends of an element's windows; of those that merge, the last one's is the end of all."""
        element = element_of(record, carries_panes=self._carries_panes)
        for window in self._grouping.assigned(element):
            end = min(window.end, END_OF_TIME)
            context.set_timer(str(end), end + self._lag)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Tell of one."""
        context.produce(
            self._output, {"percentile": self._percentile, "reached": timer.timestamp - self._lag}
        )


def element_of(record: Record, *, carries_panes: bool) -> Element:
    """Read what a record carries.

    Raises:
        DataflowError: its event time is beyond the global window.
    """
    if not carries_panes:
        if record.timestamp >= END_OF_TIME:
            where = f"stream {record.stream!r}, record {record.record_id}, key {record.key!r:.80}"
            problem = f"event time {record.timestamp} is beyond the global window"
            raise DataflowError(where, problem, f"Stamp it with {EVENT_TIME}")
        return Element(record.key, record.value, record.timestamp)
    pane: Pane = record.value
    return Element(record.key, pane.value, pane.time, pane.window, pane.retraction)


def _apply(steps: Sequence[Step], element: Element) -> Iterator[Element]:
    """Yield what a chain of steps makes of an element."""
    if not steps:
        yield element
        return
    first, *rest = steps
    for made in first(element):
        yield from _apply(rest, made)


def watermark_at(context: Context, lag: int) -> int:
    """The watermark of elements: before it, all are in. Event time, microseconds."""
    low = context.low_watermark
    if low >= END_OF_TIME + lag:
        return MAX_TIME
    return MIN_TIME if low == MIN_TIME else low - lag


def _tag(alarm: Alarm) -> str:
    """One timer of each clock."""
    return "at" if alarm.clock is Clock.WATERMARK else "clock"


def _alarm_order(alarm: Alarm) -> tuple[int, str]:
    return alarm.time, alarm.clock.value
