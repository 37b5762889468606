"""Mutants of injectors: what they sent, their watermark, and starting again (MillWheel 4.5, 5.2, 6.1.1)."""

from typing import ClassVar

import msgspec

from headrace.api.time import MIN_TIME
from headrace.delivery.outbox import Pending
from headrace.injector.injector import Injector
from headrace.injector.intake import Entry, Intake
from headrace.watermarks.authority import WatermarkAuthority, _Known
from headrace.wire.effects import Effect, Event, SourceRecord
from headrace.wire.messages import Progress
from headrace.wire.rows import Production
from headrace_properties.mutants.mutant import Mutant, Parts, Probe


class WatermarkAtSend(Intake):
    """A record does not hold the watermark once it is read."""

    probe: ClassVar[Probe]

    def read(self, arrived_us: int, offset: int, timestamp: int) -> Entry:
        """Take in a record."""
        entry = super().read(arrived_us, offset, timestamp)
        if not entry.late:
            self.probe.note()
            entry.late = True
            self._on_time.remove(timestamp)
        return entry


class PositionAtSend(Intake):
    """What has been read is taken for finished: the position and the horizon are behind all of it."""

    probe: ClassVar[Probe]

    def _measure(self) -> tuple[int, Progress]:
        position, progress = super()._measure()
        if position < self.next_offset:
            self.probe.note()
        return self.next_offset, progress


class HorizonAtSend(Intake):
    """What has been read does not hold the horizon."""

    probe: ClassVar[Probe]

    def _measure(self) -> tuple[int, Progress]:
        position, progress = super()._measure()
        if progress.horizon < self._stamp_us:
            self.probe.note()
            progress = Progress(progress.low_watermark, self._stamp_us)
        return position, progress


class LateLowers(Intake):
    """A late record lowers the watermark."""

    probe: ClassVar[Probe]

    def read(self, arrived_us: int, offset: int, timestamp: int) -> Entry:
        """Take in a record."""
        entry = super().read(arrived_us, offset, timestamp)
        if entry.late:
            self.probe.note()
            entry.late = False
            self._on_time.add(timestamp)
        return entry


class MissingProcessIgnored(WatermarkAuthority):
    """An injector is as far as those of its processes that have been heard of."""

    probe: ClassVar[Probe]

    def _risen(self, known: _Known) -> Progress | None:
        if known.processes:
            heard = [entry for entry in known.map._by_low.values() if entry.heard]
            low = min((entry.low_watermark for entry in heard), default=MIN_TIME)
            horizon = min((entry.horizon for entry in heard), default=MIN_TIME)
            if low > known.map.low_watermark:
                self.probe.note()
            progress = Progress(low, horizon).at_least(known.published)
            return progress if progress != known.published else None
        return super()._risen(known)


class NewStampPerReader(Injector):
    """Stamps records by its own clock, so that one that is read again has another origin."""

    probe: ClassVar[Probe]

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Take an event."""
        if isinstance(event, SourceRecord) and event.arrived_us != now:
            self.probe.note()
            event = msgspec.structs.replace(event, arrived_us=now)
        return super().handle(now, event)


class NewIdsPerReader(Injector):
    """Names records by its incarnation, so that one that is read again has another id."""

    probe: ClassVar[Probe]

    def _productions(self, entry: Entry, record: SourceRecord) -> tuple[Production, ...]:
        made = super()._productions(entry, record)
        if self._incarnation == 1:
            return made
        self.probe.note()
        return tuple(
            msgspec.structs.replace(one, record_id=f"{one.record_id}~{self._incarnation}") for one in made
        )


class SendsOnce(Injector):
    """Never sends a record again."""

    probe: ClassVar[Probe]

    def _send_again(self, pending: Pending[Entry]) -> None:
        del pending
        self.probe.note()


MUTANTS = (
    Mutant(
        "injector watermark at send", ("S10",), "4.5, 5.2",
        "the injector's watermark passes a record when it is sent, and not when it is ACKed", Parts(intake=WatermarkAtSend),
        "windows",
    ),
    Mutant(
        "injector position at send", ("S1", "reference"), "5.2, 6.1.1",
        "a restarted injector goes on behind what it had sent, ACKed or not", Parts(intake=PositionAtSend), "windows",
    ),
    Mutant(
        "injector horizon at send", ("S10-horizon",), "6.1.1",
        "the horizon passes a record when it is sent, and its id may be collected", Parts(intake=HorizonAtSend), "windows",
    ),
    Mutant(
        "a late record lowers the watermark", ("S11",), "4.5",
        "a record that is behind the watermark takes it back", Parts(intake=LateLowers), "late windows",
    ),
    Mutant(
        "a missing injector process is ignored", ("S12", "S10"), "5.2",
        "the processes of an injector that have not reported do not count", Parts(authority=MissingProcessIgnored),
        "two processes",
    ),
    Mutant(
        "a new origin for each reader", ("S10-horizon", "S2"), "6.1.1",
        "a record that is read again after a crash has another origin", Parts(injector=NewStampPerReader), "windows",
    ),
    Mutant(
        "a new id for each reader", ("S1", "reference"), "6.1.1",
        "a record that is read again after a crash has another id", Parts(injector=NewIdsPerReader), "echoes",
    ),
    Mutant(
        "an injector sends once", ("L2", "S1"), "6.1.1",
        "an injector does not retry what is not ACKed", Parts(injector=SendsOnce), "echoes",
    ),
)  # fmt: skip
"""All of this file."""
