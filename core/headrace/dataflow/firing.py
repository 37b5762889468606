"""How triggers behave (Dataflow 2.3): state machines as pure functions of a trigger, its JSON-like state, and what it sees.

| trigger | state | fires when |
|---|---|---|
| `AtWatermark` | none | the watermark has reached the window's end |
| `AtPeriod` | next boundary, from the first element on | the clock has reached it |
| `AtCount` | elements so far | the count is reached |
| `AfterDelay` | when it is due, from the first element on | the clock has reached it |
| `When` | whether the predicate held after the last element | it did |
| `Custom` | the user's, and when it was last asked, on both clocks | the user's function says so |
| `Repeat` | the trigger's | the trigger fires |
| `RepeatUntil` | both triggers' | either fires; finished once ``until`` fires |
| `OrFinally` | both triggers' | either fires; finished once ``until`` fires, or the trigger is |
| `SequenceOf` | index and state of the current trigger | the current trigger fires; finished with the last |
| `AnyOf` | each trigger's | one fires; then finished |
| `AllOf` | each trigger's, and whether and why it fired | the last remaining one fires; then finished |

Rules of this file: a leaf that has fired is finished. `note` records an element; `evaluate` decides whether a trigger fires, and
is called once for each event. Elements that arrive at wall time t come before anything that the clock does at t: when an element
is evaluated, the clock shows t - 1.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, assert_never

import msgspec

from headrace import MIN_TIME, Clock
from headrace.dataflow.elements import Window
from headrace.dataflow.triggers import (
    AfterDelay,
    AllOf,
    AnyOf,
    AtCount,
    AtPeriod,
    AtWatermark,
    Custom,
    Instant,
    OrFinally,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Trigger,
    Wanted,
    When,
)


@dataclass(frozen=True, slots=True)
class Seen:
    """What a trigger sees when it is evaluated.

    Attributes:
        now: wall time, microseconds; all elements up to it have been recorded.
        watermark: event time, microseconds.
        window: the trigger's window.
        percentiles: known percentile watermarks by name, event time, microseconds.
    """

    now: int
    watermark: int
    window: Window
    percentiles: Mapping[str, int] = field(default_factory=dict)

    @property
    def instant(self) -> Instant:
        """The part that custom triggers see."""
        return Instant(self.now, self.watermark, self.window)

    def has_passed(self, percentile: float) -> bool:
        """Return whether a percentile watermark, which is never behind the low watermark, has reached the window's end."""
        known = self.percentiles.get(percentile_name(percentile), MIN_TIME)
        return max(self.watermark, known) >= self.window.end


def percentile_name(percentile: float) -> str:
    """Format a percentile as the key of a dict."""
    return f"{percentile:g}"


class Evaluation(NamedTuple):
    """The result of an evaluation: the new state, and whether the trigger fired and is finished."""

    state: Any
    fired: bool
    finished: bool


def start(trigger: Trigger, seen: Seen) -> Any:
    """Return a trigger's initial state, for a window's first element or a restart."""
    match trigger:
        case AtWatermark() | AtPeriod() | AfterDelay():
            return None
        case AtCount():
            return 0
        case When():
            return False
        case Custom(fn):
            return [fn.start(seen.instant), seen.now, seen.watermark]
        case Repeat(inner):
            return start(inner, seen)
        case RepeatUntil(inner, until) | OrFinally(inner, until):
            return [start(inner, seen), start(until, seen)]
        case SequenceOf(triggers):
            return [0, start(triggers[0], seen)]
        case AnyOf(triggers):
            return [start(child, seen) for child in triggers]
        case AllOf(triggers):
            return [[_WAITS, start(child, seen)] for child in triggers]
        case _:
            assert_never(trigger)


@dataclass(frozen=True, slots=True)
class ElementArrival:
    """An element's arrival, as triggers see it.

    Attributes:
        now: wall time of the arrival, microseconds.
        value: the element's value.
        contents: computes the value that a pane would have now.
        seen: everything else that a trigger sees.
    """

    now: int
    value: Any
    contents: Callable[[], Any]
    seen: Seen


