"""What a sender has sent and not got ACKed (MillWheel 6.1.1): deliveries are retried until they are ACKed.

Rules of this file:

* A pending production is known by ``(record id, consumer)``; an ACK, or giving up the interval that made it, ends it.
* Pauses double from ``retry_us`` to ``retry_max_us``. All that wait for the same pause stand in one queue, in the order in
  which they were sent, which is the order in which they are due: no heap is needed. Whoever sees that its clock was put back
  says so (`set_clock_back`); until then none is due before the one ahead of it.
* What is done stays in its queue until it comes to the head, and is skipped there.
* When the table says that a key's interval has a new sequencer, what its former owner had in memory is gone: such records are
  sent again at once, and their pauses begin anew.

This is the hottest path of a sender: plain dicts and deques.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from headrace.deadlines import brought_forward
from headrace.delivery.routing import Routing
from headrace.wire.rows import Production

HolderT = TypeVar("HolderT")


class Pending(msgspec.Struct, Generic[HolderT], eq=False):
    """A production that has been sent and not ACKed.

    Attributes:
        production: the record.
        holder: what the sender keeps with it, such as the step that made it.
        attempts: how often it was sent since its owner last changed.
        due_us: when to send it again, microseconds.
        done: it was ACKed or discarded.
    """

    production: Production
    holder: HolderT
    due_us: int
    attempts: int = 1
    done: bool = False


class Outbox(Generic[HolderT]):
    """All pending productions of one sender.

    Args:
        retry_us: the first pause, microseconds.
        retry_max_us: the longest pause, microseconds.
    """

    __slots__ = ("_consumers", "_pauses_us", "_queues")

    def __init__(self, retry_us: int, retry_max_us: int) -> None:
        self._pauses_us = _pauses(retry_us, retry_max_us)
        self._queues: list[deque[Pending[HolderT]]] = [deque() for _ in self._pauses_us]
        self._consumers: dict[str, dict[str, Pending[HolderT]]] = {}

    def add(self, now: int, production: Production, holder: HolderT) -> Pending[HolderT]:
        """Keep a production that is being sent for the first time."""
        consumer, record_id = production.consumer, production.record_id
        found = self._consumers.get(consumer)
        if found is None:
            found = self._consumers[consumer] = {}
        assert record_id not in found, f"{record_id} is pending already at {consumer!r}"
        due_us, queue = now + self._pauses_us[0], self._queues[0]
        if queue and queue[-1].due_us > due_us:
            due_us = queue[-1].due_us
        pending = found[record_id] = Pending(production, holder, due_us)
        queue.append(pending)
        return pending

    @property
    def consumers(self) -> tuple[str, ...]:
        """List the consumers that something has been sent to."""
        return tuple(self._consumers)

    def find(self, consumer: str, record_id: str) -> Pending[HolderT] | None:
        """Return the pending production of this id and consumer, if there is one."""
        found = self._consumers.get(consumer)
        return None if found is None else found.get(record_id)

    def acked(self, consumer: str, record_id: str) -> Pending[HolderT] | None:
        """Take out what was ACKed; ``None``: it was ACKed before, or given up."""
        found = self._consumers.get(consumer)
        if found is None:
            return None
        pending = found.pop(record_id, None)
        if pending is not None:
            pending.done = True
        return pending

    def discard(self, pending: Pending[HolderT]) -> None:
        """Give one up: its sender does not own it any more. Nothing happens if it is done."""
        if not pending.done:
            self.acked(pending.production.consumer, pending.production.record_id)

    def due(self, now: int) -> list[Pending[HolderT]]:
        """Return what is to be sent again now, and begin its next pause."""
        found: list[Pending[HolderT]] = []
        last = len(self._queues) - 1
        for level, queue in enumerate(self._queues):
            if not queue:
                continue
            following = min(level + 1, last)
            resent_due_us = self._following_due(now, following)
            while queue and (queue[0].due_us <= now or queue[0].done):
                pending = queue.popleft()
                if pending.done:
                    continue
                pending.attempts += 1
                pending.due_us = resent_due_us
                self._queues[following].append(pending)
                found.append(pending)
        return found

    def _following_due(self, now: int, level: int) -> int:
        """When what joins a queue now is due, microseconds."""
        queue, due_us = self._queues[level], now + self._pauses_us[level]
        return max(due_us, queue[-1].due_us) if queue else due_us

    def next_due(self) -> int | None:
        """Return when `due` will next have something, microseconds; ``None``: nothing is pending."""
        earliest: int | None = None
        for queue in self._queues:
            while queue and queue[0].done:
                queue.popleft()
            if queue and (earliest is None or queue[0].due_us < earliest):
                earliest = queue[0].due_us
        return earliest

    def resend_to_changed(self, now: int, before: Routing, after: Routing) -> list[Pending[HolderT]]:
        """Return what is to be sent now because another table was adopted; its pauses begin anew.

        Args:
            now: this process's clock, microseconds.
            before: of the table that was in force.
            after: of the table that is now.
        """
        changed: list[Pending[HolderT]] = []
        for level, queue in enumerate(self._queues):
            kept: deque[Pending[HolderT]] = deque()
            for pending in queue:
                if not pending.done:
                    (changed if _moved(pending.production, before, after) else kept).append(pending)
            self._queues[level] = kept
        due_us = self._following_due(now, 0)
        for pending in changed:
            pending.attempts = 1
            pending.due_us = due_us
        self._queues[0].extend(changed)
        return changed

    def set_clock_back(self, now: int) -> None:
        """The sender's clock was put back; see `headrace.deadlines`."""
        for pause_us, queue in zip(self._pauses_us, self._queues, strict=True):
            for pending in queue:
                pending.due_us = brought_forward(pending.due_us, now, pause_us)

    def owing(self, consumers: Iterable[str]) -> tuple[tuple[str, int], ...]:
        """Count what is pending for each of these consumers, as a `Heartbeat` says it; those with nothing are left out."""
        counts = ((consumer, len(self._consumers.get(consumer, ()))) for consumer in consumers)
        return tuple((consumer, count) for consumer, count in counts if count)

    def __len__(self) -> int:
        """Count what is pending."""
        return sum(map(len, self._consumers.values()))

    def __iter__(self) -> Iterator[Pending[HolderT]]:
        """Iterate over what is pending: by consumer, and there in the order in which it was added."""
        for found in self._consumers.values():
            yield from found.values()

    def check_invariants(self) -> None:
        """Each pending production stands in one queue, that of its pause, and each queue is in order of time."""
        queued: list[Pending[HolderT]] = []
        for level, queue in enumerate(self._queues):
            times = [pending.due_us for pending in queue]
            assert times == sorted(times), f"queue {level} is out of order: {times}"
            waiting = [pending for pending in queue if not pending.done]
            last = len(self._queues) - 1
            assert all(min(pending.attempts - 1, last) == level for pending in waiting), (
                f"queue {level} has another's"
            )
            queued.extend(waiting)
        assert len(queued) == len(self), f"{len(queued)} are queued and {len(self)} are pending"
        assert {id(pending) for pending in queued} == {id(pending) for pending in self}, (
            "queues and index differ"
        )


def _pauses(retry_us: int, retry_max_us: int) -> list[int]:
    """Double from the first pause until the longest.

    >>> _pauses(200, 1000)
    [200, 400, 800, 1000]
    """
    pauses = [min(retry_us, retry_max_us)]
    while pauses[-1] < retry_max_us:
        pauses.append(min(pauses[-1] * 2, retry_max_us))
    return pauses


def _moved(production: Production, before: Routing, after: Routing) -> bool:
    consumer, key = production.consumer, production.key
    return before.sequencer(consumer, key) != after.sequencer(consumer, key)
