"""Histories as files: they survive the round trip, and truncated or changed files are refused, with the line."""

from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import msgspec
import pytest

from headrace import Computation, EngineOptions, HistoryFormatError, Pipeline, Productions
from headrace import history as h
from headrace.histories import (
    End,
    HistoryReader,
    HistoryWriter,
    In,
    Out,
    Owns,
    RecordLine,
    State,
    Tells,
    Watermark,
    header_of,
    load_history,
    pipelines_of,
    save_history,
)
from headrace.histories.lines import Line
from headrace.history import Activation, Event, History
from tests.core.test_history import EVERYTHING


def letters() -> Pipeline:
    pipeline = Pipeline("letters")
    pipeline.injector("mail", outputs=["letters"], processes=2)
    pipeline.add(
        Computation(),
        name="sorter",
        inputs=["letters"],
        outputs=["bags"],
        productions=Productions.WEAK,
        exactly_once=False,
        watermark_percentile=99.0,
    )
    return pipeline


HEADER = header_of([letters()], "sim", EngineOptions(id_slack_us=7))
RECORDS = msgspec.structs.replace(header_of([letters()]), tells=Tells.RECORDS)
LINES: list[Line] = [
    Out(process="a", stage="mail", id="1", key="k", timestamp=5, value={"city": "Riva"}, partition="0"),
    Owns(process="b", stage="sorter", partition="0"),
    In(process="b", stage="sorter", id="1", key="k", timestamp=5, late=True, at=3),
    State(process="b", stage="sorter", key="k", as_of="1", value=[1]),
    Watermark(process="b", stage="sorter", timestamp=5),
    End(),
]


def test_a_header_describes_the_topology_for_checkers() -> None:
    (again,) = pipelines_of(HEADER)
    assert header_of([again], "sim", EngineOptions(id_slack_us=7)) == HEADER


@pytest.mark.parametrize("event", EVERYTHING, ids=lambda event: type(event).__name__)
def test_every_event_survives_its_file(event: Event, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    save_history(path, [event], HEADER)
    header, history = load_history(path)
    assert (header, history.events) == (HEADER, [event])


def test_causes_survive_their_file(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    made = [
        ("a", "Start", None, 0),
        ("b", "Start", None, 0),
        ("a", "Ack", 1, 3),
        ("", "end", 2, len(EVERYTHING)),
    ]
    history = History(EVERYTHING, [Activation(*fields) for fields in made])
    save_history(path, history, HEADER)
    _, again = load_history(path)
    assert (again.events, again.activations) == (history.events, history.activations)


@pytest.mark.parametrize(
    ("activations", "wrong"),
    [
        (
            [Activation("a", "Ack", 0, 0)],
            "line 2: the activation's cause is 0, but it is number 0: a cause comes first",
        ),
        ([Activation("a", "Start", None, 1)], "first_event is 1, but 0 events come before it"),
        (
            [h.Healed(0, "", ()), Activation("a", "Start", None, 1)],
            "line 3: the first activation follows an event",
        ),
    ],
)
def test_impossible_causes_are_refused(activations: list[Line], wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with path.open("wb") as file:
        writer = HistoryWriter(file, HEADER)
        writer.write(activations)
        writer.seal()
    with pytest.raises(HistoryFormatError, match=wrong):
        load_history(path)


def test_every_line_of_records_comes_back_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    with path.open("wb") as file:
        HistoryWriter(file, RECORDS).write(LINES)
    with HistoryReader(path) as reader:
        assert list(reader.lines()) == list(enumerate(LINES, 2))
        assert not reader.sealed  # it needs none
    assert {type(line) for line in LINES} == {*RecordLine.__subclasses__(), End}


def test_a_history_of_steps_that_is_cut_at_any_place_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    save_history(path, EVERYTHING, HEADER)
    data = path.read_bytes()
    ends = [index for index, byte in enumerate(data[:-1]) if byte == ord("\n")]
    for length in [0, 1, *ends, *[end + 1 for end in ends], len(data) - 2]:
        path.write_bytes(data[:length])
        with pytest.raises(HistoryFormatError, match="line "):
            load_history(path)
    path.write_bytes(data[:-1])  # all that counts is there
    assert load_history(path)[1].digest() == History(EVERYTHING).digest()


@pytest.mark.parametrize(
    "spoil",
    [
        lambda lines: [lines[0], *lines[2:]],
        lambda lines: [lines[0], lines[2], lines[1], *lines[3:]],
        lambda lines: [lines[0], lines[1].replace(b'"offset":', b'"offset":1'), *lines[2:]],
        lambda lines: [*lines, lines[1]],
        lambda lines: [lines[0].replace(b"letters", b"lectern"), *lines[1:]],
    ],
    ids=[
        "without its first event",
        "two exchanged",
        "a field changed",
        "an event too many",
        "another header",
    ],
)
def test_a_file_that_was_changed_is_refused(
    spoil: Callable[[list[bytes]], list[bytes]], tmp_path: Path
) -> None:
    path = tmp_path / "history.jsonl"
    save_history(path, [h.Injected(0, "mail/0", 4, 7, ()), *EVERYTHING], HEADER)
    *lines, seal = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*spoil(lines), seal]))
    with pytest.raises(HistoryFormatError, match="the seal does not match the lines before it"):
        load_history(path)