def note(trigger: Trigger, state: Any, arrival: ElementArrival) -> Any:
    """Record an element; return the new state."""
    match trigger:
        case AtWatermark():
            return state
        case AtPeriod(period_us):
            return -(-arrival.now // period_us) * period_us if state is None else state
        case AtCount():
            return state + 1
        case AfterDelay(delay_us):
            return arrival.now + delay_us if state is None else state
        case When(predicate):
            return bool(predicate(arrival.contents()))
        case Custom(fn):
            instant = msgspec.structs.replace(arrival.seen.instant, now=arrival.now)
            return [fn.on_element(state[0], arrival.value, instant), *state[1:]]
        case Repeat(inner):
            return note(inner, state, arrival)
        case RepeatUntil(inner, until) | OrFinally(inner, until):
            return [note(inner, state[0], arrival), note(until, state[1], arrival)]
        case SequenceOf(triggers):
            return [state[0], note(triggers[state[0]], state[1], arrival)]
        case AnyOf(triggers):
            return [note(child, own, arrival) for child, own in zip(triggers, state, strict=True)]
        case AllOf(triggers):
            pairs = zip(triggers, state, strict=True)
            return [[why, own if why == _FIRED else note(child, own, arrival)] for child, (why, own) in pairs]
        case _:
            assert_never(trigger)


def evaluate(trigger: Trigger, state: Any, seen: Seen) -> Evaluation:
    """Evaluate whether a trigger fires."""
    match trigger:
        case AtWatermark(percentile):
            return _leaf(state, ready=seen.has_passed(percentile))
        case AtCount(count):
            return _leaf(state, ready=state >= count)
        case AtPeriod() | AfterDelay():
            return _leaf(state, ready=state is not None and seen.now >= state)
        case When():
            return _leaf(state, ready=state)
        case Custom(fn):
            ready = fn.is_ready(state[0], seen.instant)
            asked = [max(state[1], seen.now), max(state[2], seen.watermark)]
            return _leaf([state[0], *asked], ready=ready)
        case Repeat(inner):
            return Evaluation(*_again(inner, state, seen), finished=False)
        case RepeatUntil() | OrFinally():
            return _until(trigger, state, seen)
        case SequenceOf():
            return _sequence(trigger, state, seen)
        case AnyOf(triggers):
            parts = [evaluate(child, own, seen) for child, own in zip(triggers, state, strict=True)]
            fired = any(part.fired for part in parts)
            return Evaluation([part.state for part in parts], fired, fired)
        case AllOf():
            return _all(trigger, state, seen)
        case _:
            assert_never(trigger)


def merge(trigger: Trigger, states: Sequence[Any], seen: Seen) -> Any:
    """Return the state for a window that was merged from others, or grew; the most advanced part wins."""
    match trigger:
        case AtWatermark():
            return None
        case AtCount():
            return sum(states)
        case AtPeriod() | AfterDelay():
            return min((state for state in states if state is not None), default=None)
        case When():
            return any(states)
        case Custom(fn):
            return [fn.merge([state[0] for state in states], seen.instant), seen.now, seen.watermark]
        case Repeat(inner):
            return merge(inner, states, seen)
        case RepeatUntil(inner, until) | OrFinally(inner, until):
            return [
                merge(child, part, seen) for child, part in zip((inner, until), _turn(states), strict=True)
            ]
        case SequenceOf(triggers):
            index = max(state[0] for state in states)
            return [index, merge(triggers[index], [own for at, own in states if at == index], seen)]
        case AnyOf(triggers):
            return [merge(child, part, seen) for child, part in zip(triggers, _turn(states), strict=True)]
        case AllOf(triggers):
            return [
                _merge_one(child, part, seen) for child, part in zip(triggers, _turn(states), strict=True)
            ]
        case _:
            assert_never(trigger)


class Wish(NamedTuple):
    """A time at which a trigger wants to be evaluated; ``idle``: pointless while nothing is new, so it can be postponed."""

    wanted: Wanted
    idle: bool


def wishes(trigger: Trigger, state: Any, window: Window, *, idle: bool = False) -> Iterator[Wish]:
    """List the times at which a trigger wants to be evaluated, besides arrivals.

    Args:
        trigger: the trigger.
        state: its state.
        window: its window.
        idle: whether its firing with nothing new only restarts it.
    """
    match trigger:
        case AtWatermark() | AtPeriod() | AtCount() | AfterDelay() | When() | Custom():
            yield from (Wish(wanted, idle) for wanted in _wanted(trigger, state, window))
        case Repeat(inner):
            yield from wishes(inner, state, window, idle=True)
        case RepeatUntil(inner, until):
            yield from wishes(inner, state[0], window, idle=True)
            yield from wishes(until, state[1], window)
        case OrFinally(inner, until):
            yield from wishes(inner, state[0], window)
            yield from wishes(until, state[1], window)
        case SequenceOf(triggers):
            yield from wishes(triggers[state[0]], state[1], window)
        case AnyOf(triggers):
            plain = idle and all(isinstance(child, _PLAIN) for child in triggers)
            for child, own in zip(triggers, state, strict=True):
                yield from wishes(child, own, window, idle=plain)
        case AllOf(triggers):
            for child, (why, own) in zip(triggers, state, strict=True):
                if why == _WAITS:
                    yield from wishes(child, own, window)
        case _:
            assert_never(trigger)


def _wanted(
    leaf: AtWatermark | AtPeriod | AtCount | AfterDelay | When | Custom, state: Any, window: Window
) -> Iterable[Wanted]:
    match leaf:
        case AtWatermark():
            return (Wanted(window.end, Clock.WATERMARK),)
        case AtPeriod() | AfterDelay():
            return () if state is None else (Wanted(state, Clock.WALL),)
        case AtCount() | When():
            return ()
        case Custom(fn):
            own, *asked = state
            limits = dict(zip((Clock.WALL, Clock.WATERMARK), asked, strict=True))
            return (wanted for wanted in fn.wanted(own, window) if wanted.time > limits[wanted.clock])
        case _:
            assert_never(leaf)


_PLAIN = (AtWatermark, AtPeriod, AtCount, AfterDelay, When)


def _leaf(state: Any, *, ready: bool) -> Evaluation:
    return Evaluation(state, ready, ready)


def _again(trigger: Trigger, state: Any, seen: Seen) -> tuple[Any, bool]:
    """Evaluate a trigger, and restart it when it is finished."""
    outcome = evaluate(trigger, state, seen)
    return start(trigger, seen) if outcome.finished else outcome.state, outcome.fired


def _until(trigger: RepeatUntil | OrFinally, state: Any, seen: Seen) -> Evaluation:
    until = evaluate(trigger.until, state[1], seen)
    if isinstance(trigger, OrFinally):
        own = evaluate(trigger.trigger, state[0], seen)
    else:
        own = Evaluation(*_again(trigger.trigger, state[0], seen), finished=False)
    return Evaluation([own.state, until.state], own.fired or until.fired, own.finished or until.fired)


def _sequence(trigger: SequenceOf, state: Any, seen: Seen) -> Evaluation:
    index, own = state
    outcome = evaluate(trigger.triggers[index], own, seen)
    if not outcome.finished:
        return Evaluation([index, outcome.state], outcome.fired, finished=False)
    if index + 1 == len(trigger.triggers):
        return Evaluation([index, outcome.state], outcome.fired, finished=True)
    return Evaluation([index + 1, start(trigger.triggers[index + 1], seen)], outcome.fired, finished=False)


_WAITS, _FIRED, _FIRED_BY_WATERMARK = range(3)
"""The progress of a part of `AllOf`: it has not fired; it has fired; it has fired, but only because of the watermark."""


def _all(trigger: AllOf, state: Any, seen: Seen) -> Evaluation:
    after = []
    for child, (why, own) in zip(trigger.triggers, state, strict=True):
        after.append([why, own] if why != _WAITS else _latched(child, own, seen))
    complete = all(why != _WAITS for why, _ in after)
    return Evaluation(after, complete, complete)


def _latched(trigger: Trigger, state: Any, seen: Seen) -> Any:
    """Evaluate a part of `AllOf` that has not fired."""
    outcome = evaluate(trigger, state, seen)
    if not outcome.fired:
        return [_WAITS, outcome.state]
    unpassed = Seen(seen.now, MIN_TIME, seen.window)
    why = _FIRED if evaluate(trigger, state, unpassed).fired else _FIRED_BY_WATERMARK
    return [
        why,
        state if outcome.finished else outcome.state,
    ]  # what is finished may have to fire again after a merge


def _merge_one(trigger: Trigger, states: Sequence[Any], seen: Seen) -> Any:
    """Merge a part of `AllOf`: having fired in one window counts for all, but if the watermark caused it, it must fire again."""
    fired = any(why == _FIRED for why, _ in states)
    return [_FIRED if fired else _WAITS, merge(trigger, [own for _, own in states], seen)]


def _turn(states: Sequence[Any]) -> list[list[Any]]:
    """Transpose: from each window's states of a trigger's parts to each part's states."""
    return [list(part) for part in zip(*states, strict=True)]
