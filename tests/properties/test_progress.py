"""Progress by the History is what the run came to, in the simulated cluster and on Spark."""

from dataclasses import replace

from millrace import MAX_TIME
from millrace.spark._board import Board
from millrace.spark._clock import from_spark
from millrace.spark._export import history_of
from millrace_properties.progress import ProgressCounter
from millrace_properties.reference import run_reference
from tests.sim.rig import letters, mail, run
from tests.spark.microbatches import run_in_batches


def test_what_a_simulated_run_came_to_is_counted() -> None:
    pipeline = mail()
    feed = letters(pipeline)
    done = run(pipeline, feed)
    counter = ProgressCounter(pipeline)
    middle = len(done.history) // 2
    counter.take(done.history.events[:middle])
    before = counter.progress()
    counter.take(done.history.events[middle:])
    sorter, counts = counter.progress()
    assert sorter.records == sorter.outputs == counts.records == feed.records
    assert counts.outputs == run_reference(pipeline, feed).outputs.total()
    assert (sorter.low_watermark, sorter.lag_us, counts.timers, counts.keys) == (MAX_TIME, 0, 0, None)
    assert before[1].records < counts.records
    assert before[1].timers


def test_both_ways_to_count_agree_on_spark() -> None:
    pipeline = mail()
    running = run_in_batches(pipeline, letters(pipeline), [7], history=True)
    board, counter = Board(), ProgressCounter(pipeline)
    board.take(running.tallies)
    counter.take(history_of(pipeline, running.events))
    low = from_spark(running.watermark_ms)
    told = [replace(one, keys=None, state_bytes=None) for one in board.progress(pipeline, low)]
    assert told == list(counter.progress())
