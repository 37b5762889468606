"""The wire between machines: a message becomes one event, unless a fault decides on it.

A request to the store travels over its own link (`StoreLink`), a record without consumers to the outside.
"""

from collections.abc import Mapping

from headrace.delivery.routing import OUTSIDE_ADDRESS
from headrace.history import History
from headrace.wire.effects import Send
from headrace.wire.messages import STORE, Deliver, Message
from headrace_sim.distributions import Sampler
from headrace_sim.endpoints.node import Give, Node, never_stopping
from headrace_sim.endpoints.outside import Outside
from headrace_sim.kernel import Kernel
from headrace_sim.wires.announcements import ANNOUNCED, Announcements
from headrace_sim.wires.departures import ALREADY_SENT_US, Departures, Flight, InFlightMessage
from headrace_sim.wires.network import NORMAL, Fate, Network
from headrace_sim.wires.store_link import StoreLink


class Wire:
    """Sends messages.

    Args:
        kernel: the time.
        history: knows the activation that sends a message.
        nodes: the machines by address.
        network: decides what faults do to messages.
        latency_us: draws the one-way latency between machines.
        departures: decides whether messages have been sent.
        store_link: carries requests to the store.
        outside: receives records without consumers.
        give: takes a machine, the message that has reached it, and the message's cause.

    Attributes:
        announcements: read from what is sent.
    """

    def __init__(
        self,
        kernel: Kernel,
        history: History,
        nodes: Mapping[str, Node],
        network: Network,
        latency_us: Sampler,
        departures: Departures,
        store_link: StoreLink,
        outside: Outside,
        give: Give,
    ) -> None:
        self.announcements = Announcements()
        self._kernel = kernel
        self._history = history
        self._put = kernel.put
        self._nodes = nodes
        self._network = network
        self._latency_us = latency_us
        self._departures = departures
        self._store_link = store_link
        self._outside = outside
        self._outside_node = never_stopping(OUTSIDE_ADDRESS)
        self._give = give
        self._flight_callbacks = (self._land,)

    def transmit(self, node: Node, send: Send, sent_us: int) -> None:
        """Send a process's message. Most go to another process, and no fault strikes them.

        Args:
            node: the process's machine.
            send: the message, and to whom.
            sent_us: when the machine's CPU comes to send it, true time, not before now.
        """
        target, message, network = send.to, send.message, self._network
        if network.rules:
            fate = network.fate(node.address, target, message)
            if fate is not NORMAL:
                self.transmit_with(fate, node, target, message, sent_us)
                return
        receiver = self._nodes.get(target)
        if receiver is None or type(message) in ANNOUNCED:
            self._carry(node, target, message, sent_us)
            return
        at_us = sent_us + self._latency_us()
        cause = self._history.activation
        flight = Flight(
            self._flight_callbacks, at_us, receiver, message, node, node.incarnation, sent_us, cause
        )
        self._put(at_us, flight)

    def transmit_with(self, fate: Fate, node: Node, target: str, message: Message, sent_us: int) -> None:
        """Send a message as often and as late as a fault has decided, or hold it; the arguments are those of `transmit`."""
        if fate.held is not None:
            cause = self._history.activation
            fate.held.append(lambda: self._release(node, target, message, cause))
        if fate.copies > 1:
            self._carry(node, target, message, sent_us)
        if fate.copies:
            self._carry(node, target, message, sent_us, fate.delay_us)

    def _release(self, node: Node, target: str, message: Message, cause: int | None) -> None:
        """Send on a message that was held: the network does it, and not the machine."""
        self._history.begin("", type(message).__name__, cause)
        self._transmit_again(node, target, message)

    def _transmit_again(self, node: Node, target: str, message: Message) -> None:
        """Send a message that waits for no CPU, such as one that has been held."""
        fate = self._network.fate(node.address, target, message)
        self.transmit_with(fate, node, target, message, ALREADY_SENT_US)

    def _carry(self, node: Node, target: str, message: Message, sent_us: int, extra_us: int = 0) -> None:
        """Put a message on its way, whoever it is for. ``extra_us``: how much longer than usual the wire takes."""
        kernel = self._kernel
        if type(message) in ANNOUNCED:
            self.announcements.read(message)
        receiver, incarnation, cause = self._nodes.get(target), node.incarnation, self._history.activation
        delay_us = extra_us
        if sent_us > kernel.now:
            delay_us += sent_us - kernel.now
        if receiver is not None:
            at_us = kernel.now + delay_us + self._latency_us()
            flight = Flight(
                self._flight_callbacks, at_us, receiver, message, node, incarnation, sent_us, cause
            )
            kernel.put(at_us, flight)
        elif target == STORE:
            self._store_link.send(InFlightMessage(message, node, incarnation, sent_us, cause), delay_us)
        elif target == OUTSIDE_ADDRESS:
            parcel = InFlightMessage(message, node, incarnation, sent_us, cause)
            kernel.call_later(delay_us + self._latency_us(), self._reach_outside, parcel)

    def _land(self, flight: Flight) -> None:
        self._kernel.now = flight.at_us
        if flight.source.halted_at_us < 0:  # the usual case, for which this saves a call
            self._give(flight.target, flight.message, flight.cause)
        else:
            self._arrive(flight)

    def _arrive(self, flight: Flight) -> None:
        if flight.source.halted_at_us >= 0 and self._departures.unsent(flight, self._arrive):
            return
        self._give(flight.target, flight.message, flight.cause)

    def _reach_outside(self, parcel: InFlightMessage) -> None:
        if parcel.source.halted_at_us >= 0 and self._departures.unsent(parcel, self._reach_outside):
            return
        message: Deliver = parcel.message
        self._history.begin(OUTSIDE_ADDRESS, type(message).__name__, parcel.cause)
        ack = self._outside.receive(self._kernel.now, message)
        self._transmit_again(self._outside_node, message.sender, ack)