def test_a_line_after_the_seal_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    save_history(path, EVERYTHING, HEADER)
    data = path.read_bytes()
    path.write_bytes(data + data.splitlines(keepends=True)[1])
    with pytest.raises(HistoryFormatError, match="follows the last one, the seal"):
        load_history(path)


def test_an_empty_history_is_valid_but_an_empty_file_is_not(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    save_history(path, [], HEADER)
    assert load_history(path)[1].events == []
    path.write_bytes(b"")
    with pytest.raises(HistoryFormatError, match="line 1: the first line, the header, is missing"):
        load_history(path)


def first_line() -> bytes:
    file = BytesIO()
    HistoryWriter(file, RECORDS)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "wrong"),
    [
        (b"not a history", "line 1: this is no header: it is not JSON"),
        (b'{"type":"RunEnded","at_us":0,"process":"","why":""}\n', "line 1: this is no header: it has no"),
        (b'{"format":"headrace-history","version":2}\n', "line 1: the format has version 2, and this Headrace"),
        (b'{"format":"headrace-history","version":1,"tells":"all"}\n', "line 1: malformed header: .*'all'"),
        (first_line().replace(b'"graphs":[', b'"graphs":[],"no":['), "line 1: malformed header: graphs is empty"),
        (first_line() + b'{"type":"Unheard"}\n', "line 2: .*'Unheard'"),
        (first_line() + b'{"type":"end"}\n{"type":"in","process":"p"}\n', "line 3: .*is missing"),
        (first_line() + b'{"type":"end","att":1}\n', "line 2: there is no field 'att'"),
        (first_line() + b'{"type":"end"}\n{"ty', "line 3: .*; the file was truncated here"),
        (first_line() + b"\n", "line 2: "),
        (first_line() + b"\xff\xfe\n", "line 2: "),
    ],
)  # fmt: skip
def test_a_malformed_line_is_named_by_its_number(content: bytes, wrong: str, tmp_path: Path) -> None:
    path = tmp_path / "broken.jsonl"
    path.write_bytes(content)
    with pytest.raises(HistoryFormatError, match=wrong), HistoryReader(path) as reader:
        list(reader.lines())


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(HistoryFormatError, match=r"cannot read history .*nowhere\.jsonl: No such file"):
        HistoryReader(tmp_path / "nowhere.jsonl")


def test_a_growing_file_yields_each_line_once_it_is_complete(tmp_path: Path) -> None:
    path, whole = tmp_path / "history.jsonl", tmp_path / "whole.jsonl"
    save_history(whole, EVERYTHING, HEADER)
    data, got = whole.read_bytes(), list[tuple[int, Line]]()
    with path.open("wb", buffering=0) as file, HistoryReader(path, growing=True) as reader:
        for begin in range(0, len(data), 333):
            file.write(data[begin : begin + 333])
            if reader.open_header():
                got += reader.lines()
        assert got == list(enumerate(EVERYTHING, 2))
        assert reader.sealed
        assert reader.position == reader.size_bytes == len(data)
