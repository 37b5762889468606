"""The simulated cluster: hosts the engine's processes, moves their messages, and makes things go wrong.

Nothing of the protocol is here: a process gets an event and its clock, and what it returns is carried out. Lean by construction:
a message is one event on the heap, a request to the store two (there, and back), and nothing is a process or a queue of its own.
"""

import random
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from headrace import MAX_TIME, MIN_TIME, Clock, HeadraceError, Pipeline
from headrace.api.versions import check_versions
from headrace.delivery.routing import OUTSIDE_ADDRESS
from headrace.history import FaultStruck, Healed, History, RunEnded
from headrace.wire.effects import (
    Effect,
    Event,
    Halt,
    Replay,
    Replayed,
    Send,
    SourceRecord,
    Start,
    Wake,
    WakeAt,
)
from headrace.wire.messages import STORE, Ack, Assignment, Deliver, Message, Table, Verb, Watermarks
from headrace_sim.accomplished import Accomplished
from headrace_sim.contention import SharedCpu
from headrace_sim.feed import Feed, FeedEntry
from headrace_sim.kernel import HeapEvent, Kernel, seldom_collected
from headrace_sim.network import NORMAL, Fate, Network
from headrace_sim.node import Node, NodeState
from headrace_sim.options import ClusterOptions
from headrace_sim.protocol import SOUND, Protocol
from headrace_sim.sources import Outside, Source
from headrace_sim.store import StoreHost
from headrace_sim.watch import Watch


class Flight(HeapEvent):
    """A message on its way to a machine, which arrives at `at_us`: most events are these.

    Attributes:
        target: the machine.
        message: what its process will get.
        source: the machine that sent it; `_NOBODY` if it was none.
        incarnation: of the source when it sent it.
        sent_us: when the source's CPU came to send it.
    """

    target: Node
    message: Event
    source: Node
    incarnation: int
    sent_us: int


class Parcel(msgspec.Struct):
    """A request on its way to the store, or a record on its way to the outside; `source`, ...: as those of a `Flight`.

    Attributes:
        message: what will arrive.
        mute: it is not answered.
    """

    message: Any
    source: Node
    incarnation: int
    sent_us: int
    mute: bool = False


