"""The host of all processes: delivers events to each and carries out the effects that it returns.

It contains nothing of the protocol. The simulation is lean by construction: a message is one event on the heap, a request to
the store two (there and back), and nothing is a process or a queue of its own.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol

from headrace import HeadraceError
from headrace.delivery.routing import OUTSIDE_ADDRESS
from headrace.history import History
from headrace.wire.effects import Effect, Event, Halt, Replay, Send, Start, WakeAt
from headrace_sim.cluster_options import ClusterOptions
from headrace_sim.endpoints.cpu import Cpus
from headrace_sim.endpoints.node import Node, NodeState
from headrace_sim.endpoints.outside import InjectorLog, Outside
from headrace_sim.endpoints.store import StoreHost
from headrace_sim.hosting.alarms import Alarms
from headrace_sim.hosting.reading import Readers
from headrace_sim.kernel import Kernel
from headrace_sim.steps import Step
from headrace_sim.wires.departures import Departures
from headrace_sim.wires.network import Network
from headrace_sim.wires.store_link import StoreLink
from headrace_sim.wires.wire import Wire

OnStep = Callable[[Step, Event, str], None]
"""Receives a protocol step, what is sent or received at it, and the target's address."""


class StepObserver(Protocol):
    """Watches the protocol steps of some processes, and may stop a process before, at or after one.

    Attributes:
        sending: process to the names of the messages to watch when it sends them.
        receiving: process to the names of the messages to watch when it receives them.
    """

    sending: Mapping[str, Collection[str]]
    receiving: Mapping[str, Collection[str]]

    def receives(self, node: Node, event: Event, cause: int | None) -> bool:
        """Return whether a process that is about to handle an event may do so now."""
        ...

    def carry_out(self, node: Node, effects: Sequence[Effect], sent_us: int) -> None:
        """Carry out a process's effects in place of the host."""
        ...

    def tell(self, on_step: OnStep) -> None:
        """Watch every step from now on, and report each one before any fault begins at it."""
        ...

    def forget(self) -> None:
        """Stop beginning faults."""
        ...


class Host:
    """Drives the processes on the machines.

    Args:
        kernel: the time.
        history: what happens.
        nodes: the machines by address.
        sources: of the injectors' processes, by address.
        store: the backing store.
        network: what faults do to messages.
        options: of the cluster.
        stream: the random stream of a concern.

    Attributes:
        kernel: the time.
        history: what has happened.
        nodes: the machines by address.
        wire: carries the messages.
        departures: messages that had left a machine before it stopped or changed its speed.
        readers: read the sources.
        observer: watches protocol steps; ``None``: they are not watched.
        error: the error that ended the run for good.
    """

    def __init__(
        self,
        kernel: Kernel,
        history: History,
        nodes: Mapping[str, Node],
        sources: Mapping[str, InjectorLog],
        store: StoreHost,
        network: Network,
        options: ClusterOptions,
        stream: Callable[[str], random.Random],
    ) -> None:
        self.kernel = kernel
        self.history = history
        self.nodes = nodes
        self.observer: StepObserver | None = None
        self.error: HeadraceError | None = None
        self._check_invariants = options.check_invariants
        self._book = Cpus(options, stream).book
        alarms = Alarms(kernel, options.timer_lag.sampler(stream("timer lag")), self.give)
        if options.check_invariants:
            alarms.coming = Counter()
        self._alarms, self._wake_at, self.is_alarm = alarms, alarms.wake_at, alarms.is_alarm
        self.readers = Readers(kernel, history, nodes, sources, self.give)
        self.departures = Departures(kernel)
        store_us = options.store_link.sampler(stream("store link"))
        store_link = StoreLink(kernel, history, store, network, store_us, self.departures, self.give)
        link_us, outside = options.link.sampler(stream("link")), Outside(OUTSIDE_ADDRESS, history)
        self.wire = Wire(
            kernel, history, nodes, network, link_us, self.departures, store_link, outside, self.give
        )
        self._transmit = self.wire.transmit

    def start(self, node: Node) -> None:
        """Start a machine's process, with an empty memory."""
        node.start()
        node.busy_until_us = self.kernel.now
        self.kernel.call_later(0, self._begin, (node, node.incarnation, self.history.activation))

    def _begin(self, start: tuple[Node, int, int | None]) -> None:
        node, incarnation, cause = start
        if node.incarnation == incarnation:  # it may have crashed and restarted in the same instant
            if node.state is NodeState.STARTING:
                node.state = NodeState.UP
            self.give(node, Start(incarnation), cause)

    def give(self, node: Node, event: Event, cause: int | None = None) -> None:
        """Let a process handle an event, and carry out its effects.

        Args:
            node: the process's machine.
            event: what it handles.
            cause: the activation that led to it; ``None``: it comes from outside.
        """
        if node.state is not _UP:
            if node.state is NodeState.PAUSED:
                node.inbox.append((event, cause))
            return
        observer = self.observer
        if (
            observer is not None
            and node.address in observer.receiving
            and not observer.receives(node, event, cause)
        ):
            return
        history = self.history
        now = history.at_us = self.kernel.now
        history.begin(node.address, type(event).__name__, cause)
        effects = node.process.handle(now + node.clock_us, event)
        if self._check_invariants:
            node.process.check_invariants()
        if not effects:
            if self._check_invariants:
                self._alarms.check_invariants(node)
            return
        sent_us = self._book(node, now)
        if observer is not None and node.address in observer.sending:
            observer.carry_out(node, effects, sent_us)
            return
        transmit = self._transmit
        for effect in effects:
            if type(effect) is Send:
                transmit(node, effect, sent_us)
            elif type(effect) is WakeAt:
                self._wake_at(node, effect.at_us, history.activation)
            else:
                self.carry_out(node, effect)
        if self._check_invariants:
            self._alarms.check_invariants(node)

    def carry_out(self, node: Node, effect: Effect) -> None:
        """Carry out an effect other than sending a message."""
        match effect:
            case WakeAt():
                self._wake_at(node, effect.at_us, self.history.activation)
            case Replay():
                self.readers.replay(node.address, effect.offset)
            case Halt():
                self.error = effect.error
                self.kernel.stop()
            case _:
                raise AssertionError(f"nobody carries out {effect}")


_UP = NodeState.UP
