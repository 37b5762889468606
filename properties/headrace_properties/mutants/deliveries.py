"""Mutants of deliveries: duplicates, ids, ACKs, retries (MillWheel 6.1.1)."""

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.rules import Act, Rules, SubscriberT
from headrace.wire import messages as m
from headrace.wire.rows import Production, RowDelta, RowImage
from headrace.worker.commits import Commits
from headrace.worker.interval import OwnedInterval
from headrace.worker.running import StepRun
from headrace.worker.step import Step
from headrace_properties.mutants.mutant import Mutant, Parts, Probe


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


class WritesNoIds(Rules):
    """Writes a step without the ids of its records."""

    def written(self, delta: RowDelta) -> RowDelta:
        """All of it but the ids."""
        return msgspec.structs.replace(delta, seen=())


class WritesOneId(Rules):
    """Writes a step of several records with the id of the first."""

    def written(self, delta: RowDelta) -> RowDelta:
        """All of it but the other ids."""
        return msgspec.structs.replace(delta, seen=delta.seen[:1])


class HitIsDuplicate(Rules):
    """Takes a hit of the Bloom filter for a proof."""

    def is_duplicate(self, row_has_id: bool) -> bool:
        """Without a look at the row."""
        del row_has_id
        return True


class HitIsNew(Rules):
    """Takes a hit of the Bloom filter for a false one."""

    def must_check_row(self) -> bool:
        """Without a look at the row."""
        return False


class RemembersNothing(Rules):
    """Leaves deduplication out of every computation, whatever the user asked for."""

    def remembers(self, exactly_once: bool) -> bool:
        """Never."""
        del exactly_once
        return False


class NeverCommits(Rules):
    """Takes every step for one of a stateless filter, which has nothing to remember."""

    def needs_write(self, changes_row: bool, exactly_once: bool, consumed_records: bool) -> bool:
        """Never."""
        del changes_row, exactly_once, consumed_records
        return False


class RecoversNoIds(Rules):
    """Restores state, timers and productions, and not the ids."""

    def recovered(self, image: RowImage) -> RowImage:
        """All but the ids."""
        return msgspec.structs.replace(image, seen=())


class CollectsTooEarly(Rules):
    """Collects all ids, whether their senders have finished retrying or not."""

    def collects_below(self, horizon: int, slack_us: int) -> int:
        """All."""
        del horizon, slack_us
        return MAX_TIME


class NeverCollects(Rules):
    """Keeps the ids of all records for ever."""

    def collects_below(self, horizon: int, slack_us: int) -> int:
        """None."""
        del horizon, slack_us
        return MIN_TIME


class DropsSilently(Rules):
    """Drops a duplicate, and does not ACK it."""

    def acks_duplicate(self) -> bool:
        """Never."""
        return False


class TakesTwice(Rules):
    """Does not know what it is in the middle of: a copy that comes meanwhile runs as well."""

    def joins_copy(self) -> bool:
        """Never."""
        return False


class TakesRemnants(Rules):
    """Does not refuse what is behind the horizon."""

    def is_remnant(self, origin: int, horizon: int) -> bool:
        """Nothing is."""
        del origin, horizon
        return False


class NewIdPerRetry(Rules):
    """Gives a production a new name whenever it sends it again."""

    def retried(self, production: Production, attempts: int) -> Production:
        """Under another id."""
        return msgspec.structs.replace(production, record_id=f"{production.record_id}~{attempts}")


class NeverRetries(Rules):
    """Sends each production once."""

    def retries(self, injected: bool) -> bool:
        """Injectors only."""
        return injected


class AcksRefused(Rules):
    """ACKs the records of a write that the store has refused."""

    def acks_refused(self) -> bool:
        """Always."""
        return True


class KeysNotSerial(Rules):
    """Does not lock a key while its write is under way."""

    def locks_key(self) -> bool:
        """Never."""
        return False


class OneAckForAll(Rules):
    """Takes the ACK of one consumer of a stream for that of all of them."""

    def settled_by(self, consumer: str, pending: Sequence[str]) -> tuple[str, ...]:
        """All that wait."""
        return tuple(dict.fromkeys((consumer, *pending)))


class OneConsumerOnly(Rules):
    """Delivers a stream to the first of its consumers."""

    def recipients(self, subscribers: Sequence[SubscriberT]) -> Sequence[SubscriberT]:
        """The first."""
        return subscribers[:1]


