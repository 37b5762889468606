"""Mutants of ownership: sequencers, mints, scans (MillWheel 6.2, 7.1)."""

from typing import ClassVar

from headrace import MILLISECOND, SECOND
from headrace.history import History
from headrace.rules import Change, Rules
from headrace.store.mediator import Mediator
from headrace.wire import messages as m
from headrace.wire.keys import KeyInterval
from headrace.worker.interval import OwnedInterval
from headrace_properties.proof.mutants.mutant import Directed, Mutant, Parts, Probe, answering, leaving_out
from headrace_sim import Does, Step
from headrace_sim.faults import DelayCommit, FaultSchedule, Noise, Operate, Pause, StepFault

_TRANSACTION = 4
"""Requests that the store serves while a transaction is between its check and its end."""


class WritesOfTheReplacedAreNew(Rules):
    """A row takes what an owner that has been replaced writes later than its successor."""

    def is_applied(self, write: tuple[int, int], row: tuple[int, int]) -> bool:
        """Compare writes of one sequencer only."""
        return write <= row and write[0] == row[0]


class WithoutSequencers(WritesOfTheReplacedAreNew):
    """A store that checks no sequencer: whatever arrives is applied (what MillWheel 6.2 warns of, Figure 12)."""

    def is_valid(self, interval: KeyInterval | None, low: str, high: str) -> bool:
        """Let everybody write."""
        del interval, low, high
        return True

    def takes_report(self, latest: bool) -> bool:
        """Let everybody report."""
        del latest
        return True


class MintsAgain(Mediator):
    """Makes a mint again that the network repeats."""

    probe: ClassVar[Probe]

    def _mint(self, request: m.Mint) -> m.Reply:
        if (request.epoch, request.number) <= self._last_mint:
            self.probe.note()
            self._last_mint = (request.epoch, request.number - 1)
        return super()._mint(request)


class ChecksAtBegin(Mediator):
    """Checks a write's sequencer when its transaction begins, and applies it a little later, whoever has come in between."""

    probe: ClassVar[Probe]

    def __init__(self, history: History, page_rows: int, rules: Rules) -> None:
        super().__init__(history, page_rows, rules)
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


class InvalidatesAfterScan(Mediator):
    """Invalidates the old sequencer when the new owner has scanned, and not before (Figure 12)."""

    probe: ClassVar[Probe]

    def __init__(self, history: History, page_rows: int, rules: Rules) -> None:
        super().__init__(history, page_rows, rules)
        self._spared: list[m.Assignment] = []

    def invalidate(self, replaced: m.Assignment) -> None:
        """Wait for the scan."""
        self._spared.append(replaced)

    def is_live(self, computation: str, sequencer: int, low: str, high: str) -> bool:
        """Tell it as the store does; what was spared is live."""
        is_live = super().is_live(computation, sequencer, low, high)
        if is_live and any(assignment.sequencer == sequencer for assignment in self._spared):
            self.probe.note()
        return is_live

    def handle(self, request: m.Request) -> m.Reply:
        """Serve one request; the last page of a scan ends what was spared."""
        reply = super().handle(request)
        if isinstance(request, m.Scan) and isinstance(reply, m.Scanned) and reply.after is None:
            for assignment in list(self._spared):
                if assignment.computation == request.computation and assignment.interval.overlaps(
                    request.interval
                ):
                    self._spared.remove(assignment)
                    super().invalidate(assignment)
        return reply


class ChildOnOldSequencer(WritesOfTheReplacedAreNew):
    """When an interval is split, the sequencer of the whole stays valid for its parts."""

    def invalidates(self, change: Change) -> bool:
        """Spare what is split."""
        return change is not Change.SPLIT


class WholeOnOldSequencers(WritesOfTheReplacedAreNew):
    """When intervals are merged, the sequencers of the parts stay valid."""

    def invalidates(self, change: Change) -> bool:
        """Spare what is merged."""
        return change is not Change.MERGED


class ClaimedOnce(Rules):
    """The store grants a role once."""

    def may_claim(self, seen_epoch: int, latest: int) -> bool:
        """Refuse whoever comes later."""
        return super().may_claim(seen_epoch, latest) and latest == 0


class KeepsCollectedIds(OwnedInterval):
    """Lets the store collect ids, and keeps them in memory."""

    probe: ClassVar[Probe]

    def collect_ids(self, now: int) -> None:
        """Put back what the filter forgets."""
        known = self.soft.seen_filter
        generations = known._generations
        super().collect_ids(now)
        if known._generations is not generations:
            known._generations = generations
            self.probe.note()


_MERGE = Step("master-0", Does.SENDS, "Mint", 2)
"""The first mint of a master divides the key spaces."""

