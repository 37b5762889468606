"""Planted bugs in user code are found, distinguished, and shown with a few records and a line."""

import cProfile
import functools
import gc
import hashlib
import itertools
import linecache
import logging
import os
import pickle
import random
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from headrace import (
    MILLISECOND,
    SECOND,
    Computation,
    Context,
    DeadLetter,
    Pipeline,
    Productions,
    Record,
    Timer,
    TypedCodec,
)
from headrace.api.specs import KeyExtractor
from headrace_properties.search.limits import CodeLimits, CodeOverrunError, call_time_limited
from headrace_properties.user_code.findings import examine
from headrace_properties.user_code.habits import Habit, UserFinding
from headrace_scenarios import zeitgeist
from headrace_sim import Feed, FeedBuilder
from tests.sim.rig import letters, mail

SENT: list[int] = []
LIMITS: dict[str, int] = {"most": 1_000}
NUMBERS = itertools.count()
LOTS = random.Random(1)
TURN = itertools.cycle("ab")

WINDOW_US = 50 * MILLISECOND

Note = Callable[[Context, Record], None]


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


@dataclass
class Sums:
    """A state in which the order of arrival decides the last digits, the list's order and, perhaps, the set's."""

    total: float = 0.0
    came: list[int] = field(default_factory=list)
    seen: set[str] = field(default_factory=set)


class SumsStruct(msgspec.Struct):
    """The same as a struct."""

    total: float = 0.0
    came: list[int] = []
    seen: set[str] = set()


class Adding(Computation):
    """Sound: adds up fractions.

    Args:
        kind: of its state.
    """

    def __init__(self, kind: type[Sums] | type[SumsStruct]) -> None:
        self.kind = kind

    def initial_state(self) -> Any:
        return self.kind()

    def process_record(self, context: Context, record: Record) -> None:
        state = context.state
        state.total += record.value / 10 + 0.07
        state.came.append(record.value)
        state.seen.add(f"number {record.value}")


class Lag(Computation):
    """Emits how far the low watermark is behind."""

    def process_record(self, context: Context, record: Record) -> None:
        lag_us = record.timestamp - context.low_watermark
        context.produce("out", lag_us)


class Resetting(Computation):
    """Counts until a timer: whether the next record comes before it is for the schedule to decide."""

    def initial_state(self) -> int:
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        context.state += 1
        context.set_timer("tell", at=record.timestamp + 1)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("out", context.state)
        context.clear_state()


class LateAside(Computation):
    """Sound: what comes behind its window is told apart."""

    def process_record(self, context: Context, record: Record) -> None:
        end = record.timestamp // WINDOW_US * WINDOW_US + WINDOW_US
        if context.low_watermark >= end:
            context.produce("out", "late")
            return
        context.state[str(end)] = context.state.get(str(end), 0) + 1
        context.set_timer(str(end), at=end)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("out", context.state.pop(timer.tag), timer.timestamp)


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
    thread = threading.Thread(target=int)
    thread.start()
    thread.join()


def log(context: Context, record: Record) -> None:
    logging.getLogger("planted").info("a record %s", record.value)
    print("a record")  # noqa: T201  as users do


def back(context: Context, record: Record) -> None:
    context.produce("out", 1, timestamp=record.timestamp - (record.value > 12))


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


def numbers(computation: Computation, **switches: Any) -> tuple[Pipeline, Feed]:
    """Twenty numbers for three keys."""
    pipeline = Pipeline("numbers")
    pipeline.injector("in")
    pipeline.add(computation, name="planted", inputs=["in"], outputs=["out"], **switches)
    builder = FeedBuilder(pipeline)
    for number in range(20):
        at_us = (number + 1) * 10 * MILLISECOND
        builder.record(at_us=at_us, value=number, timestamp=at_us, key="abc"[number % 3])
        if number % 5 == 4:
            builder.watermark(at_us=at_us, low_watermark=at_us)
    return pipeline, builder.build()


def found(computation: Computation) -> UserFinding:
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
    assert finding.habit is Habit.SHARES_STATE
    assert finding.detail == "in os.environ"
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
    (Newest(), Habit.DEPENDS_ON_ORDER, 2, "another order"),
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
    finding = next(finding for finding in examine(*numbers(planted)) if finding.habit is habit)
    assert finding.feed.records == records
    first, *_ = finding.story()
    assert habit.value in first
    assert says in first
    assert "test_findings.py" in first
    assert f"Shown by {'one record' if records == 1 else f'{records} records'}" in str(finding)


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
    story = " ".join(next(finding for finding in found if finding.habit is Habit.READS_CLOCK).story())
    assert "it calls time.monotonic" in story
    assert "perf_counter" not in story


