"""Trigger state as evidence, for the model of the Dataflow layer (Dataflow 2.3).

Rules of this file: a trigger's state is which elements it has seen since it began, and nothing computed from that:
counts, boundaries and delays are derived from it on demand. Windows that merge combine their evidence.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from headrace import MAX_TIME, MIN_TIME
from headrace.dataflow import (
    AfterDelay,
    AllOf,
    AnyOf,
    AtCount,
    AtPeriod,
    AtWatermark,
    OrFinally,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Trigger,
    When,
    Window,
)


@dataclass(frozen=True, slots=True)
class TriggerEvidence:
    """What a trigger has seen.

    Attributes:
        seen: when each element came since, by the element's moment.
        held: its predicate held after the last of them.
        fired: a part of `AllOf` that has fired.
        of_watermark: it would not have, if the watermark had never advanced.
        index: of a sequence: where it is.
        parts: the evidence of the triggers in it.
    """

    seen: frozenset[tuple[int, int]] = frozenset()
    held: bool = False
    fired: bool = False
    of_watermark: bool = False
    index: int = 0
    parts: tuple["TriggerEvidence", ...] = ()


@dataclass(frozen=True, slots=True)
class TriggerView:
    """What a trigger sees when evaluated: ``now`` is wall time; not all that arrives at that instant need be in yet."""

    now: int
    watermark: int
    window: Window


def begin(trigger: Trigger) -> TriggerEvidence:
    """Start a trigger, with its window's first element, or again later."""
    parts = parts_of(trigger)
    if isinstance(trigger, SequenceOf):
        parts = parts[:1]
    return TriggerEvidence(parts=tuple(begin(part) for part in parts))


def parts_of(trigger: Trigger) -> tuple[Trigger, ...]:
    """Return the triggers that a trigger is made of, in the order of its arguments."""
    match trigger:
        case Repeat(inner):
            return (inner,)
        case RepeatUntil(inner, until) | OrFinally(inner, until):
            return (inner, until)
        case SequenceOf(parts) | AnyOf(parts) | AllOf(parts):
            return parts
        case _:
            return ()


def everywhere(trigger: Trigger, change: Callable[[Trigger], Trigger]) -> Trigger:
    """Transform a trigger and everything in it, from within."""
    parts = [everywhere(part, change) for part in parts_of(trigger)]
    made: Any = type(trigger)
    return change(made(*parts) if parts else trigger)


def _active(trigger: Trigger, evidence: TriggerEvidence) -> Iterable[tuple[Trigger, TriggerEvidence]]:
    """Return the live triggers within a trigger, each with its evidence."""
    if isinstance(trigger, SequenceOf):
        return [(trigger.triggers[evidence.index], evidence.parts[0])]
    return zip(parts_of(trigger), evidence.parts, strict=True)


def observe(
    trigger: Trigger, evidence: TriggerEvidence, moment: int, now: int, contents: Any
) -> TriggerEvidence:
    """Record an element."""
    if evidence.fired and not evidence.of_watermark:
        return evidence
    held = isinstance(trigger, When) and bool(trigger.predicate(contents))
    parts = tuple(observe(part, own, moment, now, contents) for part, own in _active(trigger, evidence))
    return replace(evidence, seen=evidence.seen | {(moment, now)}, held=held, parts=parts)


