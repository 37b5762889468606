"""Running a step is pure (MillWheel 4.1): it reads a key's soft state, changes nothing, and does the same again."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headrace import Context, DeadLetter, Record, Stop, Timer, TypedCodec
from headrace.api.codecs import MigratingCodec, StateCodec
from headrace.api.errors import HeadraceError, UserCodeError
from headrace.api.records import Clock
from headrace.history import DuplicateDropped, Executed, UserCodeFailed
from headrace.rules import RULES
from headrace.wire.effects import Effect, Halt
from headrace.wire.rows import StoredTimer, Version
from headrace.worker.cache import CachedRow
from headrace.worker.running import StepOutcome, StepRun, StepSettings, StepView
from headrace.worker.slot import KeySlot, LiveTimer, QueuedDelivery
from tests.core.driver import QUIET, WORKER, Rig, Scripted, click, count, counter, result


def arrival(record_id: str, *, maybe_seen: bool = False) -> QueuedDelivery:
    return QueuedDelivery(click(record_id).production, "feed/0", 0, maybe_seen)


def fail(_context: Context, _event: Record | Timer) -> None:
    raise ValueError("no")


def prepared(
    computation: Scripted,
    slot: KeySlot,
    *,
    attempts: int = 3,
    failures: int = 0,
    typed: bool = False,
    shares: bool = False,
) -> StepRun:
    """A run at watermark 20 and true time 7 that nothing came of so far."""
    codec = TypedCodec(dict[str, int]) if typed else None
    interval = Rig(counter(computation, state_codec=codec)).interval
    settings = StepSettings(RULES, WORKER, 8, attempts, keeps=True)
    view = StepView(interval.soft.where, slot, Version(1, 4), 20, 5, 6, 30, 7, shares)
    return StepRun(settings, view, StepOutcome({"r1": failures} if failures else {}, slot.due))


def a_key() -> KeySlot:
    """A timer is due, one record is a duplicate, and two are not."""
    timer = StoredTimer(
        "t", 10, Clock.WATERMARK, 10, overdue=False, hold=None, set_by=Version(1, 1), origin=1, set_at=0
    )
    row = CachedRow(b'{"n":2}', {"old": 9})
    waiting = [arrival("r1"), arrival("old", maybe_seen=True), arrival("r2")]
    return KeySlot("dog", row, due=True, queue=waiting, timers={"t": LiveTimer(timer, True, False)})  # noqa: FBT003


def fields(run: StepRun) -> dict[str, Any]:
    return {"emitted": run.emitted, **msgspec.structs.asdict(run.outcome)}


def test_a_run_lists_its_effects_in_order_and_changes_nothing() -> None:
    slot = a_key()
    waiting, timers, row = list(slot.queue or ()), dict(slot.timers or {}), slot.row
    run = prepared(Scripted(count, lambda context, _: context.produce("counts", "fired")), slot)
    run.run()
    assert [arrival.production.record_id for arrival in run.outcome.arrivals] == ["r1", "r2"]
    assert ([timer.tag for timer in run.outcome.fired], run.outcome.origins) == (["t"], (6,))
    assert (run.outcome.dropped, run.outcome.due, run.outcome.failed, run.outcome.state_after) == (
        1,
        False,
        False,
        b'{"n":4}',
    )
    assert run.outcome.productions[1:] == (result("counter@1.4#1", 3), result("counter@1.4#2", 4))
    assert [type(event) for event in run.outcome.events] == [Executed, Executed, DuplicateDropped, Executed]
    assert {event.at_us for event in run.outcome.events} == {7}
    assert (slot.queue, slot.timers, slot.row, slot.due) == (waiting, timers, row, True)


def test_the_same_run_again_does_the_same() -> None:
    slot = a_key()
    runs = [
        prepared(Scripted(count, lambda context, _: context.produce("counts", 0)), slot) for _ in range(2)
    ]
    for run in runs:
        run.run()
    assert fields(runs[0]) == fields(runs[1])


@pytest.mark.parametrize(("failures", "final"), [(0, False), (1, False), (2, True)])
def test_a_failure_ends_the_step_and_the_last_one_is_an_error(failures: int, final: bool) -> None:  # noqa: FBT001  a parameter of the test
    run = prepared(
        Scripted(fail), KeySlot("dog", CachedRow(), queue=[arrival("r1"), arrival("r2")]), failures=failures
    )
    run.run()
    assert (run.outcome.failed, run.outcome.arrivals, run.outcome.productions) == (True, [], ())
    assert run.outcome.failures == {"r1": failures + 1}
    assert run.outcome.events == (
        UserCodeFailed(7, WORKER, "counter", "dog", "r1", failures + 1, "ValueError: no"),
    )
    assert isinstance(run.outcome.error, UserCodeError) is final


def test_a_success_forgets_the_failures_before_it() -> None:
    run = prepared(Scripted(count), KeySlot("dog", CachedRow(), queue=[arrival("r1")]), failures=2)
    run.run()
    assert (run.outcome.failures, run.outcome.failed) == ({}, False)


def test_our_own_error_is_final_at_once() -> None:
    def produce(context: Context, _record: Record) -> None:
        context.produce("nowhere", 1)

    run = prepared(Scripted(produce), KeySlot("dog", CachedRow(), queue=[arrival("r1")]))
    run.run()
    assert isinstance(run.outcome.error, HeadraceError)


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
    assert (len(run.outcome.arrivals), run.outcome.state_after) == (4, b'{"n":5}')
    assert len({id(state) for state in kept}) == 3


def test_a_state_that_is_the_initial_one_again_is_made_anew() -> None:
    """Its codec may not tell all of it."""
    made: list[dict[str, int]] = []

    class Making(Scripted):
        def initial_state(self) -> dict[str, int]:
            made.append({})
            return made[-1]

    def forget(context: Context, _record: Record) -> None:
        context.state.clear()

    queue = [arrival("r1"), arrival("r2")]
    run = prepared(Making(forget), KeySlot("dog", CachedRow(b'{"n":2}'), queue=queue), typed=True)
    made.clear()
    run.run()
    assert (len(run.outcome.arrivals), run.outcome.state_after, len(made)) == (2, b"", 1)


def test_what_code_that_fails_did_to_the_state_is_forgotten() -> None:
    def change_and_fail(context: Context, record: Record) -> None:
        count(context, record)
        if record.record_id == "r2":
            raise ValueError("no")

    queue = [arrival("r1"), arrival("r2")]
    run = prepared(Scripted(change_and_fail), KeySlot("dog", CachedRow(), queue=queue), typed=True)
    run.run()
    assert (run.outcome.failed, run.outcome.state_after, run.state_copy) == (True, b'{"n":1}', None)


# A state that the runs of a step share


def does_as_told(context: Context, record: Record) -> None:
    """User code that does what the record says."""
    match record.value:
        case "count":
            count(context, record)
        case "forget":
            context.state = {}
        case "none":
            context.state = None
        case "read":
            context.produce("counts", len(context.state))
        case "pass on":
            context.produce("counts", 0)
        case "set a timer":
            context.set_timer("t", context.state.get("n", 0) + 100)
        case "fail":
            count(context, record)
            raise ValueError("no")
        case "does not fit":
            context.state = {"n": "one"}
        case _:
            raise AssertionError(record.value)


DEEDS = ["count", "forget", "none", "read", "pass on", "set a timer", "fail", "does not fit"]


def told(deeds: Sequence[str], before: bytes) -> tuple[StepRun, StepRun]:
    """Run the same with a copy of the state for each, and with one for all."""
    queue = [
        QueuedDelivery(click(f"r{number}", value=deed).production, "feed/0", 0, False)  # noqa: FBT003
        for number, deed in enumerate(deeds)
    ]
    slot = KeySlot("dog", CachedRow(before), queue=queue)
    alone, together = (
        prepared(Scripted(does_as_told), slot, typed=True, shares=shares) for shares in (False, True)
    )
    alone.run()
    together.run()
    return alone, together


@example(["does not fit", "forget"], b"")
@example(["count", "pass on", "count"], b"")
@given(deeds=st.lists(st.sampled_from(DEEDS), max_size=8), before=st.sampled_from([b"", b'{"n":2}']))
def test_runs_that_share_a_state_do_what_runs_with_copies_do_or_do_not_count(
    deeds: list[str], before: bytes
) -> None:
    alone, together = told(deeds, before)
    if together.outcome.failed:
        assert alone.outcome.failed
        return
    if alone.outcome.failed:
        assert "does not fit" in deeds  # a state that is replaced before the step ends is not encoded
        return
    assert {**fields(together), "state_after": None} == {**fields(alone), "state_after": None}
    assert together.outcome.state_after == (
        None if alone.outcome.state_after == before else alone.outcome.state_after
    )


def test_a_state_that_is_shared_is_decoded_and_encoded_once() -> None:
    states: list[Any] = []

    def keep(context: Context, record: Record) -> None:
        count(context, record)
        states.append(context.state)

    queue = [arrival(record_id) for record_id in ("r1", "r2", "r3")]
    run = prepared(
        Scripted(keep), KeySlot("dog", CachedRow(b'{"n":2}'), queue=queue), typed=True, shares=True
    )
    run.run()
    assert (len(run.outcome.arrivals), run.outcome.state_after) == (3, b'{"n":5}')
    assert states[0] is states[1] is states[2]


@pytest.mark.parametrize("policy", [Stop(), DeadLetter("dead")], ids=["stop", "dead letter"])
@pytest.mark.parametrize("bad", ["fail", "does not fit", "none"])
@pytest.mark.parametrize(
    "codec",
    [TypedCodec(dict[str, int]), MigratingCodec(TypedCodec(dict[str, int]), [dict])],
    ids=["typed", "migrating"],
)
def test_when_one_of_them_fails_each_runs_again_with_a_copy_and_those_before_it_count(
    codec: StateCodec, bad: str, policy: Stop | DeadLetter
) -> None:
    """The first record opens a write; the others wait for it, and so share the next."""

    def ended(*, share_state: bool) -> tuple[object, list[str], list[str]]:
        options = replace(QUIET, commit_batch=8, commits_in_flight=1, user_code_attempts=1)
        pipeline = counter(Scripted(does_as_told), state_codec=codec, share_state=share_state)
        rig = Rig(pipeline.with_computation("counter", on_failure=policy), options=options)
        effects: list[Effect] = []
        for number, deed in enumerate(["count", "count", bad, "count"]):
            effects += rig.feed(click(f"r{number}", value=deed))
        while rig.open:
            effects += rig.answer()
        row = rig.shop.row("dog")
        assert row is not None
        failed = [event.cause for event in rig.shop.of(UserCodeFailed) if isinstance(event, UserCodeFailed)]
        return (
            codec.decode(bytes(row.state)),
            failed,
            [str(effect.error) for effect in effects if isinstance(effect, Halt)],
        )

    state, failed, errors = ended(share_state=True)
    assert (state, failed, errors) == ended(share_state=False)
    assert (state, set(failed)) == ({"n": 2 if errors else 3}, {"r2"})
    assert bool(errors) is isinstance(policy, Stop) or bad != "fail"
