"""What all intervals of a worker share: its store client, outbox, cache, routing and effects."""

from collections.abc import Mapping
from typing import TypeVar

from headrace.api.options import EngineOptions
from headrace.deadlines import Deadline, Wakes
from headrace.delivery.outbox import Outbox
from headrace.delivery.routing import NOWHERE, Routing
from headrace.history import History
from headrace.rules import Rules
from headrace.store.client import StoreClient
from headrace.wire.effects import Effect
from headrace.wire.rows import Production
from headrace.worker.cache import RowCache
from headrace.worker.step import Holder

PartT = TypeVar("PartT")


class Load:
    """What an interval has run since the last heartbeat (7.1).

    Attributes:
        computation: whose interval.
        records: records and timers.
        cpu_us: CPU time of its user code, microseconds.
    """

    __slots__ = ("computation", "cpu_us", "records")

    def __init__(self, computation: str) -> None:
        self.computation = computation
        self.records = self.cpu_us = 0


class Shared:
    """What all intervals of a worker share.

    Attributes:
        effects: what the host is asked to do once the event has been handled.
        wakes: those that the host was asked for.
        sweep_due: when it may look after what is outstanding again.
        record: records its events.
        runs: how often user code ran.
        uncharged: the intervals it ran for, run by run, since the host last said what CPU time that took.
        taken: see `Worker`.
    """

    __slots__ = (
        "_parts", "address", "cache", "effects", "history", "options", "outbox", "record", "routing", "rules", "runs", "store",
        "sweep_due", "taken", "uncharged", "wakes",
    )  # fmt: skip

    def __init__(
        self,
        address: str,
        options: EngineOptions,
        history: History,
        rules: Rules,
        parts: Mapping[type, type],
        taken: list[Production] | None,
    ) -> None:
        self.address = address
        self.taken = taken
        self._parts = parts
        self.rules = rules
        self.options = options
        self.history = history
        self.record = history.of(address)
        self.effects: list[Effect] = []
        self.wakes = Wakes(self.effects)
        self.sweep_due = Deadline(options.sweep_period_us)
        self.store = StoreClient(self.effects, options.store_timeout_us)
        self.outbox: Outbox[Holder] = Outbox(options.retry_us, options.retry_max_us)
        self.cache = RowCache(options.cache_bytes, options.eviction, rules)
        self.routing: Routing = NOWHERE
        self.runs = 0
        self.uncharged: list[Load] = []

    def part(self, own: type[PartT]) -> type[PartT]:
        """Return the class of a part of an interval: the engine's own, or the one that `Worker.parts` puts in its place."""
        return self._parts.get(own, own)

    def sweep_at(self, due_us: int) -> None:
        """Ask the host to wake the worker when something that begins to wait now is to be looked after."""
        self.wakes.ask(max(due_us, self.sweep_due.due_us))