def test_a_private_generator_is_not_mistaken_for_the_clock() -> None:
    """It goes on from call to call, and so decides otherwise on another day, too."""
    found = {finding.habit for finding in examine(*numbers(Sum(produce(lambda: LOTS.random() < 0.5))))}
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
    assert finding.habit is Habit.DEPENDS_ON_SCHEDULE
    assert finding.feed.records == 2


def test_the_treatment_of_late_records_may_depend_on_the_low_watermark() -> None:
    pipeline, _ = numbers(LateAside())
    builder = FeedBuilder(pipeline)
    for number in range(20):
        at_us, late_us = (300 + 10 * number) * MILLISECOND, number % 3 * 40 * MILLISECOND
        builder.record(at_us=at_us, value=number, timestamp=at_us - late_us, key="a")
        builder.watermark(at_us=at_us, low_watermark=at_us - 30 * MILLISECOND)
    assert examine(pipeline, builder.build()) == []


@pytest.mark.parametrize("kind", [Sums, SumsStruct])
def test_the_fields_of_a_state_are_compared_as_values_are(kind: type[Sums] | type[SumsStruct]) -> None:
    assert examine(*numbers(Adding(kind), state_codec=TypedCodec(kind))) == []


@dataclass
class Total:
    """A state that a codec reads as it says here, whatever was written."""

    value: float = 0.0
    by_name: dict[str, int] = field(default_factory=dict)
    twice: list[list[int]] = field(default_factory=list)


class Totals(Computation):
    """Computes on a `Total`.

    Args:
        note: what it does for each record.
        first: value of the initial state.
    """

    def __init__(self, note: Note, first: float = 0.0) -> None:
        self.note, self.first = note, first

    def initial_state(self) -> Total:
        return Total(self.first)

    def process_record(self, context: Context, record: Record) -> None:
        self.note(context, record)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("out", type(context.state.value).__name__)


def add_ints(context: Context, record: Record) -> None:
    context.state.value += record.value
    context.produce("out", context.state.value)


def count(context: Context, record: Record) -> None:
    state = context.state
    if not state.by_name:
        state.by_name = Counter()
    state.by_name[f"{record.value}"] += 1


def alias(context: Context, record: Record) -> None:
    state = context.state
    if not state.twice:
        state.twice = [[]] * 2
    state.twice[0].append(record.value)
    context.produce("out", len(state.twice[1]))


def add_and_tell_much(context: Context, record: Record) -> None:
    context.state.value += record.value
    context.produce("out", context.state.value > 100)


def count_in_a_copy(context: Context, record: Record) -> None:
    context.state.by_name = Counter(context.state.by_name)
    count(context, record)


def set_a_timer(context: Context, record: Record) -> None:
    context.state.value = record.value
    context.set_timer("tell", at=record.timestamp)


def totals(note: Note, first: float = 0.0, **switches: Any) -> tuple[Pipeline, Feed]:
    """A computation whose runs share the state."""
    return numbers(
        Totals(note, first), state_codec=TypedCodec(Total), share_state=True, ordered=True, **switches
    )


@pytest.mark.parametrize(
    ("note", "first", "outcomes"),
    [
        (add_ints, 0, ("5.0 on 'out', state Total(value=5.0", "5 on 'out', state Total(value=5.0")),
        (count, 0.0, ("KeyError: '3'", "state Total(")),
        (alias, 0.0, ("1 on 'out'", "2 on 'out'")),
    ],
    ids=["int for float", "Counter for dict", "alias"],
)
def test_what_a_shared_state_hides_is_a_finding(note: Note, first: float, outcomes: tuple[str, str]) -> None:
    (finding,) = examine(*totals(note, first, on_failure=DeadLetter("dead")))
    assert finding.habit is Habit.NOT_READ_BACK
    assert finding.feed.records == 2
    for (_, outcome), begins in zip(finding.outcomes, outcomes, strict=True):
        assert outcome.startswith(begins)


@pytest.mark.parametrize(
    ("note", "first"),
    [(add_and_tell_much, 0), (count_in_a_copy, 0.0), (set_a_timer, 0.0)],
    ids=["shows in nothing", "read back first", "a step ends before the timer that it sets"],
)
def test_what_makes_no_difference_to_a_shared_state_is_no_finding(note: Note, first: float) -> None:
    assert examine(*totals(note, first)) == []


