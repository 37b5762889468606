"""A ParDo with state and timers (Dataflow 2.3: windows and triggers are not all; MillWheel 5.1): one key at a time.

It is the layer's way to do what no window expresses, such as a timeout, a sequence of events, or an alarm. Times are those of
elements: a timer set for event time t fires once all on-time elements before t have arrived, in any position of a pipeline.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from headrace import MAX_TIME, Computation, Context, Record, Timer
from headrace.dataflow.dataflow_errors import DataflowError
from headrace.dataflow.elements import GLOBAL, Element
from headrace.dataflow.key_text import KEYS, key_of, key_text, shown
from headrace.dataflow.transforms import element_of, pane_of, watermark_at


class KeyContext:
    """What a stateful function can do for its key.

    Attributes:
        key: the key.
        watermark: event time, microseconds, before which all on-time elements have arrived; `MIN_TIME` while unknown.
    """

    __slots__ = ("_context", "_lag", "key", "watermark")

    def __init__(self, context: Context, lag: int) -> None:
        self._context, self._lag = context, lag
        self.key = key_of(context.key)
        self.watermark = watermark_at(context, lag)

    @property
    def state(self) -> Any:
        """The key's JSON-like state; change it in place, or assign a new one."""
        return self._context.state

    @state.setter
    def state(self, value: Any) -> None:
        self._context.state = value

    def set_timer(self, tag: str, at_us: int) -> None:
        """Call ``on_timer`` once the watermark has reached an event time, microseconds; setting a tag again moves its timer.

        Raises:
            ContextArgumentError: the tag is not text, or the time is not an event time.
        """
        self._context.set_timer(tag, min(at_us + self._lag, MAX_TIME - 1) if type(at_us) is int else at_us)

    def cancel_timer(self, tag: str) -> None:
        """Cancel the timer with this tag, if there is one."""
        self._context.cancel_timer(tag)


@runtime_checkable
class StatefulFn(Protocol):
    """A function with state and timers. It must be deterministic; its state belongs to the row, never to the object."""

    def initial_state(self) -> Any:
        """Return the JSON-like state of a key that has none."""
        ...

    def process(self, context: KeyContext, element: Element) -> Iterable[tuple[Any, Any]]:
        """Handle an element; return (key, value) pairs, which get the element's event time."""
        ...

    def on_timer(self, context: KeyContext, tag: str, time_us: int) -> Iterable[tuple[Any, Any]]:
        """Handle a timer; return (key, value) pairs, which get its time, event time in microseconds."""
        ...


@dataclass(eq=False, repr=False)
class StatefulParDo(Computation):
    """Runs a `StatefulFn` for each key.

    Attributes:
        function: the function.
        output: output stream; its values are panes, which say the elements' event times.
        lag: number of transforms above it that emit at a watermark.
        panes: those of the input streams whose values are panes.
    """

    function: StatefulFn
    output: str
    lag: int
    panes: Collection[str]

    def initial_state(self) -> Any:
        """Return the function's."""
        return self.function.initial_state()

    def process_record(self, context: Context, record: Record) -> None:
        """Handle an element."""
        element = element_of(record, self.panes)
        pairs = self.function.process(KeyContext(context, self.lag), shown(element))
        self._send(context, "process", pairs, element)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Handle a timer."""
        time_us = timer.timestamp - self.lag
        pairs = self.function.on_timer(KeyContext(context, self.lag), timer.tag, time_us)
        self._send(context, "on_timer", pairs, Element(context.key, None, time_us, GLOBAL))

    def _send(self, context: Context, method: str, pairs: Any, cause: Element) -> None:
        if not isinstance(pairs, Iterable):
            raise self._bad_output(context, method, pairs)
        for pair in pairs:
            if not isinstance(pair, tuple | list) or len(pair) != 2:
                raise self._bad_output(context, method, pair)
            try:
                key = key_text(pair[0])
            except (TypeError, UnicodeEncodeError):
                raise self._bad_output(context, method, pair, f", where the key is {KEYS}") from None
            element = Element(key, pair[1], cause.time, cause.window, cause.retraction)
            context.produce(self.output, pane_of(element), key=element.key)

    def _bad_output(self, context: Context, method: str, returned: Any, also: str = "") -> DataflowError:
        name = f"{type(self.function).__qualname__}.{method}"
        problem, remedy = (
            f"{name} returned {returned!r:.80}",
            f"Return an iterable of (key, value) pairs{also}",
        )
        return DataflowError(f"key {key_of(context.key)!r:.80}", problem, remedy)
