"""User code and input that fail: retried, then reported to the user or sent to the dead letters; never dropped silently."""

from base64 import b64decode
from collections import Counter as Bag
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from headrace import (
    MILLISECOND,
    SECOND,
    CodecError,
    Computation,
    Context,
    DeadLetter,
    HeadraceError,
    KeyExtractorError,
    MalformedRecordError,
    Pipeline,
    Record,
    Timer,
    TimestampRegressionError,
    TypedCodec,
    UndeclaredOutputError,
    UserCodeError,
)
from headrace import history as h
from headrace.api.specs import Skip
from headrace_sim import Cluster, Feed, FeedBuilder, start
from headrace_sim import faults as f
from tests.sim.rig import CHECKED, CITIES, Run, assert_sound, city, letters, run, with_engine

AT = 2 * SECOND

Hook = Callable[[Context, Record], None]


class Fragile(Computation):
    """Does what a test says to records; timers with the tag ``bomb`` explode."""

    def __init__(self, on_record: Hook) -> None:
        self._on_record = on_record

    def process_record(self, context: Context, record: Record) -> None:
        self._on_record(context, record)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("out", timer.tag)
        if timer.tag == "bomb":
            raise ZeroDivisionError(timer.tag)


def fragile(on_record: Hook, **switches: object) -> Pipeline:
    pipeline = Pipeline("fragile")
    pipeline.injector("mail")
    pipeline.add(Fragile(on_record), name="fragile", inputs={"mail": city}, outputs=["out"], **switches)  # type: ignore[arg-type]
    return pipeline


def chokes_on(*bad: int) -> Hook:
    """User code that counts in its state, and raises on some letters after it has."""

    def handle(context: Context, record: Record) -> None:
        number = record.value["number"]
        context.state["seen"] = [*context.state.get("seen", []), number]
        context.produce("out", context.state["seen"])
        context.set_timer("bell", record.timestamp + SECOND)
        if number in bad:
            raise ValueError(f"letter {number} cannot be read")

    return handle


def stopped(pipeline: Pipeline, feed: Feed) -> tuple[Cluster, HeadraceError]:
    """Run until it stops with an error."""
    cluster = start(pipeline, feed, options=CHECKED)
    with pytest.raises(HeadraceError) as caught:
        cluster.run_to_the_end()
    return cluster, caught.value


def failures(done: Run | Cluster) -> list[h.UserCodeFailed]:
    return [event for event in done.history if isinstance(event, h.UserCodeFailed)]


# Stop


def test_code_that_raises_is_retried_and_then_stops_the_run() -> None:
    pipeline = fragile(chokes_on(17))
    cluster, error = stopped(pipeline, letters(pipeline))
    assert isinstance(error, UserCodeError)
    assert (error.computation, error.key, error.attempts) == ("fragile", CITIES[17 * 3 % 5], 3)
    event = next(
        e for e in cluster.history if isinstance(e, h.Injected) and b'"number":17' in e.productions[0].value
    )
    assert error.record_id == event.productions[0].record_id
    for part in (error.record_id, "fragile", error.key, "ValueError: letter 17 cannot be read", "in handle"):
        assert part in str(error)


def test_retries_are_a_pause_apart_and_leave_no_trace() -> None:
    pipeline = fragile(chokes_on(17))
    cluster, _ = stopped(pipeline, letters(pipeline))
    tries = failures(cluster)
    assert [event.attempt for event in tries] == [1, 2, 3]
    pauses = [second.at_us - first.at_us for first, second in pairwise(tries)]
    assert all(50 * MILLISECOND <= pause < 120 * MILLISECOND for pause in pauses)
    cause = tries[0].cause
    assert cause not in {e.cause for e in cluster.history if isinstance(e, h.Executed)}
    assert cause not in {
        record_id for e in cluster.history if isinstance(e, h.Applied) for record_id, _ in e.delta.seen
    }


def test_a_run_that_has_stopped_stays_stopped() -> None:
    pipeline = fragile(chokes_on(17))
    cluster, error = stopped(pipeline, letters(pipeline))
    now = cluster.kernel.now
    with pytest.raises(UserCodeError) as caught:
        cluster.advance(SECOND)
    assert caught.value is error
    assert cluster.kernel.now == now


def test_the_number_of_attempts_is_an_option() -> None:
    pipeline = fragile(chokes_on(17))
    cluster = start(pipeline, letters(pipeline), options=with_engine(user_code_attempts=1))
    with pytest.raises(UserCodeError, match="failed once"):
        cluster.run_to_the_end()


def test_code_that_fails_twice_and_then_succeeds_has_run_once() -> None:
    """A service that it asks is down for a while: the third attempt counts, and nothing of the first two."""
    down = Bag({5: 2, 17: 1, 18: 2})

    def ask(context: Context, record: Record) -> None:
        number = record.value["number"]
        context.state["seen"] = [*context.state.get("seen", []), number]
        context.produce("out", number)
        if down[number]:
            down[number] -= 1
            raise ConnectionError(number)

    pipeline = fragile(ask)
    done = run(pipeline, letters(pipeline))
    assert_sound(done)
    assert len(failures(done)) == 5
    assert done.outputs == {("out", str(number).encode()): 1 for number in range(60)}
    state = next(
        e.delta.state for e in reversed(done.all(h.Applied)) if e.delta.key == "arco" and e.delta.state
    )
    assert sorted(msgspec.json.decode(bytes(state))["seen"]) == list(range(0, 60, 5))


