"""The durable log of a stage: a micro-batch counts once, as a whole, whoever runs it how often."""

from pathlib import Path

import pytest

from headrace import MAX_TIME, MIN_TIME
from headrace.spark.errors import LogError
from headrace.spark.hosting.parcels import Packed, Parcel
from headrace.spark.jobs.log import NOTHING, Entry, Log, PartWriter, Piece, entry_of, taken_for_good
from headrace.spark.jobs.log_source import LogReader, Reading
from headrace.spark.sources.wall_clock import Clock


def packed(number: int) -> Packed:
    return "letters", f"mail/0:{number}", "anna", b"1", number, number


def written(log: Log, number: int, *records: int, query: str = "q", at_us: int = 0, low: int = 0) -> Entry:
    writer = PartWriter(log, number, 0)
    if records:
        writer.take(Parcel([packed(record) for record in records]))
    writer.report("unit", low)
    return log.append(
        entry_of(log.following(number, query), number, query, at_us, [writer.finish()], ["unit"])
    )


def read(log: Log) -> list[int]:
    return [
        record[4]
        for entry in log.entries(log.first() - 1, log.last())
        for part in entry.parts
        for parcel in log.parcels(part.name)
        for record in parcel.records
    ]


@pytest.fixture
def log(tmp_path: Path) -> Log:
    made = Log(tmp_path, "a")
    made.prepare()
    return made


def test_a_batch_that_is_run_again_counts_once(log: Log) -> None:
    first = written(log, 0, 1, 2)
    assert written(log, 0, 1, 2) == first
    assert read(log) == [1, 2]
    assert len(list((log.path / "parts").iterdir())) == 1


def test_of_two_drivers_the_first_to_write_an_entry_counts(log: Log) -> None:
    """A zombie and its successor run the same batch of the same query, and came to different results."""
    written(log, 0, 1)
    zombie, successor = PartWriter(log, 1, 0), PartWriter(log, 1, 0)
    zombie.take(Parcel([packed(7)]))
    successor.take(Parcel([packed(8)]))
    before = log.following(1, "q")
    pieces = [successor.finish(), zombie.finish()]
    standing = [log.append(entry_of(before, 1, "q", 0, [piece], ["unit"])) for piece in pieces]
    assert standing[0] == standing[1]
    assert read(log) == [1, 8]


def test_parts_without_an_entry_do_not_count(log: Log) -> None:
    lost = PartWriter(log, 0, 0)
    lost.take(Parcel([packed(5)]))
    lost.finish()
    written(log, 0, 1)
    assert read(log) == [1]


def test_a_query_that_has_lost_its_checkpoint_is_refused(log: Log) -> None:
    written(log, 0, 1)
    with pytest.raises(
        LogError, match=r"log of 'a': entry 0 belongs to another query \(q; this one is new\)"
    ):
        written(log, 0, 1, query="new")
    with pytest.raises(LogError, match="there is no entry 4 of this query before entry 5"):
        written(log, 5, 1)


def test_a_damaged_part_is_known_as_such(log: Log) -> None:
    (part,) = written(log, 0, 1, 2).parts
    path = log.path / "parts" / part.name
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    with pytest.raises(LogError, match=f"its file {part.name} is damaged at byte 0"):
        list(log.parcels(part.name))
    path.unlink()
    with pytest.raises(LogError, match=f"its file {part.name} is missing"):
        list(log.parcels(part.name))


def test_the_low_watermark_is_the_least_of_all_units_and_never_goes_back() -> None:
    units = ["a/0", "a/1"]
    first = entry_of(NOTHING, 0, "q", 0, [Piece(lows={"a/0": 5})], units)
    second = entry_of(first, 1, "q", 0, [Piece(lows={"a/0": 9}), Piece(lows={"a/1": 7})], units)
    third = entry_of(second, 2, "q", 0, [Piece(lows={"a/1": 6})], units)
    assert [entry.low for entry in (first, second, third)] == [MIN_TIME, 7, 7]
    assert [entry.news for entry in (first, second, third)] == [-1, 1, 1]


