"""Watching a cluster's protocol steps: counting them, and letting faults begin with them.

A cluster that nobody watches does nothing for it; one comparison for each event that a process handles. Where faults are planned,
only the steps of their processes and messages are looked at, and none any more once everything has healed.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, get_args

from headrace.history import StepReached
from headrace.wire.effects import Effect, Event, Send
from headrace.wire.messages import Message
from headrace_sim.faults import DelayMessage, DropMessage, DuplicateMessage, MessageFault, StepFault
from headrace_sim.network import NORMAL, Fate
from headrace_sim.node import Node, NodeState
from headrace_sim.steps import EVENTS, MESSAGES, Does, Moment, Step, computation_of

if TYPE_CHECKING:  # the cluster has a watch, and a watch its cluster
    from headrace_sim.cluster import Cluster

Place = tuple[str, Does, str, str]
"""Process, what it does, message, computation (``""``: all)."""

_MESSAGES = frozenset(get_args(Message))
_ALL = frozenset(MESSAGES + EVENTS)


class _Caught(NamedTuple):
    """An event that was paused or delayed when a process was about to handle it.

    ``tied``: the faults that begin once it has.
    """

    event: Event
    tied: list[StepFault]


class Watch:
    """Counts the steps of a cluster, and begins the faults that are tied to some.

    Args:
        cluster: to be watched.
        planned: the faults; none: it counts every step.
        begin: lets a fault begin.

    Attributes:
        counts: how often each step has come that is looked for, by process, what it does, message and computation.
        sending: process to the names of the messages that are looked for when it sends them.
        receiving: process to the names of those that are looked for when it receives them.
    """

    def __init__(
        self,
        cluster: "Cluster",
        planned: Collection[StepFault] = (),
        begin: Callable[[StepFault], None] = lambda _: None,
    ) -> None:
        self.counts: Counter[Place] = Counter()
        self._cluster = cluster
        self._begin = begin
        self._planned: dict[tuple[Place, int], list[StepFault]] = {}
        self._caught: dict[tuple[str, int, int], _Caught] = {}
        for one in planned:
            self._planned.setdefault((place_of(one.step), one.step.nth), []).append(one)
        self._ever: Mapping[str, Collection[str]] = {} if planned else dict.fromkeys(cluster.nodes, _ALL)
        self.sending = _looked_for(planned, Does.SENDS) or self._ever
        self.receiving = _looked_for(planned, Does.RECEIVES) or self._ever

    def forget(self) -> None:
        """Nothing begins any more; counting every step goes on."""
        self._planned.clear()
        self.sending = self.receiving = self._ever

    def receives(self, node: Node, event: Event) -> bool:
        """A process that is looked at is about to handle an event; tells whether it does so, now."""
        caught = self._caught.pop((node.address, node.incarnation, id(event)), None)
        planned = self._comes(node.address, Does.RECEIVES, event) if caught is None else caught.tied
        after = [one for one in planned if one.moment is Moment.AFTER]
        fate = self._strike(planned, Moment.BEFORE, node)
        cluster = self._cluster
        if fate is not NORMAL and type(event) in _MESSAGES:
            if fate.copies == 2:
                cluster.kernel.call_later(fate.delay_us, self._comes_again, (node, event))
            elif fate.copies:
                cluster.kernel.call_later(fate.delay_us, self._goes_on, (node, _Caught(event, after)))
            if fate.copies != 2:
                return False
        if node.state is not NodeState.UP:
            self._goes_on((node, _Caught(event, after)))  # what a paused process gets, it keeps
            return False
        if after:  # the rest of this instant is the process's: it handles the event first
            cluster.kernel.call_later(0, self._has_received, (node, node.incarnation, after))
        return True

    def carry_out(self, node: Node, effects: Sequence[Effect], sent_us: int) -> None:
        """Carry out what a process that is looked at has asked for one by one, as far as it lives to do."""
        cluster, incarnation = self._cluster, node.incarnation
        for number, effect in enumerate(effects):
            if type(effect) is not Send:
                cluster.carry_out(node, effect)
                continue
            planned = self._comes(node.address, Does.SENDS, effect.message)
            rest = effects[number + 1 :]
            fate = self._strike(planned, Moment.BEFORE, node)
            if self._stopped(node, incarnation, sent_us):
                self._keep(node, effect, rest)
                return
            if fate is NORMAL:
                cluster.transmit(node, effect, sent_us)
            else:
                delay_us = sent_us - cluster.kernel.now
                cluster.suffer(fate, node.address, effect.to, effect.message, node, delay_us, 0)
            self._strike(planned, Moment.AFTER, node)
            if planned and self._stopped(node, incarnation, sent_us):
                self._keep(node, None, rest)
                return

    def _comes(self, address: str, does: Does, event: Event) -> Sequence[StepFault]:
        """A step has come: if it is looked for, count it, and look up what is tied to it."""
        name, looked_for = type(event).__name__, self.sending if does is Does.SENDS else self.receiving
        if name not in looked_for.get(address, ()):
            return ()
        computation, counts = computation_of(event), self.counts
        found: list[StepFault] = []
        for place in {(address, does, name, ""): None, (address, does, name, computation): None}:
            counts[place] += 1
            if self._planned:
                found += self._planned.pop((place, counts[place]), ())
        return found

    def _strike(self, planned: Sequence[StepFault], moment: Moment, node: Node) -> Fate:
        """Let what is tied to this moment begin; returns what becomes of the message."""
        fate, cluster = NORMAL, self._cluster
        for one in planned:
            if one.moment is not moment:
                continue
            step, kind = one.step, one.fault.kind
            now = cluster.history.at_us = cluster.kernel.now
            cluster.history.record(StepReached(now, node.address, step.verb, step.nth, moment.value, kind))
            if isinstance(one.fault, MessageFault):
                cluster.struck(kind, node.address, str(step))
                fate = _fate(one.fault)
            else:
                self._begin(one)
        return fate

    def _comes_again(self, arrival: tuple[Node, Event]) -> None:
        """A second copy, which is a step of its own."""
        self._cluster.give(*arrival)

    def _goes_on(self, arrival: "tuple[Node, _Caught]") -> None:
        """Give what was caught; its step has been counted."""
        node, caught = arrival
        self._caught[node.address, node.incarnation, id(caught.event)] = caught
        self._cluster.give(node, caught.event)

    def _has_received(self, receipt: tuple[Node, int, list[StepFault]]) -> None:
        node, incarnation, planned = receipt
        sent_us = node.busy_until_us
        self._strike(planned, Moment.AFTER, node)
        self._stopped(node, incarnation, sent_us)

    @staticmethod
    def _stopped(node: Node, incarnation: int, sent_us: int) -> bool:
        """A process has just been stopped, if it has been: what it had sent by then has left it."""
        if node.incarnation == incarnation and node.state is NodeState.UP:
            return False
        node.halted_at_us = sent_us + 1
        return True

    def _keep(self, node: Node, effect: Send | None, rest: Sequence[Effect]) -> None:
        """A process that is paused goes on where it was when it is revived; one that has crashed does not."""
        if node.state is not NodeState.PAUSED:
            return
        cluster = self._cluster

        def go_on() -> None:
            if effect is not None:
                cluster.transmit(node, effect, cluster.kernel.now)
            self.carry_out(node, rest, cluster.kernel.now)

        node.waiting.append(go_on)


def place_of(step: Step) -> Place:
    """A step without how often it has come."""
    return step.process, step.does, step.message, step.computation


def _looked_for(planned: Iterable[StepFault], does: Does) -> Mapping[str, Collection[str]]:
    """The names of the messages, by process."""
    found: dict[str, set[str]] = {}
    for one in planned:
        if one.step.does is does:
            found.setdefault(one.step.process, set()).add(one.step.message)
    return found


def _fate(fault: MessageFault) -> Fate:
    match fault:
        case DropMessage():
            return Fate(copies=0)
        case DuplicateMessage():
            return Fate(2, fault.by_us)
        case DelayMessage():
            return Fate(1, fault.by_us)
