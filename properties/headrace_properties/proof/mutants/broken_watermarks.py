"""Mutants of low watermarks and horizons: owners, the authority, what observers know (MillWheel 4.5, 6.1.1, 7.2)."""

from collections.abc import Sequence
from typing import ClassVar

from headrace import MILLISECOND, SECOND, EngineOptions, Pipeline
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.history import History
from headrace.rules import RULES, Rules, Work
from headrace.watermarks.authority import WatermarkAuthority
from headrace.watermarks.interval_map import IntervalMap
from headrace.wire.effects import Effect, Event
from headrace.wire.messages import ChangeTopology, Progress
from headrace_properties.proof.mutants.mutant import Directed, Mutant, Parts, Probe, answering, ignoring
from headrace_sim.faults import Crash, FaultSchedule, Hold, LoseCommit, Operate, Partition


class IgnoresTimers(Rules):
    """Pending timers hold no watermark back."""

    def holds_watermark(self, work: Work, timestamp: int, reported: int) -> bool:
        """Count all but them."""
        is_timer = work in {Work.TIMER, Work.WEAK_TIMER}
        return not is_timer and super().holds_watermark(work, timestamp, reported)


class OwnWorkOnly(Rules):
    """Owners report their own oldest work as it is now; the input is left to the authority."""

    def low_watermark(self, reported: int, oldest_work: int, input_watermark: int) -> int:
        """Return the oldest work, lower than before or not."""
        del reported, input_watermark
        return oldest_work

    def holds_watermark(self, work: Work, timestamp: int, reported: int) -> bool:
        """Count all work of owners: behind its own oldest work nothing is late."""
        return work is not Work.INJECTED or super().holds_watermark(work, timestamp, reported)

    def holds_horizon(self, work: Work, origin: int, reported: int) -> bool:
        """Count it as well."""
        return super().holds_horizon(work, origin, reported if work is Work.INJECTED else MIN_TIME)

    def reported(self, known: int, told: int) -> int:
        """Take what an owner says last."""
        del known
        return told


class MinimumAtAuthority(WatermarkAuthority):
    """Takes the minimum over a computation's inputs itself, from the last value of each."""

    probe: ClassVar[Probe]

    def __init__(
        self,
        address: str,
        shard: int,
        topologies: Sequence[Pipeline],
        options: EngineOptions,
        history: History,
        rules: Rules,
    ) -> None:
        super().__init__(address, shard, topologies, options, history, rules)
        first = topologies[0]
        self._inputs = {name: (name, *first.upstream(name)) for name in first.computations}

    def progress(self, name: str) -> Progress:
        """Return the minimum over a computation and all that feed it."""
        maps = [self.map_of(input_) for input_ in self._inputs.get(name, (name,))]
        low, horizon = (
            min(interval_map.low_watermark for interval_map in maps),
            min(interval_map.horizon for interval_map in maps),
        )
        if (low, horizon) != (maps[0].low_watermark, maps[0].horizon):
            self.probe.note()
        return Progress(low, horizon).at_least(self.published(name))


class MissingIsAbsent(IntervalMap):
    """An interval that nobody has reported does not count."""

    probe: ClassVar[Probe]

    @property
    def low_watermark(self) -> int:
        """Return the minimum over the intervals that have reported."""
        least = min((entry.low_watermark for entry in self.entries() if entry.heard), default=MIN_TIME)
        if least > super().low_watermark:
            self.probe.note()
        return least

    @property
    def horizon(self) -> int:
        """The minimum horizon over these intervals."""
        return min((entry.horizon for entry in self.entries() if entry.heard), default=MIN_TIME)


class FastestCounts(IntervalMap):
    """The interval that is the furthest counts for all."""

    probe: ClassVar[Probe]

    @property
    def low_watermark(self) -> int:
        """The maximum over all intervals."""
        most = max(entry.low_watermark for entry in self.entries())
        if most > super().low_watermark:
            self.probe.note()
        return most


