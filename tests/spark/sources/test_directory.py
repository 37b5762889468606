"""Injectors on Spark: what can be wrong with their input, and how it is told (MillWheel 5.2)."""

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pytest

from headrace import (
    SECOND,
    MalformedRecordError,
    OptionsError,
)
from headrace.spark.io_errors import (
    CheckpointMismatchError,
    SourceChangedError,
    SourceMissingError,
    SourceUnreadableError,
)
from headrace.spark.sources.directory import Directory
from headrace.spark.sources.sources import Generated, ParquetFiles
from tests.spark.sources.source_rig import (
    Query,
    data,
    heartbeat,
    letter,
    letters,
    numbers,
    pipeline_of,
    write_lines,
)

pytestmark = pytest.mark.spark

S = SECOND


def test_a_malformed_line_stops_the_query_with_file_line_and_what_to_do(tmp_path: Path) -> None:
    write_lines(tmp_path / "a", letter("a", 1), "{not json", letter("b", 2))
    with pytest.raises(MalformedRecordError) as caught:
        Query(letters(tmp_path)).batch()
    assert str(caught.value) == (
        f"injector 'mail/0', record 1 for stream 'mail': {tmp_path}/a, line 2: DecodeError: JSON is malformed: object keys must "
        "be strings (byte 1): '{not json'. Fix the source, or give the injector on_malformed=DeadLetter(stream)"
    )


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"from": "a"}', "there is no field 'at'; the fields are 'from'"),
        ('{"from": "a", "at": "noon"}', "Invalid isoformat string: 'noon'"),
        ('{"from": "a", "at": null}', "timestamp None is a NoneType, not a number"),
        ('{"from": 1.5, "at": 1}', "key 1.5 is not a str"),
        ('{"from": "a", "at": 9223372036854775807}', "is not an int of microseconds"),
        ("[1, 2]", "list indices must be integers"),
        ("\xff", "DecodeError"),
    ],
)
def test_what_is_wrong_with_a_line_is_said(tmp_path: Path, line: str, reason: str) -> None:
    (tmp_path / "a").write_bytes(line.encode("latin-1"))
    with pytest.raises(MalformedRecordError) as caught:
        Query(letters(tmp_path)).batch()
    assert "line 1: " in str(caught.value)
    assert reason in str(caught.value)


def test_malformed_lines_go_to_the_dead_letters_in_their_place(tmp_path: Path) -> None:
    write_lines(tmp_path / "a", "oops", letter("b", 7 * S), '{"from": "c"}')
    rows = Query(letters(tmp_path), pipeline_of(dead_letters="dead")).batch()
    assert [(row["stream"], row["record_id"], row["timestamp"]) for row in data(rows)] == [
        ("dead", "mail/0:0", 7 * S),
        ("mail", "mail/0:1", 7 * S),
        ("dead", "mail/0:2", 7 * S),
    ]
    told = json.loads(rows[0]["value"])
    assert (told["injector"], told["offset"], told["value"]) == ("mail/0", 0, "b29wcw==")
    assert f"{tmp_path}/a, line 1" in told["error"]


def test_a_file_without_a_single_good_line_is_dead_letters_only(tmp_path: Path) -> None:
    write_lines(tmp_path / "a", letter("a", 7 * S))
    write_lines(tmp_path / "b", "oops", "oops")
    write_lines(tmp_path / "empty")
    query = Query(letters(tmp_path), pipeline_of(dead_letters="dead"))
    rows = query.batch()
    assert [row["stream"] for row in data(rows)] == ["mail", "dead", "dead"]
    assert heartbeat(rows)[0] == 7 * S


def test_a_file_that_shrank_grew_or_changed_is_refused(tmp_path: Path) -> None:
    file, before = tmp_path / "a", (letter("a", 1), letter("b", 2))
    for after, verb in (((letter("a", 1),), "shrunk"), ((*before, letter("c", 3)), "grown")):
        write_lines(file, *before)
        query = Query(letters(tmp_path))
        query.batch()
        write_lines(file, *after)
        with pytest.raises(SourceChangedError, match=f"it has {verb} since it was first seen"):
            query.batch()
        with pytest.raises(SourceChangedError, match=f"it has {verb} since it was first seen"):
            query.again(0)
    write_lines(file, *before)
    query = Query(letters(tmp_path))
    query.batch()
    os.utime(file, (1, 1))
    with pytest.raises(SourceChangedError, match="it has been changed since"):
        query.batch()


def test_a_file_that_is_gone_before_it_was_read_to_its_end_is_missed(tmp_path: Path) -> None:
    write_lines(tmp_path / "a", letter("a", 1), letter("b", 2))
    query = Query(letters(tmp_path, max_records=1))
    query.batch()
    (tmp_path / "a").unlink()
    with pytest.raises(
        SourceChangedError, match=r"it disappeared before it was read to its end\. Put it back"
    ):
        query.batch()


def test_a_missing_directory_is_met_before_anything_runs(tmp_path: Path) -> None:
    with pytest.raises(
        SourceMissingError, match=r"there is no directory .*/nowhere\. Create it, or fix the path"
    ):
        Query(letters(tmp_path / "nowhere"))
    write_lines(tmp_path / "file")
    with pytest.raises(SourceMissingError, match="it is a file"):
        Query(letters(tmp_path / "file"))


def test_a_file_that_is_no_parquet_is_named(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("no parquet at all")
    with pytest.raises(
        SourceUnreadableError, match=r"mail', .*/a: ArrowInvalid: Parquet magic bytes not found"
    ):
        Query(ParquetFiles(str(tmp_path), key="k", timestamp="t")).batch()


def test_a_broken_archive_is_named(tmp_path: Path) -> None:
    packed = gzip.compress(letter("a", 1).encode() * 100)
    (tmp_path / "a.gz").write_bytes(packed[:-20])
    with pytest.raises(SourceUnreadableError, match=r"mail', .*/a.gz: EOFError"):
        Query(letters(tmp_path)).batch()


def test_options_are_checked_where_the_source_is_joined_to_the_pipeline(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="one directory for each process"):
        Query(letters(tmp_path), pipeline_of(processes=2))
    with pytest.raises(OptionsError, match=r"no '\{process\}'"):
        Query(letters(f"{tmp_path}/{{process}}"))
    with pytest.raises(OptionsError, match="max_records=0: expected at least 1"):
        Query(letters(tmp_path, max_records=0))
    with pytest.raises(OptionsError, match="disorder_us=-1"):
        Query(letters(Directory(str(tmp_path), disorder_us=-1)))
    write_lines(tmp_path / "a", letter("a", 1))
    with pytest.raises(OptionsError, match=r"created='1': expected an int of microseconds, for .*/a"):
        Query(letters(Directory(str(tmp_path), created=lambda _path: "1"))).batch()  # type: ignore[arg-type,return-value]


def test_a_checkpoint_of_something_else_is_refused(tmp_path: Path) -> None:
    write_lines(tmp_path / "a", letter("a", 1))
    query = Query(letters(tmp_path))
    query.batch()
    wrong: tuple[list[dict[str, Any]], ...] = ([{"generated": []}], [{"processes": [{}, {}]}])
    for offsets in wrong:
        query.offsets = offsets
        with pytest.raises(CheckpointMismatchError, match="Start with a new checkpoint"):
            query.batch()
    made = Query(Generated(numbers, count=3))
    made.offsets = [{"processes": []}]
    with pytest.raises(CheckpointMismatchError, match="is not from a generator"):
        made.batch()
