"""The user's side (MillWheel 5.1): what a hook may do with its context."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from headrace import (
    MAX_TIME,
    MIN_TIME,
    BytesCodec,
    Codec,
    CodecError,
    Computation,
    Context,
    Pipeline,
    Record,
    Timer,
    TypedCodec,
)
from headrace.api.specs import ComputationSpec

LOW, NOW = 40, 7_000


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
