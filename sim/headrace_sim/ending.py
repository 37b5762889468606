"""Decide when a run is over: everything is done, or no progress was made for a while.

Progress is anything done for the first time, read from the History. A resent record, a repeated write or a repeated watermark is
not progress: a stuck run makes these forever.
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from headrace import MAX_TIME, MIN_TIME, Clock, Pipeline
from headrace.history import AckSent, Applied, CheckpointsDeleted, Event, History, Injected, Output, Published
from headrace.wire.messages import Assignment
from headrace_sim.cluster_options import ClusterOptions
from headrace_sim.endpoints.node import NodeState
from headrace_sim.endpoints.outside import InjectorLog
from headrace_sim.endpoints.store import StoreHost
from headrace_sim.hosting.host import Host


class Ending:
    """Decides when a run is over.

    A wall timer that is due within ``grace_us`` after the last input and the heal is waited for.

    Args:
        host: of the processes.
        sources: of the injectors' processes, by address.
        store: the backing store.
        pipelines: the deployed versions of the topology.
        options: how long to wait.

    Attributes:
        lasting: addresses that do not heal; other processes must do their work.
    """

    def __init__(
        self,
        host: Host,
        sources: dict[str, InjectorLog],
        store: StoreHost,
        pipelines: Sequence[Pipeline],
        options: ClusterOptions,
    ) -> None:
        self.lasting: frozenset[str] = frozenset()
        self._host = host
        self._sources = sources
        self._mediator = store.mediator
        self._pipelines = pipelines
        self._options = options

    def wait(self, advance: Callable[[int], None]) -> str:
        """Advance time until the run is over; return why: see `RunEnded`. ``advance``: advances time by some microseconds."""
        options, kernel = self._options, self._host.kernel
        since_us = max([kernel.now, *(source.end_us for source in self._sources.values())])
        limit_us = since_us + options.limit_us
        timers_us = (
            since_us + options.grace_us
        )  # timers that are set again and again must not keep a run going
        accomplished = Accomplished(self._host.history)
        period_us = options.check_period_us
        while not self.quiescent or any(due_us <= timers_us for due_us in self.wall_timers_us()):
            deadline_us = min(since_us + options.grace_us, limit_us)
            if kernel.now < deadline_us:
                waits_us = (
                    (since_us - kernel.now) // period_us * period_us
                )  # for sources, or for a wall timer
                advance(min(max(waits_us, period_us), deadline_us - kernel.now))
                continue
            latest_us = max(since_us, accomplished.latest_us(), self._last_wall_timer_us())
            if latest_us + options.grace_us <= kernel.now:
                return "deadline"
            if kernel.now >= limit_us:
                return "limit"
            since_us = latest_us
        return "quiescent"

    @property
    def quiescent(self) -> bool:
        """Whether all that was accepted is processed, every watermark is at its end and every interval has an owner.

        No wall timer is overdue, either. An interval without an owner, or whose owner has not scanned it yet, may have
        checkpoints that no process knows of.
        """
        if not all(source.exhausted for source in self._sources.values()):
            return False
        announced = self._host.wire.announcements
        names = {assignment.computation for assignment in announced.table.assignments}
        names |= set(self._pipelines[announced.table.topology].injectors)
        if any(announced.low_watermarks.get(name) != MAX_TIME for name in names) or not self.is_settled:
            return False
        now = self._host.kernel.now
        return not any(due_us <= now for due_us in self.wall_timers_us())

    @property
    def is_settled(self) -> bool:
        """Whether every interval has an owner that has scanned it, and nobody has anything unfinished."""
        announced = self._host.wire.announcements
        table = announced.table
        if table.version != self._mediator.table.version:
            return False  # the masters have not announced it yet
        if not table.assignments or table.retiring or table.joining is not None:
            return False
        if not all(map(self._is_owned, table.assignments)):
            return False
        owners = {assignment.owner for assignment in table.assignments}
        running = [
            node
            for address, node in self._host.nodes.items()
            if node.state is NodeState.UP and (address not in self.lasting or address in owners)
        ]
        return not any(getattr(node.process, "unfinished", 0) for node in running)

    def _is_owned(self, assignment: Assignment) -> bool:
        """Return whether the interval's owner is up, in the incarnation it was assigned to, and has scanned it."""
        node = self._host.nodes[assignment.owner]
        return (
            node.state is NodeState.UP
            and node.incarnation == assignment.incarnation
            and assignment.sequencer in node.process.owned
        )

    def _last_wall_timer_us(self) -> int:
        """Return when the last durable wall timer is due by any clock, true time: a run that waits for it is not stuck."""
        return max(self.wall_timers_us(), default=MIN_TIME)

    def wall_timers_us(self, *, latest: bool = True) -> Iterator[int]:
        """Yield when each durable wall timer is due, true time. ``latest``: by the slowest clock, and not by the fastest."""
        clocks = [node.clock_us for node in self._host.nodes.values()]
        ahead_us = min(clocks) if latest else max(clocks)
        assignments = self._host.wire.announcements.table.assignments
        for name in {assignment.computation: None for assignment in assignments}:
            for row in self._mediator.rows(name).values():
                for timer in row.timers.values():
                    if timer.clock is Clock.WALL:
                        yield timer.due - ahead_us


class Accomplished:
    """Tracks a run's progress. It reads events only on demand, and each event once.

    Args:
        history: of the run; events may be taken out of it meanwhile.
    """

    __slots__ = ("_done", "_handlers", "_history", "_latest_us", "_published", "_read")

    def __init__(self, history: History) -> None:
        self._history = history
        self._read = 0
        self._done: set[Hashable] = set()
        self._published: dict[str, int] = {}
        self._latest_us = MIN_TIME
        self._handlers: dict[type[Event], Callable[[Any], Iterator[Hashable]]] = {
            Injected: self._of_injected,
            Applied: self._of_applied,
            AckSent: self._of_ack,
            CheckpointsDeleted: self._of_deleted,
            Output: self._of_output,
            Published: self._of_published,
        }

    def latest_us(self) -> int:
        """Return the time of the last progress, true time in microseconds; `MIN_TIME` if there was none."""
        events = self._history.events
        begin = self._read if self._read <= len(events) else 0
        for event in events[begin:]:
            handler = self._handlers.get(type(event))
            if handler is None:
                continue
            before = len(self._done)
            self._done.update(handler(event))
            if len(self._done) > before:
                self._latest_us = event.at_us
        self._read = len(events)
        return self._latest_us

    @staticmethod
    def _of_injected(event: Injected) -> Iterator[Hashable]:
        yield Injected, event.process, event.offset

    @staticmethod
    def _of_applied(event: Applied) -> Iterator[Hashable]:
        for record_id, _ in event.delta.seen:
            yield Applied, event.computation, record_id
        for timer in event.delta.fired:
            yield Applied, event.computation, event.delta.key, timer.tag, timer.set_by

    @staticmethod
    def _of_ack(event: AckSent) -> Iterator[Hashable]:
        for record_id in event.record_ids:
            yield AckSent, event.computation, record_id

    @staticmethod
    def _of_deleted(event: CheckpointsDeleted) -> Iterator[Hashable]:
        for checkpoint in event.checkpoints:
            yield CheckpointsDeleted, event.computation, checkpoint

    @staticmethod
    def _of_output(event: Output) -> Iterator[Hashable]:
        yield Output, event.production.record_id

    def _of_published(self, event: Published) -> Iterator[Hashable]:
        for name, progress in event.values:
            if progress.low_watermark > self._published.get(name, MIN_TIME):
                self._published[name] = progress.low_watermark
                yield Published, name, progress.low_watermark
