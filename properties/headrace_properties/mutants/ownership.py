"""Mutants of ownership: sequencers, mints, scans (MillWheel 6.2, 7.1)."""

from typing import ClassVar

import msgspec

from headrace import MILLISECOND, SECOND
from headrace.history import History
from headrace.ownership.master import Master
from headrace.store.mediator import Mediator, StoredRow
from headrace.wire import messages as m
from headrace.wire.effects import Start
from headrace.wire.keys import KeyInterval
from headrace.worker.cache import CachedRow
from headrace.worker.commits import Commits
from headrace.worker.recovery import OnRecovered, Recovery
from headrace.worker.step import KeySlot
from headrace.worker.worker import Worker
from headrace_properties.mutants.mutant import Directed, Mutant, Parts, Probe
from headrace_sim.faults import DelayCommit, FaultSchedule, Operate

_TRANSACTION = 4
"""Requests that the store serves while a transaction is between its check and its end."""


class MediatorWithoutSequencers(Mediator):
    """A store that checks no sequencer: whatever arrives is applied (what MillWheel 6.2 warns of, Figure 12)."""

    probe: ClassVar[Probe]

    def is_live(self, computation: str, sequencer: int, low: str, high: str) -> bool:
        """Let everybody write."""
        if not super().is_live(computation, sequencer, low, high):
            self.probe.note()
        return True

    def is_current_report(self, reporter: str, fence: int) -> bool:
        """Let everybody report."""
        if not super().is_current_report(reporter, fence):
            self.probe.note()
        return True

    def already_taken(self, row: StoredRow, sequencer: int, number: int) -> bool:
        """A write of another owner can not be told from a new one; only an exact copy can."""
        return (row.sequencer, row.number) == (sequencer, number)


class ChecksAtBegin(Mediator):
    """Checks a write's sequencer when its transaction begins, and applies it a little later, whoever has come in between."""

    probe: ClassVar[Probe]

    def __init__(self, history: History, page_rows: int = 1_000) -> None:
        super().__init__(history, page_rows)
        self._begun: list[tuple[int, m.Write]] = []
        self._served = 0
        self._is_applying = False

    def is_live(self, computation: str, sequencer: int, low: str, high: str) -> bool:
        """What is being applied was checked before."""
        is_live = super().is_live(computation, sequencer, low, high)
        if self._is_applying and not is_live:
            self.probe.note()
        return is_live or self._is_applying

    def handle(self, request: m.Request) -> m.Reply:
        """Serve one request; a write is applied when its sender asks for something else, or after some other requests."""
        self._served += 1
        sender = getattr(request, "sequencer", 0)
        if not isinstance(request, m.Mint):
            self._apply([one for due, one in self._begun if due <= self._served or one.sequencer == sender])
        keys = request.keys() if isinstance(request, m.Write) else [""]
        if isinstance(request, m.Write) and self.is_live(
            request.computation, request.sequencer, min(keys), max(keys)
        ):
            self._begun.append((self._served + _TRANSACTION, request))
            return m.Written(request.request)
        return super().handle(request)

    def _apply(self, writes: list[m.Write]) -> None:
        self._begun = [(due, one) for due, one in self._begun if one not in writes]
        self._is_applying = True
        for write in writes:
            super().handle(write)
        self._is_applying = False


class _Lenient(Mediator):
    """A store in which some sequencers that were replaced are still good for a while."""

    probe: ClassVar[Probe]

    def __init__(self, history: History, page_rows: int = 1_000) -> None:
        super().__init__(history, page_rows)
        self._spared: dict[str, dict[int, KeyInterval]] = {}

    def is_live(self, computation: str, sequencer: int, low: str, high: str) -> bool:
        """Those that were spared are live."""
        if super().is_live(computation, sequencer, low, high):
            return True
        interval = self._spared.get(computation, {}).get(sequencer)
        spared = interval is not None and interval.contains(low) and interval.contains(high)
        if spared:
            self.probe.note()
        return spared

    def already_taken(self, row: StoredRow, sequencer: int, number: int) -> bool:
        """A write of a sequencer that was spared is new as well."""
        return super().already_taken(row, sequencer, number) and sequencer == row.sequencer

    def _spare(self, computation: str, changes: list[m.MintChange]) -> None:
        live = self._live.get(computation, {})
        wanted = [change.interval for change in changes]
        replaced = {one: keys for one, keys in live.items() if any(keys.overlaps(other) for other in wanted)}
        self._spared.setdefault(computation, {}).update(replaced)


