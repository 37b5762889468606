"""Nothing is lost, nothing counts twice, nothing is ACKed too early (MillWheel 3, 5.2, 6.1, 6.2)."""

from collections.abc import Iterator

from headrace import format_time
from headrace.history import (
    AckSent,
    Applied,
    CheckpointsDeleted,
    ComputationRemoved,
    DuplicateDropped,
    Executed,
    RunEnded,
    SourceHeld,
)
from headrace.wire.effects import SourceRecord
from headrace.wire.rows import Production
from headrace_properties.checkers.checker import Handlers, OpenVerdict
from headrace_properties.checkers.ledger import WorkLedger
from headrace_properties.checkers.liveness_due import Calm, left
from headrace_properties.checkers.work import WorkItem
from headrace_properties.verdict import Awaited, AwaitedKind


class NoLoss:
    """S1: when all is at rest, each record that a source held or that was durably produced has been applied at its consumer.

    A computation that leaves the topology must have got all that it was owed (3).
    """

    name = "S1"
    title = "no record is lost"
    section = "5.2, 6.2"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._verdict = OpenVerdict()
        self.verdict = self._verdict.verdict
        self.handlers: Handlers = {RunEnded: self._on_end, ComputationRemoved: self._on_removed}

    def _on_removed(self, event: ComputationRemoved) -> None:
        for work in self._ledger.owed.get(event.computation, {}).values():
            self._verdict.violated(
                f"{event.computation!r} left the topology at {format_time(event.at_us)}, and {work}, there since"
                f" {format_time(work.source.at_us)}, was still to come (MillWheel 3)",
                work.source,
                event,
            )

    def _on_end(self, event: RunEnded) -> None:
        if event.why != "quiescent":
            self._verdict.unreached = "the run did not end at rest (L2 judges that)"
            return
        self._verdict.unreached = "no record was accepted"
        self._verdict.reached = self._ledger.deliveries
        for held in self._ledger.not_injected():
            self._verdict.violated(
                f"{_of_source(held)} is lost: all is at rest and {held.process} never injected it (MillWheel 5.2)",
                held,
                event,
                awaited=_injection(held),
            )
        for work in _unsettled(self._ledger):
            born = format_time(work.source.at_us)
            self._verdict.violated(
                f"{work}, durable since {born}, is lost: all is at rest and it was never applied (MillWheel 6.2)",
                work.source,
                event,
            )


class DeliveriesArrive:
    """L2: once faults have stopped, each delivery is applied and ACKed in bounded time: by the end of the run."""

    name = "L2"
    title = "each delivery arrives"
    section = "6.1.1"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._verdict = OpenVerdict()
        self.verdict = self._verdict.verdict
        self._calm = Calm()
        self.handlers: Handlers = {**self._calm.handlers, RunEnded: self._on_end}

    def _on_end(self, event: RunEnded) -> None:
        if not self._calm.is_due(event, self._ledger, self._verdict):
            return
        self._verdict.unreached = "no record was accepted"
        self._verdict.reached = self._ledger.deliveries
        for held in self._ledger.not_injected():
            self._verdict.violated(
                f"{_of_source(held)} was not injected by {held.process} by the end, {format_time(event.at_us)}"
                f"{left(event, self._ledger)} (MillWheel 5.2)",
                held,
                event,
                awaited=_injection(held),
            )
        stuck = list(_unsettled(self._ledger))
        if stuck:
            oldest = min(stuck, key=lambda work: work.number)
            others = f" (and {len(stuck) - 1} more)" if len(stuck) > 1 else ""
            self._verdict.violated(
                f"{oldest} has waited since {format_time(oldest.source.at_us)} and was not applied by the end,"
                f" {format_time(event.at_us)}{others}{left(event, self._ledger)} (MillWheel 6.1.1)",
                oldest.source,
                event,
                awaited=oldest.awaited(oldest.source.at_us),
            )


def _unsettled(ledger: WorkLedger) -> Iterator[WorkItem]:
    for owed in ledger.owed.values():
        yield from owed.values()


def _injection(held: SourceHeld) -> Awaited:
    assert isinstance(held.what, SourceRecord)
    return Awaited(AwaitedKind.INJECTION, held.process, held.at_us, held.what.key, str(held.what.offset))


def _of_source(held: SourceHeld) -> str:
    """Name a record that was not injected."""
    return f"the source's record at offset {held.what.offset}, there since {format_time(held.at_us)},"


class ComesToRest:
    """L6: once faults have stopped, the run comes to rest; it does not stand still with something left to do.

    What stands still is another invariant's to say if it is a record, a timer, a checkpoint, a watermark or an interval. This one
    is violated whatever it is.
    """

    name = "L6"
    title = "the run comes to rest"
    section = "6.2"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._verdict = OpenVerdict()
        self.verdict = self._verdict.verdict
        self._calm = Calm()
        self.handlers: Handlers = {**self._calm.handlers, RunEnded: self._on_end}

    def _on_end(self, event: RunEnded) -> None:
        is_due = self._calm.is_due(event, self._ledger, self._verdict)
        if event.process and event.why != "quiescent":  # Spark: whoever runs the job ends it, at rest or not
            self._verdict.unreached = (
                f"the run was ended on {event.process!r} before its watermarks were at their end"
            )
            return
        if not is_due:
            return
        self._verdict.reached = 1
        if event.why != "quiescent":
            self._verdict.violated(
                f"the run did not come to rest: it was ended at {format_time(event.at_us)}, after nothing had been done for long"
                f"{left(event, self._ledger)} (MillWheel 6.2)",
                event,
            )


