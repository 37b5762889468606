"""Mutants of injectors: what they read and sent, their watermark, and starting again (MillWheel 4.5, 5.2, 6.1.1)."""

from typing import ClassVar

import msgspec

from headrace import MILLISECOND, SECOND
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.injector.injector import Injector
from headrace.rules import Rules, Work
from headrace.watermarks.authority import WatermarkAuthority
from headrace.wire.effects import Effect, Event, SourceRecord, SourceWatermark, Start
from headrace.wire.messages import Progress, Watermarks
from headrace_properties.proof.mutants.mutant import Directed, Mutant, Parts, Probe, answering, ignoring
from headrace_sim.faults import Crash, FaultSchedule, Noise


class LateLowers(Rules):
    """A late record lowers the injector's watermark."""

    def holds_watermark(self, work: Work, timestamp: int, reported: int) -> bool:
        """Count every record."""
        return work is Work.INJECTED or super().holds_watermark(work, timestamp, reported)


class MissingProcessIgnored(WatermarkAuthority):
    """An injector is as far as those of its processes that have been heard of."""

    probe: ClassVar[Probe]

    def progress(self, name: str) -> Progress:
        """Return the minimum over the processes that were heard of."""
        sound = super().progress(name)
        if name not in self.injectors:
            return sound
        heard = [entry for entry in self.map_of(name).entries() if entry.heard]
        low = min((entry.low_watermark for entry in heard), default=MIN_TIME)
        horizon = min((entry.horizon for entry in heard), default=MIN_TIME)
        if low > sound.low_watermark:
            self.probe.note()
        return sound.at_least(Progress(low, horizon))


class NewIdsPerReader(Rules):
    """Names records by the reader's incarnation, so that one that is read again has another id."""

    def injected_id(self, address: str, offset: int, incarnation: int) -> str:
        """Return an id that the next reader does not give."""
        own = super().injected_id(address, offset, incarnation)
        return own if incarnation == 1 else f"{own}~{incarnation}"


class WaitsTooLittle(Rules):
    """A record may be twice as far ahead of the slowest computation as the limit says."""

    def may_inject(self, timestamp: int, slowest: int, limit_us: int) -> bool:
        """Double the limit."""
        return super().may_inject(timestamp, slowest, 2 * limit_us)


class DropsMalformed(Injector):
    """Passes over what it cannot read, where it should send a dead letter."""

    probe: ClassVar[Probe]

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Pass over what is not a number."""
        if isinstance(event, SourceRecord) and not event.value.isdigit():
            self.probe.note()
            return super().handle(now, _passed_over(event))
        return super().handle(now, event)


def _passed_over(record: SourceRecord) -> SourceWatermark:
    """Return the event that replaces a record that an injector passes over: nothing new at this offset."""
    return SourceWatermark(record.offset, MIN_TIME, record.arrived_us)


class SkipsHalf(Injector):
    """Injects every other record of its source."""

    probe: ClassVar[Probe]

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Pass over records of odd offsets."""
        if isinstance(event, SourceRecord) and event.offset % 2:
            self.probe.note()
            return super().handle(now, _passed_over(event))
        return super().handle(now, event)


class SkipsAfterCrash(Injector):
    """A restarted injector passes over the first record that it reads."""

    probe: ClassVar[Probe]
    _skips = False

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Take it for delivered."""
        if isinstance(event, Start):
            self._skips = event.incarnation > 1
        elif isinstance(event, SourceRecord) and self._skips:
            self._skips = False
            self.probe.note()
            return super().handle(now, _passed_over(event))
        return super().handle(now, event)


class NeverReleases(Injector):
    """What waits for the slowest computation is not injected when that has advanced."""

    probe: ClassVar[Probe]

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Learn of no watermark after it has begun to hold something back."""
        if isinstance(event, Watermarks) and (self.unfinished or self.held_back):
            self.probe.note()
            return []
        return super().handle(now, event)


class IgnoresEnd(Injector):
    """Does not learn that its source has ended: its watermark stays behind the source's."""

    probe: ClassVar[Probe]

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Take the last word of the source for nothing new."""
        if isinstance(event, SourceWatermark) and event.low_watermark == MAX_TIME:
            self.probe.note()
            event = msgspec.structs.replace(event, low_watermark=MIN_TIME)
        return super().handle(now, event)


class AheadOfItsSource(Injector):
    """Promises more than its source does."""

    probe: ClassVar[Probe]

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Add 200 ms to what the source said."""
        if isinstance(event, SourceWatermark) and event.low_watermark < MAX_TIME:
            self.probe.note()
            event = msgspec.structs.replace(event, low_watermark=event.low_watermark + 200 * MILLISECOND)
        return super().handle(now, event)


