"""Injectors on Spark: rows, offsets and watermarks (MillWheel 5.2, Figure 10)."""

import gzip
import json
import threading
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import window

from headrace import (
    MAX_TIME,
    MILLISECOND,
    MIN_TIME,
    SECOND,
    BytesCodec,
    OptionsError,
    Pipeline,
)
from headrace.spark.io_errors import (
    SourceChangedError,
)
from headrace.spark.sources import directory as _source_files
from headrace.spark.sources.data_source import injected
from headrace.spark.sources.directory import Directory
from headrace.spark.sources.injected_rows import NewRecord
from headrace.spark.sources.schema import ARROW_SCHEMA, WATERMARK_COLUMN
from headrace.spark.sources.sources import Files, Generated, JsonLines, ParquetFiles
from tests.spark.sources.source_rig import (
    Query,
    bounded,
    data,
    heartbeat,
    keys,
    letter,
    letters,
    numbers,
    pipeline_of,
    watermark_of,
    write_lines,
)

pytestmark = pytest.mark.spark

S = SECOND


# Rows


def test_a_line_becomes_a_row_of_the_fixed_schema(tmp_path: Path) -> None:
    write_lines(tmp_path / "a", letter("ann", 5 * S))
    (row, beat) = Query(letters(tmp_path)).batch()
    assert list(row) == ARROW_SCHEMA.names
    assert row == {
        "stream": "mail",
        "key": "ann",
        "value": b'{"at":5000000,"from":"ann","to":"Riva"}',
        "timestamp": 5 * S,
        "record_id": "mail/0:0",
        "arrived": 5 * S,
        "_injector_watermark": None,
        "horizon": None,
    }
    assert beat == {
        **dict.fromkeys(ARROW_SCHEMA.names),
        "_injector_watermark": datetime(1970, 1, 1, 0, 0, 5, tzinfo=UTC),
        "horizon": 5 * S,
    }


def test_values_are_written_with_the_codec_of_their_stream(tmp_path: Path) -> None:
    write_lines(tmp_path / "a", "ann 1 hello", "bob 2 hi")
    pipeline = Pipeline("post")
    pipeline.injector("mail", outputs=["raw", "parsed"])
    pipeline.stream("raw", BytesCodec())

    def parse(line: str) -> NewRecord:
        key, at, text = line.split()
        return (
            NewRecord(key, text.encode(), int(at))
            if key == "bob"
            else NewRecord(key, [text], int(at), "parsed")
        )

    def to_raw(line: str) -> NewRecord:
        record = parse(line)
        return record if record.stream else NewRecord(record.key, record.value, record.timestamp, "raw")

    rows = Query(Files(str(tmp_path), to_raw), pipeline).batch()
    assert [(row["stream"], row["value"]) for row in data(rows)] == [("parsed", b'["hello"]'), ("raw", b"hi")]


@pytest.mark.parametrize(
    ("at", "unit_us"),
    [
        (1_500_000, 1),
        (1_500, MILLISECOND),
        (1.5, S),
        ("1970-01-01T00:00:01.5", 1),
        ("1970-01-01T01:00:01.5+01:00", 1),
    ],
)
def test_times_are_read_in_the_units_that_are_in_use(tmp_path: Path, at: object, unit_us: int) -> None:
    write_lines(tmp_path / "a", json.dumps({"from": 7, "at": at}))
    source = JsonLines(str(tmp_path), key="from", timestamp="at", unit_us=unit_us)
    (row,) = data(Query(source).batch())
    assert (row["key"], row["timestamp"]) == ("7", 1_500_000)


def test_rows_of_parquet_are_records_with_their_times(tmp_path: Path) -> None:
    times = [datetime(1970, 1, 1, 0, 0, second, tzinfo=UTC) for second in range(5)]
    table = pa.table(
        {"who": list("abcde"), "when": pa.array(times, pa.timestamp("ns", "UTC")), "n": [1, 2, 3, 4, 5]}
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=2)
    source = ParquetFiles(str(tmp_path), key="who", timestamp="when", value="n", max_records=3)
    first, second = Query(source).batches()
    assert [(row["key"], row["timestamp"], row["value"]) for row in data(first + second)] == [
        ("a", 0, b"1"),
        ("b", S, b"2"),
        ("c", 2 * S, b"3"),
        ("d", 3 * S, b"4"),
        ("e", 4 * S, b"5"),
    ]


