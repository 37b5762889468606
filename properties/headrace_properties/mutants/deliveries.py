"""Mutants of deliveries: duplicates, ids, ACKs, retries (MillWheel 6.1.1)."""

from typing import ClassVar

import msgspec

from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.delivery.outbox import Pending
from headrace.wire import messages as m
from headrace.wire.effects import Send
from headrace.wire.rows import Production, RowDelta, RowImage
from headrace.worker.commits import Commits
from headrace.worker.interval import OwnedInterval
from headrace.worker.interval_state import IntervalInput
from headrace.worker.recovery import Recovery
from headrace.worker.seen import SeenFilter
from headrace.worker.step import Arrival, Holder, KeySlot, Step
from headrace.worker.stepping import StepRunner
from headrace.worker.worker import Worker
from headrace_properties.mutants.mutant import Mutant, Parts, Probe


class AckOnReceipt(OwnedInterval):
    """ACKs what has come before anything is done about it."""

    probe: ClassVar[Probe]

    def deliver(self, production: Production, sender: str) -> bool:
        """Take it, and ACK it."""
        taken = super().deliver(production, sender)
        if production.record_id in self.in_progress:
            self.probe.note()
            self.ack(sender, [production.record_id])
        return taken


class AckBeforeCommit(Commits):
    """ACKs when user code has run."""

    probe: ClassVar[Probe]

    def complete(self, step: Step) -> None:
        """The step is to be committed: ACK what it consumed."""
        super().complete(step)
        for arrival in step.arrivals:
            self.probe.note()
            self._interval.ack(arrival.sender, [arrival.production.record_id])


class StepWithoutIds(Step, eq=False):
    """A step whose write has no ids."""

    probe: ClassVar[Probe]

    def delta(self, *, remember: bool) -> RowDelta:
        """All of it but the ids."""
        if remember and self.arrivals:
            self.probe.note()
        return super().delta(remember=False)


class IdsInNextWrite(Commits):
    """Writes the ids of a step by a write of their own, once the step is durable."""

    probe: ClassVar[Probe]

    def _finish(self, now: int, steps: list[Step]) -> None:
        interval, store = self._interval, self._shared.store
        super()._finish(now, steps)
        for step in steps:
            number = self._runner._next_number
            self._runner._next_number += 1
            seen = tuple((one.production.record_id, one.production.origin) for one in step.arrivals)
            delta = RowDelta(step.slot.key, number, seen=seen)
            write = m.Write(store.number(), interval.computation, interval.sequencer, (delta,))
            store.ask(now, write, lambda _now, _reply: None, interval)


class HitIsDuplicate(StepRunner):
    """Takes a hit of the Bloom filter for a proof."""

    probe: ClassVar[Probe]

    def _was_seen(self, arrival: Arrival, slot: KeySlot) -> bool:
        if super()._was_seen(arrival, slot):
            return True
        self.probe.note()
        self._interval.drop_seen(arrival, "id")
        return True


class FilterThatForgets(SeenFilter):
    """A filter that does not grow: what does not fit is forgotten."""

    probe: ClassVar[Probe]

    def add_all(self, prints: list[int], newest_origin: int) -> None:
        """Remember ids, in the place of all others if the filter is full."""
        if 0 < len(self) > self._capacity - len(prints):
            self.probe.note()
            self.forget_before(MAX_TIME)
        super().add_all(prints, newest_origin)


class RecoveryWithoutIds(Recovery):
    """Restores state, timers and productions, and not the ids."""

    probe: ClassVar[Probe]

    def _restore(self, now: int, image: RowImage) -> None:
        if image.seen:
            self.probe.note()
        super()._restore(now, msgspec.structs.replace(image, seen=()))


class CollectsTooEarly(OwnedInterval):
    """Collects all ids, whether their senders have finished retrying or not."""

    probe: ClassVar[Probe]

    def collect_ids(self, now: int) -> None:
        """Collect what there is."""
        horizon, self.horizon = self.horizon, MAX_TIME
        self._collected_below = MIN_TIME
        try:
            if len(self.seen_filter):
                self.probe.note()
            super().collect_ids(now)
        finally:
            self.horizon = horizon


