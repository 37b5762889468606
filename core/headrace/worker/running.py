"""Running user code for a step (MillWheel 4.1, 4.6, 6.1.1): which records and timers of a key run, in which order.

Rules of this file:

* Running is pure: it only reads the key's soft state. What it did is left in a `StepOutcome`, for the caller to carry out.
* Due timers first, in order; then records in the order of arrival. A timer that a handler sets fires in a later step, once the
  write that sets it is durable; if it is due already, the step ends there, so that nothing overtakes it.
* Each run gets a copy of the state that nobody else has. Where a computation declares ``share_state``, all runs of a step
  get the same one; if one of them fails, the step is run again with copies, so that those before it count.
* User code that fails is run again after a pause, as any failed step; when it keeps failing, the computation's policy applies.
  Our own errors in user code's calls (a missing output, a value that does not fit) would fail again, and are final at once.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from headrace.api.context import Context
from headrace.api.errors import HeadraceError, text_of
from headrace.api.records import Clock
from headrace.api.ropes import Encoded
from headrace.api.specs import letters_to
from headrace.api.time import MAX_TIME
from headrace.delivery.addressing import productions_of
from headrace.delivery.deployed import Deployed
from headrace.history import DeadLettered, DuplicateDropped, Event, Executed, KnownBy, UserCodeFailed
from headrace.rules import Rules
from headrace.wire.rows import Production, StoredTimer, Version
from headrace.worker.hooks import (
    asked_of,
    dead_letter,
    final_error,
    run_record,
    run_timer,
    stamp_of,
    stored_timers,
    timer_identity,
)
from headrace.worker.slot import KeySlot, QueuedDelivery, next_due
from headrace.worker.timers import due_timers

MOST_IN_STEP = 256
"""Records and timers in one step, at most: what it makes is in tuples, copied for each of them. Others wait for the next step."""

_NO_CHANGES: Mapping[str, StoredTimer | None] = MappingProxyType({})


class StepCause(msgspec.Struct, eq=False, gc=False):
    """What user code runs for: a record or a timer, one of which is ``None``."""

    identity: str
    timestamp: int
    origin: int
    handler_time: int
    production: Production | None
    timer: StoredTimer | None


class StepSettings(msgspec.Struct, frozen=True, gc=False):
    """The settings shared by all steps of an interval.

    Attributes:
        rules: of the protocol.
        address: of the worker.
        most: records and timers that may share a step.
        attempts: how often user code is run for a cause that it fails on.
        keeps: whether executions are recorded; see `History.keeps`.
    """

    rules: Rules
    address: str
    most: int
    attempts: int
    keeps: bool


class StepView(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What a step's run reads.

    Attributes:
        where: the computation, as deployed.
        slot: the key.
        version: of the write that will carry the step.
        watermark: what timers and lateness follow, event time in microseconds.
        horizon: of the input, origin in microseconds.
        reported_horizon: of the interval, microseconds.
        now: this machine's clock, microseconds.
        at_us: true time, microseconds; for the History alone.
        shares: its runs share the state. If that fails, the outcome says so, and nothing of the run counts.
        in_order: see `Deliveries`.
    """

    where: Deployed
    slot: KeySlot
    version: Version
    watermark: int
    horizon: int
    reported_horizon: int
    now: int
    at_us: int
    shares: bool = False
    in_order: bool = False


class StepOutcome(msgspec.Struct, eq=False, gc=False):
    """What came of a step's run.

    Tuples, not lists: most stay empty, which costs nothing, and go into the delta unchanged. Arrivals can be many.

    Attributes:
        failures: how often user code has failed so far, by cause.
        due: a timer of the key may (still) be due.
        arrivals: the records that it consumed.
        fired: the timers that it fired.
        origins: of what those timers produced, microseconds.
        changes: timers that it set, by tag; ``None``: cancelled.
        productions: what it made.
        state_after: the new state; ``None``: unchanged.
        hold: the state's new hold, event time in microseconds; ``None``: unchanged.
        touched: it changed the state, the hold or timers.
        dropped: how many of the waiting records were duplicates.
        failed: user code failed, which ended the step.
        error: it failed for good, and the host is to stop.
        events: for the History, in order. What they say was dropped as a duplicate is still to be ACKed.
    """

    failures: Mapping[str, int]
    due: bool
    arrivals: list[QueuedDelivery] = []
    fired: tuple[StoredTimer, ...] = ()
    origins: tuple[int, ...] = ()
    changes: Mapping[str, StoredTimer | None] = _NO_CHANGES
    productions: tuple[Production, ...] = ()
    state_after: Encoded | None = None
    hold: int | None = None
    touched: bool = False
    dropped: int = 0
    failed: bool = False
    error: HeadraceError | None = None
    events: tuple[Event, ...] = ()


