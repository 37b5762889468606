"""Which hard cases a run has reached: the `sometimes` twins of the invariants.

A search that never reached a case says nothing of it, however green it is.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from millrace.history import (
    Applied,
    Checkpointed,
    ComputationRemoved,
    DeadLettered,
    DuplicateDropped,
    Event,
    Executed,
    IdsCollected,
    IntervalMinted,
    ProcessStarted,
    Resent,
    RoleClaimed,
    ScanEnded,
    UserCodeFailed,
    WriteRefused,
)

CASES = (
    "a delivery was re-sent",
    "a duplicate arrived",
    "a duplicate came behind the horizon",
    "a record was late",
    "a step took several records or timers",
    "a timer was set",
    "a timer was cancelled",
    "a timer fired",
    "a state held the watermark",
    "a straggler was checkpointed",
    "ownership changed",
    "ownership changed with a write in flight",
    "a scan found timers",
    "a scan found checkpointed productions",
    "a write was refused",
    "a zombie's write came late",
    "a zombie's write was applied",
    "an id was collected",
    "user code failed",
    "a record went to the dead letters",
    "a process restarted",
    "a standby took over",
    "a computation was removed",
)
"""All that `reached` counts."""


def reached(history: Iterable[Event]) -> dict[str, int]:
    """Count how often each hard case came up. Add them up over runs; what stays 0 was not tested."""
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
        self._owners: dict[str, list[IntervalMinted]] = {}
        self._open: dict[int, set[int]] = {}
        self._scanned: set[int] = set()
        self.handlers: dict[type, Callable[[Any], None]] = {
            Applied: self._on_applied,
            Checkpointed: self._counts("a straggler was checkpointed"),
            ComputationRemoved: self._counts("a computation was removed"),
            DeadLettered: self._counts("a record went to the dead letters"),
            DuplicateDropped: self._on_duplicate,
            Executed: self._on_executed,
            IdsCollected: self._counts("an id was collected"),
            IntervalMinted: self._on_minted,
            ProcessStarted: self._on_started,
            Resent: self._counts("a delivery was re-sent"),
            RoleClaimed: self._on_claimed,
            ScanEnded: self._on_scan,
            UserCodeFailed: self._counts("user code failed"),
            WriteRefused: self._on_refused,
        }

    def _counts(self, case: str) -> Callable[[Any], None]:
        def count(_event: Any) -> None:
            self.counts[case] += 1

        return count

    def _on_applied(self, event: Applied) -> None:
        delta, counts = event.delta, self.counts
        numbers = self._open.get(event.sequencer)
        if numbers is not None:
            numbers.discard(delta.number)
        if delta.set_timers:
            counts["a timer was set"] += len(delta.set_timers)
        if delta.cancelled:
            counts["a timer was cancelled"] += len(delta.cancelled)
        if delta.fired:
            counts["a timer fired"] += len(delta.fired)
        if delta.hold is not None:
            counts["a state held the watermark"] += 1
        if len(delta.seen) + len(delta.fired) > 1:
            counts["a step took several records or timers"] += 1
        if event.sequencer != event.live:
            counts["a zombie's write was applied"] += 1

    def _on_executed(self, event: Executed) -> None:
        version = event.version
        numbers = self._open.get(version.sequencer)
        if numbers is None:
            numbers = self._open[version.sequencer] = set()
        numbers.add(version.number)
        if event.late:
            self.counts["a record was late"] += 1

    def _on_duplicate(self, event: DuplicateDropped) -> None:
        self.counts["a duplicate arrived"] += 1
        if event.by == "horizon":
            self.counts["a duplicate came behind the horizon"] += 1

    def _on_minted(self, event: IntervalMinted) -> None:
        owners = self._owners.setdefault(event.computation, [])
        replaced = [one for one in owners if one.interval.overlaps(event.interval)]
        if replaced:
            self.counts["ownership changed"] += 1
        if any(self._open.get(one.sequencer) for one in replaced):
            self.counts["ownership changed with a write in flight"] += 1
        self._owners[event.computation] = [one for one in owners if one not in replaced] + [event]

    def _on_scan(self, event: ScanEnded) -> None:
        self._scanned.add(event.sequencer)
        if event.timers:
            self.counts["a scan found timers"] += 1
        if event.productions:
            self.counts["a scan found checkpointed productions"] += 1

    def _on_refused(self, event: WriteRefused) -> None:
        self.counts["a write was refused"] += 1
        if event.live in self._scanned:
            self.counts["a zombie's write came late"] += 1

    def _on_started(self, event: ProcessStarted) -> None:
        if event.incarnation > 1:
            self.counts["a process restarted"] += 1

    def _on_claimed(self, event: RoleClaimed) -> None:
        if event.epoch > 1:
            self.counts["a standby took over"] += 1
