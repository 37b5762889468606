"""Owners and their beliefs over time (MillWheel 6.2); processes that were down, paused or cut off, and for how long.

An owner's *tenure* begins with the mint of its sequencer. In truth it ends with the next overlapping mint; the owner believes
that it ends when it hears of that, or dies. In between, the owner is a zombie.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headrace import SECOND, KeyInterval
from headrace import history as h


@dataclass(slots=True)
class Tenure:
    """One assignment of an interval. Attributes that do not identify it are event numbers; ``None``: it did not happen.

    Attributes:
        computation: whose keys.
        interval: which keys.
        sequencer: of the assignment.
        owner: its address.
        minted: the store minted the sequencer.
        scan_begun: the owner heard of it.
        scan_ended: the owner knows its rows.
        replaced: a newer mint overlaps, so it is no longer the owner.
        forgotten: it knows that it is not, or has lost its memory.
    """

    computation: str
    interval: KeyInterval
    sequencer: int
    owner: str
    minted: int
    scan_begun: int | None = None
    scan_ended: int | None = None
    replaced: int | None = None
    forgotten: int | None = None

    def covers(self, computation: str, key: str) -> bool:
        """Return whether it contains this key."""
        return self.computation == computation and self.interval.contains(key)

    def believed_at(self, number: int) -> bool:
        """Return whether its owner believed at that event that it was the owner."""
        heard = self.scan_begun is not None and self.scan_begun <= number
        return heard and (self.forgotten is None or self.forgotten > number)

    def true_at(self, number: int) -> bool:
        """Return whether it was the latest for all its keys at that event."""
        return self.minted <= number and (self.replaced is None or self.replaced > number)

    def zombie_at(self, number: int) -> bool:
        """Return whether its owner was wrong about it at that event."""
        return self.believed_at(number) and not self.true_at(number)


def tenures_of(history: Iterable[h.Event]) -> list[Tenure]:
    """Return all assignments, in order of their sequencers' mints."""
    tenures: list[Tenure] = []
    by_sequencer: dict[int, Tenure] = {}
    for number, event in enumerate(history):
        match event:
            case h.IntervalMinted():
                for older in tenures:
                    same = older.computation == event.computation and older.interval.overlaps(event.interval)
                    if same and older.replaced is None:
                        older.replaced = number
                tenure = Tenure(event.computation, event.interval, event.sequencer, event.owner, number)
                tenures.append(tenure)
                by_sequencer[event.sequencer] = tenure
            case h.ScanBegun() if event.sequencer in by_sequencer:
                by_sequencer[event.sequencer].scan_begun = number
            case h.ScanEnded() if event.sequencer in by_sequencer:
                by_sequencer[event.sequencer].scan_ended = number
            case h.IntervalDropped() if event.sequencer in by_sequencer:
                by_sequencer[event.sequencer].forgotten = number
            case h.FaultStruck(kind="crash"):
                for earlier in tenures:
                    if earlier.owner == event.process and earlier.forgotten is None:
                        earlier.forgotten = number
            case _:
                pass
    return tenures


@dataclass(slots=True)
class Outage:
    """A fault as long as it lasted: a crash until the restart, a partition from the first message that it took to the last.

    Attributes:
        process: the affected process.
        kind: the fault's verb.
        begin: number of its first strike.
        end: number of the event that ended it, or of its last strike; ``None``: it never ended.
        details: of the strikes, in order.
    """

    process: str
    kind: str
    begin: int
    end: int | None = None
    details: list[str] = field(default_factory=list)


_ENDED_BY = {"restart": "crash", "revive": "pause"}
_LASTS_UNTIL_HEALED = frozenset({"slow", "crash", "pause"})
_ONE_FAULT_US = 2 * SECOND
"""Maximum gap between effects of one kind at one process that count as one fault."""


def outages_of(history: Sequence[h.Event]) -> list[Outage]:
    """Return the faults as they took effect, in order of their beginnings."""
    outages: list[Outage] = []
    open_ones: dict[tuple[str, str], Outage] = {}
    for number, event in enumerate(history):
        match event:
            case h.FaultStruck() if event.kind in _ENDED_BY:
                ended = open_ones.pop((event.process, _ENDED_BY[event.kind]), None)
                if ended is not None:
                    ended.end = number
            case h.FaultStruck():
                known = open_ones.get((event.process, event.kind))
                if known is None or not _goes_on(history, known, event):
                    known = Outage(event.process, event.kind, number)
                    outages.append(known)
                    open_ones[event.process, event.kind] = known
                if event.kind not in _LASTS_UNTIL_HEALED:
                    known.end = number
                known.details.append(event.detail)
            case h.Healed():
                for outage in open_ones.values():
                    if outage.end is None and outage.process not in event.lasting:
                        outage.end = number
            case _:
                pass
    return outages


def _goes_on(history: Sequence[h.Event], outage: Outage, event: h.FaultStruck) -> bool:
    last = outage.begin if outage.end is None else outage.end
    return outage.end is None or event.at_us - history[last].at_us <= _ONE_FAULT_US
