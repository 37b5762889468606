"""How user code's hooks are called (MillWheel 4.1, 4.6): what a record and a timer bring, and what they leave."""

import base64
import json

import pytest

from headrace import MAX_TIME, MIN_TIME, Clock, Computation, Context, DeadLetter, Pipeline, Record, Timer
from headrace.delivery.deployed import Deployed, deployed
from headrace.rules import RULES
from headrace.wire.keys import ALL_KEYS
from headrace.wire.messages import Assignment, Table
from headrace.wire.rows import Production, StoredTimer, Version
from headrace.worker.hooks import dead_letter, run_record, run_timer, stored_timers, timer_identity
from tests.core.driver import Scripted

LOW, NOW = 40, 7_000
VERSION = Version(3, 5)


def where_of(computation: Computation | None = None) -> Deployed:
    pipeline = Pipeline("clicks")
    pipeline.injector("feed", outputs=["clicks"])
    pipeline.add(
        computation or Computation(),
        name="counter",
        inputs=["clicks"],
        outputs=["counts", "side"],
        on_failure=DeadLetter("dead"),
    )
    assignments = (Assignment("counter", ALL_KEYS, 1, "worker-0", 1),)
    return deployed("counter", [pipeline], Table(1, 0, (), assignments))


def context_of() -> Context:
    return Context(where_of().spec, "dog", b"", 50, LOW, NOW, 50)


def incoming(timestamp: int = 50) -> Production:
    return Production("r1", "clicks", "counter", "dog", b'{"q":"cat"}', timestamp, origin=9)


@pytest.mark.parametrize("late", [True, False])
def test_a_record_arrives_with_all_its_attributes(late: bool) -> None:  # noqa: FBT001  a column
    seen: list[Record] = []
    where = where_of(Scripted(lambda _, record: seen.append(record)))
    run_record(where, "dog", b"", incoming(39), LOW, NOW, late=late)
    assert seen == [Record("dog", {"q": "cat"}, 39, "clicks", late, "r1")]


def timer_of(clock: Clock = Clock.WATERMARK, hold: int | None = None) -> StoredTimer:
    return StoredTimer("t", 60, clock, 70, overdue=True, hold=hold, set_by=VERSION, origin=9, set_at=35)


WALL_TIMER = timer_of(Clock.WALL)
HELD_TIMER = timer_of(Clock.WALL, hold=33)


@pytest.mark.parametrize(
    ("timer", "low", "produced_at"),
    [
        (timer_of(), LOW, 60),
        (timer_of(), MAX_TIME, 60),
        (HELD_TIMER, LOW, 33),
        (HELD_TIMER, MAX_TIME, 33),
        (WALL_TIMER, LOW, LOW),
        (WALL_TIMER, MIN_TIME, 35),
        (WALL_TIMER, MAX_TIME, 35),
    ],
    ids=[
        "watermark", "watermark after the end", "wall with hold", "wall with hold after the end", "wall", "wall, unknown",
        "wall after the end",
    ],
)  # fmt: skip
def test_a_timer_arrives_as_requested(timer: StoredTimer, low: int, produced_at: int) -> None:
    seen: list[Timer] = []

    def on_timer(context: Context, fired: Timer) -> None:
        seen.append(fired)
        context.produce("counts", 1)

    context = run_timer(where_of(Scripted(on_timer=on_timer)), "dog", b"", timer, low, NOW)
    assert seen == [Timer("t", 60, timer.clock)]
    assert [emission.timestamp for emission in context.emissions or ()] == [produced_at]


def test_a_wall_timer_without_a_hold_remembers_the_event_time_of_what_set_it() -> None:
    """Also of what set the timer that set it: a timer that keeps resetting itself never loses its place in event time."""

    def wind_up(context: Context, _: object) -> None:
        context.set_wall_timer("w", NOW + 9)
        context.set_wall_timer("held", NOW + 9, hold=44)
        context.set_timer("t", 70)

    def set_at(context: Context) -> dict[str, int]:
        timers = stored_timers(RULES, context, handler_time=LOW, now=NOW, set_by=VERSION, origin=9)
        return {tag: timer.set_at for tag, timer in timers.items() if timer is not None}

    where = where_of(Scripted(wind_up, wind_up))
    nothing = {"held": MIN_TIME, "t": MIN_TIME}
    by_record = run_record(where, "dog", b"", incoming(), LOW, NOW, late=False)
    assert set_at(by_record) == {"w": 50, **nothing}
    assert set_at(run_timer(where, "dog", b"", WALL_TIMER, MAX_TIME, NOW)) == {"w": 35, **nothing}
    assert set_at(run_timer(where, "dog", b"", HELD_TIMER, MAX_TIME, NOW)) == {"w": 33, **nothing}


def test_a_timer_is_named_by_the_write_that_set_it() -> None:
    assert timer_identity("counter", timer_of()) == "counter@3.5!t"


@pytest.mark.parametrize(
    ("clock", "at", "due", "overdue"),
    [
        (Clock.WATERMARK, 41, 41, False),
        (Clock.WATERMARK, 40, 40, True),
        (Clock.WATERMARK, 5, 40, True),
        (Clock.WALL, NOW + 1, NOW + 1, False),
        (Clock.WALL, NOW, NOW, True),
        (Clock.WALL, 50, NOW, True),
    ],
)
def test_a_timer_is_due_at_its_time_or_if_past_at_its_handlers(
    clock: Clock,
    at: int,
    due: int,
    overdue: bool,  # noqa: FBT001  a column of the table
) -> None:
    context = context_of()
    if clock is Clock.WATERMARK:
        context.set_timer("t", at)
    else:
        context.set_wall_timer("t", at, hold=44)
    hold = None if clock is Clock.WATERMARK else 44
    assert stored_timers(RULES, context, handler_time=LOW, now=NOW, set_by=VERSION, origin=9) == {
        "t": StoredTimer("t", at, clock, due, overdue, hold, VERSION, 9)
    }


def test_the_last_setting_of_a_tag_counts() -> None:
    context = context_of()
    for tag, at in (("a", 50), ("b", 60), ("a", None), ("b", 70), ("c", None), ("c", 80)):
        if at is None:
            context.cancel_timer(tag)
        else:
            context.set_timer(tag, at)
    timers = stored_timers(RULES, context, handler_time=LOW, now=NOW, set_by=VERSION, origin=9)
    assert {tag: timer and timer.timestamp for tag, timer in timers.items()} == {"a": None, "b": 70, "c": 80}
    assert stored_timers(RULES, context_of(), handler_time=LOW, now=NOW, set_by=VERSION, origin=9) == {}


def test_a_dead_letter_names_what_failed_where_and_carries_the_bytes() -> None:
    letter = dead_letter(where_of(), "dead", "dog", "r1", incoming(), 50, ValueError("no"))
    assert (letter.stream, letter.key, letter.timestamp) == ("dead", "dog", 50)
    assert json.loads(letter.value) == {
        "computation": "counter",
        "key": "dog",
        "cause": "r1",
        "stream": "clicks",
        "value_base64": base64.b64encode(b'{"q":"cat"}').decode(),
        "timestamp": 50,
        "error": "ValueError: no",
    }


def test_a_timers_dead_letter_has_no_value() -> None:
    letter = dead_letter(where_of(), "dead", "dog", "counter@3.5!t", None, 60, ValueError("no"))
    assert {json.loads(letter.value)[field] for field in ("stream", "value_base64")} == {None}