def test_packed_files_and_other_line_ends_are_read_like_any(tmp_path: Path) -> None:
    lines = "\r\n".join(["", letter("a", 1), "  ", letter("b", 2), letter("c", 3)])
    (tmp_path / "a.gz").write_bytes(gzip.compress(lines.encode()))
    query = Query(letters(tmp_path, max_records=4))
    assert [keys(rows) for rows in query.batches()] == [["a", "b"], ["c"]]
    assert [row["record_id"] for row in data(query.again(0) + query.again(1))] == [
        "mail/0:1",
        "mail/0:3",
        "mail/0:4",
    ]


# Offsets


def test_a_batch_is_read_again_as_it_was_after_the_driver_is_lost(tmp_path: Path) -> None:
    """Batches of 3 over files of 5; each driver dies after its batch; files come meanwhile."""
    source = letters(tmp_path, max_records=3)
    query, seen = Query(source), []
    for number in range(8):
        if number < 3:
            name = f"file-{9 - number}"
            write_lines(tmp_path / name, *(letter(f"{name}.{n}", number * 100 + n) for n in range(5)))
        seen.append(query.batch())
        query.restart()
    assert [query.again(number) for number in range(len(query.offsets))] == [rows for rows in seen if rows]
    records = data([row for rows in seen for row in rows])
    assert [row["record_id"] for row in records] == [f"mail/0:{n}" for n in range(15)]
    assert [bool(data(rows)) for rows in seen] == [True] * 5 + [False] * 3


def test_limits_do_not_change_what_a_record_is(tmp_path: Path) -> None:
    for number in range(4):
        lines = [letter(f"{number}.{n}", number * S + n) for n in range(7)]
        write_lines(tmp_path / f"{number}", *lines)
    directory = Directory(str(tmp_path), complete=True)
    whole = data(bounded(letters(directory)))
    assert len(whole) == 28
    for limit in (1, 5, 7, 100):
        rows = [row for rows in Query(letters(directory, limit)).batches() for row in rows]
        assert data(rows) == whole


def test_large_files_are_divided_among_tasks_and_small_ones_put_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_source_files, "TASK_RECORDS", 10)
    monkeypatch.setattr("headrace.spark.sources.formats._CHUNK_BYTES", 100)
    write_lines(tmp_path / "a", *(letter(f"a{n}", n) for n in range(25)))
    for number in range(6):
        write_lines(tmp_path / f"b{number}", *(letter(f"b{number}.{n}", 100 + number) for n in range(4)))
    query = Query(letters(tmp_path))
    rows = query.batch()
    tasks = query.reader.partitions(query.reader.initialOffset(), query.offsets[0])
    assert [sum(one[0].records for task in part.tasks for one in task.slices) for part in tasks] == [
        10,
        10,
        9,
        8,
        8,
        4,
    ]
    assert keys(rows) == [f"a{n}" for n in range(25)] + [f"b{m}.{n}" for m in range(6) for n in range(4)]
    assert [row["record_id"] for row in data(rows)] == [f"mail/0:{n}" for n in range(49)]


def test_nothing_new_is_no_batch(tmp_path: Path) -> None:
    write_lines(tmp_path / "a", letter("ann", 1))
    query = Query(letters(tmp_path))
    assert query.batch()
    assert query.batch() == []
    query.restart()
    assert query.batch() == query.again(0)[-1:]
    assert query.batch() == []


def test_a_query_that_is_started_again_hears_once_more_that_a_source_has_ended() -> None:
    """Spark forgets it: it keeps only the least watermark of all injectors."""
    query = Query(Generated(numbers, count=2))
    last = query.batch()[-1:]
    assert heartbeat(last) == (MAX_TIME, MAX_TIME)
    for number in (1, 2):
        assert query.batch() == []
        query.restart()
        assert query.batch() == query.again(number) == last


def test_finished_files_may_be_moved_away_and_are_then_forgotten(tmp_path: Path) -> None:
    query = Query(letters(tmp_path))
    for name in "abc":
        write_lines(tmp_path / name, letter(name, ord(name)))
        assert keys(query.batch()) == [name]
        (tmp_path / name).unlink()
        assert query.batch() == []  # nothing to say
    assert list(query.offsets[-1]["processes"][0]["files"]) == ["c"]


def test_what_comes_after_the_start_of_an_available_now_run_waits_for_the_next(tmp_path: Path) -> None:
    write_lines(tmp_path / "a", letter("a", 1), letter("b", 2), letter("c", 3))
    query = Query(letters(tmp_path, max_records=2))
    query.available_now()
    write_lines(tmp_path / "b", letter("d", 4))
    assert [keys(rows) for rows in query.batches()] == [["a", "b"], ["c"]]
    query.restart()
    assert keys(query.batch()) == ["d"]


