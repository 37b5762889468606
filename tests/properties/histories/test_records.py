"""Histories of records, as any engine can write them: a right one holds, and each broken one is accused by the right check."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace import SECOND, HistoryFormatError
from headrace.histories import HistoryReader
from headrace_properties.histories.file_judge import NOT_TOLD, FileJudge, record_titles
from headrace_properties.histories.translation import JUDGES_RECORDS
from headrace_properties.promises import Moment, always
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from headrace_scenarios.message_log import HEADER, Bug, story, write_story

GOLDEN = Path(__file__).with_name("consumer.jsonl")
Lines = list[dict[str, Any]]


def judged(lines: Lines, folder: Path) -> dict[str, Verdict]:
    path = folder / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return judged_file(path)


def judged_file(path: Path) -> dict[str, Verdict]:
    with HistoryReader(path) as reader:
        judge = FileJudge(reader.header, path)
        for number, line in reader.lines():
            judge.take(number, line)
    return judge.verdicts()


def accused(verdicts: dict[str, Verdict]) -> set[str]:
    return {name for name, verdict in verdicts.items() if isinstance(verdict, Violated)}


def golden() -> Lines:
    return [json.loads(line) for line in GOLDEN.read_text().splitlines()]


def test_the_golden_file_is_what_the_right_consumer_writes(tmp_path: Path) -> None:
    write_story(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text() == GOLDEN.read_text()


def test_the_golden_file_holds_in_every_check_that_records_can_tell_and_all_others_are_unknown() -> None:
    verdicts = judged_file(GOLDEN)
    told = {*JUDGES_RECORDS, *record_titles()}
    assert {name for name, verdict in verdicts.items() if isinstance(verdict, Holds)} == told
    assert all(verdict == Unknown(NOT_TOLD) for name, verdict in verdicts.items() if name not in told)


@pytest.mark.parametrize(
    ("bug", "by"),
    [
        (Bug.COMMITS_FIRST, {"S1", "H1"}),
        (Bug.COMMITS_APART, {"S2", "S5", "H4"}),
        (Bug.ZOMBIE, {"S2", "S6"}),
        (Bug.OLD_SNAPSHOT, {"H4"}),
        (Bug.FASTEST_PARTITION, {"H1"}),
    ],
)
def test_each_bug_of_the_consumer_is_accused_by_the_right_check(
    bug: Bug, by: set[str], tmp_path: Path
) -> None:
    write_story(tmp_path / "broken.jsonl", bug)
    assert accused(judged_file(tmp_path / "broken.jsonl")) == by


SPARK = Path(__file__).with_name("spark.jsonl")
"""The progress that the query in docs/how-to/histories.md reported on Spark 4.3."""


def test_a_structured_streaming_querys_history_holds() -> None:
    verdicts = judged_file(SPARK)
    held = {name for name, verdict in verdicts.items() if isinstance(verdict, Holds)}
    assert held == {"S1", "S2", "S5", "S11", "H1", "H2", "H3", "H4", "H6", "H7", "H8", "H9"}
    assert not accused(verdicts)


# Twenty broken ones: an edit of the golden file, and who accuses it


def nth(lines: Lines, type_: str, number: int = 0, **fields: Any) -> int:
    found = [
        index
        for index, line in enumerate(lines)
        if line.get("type") == type_ and all(line.get(name) == value for name, value in fields.items())
    ]
    return found[number]


def without(type_: str, number: int = 0, **fields: Any) -> Callable[[Lines], None]:
    def edit(lines: Lines) -> None:
        del lines[nth(lines, type_, number, **fields)]

    return edit


def again(type_: str, number: int = 0, **changes: Any) -> Callable[[Lines], None]:
    """Repeat a line at the end of the run, with some fields changed."""

    def edit(lines: Lines) -> None:
        lines.insert(
            -1,
            {
                **lines[nth(lines, type_, number)],
                **({"at": lines[-1]["at"]} if "at" in lines[-1] else {}),
                **changes,
            },
        )

    return edit


def changed(
    type_: str, number: int = 0, of: dict[str, Any] | None = None, **changes: Any
) -> Callable[[Lines], None]:
    def edit(lines: Lines) -> None:
        lines[nth(lines, type_, number, **(of or {}))].update(changes)

    return edit


def exchanged(first: int, second: int, type_: str, **of: Any) -> Callable[[Lines], None]:
    def edit(lines: Lines) -> None:
        one, other = nth(lines, type_, first, **of), nth(lines, type_, second, **of)
        for name in set(lines[one]) - {"at"}:
            lines[one][name], lines[other][name] = lines[other][name], lines[one][name]

    return edit


def declared(kind: str, of: Callable[[Lines], None], **fields: Any) -> Callable[[Lines], None]:
    """Declare something in the header, and edit the lines by ``of``."""

    def edit(lines: Lines) -> None:
        lines[0]["graphs"][0][kind][0].update(fields)
        of(lines)

    return edit


def no_counts(lines: Lines) -> None:
    lines[:] = [line for line in lines if line.get("type") != "out" or line["stage"] != "counter"]


COUNTER = {"stage": "counter"}
SITE = {"stage": "site"}
SITE_AGAIN = {"process": "site-1", "stage": "site", "id": "clicks/0:6"}
BROKEN: list[tuple[str, str, Callable[[Lines], None]]] = [
    ("a record is never processed", "S1", without("in", 3)),
    ("the last record is never processed", "S1", without("in", -1)),
    ("a record is processed twice", "S2", again("in", 0)),
    ("a record is processed by two processes", "S2", again("in", 2, process="consumer-2")),
    ("a record goes outside twice", "S2", again("out", -1)),
    ("an id stands for two values", "S5", again("out", -1, value=7)),
    ("an id stands for two times", "S5", changed("out", -1, id="clicks/1:4/count")),
    ("a process writes to a partition that it does not own", "S6", changed("in", 5, process="consumer-9")),
    ("the owner before writes on", "S6", changed("in", -1, process="consumer-1")),
    ("a consumer's watermark goes back", "S11", again("watermark", -1, timestamp=3 * SECOND)),
    ("the source's watermark goes back", "S11", changed("watermark", 8, of=SITE, timestamp=2 * SECOND)),
    ("an output is older than its cause", "S15", changed("out", -1, timestamp=5 * SECOND)),
    ("a watermark passes a record in flight", "H1", changed("watermark", 2, of=COUNTER, timestamp=5 * SECOND)),
    ("a watermark passes the slow partition", "H1", changed("watermark", 6, of=COUNTER, timestamp=8 * SECOND)),
    ("a consumer ends before its input does", "H1", changed("watermark", 0, of=COUNTER, timestamp=12 * SECOND)),
    ("an output is behind its sender's watermark", "H2", changed("out", -1, timestamp=0, cause=None)),
    ("a record on time is treated as late", "H3", changed("in", 4, late=True)),
    ("a successor has another state", "H4", changed("state", 4, value=99)),
    ("a replica has another state", "H4", again("state", -1, process="replica", value=0)),
    ("two records of a key change places", "H5", exchanged(0, 2, "in", process="consumer-2")),
    ("a record is processed that was never sent", "H6", again("in", 0, id="clicks/0:99")),
    ("the watermark of a stage stays behind", "H7", declared("stages", lag_us=0, of=without("watermark", -1, **COUNTER))),
    ("a stage that may not be silent is", "H8", declared("stages", may_be_silent=False, of=no_counts)),
    ("a source breaks its promise", "H9", declared("sources", watermark="promise", of=again("out", 0, **SITE_AGAIN))),
    ("a record is processed before it was sent", "H6", lambda lines: lines.insert(1, lines.pop(nth(lines, "in")))),
]  # fmt: skip


@pytest.mark.parametrize(("by", "edit"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_each_broken_file_is_accused_by_the_right_check(
    by: str, edit: Callable[[Lines], None], tmp_path: Path
) -> None:
    lines = golden()
    edit(lines)
    verdicts = judged(lines, tmp_path)
    assert by in accused(verdicts), verdicts


def test_every_check_accuses_one_of_the_broken_files() -> None:
    assert {by for _, by, _ in BROKEN} == {*JUDGES_RECORDS, *record_titles()}


WINDOWS = {"stage": "windows"}
BROKEN_QUERIES: list[tuple[str, set[str], Callable[[Lines], None]]] = [
    ("a row is read twice", {"S2"}, again("in", 5)),
    ("a row is never read", {"S1", "H1"}, without("in", 4)),
    ("a batch is written twice", {"S2", "H2"}, again("out", -1)),
    ("the store of the next batch has another state", {"H4"}, changed("state", 3, value=9)),
    (
        "the watermark is ahead",
        {"H1", "S11"},
        changed("watermark", 0, of=WINDOWS, timestamp=15 * SECOND),
    ),
    ("a row on time is dropped", {"H3"}, changed("in", 5, late=True)),
]


@pytest.mark.parametrize(
    ("by", "edit"), [query[1:] for query in BROKEN_QUERIES], ids=[query[0] for query in BROKEN_QUERIES]
)
def test_a_broken_query_is_accused(by: set[str], edit: Callable[[Lines], None], tmp_path: Path) -> None:
    lines = [json.loads(line) for line in SPARK.read_text().splitlines()]
    edit(lines)
    assert accused(judged(lines, tmp_path)) == by


# What is not recorded is unknown


@pytest.mark.parametrize(
    ("drop", "unknown"),
    [
        (lambda line: line["type"] == "end", {"S1"}),
        (lambda line: line["type"] == "owns", {"S6"}),
        (lambda line: line["type"] == "watermark", {"S11", "H1", "H2", "H3", "H7", "H9"}),
        (lambda line: line["type"] == "watermark" and line["stage"] == "site", {"H1", "H3", "H9"}),
        (lambda line: line["type"] == "state", {"H4"}),
        (
            lambda line: line["type"] == "out" and line["stage"] == "site",
            {"S1", "H1", "H3", "H5", "H6", "H9"},
        ),
        (lambda line: line["type"] == "out" and line["stage"] == "counter", {"S15", "H2", "H8"}),
    ],
    ids=["end", "owners", "watermarks", "source's watermark", "states", "what was sent", "outputs"],
)
def test_a_file_with_less_information_is_accused_of_nothing_and_lists_unknowns(
    drop: Callable[[dict[str, Any]], bool], unknown: set[str], tmp_path: Path
) -> None:
    lines = golden()
    verdicts = judged([lines[0], *[line for line in lines[1:] if not drop(line)]], tmp_path)
    assert not accused(verdicts)
    told = {*JUDGES_RECORDS, *record_titles()}
    assert {name for name in told if isinstance(verdicts[name], Unknown)} == unknown


def test_an_id_stands_for_one_record_of_each_stream(tmp_path: Path) -> None:
    """What passes records on may keep their ids."""
    lines = golden()
    for line in lines:
        if line.get("type") == "out" and line["stage"] == "counter":
            line["id"] = line["cause"]
    assert not accused(judged(lines, tmp_path))
    lines.insert(-1, {**lines[nth(lines, "out", -1)], "value": 99})
    assert "S5" in accused(judged(lines, tmp_path))


def test_a_late_record_may_be_dropped_behind_every_watermark(tmp_path: Path) -> None:
    """The source promises 11 s, and sends another record of 1 s; the consumer takes it as late, and answers it."""
    lines, at = golden(), {"at": 99_000}
    late = {"id": "clicks/0:6", "key": "user-0", "timestamp": SECOND, "partition": "0", **at}
    answer = {"id": "clicks/0:6/count", "key": "user-0", "timestamp": SECOND, "cause": "clicks/0:6", **at}
    lines[-1:-1] = [
        {"type": "out", "process": "site-1", **SITE, **late},
        {"type": "watermark", "process": "consumer-2", **COUNTER, "timestamp": 13 * SECOND, **at},
        {"type": "in", "process": "consumer-2", **COUNTER, **late, "late": True},
        {"type": "out", "process": "consumer-2", **COUNTER, **answer},
    ]
    lines[-1]["at"] = 99_000
    assert not accused(judged(lines, tmp_path))


def test_without_partitions_the_slowest_process_speaks_for_the_stage(tmp_path: Path) -> None:
    """Two consumers share a stage; one is ahead. Its own watermark may pass what the other has yet to do."""
    lines = [line for line in golden() if line.get("type") != "owns"]
    for line in lines:
        line.pop("partition", None)
    begin = nth(lines, "in")
    rest = [line for line in lines[begin:] if line["type"] != "watermark"]

    def said(process: str, timestamp: int) -> dict[str, Any]:
        return {"type": "watermark", "process": process, **COUNTER, "timestamp": timestamp}

    one_ahead = [*lines[:begin], said("consumer-1", 0), said("consumer-2", 9 * SECOND), *rest]
    assert "H1" not in accused(judged(one_ahead, tmp_path))
    both_ahead = [*lines[:begin], said("consumer-1", 5 * SECOND), said("consumer-2", 9 * SECOND), *rest]
    assert "H1" in accused(judged(both_ahead, tmp_path))


# Promises, and errors


def judge_by(promise: Any) -> Verdict:
    with HistoryReader(GOLDEN) as reader:
        judge = FileJudge(reader.header, GOLDEN, promises=[promise])
        for number, line in reader.lines():
            judge.take(number, line)
    return judge.verdicts()[promise.name]


def test_promises_read_the_states_and_outputs_of_a_file() -> None:
    @always(of="counter")
    def few(moment: Moment) -> bool:
        assert moment.changed is not None
        return bool(moment.changed.after <= 3)

    @always(of="counter")
    def fewer(moment: Moment) -> bool:
        assert moment.changed is not None
        assert moment.changed.key.startswith("user-")
        return bool(moment.changed.after <= 2)

    assert isinstance(judge_by(few), Holds)
    assert isinstance(judge_by(fewer), Violated)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"type": "in", "process": "p", "stage": "site", "id": "1", "key": "", "timestamp": 0}, "'site' is no stage"),
        ({"type": "owns", "process": "p", "stage": "sorter", "partition": "0"}, "neither a stage nor a source"),
        ({"type": "out", "process": "p", "stage": "site", "id": "1", "key": "", "timestamp": 0, "stream": "x"},
         "writes no stream 'x'"),
        ({"type": "Healed", "at_us": 0, "process": "", "lasting": []}, "'Healed' is a line of a History of steps"),
    ],
)  # fmt: skip
def test_a_line_that_does_not_fit_the_header_is_named(
    line: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    with pytest.raises(HistoryFormatError, match=f"line 2: .*{problem}"):
        judged([HEADER, line], tmp_path)


def test_nothing_may_follow_the_end(tmp_path: Path) -> None:
    lines = list(story())
    with pytest.raises(HistoryFormatError, match=r"the run ended in line \d+"):
        judged([*lines, lines[1]], tmp_path)


def test_a_header_whose_topology_is_inconsistent_is_refused(tmp_path: Path) -> None:
    stage = {"name": "counter", "inputs": ["nowhere"]}
    header = {**HEADER, "graphs": [{"sources": [{"name": "site"}], "stages": [stage]}]}
    with pytest.raises(HistoryFormatError, match=r"line 1: .*nowhere"):
        judged([header], tmp_path)
