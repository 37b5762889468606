"""Planted bugs in user code are found, distinguished, and shown with a few records and a line."""

import cProfile
import functools
import gc
import hashlib
import itertools
import linecache
import logging
import os
import random
import re
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace import (
    HOUR,
    MILLISECOND,
    SECOND,
    Computation,
    Context,
    DeadLetter,
    Productions,
    Record,
    Timer,
)
from headrace.api.specs import KeyExtractor
from headrace_properties.findings import Finding, FindingClass
from headrace_properties.search.limits import CodeLimits, CodeOverrunError, call_time_limited
from headrace_properties.user_code.examiner import examine
from headrace_properties.user_code.habits import Habit, habit_of
from headrace_scenarios import zeitgeist
from headrace_sim import FeedBuilder
from tests.properties.user_code.numbers import Note, numbers
from tests.sim.rig import letters, mail

SENT: list[int] = []
LIMITS: dict[str, int] = {"most": 1_000}
NUMBERS = itertools.count()
LOTS = random.Random(1)
TURN = itertools.cycle("ab")

WINDOW_US = 50 * MILLISECOND


class Sum(Computation):
    """Sound: adds up in its state. What the planted bugs do besides is given to it.

    Args:
        note: what it does with each record.
    """

    def __init__(self, note: Note = lambda context, record: None) -> None:
        self.note = note

    def process_record(self, context: Context, record: Record) -> None:
        context.state["sum"] = context.state.get("sum", 0) + record.value
        self.note(context, record)


class OnSelf(Computation):
    """Adds up on ``self``, for all keys together."""

    def __init__(self) -> None:
        self.total = 0

    def process_record(self, context: Context, record: Record) -> None:
        self.total += record.value
        context.produce("out", self.total)


class OnClass(Computation):
    """Counts each key's records in an attribute of its class."""

    counts: dict[str, int] = {}  # noqa: RUF012  the bug

    def process_record(self, context: Context, record: Record) -> None:
        self.counts[context.key] = self.counts.get(context.key, 0) + 1
        context.produce("out", self.counts[context.key])