class Cluster:
    """A cluster that runs one pipeline over one feed. See `headrace_sim.simulate` for whole runs.

    Args:
        pipelines: the deployed versions of the topology; the first is in force from the start.
        feed: the input.
        options: of the cluster.
        seed: root of all draws; each concern has its own stream.
        protocol: the state machines to host.
        history: where to write what happens; default: a new one.

    Raises:
        PipelineError: a version does not fit together, or does not fit the others.

    Attributes:
        history: what has happened so far.
        kernel: simulated time.
        watch: counts protocol steps, and begins the faults that are tied to them; ``None``: nobody asks.
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
        self.history = History() if history is None else history
        self.kernel = Kernel()
        self.watch: Watch | None = None
        self._put = self.kernel.put
        self._options = options
        self._check_invariants = options.check_invariants
        self._pipelines = tuple(pipelines)
        self._seed = seed
        self._error: HeadraceError | None = None
        self._lasting: frozenset[str] = frozenset()
        self._published: dict[str, int] = {}
        self._table = Table()
        self._landing = (self._land,)
        self._link = options.link.sampler(self._stream("link"))
        self._store_link = options.store_link.sampler(self._stream("store link"))
        self._message_cpu = options.message_cpu.sampler(self._stream("message cpu"))
        self._user_cpu = options.user_code_cpu.sampler(self._stream("user code cpu"))
        self._user_cpu_of = {
            name: cpu.sampler(self._stream(f"user code cpu of {name}"))
            for name, cpu in options.user_code_cpu_of.items()
        }
        self._timer_lag = options.timer_lag.sampler(self._stream("timer lag"))
        self.network = Network(self.history, self._stream("network faults"))
        mediator = protocol.mediator(self.history, options.engine.scan_page_rows, protocol.rules)
        self.store = StoreHost(
            mediator, options, self.history, self._stream("store"), self._stream("store faults")
        )
        self._outside = Outside(OUTSIDE_ADDRESS, self.history)
        self.sources = self._sources(feed)
        self.nodes = self._nodes(protocol)
        for node in self.nodes.values():
            self._start(node)

    # Running

    def run_until(self, at_us: int) -> None:
        """Let true time pass until then.

        Raises:
            HeadraceError: user code or input failed for good, and the policy is to stop.
        """
        if self._error is None:
            self.kernel.run_until(at_us)
        if self._error is not None:
            raise self._error

    def advance(self, by_us: int) -> None:
        """Let so much true time pass."""
        self.run_until(self.kernel.now + by_us)

    def run_to_the_end(self) -> None:
        """Run until everything is done, or nothing more is for the options' grace; then write the last event.

        However slow it is, a run that still makes progress goes on, up to the options' limit.
        """
        with seldom_collected():
            why = self._await_end()
        self._mark()
        self.history.record(RunEnded(self.kernel.now, "", why))

    def _await_end(self) -> str:
        """Let time pass until the run is over; returns why it is: see `RunEnded`."""
        options, kernel = self._options, self.kernel
        since_us = max([kernel.now, *(source.end_us for source in self.sources.values())])
        limit_us = since_us + options.limit_us
        accomplished = Accomplished(self.history)
        while not self.quiescent:
            deadline_us = min(since_us + options.grace_us, limit_us)
            if kernel.now < deadline_us:
                self.advance(min(options.check_period_us, deadline_us - kernel.now))
                continue
            latest_us = max(since_us, accomplished.latest_us(), self._last_wall_timer_us())
            if latest_us + options.grace_us <= kernel.now:
                return "deadline"
            if kernel.now >= limit_us:
                return "limit"
            since_us = latest_us
        return "quiescent"

    def _last_wall_timer_us(self) -> int:
        """When the last durable wall timer is due by whatever clock, true time; who waits for it is not stuck."""
        behind_us = min(node.clock_us for node in self.nodes.values())
        return max(
            (
                timer.due - behind_us
                for name in {one.computation: None for one in self._table.assignments}
                for row in self.store.mediator.rows(name).values()
                for timer in row.timers.values()
                if timer.clock is Clock.WALL
            ),
            default=MIN_TIME,
        )

    @property
    def quiescent(self) -> bool:
        """Everything that was accepted is processed, every watermark has come to its end, and every interval has an owner.

        An interval that has none, or one that has yet to scan it, may have checkpoints that nobody knows of.
        """
        if not all(source.exhausted for source in self.sources.values()):
            return False
        names = {one.computation for one in self._table.assignments}
        names |= set(self._pipelines[self._table.topology].injectors)
        if self._table.version != self.store.mediator.table.version:
            return False  # the masters have not told of it yet
        if not self._table.assignments or self._table.retiring or self._table.joining is not None:
            return False
        if any(self._published.get(name) != MAX_TIME for name in names):
            return False
        if not all(self._is_owned(one) for one in self._table.assignments):
            return False
        owners = {one.owner for one in self._table.assignments}
        running = [
            node
            for address, node in self.nodes.items()
            if node.state is NodeState.UP and (address not in self._lasting or address in owners)
        ]  # the others' work is somebody else's now
        return all(getattr(node.process, "unfinished", 0) == 0 for node in running)

    def _is_owned(self, assignment: Assignment) -> bool:
        """Its owner is up, in the incarnation that it was given to, and has scanned it."""
        node = self.nodes[assignment.owner]
        return (
            node.state is NodeState.UP
            and node.incarnation == assignment.incarnation
            and assignment.sequencer in node.process.owned
        )

    @property
    def table(self) -> Table:
        """The newest assignment table that a master has sent."""
        return self._table

    # Faults, by hand

    def crash(self, address: str) -> bool:
        """Kill a process; its memory is lost. Tells whether there was anything to kill."""
        node = self.nodes[address]
        if node.state is NodeState.DOWN:
            return False
        node.state = NodeState.DOWN
        node.halted_at_us = self.kernel.now
        node.inbox.clear()
        node.waiting.clear()
        if address in self.sources:
            self.sources[address].stop_reading()
        self.struck("crash", address, f"incarnation {node.incarnation}")
        return True

    def restart(self, address: str) -> bool:
        """Start a crashed process, with an empty memory."""
        node = self.nodes[address]
        if node.state is not NodeState.DOWN:
            return False
        self.struck("restart", address, "")
        self._start(node)
        return True

    def pause(self, address: str) -> bool:
        """Stop a process, memory intact."""
        node = self.nodes[address]
        if node.state is not NodeState.UP and node.state is not NodeState.STARTING:
            return False
        node.state = NodeState.PAUSED
        node.halted_at_us = self.kernel.now
        self.struck("pause", address, "")
        return True

    def revive(self, address: str) -> bool:
        """Let a paused process go on where it was: a zombie, if it was replaced meanwhile."""
        node = self.nodes[address]
        if node.state is not NodeState.PAUSED:
            return False
        node.state = NodeState.UP
        node.busy_until_us = self.kernel.now
        self.struck("revive", address, "zombie" if self._is_zombie(node) else "still the owner")
        waiting, inbox = node.waiting, node.inbox
        node.waiting, node.inbox = [], []
        for send in waiting:
            send()
        for event in inbox:
            self.give(node, event)
        self._pump_source(address)
        return True

    def skew(self, address: str, by_us: int) -> None:
        """Let a machine's clock jump."""
        self.nodes[address].clock_us += by_us
        self.struck("skew_clock", address, f"by {by_us} us")

    def slow(self, address: str, factor: int) -> None:
        """Let a machine take so many times as long, also for what its CPU has begun; 1: as usual."""
        self._change_speed(self.nodes[address], factor)
        if factor != 1:
            self.struck("slow", address, f"{factor} times")

    def inject(self, address: str, record: SourceRecord) -> bool:
        """Give a source a record by hand, now; tells whether the source had not ended yet."""
        added = self.sources[address].add(self.kernel.now, record)
        if added:
            self._pump_source(address)
        return added

    def operate(self, verb: Verb) -> None:
        """Ask the masters for a change, as an operator does."""
        self.struck("operate", "", type(verb).__name__)
        for address in self._options.engine.master_addresses():
            self.give(self.nodes[address], verb)

    def release(self, handle: int) -> None:
        """End a network fault; what it held is sent on its way."""
        self._mark()
        for send in self.network.end(handle):
            send()

    def heal(self, lasting: Sequence[str] = ()) -> None:
        """End every fault that is in the nodes or in the store, except on these addresses; liveness is due from here on."""
        self.store.heal()
        self._lasting = frozenset(lasting)
        if self.watch is not None:
            self.watch.forget()
        for address, node in self.nodes.items():
            if address in lasting:
                continue
            self._change_speed(node, 1)
            self.revive(address)
            self.restart(address)
        self._mark()
        self.history.record(Healed(self.kernel.now, "", tuple(lasting)))

    def struck(self, kind: str, address: str, detail: str) -> None:
        """Write that a fault has really happened."""
        self._mark()
        self.history.record(FaultStruck(self.kernel.now, address, kind, detail))

    # Building

    def _stream(self, concern: str) -> random.Random:
        return random.Random(f"{self._seed}/{concern}")

    def _sources(self, feed: Feed) -> dict[str, Source]:
        entries: dict[str, list[FeedEntry]] = {
            address: [] for spec in self._pipelines[0].injectors.values() for address in spec.addresses()
        }
        for entry in feed.entries:
            entries[entry.address].append(entry)
        return {address: Source(found) for address, found in entries.items()}

    def _nodes(self, protocol: Protocol) -> dict[str, Node]:
        engine, history, pipelines, rules = (
            self._options.engine,
            self.history,
            self._pipelines,
            protocol.rules,
        )
        skew = self._options.clock_skew.sampler(self._stream("clock skew"))
        builders: dict[str, Any] = {}
        for address in engine.master_addresses():
            builders[address] = lambda a=address: protocol.master(a, pipelines, engine, history, rules)
        for shard in range(engine.authority_shards):
            for address in engine.authority_addresses(shard):
                builders[address] = lambda a=address, s=shard: protocol.authority(
                    a, s, pipelines, engine, history, rules
                )
        for number in range(self._options.workers):
            address = f"worker-{number}"
            builders[address] = lambda a=address: protocol.worker(a, pipelines, engine, history, rules)
        for spec in pipelines[0].injectors.values():
            for number, address in enumerate(spec.addresses()):
                builders[address] = lambda s=spec, n=number: protocol.injector(
                    s, n, pipelines, engine, history, rules
                )
        return {
            address: Node(address, build, skew(), self._cpu(address)) for address, build in builders.items()
        }

    def _cpu(self, address: str) -> SharedCpu | None:
        contention = self._options.contention
        return None if contention is None else SharedCpu(contention, self._stream(f"contention of {address}"))

    def _start(self, node: Node) -> None:
        node.start()
        node.busy_until_us = self.kernel.now
        self.kernel.call_later(0, self._begin, (node, node.incarnation))

    def _begin(self, start: tuple[Node, int]) -> None:
        node, incarnation = start
        if node.incarnation == incarnation:  # it may have been killed and started again in the same instant
            if node.state is NodeState.STARTING:
                node.state = NodeState.UP
            self.give(node, Start(incarnation))

    def _is_zombie(self, node: Node) -> bool:
        sequencers = {interval.sequencer for interval in getattr(node.process, "intervals", ())}
        live = {one.sequencer for one in self._table.assignments if one.owner == node.address}
        return bool(sequencers - live)

    # Moving messages

    def _land(self, flight: Flight) -> None:
        """A message reaches its machine."""
        self.kernel.now = flight.at_us
        self._arrive(flight)

    def _arrive(self, flight: Flight) -> None:
        if flight.source.halted_at_us >= 0 and self._unsent(flight, self._arrive):
            return
        self.give(flight.target, flight.message)

    def _unsent(self, message: Flight | Parcel, arrive: Callable[[Any], None]) -> bool:
        """Tell whether a machine was stopped before its CPU came to send what would arrive now.

        If it is paused, it sends it when it goes on, and the wire then takes as long as it would have; if it has crashed, never.
        ``arrive``: takes it when it arrives after all.
        """
        source = message.source
        if source.halted_at_us > message.sent_us:
            return False
        if source.state is NodeState.DOWN or source.incarnation != message.incarnation:
            return True
        if source.state is NodeState.PAUSED:
            wire_us = self.kernel.now - message.sent_us
            source.waiting.append(partial(self._send_late, message, wire_us, arrive))
            return True
        return False

    def _send_late(self, message: Flight | Parcel, wire_us: int, arrive: Callable[[Any], None]) -> None:
        message.sent_us = self.kernel.now
        self.kernel.call_later(wire_us, arrive, message)

    def _change_speed(self, node: Node, factor: int) -> None:
        """What a machine's CPU has booked and has yet to do takes so many times as long, too."""
        now, before, node.slow_factor = self.kernel.now, node.slow_factor, factor
        if factor == before:
            return

        def put_off_us(until_us: int) -> int:
            left_us = max(until_us - now, 0)
            return left_us * factor // before - left_us

        def later_us(event: Any) -> int:
            message = getattr(event, "argument", event)
            if not isinstance(message, Flight | Parcel) or message.source is not node:
                return 0
            by_us = put_off_us(message.sent_us)
            message.sent_us += by_us
            return by_us

        node.busy_until_us += put_off_us(node.busy_until_us)
        self.kernel.put_off(later_us)

    def give(self, node: Node, event: Event) -> None:
        """Let a process handle an event, and carry out its effects."""
        if node.state is not _UP:
            if node.state is NodeState.PAUSED:
                node.inbox.append(event)
            return
        watch = self.watch
        if watch is not None and node.address in watch.receiving and not watch.receives(node, event):
            return
        now = self.history.at_us = self.kernel.now
        effects = node.process.handle(now + node.clock_us, event)
        if self._check_invariants:
            node.process.check_invariants()
        if not effects:
            return
        cost = self._message_cpu()
        if node.uncharged:
            cost += self._charge(node, node.uncharged)
        begin_us = node.busy_until_us
        if begin_us < now:  # noqa: PLR1730  a call of max() for each event
            begin_us = now
        cost *= node.slow_factor
        cpu = node.cpu
        sent_us = node.busy_until_us = begin_us + cost if cpu is None else cpu.finish(begin_us, cost)
        if watch is not None and node.address in watch.sending:
            watch.carry_out(node, effects, sent_us)
            return
        for effect in effects:
            if type(effect) is Send:
                self.transmit(node, effect, sent_us)
            else:
                self.carry_out(node, effect)

    def _charge(self, node: Node, uncharged: Any) -> int:
        """What user code has cost the machine's CPU since it was last charged, microseconds; the process is told."""
        cost_us, default, others = 0, self._user_cpu, self._user_cpu_of
        for interval in uncharged:
            cost_us += others.get(interval.computation, default)() if others else default()
        node.process.charge(cost_us * node.slow_factor)
        return cost_us

    def carry_out(self, node: Node, effect: Effect) -> None:
        """Do what a process has asked of its host."""
        match effect:
            case WakeAt():
                self._wake_at(node, effect.at_us)
            case Replay():
                self.sources[node.address].read_from(effect.offset)
                self.kernel.call_later(0, self._replay, node.address)
            case Halt():
                self._error = effect.error
                self.kernel.stop()
            case _:
                raise AssertionError(f"nobody carries out {effect}")

    def transmit(self, node: Node, send: Send, sent_us: int) -> None:
        """Put a process's message on the wire: most of them go to another one, and nothing happens to them."""
        target, message, network = send.to, send.message, self.network
        if network.rules:
            fate = network.fate(node.address, target, message)
            if fate is not NORMAL:
                self.suffer(fate, node.address, target, message, node, sent_us - self.kernel.now, 0)
                return
        receiver = self.nodes.get(target)
        if receiver is None or type(message) in _NOTICED:
            self._wire(target, message, node, sent_us - self.kernel.now)
            return
        at_us = sent_us + self._link()
        self._put(at_us, Flight(self._landing, at_us, receiver, message, node, node.incarnation, sent_us))

    def suffer(
        self,
        fate: Fate,
        source: str,
        target: str,
        message: Message,
        node: Node | None,
        delay_us: int,
        left: int,
    ) -> None:
        """Send it as often and as late as a fault has decided; hold it, if that is what it decided."""
        if fate.held is not None:
            left = left or (0 if node is None else node.incarnation)
            fate.held.append(lambda: self._send_on(source, target, message, node, left))
        if fate.copies > 1:
            self._wire(target, message, node, delay_us, left=left)
        if fate.copies:
            self._wire(target, message, node, delay_us, fate.delay_us, left)

    def _send_on(self, source: str, target: str, message: Message, node: Node | None, left: int) -> None:
        """Put a message on the wire that has no CPU to wait for. ``left``: the incarnation that sent it, if it was held."""
        fate = self.network.fate(source, target, message)
        self.suffer(fate, source, target, message, node, 0, left)

    def _wire(
        self,
        target: str,
        message: Message,
        node: Node | None,
        delay_us: int,
        wire_us: int = 0,
        left: int = 0,
    ) -> None:
        """The machine's CPU takes ``delay_us`` to come to it, and the wire ``wire_us`` more than usual."""
        receiver, kernel = self.nodes.get(target), self.kernel
        incarnation, sent_us = 0, kernel.now + delay_us
        if type(message) in _NOTICED:
            self._notice(message)
        if left:
            incarnation, sent_us = left, _LONG_AGO
        elif node is not None:
            incarnation = node.incarnation
        delay_us += wire_us
        if receiver is not None:
            at_us = kernel.now + delay_us + self._link()
            flight = Flight(self._landing, at_us, receiver, message, node or _NOBODY, incarnation, sent_us)
            kernel.put(at_us, flight)
        elif target == STORE:
            assert node is not None
            self._to_store(Parcel(message, node, incarnation, sent_us), delay_us)
        elif target == OUTSIDE_ADDRESS:
            assert node is not None
            parcel = Parcel(message, node, incarnation, sent_us)
            self.kernel.call_later(delay_us + self._link(), self._at_the_outside, parcel)

    def _notice(self, message: Message) -> None:
        """What the host must know to see when a run is over."""
        if isinstance(message, Watermarks):
            for name, progress in message.values:
                if progress.low_watermark > self._published.get(name, -MAX_TIME):
                    self._published[name] = progress.low_watermark
        elif isinstance(message, Table) and message.version > self._table.version:
            self._table = message

    def _at_the_outside(self, parcel: Parcel) -> None:
        if parcel.source.halted_at_us >= 0 and self._unsent(parcel, self._at_the_outside):
            return
        self._mark()
        message: Deliver = parcel.message
        ack: Ack = self._outside.receive(message)
        self._send_on(OUTSIDE_ADDRESS, message.sender, ack, None, 0)

    # The store

    def _to_store(self, parcel: Parcel, delay_us: int) -> None:
        kernel, by_us = self.kernel, 0
        delay_us += self._store_link()
        if self.store.commit_faults:
            self._mark()
            fault = self.store.commit_fault(parcel.source.address, parcel.message)
            kind = "" if fault is None else fault.kind
            if kind == "lose_commit":
                return
            parcel.mute = kind == "lose_reply"
            by_us = getattr(fault, "by_us", 0)
            if kind == "duplicate_commit":
                kernel.call_later(delay_us + by_us, self._at_the_store, msgspec.structs.replace(parcel))
                by_us = 0
        kernel.call_later(delay_us + by_us, self._at_the_store, parcel)

    def _at_the_store(self, parcel: Parcel) -> None:
        node, request = parcel.source, parcel.message
        if node.halted_at_us >= 0 and self._unsent(parcel, self._at_the_store):
            return
        self._mark()
        reply = self.store.serve(node.address, request)
        if reply is None or parcel.mute:
            return
        answer = (node, reply)
        if self.network.rules:
            fate = self.network.fate(STORE, node.address, reply)
            if fate.held is not None:
                fate.held.append(lambda: self._answered(answer))
            if not fate.copies:
                return
        delay_us = self.store.service_us(request) + self._store_link()
        self.kernel.call_later(delay_us, self._answered, answer)

    def _answered(self, arrival: tuple[Node, Any]) -> None:
        """A reply reaches the address that asked; one that has restarted meanwhile knows by the number that it is not its own."""
        self.give(*arrival)

    # Time and sources

    def _wake_at(self, node: Node, at_us: int) -> None:
        delay_us = max(at_us - node.clock_us - self.kernel.now, 0) + self._timer_lag()
        self.kernel.call_later(delay_us, self._wake, (node, node.incarnation, at_us))

    def _wake(self, wake: tuple[Node, int, int]) -> None:
        node, incarnation, at_us = wake
        if node.incarnation != incarnation or node.state is NodeState.DOWN:
            return
        if node.state is NodeState.PAUSED:
            node.waiting.append(lambda: self._wake(wake))
        elif self.kernel.now + node.clock_us < at_us:  # its clock was set back meanwhile
            self._wake_at(node, at_us)
        else:
            self.give(node, _WAKE)

    def _pump_source(self, address: str) -> None:
        """Give an injector what its source has for it, and come back when there is more."""
        source = self.sources.get(address)
        node = self.nodes[address]
        if source is None or node.state is not _UP:
            return
        for event in source.take(self.kernel.now):
            self.give(node, event)
        next_us = source.next_at()
        if next_us is not None:
            self.kernel.call_at(next_us, self._source_ready, (address, source.readings))

    def _replay(self, address: str) -> None:
        self._pump_source(address)
        self.give(self.nodes[address], Replayed())

    def _source_ready(self, wanted: tuple[str, int]) -> None:
        address, readings = wanted
        if self.sources[address].readings == readings:
            self._pump_source(address)

    def _mark(self) -> None:
        """Keep the History's clock; a process's own is set when it handles an event."""
        self.history.at_us = self.kernel.now


_WAKE = Wake()
_NOBODY = Node("", lambda: None, 0)  # type: ignore[arg-type, return-value]
"""No machine at all, so that it never stops: what comes from it has always been sent."""
_UP = NodeState.UP
_NOTICED = frozenset([Watermarks, Table])
"""What the host reads as it passes: see `Cluster.quiescent`."""


_LONG_AGO = -1
"""When a message left its machine that was held on the wire: before whatever has become of the machine since."""