class NewOriginsOfWeakTimers(Rules):
    """What a weak timer makes has the horizon of its computation as its origin, as with strong ones."""

    def origin_of_firing(self, origin: int, horizon: int, strong: bool) -> int:
        """Return the later one."""
        return super().origin_of_firing(origin, horizon, strong=strong or horizon > origin)


class PublishesLate(WatermarkAuthority):
    """Looks at what has risen at every eighth of its periods only."""

    probe: ClassVar[Probe]

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Put the next look off by seven periods."""
        before = self._look_due.due_us
        effects = super().handle(now, event)
        if self._look_due.due_us != before:
            self._look_due.due_us += 7 * self._look_due.wait_us
            self.probe.note()
        return effects


ZOMBIE_REPORTS = Directed(
    FaultSchedule(
        (
            Partition(
                at_us=900 * MILLISECOND, side=("worker-2",), other=("master-0", "master-1"), for_us=9 * SECOND, one_way=True,
            ),
            Partition(
                at_us=SECOND, side=("worker-3",), other=("authority-0.0", "authority-0.1"), for_us=6 * SECOND, one_way=True,
            ),
            Hold(at_us=2_900 * MILLISECOND, message="Deliver", source="worker-3", count=99, for_us=4 * SECOND),
        ),
        12 * SECOND,
    ),
    why="it takes a zombie that has never written anything, a successor whose first report is lost, and a production of this"
    " successor that hangs in the network: three faults that fit together, before the first record comes",
)  # fmt: skip
"""`worker-2` owns the second stage and is replaced unheard; what `worker-3` then has to do the zombie reports."""

ORPHANED_DELIVERY = Directed(
    FaultSchedule(
        (
            Operate(at_us=200 * MILLISECOND, verb=ChangeTopology(topology=1)),
            Crash(at_us=SECOND, process="worker-0", restart_after_us=400 * MILLISECOND),
            LoseCommit(at_us=0, process="worker-1", count=3),
        ),
        4 * SECOND,
    ),
    why="it takes a weak sender that dies between two versions, while its consumer's writes are lost three times",
    seed=3,
)
"""`worker-0` sends to the auditor and dies; its successor sends to the archivist, while the auditor's write is retried."""

