"""What can go wrong for a user: one clear error each, that says what was wrong, where, and what to do."""

import base64
import copy
import inspect
import json
import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import headrace
from headrace import (
    MAX_TIME,
    MIN_TIME,
    CodecError,
    Computation,
    Context,
    ContextArgumentError,
    CycleError,
    DeadLetter,
    DuplicateNameError,
    EngineOptions,
    HeadraceError,
    HistoryFormatError,
    JsonCodec,
    KeyExtractorError,
    MalformedRecordError,
    NoSourceError,
    OptionsError,
    PickleCodec,
    Pipeline,
    PipelineError,
    Record,
    Timer,
    TimestampRegressionError,
    TypedCodec,
    UndeclaredOutputError,
    UnknownStreamError,
    UserCodeError,
)
from headrace.history import DeadLettered, History, UserCodeFailed
from headrace.injector.injector import Injector
from headrace.wire.effects import Halt, SourceRecord, Start, Wake
from headrace.wire.keys import ALL_KEYS
from headrace.wire.messages import Claimed, MintChange, Peeked, Table, Write
from headrace.wire.rows import Production, RowDelta
from headrace_properties.reference import run_reference
from headrace_sim import FeedBuilder, simulate
from tests.core.driver import (
    QUIET,
    WORKER,
    Rig,
    Scripted,
    ack,
    click,
    counter,
    halt_of,
    result,
    sent,
    watermark,
)

RETRY_US = 100
RETRYING = replace(QUIET, user_code_attempts=3, user_code_retry_us=RETRY_US, sweep_period_us=50)


# Errors as values

EVERY_ERROR: list[HeadraceError] = [
    PipelineError("p", "problem", "Remedy"),
    UnknownStreamError("p", "problem", "Remedy"),
    CycleError("p", "problem", "Remedy"),
    DuplicateNameError("p", "problem", "Remedy"),
    NoSourceError("p", "problem", "Remedy"),
    CodecError("stream 's'", "JsonCodec()", "write", "TypeError"),
    KeyExtractorError("c", "s", "returned 5 (int)"),
    MalformedRecordError("feed", "s", 17, "no field 'query'"),
    UndeclaredOutputError("c", "s", ("a", "b")),
    TimestampRegressionError("c", "k", 5, 10),
    ContextArgumentError("c", "k", "produce", "key", 5, "a str"),
    UserCodeError("c", "k", "r1", 3, "Traceback ..."),
    OptionsError("retry_us", -1, "at least 1"),
    HistoryFormatError("history", "path", "reason"),
]


def errors_below(kind: type[HeadraceError]) -> list[type[HeadraceError]]:
    """Return the engine's own errors; others, such as the Spark host's, may be loaded in the same process."""
    own = [child for child in kind.__subclasses__() if child.__module__ == "headrace.api.errors"]
    return [kind, *(below for child in own for below in errors_below(child))]


def test_the_list_of_errors_is_complete_and_users_can_catch_them_all() -> None:
    assert {type(error) for error in EVERY_ERROR} | {HeadraceError} == set(errors_below(HeadraceError))
    assert all(getattr(headrace, type(error).__name__) is type(error) for error in EVERY_ERROR)


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
def test_an_error_survives_being_rebuilt_pickled_and_copied(error: HeadraceError) -> None:
    rebuilt = type(error)(*error.args)
    pickled = pickle.loads(pickle.dumps(error))  # noqa: S301  our own bytes
    for again in (rebuilt, pickled, copy.deepcopy(error)):
        assert type(again) is type(error)
        assert (again.args, str(again), vars(again)) == (error.args, str(error), vars(error))


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
def test_a_message_shows_every_field_and_fits_the_screen(error: HeadraceError) -> None:
    message = str(error)
    for value in error.args:
        parts = value if isinstance(value, tuple) else (value,)
        assert all(str(part) in message for part in parts)
    assert len(message) < 300
    assert set(vars(error)) == set(inspect.signature(type(error)).parameters), (
        "the fields can be read by name"
    )


# A record that the injector cannot accept


def base() -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.injector("feed", outputs=["clicks"])
    return pipeline