class NeverCollects(OwnedInterval):
    """Keeps the ids of all records for ever."""

    probe: ClassVar[Probe]

    def collect_ids(self, now: int) -> None:
        """Collect nothing."""
        del now
        self.probe.note()


class DropsSilently(OwnedInterval):
    """Drops a duplicate, and does not ACK it."""

    probe: ClassVar[Probe]

    def _drop_duplicate(self, production: Production, sender: str, by: str) -> None:
        del sender
        self.probe.note()
        self._note_duplicate(production, by)


class TakesTwice(OwnedInterval):
    """Does not know what it is in the middle of: a copy that comes meanwhile runs as well."""

    probe: ClassVar[Probe]

    def deliver(self, production: Production, sender: str) -> bool:
        """Take it as if it were new."""
        if self.in_progress.pop(production.record_id, None) is not None:
            self.probe.note()
        return super().deliver(production, sender)


class TakesRemnants(OwnedInterval):
    """Does not refuse what is behind the horizon."""

    probe: ClassVar[Probe]

    def deliver(self, production: Production, sender: str) -> bool:
        """Take it."""
        horizon, self.horizon = self.horizon, MIN_TIME
        try:
            taken = super().deliver(production, sender)
        finally:
            self.horizon = horizon
        if production.origin < horizon and production.record_id in self.in_progress:
            self.probe.note()
        return taken


class RunsRemnants(StepRunner):
    """Asks the row only, not the horizon."""

    def _was_seen(self, arrival: Arrival, slot: KeySlot) -> bool:
        interval = self._interval
        horizon, interval.horizon = interval.horizon, MIN_TIME
        try:
            return super()._was_seen(arrival, slot)
        finally:
            interval.horizon = horizon


class NewIdPerRetry(Worker):
    """Names a production anew whenever it sends it again."""

    probe: ClassVar[Probe]

    def _resend(self, pendings: list[Pending[Holder]]) -> None:  # type: ignore[override]
        for pending in pendings:
            self.probe.note()
            own = pending.production
            named = msgspec.structs.replace(own, record_id=f"{own.record_id}~{pending.attempts}")
            owner = self._shared.routing.owner(own.consumer, own.key)
            if owner is not None:
                self._shared.effects.append(Send(owner, m.Deliver(named, self.address)))

    def _on_ack(self, now: int, message: m.Ack) -> None:
        own = tuple(record_id.partition("~")[0] for record_id in message.record_ids)
        super()._on_ack(now, m.Ack(message.consumer, own))


class NeverRetries(Worker):
    """Sends each production once."""

    probe: ClassVar[Probe]

    def _resend(self, pendings: list[Pending[Holder]]) -> None:  # type: ignore[override]
        for _ in pendings:
            self.probe.note()


class RefusedIsAcked(OwnedInterval):
    """ACKs the records of a write that the store has refused."""

    probe: ClassVar[Probe]

    def drop(self, input_: IntervalInput) -> None:
        """Stop owning it."""
        if input_ is IntervalInput.REFUSED:
            for record_id, arrival in self.in_progress.items():
                self.probe.note()
                self.ack(arrival.sender, [record_id])
        super().drop(input_)


class KeysNotSerial(Commits):
    """Does not lock a key while its write is under way."""

    probe: ClassVar[Probe]

    def _turn(self, now: int, slot: KeySlot) -> None:
        super()._turn(now, slot)
        if slot.busy and slot.row is not None:
            self.probe.note()
            slot.busy = False


class OneAckForAll(Worker):
    """Takes the ACK of one consumer of a stream for that of all of them."""

    probe: ClassVar[Probe]

    def _on_ack(self, now: int, message: m.Ack) -> None:
        super()._on_ack(now, message)
        waiting = {one.production.consumer: None for one in self._shared.outbox}
        for consumer in waiting:
            if any(self._shared.outbox.find(consumer, one) is not None for one in message.record_ids):
                self.probe.note()
                super()._on_ack(now, m.Ack(consumer, message.record_ids))


