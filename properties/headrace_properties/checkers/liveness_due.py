"""When liveness is due: at the end of a run whose faults have stopped."""

from collections import Counter

from headrace import SECOND, format_time
from headrace.history import FaultStruck, Healed, RunEnded
from headrace_properties.checkers.checker import Handlers, OpenVerdict
from headrace_properties.checkers.ledger import WorkLedger

_DELAYED = ("noise_delay", "noise_duplicate", "delay_message", "duplicate_message")

GRACE_US = 5 * SECOND
"""How long what is due may take when a run ends by its deadline, microseconds: who knows of an ACK may die, and be told again."""
SETTLE_US = SECOND
"""The same if the run ends at rest."""

UNFAIR = "the run ended by its deadline while faults still struck; heal first"


class Calm:
    """Tracks whether the faults have stopped.

    Attributes:
        since_us: when they stopped, true time; 0: there were none, or they have not.
        delayed: whether messages that a fault kept back or sent twice may still arrive.
        handlers: the events that it wants.
    """

    def __init__(self) -> None:
        self._struck = False
        self.since_us = 0
        self.delayed = False
        self.handlers: Handlers = {FaultStruck: self._on_fault, Healed: self._on_healed}

    def _on_fault(self, event: FaultStruck) -> None:
        self._struck = True
        self.delayed |= event.kind in _DELAYED

    def _on_healed(self, event: Healed) -> None:
        self._struck = False
        self.since_us = event.at_us

    def lasts(self, for_us: int, at_us: int) -> bool:
        """Return whether no fault has struck, or all ended long enough ago. ``at_us``: now, true time."""
        return not self._struck and (not self.since_us or self.since_us + for_us <= at_us)

    def is_due(self, end: RunEnded, ledger: WorkLedger, open_verdict: OpenVerdict) -> bool:
        """Return whether liveness can be judged. ``open_verdict``: the caller's finding, which says why if not."""
        if end.why == "limit":
            when, rest = format_time(end.at_us), left(end, ledger)
            open_verdict.cut_short = (
                f"the run was ended at its limit, {when}, while it still made progress{rest}"
            )
            return False
        if self._struck and end.why != "quiescent":
            open_verdict.unreached = UNFAIR
            return False
        return True


def left(end: RunEnded, ledger: WorkLedger) -> str:
    """Describe the work left at the end of a run that did not come to rest, to end a sentence; ``""``: none.

    Liveness is violated only if none of it was done for a long time: the remaining work shows where to look.
    """
    if end.why == "quiescent":
        return ""
    held = [(len(source.owed), address) for address, source in ledger.sources.items() if source.owed]
    records = [(len(owed), consumer) for consumer, owed in ledger.owed.items() if owed]
    timers = Counter(work.sender for work in ledger.timers())
    parts = [
        *[f"{_count(number, 'record')} in the source of {address}" for number, address in held],
        *[
            f"{_count(number, 'record')} for {repr(name) if name else 'the outside'}"
            for number, name in records
        ],
        *[f"{_count(number, 'timer')} of {name!r}" for name, number in timers.items()],
    ]
    return f"; left: {', '.join(parts)}" if parts else ""


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"
