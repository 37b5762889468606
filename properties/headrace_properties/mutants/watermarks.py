"""Mutants of low watermarks and horizons: owners, the authority, what observers know (MillWheel 4.5, 6.1.1, 7.2)."""

from typing import ClassVar

from headrace import MILLISECOND, SECOND
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.history import Published, Reported
from headrace.store.mediator import Mediator
from headrace.watermarks.authority import WatermarkAuthority, _Known
from headrace.watermarks.interval_map import IntervalMap
from headrace.wire import messages as m
from headrace.wire.effects import Effect, Send
from headrace.wire.keys import KeyInterval
from headrace.wire.rows import Production, StoredTimer
from headrace.worker.accounts import Accounts
from headrace.worker.execution import Deployed
from headrace.worker.interval import OwnedInterval
from headrace.worker.interval_state import IntervalState
from headrace.worker.step import Holder, KeySlot, LiveTimer
from headrace.worker.stepping import Cause, StepRunner
from headrace.worker.worker import Worker
from headrace_properties.mutants.mutant import Directed, Mutant, Parts, Probe
from headrace_sim.faults import FaultSchedule, Hold, Partition


class IgnoresCheckpoints(Accounts):
    """Checkpointed productions hold nothing back."""

    probe: ClassVar[Probe]

    def add_production(self, holder: Holder, production: Production) -> None:
        """A production is pending."""
        if holder.durable:
            self.probe.note()
        else:
            super().add_production(holder, production)


class IgnoresWeak(Accounts):
    """Weak productions hold nothing back, nor when they are checkpointed later."""

    probe: ClassVar[Probe]

    def add_production(self, holder: Holder, production: Production) -> None:
        """A production is pending."""
        if holder.durable:
            super().add_production(holder, production)
        else:
            self.probe.note()


class IgnoresTimers(Accounts):
    """Pending timers hold no watermark back."""

    probe: ClassVar[Probe]

    def add_timer(self, timer: StoredTimer) -> LiveTimer:
        """A timer is pending."""
        live = super().add_timer(timer)
        held = timer.held
        if live.holds_watermark and held is not None:
            self.probe.note()
            live.holds_watermark = False
            self._work.remove(held)
        return live


class IgnoresTimersHorizon(Accounts):
    """Pending timers of weak computations hold no horizon back."""

    probe: ClassVar[Probe]

    def add_timer(self, timer: StoredTimer) -> LiveTimer:
        """A timer is pending."""
        live = super().add_timer(timer)
        if live.holds_horizon:
            self.probe.note()
            live.holds_horizon = False
            self._origins.remove(timer.origin)
        return live


class IgnoresHolds(Accounts):
    """The hold of a state holds nothing back."""

    probe: ClassVar[Probe]

    def set_hold(self, slot: KeySlot, hold: int) -> None:
        """A key's state has another hold."""
        super().set_hold(slot, hold)
        if slot.holds_watermark:
            self.probe.note()
            slot.holds_watermark = False
            self._work.remove(hold)


class OwnWorkOnly(Accounts):
    """Reports its own oldest work as it is now; the input is left to the authority."""

    probe: ClassVar[Probe]

    def report(self, input_low: int, input_horizon: int) -> tuple[int, int]:
        """(low watermark, horizon) of its own work alone."""
        super().report(input_low, input_horizon)
        return self._work.oldest(), self._origins.oldest()


class MapOfLatest(IntervalMap):
    """Takes what an owner says last, lower or not."""

    def update(
        self, interval: KeyInterval, sequencer: int, low_watermark: int, horizon: int, pending: tuple[tuple[int, int], ...] = ()
    ) -> bool:  # fmt: skip
        """Take a report."""
        entry = self._by_low.get(interval.low)
        if entry is not None and entry.interval == interval and entry.sequencer == sequencer:
            self._set(entry, low_watermark, horizon)
        return super().update(interval, sequencer, low_watermark, horizon, pending)


class MinimumAtAuthority(WatermarkAuthority):
    """Takes the minimum over a computation's inputs itself, from what it has been told by each."""

    probe: ClassVar[Probe]

    def _risen(self, known: _Known) -> m.Progress | None:
        upstream = [self._known[name] for name in self._upstream_of(known.name)]
        own = (known.map.low_watermark, known.map.horizon)
        low = min([one.map.low_watermark for one in upstream], default=MIN_TIME)
        horizon = min([one.map.horizon for one in upstream], default=MIN_TIME)
        if not known.processes and own != (low, horizon):
            self.probe.note()
        progress = m.Progress(low, horizon).at_least(known.published)
        return progress if progress != known.published else None

    def _upstream_of(self, name: str) -> tuple[str, ...]:
        return self._topologies_of[name]

    def __init__(self, *args: object) -> None:
        super().__init__(*args)  # type: ignore[arg-type]
        pipelines = args[2]
        assert isinstance(pipelines, tuple)
        self._topologies_of = {
            name: (name, *pipelines[0].upstream(name))
            for name in self._known
            if name in pipelines[0].computations
        }
        self._topologies_of.update({name: (name,) for name in pipelines[0].injectors})


