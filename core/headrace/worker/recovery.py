"""Recovery (MillWheel 7.1): a new owner scans its rows once, and builds timers, filter and productions from them.

Rules of this file:

* The scan reads under the new sequencer, so nothing older can be written any more; what it brings is all that there is.
* With it come the journaled watermarks: a new owner never knows less than its predecessors acted upon.
* What is delivered meanwhile is kept, and taken when the scan has ended; what is too much is left to its senders' retries.
"""

from collections.abc import Callable

from headrace.history import ScanBegun
from headrace.wire import messages as m
from headrace.wire.rows import Production, RowImage
from headrace.worker.soft_state import SoftState

_EARLY_LIMIT = 10_000
"""Deliveries kept during a scan; more are left to their senders' retries."""

OnScanned = Callable[[int, list[RowImage], dict[str, m.Progress]], None]
"""Takes the clock, the interval's rows, and the journaled progress of its senders."""


class Recovery:
    """The recovery scan of one interval.

    Args:
        soft: the interval's, which it does not change.
        on_scanned: what takes in the rows.
        on_refused: called if the interval has a newer owner.

    Attributes:
        early: deliveries that have come too early, with their senders.
    """

    __slots__ = ("_images", "_on_refused", "_on_scanned", "_soft", "early")

    def __init__(self, soft: SoftState, on_scanned: OnScanned, on_refused: Callable[[], None]) -> None:
        self._soft = soft
        self._on_scanned = on_scanned
        self._on_refused = on_refused
        self._images: list[RowImage] = []
        self.early: list[tuple[Production, str]] = []

    def keep(self, production: Production, sender: str) -> None:
        """Keep a delivery that came too early."""
        if len(self.early) < _EARLY_LIMIT:
            self.early.append((production, sender))

    def begin(self, now: int, progress_of: tuple[str, ...]) -> None:
        """Scan the interval's rows. ``progress_of``: whose journaled progress to learn with them."""
        soft, shared = self._soft, self._soft.shared
        if not shared.rules.scans_first():
            self._on_scanned(now, [], {})
            return
        shared.record(ScanBegun, soft.computation, soft.interval, soft.sequencer)
        self._scan(now, None, progress_of)

    def _scan(self, now: int, after: str | None, progress_of: tuple[str, ...]) -> None:
        soft, store, rules = self._soft, self._soft.shared.store, self._soft.shared.rules

        def scanned(now: int, reply: m.Reply) -> None:
            if isinstance(reply, m.Refused):
                self._on_refused()
                return
            assert isinstance(reply, m.Scanned)
            self._images.extend(reply.rows)
            if rules.continues_scan(reply.after):
                self._scan(now, reply.after, progress_of)
            else:
                images, self._images = self._images, []
                self._on_scanned(now, images, dict(reply.progress))

        request = m.Scan(store.number(), soft.computation, soft.sequencer, soft.interval, after, progress_of)
        store.ask(now, request, scanned, soft)
