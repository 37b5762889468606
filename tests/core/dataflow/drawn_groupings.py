"""Random groupings with random input, for Hypothesis: for comparing the Dataflow layer with its model (Dataflow 2).

Time is divided into slots of a second, with at most one event in each. Elements come at .4 of it, watermarks at .8; periods
end at .0 and delays at .6 (they are whole seconds and .2 long). So nothing coincides, and the same case can be run where
messages take time. `coinciding` draws cases with simultaneous events, for hosts whose clock is driven by hand.
"""

from dataclasses import dataclass

import msgspec
from hypothesis import strategies as st

from headrace import MAX_TIME, MILLISECOND, SECOND
from headrace.dataflow import (
    DEFAULT_TRIGGER,
    SUM,
    Accumulation,
    AfterDelay,
    AllOf,
    AnyOf,
    AtCount,
    AtPeriod,
    AtWatermark,
    Batch,
    DataflowError,
    Element,
    Engine,
    FixedWindows,
    GlobalWindows,
    MicroBatch,
    OrFinally,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Sessions,
    SlidingWindows,
    Streaming,
    TimestampCombiner,
    Trigger,
    When,
    WindowFn,
)
from headrace.dataflow.checks import check_trigger
from headrace_scenarios.figures.groupings import InputStep, Query
from tests.core.dataflow.transcripts.matching import settles
from tests.core.dataflow.transcripts.window_expressions import AtLeast

ELEMENT_AT_US, WATERMARK_AT_US, DELAY_END_US = 400 * MILLISECOND, 800 * MILLISECOND, 200 * MILLISECOND
"""Positions in a slot."""

BEGIN = 4
"""The first slot: by then a cluster has assigned its intervals."""

SLOTS = 16
SPREAD = 12
"""Event times span this many seconds."""


@dataclass(frozen=True, slots=True)
class GroupingCase:
    """A grouping and its input."""

    query: Query
    steps: tuple[InputStep, ...]


def windows() -> st.SearchStrategy[WindowFn]:
    """Windowing strategies with windows small enough for the input to fill several."""
    sizes = st.integers(1, 6).map(lambda seconds: seconds * SECOND)
    gaps = st.integers(1, 3).map(lambda seconds: seconds * SECOND)
    return st.one_of(
        st.just(GlobalWindows()),
        sizes.map(FixedWindows),
        st.builds(SlidingWindows, sizes, sizes),
        gaps.map(Sessions),
        gaps.map(Sessions),
        st.builds(Sessions, gaps, touching_merge=st.just(value=False)),
    )


def leaves() -> st.SearchStrategy[Trigger]:
    """Triggers without subtriggers."""
    return st.one_of(
        st.just(AtWatermark()),
        st.integers(1, 4).map(AtCount),
        st.integers(1, 4).map(lambda seconds: AtPeriod(seconds * SECOND)),
        st.integers(0, 4).map(lambda seconds: AfterDelay(seconds * SECOND + DELAY_END_US)),
        st.integers(1, 12).map(lambda value: When(AtLeast(value))),
    )


def _composed(parts: st.SearchStrategy[Trigger]) -> st.SearchStrategy[Trigger]:
    several = st.lists(parts, min_size=1, max_size=3)
    return st.one_of(
        parts.map(Repeat),
        st.builds(RepeatUntil, parts, parts),
        st.builds(OrFinally, parts, parts),
        several.map(lambda found: SequenceOf(*found)),
        several.map(lambda found: AnyOf(*found)),
        several.map(lambda found: AllOf(*found)),
    )


def _is_accepted(trigger: Trigger) -> bool:
    try:
        check_trigger(trigger)
    except DataflowError:
        return False
    return True


def triggers() -> st.SearchStrategy[Trigger]:
    """Triggers of every shape, each of whose parts can fire; common ones are drawn often."""
    usual = st.builds(
        lambda early, late: SequenceOf(RepeatUntil(early, AtWatermark()), Repeat(late)), leaves(), leaves()
    )
    both = leaves().map(lambda leaf: Repeat(AllOf(leaf, AtWatermark())))
    anything = st.recursive(leaves(), _composed, max_leaves=5)
    return st.one_of(usual, both, anything.map(Repeat), anything).filter(_is_accepted)


def engines() -> st.SearchStrategy[Engine]:
    """Mostly streaming."""
    streaming = st.just(Streaming())
    return st.one_of(streaming, streaming, streaming, st.just(Batch()), micro_batches())


def micro_batches() -> st.SearchStrategy[Engine]:
    """Batches of a few slots, so that several elements share one."""
    return st.integers(1, 5).map(lambda seconds: MicroBatch(seconds * SECOND))


def queries() -> st.SearchStrategy[Query]:
    """Groupings of every kind, with a sum as combiner."""
    lateness = st.none() | st.integers(0, 6).map(lambda seconds: seconds * SECOND)
    return st.builds(
        Query,
        windows(),
        triggers(),
        st.sampled_from(Accumulation),
        st.just(SUM),
        lateness,
        engines(),
        timestamps(),
        st.booleans(),
    )


