"""When a worker asks to be woken: in time for whatever is due next, and for nothing else."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from headrace import Context, EngineOptions, Productions, Record, Timer
from headrace.wire import messages as m
from headrace.wire.effects import Effect, Send, Wake
from tests.core.driver import FIRST, QUIET, Rig, Scripted, click, counter, outside_acks, watermark

FAR_US = 10**12
SWEEP_US = 50
NOTHING_DUE = replace(
    QUIET,
    store_timeout_us=FAR_US,
    straggler_delay_us=FAR_US,
    delete_delay_us=FAR_US,
    sweep_period_us=SWEEP_US,
)
BEGUN_US = 10_000
"""When something begins to be outstanding."""


class FailsOnce(Scripted):
    def process_record(self, context: Context, record: Record) -> None:
        if self.on_record is None:
            self.on_record = produce
            raise OSError(5)
        self.on_record(context, record)


def produce(context: Context, record: Record) -> None:
    context.produce("counts", 1)


def set_wall_timer(context: Context, record: Record) -> None:
    context.set_wall_timer("w", BEGUN_US + 700)


def fire(context: Context, timer: Timer) -> None:
    context.produce("counts", timer.tag)


@dataclass(frozen=True)
class Case:
    """Something outstanding.

    Attributes:
        wait_us: when it is due, microseconds after it has begun.
        sends: the message that is sent then.
        begin: lets it begin.
        changes: to the options of the engine.
        hooks: the computation.
        productions: of the computation.
        is_absolute: it is due at a time, and does not wait for a time.
    """

    wait_us: int
    sends: type
    begin: Callable[[Rig], object]
    changes: dict[str, Any]
    hooks: Callable[[], Scripted] = lambda: Scripted(produce)
    productions: Productions = Productions.STRONG
    is_absolute: bool = False


def settle(rig: Rig) -> None:
    rig.settle(click("r1"))


def begin_deletion(rig: Rig) -> None:
    rig.settle(click("r1"))
    rig.feed(outside_acks(FIRST))


def begin_lingering(rig: Rig) -> None:
    rig.settle(click("r1"))
    rig.feed(click("r2", "cat"))


CASES = {
    "unACKed production": Case(700, m.Deliver, settle, {"retry_us": 700}),
    "unanswered request": Case(700, m.Write, lambda rig: rig.feed(click("r1")), {"store_timeout_us": 700}),
    "straggler": Case(700, m.Write, settle, {"straggler_delay_us": 700}, productions=Productions.WEAK),
    "deletion": Case(700, m.Write, begin_deletion, {"delete_delay_us": 700}),
    "resting step": Case(700, m.Write, settle, {"user_code_retry_us": 700}, FailsOnce),
    "wall timer": Case(700, m.Write, settle, {}, lambda: Scripted(set_wall_timer, fire), is_absolute=True),
    "lingering write": Case(700, m.Write, begin_lingering, {"commit_linger_us": 700, "commit_batch": 9}),
    "news": Case(500, m.Report, lambda rig: rig.feed(watermark(50)), {"report_period_us": 700}),
}  # fmt: skip
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def begun(case: Case, **changes: int) -> Rig:
    """A worker for which it has just begun."""
    options = replace(NOTHING_DUE, **{**changes, **case.changes})
    rig = Rig(counter(case.hooks(), productions=case.productions), options=options)
    rig.wakes_until(BEGUN_US - 1)
    rig.now = BEGUN_US
    case.begin(rig)
    return rig


def times_of(kind: type, schedule: list[tuple[int, list[Effect]]]) -> list[int]:
    """When messages of a kind are sent, each time once."""
    return [
        at
        for at, effects in schedule
        if any(isinstance(effect, Send) and isinstance(effect.message, kind) for effect in effects)
    ]


@each_case
def test_it_wakes_when_what_is_outstanding_is_due(case: Case) -> None:
    rig = begun(case)
    due_us = BEGUN_US + case.wait_us
    assert times_of(case.sends, rig.wakes_until(due_us)) == [due_us]


@each_case
def test_it_still_wakes_in_time_after_it_was_woken_for_something_else(case: Case) -> None:
    rig = begun(case, heartbeat_period_us=130)
    due_us = BEGUN_US + case.wait_us
    schedule = rig.wakes_until(due_us + SWEEP_US)
    assert times_of(m.Heartbeat, schedule)[0] < due_us
    assert due_us <= times_of(case.sends, schedule)[0]


@each_case
def test_it_is_not_stopped_by_a_wake_that_comes_early(case: Case) -> None:
    """It waited in a paused process, whose clock was put back meanwhile."""
    rig = begun(case)
    due_us = BEGUN_US + case.wait_us
    assert rig.wakes.pop(0) == due_us
    rig.feed(Wake(), at=due_us - 1)
    assert due_us <= times_of(case.sends, rig.wakes_until(due_us + SWEEP_US))[0]


@each_case
def test_it_waits_no_longer_when_its_clock_is_put_back(case: Case) -> None:
    """A message from somebody else is the first that comes after that."""
    rig = begun(case)
    back_us = BEGUN_US - 5_000
    assert rig.feed(m.Watermarks(0, ()), at=back_us) == []
    due_us = BEGUN_US + case.wait_us if case.is_absolute else back_us + case.wait_us
    assert due_us <= times_of(case.sends, rig.wakes_until(due_us + 200))[0]


def test_an_idle_worker_wakes_for_its_heartbeats_only() -> None:
    options = EngineOptions()
    rig = Rig(counter(), options=options)
    rig.settle(click("r1"), at=1_000)
    rig.settle(outside_acks(FIRST), at=2_000)
    while rig.worker.unfinished or rig.now < 10 * options.heartbeat_period_us:
        rig.wake(rig.wakes[0])
    begun_us = rig.now
    woken = [at for at, _ in rig.wakes_until(begun_us + 10 * options.heartbeat_period_us)]
    assert woken == [begun_us + turn * options.heartbeat_period_us for turn in range(1, 11)]


def test_what_an_answer_leaves_outstanding_is_seen_to_although_nothing_is_sent() -> None:
    """A weak timer's production is ACKed while it is being checkpointed: the checkpoint is to be deleted."""
    options = replace(NOTHING_DUE, straggler_delay_us=100, delete_delay_us=700)
    computation = Scripted(set_wall_timer, fire)
    rig = Rig(counter(computation, productions=Productions.WEAK), options=options)
    rig.settle(click("r1"))
    rig.wakes_until(BEGUN_US + 800)
    (made,) = rig.write().deltas[0].productions
    rig.feed(outside_acks(made.record_id))
    assert rig.answer(at=BEGUN_US + 850) == []
    assert times_of(m.Write, rig.wakes_until(BEGUN_US + 1_550)) == [BEGUN_US + 1_550]
    assert rig.write().delivered == (("dog", made.record_id, ""),)
