"""Running user code for a step (MillWheel 4.1, 4.6, 6.1.1): which records and timers of a key run, in which order.

Rules of this file:

* Running is pure: it only reads the key's soft state. What it did is left in a `StepRun`, for the caller to carry out.
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

from headrace.api.codecs import Codec, encode_at, unreadable
from headrace.api.context import Context, Emission
from headrace.api.dead_letters import step_letter
from headrace.api.errors import HeadraceError, UserCodeError, text_of, traceback_of_user_code
from headrace.api.records import Clock, Record, Timer
from headrace.api.ropes import Encoded
from headrace.api.specs import letters_to
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.delivery.addressing import CONSUMED, productions_of
from headrace.delivery.deployed import Deployed
from headrace.history import DeadLettered, DuplicateDropped, Event, Executed, KnownBy, UserCodeFailed
from headrace.rules import Rules
from headrace.wire.rows import Asked, AskedTimer, Production, StoredTimer, Version
from headrace.worker.slot import KeySlot, QueuedDelivery
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


class StepRun(msgspec.Struct, eq=False, gc=False):
    """One run of a key's due timers and waiting records, as many as may share a write.

    Tuples and not lists: most of them stay empty, which then costs nothing, and go into the delta as they are. What it consumed
    can be many.

    Attributes:
        setting: what it shares with the interval's other steps.
        where: the computation, as deployed.
        slot: the key, which it only reads.
        version: of the write that will carry the step.
        watermark: what timers and lateness follow, event time in microseconds.
        horizon: of the input, origin in microseconds.
        reported_horizon: of the interval, microseconds.
        now: this machine's clock, microseconds.
        at_us: true time, microseconds; for the History alone.
        failures: how often user code has failed so far, by cause.
        due: a timer of the key may (still) be due.
        shares: its runs share the state. If that fails, `failed` says so, and nothing of the run counts.
        arrivals: the records that it consumed.
        fired: the timers that it fired.
        origins: of what those timers produced, microseconds.
        changes: timers that it set, by tag; ``None``: cancelled.
        sets_due_timer: whether one of them is due already.
        productions: what it made.
        emitted: how many emissions those come from.
        state_after: the new state; ``None``: as it was.
        state_copy: the new state, decoded, which nobody has seen; ``None``: it has not been decoded. If runs share the state: as
            the last one left it.
        last: the last run that used the shared state.
        hold: the state's new hold, event time in microseconds; ``None``: as it was.
        touched: it changed the state, the hold or timers.
        dropped: how many of the waiting records were duplicates.
        failed: user code failed, which ended the step.
        error: it failed for good, and the host is to stop.
        events: for the History, in order. What they say was dropped as a duplicate is still to be ACKed.
    """

    setting: StepSettings
    where: Deployed
    slot: KeySlot
    version: Version
    watermark: int
    horizon: int
    reported_horizon: int
    now: int
    at_us: int
    failures: Mapping[str, int]
    due: bool
    shares: bool = False
    arrivals: list[QueuedDelivery] = []
    fired: tuple[StoredTimer, ...] = ()
    origins: tuple[int, ...] = ()
    changes: Mapping[str, StoredTimer | None] = _NO_CHANGES
    sets_due_timer: bool = False
    productions: tuple[Production, ...] = ()
    emitted: int = 0
    state_after: Encoded | None = None
    state_copy: Any = None
    last: Context | None = None
    hold: int | None = None
    touched: bool = False
    dropped: int = 0
    failed: bool = False
    error: HeadraceError | None = None
    events: tuple[Event, ...] = ()

    def run(self) -> None:
        """Run them. If nothing was consumed, user code failed at the first of them, or all were duplicates."""
        queue = self.slot.queue
        if (not self.due or self._run_timers()) and queue:
            self._run_records(queue)
        if self.last is not None:
            try:
                self.state_after = self.last.new_state()
            except Exception:  # noqa: BLE001  a codec may raise anything; who runs it again finds out for which record
                self.failed = True

    @property
    def here(self) -> tuple[int, str, str]:
        """Time, process and computation, with which each History event begins."""
        return self.at_us, self.setting.address, self.where.spec.name

    # Records

    def _run_records(self, queue: list[QueuedDelivery]) -> None:
        """Run what waits, in order, until there is no room or user code fails."""
        arrivals, room = self.arrivals, self.setting.most - len(self.fired)
        for arrival in queue:
            if len(arrivals) == room:
                return
            if not (arrival.maybe_seen and self._was_seen(arrival)):
                if not self.run_record(arrival.production):
                    return
                arrivals.append(arrival)
            if self.sets_due_timer:
                return

    def _was_seen(self, arrival: QueuedDelivery) -> bool:
        """The filter's hit was no false one: the row has the id, or had it until it was collected while the row was read."""
        production, row, rules = arrival.production, self.slot.row, self.setting.rules
        assert row is not None
        by_id = rules.is_duplicate(production.record_id in row.seen)
        if not by_id and not rules.is_remnant(production.origin, self.horizon):
            return False
        self.dropped += 1
        by = KnownBy.ID if by_id else KnownBy.HORIZON
        self.events += (DuplicateDropped(*self.here, production.key, production.record_id, by),)
        return True

    def run_record(self, record: Production) -> bool:
        """Run user code for a record, and take what it did; on failure leave no trace and tell ``False``."""
        where, watermark, record_id, origin = self.where, self.watermark, record.record_id, record.origin
        late = where.is_late(record.timestamp, watermark)
        state, copy = self._given()
        try:
            context = run_record(
                where, self.slot.key, state, record, watermark, self.now, late=late, copy=copy
            )
            after = self._new_state(context)
            productions = self.addressed(context, record_id, origin)
        except Exception as error:  # noqa: BLE001  user code may raise anything
            return self._fail(StepCause(record_id, record.timestamp, origin, watermark, record, None), error)
        self._take(context, after, productions, watermark, origin)
        if self.setting.keeps or self.failures:
            self._note_executed(record_id, record.timestamp, None, productions, context, late=late)
        return True

    # Timers

    def _run_timers(self) -> bool:
        """Fire what is due; return whether records may run in this step, too."""
        rules = self.setting.rules
        due = due_timers(rules, self.slot, self.watermark, self.now)
        most = rules.most_firings(self.setting.most)
        for timer in due:
            if timer.tag in self.changes:
                continue
            if len(self.fired) >= most:
                self.due = rules.fires_rest()
                return False
            if not self.run_timer(timer):
                return False
            if self.sets_due_timer:
                return False
        self.due = False
        return True

    def run_timer(self, timer: StoredTimer) -> bool:
        """Run user code for a timer; see `run_record`."""
        cause = self._cause_of(timer)
        state, copy = self._given()
        try:
            context = run_timer(self.where, self.slot.key, state, timer, self.watermark, self.now, copy=copy)
            after = self._new_state(context)
            productions = self.addressed(context, cause.identity, cause.origin)
        except Exception as error:  # noqa: BLE001  user code may raise anything
            if not self._fail(cause, error):
                return False
        else:
            self._take(context, after, productions, cause.handler_time, cause.origin)
            self._note_executed(cause.identity, cause.timestamp, timer, productions, context)
        self.fired += (timer,)
        self.origins += (cause.origin,)
        return True

    def _cause_of(self, timer: StoredTimer) -> StepCause:
        where, horizon = self.where, max(self.horizon, self.reported_horizon)
        origin = self.setting.rules.origin_of_firing(timer.origin, horizon, where.strong)
        handler_time = timer.due if timer.clock is Clock.WATERMARK else self.watermark
        identity = timer_identity(where.spec.name, timer)
        return StepCause(identity, timer.timestamp, origin, handler_time, None, timer)

    # What user code did

    def addressed(self, context: Context, identity: str, origin: int) -> tuple[Production, ...]:
        """Name and address what user code emitted; ``identity``: of the cause."""
        emissions = context.emissions
        if emissions is None:
            return ()
        return productions_of(self.where, emissions, self.version, identity, self.emitted, origin)

    def _given(self) -> tuple[Encoded, Any]:
        """What the state has come to so far, of which each run gets a copy; the copy is given away, if there is one.

        Whoever runs next may change it.
        """
        copy, self.state_copy = self.state_copy, None
        after = self.state_after
        if after is not None:
            return after, copy
        row = self.slot.row
        assert row is not None
        return row.state, copy

    def _new_state(self, context: Context) -> Encoded | None:
        """Encode the state after a run. ``None``: it is unchanged, or the next run gets it unencoded."""
        if not self.shares:
            after = context.new_state()
            self.state_copy = context.state_copy
            return after
        self.state_copy = context.state_copy
        if context.uses_state:
            self.last, self.state_copy = context, context.state
            if self.state_copy is None:
                raise TypeError("a state that is None cannot be told from one that was not decoded")
        return None

    def _take(
        self, context: Context, after: Encoded | None, productions: tuple[Production, ...], handler_time: int, origin: int
    ) -> None:  # fmt: skip
        """Take what user code did to its state and its timers, and what it made."""
        if context.timers is not None:
            timers = stored_timers(
                self.setting.rules, context, handler_time=handler_time, now=self.now, set_by=self.version, origin=origin
            )  # fmt: skip
            self.changes = {**self.changes, **timers}
            watermark, now, ends_step = self.watermark, self.now, self.setting.rules.ends_step
            self.sets_due_timer = any(
                timer is not None and ends_step(timer, watermark, now) for timer in timers.values()
            )
        if after is not None:
            self.state_after = after
        if context.new_hold is not None:
            self.hold = context.new_hold
        if not self.touched:
            self.touched = not context.untouched
        if context.emissions is not None:
            self.emitted += len(context.emissions)
            self.productions += productions

    def _note_executed(
        self, cause: str, timestamp: int, timer: StoredTimer | None, productions: tuple[Production, ...],
        context: Context | None = None, *, late: bool = False,
    ) -> None:  # fmt: skip
        if cause in self.failures:
            self.failures = {failed: count for failed, count in self.failures.items() if failed != cause}
        if self.setting.keeps:
            watermark, version = self.watermark, self.version
            here, asked = self.here, asked_of(context)
            self.events += (
                Executed(*here, self.slot.key, cause, timestamp, late, timer, watermark, version, productions, asked),
            )  # fmt: skip

    # Failures

    def _fail(self, cause: StepCause, error: Exception) -> bool:
        """User code failed: end the step, unless the cause is given up; return whether it goes on."""
        if self.shares:
            self.failed = True
            return False
        attempt = self.failures.get(cause.identity, 0) + 1
        self.failures = {**self.failures, cause.identity: attempt}
        text = text_of(error)
        self.events += (UserCodeFailed(*self.here, self.slot.key, cause.identity, attempt, text),)
        final = attempt >= self.setting.attempts or isinstance(error, HeadraceError)
        self.failed = not (final and self.give_up(cause, attempt, error))
        return not self.failed

    def give_up(self, cause: StepCause, attempts: int, error: Exception) -> bool:
        """Give a cause up: stop, or leave a dead letter in its place; return whether the step goes on."""
        where, key = self.where, self.slot.key
        stream = letters_to(where.spec.on_failure, cause.identity)
        if stream is None:
            self.error = final_error(where, key, cause.identity, attempts, cause.production, error)
            return False
        timer = cause.timer
        timestamp = cause.timestamp if timer is None else stamp_of(timer, self.watermark)
        try:
            letter = dead_letter(where, stream, key, cause.identity, cause.production, timestamp, error)
            productions = productions_of(
                where, [letter], self.version, cause.identity, self.emitted, cause.origin
            )
        except HeadraceError as second:
            self.error = second
            return False
        self.events += (DeadLettered(*self.here, cause.identity, stream),)
        self.emitted += 1
        self.productions += productions
        late = timer is None and self.where.is_late(cause.timestamp, self.watermark)
        self._note_executed(cause.identity, cause.timestamp, timer, productions, late=late)
        return True


