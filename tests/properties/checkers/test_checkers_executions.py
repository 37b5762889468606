"""S14 to S16: each on a History that it must pass, on one that it must not, and on a broken engine."""

from typing import Any

import msgspec
import pytest

from headrace import MILLISECOND, MIN_TIME, SECOND, Clock, Computation, Context, KeyInterval, Pipeline, Record
from headrace.history import Executed
from headrace.worker import execution as _execution
from headrace.worker.accounts import Accounts
from headrace.worker.commits import Commits
from headrace_properties.checkers import judge
from headrace_properties.verdict import Holds, Unknown, Violated
from headrace_sim import FaultSchedule, Feed, FeedBuilder, simulate
from headrace_sim import faults as f
from tests.properties.explain.stories import Story, begin, counting, healthy, record, timer
from tests.sim.rig import letters, mail


def unknown(story: Story, name: str) -> str:
    verdict = story.verdicts()[name]
    assert isinstance(verdict, Unknown), verdict
    return verdict.why


# S14


def test_a_step_that_runs_while_the_one_before_is_not_written_overlaps_it() -> None:
    story = begin()
    first, second = story.inject(0, 100), story.inject(1, 101)
    story.run("counter", 1, first)
    story.run("counter", 2, second)
    assert "while the step 1.1 before it was not written yet" in story.violated("S14")


def test_records_of_one_step_do_not_overlap() -> None:
    story = begin()
    first, second = story.inject(0, 100), story.inject(1, 101)
    story.run("counter", 1, first)
    story.run("counter", 1, second)
    story.write("counter", 1, seen=((first.record_id, 0), (second.record_id, 0)))
    assert story.verdicts()["S14"] == Holds(2)


def test_a_zombies_step_may_overlap_its_successors() -> None:
    story = begin()
    query = story.inject(0, 100)
    story.run("counter", 1, query)
    story.own("counter", 3, "worker-1")
    story.run("counter", 1, query, sequencer=3, process="worker-1")
    assert "S14" not in story.broken()


def test_without_exactly_once_a_step_may_need_no_write_and_a_late_one_tells() -> None:
    story = begin(counting(exactly_once=False))
    first, second = story.inject(0, 100), story.inject(1, 101)
    story.run("counter", 1, first)
    story.run("counter", 2, second)
    assert "S14" not in story.broken()
    story.write("counter", 1, state=b"1")
    story.violated("S14")


def test_user_code_runs_for_the_key_of_its_record_only() -> None:
    story = begin()
    query = msgspec.structs.replace(story.inject(0, 100), key="dogs")
    run = msgspec.structs.replace(story.events[-1], productions=(query,))
    story.events[-1] = run
    story.run("counter", 1, query)
    assert "that record is for key 'dogs'" in story.violated("S14")


def test_user_code_runs_at_an_owner_of_its_key_only() -> None:
    story = Story()
    story.own("counter", 1, interval=KeyInterval("m"))
    story.run("counter", 1, story.inject(0, 100))
    assert "under a sequencer of ['m', end)" in story.violated("S14")


def test_without_a_run_nothing_is_known_of_steps() -> None:
    assert unknown(begin(), "S14") == "no user code ran"


