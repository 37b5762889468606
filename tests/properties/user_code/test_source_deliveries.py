"""A pipeline on records as its source really delivers them: what breaks on them is found or told, its sound twin is not."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from headrace import SECOND, Computation, Context, DeadLetter, Pipeline, Record, Timer
from headrace_properties.user_code.habits import Habit, habit_of
from headrace_properties.user_code.review import NOTED, CodeReview, review
from headrace_sim import Feed, FeedBuilder, FeedSource
from headrace_sim.deliveries import UNSAID

WINDOW_US = 10 * SECOND


class Total(Computation):
    """Gives out the total of a key for each 10 s."""

    def initial_state(self) -> Any:
        return {"totals": {}, "ids": []}

    def process_record(self, context: Context, record: Record) -> None:
        state = context.state
        if self.is_new(state, record):
            end = str(record.timestamp // WINDOW_US * WINDOW_US + WINDOW_US)
            state["totals"][end] = state["totals"].get(end, 0) + self.amount(record)
            context.set_timer(end, int(end))

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("totals", context.state["totals"].pop(timer.tag))
        self.forget(context)

    def is_new(self, state: Any, record: Record) -> bool:
        return True

    def amount(self, record: Record) -> int:
        amount: int = record.value["amount"]
        return amount

    def forget(self, context: Context) -> None:
        if not context.state["totals"]:
            context.clear_state()


class TotalOfIds(Total):
    """Adds each id once, as long as a window of its key lasts."""

    def is_new(self, state: Any, record: Record) -> bool:
        known = record.value["id"] in state["ids"]
        state["ids"] += [] if known else [record.value["id"]]
        return not known


class TotalOfIdsForEver(TotalOfIds):
    def forget(self, context: Context) -> None:
        """Keep the ids."""


class TotalOfThoseInTime(Total):
    """Leaves out what is late, and tells nobody."""

    def process_record(self, context: Context, record: Record) -> None:
        if record.timestamp >= context.low_watermark:
            super().process_record(context, record)


class TotalOfNumbers(TotalOfIdsForEver):
    """Adds nothing for what is no number."""

    def amount(self, record: Record) -> int:
        return record.value.get("amount") or 0


def _tried(
    computation: Computation, source: FeedSource = UNSAID, processes: int = 1, **how: Any
) -> CodeReview:
    pipeline = Pipeline("totals")
    pipeline.injector("payments", processes=processes, **how)
    pipeline.add(computation, name="total", inputs=["payments"], outputs=["totals"])
    return review(pipeline, _feed(pipeline, processes), source=source)


def _feed(pipeline: Pipeline, processes: int) -> Feed:
    builder = FeedBuilder(pipeline)
    for number in range(8):
        at_us = (4 * number + 1) * SECOND
        value = {"id": number, "amount": number + 1}
        builder.record(
            at_us=at_us, value=value, timestamp=at_us, key="ab"[number % 2], process=number % processes
        )
        for process in range(processes):
            builder.watermark(at_us=at_us, low_watermark=at_us, process=process)
    return builder.build()


def _habits(found: CodeReview) -> list[Habit | None]:
    return [habit_of(finding) for finding in found.findings if habit_of(finding) is not Habit.GROWTH]


def _told(found: CodeReview, words: str) -> list[str]:
    return [note for note in found.noted(NOTED) if words in note]


@pytest.mark.parametrize("computation", [Total(), TotalOfIds()])
def test_pipeline_that_counts_a_record_again_is_found_where_its_source_repeats_them(
    computation: Computation,
) -> None:
    found = _tried(computation, FeedSource(once=False))
    assert _habits(found) == [Habit.COUNTS_AGAIN]
    assert len(found.findings[0].trial.kept) <= 2
    assert _habits(_tried(computation, FeedSource(once=True))) == []


def test_pipeline_that_keeps_ids_takes_each_record_once() -> None:
    assert _habits(_tried(TotalOfIdsForEver(), FeedSource(once=False))) == []


def test_record_that_is_forgotten_before_it_comes_again_is_told_where_nobody_said_whether_it_does() -> None:
    assert (
        len(_told(_tried(TotalOfIds()), "comes again at once is counted once, and behind all others again"))
        == 1
    )
    assert _told(_tried(TotalOfIdsForEver()), "comes again") == []


def test_bad_record_that_stops_the_run_is_told_with_what_to_do() -> None:
    told = _told(_tried(Total()), "one bad record stops the run")
    assert ["on_malformed=DeadLetter" in line for line in told] == [True, False]
    assert "such as stream=payments key='a'" in told[1]
    assert "'total' raises TypeError: " in told[1]
    careful = _tried(TotalOfNumbers(), on_malformed=DeadLetter("bad"))
    assert _told(careful, "one bad record") == []


def test_record_of_the_far_future_is_told_where_it_makes_others_late() -> None:
    assert len(_told(_tried(Total()), "behind one record of the year 2100, ")) == 1


def test_source_that_rests_is_told_where_others_wait_for_it() -> None:
    assert len(_told(_tried(Total(), processes=2), "while payments/0 rests")) == 1
    assert _told(_tried(Total()), "rests") == []


def test_late_record_that_leaves_no_trace_is_told() -> None:
    assert (
        len(_told(_tried(TotalOfThoseInTime()), "behind the low watermark of its source leaves no trace"))
        == 1
    )
    assert _told(_tried(Total()), "leaves no trace") == []


class Renewal(Computation):
    """Says when a subscription ends."""

    def process_record(self, context: Context, record: Record) -> None:
        day = datetime.fromtimestamp(record.timestamp / SECOND, UTC)
        context.produce("totals", {"until": str(self.later(day))})

    def later(self, day: datetime) -> datetime:
        return day.replace(month=day.month % 12 + 1)


class CarefulRenewal(Renewal):
    def later(self, day: datetime) -> datetime:
        return (day.replace(day=1) + timedelta(days=32)).replace(day=min(day.day, 28))


def test_record_of_a_day_that_code_forgets_is_told() -> None:
    told = _told(_tried(Renewal()), "stops the run, and one of three weeks earlier does not")
    assert ["a record of 2030-01-31 12:00 UTC" in line for line in told] == [True]
    assert _told(_tried(CarefulRenewal()), "three weeks earlier") == []


class Greetings(Computation):
    """Greets each name once, whatever its case."""

    def process_record(self, context: Context, record: Record) -> None:
        known = context.state.setdefault("known", [])
        if self.of(record) not in known:
            context.produce("greetings", {"name": self.of(record)})
        known.append(self.of(record))

    def of(self, record: Record) -> str:
        return str(record.value["name"]).strip().lower()


class ExactGreetings(Greetings):
    def of(self, record: Record) -> str:
        return str(record.value["name"])


class Count(Computation):
    """Counts the greetings of a name."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state["greetings"] = context.state.get("greetings", 0) + 1
        context.produce("counts", {"greetings": context.state["greetings"]})


