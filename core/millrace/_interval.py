"""An owned key interval (MillWheel 4.1, 6.1, 6.2, 7.1): soft state, steps and writes of the keys that a worker owns.

Rules of this file:

* Between the end of the recovery scan and the end of the assignment, soft state agrees with the rows, and is never scanned again.
* Per key strictly serial: a key is locked from user code to the answer of its write. Keys run in parallel; several may share a
  write.
* Strong order: duplicate check, user code, commit, ACK, send. Weak order: check, user code, send, wait, commit, ACK.
* A refused write, or a table that gives the interval to somebody else, ends everything at once: nothing is sent, nothing ACKed.
"""

import enum
from collections import deque
from collections.abc import Callable

from millrace import _messages as m
from millrace._accounts import Accounts
from millrace._cache import CachedRow, RowCache
from millrace._effects import Effect, Send, WakeAt
from millrace._execution import Deployed
from millrace._keys import KeyInterval
from millrace._options import EngineOptions
from millrace._outbox import Outbox
from millrace._routing import NOWHERE, Routing
from millrace._rows import Production, RowImage
from millrace._seen_filter import SeenFilter, fingerprint
from millrace._step import Arrival, Holder, KeySlot, Step, StepInput, StepState
from millrace._stepping import StepRunner
from millrace._store_client import StoreClient
from millrace._time import MAX_TIME, MIN_TIME
from millrace._timer_queue import TimerQueue
from millrace.history import (
    AckSent,
    Checkpointed,
    Delivered,
    DuplicateDropped,
    History,
    InputWatermarkAdvanced,
    IntervalDropped,
    ScanBegun,
    ScanEnded,
)

_EARLY_LIMIT = 10_000
"""Deliveries kept during a scan; more are left to their senders' retries."""


class IntervalState(enum.IntEnum):
    """Where an assignment is."""

    SCANNING = 0
    OWNED = 1
    DROPPED = 2


class IntervalInput(enum.IntEnum):
    """What moves it on."""

    SCAN_ENDED = 0
    REFUSED = 1
    REASSIGNED = 2


# Asked for with each record: a global name is found faster than an enumeration's member.
_SCANNING, _OWNED = IntervalState.SCANNING, IntervalState.OWNED
_COMPLETE, _WRITE, _WRITTEN = StepInput.COMPLETE, StepInput.WRITE, StepInput.WRITTEN

INTERVAL: dict[tuple[IntervalState, IntervalInput], IntervalState] = {
    (
        IntervalState.SCANNING,
        IntervalInput.SCAN_ENDED,
    ): IntervalState.OWNED,  # 7.1: timer heap and queue are consistent
    (IntervalState.SCANNING, IntervalInput.REFUSED): IntervalState.DROPPED,
    (IntervalState.SCANNING, IntervalInput.REASSIGNED): IntervalState.DROPPED,
    (
        IntervalState.OWNED,
        IntervalInput.REFUSED,
    ): IntervalState.DROPPED,  # 6.2: the sequencer is not valid any more
    (IntervalState.OWNED, IntervalInput.REASSIGNED): IntervalState.DROPPED,
}


class Shared:
    """What all intervals of a worker share.

    Attributes:
        runs: how often user code ran; the host charges CPU time for it.
    """

    __slots__ = ("address", "cache", "effects", "history", "options", "outbox", "routing", "runs", "store")

    def __init__(self, address: str, options: EngineOptions, history: History) -> None:
        self.address = address
        self.options = options
        self.history = history
        self.effects: list[Effect] = []
        self.store = StoreClient(self.effects, options.store_timeout_us)
        self.outbox: Outbox[Holder] = Outbox(options.retry_us, options.retry_max_us)
        self.cache = RowCache(options.cache_bytes, options.eviction)
        self.routing: Routing = NOWHERE
        self.runs = 0


OnRecovered = Callable[[int, "OwnedInterval", dict[str, m.Progress]], None]
"""Takes the clock, the interval, and the journaled progress of its senders, before it begins to work."""