class MissingIsAbsent(IntervalMap):
    """An interval that nobody has reported does not count."""

    probe: ClassVar[Probe]

    @property
    def low_watermark(self) -> int:
        """The minimum over the intervals that were heard of."""
        return self._of_heard("low_watermark", super().low_watermark)

    @property
    def horizon(self) -> int:
        """Likewise."""
        return self._of_heard("horizon", super().horizon)

    def _of_heard(self, name: str, sound: int) -> int:
        found = [getattr(one, name) for one in self._by_low.values() if one.heard]
        least = min(found, default=MIN_TIME)
        if least > sound:
            self.probe.note()
        return least


class MissingIsInfinite(IntervalMap):
    """An interval that nobody has reported to this authority has nothing left to do."""

    probe: ClassVar[Probe]

    def start_from(self, low_watermark: int, horizon: int) -> None:
        """Take what was heard, and for the rest the end of time."""
        super().start_from(low_watermark, horizon)
        for entry in self._by_low.values():
            if not entry.heard:
                self.probe.note()
                entry.low_watermark = entry.confirmed_low_watermark = MAX_TIME - 1
                entry.horizon = entry.confirmed_horizon = MAX_TIME - 1
        for least in (self._low_watermarks, self._horizons):
            least.rebuild()


class FastestCounts(IntervalMap):
    """The interval that is the furthest counts for all."""

    probe: ClassVar[Probe]

    @property
    def low_watermark(self) -> int:
        """The maximum over all intervals."""
        most = max(one.low_watermark for one in self._by_low.values())
        if most > super().low_watermark:
            self.probe.note()
        return most


class MapWithoutSequencers(IntervalMap):
    """Takes every report for the latest owner's."""

    probe: ClassVar[Probe]

    def update(
        self, interval: KeyInterval, sequencer: int, low_watermark: int, horizon: int, pending: tuple[tuple[int, int], ...] = ()
    ) -> bool:  # fmt: skip
        """Take a report."""
        latest = max(
            [sequencer, *(e.sequencer for e in self._by_low.values() if e.interval.overlaps(interval))]
        )
        if latest > sequencer:
            self.probe.note()
        return super().update(interval, latest, low_watermark, horizon, pending)


class TakesStaleReports(Mediator):
    """Journals what rests on reports of owners that have been replaced."""

    probe: ClassVar[Probe]

    def is_current_report(self, reporter: str, fence: int) -> bool:
        """Everybody's report is current."""
        if not super().is_current_report(reporter, fence):
            self.probe.note()
        return True


class BroadcastsUnjournaled(WatermarkAuthority):
    """Broadcasts what it has worked out, and journals nothing."""

    probe: ClassVar[Probe]

    def _publish(self, now: int) -> list[Effect]:
        del now
        risen = {known.name: one for known in self._known.values() if (one := self._risen(known))}
        for name, progress in risen.items():
            self.probe.note()
            self._known[name].published = progress
        if risen:
            self._history.record(Published(self._history.at_us, self.address, tuple(risen.items())))
        return self._tell(sorted(self._listeners))


class ReportsBeforeScan(Worker):
    """Reports the progress of an interval whose rows it has not scanned yet."""

    probe: ClassVar[Probe]

    def _report(self) -> None:
        history, options = self._history, self._options
        for interval in self.intervals:
            if interval.state is IntervalState.SCANNING:
                self._advance(self._now, interval)
                one = interval.report(None)
                if one.low_watermark > MIN_TIME:
                    self.probe.note()
                history.record(
                    Reported(
                        history.at_us, self.address, one.computation, one.interval, one.sequencer, one.low_watermark, one.horizon
                    )
                )  # fmt: skip
                for to in options.authority_addresses(options.shard_of(one.computation)):
                    self._shared.effects.append(Send(to, m.Report(self.address, (one,))))
        super()._report()


class OneInputOnly(Worker):
    """Follows the first of a computation's inputs."""

    probe: ClassVar[Probe]

    def _input_of(self, name: str, where: Deployed) -> tuple[int, int, int]:
        senders = self._senders(name)
        first = self._progress.get(senders[0], m.Progress())
        sound = super()._input_of(name, where)
        if first.low_watermark > sound[0]:
            self.probe.note()
        return first.low_watermark, first.low_watermark, sound[2]


class GoesBack(Worker):
    """Takes what it hears last for the latest, though the network reorders."""

    probe: ClassVar[Probe]

    def _on_watermarks(self, now: int, message: m.Watermarks) -> None:
        for name, progress in message.values:
            before = self._progress.get(name)
            if before is not None and progress.low_watermark < before.low_watermark:
                self.probe.note()
            self._progress[name] = progress
        self._inputs.clear()
        self._advance_all(now)


