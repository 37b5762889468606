"""Recovery (MillWheel 7.1): a new owner scans its rows once, and builds timers, filter and productions from them.

Rules of this file:

* The scan reads under the new sequencer, so nothing older can be written any more; what it brings is all that there is.
* With it come the journaled watermarks: a new owner never knows less than its predecessors acted upon.
* What is delivered meanwhile is kept, and taken when the scan has ended; what is too much is left to its senders' retries.
"""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from headrace.history import ScanBegun, ScanEnded
from headrace.wire import messages as m
from headrace.wire.rows import Production, RowImage
from headrace.worker.cache import CachedRow
from headrace.worker.interval_state import IntervalInput
from headrace.worker.seen import fingerprint
from headrace.worker.shared import Shared
from headrace.worker.slot import KeySlot
from headrace.worker.step import Holder

if TYPE_CHECKING:
    from headrace.worker.interval import OwnedInterval

_EARLY_LIMIT = 10_000
"""Deliveries kept during a scan; more are left to their senders' retries."""

OnRecovered = Callable[[int, "OwnedInterval", dict[str, m.Progress]], None]
"""Takes the clock, the interval, and the journaled progress of its senders, before it begins to work."""


class Recovery:
    """The recovery scan of one interval.

    Args:
        interval: what to recover.
        shared: of the worker.
    """

    __slots__ = ("_early", "_interval", "_scanned", "_shared")

    def __init__(self, interval: "OwnedInterval", shared: Shared) -> None:
        self._interval = interval
        self._shared = shared
        self._early: list[tuple[Production, str]] = []
        self._scanned: list[RowImage] = []

    def keep(self, production: Production, sender: str) -> None:
        """Keep a delivery that came too early."""
        if len(self._early) < _EARLY_LIMIT:
            self._early.append((production, sender))

    def begin(self, now: int, progress_of: tuple[str, ...], on_recovered: OnRecovered) -> None:
        """Scan the interval's rows; then work begins. ``progress_of``: whose journaled progress to learn with it."""
        interval, history = self._interval, self._shared.history
        if not self._shared.rules.scans_first():
            self._recover(now, {}, on_recovered)
            return
        history.record(
            ScanBegun(
                history.at_us,
                self._shared.address,
                interval.computation,
                interval.interval,
                interval.sequencer,
            )
        )
        self._scan(now, None, progress_of, on_recovered)

    def _scan(
        self, now: int, after: str | None, progress_of: tuple[str, ...], on_recovered: OnRecovered
    ) -> None:
        interval, store, rules = self._interval, self._shared.store, self._shared.rules

        def scanned(now: int, reply: m.Reply) -> None:
            if isinstance(reply, m.Refused):
                interval.drop(IntervalInput.REFUSED)
                return
            assert isinstance(reply, m.Scanned)
            self._scanned.extend(reply.rows)
            if rules.continues_scan(reply.after):
                self._scan(now, reply.after, progress_of, on_recovered)
            else:
                self._recover(now, dict(reply.progress), on_recovered)

        request = m.Scan(
            store.number(), interval.computation, interval.sequencer, interval.interval, after, progress_of
        )
        store.ask(now, request, scanned, interval)

    def _recover(self, now: int, progress: dict[str, m.Progress], on_recovered: OnRecovered) -> None:
        """Build timers and productions from the rows; what was journaled of this computation is never taken back."""
        interval = self._interval
        own = progress.get(interval.computation, m.Progress())
        interval.accounts.start_from(own.low_watermark, own.horizon)
        interval.move(IntervalInput.SCAN_ENDED)
        images, self._scanned = self._scanned, []
        for image in images:
            self._restore(now, image)
        self._record_scan_ended(images)
        on_recovered(now, interval, progress)
        early, self._early = self._early, []
        for production, sender in early:
            interval.deliver(production, sender)
        interval.wake_for_wall_timers(now)
        interval.pump(now)

    def _restore(self, now: int, image: RowImage) -> None:
        interval, rules = self._interval, self._shared.rules
        image = rules.recovered(image)
        slot = interval.slots[image.key] = KeySlot(image.key)
        slot.stored = True
        interval.accounts.set_hold(slot, image.hold)
        if image.timers:
            slot.timers = {timer.tag: interval.accounts.add_timer(timer) for timer in image.timers}
            for timer in image.timers:
                if rules.queues(timer, recovered=True):
                    interval.timers.add(image.key, timer)
        if image.seen:
            prints = [fingerprint(record_id) for record_id, _ in image.seen]
            interval.seen_filter.add_all(prints, max([origin for _, origin in image.seen]))
        slot.row = CachedRow(image.state, dict(image.seen))
        self._shared.cache.keep(slot)
        for production in image.productions:
            if production.consumer in interval.where.present:
                interval.send_or_share(now, production, Holder(interval.sequencer, slot, None, durable=True))
            else:  # its consumer has left the topology
                interval.commits.delete(now, slot.key, production)

    def _record_scan_ended(self, images: list[RowImage]) -> None:
        """Write what is in memory now, and not what the scan brought: whoever restores less shows it here."""
        interval, history = self._interval, self._shared.history
        entries = interval.timers.entries()
        timers = tuple(
            (key, timer.tag)
            for key, slot in interval.slots.items()
            for timer in [live.timer for live in (slot.timers or {}).values()]
            if (timer.due, key) in entries[timer.clock]
        )
        scanned = [(p.record_id, p.consumer) for image in images for p in image.productions]
        known = dict.fromkeys(self._known_productions())
        expected = frozenset(scanned)
        productions = (
            *[name for name in scanned if name in known],
            *[name for name in known if name not in expected],
        )
        history.record(
            ScanEnded(
                history.at_us,
                self._shared.address,
                interval.computation,
                interval.interval,
                interval.sequencer,
                len(images),
                timers,
                productions,
            )
        )

    def _known_productions(self) -> Iterator[tuple[str, str]]:
        """Record id and consumer of what this interval sends until it is ACKed, and of what it is about to delete."""
        interval = self._interval
        for pending in self._shared.outbox:
            if any(one.sequencer == interval.sequencer for one in pending.holder.all()):
                yield pending.production.record_id, pending.production.consumer
        yield from [(record_id, consumer) for _, record_id, consumer in interval.commits.delivered]
