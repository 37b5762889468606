"""The History: what was written comes back, and equal runs have equal digests."""

import enum
import typing
from collections.abc import Callable
from pathlib import Path
from types import UnionType
from typing import Any

import msgspec
import pytest

from headrace import HistoryFormatError
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
        return sample(next(one for one in arguments if one is not type(None)))
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
        one
        for one in vars(h).values()
        if isinstance(one, type) and issubclass(one, msgspec.Struct) and one.__module__ == h.__name__
    ]
    assert defined == KINDS


@pytest.mark.parametrize("event", EVERYTHING, ids=lambda event: type(event).__name__)
def test_every_event_comes_back_from_its_file(event: Event, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    History([event]).save(path)
    assert History.load(path).events == [event]


def test_a_history_is_one_line_an_event_in_order(tmp_path: Path) -> None:
    written = History(EVERYTHING)
    assert len(written) == len(KINDS)
    assert written.to_bytes().count(b"\n") == len(KINDS)
    written.save(tmp_path / "h")
    assert list(History.load(tmp_path / "h")) == EVERYTHING


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


def test_a_file_that_is_cut_at_any_place_is_no_history(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    written = History(EVERYTHING)
    written.save(path)
    data = path.read_bytes()
    ends = [index for index, byte in enumerate(data[:-1]) if byte == ord("\n")]
    for length in [0, 1, *ends, *[end + 1 for end in ends], len(data) - 2]:
        path.write_bytes(data[:length])
        with pytest.raises(HistoryFormatError):
            History.load(path)
    path.write_bytes(data[:-1])  # all that counts is there
    assert History.load(path).digest() == written.digest()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda lines: lines[1:],
        lambda lines: [*lines[1::-1], *lines[2:]],
        lambda lines: [lines[0].replace(b'"offset":', b'"offset":1'), *lines[1:]],
        lambda lines: [*lines, lines[0]],
    ],
    ids=["without its first event", "two exchanged", "a field changed", "an event too many"],
)
def test_a_file_whose_events_are_not_those_that_were_saved_is_no_history(
    spoil: Callable[[list[bytes]], list[bytes]], tmp_path: Path
) -> None:
    path = tmp_path / "history.jsonl"
    History([h.Injected(0, "mail/0", 4, 7, ()), *EVERYTHING]).save(path)
    *events, end = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*spoil(events), end]))
    with pytest.raises(HistoryFormatError, match="does not match the events before it"):
        History.load(path)


def test_a_history_without_its_end_says_so(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(History(EVERYTHING).to_bytes())
    with pytest.raises(HistoryFormatError, match=r"the last line, .* is missing: the file was truncated"):
        History.load(path)


def test_an_empty_history_is_one_but_an_empty_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    History().save(path)
    assert History.load(path).events == []
    path.write_bytes(b"")
    with pytest.raises(HistoryFormatError):
        History.load(path)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b'{"type":"Unheard"}\n',
        b'{"type":"RunEnded","at_us":"soon","process":"","why":""}\n',
        b"\xff\xfe",
        b"[1]\n",
    ],
    ids=["cut off", "unknown event", "wrong field", "not text", "not an event"],
)
def test_a_file_that_is_no_history_is_named(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "broken"
    path.write_bytes(content)
    with pytest.raises(HistoryFormatError) as caught:
        History.load(path)
    assert (caught.value.what, caught.value.path) == ("history", str(path))
    assert caught.value.reason


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(HistoryFormatError, match="missing"):
        History.load(tmp_path / "missing")
