"""Spark's own logs: what they show to be wrong is found, and sound ones are left alone. Two are real, of Spark 4.3 and 3.5."""

import gzip
import json
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from headrace import HistoryFormatError
from headrace_properties.histories.batch_checks import UNREACHED, judge_queries
from headrace_properties.histories.micro_batches import is_spark_log, read_spark_logs
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated

HERE = Path(__file__).parent
EVENTS = HERE / "spark_events.jsonl"
"""An event log of Spark 4.3 without the events of tasks: a query for each thing that can go wrong, and sound ones."""

PROGRESS = HERE / "spark_progress.jsonl"
"""Progress that a listener wrote on Spark 3.5."""


def found(verdicts: dict[str, Verdict]) -> dict[str, str]:
    """Return what is violated, asked or noted, by name: the first letter of the verdict and what it says."""
    texts = {
        name: f"V {verdict.message}" if isinstance(verdict, Violated) else f"U {verdict.why}"
        for name, verdict in verdicts.items()
        if not isinstance(verdict, Holds)
    }
    return {name: text for name, text in texts.items() if text[2:] not in UNREACHED}


REAL = [
    ("sound", {}),
    ("mended", {}),
    ("quiet", {}),
    ("future", {"H12": "line 27: batch 3 of query 'future' has a row of 2100-01-01T00:00:00Z"}),
    ("union", {"H7": "idle] sent nothing meanwhile", "H8": "its sink never got one"}),
    ("state", {"H13": "from 4 to 24 rows (line 47 to line 57), and none was ever removed: the query has no watermark"}),
    ("older", {"H11": "3 batches, first batch 4, of query 'older' completed again in another run (line 66)"}),
    ("new", {"H11": "query 'new' begins at batch 0 with a new checkpoint, and had come to batch 2"}),
    ("poison", {"H15": "died 2 times in a row at batch 2, and nothing says that it went on: ValueError: cannot parse"}),
    ("twice", {"H16": "batch 0 read its 5 rows 2 times"}),
]  # fmt: skip


@pytest.mark.parametrize(("name", "expected"), REAL, ids=[name for name, _ in REAL])
def test_a_real_event_log_shows_what_went_wrong_in_each_query(name: str, expected: dict[str, str]) -> None:
    queries = [query for query in read_spark_logs(EVENTS) if query.name == name]
    findings = found(judge_queries(queries))
    assert findings.keys() == expected.keys()
    for check, text in expected.items():
        assert text in findings[check]
        assert findings[check].startswith("V" if check == "H15" else "U")


def test_what_a_listener_wrote_on_spark_3_is_judged_alike() -> None:
    assert is_spark_log(PROGRESS)
    queries = read_spark_logs(PROGRESS)
    assert [query.name for query in queries] == ["sound", "future", "quiet"]
    assert list(found(judge_queries(queries))) == ["H12"]


def at(minute: int) -> str:
    return datetime.fromtimestamp(1_800_000_000 + 60 * minute, UTC).strftime("%Y-%m-%dT%H:%M:%S.000Z")


def progress(number: int, **fields: Any) -> dict[str, Any]:
    """Return the progress of a sound batch that reads ten rows of one partition of Kafka, and what is to differ."""
    source = {
        "description": "KafkaV2[Subscribe[clicks]]",
        "startOffset": {"clicks": {"0": 10 * number}},
        "endOffset": {"clicks": {"0": 10 * number + 10}},
        "latestOffset": {"clicks": {"0": 10 * number + 10}},
        "numInputRows": 10,
    } | {
        name: fields.pop(name)
        for name in ("startOffset", "endOffset", "latestOffset", "numInputRows")
        if name in fields
    }
    state = {"numRowsTotal": 7, "numRowsRemoved": 1, "numRowsDroppedByWatermark": 0} | fields.pop("state", {})
    return {
        "id": "q", "runId": "r1", "name": None, "timestamp": at(number), "batchId": number,
        "durationMs": {"triggerExecution": 900}, "eventTime": {"max": at(number - 1), "watermark": at(number - 9)},
        "stateOperators": [state], "sources": [source], "sink": {"description": "ForeachBatchSink", "numOutputRows": -1},
    } | fields  # fmt: skip


def kafka(*ends: int) -> dict[str, Any]:
    return {"clicks": {str(partition): end for partition, end in enumerate(ends)}}


def batches(change: Callable[[int], dict[str, Any]], count: int = 12) -> list[dict[str, Any]]:
    return [progress(number, **change(number)) for number in range(count)]


