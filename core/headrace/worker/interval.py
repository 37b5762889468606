"""An owned key interval (MillWheel 4.1, 6.1, 6.2, 7.1): composed of soft state, sending, commits and recovery.

Rules of this file:

* A delivery is checked for being a duplicate before anything else happens to it (6.1.1): by the horizon, by the ids in progress,
  by the Bloom filter, and on a hit there by the row.
* A refused write, or a table that gives the interval to somebody else, ends everything at once: nothing is sent, nothing ACKed.
"""

from collections.abc import Callable
from operator import attrgetter
from zlib import crc32

from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.delivery.deployed import Deployed
from headrace.history import Delivered, DropCause, DuplicateDropped, IntervalDropped, KnownBy, ScanEnded
from headrace.rules import Act
from headrace.wire import messages as m
from headrace.wire.rows import Production, RowImage
from headrace.worker.commits import Commits
from headrace.worker.recovery import Recovery, ScannedRows
from headrace.worker.sending import Sending
from headrace.worker.shared import Shared
from headrace.worker.slot import KeySlot, QueuedDelivery
from headrace.worker.soft_state import SoftState
from headrace.worker.states import INTERVAL, AssignmentState, IntervalInput, moved
from headrace.worker.step import Holder

# Asked for with each record: a global name is found faster than an enumeration's member.
_SCANNING, _OWNED, _RECOVERING = AssignmentState.SCANNING, AssignmentState.OWNED, AssignmentState.RECOVERING
_CACHED_BYTES = attrgetter("cached_bytes")
WORKING = (_OWNED, _RECOVERING)
"""In these an interval processes records."""

OnRecovered = Callable[[int, "OwnedInterval", dict[str, m.Progress]], None]
"""Takes the clock, the interval, and the journaled progress of its senders: before it begins to work, and when it is scanned."""


