"""An owner's memory matches its rows (MillWheel 6.2, 7.1): the property that Figure 12 is about.

Between the end of its recovery scan and the end of the assignment an owner never scans again. It never learns of anything
that enters a row behind its back: a timer does not fire, a production holds no watermark.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from headrace import Clock, format_time
from headrace.history import Acked, Applied, CheckpointsDeleted, Event, Output, ScanBegun, ScanEnded
from headrace.wire.rows import Production, StoredTimer
from headrace_properties.checkers.checker import Handlers, OpenVerdict
from headrace_properties.checkers.ledger import RowWork, WorkLedger
from headrace_properties.checkers.work import receiver_of
from headrace_properties.verdict import Verdict, Violated


@dataclass(slots=True, eq=False)
class _Lost:
    """A timer or production unknown to its owner. ``ended_by``: what ended that; ``replaced``: not by firing it."""

    computation: str
    key: str
    what: StoredTimer | Production
    source: Event
    ended_by: Event | None = None
    replaced: bool = False


@dataclass(slots=True, eq=False)
class _Touched:
    """An owner's changes during its scan: timers by key and tag, productions by id and consumer."""

    process: str
    timers: set[tuple[str, str]] = field(default_factory=set)
    productions: set[tuple[str, str]] = field(default_factory=set)

    def note(self, event: Applied) -> None:
        delta = event.delta
        tags = [*delta.cancelled, *(timer.tag for timer in (*delta.set_timers, *delta.fired))]
        self.timers.update((delta.key, tag) for tag in tags)
        self.productions.update(
            (production.record_id, production.consumer) for production in delta.productions
        )


