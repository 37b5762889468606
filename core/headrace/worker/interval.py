"""An owned key interval (MillWheel 4.1, 6.1, 6.2, 7.1): what a worker keeps in memory of the keys that it owns.

Rules of this file:

* Between the end of the recovery scan (`headrace.worker.recovery`) and the end of the assignment, soft state agrees with the
  rows, and is never scanned again; only answered writes change it (`headrace.worker.commits`).
* A delivery is checked for being a duplicate before anything else happens to it (6.1.1): by the horizon, by the ids in progress,
  by the Bloom filter, and on a hit there by the row.
* A refused write, or a table that gives the interval to somebody else, ends everything at once: nothing is sent, nothing ACKed.
"""

from collections import deque
from collections.abc import Callable
from typing import ClassVar
from zlib import crc32

from headrace.api.records import Clock
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.delivery.deployed import Deployed
from headrace.history import (
    AckSent,
    Delivered,
    DropCause,
    DuplicateDropped,
    InputWatermarkAdvanced,
    IntervalDropped,
    KnownBy,
)
from headrace.rules import Act
from headrace.wire import messages as m
from headrace.wire.effects import Send, WakeAt
from headrace.wire.keys import KeyInterval
from headrace.wire.rows import Production
from headrace.worker.accounts import Accounts
from headrace.worker.cache import NO_IDS
from headrace.worker.commits import Commits
from headrace.worker.interval_state import INTERVAL, IntervalInput, IntervalState
from headrace.worker.recovery import OnRecovered, Recovery
from headrace.worker.seen import SeenFilter, fingerprint
from headrace.worker.shared import Load, Shared
from headrace.worker.slot import Arrival, KeySlot
from headrace.worker.step import Holder, StepState, linked
from headrace.worker.timers import TimerQueue