WRONG = [
    ("H10 V", batches(lambda n: {"startOffset": kafka(10 * n + (5 if n == 4 else 0))})),
    ("H10 V", batches(lambda n: {"endOffset": kafka(3)} if n == 11 else {})),
    ("H10 U", batches(lambda n: {"numInputRows": 2} if n == 4 else {})),
    ("S11 V", [*batches(lambda n: {}), progress(12, eventTime={"watermark": at(1)})]),
    ("H7 U", batches(lambda n: {"eventTime": {"watermark": "1970-01-01T00:00:00.000Z"}})),
    ("H7 U", batches(lambda n: {"eventTime": {"max": at(n), "watermark": at(min(n, 3) - 9)}})),
    ("H9 U", batches(lambda n: {"state": {"numRowsDroppedByWatermark": int(n == 6)}})),
    ("H11 V", [progress(0), progress(1), progress(1, runId="r2", timestamp=at(2)), progress(2, timestamp=at(3))]),
    ("H11 U", [progress(0), progress(1), progress(1, runId="r2", timestamp=at(9)), progress(2, timestamp=at(10), runId="r2")]),
    ("H13 U", batches(lambda n: {"state": {"numRowsTotal": 10 * n, "numRowsRemoved": 0}})),
    ("H14 U", batches(lambda n: {"latestOffset": kafka(25 * n + 30)})),
    ("H14 U", batches(lambda n: {"durationMs": {"triggerExecution": 100 + n}, "numInputRows": 10 + n})),
    ("H14 U", batches(lambda n: {
        "startOffset": kafka(10 * n, 4), "endOffset": kafka(10 * n + 10, 4), "latestOffset": kafka(0, 9)})),
    ("H16 U", batches(lambda n: {"numInputRows": 20})),
]  # fmt: skip