def _due_us(trigger: AtPeriod | AfterDelay, evidence: TriggerEvidence) -> int:
    """Return when the clock makes it fire: counted from the first element that it has seen, if any."""
    first = min((now for _, now in evidence.seen), default=MAX_TIME)
    if isinstance(trigger, AfterDelay):
        return first + trigger.delay_us
    return -(-first // trigger.period_us) * trigger.period_us


def asked(
    trigger: Trigger, evidence: TriggerEvidence, view: TriggerView
) -> tuple[bool, TriggerEvidence | None]:
    """Return whether it fires now, and its evidence from now on; ``None``: it is finished."""
    match trigger:
        case Repeat(inner):
            fires, after = _anew(inner, evidence.parts[0], view)
            return fires, replace(evidence, parts=(after,))
        case RepeatUntil(inner, until):
            ends, rest = asked(until, evidence.parts[1], view)
            fires, after = _anew(inner, evidence.parts[0], view)
            return ends or fires, None if ends else replace(
                evidence, parts=(after, rest or evidence.parts[1])
            )
        case OrFinally(inner, until):
            answers = [asked(part, own, view) for part, own in _active(trigger, evidence)]
            (fires, left), (ends, rest) = answers
            if ends or left is None:
                return ends or fires, None
            return fires, replace(evidence, parts=(left, rest or evidence.parts[1]))
        case SequenceOf():
            return _asked_in_turn(trigger, evidence, view)
        case AnyOf():
            answers = [asked(part, own, view) for part, own in _active(trigger, evidence)]
            if any(fires for fires, _ in answers):
                return True, None
            return False, replace(evidence, parts=tuple(rest or TriggerEvidence() for _, rest in answers))
        case AllOf():
            parts = tuple(_asked_once(part, own, view) for part, own in _active(trigger, evidence))
            complete = all(part.fired for part in parts)
            return complete, None if complete else replace(evidence, parts=parts)
        case _:
            ready = _is_ready(trigger, evidence, view)
            return ready, None if ready else evidence


def _is_ready(trigger: Trigger, evidence: TriggerEvidence, view: TriggerView) -> bool:
    """Return whether a trigger without subtriggers fires now, which finishes it."""
    match trigger:
        case AtWatermark():
            return view.watermark >= view.window.end
        case AtCount(count):
            return len(evidence.seen) >= count
        case AtPeriod() | AfterDelay():
            return view.now > _due_us(trigger, evidence)
        case When():
            return evidence.held
        case _:
            raise NotImplementedError("the model knows the built-in triggers only")


def _asked_in_turn(
    trigger: SequenceOf, evidence: TriggerEvidence, view: TriggerView
) -> tuple[bool, TriggerEvidence | None]:
    """Evaluate the current trigger of a sequence; when it is finished, the next one starts."""
    fires, rest = asked(trigger.triggers[evidence.index], evidence.parts[0], view)
    if rest is not None:
        return fires, replace(evidence, parts=(rest,))
    following = evidence.index + 1
    if following == len(trigger.triggers):
        return fires, None
    return fires, replace(evidence, index=following, parts=(begin(trigger.triggers[following]),))


def _anew(trigger: Trigger, evidence: TriggerEvidence, view: TriggerView) -> tuple[bool, TriggerEvidence]:
    """Evaluate it; when it is finished, it starts again."""
    fires, rest = asked(trigger, evidence, view)
    return fires, begin(trigger) if rest is None else rest


def _asked_once(trigger: Trigger, evidence: TriggerEvidence, view: TriggerView) -> TriggerEvidence:
    """Evaluate a part of `AllOf`, unless it has fired."""
    if evidence.fired:
        return evidence
    fires, rest = asked(trigger, evidence, view)
    anyway, _ = asked(trigger, evidence, replace(view, watermark=MIN_TIME))
    return replace(rest or evidence, fired=fires, of_watermark=fires and not anyway)


def together(trigger: Trigger, several: Sequence[TriggerEvidence]) -> TriggerEvidence:
    """Combine the evidence of windows that merge; for sequences, only that of the most advanced ones.

    A watermark that has reached the end of a window need not have reached the end of the merged one.
    """
    index = max(evidence.index for evidence in several)
    furthest = [evidence for evidence in several if evidence.index == index]
    parts = (trigger.triggers[index],) if isinstance(trigger, SequenceOf) else parts_of(trigger)
    return TriggerEvidence(
        seen=frozenset().union(*(evidence.seen for evidence in furthest)),
        held=any(evidence.held for evidence in furthest),
        fired=any(evidence.fired and not evidence.of_watermark for evidence in several),
        index=index,
        parts=tuple(
            together(part, [evidence.parts[number] for evidence in furthest])
            for number, part in enumerate(parts)
        ),
    )


def dues(trigger: Trigger, evidence: TriggerEvidence) -> Iterable[int]:
    """Yield the wall times at which its clocks are due."""
    if evidence.fired:
        return
    if isinstance(trigger, AtPeriod | AfterDelay) and evidence.seen:
        yield _due_us(trigger, evidence)
    for part, own in _active(trigger, evidence):
        yield from dues(part, own)
