"""In the simulated cluster, progress computed from the History matches the run's result."""

from headrace import MAX_TIME
from headrace_properties.explain.progress_counter import ProgressCounter
from headrace_properties.reference import run_reference
from tests.sim.rig import letters, mail, run


def test_the_result_of_a_simulated_run_is_counted() -> None:
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
