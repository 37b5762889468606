"""Compare emitted panes with a transcript's expectations, and describe the differences."""

from collections.abc import Sequence

from headrace.dataflow import (
    GLOBAL,
    AllOf,
    AnyOf,
    AtWatermark,
    Element,
    MicroBatch,
    OrFinally,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Trigger,
    Window,
)
from headrace_scenarios.figures.groupings import EmittedPane, Query
from tests.core.dataflow.transcripts.format import ExpectedPane

SECOND_US = 1_000_000


def mismatches(expected: Sequence[ExpectedPane], emitted: Sequence[EmittedPane]) -> list[str]:
    """List the differences, pane by pane in order of emission; empty if all is as expected.

    Args:
        expected: what was.
        emitted: what came.
    """
    found = []
    for number, (wanted, pane) in enumerate(zip(expected, emitted, strict=False)):
        if problems := _problems(wanted, pane):
            found.append(
                f"pane {number}: expected {say_expected(wanted)}, got {say(pane)}: {', '.join(problems)}"
            )
    found += [f"missing: {say_expected(pane)}" for pane in expected[len(emitted) :]]
    found += [f"unexpected: {say(pane)}" for pane in emitted[len(expected) :]]
    return found


def _problems(expected: ExpectedPane, pane: EmittedPane) -> list[str]:
    line = expected.line
    compared = {
        "key": (line.key, pane.key),
        "value": (line.value, pane.value),
        "window": (expected.window, pane.window),
        "retraction": (line.retraction, pane.retraction),
        "timing": (expected.timing, pane.timing),
        "index": (line.index, pane.index),
        "event time": (None if line.time is None else round(line.time * SECOND_US), pane.time),
        "step": (expected.step, pane.step),
    }
    return [
        f"{name} differs" for name, (wanted, got) in compared.items() if wanted is not None and wanted != got
    ]


def say(pane: EmittedPane) -> str:
    """Describe a pane.

    >>> from headrace.dataflow import Timing
    >>> say(EmittedPane(0, 360_000_001, "k", Window(0, 120_000_000), 5, 0, Timing.EARLY, 119_999_999))
    '5 of [0, 120) for k, early, index 0, at 360.000 s'
    """
    at = f"at {pane.at_us / SECOND_US:.3f} s"
    sign = "-" if pane.retraction else ""
    return f"{sign}{pane.value} of {_say_window(pane.window)} for {pane.key}, {pane.timing.value}, index {pane.index}, {at}"


def say_expected(pane: ExpectedPane) -> str:
    """Describe the expected pane."""
    line = pane.line
    details = [
        detail for detail in (line.timing, "" if line.index is None else f"index {line.index}") if detail
    ]
    step = [] if pane.step is None else [f"by step {pane.step}"]
    sign = "-" if line.retraction else ""
    return ", ".join([f"{sign}{line.value} of {_say_window(pane.window)} for {line.key}", *details, *step])


def _say_window(window: Window) -> str:
    if window == GLOBAL:
        return "the global window"
    return f"[{window.start / SECOND_US:.10g}, {window.end / SECOND_US:.10g})"


def settles(query: Query) -> bool:
    """Return whether everything is emitted in the end, in any order of arrival: only then is `settled` the same in each run.

    It is if late elements are always accepted, and the watermark alone can fire every part of the trigger, which never finishes.
    """
    strays = isinstance(query.engine, MicroBatch) and query.windows.assign_windows(_ANYTHING) == (GLOBAL,)
    return query.allowed_lateness_us is None and _lasts(query.trigger) and not strays


_ANYTHING = Element("", None, 0)


def _lasts(trigger: Trigger) -> bool:
    match trigger:
        case Repeat(inner):
            return _by_watermark(inner)
        case SequenceOf(triggers):
            return all(_by_watermark(trigger) for trigger in triggers[:-1]) and _lasts(triggers[-1])
        case _:
            return False


def _by_watermark(trigger: Trigger) -> bool:
    """Return whether it fires as soon as the watermark has passed."""
    match trigger:
        case AtWatermark():
            return True
        case Repeat(inner):
            return _by_watermark(inner)
        case RepeatUntil(inner, until) | OrFinally(inner, until):
            return _by_watermark(inner) or _by_watermark(until)
        case AnyOf(triggers):
            return any(_by_watermark(trigger) for trigger in triggers)
        case SequenceOf(triggers) | AllOf(triggers):
            return all(_by_watermark(trigger) for trigger in triggers)
        case _:
            return False