class ForgetsItsWatermark(OwnedInterval):
    """Believes the last that it is told of its input, lower or not."""

    def advance(self, now: int, low_watermark: int, timer_watermark: int, horizon: int) -> None:
        """The worker knows something else of the senders' progress."""
        if low_watermark < self.low_watermark:
            self.low_watermark = self.timer_watermark = MIN_TIME
        super().advance(now, low_watermark, timer_watermark, horizon)


class StaleTimerOrigins(StepRunner):
    """What a strong timer makes has the origin of what set the timer, however long ago that was."""

    probe: ClassVar[Probe]

    def _cause_of_timer(self, timer: StoredTimer) -> Cause:
        cause = super()._cause_of_timer(timer)
        if cause.origin > timer.origin:
            self.probe.note()
            cause.origin = timer.origin
        return cause


class OriginsNotHeld(Accounts):
    """A step that fires a timer does not hold the horizon until its productions do."""

    probe: ClassVar[Probe]

    def hold_origin(self, origin: int) -> bool:
        """Count nothing."""
        del origin
        self.probe.note()
        return False


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

MUTANTS = (
    Mutant(
        "watermark ignores checkpoints", ("S10",), "6.2, 7.2",
        "checkpointed productions do not hold the low watermark", Parts(accounts=IgnoresCheckpoints), "windows",
    ),
    Mutant(
        "watermark ignores timers", ("S10",), "7.2",
        "pending timers do not hold the low watermark", Parts(accounts=IgnoresTimers), "windows",
    ),
    Mutant(
        "watermark ignores holds", ("S10",), "4.5, 5.2",
        "state with a timestamp does not hold the low watermark", Parts(accounts=IgnoresHolds), "holding",
    ),
    Mutant(
        "watermark ignores weak productions", ("S10",), "6.1.3, 7.2",
        "productions that were sent before their step was durable do not hold the low watermark, nor once it is",
        Parts(accounts=IgnoresWeak), "stragglers",
    ),
    Mutant(
        "a missing interval is absent", ("S12", "S10"), "7.2",
        "an interval that nobody has reported is left out of the minimum", Parts(map=MissingIsAbsent), "windows",
    ),
    Mutant(
        "a missing interval is infinite", ("S10", "S10-horizon"), "7.2",
        "an interval that nobody has reported is taken to have nothing to do", Parts(map=MissingIsInfinite), "windows",
    ),
    Mutant(
        "the fastest interval counts", ("S10", "S12"), "7.2",
        "a computation is as far as the furthest of its intervals", Parts(map=FastestCounts), "windows",
    ),
    Mutant(
        "minimum computed at the authority", ("S10",), "7.2",
        "intervals report their own work alone, and the authority takes the minimum over what feeds them",
        Parts(accounts=OwnWorkOnly, map=MapOfLatest, authority=MinimumAtAuthority), "windows",
    ),
    Mutant(
        "one input only", ("S10", "S9"), "4.5",
        "of a computation's inputs only the first holds its watermark", Parts(worker=OneInputOnly), "forked",
    ),
    Mutant(
        "authority not journaled", ("S10", "S11"), "7.2",
        "the authority broadcasts what it has not journaled", Parts(authority=BroadcastsUnjournaled), "late start",
        ZOMBIE_REPORTS,
    ),
    Mutant(
        "a stale owner's report is accepted", ("S10",), "7.2",
        "a report counts although its sender has been replaced",
        Parts(mediator=TakesStaleReports, map=MapWithoutSequencers), "late start", ZOMBIE_REPORTS,
    ),
    Mutant(
        "report before the scan", ("S10",), "7.2",
        "a new owner reports before it has scanned what is pending", Parts(worker=ReportsBeforeScan), "windows",
    ),
    Mutant(
        "an observer's watermark goes back", ("S11",), "4.5",
        "a worker takes the last broadcast that it gets for the latest", Parts(worker=GoesBack, interval=ForgetsItsWatermark),
        "windows",
    ),
    Mutant(
        "weak timers do not hold the horizon", ("S1", "L2"), "6.1.1, 6.1.3",
        "what a weak timer makes comes after its origin was given up, and is refused as a remnant",
        Parts(accounts=IgnoresTimersHorizon), "weak windows",
    ),
    Mutant(
        "a strong timer's origin is old", ("S1", "S10-horizon"), "6.1.1",
        "what a timer makes has an origin that was given up, and is refused as a remnant", Parts(runner=StaleTimerOrigins),
        "windows",
    ),
    Mutant(
        "a firing holds no origin", ("S1", "S10-horizon"), "6.1.1",
        "the horizon passes what a timer makes before it is sent", Parts(accounts=OriginsNotHeld), "windows",
    ),
)  # fmt: skip
"""All of this file."""
