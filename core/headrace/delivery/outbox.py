"""A sender's unACKed productions (MillWheel 6.1.1): deliveries are retried until they are ACKed.

Rules of this file:

* A pending production is identified by ``(record id, consumer)``; it ends with an ACK, or when its sender gives up the interval
  that produced it.
* Retry delays double from ``retry_us`` to ``retry_max_us``. All productions with the same delay are in one queue, in the order
  in which they were sent and hence are due, so no heap is needed. None is due before the one ahead of it, unless the sender
  reports that its clock was set back (`set_clock_back`).
* A finished production stays in its queue until it reaches the head, and leaves it there.
* When the table gives a key's interval a new sequencer, the former owner's memory is lost: records for that key are sent again at
  once, and their retry delays start over.

This is a sender's hottest path, hence plain dicts and deques.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

import msgspec

from headrace.api.time import MAX_TIME
from headrace.deadlines import brought_forward
from headrace.delivery.routing import Routing
from headrace.wire.rows import Production

HolderT = TypeVar("HolderT")


class Pending(msgspec.Struct, Generic[HolderT], eq=False):
    """A production that has been sent and not ACKed.

    Attributes:
        production: the record.
        holder: an object that the sender keeps with it, such as the step that made it.
        due_us: when to send it again, microseconds.
        attempts: number of times it was sent since its owner last changed.
        done: whether it was ACKed or discarded.
    """

    production: Production
    holder: HolderT
    due_us: int
    attempts: int = 1
    done: bool = False


class Outbox(Generic[HolderT]):
    """All pending productions of one sender.

    Args:
        retry_us: first retry delay, microseconds.
        retry_max_us: longest retry delay, microseconds.
    """

    __slots__ = ("_consumers", "_pauses_us", "_queues")

    def __init__(self, retry_us: int, retry_max_us: int) -> None:
        self._pauses_us = _pauses(retry_us, retry_max_us)
        self._queues: list[deque[Pending[HolderT]]] = [deque() for _ in self._pauses_us]
        self._consumers: dict[str, dict[str, Pending[HolderT]]] = {}

    def add(self, now: int, production: Production, holder: HolderT) -> Pending[HolderT]:
        """Add a production that is being sent for the first time."""
        consumer, record_id = production.consumer, production.record_id
        pendings = self._consumers.get(consumer)
        if pendings is None:
            pendings = self._consumers[consumer] = {}
        assert record_id not in pendings, f"{record_id} is already pending at {consumer!r}"
        due_us, queue = now + self._pauses_us[0], self._queues[0]
        if queue and queue[-1].due_us > due_us:
            due_us = queue[-1].due_us
        pending = pendings[record_id] = Pending(production, holder, due_us)
        queue.append(pending)
        return pending

    @property
    def consumers(self) -> tuple[str, ...]:
        """The consumers to which anything has been sent."""
        return tuple(self._consumers)

    def find(self, consumer: str, record_id: str) -> Pending[HolderT] | None:
        """Return the pending production with this id and consumer, if any."""
        pendings = self._consumers.get(consumer)
        return None if pendings is None else pendings.get(record_id)

    def acked(self, consumer: str, record_id: str) -> Pending[HolderT] | None:
        """Remove and return an ACKed production; ``None``: it was already ACKed or discarded."""
        pendings = self._consumers.get(consumer)
        if pendings is None:
            return None
        pending = pendings.pop(record_id, None)
        if pending is not None:
            pending.done = True
            queue = self._queues[0]  # that of nearly all
            while queue and queue[0].done:
                queue.popleft()
        return pending

    def discard(self, pending: Pending[HolderT]) -> None:
        """Drop a production that its sender no longer owns; do nothing if it is done."""
        if not pending.done:
            self.acked(pending.production.consumer, pending.production.record_id)

    def due(self, now: int) -> list[Pending[HolderT]]:
        """Return the productions to send again now, and start their next retry delay."""
        if not any(self._queues):
            return []
        resent: list[Pending[HolderT]] = []
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
                resent.append(pending)
        return resent

    def _following_due(self, now: int, level: int) -> int:
        """Return when a production that joins a queue now is due, microseconds."""
        queue, due_us = self._queues[level], now + self._pauses_us[level]
        return max(due_us, queue[-1].due_us) if queue else due_us

    def next_due(self) -> int:
        """Return when `due` will next return a production, microseconds; `MAX_TIME`: nothing is pending."""
        earliest = MAX_TIME
        for queue in self._queues:
            while queue and queue[0].done:
                queue.popleft()
            if queue and queue[0].due_us < earliest:
                earliest = queue[0].due_us
        return earliest

    def resend_to_changed(self, now: int, before: Routing, after: Routing) -> list[Pending[HolderT]]:
        """Return the productions to send now because their interval has a new sequencer; restart their retry delays.

        Args:
            now: this process's clock, microseconds.
            before: routing of the previous table.
            after: routing of the new table.
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
        """Adjust to a sender's clock that was set back: no production waits longer than its retry delay from now."""
        for pause_us, queue in zip(self._pauses_us, self._queues, strict=True):
            for pending in queue:
                pending.due_us = brought_forward(pending.due_us, now, pause_us)

    def owing(self, consumers: Iterable[str]) -> tuple[tuple[str, int], ...]:
        """Count the pending productions of each of these consumers for a `Heartbeat`; omit consumers without any."""
        counts = ((consumer, len(self._consumers.get(consumer, ()))) for consumer in consumers)
        return tuple((consumer, count) for consumer, count in counts if count)

    def __len__(self) -> int:
        """Count the pending productions."""
        return sum(map(len, self._consumers.values()))

    def __iter__(self) -> Iterator[Pending[HolderT]]:
        """Iterate over the pending productions by consumer, in the order in which they were added."""
        for pendings in self._consumers.values():
            yield from pendings.values()

    def check_invariants(self) -> None:
        """Assert that each pending production is in one queue, that of its retry delay, and each queue is sorted by time."""
        queued: list[Pending[HolderT]] = []
        for level, queue in enumerate(self._queues):
            times = [pending.due_us for pending in queue]
            assert times == sorted(times), f"queue {level} is out of order: {times}"
            waiting = [pending for pending in queue if not pending.done]
            last = len(self._queues) - 1
            assert all(min(pending.attempts - 1, last) == level for pending in waiting), (
                f"queue {level} has productions of another queue"
            )
            queued.extend(waiting)
        assert len(queued) == len(self), f"{len(queued)} are queued, but {len(self)} are pending"
        assert {id(pending) for pending in queued} == {id(pending) for pending in self}, (
            "queues and index differ"
        )


def _pauses(retry_us: int, retry_max_us: int) -> list[int]:
    """List the retry delays: doubling from the first to the longest.

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