class ExactlyOnce:
    """S2: the effects of a record at a consumer are applied once. Where exactly-once is off, rows keep no ids: S1 has it."""

    name = "S2"
    title = "each record counts once"
    section = "3, 6.2"

    def __init__(self) -> None:
        self._verdict = OpenVerdict("no record was applied with exactly-once on")
        self.verdict = self._verdict.verdict
        self._applied: dict[str, dict[str, Applied]] = {}
        self.handlers: Handlers = {Applied: self._on_applied}

    def _on_applied(self, event: Applied) -> None:
        seen = event.delta.seen
        if not seen:
            return
        applied = self._applied.get(event.computation)
        if applied is None:
            applied = self._applied[event.computation] = {}
        self._verdict.reached += len(seen)
        for record_id, _ in seen:
            before = applied.setdefault(record_id, event)
            if before is not event:
                self._note(record_id, before, event)
        if len(seen) > 1 and len(set(seen)) < len(seen):
            self._verdict.violated(
                f"{_step(event)} claims a record twice: {[id_ for id_, _ in seen]} (MillWheel 3, 6.2)", event
            )

    def _note(self, record_id: str, before: Applied, event: Applied) -> None:
        self._verdict.violated(
            f"record {record_id} was applied twice at {event.computation!r}: by {_step(before)}, and by {_step(event)}"
            " (MillWheel 3, 6.2)",
            before,
            event,
        )


def _step(event: Applied) -> str:
    delta = event.delta
    return f"write {event.sequencer}.{delta.number} of key {delta.key!r} at {format_time(event.at_us)}"


class AckAfterCommit:
    """S3: what is ACKed is durable. Weak: and what it produced is settled, or checkpointed (6.1.3).

    And nobody takes a record for ACKed that is not: a checkpoint is deleted when its consumer is done with the record.
    A weak production that is refused as a remnant may be a zombie's, whose step does not count: it is judged when that is
    applied, if ever.
    """

    name = "S3"
    title = "an ACK means that it is durable"
    section = "6.1.1"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._topology = ledger.topology
        self._verdict = OpenVerdict("nothing was ACKed")
        self.verdict = self._verdict.verdict
        self._remnants: set[tuple[str, str]] = set()
        self.handlers: Handlers = {AckSent: self._on_ack, CheckpointsDeleted: self._on_deleted}
        if self._topology.weak:
            self.handlers = {**self.handlers, Applied: self._on_applied, DuplicateDropped: self._on_dropped}

    def _on_deleted(self, event: CheckpointsDeleted) -> None:
        self._verdict.reached += len(event.checkpoints)
        for key, record_id, consumer in event.checkpoints:
            if self._ledger.is_owed(consumer, record_id) and (consumer, record_id) not in self._remnants:
                self._verdict.violated(
                    f"the checkpoint of {record_id} in key {key!r} at {event.computation!r} was deleted at"
                    f" {format_time(event.at_us)}, and {consumer or 'the outside'!r} had not got the record (MillWheel 6.1.2)",
                    event,
                )

    def _on_dropped(self, event: DuplicateDropped) -> None:
        if event.by == "horizon" and self._ledger.is_weak_id(event.record_id):
            self._remnants.add((event.computation, event.record_id))

    def _on_ack(self, event: AckSent) -> None:
        computation = event.computation
        self._verdict.reached += len(event.record_ids)
        loose = computation in self._topology.at_least_once
        for record_id in event.record_ids:
            if loose:
                self._check_run(event, record_id)
            elif (
                not self._ledger.is_settled(computation, record_id)
                and (computation, record_id) not in self._remnants
            ):
                text = f"{_ack(event, record_id)} before any write with its id was applied (MillWheel 6.1.1)"
                self._verdict.violated(text, event)

    def _check_run(self, event: AckSent, record_id: str) -> None:
        """Without exactly-once: user code has run for it, and its productions are safe."""
        runs = self._ledger.runs_of(event.computation, record_id)
        if not runs:
            self._verdict.violated(
                f"{_ack(event, record_id)} before user code ran for it (MillWheel 6.1.3)", event
            )
            return
        if not any(self._first_unsafe(run) is None for run in runs):
            unsafe = self._first_unsafe(runs[-1])
            assert unsafe is not None
            self._verdict.violated(
                f"{_ack(event, record_id)} while its production {unsafe.record_id} was neither ACKed nor checkpointed"
                " (MillWheel 6.1.3)",
                runs[-1],
                event,
            )

    def _first_unsafe(self, run: Executed) -> Production | None:
        return next(
            (production for production in run.productions if not self._ledger.is_safe(production)), None
        )

    def _on_applied(self, event: Applied) -> None:
        if event.computation not in self._topology.weak:
            return
        for run in self._ledger.runs(event.sequencer, event.delta.number):
            for production in run.productions:
                if production not in event.delta.productions and not self._ledger.is_safe(production):
                    self._verdict.violated(
                        f"{_step(event)} at {event.computation!r} lets its cause {run.cause} be forgotten, while its production"
                        f" {production.record_id} is neither ACKed nor checkpointed (MillWheel 6.1.3)",
                        run,
                        event,
                    )


def _ack(event: AckSent, record_id: str) -> str:
    return f"record {record_id} was ACKed by {event.process} for {event.computation!r} at {format_time(event.at_us)}"