_Key = Callable[[Record], str]


def _greeted(computation: Computation, key: _Key, counted_by: _Key, source: FeedSource) -> CodeReview:
    pipeline = Pipeline("greetings")
    pipeline.injector("guests")
    pipeline.add(computation, name="greet", inputs={"guests": key}, outputs=["greetings"])
    pipeline.add(Count(), name="count", inputs={"greetings": counted_by}, outputs=["counts"])
    builder = FeedBuilder(pipeline)
    for number, name in enumerate(["ann", "bob", "ann", "ann", "bob"]):
        at_us = (number + 1) * SECOND
        builder.record(at_us=at_us, value={"name": name}, timestamp=at_us, key=name)
    return review(pipeline, builder.build(), source=source)


def _as_given(record: Record) -> str:
    return str(record.value["name"])


def _of_all(_record: Record) -> str:
    return "all"


def _normalized(record: Record) -> str:
    return str(record.value["name"]).strip().lower()


ONE, TWO = FeedSource(keys_alike=True), FeedSource(keys_alike=False)


@pytest.mark.parametrize(
    ("computation", "key", "counted_by", "source", "found", "told"),
    [
        (Greetings(), _as_given, _normalized, UNSAID, [], 1),  # greeted for each spelling, and counted once
        (Greetings(), _as_given, _normalized, ONE, [Habit.SPLITS_KEYS], 0),
        (Greetings(), _as_given, _normalized, TWO, [], 0),
        (Greetings(), _normalized, _normalized, ONE, [], 0),
        (Greetings(), _normalized, _normalized, UNSAID, [], 0),
        (Greetings(), _of_all, _normalized, ONE, [], 0),
        (ExactGreetings(), _as_given, _as_given, UNSAID, [], 0),  # two, throughout
        (ExactGreetings(), _as_given, _as_given, ONE, [Habit.SPLITS_KEYS], 0),
    ],
)
def test_spellings_of_a_key_are_one_or_two_throughout(
    computation: Computation, key: _Key, counted_by: _Key, source: FeedSource, found: list[Habit], told: int
) -> None:
    shown = _greeted(computation, key, counted_by, source)
    assert [habit for habit in _habits(shown) if habit is Habit.SPLITS_KEYS] == found
    assert len(_told(shown, "are one key to a part of the code, and two to another")) == told
