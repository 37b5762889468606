"""What happened before what in a run: Lamport's relation, from the causes that the run's host recorded.

Rules of this file. An activation happens before the later ones of its process, before those that it causes, and before all that
these happen before. Nothing else does: two events without such a path between them could have happened in the other order. What
belongs to no process (an operator's verb, the network that sends a held message on) is ordered by its cause alone. A process
that restarts is still the same process.
"""

from bisect import bisect_right
from collections.abc import Sequence

from headrace.api.errors import HeadraceError
from headrace.history import Activation, Event, History

Clock = dict[str | int, int]
"""Process to its last activation that is known; one of no process is known by its own number."""


class UnknownCausesError(HeadraceError):
    """A History has no causes. Field: events, their number."""

    def __init__(self, events: int) -> None:
        super().__init__(events)
        self.events = events

    def __str__(self) -> str:
        return (
            f"the causes of this History's {self.events:,} events are unknown: the host that ran it records none, or its file"
            " was written without them. Simulated runs record them"
        )


class NoSuchEventError(HeadraceError):
    """A History has no event of this number. Fields: event, events, how many it has."""

    def __init__(self, event: int, events: int) -> None:
        super().__init__(event, events)
        self.event, self.events = event, events

    def __str__(self) -> str:
        return f"the History has {self.events:,} events, numbered from 0, and none is number {self.event}"


class Causes:
    """Answers what led to an event, and what happened before it. Events and activations are named by their numbers.

    Args:
        history: of a run; what is added to it later is not seen.

    Raises:
        UnknownCausesError: its causes are unknown.

    Attributes:
        activations: of the run, in the order in which they began.
    """

    def __init__(self, history: History) -> None:
        if history.events and not history.activations:
            raise UnknownCausesError(len(history))
        self.activations: tuple[Activation, ...] = tuple(history.activations)
        self._firsts = [activation.first_event for activation in self.activations]
        self._ends = [*self._firsts[1:], len(history)]
        self._events = len(history)
        self._clocks: list[Clock] = []

    @classmethod
    def if_known(cls, history: Sequence[Event]) -> "Causes | None":
        """Return the causes of some events; ``None``: they are unknown."""
        return cls(history) if isinstance(history, History) and history.activations else None

    def activation_of(self, event: int) -> int:
        """Return the activation that an event belongs to.

        Raises:
            NoSuchEventError: there is no such event. Every method that takes an event raises it.
        """
        if not 0 <= event < self._events:
            raise NoSuchEventError(event, self._events)
        return bisect_right(self._firsts, event) - 1

    def sender_of(self, event: int) -> int | None:
        """Return the activation that sent what an event's process handled then; ``None``: it came from outside.

        A network that held a message and sent it on is left out.
        """
        sent = self.activations[self.activation_of(event)].cause
        while sent is not None and not self.activations[sent].process:
            sent = self.activations[sent].cause
        return sent

    def process_of(self, activation: int) -> str:
        """Return the process of an activation."""
        return self.activations[activation].process

    def end_of(self, activation: int) -> int:
        """Return the number of the event after an activation's last one."""
        return self._ends[activation]

    def known_of(self, event: int, process: str) -> int:
        """Return how far an event knows a process: what happened there before this number happens before the event."""
        activation = self.activation_of(event)
        if process == self.activations[activation].process:
            return event
        known = self.clocks()[activation].get(process)
        return 0 if known is None else self._ends[known]

    def cause_of(self, event: int) -> int | None:
        """Return the event that led to an event's activation; ``None``: it came from outside.

        It is the last event of the activation that sent the message or set the alarm. If that has no event, it is what led to
        that one in turn.
        """
        activation = self.sender_of(event)
        while activation is not None and self._firsts[activation] == self._ends[activation]:
            activation = self.activations[activation].cause
        return None if activation is None else self._ends[activation] - 1

    def happens_before(self, earlier: int, later: int) -> bool:
        """Return whether an event happens before another one."""
        first, second = self.activation_of(earlier), self.activation_of(later)
        if first == second:
            return earlier < later
        return self.clocks()[second].get(self._name(first), -1) >= first

    def clocks(self) -> list[Clock]:
        """Return each activation's vector clock: of each process, the last activation that happens before it, or is it."""
        clocks, latest = self._clocks, Clock()
        if not clocks:
            for number, activation in enumerate(self.activations):
                name = self._name(number)
                clock = dict(clocks[latest[name]]) if name in latest else Clock()
                if activation.cause is not None:
                    for process, known in clocks[activation.cause].items():
                        if known > clock.get(process, -1):
                            clock[process] = known
                clock[name] = latest[name] = number
                clocks.append(clock)
        return clocks

    def _name(self, activation: int) -> str | int:
        return self.activations[activation].process or activation
