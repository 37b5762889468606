"""Running a step (MillWheel 4.1, 4.6, 6.1.1): which records and timers of a key run, in which order, and what comes of failures.

Rules of this file:

* Due timers first, in order; then records in the order of arrival. A timer that a handler sets fires in a later step, once the
  write that sets it is durable; if it is due already, the step ends there, so that nothing overtakes it.
* User code that fails is run again after a pause, as any failed step; when it keeps failing, the computation's policy applies.
  Our own errors in user code's calls (a missing output, a value that does not fit) would fail again, and are final at once.
"""

from collections import deque
from typing import TYPE_CHECKING

from headrace.api.context import Context
from headrace.api.errors import HeadraceError
from headrace.api.records import Clock
from headrace.api.specs import letters_to
from headrace.delivery.addressing import productions_of
from headrace.history import DeadLettered, Executed, UserCodeFailed
from headrace.wire.effects import Halt
from headrace.wire.rows import Production, StoredTimer, Version
from headrace.worker.execution import (
    dead_letter,
    final_error,
    run_record,
    run_timer,
    stamp_of,
    stored_timers,
    timer_identity,
)
from headrace.worker.shared import Shared
from headrace.worker.step import Arrival, KeySlot, Step
from headrace.worker.timers import due_timers

if TYPE_CHECKING:
    from headrace.worker.interval import OwnedInterval


MOST_IN_STEP = 256
"""Records and timers in one step, at most: what it makes is in tuples, copied for each of them. Others wait for the next step."""


class Cause:
    """What user code runs for: a record or a timer, one of which is ``None``."""

    __slots__ = ("handler_time", "identity", "origin", "production", "timer", "timestamp")

    def __init__(
        self, identity: str, timestamp: int, origin: int, handler_time: int,
        production: Production | None, timer: StoredTimer | None,
    ) -> None:  # fmt: skip
        self.identity = identity
        self.timestamp = timestamp
        self.origin = origin
        self.handler_time = handler_time
        self.production = production
        self.timer = timer


