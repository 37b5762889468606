"""The engine alone: its workers and its store, connected by a queue. No SimPy, no time, no faults.

It is a minimal driver of the same state machines, so that their own cost is measured. Instead of a master, it mints one
assignment itself; the source ignores its ACKs.
"""

from collections import deque
from collections.abc import Iterable
from typing import Any

from headrace import EngineOptions, Pipeline
from headrace.delivery.routing import OUTSIDE_ADDRESS
from headrace.history import History
from headrace.store.mediator import MASTER_ROLE, Mediator
from headrace.wire import messages as m
from headrace.wire.effects import Deliveries, Event, Send, Start
from headrace.wire.keys import KeyInterval
from headrace.wire.messages import STORE
from headrace.wire.rows import Production
from headrace.worker.worker import Worker

SOURCE = "source"
"""The address to which injected records are ACKed."""


class EngineLoop:
    """The workers of one pipeline, and one store.

    Args:
        pipeline: the pipeline; its computations' intervals are assigned to the workers in turn.
        workers: number of workers.
        options: the engine's options.

    Attributes:
        now_us: time of every clock, microseconds; it advances only when it is set.
        outputs: number of records that have left the pipeline.
    """

    def __init__(self, pipeline: Pipeline, workers: int, options: EngineOptions) -> None:
        history = History.discarding()
        self.now_us = self.outputs = 0
        self._store = Mediator(history)
        self._queue: deque[tuple[str, str, Any]] = deque()
        self._workers = {
            address: Worker(address, (pipeline,), options, history)
            for address in (f"worker-{number}" for number in range(workers))
        }
        self.tell_all(Start(1))
        self.tell_all(self._assignment(pipeline))
        self.settle()

    def deliver(self, productions: Iterable[tuple[str, Production]]) -> None:
        """Send the source's records, as (address, production), and handle everything that follows."""
        for address, production in productions:
            self._queue.append((address, SOURCE, m.Deliver(production, SOURCE)))
        self.settle()

    def deliver_at_once(self, address: str, productions: Iterable[Production]) -> None:
        """Send many of the source's records to one worker at once, as a host such as Spark does."""
        self._queue.append((address, SOURCE, Deliveries(productions, SOURCE)))
        self.settle()

    def tell_all(self, event: Event) -> None:
        """Send an event to each worker."""
        for address in self._workers:
            self._queue.append((address, SOURCE, event))

    def settle(self) -> None:
        """Deliver messages until none are left."""
        queue, workers, store = self._queue, self._workers, self._store
        while queue:
            to, sender, message = queue.popleft()
            if to == STORE:
                queue.append((sender, STORE, store.handle(message)))
            elif to == OUTSIDE_ADDRESS:
                self.outputs += 1
                production = message.production
                queue.append((sender, to, m.Ack(production.consumer, (production.record_id,))))
            elif (worker := workers.get(to)) is not None:
                for effect in worker.handle(self.now_us, message):
                    if type(effect) is Send:
                        queue.append((effect.to, to, effect.message))

    def dismiss(self) -> list[Worker]:
        """Drop the store and all messages, and hand the workers over to the caller."""
        workers = list(self._workers.values())
        self._workers.clear()
        self._store = Mediator(History.discarding())
        return workers

    def _assignment(self, pipeline: Pipeline) -> m.Table:
        """Mint the assignment that a master would."""
        self._store.handle(m.Claim(1, MASTER_ROLE, 0, SOURCE))
        addresses = list(self._workers)
        changes: list[m.MintChange] = []
        for name, spec in pipeline.computations.items():
            lows, highs = ["", *spec.split_at], [*spec.split_at, None]
            for low, high in zip(lows, highs, strict=True):
                owner = addresses[len(changes) % len(addresses)]
                changes.append(m.MintChange(name, KeyInterval(low, high), owner, 1))
        minted = self._store.handle(m.Mint(2, 1, 1, tuple(changes), topology=0))
        assert isinstance(minted, m.Minted)
        return minted.table