def test_hidden_files_others_names_and_folders_do_not_count(tmp_path: Path) -> None:
    for name in (".a.json", "_b.json", "c.txt", "d.json"):
        write_lines(tmp_path / name, letter(name, 1))
    (tmp_path / "e.json").mkdir()
    assert keys(Query(letters(Directory(str(tmp_path), pattern="*.json"))).batch()) == ["d.json"]


def test_a_uri_names_a_directory_as_well(tmp_path: Path) -> None:
    write_lines(tmp_path / "a", letter("ann", 1))
    assert keys(Query(letters(f"file://{tmp_path}")).batch()) == ["ann"]


# Watermarks


def test_the_watermark_is_the_creation_time_of_the_oldest_unfinished_file(tmp_path: Path) -> None:
    """Three files are there, read two records at a time; then an older one comes, and a newer one."""
    for name, at in (("a", 10), ("b", 20), ("c", 30)):
        write_lines(tmp_path / name, *(letter(f"{name}{n}", (at + n) * S) for n in range(3)))
    query = Query(letters(tmp_path, max_records=2))
    assert [heartbeat(rows)[0] for rows in query.batches()] == [10 * S, 20 * S, 30 * S, 30 * S, 30 * S]
    write_lines(tmp_path / "late", letter("late", 5 * S))
    assert heartbeat(query.batch()) == (30 * S, 30 * S)
    write_lines(tmp_path / "d", letter("d0", 40 * S))
    assert heartbeat(query.batch()) == (40 * S, 40 * S)


def test_stamps_never_go_back_and_the_horizon_never_passes_one(tmp_path: Path) -> None:
    query, horizons = Query(letters(tmp_path, max_records=3)), [MIN_TIME]
    stamps: list[int] = []
    for number, at in enumerate((10, 30, 20, 5, 50)):
        write_lines(tmp_path / f"{number}", *(letter(f"{n}", at * S) for n in range(4)))
        rows = query.batch()
        assert min(row["arrived"] for row in data(rows)) >= horizons[-1]
        stamps += [row["arrived"] for row in data(rows)]
        horizons.append(heartbeat(rows)[1])
    assert stamps == sorted(stamps)
    assert horizons == sorted(horizons)


def test_creation_times_can_be_told_and_disorder_is_allowed_for(tmp_path: Path) -> None:
    write_lines(tmp_path / "log-100", letter("a", 110 * S), letter("b", 107 * S))
    told = Directory(str(tmp_path), created=lambda path: int(path.rpartition("-")[2]) * S)
    assert heartbeat(Query(letters(told)).batch())[0] == 100 * S
    assert heartbeat(Query(letters(Directory(str(tmp_path), disorder_us=4 * S))).batch())[0] == 106 * S


def test_a_process_that_has_nothing_yet_holds_the_watermark_back(tmp_path: Path) -> None:
    write_lines(tmp_path / "0" / "a", letter("a", 10 * S))
    query = Query(letters(f"{tmp_path}/{{process}}"), pipeline_of(processes=2))
    assert heartbeat(query.batch()) == (MIN_TIME, MIN_TIME)
    write_lines(tmp_path / "1" / "a", letter("b", 7 * S))
    rows = query.batch()
    assert [row["record_id"] for row in data(rows)] == ["mail/1:0"]
    assert heartbeat(rows) == (7 * S, 7 * S)


def test_the_oldest_file_of_all_processes_is_read_first(tmp_path: Path) -> None:
    for process, name, at in ((0, "a", 10), (1, "a", 5), (0, "b", 20), (1, "b", 30)):
        write_lines(tmp_path / f"{process}" / name, letter(f"{process}{name}", at * S))
    query = Query(letters(f"{tmp_path}/{{process}}", max_records=1), pipeline_of(processes=2))
    assert [(keys(rows), heartbeat(rows)[0]) for rows in query.batches()] == [
        (["1a"], 10 * S),
        (["0a"], 20 * S),
        (["0b"], 20 * S),
        (["1b"], 20 * S),
    ]


def test_the_end_marker_ends_the_source_when_all_is_read(tmp_path: Path) -> None:
    write_lines(tmp_path / "a", letter("a", 1 * S), letter("b", 2 * S))
    query = Query(letters(Directory(str(tmp_path), end_marker="_SUCCESS"), max_records=1))
    assert heartbeat(query.batch())[0] == 1 * S
    assert heartbeat(query.batch()) == (1 * S, 1 * S)
    (tmp_path / "_SUCCESS").touch()
    assert heartbeat(query.batch()) == (MAX_TIME, MAX_TIME)  # only the watermark has moved
    assert query.batch() == []
    write_lines(tmp_path / "b", letter("c", 3 * S))
    with pytest.raises(SourceChangedError, match=r"'mail', b: it appeared after the source had ended"):
        query.batch()


