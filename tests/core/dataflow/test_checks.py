"""Definitions that cannot do what they say are refused when they are written."""

from typing import Any

import pytest

from headrace import MINUTE, OptionsError
from headrace.dataflow import (
    AllOf,
    AnyOf,
    AtCount,
    AtPeriod,
    AtWatermark,
    Batch,
    DataflowError,
    Engine,
    FixedWindows,
    MicroBatch,
    PCollection,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Streaming,
    Trigger,
    read,
)


@pytest.mark.parametrize(
    "trigger",
    [
        Repeat(AtWatermark()),
        Repeat(AtWatermark(percentile=90)),
        AllOf(AtWatermark(), AtCount(1)),
        SequenceOf(AtWatermark(), AtCount(1)),
        RepeatUntil(AtWatermark(), AtWatermark()),
    ],
    ids=["default", "percentile", "all", "sequence", "until"],
)
def test_the_unbounded_global_window_needs_more_than_the_watermark(trigger: Trigger) -> None:
    with pytest.raises(DataflowError, match=r"grouping 'sum': .* never fires: the watermark of an unbounded"):
        read("scores").trigger(trigger).sum().to("sums").pipeline("games")


@pytest.mark.parametrize(
    "trigger",
    [
        Repeat(AnyOf(AtWatermark(), AtCount(1))),
        Repeat(AtPeriod(MINUTE)),
        RepeatUntil(AtCount(1), AtWatermark()),
    ],
    ids=["any", "period", "until"],
)
def test_the_global_window_may_be_triggered_by_something_else(trigger: Trigger) -> None:
    read("scores").trigger(trigger).sum().to("sums").pipeline("games").validate()


@pytest.mark.parametrize("engine", [Batch(), MicroBatch(MINUTE)], ids=["batch", "micro-batch"])
def test_the_other_engines_complete_the_global_window(engine: Any) -> None:
    read("scores").sum().to("sums").pipeline("games", engine=engine).validate()


def test_a_bounded_input_completes_the_global_window() -> None:
    read("scores", bounded=True).sum().to("sums").pipeline("games").validate()


def test_the_trigger_of_a_first_grouping_is_not_the_second_ones() -> None:
    flow = read("scores").trigger(Repeat(AtCount(2))).sum().sum().to("sums")
    with pytest.raises(DataflowError, match="grouping 'sum-2'"):
        flow.pipeline("games")


def test_what_follows_a_trigger_that_never_finishes_can_never_fire() -> None:
    with pytest.raises(DataflowError, match=r"AtCount\(count=1\) can never fire, because Repeat"):
        read("scores").trigger(Repeat(SequenceOf(Repeat(AtWatermark()), AtCount(1))))


@pytest.mark.parametrize("lateness", [-1, 1.5, "1"])
def test_a_lateness_that_is_none_is_refused(lateness: Any) -> None:
    with pytest.raises(OptionsError, match="at least 0"):
        read("scores").allowed_lateness(lateness)


@pytest.mark.parametrize("lacking", ["assign", "merge"])
def test_a_strategy_needs_both_functions(lacking: str) -> None:
    class Half:
        def __getattr__(self, name: str) -> Any:
            if name in {"assign_windows", "merge_windows"} and not name.startswith(lacking):
                return list
            raise AttributeError(name)

    with pytest.raises(DataflowError, match=f"it cannot {lacking} windows"):
        read("scores").window_into(Half())


@pytest.mark.parametrize("trigger", [AtWatermark, "often", None], ids=["class", "word", "none"])
def test_what_is_no_trigger_is_refused(trigger: Any) -> None:
    with pytest.raises(OptionsError):
        read("scores").trigger(trigger)


def test_a_percentile_needs_the_inputs_own_watermark() -> None:
    flow = (
        read("scores").window_into(FixedWindows(MINUTE)).trigger(AtWatermark(percentile=90)).sum().to("sums")
    )
    with pytest.raises(DataflowError, match="percentile watermark is meaningless for Batch"):
        flow.pipeline("games", engine=Batch())


FIXED = read("scores").window_into(FixedWindows(MINUTE))


@pytest.mark.parametrize(
    ("scores", "engine"),
    [
        (FIXED.trigger(AtCount(2)), Streaming()),
        (read("scores", bounded=True).trigger(AtCount(2)), Streaming()),
        (FIXED.trigger(SequenceOf(AtCount(2), AtPeriod(MINUTE))), Streaming()),
        (FIXED.trigger(RepeatUntil(AtWatermark(), AnyOf(AtCount(9), AtWatermark()))), Streaming()),
        (FIXED.trigger(AnyOf(Repeat(AtCount(2)), AtWatermark())), Streaming()),
        (FIXED.trigger(AtWatermark(percentile=90)), Streaming()),
        (FIXED.allowed_lateness(MINUTE).trigger(AtWatermark()), Streaming()),
        (FIXED.allowed_lateness(None).trigger(AllOf(AtCount(1), AtWatermark())), Streaming()),
        (FIXED.trigger(AtWatermark()), MicroBatch(MINUTE)),
        (FIXED.trigger(AtCount(2)), Batch()),
    ],
)
def test_a_trigger_that_finishes_while_elements_come_has_to_be_allowed(
    scores: PCollection[Any], engine: Engine
) -> None:
    with pytest.raises(
        DataflowError, match=r"grouping 'sum': .* finishes, and later elements of its window are dropped"
    ):
        scores.sum().to("sums").pipeline("games", engine=engine)
    assert scores.when is not None
    allowed = scores.trigger(scores.when, allow_unsafe_triggers=True)
    allowed.sum().to("sums").pipeline("games", engine=engine).validate()


@pytest.mark.parametrize(
    ("scores", "engine"),
    [
        (FIXED.trigger(AtWatermark()), Streaming()),
        (FIXED.trigger(RepeatUntil(AtPeriod(MINUTE), AtWatermark())), Streaming()),
        (FIXED.trigger(SequenceOf(AtCount(1), AtWatermark())), Streaming()),
        (FIXED.trigger(AllOf(AtCount(1), AtWatermark())), Streaming()),
        (FIXED.allowed_lateness(MINUTE).trigger(Repeat(AtWatermark())), Streaming()),
        (read("scores", bounded=True).allowed_lateness(None).trigger(AtWatermark()), Streaming()),
        (FIXED.allowed_lateness(None).trigger(AtWatermark()), Batch()),
    ],
)
def test_one_that_finishes_when_nothing_more_is_taken_needs_no_leave(
    scores: PCollection[Any], engine: Engine
) -> None:
    scores.sum().to("sums").pipeline("games", engine=engine).validate()
