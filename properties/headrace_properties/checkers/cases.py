"""Which hard cases a run has reached: the `sometimes` twins of the invariants.

A search that never reached a case proves nothing about it, however green it is.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from headrace import Clock
from headrace.history import (
    AckSent,
    Applied,
    Checkpointed,
    ComputationRemoved,
    DeadLettered,
    Delivered,
    DuplicateDropped,
    Event,
    Executed,
    Healed,
    IdsCollected,
    Injected,
    IntervalMinted,
    ProcessStarted,
    Published,
    Reported,
    Resent,
    RoleClaimed,
    ScanBegun,
    ScanEnded,
    UserCodeFailed,
    VersionAdopted,
    WriteRefused,
)
from headrace.wire.messages import STORE

CASES = (
    "a delivery was re-sent",
    "a duplicate arrived",
    "a duplicate came behind the horizon",
    "a duplicate came after its id was collected",
    "an ACK was lost",
    "a delivery reached a stale owner",
    "a record was late from the source",
    "a record was late",
    "user code ran again for a record",
    "a step took several records or timers",
    "a timer was set",
    "a timer was cancelled",
    "a timer fired",
    "a wall timer fired",
    "a timer was set behind the watermark",
    "a timer fired at another owner than set it",
    "a percentile watermark was ahead",
    "a state held the watermark",
    "a straggler was checkpointed",
    "ownership changed",
    "ownership changed with a write in flight",
    "an interval was split",
    "intervals were merged",
    "a scan was cut short",
    "a scan overlapped a late write",
    "a scan found timers",
    "a scan found checkpointed productions",
    "a write was refused",
    "a zombie's write came late",
    "a zombie's write was applied",
    "an id was collected",
    "user code failed",
    "a record went to the dead letters",
    "a process restarted",
    "an injector read its source again",
    "a standby took over",
    "an authority was replaced while an interval was missing",
    "a process stayed bad",
    "a computation was removed",
    "a version was put in force",
    "a record was made by a version out of force",
)
"""Everything that `reached` counts."""


def reached(history: Iterable[Event]) -> dict[str, int]:
    """Count how often each hard case came up. Sum them over runs; a case that stays 0 was not tested."""
    counter = _Counter()
    handlers = counter.handlers
    for event in history:
        handler = handlers.get(type(event))
        if handler is not None:
            handler(event)
    return {case: counter.counts[case] for case in CASES}


class _Counter:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        owners = _IntervalCases(self.counts)
        records = _Records(self.counts)
        versions = _Versions(self.counts)
        self.handlers: dict[type, Callable[[Any], None]] = {
            AckSent: records.on_acked,
            Applied: self._all(owners.on_applied, records.on_applied),
            Checkpointed: self._counts("a straggler was checkpointed"),
            ComputationRemoved: self._counts("a computation was removed"),
            DeadLettered: self._counts("a record went to the dead letters"),
            Delivered: owners.on_delivered,
            DuplicateDropped: records.on_duplicate,
            Executed: self._all(owners.on_executed, records.on_executed, versions.on_made),
            Healed: self._on_healed,
            IdsCollected: records.on_collected,
            Injected: self._all(records.on_injected, versions.on_made),
            IntervalMinted: owners.on_minted,
            ProcessStarted: self._all(self._on_started, versions.on_started),
            Published: self._on_published,
            Reported: owners.on_reported,
            Resent: records.on_resent,
            RoleClaimed: owners.on_claimed,
            ScanBegun: owners.on_scan_begun,
            ScanEnded: owners.on_scan,
            UserCodeFailed: self._counts("user code failed"),
            VersionAdopted: versions.on_adopted,
            WriteRefused: owners.on_refused,
        }

    @staticmethod
    def _all(*handlers: Callable[[Any], None]) -> Callable[[Any], None]:
        def handle(event: Any) -> None:
            for handler in handlers:
                handler(event)

        return handle

    def _counts(self, case: str) -> Callable[[Any], None]:
        def count(_event: Any) -> None:
            self.counts[case] += 1

        return count

    def _on_healed(self, event: Healed) -> None:
        self.counts["a process stayed bad"] += len(event.lasting)

    def _on_published(self, event: Published) -> None:
        for _, progress in event.values:
            if any(at_us > progress.low_watermark for _, at_us in progress.percentiles):
                self.counts["a percentile watermark was ahead"] += 1

    def _on_started(self, event: ProcessStarted) -> None:
        if event.incarnation > 1:
            self.counts["a process restarted"] += 1


class _Records:
    """The fate of records and timers."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._acked: set[tuple[str, str]] = set()
        self._collected: set[tuple[str, str]] = set()
        self._ids: dict[str, dict[str, tuple[str, int]]] = {}
        self._injected: set[tuple[str, int]] = set()
        self._run: set[tuple[str, str]] = set()

    def on_injected(self, event: Injected) -> None:
        """A source delivered a record, perhaps again."""
        name = (event.process, event.offset)
        if name in self._injected:
            self._counts["an injector read its source again"] += 1
        self._injected.add(name)
        if any(production.timestamp < event.source_watermark for production in event.productions):
            self._counts["a record was late from the source"] += 1

    def on_executed(self, event: Executed) -> None:
        """User code ran."""
        if event.late:
            self._counts["a record was late"] += 1
        name = (event.computation, event.cause)
        if name in self._run:
            self._counts["user code ran again for a record"] += event.timer is None
        self._run.add(name)

    def on_applied(self, event: Applied) -> None:
        """A step was applied."""
        delta, counts = event.delta, self._counts
        if delta.seen:
            ids = self._ids.setdefault(event.computation, {})
            for record_id, origin in delta.seen:
                ids[record_id] = (delta.key, origin)
        if delta.set_timers:
            counts["a timer was set"] += len(delta.set_timers)
            counts["a timer was set behind the watermark"] += sum(
                timer.overdue and timer.clock is Clock.WATERMARK for timer in delta.set_timers
            )
        if delta.cancelled:
            counts["a timer was cancelled"] += len(delta.cancelled)
        for timer in delta.fired:
            counts["a timer fired"] += 1
            counts["a wall timer fired"] += timer.clock is Clock.WALL
            counts["a timer fired at another owner than set it"] += timer.set_by.sequencer != event.sequencer
        if delta.hold is not None:
            counts["a state held the watermark"] += 1
        if len(delta.seen) + len(delta.fired) > 1:
            counts["a step took several records or timers"] += 1

    def on_acked(self, event: AckSent) -> None:
        """An owner has finished with records."""
        self._acked.update([(event.computation, record_id) for record_id in event.record_ids])

    def on_resent(self, event: Resent) -> None:
        """A sender retried, though the record may have been ACKed."""
        self._counts["a delivery was re-sent"] += 1
        if (event.consumer, event.record_id) in self._acked:
            self._counts["an ACK was lost"] += 1

    def on_duplicate(self, event: DuplicateDropped) -> None:
        """A record was delivered again."""
        self._counts["a duplicate arrived"] += 1
        if event.by == "horizon":
            self._counts["a duplicate came behind the horizon"] += 1
            if (event.computation, event.record_id) in self._collected:
                self._counts["a duplicate came after its id was collected"] += 1

    def on_collected(self, event: IdsCollected) -> None:
        """Rows forget ids."""
        self._counts["an id was collected"] += 1
        ids = self._ids.get(event.computation, {})
        gone = [
            id_ for id_, (key, origin) in ids.items() if origin < event.below and event.interval.contains(key)
        ]
        for record_id in gone:
            del ids[record_id]
            self._collected.add((event.computation, record_id))


