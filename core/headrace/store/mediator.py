"""The mediator of the backing store (MillWheel 6.2, 7.1): rows, sequencers, the assignment table, fenced journals.

Rules of this file:

* A write is applied whole or refused whole: its sequencer must be the latest minted for an interval that covers its keys *at the
  moment it is applied*, not when it was issued.
* A mint invalidates every older sequencer that overlaps, before anybody can scan under the new one.
* Every change of a row is a blind delta, and taking the same write twice is taking it once.
* Journals are fenced by epochs; ownership of keys and their sequencers are one table, so they cannot disagree.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from headrace.api.ropes import Encoded
from headrace.api.specs import process_address
from headrace.api.time import MAX_TIME
from headrace.history import (
    Applied,
    CheckpointsDeleted,
    ComputationRemoved,
    History,
    IdsCollected,
    IntervalMinted,
    RoleClaimed,
    VersionAdopted,
    WriteRefused,
)
from headrace.rules import RULES, Change, Rules
from headrace.wire import messages as m
from headrace.wire.keys import ALL_KEYS, KeyInterval, cover_same_keys
from headrace.wire.messages import STORE, Progress
from headrace.wire.rows import Production, RowDelta, RowImage, StoredTimer, Version

MASTER_ROLE = "master"

_NOTHING = Progress()
_NOBODY: dict[int, KeyInterval] = {}


def authority_role(shard: int) -> str:
    """Return the role whose journal is that of one shard of the authority."""
    return f"authority-{shard}"


class StoredRow:
    """One row as stored."""

    __slots__ = ("hold", "number", "productions", "seen", "sequencer", "state", "timers")

    def __init__(self) -> None:
        self.sequencer = 0
        self.number = 0
        self.state: Encoded = b""
        self.hold = MAX_TIME
        self.timers: dict[str, StoredTimer] = {}
        self.productions: dict[tuple[str, str], Production] = {}
        self.seen: dict[str, int] = {}

    def image(self, key: str) -> RowImage:
        """Return it as it is sent to another process: a state in pieces as the bytes that are stored."""
        return RowImage(
            key, Version(self.sequencer, self.number), bytes(self.state), self.hold,
            tuple(self.timers.values()), tuple(self.productions.values()), tuple(self.seen.items()),
        )  # fmt: skip

    def apply(self, sequencer: int, delta: RowDelta) -> None:
        """Apply a delta from the owner of this sequencer."""
        self.sequencer, self.number = sequencer, delta.number
        if delta.state is not None:
            self.state = delta.state
        if delta.hold is not None:
            self.hold = delta.hold
        if delta.fired or delta.cancelled or delta.set_timers:
            self._apply_timers(delta)
        for production in delta.productions:
            self.productions[production.record_id, production.consumer] = production
        if delta.seen:
            self.seen.update(delta.seen)

    def _apply_timers(self, delta: RowDelta) -> None:
        timers = self.timers
        for timer in delta.fired:
            if timer.tag in timers and timers[timer.tag].set_by == timer.set_by:
                del timers[timer.tag]
        for tag in delta.cancelled:
            timers.pop(tag, None)
        for timer in delta.set_timers:
            timers[timer.tag] = timer


class Journal:
    """A role's fenced journal. ``renewals`` grows whenever its holder shows that it is alive."""

    __slots__ = ("contents", "epoch", "holder", "position", "renewals")

    def __init__(self) -> None:
        self.epoch = 0
        self.holder = ""
        self.renewals = 0
        self.position = 0
        self.contents: dict[str, Progress] = {}