def test_a_step_runs_for_timers_first() -> None:
    """The state that a record leaves is read before the next timer runs, and a timer leaves it to the records."""

    def tell_and_set(context: Context, record: Record) -> None:
        context.produce("out", type(context.state.value).__name__)
        context.set_timer("tell", at=record.timestamp + 1)

    class Leaves(Totals):
        def process_timer(self, context: Context, timer: Timer) -> None:
            context.state.value = int(context.state.value)

    pipeline, feed = totals(tell_and_set)
    pipeline = pipeline.with_computation("planted", computation=Leaves(tell_and_set))
    (finding,) = examine(pipeline, feed)
    assert finding.habit is Habit.NOT_READ_BACK
    assert finding.cause.startswith("record ")


def test_the_next_timer_reads_what_a_record_or_a_timer_has_left() -> None:
    """The second timer that a record sets fires after the record behind the first; what a timer sets fires in a later step."""

    def set_two(context: Context, record: Record) -> None:
        context.state.value = record.value
        for wait in (0, 100) if record.value == 0 else ():
            context.set_timer(f"after {wait}", at=record.timestamp + wait * MILLISECOND)

    class Telling(Totals):
        def process_timer(self, context: Context, timer: Timer) -> None:
            super().process_timer(context, timer)
            if timer.tag.endswith("100"):
                context.state.value = int(context.state.value)
                context.set_timer(f"{timer.tag} more", at=timer.timestamp)

    pipeline, _ = totals(set_two)
    pipeline = pipeline.with_computation("planted", computation=Telling(set_two))
    builder = FeedBuilder(pipeline)
    for number in range(2):
        at_us = (1 + number) * 200 * MILLISECOND
        builder.record(at_us=at_us, value=number, timestamp=at_us, key="a")
        builder.watermark(at_us=at_us + 1, low_watermark=at_us + 50 * MILLISECOND)
        builder.record(at_us=at_us + 2, value=number + 10, timestamp=at_us + 60 * MILLISECOND, key="a")
    builder.watermark(at_us=SECOND, low_watermark=SECOND)
    assert examine(pipeline, builder.build()) == []


def test_a_call_that_fails_on_a_shared_state_is_run_again_with_a_copy() -> None:
    def refuse_int(context: Context, record: Record) -> None:
        if context.state.value and type(context.state.value) is int:
            raise ValueError("int")
        context.state.value += record.value

    assert examine(*totals(refuse_int, 0)) == []

    def add_and_fail(context: Context, record: Record) -> None:
        context.state.value += record.value
        context.produce("out", context.state.value)
        if record.value % 4 == 1:
            raise ValueError("nothing of this counts")

    assert examine(*totals(add_and_fail, on_failure=DeadLetter("dead"))) == []


class Box:
    """An object whose text is its address."""

    def __init__(self, value: int) -> None:
        self.value = value


class PickleCodec:
    """Writes any object."""

    def encode(self, value: Any) -> bytes:
        return pickle.dumps(value)

    def decode(self, data: bytes) -> Any:
        return pickle.loads(data)  # noqa: S301  its own


class Boxing(Computation):
    """Sound: adds up in an object, and produces others."""

    def initial_state(self) -> Any:
        return Box(0)

    def process_record(self, context: Context, record: Record) -> None:
        context.state.value += record.value
        context.produce("out", Box(record.value))


def test_objects_without_a_text_are_compared_by_what_they_hold() -> None:
    pipeline, feed = numbers(Boxing(), state_codec=PickleCodec())
    pipeline.stream("out", PickleCodec())
    assert examine(pipeline, feed) == []


