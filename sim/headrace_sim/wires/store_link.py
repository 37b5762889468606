"""The wire to the store and back: two events per request, and the faults that affect writes in flight."""

import msgspec

from headrace.history import History
from headrace.wire.messages import STORE, Reply
from headrace_sim.distributions import Sampler
from headrace_sim.endpoints.node import Give, Node
from headrace_sim.endpoints.store import StoreHost
from headrace_sim.kernel import Kernel
from headrace_sim.wires.departures import Departures, InFlightMessage
from headrace_sim.wires.network import Network


class StoreLink:
    """Carries requests to the store, and its replies.

    Args:
        kernel: the time.
        history: whose clock the store reads, and which knows what it does.
        store: serves the requests.
        network: decides whether replies arrive.
        latency_us: draws the one-way latency.
        departures: decides whether requests have been sent.
        give: takes a machine, the reply that has reached it, and the reply's cause.
    """

    def __init__(
        self,
        kernel: Kernel,
        history: History,
        store: StoreHost,
        network: Network,
        latency_us: Sampler,
        departures: Departures,
        give: Give,
    ) -> None:
        self._kernel = kernel
        self._history = history
        self._store = store
        self._network = network
        self._latency_us = latency_us
        self._departures = departures
        self._give = give

    def send(self, parcel: InFlightMessage, delay_us: int) -> None:
        """Send a request that takes longer than the wire's latency by a given time."""
        kernel, store, by_us = self._kernel, self._store, 0
        delay_us += self._latency_us()
        if store.commit_faults:
            fault = store.commit_fault(parcel.source.address, parcel.message)
            kind = "" if fault is None else fault.kind
            if kind == "lose_commit":
                return
            parcel.mute = kind == "lose_reply"
            by_us = getattr(fault, "by_us", 0)
            if kind == "duplicate_commit":
                kernel.call_later(delay_us + by_us, self._arrive, msgspec.structs.replace(parcel))
                by_us = 0
        kernel.call_later(delay_us + by_us, self._arrive, parcel)

    def _arrive(self, parcel: InFlightMessage) -> None:
        node, request = parcel.source, parcel.message
        if node.halted_at_us >= 0 and self._departures.unsent(parcel, self._arrive):
            return
        history = self._history
        history.at_us = self._kernel.now
        history.begin(STORE, type(request).__name__, parcel.cause)
        reply = self._store.serve(node.address, request)
        if reply is None or parcel.mute:
            return
        answer = (node, reply, history.activation)
        late_us = 0
        if self._network.rules:
            fate = self._network.fate(STORE, node.address, reply)
            if fate.held is not None:
                fate.held.append(lambda: self._answered(answer))
            if not fate.copies:
                return
            late_us = fate.delay_us
            if fate.copies > 1:
                self._kernel.call_later(late_us + self._latency_us(), self._answered, answer)
                late_us = 0
        delay_us = self._store.service_us(request) + self._latency_us()
        self._kernel.call_later(delay_us + late_us, self._answered, answer)

    def _answered(self, answer: tuple[Node, Reply, int | None]) -> None:
        """Deliver a reply to the address that asked; a process that restarted since knows by its number that it did not ask."""
        self._give(*answer)
