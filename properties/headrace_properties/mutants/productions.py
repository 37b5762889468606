"""Mutants of productions: checkpoints, strong and weak (MillWheel 6.1.2, 6.1.3)."""

from typing import ClassVar

import msgspec

from headrace.api.computation import Context
from headrace.wire import messages as m
from headrace.wire.effects import Send
from headrace.wire.rows import Production, RowDelta, RowImage
from headrace.worker.commits import Commits
from headrace.worker.execution import productions_of
from headrace.worker.interval import OwnedInterval
from headrace.worker.recovery import Recovery
from headrace.worker.step import Holder, Step, StepInput, StepState
from headrace.worker.stepping import StepRunner
from headrace_properties.mutants.mutant import Mutant, Parts, Probe


class SendsBeforeCheckpoint(Commits):
    """Sends strong productions when user code has run, before they are durable."""

    probe: ClassVar[Probe]

    def complete(self, step: Step) -> None:
        """The step is to be committed: send what it made."""
        super().complete(step)
        shared = self._shared
        for production in step.checkpoints:
            owner = shared.routing.owner(production.consumer, production.key)
            if owner is not None:
                self.probe.note()
                shared.effects.append(Send(owner, m.Deliver(production, shared.address)))


class StepWithoutCheckpoints(Step, eq=False):
    """A step whose write has no productions."""

    probe: ClassVar[Probe]

    def delta(self, *, remember: bool) -> RowDelta:
        """All of it but the checkpoints."""
        if self.checkpoints:
            self.probe.note()
        return msgspec.structs.replace(super().delta(remember=remember), productions=())


class CheckpointsInNextWrite(Commits):
    """Writes the checkpoints of a step by a write of their own, once the step is durable."""

    probe: ClassVar[Probe]

    def _finish(self, now: int, steps: list[Step]) -> None:
        interval, store = self._interval, self._shared.store
        super()._finish(now, steps)
        for step in steps:
            if step.checkpoints:
                number = self._runner._next_number
                self._runner._next_number += 1
                delta = RowDelta(step.slot.key, number, productions=step.checkpoints)
                write = m.Write(store.number(), interval.computation, interval.sequencer, (delta,))
                store.ask(now, write, lambda _now, _reply: None, interval)


class RecoveryWithoutCheckpoints(Recovery):
    """Restores everything but the checkpointed productions."""

    probe: ClassVar[Probe]

    def _restore(self, now: int, image: RowImage) -> None:
        if image.productions:
            self.probe.note()
        super()._restore(now, msgspec.structs.replace(image, productions=()))


class RecoveryRenames(Recovery):
    """Sends checkpointed productions again under other ids."""

    probe: ClassVar[Probe]

    def _restore(self, now: int, image: RowImage) -> None:
        renamed = tuple(map(self._renamed, image.productions))
        super()._restore(now, msgspec.structs.replace(image, productions=renamed))

    def _renamed(self, production: Production) -> Production:
        self.probe.note()
        return msgspec.structs.replace(
            production, record_id=f"{production.record_id}~{self._interval.sequencer}"
        )


class DeletedWhenSent(OwnedInterval):
    """Deletes a checkpoint when it is sent, rather than when it is ACKed."""

    probe: ClassVar[Probe]

    def send(self, now: int, production: Production, holder: Holder) -> None:
        """Send it, and forget that it was checkpointed."""
        super().send(now, production, holder)
        if holder.durable:
            self.probe.note()
            self.commits.delete(now, holder.slot.key, production)


class NeverDeletes(Commits):
    """Leaves a checkpoint in its row when it has been ACKed."""

    probe: ClassVar[Probe]

    def delete(self, now: int, key: str, production: Production) -> None:
        """Forget it in memory only."""
        del now, key, production
        self.probe.note()


class DeletedByOwnDelivery(OwnedInterval):
    """Deletes all checkpoints of a key when one of them is ACKed."""

    probe: ClassVar[Probe]

    def acked(self, now: int, holder: Holder, production: Production) -> None:
        """All of the key's have arrived, or so it believes."""
        super().acked(now, holder, production)
        for pending in self._shared.outbox:
            other = pending.holder
            if other.interval is self and other.slot is holder.slot and other.durable:
                self.probe.note()
                self.commits.delete(now, other.slot.key, pending.production)