SOUND = [
    ("nothing is wrong", batches(lambda n: {})),
    ("a topic of transactions has gaps everywhere", batches(lambda n: {"numInputRows": 4})),
    ("gaps of markers are small", batches(lambda n: {"numInputRows": 9})),
    ("a partition is idle", batches(lambda n: {
        "startOffset": kafka(10 * n, 4), "endOffset": kafka(10 * n + 10, 4), "latestOffset": kafka(10 * n + 10, 4)})),
    ("a partition was added", batches(lambda n: {
        "startOffset": kafka(*(10 * n,) * (1 + (n > 5))), "endOffset": kafka(*(10 * n + 10,) * (1 + (n >= 5)))})),
    ("each key is seen by now, and the state hardly grows", batches(lambda n: {
        "state": {"numRowsTotal": 1_000 - 1_000 // 2 ** (n + 1), "numRowsRemoved": 0}})),
    ("the backlog of a night is worked off", batches(lambda n: {"latestOffset": kafka(200 + n)})),
    ("older rows come, and no newer ones", batches(lambda n: {"eventTime": {"max": at(min(n, 3)), "watermark": at(min(n, 3))}})),
    ("the log begins in the middle, and lacks a batch", batches(lambda n: {})[4:7] + batches(lambda n: {})[8:]),
    ("a restart goes on", batches(lambda n: {"runId": "r2" if n > 4 else "r1"})),
    ("a trigger without data tells of the next batch", [
        progress(0), progress(1, numInputRows=0, endOffset=kafka(10)), progress(1)]),
]  # fmt: skip


def judged(folder: Path, lines: Iterable[dict[str, Any]]) -> dict[str, str]:
    path = folder / "progress.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return found(judge_queries(read_spark_logs(path)))


@pytest.mark.parametrize(
    ("expected", "lines"), WRONG, ids=[f"{name}-{n}" for n, (name, _) in enumerate(WRONG)]
)
def test_what_is_wrong_is_found(tmp_path: Path, expected: str, lines: list[dict[str, Any]]) -> None:
    findings = judged(tmp_path, lines)
    assert [f"{name} {text[0]}" for name, text in findings.items()] == [expected]


@pytest.mark.parametrize(("story", "lines"), SOUND, ids=[story for story, _ in SOUND])
def test_a_sound_log_is_silent(tmp_path: Path, story: str, lines: list[dict[str, Any]]) -> None:
    assert judged(tmp_path, lines) == {}, story


def test_a_new_checkpoint_is_told_across_the_logs_of_two_applications(tmp_path: Path) -> None:
    first, second = (batches(lambda n: {}, 3) for _ in range(2))
    later = [line | {"id": "q2", "runId": "r9", "timestamp": at(60 + n)} for n, line in enumerate(second)]
    (tmp_path / "z-first.jsonl").write_text("".join(json.dumps(line) + "\n" for line in first))
    (tmp_path / "a-second.jsonl").write_text("".join(json.dumps(line) + "\n" for line in later))
    (tmp_path / ".a.crc").write_bytes(b"\0")
    findings = found(judge_queries(read_spark_logs(tmp_path)))
    assert findings["H11"].startswith(
        "U line 1 of a-second.jsonl: query q2 begins at batch 0 with a new checkpoint"
    )


def test_two_queries_of_one_application_on_one_topic_are_two_queries(tmp_path: Path) -> None:
    other = [line | {"id": "q2", "timestamp": at(60 + n)} for n, line in enumerate(batches(lambda n: {}, 3))]
    assert judged(tmp_path, [*batches(lambda n: {}, 3), *other]) == {}


def test_progress_is_read_wherever_it_was_written(tmp_path: Path) -> None:
    """One log in each of the forms that people have: a driver's log, a list, Python's output, and compressed."""
    lines = batches(lambda n: {}, 3)
    prefix = "26/01/01 00:00:00 INFO MicroBatchExecution: "
    texts = {
        "driver.log": "".join(
            f"{prefix}open {{\n{prefix}Streaming query made progress: {json.dumps(line, indent=2)}\n{prefix}a {{b}}\n"
            for line in lines
        ),
        "list.json": json.dumps(lines, indent=1),
        "short.json": json.dumps(lines),
        "printed.txt": "".join(f"{line}\n" for line in lines),
        "half.jsonl": "".join(json.dumps(line) + "\n" for line in lines) + '{"id": "q", "runId": "r1", "bat',
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.write_text(text)
        (query,) = read_spark_logs(path)
        assert [batch.number for batch in query.batches] == [0, 1, 2], name
        assert is_spark_log(path), name
    with gzip.open(tmp_path / "driver.log.gz", "wt") as file:
        file.write(texts["driver.log"])
    assert len(read_spark_logs(tmp_path / "driver.log.gz")[0].batches) == 3


def test_progress_of_older_releases_lacks_fields_and_is_read(tmp_path: Path) -> None:
    old = {
        "id": "q",
        "runId": "r",
        "name": None,
        "timestamp": "2018-01-01T00:00:00",
        "batchId": 3,
        "eventTime": None,
        "durationMs": None,
        "stateOperators": [{"numRowsTotal": 1, "numRowsUpdated": 1}],
        "sources": [
            {"description": "FileStreamSource[x]", "startOffset": None, "endOffset": 4, "numInputRows": 1}
        ],
        "sink": {"description": "console"},
    }
    path = tmp_path / "old.json"
    path.write_text(json.dumps(old))
    (query,) = read_spark_logs(path)
    assert (query.batches[0].at_us, query.batches[0].rows, query.gaps) == (1_514_764_800_000_000, 1, 0)


def test_what_is_no_log_is_refused_with_what_to_give(tmp_path: Path) -> None:
    (tmp_path / "app.lz4").write_bytes(b"x")
    with pytest.raises(HistoryFormatError, match="compressed with lz4"):
        read_spark_logs(tmp_path / "app.lz4")
    (tmp_path / "batch.log").write_text('{"Event":"SparkListenerLogStart","Spark Version":"4.3.0"}\n')
    with pytest.raises(HistoryFormatError, match="no progress of a streaming query"):
        read_spark_logs(tmp_path / "batch.log")
    (tmp_path / "odd.log").write_text(json.dumps(progress(0) | {"batchId": "zero"}))
    with pytest.raises(HistoryFormatError, match="line 1: malformed progress"):
        read_spark_logs(tmp_path / "odd.log")
    assert not is_spark_log(HERE / "spark.jsonl")


def test_all_findings_of_a_check_are_told_and_many_are_cut(tmp_path: Path) -> None:
    lines = [
        line | {"id": f"q{n}"}
        for n in range(7)
        for line in batches(lambda n: {"state": {"numRowsDroppedByWatermark": 1}}, 2)
    ]
    late = judged(tmp_path, lines)["H9"].splitlines()
    assert len(late) == 6
    assert late[-1] == "(and 2 more)"


def test_unknown_is_not_open_where_nothing_is_asked() -> None:
    queries = [query for query in read_spark_logs(EVENTS) if query.name == "twice"]
    verdict = judge_queries(queries)["H16"]
    assert isinstance(verdict, Unknown)
    assert not verdict.cut_short
