"""What a job tells of its progress is what is in its state, however its micro-batches fall; without Spark, and on it."""

from dataclasses import replace
from itertools import groupby
from operator import attrgetter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import MIN_TIME, MINUTE, SECOND, ComputationProgress
from headrace.dataflow import FixedWindows, TimestampCombiner, read
from headrace.spark.hosting import chunks as _chunks
from headrace.spark.hosting.history_export import history_of
from headrace.spark.hosting.parcels import Tally
from headrace.spark.hosting.progress_board import Board
from headrace.spark.runtime.event_time import from_spark
from headrace_properties.explain.progress_counter import ProgressCounter
from headrace_properties.reference import run_reference
from headrace_sim import FeedBuilder
from tests.sim.rig import letters, mail
from tests.spark.microbatches import Query, Store, query, run_in_batches


def progress_of(running: Query) -> dict[str, ComputationProgress]:
    board = Board()
    board.take(running.tallies)
    return {progress.name: progress for progress in board.progress(running.plan.pipeline)}


def stored(running: Query, computation: str) -> tuple[int, int, int]:
    """Timers, keys and bytes that a computation's state really has."""
    timers = keys = size = 0
    for group in running.plan.groups[computation]:
        store = running.stores.get(group)
        if store is None:
            continue
        for data in store.chunks.values():
            size += len(data)
            for _, packed in _chunks._decode_chunk(data).values():
                keys += 1
                timers += len(_chunks._decode_row(packed).timers)
    return timers, keys, size


@given(
    sizes=st.lists(st.integers(1, 40), min_size=1, max_size=4),
    intervals=st.integers(1, 5),
    upto=st.integers(1, 60),
)
def test_what_is_told_is_what_the_state_has(sizes: list[int], intervals: int, upto: int) -> None:
    pipeline = mail(processes=2)
    running, entries = query(pipeline, intervals=intervals), list(letters(pipeline).entries)[:upto]
    while entries:
        running.batch(entries[: sizes[0]])
        entries, sizes = entries[sizes[0] :], [*sizes[1:], sizes[0]]
        for name, told in progress_of(running).items():
            assert (told.timers, told.keys, told.state_bytes) == stored(running, name)


@pytest.mark.parametrize("rows_in_chunk", [1, 64])
def test_what_goes_in_and_comes_out_is_counted_once(
    monkeypatch: pytest.MonkeyPatch, rows_in_chunk: int
) -> None:
    monkeypatch.setattr(_chunks, "ROWS_IN_CHUNK", rows_in_chunk)
    pipeline = mail()
    feed = letters(pipeline)
    running = run_in_batches(pipeline, feed, [7])
    told = progress_of(running)
    assert told["sorter"].records == feed.records == told["sorter"].outputs == told["counter"].records
    assert told["counter"].outputs == run_reference(pipeline, feed).outputs.total()
    assert (told["counter"].timers, told["counter"].late_records) == (0, 0)
    for name, one in told.items():
        assert (one.timers, one.keys, one.state_bytes) == stored(running, name)


