"""The user's side (MillWheel 5.1): what a hook may do, and how the engine handles it."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from headrace import (
    MAX_TIME,
    MIN_TIME,
    BytesCodec,
    Clock,
    Codec,
    CodecError,
    Computation,
    Context,
    DeadLetter,
    Pipeline,
    Productions,
    Record,
    Timer,
    TypedCodec,
)
from headrace.api.specs import ComputationSpec
from headrace.delivery.deployed import Deployed, deployed
from headrace.rules import RULES
from headrace.wire.keys import ALL_KEYS
from headrace.wire.messages import Assignment, Table
from headrace.wire.rows import Production, StoredTimer, Version
from headrace.worker.hooks import (
    dead_letter,
    run_record,
    run_timer,
    stored_timers,
    timer_identity,
)
from tests.core.driver import Scripted

LOW, NOW = 40, 7_000
VERSION = Version(3, 5)


@dataclass
class Tally:
    n: int = 0


class Tallying(Computation):
    def initial_state(self) -> Tally:
        return Tally()


def spec_of(computation: Computation | None = None, state_codec: Codec | None = None) -> ComputationSpec:
    pipeline = Pipeline("clicks")
    pipeline.injector("feed", outputs=["clicks"])
    pipeline.stream("raw", BytesCodec())
    pipeline.add(
        computation or Computation(),
        name="counter",
        inputs=["clicks"],
        outputs=["counts", "raw"],
        state_codec=state_codec,
    )
    return pipeline.computations["counter"]


def context_of(
    state: bytes = b"", cause_us: int = 50, low: int = LOW, spec: ComputationSpec | None = None
) -> Context:
    return Context(spec or spec_of(), "dog", state, cause_us, low, NOW, cause_us)


# State


def test_a_key_without_state_has_the_initial_one() -> None:
    assert context_of().state == {}
    assert context_of(spec=spec_of(Tallying(), TypedCodec(Tally))).state == Tally(0)


def test_each_hook_gets_its_own_copy_of_the_state() -> None:
    first, second = context_of(b'{"n":[1]}'), context_of(b'{"n":[1]}')
    first.state["n"].append(2)
    assert (first.state, second.state) == ({"n": [1, 2]}, {"n": [1]})
    assert first.new_state() == b'{"n":[1,2]}'


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        (b"", lambda context: None, None),
        (b'{"n":1}', lambda context: None, None),
        (b'{"n":1}', lambda context: context.state, None),
        (b'{"n":1}', lambda context: context.state.update(n=1), None),
        (b'{"n":1}', lambda context: context.state.update(n=2), b'{"n":2}'),
        (b"", lambda context: context.state, None),
        (b"", lambda context: context.state.update(n=1), b'{"n":1}'),
        (b'{"n":1}', lambda context: context.state.clear(), b""),
        (b'{"n":1}', lambda context: context.clear_state(), b""),
        (b"", lambda context: context.clear_state(), None),
        (b'{"n":1}', lambda context: setattr(context, "state", [2]), b"[2]"),
    ],
    ids=[
        "none, untouched",
        "untouched",
        "looked at",
        "same again",
        "changed",
        "none, looked at",
        "first",
        "emptied",
        "cleared",
        "none, cleared",
        "assigned",
    ],
)
def test_the_state_is_written_if_it_changed(
    before: bytes, change: Callable[[Context], object], after: bytes | None
) -> None:
    context = context_of(before)
    change(context)
    assert context.new_state() == after


def test_a_state_encoded_as_empty_bytes_is_refused_since_that_means_none() -> None:
    class Starting(Computation):
        def initial_state(self) -> bytes:
            return b"beginning"

    context = context_of(spec=spec_of(Starting(), BytesCodec()))
    context.state = b""
    with pytest.raises(CodecError, match="reserved for the initial state"):
        context.new_state()


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda context: context.produce("counts", 1), True),
        (lambda context: context.key, True),
        (lambda context: (context.low_watermark, context.wall_time), True),
        (lambda context: context.state, False),
        (lambda context: context.set_timer("t", 1), False),
        (lambda context: context.cancel_timer("t"), False),
        (lambda context: context.set_wall_timer("t", 1), False),
        (lambda context: context.hold_watermark(1), False),
        (lambda context: context.clear_state(), False),
    ],
    ids=["produce", "key", "clocks", "state", "timer", "cancel", "wall timer", "hold", "clear"],
)
def test_a_hook_that_uses_neither_state_nor_timers_is_stateless(
    act: Callable[[Context], object],
    expected: bool,  # noqa: FBT001  a column of the table
) -> None:
    context = context_of()
    act(context)
    assert context.untouched is expected


def test_holds_are_set_released_and_dropped_with_the_state() -> None:
    context = context_of()
    seen = [context.new_hold]
    for hold in (30, None, 40):
        context.hold_watermark(hold)
        seen.append(context.new_hold)
    context.clear_state()
    seen.append(context.new_hold)
    assert seen == [None, 30, MAX_TIME, 40, MAX_TIME]


# Productions


@pytest.mark.parametrize(
    ("cause_us", "low", "asked", "expected"),
    [
        (50, 40, None, 50),
        (50, 40, 50, 50),
        (50, 40, 51, 51),
        (30, 40, None, 30),
        (MIN_TIME, 40, 3, 3),
    ],
    ids=["of cause", "equal", "later", "late cause", "no cause: any"],
)
def test_a_production_is_as_old_as_its_cause_or_younger(
    cause_us: int, low: int, asked: int | None, expected: int
) -> None:
    context = context_of(cause_us=cause_us, low=low)
    context.produce("counts", 1, timestamp=asked)
    assert [emission.timestamp for emission in context.emissions or ()] == [expected]


def test_a_production_is_encoded_at_once_with_its_streams_codec() -> None:
    context, value = context_of(), {"a": 1}
    context.produce("counts", value)
    context.produce("raw", b"\xff", key="other")
    value["a"] = 2
    assert [(emission.stream, emission.key, emission.value) for emission in context.emissions or ()] == [
        ("counts", "dog", b'{"a":1}'),
        ("raw", "other", b"\xff"),
    ]


def test_the_hooks_of_the_base_class_do_nothing() -> None:
    context = context_of()
    Computation().process_record(context, Record("dog", 1, 50))
    Computation().process_timer(context, Timer("t", 50))
    assert (context.untouched, context.emissions, Computation().initial_state()) == (True, None, {})


# Running it


def where_of(
    computation: Computation | None = None,
    productions: Productions = Productions.STRONG,
    *,
    present: tuple[str, ...] = ("counter", "sink"),
) -> Deployed:
    pipeline = Pipeline("clicks")
    pipeline.injector("feed", outputs=["clicks"])
    pipeline.add(
        computation or Computation(),
        name="counter",
        inputs=["clicks"],
        outputs=["counts", "side"],
        productions=productions,
        on_failure=DeadLetter("dead"),
    )
    pipeline.add(Computation(), name="sink", inputs=["counts"])
    pipeline.add(Computation(), name="sorter", inputs={"counts": lambda record: record.value.pop("by")})
    assignments = tuple(
        Assignment(name, ALL_KEYS, number, "worker-0", 1) for number, name in enumerate(present, 1)
    )
    return deployed("counter", [pipeline], Table(1, 0, (), assignments))


def incoming(timestamp: int = 50) -> Production:
    return Production("r1", "clicks", "counter", "dog", b'{"q":"cat"}', timestamp, origin=9)


@pytest.mark.parametrize("late", [True, False])
def test_a_record_arrives_with_all_its_attributes(late: bool) -> None:  # noqa: FBT001  a column
    seen: list[Record] = []
    where = where_of(Scripted(lambda _, record: seen.append(record)))
    run_record(where, "dog", b"", incoming(39), LOW, NOW, late=late)
    assert seen == [Record("dog", {"q": "cat"}, 39, "clicks", late, "r1")]


@pytest.mark.parametrize(("timestamp", "late"), [(39, True), (40, False), (41, False)])
def test_a_record_is_late_behind_the_low_watermark(timestamp: int, late: bool) -> None:  # noqa: FBT001  a column
    assert RULES.is_late(timestamp, LOW) is late


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
    found = stored_timers(RULES, context, handler_time=LOW, now=NOW, set_by=VERSION, origin=9)
    assert {tag: timer and timer.timestamp for tag, timer in found.items()} == {"a": None, "b": 70, "c": 80}
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