class StepRunner:
    """Runs the steps of one owned interval.

    Args:
        interval: whose steps.
        shared: of the worker.
    """

    __slots__ = ("_failures", "_next_number", "_resting", "interval", "shared")

    def __init__(self, interval: "OwnedInterval", shared: Shared) -> None:
        self.interval = interval
        self.shared = shared
        self._next_number = 1
        self._failures: dict[str, int] = {}
        self._resting: deque[tuple[int, KeySlot]] = deque()

    def run(self, now: int, slot: KeySlot) -> Step | None:
        """Run the due timers and the waiting records of a key, as many as may share a write.

        ``None``: user code failed at the first of them, and the key rests.
        """
        step = Step(slot, Version(self.interval.sequencer, self.take_number()))
        budget = min(self.shared.options.commit_batch, MOST_IN_STEP)
        if slot.due and not self._run_timers(now, step, budget):
            return self._unless_failed(step)
        if slot.queue and not self._run_records(now, step, slot.queue, budget - len(step.fired)):
            return self._unless_failed(step)
        return step

    def take_number(self) -> int:
        """Number the next version of a row."""
        number = self._next_number
        self._next_number = number + 1
        return number

    def _run_records(self, now: int, step: Step, queue: list[Arrival], budget: int) -> bool:
        """Run what waits, in order; ``False``: user code failed, and that record waits on."""
        done, succeeded = 0, True
        for arrival in queue:
            if len(step.arrivals) == budget:
                break
            before = step.changes
            if not (arrival.maybe_seen and self._was_seen(arrival, step.slot)):
                succeeded = self.run_record(now, step, arrival.production)
                if not succeeded:
                    break
                step.arrivals.append(arrival)
            done += 1
            if step.changes is not before and self._sets_due_timer(now, step):
                break
        del queue[:done]
        return succeeded

    def _was_seen(self, arrival: Arrival, slot: KeySlot) -> bool:
        """The filter's hit was no false one: the row has the id, or had it until it was collected while the row was read."""
        production, interval = arrival.production, self.interval
        row = slot.row
        assert row is not None
        rules = self.shared.rules
        by_id = rules.is_duplicate(production.record_id in row.seen)
        if not by_id and not rules.is_remnant(production.origin, interval.horizon):
            return False
        interval.drop_seen(arrival, "id" if by_id else "horizon")
        return True

    def _unless_failed(self, step: Step) -> Step | None:
        """What succeeded before the failure is committed; then the key runs again at once."""
        return step if step.arrivals or step.fired else None

    def set_clock_back(self, latest_us: int) -> None:
        """The worker's clock was put back: no key rests for longer than until then."""
        self._resting = deque((min(until, latest_us), slot) for until, slot in self._resting)

    def end_rests(self, now: int) -> None:
        """Let the keys run again whose pause after a failure is over."""
        while self._resting and self._resting[0][0] <= now:
            self.interval.rested(self._resting.popleft()[1])

    def _run_timers(self, now: int, step: Step, budget: int) -> bool:
        """Fire what is due; tell whether records may run in this step, too."""
        slot = step.slot
        rules = self.shared.rules
        due, most = due_timers(rules, slot, self.interval.timer_watermark, now), rules.most_firings(budget)
        for index, timer in enumerate(due):
            if timer.tag in step.changes:
                continue
            if len(step.fired) >= most:
                slot.due = rules.fires_rest()
                return False
            if not self.run_timer(now, step, timer):
                slot.due = True
                return False
            if self._sets_due_timer(now, step):
                slot.due = index + 1 < len(due)
                return False
        slot.due = False
        return True

    def _sets_due_timer(self, now: int, step: Step) -> bool:
        watermark, rules = self.interval.timer_watermark, self.shared.rules
        return any(
            timer is not None and rules.ends_step(timer, watermark, now) for timer in step.changes.values()
        )

    def run_record(self, now: int, step: Step, record: Production) -> bool:
        """Run user code for a record, and take what it did into the step; on failure leave no trace and tell ``False``."""
        interval, slot = self.interval, step.slot
        watermark, version = interval.timer_watermark, step.version
        shared = self.shared
        shared.runs += 1
        shared.uncharged.append(interval.load)  # as `_note_run` does
        try:
            context = run_record(interval.where, slot.key, _state_of(step), record, watermark, now)
            after = context.new_state()
            productions: tuple[Production, ...] = ()
            if context.emissions is not None:
                productions = self.productions(step, context, record.record_id, record.origin)
        except Exception as error:  # noqa: BLE001  user code may raise anything
            cause = Cause(record.record_id, record.timestamp, record.origin, watermark, record, None)
            return self._failed(now, step, cause, error)
        if context.timers is not None:
            self._take_timers(now, step, context, watermark, version, record.origin)
        self._take(step, context, after, productions)
        if self._failures:
            self._failures.pop(record.record_id, None)
        history = shared.history
        if history.keeps:
            timestamp = record.timestamp
            history.record(
                Executed(
                    history.at_us, shared.address, interval.computation, slot.key, record.record_id, timestamp,
                    interval.where.is_late(timestamp, watermark), None, watermark, version, productions,
                )
            )  # fmt: skip
        return True

    def run_timer(self, now: int, step: Step, timer: StoredTimer) -> bool:
        """Likewise for a timer."""
        interval = self.interval
        where, watermark, version = interval.where, interval.timer_watermark, step.version
        cause = self._cause_of_timer(timer)
        self._note_run()
        try:
            context = run_timer(where, step.slot.key, _state_of(step), timer, watermark, now)
            after = context.new_state()
            productions = self.productions(step, context, cause.identity, cause.origin)
        except Exception as error:  # noqa: BLE001  user code may raise anything
            if not self._failed(now, step, cause, error):
                return False
        else:
            if context.timers is not None:
                self._take_timers(now, step, context, cause.handler_time, version, cause.origin)
            self._take(step, context, after, productions)
            self._note_executed(step, cause, productions, version)
        step.fired += (timer,)
        if where.strong and interval.accounts.hold_origin(cause.origin):
            step.held_origins += (cause.origin,)
        return True

    def _note_run(self) -> None:
        """User code runs, and somebody is to be charged for it."""
        self.shared.runs += 1
        self.shared.uncharged.append(self.interval.load)

    def _cause_of_timer(self, timer: StoredTimer) -> Cause:
        interval = self.interval
        where, horizon = interval.where, max(interval.horizon, interval.accounts.horizon)
        origin = self.shared.rules.origin_of_firing(timer.origin, horizon, where.strong)
        handler_time = timer.due if timer.clock is Clock.WATERMARK else interval.timer_watermark
        identity = timer_identity(where.spec.name, timer)
        return Cause(identity, timer.timestamp, origin, handler_time, None, timer)

    def productions(self, step: Step, context: Context, identity: str, origin: int) -> tuple[Production, ...]:
        """Name and address what user code emitted; ``identity``: of the cause."""
        emissions = context.emissions
        if emissions is None:
            return ()
        return productions_of(self.interval.where, emissions, step.version, identity, step.emitted, origin)

    def _take_timers(
        self, now: int, step: Step, context: Context, handler_time: int, version: Version, origin: int
    ) -> None:
        timers = stored_timers(
            self.shared.rules, context, handler_time=handler_time, now=now, set_by=version, origin=origin
        )
        step.changes = {**step.changes, **timers}

    @staticmethod
    def _take(step: Step, context: Context, after: bytes | None, productions: tuple[Production, ...]) -> None:
        """Take what user code did to its state, and what it made, into the step."""
        if after is not None:
            step.state_after = after
        if context.new_hold is not None:
            step.hold = context.new_hold
        if not step.touched:
            step.touched = not context.untouched
        if context.emissions is not None:
            step.emitted += len(context.emissions)
            step.productions += productions

    def _note_executed(
        self, step: Step, cause: Cause, productions: tuple[Production, ...], version: Version
    ) -> None:
        history, interval = self.shared.history, self.interval
        watermark = interval.timer_watermark
        if self._failures:
            self._failures.pop(cause.identity, None)
        late = cause.timer is None and interval.where.is_late(cause.timestamp, watermark)
        history.record(
            Executed(
                history.at_us, self.shared.address, interval.computation, step.slot.key, cause.identity, cause.timestamp,
                late, cause.timer, watermark, version, productions,
            )
        )  # fmt: skip

    # Failures

    def _failed(self, now: int, step: Step, cause: Cause, error: Exception) -> bool:
        attempt = self._failures.get(cause.identity, 0) + 1
        self._failures[cause.identity] = attempt
        history, interval, options = self.shared.history, self.interval, self.shared.options
        text = f"{type(error).__name__}: {error}"
        history.record(
            UserCodeFailed(
                history.at_us,
                self.shared.address,
                interval.computation,
                step.slot.key,
                cause.identity,
                attempt,
                text,
            )
        )
        if attempt < options.user_code_attempts and not isinstance(error, HeadraceError):
            if not step.arrivals and not step.fired:
                self._resting.append((now + options.user_code_retry_us, step.slot))
            return False
        return self.give_up(step, cause, attempt, error)

    def give_up(self, step: Step, cause: Cause, attempts: int, error: Exception) -> bool:
        """Give a cause up: stop, or leave a dead letter in its place; tell whether the step goes on."""
        interval = self.interval
        where, key = interval.where, step.slot.key
        stream = letters_to(where.spec.on_failure, cause.identity)
        if stream is None:
            self.shared.effects.append(Halt(final_error(where, key, cause.identity, attempts, error)))
            return False
        timer = cause.timer
        timestamp = cause.timestamp if timer is None else stamp_of(timer, interval.timer_watermark)
        version = step.version
        try:
            letter = dead_letter(where, stream, key, cause.identity, cause.production, timestamp, error)
            productions = productions_of(where, [letter], version, cause.identity, step.emitted, cause.origin)
        except HeadraceError as second:
            self.shared.effects.append(Halt(second))
            return False
        history = self.shared.history
        history.record(
            DeadLettered(history.at_us, self.shared.address, interval.computation, cause.identity, stream)
        )
        step.emitted += 1
        step.productions += productions
        self._note_executed(step, cause, productions, version)
        return True


def _state_of(step: Step) -> bytes:
    """What the step has come to so far; each run gets a fresh copy of it."""
    if step.state_after is not None:
        return step.state_after
    row = step.slot.row
    assert row is not None
    return row.state