def test_what_is_dropped_is_gone_but_for_the_latest_entries(log: Log) -> None:
    for number in range(20):
        written(log, number, number, low=number)
    log.drop(5)
    assert (log.first(), log.last(), read(log)) == (6, 19, list(range(6, 20)))
    log.drop(19)
    assert (log.first(), log.last()) == (12, 19)
    assert len(list((log.path / "parts").iterdir())) == 8
    with pytest.raises(LogError, match="entry 6 is missing, and a consumer has not read it yet"):
        list(log.entries(5, 19))


def test_only_what_is_old_and_taken_for_good_is_dropped(log: Log, tmp_path: Path) -> None:
    """The consumer has taken 9 and then 11 of 20 entries; its last micro-batch may come once more."""
    consumer = Log(tmp_path, "b")
    consumer.prepare()
    for number in range(20):
        written(log, number, number, at_us=number)
    assert taken_for_good("a", consumer, begin=-1) == -1
    before = NOTHING
    for number, taken in enumerate((9, 11)):
        before = consumer.append(entry_of(before, number, "q", 0, [Piece(taken={"a": taken})], []))
    assert taken_for_good("a", consumer, begin=-1) == 9
    log.shorten(taken_for_good("a", consumer, begin=-1), before_us=5)
    assert log.first() == 5
    log.shorten(taken_for_good("a", consumer, begin=-1), before_us=1_000)
    assert log.first() == 10


def reader(log: Log, *, max_records: int = 100, begin: int = -1) -> LogReader:
    directory = log.path.parent.parent
    return LogReader(Reading(str(directory), {"a": begin}, 2, max_records))


def test_a_source_goes_as_far_as_there_are_news_and_takes_whole_entries(log: Log) -> None:
    for number in range(4):
        written(log, number, *range(number * 10, number * 10 + 3), low=number)
    written(log, 4, low=3)  # nothing new
    some, all_ = reader(log, max_records=7), reader(log)
    assert some._look(some.initialOffset())["logs"] == {"a": 1}
    assert some._look({"logs": {"a": 3}, "tick": 0})["logs"] == {"a": 3}
    assert all_._look(all_.initialOffset())["logs"] == {"a": 3}
    assert reader(log, max_records=1)._look({"logs": {"a": 0}, "tick": 0})["logs"] == {"a": 1}


def test_a_source_reads_the_same_between_the_same_offsets(log: Log) -> None:
    for number in range(4):
        written(log, number, number, low=number)
    one = reader(log)

    def rows() -> list[str]:
        return sorted(
            str(row)
            for partition in one.partitions({"logs": {"a": 0}, "tick": 0}, {"logs": {"a": 2}, "tick": 0})
            for batch in one.read(partition)
            for row in batch.to_pylist()
        )

    before = rows()
    written(log, 4, 4, low=MAX_TIME)
    assert rows() == before
    assert len(before) == 3
    assert sum("'number': 2, 'low': 2" in row for row in before) == 1


def test_a_source_with_a_clock_says_that_time_has_passed(log: Log) -> None:
    one = LogReader(Reading(str(log.path.parent.parent), {"a": -1}, 1, 100, clock=Clock(1_000)))
    start = one.initialOffset()
    end = one._look(start)
    assert end["tick"] > 0
    assert end["logs"] == start["logs"]
    (task,) = one.partitions(start, end)
    (batch,) = one.read(task)
    assert [row["tick"] for row in batch.to_pylist()] == [True]


def test_a_sender_that_has_left_is_no_longer_waited_for(log: Log) -> None:
    written(log, 0, 1)
    one = reader(log)
    assert one._look({"logs": {"a": 0, "gone": 7}, "tick": 0})["logs"] == {"a": 0, "gone": 7}
    written(log, 1, 2)
    assert one._look({"logs": {"a": 0, "gone": 7}, "tick": 0})["logs"] == {"a": 1}