# User code for one record or timer (5.1, 6.1): pure; it leaves no trace in its step if it fails


def run_record(
    where: Deployed,
    key: str,
    state: Encoded,
    production: Production,
    low_watermark: int,
    now: int,
    *,
    late: bool,
    copy: Any = None,
) -> Context:
    """Run ``process_record`` on a fresh copy of everything; raises what user code raises.

    ``late``: what it is told (4.5). ``copy``: what the state is decoded to, if it has been.
    """
    spec = where.spec
    stream = production.stream
    timestamp, record_id = production.timestamp, production.record_id
    codec = where.codec(stream)
    try:
        value = codec.decode(production.value)
    except Exception as error:
        names = stream, spec.name, record_id
        raise unreadable(error, CONSUMED, codec, production.value, *names) from error
    context = Context(spec, key, state, timestamp, low_watermark, now, timestamp, state_copy=copy)
    record = Record(key, value, timestamp, stream, late, record_id)
    spec.computation.process_record(context, record)
    return context


def run_timer(
    where: Deployed,
    key: str,
    state: Encoded,
    timer: StoredTimer,
    low_watermark: int,
    now: int,
    copy: Any = None,
) -> Context:
    """Run ``process_timer`` on a fresh copy of everything; raises what user code raises. ``copy``: as for `run_record`."""
    held = timer.held
    cause_us = MIN_TIME if held is None else held
    stamp = stamp_of(timer, low_watermark)
    context = Context(where.spec, key, state, cause_us, low_watermark, now, stamp, state_copy=copy)
    where.spec.computation.process_timer(context, Timer(timer.tag, timer.timestamp, timer.clock))
    return context


