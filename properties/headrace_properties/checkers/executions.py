"""What user code runs for and may produce: one step of a key at a time, nothing older than its cause (4.2, 4.5)."""

from headrace import MIN_TIME, KeyInterval, format_time
from headrace.history import Applied, Executed, Injected, IntervalMinted
from headrace.wire.rows import StoredTimer
from headrace_properties.checkers.checker import Handlers, OpenVerdict
from headrace_properties.checkers.ledger import WorkLedger


class OneAtATime:
    """S14: steps of a key do not overlap, and each runs for its own key, at an owner of it.

    A step lasts from user code to the answer of its write. Without exactly-once it may need no write; then only a write that
    comes after a later step has run shows that the two overlapped. A zombie's steps may overlap its successor's.
    """

    name = "S14"
    title = "steps of a key do not overlap"
    section = "4.1, 4.2"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._loose = ledger.topology.loose
        self._verdict = OpenVerdict("no user code ran")
        self.verdict = self._verdict.verdict
        self._intervals: dict[int, KeyInterval] = {}
        self._open: dict[tuple[int, str], Executed] = {}
        self.handlers: Handlers = {
            IntervalMinted: self._on_minted,
            Executed: self._on_executed,
            Applied: self._on_applied,
        }

    def _on_minted(self, event: IntervalMinted) -> None:
        self._intervals[event.sequencer] = event.interval

    def _on_executed(self, event: Executed) -> None:
        self._verdict.reached += 1
        version, key = event.version, event.key
        interval = self._intervals.get(version.sequencer)
        if interval is not None and not interval.contains(key):
            self._verdict.violated(f"{_run(event)} under a sequencer of {interval} (MillWheel 4.2)", event)
        slot = (version.sequencer, key)
        before = self._open.get(slot)
        self._open[slot] = event
        if event.computation in self._loose:
            return
        if before is not None and before.version.number != version.number:
            self._overlap(before, event)
        if event.timer is None:
            self._check_key(event)

    def _check_key(self, event: Executed) -> None:
        """Check that the record was addressed to this key."""
        work = self._ledger.owed.get(event.computation, {}).get(event.cause)
        if work is not None and work.key != event.key and not self._ledger.is_weak_id(event.cause):
            text = f"{_run(event)}, and that record is for key {work.key!r} (MillWheel 4.2)"
            self._verdict.violated(text, work.source, event)

    def _on_applied(self, event: Applied) -> None:
        slot = (event.sequencer, event.delta.key)
        run = self._open.get(slot)
        if run is None:
            return
        if run.version.number > event.delta.number:
            self._overlap(event, run)
        else:
            del self._open[slot]

    def _overlap(self, first: Executed | Applied, second: Executed) -> None:
        number = first.version.number if isinstance(first, Executed) else first.delta.number
        self._verdict.violated(
            f"{_run(second)}, while the step {second.version.sequencer}.{number} before it was not written yet (MillWheel 4.2)",
            first,
            second,
        )


class NotBeforeCause:
    """S15: a production's timestamp is at least that of the record or timer that caused it.

    A wall timer's time is no event time; it has its hold for one, if it has any.
    """

    name = "S15"
    title = "no output is older than its cause"
    section = "4.5"

    def __init__(self) -> None:
        self._verdict = OpenVerdict("nothing was produced")
        self.verdict = self._verdict.verdict
        self.handlers: Handlers = {Executed: self._on_executed}

    def _on_executed(self, event: Executed) -> None:
        productions = event.productions
        if not productions:
            return
        least = event.timestamp
        if event.timer is not None:
            least = MIN_TIME if event.timer.held is None else event.timer.held
        self._verdict.reached += len(productions)
        for production in productions:
            if production.timestamp < least:
                self._verdict.violated(
                    f"{_run(event)}, whose time is {format_time(least)}, and produced {production.record_id} at"
                    f" {format_time(production.timestamp)} (MillWheel 4.5)",
                    event,
                )


class LateOnlyFromLate:
    """S16: what the source gave in time, and all that stems from it, is in time wherever it is counted.

    Followed from cause to cause. What may make something late on the way: a late record; a timer that was set at or before the
    watermark, or on wall time without a hold. Left out: percentile watermarks, which make records late by design (7.2); what
    may run twice, as the second run can come after all is done; runs whose topology changes, as who joins is behind.
    """

    name = "S16"
    title = "no record is late that the source gave in time"
    section = "4.5"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        topology = ledger.topology
        self._excused = topology.loose | topology.percentile
        self._verdict = OpenVerdict("no record that was in time met a watermark")
        self.verdict = self._verdict.verdict
        self._late: set[str] = set()
        self._late_versions: set[tuple[int, int]] = set()
        self.handlers: Handlers = {}
        if not topology.changes:
            self.handlers = {Injected: self._on_injected, Executed: self._on_executed}

    def _on_injected(self, event: Injected) -> None:
        for production in event.productions:
            if production.timestamp < event.source_watermark:
                self._late.add(production.record_id)

    def _on_executed(self, event: Executed) -> None:
        timer = event.timer
        excused = event.cause in self._late if timer is None else self._is_excused(timer)
        if excused or event.computation in self._excused:
            self._excuse(event)
        elif timer is None and event.input_watermark > MIN_TIME:
            self._verdict.reached += 1
            if event.late:
                self._accuse(event)

    def _is_excused(self, timer: StoredTimer) -> bool:
        set_by = timer.set_by
        return timer.overdue or timer.held is None or (set_by.sequencer, set_by.number) in self._late_versions

    def _excuse(self, event: Executed) -> None:
        self._late_versions.add((event.version.sequencer, event.version.number))
        self._late.update([production.record_id for production in event.productions])

    def _accuse(self, event: Executed) -> None:
        if self._ledger.owner(event.computation, event.key) != event.version.sequencer:
            return  # a zombie's run does not count
        work = self._ledger.owed.get(event.computation, {}).get(event.cause)
        source = [] if work is None else [work.source]
        text = (
            f"{_run(event)}, with timestamp {format_time(event.timestamp)} when the input watermark was"
            f" {format_time(event.input_watermark)}: late, and nothing that led to it was (MillWheel 4.5)"
        )
        self._verdict.violated(text, *source, event)


def _run(event: Executed) -> str:
    what = "timer" if event.timer is not None else "record"
    return (
        f"user code of {event.computation!r} ran for {what} {event.cause} and key {event.key!r} at"
        f" {format_time(event.at_us)} on {event.process}"
    )