def injector(pipeline: Pipeline) -> Injector:
    made = Injector(pipeline.injectors["feed"], 0, (pipeline,), EngineOptions(), History())
    first = (1 << 32) + 1
    for event in (Start(1), Peeked(first, 0, 0), Claimed(first + 1, 1, (), 17, Table(1))):
        made.handle(0, event)
    return made


@pytest.mark.parametrize(
    ("value", "timestamp", "stream", "reason"),
    [
        (b"{", 10, "clicks", "bytes b'{'"),
        (b'{"user":"bo"}', 10, "clicks", "KeyError: 'query'"),
        (b'{"query":5}', 10, "clicks", "returned 5 (int)"),
        (b'{"query":"cat"}', MAX_TIME + 1, "clicks", "between MIN_TIME and MAX_TIME"),
        (b'{"query":"cat"}', MAX_TIME, "clicks", "between MIN_TIME and MAX_TIME"),
        (b'{"query":"cat"}', MIN_TIME, "clicks", "between MIN_TIME and MAX_TIME"),
        (b'{"query":"cat"}', 10, "clocks", "clocks"),
    ],
    ids=[
        "unreadable",
        "without its key",
        "with a key of another type",
        "after the end of time",
        "at the end of time",
        "at the beginning of time",
        "for an unknown stream",
    ],
)
def test_a_malformed_record_is_named_by_its_place_in_the_source(
    value: bytes, timestamp: int, stream: str, reason: str
) -> None:
    pipeline = base()
    pipeline.add(Computation(), name="counter", inputs={"clicks": lambda record: record.value["query"]})
    (halt,) = injector(pipeline).handle(1, SourceRecord(17, stream, "", value, timestamp))
    assert isinstance(halt, Halt)
    assert isinstance(halt.error, MalformedRecordError)
    assert (halt.error.injector, halt.error.stream, halt.error.offset) == ("feed/0", stream, 17)
    assert reason in str(halt.error)
    assert "Fix the source, or give the injector on_malformed=DeadLetter(stream)" in str(halt.error)


# Codecs that do not fit


def test_a_production_that_the_streams_codec_refuses_stops_the_run_with_stream_producer_and_key() -> None:
    pipeline = counter(Scripted(lambda context, _: context.produce("counts", {"n": "many"})))
    pipeline.stream("counts", TypedCodec(dict[str, int]))
    error = halt_of(Rig(pipeline).feed(click("r1")))
    assert isinstance(error, CodecError)
    assert (error.where, error.action) == ("stream 'counts', produced by 'counter' for key 'dog'", "write")
    assert "Expected `int`, got `str` - at `$[...]`" in error.reason


def test_a_record_that_the_streams_codec_cannot_read_stops_the_run_with_stream_consumer_and_record() -> None:
    pipeline = counter()
    pipeline.stream("clicks", TypedCodec(dict[str, int]))
    error = halt_of(Rig(pipeline).feed(click("r1", value="text")))
    assert isinstance(error, CodecError)
    assert (error.where, error.action) == ("stream 'clicks', consumed by 'counter', record r1", "read")


def typed_state(hook: Callable[[Context], object]) -> Pipeline:
    class Typed(Scripted):
        def initial_state(self) -> dict[str, int]:
            return {}

    pipeline = base()
    computation = Typed(lambda context, _: (hook(context), None)[1])
    pipeline.add(computation, name="counter", inputs=["clicks"], state_codec=TypedCodec(dict[str, int]))
    return pipeline


def test_a_state_that_its_codec_refuses_stops_the_run_with_computation_and_key() -> None:
    error = halt_of(Rig(typed_state(lambda context: context.state.update(n="many"))).feed(click("r1")))
    assert isinstance(error, CodecError)
    assert (error.where, error.action) == ("state of 'counter', key 'dog'", "write")


def test_a_stored_state_that_its_codec_cannot_read_stops_the_run_with_computation_and_key() -> None:
    """Another version of the pipeline has left a state that this one cannot read."""
    rig = Rig(typed_state(lambda context: context.state))
    rig.shop.store(Write(0, "counter", 1, (RowDelta("dog", 1, state=b'{"n":"many"}'),)))
    rig.shop.mint(MintChange("counter", ALL_KEYS, WORKER, 1))
    rig.settle(rig.shop.table)
    error = halt_of(rig.feed(click("r1")))
    assert isinstance(error, CodecError)
    assert (error.where, error.action) == ("state of 'counter', key 'dog'", "read")


