"""Read injectors' sources (MillWheel 5.2): each process gets events when they appear."""

from collections.abc import Mapping

from headrace.history import History, SourceHeld
from headrace.wire.effects import Replayed
from headrace_sim.endpoints.node import Give, Node, NodeState
from headrace_sim.endpoints.outside import InjectorLog
from headrace_sim.kernel import Kernel


class Readers:
    """Gives injectors' processes the events of their sources.

    Args:
        kernel: the time.
        history: knows the activation that asks for a replay.
        nodes: the machines by address.
        sources: of the injectors' processes, by address.
        give: takes a machine, the event for its process, and the event's cause.
    """

    def __init__(
        self,
        kernel: Kernel,
        history: History,
        nodes: Mapping[str, Node],
        sources: Mapping[str, InjectorLog],
        give: Give,
    ) -> None:
        self._kernel = kernel
        self._history = history
        self._nodes = nodes
        self._sources = sources
        self._give = give

    def read(self, address: str, cause: int | None = None) -> None:
        """Deliver to a process what has appeared in its source, if it has one, and repeat when more appears.

        Args:
            address: of the process.
            cause: the activation that asked for it; ``None``: it has just appeared.
        """
        source, node = self._sources.get(address), self._nodes[address]
        if source is None:
            return
        self.note(address)
        if node.state is not NodeState.UP:
            return
        for event in source.take(self._kernel.now):
            self._give(node, event, cause)
        next_us = source.next_at()
        if next_us is not None:
            self._kernel.call_at(next_us, self._ready, (address, source.readings))

    def note(self, address: str) -> None:
        """Write to the History what has newly appeared in a source."""
        history, now = self._history, self._kernel.now
        if not history.keeps:
            return
        news = self._sources[address].news(now)
        if news:
            history.at_us = now
            history.begin(address, "source", None)
            for event in news:
                history.record(SourceHeld(now, address, event))

    def replay(self, address: str, offset: int) -> None:
        """Let a process reread its source from an offset, and notify it when it has everything that had appeared."""
        self._sources[address].read_from(offset)
        self._kernel.call_later(0, self._replay, (address, self._history.activation))

    def _replay(self, request: tuple[str, int | None]) -> None:
        address, cause = request
        self.read(address, cause)
        self._give(self._nodes[address], Replayed(), cause)

    def _ready(self, appointment: tuple[str, int]) -> None:
        address, readings = appointment
        if self._sources[address].readings == readings:
            self.read(address)
