"""Ids and checkpoints are deleted once nobody needs them, and not before (MillWheel 6.1.1, 6.1.2)."""

from headrace import MIN_TIME, EngineOptions, format_time
from headrace.history import (
    CheckpointsDeleted,
    Event,
    Executed,
    FaultStruck,
    IdsCollected,
    Injected,
    InjectorReported,
    Published,
    Resent,
    RunEnded,
    ScanEnded,
)
from headrace.wire.messages import STORE
from headrace_properties.checkers.checker import Handlers, OpenVerdict
from headrace_properties.checkers.ledger import WorkLedger
from headrace_properties.checkers.liveness_due import GRACE_US, SETTLE_US, Calm
from headrace_properties.verdict import Awaited, AwaitedKind


class CollectedAreDone:
    """S13: when an id is collected nobody will send it again, and no copy of it counts later.

    Choice: nobody can know of a copy on the network; it must be refused (see the horizon in docs/protocol.md). So that is
    asked for: all work upstream with such an origin is done, the injectors are past it by the slack and never send it again, and
    no owner runs it again. A host whose injectors report no horizon has other means, and is not held to theirs.

    Args:
        ledger: the truth.
        options: of the engine; ``None``: not known, and the slack is taken for 0.
    """

    name = "S13"
    title = "an id is collected when nobody can send it again"
    section = "6.1.1"

    def __init__(self, ledger: WorkLedger, options: EngineOptions | None) -> None:
        self._ledger = ledger
        self._slack_us = 0 if options is None else options.id_slack_us
        self._verdict = OpenVerdict("no id was collected")
        self.verdict = self._verdict.verdict
        self._collected: dict[str, dict[str, IdsCollected]] = {}
        self._horizons: dict[str, int] = {}
        self.handlers: Handlers = {
            IdsCollected: self._on_collected,
            InjectorReported: self._on_report,
            Injected: self._on_injected,
            Resent: self._on_resent,
            Executed: self._on_executed,
        }

    def _on_report(self, event: InjectorReported) -> None:
        if event.horizon > self._horizons.get(event.process, MIN_TIME):
            self._horizons[event.process] = event.horizon

    def _on_collected(self, event: IdsCollected) -> None:
        self._verdict.reached += event.count
        ledger, name = self._ledger, event.computation
        ids = ledger.ids_before(name, event.interval, event.below)
        if self._horizons and len(ids) != event.count:
            self._broken(event, f"{event.count} ids were deleted, and {len(ids)} lay before it")
        self._collected.setdefault(name, {}).update(dict.fromkeys(ids, event))
        for address in ledger.topology.sources.get(name, ()) if self._horizons else ():
            if self._horizons.get(address, MIN_TIME) < event.below + self._slack_us:
                self._broken(event, f"injector {address} was not past it by the slack")
        for sender in ledger.topology.upstream.get(name, ())[1:]:
            if ledger.work.oldest_origin(sender) < event.below:
                work = ledger.work.before_origin(sender, event.below)[0]
                self._broken(
                    event, f"{work}, with origin {format_time(work.origin)}, was unfinished", work.source
                )

    def _broken(self, event: IdsCollected, what: str, *others: Event) -> None:
        self._verdict.violated(
            f"ids of {event.computation!r} with an origin before {format_time(event.below)} were collected at"
            f" {format_time(event.at_us)}, and {what} (MillWheel 6.1.1)",
            *others,
            event,
        )

    def _on_injected(self, event: Injected) -> None:
        for production in event.productions:
            self._accuse(event, production.consumer, production.record_id)

    def _on_resent(self, event: Resent) -> None:
        if event.process.partition("/")[0] in self._ledger.topology.injectors:
            self._accuse(event, event.consumer, event.record_id)

    def _on_executed(self, event: Executed) -> None:
        if event.computation in self._collected and event.timer is None:
            owner = self._ledger.owner(event.computation, event.key)
            if owner == event.version.sequencer:
                self._accuse(event, event.computation, event.cause)

    def _accuse(self, event: Injected | Resent | Executed, consumer: str, record_id: str) -> None:
        collected = self._collected.get(consumer, {}).get(record_id)
        if collected is not None:
            what = "run" if isinstance(event, Executed) else "sent"
            self._verdict.violated(
                f"record {record_id} for {consumer!r} was {what} again by {event.process} at {format_time(event.at_us)}; its id"
                f" had been collected at {format_time(collected.at_us)} (MillWheel 6.1.1)",
                collected,
                event,
            )