class OwnedInterval:
    """One assignment: an interval of a computation under one sequencer.

    Attributes:
        soft: what is in memory of its keys.
        sending: what it sends.
        commits: its steps and writes.
        pump: runs and writes what may be; see `Commits.pump`.
        begun: its recovery scan was asked for.
    """

    __slots__ = (
        "_acks_on_receipt", "_collected_below", "_is_remnant", "_on_recovered", "_recovery", "_rules", "begun", "commits",
        "computation", "interval", "pump", "sending", "sequencer", "shared", "soft", "state",
    )  # fmt: skip

    def __init__(self, shared: Shared, where: Deployed, assignment: m.Assignment) -> None:
        self.shared = shared
        self.computation = assignment.computation
        self.interval = assignment.interval
        self.sequencer = assignment.sequencer
        self.state = AssignmentState.SCANNING
        self.begun = False
        self.soft = SoftState(shared, where, assignment)
        self.sending = Sending(shared, self.soft)
        self.commits = shared.part(Commits)(self.soft, self.sending, self._on_refused)
        self.pump: Callable[[int], None] = self.commits.pump
        self._recovery = Recovery(self.soft, self._take_rows, self._on_refused)
        self._on_recovered: OnRecovered | None = None
        rules = self._rules = shared.rules
        self._is_remnant = rules.is_remnant
        order = rules.order(where.strong)
        self._acks_on_receipt = Act.ACK in order[: order.index(Act.RUN)]
        self._collected_below = MIN_TIME

    # Its life (6.2, 7.1)

    def begin(self, now: int, progress_of: tuple[str, ...], on_recovered: OnRecovered) -> None:
        """Scan its rows; then work begins. ``progress_of``: whose journaled progress to learn with it."""
        self.begun = True
        self._on_recovered = on_recovered
        self._recovery.begin(now, progress_of)

    def _take_rows(self, now: int, scanned: ScannedRows) -> None:
        """Build timers and productions from the rows; what was journaled of this computation is never taken back."""
        soft, recovery, rules = self.soft, self._recovery, self._rules
        assert self._on_recovered is not None
        if self.state is _SCANNING:
            own = scanned.progress.get(self.computation, m.Progress())
            soft.accounts.start_from(own.low_watermark, own.horizon)
            if not scanned.ended:
                self.move(IntervalInput.PAGE_CAME)
                self.commits.restores_read = self._restore_read
                self._on_recovered(now, self, scanned.progress)
        by_page = self.state is _RECOVERING
        if scanned.ended:
            self.move(IntervalInput.SCAN_ENDED)
            self.commits.restores_read = None
        for image in scanned.images:
            if not by_page or rules.takes_scanned(recovery.is_read(image.key)):
                self._restore(now, rules.recovered(image))
        if scanned.ended:
            self._record_scan_ended()
            self._on_recovered(now, self, scanned.progress)
        early, recovery.early = recovery.early, []
        for production, sender in early:
            self.deliver(production, sender)
        if by_page:
            soft.mark_due(now)
        soft.wake_for_wall_timers(now)
        self.pump(now)

    def _restore_read(self, now: int, slot: KeySlot, image: RowImage | None) -> bool:
        """Build timers and productions of a key that was read during the scan; return whether there was a row."""
        if self._recovery.knows(slot.key):
            return False
        self._recovery.note_read(slot.key)
        if image is None:
            return False
        self._restore(now, self._rules.read_during_scan(image))
        self.soft.mark_due(now)
        self.soft.wake_for_wall_timers(now)
        return True

    def _restore(self, now: int, image: RowImage) -> None:
        slot = self.soft.restore(image)
        for production in image.productions:
            if production.consumer in self.soft.where.present:
                self.sending.send_or_share(now, production, slot)
            else:  # its consumer has left the topology
                self.commits.delete(now, slot.key, production)

    def _record_scan_ended(self) -> None:
        """Record what is in memory now, not what the scan brought: an owner that restores less shows it here."""
        soft, recovery = self.soft, self._recovery
        scanned, recovery.productions = recovery.productions, []
        deleted = [(record_id, consumer) for _, record_id, consumer in self.commits.delivered]
        known = dict.fromkeys([*self.sending.names(), *deleted])
        expected = frozenset(scanned)
        productions = [name for name in scanned if name in known]
        productions += [name for name in known if name not in expected]
        self.shared.record(
            ScanEnded, soft.computation, self.interval, self.sequencer, recovery.rows, tuple(soft.queued_timers()),
            tuple(productions),
        )  # fmt: skip

    def drop(self, input_: IntervalInput) -> None:
        """Stop owning it: whatever is not durable does not count (6.2). Idempotent."""
        if self.state is AssignmentState.DROPPED:
            return
        self.move(input_)
        soft = self.soft
        if input_ is IntervalInput.REFUSED and self._rules.acks_refused():
            for record_id, arrival in soft.in_progress.items():
                self.sending.ack(arrival.sender, [record_id])
        self.shared.store.forget(soft)
        self.sending.stop()
        soft.clear()
        self.commits.clear()
        why = DropCause.REFUSED if input_ is IntervalInput.REFUSED else DropCause.TABLE
        self.shared.record(IntervalDropped, soft.computation, self.interval, self.sequencer, why)

    def _on_refused(self) -> None:
        self.drop(IntervalInput.REFUSED)

    def move(self, input_: IntervalInput) -> None:
        """Move on by the table; any other move is our bug."""
        self.state = moved(INTERVAL, self.state, input_, "an interval")

    # Deliveries (6.1.1)

    def deliver(self, production: Production, sender: str) -> bool:
        """Take a delivery: drop it if it is a duplicate, otherwise queue it for its key.

        Returns whether to call `pump` for it: its key's turn has come, and nothing else will call `pump`.
        """
        state = self.state
        if state is not _OWNED and state is not _RECOVERING:
            if state is _SCANNING:
                self._recovery.keep(production, sender)
            return False
        record_id, key = production.record_id, production.key
        soft = self.soft
        in_progress = soft.in_progress
        rules = self._rules
        if record_id in in_progress and rules.joins_copy():
            in_progress[record_id].sender = sender
            self._note_duplicate(production, KnownBy.IN_PROGRESS)
            return False
        slot = soft.slots.get(key)
        must_read = state is _RECOVERING and not rules.may_run_during_scan(self._recovery.knows(key))
        print_, maybe_seen = 0, False
        if soft.exactly_once:
            if self._is_remnant(production.origin, soft.horizon):
                self._drop_duplicate(production, sender, KnownBy.HORIZON)
                return False
            print_ = crc32(record_id.encode())  # as `fingerprint` does
            maybe_seen = must_read or (print_ in soft.seen_filter.known and rules.must_check_row())
            row = slot.row if maybe_seen and slot is not None else None
            if row is not None and rules.is_duplicate(record_id in row.seen):
                self._drop_duplicate(production, sender, KnownBy.ID)
                return False
        if slot is None:
            slot = soft.add_slot(key)
        slot.stored |= must_read
        arrival = in_progress[record_id] = QueuedDelivery(production, sender, print_, maybe_seen)
        shared = self.shared
        if shared.history.keeps:
            shared.record(Delivered, soft.computation, key, record_id, sender)
        if self._acks_on_receipt:
            self.sending.ack(sender, [record_id])
        if slot.queue:
            slot.queue.append(arrival)
            return False
        slot.queue = [arrival]
        if slot.busy or slot.due:
            return False
        ready = soft.ready
        ready.append(slot)
        return not self.commits.waits or len(ready) >= self.commits.batch

    def _drop_duplicate(self, production: Production, sender: str, by: KnownBy) -> None:
        """Discard it and ACK it, lest it continue to be retried (6.1.1)."""
        self._note_duplicate(production, by)
        if self._rules.acks_duplicate():
            self.sending.ack(sender, [production.record_id])

    def _note_duplicate(self, production: Production, by: KnownBy) -> None:
        self.shared.record(DuplicateDropped, self.soft.computation, production.key, production.record_id, by)

    # Productions (6.1.2, 6.1.3)

    def acked(self, now: int, holder: Holder, production: Production) -> None:
        """Take the ACK of a production of this interval."""
        self.sending.settle(holder, production)
        if not holder.durable:
            assert holder.step is not None, "a production is either durable or waited for"
            self.commits.acked(holder.step)
        elif self._rules.deletes_checkpoint():
            self.commits.delete(now, holder.slot.key, production)

    # Time

    def set_clock_back(self, now: int) -> None:
        """See `ClockWaiter`; no timer is forgotten."""
        self.commits.set_clock_back(now)
        self.soft.set_clock_back(now)

    def next_turn(self, now: int) -> int:
        """Return when `pump` can go on by itself, microseconds; `MAX_TIME`: something must come first."""
        wall_us = self.soft.timers.next_due()
        return min(self.commits.lingers_until, wall_us if wall_us > now else MAX_TIME)

    def forget_idle(self) -> None:
        """Forget the keys whose whole state is in the store."""
        if self.state is _OWNED:
            self.soft.forget_idle()

    def collect_ids(self, now: int) -> None:
        """Delete the ids of records that nobody can send again (6.1.1)."""
        soft, store = self.soft, self.shared.store
        below = self._rules.collects_below(soft.horizon, self.shared.options.id_slack_us)
        if self.state is not _OWNED or not len(soft.seen_filter) or below <= self._collected_below:
            return
        self._collected_below = below
        soft.forget_ids(below)
        request = m.CollectIds(store.number(), self.computation, self.sequencer, self.interval, below)
        store.ask(now, request, self._on_collected, soft)

    def _on_collected(self, _now: int, reply: m.Reply) -> None:
        if isinstance(reply, m.Refused):
            self._on_refused()

    # What the worker says of it

    def report(self, bucket_us: int | None) -> m.IntervalReport:
        """Return its progress (7.2). ``bucket_us``: width of the buckets of pending times, if percentiles are wanted."""
        soft = self.soft
        received = (arrival.production.origin for arrival in soft.in_progress.values())
        low, horizon = soft.accounts.report(soft.low_watermark, soft.horizon, received)
        pending = soft.accounts.pending_buckets(bucket_us) if bucket_us is not None else ()
        return m.IntervalReport(self.computation, self.interval, self.sequencer, low, horizon, pending)

    def take_load(self, *, retires: bool) -> m.IntervalLoad:
        """Return its load since the last call (7.1). ``retires``: its computation does, so that what is pending counts."""
        options, soft = self.shared.options, self.soft
        records, cpu_us = soft.load.records, soft.load.cpu_us
        soft.load.records = soft.load.cpu_us = 0
        split_key = ""
        is_hot = records >= options.split_load or cpu_us >= options.split_cpu_us
        if is_hot and len(soft.slots) > 1:
            split_key = sorted(soft.slots)[len(soft.slots) // 2]
        size = sum(map(_CACHED_BYTES, soft.slots.values()))
        pending = self._pending if retires else 0
        return m.IntervalLoad(self.computation, self.sequencer, records, size, split_key, pending, cpu_us)

    @property
    def _pending(self) -> int:
        """How much it has yet to finish, including timers that are not due."""
        waiting = sum(len(slot.timers or ()) + (slot.hold != MAX_TIME) for slot in self.soft.slots.values())
        return waiting + self.sending.pending + len(self.soft.in_progress) + self.commits.under_way

    @property
    def collected_below(self) -> int:
        """The origin below which it has asked the store to delete ids, microseconds."""
        return self._collected_below

    @property
    def unfinished(self) -> int:
        """How much is unfinished: records, steps, writes, due timers, checkpoints to delete; 0: it only waits."""
        due = sum(slot.due for slot in self.soft.slots.values())
        return len(self.soft.in_progress) + self.commits.unfinished + due

    def check_invariants(self) -> None:
        """Assert what must hold between events."""
        self.soft.check_invariants()
        self.soft.seen_filter.check_invariants(self._collected_below)
        self.commits.check_invariants()
