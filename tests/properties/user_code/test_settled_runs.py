"""Pipelines with late data, compared by what their panes settle to."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from headrace import SECOND, Computation, DeadLetter, Pipeline
from headrace.dataflow import (
    AfterDelay,
    AtCount,
    CombineFn,
    FixedWindows,
    Flow,
    PCollection,
    Repeat,
    RepeatUntil,
    Sessions,
    after_watermark,
    read,
)
from headrace_properties.user_code.examiner import examine
from headrace_properties.user_code.habits import Habit, habit_of
from headrace_properties.user_code.metamorphic import ARRIVAL, REFERENCE, RELATIONS, REPLAY, check_relations
from headrace_properties.user_code.review import review
from headrace_properties.user_code.settled_runs import settling_of
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from headrace_sim import Feed, FeedBuilder
from tests.sim.rig import letters, mail

TRIGGER = after_watermark(early=AfterDelay(SECOND // 5), late=AtCount(1))


def feed_of(pipeline: Pipeline) -> Feed:
    """Elements out of order, of which some are late."""
    random, builder = Random(1), FeedBuilder(pipeline)
    for number in range(16):
        at_us = SECOND + number * SECOND // 10
        timestamp = at_us - random.randrange(SECOND)
        builder.record(at_us=at_us, value=random.randint(1, 9), timestamp=timestamp, key=random.choice("ab"))
        if number % 4 == 3:
            builder.watermark(at_us=at_us, low_watermark=at_us - SECOND // 2)
    return builder.build()


def later_feed_of(pipeline: Pipeline, seed: int) -> Feed:
    """The same with more elements, of which one in ten is three seconds late."""
    random, builder = Random(seed), FeedBuilder(pipeline)
    for number in range(64):
        at_us = 4 * SECOND + number * SECOND // 5
        timestamp = at_us - (random.randrange(SECOND // 2) if random.random() < 0.9 else 3 * SECOND)
        builder.record(at_us=at_us, value=random.randint(1, 9), timestamp=timestamp, key=random.choice("abc"))
        if number % 4 == 3:
            builder.watermark(at_us=at_us, low_watermark=at_us - SECOND // 2)
    return builder.build()


def windows(lateness_us: int | None = 5 * SECOND) -> PCollection[Any]:
    return read("in").window_into(FixedWindows(SECOND)).trigger(TRIGGER).allowed_lateness(lateness_us)


def retracting_chain() -> PCollection[Any]:
    sums = windows().accumulating_and_retracting().sum()
    return sums.key_by(lambda _: "all").map(lambda total: total / 3).group()


SETTLING: dict[str, Callable[[], PCollection[Any]]] = {
    "accumulating": lambda: windows().accumulating().sum(),
    "discarding": lambda: windows().count(),
    "lists": lambda: windows().group(),
    "retracting, and grouped again": retracting_chain,
    "sessions": lambda: (
        read("in").window_into(Sessions(SECOND // 5)).trigger(TRIGGER).accumulating().allowed_lateness(5 * SECOND).top(2)
    ),
    "by count": lambda: windows().trigger(Repeat(AtCount(3))).accumulating().max(),
    "kept for ever": lambda: windows(None).accumulating().sum(),
    "a function before": lambda: windows().map(lambda value: value * 2).accumulating().sum(),
}  # fmt: skip


def relations_of(flow: Flow) -> dict[str, Verdict]:
    pipeline = flow.pipeline("settling")
    return check_relations(pipeline, feed_of(pipeline), relations=RELATIONS)


def histogram() -> PCollection[Any]:
    """How many keys have how many elements, corrected with each."""
    counts = (
        windows()
        .trigger(after_watermark(early=AtCount(1), late=AtCount(1)))
        .accumulating_and_retracting()
        .count()
    )
    return counts.key_by(lambda count: count % 2).count()


SETTLING_ALSO: dict[str, Callable[[], PCollection[Any]]] = {
    **SETTLING,
    "counts of counts": histogram,
    "lists when they are complete": lambda: (
        read("in").window_into(FixedWindows(SECOND)).allowed_lateness(5 * SECOND).group()
    ),
}


@pytest.mark.parametrize("name", SETTLING_ALSO)
def test_another_order_of_what_settles_is_no_finding(name: str) -> None:
    pipeline = SETTLING_ALSO[name]().to("out").pipeline("settling")
    assert examine(pipeline, later_feed_of(pipeline, 5)) == []


def early(accumulating: bool) -> PCollection[Any]:  # noqa: FBT001
    counted = read("in").window_into(FixedWindows(SECOND)).trigger(Repeat(AtCount(2)))
    return (
        (counted.accumulating() if accumulating else counted.discarding())
        .sum(name="inner")
        .key_by(lambda _: "all")
    )


def test_early_panes_are_a_finding_too_if_none_come_late() -> None:
    summed = windows(0).trigger(after_watermark(early=AtCount(1))).accumulating().sum(name="inner")
    pipeline = summed.key_by(lambda _: "all").sum(name="outer").to("out").pipeline("regrouped")
    (finding,) = examine(pipeline, _without_late(pipeline))
    assert (habit_of(finding), finding.subject) == (Habit.DEPENDS_ON_ORDER, "outer")
    assert "it takes all panes of another grouping" in finding.message


@pytest.mark.parametrize("retracting", [True, False])
def test_early_panes_that_settle_are_no_finding_if_none_come_late(*, retracting: bool) -> None:
    early = windows(0).trigger(after_watermark(early=AtCount(1)))
    counted = early.accumulating_and_retracting().count() if retracting else early.accumulating().count()
    pipeline = counted.to("out").pipeline("settling")
    feed = _without_late(pipeline)
    assert settling_of(pipeline, feed) is not None
    assert examine(pipeline, feed) == []


def _without_late(pipeline: Pipeline) -> Feed:
    feed = feed_of(pipeline)
    return feed.only(feed.on_time())


@pytest.mark.parametrize(
    "collection",
    [lambda: early(accumulating=True).max(name="outer"), lambda: early(accumulating=False).sum(name="outer")],
    ids=["the greatest of growing sums", "the sum of partial sums"],
)
def test_early_panes_may_be_grouped_again_if_their_number_makes_no_difference(
    collection: Callable[[], PCollection[Any]],
) -> None:
    pipeline = collection().to("out").pipeline("regrouped")
    feed = feed_of(pipeline)
    assert settling_of(pipeline, feed) is not None
    assert examine(pipeline, feed) == []
    assert not isinstance(check_relations(pipeline, feed, relations=RELATIONS)[ARRIVAL], Violated)


@pytest.mark.parametrize(
    "collection",
    [lambda: early(accumulating=True).sum(name="outer"), lambda: early(accumulating=False).max(name="outer")],
    ids=["the sum of growing sums", "the greatest partial sum"],
)
def test_early_panes_that_count_again_where_nobody_takes_them_back_are_a_finding(
    collection: Callable[[], PCollection[Any]],
) -> None:
    pipeline = collection().to("out").pipeline("regrouped")
    (finding,) = examine(pipeline, feed_of(pipeline))
    assert (habit_of(finding), finding.subject) == (Habit.DEPENDS_ON_ORDER, "outer")
    assert "accumulating_and_retracting() there takes back" in finding.message
    assert len(finding.trial.kept) == 3


FIRST = CombineFn(
    lambda: None, lambda kept, value: value if kept is None else kept, lambda kept, other: kept or other
)


@pytest.mark.parametrize(
    ("collection", "computation"),
    [
        (lambda: read("in").window_into(FixedWindows(SECOND)).combine(FIRST), "combine"),
        (lambda: read("in").window_into(FixedWindows(SECOND)).group().map(lambda values: values[0]), "group"),
    ],
    ids=["combined", "grouped"],
)
def test_another_order_of_what_goes_by_it_is_a_finding(
    collection: Callable[[], PCollection[Any]], computation: str
) -> None:
    pipeline = collection().to("out").pipeline("settling")
    (finding,) = examine(pipeline, feed_of(pipeline))
    assert (habit_of(finding), finding.subject) == (Habit.DEPENDS_ON_ORDER, computation)


def test_a_combiner_that_goes_by_the_order_is_named_with_its_line_and_what_it_has_to_do() -> None:
    pipeline = read("in").window_into(FixedWindows(SECOND)).combine(FIRST).to("out").pipeline("settling")
    (finding,) = examine(pipeline, feed_of(pipeline))
    assert finding.place is not None
    assert finding.place.file == __file__
    assert finding.sentences[-1].startswith("Let the combiner give the same for its values in any order")


@pytest.mark.parametrize("name", SETTLING)
def test_runs_with_late_data_settle_to_the_same(name: str) -> None:
    found = relations_of(SETTLING[name]().to("out"))
    assert {relation: type(verdict) for relation, verdict in found.items()} == dict.fromkeys(
        (ARRIVAL, "faults", REFERENCE, REPLAY), Holds
    ), found


LAST = CombineFn(lambda: None, lambda _, value: value, lambda left, _: left)
"""The value that came last: not commutative."""


def test_a_combiner_that_goes_by_the_order_is_found_although_records_are_late() -> None:
    found = relations_of(windows().accumulating().combine(LAST).to("out"))
    assert isinstance(found[ARRIVAL], Violated)
    pipeline = windows().accumulating().combine(LAST).to("out").pipeline("settling")
    (finding,) = review(pipeline, feed_of(pipeline)).findings
    assert "another order of arrival" in finding.message
    assert " on 'out', key '" in finding.message
    assert finding.place is not None
    assert finding.place.file == __file__
    assert "Let the combiner give the same" in str(finding)


def test_runs_that_drop_elements_are_not_compared() -> None:
    found = relations_of(windows(0).accumulating().sum().to("out"))
    assert not isinstance(found["faults"], Violated)
    why = [verdict.why for verdict in found.values() if isinstance(verdict, Unknown)]
    assert all(reason.startswith("elements that are too late are dropped") for reason in why)


def unsafe(trigger: Any) -> PCollection[Any]:
    return windows().trigger(trigger, allow_unsafe_triggers=True)


@pytest.mark.parametrize(
    "flow",
    [
        windows().max().to("out"),
        unsafe(AtCount(2)).accumulating().sum().to("out"),
        unsafe(RepeatUntil(AtCount(1), AtCount(5))).accumulating().sum().to("out"),
        windows().accumulating().sum().map(abs).to("out"),
        windows().sum().to("out") + windows().accumulating().sum().to("out"),
        read("in").map(abs).to("out"),
    ],
    ids=["maxima are not added up", "once", "at most five times", "a function after", "two kinds", "no panes"],
)  # fmt: skip
def test_other_pipelines_are_compared_by_their_records(flow: Flow) -> None:
    pipeline = flow.pipeline("other")
    assert settling_of(pipeline, feed_of(pipeline)) is None


def test_computations_that_are_not_of_the_layer_do_not_settle() -> None:
    assert settling_of(mail(), letters(mail(), 5)) is None


def test_dead_letters_of_an_injector_may_be_consumed() -> None:
    pipeline = mail()
    pipeline.injector("parcels", on_malformed=DeadLetter("unread"))
    pipeline.add(Computation(), name="clerk", inputs=["unread"])
    assert settling_of(pipeline, letters(pipeline, 5)) is None


def test_a_source_that_does_not_end_leaves_windows_open() -> None:
    pipeline = windows().accumulating().sum().to("out").pipeline("open")
    feed = feed_of(pipeline)
    assert settling_of(pipeline, feed) is not None
    assert settling_of(pipeline, Feed(feed.entries[:-1])) is None
