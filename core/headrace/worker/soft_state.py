"""The soft state of an owned interval (MillWheel 6.2, 7.1): what its owner keeps in memory of its keys.

Rules of this file: between the end of the recovery scan and the end of the assignment it agrees with the rows, and is never
scanned again; only answered writes change it.
"""

from collections import deque
from collections.abc import Iterable
from zlib import crc32

from headrace.api.records import Clock
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.delivery.deployed import Deployed
from headrace.history import InputWatermarkAdvanced
from headrace.wire import messages as m
from headrace.wire.keys import KeyInterval
from headrace.wire.rows import RowImage, StoredTimer
from headrace.worker.accounts import Accounts
from headrace.worker.cache import NO_IDS, CachedRow, compact
from headrace.worker.seen import ForgottenKeys, SeenFilter, fingerprint
from headrace.worker.shared import Load, Shared
from headrace.worker.slot import KeySlot, QueuedDelivery
from headrace.worker.step import KeyStep
from headrace.worker.timers import TimerQueue


class SoftState:
    """What is in memory of one assignment: an interval of a computation under one sequencer.

    Attributes:
        exactly_once: its deliveries are deduplicated, for as long as it is assigned.
        low_watermark: of its input, as this worker knows it; event time in microseconds.
        timer_watermark: what its timers and lateness follow: the same, or a percentile (7.2).
        horizon: of its input, origin in microseconds.
        load: what it has run since the last heartbeat.
        accounts: its oldest work.
        slots: what is known of its keys.
        in_progress: record id to the delivery that waits or is being processed.
        seen_filter: the ids that it may have seen.
        timers: its keys by the time of their timers.
        ready: keys with something to run, in order.
        in_order: records come in order; see `Deliveries`.
        behind: then, the keys whose next record is behind a timer of theirs that waits for the watermark.
    """

    __slots__ = (
        "_forgotten", "_queues", "accounts", "behind", "computation", "exactly_once", "horizon", "in_order", "in_progress",
        "interval", "load", "low_watermark", "ready", "seen_filter", "sequencer", "shared", "slots", "timer_watermark",
        "timers", "where",
    )  # fmt: skip

    def __init__(self, shared: Shared, where: Deployed, assignment: m.Assignment) -> None:
        options, rules = shared.options, shared.rules
        self.shared = shared
        self.where = where
        self.computation = assignment.computation
        self.interval: KeyInterval = assignment.interval
        self.sequencer = assignment.sequencer
        self.exactly_once = rules.remembers(where.exactly_once)
        self.low_watermark = self.timer_watermark = self.horizon = MIN_TIME
        self.load = Load(self.computation)
        self.accounts = Accounts(strong=where.strong, rules=rules)
        self.slots: dict[str, KeySlot] = {}
        self.in_progress: dict[str, QueuedDelivery] = {}
        self.seen_filter = SeenFilter(options.bloom_capacity, options.bloom_error)
        self._forgotten = ForgottenKeys(options.bloom_capacity, options.bloom_error)
        self._queues = rules.queues
        self.timers = TimerQueue(rules)
        self.ready: deque[KeySlot] = deque()
        self.in_order = False
        self.behind: dict[str, KeySlot] = {}

    # Keys

    def add_slot(self, key: str) -> KeySlot:
        """Add a slot for a key."""
        slot = self.slots[key] = KeySlot(key)
        slot.stored = crc32(key.encode()) in self._forgotten.known
        return slot

    def restore(self, image: RowImage) -> KeySlot:
        """Take in a row that the recovery scan has found (7.1), or a read before the scan has come to it (6.2)."""
        slot = self.slots.get(image.key)
        if slot is None:
            slot = self.slots[image.key] = KeySlot(image.key)
        slot.stored = True
        self.accounts.set_hold(slot, image.hold)
        if image.timers:
            slot.timers = {timer.tag: self.accounts.add_timer(timer) for timer in image.timers}
            for timer in image.timers:
                self._queue(slot, timer, recovered=True)
        if image.seen:
            prints = [fingerprint(record_id) for record_id, _ in image.seen]
            self.seen_filter.add_all(prints, max([origin for _, origin in image.seen]))
        slot.row = CachedRow(image.state, dict(image.seen))
        if not slot.busy:  # else it was read for a step, which needs it until it is released
            self.shared.cache.keep(slot)
        return slot

    def release(self, slot: KeySlot) -> None:
        """Unlock a key, and let it run again if there is more."""
        slot.busy = False
        if self.in_order and slot.queue and not slot.due and _next_record(slot) >= slot.next_boundary():
            self.behind[slot.key] = slot
        elif slot.queue or slot.due:
            self.ready.append(slot)
        else:
            slot.queue = None
        if slot.row is not None:
            self.shared.cache.keep(slot)

    def forget_idle(self) -> None:
        """Forget the keys that wait for nothing and whose rows have left the cache: all that is known of them is in the store.

        Choice: a Bloom filter remembers which keys were forgotten, in a few bytes where a slot needs hundreds. A hit costs a
        read of the row, which may not exist; without the filter each new key would cost one.
        """
        idle = [slot for slot in self.slots.values() if slot.row is None and slot.is_idle]
        for slot in idle:
            del self.slots[slot.key]
        self._forgotten.add_all([fingerprint(slot.key) for slot in idle if slot.stored])

    def forget_ids(self, below: int) -> None:
        """Forget the ids of records whose origin is below this; their rows forget them, too (6.1.1)."""
        self.seen_filter.forget_before(below)
        for slot in self.slots.values():
            row = slot.row
            if row is not None and row.seen and min(row.seen.values()) < below:
                kept = {record_id: origin for record_id, origin in row.seen.items() if origin >= below}
                row.seen = kept or NO_IDS

    def clear(self) -> None:
        """Forget all at the end of the assignment: what is not durable does not count (6.2)."""
        for slot in self.slots.values():
            if slot.row is not None:
                self.shared.cache.drop(slot)
        self.ready.clear()

    # Steps that are durable (6.2)

    def adopt(self, now: int, step: KeyStep) -> None:
        """Bring a key's soft state up to its row."""
        slot, outcome = step.slot, step.outcome
        row, arrivals = slot.row, outcome.arrivals
        assert row is not None or not (arrivals or outcome.fired), "a locked key lost its row"
        if row is not None:
            if outcome.state_after is not None:
                row.state = compact(outcome.state_after)
            if arrivals and self.exactly_once:
                if type(row.seen) is not dict:
                    row.seen = {}
                seen: dict[str, int] = row.seen
                for arrival in arrivals:
                    production = arrival.production
                    seen[production.record_id] = production.origin
        if outcome.hold is not None:
            self.accounts.set_hold(slot, outcome.hold)
        if outcome.fired or outcome.changes:
            self._adopt_timers(now, step)
        for arrival in arrivals:
            del self.in_progress[arrival.production.record_id]

    def _adopt_timers(self, now: int, step: KeyStep) -> None:
        slot, accounts = step.slot, self.accounts
        timers = slot.timers if slot.timers is not None else {}
        for timer in step.outcome.fired:
            live = timers.get(timer.tag)
            if live is not None and live.timer.set_by == timer.set_by:
                accounts.remove_timer(timers.pop(timer.tag))
        for tag, changed in step.outcome.changes.items():
            before = timers.pop(tag, None)
            if before is not None:
                accounts.remove_timer(before)
            if changed is not None:
                timers[tag] = accounts.add_timer(changed)
                self._queue(slot, changed, recovered=False)
        slot.timers = timers or None
        self.mark_due(now)
        self.wake_for_wall_timers(now)

    def remember(self, steps: Iterable[KeyStep]) -> None:
        """Add the ids of all rows to the filter at once, since each record queries and updates it."""
        prints: list[int] = []
        newest_origin = MIN_TIME
        for step in steps:
            for arrival in step.outcome.arrivals:
                prints.append(arrival.print)
                origin = arrival.production.origin
                if origin > newest_origin:  # noqa: PLR1730  a call of max() for each record
                    newest_origin = origin
        self.seen_filter.add_all(prints, newest_origin)

    # Watermarks and timers (4.5, 4.6, 7.2)

    def advance(self, now: int, low_watermark: int, timer_watermark: int, horizon: int) -> None:
        """Take in what the worker now knows of the senders' progress. Values only rise."""
        known = self.low_watermark, self.timer_watermark, self.horizon
        if known == (low_watermark, timer_watermark, horizon):
            return
        advanced = self.shared.rules.advanced
        self.low_watermark = advanced(self.low_watermark, low_watermark)
        self.horizon = advanced(self.horizon, horizon)
        timer_watermark = advanced(self.timer_watermark, timer_watermark)
        if timer_watermark != self.timer_watermark:
            self.timer_watermark = timer_watermark
            self.shared.record(InputWatermarkAdvanced, self.computation, self.sequencer, timer_watermark)
            self.mark_due(now)

    def fire_wall_timers(self, now: int) -> None:
        """Let the keys run whose wall timers are due."""
        if self.timers.next_due() <= now:
            self.mark_due(now)

    def wake_for_wall_timers(self, now: int) -> None:
        """Ask to be woken for the next wall timer."""
        due_us = self.timers.next_due()
        if due_us > now:
            self.shared.wakes.ask(due_us)

    def mark_due(self, now: int) -> None:
        """Let the keys run whose timers have come."""
        for key in self.timers.due_keys(self.timer_watermark, now):
            slot = self.slots.get(key)
            if slot is not None and slot.timers and not slot.due:
                slot.due = True
                if not slot.busy and (not slot.queue or self.behind.pop(key, None) is not None):
                    self.ready.append(slot)

    def next_in_order(self) -> int:
        """Return the earliest timestamp behind a timer: the watermark has come to it, microseconds; `MAX_TIME`: there is none."""
        return min(map(_next_record, self.behind.values()), default=MAX_TIME)

    def set_clock_back(self, now: int) -> None:
        """Forget no timer when the worker's clock is put back; the worker then asks to be woken for what waits.

        A key whose wall timer was due has left the queue, and may run only once its row has been read: then the timer is not due.
        """
        not_due = [
            (slot.key, live.timer)
            for slot in self.slots.values()
            if slot.due and slot.timers
            for live in slot.timers.values()
            if live.timer.clock is Clock.WALL and live.timer.due > now
        ]
        for key, timer in not_due:
            self.timers.add(key, timer)

    def queued_timers(self) -> list[tuple[str, str]]:
        """List key and tag of each pending timer that the queue knows of, or that has left it to be looked at."""
        entries = self.timers.entries()
        return [
            (key, live.timer.tag)
            for key, slot in self.slots.items()
            for live in (slot.timers or {}).values()
            if slot.due or slot.busy or (live.timer.due, key) in entries[live.timer.clock]
        ]

    def _queue(self, slot: KeySlot, timer: StoredTimer, *, recovered: bool) -> None:
        if self._queues(timer, recovered=recovered):
            self.timers.add(slot.key, timer)

    def check_invariants(self) -> None:
        """Assert what must hold between events."""
        self._forgotten.check_invariants()
        self.accounts.work.check_invariants()
        queued = self.timers.entries()
        for slot in self.slots.values():
            waits = bool(slot.queue) or slot.due
            assert slot.busy or not waits or slot in self.ready or slot.key in self.behind, (
                f"key {slot.key!r} has work and nobody will do it"
            )
            assert slot.busy or waits or (slot.row is None) == (slot.cached_bytes == 0), (
                f"the row of key {slot.key!r} counts as {slot.cached_bytes} bytes"
            )
            if (
                slot.timers and not slot.busy and not slot.due
            ):  # one that runs, or is about to, is looked at then
                timers = [live.timer for live in slot.timers.values()]
                assert all((timer.due, slot.key) in queued[timer.clock] for timer in timers), (
                    f"key {slot.key!r} has a timer and nobody will look at it"
                )


def _next_record(slot: KeySlot) -> int:
    assert slot.queue, "it waits"
    return slot.queue[0].production.timestamp