class OnSelfForAWhile(Computation):
    """Keeps records on ``self`` until a timer takes them: in the end nothing is left there."""

    def __init__(self) -> None:
        self.waiting: dict[str, list[int]] = {}

    def process_record(self, context: Context, record: Record) -> None:
        self.waiting.setdefault(context.key, []).append(record.value)
        context.set_timer("tell", at=record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("out", sum(self.waiting.pop(context.key, [])))


class Newest(Computation):
    """Keeps the record that came last, and not the one with the greatest timestamp."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state = record.value


class Cleared(Computation):
    """Forgets its key with an odd number, whatever has come before."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state = {"last": record.value} if record.value % 2 else {}


class Timely(Computation):
    """Drops what is a day old, by wall time."""

    def process_record(self, context: Context, record: Record) -> None:
        if context.wall_time - record.timestamp < 24 * HOUR:
            context.produce("out", record.value)


class Second(Computation):
    """Reports the second record to arrive, and so takes its timestamp."""

    def initial_state(self) -> int:
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        context.state += 1
        if context.state == 2:
            context.produce("out", "two")


class Forward(Computation):
    def process_record(self, context: Context, record: Record) -> None:
        context.produce("counts", record.value)


class Lag(Computation):
    """Emits how far the low watermark is behind."""

    def process_record(self, context: Context, record: Record) -> None:
        lag_us = record.timestamp - context.low_watermark
        context.produce("out", lag_us)


class Resetting(Computation):
    """Counts until a timer: whether the next record comes before it is for the schedule to decide."""

    def initial_state(self) -> list[int]:
        return [0, 0]

    def process_record(self, context: Context, record: Record) -> None:
        count, newest = context.state
        context.state = [count + 1, max(newest, record.timestamp)]
        context.set_timer("tell", at=context.state[1] + 1)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("out", context.state[0])
        context.clear_state()


class LateAside(Computation):
    """Sound: what comes behind its window is told apart."""

    def __init__(self, stream: str = "out") -> None:
        self.stream = stream

    def process_record(self, context: Context, record: Record) -> None:
        end = record.timestamp // WINDOW_US * WINDOW_US + WINDOW_US
        if context.low_watermark >= end:
            context.produce(self.stream, "late")
            return
        context.state[str(end)] = context.state.get(str(end), 0) + 1
        context.set_timer(str(end), at=end)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce(self.stream, context.state.pop(timer.tag), timer.timestamp)


class Endless(Computation):
    """Sets its timer again for the same time."""

    def process_record(self, context: Context, record: Record) -> None:
        context.set_timer("again", at=record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.set_timer("again", at=timer.timestamp)


def closing_over() -> Note:
    seen: set[int] = set()

    def note(context: Context, record: Record) -> None:
        if record.value % 2 not in seen:
            context.produce("out", record.value)
        seen.add(record.value % 2)

    return note


def with_default(context: Context, record: Record, kept: list[int] = []) -> None:  # noqa: B006  the bug
    kept.append(record.value)
    context.produce("out", len(kept))


@functools.cache
def first_of(key: str) -> list[int]:
    return []


@functools.cache
def square_of(number: int) -> int:
    return number * number


def in_a_cache(context: Context, record: Record) -> None:
    first_of(context.key).append(record.value)
    context.produce("out", len(first_of(context.key)))


def in_the_module(context: Context, record: Record) -> None:
    LIMITS["most"] -= 1
    context.produce("out", LIMITS["most"])


def produce(make: Callable[[], Any]) -> Note:
    return lambda context, record: context.produce("out", make())


def write_file(context: Context, record: Record) -> None:
    with FILE.open("w") as file:
        file.write("one more")
    FILE.unlink()


FILE = Path(tempfile.gettempdir()) / "planted-by-headrace"


def insert(context: Context, record: Record) -> None:
    DATABASE.execute("SELECT 1")


DATABASE = sqlite3.connect(":memory:")


def start_process(context: Context, record: Record) -> None:
    subprocess.run([sys.executable, "--version"], check=True, stdout=subprocess.DEVNULL)


def start_thread(context: Context, record: Record) -> None:
    threading.Thread(target=int).start()


def wait_for_threads(context: Context, record: Record) -> None:
    with ThreadPoolExecutor(2) as pool:
        context.produce("out", [*pool.map(str, range(record.value))])


def log(context: Context, record: Record) -> None:
    logging.getLogger("planted").info("a record %s", record.value)
    print("a record")  # noqa: T201  as users do


def back(context: Context, record: Record) -> None:
    context.produce("out", 1, timestamp=record.timestamp - (record.value > 12))


def reorder(context: Context, record: Record) -> None:
    """Give the n-th record of a key the n-th time."""
    context.state["n"] = context.state.get("n", 0) + 1
    context.produce("out", record.value, timestamp=record.timestamp + context.state["n"])


def fail(context: Context, record: Record) -> None:
    if record.value == 13:
        raise ValueError("thirteen")


def leave(context: Context, record: Record) -> None:
    if record.value == 13:
        sys.exit(0)


def on_time(context: Context, record: Record) -> None:
    day = datetime.fromtimestamp(record.timestamp / 1_000_000, UTC)
    context.produce(
        "out", [day.isoformat(), hashlib.sha256(context.key.encode()).hexdigest(), square_of(record.value)]
    )


def found(computation: Computation) -> Finding:
    """The only finding."""
    findings = examine(*numbers(computation))
    assert len(findings) == 1, findings
    return findings[0]


@pytest.fixture(autouse=True)
def _untouched() -> Iterator[None]:
    """Examining code leaves what it can reach as it was."""
    before = (list(SENT), dict(LIMITS), dict(OnClass.counts))
    yield
    assert (SENT, LIMITS, OnClass.counts) == before


def test_nothing_is_found_in_sound_code() -> None:
    assert examine(*numbers(Sum())) == []
    assert examine(*numbers(Sum(on_time))) == []
    assert examine(*numbers(Sum(log))) == []
    assert examine(*numbers(Sum(wait_for_threads))) == []
    assert examine(mail(), letters(mail(), 30)) == []
    assert examine(zeitgeist.pipeline, zeitgeist.feed(1)) == []


def test_logging_to_a_file_is_not_an_effect(tmp_path: Path) -> None:
    handler, logger = logging.FileHandler(tmp_path / "log", delay=True), logging.getLogger(__name__)
    logger.addHandler(handler)
    try:
        assert examine(*numbers(Sum(lambda context, record: logger.warning("taken")))) == []
    finally:
        logger.removeHandler(handler)
        handler.close()
    assert (tmp_path / "log").read_text()


def test_nothing_is_found_in_sound_code_under_a_profiler() -> None:
    """One written in C cannot be put back, so it is left where it is."""
    profiler = cProfile.Profile()
    profiler.enable()
    try:
        assert examine(*numbers(Sum())) == []
    finally:
        profiler.disable()


def count_in_environment(context: Context, record: Record) -> None:
    number = int(os.environ.get(VARIABLE, "0"))
    os.environ[VARIABLE] = str(number + 1)
    context.produce("out", number)


def constant_in_environment(context: Context, record: Record) -> None:
    os.environ[VARIABLE] = "always the same"


VARIABLE = "A_TEST_OF_HEADRACE"


def test_state_in_the_environment_is_a_single_finding_and_is_restored() -> None:
    finding = found(Sum(count_in_environment))
    assert habit_of(finding) is Habit.SHARES_STATE
    assert finding.message.endswith(": in os.environ")
    assert VARIABLE not in os.environ
    assert examine(*numbers(Sum(constant_in_environment))) == []


@pytest.mark.parametrize(
    ("planted", "line"),
    [
        (OnSelf(), "self.total += record.value"),
        (Sum(with_default), "kept.append(record.value)"),
        (Sum(lambda context, record: remember(record.value)), "SENT.append(value)"),
    ],
    ids=["an attribute", "a default", "in a helper"],
)
def test_kept_state_is_reported_with_the_line_that_changes_it(planted: Computation, line: str) -> None:
    place = found(planted).place
    assert place is not None
    assert linecache.getline(place.file, place.line).strip() == line


def remember(value: int) -> None:
    number = len(SENT)
    SENT.append(value)
    del number


PLANTED: list[tuple[Computation, Habit, int, str]] = [
    (OnSelf(), Habit.SHARES_STATE, 2, "self.total"),
    (OnClass(), Habit.KEEPS_STATE, 2, "OnClass.counts"),
    (OnSelfForAWhile(), Habit.KEEPS_STATE, 1, "self.waiting"),
    (Sum(closing_over()), Habit.SHARES_STATE, 2, "seen, which closing_over"),
    (Sum(with_default), Habit.SHARES_STATE, 2, "the default of kept in with_default"),
    (Sum(in_a_cache), Habit.KEEPS_STATE, 2, "the cache of first_of"),
    (Sum(in_the_module), Habit.SHARES_STATE, 2, "LIMITS"),
    (Sum(produce(lambda: next(NUMBERS))), Habit.NOT_DETERMINISTIC, 1, "another outcome"),
    (Sum(produce(random.random)), Habit.USES_CHANCE, 1, "random.random"),
    (Sum(produce(LOTS.random)), Habit.USES_CHANCE, 1, "random.random"),
    (Sum(produce(lambda: random.random() < 0.001)), Habit.USES_CHANCE, 1, "random.random"),
    (Sum(produce(lambda: str(uuid.uuid4()))), Habit.USES_CHANCE, 1, "os.urandom"),
    (Sum(produce(time.time)), Habit.READS_CLOCK, 1, "time.time"),
    (Sum(produce(time.monotonic)), Habit.READS_CLOCK, 1, "time.monotonic"),
    (Sum(produce(lambda: date.today().isoformat())), Habit.READS_CLOCK, 1, "date.today"),  # noqa: DTZ011
    (Sum(produce(lambda: datetime.now(UTC).hour)), Habit.READS_CLOCK, 1, "datetime.now"),
    (Sum(produce(lambda: datetime.fromtimestamp(0).hour)), Habit.USES_ZONE, 1, "datetime.fromtimestamp"),  # noqa: DTZ006
    (Sum(produce(lambda: time.localtime(0).tm_hour)), Habit.USES_ZONE, 1, "time.localtime"),
    (Newest(), Habit.DEPENDS_ON_ORDER, 2, "another order"),
    (Sum(reorder), Habit.DEPENDS_ON_ORDER, 2, "only the timestamps of what it produces differ"),
    (Timely(), Habit.READS_CLOCK, 1, "it goes by context.wall_time"),
    (Lag(), Habit.DEPENDS_ON_SCHEDULE, 1, "it goes by context.low_watermark"),
    (Sum(lambda context, record: SENT.append(record.value)), Habit.LEAVES_TRACES, 1, "SENT"),
    (Sum(write_file), Habit.HAS_EFFECTS, 1, FILE.name),
    (Sum(insert), Habit.HAS_EFFECTS, 1, "sqlite3"),
    (Sum(start_process), Habit.HAS_EFFECTS, 1, "subprocess.Popen"),
    (Sum(start_thread), Habit.STARTS_THREADS, 1, "thread"),
    (Sum(back), Habit.GOES_BACK, 1, "is older than"),
    (Sum(fail), Habit.RAISES, 1, "ValueError: thirteen"),
    (Sum(leave), Habit.ENDS_PROCESS, 1, "SystemExit(0)"),
    (Endless(), Habit.NEVER_ENDS, 1, "timer 'again'"),
]


@pytest.mark.parametrize(
    ("planted", "habit", "records", "says"), PLANTED, ids=[f"{number}" for number in range(len(PLANTED))]
)
def test_a_planted_bug_is_found_and_shown_by_the_fewest_records(
    planted: Computation, habit: Habit, records: int, says: str
) -> None:
    finding = next(finding for finding in examine(*numbers(planted)) if habit_of(finding) is habit)
    assert len(finding.trial.kept) == records
    first, *_ = finding.sentences
    assert habit.value in first
    assert says in first
    assert "test_examiner.py" in first
    assert f"Shown by {'one record' if records == 1 else f'{records} records'}" in finding.story[-1]


def test_a_state_that_was_cleared_is_named() -> None:
    """It is stored as nothing, and is not the empty word."""
    found = next(f for f in examine(*numbers(Cleared())) if habit_of(f) is Habit.DEPENDS_ON_ORDER)
    assert re.search(r"(produced|to): the initial state( of key '.*')?\.", " ".join(found.sentences))


def test_what_the_garbage_collector_calls_is_not_blamed() -> None:
    def collect_and_read() -> float:
        gc.collect(0)  # a whole collection takes long in a process that has run many tests
        return time.monotonic()

    def look(_phase: str, _info: dict[str, int]) -> None:
        time.perf_counter()

    gc.callbacks.append(look)
    try:
        found = examine(*numbers(Sum(produce(collect_and_read))))
    finally:
        gc.callbacks.remove(look)
    story = " ".join(next(finding for finding in found if habit_of(finding) is Habit.READS_CLOCK).sentences)
    assert "it calls time.monotonic" in story
    assert "perf_counter" not in story


def test_a_private_generator_is_not_mistaken_for_the_clock() -> None:
    """It goes on from call to call, and so decides otherwise on another day, too."""
    found = {habit_of(finding) for finding in examine(*numbers(Sum(produce(lambda: LOTS.random() < 0.5))))}
    assert Habit.USES_CHANCE in found
    assert Habit.READS_CLOCK not in found


def test_a_timer_that_may_fire_before_or_after_a_record_is_a_finding() -> None:
    pipeline, _ = numbers(Resetting())
    builder = FeedBuilder(pipeline)
    for number in range(10):
        at_us = (300 + 10 * number) * MILLISECOND
        builder.record(at_us=at_us, value=number, timestamp=at_us, key="a")
        builder.watermark(at_us=at_us + 2, low_watermark=at_us + 2)
    (finding,) = examine(pipeline, builder.build())
    assert habit_of(finding) is Habit.DEPENDS_ON_SCHEDULE
    assert len(finding.trial.kept) == 2


class UpTo(Computation):
    """Counts the records after one tenth of a second, up to and including the next."""

    def __init__(self, wait_us: int) -> None:
        self.wait_us = wait_us

    def process_record(self, context: Context, record: Record) -> None:
        end_us = -(-record.timestamp // TENTH) * TENTH
        context.state[str(end_us)] = context.state.get(str(end_us), 0) + 1
        context.set_timer(str(end_us), at=end_us + self.wait_us)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("out", context.state.pop(timer.tag))


TENTH = SECOND // 10


@pytest.mark.parametrize(("wait_us", "found"), [(0, [Habit.DEPENDS_ON_SCHEDULE]), (1, [])])
def test_a_timer_that_does_not_wait_for_records_of_its_own_time_is_found_though_the_watermark_lags(
    wait_us: int, found: list[Habit]
) -> None:
    pipeline, _ = numbers(UpTo(wait_us))
    builder = FeedBuilder(pipeline)
    for number, tenths in enumerate((1, 2, 2, 3)):
        at_us = SECOND + number * TENTH
        builder.record(at_us=at_us, value=number, timestamp=tenths * TENTH, key="a")
        builder.watermark(at_us=at_us, low_watermark=0)
    assert [habit_of(finding) for finding in examine(pipeline, builder.build())] == found


@pytest.mark.parametrize(("late_us", "found"), [(0, [Habit.DEPENDS_ON_ORDER]), (1_000_000, [])])
def test_the_order_is_changed_though_a_watermark_follows_each_record_unless_records_are_late(
    late_us: int, found: list[Habit]
) -> None:
    """Many a source sends a watermark with each record. A late record's turn is its own."""
    pipeline, _ = numbers(Newest())
    builder = FeedBuilder(pipeline)
    for number in range(8):
        at_us = (2_000 + 10 * number) * MILLISECOND
        timestamp = at_us - late_us if number else at_us
        builder.record(at_us=at_us, value=number, timestamp=timestamp, key="a")
        builder.watermark(at_us=at_us, low_watermark=at_us - 500 * MILLISECOND)
    assert [habit_of(finding) for finding in examine(pipeline, builder.build())] == found


def test_the_treatment_of_late_records_may_depend_on_the_low_watermark() -> None:
    pipeline, _ = numbers(LateAside())
    builder = FeedBuilder(pipeline)
    for number in range(20):
        at_us, late_us = (300 + 10 * number) * MILLISECOND, number % 3 * 40 * MILLISECOND
        builder.record(at_us=at_us, value=number, timestamp=at_us - late_us, key="a")
        builder.watermark(at_us=at_us, low_watermark=at_us - 30 * MILLISECOND)
    assert examine(pipeline, builder.build()) == []


def test_a_finding_names_the_line_and_the_record() -> None:
    finding = found(Sum(fail))
    assert finding.place is not None
    assert (
        Path(finding.place.file)
        .read_text()
        .splitlines()[finding.place.line - 1]
        .strip()
        .startswith("raise ValueError")
    )
    assert "It was called for record 13 of key 'b'" in finding.story[0]


def test_a_finding_shows_both_outcomes() -> None:
    first, second = found(OnClass()).story[1:3]
    assert first.endswith(": 2 on 'out'.")
    assert second.endswith(": 1 on 'out'.")


def count_in_windows(computation: Computation, consumer: Computation | None = None) -> list[Finding]:
    """Examine a computation with a consumer that counts its records in windows, if there is one."""
    pipeline, feed = numbers(computation)
    if consumer is not None:
        pipeline.add(consumer, name="windows", inputs={"out": lambda _: "all"}, outputs=["counts"])
    return examine(pipeline, feed)


def test_equal_values_with_other_default_timestamps_are_no_finding_unless_they_count_in_the_end() -> None:
    assert count_in_windows(Second()) == []
    assert count_in_windows(Second(), Forward()) == []
    (finding, *_) = count_in_windows(Second(), LateAside("counts"))
    assert finding.subject == "planted"
    assert "only the timestamps of what it produces differ, and they count" in finding.sentences[0]


def test_declared_behaviour_is_not_a_finding() -> None:
    assert examine(*numbers(Newest(), ordered=True)) == []
    assert examine(*numbers(Lag(), ordered=True)) == []
    assert examine(*numbers(Sum(flush_by_the_clock), ordered=True)) == []
    assert examine(*numbers(Batches(), ordered=True)) == []
    reason = "samples one record in ten"
    for note in (produce(random.random), produce(time.time), write_file, with_default):
        assert examine(*numbers(Sum(note), nondeterministic=reason)) == []


def test_a_declaration_does_not_excuse_code_that_stops_the_run() -> None:
    (finding,) = examine(*numbers(Sum(fail), ordered=True, nondeterministic="by chance"))
    assert habit_of(finding) is Habit.RAISES


def flush_by_the_clock(context: Context, record: Record) -> None:
    """A wall timer fires before or after a record: an order, too."""
    context.set_wall_timer("flush", at=context.wall_time + 15 * MILLISECOND)
    context.produce("out", context.state["sum"])


class Batches(Computation):
    """Gives what came in a time of the wall clock, whose end it keeps: which records those are is an order, too."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state.setdefault("values", []).append(record.value)
        if "due" not in context.state:
            context.state["due"] = context.wall_time + 30 * MILLISECOND
            context.set_wall_timer("flush", at=context.state["due"], hold=record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("out", context.state["values"])
        context.clear_state()


def day_of_the_clock(context: Context, record: Record) -> None:
    day = context.wall_time // (24 * HOUR)
    if context.state.get("day") != day:
        context.state["day"] = day
        context.produce("out", record.value)


def gap_by_the_clock(context: Context, record: Record) -> None:
    before = context.state.get("at", context.wall_time)
    context.state["at"] = context.wall_time
    context.produce("out", context.wall_time - before > SECOND)


@pytest.mark.parametrize("note", [day_of_the_clock, gap_by_the_clock])
def test_a_declared_order_does_not_excuse_the_wall_clock(note: Note) -> None:
    (finding,) = examine(*numbers(Sum(note), ordered=True))
    assert habit_of(finding) is Habit.READS_CLOCK
    assert "it goes by context.wall_time" in finding.sentences[0]
    assert "ordered=True" not in str(finding)
    assert examine(*numbers(Sum(note), ordered=True, nondeterministic="by the day")) == []


class OnlyInOrder(Computation):
    """Refuses what does not follow the record before."""

    def process_record(self, context: Context, record: Record) -> None:
        if record.value < (context.state or 0):
            raise ValueError(record.value)
        context.state = record.value


class NewestOfToday(Newest):
    """Keeps the record that came last, and tells it with the day of the wall clock."""

    def process_record(self, context: Context, record: Record) -> None:
        super().process_record(context, record)
        day_of_clock = context.wall_time // (24 * HOUR)
        context.produce("out", day_of_clock)


@pytest.mark.parametrize(
    ("planted", "asked", "wrong"),
    [
        (Newest(), [Habit.DEPENDS_ON_ORDER], []),
        (Lag(), [Habit.DEPENDS_ON_SCHEDULE], []),
        (OnlyInOrder(), [], [Habit.FAILS_IN_ANOTHER_ORDER]),
        (NewestOfToday(), [Habit.DEPENDS_ON_ORDER], [Habit.READS_CLOCK]),
    ],
    ids=["order", "watermark", "exception", "order and clock"],
)
def test_what_only_the_author_can_mean_is_asked_and_hides_nothing_that_is_wrong(
    planted: Computation, asked: list[Habit], wrong: list[Habit]
) -> None:
    """An order that decides the outcome does not keep the wall clock, or an exception, from being found."""
    found = examine(*numbers(planted))
    by_class = {
        finding_class: [habit_of(finding) for finding in found if finding.finding_class is finding_class]
        for finding_class in FindingClass
    }
    assert by_class == {FindingClass.UNDECLARED: asked, FindingClass.VIOLATED: wrong, FindingClass.NOTE: []}
    questions = [finding for finding in found if finding.finding_class is FindingClass.UNDECLARED]
    assert all("declare ordered=True" in str(finding) for finding in questions)
    answered = examine(*numbers(planted, ordered=True))
    assert [habit_of(finding) for finding in answered] == [
        habit for habit in wrong if habit is Habit.READS_CLOCK
    ]


def stamp(context: Context, record: Record) -> None:
    context.produce("out", context.wall_time)


def test_dependence_on_wall_time_is_a_finding_and_worse_with_weak_productions() -> None:
    (finding,) = examine(*numbers(Sum(stamp)))
    assert habit_of(finding) is Habit.READS_CLOCK
    assert "it goes by context.wall_time" in finding.sentences[0]
    (finding,) = examine(*numbers(Sum(stamp), productions=Productions.WEAK))
    assert habit_of(finding) is Habit.READS_CLOCK
    assert "its productions are weak and depend on context.wall_time" in finding.sentences[0]


@pytest.mark.parametrize(
    "key",
    [
        lambda _: next(TURN),
        lambda _: random.choice("ab"),
        lambda _: str(time.time()),
        lambda record, known={}: known.setdefault(record.value, str(len(known))),
    ],
    ids=["in turn", "by chance", "by the clock", "by memory"],
)
def test_a_key_that_depends_on_more_than_the_record_is_a_finding(key: KeyExtractor) -> None:
    pipeline, feed = numbers(Sum())
    (finding,) = examine(pipeline.with_computation("planted", inputs={"in": key}), feed)
    assert habit_of(finding) is Habit.NOT_DETERMINISTIC
    assert "the key extractor of 'in' depends on more than the record" in finding.sentences[0]


def test_a_failure_that_becomes_a_dead_letter_is_no_finding() -> None:
    assert examine(*numbers(Sum(fail), on_failure=DeadLetter("dead"))) == []


def test_a_never_ending_call_is_reported_with_its_line() -> None:
    def wait(context: Context, record: Record) -> None:
        while record.value == 13:
            pass

    with call_time_limited(CodeLimits(call_s=0.2)):
        (finding,) = examine(*numbers(Sum(wait)))
    assert habit_of(finding) is Habit.NEVER_ENDS
    assert len(finding.trial.kept) == 1
    assert "It was called for record 13 of key 'b'" in finding.story[0]
    assert finding.place is not None
    assert "wait" in finding.place.function


def test_many_calls_in_time_are_not_interrupted() -> None:
    with call_time_limited(CodeLimits(call_s=0.3)):
        assert examine(*numbers(Sum(lambda context, record: time.sleep(0.002)))) == []


def asleep() -> None:
    time.sleep(60)


def test_sleeping_is_interrupted_as_well_as_computing() -> None:
    says = r"never ends: at line \d+ of test_examiner.py, in asleep, it has not after 0.6 s, in which it waits for something"
    with pytest.raises(CodeOverrunError, match=says), call_time_limited(CodeLimits(call_s=0.1)):
        asleep()
