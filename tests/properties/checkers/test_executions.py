"""S14 to S16: each on a History that it must pass, on one that it must not, and on a broken engine."""

from functools import partial
from typing import Any

import msgspec
import pytest

from headrace import MILLISECOND, MIN_TIME, SECOND, Clock, Computation, Context, KeyInterval, Pipeline, Record
from headrace.history import Executed, Injected
from headrace.worker import hooks as _hooks
from headrace.worker.accounts import Accounts
from headrace.worker.commits import Commits
from headrace_properties.checkers import judge
from headrace_properties.verdict import Violated
from headrace_sim import FaultSchedule, Feed, FeedBuilder, simulate
from headrace_sim import faults as f
from tests.properties.checkers.steps import (
    COUNT,
    QUERY,
    Row,
    Table,
    add,
    check,
    fire,
    holds,
    inject,
    own,
    query,
    run,
    spares,
    step,
    take,
    unknown,
    violates,
    write,
)
from tests.properties.stories import Story, begin, counting, healthy, record, timer
from tests.sim.rig import letters, mail


def crowd(pipeline: Pipeline) -> Feed:
    return letters(pipeline, 200, every_us=MILLISECOND // 10)


def test_an_engine_that_unlocks_a_key_too_early_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    next_batch = Commits._next_batch

    def unlocked(self: Commits) -> Any:
        steps = next_batch(self)
        for batched in steps:
            batched.slot.busy = False
            batched.slot.queue = None
        return steps

    monkeypatch.setattr(Commits, "_next_batch", unlocked)
    pipeline = mail()
    verdict = judge(simulate(pipeline, crowd(pipeline)), [pipeline])["S14"]
    assert isinstance(verdict, Violated)


class Backdater(Computation):
    """Produces an hour before its cause."""

    def process_record(self, context: Context, record: Record) -> None:
        context.produce("out", 1, timestamp=record.timestamp - 3600)


def test_an_engine_that_lets_outputs_be_older_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    def lenient(
        spec: Any, key: str, state: bytes, _cause: int, low: int, now: int, stamp: int, **options: Any
    ) -> Context:
        return Context(spec, key, state, MIN_TIME, low, now, stamp, **options)

    monkeypatch.setattr(_hooks, "Context", lenient)
    pipeline = Pipeline("backdated")
    pipeline.injector("in")
    pipeline.add(Backdater(), name="backdater", inputs=["in"], outputs=["out"])
    builder = FeedBuilder(pipeline)
    builder.record(at_us=300_000, value=1, timestamp=10_000)
    assert isinstance(judge(simulate(pipeline, builder.build()), [pipeline])["S15"], Violated)


# S16


@step
def late_at_detector(story: Story, count: Any) -> None:
    """The detector runs a count that lies behind its input watermark."""
    story.run("detector", 1, count, sequencer=2, watermark=count.timestamp + 1)
    run = story.events[-1]
    assert isinstance(run, Executed)
    story.events[-1] = msgspec.structs.replace(run, late=True)


def test_an_engine_whose_owners_forget_their_own_work_makes_records_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What the sorter sends is held on the wire; its own low watermark goes on."""
    report = Accounts.report
    monkeypatch.setattr(Accounts, "report", lambda self, low, *others: (low, report(self, low, *others)[1]))
    pipeline = mail()
    held = [
        f.Hold(at_us=SECOND, message="Deliver", source=f"worker-{number}", count=1_000, for_us=2 * SECOND)
        for number in range(3)
    ]
    history = simulate(pipeline, letters(pipeline), faults=FaultSchedule(tuple(held)))
    assert isinstance(judge(history, [pipeline])["S16"], Violated)


DOGS = msgspec.structs.replace(QUERY, key="dogs")

# fmt: off
HISTORIES: Table = {
    # S14
    "a step that runs while the one before is not written overlaps it": (
        begin, inject(0, 100), inject(1, 101), run("counter", 1, QUERY), run("counter", 2, query(1, 101)),
        violates("S14", "while the step 1.1 before it was not written yet")),
    "records of one step do not overlap": (
        begin, inject(0, 100), inject(1, 101), run("counter", 1, QUERY), run("counter", 1, query(1, 101)),
        write("counter", 1, seen=(("queries/0:0", 0), ("queries/0:1", 0))),
        holds("S14", 2)),
    "a zombies step may overlap its successors": (
        begin, inject(0, 100), run("counter", 1, QUERY), own("counter", 3, "worker-1"),
        run("counter", 1, QUERY, sequencer=3, process="worker-1"),
        spares("S14")),
    "without exactly once a step may need no write and a late one tells": (
        partial(begin, counting(exactly_once=False)), inject(0, 100), inject(1, 101), run("counter", 1, QUERY),
        run("counter", 2, query(1, 101)),
        spares("S14"),
        write("counter", 1, state=b"1"),
        violates("S14")),
    "user code runs for the key of its record only": (
        begin, add(Injected, "queries/0", 0, MIN_TIME, (DOGS,)), run("counter", 1, DOGS),
        violates("S14", "that record is for key 'dogs'")),
    "user code runs at an owner of its key only": (
        Story, own("counter", 1, interval=KeyInterval("m")), inject(0, 100), run("counter", 1, QUERY),
        violates("S14", "under a sequencer of ['m', end)")),
    "without a run nothing is known of steps": (
        begin,
        unknown("S14", "no user code ran")),

    # S15
    "a production older than its record is told": (
        begin, inject(0, 100), take("counter", 1, QUERY, record("counter@1.1#0", "detector", 99)),
        violates("S15", "whose time is")),
    "a production older than its timer is told": (
        begin, fire("counter", 1, timer("w", 200, 0), record("counter@1.1#0", "detector", 199)),
        violates("S15")),
    "a wall timer without a hold has no event time": (
        begin, fire("counter", 1, timer("w", 10 ** 9, 0, clock=Clock.WALL), record("counter@1.1#0", "detector", 5)),
        holds("S15", 1)),
    "without productions nothing is known of their times": (
        begin, inject(0, 100), take("counter", 1, QUERY),
        unknown("S15", "nothing was produced")),

    # S16
    "what the source gave in time must not be late downstream": (
        begin, inject(0, 100), take("counter", 1, QUERY, COUNT), late_at_detector(COUNT),
        violates("S16", "late, and nothing that led to it was")),
    "what stems from a late record may be late": (
        begin, inject(0, 100, watermark=200), take("counter", 1, QUERY, COUNT), late_at_detector(COUNT),
        unknown("S16", "no record that was in time met a watermark")),
    "what stems from a timer that a late record set may be late": (
        begin, inject(0, 100, watermark=200), take("counter", 1, QUERY, set_timers=(timer("w", 150, 1),)),
        fire("counter", 2, timer("w", 150, 1), record("counter@1.2#0", "detector", 150), watermark=160),
        late_at_detector(record("counter@1.2#0", "detector", 150)),
        spares("S16")),
    "what a percentile makes late is late by design": (
        partial(begin, counting(watermark_percentile=90)), inject(0, 100), run("counter", 1, QUERY, watermark=200),
        spares("S16")),
    "a healthy run has no late record": (
        healthy,
        holds("S16", 2)),
}
# fmt: on


@pytest.mark.parametrize("row", HISTORIES.values(), ids=HISTORIES)
def test_checkers_give_the_expected_verdicts(row: Row) -> None:
    check(row)