class WeakAckedTooEarly(Commits):
    """Commits a weak step, and so ACKs its causes, without waiting for the ACKs of what it sent."""

    probe: ClassVar[Probe]

    def _send_first(self, now: int, step: Step) -> None:
        super()._send_first(now, step)
        if step.state is StepState.AWAITING_ACKS:
            self.probe.note()
            step.advance(StepInput.COMPLETE)
            self._committable.append(step)


class StragglersNotCheckpointed(Commits):
    """Gives up waiting for a straggler, and does not checkpoint it either."""

    probe: ClassVar[Probe]

    def _checkpoint_stragglers(self, now: int) -> None:
        super()._checkpoint_stragglers(now)
        for step in self._committable:
            if step.checkpoints:
                self.probe.note()
                step.checkpoints = ()


class WeakIdsByVersion(StepRunner):
    """Names weak productions by the version of the write, which a re-run does not reproduce."""

    probe: ClassVar[Probe]

    def _productions(
        self, step: Step, version: object, context: Context, _identity: str, origin: int
    ) -> tuple[Production, ...]:
        where = self._interval.where
        self.probe.note()
        prefix = f"{where.spec.name}@{version}"
        return tuple(productions_of(where, context.emissions or (), prefix, step.emitted, origin))


class StrongIdsByCause(StepRunner):
    """Gives all productions of a step of several records the same ordinals."""

    probe: ClassVar[Probe]

    def _productions(
        self, step: Step, version: object, context: Context, _identity: str, origin: int
    ) -> tuple[Production, ...]:
        where = self._interval.where
        if step.emitted:
            self.probe.note()
        return tuple(
            productions_of(where, context.emissions or (), f"{where.spec.name}@{version}", 0, origin)
        )


MUTANTS = (
    Mutant(
        "send before checkpoint", ("reference", "S5"), "6.1.2",
        "a strong production is sent before it is durable, and another run of its cause makes another one",
        Parts(commits=SendsBeforeCheckpoint), "echoes",
    ),
    Mutant(
        "checkpoint outside the state's write", ("S4",), "6.1.2",
        "productions are checkpointed after the state, by a write of their own",
        Parts(commits=CheckpointsInNextWrite, step=StepWithoutCheckpoints), "echoes",
    ),
    Mutant(
        "productions not checkpointed", ("S4",), "6.1.2",
        "strong productions are kept in memory until they are ACKed, and not in the row",
        Parts(step=StepWithoutCheckpoints), "echoes",
    ),
    Mutant(
        "checkpoints not replayed", ("S7", "S1"), "6.1.2, 6.2",
        "a new owner does not restore checkpointed productions, and never sends them", Parts(recovery=RecoveryWithoutCheckpoints),
        "echoes",
    ),
    Mutant(
        "checkpoints replayed under new ids", ("S7", "S1"), "6.1.2",
        "a new owner sends checkpointed productions under other ids", Parts(recovery=RecoveryRenames), "echoes",
    ),
    Mutant(
        "checkpoints deleted when sent", ("S3",), "6.1.2",
        "a checkpoint is deleted when it is sent, and not when it is ACKed", Parts(interval=DeletedWhenSent), "echoes",
    ),
    Mutant(
        "checkpoints never deleted", ("L3",), "6.1.2",
        "checkpoints that were ACKed stay in the row", Parts(commits=NeverDeletes), "echoes",
    ),
    Mutant(
        "checkpoints deleted by another's ACK", ("S3",), "6.1.2",
        "the ACK of one production lets all checkpoints of its key be deleted", Parts(interval=DeletedByOwnDelivery), "forked",
    ),
    Mutant(
        "one id for two productions", ("S5", "error"), "6.1.1",
        "records that share a write number their productions from 0, each by itself", Parts(runner=StrongIdsByCause), "bursts",
    ),
    Mutant(
        "weak upstream ACKed too early", ("S3",), "6.1.3",
        "a weak step commits and ACKs its causes before what it sent is ACKed", Parts(commits=WeakAckedTooEarly), "weak windows",
    ),
    Mutant(
        "stragglers ACKed without a checkpoint", ("S3",), "6.1.3",
        "a weak step whose production straggles is ACKed upstream without checkpointing it",
        Parts(commits=StragglersNotCheckpointed), "stragglers",
    ),
    Mutant(
        "weak ids by version", ("S5", "reference"), "6.1.3",
        "ids of weak productions differ when their cause is run again", Parts(runner=WeakIdsByVersion), "weak echoes",
    ),
)  # fmt: skip
"""All of this file."""