class RetriesTooSoon(Injector):
    """Sends what is not ACKed again at its next step."""

    probe: ClassVar[Probe]

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Forget how long to wait."""
        effects = super().handle(now, event)
        for pending in self._outbox.due(now + self._options.retry_us) if type(event) is SourceRecord else ():
            self.probe.note()
            self._send_again(pending)
        return effects + self._effects


MUTANTS = (
    Mutant(
        "injector watermark at send", ("S10",), "4.5, 5.2",
        "the injector's watermark passes a record when it is sent, and not when it is ACKed",
        Parts(rules=ignoring(Work.INJECTED, "holds_watermark")), "windows",
    ),
    Mutant(
        "injector position at send", ("S1", "reference"), "5.2, 6.1.1",
        "a restarted injector goes on behind what it had sent, ACKed or not",
        Parts(rules=answering(resumes_at=lambda _unfinished, next_offset: next_offset)), "windows",
    ),
    Mutant(
        "injector horizon at send", ("S10-horizon",), "6.1.1",
        "the horizon passes a record when it is sent, and its id may be collected",
        Parts(rules=ignoring(Work.INJECTED, "holds_horizon")), "windows",
    ),
    Mutant(
        "a late record lowers the watermark", ("S11",), "4.5",
        "a record that is behind the watermark takes it back", Parts(rules=LateLowers), "late windows",
    ),
    Mutant(
        "a missing injector process is ignored", ("S12", "S10"), "5.2",
        "the processes of an injector that have not reported do not count", Parts(authority=MissingProcessIgnored),
        "two processes", bypasses=("value_of_missing",),
    ),
    Mutant(
        "a new origin for each reader", ("S10-horizon", "S2"), "6.1.1",
        "a record that is read again after a crash has another origin",
        Parts(rules=answering(stamp=lambda _arrived_us, now: now)), "windows",
    ),
    Mutant(
        "a new id for each reader", ("S1", "reference"), "6.1.1",
        "a record that is read again after a crash has another id", Parts(rules=NewIdsPerReader), "echoes",
    ),
    Mutant(
        "the skew limit is nothing", ("reference", "L4"), "8.4",
        "a record waits until the low watermarks have reached it, and they wait for the record",
        Parts(rules=answering(may_inject=lambda timestamp, slowest, _limit_us: timestamp < slowest)), "limited",
    ),
    Mutant(
        "the skew limit is twice as far", ("S18",), "8.4",
        "a record is injected when it is ahead of the slowest computation by up to twice the limit", Parts(rules=WaitsTooLittle),
        "limited",
    ),
    Mutant(
        "malformed records vanish", ("S1",), "5.2",
        "an injector sends no dead letter for what it cannot read", Parts(injector=DropsMalformed), "malformed",
    ),
    Mutant(
        "a repeated claim counts", ("L2", "L4", "L6"), "7.1",
        "a claim that the network repeats fences the process that it made the holder",
        Parts(rules=answering(may_claim=lambda seen_epoch, latest: seen_epoch <= latest)), "windows",
        Directed(
            FaultSchedule((Noise(at_us=0, for_us=SECOND, duplicate=1.0, delay_us=SECOND, kinds=("Claim",)),), 3 * SECOND),
            why="an injector claims its role once, at its start: few random plans disturb the store then",
        ),
    ),
    Mutant(
        "an injector sends once", ("L2", "S1"), "6.1.1",
        "an injector does not retry what is not ACKed", Parts(rules=answering(retries=lambda injected: not injected)), "echoes",
    ),
    Mutant(
        "an injector skips half of its source", ("S1",), "5.2",
        "every other record of the source is never injected", Parts(injector=SkipsHalf), "late windows",
    ),
    Mutant(
        "an injector forgets a record after a crash", ("S1",), "5.2, 6.1.1",
        "a restarted injector takes the first record that it reads for delivered", Parts(injector=SkipsAfterCrash), "windows",
        Directed(
            FaultSchedule((Crash(at_us=400 * MILLISECOND, process="letters/0", restart_after_us=2 * SECOND),), 3 * SECOND),
            why="the source must get a record while its injector is down: few random plans strike an injector so early",
        ),
    ),
    Mutant(
        "what waits for the slowest is not released", ("L2", "L4", "L6"), "8.4",
        "an injector that holds records back does not hear that the low watermarks have advanced", Parts(injector=NeverReleases),
        "limited",
    ),
    Mutant(
        "an injector ignores the end of its source", ("L4", "L6"), "4.5, 5.2",
        "the injector's watermark stays behind the last one of the source", Parts(injector=IgnoresEnd), "long quiet",
    ),
    Mutant(
        "an injector promises more than its source", ("S12",), "4.5, 5.2",
        "the injector's watermark is ahead of the source's", Parts(injector=AheadOfItsSource), "late windows",
    ),
    Mutant(
        "an injector retries too soon", ("calm",), "6.1.1",
        "a record is sent again before the first retry delay is over", Parts(injector=RetriesTooSoon), "late start",
    ),
)  # fmt: skip
"""All of this file."""
