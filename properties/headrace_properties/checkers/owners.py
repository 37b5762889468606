"""Every key has a working owner (MillWheel 6.2, 7.1)."""

from headrace import KeyInterval, format_time
from headrace.history import (
    FaultStruck,
    IntervalDropped,
    IntervalMinted,
    ProcessStarted,
    RunEnded,
    ScanEnded,
    VersionAdopted,
)
from headrace.wire.keys import cover_same_keys
from headrace.wire.messages import STORE
from headrace_properties.checkers.checker import Handlers, OpenVerdict
from headrace_properties.checkers.ledger import WorkLedger
from headrace_properties.checkers.liveness_due import GRACE_US, Calm
from headrace_properties.verdict import Awaited, AwaitedKind

_STOPS = {"crash": True, "pause": True, "restart": False, "revive": False}
"""Whether a process is stopped after each fault verb."""


class Owned:
    """L5: once faults have stopped, each interval has an owner: minted, up, in its present incarnation, scanned, not dropped.

    And that owner knows which version of the pipeline is in force (3).
    """

    name = "L5"
    title = "every interval has an owner"
    section = "7.1"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._verdict = OpenVerdict()
        self.verdict = self._verdict.verdict
        self._calm = Calm()
        self._working: set[int] = set()
        self._started: dict[str, list[ProcessStarted]] = {}
        self._stopped: dict[str, int] = {}
        self._in_force = VersionAdopted(0, STORE, 0)
        self._adopted: dict[str, int] = {}
        self._scans = 0
        self.handlers: Handlers = {
            **self._calm.handlers,
            ScanEnded: self._on_scan,
            IntervalDropped: self._on_dropped,
            ProcessStarted: self._on_started,
            VersionAdopted: self._on_adopted,
            FaultStruck: self._on_fault,
            RunEnded: self._on_end,
        }

    def _on_scan(self, event: ScanEnded) -> None:
        self._working.add(event.sequencer)
        self._scans += 1

    def _on_dropped(self, event: IntervalDropped) -> None:
        self._working.discard(event.sequencer)

    def _on_started(self, event: ProcessStarted) -> None:
        self._started.setdefault(event.process, []).append(event)
        self._adopted.pop(event.process, None)

    def _on_adopted(self, event: VersionAdopted) -> None:
        if event.process == STORE:
            self._in_force = event
        else:
            self._adopted[event.process] = event.version

    def _on_fault(self, event: FaultStruck) -> None:
        self._calm.handlers[FaultStruck](event)
        stops = _STOPS.get(event.kind)
        if stops is True:
            self._stopped[event.process] = event.at_us
        elif stops is False:
            self._stopped.pop(event.process, None)

    def _on_end(self, event: RunEnded) -> None:
        if not self._calm.is_due(event, self._ledger, self._verdict):
            return
        self._verdict.unreached = "this host has no recovery scans"
        if not self._scans:
            return
        for name in self._ledger.topology.computations:
            live = self._ledger.live_mints(name)
            if live and self._ledger.is_present(name):
                self._check(event, name, live)

    def _check(self, event: RunEnded, name: str, live: list[IntervalMinted]) -> None:
        self._verdict.reached += len(live)
        if not cover_same_keys([minted.interval for minted in live], [KeyInterval()]):
            intervals = ", ".join(str(minted.interval) for minted in live)
            self._verdict.violated(
                f"only {intervals} of {name!r} have an owner (MillWheel 7.1)",
                *live,
                event,
                awaited=Awaited(AwaitedKind.INTERVAL, name, live[-1].at_us, name=intervals),
            )
        for mint in live:
            problem = self._problem(mint, event.at_us - GRACE_US)
            if problem:
                self._verdict.violated(
                    f"{name!r} {mint.interval} has had nobody to work on it since {format_time(mint.at_us)}: its owner"
                    f" {mint.owner} (sequencer {mint.sequencer}) {problem} (MillWheel 7.1)",
                    mint,
                    event,
                    awaited=Awaited(
                        AwaitedKind.INTERVAL, name, mint.at_us, mint.interval.low, str(mint.interval)
                    ),
                )

    def _problem(self, mint: IntervalMinted, until_us: int) -> str:
        """Return what has been wrong with an owner for longer than the grace period; ``""``: nothing."""
        if mint.at_us > until_us:
            return ""
        if mint.sequencer not in self._working:
            return "has not scanned it, or dropped it"
        if self._stopped.get(mint.owner, until_us + 1) <= until_us:
            return "has stopped"
        successors = [
            started for started in self._started.get(mint.owner, ()) if started.incarnation > mint.incarnation
        ]
        if successors and successors[0].at_us <= until_us:
            return "has begun anew without it"
        version = self._in_force.version
        if self._in_force.at_us <= until_us and self._adopted.get(mint.owner, 0) != version:
            return f"does not know that version {version} of the pipeline is in force"
        return ""
