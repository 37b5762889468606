"""Triggers (Dataflow 2.3): *when* in processing time results are emitted. This file has the values; `firing` has the behavior.

A trigger exists for one window of one key, from its first element on. It sees arriving elements, the clock, the watermark, and
merges.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
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
        percentile: 100 for the low watermark; less for the progress of that percentage of the records (2.3, MillWheel 7.2).
    """

    percentile: float = 100.0

    def __post_init__(self) -> None:
        if type(self.percentile) not in (int, float) or not 0 < self.percentile <= 100:
            raise OptionsError("percentile", self.percentile, "a number above 0 and at most 100")


@dataclass(frozen=True, slots=True)
class AtPeriod:
    """Fires at the boundary of processing time after the first element: at a multiple of the period (Figures 7, 8, 13, 14).

    An element that arrives on a boundary is in that boundary's pane.

    Choice: like a delay, it begins with the first element since its start, as in Beam. The paper shows it repeated, where that is
    the same. In a sequence, a boundary without an element would finish it, and drop what comes afterwards.

    Attributes:
        period_us: period, wall time, microseconds.
    """

    period_us: int

    def __post_init__(self) -> None:
        check_positive("period_us", self.period_us)


@dataclass(frozen=True, slots=True)
class AtCount:
    """Fires when a number of elements have arrived (Figure 9). Retractions count as well: they are data.

    Attributes:
        count: number of elements.
    """

    count: int

    def __post_init__(self) -> None:
        check_count("count", self.count)


@dataclass(frozen=True, slots=True)
class AfterDelay:
    """Fires a fixed time after the first element. An element that arrives exactly then is in the pane.

    Attributes:
        delay_us: delay, wall time, microseconds.
    """

    delay_us: int

    def __post_init__(self) -> None:
        check_positive("delay_us", self.delay_us)


@dataclass(frozen=True, slots=True)
class When:
    """Fires when a predicate holds after an element: a data-driven trigger (2.3).

    Attributes:
        predicate: takes the value that the pane would have.
    """

    predicate: Callable[[Any], bool]

    def __post_init__(self) -> None:
        check_function("predicate", self.predicate)


class Instant(msgspec.Struct, frozen=True):
    """What a custom trigger can see.

    Attributes:
        now: wall time, microseconds.
        watermark: event time, microseconds.
        window: the trigger's window.
    """

    now: int
    watermark: int
    window: Window


class Wanted(msgspec.Struct, frozen=True, order=True):
    """A time at which a custom trigger wants to be evaluated.

    Attributes:
        time: time, microseconds of its clock.
        clock: the clock.
    """

    time: int
    clock: Clock


@runtime_checkable
class TriggerFn(Protocol):
    """A custom trigger (2.3: "users may define their own triggers"): pure functions of a JSON-like state.

    It is evaluated at every arrival and at the times that it wants. Once it has fired, it is finished, or restarts in a `Repeat`.
    """

    def start(self, instant: Instant) -> Any:
        """Return the initial state."""
        ...

    def on_element(self, state: Any, value: Any, instant: Instant) -> Any:
        """Return the state after an element has arrived."""
        ...

    def is_ready(self, state: Any, instant: Instant) -> bool:
        """Return whether the trigger fires now."""
        ...

    def wanted(self, state: Any, window: Window) -> Iterable[Wanted]:
        """Return the times at which to call `is_ready`; past times are ignored."""
        ...

    def merge(self, states: Sequence[Any], instant: Instant) -> Any:
        """Return the state of a window that was merged from others."""
        ...


@dataclass(frozen=True, slots=True)
class Custom:
    """Fires when a custom trigger says so.

    Attributes:
        fn: the custom trigger.
    """

    fn: TriggerFn

    def __post_init__(self) -> None:
        if isinstance(self.fn, type) or not isinstance(self.fn, TriggerFn):
            raise OptionsError("Custom", self.fn, "an object with all methods of TriggerFn")


@dataclass(frozen=True, slots=True)
class Repeat:
    """Fires whenever a trigger fires, and restarts it when it is finished. Never finishes.

    Attributes:
        trigger: the repeated trigger.
    """

    trigger: "Trigger"

    def __post_init__(self) -> None:
        _inner("Repeat", self.trigger)


