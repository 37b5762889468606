"""The History of micro-batches is judged by the checkers of the simulated cluster."""

import pytest

from headrace import SECOND, Computation, Pipeline
from headrace.history import Applied, Output, RunEnded
from headrace.spark.hosting import interval_task as _interval_task
from headrace.spark.hosting.history_export import history_of
from headrace_properties.checkers import judge
from headrace_properties.reference import run_reference
from headrace_properties.results import outputs_of
from headrace_properties.verdict import Holds, Unknown, Violated
from headrace_sim import FeedBuilder
from tests.sim.rig import letters, mail
from tests.spark.hosting.test_interval_task import held_pipeline, run_with_a_clock
from tests.spark.microbatches import run_in_batches


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_every_invariant_holds(size: int) -> None:
    pipeline = mail(processes=2)
    feed = letters(pipeline)
    running = run_in_batches(pipeline, feed, [size], history=True)
    history = history_of(running.plan.pipeline, running.events)
    verdicts = judge(history, [running.plan.pipeline])
    assert {name: one for name, one in verdicts.items() if isinstance(one, Violated)} == {}
    unknown = {name for name, one in verdicts.items() if isinstance(one, Unknown)}
    assert unknown <= {"S7", "S10-horizon", "S12", "S13", "S16", "L5"}
    assert isinstance(verdicts["S1"], Holds)
    assert outputs_of(history) == run_reference(pipeline, feed).outputs
    assert isinstance(history.events[-1], RunEnded)
    assert {event.delta.key[:5] for event in history if isinstance(event, Applied)} <= {
        f"000{n}/" for n in range(4)
    }
    assert any(isinstance(event, Output) for event in history)


def test_what_an_injector_sends_outside_is_told() -> None:
    """Nobody consumes a stream of it, as of its dead letters."""
    pipeline = Pipeline("mail")
    pipeline.injector("mail", outputs=["letters", "copies"])
    pipeline.add(Computation(), name="box", inputs=["letters"])
    builder = FeedBuilder(pipeline)
    for number, stream in enumerate(("letters", "copies"), 1):
        builder.record(at_us=number, value=number, timestamp=number, key="anna", stream=stream)
    builder.watermark(at_us=SECOND, low_watermark=SECOND)
    running = run_in_batches(pipeline, builder.build(), [2], history=True)
    history = history_of(pipeline, running.events)
    verdicts = judge(history, [pipeline])
    assert {name: one for name, one in verdicts.items() if isinstance(one, Violated)} == {}
    assert [event.production.stream for event in history if isinstance(event, Output)] == ["copies"]


def test_untold_holds_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = held_pipeline()
    running = run_with_a_clock(pipeline, letters(pipeline), 1, history=True)
    sound = judge(history_of(running.plan.pipeline, running.events), [running.plan.pipeline])
    assert not [verdict for verdict in sound.values() if isinstance(verdict, Violated)]
    monkeypatch.setattr(_interval_task._IntervalTask, "_tell_holds", lambda _self: None)
    running = run_with_a_clock(pipeline, letters(pipeline), 1, history=True)
    broken = judge(history_of(running.plan.pipeline, running.events), [running.plan.pipeline])
    assert isinstance(broken["S10"], Violated)
