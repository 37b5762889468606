"""Running a step is pure (MillWheel 4.1): it reads a key's soft state, changes nothing, and does the same again."""

from typing import Any

import msgspec
import pytest

from headrace import Context, Record, Timer, TypedCodec
from headrace.api.errors import HeadraceError, UserCodeError
from headrace.api.records import Clock
from headrace.history import DuplicateDropped, Executed, UserCodeFailed
from headrace.rules import RULES
from headrace.wire.rows import StoredTimer, Version
from headrace.worker.cache import CachedRow
from headrace.worker.running import Setting, StepRun
from headrace.worker.slot import Arrival, KeySlot, LiveTimer
from tests.core.driver import WORKER, Rig, Scripted, click, count, counter, result


def arrival(record_id: str, *, maybe_seen: bool = False) -> Arrival:
    return Arrival(click(record_id).production, "feed/0", 0, maybe_seen)


def fail(_context: Context, _event: Record | Timer) -> None:
    raise ValueError("no")


def prepared(
    computation: Scripted, slot: KeySlot, *, attempts: int = 3, failures: int = 0, typed: bool = False
) -> StepRun:
    """A run at watermark 20 and true time 7 that nothing came of so far."""
    codec = TypedCodec(dict[str, int]) if typed else None
    interval = Rig(counter(computation, state_codec=codec)).interval
    setting = Setting(RULES, WORKER, 8, attempts, keeps=True)
    before = {"r1": failures} if failures else {}
    return StepRun(setting, interval.soft.where, slot, Version(1, 4), 20, 5, 6, 30, 7, before, slot.due)


def a_key() -> KeySlot:
    """A timer is due, one record is a duplicate, and two are not."""
    timer = StoredTimer(
        "t", 10, Clock.WATERMARK, 10, overdue=False, hold=None, set_by=Version(1, 1), origin=1, set_at=0
    )
    row = CachedRow(b'{"n":2}', {"old": 9})
    waiting = [arrival("r1"), arrival("old", maybe_seen=True), arrival("r2")]
    return KeySlot("dog", row, due=True, queue=waiting, timers={"t": LiveTimer(timer, True, False)})  # noqa: FBT003


def outcome(run: StepRun) -> dict[str, Any]:
    return {
        name: getattr(run, name)
        for name in msgspec.structs.asdict(run)
        if name not in ("where", "slot", "setting")
    }


def test_a_run_lists_its_effects_in_order_and_changes_nothing() -> None:
    slot = a_key()
    waiting, timers, row = list(slot.queue or ()), dict(slot.timers or {}), slot.row
    run = prepared(Scripted(count, lambda context, _: context.produce("counts", "fired")), slot)
    run.run()
    assert [arrival.production.record_id for arrival in run.arrivals] == ["r1", "r2"]
    assert ([timer.tag for timer in run.fired], run.origins) == (["t"], (6,))
    assert (run.dropped, run.due, run.failed, run.state_after) == (1, False, False, b'{"n":4}')
    assert run.productions[1:] == (result("counter@1.4#1", 3), result("counter@1.4#2", 4))
    assert [type(event) for event in run.events] == [Executed, Executed, DuplicateDropped, Executed]
    assert {event.at_us for event in run.events} == {7}
    assert (slot.queue, slot.timers, slot.row, slot.due) == (waiting, timers, row, True)


def test_the_same_run_again_does_the_same() -> None:
    slot = a_key()
    runs = [
        prepared(Scripted(count, lambda context, _: context.produce("counts", 0)), slot) for _ in range(2)
    ]
    for run in runs:
        run.run()
    assert outcome(runs[0]) == outcome(runs[1])


@pytest.mark.parametrize(("failures", "final"), [(0, False), (1, False), (2, True)])
def test_a_failure_ends_the_step_and_the_last_one_is_an_error(failures: int, final: bool) -> None:  # noqa: FBT001  a parameter of the test
    run = prepared(
        Scripted(fail), KeySlot("dog", CachedRow(), queue=[arrival("r1"), arrival("r2")]), failures=failures
    )
    run.run()
    assert (run.failed, run.arrivals, run.productions) == (True, [], ())
    assert run.failures == {"r1": failures + 1}
    assert run.events == (UserCodeFailed(7, WORKER, "counter", "dog", "r1", failures + 1, "ValueError: no"),)
    assert isinstance(run.error, UserCodeError) is final


def test_a_success_forgets_the_failures_before_it() -> None:
    run = prepared(Scripted(count), KeySlot("dog", CachedRow(), queue=[arrival("r1")]), failures=2)
    run.run()
    assert (run.failures, run.failed) == ({}, False)


def test_our_own_error_is_final_at_once() -> None:
    def produce(context: Context, _record: Record) -> None:
        context.produce("nowhere", 1)

    run = prepared(Scripted(produce), KeySlot("dog", CachedRow(), queue=[arrival("r1")]))
    run.run()
    assert isinstance(run.error, HeadraceError)


def test_each_record_of_a_step_gets_a_state_that_no_other_code_has() -> None:
    """With a codec that has decoded what it wrote, too, which the next record gets, if it wants the state."""
    kept: list[Any] = []

    def count_and_keep(context: Context, record: Record) -> None:
        for state in kept:
            state.clear()
        if record.record_id != "r2":
            count(context, record)
            kept.append(context.state)

    queue = [arrival(record_id) for record_id in ("r1", "r2", "r3", "r4")]
    run = prepared(Scripted(count_and_keep), KeySlot("dog", CachedRow(b'{"n":2}'), queue=queue), typed=True)
    run.run()
    assert (len(run.arrivals), run.state_after) == (4, b'{"n":5}')
    assert len({id(state) for state in kept}) == 3


def test_what_code_that_fails_did_to_the_state_is_forgotten() -> None:
    def change_and_fail(context: Context, record: Record) -> None:
        count(context, record)
        if record.record_id == "r2":
            raise ValueError("no")

    queue = [arrival("r1"), arrival("r2")]
    run = prepared(Scripted(change_and_fail), KeySlot("dog", CachedRow(), queue=queue), typed=True)
    run.run()
    assert (run.failed, run.state_after, run.state_copy) == (True, b'{"n":1}', None)