class StepRun(msgspec.Struct, eq=False, gc=False):
    """One run of a key's due timers and waiting records, as many as may share a write.

    Attributes:
        settings: shared with the interval's other steps.
        view: what it reads.
        outcome: what has come of it so far.
        sets_due_timer: whether it has set a timer that is due already.
        emitted: how many emissions its productions come from.
        state_copy: the new state, decoded, which nobody has seen; ``None``: it has not been decoded. If runs share the state: as
            the last one left it.
        last: the last run that used the shared state.
    """

    settings: StepSettings
    view: StepView
    outcome: StepOutcome
    sets_due_timer: bool = False
    emitted: int = 0
    state_copy: Any = None
    last: Context | None = None

    def run(self) -> None:
        """Run them. If nothing was consumed, user code failed at the first of them, or all were duplicates."""
        queue = self.view.slot.queue
        if (not self.outcome.due or self._run_timers()) and queue:
            self._run_records(queue)
        if self.last is not None:
            try:
                self.outcome.state_after = self.last.new_state()
            except Exception:  # noqa: BLE001  a codec may raise anything; who runs it again finds out for which record
                self.outcome.failed = True

    @property
    def here(self) -> tuple[int, str, str]:
        """Time, process and computation, with which each History event begins."""
        return self.view.at_us, self.settings.address, self.view.where.spec.name

    # Records

    def _run_records(self, queue: list[QueuedDelivery]) -> None:
        """Run what waits, in order, until there is no room or user code fails."""
        arrivals, room = self.outcome.arrivals, self.settings.most - len(self.outcome.fired)
        in_order = self.view.in_order
        for arrival in queue:
            if len(arrivals) == room or (in_order and self._next_timer() <= arrival.production.timestamp):
                return
            if not (arrival.maybe_seen and self._was_seen(arrival)):
                if not self.run_record(arrival.production):
                    return
                arrivals.append(arrival)
            if self.sets_due_timer:
                return

    def _next_timer(self) -> int:
        """Return when the key's next watermark timer is due after the runs so far, event time in microseconds."""
        outcome, slot = self.outcome, self.view.slot
        if not outcome.changes and not slot.timers:
            return MAX_TIME
        fired = {timer.tag for timer in outcome.fired}
        timers = {tag: live.timer for tag, live in (slot.timers or {}).items() if tag not in fired}
        return next_due([timer for timer in {**timers, **outcome.changes}.values() if timer is not None])

    def _was_seen(self, arrival: QueuedDelivery) -> bool:
        """Return whether the filter's hit was right: the row has the id, or had it until it was collected while it was read."""
        production, row, rules = arrival.production, self.view.slot.row, self.settings.rules
        assert row is not None
        by_id = rules.is_duplicate(production.record_id in row.seen)
        if not by_id and not rules.is_remnant(production.origin, self.view.horizon):
            return False
        outcome, by = self.outcome, KnownBy.ID if by_id else KnownBy.HORIZON
        outcome.dropped += 1
        outcome.events += (DuplicateDropped(*self.here, production.key, production.record_id, by),)
        return True

    def run_record(self, record: Production) -> bool:
        """Run user code for a record and adopt what it did; return whether the step goes on. A failure leaves no trace."""
        view, record_id, origin = self.view, record.record_id, record.origin
        where, watermark = view.where, view.watermark
        late = where.is_late(record.timestamp, watermark)
        state, copy = self._take_state()
        try:
            context = run_record(
                where, view.slot.key, state, record, watermark, view.now, late=late, copy=copy
            )
            after = self._new_state(context)
            productions = self.addressed(context, record_id, origin)
        except Exception as error:  # noqa: BLE001  user code may raise anything
            return self._fail(StepCause(record_id, record.timestamp, origin, watermark, record, None), error)
        self._adopt(context, after, productions, watermark, origin)
        if self.settings.keeps or self.outcome.failures:
            self._note_executed(record_id, record.timestamp, None, productions, context, late=late)
        return True

    # Timers

    def _run_timers(self) -> bool:
        """Fire what is due; return whether records may run in this step, too."""
        rules, view, outcome = self.settings.rules, self.view, self.outcome
        due = due_timers(rules, view.slot, view.watermark, view.now)
        most = rules.most_firings(self.settings.most)
        for timer in due:
            if timer.tag in outcome.changes:
                continue
            if len(outcome.fired) >= most:
                outcome.due = rules.fires_rest()
                return False
            if not self.run_timer(timer):
                return False
            if self.sets_due_timer:
                return False
        outcome.due = False
        return True

    def run_timer(self, timer: StoredTimer) -> bool:
        """Run user code for a timer; see `run_record`."""
        view, outcome, cause = self.view, self.outcome, self._cause_of(timer)
        state, copy = self._take_state()
        try:
            context = run_timer(view.where, view.slot.key, state, timer, view.watermark, view.now, copy=copy)
            after = self._new_state(context)
            productions = self.addressed(context, cause.identity, cause.origin)
        except Exception as error:  # noqa: BLE001  user code may raise anything
            if not self._fail(cause, error):
                return False
        else:
            self._adopt(context, after, productions, cause.handler_time, cause.origin)
            self._note_executed(cause.identity, cause.timestamp, timer, productions, context)
        outcome.fired += (timer,)
        outcome.origins += (cause.origin,)
        return True

    def _cause_of(self, timer: StoredTimer) -> StepCause:
        view = self.view
        where, horizon = view.where, max(view.horizon, view.reported_horizon)
        origin = self.settings.rules.origin_of_firing(timer.origin, horizon, where.strong)
        handler_time = timer.due if timer.clock is Clock.WATERMARK else view.watermark
        identity = timer_identity(where.spec.name, timer)
        return StepCause(identity, timer.timestamp, origin, handler_time, None, timer)

    # What user code did

    def addressed(self, context: Context, identity: str, origin: int) -> tuple[Production, ...]:
        """Name and address what user code emitted; ``identity``: of the cause."""
        emissions = context.emissions
        if emissions is None:
            return ()
        view = self.view
        return productions_of(view.where, emissions, view.version, identity, self.emitted, origin)

    def _take_state(self) -> tuple[Encoded, Any]:
        """Return the state after the runs so far, encoded, and its decoded copy, if there is one; the caller owns the copy."""
        copy, self.state_copy = self.state_copy, None
        after = self.outcome.state_after
        if after is not None:
            return after, copy
        row = self.view.slot.row
        assert row is not None
        return row.state, copy

    def _new_state(self, context: Context) -> Encoded | None:
        """Encode the state after a run. ``None``: it is unchanged, or the next run gets it unencoded."""
        if not self.view.shares:
            after = context.new_state()
            self.state_copy = context.state_copy
            return after
        self.state_copy = context.state_copy
        if context.uses_state:
            self.last, self.state_copy = context, context.state
            if self.state_copy is None:
                raise TypeError("a state that is None cannot be told from one that was not decoded")
        return None

    def _adopt(
        self, context: Context, after: Encoded | None, productions: tuple[Production, ...], handler_time: int, origin: int
    ) -> None:  # fmt: skip
        """Adopt what user code did to its state and its timers, and what it produced."""
        outcome = self.outcome
        if context.timers is not None:
            self._adopt_timers(context, handler_time, origin)
        if after is not None:
            outcome.state_after = after
        if context.new_hold is not None:
            outcome.hold = context.new_hold
        if not outcome.touched:
            outcome.touched = not context.untouched
        if context.emissions is not None:
            self.emitted += len(context.emissions)
            outcome.productions += productions

    def _adopt_timers(self, context: Context, handler_time: int, origin: int) -> None:
        view, rules = self.view, self.settings.rules
        watermark, now = view.watermark, view.now
        timers = stored_timers(
            rules, context, handler_time=handler_time, now=now, set_by=view.version, origin=origin
        )
        self.outcome.changes = {**self.outcome.changes, **timers}
        self.sets_due_timer = any(
            timer is not None and rules.ends_step(timer, watermark, now) for timer in timers.values()
        )

    def _note_executed(
        self, cause: str, timestamp: int, timer: StoredTimer | None, productions: tuple[Production, ...],
        context: Context | None = None, *, late: bool = False,
    ) -> None:  # fmt: skip
        outcome, view = self.outcome, self.view
        if cause in outcome.failures:
            outcome.failures = {
                failed: count for failed, count in outcome.failures.items() if failed != cause
            }
        if self.settings.keeps:
            here, asked = self.here, asked_of(context)
            outcome.events += (
                Executed(
                    *here, view.slot.key, cause, timestamp, late, timer, view.watermark, view.version, productions, asked
                ),
            )  # fmt: skip

    # Failures

    def _fail(self, cause: StepCause, error: Exception) -> bool:
        """End the step in which user code failed, unless the cause is given up; return whether it goes on."""
        outcome = self.outcome
        if self.view.shares:
            outcome.failed = True
            return False
        attempt = outcome.failures.get(cause.identity, 0) + 1
        outcome.failures = {**outcome.failures, cause.identity: attempt}
        key, text = self.view.slot.key, text_of(error)
        outcome.events += (UserCodeFailed(*self.here, key, cause.identity, attempt, text),)
        final = attempt >= self.settings.attempts or isinstance(error, HeadraceError)
        outcome.failed = not (final and self.give_up(cause, attempt, error))
        return not outcome.failed

    def give_up(self, cause: StepCause, attempts: int, error: Exception) -> bool:
        """Give a cause up: stop, or leave a dead letter in its place; return whether the step goes on."""
        view, outcome = self.view, self.outcome
        where, key = view.where, view.slot.key
        stream = letters_to(where.spec.on_failure, cause.identity)
        if stream is None:
            outcome.error = final_error(where, key, cause.identity, attempts, cause.production, error)
            return False
        timer = cause.timer
        timestamp = cause.timestamp if timer is None else stamp_of(timer, view.watermark)
        try:
            letter = dead_letter(where, stream, key, cause.identity, cause.production, timestamp, error)
            productions = productions_of(
                where, [letter], view.version, cause.identity, self.emitted, cause.origin
            )
        except HeadraceError as second:
            outcome.error = second
            return False
        outcome.events += (DeadLettered(*self.here, cause.identity, stream),)
        self.emitted += 1
        outcome.productions += productions
        late = timer is None and where.is_late(cause.timestamp, view.watermark)
        self._note_executed(cause.identity, cause.timestamp, timer, productions, late=late)
        return True