class Drained:
    """L3: once faults have stopped, checkpoints that have arrived are deleted, and ids behind the horizon collected.

    Choice: most runs come to rest soon after the heal, so that ids are judged by their owner's own calm: the time since it got
    the keys, and since a fault last struck it or the store.

    Args:
        ledger: the truth.
        options: of the engine, for its slack and periods; ``None``: the default.
    """

    name = "L3"
    title = "checkpoints and record ids drain"
    section = "6.1.1, 6.1.2"

    def __init__(self, ledger: WorkLedger, options: EngineOptions | None) -> None:
        self._ledger = ledger
        options = options or EngineOptions()
        self._slack_us, self._period_us = options.id_slack_us, options.collect_period_us
        self._verdict = OpenVerdict()
        self.verdict = self._verdict.verdict
        self._calm = Calm()
        self._rises: dict[str, list[tuple[int, int]]] = {}
        self._struck: dict[str, int] = {}
        self._scanned: dict[int, int] = {}
        self._drained = 0
        self.handlers: Handlers = {
            **self._calm.handlers,
            FaultStruck: self._on_fault,
            Published: self._on_published,
            CheckpointsDeleted: self._on_deleted,
            IdsCollected: self._on_collected,
            ScanEnded: self._on_scan,
            RunEnded: self._on_end,
        }

    def _on_scan(self, event: ScanEnded) -> None:
        self._scanned[event.sequencer] = event.at_us

    def _on_fault(self, event: FaultStruck) -> None:
        self._calm.handlers[FaultStruck](event)
        self._struck[event.process] = event.at_us

    def _on_published(self, event: Published) -> None:
        for name, progress in event.values:
            if progress.horizon > MIN_TIME:
                rises = self._rises.setdefault(name, [])
                if not rises or progress.horizon > rises[-1][1]:
                    rises.append((event.at_us, progress.horizon))

    def _on_deleted(self, event: CheckpointsDeleted) -> None:
        self._drained += len(event.checkpoints)

    def _on_collected(self, event: IdsCollected) -> None:
        self._drained += event.count

    def _on_end(self, event: RunEnded) -> None:
        if not self._calm.is_due(event, self._ledger, self._verdict):
            return
        self._verdict.unreached = "nothing was to be deleted"
        self._verdict.reached = self._drained
        self._check_checkpoints(event)
        for name in self._ledger.topology.computations:
            if self._ledger.is_present(name):
                self._check_ids(event, name)

    def _check_checkpoints(self, event: RunEnded) -> None:
        grace_us = SETTLE_US if event.why == "quiescent" else GRACE_US
        for computation, key, production in self._ledger.checkpoints():
            since_us = self._ledger.settled_at_us(production.consumer, production.record_id)
            if since_us is not None and event.at_us - max(since_us, self._calm.since_us) >= grace_us:
                self._verdict.violated(
                    f"the checkpoint of {production.record_id} in key {key!r} at {computation!r} is still there at the end,"
                    f" {format_time(event.at_us)}; the record arrived at {format_time(since_us)} (MillWheel 6.1.2)",
                    event,
                    awaited=Awaited(
                        AwaitedKind.CHECKPOINT,
                        computation,
                        since_us,
                        key,
                        production.record_id,
                        production.consumer,
                    ),
                )

    def _check_ids(self, event: RunEnded, name: str) -> None:
        """Check the ids that fell behind the input horizon long enough ago."""
        until_us = event.at_us - GRACE_US - self._period_us
        senders = self._ledger.topology.senders[name]
        horizon = min((self._horizon_at(sender, until_us) for sender in senders), default=MIN_TIME)
        for record_id, (key, origin, at_us) in self._ledger.ids.get(name, {}).items():
            overdue = origin + self._slack_us < horizon and at_us <= until_us
            if overdue and self._could_collect(name, key, until_us):
                self._verdict.violated(
                    f"id {record_id} is still in a row of {name!r} at the end, {format_time(event.at_us)}; its origin,"
                    f" {format_time(origin)}, has long been behind the horizon, {format_time(horizon)} (MillWheel 6.1.1)",
                    event,
                    awaited=Awaited(AwaitedKind.ID, name, at_us, key, record_id),
                )
                return

    def _could_collect(self, name: str, key: str, until_us: int) -> bool:
        """Return whether a key's owner has had it ever since, row and all, and neither owner nor store was struck."""
        owners = [mint for mint in self._ledger.live_mints(name) if mint.interval.contains(key)]
        strikes = [self._struck.get(process, 0) for process in (STORE, *(mint.owner for mint in owners))]
        scans = [self._scanned.get(mint.sequencer, mint.at_us) for mint in owners]
        return all(at_us <= until_us for at_us in (*strikes, *scans))

    def _horizon_at(self, sender: str, until_us: int) -> int:
        rises = self._rises.get(sender, ())
        return next((horizon for at_us, horizon in reversed(rises) if at_us <= until_us), MIN_TIME)