class Mediator:
    """The store's gatekeeper: `handle` takes a request and gives its reply, at once and atomically.

    Args:
        history: records what it applied and refused.
        page_rows: rows in one page of a scan.
        rules: the rules of the protocol.

    Attributes:
        table: the assignment table as last minted.
        progress: what authorities have journaled, by computation and injector.
    """

    def __init__(self, history: History, page_rows: int = 1_000, rules: Rules = RULES) -> None:
        self._record = history.of(STORE)
        self._rules = rules
        self._is_valid, self._is_applied = rules.is_valid, rules.is_applied  # asked for with each write
        self._page_rows = page_rows
        self._rows: dict[str, dict[str, StoredRow]] = {}
        # The latest, as in the table: what a History tells. And those that nothing has invalidated.
        self._live: dict[str, dict[int, KeyInterval]] = {}
        self._valid: dict[str, dict[int, KeyInterval]] = {}
        self._sorted_keys: dict[str, list[str]] = {}
        self._journals: defaultdict[str, Journal] = defaultdict(Journal)
        self.progress: dict[str, Progress] = {}
        self.table = m.Table()
        self._next_sequencer = 1
        self._last_mint = (0, 0)
        self._handlers: dict[type, Callable[[Any], m.Reply]] = {
            m.Write: self._write,
            m.Read: self._read,
            m.Scan: self._scan,
            m.CollectIds: self._collect,
            m.Mint: self._mint,
            m.Peek: self._peek,
            m.Claim: self._claim,
            m.Renew: self._renew,
            m.JournalWatermarks: self._journal_watermarks,
            m.JournalPosition: self._journal_position,
        }

    @classmethod
    def over(
        cls,
        history: History,
        rows: dict[str, dict[str, StoredRow]],
        progress: dict[str, Progress],
        next_sequencer: int,
    ) -> "Mediator":
        """Make a mediator of rows that its host keeps elsewhere between calls.

        Args:
            history: see `Mediator`.
            rows: by computation and key; changed in place.
            progress: the journaled progress, by computation and injector.
            next_sequencer: the first to mint; more than any before.
        """
        mediator = cls(history)
        mediator._rows, mediator.progress, mediator._next_sequencer = rows, progress, next_sequencer
        return mediator

    def rows(self, computation: str) -> dict[str, StoredRow]:
        """Return the current rows of a computation by key."""
        return self._rows.get(computation, {})

    def images(self) -> dict[str, dict[str, RowImage]]:
        """Return all current rows, by computation and key."""
        return {name: {key: row.image(key) for key, row in rows.items()} for name, rows in self._rows.items()}

    def handle(self, request: m.Request) -> m.Reply:
        """Serve one request."""
        return self._handlers[type(request)](request)

    # Rows (6.2)

    def is_live(self, computation: str, sequencer: int, low: str, high: str) -> bool:
        """Return whether a request for the keys from ``low`` to ``high``, both inclusive, is served under this sequencer now."""
        return self._is_valid(self._valid.get(computation, _NOBODY).get(sequencer), low, high)

    def journal(self, role: str) -> Journal:
        """Return what the holders of a role have journaled."""
        return self._journals[role]

    def live_sequencer(self, computation: str, key: str) -> int:
        """Return the sequencer that owns a key now; 0 if none does."""
        for sequencer, interval in self._live.get(computation, _NOBODY).items():
            if interval.contains(key):
                return sequencer
        return 0

    def _write(self, request: m.Write) -> m.Reply:
        computation, sequencer, deltas = request.computation, request.sequencer, request.deltas
        keys = request.keys()
        if not self.is_live(computation, sequencer, min(keys), max(keys)):
            return self._refuse(request)
        rows = self._rows.get(computation)
        if rows is None:
            rows = self._rows[computation] = {}
        record, is_latest = self._record, sequencer in self._live.get(computation, _NOBODY)
        if request.delivered:  # they were there before this write was made, and so go first
            self._delete(request, rows, is_latest=is_latest)
        for delta in deltas:
            row = rows.get(delta.key)
            if row is None:
                row = rows[delta.key] = StoredRow()
                self._sorted_keys.pop(computation, None)
            elif self._is_applied((sequencer, delta.number), (row.sequencer, row.number)):
                continue
            row.apply(sequencer, delta)
            live = sequencer if is_latest else self.live_sequencer(computation, delta.key)
            record(Applied, computation, sequencer, live, delta)
        return m.Written(request.request)

    def _delete(self, request: m.Write, rows: dict[str, StoredRow], *, is_latest: bool) -> None:
        """Delete checkpoints: blindly and without a version, since a checkpoint that was ACKed is never written again."""
        deleted = []
        for name in request.delivered:
            key, record_id, consumer = name
            row = rows.get(key)
            if row is not None and row.productions.pop((record_id, consumer), None) is not None:
                deleted.append(name)
        if deleted:
            computation, sequencer = request.computation, request.sequencer
            live = sequencer if is_latest else self.live_sequencer(computation, deleted[0][0])
            self._record(CheckpointsDeleted, computation, sequencer, live, tuple(deleted))

    def _refuse(self, request: m.Write) -> m.Reply:
        computation, keys = request.computation, request.keys()
        live = self.live_sequencer(computation, keys[0])
        self._record(WriteRefused, computation, request.sequencer, live, tuple(keys))
        return m.Refused(request.request, live)

    def _read(self, request: m.Read) -> m.Reply:
        if not self.is_live(request.computation, request.sequencer, request.key, request.key):
            return m.Refused(request.request, self.live_sequencer(request.computation, request.key))
        row = self._rows.get(request.computation, {}).get(request.key)
        return m.RowRead(request.request, None if row is None else row.image(request.key))

    def _scan(self, request: m.Scan) -> m.Reply:
        low = request.interval.low
        if not self.is_live(request.computation, request.sequencer, low, low):
            return m.Refused(request.request, self.live_sequencer(request.computation, low))
        keys = self._keys_in(request.computation, request.interval, request.after)
        page = keys[: self._page_rows]
        rows = self._rows.get(request.computation, {})
        after = page[-1] if len(keys) > len(page) else None
        progress = tuple((name, self.progress[name]) for name in request.progress_of if name in self.progress)
        return m.Scanned(request.request, tuple(rows[key].image(key) for key in page), after, progress)

    def _keys_in(self, computation: str, interval: KeyInterval, after: str | None) -> list[str]:
        keys = self._sorted_keys.get(computation)
        if keys is None:
            keys = self._sorted_keys[computation] = sorted(self._rows.get(computation, ()))
        begin = bisect_left(keys, interval.low) if after is None else bisect_right(keys, after)
        return keys[begin : None if interval.high is None else bisect_left(keys, interval.high)]

    def _collect(self, request: m.CollectIds) -> m.Reply:
        interval, below = request.interval, request.below
        if not self.is_live(request.computation, request.sequencer, interval.low, interval.low):
            return m.Refused(request.request, self.live_sequencer(request.computation, interval.low))
        count = 0
        rows = self._rows.get(request.computation, {})
        for key in self._keys_in(request.computation, interval, None):
            row = rows[key]
            if row.seen and min(row.seen.values()) < below:
                kept = {record_id: origin for record_id, origin in row.seen.items() if origin >= below}
                count += len(row.seen) - len(kept)
                row.seen = kept
        if count:
            self._record(IdsCollected, request.computation, interval, below, count)
        return m.Collected(request.request)

    # Ownership (7.1)

    def _mint(self, request: m.Mint) -> m.Reply:
        journal = self._journals[MASTER_ROLE]
        if self._rules.is_fenced(request.epoch, journal.epoch):
            return m.Refused(request.request, journal.epoch)
        if (request.epoch, request.number) > self._last_mint:
            self._last_mint = (request.epoch, request.number)
            journal.renewals += 1
            self._change_table(request)
        return m.Minted(request.request, self.table)

    def _change_table(self, request: m.Mint) -> None:
        by_computation: dict[str, list[m.MintChange]] = {}
        for change in request.changes:
            by_computation.setdefault(change.computation, []).append(change)
        kept = [a for a in self.table.assignments if a.computation not in request.removed]
        for computation, changes in by_computation.items():
            kept = self._replace(computation, changes, kept)
        for computation in request.removed:
            self._live.pop(computation, None)
            self._valid.pop(computation, None)
            self._record(ComputationRemoved, computation)
        if request.topology != self.table.topology:
            self._record(VersionAdopted, request.topology)
        kept.sort(key=lambda tenure: (tenure.computation, tenure.interval.low))
        before = self.table
        since = dict(zip(before.retiring, before.retired_from, strict=True))
        retired_from = tuple(since.get(name, before.topology) for name in request.retiring)
        self.table = m.Table(
            before.version + 1, request.topology, request.retiring, tuple(kept), request.joining, retired_from
        )

    def _replace(
        self, computation: str, changes: list[m.MintChange], assignments: list[m.Assignment]
    ) -> list[m.Assignment]:
        wanted = [change.interval for change in changes]
        replaced = [
            a
            for a in assignments
            if a.computation == computation and any(a.interval.overlaps(interval) for interval in wanted)
        ]
        former = {a.interval: a.sequencer for a in replaced}
        assert cover_same_keys(wanted, list(former) or [ALL_KEYS]), "a mint leaves keys without an owner"
        live, valid = self._live.setdefault(computation, {}), self._valid.setdefault(computation, {})
        for old in replaced:
            del live[old.sequencer]
            if self._rules.invalidates(_change_of(old.interval, wanted)):
                self.invalidate(old)
        kept = [a for a in assignments if a not in replaced]
        for change in changes:
            interval = change.interval
            sequencer = self._rules.next_sequencer(self._next_sequencer, former.get(interval))
            self._next_sequencer = max(self._next_sequencer, sequencer + 1)
            live[sequencer] = valid[sequencer] = interval
            kept.append(m.Assignment(computation, interval, sequencer, change.owner, change.incarnation))
            self._record(IntervalMinted, computation, interval, sequencer, change.owner, change.incarnation)
        return kept

    def invalidate(self, replaced: m.Assignment) -> None:
        """Invalidate an extant sequencer, so that no remnant writes can succeed thereafter (6.2)."""
        self._valid[replaced.computation].pop(replaced.sequencer, None)

    # Fenced journals

    def _peek(self, request: m.Peek) -> m.Reply:
        journal = self._journals[request.role]
        return m.Peeked(request.request, journal.epoch, journal.renewals)

    def _claim(self, request: m.Claim) -> m.Reply:
        journal = self._journals[request.role]
        if self._rules.may_claim(request.seen_epoch, journal.epoch):
            journal.epoch += 1
            journal.holder = request.holder
            self._record(RoleClaimed, request.role, journal.epoch, request.holder)
        elif not (request.seen_epoch + 1 == journal.epoch and journal.holder == request.holder):
            return m.Refused(request.request, journal.epoch)
        journal.renewals += 1
        return m.Claimed(
            request.request, journal.epoch, tuple(journal.contents.items()), journal.position, self.table
        )

    def _renew(self, request: m.Renew) -> m.Reply:
        journal = self._journals[request.role]
        if self._rules.is_fenced(request.epoch, journal.epoch):
            return m.Refused(request.request, journal.epoch)
        journal.renewals += 1
        return m.Renewed(request.request)

    def _journal_watermarks(self, request: m.JournalWatermarks) -> m.Reply:
        journal = self._journals[request.role]
        if self._rules.is_fenced(request.epoch, journal.epoch):
            return m.Refused(request.request, journal.epoch)
        journal.renewals += 1
        stale = tuple(reporter for reporter in request.reporters if not self.takes_report(reporter))
        if not stale:
            for name, progress in request.values:
                journal.contents[name] = self._rules.merged(journal.contents.get(name, _NOTHING), progress)
                self.progress[name] = journal.contents[name]
        return m.Journaled(request.request, stale)

    def takes_report(self, reporter: m.Reporter) -> bool:
        """Return whether a journal entry may rest on a report, of an interval's owner or an injector's process (7.2)."""
        if isinstance(reporter, m.IntervalReporter):
            latest = reporter.sequencer in self._live.get(reporter.computation, ())
        else:
            role = process_address(reporter.injector, reporter.process)
            latest = self._journals[role].epoch == reporter.epoch
        return self._rules.takes_report(latest)

    def _journal_position(self, request: m.JournalPosition) -> m.Reply:
        journal = self._journals[request.role]
        if self._rules.is_fenced(request.epoch, journal.epoch):
            return m.Refused(request.request, journal.epoch)
        journal.renewals += 1
        journal.position = max(journal.position, request.position)
        known = journal.contents.get(request.role, _NOTHING)
        journal.contents[request.role] = self._rules.merged(known, request.progress)
        return m.Journaled(request.request)

    def check_invariants(self) -> None:
        """Assert what must hold between requests: live intervals are disjoint and are those of the table."""
        assert self._live.keys() == self._valid.keys(), "a computation that was removed has a sequencer"
        for computation, live in self._live.items():
            assigned = {
                a.sequencer: a.interval for a in self.table.assignments if a.computation == computation
            }
            assert assigned == live, f"table and live sequencers of {computation!r} disagree"
            assert cover_same_keys(live.values(), [ALL_KEYS]), (
                f"intervals of {computation!r} do not cover all keys once"
            )


def _change_of(interval: KeyInterval, minted: list[KeyInterval]) -> Change:
    """Describe the effect of minting these intervals on an older one whose keys they cover."""
    if interval in minted:
        return Change.MOVED
    return Change.SPLIT if sum(taken.overlaps(interval) for taken in minted) > 1 else Change.MERGED
