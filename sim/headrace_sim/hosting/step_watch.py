"""Watch the protocol steps of a cluster's processes: count them, and start faults at them.

If faults are planned, only the steps of their processes and messages are watched, and none after the heal.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, get_args

from headrace.history import StepReached
from headrace.wire.effects import Effect, Event, Send
from headrace.wire.messages import Message
from headrace_sim.endpoints.node import Node, NodeState
from headrace_sim.faults import DelayMessage, DropMessage, DuplicateMessage, MessageFault, StepFault
from headrace_sim.faults.log import FaultLog
from headrace_sim.hosting.host import Host, OnStep
from headrace_sim.steps import EVENTS, MESSAGES, Does, Moment, Step, computation_of
from headrace_sim.wires.network import NORMAL, Fate

Place = tuple[str, Does, str, str]
"""Process, what it does, message, computation (``""``: all)."""

_MESSAGES = frozenset(get_args(Message))
_ALL = frozenset(MESSAGES + EVENTS)


class CaughtEvent(NamedTuple):
    """An event that was paused or delayed when a process was about to handle it.

    ``cause``: the activation that led to it; ``tied``: the faults that begin once the process has handled it.
    """

    event: Event
    cause: int | None
    tied: list[StepFault]


class StepWatch:
    """Counts the steps of a host's processes, and starts faults at some.

    Args:
        host: of the processes.
        log: records the faults that take effect.
        planned: the faults; none: it counts every step.
        begin: lets a fault begin.

    Attributes:
        counts: how often each watched step has occurred, by process, what it does, message and computation.
        sending: process to the names of the messages that are watched when it sends them.
        receiving: process to the names of the messages that are watched when it receives them.
    """

    def __init__(
        self,
        host: Host,
        log: FaultLog,
        planned: Collection[StepFault],
        begin: Callable[[StepFault], None],
    ) -> None:
        self.counts: Counter[Place] = Counter()
        self._host = host
        self._log = log
        self._begin = begin
        self._planned: dict[tuple[Place, int], list[StepFault]] = {}
        self._later: dict[Place, list[StepFault]] = {}
        self._counts_later: Counter[tuple[Place, int]] = Counter()
        self._on_step: OnStep | None = None
        self._caught: dict[tuple[str, int, int], CaughtEvent] = {}
        for fault in planned:
            if fault.step.after_us:
                self._later.setdefault(place_of(fault.step), []).append(fault)
            else:
                self._planned.setdefault((place_of(fault.step), fault.step.nth), []).append(fault)
        self._ever: Mapping[str, Collection[str]] = {} if planned else dict.fromkeys(host.nodes, _ALL)
        self.sending = _looked_for(planned, Does.SENDS) or self._ever
        self.receiving = _looked_for(planned, Does.RECEIVES) or self._ever

    def tell(self, on_step: OnStep) -> None:
        """Watch every step from now on, and report each before any fault begins at it."""
        self._on_step = on_step
        self._ever = self.sending = self.receiving = dict.fromkeys(self._host.nodes, _ALL)

    def forget(self) -> None:
        """Stop beginning faults; a watch that counts every step continues to count."""
        self._planned.clear()
        self._later.clear()
        self.sending = self.receiving = self._ever

    def receives(self, node: Node, event: Event, cause: int | None) -> bool:
        """Return whether a process that is about to handle an event does so now."""
        caught = self._caught.pop((node.address, node.incarnation, id(event)), None) if self._caught else None
        planned = self._comes(node.address, Does.RECEIVES, event) if caught is None else caught.tied
        if not planned:
            return True
        after = [fault for fault in planned if fault.moment is Moment.AFTER]
        fate = self._strike(planned, Moment.BEFORE, node, cause)
        kernel = self._host.kernel
        if fate is not NORMAL and type(event) in _MESSAGES:
            if fate.copies == 2:
                kernel.call_later(fate.delay_us, self._comes_again, (node, event, cause))
            elif fate.copies:
                kernel.call_later(fate.delay_us, self._goes_on, (node, CaughtEvent(event, cause, after)))
            if fate.copies != 2:
                return False
        if node.state is not NodeState.UP:
            self._goes_on((node, CaughtEvent(event, cause, after)))  # a paused process keeps what it receives
            return False
        if after:  # the process has the rest of this instant: it handles the event first
            kernel.call_later(0, self._has_received, (node, node.incarnation, after, cause))
        return True

    def carry_out(self, node: Node, effects: Sequence[Effect], sent_us: int) -> None:
        """Carry out a process's effects one by one, until a fault stops it."""
        host, incarnation, activation = self._host, node.incarnation, self._host.history.activation
        for number, effect in enumerate(effects):
            if type(effect) is not Send:
                host.carry_out(node, effect)
                continue
            planned = self._comes(node.address, Does.SENDS, effect.message, effect.to)
            if not planned:
                host.wire.transmit(node, effect, sent_us)
                continue
            rest = effects[number + 1 :]
            fate = self._strike(planned, Moment.BEFORE, node, activation)
            if self._stopped(node, incarnation, sent_us):
                self._keep(node, effect, rest)
                return
            if fate is NORMAL:
                host.wire.transmit(node, effect, sent_us)
            else:
                host.wire.transmit_with(fate, node, effect.to, effect.message, sent_us)
            self._strike(planned, Moment.AFTER, node, activation)
            if self._stopped(node, incarnation, sent_us):
                self._keep(node, None, rest)
                return

    def _comes(self, address: str, does: Does, event: Event, to: str = "") -> Sequence[StepFault]:
        """Count a step if it is watched; return the faults that are tied to it."""
        name, looked_for = type(event).__name__, self.sending if does is Does.SENDS else self.receiving
        if name not in looked_for.get(address, ()):
            return ()
        computation, counts = computation_of(event), self.counts
        faults: list[StepFault] = []
        places = dict.fromkeys([(address, does, name, ""), (address, does, name, computation)])
        for place in places:
            counts[place] += 1
        if self._on_step is not None:
            step = Step(address, does, name, counts[address, does, name, computation], computation)
            self._on_step(step, event, to or address)
        for place in places:
            if self._planned:
                faults += self._planned.pop((place, counts[place]), ())
            if place in self._later:
                faults += self._come_later(place)
        return faults

    def _come_later(self, place: Place) -> list[StepFault]:
        """Count a step for faults that count from a later time; return those that begin at it."""
        now, counts = self._host.kernel.now, self._counts_later
        for after_us in sorted({fault.step.after_us for fault in self._later[place]}):
            counts[place, after_us] += now >= after_us
        tied = self._later[place]
        faults = [fault for fault in tied if counts[place, fault.step.after_us] == fault.step.nth]
        self._later[place] = [fault for fault in tied if fault not in faults]
        return faults

    def _strike(self, planned: Sequence[StepFault], moment: Moment, node: Node, cause: int | None) -> Fate:
        """Begin the faults of this moment; return the message's fate.

        Each is a separate activation. The process's, which ``cause`` led to, continues as another one.
        """
        fate, host = NORMAL, self._host
        for tied in planned:
            if tied.moment is not moment:
                continue
            step, kind = tied.step, tied.fault.kind
            now = host.history.at_us = host.kernel.now
            host.history.begin(node.address, "step", cause)
            host.history.record(StepReached(now, node.address, step.verb, step.nth, moment.value, kind))
            if isinstance(tied.fault, MessageFault):
                self._log.struck(kind, node.address, str(step))
                fate = _fate(tied.fault)
            else:
                self._log.cause = host.history.activation
                self._begin(tied)
                self._log.cause = None
                host.history.begin(node.address, "step", cause)
        return fate

    def _comes_again(self, arrival: tuple[Node, Event, int | None]) -> None:
        """Deliver the second copy of a message, which is a separate step."""
        self._host.give(*arrival)

    def _goes_on(self, arrival: tuple[Node, CaughtEvent]) -> None:
        """Deliver a caught event, whose step has been counted."""
        node, caught = arrival
        self._caught[node.address, node.incarnation, id(caught.event)] = caught
        self._host.give(node, caught.event, caught.cause)

    def _has_received(self, receipt: tuple[Node, int, list[StepFault], int | None]) -> None:
        node, incarnation, planned, cause = receipt
        sent_us = node.busy_until_us
        self._strike(planned, Moment.AFTER, node, cause)
        self._stopped(node, incarnation, sent_us)

    @staticmethod
    def _stopped(node: Node, incarnation: int, sent_us: int) -> bool:
        """Return whether a process has just been stopped; if so, let the messages it had already sent leave its machine."""
        if node.incarnation == incarnation and node.state is NodeState.UP:
            return False
        node.halted_at_us = sent_us + 1
        return True

    def _keep(self, node: Node, effect: Send | None, rest: Sequence[Effect]) -> None:
        """Let a process that was paused continue with these effects when it is revived; one that crashed does not."""
        if node.state is not NodeState.PAUSED:
            return
        host, cause = self._host, self._host.history.activation

        def go_on() -> None:
            host.history.begin(node.address, "revive", cause)
            if effect is not None:
                host.wire.transmit(node, effect, host.kernel.now)
            self.carry_out(node, rest, host.kernel.now)

        node.waiting.append(go_on)


def place_of(step: Step) -> Place:
    """Return a step without its count."""
    return step.process, step.does, step.message, step.computation


def _looked_for(planned: Iterable[StepFault], does: Does) -> Mapping[str, Collection[str]]:
    """Collect the names of the messages by process."""
    names: dict[str, set[str]] = {}
    for fault in planned:
        if fault.step.does is does:
            names.setdefault(fault.step.process, set()).add(fault.step.message)
    return names


def _fate(fault: MessageFault) -> Fate:
    match fault:
        case DropMessage():
            return Fate(copies=0)
        case DuplicateMessage():
            return Fate(2, fault.by_us)
        case DelayMessage():
            return Fate(1, fault.by_us)