# User code that raises


def failing(context: Context, record: Record) -> None:
    """Fail on every record but the good ones."""
    context.state["tried"] = True
    context.set_timer("t", 99)
    context.produce("counts", "never")
    if record.record_id != "good":
        raise ValueError("no such query")


def failing_pipeline(
    policy: DeadLetter | None = None, on_timer: Callable[[Context, Timer], None] | None = None
) -> Pipeline:
    return counter(Scripted(failing, on_timer)).with_computation(
        "counter", on_failure=policy or headrace.Stop()
    )


def test_user_code_that_raises_is_run_again_after_a_pause_and_then_stops_the_run() -> None:
    """Three attempts, a pause between them, and no trace of any in the store; then the run halts."""
    rig = Rig(failing_pipeline(), options=RETRYING)
    assert rig.feed(click("r1")) == []
    for at, runs in ((RETRY_US // 2, 1), (RETRY_US, 2)):
        assert rig.wake(at) == []
        assert rig.worker.user_code_runs == runs
    error = halt_of(rig.wake(3 * RETRY_US))
    assert isinstance(error, UserCodeError)
    assert error.args[:4] == ("counter", "dog", "r1", 3)
    assert "computation 'counter', key 'dog': user code failed 3 times on r1" in str(error)
    assert 'raise ValueError("no such query")\nValueError: no such query' in error.traceback
    assert "DeadLetter" in str(error)
    assert rig.shop.row("dog") is None
    assert rig.shop.of(UserCodeFailed) == [
        UserCodeFailed(0, WORKER, "counter", "dog", "r1", attempt, "ValueError: no such query")
        for attempt in (1, 2, 3)
    ]


def test_while_a_key_backs_off_its_records_wait_and_other_keys_continue() -> None:
    rig = Rig(failing_pipeline(), options=RETRYING)
    rig.feed(click("r1"))
    assert rig.feed(click("r2")) == []
    assert rig.worker.user_code_runs == 1
    assert rig.settle(click("good", "cat"))[0] == ack("good")


def test_a_key_does_not_back_off_for_longer_when_the_clock_is_put_back() -> None:
    rig = Rig(failing_pipeline(), options=RETRYING)
    rig.now = 10**9
    rig.feed(Wake())
    rig.feed(click("r1"))
    for at in (0, RETRY_US, 2 * RETRY_US):
        rig.wake(at)
    assert rig.worker.user_code_runs > 1


def test_user_code_that_succeeds_in_the_end_has_run_once() -> None:
    failures = iter([True, True, False])

    def flaky(context: Context, record: Record) -> None:
        context.state["runs"] = context.state.get("runs", 0) + 1
        context.produce("counts", context.state["runs"])
        if next(failures):
            raise OSError(5)

    rig = Rig(counter(Scripted(flaky)), options=RETRYING)
    rig.feed(click("r1"))
    rig.wake(RETRY_US)
    assert rig.wake(2 * RETRY_US) == [ack("r1"), sent(result("counter@1.3#0", 1))]
    assert rig.shop.state("dog") == {"runs": 1}


def test_what_succeeded_before_a_failure_of_the_same_step_is_kept() -> None:
    """Three records of a key wait; the second one fails: the first is committed, and the third waits behind the second."""
    rig = Rig(failing_pipeline(), options=replace(RETRYING, commit_batch=8))
    rig.feed(click("good"))
    for record_id in ("bad", "waiting"):
        rig.feed(click(record_id))
    effects = rig.settle(rig.shop.store(rig.open.pop()))
    assert effects[0] == ack("good")
    assert [event.cause for event in rig.shop.history if isinstance(event, UserCodeFailed)] == ["bad"]
    assert rig.shop.state("dog") == {"tried": True}


def letter_of(production: Production) -> dict[str, Any]:
    letter: dict[str, Any] = json.loads(production.value)
    return letter


def test_with_a_dead_letter_policy_the_record_goes_there_and_the_key_continues() -> None:
    rig = Rig(failing_pipeline(DeadLetter("dead")), options=RETRYING)
    rig.feed(click("r1", timestamp=44, origin=3, value={"q": "cat"}))
    rig.feed(click("good"))
    rig.wake(RETRY_US)
    rig.feed(Wake(), at=2 * RETRY_US)
    (delta,) = rig.write().deltas
    (letter,) = delta.productions
    assert (delta.seen, delta.state, delta.set_timers) == ((("r1", 3),), None, ())
    assert (letter.stream, letter.consumer, letter.key, letter.timestamp, letter.origin) == (
        "dead",
        "",
        "dog",
        44,
        3,
    )
    assert letter_of(letter) == {
        "computation": "counter",
        "key": "dog",
        "cause": "r1",
        "stream": "clicks",
        "value_base64": base64.b64encode(b'{"q":"cat"}').decode(),
        "timestamp": 44,
        "error": "ValueError: no such query",
    }
    assert rig.answer()[:2] == [ack("r1"), sent(letter)]
    assert rig.shop.of(DeadLettered) == [DeadLettered(0, WORKER, "counter", "r1", "dead")]
    rig.answer()
    assert rig.shop.state("dog") == {"tried": True}


def test_a_timer_that_keeps_failing_goes_to_the_dead_letters_too() -> None:
    def on_timer(context: Context, timer: Timer) -> None:
        raise LookupError(timer.tag)

    rig = Rig(failing_pipeline(DeadLetter("dead"), on_timer), options=replace(RETRYING, user_code_attempts=1))
    rig.settle(click("good"))
    rig.feed(watermark(100, horizon=0))
    (delta,) = rig.write().deltas
    assert [timer.tag for timer in delta.fired] == ["t"]
    letter = letter_of(delta.productions[0])
    assert (letter["cause"], letter["error"], letter["value_base64"], letter["timestamp"]) == (
        "counter@1.1!t", "LookupError: t", None, 99,
    )  # fmt: skip
    rig.answer()
    assert rig.settle(watermark(200, horizon=0)) == [], "it is removed as if it had fired"


@pytest.mark.parametrize(("low", "stamp"), [(None, 10), (40, 40), (MAX_TIME, 10)])
def test_a_wall_timers_dead_letter_is_stamped_as_its_productions_would_be(
    low: int | None, stamp: int
) -> None:
    def on_timer(context: Context, timer: Timer) -> None:
        raise LookupError(timer.tag)

    alarm = Scripted(lambda context, _: context.set_wall_timer("w", 70), on_timer)
    pipeline = counter(alarm).with_computation("counter", on_failure=DeadLetter("dead"))
    rig = Rig(pipeline, options=replace(RETRYING, user_code_attempts=1))
    rig.settle(click("r1", timestamp=10))
    if low is not None:
        rig.settle(watermark(low, horizon=0))
    rig.feed(Wake(), at=70)
    (letter,) = rig.write().deltas[0].productions
    assert (letter.timestamp, letter_of(letter)["timestamp"]) == (stamp, stamp)


def test_a_timer_that_keeps_failing_stops_the_run_with_its_identity() -> None:
    def on_timer(context: Context, timer: Timer) -> None:
        raise LookupError(timer.tag)

    rig = Rig(failing_pipeline(on_timer=on_timer), options=replace(RETRYING, user_code_attempts=1))
    rig.settle(click("good"))
    error = halt_of(rig.feed(watermark(100, horizon=0)))
    assert isinstance(error, UserCodeError)
    assert error.args[:4] == ("counter", "dog", "counter@1.1!t", 1)


# Calls that can never succeed are not retried


def only_halt(hook: Callable[[Context], object], pipeline: Pipeline | None = None) -> Exception:
    """Return the error that stops the run at the first attempt."""
    computation = Scripted(lambda context, _: (hook(context), None)[1])
    rig = Rig(pipeline or counter(computation), options=RETRYING)
    error = halt_of(rig.feed(click("r1", timestamp=10)))
    assert rig.worker.user_code_runs == 1
    assert rig.shop.row("dog") is None
    return error


def test_an_undeclared_output_is_named_with_those_that_are_declared() -> None:
    error = only_halt(lambda context: context.produce("count", 1))
    assert isinstance(error, UndeclaredOutputError)
    assert error.args == ("counter", "count", ("counts",))
    assert "Add it to outputs=" in str(error)


def test_user_code_cannot_produce_to_a_stream_for_dead_letters() -> None:
    pipeline = counter(Scripted(lambda context, _: context.produce("dead", 1)))
    rig = Rig(pipeline.with_computation("counter", on_failure=DeadLetter("dead")))
    rig.feed(click("r1"))
    (letter,) = rig.write().deltas[0].productions
    assert letter_of(letter)["error"].startswith(
        "UndeclaredOutputError: computation 'counter' produced to stream 'dead'"
    )


def test_a_production_older_than_its_cause_is_named_with_both_times() -> None:
    error = only_halt(lambda context: context.produce("counts", 1, timestamp=9))
    assert isinstance(error, TimestampRegressionError)
    assert error.args == ("counter", "dog", 9, 10)


def test_a_production_older_than_its_timer_is_named_with_both_times() -> None:
    def on_timer(context: Context, timer: Timer) -> None:
        context.produce("counts", 1, timestamp=49)

    rig = Rig(counter(Scripted(lambda context, _: context.set_timer("t", 50), on_timer)))
    rig.settle(click("r1"))
    error = halt_of(rig.feed(watermark(60, horizon=0)))
    assert error.args == ("counter", "dog", 49, 50)


def consumed_by(extractor: Callable[[Record], Any]) -> Pipeline:
    pipeline = counter()
    pipeline.add(Computation(), name="sink", inputs={"counts": extractor})
    return pipeline


@pytest.mark.parametrize(
    ("extractor", "reason"),
    [
        (lambda record: record.value["query"], "TypeError: 'int' object is not subscriptable (value 1)"),
        (lambda record: record.value, "returned 1 (int)"),
        (lambda record: None, "returned None (NoneType)"),
        (lambda record: b"dog", "returned b'dog' (bytes)"),
    ],
    ids=["fails", "int", "none", "bytes"],
)
def test_a_key_extractor_that_fails_or_gives_no_str_is_named_with_its_stream(
    extractor: Callable[[Record], Any], reason: str
) -> None:
    error = only_halt(lambda context: None, consumed_by(extractor))
    assert isinstance(error, KeyExtractorError)
    assert error.args == ("sink", "counts", reason)
    assert "It must take a Record and return its key as a str" in str(error)


def test_a_dead_letter_is_written_with_its_streams_codec_and_consumed_with_it() -> None:
    pipeline = failing_pipeline(DeadLetter("dead"))
    pipeline.stream("dead", PickleCodec())
    pipeline.add(Computation(), name="undertaker", inputs={"dead": lambda record: record.value["cause"]})
    rig = Rig(pipeline, options=replace(RETRYING, user_code_attempts=1))
    rig.feed(click("r1"))
    (letter,) = rig.write().deltas[0].productions
    assert (letter.consumer, letter.key) == ("undertaker", "r1")
    assert PickleCodec().decode(letter.value)["error"] == "ValueError: no such query"


class FussyCodec:
    """Refuses what no validation can foresee."""

    def encode(self, value: Any) -> bytes:
        if "no such query" in value["error"]:
            raise ValueError(value["error"])
        return JsonCodec().encode(value)

    def decode(self, data: bytes) -> Any:
        return JsonCodec().decode(data)


def test_a_dead_letter_that_its_codec_refuses_stops_the_run() -> None:
    pipeline = failing_pipeline(DeadLetter("dead"))
    pipeline.stream("dead", FussyCodec())
    rig = Rig(pipeline, options=replace(RETRYING, user_code_attempts=1))
    error = halt_of(rig.feed(click("r1")))
    assert isinstance(error, CodecError)
    assert error.where == "stream 'dead', dead letters of 'counter'"


def test_a_dead_letter_that_cannot_be_keyed_stops_the_run() -> None:
    pipeline = failing_pipeline(DeadLetter("dead"))
    pipeline.add(Computation(), name="undertaker", inputs={"dead": lambda record: record.value["query"]})
    rig = Rig(pipeline, options=replace(RETRYING, user_code_attempts=1))
    assert isinstance(halt_of(rig.feed(click("r1"))), KeyExtractorError)


class OneWay:
    """A codec that writes what it cannot read."""

    def encode(self, value: Any) -> bytes:
        return JsonCodec().encode(value)

    def decode(self, data: bytes) -> Any:
        raise ValueError("one way")

    def __repr__(self) -> str:
        return "OneWay()"


def test_a_codec_that_cannot_read_what_it_wrote_is_named_where_a_key_is_extracted() -> None:
    pipeline = consumed_by(lambda record: "key")
    pipeline.stream("counts", OneWay())
    assert isinstance(only_halt(lambda context: None, pipeline), CodecError)


@pytest.mark.parametrize(
    ("hook", "call", "argument"),
    [
        (lambda context: context.set_timer("t", None), "set_timer", "at"),
        (lambda context: context.set_timer("t", 1.5), "set_timer", "at"),
        (lambda context: context.set_timer("t", MAX_TIME + 1), "set_timer", "at"),
        (lambda context: context.set_timer("t", MAX_TIME), "set_timer", "at"),
        (lambda context: context.set_timer("t", MIN_TIME), "set_timer", "at"),
        (lambda context: context.set_timer(5, 10), "set_timer", "tag"),
        (lambda context: context.set_wall_timer("t", None), "set_wall_timer", "at"),
        (lambda context: context.set_wall_timer("t", 10, hold="10"), "set_wall_timer", "hold"),
        (lambda context: context.set_wall_timer("t", 10, hold=MAX_TIME), "set_wall_timer", "hold"),
        (lambda context: context.hold_watermark("10"), "hold_watermark", "timestamp"),
        (lambda context: context.hold_watermark(MAX_TIME), "hold_watermark", "timestamp"),
        (lambda context: context.hold_watermark(MIN_TIME), "hold_watermark", "timestamp"),
        (lambda context: context.produce("counts", 1, timestamp=10.5), "produce", "timestamp"),
        (lambda context: context.produce("counts", 1, timestamp=MAX_TIME + 1), "produce", "timestamp"),
        (lambda context: context.produce("counts", 1, timestamp=MAX_TIME), "produce", "timestamp"),
        (lambda context: context.produce("counts", 1, key=0), "produce", "key"),
        (lambda context: context.produce("counts", 1, key="\ud800"), "produce", "key"),
    ],
    ids=[
        "timer at none", "timer at a float", "timer after the end", "timer at the end", "timer at the beginning",
        "tag", "wall timer at none", "hold of a wall timer", "hold of a wall timer at the end", "hold", "hold at the end",
        "hold at the beginning", "timestamp", "timestamp after the end", "timestamp at the end", "key", "key that is no text",
    ],
)  # fmt: skip
def test_an_argument_that_is_refused_is_named_with_its_call_computation_and_key(
    hook: Callable[[Context], object], call: str, argument: str
) -> None:
    error = only_halt(hook)
    assert isinstance(error, ContextArgumentError)
    assert (error.computation, error.key, error.call, error.argument) == ("counter", "dog", call, argument)
    assert str(error).startswith(f"computation 'counter', key 'dog': {call}({argument}=")


def test_the_latest_time_is_allowed_for_a_record_a_timer_and_a_hold() -> None:
    def at_the_end(context: Context, _: Record) -> None:
        context.produce("counts", 1, timestamp=MAX_TIME - 1)
        context.set_timer("t", MAX_TIME - 1)
        context.hold_watermark(MAX_TIME - 1)

    rig = Rig(counter(Scripted(at_the_end)))
    rig.feed(click("r1"))
    (delta,) = rig.write().deltas
    assert ([production.timestamp for production in delta.productions], delta.hold) == (
        [MAX_TIME - 1],
        MAX_TIME - 1,
    )


def test_a_failure_of_user_code_shows_the_records_value_and_only_the_frames_of_user_code() -> None:
    class Fails(Computation):
        def process_record(self, context: Context, record: Record) -> None:
            json.loads("{")

    pipeline = Pipeline("p")
    pipeline.injector("in")
    pipeline.add(Fails(), name="fails", inputs=["in"], outputs=["out"])
    builder = FeedBuilder(pipeline)
    builder.record(at_us=0, value={"account": "ann", "amount": 3}, timestamp=0)
    for host in (simulate, run_reference):
        with pytest.raises(UserCodeError) as raised:
            host(pipeline, builder.build())
        first, header, place, *_ = str(raised.value).splitlines()
        assert "on in/0:0, whose value is {'account': 'ann', 'amount': 3}. Fix it" in first
        assert header == "Traceback (most recent call last):"
        assert place.startswith(f'  File "{__file__}", line ')
