"""Mutants of deliveries: duplicates, ids, ACKs, retries (MillWheel 6.1.1)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.rules import Act, Rules
from headrace.wire.rows import Production
from headrace.worker.interval import OwnedInterval
from headrace.worker.running import StepRun
from headrace.worker.step import KeyStep
from headrace_properties.proof.mutants.mutant import InNextWrite, Mutant, Parts, Probe, answering, leaving_out


class AckOnReceipt(Rules):
    """ACKs what has come before anything is done about it."""

    def order(self, strong: bool) -> tuple[Act, ...]:
        """ACK first."""
        return Act.ACK, *(act for act in super().order(strong) if act is not Act.ACK)


class AckBeforeCommit(Rules):
    """ACKs when user code has run."""

    def order(self, strong: bool) -> tuple[Act, ...]:
        """ACK before the commit."""
        acts = tuple(act for act in super().order(strong) if act is not Act.ACK)
        commit = acts.index(Act.COMMIT)
        return *acts[:commit], Act.ACK, *acts[commit:]


def _renamed(production: Production, attempts: int) -> Production:
    return msgspec.structs.replace(production, record_id=f"{production.record_id}~{attempts}")


class IdsInNextWrite(InNextWrite):
    """Writes the ids of a step by a write of their own, once the step is durable."""

    def left_out(self, step: KeyStep) -> Mapping[str, Any]:
        """Return all ids, and a write without any for a step that took none."""
        arrivals = [arrival.production for arrival in step.outcome.arrivals]
        return {"seen": tuple((production.record_id, production.origin) for production in arrivals)}


class CollectsSeldom(OwnedInterval):
    """Collects the ids of an interval every fifth time that it should."""

    probe: ClassVar[Probe]
    __slots__ = ("_asked",)

    def collect_ids(self, now: int) -> None:
        """Count the times."""
        self._asked = getattr(self, "_asked", 0) + 1
        if self._asked % 5:
            self.probe.note()
        else:
            super().collect_ids(now)


class TellsAnotherTime(StepRun):
    """Tells user code another wall time than the machine's."""

    probe: ClassVar[Probe]

    def run_record(self, record: Production) -> bool:
        """Be two seconds ahead."""
        self.probe.note()
        sound = self.view
        self.view = msgspec.structs.replace(sound, now=sound.now + 2_000_000)
        taken = super().run_record(record)
        self.view = sound
        return taken


MUTANTS = (
    Mutant(
        "ack on receipt", ("S3",), "6.1.1",
        "a record is ACKed when it has come, before it is durable", Parts(rules=AckOnReceipt),
    ),
    Mutant(
        "ack before commit", ("S3",), "6.1.1",
        "a record is ACKed when user code has run for it, before its write", Parts(rules=AckBeforeCommit),
    ),
    Mutant(
        "ids outside the atomic write", ("S4", "S3"), "6.1.1",
        "ids of seen records are written after the state, by a write of their own",
        Parts(rules=leaving_out("written", seen=()), commits=IdsInNextWrite),
    ),
    Mutant(
        "ids in memory only", ("S4", "S3"), "6.1.1",
        "ids of seen records are kept in memory, and not in the row", Parts(rules=leaving_out("written", seen=())),
    ),
    Mutant(
        "one id for a coalesced checkpoint", ("S4", "S3"), "6.1.1",
        "a checkpoint for several records has the id of the first of them only",
        Parts(rules=answering(written=lambda delta: msgspec.structs.replace(delta, seen=delta.seen[:1]))), "bursts",
    ),
    Mutant(
        "a filter hit is a duplicate", ("S3", "S1"), "6.1.1",
        "a hit of the Bloom filter is taken for a duplicate, and the row is not read",
        Parts(rules=answering(is_duplicate=True)), "crowded filter",
    ),
    Mutant(
        "a filter hit is new", ("S2",), "6.1.1",
        "a hit of the Bloom filter is taken for a false one, and the row is not read",
        Parts(rules=answering(must_check_row=False)), "short memory",
    ),
    Mutant(
        "nothing is deduplicated", ("S3", "S4", "reference"), "6.1.3",
        "the deduplication pass is skipped although exactly-once is not disabled",
        Parts(rules=answering(remembers=False)), "echoes",
    ),
    Mutant(
        "a step is not committed", ("S3", "reference"), "6.1.3",
        "a step that has something to remember is not written", Parts(rules=answering(needs_write=False)), "echoes",
    ),
    Mutant(
        "recovery without ids", ("S2",), "6.1.1, 7.1",
        "a new owner does not restore the ids of seen records", Parts(rules=leaving_out("recovered", seen=())), "echoes",
    ),
    Mutant(
        "ids collected too early", ("S13", "S2"), "6.1.1",
        "ids are collected while their senders may still retry",
        Parts(rules=answering(collects_below=MAX_TIME)), "eager collection",
    ),
    Mutant(
        "ids never collected", ("L3",), "6.1.1",
        "ids of records that nobody sends any more stay in the row",
        Parts(rules=answering(collects_below=MIN_TIME)), "long quiet",
    ),
    Mutant(
        "a remnant is taken", ("S2",), "6.1.1",
        "what was delayed in the network until its id was collected is applied again",
        Parts(rules=answering(is_remnant=False)), "eager collection",
    ),
    Mutant(
        "a duplicate is dropped without an ACK", ("L4",), "6.1.1",
        "a duplicate is not ACKed, and its sender retries for ever", Parts(rules=answering(acks_duplicate=False)), "echoes",
    ),
    Mutant(
        "a copy in progress runs twice", ("S2", "error"), "6.1.1",
        "a second copy of a record that is being processed is processed as well",
        Parts(rules=answering(joins_copy=False)), "echoes",
    ),
    Mutant(
        "a new id for each retry", ("S1", "reference"), "6.1.1",
        "a production has another id whenever it is sent again",
        Parts(rules=answering(retried=_renamed)), "echoes",
    ),
    Mutant(
        "no retries", ("L2",), "6.1.1",
        "a production is sent once, whether it is ACKed or not",
        Parts(rules=answering(retries=lambda injected: injected)), "echoes",
    ),
    Mutant(
        "a refused write is ACKed", ("S3", "S1"), "6.2",
        "the records of a write that was refused are ACKed", Parts(rules=answering(acks_refused=True)), "echoes",
    ),
    Mutant(
        "keys are not serial", ("S14", "reference"), "4.1",
        "user code runs for a key while the write of its last step is under way",
        Parts(rules=answering(locks_key=False)), "bursts",
    ),
    Mutant(
        "one consumer's ACK counts for all", ("S3", "S1"), "4.3",
        "a production to two computations is forgotten when one of them has ACKed it",
        Parts(rules=answering(settled_by=lambda consumer, pending: tuple(dict.fromkeys((consumer, *pending))))), "forked",
    ),
    Mutant(
        "one consumer only", ("S17", "reference"), "4.3",
        "of the computations that subscribe to a stream only the first gets its records",
        Parts(rules=answering(recipients=lambda subscribers: subscribers[:1])), "forked",
    ),
    Mutant(
        "ids are collected seldom", ("calm",), "6.1.1",
        "the ids of an interval are collected five times less often than the options say", Parts(interval=CollectsSeldom),
        "long quiet",
    ),
    Mutant(
        "user code is told another time", ("expected",), "4.6, 5.1",
        "the wall time that user code sees is not the machine's", Parts(run=TellsAnotherTime), "witnesses",
    ),
)  # fmt: skip
"""All of this file."""