class _IntervalCases:
    """The fate of intervals."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._owners: dict[str, list[IntervalMinted]] = {}
        self._open: dict[int, set[int]] = {}
        self._scanning: dict[int, ScanBegun] = {}
        self._scanned: set[int] = set()
        self._reported: set[int] = set()

    def on_executed(self, event: Executed) -> None:
        """A write is on its way."""
        self._open.setdefault(event.version.sequencer, set()).add(event.version.number)

    def on_applied(self, event: Applied) -> None:
        """A write has arrived."""
        numbers = self._open.get(event.sequencer)
        if numbers is not None:
            numbers.discard(event.delta.number)
        if event.sequencer != event.live:
            self._counts["a zombie's write was applied"] += 1
            self._counts["a scan overlapped a late write"] += event.live in self._scanning

    def on_refused(self, event: WriteRefused) -> None:
        """A write arrived too late."""
        self._counts["a write was refused"] += 1
        self._counts["a zombie's write came late"] += event.live in self._scanned
        self._counts["a scan overlapped a late write"] += event.live in self._scanning

    def on_delivered(self, event: Delivered) -> None:
        """A record reached a process that believes it is the owner."""
        owners = self._owners.get(event.computation, ())
        if any(owner.owner != event.process and owner.interval.contains(event.key) for owner in owners):
            self._counts["a delivery reached a stale owner"] += 1

    def on_minted(self, event: IntervalMinted) -> None:
        """An interval has a new owner."""
        counts, owners = self._counts, self._owners.setdefault(event.computation, [])
        replaced = [owner for owner in owners if owner.interval.overlaps(event.interval)]
        if replaced:
            counts["ownership changed"] += 1
            counts["ownership changed with a write in flight"] += any(
                self._open.get(minted.sequencer) for minted in replaced
            )
            counts["intervals were merged"] += len(replaced) > 1
            counts["an interval was split"] += any(
                minted.interval.high != event.interval.high for minted in replaced
            ) and (len(replaced) == 1)
        counts["a scan was cut short"] += sum(
            self._scanning.pop(minted.sequencer, None) is not None for minted in replaced
        )
        self._owners[event.computation] = [owner for owner in owners if owner not in replaced] + [event]

    def on_scan_begun(self, event: ScanBegun) -> None:
        """A new owner begins its scan."""
        self._scanning[event.sequencer] = event

    def on_scan(self, event: ScanEnded) -> None:
        """The scan has ended."""
        self._scanning.pop(event.sequencer, None)
        self._scanned.add(event.sequencer)
        if event.timers:
            self._counts["a scan found timers"] += 1
        if event.productions:
            self._counts["a scan found checkpointed productions"] += 1

    def on_reported(self, event: Reported) -> None:
        """An owner has reported."""
        self._reported.add(event.sequencer)

    def on_claimed(self, event: RoleClaimed) -> None:
        """A process has claimed a role, perhaps from another; an injector's process has no standby."""
        if event.epoch > 1 and "/" not in event.role:
            self._counts["a standby took over"] += 1
            missing = any(
                owner.sequencer not in self._reported for owners in self._owners.values() for owner in owners
            )
            if missing and event.role.startswith("authority"):
                self._counts["an authority was replaced while an interval was missing"] += 1


class _Versions:
    """Which version of the pipeline is deployed, and which processes know it (3)."""

    def __init__(self, counts: Counter[str]) -> None:
        self._counts = counts
        self._in_force = 0
        self._adopted: dict[str, int] = {}

    def on_adopted(self, event: VersionAdopted) -> None:
        """The store has deployed it, or a process has learned of it."""
        if event.process == STORE:
            self._in_force = event.version
            self._counts["a version was put in force"] += 1
        else:
            self._adopted[event.process] = event.version

    def on_started(self, event: ProcessStarted) -> None:
        """A restarted process knows nothing yet."""
        self._adopted.pop(event.process, None)

    def on_made(self, event: Executed | Injected) -> None:
        """A process produced something, perhaps for the consumers of another version."""
        if event.productions and self._adopted.get(event.process, 0) != self._in_force:
            self._counts["a record was made by a version out of force"] += 1
