"""The simulated cluster, as its operator sees it: let time pass, and make things go wrong by hand."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from random import Random

from headrace import Pipeline
from headrace.api.versions import check_versions
from headrace.history import Healed, History, RunEnded
from headrace.wire.effects import SourceRecord
from headrace.wire.messages import Table, Verb
from headrace_sim.building import machines_of, sources_of, stream
from headrace_sim.cluster_options import ClusterOptions
from headrace_sim.ending import Ending
from headrace_sim.endpoints.node import Node, NodeState
from headrace_sim.endpoints.store import StoreHost
from headrace_sim.faults import StepFault
from headrace_sim.faults.log import FaultLog
from headrace_sim.feed import Feed
from headrace_sim.hosting.host import Host, OnStep
from headrace_sim.hosting.step_watch import StepWatch
from headrace_sim.kernel import Kernel, seldom_collected
from headrace_sim.protocol import SOUND, Protocol
from headrace_sim.rests import Rests
from headrace_sim.wires.network import Network


class Cluster:
    """A cluster that runs one pipeline over one feed. See `headrace_sim.simulate` for whole runs.

    Args:
        pipelines: the topology's versions; the first is deployed from the start.
        feed: the input.
        options: of the cluster.
        seed: root of all draws; each concern has its own stream.
        protocol: the state machines to host.
        history: receives the events; default: a new History.

    Raises:
        PipelineError: a version is inconsistent, or incompatible with the others.

    Attributes:
        history: the events so far.
        kernel: simulated time.
        network: the network's faults; `release` ends one.
        store: the backing store and its faults.
        sources: of the injectors' processes, by address.
        host: drives the processes.
        rests: skips the time in which nothing happens, once it has begun.
    """

    def __init__(
        self,
        pipelines: Sequence[Pipeline],
        feed: Feed,
        options: ClusterOptions,
        seed: int,
        protocol: Protocol = SOUND,
        history: History | None = None,
    ) -> None:
        check_versions(pipelines)
        self._streams: list[tuple[str, Random]] = []
        pipelines, draws, engine = tuple(pipelines), partial(self._stream, seed), options.engine
        self.history = History() if history is None else history
        self.kernel = Kernel()
        self._log = FaultLog(self.history, self.kernel)
        self.network = Network(self._log, draws("network faults"))
        mediator = protocol.mediator(self.history, engine.scan_page_rows, protocol.rules)
        self.store = StoreHost(mediator, options, self._log, draws("store"), draws("store faults"))
        self.sources = sources_of(feed, pipelines[0])
        self.nodes = machines_of(pipelines, options, protocol, self.history, draws)
        self.host = Host(
            self.kernel, self.history, self.nodes, self.sources, self.store, self.network, options, draws
        )
        self._masters = engine.master_addresses()
        self._ending = Ending(self.host, self.sources, self.store, pipelines, options)
        self.rests = Rests(self.host, self._ending, engine)
        for node in self.nodes.values():
            self.host.start(node)

    # Running

    def run_until(self, at_us: int) -> None:
        """Advance to a point in true time.

        Raises:
            HeadraceError: user code or input failed for good, and the policy is to stop.
        """
        if self.host.error is None:
            self.kernel.run_until(at_us)
        if self.host.error is not None:
            raise self.host.error

    def advance(self, by_us: int) -> None:
        """Advance true time by an amount."""
        self.run_until(self.kernel.now + by_us)

    def run_to_the_end(self) -> None:
        """Run until everything is done, or the grace period passes without progress; then write the last event.

        A run that still makes progress continues, however slowly, up to the options' limit.
        """
        with seldom_collected():
            why = self._ending.wait(self.advance)
        for address in self.sources:
            self.host.readers.note(address)
        self.history.begin("", "end", None)
        self.history.record(RunEnded(self.kernel.now, "", why))

    def check_invariants(self) -> None:
        """Assert what must hold between events of the store and each process, such as the memory that filters take."""
        self.store.mediator.check_invariants()
        for node in self.nodes.values():
            if node.state is NodeState.UP:
                node.process.check_invariants()

    @property
    def quiescent(self) -> bool:
        """Whether everything is done: see `Ending.quiescent`."""
        return self._ending.quiescent

    @property
    def table(self) -> Table:
        """The newest assignment table that a master has sent."""
        return self.host.wire.announcements.table

    def watch(
        self, planned: Iterable[StepFault] = (), begin: Callable[[StepFault], None] = lambda _: None
    ) -> StepWatch:
        """Count protocol steps from now on, and start the planned faults at theirs.

        Args:
            planned: the faults; if empty, every step is counted.
            begin: starts a fault.
        """
        self.host.observer = watch = StepWatch(self.host, self._log, tuple(planned), begin)
        return watch

    def tell_steps(self, on_step: OnStep) -> None:
        """Report each protocol step from now on, before any fault begins at it."""
        (self.host.observer or self.watch()).tell(on_step)

    def redraw(self, seed: int) -> None:
        """Redraw all randomness from ``seed`` from now on, and start no fault that was planned at a step."""
        for concern, source in self._streams:
            source.setstate(stream(seed, concern).getstate())
        if self.host.observer is not None:
            self.host.observer.forget()

    def _stream(self, seed: int, concern: str) -> Random:
        source = stream(seed, concern)
        self._streams.append((concern, source))
        return source

    # Faults, by hand

    def crash(self, address: str) -> bool:
        """Kill a process, which loses its memory; return whether it was up."""
        node = self.nodes[address]
        if node.state is NodeState.DOWN:
            return False
        node.state = NodeState.DOWN
        node.halted_at_us = self.kernel.now
        node.inbox.clear()
        node.waiting.clear()
        if address in self.sources:
            self.sources[address].stop_reading()
        self._log.begin("crash", address, f"incarnation {node.incarnation}")
        return True

    def restart(self, address: str) -> bool:
        """Start a crashed process with an empty memory; return whether it was down."""
        node = self.nodes[address]
        if node.state is not NodeState.DOWN:
            return False
        self._log.begin("restart", address, "")
        self.host.start(node)
        return True

    def pause(self, address: str) -> bool:
        """Stop a process with its memory intact; return whether it was running."""
        node = self.nodes[address]
        if node.state is not NodeState.UP and node.state is not NodeState.STARTING:
            return False
        node.state = NodeState.PAUSED
        node.halted_at_us = self.kernel.now
        self._log.begin("pause", address, "")
        return True

    def revive(self, address: str) -> bool:
        """Let a paused process continue, as a zombie if it was replaced meanwhile; return whether it was paused."""
        node = self.nodes[address]
        if node.state is not NodeState.PAUSED:
            return False
        node.state = NodeState.UP
        node.busy_until_us = self.kernel.now
        self._log.begin("revive", address, "zombie" if self._is_zombie(node) else "still the owner")
        waiting, inbox = node.waiting, node.inbox
        node.waiting, node.inbox = [], []
        for go_on in waiting:
            go_on()
        for event, cause in inbox:
            self.host.give(node, event, cause)
        self.host.readers.read(address)
        return True

    def _is_zombie(self, node: Node) -> bool:
        sequencers = {interval.sequencer for interval in getattr(node.process, "intervals", ())}
        assignments = self.table.assignments
        owned = {assignment.sequencer for assignment in assignments if assignment.owner == node.address}
        return bool(sequencers - owned)

    def skew(self, address: str, by_us: int) -> None:
        """Make a machine's clock jump."""
        self.nodes[address].clock_us += by_us
        self._log.begin("skew_clock", address, f"by {by_us} us")

    def slow(self, address: str, factor: int) -> None:
        """Slow a machine down by ``factor``, including work that its CPU has begun; 1: normal speed."""
        self.host.departures.change_speed(self.nodes[address], factor)
        if factor != 1:
            self._log.begin("slow", address, f"{factor} times")

    def stall(self, address: str, for_us: int) -> None:
        """Stall an injector process's source for a while."""
        if self.sources[address].stall(self.kernel.now, for_us):
            self._log.begin("stall_source", address, "")

    def make_late(self, address: str, count: int, by_us: int) -> None:
        """Delay the next records of an injector's process, past watermarks of its source."""
        if late := self.sources[address].make_late(self.kernel.now, count, by_us):
            self._log.begin("late_records", address, f"{late} records")

    def inject(self, address: str, record: SourceRecord) -> bool:
        """Give an injector's process a record by hand, now; return whether its source was still open."""
        added = self.sources[address].add(self.kernel.now, record)
        if added:
            self.host.readers.read(address)
        return added

    def operate(self, verb: Verb) -> None:
        """Ask the masters for a change, as an operator does."""
        self._log.begin("operate", "", type(verb).__name__)
        cause = self.history.activation
        for address in self._masters:
            self.host.give(self.nodes[address], verb, cause)

    def release(self, handle: int) -> None:
        """End a network fault; messages that it held are sent on."""
        for send_on in self.network.end(handle):
            send_on()

    def heal(self, lasting: Sequence[str] = ()) -> None:
        """End every fault of the machines and the store, except on the lasting addresses; liveness is due from here on."""
        self.store.heal()
        self._ending.lasting = frozenset(lasting)
        if self.host.observer is not None:
            self.host.observer.forget()
        for address, node in self.nodes.items():
            if address in lasting:
                continue
            self.host.departures.change_speed(node, 1)
            self.revive(address)
            self.restart(address)
        self.history.begin("", "heal", None)
        self.history.record(Healed(self.kernel.now, "", tuple(lasting)))