def test_a_bounded_read_is_everything_and_then_the_end(tmp_path: Path) -> None:
    write_lines(tmp_path / "a", letter("a", 1 * S), letter("b", 2 * S))
    rows = bounded(letters(tmp_path, max_records=1))
    assert (keys(rows), heartbeat(rows)) == (["a", "b"], (MAX_TIME, MAX_TIME))


# On Spark


class _LostDriverError(Exception):
    pass


def test_a_query_that_is_started_again_reads_the_same_rows(spark: SparkSession, tmp_path: Path) -> None:
    """The driver is lost in its second batch; another file comes; the query starts again from its checkpoint."""
    write_lines(tmp_path / "in" / "a", *(letter(f"a{n}", n * S) for n in range(5)))
    seen: list[tuple[int, list[str]]] = []
    lose = True

    def sink(frame: DataFrame, batch: int) -> None:
        seen.append((batch, sorted(row["record_id"] for row in frame.collect() if row["key"] is not None)))
        if batch == 1 and lose:
            raise _LostDriverError

    def run() -> None:
        frame = injected(spark, pipeline_of(), "mail", letters(tmp_path / "in", max_records=3))
        writer = frame.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
        writer.foreachBatch(sink).trigger(availableNow=True).start().awaitTermination()

    with pytest.raises(StreamingQueryException, match="_LostDriverError"):
        run()
    write_lines(tmp_path / "in" / "b", letter("b", 0))
    lose = False
    run()
    first, second = [f"mail/0:{n}" for n in range(3)], ["mail/0:3", "mail/0:4"]
    assert seen == [(0, first), (1, second), (1, second), (2, ["mail/0:5"])]


def test_sparks_watermark_is_the_injectors(spark: SparkSession, tmp_path: Path) -> None:
    """Two processes; a count per key that Spark gives out when the source has ended, in a batch without rows."""
    made = Generated(numbers, count=6, disorder_us=2 * S, max_records=6)
    frame = injected(spark, pipeline_of(processes=2), "mail", made).withWatermark(
        "_injector_watermark", "0 seconds"
    )
    counted = frame.groupBy(window("_injector_watermark", "1 second")).count()
    query = (
        counted.writeStream.format("noop")
        .option("checkpointLocation", str(tmp_path))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    marks = [progress["eventTime"]["watermark"] for progress in query.recentProgress]
    # Batch 1 works with what batch 0 has promised: record 3 is next, less the disorder.
    assert marks[:2] == ["1970-01-01T00:00:00.000Z", "1970-01-01T00:00:01.000Z"]
    assert marks[-1] == "9999-12-31T00:00:00.000Z"


def test_the_same_source_read_as_a_bounded_one_has_the_same_rows(spark: SparkSession) -> None:
    source = Generated(numbers, count=5, max_records=4)
    rows = injected(spark, pipeline_of(), "mail", source, bounded=True).collect()
    assert [(row["record_id"], row["timestamp"]) for row in rows if row["key"] is not None] == [
        ("mail/0:0", 0),
        ("mail/0:1", S),
        ("mail/0:2", 0),
        ("mail/0:3", 3 * S),
        ("mail/0:4", 4 * S),
    ]
    (beat,) = [row for row in rows if row["key"] is None]
    assert (watermark_of(beat[WATERMARK_COLUMN]), beat["horizon"]) == (MAX_TIME, MAX_TIME)


def test_what_stops_a_query_is_told_to_its_starter(spark: SparkSession, tmp_path: Path) -> None:
    write_lines(tmp_path / "in" / "a", letter("a", 1), "oops")
    frame = injected(spark, pipeline_of(), "mail", letters(tmp_path / "in"))
    query = frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    with pytest.raises(
        StreamingQueryException, match=r"/in/a, line 2: DecodeError: .*on_malformed=DeadLetter"
    ):
        query.trigger(availableNow=True).start().awaitTermination()


def test_a_source_that_does_not_pickle_is_refused(spark: SparkSession) -> None:
    lock = threading.Lock()
    source = Generated(lambda _process, _offset: [lock], count=1)  # type: ignore[list-item]
    with pytest.raises(
        OptionsError, match=r"to be sent to the workers \(cannot pickle '_thread.lock' object\)"
    ):
        injected(spark, pipeline_of(), "mail", source)
    with pytest.raises(
        OptionsError, match="injector='post': expected an injector of pipeline 'post': 'mail'"
    ):
        injected(spark, pipeline_of(), "post", source)