def stamp_of(timer: StoredTimer, low_watermark: int) -> int:
    """The timestamp of what a timer produces, unless user code gives one; event time, microseconds.

    Choice: a wall timer without a hold stamps with the low watermark, so that nothing that it makes is late. While that is
    unknown, and when the source has ended, there is no such time (windows at the ends of time cannot be computed): then it is
    the time of what set the timer, as in Beam.
    """
    held = timer.held
    if held is not None:
        return held
    return low_watermark if MIN_TIME < low_watermark < MAX_TIME else timer.set_at


def timer_identity(computation: str, timer: StoredTimer) -> str:
    """Return the identity of a timer as the cause of productions."""
    return f"{computation}@{timer.set_by}!{timer.tag}"


def stored_timers(
    rules: Rules, context: Context, *, handler_time: int, now: int, set_by: Version, origin: int
) -> dict[str, StoredTimer | None]:
    """Return how the timers that user code requested change the row (4.6); ``None``: cancelled.

    Args:
        rules: of the protocol.
        context: of the hook that ran.
        handler_time: the input watermark, or, for a timer's hook, the time that it was due; event time, microseconds.
        now: this machine's clock, microseconds.
        set_by: the version of the write that will carry them.
        origin: of their cause, microseconds.
    """
    found: dict[str, StoredTimer | None] = {}
    for tag, request in (context.timers or {}).items():
        if request is None:
            found[tag] = None
            continue
        base = handler_time if request.clock is Clock.WATERMARK else now
        overdue = request.timestamp <= base
        due = rules.due(request.timestamp, base)
        set_at = context.stamp if request.clock is Clock.WALL and request.hold is None else MIN_TIME
        found[tag] = StoredTimer(
            tag, request.timestamp, request.clock, due, overdue, request.hold, set_by, origin, set_at
        )
    return found