@dataclass(frozen=True, slots=True)
class RepeatUntil:
    """Repeats a trigger until another one fires, then fires once more and is finished (Figure 13).

    Attributes:
        trigger: the repeated trigger.
        until: the trigger that ends the repetition.
    """

    trigger: "Trigger"
    until: "Trigger"

    def __post_init__(self) -> None:
        _inner("RepeatUntil", self.trigger)
        _inner("RepeatUntil", self.until)


@dataclass(frozen=True, slots=True)
class OrFinally:
    """Fires when its trigger fires, and when another one does, which finishes it (Beam: ``orFinally``).

    It is finished earlier if its trigger is. `RepeatUntil` is ``OrFinally(Repeat(trigger), until)``.

    Attributes:
        trigger: the trigger.
        until: the trigger that finishes it.
    """

    trigger: "Trigger"
    until: "Trigger"

    def __post_init__(self) -> None:
        _inner("OrFinally", self.trigger)
        _inner("OrFinally", self.until)


@dataclass(frozen=True, slots=True, init=False)
class SequenceOf:
    """Runs each trigger until it is finished, then the next. Finished with the last (Figures 13 and 14).

    Attributes:
        triggers: the triggers, at least one.
    """

    triggers: tuple["Trigger", ...]

    def __init__(self, *triggers: "Trigger") -> None:
        object.__setattr__(self, "triggers", _several("SequenceOf", triggers))


@dataclass(frozen=True, slots=True, init=False)
class AnyOf:
    """Fires when one of its triggers fires, and is then finished (2.3: or).

    Attributes:
        triggers: the triggers, at least one.
    """

    triggers: tuple["Trigger", ...]

    def __init__(self, *triggers: "Trigger") -> None:
        object.__setattr__(self, "triggers", _several("AnyOf", triggers))


@dataclass(frozen=True, slots=True, init=False)
class AllOf:
    """Fires when all of its triggers have fired, and is then finished (2.3: and).

    Attributes:
        triggers: the triggers, at least one.
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
    | OrFinally
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


def after_watermark(early: Trigger | None = None, late: Trigger | None = None) -> Trigger:
    """Return the trigger of most pipelines (Figures 13, 14; Beam: ``AfterWatermark``): early panes, one on time, late ones.

    >>> after_watermark(late=AtCount(1))
    SequenceOf(triggers=(AtWatermark(percentile=100.0), Repeat(trigger=AtCount(count=1))))

    Args:
        early: repeated until the watermark reaches the window's end; default: no early panes.
        late: repeated after that; default: the trigger is finished, which an allowed lateness forbids.

    Raises:
        OptionsError: an argument is not a trigger.
    """
    on_time = AtWatermark() if early is None else RepeatUntil(early, AtWatermark())
    return on_time if late is None else SequenceOf(on_time, Repeat(late))


DEFAULT_TRIGGER = Repeat(AtWatermark())
"""The default (2.4): fires when the watermark passes the window's end, and again for each late element."""


def parts_of(trigger: Trigger) -> tuple[Trigger, ...]:
    """Return the triggers that a trigger is made of, in order; none: it is a leaf."""
    match trigger:
        case Repeat(inner):
            return (inner,)
        case RepeatUntil(inner, until) | OrFinally(inner, until):
            return (inner, until)
        case SequenceOf(triggers) | AnyOf(triggers) | AllOf(triggers):
            return triggers
        case _:
            return ()


def leaves_of(trigger: Trigger) -> Iterator[Trigger]:
    """Iterate over the leaves in a trigger, which may be one itself."""
    parts = parts_of(trigger)
    if not parts:
        yield trigger
    for part in parts:
        yield from leaves_of(part)


def goes_by_arrival(trigger: Trigger) -> bool:
    """Return whether the panes of a trigger depend on when elements arrive, and not only on their event times (2.3)."""
    return any(not isinstance(leaf, AtWatermark) or leaf.percentile < 100 for leaf in leaves_of(trigger))


def waits_for_watermark(trigger: Trigger) -> bool:
    """Return whether only the low watermark's arrival at the window's end can make a trigger fire, or change it, for now."""
    match trigger:
        case AtWatermark(percentile=percentile):
            return percentile == 100
        case Repeat(trigger=inner):
            return waits_for_watermark(inner)
        case SequenceOf(triggers=several):
            return waits_for_watermark(several[0])
        case _:
            return False