class OwnedInterval:
    """One assignment: an interval of a computation under one sequencer.

    Args:
        shared: of the worker.
        where: the computation, as deployed.
        assignment: what the table says.

    Attributes:
        low_watermark: of its input, as this worker knows it; event time in microseconds.
        timer_watermark: what its timers and lateness follow: the same, or a percentile (7.2).
        horizon: of its input, origin in microseconds.
        begun: its recovery scan was asked for.
        records_run: records and timers run since the last heartbeat.
    """

    __slots__ = (
        "_batch", "_collected_below", "_committable", "_delivered", "_delivered_since", "_early", "_exactly_once", "_filter",
        "_in_progress", "_linger_until", "_most_writes", "_pending", "_ready", "_runner", "_scanned", "_shared", "_slots",
        "_stragglers", "_strong", "_timers", "_waits", "_woken", "_writes", "accounts", "begun", "computation", "horizon",
        "interval", "low_watermark", "records_run", "sequencer", "state", "timer_watermark", "where",
    )  # fmt: skip

    def __init__(self, shared: Shared, where: Deployed, assignment: m.Assignment) -> None:
        options = shared.options
        self._shared = shared
        self.where = where
        self.computation = assignment.computation
        self.interval: KeyInterval = assignment.interval
        self.sequencer = assignment.sequencer
        self.state = IntervalState.SCANNING
        self.low_watermark = MIN_TIME
        self.timer_watermark = MIN_TIME
        self.horizon = MIN_TIME
        self.records_run = 0
        self.begun = False
        self.accounts = Accounts(timers_hold_horizon=not where.strong)
        self._slots: dict[str, KeySlot] = {}
        self._in_progress: dict[str, Arrival] = {}
        self._filter = SeenFilter(options.bloom_capacity, options.bloom_error)
        self._timers = TimerQueue()
        self._runner = StepRunner(self, shared)
        self._ready: deque[KeySlot] = deque()
        self._committable: deque[Step] = deque()
        self._writes = 0
        self._delivered: list[tuple[str, str, str]] = []
        self._delivered_since = 0
        self._strong, self._exactly_once = where.strong, where.exactly_once  # for as long as it is assigned
        self._most_writes = options.commits_in_flight
        self._batch = options.commit_batch
        self._waits = False
        self._linger_until = MIN_TIME
        self._woken = False
        self._stragglers: deque[tuple[int, Step]] = deque()
        self._early: list[m.Deliver] = []
        self._scanned: list[RowImage] = []
        self._pending = 0
        self._collected_below = MIN_TIME

    # Recovery (7.1)

    def begin(self, now: int, progress_of: tuple[str, ...], on_recovered: OnRecovered) -> None:
        """Scan the interval's rows; then work begins. ``progress_of``: whose journaled progress to learn with it."""
        self.begun = True
        history = self._shared.history
        history.record(
            ScanBegun(history.at_us, self._shared.address, self.computation, self.interval, self.sequencer)
        )
        self._scan(now, None, progress_of, on_recovered)

    def _scan(
        self, now: int, after: str | None, progress_of: tuple[str, ...], on_recovered: OnRecovered
    ) -> None:
        store = self._shared.store

        def scanned(now: int, reply: m.Reply) -> None:
            if isinstance(reply, m.Refused):
                self.drop(IntervalInput.REFUSED)
                return
            assert isinstance(reply, m.Scanned)
            self._scanned.extend(reply.rows)
            if reply.after is not None:
                self._scan(now, reply.after, progress_of, on_recovered)
            else:
                self._recover(now, dict(reply.progress), on_recovered)

        request = m.Scan(store.number(), self.computation, self.sequencer, self.interval, after, progress_of)
        store.ask(now, request, scanned, self)

    def _recover(self, now: int, progress: dict[str, m.Progress], on_recovered: OnRecovered) -> None:
        """Build timers and productions from the rows; what was journaled of this computation is never taken back."""
        own = progress.get(self.computation, m.Progress())
        self.accounts.start_from(own.low_watermark, own.horizon)
        self._move(IntervalInput.SCAN_ENDED)
        images, self._scanned = self._scanned, []
        for image in images:
            self._restore(now, image)
        self._record_scan_ended(images)
        on_recovered(now, self, progress)
        early, self._early = self._early, []
        for delivery in early:
            self.deliver(delivery)
        self._wake_for_wall_timers(now)
        self.pump(now)

    def _restore(self, now: int, image: RowImage) -> None:
        slot = self._slots[image.key] = KeySlot(image.key)
        slot.stored = True
        self.accounts.set_hold(slot, image.hold)
        if image.timers:
            slot.timers = {timer.tag: self.accounts.add_timer(timer) for timer in image.timers}
            for timer in image.timers:
                self._timers.add(image.key, timer)
        for record_id, origin in image.seen:
            self._filter.add(fingerprint(record_id), origin)
        slot.row = CachedRow(image.state, dict(image.seen))
        self._shared.cache.keep(slot)
        for production in image.productions:
            if production.consumer in self.where.present:
                self._send(now, production, Holder(self, slot, None, durable=True))
            else:  # its consumer has left the topology
                self._owe(now, slot, production)

    def _record_scan_ended(self, images: list[RowImage]) -> None:
        history = self._shared.history
        timers = tuple((image.key, timer.tag) for image in images for timer in image.timers)
        productions = tuple((p.record_id, p.consumer) for image in images for p in image.productions)
        history.record(
            ScanEnded(
                history.at_us,
                self._shared.address,
                self.computation,
                self.interval,
                self.sequencer,
                len(images),
                timers,
                productions,
            )
        )

    def drop(self, input_: IntervalInput) -> None:
        """Stop owning it: whatever is not durable does not count (6.2). Dropping it twice is dropping it once."""
        if self.state is IntervalState.DROPPED:
            return
        self._move(input_)
        shared, history = self._shared, self._shared.history
        shared.store.forget(self)
        for pending in [one for one in shared.outbox if one.holder.interval is self]:
            shared.outbox.discard(pending)
        for slot in self._slots.values():
            if slot.row is not None:
                shared.cache.drop(slot)
        self._ready.clear()
        self._committable.clear()
        self._stragglers.clear()
        why = "refused" if input_ is IntervalInput.REFUSED else "table"
        history.record(
            IntervalDropped(
                history.at_us, shared.address, self.computation, self.interval, self.sequencer, why
            )
        )

    def _move(self, input_: IntervalInput) -> None:
        try:
            self.state = INTERVAL[self.state, input_]
        except KeyError:
            raise AssertionError(f"an interval can not take {input_.name} in {self.state.name}") from None

    # Deliveries (6.1.1)

    def deliver(self, delivery: m.Deliver) -> bool:
        """Take a delivery: drop it if it is a duplicate, otherwise queue it for its key.

        Tells whether to `pump` for it: its key's turn has come, and nothing is waited for that will.
        """
        if self.state is not _OWNED:
            if self.state is _SCANNING and len(self._early) < _EARLY_LIMIT:
                self._early.append(delivery)
            return False
        production, sender = delivery.production, delivery.sender
        record_id, key = production.record_id, production.key
        in_progress = self._in_progress
        if record_id in in_progress:
            in_progress[record_id].sender = sender
            self._note_duplicate(production, "in progress")
            return False
        slot = self._slots.get(key)
        print_, maybe_seen = 0, False
        if self._exactly_once:
            if production.origin < self.horizon:
                self._drop_duplicate(delivery, "horizon")
                return False
            print_ = fingerprint(record_id)
            maybe_seen = self._filter.may_have(print_)
            if maybe_seen and slot is not None and slot.row is not None and record_id in slot.row.seen:
                self._drop_duplicate(delivery, "id")
                return False
        if slot is None:
            slot = self._slots[key] = KeySlot(key)
        arrival = in_progress[record_id] = Arrival(production, sender, print_, maybe_seen)
        shared = self._shared
        history = shared.history
        history.record(Delivered(history.at_us, shared.address, self.computation, key, record_id, sender))
        if slot.queue:
            slot.queue.append(arrival)
            return False
        slot.queue = [arrival]
        if slot.busy or slot.due:
            return False
        ready = self._ready
        ready.append(slot)
        return not self._waits or len(ready) >= self._batch

    def _drop_duplicate(self, delivery: m.Deliver, by: str) -> None:
        """Discard it and ACK it, lest it continue to be retried (6.1.1)."""
        self._note_duplicate(delivery.production, by)
        self._ack(delivery.sender, [delivery.production.record_id])

    def _note_duplicate(self, production: Production, by: str) -> None:
        history = self._shared.history
        history.record(
            DuplicateDropped(
                history.at_us,
                self._shared.address,
                self.computation,
                production.key,
                production.record_id,
                by,
            )
        )

    def drop_seen(self, arrival: Arrival, by: str) -> None:
        """The filter's hit was a duplicate, as is known now that the row is at hand. ``by``: see `DuplicateDropped`."""
        production = arrival.production
        del self._in_progress[production.record_id]
        self._drop_duplicate(m.Deliver(production, arrival.sender), by)

    def _ack(self, sender: str, record_ids: list[str]) -> None:
        shared, history = self._shared, self._shared.history
        ids = tuple(record_ids)
        history.record(AckSent(history.at_us, shared.address, self.computation, ids, sender))
        shared.effects.append(Send(sender, m.Ack(self.computation, ids)))

    # Steps (6.1)

    def pump(self, now: int) -> None:
        """Run what is ready, and write what is to be committed, as far as writes may be under way.

        A strong step runs only when it may be written: then what has come for its key meanwhile is in it.
        """
        strong, ready, committable, batch = self._strong, self._ready, self._committable, self._batch
        if strong and self._must_wait(now):
            return
        while self.state is _OWNED:
            while ready and not (strong and len(committable) >= batch):
                self._turn(now, ready.popleft())
            if not committable or self._must_wait(now):
                return
            self._write(now)
            if strong and self._must_wait(now):
                return

    def _must_wait(self, now: int) -> bool:
        """Nothing may be written now: what it waits for comes back to `pump`.

        Too many writes are under way; or the next one lingers for more to share it, unless there is enough already.
        ``_waits`` tells deliveries that they need not ask.
        """
        self._waits = self._strong
        if self._writes >= self._most_writes:
            return True
        waiting = len(self._ready) + len(self._committable)
        self._waits = False
        if now >= self._linger_until or waiting >= self._batch:
            return False
        if waiting and not self._woken:
            self._woken = True
            self._shared.effects.append(WakeAt(self._linger_until))
        self._waits = self._strong and self._woken
        return True

    def _turn(self, now: int, slot: KeySlot) -> None:
        if slot.busy:
            return
        if slot.row is None:
            if slot.stored:
                self._read(now, slot)
                return
            slot.row = CachedRow(b"", {})
        slot.busy = True
        step = self._runner.run(now, slot)
        if step is None:
            return
        count = len(step.arrivals) + len(step.fired)
        self.records_run += count
        if not count:
            self._release(slot)
        elif self._strong:
            step.checkpoints = step.productions
            self._complete(step)
        else:
            self._send_first(now, step)

    def _read(self, now: int, slot: KeySlot) -> None:
        slot.busy = True
        store = self._shared.store

        def read(now: int, reply: m.Reply) -> None:
            if isinstance(reply, m.Refused):
                self.drop(IntervalInput.REFUSED)
                return
            assert isinstance(reply, m.RowRead)
            row = reply.row
            slot.row = CachedRow(row.state, dict(row.seen)) if row is not None else CachedRow(b"", {})
            slot.busy = False
            self._ready.append(slot)
            self.pump(now)

        store.ask(now, m.Read(store.number(), self.computation, self.sequencer, slot.key), read, self)

    def _send_first(self, now: int, step: Step) -> None:
        """Weak productions are sent before anything is committed (6.1.3)."""
        for production in step.productions:
            known = self._shared.outbox.find(production.consumer, production.record_id)
            if (
                known is not None
            ):  # a re-run, without exactly-once, of a step whose checkpoint is still on its way
                continue
            holder = Holder(self, step.slot, step, durable=False)
            step.holders += (holder,)
            step.waiting += 1
            self._send(now, production, holder)
        if not step.waiting:
            self._complete(step)
            return
        step.advance(StepInput.SENT)
        self._stragglers.append((now + self._shared.options.straggler_delay_us, step))

    def _complete(self, step: Step) -> None:
        step.advance(_COMPLETE)
        self._committable.append(step)

    def sweep(self, now: int) -> None:
        """Look after what has waited long enough: stragglers, rests, deletions."""
        if self.state is _OWNED:
            if self._stragglers:
                self._checkpoint_stragglers(now)
            self._runner.end_rests(now)
            self.pump(now)
            if self._delivered:
                self._delete_delivered(now)

    def set_clock_back(self, now: int) -> None:
        """The worker's clock was put back: nothing waits for longer than it would from now on."""
        options = self._shared.options
        latest = now + options.straggler_delay_us
        self._stragglers = deque((min(due, latest), step) for due, step in self._stragglers)
        self._delivered_since = min(self._delivered_since, now)
        self._linger_until = min(self._linger_until, now + options.commit_linger_us)
        self._woken = self._waits = False
        self._runner.set_clock_back(now + options.user_code_retry_us)

    def _checkpoint_stragglers(self, now: int) -> None:
        """Weak steps that have waited too long get their un-ACKed productions checkpointed (Figure 11)."""
        while self._stragglers and self._stragglers[0][0] <= now:
            step = self._stragglers.popleft()[1]
            if step.state is not StepState.AWAITING_ACKS:
                continue
            outbox, shared, history = self._shared.outbox, self._shared, self._shared.history
            pending = [outbox.find(p.consumer, p.record_id) for p in step.productions]
            late = [one.production for one in pending if one is not None and one.holder.step is step]
            step.checkpoints = tuple(late)
            for production in late:
                history.record(
                    Checkpointed(
                        history.at_us,
                        shared.address,
                        self.computation,
                        production.record_id,
                        production.consumer,
                    )
                )
            step.advance(StepInput.STRAGGLING)
            self._committable.append(step)

    # Writes (6.1.1, 6.2)

    def _write(self, now: int) -> None:
        """Commit the next steps, with the deletions that have come up meanwhile."""
        to_write, to_skip = [], []
        for step in self._next_batch():
            if step.touched or self._needs_write(step):
                step.advance(_WRITE)
                to_write.append(step)
            else:
                step.advance(StepInput.SKIP_WRITE)
                to_skip.append(step)
        if to_skip:
            self._finish(now, to_skip)
        if not to_write and not self._delivered:
            return
        remember = self._exactly_once
        deltas = [step.delta(remember=remember) for step in to_write]
        delivered, self._delivered = self._delivered, []
        self._writes += 1
        self._linger_until, self._woken = now + self._shared.options.commit_linger_us, False
        store = self._shared.store

        def written(now: int, reply: m.Reply) -> None:
            if isinstance(reply, m.Refused):
                self.drop(IntervalInput.REFUSED)
                return
            self._writes -= 1
            for step in to_write:
                step.advance(_WRITTEN)
                step.slot.stored = True
            self._finish(now, to_write)
            self.pump(now)

        request = m.Write(store.number(), self.computation, self.sequencer, tuple(deltas), tuple(delivered))
        store.ask(now, request, written, self)

    def _next_batch(self) -> list[Step]:
        """The steps to commit together."""
        committable, room = self._committable, self._batch
        steps: list[Step] = []
        for step in committable:
            room -= len(step.arrivals) + len(step.fired)
            if room < 0 and steps:
                break
            steps.append(step)
        for _ in steps:
            committable.popleft()
        return steps

    def _needs_write(self, step: Step) -> bool:
        """A step that used neither state nor timers and has nothing to remember is a stateless function (6.1.3)."""
        return bool(step.touched or step.checkpoints or step.fired or (step.arrivals and self._exactly_once))

    def _delete_delivered(self, now: int) -> None:
        """Delete ACKed checkpoints that have waited long enough for a write to share."""
        options = self._shared.options
        due = now - self._delivered_since >= options.delete_delay_us
        if due and not self._committable and self._writes < options.commits_in_flight:
            self._write(now)

    def _finish(self, now: int, steps: list[Step]) -> None:
        """The steps are durable (or need not be): ACK the senders, then send the productions."""
        acks: dict[str, list[str]] = {}
        in_progress = self._in_progress
        for step in steps:
            self._adopt(now, step)
            for arrival in step.arrivals:
                record_id, sender = arrival.production.record_id, arrival.sender
                del in_progress[record_id]
                if sender in acks:
                    acks[sender].append(record_id)
                else:
                    acks[sender] = [record_id]
        for sender, record_ids in acks.items():
            self._ack(sender, record_ids)
        strong = self._strong
        for step in steps:
            slot = step.slot
            if strong:
                for production in step.productions:
                    self._send(now, production, Holder(self, slot, None, durable=True))
            elif step.holders:
                self._settle_holders(now, step)
            if step.held_origins:
                for origin in step.held_origins:
                    self.accounts.release_origin(origin)
            self._release(slot)

    def _settle_holders(self, now: int, step: Step) -> None:
        """Of a weak step's productions, those that it checkpointed are durable now."""
        if not step.checkpoints:
            return
        for production in step.checkpoints:
            pending = self._shared.outbox.find(production.consumer, production.record_id)
            if pending is not None and pending.holder.step is step:
                pending.holder.durable = True
                pending.holder.step = None
            else:  # ACKed while the checkpoint was being written
                self._owe(now, step.slot, production)

    def _adopt(self, now: int, step: Step) -> None:
        """Bring soft state up to what the row now is (6.2)."""
        slot, arrivals = step.slot, step.arrivals
        row = slot.row
        if row is not None:
            if step.state_after is not None:
                row.state = step.state_after
            if arrivals and self._exactly_once:
                seen, add = row.seen, self._filter.add
                for arrival in arrivals:
                    production = arrival.production
                    origin = seen[production.record_id] = production.origin
                    add(arrival.print, origin)
        else:
            assert not arrivals, "a locked key lost its row"
            assert not step.fired, "a locked key lost its row"
        if step.hold is not None:
            self.accounts.set_hold(slot, step.hold)
        if step.fired or step.changes:
            self._adopt_timers(now, step)

    def _adopt_timers(self, now: int, step: Step) -> None:
        slot, accounts = step.slot, self.accounts
        timers = slot.timers if slot.timers is not None else {}
        slot.timers = timers
        for timer in step.fired:
            live = timers.get(timer.tag)
            if live is not None and live.timer.set_by == timer.set_by:
                accounts.remove_timer(timers.pop(timer.tag))
        for tag, changed in step.changes.items():
            before = timers.pop(tag, None)
            if before is not None:
                accounts.remove_timer(before)
            if changed is not None:
                timers[tag] = accounts.add_timer(changed)
                self._timers.add(slot.key, changed)
        if not timers:
            slot.timers = None
        self._mark_due(now)
        self._wake_for_wall_timers(now)

    def _wake_for_wall_timers(self, now: int) -> None:
        wall = self._timers.next_wall()
        if wall is not None and wall > now:
            self._shared.effects.append(WakeAt(wall))

    def _release(self, slot: KeySlot) -> None:
        slot.busy = False
        if slot.queue or slot.due:
            self._ready.append(slot)
        else:
            slot.queue = None
        if slot.row is not None:
            self._shared.cache.keep(slot)

    # Productions (6.1.2, 6.1.3)

    def _send(self, now: int, production: Production, holder: Holder) -> None:
        shared = self._shared
        self.accounts.add_production(holder, production)
        self._pending += 1
        shared.outbox.add(now, production, holder)
        owner = shared.routing.owner(production.consumer, production.key)
        if owner is not None:
            shared.effects.append(Send(owner, m.Deliver(production, shared.address)))

    def acked(self, now: int, holder: Holder, production: Production) -> None:
        """A production of this interval has arrived for good."""
        self.accounts.remove_production(holder, production)
        self._pending -= 1
        if holder.durable:
            self._owe(now, holder.slot, production)
            return
        step = holder.step
        assert step is not None, "a production is either durable or waited for"
        step.waiting -= 1
        if step.waiting == 0 and step.state is StepState.AWAITING_ACKS:
            self._complete(step)

    def _owe(self, now: int, slot: KeySlot, production: Production) -> None:
        """Its checkpoint is to be deleted: with any write of the interval, whatever its own key is doing."""
        if not self._delivered:
            self._delivered_since = now
        self._delivered.append((slot.key, production.record_id, production.consumer))

    # Watermarks and timers (4.5, 4.6, 7.2)

    def advance(self, now: int, low_watermark: int, timer_watermark: int, horizon: int) -> None:
        """The worker knows more of the senders' progress. Values only rise."""
        self.low_watermark = max(self.low_watermark, low_watermark)
        self.horizon = max(self.horizon, horizon)
        if timer_watermark > self.timer_watermark:
            self.timer_watermark = timer_watermark
            history = self._shared.history
            history.record(
                InputWatermarkAdvanced(
                    history.at_us, self._shared.address, self.computation, self.sequencer, timer_watermark
                )
            )
            self._mark_due(now)

    def fire_wall_timers(self, now: int) -> None:
        """The worker's clock has moved on."""
        wall = self._timers.next_wall()
        if wall is not None and wall <= now:
            self._mark_due(now)

    def _mark_due(self, now: int) -> None:
        for key in self._timers.due_keys(self.timer_watermark, now):
            slot = self._slots[key]
            if slot.timers and not slot.due:
                slot.due = True
                if not slot.busy and not slot.queue:
                    self._ready.append(slot)

    def rested(self, slot: KeySlot) -> None:
        """The pause after failed user code is over: the key may run again."""
        if self.state is IntervalState.OWNED:
            self._release(slot)

    def collect_ids(self, now: int) -> None:
        """Delete the ids that nobody can send again any more (6.1.1)."""
        below = self.horizon - self._shared.options.id_slack_us
        if self.state is not IntervalState.OWNED or not len(self._filter) or below <= self._collected_below:
            return
        self._collected_below = below
        self._filter.forget_before(below)
        for slot in self._slots.values():
            row = slot.row
            if row is not None and row.seen and not slot.busy and min(row.seen.values()) < below:
                row.seen = {record_id: origin for record_id, origin in row.seen.items() if origin >= below}
        store = self._shared.store
        request = m.CollectIds(store.number(), self.computation, self.sequencer, self.interval, below)
        store.ask(now, request, self._on_collected, self)

    def _on_collected(self, _now: int, reply: m.Reply) -> None:
        if isinstance(reply, m.Refused):
            self.drop(IntervalInput.REFUSED)

    # What the worker says of it

    def report(self, bucket_us: int | None) -> m.IntervalReport:
        """Its progress (7.2). ``bucket_us``: width of the buckets of pending times, if percentiles are wanted."""
        low, horizon = self.accounts.report(self.low_watermark, self.horizon)
        pending = self.accounts.pending_buckets(bucket_us) if bucket_us is not None else ()
        return m.IntervalReport(self.computation, self.interval, self.sequencer, low, horizon, pending)

    def load(self) -> m.IntervalLoad:
        """Its load since the last heartbeat (7.1)."""
        records, self.records_run = self.records_run, 0
        split_key = ""
        if records >= self._shared.options.split_load and len(self._slots) > 1:
            split_key = sorted(self._slots)[len(self._slots) // 2]
        size = 0
        pending = self._pending + len(self._in_progress) + len(self._delivered) + self._writes
        for slot in self._slots.values():
            size += slot.cached_bytes
            pending += (len(slot.timers) if slot.timers else 0) + (slot.hold != MAX_TIME)
        return m.IntervalLoad(self.computation, self.sequencer, records, size, split_key, pending)

    def to_be_committed(self) -> list[Production]:
        """Productions of steps that wait for a write."""
        return [production for step in self._committable for production in step.checkpoints]

    @property
    def unfinished(self) -> int:
        """What it is in the middle of: records, steps, writes, due timers, checkpoints to delete; 0: it only waits."""
        due = sum(slot.due for slot in self._slots.values())
        return len(self._in_progress) + len(self._committable) + self._writes + len(self._delivered) + due

    def check_invariants(self) -> None:
        """Assert what must hold between events."""
        for slot in self._slots.values():
            waits = bool(slot.queue) or slot.due
            assert slot.busy or not waits or slot in self._ready, (
                f"key {slot.key!r} has work and nobody will do it"
            )
            assert slot.row is not None or slot.cached_bytes == 0
        assert self._writes >= 0
        assert all(key in self._slots for key, _, _ in self._delivered), "an unknown key has a checkpoint"
