"""Checks when a pipeline is written, not when it runs: refuse definitions that cannot do what they say."""

from collections.abc import Iterator
from itertools import pairwise

from headrace import OptionsError
from headrace.dataflow.combining import CombineFn
from headrace.dataflow.dataflow_errors import DataflowError
from headrace.dataflow.engines import Batch, Engine, MicroBatch, Streaming
from headrace.dataflow.grouping import Grouping
from headrace.dataflow.triggers import (
    AllOf,
    AnyOf,
    AtWatermark,
    OrFinally,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Trigger,
    leaves_of,
    parts_of,
)
from headrace.dataflow.windows import GlobalWindows, WindowFn


def check_windows(windows: WindowFn) -> None:
    """Refuse a windowing strategy that lacks one of its two functions (2.2).

    Raises:
        DataflowError: it cannot assign or cannot merge windows, or is a class.
    """
    if isinstance(windows, type):
        remedy = "Call it, as in window_into(FixedWindows(MINUTE))"
        raise DataflowError(f"windows {windows!r}", "this is a class, not an instance", remedy)
    for method, meaning in (("assign_windows", "assign"), ("merge_windows", "merge")):
        if not callable(getattr(windows, method, None)):
            remedy = f"Implement {method}" + (
                "; return its argument if your windows never merge" if meaning == "merge" else ""
            )
            raise DataflowError(f"windows {windows!r}", f"it cannot {meaning} windows (Dataflow 2.2)", remedy)


def check_lateness(allowed_lateness_us: int | None) -> None:
    """Refuse a lateness that is negative, or not an int."""
    if allowed_lateness_us is not None and (type(allowed_lateness_us) is not int or allowed_lateness_us < 0):
        raise OptionsError("allowed_lateness", allowed_lateness_us, "at least 0 microseconds, or None")


def check_combine(combine: object) -> None:
    """Refuse anything but a `CombineFn`."""
    if not isinstance(combine, CombineFn):
        raise OptionsError("combine", combine, "a CombineFn, such as SUM, top(3) or your own")


def check_engine(engine: Engine | None) -> Engine:
    """Return the engine, streaming if none is given; refuse anything else, and a class."""
    if engine is None:
        return Streaming()
    if not isinstance(engine, Engine):
        raise OptionsError("engine", engine, "an engine: Streaming(), Batch() or MicroBatch(MINUTE)")
    return engine


def check_trigger(trigger: Trigger) -> None:
    """Refuse a trigger with a part that can never fire, wherever it is used.

    Raises:
        DataflowError: it has such a part.
        OptionsError: it is not a trigger.
    """
    if not isinstance(trigger, Trigger):
        raise OptionsError("trigger", trigger, "a trigger, such as Repeat(AtWatermark())")
    for problem in _unreachable(trigger):
        remedy = "Remove that part, or let the one before it finish"
        raise DataflowError(f"trigger {trigger!r}", problem, remedy)


def check_grouping(
    where: str, grouping: Grouping, *, bounded: bool, allow_unsafe_triggers: bool = False
) -> None:
    """Refuse a grouping whose parts cannot work together.

    Args:
        where: the grouping's name in the message.
        grouping: the grouping.
        bounded: whether its input ends.
        allow_unsafe_triggers: whether the trigger may finish while elements still arrive.

    Raises:
        DataflowError: it would never emit anything, its engine does not support its trigger, or its trigger may lose data.
    """
    is_streaming = isinstance(grouping.engine, Streaming)
    endless = type(grouping.strategy) is GlobalWindows and is_streaming and not bounded
    if endless and not _may_fire_before(0, grouping.trigger):
        problem = f"{grouping.trigger!r} never fires: the watermark of an unbounded input never passes the global window"
        remedy = "Use another trigger or other windows (Dataflow 2.4), or declare that the input ends: read(..., bounded=True)"
        raise DataflowError(where, problem, remedy)
    if percentiles(grouping.trigger) and not is_streaming:
        engine = type(grouping.engine).__name__
        problem = f"a percentile watermark is meaningless for {engine}, whose watermark is not the input's"
        raise DataflowError(where, problem, "Use AtWatermark(), or the streaming engine")
    if not allow_unsafe_triggers and _may_lose_data(grouping):
        problem = f"{grouping.trigger!r} finishes, and later elements of its window are dropped"
        remedy = "Repeat it, as in Repeat(...), or allow it with trigger(..., allow_unsafe_triggers=True)"
        raise DataflowError(where, problem, remedy)


def percentiles(trigger: Trigger) -> tuple[float, ...]:
    """List the percentile watermarks that a trigger uses, each once."""
    used = {
        leaf.percentile
        for leaf in leaves_of(trigger)
        if isinstance(leaf, AtWatermark) and leaf.percentile < 100
    }
    return tuple(sorted(used))


def _unreachable(trigger: Trigger) -> Iterator[str]:
    parts = parts_of(trigger)
    if isinstance(trigger, SequenceOf):
        for before, after in pairwise(parts):
            if not _finishes(before):
                yield f"{after!r} can never fire, because {before!r} before it never finishes"
    for part in parts:
        yield from _unreachable(part)


def _finishes(trigger: Trigger) -> bool:
    """Return whether a trigger can finish, assuming that all its leaves can fire."""
    match trigger:
        case Repeat():
            return False
        case SequenceOf(triggers):
            return all(_finishes(child) for child in triggers)
        case _:
            return True


def _may_lose_data(grouping: Grouping) -> bool:
    """Return whether the trigger may finish while its window still accepts elements (Beam: ``may_lose_data``)."""
    trigger = grouping.trigger
    if not _finishes(trigger):
        return False
    if isinstance(grouping.engine, MicroBatch) or _finishes_early(trigger):
        return True
    to_the_end = isinstance(grouping.engine, Batch) or type(grouping.strategy) is GlobalWindows
    return grouping.allowed_lateness_us != 0 and not to_the_end


def _finishes_early(trigger: Trigger) -> bool:
    """Return whether a finishing trigger may finish before the watermark reaches the window's end."""
    match trigger:
        case RepeatUntil(_, until):
            return _may_fire_before(100, until)
        case OrFinally(inner, until):
            return _may_fire_before(100, until) or (_finishes(inner) and _finishes_early(inner))
        case SequenceOf(triggers):
            return all(_finishes_early(child) for child in triggers)
        case _:
            return _may_fire_before(100, trigger)


def _may_fire_before(percentile: float, trigger: Trigger) -> bool:
    """Return whether a trigger may fire before a percentile watermark reaches the window's end; 0: before any of them does."""
    match trigger:
        case AtWatermark(own):
            return own < percentile
        case Repeat() | RepeatUntil() | OrFinally() | AnyOf():
            return any(_may_fire_before(percentile, part) for part in parts_of(trigger))
        case SequenceOf(triggers):
            return _may_fire_before(percentile, triggers[0])
        case AllOf(triggers):
            return all(_may_fire_before(percentile, part) for part in triggers)
        case _:
            return True
