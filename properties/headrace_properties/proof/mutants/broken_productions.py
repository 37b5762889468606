"""Mutants of productions: checkpoints, strong and weak (MillWheel 6.1.2, 6.1.3)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from headrace.rules import Act, Rules
from headrace.wire.rows import Production, RowImage, Version
from headrace.worker.commits import Commits
from headrace.worker.interval import OwnedInterval
from headrace.worker.step import Holder, KeyStep
from headrace_properties.proof.mutants.mutant import InNextWrite, Mutant, Parts, Probe, answering, leaving_out


class SendsBeforeCheckpoint(Rules):
    """Sends strong productions when user code has run, before they are durable."""

    def order(self, strong: bool) -> tuple[Act, ...]:
        """Send first."""
        return (Act.RUN, Act.SEND, Act.COMMIT, Act.ACK) if strong else super().order(strong)


class RecoversUnderNewIds(Rules):
    """Sends checkpointed productions again under other ids."""

    def recovered(self, image: RowImage) -> RowImage:
        """Rename the checkpoints."""
        renamed = tuple(
            msgspec.structs.replace(production, record_id=f"{production.record_id}~{image.version}")
            for production in image.productions
        )
        return msgspec.structs.replace(image, productions=renamed)


class CommitsWithoutAcks(Rules):
    """Commits a weak step, and so ACKs its causes, without waiting for the ACKs of what it sent."""

    def order(self, strong: bool) -> tuple[Act, ...]:
        """Do not wait."""
        return tuple(act for act in super().order(strong) if act is not Act.AWAIT)


class WeakIdsByVersion(Rules):
    """Names weak productions by the version of the write, which a re-run does not reproduce."""

    def id_prefix(self, computation: str, version: Version, cause: str, strong: bool) -> str:
        """As if strong."""
        del strong
        return super().id_prefix(computation, version, cause, strong=True)


class CheckpointsInNextWrite(InNextWrite):
    """Writes the checkpoints of a step by a write of their own, once the step is durable."""

    def left_out(self, step: KeyStep) -> Mapping[str, Any]:
        """Return the checkpoints, if any."""
        return {"productions": step.checkpoints} if step.checkpoints else {}


class DeletedWhenSent(Commits):
    """Deletes a checkpoint when it is sent, rather than when it is ACKed."""

    probe: ClassVar[Probe]

    def finish(self, now: int, steps: list[KeyStep]) -> None:
        """Send the productions, and forget that they were checkpointed."""
        super().finish(now, steps)
        for step in steps:
            for production in step.checkpoints:
                self.probe.note()
                self.delete(now, step.slot.key, production)


class DeletedByOwnDelivery(OwnedInterval):
    """Deletes all checkpoints of a key when one of them is ACKed."""

    probe: ClassVar[Probe]

    def acked(self, now: int, holder: Holder, production: Production) -> None:
        """All of the key's have arrived, or so it believes."""
        super().acked(now, holder, production)
        for pending in self.shared.outbox:
            other = pending.holder
            if other.sequencer == self.sequencer and other.slot is holder.slot and other.durable:
                self.probe.note()
                self.commits.delete(now, other.slot.key, pending.production)


MUTANTS = (
    Mutant(
        "send before checkpoint", ("reference", "S5"), "6.1.2",
        "a strong production is sent before it is durable, and another run of its cause makes another one",
        Parts(rules=SendsBeforeCheckpoint), "echoes",
    ),
    Mutant(
        "checkpoint outside the state's write", ("S4",), "6.1.2",
        "productions are checkpointed after the state, by a write of their own",
        Parts(rules=leaving_out("written", productions=()), commits=CheckpointsInNextWrite), "echoes",
    ),
    Mutant(
        "productions not checkpointed", ("S4",), "6.1.2",
        "strong productions are kept in memory until they are ACKed, and not in the row",
        Parts(rules=leaving_out("written", productions=())), "echoes",
    ),
    Mutant(
        "checkpoints not replayed", ("S7", "S1"), "6.1.2, 6.2",
        "a new owner does not restore checkpointed productions, and never sends them",
        Parts(rules=leaving_out("recovered", productions=())), "echoes",
    ),
    Mutant(
        "checkpoints replayed under new ids", ("S7", "S1"), "6.1.2",
        "a new owner sends checkpointed productions under other ids", Parts(rules=RecoversUnderNewIds), "echoes",
    ),
    Mutant(
        "checkpoints deleted when sent", ("S3",), "6.1.2",
        "a checkpoint is deleted when it is sent, and not when it is ACKed", Parts(commits=DeletedWhenSent), "echoes",
        bypasses=("deletes_checkpoint",),
    ),
    Mutant(
        "checkpoints never deleted", ("L3",), "6.1.2",
        "checkpoints that were ACKed stay in the row", Parts(rules=answering(deletes_checkpoint=False)), "echoes",
    ),
    Mutant(
        "checkpoints deleted by another's ACK", ("S3",), "6.1.2",
        "the ACK of one production lets all checkpoints of its key be deleted", Parts(interval=DeletedByOwnDelivery), "forked",
        bypasses=("deletes_checkpoint",),
    ),
    Mutant(
        "one id for two productions", ("S5", "error"), "6.1.1",
        "records that share a write number their productions from 0, each by itself",
        Parts(rules=answering(first_ordinal=0)), "bursts",
    ),
    Mutant(
        "weak upstream ACKed too early", ("S3",), "6.1.3",
        "a weak step commits and ACKs its causes before what it sent is ACKed", Parts(rules=CommitsWithoutAcks), "weak windows",
    ),
    Mutant(
        "stragglers ACKed without a checkpoint", ("S3",), "6.1.3",
        "a weak step whose production straggles is ACKed upstream without checkpointing it",
        Parts(rules=answering(checkpointed=())), "stragglers",
    ),
    Mutant(
        "weak ids by version", ("S5", "reference"), "6.1.3",
        "ids of weak productions differ when their cause is run again", Parts(rules=WeakIdsByVersion), "weak echoes",
    ),
)  # fmt: skip
"""All of this file."""