class OneConsumerOnly(StepRunner):
    """Delivers a stream to the first of its consumers."""

    probe: ClassVar[Probe]

    def _productions(self, *args: object) -> tuple[Production, ...]:
        made = super()._productions(*args)  # type: ignore[arg-type]
        first = {one.record_id: one for one in reversed(made)}
        if len(first) < len(made):
            self.probe.note()
        return tuple(one for one in made if first[one.record_id] is one)


MUTANTS = (
    Mutant(
        "ack on receipt", ("S3",), "6.1.1",
        "a record is ACKed when it has come, before it is durable", Parts(interval=AckOnReceipt),
    ),
    Mutant(
        "ack before commit", ("S3",), "6.1.1",
        "a record is ACKed when user code has run for it, before its write", Parts(commits=AckBeforeCommit),
    ),
    Mutant(
        "ids outside the atomic write", ("S4", "S3"), "6.1.1",
        "ids of seen records are written after the state, by a write of their own",
        Parts(commits=IdsInNextWrite, step=StepWithoutIds),
    ),
    Mutant(
        "ids in memory only", ("S4", "S3"), "6.1.1",
        "ids of seen records are kept in memory, and not in the row", Parts(step=StepWithoutIds),
    ),
    Mutant(
        "a filter hit is a duplicate", ("S3", "S1"), "6.1.1",
        "a hit of the Bloom filter is taken for a duplicate, and the row is not read",
        Parts(runner=HitIsDuplicate), "crowded filter",
    ),
    Mutant(
        "a filter that forgets", ("S2",), "6.1.1",
        "the filter misses ids that the row has, so that a duplicate counts as never seen",
        Parts(filter=FilterThatForgets), "short memory",
    ),
    Mutant(
        "recovery without ids", ("S2",), "6.1.1, 7.1",
        "a new owner does not restore the ids of seen records", Parts(recovery=RecoveryWithoutIds), "echoes",
    ),
    Mutant(
        "ids collected too early", ("S13", "S2"), "6.1.1",
        "ids are collected while their senders may still retry", Parts(interval=CollectsTooEarly), "eager collection",
    ),
    Mutant(
        "ids never collected", ("L3",), "6.1.1",
        "ids of records that nobody sends any more stay in the row", Parts(interval=NeverCollects), "long quiet",
    ),
    Mutant(
        "a remnant is taken", ("S2",), "6.1.1",
        "what was delayed in the network until its id was collected is applied again",
        Parts(interval=TakesRemnants, runner=RunsRemnants), "eager collection",
    ),
    Mutant(
        "a duplicate is dropped without an ACK", ("L4",), "6.1.1",
        "a duplicate is not ACKed, and its sender retries for ever", Parts(interval=DropsSilently), "echoes",
    ),
    Mutant(
        "a copy in progress runs twice", ("S2", "error"), "6.1.1",
        "a second copy of a record that is being processed is processed as well", Parts(interval=TakesTwice), "echoes",
    ),
    Mutant(
        "a new id for each retry", ("S1", "reference"), "6.1.1",
        "a production has another id whenever it is sent again", Parts(worker=NewIdPerRetry), "echoes",
    ),
    Mutant(
        "no retries", ("L2",), "6.1.1",
        "a production is sent once, whether it is ACKed or not", Parts(worker=NeverRetries), "echoes",
    ),
    Mutant(
        "a refused write is ACKed", ("S3", "S1"), "6.2",
        "the records of a write that was refused are ACKed", Parts(interval=RefusedIsAcked), "echoes",
    ),
    Mutant(
        "keys are not serial", ("S14", "reference"), "4.1",
        "user code runs for a key while the write of its last step is under way", Parts(commits=KeysNotSerial), "bursts",
    ),
    Mutant(
        "one consumer's ACK counts for all", ("S3", "S1"), "4.3",
        "a production to two computations is forgotten when one of them has ACKed it", Parts(worker=OneAckForAll), "forked",
    ),
    Mutant(
        "one consumer only", ("S17", "reference"), "4.3",
        "of the computations that subscribe to a stream only the first gets its records", Parts(runner=OneConsumerOnly),
        "forked",
    ),
)  # fmt: skip
"""All of this file."""
