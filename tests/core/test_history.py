"""The History: its vocabulary, and equal runs have equal digests."""

import enum
import typing
from types import UnionType
from typing import Any

import msgspec
import pytest

from headrace import history as h
from headrace.history import Event, Healed, History, ProcessStarted, RunEnded
from tests.core.driver import printed_elsewhere

KINDS: list[type] = list(typing.get_args(Event))


def sample(kind: Any) -> Any:
    """Some value of a type, with nothing left out."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is tuple:
        return tuple(map(sample, arguments[:1] * 2 if arguments[-1] is ... else arguments))
    if origin in (UnionType, typing.Union):
        return sample(next(argument for argument in arguments if argument is not type(None)))
    if issubclass(kind, msgspec.Struct):
        return kind(*[sample(hint) for hint in typing.get_type_hints(kind).values()])
    if issubclass(kind, enum.Enum):
        return list(kind)[-1]
    return {int: -(2**63), str: "naïve \0", bytes: b"\xff\0", bool: True, float: 99.5}[kind]


EVERYTHING = [sample(kind) for kind in KINDS]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_every_event_begins_with_when_and_where(kind: type) -> None:
    assert [field.name for field in msgspec.structs.fields(kind)][:2] == ["at_us", "process"]


def test_every_event_of_the_vocabulary_is_in_the_union() -> None:
    defined = [
        var
        for name, var in vars(h).items()
        if isinstance(var, type) and issubclass(var, msgspec.Struct) and var.__module__ == h.__name__
        if not name.startswith("_")  # a base
    ]
    assert defined == [*KINDS, h.Activation]


def test_a_history_is_one_line_an_event() -> None:
    assert len(History(EVERYTHING)) == len(KINDS)
    assert History(EVERYTHING).to_bytes().count(b"\n") == len(KINDS)


def test_events_are_recorded_in_order() -> None:
    written = History()
    first, second = ProcessStarted(0, "worker-0", 1), RunEnded(5, "", "quiescent")
    written.record(first)
    written.record(second)
    assert written.events == [first, second]


def test_equal_histories_have_equal_digests_and_others_do_not() -> None:
    events = EVERYTHING
    assert History(events).digest() == History(list(events)).digest()
    assert History(events).digest() != History(events[::-1]).digest()
    assert History(events).digest() != History(events[:-1]).digest()
    assert History([Healed(0, "", ("a",))]).digest() != History([Healed(0, "", ())]).digest()


def test_a_digest_is_the_same_in_every_process() -> None:
    program = (
        "from tests.core.driver import Rig, click, counter, watermark\n"
        "rig = Rig(counter(split_at=['m']))\n"
        "for n in range(20): rig.settle(click(f'r{n}', f'key {n % 7}'))\n"
        "rig.settle(watermark(99, 0)); rig.wake(10**6)\n"
        "print(len(rig.shop.history), rig.shop.history.digest())"
    )
    assert len(printed_elsewhere(program)) == 1