class SoftStateCheck:
    """S7: for a scanned owner, soft timers and productions are those of the rows.

    Told by two things: what the recovery scan brought, against the rows at that moment; and writes under any other
    sequencer that are applied after it. What the owner itself has touched during an asynchronous scan is left to other
    invariants (a timer that it forgets does not fire, L1): a write of it may be under way.
    """

    name = "S7"
    title = "the owner's memory agrees with the rows"
    section = "6.2, 7.1"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._verdict = OpenVerdict("no recovery scan ended")
        self._scans: dict[int, ScanEnded] = {}
        self._scanning: dict[int, _Touched] = {}
        self._lost: list[_Lost] = []
        self._end = ""
        self.handlers: Handlers = {
            ScanBegun: self._on_scan_begun,
            ScanEnded: self._on_scan,
            Acked: self._on_acked,
            Applied: self._on_applied,
            CheckpointsDeleted: self._on_deleted,
            Output: self._on_output,
        }

    # Finding it

    def _on_scan_begun(self, event: ScanBegun) -> None:
        self._scanning[event.sequencer] = _Touched(event.process)

    def _on_acked(self, event: Acked) -> None:
        for touched in self._scanning.values():
            if touched.process == event.process:
                touched.productions.add((event.record_id, event.consumer))

    def _on_scan(self, event: ScanEnded) -> None:
        ledger = self._ledger
        touched = self._scanning.pop(event.sequencer, _Touched(event.process))
        if not ledger.owns_all(event.computation, event.sequencer, event.interval):
            return  # It has been replaced meanwhile, so what it knows no longer matters.
        self._scans[event.sequencer] = event
        self._verdict.reached += 1
        rows = list(ledger.rows(event.computation, event.interval))
        timers = {(key, tag) for key, row in rows for tag in row.timers} - touched.timers
        checkpoints = {name for _, row in rows for name in row.checkpoints} - touched.productions
        known_timers, known_checkpoints = (
            set(event.timers) - touched.timers,
            set(event.productions) - touched.productions,
        )
        if timers != known_timers or checkpoints != known_checkpoints:
            self._lose_in_scan(
                event, rows, known_timers | touched.timers, known_checkpoints | touched.productions
            )
            phantoms = sorted(known_timers - timers) + sorted(known_checkpoints - checkpoints)
            self._note(event, f"its scan brought {phantoms}, which no row has" if phantoms else "", event)

    def _lose_in_scan(
        self,
        event: ScanEnded,
        rows: Sequence[tuple[str, RowWork]],
        timers: set[tuple[str, str]],
        checkpoints: set[tuple[str, str]],
    ) -> None:
        if self._verdict.violation is not None:
            return
        for key, row in rows:
            for tag, timer in row.timers.items():
                if (key, tag) not in timers and isinstance(timer.what, StoredTimer):
                    self._lost.append(_Lost(event.computation, key, timer.what, timer.source))
            for name, production in row.checkpoints.items():
                if name not in checkpoints:
                    owed = self._ledger.owed.get(production.consumer, {}).get(production.record_id)
                    source = event if owed is None else owed.source
                    self._lost.append(_Lost(event.computation, key, production, source))

    def _on_applied(self, event: Applied) -> None:
        if self._lost:
            self._find_again(event)
        if event.sequencer in self._scanning:
            self._scanning[event.sequencer].note(event)
        owner = self._ledger.owner(event.computation, event.delta.key)
        if not owner or owner == event.sequencer or owner not in self._scans:
            return
        if self._verdict.violation is None:
            delta = event.delta
            added: list[StoredTimer | Production] = [*delta.set_timers, *delta.productions]
            self._lost = [_Lost(event.computation, delta.key, what, event) for what in added]
        scan = self._scans[owner]
        self._note(scan, "" if self._lost else "the row changed behind its back", event)

    def _on_deleted(self, event: CheckpointsDeleted) -> None:
        if event.sequencer in self._scanning:
            names = [(record_id, consumer) for _, record_id, consumer in event.checkpoints]
            self._scanning[event.sequencer].productions.update(names)
        for key, _, _ in event.checkpoints:
            owner = self._ledger.owner(event.computation, key)
            if owner and owner != event.sequencer and owner in self._scans:
                self._note(self._scans[owner], "a checkpoint was deleted behind its back", event)

    def _note(self, scan: ScanEnded, otherwise: str, event: Event) -> None:
        write = ""
        if isinstance(event, Applied | CheckpointsDeleted):
            write = f"; a write under sequencer {event.sequencer} was applied at {format_time(event.at_us)}"
        text = (
            f"{scan.process} (sequencer {scan.sequencer}) had scanned {scan.computation!r} {scan.interval} at"
            f" {format_time(scan.at_us)}{write}" + (f"; {otherwise}" if otherwise else "")
        )
        self._verdict.violated(text, scan) if event is scan else self._verdict.violated(text, scan, event)

    # Its fate

    def _find_again(self, event: Applied) -> None:
        delta = event.delta
        for lost in self._lost:
            what = lost.what
            if lost.ended_by is not None:
                continue
            if isinstance(what, Production):
                if what.consumer == event.computation and any(id_ == what.record_id for id_, _ in delta.seen):
                    lost.ended_by = event
            elif (event.computation, delta.key) == (lost.computation, lost.key):
                tags = [*delta.cancelled, *[timer.tag for timer in delta.set_timers]]
                lost.replaced = what not in delta.fired and what.tag in tags
                if lost.replaced or what in delta.fired:
                    lost.ended_by = event

    def _on_output(self, event: Output) -> None:
        for lost in self._lost:
            if lost.ended_by is None and lost.what == event.production:
                lost.ended_by = event

    def verdict(self) -> Verdict:
        """Return the verdict so far: which timer or production was lost, and for how long."""
        verdict = self._verdict.verdict()
        if not isinstance(verdict, Violated):
            return verdict
        stories = [self._story(lost) for lost in self._lost]
        witness = [*verdict.witness, *[lost.ended_by for lost in self._lost if lost.ended_by is not None]]
        text = ". ".join([*stories[:3], *([f"And {len(stories) - 3} more"] if len(stories) > 3 else [])])
        message = f"{text + ': ' if text else ''}{verdict.message} (MillWheel 6.2, Figure 12)"
        return Violated(message, tuple(_once(witness)))

    def _story(self, lost: _Lost) -> str:
        what, later = lost.what, lost.ended_by
        if isinstance(what, Production):
            name = f"{what.record_id} of {lost.computation!r} to {receiver_of(what)}"
            begin = f"checkpointed production {name} was missed by its owner"
            held = f"held no low watermark back at {format_time(what.timestamp)}"
            if later is None:
                return f"{begin}, was never delivered, and {held}"
            return f"{begin}, {held}, and arrived only {format_time(later.at_us - lost.source.at_us)} later"
        begin = f"timer {what.tag!r} of key {lost.key!r} at {lost.computation!r} was missed by its owner"
        due_us = self._due_us(lost, what)
        if later is not None and lost.replaced:
            return f"{begin}, until it was set anew or cancelled at {format_time(later.at_us)}"
        if due_us is None:
            return f"{begin}; it is not due until {format_time(what.due)}"
        if later is None:
            return f"{begin}: it was due at {format_time(due_us)} and did not fire"
        return f"{begin}: it was due at {format_time(due_us)} and fired only {format_time(later.at_us - due_us)} later"

    def _due_us(self, lost: _Lost, timer: StoredTimer) -> int | None:
        """Return when it should have fired, true wall time."""
        if timer.clock is Clock.WALL:
            return max(timer.due, lost.source.at_us)
        passed_us = self._ledger.passed_at_us(lost.computation, timer.due)
        return None if passed_us is None else max(passed_us, lost.source.at_us)


def _once(events: Iterable[Event]) -> Iterable[Event]:
    """Return each event once, in order."""
    seen: list[Event] = []
    for event in events:
        if not any(event is known for known in seen):
            seen.append(event)
    return seen
