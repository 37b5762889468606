"""Recovery (MillWheel 7.1): a new owner scans its rows once, and builds timers, filter and productions from them.

Rules of this file:

* The scan reads under the new sequencer, so nothing older can be written any more: it returns every row.
* With it come the journaled watermarks: a new owner never knows less than its predecessors acted upon.
* What is delivered meanwhile is kept, and taken when the scan has ended; what is too much is left to its senders' retries.
* If scans are asynchronous, that ends with the first page: it brings the horizon, without which no remnant can be told from a
  new record. From then on a key whose row has not come yet is read when something is delivered for it (6.2).
"""

from collections.abc import Callable
from dataclasses import dataclass

from headrace.history import ScanBegun
from headrace.wire import messages as m
from headrace.wire.rows import Production, RowImage
from headrace.worker.soft_state import SoftState

_EARLY_LIMIT = 10_000
"""Deliveries kept during a scan; more are left to their senders' retries."""


@dataclass(frozen=True, slots=True)
class ScannedRows:
    """Rows that a scan has brought: all of them, or those of a page.

    Attributes:
        images: the rows.
        progress: what was journaled of the senders, and of the computation itself.
        ended: they are the last.
    """

    images: list[RowImage]
    progress: dict[str, m.Progress]
    ended: bool


OnRows = Callable[[int, ScannedRows], None]
"""Takes the clock, and rows of the interval."""


class Recovery:
    """The recovery scan of one interval.

    Args:
        soft: the interval's, which it does not change.
        on_rows: what takes in the rows: all at once, or page by page if scans are asynchronous.
        on_refused: called if the interval has a newer owner.

    Attributes:
        early: deliveries that arrived too early, with their senders.
        rows: how many rows have come.
        productions: record id and consumer of each checkpoint that has come.
    """

    __slots__ = (
        "_images", "_is_asynchronous", "_on_refused", "_on_rows", "_read", "_scanned_to", "_soft", "early", "productions",
        "rows",
    )  # fmt: skip

    def __init__(self, soft: SoftState, on_rows: OnRows, on_refused: Callable[[], None]) -> None:
        self._soft = soft
        self._on_rows = on_rows
        self._on_refused = on_refused
        self._is_asynchronous = soft.shared.options.asynchronous_scans
        self._images: list[RowImage] = []
        self._read: set[str] = set()
        self._scanned_to: str | None = None
        self.early: list[tuple[Production, str]] = []
        self.rows = 0
        self.productions: list[tuple[str, str]] = []

    # Keys, while the scan goes on (6.2)

    def knows(self, key: str) -> bool:
        """Return whether a key's row has come, or that it has none."""
        return key in self._read or (self._scanned_to is not None and key <= self._scanned_to)

    def note_read(self, key: str) -> None:
        """Note that a key's row was read before the scan reached it."""
        self._read.add(key)

    def is_read(self, key: str) -> bool:
        """Return whether a key's row was read before the scan reached it."""
        return key in self._read

    def keep(self, production: Production, sender: str) -> None:
        """Keep a delivery that came too early."""
        if len(self.early) < _EARLY_LIMIT:
            self.early.append((production, sender))

    def begin(self, now: int, progress_of: tuple[str, ...]) -> None:
        """Scan the interval's rows. ``progress_of``: whose journaled progress to learn with them."""
        soft, shared = self._soft, self._soft.shared
        if not shared.rules.scans_first():
            self._on_rows(now, ScannedRows([], {}, ended=True))
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
            goes_on = rules.continues_scan(reply.after)
            if goes_on:
                self._scan(now, reply.after, progress_of)
            if self._is_asynchronous or not goes_on:
                self._give(now, reply, ended=not goes_on)

        request = m.Scan(store.number(), soft.computation, soft.sequencer, soft.interval, after, progress_of)
        store.ask(now, request, scanned, soft)

    def _give(self, now: int, reply: m.Scanned, *, ended: bool) -> None:
        images, self._images = self._images, []
        self.rows += len(images)
        self.productions += [
            (production.record_id, production.consumer)
            for image in images
            for production in image.productions
        ]
        self._scanned_to = reply.after
        self._on_rows(now, ScannedRows(images, dict(reply.progress), ended))
        if ended:
            self._read.clear()