def asked_of(context: Context | None) -> Asked:
    """Return what user code requested of its row, for the History; ``None`` if it did not get that far."""
    if context is None or (context.timers is None and context.new_hold is None):
        return _NOTHING
    timers = [
        AskedTimer(tag, None) if timer is None else AskedTimer(tag, timer.timestamp, timer.clock, timer.hold)
        for tag, timer in (context.timers or {}).items()
    ]
    return Asked(context.new_hold, tuple(timers))


_NOTHING = Asked()


def final_error(
    where: Deployed, key: str, cause: str, attempts: int, production: Production | None, error: Exception
) -> HeadraceError:
    """Make the error of a step that has failed for good. ``production``: the record; ``None``: it was a timer."""
    if isinstance(error, HeadraceError):
        return error
    value = "" if production is None else _shown(where.codec(production.stream), production.value)
    return UserCodeError(where.spec.name, key, cause, attempts, traceback_of_user_code(error), value)


def _shown(codec: Codec, data: bytes) -> str:
    try:
        return repr(codec.decode(data))
    except Exception:  # noqa: BLE001  a codec or a repr may be the user's
        return repr(data)


_DEAD = "stream {!r}, dead letters of {!r}"


def dead_letter(
    where: Deployed,
    stream: str,
    key: str,
    cause: str,
    production: Production | None,
    timestamp: int,
    error: Exception,
) -> Emission:
    """The dead letter of a record, or of a timer (``production`` is ``None``).

    Raises:
        CodecError: the stream's codec refuses it.
    """
    name = where.spec.name
    source, value = (production.stream, production.value) if production else (None, None)
    letter = step_letter(name, key, cause, source, value, timestamp, text_of(error))
    data = encode_at(_DEAD, where.codec(stream), letter, stream, name)
    return Emission(stream, key, data, timestamp)