class IdsInNextWrite(Commits):
    """Writes the ids of a step by a write of their own, once the step is durable."""

    probe: ClassVar[Probe]

    def finish(self, now: int, steps: list[Step]) -> None:
        """Finish the steps, and write what was left out."""
        soft, store = self.soft, self.shared.store
        super().finish(now, steps)
        for step in steps:
            number = self.take_number()
            seen = tuple(
                (arrival.production.record_id, arrival.production.origin) for arrival in step.run.arrivals
            )
            delta = RowDelta(step.slot.key, number, seen=seen)
            write = m.Write(store.number(), soft.computation, soft.sequencer, (delta,))
            store.ask(now, write, lambda _now, _reply: None, soft)


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
        self.now += 2_000_000
        taken = super().run_record(record)
        self.now -= 2_000_000
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
        Parts(rules=WritesNoIds, commits=IdsInNextWrite),
    ),
    Mutant(
        "ids in memory only", ("S4", "S3"), "6.1.1",
        "ids of seen records are kept in memory, and not in the row", Parts(rules=WritesNoIds),
    ),
    Mutant(
        "one id for a coalesced checkpoint", ("S4", "S3"), "6.1.1",
        "a checkpoint for several records has the id of the first of them only", Parts(rules=WritesOneId), "bursts",
    ),
    Mutant(
        "a filter hit is a duplicate", ("S3", "S1"), "6.1.1",
        "a hit of the Bloom filter is taken for a duplicate, and the row is not read",
        Parts(rules=HitIsDuplicate), "crowded filter",
    ),
    Mutant(
        "a filter hit is new", ("S2",), "6.1.1",
        "a hit of the Bloom filter is taken for a false one, and the row is not read",
        Parts(rules=HitIsNew), "short memory",
    ),
    Mutant(
        "nothing is deduplicated", ("S3", "S4", "reference"), "6.1.3",
        "the deduplication pass is skipped although exactly-once is not disabled", Parts(rules=RemembersNothing), "echoes",
    ),
    Mutant(
        "a step is not committed", ("S3", "reference"), "6.1.3",
        "a step that has something to remember is not written", Parts(rules=NeverCommits), "echoes",
    ),
    Mutant(
        "recovery without ids", ("S2",), "6.1.1, 7.1",
        "a new owner does not restore the ids of seen records", Parts(rules=RecoversNoIds), "echoes",
    ),
    Mutant(
        "ids collected too early", ("S13", "S2"), "6.1.1",
        "ids are collected while their senders may still retry", Parts(rules=CollectsTooEarly), "eager collection",
    ),
    Mutant(
        "ids never collected", ("L3",), "6.1.1",
        "ids of records that nobody sends any more stay in the row", Parts(rules=NeverCollects), "long quiet",
    ),
    Mutant(
        "a remnant is taken", ("S2",), "6.1.1",
        "what was delayed in the network until its id was collected is applied again",
        Parts(rules=TakesRemnants), "eager collection",
    ),
    Mutant(
        "a duplicate is dropped without an ACK", ("L4",), "6.1.1",
        "a duplicate is not ACKed, and its sender retries for ever", Parts(rules=DropsSilently), "echoes",
    ),
    Mutant(
        "a copy in progress runs twice", ("S2", "error"), "6.1.1",
        "a second copy of a record that is being processed is processed as well", Parts(rules=TakesTwice), "echoes",
    ),
    Mutant(
        "a new id for each retry", ("S1", "reference"), "6.1.1",
        "a production has another id whenever it is sent again", Parts(rules=NewIdPerRetry), "echoes",
    ),
    Mutant(
        "no retries", ("L2",), "6.1.1",
        "a production is sent once, whether it is ACKed or not", Parts(rules=NeverRetries), "echoes",
    ),
    Mutant(
        "a refused write is ACKed", ("S3", "S1"), "6.2",
        "the records of a write that was refused are ACKed", Parts(rules=AcksRefused), "echoes",
    ),
    Mutant(
        "keys are not serial", ("S14", "reference"), "4.1",
        "user code runs for a key while the write of its last step is under way", Parts(rules=KeysNotSerial), "bursts",
    ),
    Mutant(
        "one consumer's ACK counts for all", ("S3", "S1"), "4.3",
        "a production to two computations is forgotten when one of them has ACKed it", Parts(rules=OneAckForAll), "forked",
    ),
    Mutant(
        "one consumer only", ("S17", "reference"), "4.3",
        "of the computations that subscribe to a stream only the first gets its records", Parts(rules=OneConsumerOnly),
        "forked",
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