class InvalidatesAfterScan(_Lenient):
    """The old sequencer is killed when the new owner has scanned, and not before (Figure 12)."""

    def _replace(
        self, computation: str, changes: list[m.MintChange], assignments: list[m.Assignment]
    ) -> list[m.Assignment]:
        self._spare(computation, changes)
        return super()._replace(computation, changes, assignments)

    def _scan(self, request: m.Scan) -> m.Reply:
        reply = super()._scan(request)
        if isinstance(reply, m.Scanned) and reply.after is None:
            spared = self._spared.get(request.computation, {})
            for sequencer in [one for one, keys in spared.items() if keys.overlaps(request.interval)]:
                del spared[sequencer]
        return reply


class ChildOnOldToken(_Lenient):
    """When an interval is split, the token of the whole stays good for its parts."""

    def _replace(
        self, computation: str, changes: list[m.MintChange], assignments: list[m.Assignment]
    ) -> list[m.Assignment]:
        if len(changes) > 1:
            self._spare(computation, changes)
        return super()._replace(computation, changes, assignments)


class WholeOnOldTokens(_Lenient):
    """When intervals are merged, the tokens of the parts stay good."""

    def _replace(
        self, computation: str, changes: list[m.MintChange], assignments: list[m.Assignment]
    ) -> list[m.Assignment]:
        live = self._live.get(computation, {})
        if any(sum(change.interval.overlaps(keys) for keys in live.values()) > 1 for change in changes):
            self._spare(computation, changes)
        return super()._replace(computation, changes, assignments)


class SameTokenForNextOwner(Mediator):
    """An interval that moves keeps its sequencer: its former owner's writes are as good as the new one's."""

    probe: ClassVar[Probe]

    def _replace(
        self, computation: str, changes: list[m.MintChange], assignments: list[m.Assignment]
    ) -> list[m.Assignment]:
        kept = []
        for one in assignments:
            change = next(
                (c for c in changes if (c.computation, c.interval) == (one.computation, one.interval)), None
            )
            if change is None:
                kept.append(one)
                continue
            self.probe.note()
            changes = [other for other in changes if other is not change]
            kept.append(msgspec.structs.replace(one, owner=change.owner, incarnation=change.incarnation))
        return super()._replace(computation, changes, kept) if changes else kept


class AppliesTwice(Mediator):
    """Does not know a write that it has applied before."""

    probe: ClassVar[Probe]

    def already_taken(self, row: StoredRow, sequencer: int, number: int) -> bool:
        """Every write is new."""
        if super().already_taken(row, sequencer, number):
            self.probe.note()
        return False


class ScansOnePage(Mediator):
    """Ends a scan with its first page."""

    probe: ClassVar[Probe]

    def _scan(self, request: m.Scan) -> m.Reply:
        reply = super()._scan(request)
        if isinstance(reply, m.Scanned) and reply.after is not None:
            self.probe.note()
            return msgspec.structs.replace(reply, after=None)
        return reply


class NeverScans(Recovery):
    """Begins to work at once, with nothing in memory."""

    probe: ClassVar[Probe]

    def begin(self, now: int, progress_of: tuple[str, ...], on_recovered: OnRecovered) -> None:
        """Recover nothing."""
        del progress_of
        self.probe.note()
        self._recover(now, {}, on_recovered)


