"""Triggers (Dataflow 2.3): *when* in processing time results are emitted. Here are the values; what they do is in ``_firing``.

A trigger lives for one key's window, from its first element on. It sees the arrival of elements, the clock, the watermark, and
merges.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import msgspec

from headrace import Clock, OptionsError
from headrace.dataflow.arguments import check_count, check_function, check_positive
from headrace.dataflow.elements import Window


@dataclass(frozen=True, slots=True)
class AtWatermark:
    """Fires when the watermark has reached the window's end.

    Attributes:
        percentile: 100 for the low watermark; less for the progress of that part of the records (2.3, MillWheel 7.2).
    """

    percentile: float = 100.0

    def __post_init__(self) -> None:
        """Refuse what is no percentile."""
        if type(self.percentile) not in (int, float) or not 0 < self.percentile <= 100:
            raise OptionsError("percentile", self.percentile, "more than 0 and at most 100")


@dataclass(frozen=True, slots=True)
class AtPeriod:
    """Fires at the next boundary of processing time: multiples of the period, for all windows alike (Figures 7, 8, 13, 14).

    An element that arrives on a boundary is in that boundary's pane.

    Attributes:
        period_us: wall time, microseconds.
    """

    period_us: int

    def __post_init__(self) -> None:
        """Refuse a period that is none."""
        check_positive("period_us", self.period_us)


@dataclass(frozen=True, slots=True)
class AtCount:
    """Fires when so many elements have arrived (Figure 9). A retraction that arrives counts as well: it is data.

    Attributes:
        count: how many.
    """

    count: int

    def __post_init__(self) -> None:
        """Refuse to count to nothing."""
        check_count("count", self.count)


@dataclass(frozen=True, slots=True)
class AfterDelay:
    """Fires a while after the first element. One that arrives exactly then is in the pane.

    Attributes:
        delay_us: wall time, microseconds.
    """

    delay_us: int

    def __post_init__(self) -> None:
        """Refuse a delay that is none."""
        check_positive("delay_us", self.delay_us)


@dataclass(frozen=True, slots=True)
class When:
    """Fires when an element has made a predicate true: a data-driven trigger (2.3).

    Attributes:
        predicate: takes what the pane would have as its value.
    """

    predicate: Callable[[Any], bool]

    def __post_init__(self) -> None:
        """Refuse what can not be asked."""
        check_function("predicate", self.predicate)


class Instant(msgspec.Struct, frozen=True):
    """What a trigger of your own may look at.

    Attributes:
        now: wall time, microseconds.
        watermark: event time, microseconds.
        window: that it lives in.
    """

    now: int
    watermark: int
    window: Window


class Wanted(msgspec.Struct, frozen=True, order=True):
    """A time at which a trigger of your own wants to be asked again.

    Attributes:
        time: microseconds of its clock.
        clock: which clock.
    """

    time: int
    clock: Clock


@runtime_checkable
class TriggerFn(Protocol):
    """A trigger of your own (2.3: "users may define their own triggers"): pure functions of a JSON-like state.

    It is asked at each arrival, and at the times that it wants. When it has fired it is finished, or starts anew in a `Repeat`.
    """

    def start(self, instant: Instant) -> Any:
        """Return the state to begin with."""
        ...

    def on_element(self, state: Any, value: Any, instant: Instant) -> Any:
        """Return the state after an element arrived."""
        ...

    def is_ready(self, state: Any, instant: Instant) -> bool:
        """Tell whether it fires now."""
        ...

    def wanted(self, state: Any, window: Window) -> Iterable[Wanted]:
        """Return the times at which to ask `is_ready`; those that have passed are ignored."""
        ...

    def merge(self, states: Sequence[Any], instant: Instant) -> Any:
        """Return the state of a window that was merged from others."""
        ...


@dataclass(frozen=True, slots=True)
class Custom:
    """Fires when a trigger of your own says so.

    Attributes:
        fn: it.
    """

    fn: TriggerFn

    def __post_init__(self) -> None:
        """Refuse an object that lacks a method, and a class."""
        if isinstance(self.fn, type) or not isinstance(self.fn, TriggerFn):
            raise OptionsError("Custom", self.fn, "an object with all methods of TriggerFn")


@dataclass(frozen=True, slots=True)
class Repeat:
    """Fires whenever the trigger fires, and starts it anew when it is finished. Never finished.

    Attributes:
        trigger: what is repeated.
    """

    trigger: "Trigger"

    def __post_init__(self) -> None:
        """Refuse what is no trigger."""
        _inner("Repeat", self.trigger)


@dataclass(frozen=True, slots=True)
class RepeatUntil:
    """Repeats a trigger until another one fires, then fires once more and is finished (Figure 13).

    Attributes:
        trigger: what is repeated.
        until: what ends it.
    """

    trigger: "Trigger"
    until: "Trigger"

    def __post_init__(self) -> None:
        """Refuse what is no trigger."""
        _inner("RepeatUntil", self.trigger)
        _inner("RepeatUntil", self.until)


@dataclass(frozen=True, slots=True, init=False)
class SequenceOf:
    """Each trigger until it is finished, then the next. Finished with the last (Figures 13 and 14).

    Attributes:
        triggers: at least one.
    """

    triggers: tuple["Trigger", ...]

    def __init__(self, *triggers: "Trigger") -> None:
        object.__setattr__(self, "triggers", _several("SequenceOf", triggers))


@dataclass(frozen=True, slots=True, init=False)
class AnyOf:
    """Fires when one fires, and is finished (2.3: or).

    Attributes:
        triggers: at least one.
    """

    triggers: tuple["Trigger", ...]

    def __init__(self, *triggers: "Trigger") -> None:
        object.__setattr__(self, "triggers", _several("AnyOf", triggers))


@dataclass(frozen=True, slots=True, init=False)
class AllOf:
    """Fires when each has fired, and is finished (2.3: and).

    Attributes:
        triggers: at least one.
    """

    triggers: tuple["Trigger", ...]

    def __init__(self, *triggers: "Trigger") -> None:
        object.__setattr__(self, "triggers", _several("AllOf", triggers))


Trigger = (
    AtWatermark
    | AtPeriod
    | AtCount
    | AfterDelay
    | When
    | Custom
    | Repeat
    | RepeatUntil
    | SequenceOf
    | AnyOf
    | AllOf
)


def _inner(option: str, trigger: object) -> None:
    if not isinstance(trigger, Trigger):
        raise OptionsError(option, trigger, "a trigger, such as AtWatermark()")


def _several(name: str, triggers: tuple["Trigger", ...]) -> tuple["Trigger", ...]:
    if not triggers:
        raise OptionsError(name, triggers, "at least one trigger")
    for trigger in triggers:
        _inner(name, trigger)
    return triggers


DEFAULT_TRIGGER = Repeat(AtWatermark())
"""What a window that was given no trigger has (2.4): when the watermark passes, and again with each late element."""
