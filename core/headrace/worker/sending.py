"""What an interval sends (MillWheel 6.1.1 to 6.1.3): productions until they are ACKed, and ACKs to those who sent to it.

It does not know how steps run, or what is written.
"""

from collections.abc import Iterable, Iterator

from headrace.history import AckSent
from headrace.wire import messages as m
from headrace.wire.effects import Send
from headrace.wire.rows import Production
from headrace.worker.shared import Shared
from headrace.worker.slot import KeySlot
from headrace.worker.soft_state import SoftState
from headrace.worker.step import Holder, KeyStep, linked


class Sending:
    """What one interval sends.

    Args:
        shared: of the worker; its outbox has what is pending.
        soft: of the interval.

    Attributes:
        pending: how many productions are not ACKed.
    """

    __slots__ = ("_accounts", "_computation", "_sequencer", "_shared", "pending")

    def __init__(self, shared: Shared, soft: SoftState) -> None:
        self._shared = shared
        self._accounts, self._computation, self._sequencer = soft.accounts, soft.computation, soft.sequencer
        self.pending = 0

    # Productions (6.1.2, 6.1.3)

    def send(self, now: int, production: Production, slot: KeySlot, step: KeyStep | None = None) -> Holder:
        """Send a production, and keep it until it is ACKed. ``step``: that waits for the ACK; ``None``: it is checkpointed."""
        shared, holder = self._shared, Holder(self._sequencer, slot, step, step is None)
        self._accounts.add_production(holder, production)
        self.pending += 1
        shared.outbox.add(now, production, holder)
        owner = shared.routing.owner(production.consumer, production.key)
        if owner is not None:
            shared.effects.append(Send(owner, m.Deliver(production, shared.address)))
        return holder

    def send_or_share(
        self, now: int, production: Production, slot: KeySlot, step: KeyStep | None = None
    ) -> Holder:
        """Send it, unless another step or row of this worker already does: then both hold what is pending (6.1.3)."""
        known = self._shared.outbox.find(production.consumer, production.record_id)
        if known is None:
            return self.send(now, production, slot, step)
        holder = Holder(self._sequencer, slot, step, step is None)
        self._accounts.add_production(holder, known.production)
        self.pending += 1
        known.holder = linked([*known.holder.all(), holder])
        return holder

    def settle(self, holder: Holder, production: Production) -> None:
        """Forget a production that was ACKed."""
        self._accounts.remove_production(holder, production)
        self.pending -= 1

    def is_checkpointed(self, production: Production) -> bool:
        """Return whether a production is on its way as a checkpoint, as good as ACKed."""
        known = self._shared.outbox.find(production.consumer, production.record_id)
        return known is not None and any(holder.durable for holder in known.holder.all())

    def holder_of(self, production: Production, step: KeyStep) -> Holder | None:
        """Return the holder with which a step waits for a production, if it does."""
        known = self._shared.outbox.find(production.consumer, production.record_id)
        return None if known is None else known.holder.of(step)

    def unacked(self, step: KeyStep) -> tuple[Production, ...]:
        """Return the productions that a step waits for."""
        find = self._shared.outbox.find
        pending = [find(production.consumer, production.record_id) for production in step.outcome.productions]
        return tuple(
            [entry.production for entry in pending if entry is not None and entry.holder.of(step) is not None]
        )

    def names(self) -> Iterator[tuple[str, str]]:
        """Record id and consumer of the checkpoints that are pending."""
        for known in self._shared.outbox:
            if any(holder.durable and holder.sequencer == self._sequencer for holder in known.holder.all()):
                yield known.production.record_id, known.production.consumer

    def stop(self) -> None:
        """Stop sending: whoever owns the interval next sends what was checkpointed."""
        outbox = self._shared.outbox
        for known in list(outbox):
            others = [holder for holder in known.holder.all() if holder.sequencer != self._sequencer]
            if others:
                known.holder = linked(others)
            else:
                outbox.discard(known)

    # ACKs (6.1.1)

    def ack(self, sender: str, record_ids: Iterable[str]) -> None:
        """Tell a sender that these are durable."""
        shared, ids = self._shared, tuple(record_ids)
        if shared.history.keeps:
            shared.record(AckSent, self._computation, ids, sender)
        shared.effects.append(Send(sender, m.Ack(self._computation, ids)))

    def ack_steps(self, steps: Iterable[KeyStep]) -> None:
        """ACK the senders of what the steps consumed, with one message each."""
        acks: dict[str, list[str]] = {}
        for step in steps:
            for arrival in step.outcome.arrivals:
                record_id, sender = arrival.production.record_id, arrival.sender
                if sender in acks:
                    acks[sender].append(record_id)
                else:
                    acks[sender] = [record_id]
        for sender, record_ids in acks.items():
            self.ack(sender, record_ids)