def crowd(pipeline: Pipeline) -> Feed:
    return letters(pipeline, 200, every_us=MILLISECOND // 10)


def test_an_engine_that_unlocks_a_key_too_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    next_batch = Commits._next_batch

    def unlocked(self: Commits) -> Any:
        steps = next_batch(self)
        for step in steps:
            step.slot.busy = False
            step.slot.queue = None
        return steps

    monkeypatch.setattr(Commits, "_next_batch", unlocked)
    pipeline = mail()
    verdict = judge(simulate(pipeline, crowd(pipeline)), [pipeline])["S14"]
    assert isinstance(verdict, Violated)


# S15


def test_a_production_older_than_its_record_is_told() -> None:
    story = begin()
    story.take("counter", 1, story.inject(0, 100), record("counter@1.1#0", "detector", 99))
    assert "whose time is" in story.violated("S15")


def test_a_production_older_than_its_timer_is_told() -> None:
    story = begin()
    story.fire("counter", 1, timer("w", 200, 0), record("counter@1.1#0", "detector", 199))
    story.violated("S15")


def test_a_wall_timer_without_a_hold_has_no_event_time() -> None:
    story = begin()
    story.fire("counter", 1, timer("w", 10**9, 0, clock=Clock.WALL), record("counter@1.1#0", "detector", 5))
    assert story.verdicts()["S15"] == Holds(1)


def test_without_productions_nothing_is_known_of_their_times() -> None:
    story = begin()
    story.take("counter", 1, story.inject(0, 100))
    assert unknown(story, "S15") == "nothing was produced"


class Backdater(Computation):
    """Produces an hour before its cause."""

    def process_record(self, context: Context, record: Record) -> None:
        context.produce("out", 1, timestamp=record.timestamp - 3600)


def test_an_engine_that_lets_outputs_be_older_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def lenient(
        spec: Any, key: str, state: bytes, cause: int, low: int, now: int, stamp: Any = None
    ) -> Context:
        return Context(spec, key, state, MIN_TIME, low, now, cause if stamp is None else stamp)

    monkeypatch.setattr(_execution, "Context", lenient)
    pipeline = Pipeline("backdated")
    pipeline.injector("in")
    pipeline.add(Backdater(), name="backdater", inputs=["in"], outputs=["out"])
    builder = FeedBuilder(pipeline)
    builder.record(at_us=300_000, value=1, timestamp=10_000)
    assert isinstance(judge(simulate(pipeline, builder.build()), [pipeline])["S15"], Violated)


# S16


def late_at_detector(story: Story, count: Any) -> None:
    """The detector runs a count that lies behind its input watermark."""
    story.run("detector", 1, count, sequencer=2, watermark=count.timestamp + 1)
    run = story.events[-1]
    assert isinstance(run, Executed)
    story.events[-1] = msgspec.structs.replace(run, late=True)


def test_what_the_source_gave_in_time_must_not_be_late_downstream() -> None:
    story = begin()
    count = record("counter@1.1#0", "detector", 100)
    story.take("counter", 1, story.inject(0, 100), count)
    late_at_detector(story, count)
    assert "late, and nothing that led to it was" in story.violated("S16")


def test_what_stems_from_a_late_record_may_be_late() -> None:
    story = begin()
    count = record("counter@1.1#0", "detector", 100)
    story.take("counter", 1, story.inject(0, 100, watermark=200), count)
    late_at_detector(story, count)
    assert unknown(story, "S16") == "no record that was in time met a watermark"


def test_what_stems_from_a_timer_that_a_late_record_set_may_be_late() -> None:
    story = begin()
    window, count = timer("w", 150, 1), record("counter@1.2#0", "detector", 150)
    story.take("counter", 1, story.inject(0, 100, watermark=200), set_timers=(window,))
    story.fire("counter", 2, window, count, watermark=160)
    late_at_detector(story, count)
    assert "S16" not in story.broken()


def test_what_a_percentile_makes_late_is_late_by_design() -> None:
    story = begin(counting(watermark_percentile=90))
    query = story.inject(0, 100)
    story.run("counter", 1, query, watermark=200)
    assert "S16" not in story.broken()


def test_a_healthy_run_has_no_late_record() -> None:
    assert healthy().verdicts()["S16"] == Holds(2)


def test_an_engine_whose_owners_forget_their_own_work_makes_records_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the sorter sends is held on the wire; its own low watermark goes on."""
    report = Accounts.report
    monkeypatch.setattr(Accounts, "report", lambda self, low, horizon: (low, report(self, low, horizon)[1]))
    pipeline = mail()
    held = [
        f.Hold(at_us=SECOND, message="Deliver", source=f"worker-{number}", count=1_000, for_us=2 * SECOND)
        for number in range(3)
    ]
    history = simulate(pipeline, letters(pipeline), faults=FaultSchedule(tuple(held)))
    assert isinstance(judge(history, [pipeline])["S16"], Violated)