class TakesEvictedForNew(Commits):
    """Takes a row that has left the cache for one that was never there."""

    probe: ClassVar[Probe]

    def _turn(self, now: int, slot: KeySlot) -> None:
        if not slot.busy and slot.row is None and slot.stored:
            self.probe.note()
            slot.row = CachedRow()
        super()._turn(now, slot)


class InheritsFormerSelf(Worker):
    """A restarted worker takes what its former self was assigned for its own."""

    probe: ClassVar[Probe]

    def _on_start(self, now: int, event: Start) -> None:
        super()._on_start(now, event)
        if event.incarnation > 1:
            self.probe.note()
        self._incarnation = 1


class NeverReplaces(Master):
    """Waits for a worker that is silent, and for one that has lost its memory."""

    probe: ClassVar[Probe]

    __slots__ = ()

    def _is_orphan(self, now: int, one: m.Assignment) -> bool:
        if super()._is_orphan(now, one):
            self.probe.note()
        return False


MUTANTS = (
    Mutant(
        "without sequencers", ("S6", "S4"), "6.2",
        "the store applies every write, whoever sends it", Parts(mediator=MediatorWithoutSequencers), "windows",
    ),
    Mutant(
        "sequencer checked at begin", ("S6",), "6.2",
        "the sequencer of a write is checked when it begins, and not when it is applied", Parts(mediator=ChecksAtBegin),
        "windows",
    ),
    Mutant(
        "old sequencer killed after the scan", ("S6", "S7"), "6.2",
        "the new owner scans before the old one's sequencer is invalid (Figure 12)", Parts(mediator=InvalidatesAfterScan),
        "windows",
    ),
    Mutant(
        "a split child on the old token", ("S6",), "7.1",
        "the token of an interval stays good for the parts that it was split into", Parts(mediator=ChildOnOldToken), "windows",
    ),
    Mutant(
        "a merged interval on the old tokens", ("S6", "S4"), "7.1",
        "the tokens of two intervals stay good when they are merged", Parts(mediator=WholeOnOldTokens), "windows",
        Directed(
            FaultSchedule(
                (
                    DelayCommit(at_us=600 * MILLISECOND, process="worker-0", by_us=300 * MILLISECOND),
                    Operate(at_us=900 * MILLISECOND, verb=m.MergeIntervals("senders", "ab")),
                ),
                3 * SECOND,
            ),
            why="a write of one part must be on the wire just when the two are merged: chance took 545 runs, and five faults",
        ),
    ),
    Mutant(
        "the same token for the next owner", ("L1", "S3", "S4"), "6.2, 7.1",
        "an interval that moves keeps its sequencer", Parts(mediator=SameTokenForNextOwner), "windows",
    ),
    Mutant(
        "a write applied twice", ("S4",), "6.2",
        "a write that arrives again is applied again", Parts(mediator=AppliesTwice), "windows",
    ),
    Mutant(
        "a scan stops after its first page", ("S7",), "7.1",
        "recovery reads the first page of rows only", Parts(mediator=ScansOnePage), "one row a page",
    ),
    Mutant(
        "no recovery scan", ("S7",), "7.1",
        "a new owner begins to work without a scan", Parts(recovery=NeverScans), "windows",
    ),
    Mutant(
        "an evicted row is taken for a new one", ("reference", "S2"), "6.2, 8.3",
        "a row that is not in the cache is taken for empty", Parts(commits=TakesEvictedForNew), "no cache",
    ),
    Mutant(
        "a restarted worker goes on as before", ("S3", "S4", "S10"), "6.2, 7.1",
        "a worker that has lost its memory goes on under its former sequencers", Parts(worker=InheritsFormerSelf), "windows",
    ),
    Mutant(
        "a dead worker is not replaced", ("L5", "L2", "L4"), "7.1",
        "intervals of a worker that is silent are given to nobody", Parts(master=NeverReplaces), "windows",
    ),
)  # fmt: skip
"""All of this file."""