def timestamps() -> st.SearchStrategy[TimestampCombiner]:
    """Mostly the default."""
    usual = st.just(TimestampCombiner.END_OF_WINDOW)
    return st.one_of(usual, usual, st.sampled_from(TimestampCombiner))


def settling_queries(
    *, merging: bool = True, engine: st.SearchStrategy[Engine] | None = None
) -> st.SearchStrategy[Query]:
    """Groupings whose final result does not depend on the order of their input; see `settles`."""
    strategies = windows() if merging else windows().filter(lambda kind: not isinstance(kind, Sessions))
    early = st.recursive(leaves(), _composed, max_leaves=3)
    finishing = st.builds(RepeatUntil, early, st.just(AtWatermark()))
    last = early.map(lambda trigger: Repeat(AnyOf(trigger, AtWatermark())))
    triggers_ = st.one_of(
        st.builds(SequenceOf, finishing, last), finishing.map(Repeat), last, st.just(DEFAULT_TRIGGER)
    )
    built = st.builds(
        Query,
        strategies,
        triggers_.filter(_is_accepted),
        st.sampled_from(Accumulation),
        st.just(SUM),
        st.none(),
        engines() if engine is None else engine,
        timestamps(),
        st.booleans(),
    )
    return built.filter(settles)


@st.composite
def histories(
    draw: st.DrawFn, *, coinciding: bool = False, retractions: bool = False
) -> tuple[InputStep, ...]:
    """Draw the input up to the end of the source: elements of two keys, watermarks, and empty slots.

    The source ends after a long silence, or right after its last element, before any clock has emitted what waits for it.
    """
    kinds = _KINDS_WITH_RETRACTIONS if retractions else _KINDS
    steps: list[InputStep] = []
    given: list[Element] = []
    slots = range(BEGIN, BEGIN + draw(_COUNTS))
    for slot in slots:
        at_us = slot * SECOND
        what = draw(kinds)
        if what == "element" or (what == "retraction" and given):
            element = _retraction(draw, given) if what == "retraction" else draw(_ELEMENTS)
            given += [] if element.retraction else [element]
            steps.append(InputStep(at_us + (0 if coinciding else ELEMENT_AT_US), element))
        elif what == "watermark":
            watermark = draw(_WATERMARKS) * SECOND
            steps.append(InputStep(at_us + (0 if coinciding else WATERMARK_AT_US), watermark=watermark))
        elif coinciding:
            steps.append(InputStep(at_us))
    if draw(_ENDS_AT_ONCE):
        return (
            *steps,
            InputStep(slots[-1] * SECOND + (0 if coinciding else WATERMARK_AT_US), watermark=MAX_TIME),
        )
    end_us = (BEGIN + SLOTS + 1) * SECOND
    return (*steps, InputStep(end_us + 1), InputStep(end_us + 5 * SECOND, watermark=MAX_TIME))


def elements() -> st.SearchStrategy[Element]:
    """Elements of two keys."""
    times = st.integers(0, SPREAD).map(lambda seconds: seconds * SECOND)
    return st.builds(Element, st.sampled_from("kkkj"), st.integers(1, 9), times)


# Made once: Hypothesis takes longer to make a strategy than to draw from it.
_KINDS = st.sampled_from(["element", "element", "element", "watermark", "nothing"])
_KINDS_WITH_RETRACTIONS = st.sampled_from(
    ["element", "element", "element", "watermark", "nothing", "retraction"]
)
_COUNTS, _WATERMARKS, _ENDS_AT_ONCE = st.integers(1, SLOTS), st.integers(0, SPREAD + 6), st.booleans()
_ELEMENTS = elements()


def _retraction(draw: st.DrawFn, given: list[Element]) -> Element:
    """Retract one of these, at most once each."""
    return msgspec.structs.replace(given.pop(draw(st.integers(0, len(given) - 1))), retraction=True)


def cases(
    *,
    coinciding: bool = False,
    retractions: bool = False,
    settling: bool = False,
    merging: bool = True,
    engine: st.SearchStrategy[Engine] | None = None,
) -> st.SearchStrategy[GroupingCase]:
    """Groupings with their input.

    Args:
        coinciding: arrivals, watermarks and boundaries fall on the same instants.
        retractions: elements are also retracted, which no source can do.
        settling: only groupings whose final result does not depend on the order of their input.
        merging: of these, also sessions.
        engine: of these, the engines; ``None``: any.
    """
    groupings = settling_queries(merging=merging, engine=engine) if settling else queries()
    return st.builds(GroupingCase, groupings, histories(coinciding=coinciding, retractions=retractions))


def merging_cases() -> st.SearchStrategy[GroupingCase]:
    """Sessions whose triggers have parts, and state to merge: elements come close to each other, in any order."""
    gaps = st.integers(2, 3).map(lambda seconds: seconds * SECOND)
    parts = st.one_of(leaves(), _composed(leaves()))
    triggers_ = _composed(parts).map(Repeat) | _composed(parts)
    lateness = st.none() | st.integers(0, 6).map(lambda seconds: seconds * SECOND)
    groupings = st.builds(
        Query, gaps.map(Sessions), triggers_.filter(_is_accepted), st.sampled_from(Accumulation), st.just(SUM), lateness,
    )  # fmt: skip
    return st.builds(GroupingCase, groupings, histories())