def test_a_timer_that_raises_is_named_as_what_failed() -> None:
    def plant(context: Context, record: Record) -> None:
        context.set_timer("bomb", record.timestamp)

    pipeline = fragile(plant)
    _, error = stopped(pipeline, letters(pipeline, 1))
    assert isinstance(error, UserCodeError)
    assert error.record_id.startswith("fragile@")
    assert error.record_id.endswith("!bomb")
    assert "ZeroDivisionError: bomb" in str(error)


# Our own errors, in user code's calls: final at once


def undeclared(context: Context, record: Record) -> None:
    context.produce("elsewhere", 1)


def regressing(context: Context, record: Record) -> None:
    context.produce("out", 1, timestamp=record.timestamp - 1)


def unwritable(context: Context, record: Record) -> None:
    context.produce("out", object())


def unwritable_state(context: Context, record: Record) -> None:
    context.state["x"] = object()


@pytest.mark.parametrize(
    ("hook", "kind", "named"),
    [
        (undeclared, UndeclaredOutputError, "'elsewhere'"),
        (regressing, TimestampRegressionError, "older than the record"),
        (unwritable, CodecError, "stream 'out', produced by 'fragile' for key 'arco'"),
        (unwritable_state, CodecError, "state of 'fragile', key 'arco'"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_misuse_of_the_api_stops_at_the_first_attempt(
    hook: Hook, kind: type[HeadraceError], named: str
) -> None:
    pipeline = fragile(hook)
    cluster, error = stopped(pipeline, letters(pipeline, 1))
    assert type(error) is kind
    assert named in str(error)
    assert [event.attempt for event in failures(cluster)] == [1]


# Codecs that do not match


class Letter(msgspec.Struct):
    """What a typed stream carries."""

    city: str
    number: int


def test_a_production_that_the_streams_codec_refuses_is_named() -> None:
    def count(context: Context, record: Record) -> None:
        context.produce("out", {"city": record.value["city"], "number": "many"})

    pipeline = fragile(count)
    pipeline.stream("out", TypedCodec(Letter))
    _, error = stopped(pipeline, letters(pipeline, 1))
    assert isinstance(error, CodecError)
    assert (error.where, error.action) == ("stream 'out', produced by 'fragile' for key 'arco'", "write")
    assert "Expected `int`, got `str` - at `$.number`" in error.reason


def test_a_consumer_that_reads_with_another_codec_than_its_producer_wrote_is_named() -> None:
    """The producer's bytes were written before the stream was given its type: a feed of another version."""
    old = fragile(chokes_on())
    builder = FeedBuilder(old)
    builder.record(at_us=AT, value={"city": "arco", "number": "many"}, timestamp=AT)
    new = Pipeline("fragile")
    new.injector("mail")
    new.stream("mail", TypedCodec(Letter))
    new.add(Fragile(chokes_on()), name="fragile", inputs=["mail"], outputs=["out"])
    _, error = stopped(new, builder.build())
    assert isinstance(error, MalformedRecordError | CodecError)
    assert "mail" in str(error)
    assert "$.number" in str(error)


# Dead letters


def letters_of(done: Run, stream: str) -> list[Any]:
    return [msgspec.json.decode(value) for name, value in done.outputs.elements() if name == stream]


@pytest.mark.parametrize("faulty", [False, True], ids=["calm", "with faults"])
def test_dead_letters_carry_what_failed_and_everything_else_continues(faulty: bool) -> None:  # noqa: FBT001  a parameter of the test
    pipeline = fragile(chokes_on(17, 33), on_failure=DeadLetter("dead"))
    faults: list[f.AnyFault] = [
        f.Crash(at_us=AT, process="worker-0", restart_after_us=300 * MILLISECOND),
        f.Pause(at_us=3 * SECOND, process="worker-1", for_us=2 * SECOND),
        f.Noise(at_us=SECOND, for_us=3 * SECOND, drop=0.2, duplicate=0.2, delay=0.2, delay_us=SECOND),
    ]
    done = run(pipeline, letters(pipeline), *(faults if faulty else []))
    assert_sound(done)
    dead = letters_of(done, "dead")
    values = [msgspec.json.decode(b64decode(str(letter["value_base64"]))) for letter in dead]
    assert sorted(value["number"] for value in values) == [17, 33]
    assert {str(letter["error"]) for letter in dead} == {
        "ValueError: letter 17 cannot be read",
        "ValueError: letter 33 cannot be read",
    }
    assert {letter["key"] for letter in dead} == {CITIES[17 * 3 % 5], CITIES[33 * 3 % 5]}
    seen = {number for value in letters_of(done, "out") if isinstance(value, list) for number in value}
    assert seen == set(range(60)) - {17, 33}
    if not faulty:
        assert {event.cause for event in done.all(h.DeadLettered)} == {letter["cause"] for letter in dead}


def test_a_failure_dismissed_by_an_operator_is_a_dead_letter_and_others_still_stop_the_run() -> None:
    pipeline = fragile(chokes_on(17))
    _, error = stopped(pipeline, letters(pipeline))
    assert isinstance(error, UserCodeError)
    policy = Skip("dead", frozenset({error.record_id}))
    pipeline = fragile(chokes_on(17), on_failure=policy)
    (letter,) = letters_of(run(pipeline, letters(pipeline)), "dead")
    assert (letter["cause"], letter["error"]) == (error.record_id, "ValueError: letter 17 cannot be read")
    pipeline = fragile(chokes_on(17, 33), on_failure=policy)
    _, other = stopped(pipeline, letters(pipeline))
    assert "letter 33 cannot be read" in str(other)


def test_the_dead_letters_of_a_computation_can_be_consumed() -> None:
    pipeline = fragile(chokes_on(17), on_failure=DeadLetter("dead"))
    heard: list[str] = []

    def hear(context: Context, record: Record) -> None:
        heard.append(record.value["error"])
        context.produce("heard", record.value["cause"])

    pipeline.add(Fragile(hear), name="undertaker", inputs=["dead"], outputs=["heard"])
    done = run(pipeline, letters(pipeline))
    assert_sound(done)
    assert heard == ["ValueError: letter 17 cannot be read"]
    assert len(letters_of(done, "heard")) == 1


def test_a_timer_that_keeps_failing_becomes_a_dead_letter_and_is_gone() -> None:
    def plant(context: Context, record: Record) -> None:
        context.set_timer("bomb" if record.value["number"] == 0 else "bell", record.timestamp + SECOND)

    pipeline = fragile(plant, on_failure=DeadLetter("dead"))
    done = run(pipeline, letters(pipeline, 2))
    assert_sound(done)
    (letter,) = letters_of(done, "dead")
    assert str(letter["cause"]).endswith("!bomb")
    assert (letter["error"], letter["value_base64"]) == ("ZeroDivisionError: bomb", None)
    assert done.outputs["out", b'"bell"'] == 1


# What comes from outside


def malformed_feed(pipeline: Pipeline) -> Feed:
    builder = FeedBuilder(pipeline)
    builder.record(at_us=AT, value={"city": "arco", "number": 0}, timestamp=AT)
    builder.raw(at_us=AT + 10 * MILLISECOND, data=b'{"city":', timestamp=AT)
    builder.record(at_us=AT + 20 * MILLISECOND, value={"town": "riva", "number": 2}, timestamp=AT)
    builder.record(at_us=AT + 30 * MILLISECOND, value={"city": 7, "number": 3}, timestamp=AT)
    builder.record(at_us=AT + 40 * MILLISECOND, value={"city": "riva", "number": 4}, timestamp=AT)
    return builder.build()


def test_a_malformed_record_stops_the_run_and_says_which() -> None:
    pipeline = fragile(chokes_on())
    cluster, error = stopped(pipeline, malformed_feed(pipeline))
    assert isinstance(error, MalformedRecordError)
    assert (error.injector, error.stream, error.offset) == ("mail/0", "mail", 1)
    assert AT + 10 * MILLISECOND <= cluster.kernel.now < AT + 20 * MILLISECOND
    assert str(error).startswith("injector 'mail/0', record 1 for stream 'mail': ")


def test_malformed_records_become_dead_letters_and_the_others_continue() -> None:
    pipeline = Pipeline("fragile")
    pipeline.injector("mail", on_malformed=DeadLetter("dead"))
    pipeline.add(Fragile(chokes_on()), name="fragile", inputs={"mail": city}, outputs=["out"])
    done = run(pipeline, malformed_feed(pipeline))
    assert_sound(done)
    dead = sorted(str(letter["error"]) for letter in letters_of(done, "dead"))
    assert len(dead) == 3
    assert any("KeyError: 'city'" in error for error in dead)
    assert any("returned 7 (int)" in error for error in dead)
    assert [event.process for event in done.all(h.DeadLettered)] == ["mail/0"] * 3
    assert {("out", b"[0]"), ("out", b"[4]")} <= done.outputs.keys()


def test_a_key_extractor_that_fails_between_two_computations_is_named() -> None:
    def drop_city(context: Context, record: Record) -> None:
        context.produce("out", {"number": record.value["number"]})

    pipeline = fragile(drop_city)
    pipeline.add(Fragile(chokes_on()), name="second", inputs={"out": city}, outputs=["out 2"])
    _, error = stopped(pipeline, letters(pipeline, 1))
    assert isinstance(error, KeyExtractorError)
    assert (error.computation, error.stream) == ("second", "out")
    assert "KeyError: 'city'" in str(error)