# Asked for with each record: a global name is found faster than an enumeration's member.
_SCANNING, _OWNED = IntervalState.SCANNING, IntervalState.OWNED


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
        load: what it has run since the last heartbeat.
        accounts: its oldest work.
        slots: what is known of its keys.
        in_progress: record id to the delivery that waits or is being processed.
        seen_filter: the ids that it may have seen.
        timers: its keys by the time of their timers.
        ready: keys with something to run, in order.
        commits: its steps and writes.
        pump: runs and writes what may be; see `Commits.pump`.

    Attributes of the class:
        commits_class: of its steps and writes.
    """

    commits_class: ClassVar[type[Commits]] = Commits

    __slots__ = (
        "_acks_on_receipt",
        "_collected_below",
        "_exactly_once",
        "_forgotten",
        "_is_remnant",
        "_pending",
        "_recovery",
        "_rules",
        "accounts",
        "begun",
        "commits",
        "computation",
        "horizon",
        "in_progress",
        "interval",
        "load",
        "low_watermark",
        "pump",
        "ready",
        "seen_filter",
        "sequencer",
        "shared",
        "slots",
        "state",
        "timer_watermark",
        "timers",
        "where",
    )  # fmt: skip

    def __init__(self, shared: Shared, where: Deployed, assignment: m.Assignment) -> None:
        options = shared.options
        self.shared = shared
        self.where = where
        self.computation = assignment.computation
        self.interval: KeyInterval = assignment.interval
        self.sequencer = assignment.sequencer
        self.state = IntervalState.SCANNING
        self.low_watermark = MIN_TIME
        self.timer_watermark = MIN_TIME
        self.horizon = MIN_TIME
        self.load = Load(self.computation)
        self.begun = False
        self.accounts = Accounts(strong=where.strong, rules=shared.rules)
        self.slots: dict[str, KeySlot] = {}
        self.in_progress: dict[str, Arrival] = {}
        self.seen_filter = SeenFilter(options.bloom_capacity, options.bloom_error)
        self._forgotten = SeenFilter(options.bloom_capacity, options.bloom_error)
        self.timers = TimerQueue(shared.rules)
        self.ready: deque[KeySlot] = deque()
        self.commits = self.commits_class(self, shared)
        self.pump: Callable[[int], None] = self.commits.pump
        self._recovery = Recovery(self, shared)
        rules = self._rules = shared.rules
        self._is_remnant = rules.is_remnant
        self._exactly_once = rules.remembers(where.exactly_once)  # for as long as it is assigned
        order = rules.order(where.strong)
        self._acks_on_receipt = Act.ACK in order[: order.index(Act.RUN)]
        self._pending = 0
        self._collected_below = MIN_TIME

    # Its life (6.2, 7.1)

    def begin(self, now: int, progress_of: tuple[str, ...], on_recovered: OnRecovered) -> None:
        """Scan its rows; then work begins. ``progress_of``: whose journaled progress to learn with it."""
        self.begun = True
        self._recovery.begin(now, progress_of, on_recovered)

    def sweep(self, now: int) -> None:
        """Look after what has waited long enough."""
        if self.state is _OWNED:
            self.commits.sweep(now)

    def drop(self, input_: IntervalInput) -> None:
        """Stop owning it: whatever is not durable does not count (6.2). Dropping it twice is dropping it once."""
        if self.state is IntervalState.DROPPED:
            return
        self.move(input_)
        shared, history = self.shared, self.shared.history
        if input_ is IntervalInput.REFUSED and self._rules.acks_refused():
            for record_id, arrival in self.in_progress.items():
                self.ack(arrival.sender, [record_id])
        shared.store.forget(self)
        for pending in list(shared.outbox):
            others = [one for one in pending.holder.all() if one.sequencer != self.sequencer]
            if others:
                pending.holder = linked(others)
            else:
                shared.outbox.discard(pending)
        for slot in self.slots.values():
            if slot.row is not None:
                shared.cache.drop(slot)
        self.ready.clear()
        self.commits.clear()
        why = DropCause.REFUSED if input_ is IntervalInput.REFUSED else DropCause.TABLE
        history.record(
            IntervalDropped(
                history.at_us, shared.address, self.computation, self.interval, self.sequencer, why
            )
        )

    def move(self, input_: IntervalInput) -> None:
        """Move on by the table; any other move is our bug."""
        try:
            self.state = INTERVAL[self.state, input_]
        except KeyError:
            raise AssertionError(f"an interval can not take {input_.name} in {self.state.name}") from None

    # Deliveries (6.1.1)

    def deliver(self, production: Production, sender: str) -> bool:
        """Take a delivery: drop it if it is a duplicate, otherwise queue it for its key.

        Tells whether to `pump` for it: its key's turn has come, and nothing is waited for that will.
        """
        if self.state is not _OWNED:
            if self.state is _SCANNING:
                self._recovery.keep(production, sender)
            return False
        record_id, key = production.record_id, production.key
        in_progress = self.in_progress
        rules = self._rules
        if record_id in in_progress and rules.joins_copy():
            in_progress[record_id].sender = sender
            self._note_duplicate(production, KnownBy.IN_PROGRESS)
            return False
        slot = self.slots.get(key)
        print_, maybe_seen = 0, False
        if self._exactly_once:
            if self._is_remnant(production.origin, self.horizon):
                self._drop_duplicate(production, sender, KnownBy.HORIZON)
                return False
            print_ = crc32(record_id.encode())  # as `fingerprint` does
            maybe_seen = print_ in self.seen_filter.known and rules.must_check_row()
            if (
                maybe_seen
                and slot is not None
                and slot.row is not None
                and rules.is_duplicate(record_id in slot.row.seen)
            ):
                self._drop_duplicate(production, sender, KnownBy.ID)
                return False
        if slot is None:
            slot = self.slots[key] = KeySlot(key)
            slot.stored = crc32(key.encode()) in self._forgotten.known
        arrival = in_progress[record_id] = Arrival(production, sender, print_, maybe_seen)
        shared = self.shared
        history = shared.history
        if history.keeps:
            history.record(Delivered(history.at_us, shared.address, self.computation, key, record_id, sender))
        if self._acks_on_receipt:
            self.ack(sender, [record_id])
        if slot.queue:
            slot.queue.append(arrival)
            return False
        slot.queue = [arrival]
        if slot.busy or slot.due:
            return False
        ready = self.ready
        ready.append(slot)
        return not self.commits.waits or len(ready) >= self.commits.batch

    def _drop_duplicate(self, production: Production, sender: str, by: KnownBy) -> None:
        """Discard it and ACK it, lest it continue to be retried (6.1.1)."""
        self._note_duplicate(production, by)
        if self._rules.acks_duplicate():
            self.ack(sender, [production.record_id])

    def _note_duplicate(self, production: Production, by: KnownBy) -> None:
        history = self.shared.history
        history.record(
            DuplicateDropped(
                history.at_us,
                self.shared.address,
                self.computation,
                production.key,
                production.record_id,
                by,
            )
        )

    def drop_seen(self, record_id: str) -> None:
        """The filter's hit was a duplicate, as is known now that the row is at hand."""
        arrival = self.in_progress.pop(record_id)
        if self._rules.acks_duplicate():
            self.ack(arrival.sender, [record_id])

    def ack(self, sender: str, record_ids: list[str]) -> None:
        """Tell a sender that these are durable."""
        shared, history = self.shared, self.shared.history
        ids = tuple(record_ids)
        history.record(AckSent(history.at_us, shared.address, self.computation, ids, sender))
        shared.effects.append(Send(sender, m.Ack(self.computation, ids)))

    def release(self, slot: KeySlot) -> None:
        """Unlock a key, and let it run again if there is more."""
        slot.busy = False
        if slot.queue or slot.due:
            self.ready.append(slot)
        else:
            slot.queue = None
        if slot.row is not None:
            self.shared.cache.keep(slot)

    # Productions (6.1.2, 6.1.3)

    def send(self, now: int, production: Production, holder: Holder) -> None:
        """Send a production, and keep it until it is ACKed."""
        shared = self.shared
        self.accounts.add_production(holder, production)
        self._pending += 1
        shared.outbox.add(now, production, holder)
        owner = shared.routing.owner(production.consumer, production.key)
        if owner is not None:
            shared.effects.append(Send(owner, m.Deliver(production, shared.address)))

    def send_or_share(self, now: int, production: Production, holder: Holder) -> None:
        """Send it, unless another step or row of this worker is at it: then both hold what is pending (6.1.3)."""
        known = self.shared.outbox.find(production.consumer, production.record_id)
        if known is None:
            self.send(now, production, holder)
            return
        self.accounts.add_production(holder, known.production)
        self._pending += 1
        known.holder = linked([*known.holder.all(), holder])

    def acked(self, now: int, holder: Holder, production: Production) -> None:
        """A production of this interval has arrived for good."""
        self.accounts.remove_production(holder, production)
        self._pending -= 1
        if holder.durable:
            if self._rules.deletes_checkpoint():
                self.commits.delete(now, holder.slot.key, production)
            return
        step = holder.step
        assert step is not None, "a production is either durable or waited for"
        step.waiting -= 1
        if step.waiting == 0 and step.state is StepState.AWAITING_ACKS:
            self.commits.complete(step)

    # Watermarks and timers (4.5, 4.6, 7.2)

    def set_clock_back(self, now: int) -> None:
        """The worker's clock was put back: nothing waits for longer than it would from now on, and no timer is forgotten.

        A key whose wall timer was due has left the queue, and runs perhaps after its row was read: then the timer is not due.
        """
        self.commits.set_clock_back(now)
        not_due = [
            (slot.key, live.timer)
            for slot in self.slots.values()
            if slot.due and slot.timers
            for live in slot.timers.values()
            if live.timer.clock is Clock.WALL and live.timer.due > now
        ]
        for key, timer in not_due:
            self.timers.add(key, timer)
        if not_due:
            self.wake_for_wall_timers(now)

    def advance(self, now: int, low_watermark: int, timer_watermark: int, horizon: int) -> None:
        """The worker knows more of the senders' progress. Values only rise."""
        advanced = self._rules.advanced
        self.low_watermark = advanced(self.low_watermark, low_watermark)
        self.horizon = advanced(self.horizon, horizon)
        timer_watermark = advanced(self.timer_watermark, timer_watermark)
        if timer_watermark != self.timer_watermark:
            self.timer_watermark = timer_watermark
            history = self.shared.history
            history.record(
                InputWatermarkAdvanced(
                    history.at_us, self.shared.address, self.computation, self.sequencer, timer_watermark
                )
            )
            self.mark_due(now)

    def fire_wall_timers(self, now: int) -> None:
        """The worker's clock has moved on."""
        wall = self.timers.next_wall()
        if wall is not None and wall <= now:
            self.mark_due(now)

    def wake_for_wall_timers(self, now: int) -> None:
        """Ask to be woken for the next wall timer."""
        wall = self.timers.next_wall()
        if wall is not None and wall > now:
            self.shared.effects.append(WakeAt(wall))

    def mark_due(self, now: int) -> None:
        """Let the keys run whose timers have come."""
        for key in self.timers.due_keys(self.timer_watermark, now):
            slot = self.slots.get(key)
            if slot is not None and slot.timers and not slot.due:
                slot.due = True
                if not slot.busy and not slot.queue:
                    self.ready.append(slot)

    def forget_idle(self) -> None:
        """Forget the keys that wait for nothing and whose rows have left the cache: all that is known of them is in the store.

        Choice: that a key was forgotten is kept in a Bloom filter, some bytes for what a slot needs hundreds for. A hit costs a
        read of its row, which may turn out not to be there; without the filter each key that is new would.
        """
        if self.state is not _OWNED:
            return
        idle = [slot for slot in self.slots.values() if slot.row is None and slot.is_idle]
        for slot in idle:
            del self.slots[slot.key]
        known = self._forgotten.known
        prints = [fingerprint(slot.key) for slot in idle if slot.stored]
        self._forgotten.add_all([one for one in prints if one not in known], 0)

    def collect_ids(self, now: int) -> None:
        """Delete the ids that nobody can send again any more (6.1.1)."""
        below = self._rules.collects_below(self.horizon, self.shared.options.id_slack_us)
        if (
            self.state is not IntervalState.OWNED
            or not len(self.seen_filter)
            or below <= self._collected_below
        ):
            return
        self._collected_below = below
        self.seen_filter.forget_before(below)
        for slot in self.slots.values():
            row = slot.row
            if row is not None and row.seen and not slot.busy and min(row.seen.values()) < below:
                kept = {record_id: origin for record_id, origin in row.seen.items() if origin >= below}
                row.seen = kept or NO_IDS
        store = self.shared.store
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

    def take_load(self) -> m.IntervalLoad:
        """Its load since the last heartbeat (7.1)."""
        options = self.shared.options
        records, cpu_us = self.load.records, self.load.cpu_us
        self.load.records = self.load.cpu_us = 0
        split_key = ""
        is_hot = records >= options.split_load or cpu_us >= options.split_cpu_us
        if is_hot and len(self.slots) > 1:
            split_key = sorted(self.slots)[len(self.slots) // 2]
        size = 0
        pending = self._pending + len(self.in_progress) + self.commits.under_way
        for slot in self.slots.values():
            size += slot.cached_bytes
            pending += (len(slot.timers) if slot.timers else 0) + (slot.hold != MAX_TIME)
        return m.IntervalLoad(self.computation, self.sequencer, records, size, split_key, pending, cpu_us)

    def to_be_committed(self) -> list[Production]:
        """Productions of steps that wait for a write."""
        return self.commits.to_be_committed()

    @property
    def unfinished(self) -> int:
        """What it is in the middle of: records, steps, writes, due timers, checkpoints to delete; 0: it only waits."""
        due = sum(slot.due for slot in self.slots.values())
        return len(self.in_progress) + self.commits.unfinished + due

    def check_invariants(self) -> None:
        """Assert what must hold between events."""
        for slot in self.slots.values():
            waits = bool(slot.queue) or slot.due
            assert slot.busy or not waits or slot in self.ready, (
                f"key {slot.key!r} has work and nobody will do it"
            )
            assert slot.row is not None or slot.cached_bytes == 0
        self._check_timers()
        self.commits.check_invariants()

    def _check_timers(self) -> None:
        """Each timer of a key that neither runs nor is about to is in the queue."""
        queued = self.timers.entries()
        for slot in self.slots.values():
            if slot.timers and not slot.busy and not slot.due:
                timers = [live.timer for live in slot.timers.values()]
                assert all((timer.due, slot.key) in queued[timer.clock] for timer in timers), (
                    f"key {slot.key!r} has a timer and nobody will look at it"
                )