MUTANTS = (
    Mutant(
        "a repeated mint counts", ("L5", "L6"), "7.1",
        "a mint that the network repeats is made once more, and takes back what later ones have changed",
        Parts(mediator=MintsAgain), "windows",
        Directed(
            FaultSchedule(
                (
                    Noise(at_us=0, for_us=3 * SECOND, duplicate=1.0, delay_us=SECOND, kinds=("Mint",)),
                    Operate(at_us=1_200 * MILLISECOND, verb=m.SplitInterval("senders", "ac")),
                ),
                7 * SECOND,
            ),
            why="only the newest kinds of faults repeat mints, and a later mint must come in between: chance took 180 runs",
            seed=1,
        ),
    ),
    Mutant(
        "without sequencers", ("S6", "S4"), "6.2",
        "the store applies every write, whoever sends it", Parts(rules=WithoutSequencers), "windows",
    ),
    Mutant(
        "sequencer checked at begin", ("S6",), "6.2",
        "the sequencer of a write is checked when it begins, and not when it is applied", Parts(mediator=ChecksAtBegin),
        "windows", bypasses=("is_valid",),
    ),
    Mutant(
        "old sequencer killed after the scan", ("S6", "S7"), "6.2",
        "the new owner scans before the old one's sequencer is invalid (Figure 12)",
        Parts(rules=WritesOfTheReplacedAreNew, mediator=InvalidatesAfterScan), "windows",
        bypasses=("invalidates",),
    ),
    Mutant(
        "a split child on the old token", ("S6",), "7.1",
        "the token of an interval stays good for the parts that it was split into", Parts(rules=ChildOnOldSequencer), "windows",
    ),
    Mutant(
        "a merged interval on the old tokens", ("S6", "S4"), "7.1",
        "the tokens of two intervals stay good when they are merged", Parts(rules=WholeOnOldSequencers), "windows",
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
        "an interval that moves keeps its sequencer",
        Parts(rules=answering(next_sequencer=lambda unused, former: unused if former is None else former)), "windows",
    ),
    Mutant(
        "one token for two intervals", ("S6",), "7.1",
        "a sequencer is given out a second time, to another interval",
        Parts(rules=answering(next_sequencer=lambda unused, _former: max(unused - 1, 1))), "windows",
    ),
    Mutant(
        "a write applied twice", ("S4",), "6.2",
        "a write that arrives again is applied again", Parts(rules=answering(is_applied=False)), "windows",
    ),
    Mutant(
        "a scan stops after its first page", ("S7",), "7.1",
        "recovery reads the first page of rows only", Parts(rules=answering(continues_scan=False)), "one row a page",
    ),
    Mutant(
        "a key runs before its row is known", ("reference", "S2", "S4"), "6.2",
        "during an asynchronous scan a key runs whose row has not come yet",
        Parts(rules=answering(may_run_during_scan=True)), "slow scans",
    ),
    Mutant(
        "a scan takes a key back", ("S9", "L1", "reference"), "6.2",
        "a row that comes with the scan replaces what has been read and run since",
        Parts(rules=answering(takes_scanned=True)), "slow scans",
    ),
    Mutant(
        "a row is read without its timers", ("S8", "S7", "L1"), "6.2, 4.6",
        "a key that is read during an asynchronous scan gets its state and ids from the row, and not its timers",
        Parts(rules=leaving_out("read_during_scan", timers=())), "slow scans",
    ),
    Mutant(
        "no recovery scan", ("S7",), "7.1",
        "a new owner begins to work without a scan", Parts(rules=answering(scans_first=False)), "windows",
    ),
    Mutant(
        "an evicted row is taken for a new one", ("reference", "S2"), "6.2, 8.3",
        "a row that is not in the cache is taken for empty", Parts(rules=answering(must_read=False)), "no cache",
    ),
    Mutant(
        "a restarted worker goes on as before", ("S3", "S4", "S10"), "6.2, 7.1",
        "a worker that has lost its memory goes on under its former sequencers", Parts(rules=answering(is_owner=True)), "windows",
    ),
    Mutant(
        "a dead worker is not replaced", ("L5", "L2", "L4"), "7.1",
        "intervals of a worker that is silent are given to nobody", Parts(rules=answering(is_orphan=False)), "windows",
    ),
    Mutant(
        "silence is no failure", ("L5", "L2", "L4"), "7.1",
        "a process that has missed its heartbeats still counts as alive", Parts(rules=answering(is_lost=False)), "windows",
    ),
    Mutant(
        "no standby takes over", ("L5", "L4", "L2"), "7.1",
        "when the holder of a role is dead, no replica claims the role", Parts(rules=answering(may_lead=False)), "windows",
    ),
    Mutant(
        "a role is granted once", ("L5", "L4", "L2", "reference"), "7.1, 7.2",
        "the store refuses the claims of whoever comes after the first holder of a role", Parts(rules=ClaimedOnce), "windows",
    ),
    Mutant(
        "a replaced master still mints", ("error",), "7.1, 7.2",
        "the store does not refuse the mints and journal entries of a role's former holder",
        Parts(rules=answering(is_fenced=False)), "windows",
        Directed(
            FaultSchedule(
                (
                    Operate(at_us=800 * MILLISECOND, verb=m.MergeIntervals("senders", "ab")),
                    Operate(at_us=3_300 * MILLISECOND, verb=m.MoveInterval("senders", "ab")),
                ),
                6 * SECOND,
                at_steps=(StepFault(_MERGE, Pause(at_us=0, process="master-0", for_us=2_200 * MILLISECOND)),),
            ),
            why="a master must be paused just before it mints a merge, until a standby has claimed the role, and the standby must"
            " then mint a part of what was merged: chance did not find it in 600 runs",
        ),
    ),
    Mutant(
        "a row in use leaves the cache", ("error",), "6.2, 8.3",
        "a row is evicted while a step of its key is under way", Parts(rules=answering(may_evict=True)), "limited",
    ),
    Mutant(
        "a full cache keeps its rows", ("error",), "8.3",
        "rows stay in the cache when it has reached its capacity", Parts(rules=answering(eviction_order=())), "limited",
    ),
    Mutant(
        "collected ids stay in memory", ("error",), "6.1.1",
        "the filter of an interval keeps the ids that its rows have forgotten", Parts(interval=KeepsCollectedIds),
        "eager collection",
    ),
)  # fmt: skip
"""All of this file."""