class Listing(Computation):
    """Lists the numbers as they come, and sends the list at the end."""

    def process_record(self, context: Context, record: Record) -> None:
        context.state = [*(context.state or []), record.value]
        context.set_timer("end", at=SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("listed", context.state)
        context.clear_state()


class Reading(Computation):
    """Sends on what a function reads from each list."""

    def __init__(self, read: Callable[[list[int]], int]) -> None:
        self.read = read

    def process_record(self, context: Context, record: Record) -> None:
        context.produce("out", self.read(record.value))


@pytest.mark.parametrize("read", [sum, max, len])
def test_a_list_that_nobody_reads_in_its_order_may_be_in_any(read: Callable[[list[int]], int]) -> None:
    assert examine(*read_lists(read)) == []


@pytest.mark.parametrize(
    "read", [lambda values: values[0], lambda values: sum(values[:2])], ids=["first", "two"]
)
def test_a_list_that_is_read_in_its_order_is_a_finding(read: Callable[[list[int]], int]) -> None:
    (finding,) = examine(*read_lists(read))
    assert (finding.habit, finding.computation) == (Habit.DEPENDS_ON_ORDER, "lists")


def read_lists(read: Callable[[list[int]], int]) -> tuple[Pipeline, Feed]:
    pipeline = Pipeline("lists")
    pipeline.injector("in")
    pipeline.add(Listing(), name="lists", inputs=["in"], outputs=["listed"])
    pipeline.add(Reading(read), name="reads", inputs=["listed"], outputs=["out"])
    builder = FeedBuilder(pipeline)
    for number in range(12):
        builder.record(at_us=number, value=(number * 7) % 12, timestamp=number, key="ab"[number % 2])
    builder.watermark(at_us=20, low_watermark=2 * SECOND)
    return pipeline, builder.build()


def test_fields_that_differ_are_a_finding() -> None:
    class Latest(Adding):
        def process_record(self, context: Context, record: Record) -> None:
            context.state.total = record.value

    (finding,) = examine(*numbers(Latest(Sums), state_codec=TypedCodec(Sums)))
    assert finding.habit is Habit.DEPENDS_ON_ORDER
    assert "state Sums(total=" in " ".join(finding.story())


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
    assert "record 13 of key 'b'" in finding.cause


def test_a_finding_shows_both_outcomes() -> None:
    (_, first), (_, second) = found(OnClass()).outcomes
    assert first == "2 on 'out'"
    assert second == "1 on 'out'"


def test_declared_behaviour_is_not_a_finding() -> None:
    assert examine(*numbers(Newest(), ordered=True)) == []
    assert examine(*numbers(Lag(), ordered=True)) == []
    reason = "samples one record in ten"
    for note in (produce(random.random), produce(time.time), write_file, with_default):
        assert examine(*numbers(Sum(note), nondeterministic=reason)) == []


def test_a_declaration_does_not_excuse_code_that_stops_the_run() -> None:
    (finding,) = examine(*numbers(Sum(fail), ordered=True, nondeterministic="by chance"))
    assert finding.habit is Habit.RAISES


def stamp(context: Context, record: Record) -> None:
    context.produce("out", context.wall_time)


def test_dependence_on_wall_time_is_a_finding_and_worse_with_weak_productions() -> None:
    (finding,) = examine(*numbers(Sum(stamp)))
    assert finding.habit is Habit.DEPENDS_ON_SCHEDULE
    assert "it goes by context.wall_time" in finding.story()[0]
    (finding,) = examine(*numbers(Sum(stamp), productions=Productions.WEAK))
    assert finding.habit is Habit.READS_CLOCK
    assert "its productions are weak and depend on context.wall_time" in finding.story()[0]


@pytest.mark.parametrize(
    "key",
    [
        lambda _: next(TURN),
        lambda _: random.choice("ab"),
        lambda _: str(time.time()),
    ],
    ids=["in turn", "by chance", "by the clock"],
)
def test_a_key_that_depends_on_more_than_the_record_is_a_finding(key: KeyExtractor) -> None:
    pipeline, feed = numbers(Sum())
    (finding,) = examine(pipeline.with_computation("planted", inputs={"in": key}), feed)
    assert finding.habit is Habit.NOT_DETERMINISTIC
    assert "the key extractor of 'in' depends on more than the record" in finding.story()[0]


def test_a_failure_that_becomes_a_dead_letter_is_no_finding() -> None:
    assert examine(*numbers(Sum(fail), on_failure=DeadLetter("dead"))) == []


def test_a_never_ending_call_is_reported_with_its_line() -> None:
    def wait(context: Context, record: Record) -> None:
        while record.value == 13:
            pass

    with call_time_limited(CodeLimits(call_s=0.2)):
        (finding,) = examine(*numbers(Sum(wait)))
    assert finding.habit is Habit.NEVER_ENDS
    assert finding.feed.records == 1
    assert "record 13 of key 'b'" in finding.cause
    assert finding.place is not None
    assert "wait" in finding.place.function


def test_many_calls_in_time_are_not_interrupted() -> None:
    with call_time_limited(CodeLimits(call_s=0.5)):
        assert examine(*numbers(Sum(lambda context, record: time.sleep(0.005)))) == []


def asleep() -> None:
    time.sleep(60)


def test_sleeping_is_interrupted_as_well_as_computing() -> None:
    says = r"never ends: it has not after 0.2 s, at line \d+ of test_findings.py, in asleep"
    with pytest.raises(CodeOverrunError, match=says), call_time_limited(CodeLimits(call_s=0.2)):
        asleep()