def test_late_records_watermark_and_lag() -> None:
    # Letters, a watermark that passes the first, and two from before it. The first of these finds intervals that do not know
    # of the watermark yet, for they had nothing to do: it is not late for them.
    pipeline = mail()
    builder = FeedBuilder(pipeline)
    for at_us in (SECOND, 2 * SECOND):
        builder.record(at_us=at_us, value={"city": "riva"}, timestamp=at_us, key="ada")
    builder.watermark(at_us=2 * SECOND, low_watermark=SECOND + SECOND // 2)
    for at_us in (3 * SECOND, 4 * SECOND):
        builder.record(at_us=at_us, value={"city": "riva"}, timestamp=SECOND, key="ada")
    entries = list(builder.build().entries)
    running = query(pipeline)
    running.batch(entries[:3])
    assert {(progress.low_watermark, progress.lag_us) for progress in progress_of(running).values()} == {
        (MIN_TIME, None)
    }
    running.batch()
    running.batch(entries[3:4])
    assert {(progress.records, progress.late_records) for progress in progress_of(running).values()} == {
        (3, 0)
    }
    running.batch(entries[4:5])
    sorter, counter = progress_of(running).values()
    assert (sorter.records, sorter.late_records) == (counter.records, counter.late_records) == (4, 1)
    assert sorter.low_watermark == SECOND + SECOND // 2
    assert sorter.lag_us == SECOND // 2


def by_interval(running: Query) -> list[list[Tally]]:
    tallies = sorted(running.tallies, key=attrgetter("group", "turn"))
    return [list(told) for _, told in groupby(tallies, attrgetter("group"))]


def test_what_spark_adds_up_is_what_the_intervals_have(monkeypatch: pytest.MonkeyPatch) -> None:
    # An interval that a micro-batch works on once adds all that it has; the second time, how much more that is.
    pipeline = mail()
    running = run_in_batches(pipeline, letters(pipeline), [9], intervals=2)
    for told in by_interval(running):
        assert [tally.turn for tally in told] == list(range(1, len(told) + 1))
        assert sum(tally.new_records for tally in told) == told[-1].records
        assert sum(tally.new_outputs for tally in told) == told[-1].outputs
        assert all(
            (tally.keys_here, tally.timers_here, tally.intervals_here) == (tally.keys, tally.timers, 1)
            for tally in told
        )
    monkeypatch.setattr(Store, "is_begun", lambda _self: True)
    for told in by_interval(run_in_batches(pipeline, letters(pipeline), [9], intervals=2)):
        assert sum(tally.keys_here for tally in told) == told[-1].keys
        assert sum(tally.timers_here for tally in told) == told[-1].timers
        assert sum(tally.state_bytes_here for tally in told) == told[-1].state_bytes
        assert {tally.intervals_here for tally in told} == {0}


def test_a_hot_key_is_named_with_its_part_of_the_latest_records() -> None:
    """Ada gets 700 of 1,400 letters. Then a micro-batch without records passes, and one in which all get as many."""
    pipeline = mail()
    builder = FeedBuilder(pipeline)
    for number in range(1_400):
        city = "riva" if number % 2 else f"city {number}"
        builder.record(at_us=SECOND + number, value={"city": city}, timestamp=SECOND, key=f"{number}")
    builder.watermark(at_us=2 * SECOND, low_watermark=2 * SECOND)
    for number in range(1_400):
        value = {"city": f"city {number}"}
        builder.record(at_us=3 * SECOND + number, value=value, timestamp=3 * SECOND, key=f"{number}")
    entries = list(builder.build().entries)
    running = query(pipeline, intervals=4)
    running.batch(entries[:1_401])
    for _ in range(2):
        sorter, counter = progress_of(running).values()
        assert (sorter.hot_key, sorter.hot_share) == (None, 0)
        assert (counter.hot_key, counter.hot_share) == ("riva", 0.5)
        running.batch()
    running.batch(entries[1_401:])
    assert {progress.hot_key for progress in progress_of(running).values()} == {None}


def test_a_board_takes_the_later_word_and_keeps_it(tmp_path: Path) -> None:
    pipeline = mail()
    running = run_in_batches(pipeline, letters(pipeline), [7])
    board = Board(tmp_path / "progress.json")
    board.take(reversed(running.tallies))
    assert board.progress(pipeline) == tuple(progress_of(running).values())
    assert Board(tmp_path / "progress.json").progress(pipeline) == board.progress(pipeline)
    # What Spark knows itself may be newer than what the intervals were told.
    assert {progress.low_watermark for progress in Board().progress(pipeline)} == {MIN_TIME}
    assert {progress.low_watermark for progress in Board().progress(pipeline, 5 * SECOND)} == {5 * SECOND}


def test_counting_by_the_history_agrees() -> None:
    pipeline = mail()
    running = run_in_batches(pipeline, letters(pipeline), [7], history=True)
    board, counter = Board(), ProgressCounter(pipeline)
    board.take(running.tallies)
    counter.take(history_of(pipeline, running.events))
    low = from_spark(running.watermark_ms)
    told = [
        replace(progress, keys=None, state_bytes=None, hot_key=None, hot_share=0, dropped=None)
        for progress in board.progress(pipeline, low)
    ]
    assert told == list(counter.progress())


def test_elements_that_a_grouping_drops_are_counted_by_job_and_by_micro_batch() -> None:
    """Minute windows that allow ten seconds: of three late clicks, the two behind that are dropped, also that of a new key."""
    windowed = read("clicks").window_into(FixedWindows(MINUTE)).allowed_lateness(10 * SECOND)
    running = query(windowed.sum().to("sums").pipeline("clicks"), intervals=1, clock=False)
    builder = FeedBuilder(running.plan.pipeline)
    clicks = (1, 30, "a"), (2, 65, "a"), (4, 20, "a"), (6, 75, "a"), (7, 40, "a"), (7, 50, "b"), (8, 70, "a")
    for at_s, time_s, key in clicks:
        builder.record(at_us=at_s * SECOND, value=1, timestamp=time_s * SECOND, key=key)
    for at_s, low_s in (3, 65), (5, 80):
        builder.watermark(at_us=at_s * SECOND, low_watermark=low_s * SECOND)
    told = []
    for entry in builder.build().entries:
        running.batch([entry])
        told.append(progress_of(running)["sum"].dropped)
    assert told[-5:] == [0, 1, 2, 2, 2]
    assert sum(tally.new_dropped for tally in running.tallies) == 2


def test_panes_with_the_event_times_of_elements_need_no_clock_on_spark() -> None:
    windowed = (
        read("clicks").window_into(FixedWindows(MINUTE)).timestamps_of_panes(TimestampCombiner.EARLIEST)
    )
    running = query(windowed.sum().to("sums").pipeline("clicks"), clock=False)
    builder = FeedBuilder(running.plan.pipeline)
    for second in (30, 20, 40):
        builder.record(at_us=second * SECOND, value=1, timestamp=second * SECOND, key="a")
    for entry in builder.build().entries:
        running.batch([entry])
    running.batch()
    running.batch()
    ((output, count),) = running.outputs.items()
    assert (output.timestamp, count) == (20 * SECOND + 1, 1)