MUTANTS = (
    Mutant(
        "watermark ignores checkpoints", ("S10",), "6.2, 7.2",
        "checkpointed productions do not hold the low watermark",
        Parts(rules=ignoring(Work.CHECKPOINT, "holds_watermark", "holds_horizon")), "windows",
    ),
    Mutant(
        "watermark ignores timers", ("S10",), "7.2",
        "pending timers do not hold the low watermark", Parts(rules=IgnoresTimers), "windows",
    ),
    Mutant(
        "watermark ignores holds", ("S10",), "4.5, 5.2",
        "state with a timestamp does not hold the low watermark", Parts(rules=ignoring(Work.STATE, "holds_watermark")), "holding",
    ),
    Mutant(
        "watermark ignores weak productions", ("S10",), "6.1.3, 7.2",
        "productions that were sent before their step was durable do not hold the low watermark, nor once it is",
        Parts(rules=ignoring(Work.SENT, "holds_watermark", "holds_horizon")), "stragglers",
    ),
    Mutant(
        "a missing interval is absent", ("S12", "S10"), "7.2",
        "an interval that nobody has reported is left out of the minimum", Parts(map=MissingIsAbsent), "windows",
        bypasses=("value_of_missing",),
    ),
    Mutant(
        "a missing interval is infinite", ("S10", "S10-horizon"), "7.2",
        "an interval that nobody has reported is taken to have nothing to do",
        Parts(rules=answering(value_of_missing=MAX_TIME - 1)), "windows",
    ),
    Mutant(
        "the fastest interval counts", ("S10", "S12"), "7.2",
        "a computation is as far as the furthest of its intervals", Parts(map=FastestCounts), "windows",
    ),
    Mutant(
        "minimum computed at the authority", ("S10",), "7.2",
        "intervals report their own work alone, and the authority takes the minimum over what feeds them",
        Parts(rules=OwnWorkOnly, authority=MinimumAtAuthority), "windows",
        bypasses=("input_watermark",),
    ),
    Mutant(
        "one input only", ("S10", "S9"), "4.5",
        "of a computation's inputs only the first holds its watermark",
        Parts(rules=answering(input_watermark=lambda senders: senders[0] if senders else MAX_TIME)), "forked",
    ),
    Mutant(
        "authority not journaled", ("S10", "S11"), "7.2",
        "the authority broadcasts what it has not journaled", Parts(rules=answering(journals_first=False)), "late start",
        ZOMBIE_REPORTS,
    ),
    Mutant(
        "a stale owner's report is accepted", ("S10",), "7.2",
        "a report counts although its sender has been replaced",
        Parts(rules=answering(is_newer=True, takes_report=True)), "late start", ZOMBIE_REPORTS,
    ),
    Mutant(
        "report before the scan", ("S10",), "7.2",
        "a new owner reports before it has scanned what is pending", Parts(rules=answering(may_report=True)), "windows",
    ),
    Mutant(
        "report during an asynchronous scan", ("S10",), "6.2, 7.2",
        "a new owner that processes records during its scan reports before it knows all rows",
        Parts(rules=answering(may_report=True)), "slow scans",
    ),
    Mutant(
        "an observer's watermark goes back", ("S11",), "4.5",
        "a worker takes the last broadcast that it gets for the latest",
        Parts(rules=answering(merged=lambda _known, told: told, advanced=lambda _known, told: told)), "windows",
    ),
    Mutant(
        "a percentile strips one too many", ("reference",), "7.2",
        "a percentile watermark passes one pending record more than its share of outliers",
        Parts(rules=answering(outliers=lambda percent, pending: min(pending, RULES.outliers(percent, pending) + 1))), "prompt",
    ),
    Mutant(
        "a percentile passes all that is pending", ("S19",), "7.2",
        "a percentile watermark is as far as the sources, whatever is pending",
        Parts(rules=answering(outliers=lambda _percent, pending: pending)), "outliers",
    ),
    Mutant(
        "a record on the watermark is late", ("S16",), "4.5",
        "a record whose timestamp is that of the low watermark is flagged as late",
        Parts(rules=answering(is_late=lambda timestamp, watermark: timestamp <= watermark)), "windows",
    ),
    Mutant(
        "weak timers do not hold the horizon", ("S1", "L2"), "6.1.1, 6.1.3",
        "what a weak timer makes comes after its origin was given up, and is refused as a remnant",
        Parts(rules=ignoring(Work.WEAK_TIMER, "holds_horizon")), "weak windows",
    ),
    Mutant(
        "a strong timer's origin is old", ("S1", "S10-horizon"), "6.1.1",
        "what a timer makes has an origin that was given up, and is refused as a remnant",
        Parts(rules=answering(origin_of_firing=lambda origin, _horizon, _strong: origin)), "windows",
    ),
    Mutant(
        "a firing holds no origin", ("S1", "S10-horizon"), "6.1.1",
        "the horizon passes what a timer makes before it is sent", Parts(rules=ignoring(Work.FIRING, "holds_horizon")), "windows",
    ),
    Mutant(
        "a delivery holds no origin", ("S1", "S3", "S10-horizon"), "6.1.1, 6.1.3",
        "the horizon passes what waits at its consumer, if its weak sender died and its successor sends something else",
        Parts(rules=ignoring(Work.RECEIVED, "holds_horizon")), "weak changing", ORPHANED_DELIVERY,
    ),
    Mutant(
        "a weak timer's origin is new", ("expected",), "6.1.1, 6.1.3",
        "what a weak timer makes has another origin each time that it is made", Parts(rules=NewOriginsOfWeakTimers),
        "weak windows",
    ),
    Mutant(
        "a watermark is published late", ("calm",), "7.2",
        "the authority looks at what has risen eight times less often than its period says", Parts(authority=PublishesLate),
        "windows",
    ),
)  # fmt: skip
"""All of this file."""
