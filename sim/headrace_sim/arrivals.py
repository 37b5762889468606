"""The order in which things arrive at each process, as a value, which exhaustive and priority-based searches vary.

Rules of this file:

* Every latency is an interval. Without delays everything takes its shortest time, so a run is a function of its faults.
* A delayed arrival waits until a given number of others have arrived at the same place, and then arrives at that very
  instant, but never later than its interval allows.
* Arrivals at different places are never reordered: what a process does depends only on what has arrived there, and when. So
  of all the orders that no process can tell apart, one is run (partial-order reduction; Flanagan and Godefroid, POPL 2005).

Delays are counted as in delay-bounded scheduling (Emmi, Qadeer and Rakamaric, POPL 2011).

Instead of delays, chains of messages can have priorities (`Priorities`): then messages wait until the interval of a waiting
one ends, and the waiting message with the highest priority arrives first.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from headrace import OptionsError
from headrace.delivery.routing import OUTSIDE_ADDRESS
from headrace.history import History, InjectorReported, KeysSampled, Published, Reported
from headrace.wire import messages as m
from headrace_sim.building import stream
from headrace_sim.cluster_options import ClusterOptions
from headrace_sim.distributions import Constant, Distribution, Uniform
from headrace_sim.endpoints.node import Node
from headrace_sim.kernel import Kernel
from headrace_sim.steps import Does, Step
from headrace_sim.wires.departures import Flight, InFlightMessage


class Delay(msgspec.Struct, frozen=True, omit_defaults=True):
    """An arrival that others overtake.

    Attributes:
        step: the arrival.
        past: the number of further arrivals there, of any kind, that it waits for.
        anywhere: count arrivals at all places, as a search without reduction does.
    """

    step: Step
    past: int
    anywhere: bool = False

    def describe(self) -> str:
        """Write the delay as a sentence.

        >>> Delay(Step("worker-1", Does.RECEIVES, "Deliver", 3), 2).describe()
        'the 3rd Deliver that worker-1 receives is overtaken by the next 2 arrivals there'
        """
        others = "arrival" if self.past == 1 else f"{self.past} arrivals"
        where = "anywhere" if self.anywhere else "there"
        return f"the {self.step.what} that {self.step.process} receives is overtaken by the next {others} {where}"


class Priorities(msgspec.Struct, frozen=True):
    """Which message arrives first: random priorities that change a few times (Burckhardt et al., ASPLOS 2010).

    A chain is a sequence of messages, each sent when the previous one arrived (Ozkan et al., OOPSLA 2018). Each new chain
    gets a random priority. At ``depth - 1`` random messages of the run, the chain of the message falls behind all others.

    Attributes:
        seed: for the random priorities.
        depth: the number of changes, plus one.
        messages: the changes fall within the first this many messages.
    """

    seed: int
    depth: int
    messages: int

    def describe(self) -> str:
        """Write it as a sentence.

        >>> Priorities(7, 2, 310).describe()
        'messages arrive by the priorities of their chains (seed 7), with 1 change among the first 310'
        """
        changes = "1 change" if self.depth == 2 else f"{self.depth - 1} changes"
        order = f"messages arrive by the priorities of their chains (seed {self.seed})"
        return f"{order}, with {changes} among the first {self.messages}"


class _Chain:
    """A chain of messages. ``priority``: the highest arrives first."""

    __slots__ = ("priority",)

    def __init__(self, priority: float) -> None:
        self.priority = priority


class _Chains:
    """The chains of a run.

    Attributes:
        chains: how many there have been.
        messages: how many messages they have.
    """

    def __init__(self, priorities: Priorities) -> None:
        self.chains = self.messages = 0
        self._draws = stream(priorities.seed, "priorities")
        messages = range(1, priorities.messages + 1)
        changes = self._draws.sample(messages, max(0, min(priorities.depth - 1, len(messages))))
        self._falls = {message: -1 - rank for rank, message in enumerate(changes)}
        self._last: dict[int, _Chain] = {}

    def join(self, cause: int | None) -> _Chain:
        """Return the chain of the next message. ``cause``: the activation that sent it."""
        self.messages += 1
        chain = None if cause is None else self._last.pop(cause, None)
        if chain is None:
            chain = _Chain(self._draws.random())
            self.chains += 1
        chain.priority = self._falls.get(self.messages, chain.priority)
        return chain

    def arrived(self, chain: _Chain, activations: Iterable[int]) -> None:
        """Record the activations caused by a chain's last message; what they send may continue the chain."""
        for activation in activations:
            self._last[activation] = chain


@dataclass(slots=True, eq=False)
class ArrivedMessage:
    """Something that has arrived at a process, at the store or outside.

    Attributes:
        place: the address; ``""``: a fault begins or ends, or the run.
        name: what it is, such as ``Deliver``.
        nth: its count at this place, from 1.
        content: the message, if it is one.
        clock: number of arrivals before it, or before its undelayed time.
        latest_us: its latest possible time.
        periodic: routine work, whose order is not varied.
        at_us: when it was handled, true time.
        activations: the activations of its handling, by their numbers in the History.
        cause: the activation that sent it; ``None``: it comes from outside.
        priority: its chain's priority on arrival, if chains have priorities and it could wait.
    """

    place: str
    name: str
    nth: int
    content: Any
    clock: int
    latest_us: int
    periodic: bool
    at_us: int = -1
    activations: range = range(0)
    cause: int | None = None
    priority: float | None = None

    @property
    def step(self) -> Step:
        """The arrival as a protocol step of its place."""
        return Step(self.place, Does.RECEIVES, self.name, self.nth)

    def is_as(self, other: "ArrivedMessage") -> bool:
        """Return whether something of the same kind came to the same place at the same time in another run."""
        return (self.at_us, self.place, self.name) == (other.at_us, other.place, other.name)


class Routine:
    """Recognises routine messages: those that show that their sender is alive, or repeat its previous message."""

    __slots__ = ("_said",)

    def __init__(self) -> None:
        self._said: dict[tuple[str, str, type], Any] = {}

    def takes(self, source: str, target: str, message: Any) -> bool:
        """Return whether the next message from one address to another is routine."""
        if not isinstance(message, _REPEATED):
            return isinstance(message, _ROUTINE)
        match message:
            case m.InjectorReport():
                said: Any = (message.epoch, message.low_watermark, message.horizon, message.pending)
            case m.Report():
                said = message.intervals
            case _:
                said = message.values
        link = source, target, type(message)
        repeated: bool = self._said.get(link) == said
        self._said[link] = said
        return repeated


class _Waiting:
    """A delayed arrival, its event, and the number of arrivals that it still waits for."""

    __slots__ = ("arrival", "delay", "event", "left")

    def __init__(self, arrival: ArrivedMessage, event: Any, delay: Delay) -> None:
        self.arrival, self.event, self.delay, self.left = arrival, event, delay, delay.past


class _Ranked:
    """An arrival that waits for its turn, its event, and its chain."""

    __slots__ = ("arrival", "chain", "event")

    def __init__(self, arrival: ArrivedMessage, event: Any, chain: _Chain) -> None:
        self.arrival, self.event, self.chain = arrival, event, chain


class Arrivals:
    """Delays arrivals of one run, and records all of them.

    Args:
        delays: what to delay.
        priorities: order messages by these instead; then nothing is delayed.

    Attributes:
        handled: the arrivals so far, in the order in which they were handled.
        clock: how many have arrived.
    """

    def __init__(self, delays: Iterable[Delay] = (), priorities: Priorities | None = None) -> None:
        self.handled: list[ArrivedMessage] = []
        self.clock = 0
        self._delays = {delay.step: delay for delay in delays}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._routine = Routine()
        self._waiting: list[_Waiting] = []
        self._latest_us: Counter[str] = Counter()
        self._draws: random.Random | None = None
        self._forced = False
        self._released: dict[int, ArrivedMessage] = {}
        self._chains = None if priorities is None else _Chains(priorities)
        self._ranked: list[_Ranked] = []
        self._chain_of: dict[int, _Chain] = {}

    def attach(self, kernel: Kernel, history: History, options: ClusterOptions) -> None:
        """Decide on the events of a run from now on.

        Args:
            kernel: of the run.
            history: of the run.
            options: whose latencies are the intervals.

        Raises:
            OptionsError: a latency is no interval.
        """
        self._kernel, self._history = kernel, history
        self._slack_us = _slack_of(options)
        kernel.take = self._take

    def detach(self) -> None:
        """Forget the run's kernel: through it, all of the run's cluster would be kept. Call it when the run is over."""
        self._kernel.take = None
        self._kernel = Kernel()
        self._released.clear()

    @property
    def size(self) -> tuple[int, int]:
        """How many chains of messages there have been, and how many messages; 0 without priorities."""
        return (0, 0) if self._chains is None else (self._chains.chains, self._chains.messages)

    def redraw(self, seed: int) -> None:
        """Draw each arrival's time from its interval from now on, and delay none. ``seed``: for the draws."""
        self._draws = stream(seed, "arrivals")
        self._delays.clear()
        self._chains = None

    def further(self) -> int | None:
        """Return how many arrivals the last delayed one would have to wait for to come still later; ``None``: it cannot."""
        if not self._delays or self._waiting or self._forced:
            return None
        delay = [*self._delays.values()][-1]
        for index, arrival in enumerate(self.handled):
            if arrival.step == delay.step:
                more = next_overtaker(self.handled, index, anywhere=delay.anywhere)
                return None if more is None else delay.past + more
        return None

    def _take(self, event: Any) -> None:
        """Let an event happen, unless it is delayed."""
        arrival = self._released.pop(id(event), None)
        if arrival is None:
            arrival = self._come(event)
            delay = self._delays.get(arrival.step) if self._delays else None
            if delay is not None:
                self._hold(arrival, event, delay)
                return
            if self._chains is not None and arrival.latest_us > event.at_us and not arrival.periodic:
                self._rank(arrival, event, self._chains.join(_cause(event)))
                return
            if self._draws is not None and arrival.latest_us > event.at_us:
                event.at_us = self._draws.randint(event.at_us, arrival.latest_us)
                self._released[id(event)] = arrival
                self._kernel.put(event.at_us, event)
                return
        self._handle(arrival, event)
        for waiting in tuple(self._waiting):
            if waiting.arrival.place == arrival.place or waiting.delay.anywhere:
                waiting.left -= 1
                if waiting.left == 0:
                    self._release(waiting)

    def _come(self, event: Any) -> ArrivedMessage:
        place, source, name, content = what_arrives(event)
        self._counts[place, name] += 1
        self.clock += 1
        latest_us = event.at_us + (self._slack_us.get(_link(event), 0) if content is not None else 0)
        periodic = content is not None and self._routine.takes(source, place, content)
        return ArrivedMessage(
            place, name, self._counts[place, name], content, self.clock, latest_us, periodic
        )

    def _hold(self, arrival: ArrivedMessage, event: Any, delay: Delay) -> None:
        waiting = _Waiting(arrival, event, delay)
        self._waiting.append(waiting)
        self._kernel.call_at(arrival.latest_us, self._force, waiting)

    def _rank(self, arrival: ArrivedMessage, event: Any, chain: _Chain) -> None:
        arrival.priority = chain.priority
        ranked = _Ranked(arrival, event, chain)
        self._ranked.append(ranked)
        self._kernel.call_at(arrival.latest_us, self._end_interval, ranked)

    def _end_interval(self, ranked: _Ranked) -> None:
        """Deliver a message that can wait no longer, after all waiting ones with a higher priority."""
        if ranked not in self._ranked:
            return
        self._ranked.sort(key=lambda arrival: arrival.chain.priority, reverse=True)
        while True:
            first = self._ranked.pop(0)
            self._released[id(first.event)] = first.arrival
            self._chain_of[id(first.arrival)] = first.chain
            self._kernel.put_first(first.event, self._kernel.now)
            if first is ranked:
                return

    def _force(self, waiting: _Waiting) -> None:
        if waiting in self._waiting:
            self._forced = True  # it waited in vain: nothing else arrives in its interval
            self._release(waiting)

    def _release(self, waiting: _Waiting) -> None:
        self._waiting.remove(waiting)
        self._released[id(waiting.event)] = waiting.arrival
        arrival, at_us = waiting.arrival, self._kernel.now
        if waiting.delay.anywhere:  # what happens elsewhere meanwhile takes no time here
            at_us = max(waiting.event.at_us, self._latest_us[arrival.place])
        self._kernel.put_first(waiting.event, at_us)

    def _handle(self, arrival: ArrivedMessage, event: Any) -> None:
        kernel, history = self._kernel, self._history
        mark, begin, events = kernel.mark(), len(history.activations), len(history.events)
        kernel.happen(event)
        arrival.at_us = self._latest_us[arrival.place] = kernel.now
        arrival.activations = range(begin, len(history.activations))
        if arrival.activations:
            arrival.cause = history.activations[begin].cause
        chain = self._chain_of.pop(id(arrival), None)
        if chain is not None and self._chains is not None:
            self._chains.arrived(chain, arrival.activations)
        if arrival.content is None and arrival.place:
            arrival.periodic = all(
                isinstance(recorded, _ROUTINE_EVENTS) for recorded in history.events[events:]
            ) and not any(map(_is_news, kernel.put_since(mark)))
        self.handled.append(arrival)


_ROUTINE = (
    m.Heartbeat, m.Peek, m.Peeked, m.Renew, m.Renewed, m.CollectIds, m.Collected, m.JournalPosition, m.Journaled,
)  # fmt: skip
_REPEATED = (m.Report, m.InjectorReport, m.Watermarks, m.JournalWatermarks)
"""Choice: these are routine when they repeat their previous content."""
_ROUTINE_EVENTS = (Reported, InjectorReported, Published, KeysSampled)

_Link = type | None
"""What a latency depends on: the type of the store's reply, `InFlightMessage` on the way there, else `Flight`."""


def _is_news(event: Any) -> bool:
    """Return whether an event is a message that is not routine."""
    sent = event if isinstance(event, Flight) else event.argument
    return isinstance(sent, Flight | InFlightMessage) and not isinstance(sent.message, _ROUTINE + _REPEATED)


def what_arrives(event: Any) -> tuple[str, str, str, Any]:
    """Return an event's destination, its source, its name, and the message if it is one."""
    if isinstance(event, Flight):
        return event.target.address, event.source.address, type(event.message).__name__, event.message
    argument = event.argument
    if isinstance(argument, InFlightMessage):
        message = argument.message
        to = OUTSIDE_ADDRESS if isinstance(message, m.Deliver) else m.STORE
        return to, argument.source.address, type(message).__name__, message
    match argument:
        case (Node() as node, message, _) if isinstance(message, _REPLIES):
            return node.address, m.STORE, type(message).__name__, message
        case (Node() as node, *_):
            return node.address, "", event.function.__name__, None
        case (str() as address, *_):
            return address, "", event.function.__name__, None
        case _:
            return "", "", "", None


_REPLIES = m.Reply.__args__


def _cause(event: Any) -> int | None:
    """Return the activation that sent a message."""
    if isinstance(event, Flight):
        return event.cause
    argument = event.argument
    cause: int | None = argument.cause if isinstance(argument, InFlightMessage) else argument[-1]
    return cause


def _link(event: Any) -> _Link:
    if isinstance(event, Flight) or isinstance(event.argument, InFlightMessage):
        parcel = event if isinstance(event, Flight) else event.argument
        return (
            Flight if isinstance(event, Flight) or isinstance(parcel.message, m.Deliver) else InFlightMessage
        )
    return type(event.argument[1])


def earliest(options: ClusterOptions) -> ClusterOptions:
    """Return options under which everything takes its shortest time.

    Raises:
        OptionsError: a time has no bounded interval.
    """
    changes: dict[str, Any] = {
        name: Constant(_interval(name, value)[0])
        for name in options.__struct_fields__
        if isinstance(value := getattr(options, name), Distribution)
    }
    changes["user_code_cpu_of"] = {
        name: Constant(_interval(f"user_code_cpu_of {name}", value)[0])
        for name, value in options.user_code_cpu_of.items()
    }
    if options.contention is not None:
        raise OptionsError("contention", options.contention, "None where every order of arrivals is tried")
    return msgspec.structs.replace(options, **changes)


def _slack_of(options: ClusterOptions) -> dict[_Link, int]:
    """Return how much longer than its shortest time each kind of arrival can take."""

    def slack_us(name: str) -> int:
        low_us, high_us = _interval(name, getattr(options, name))
        return high_us - low_us

    way_us, write_us = slack_us("store_link"), slack_us("store_write")
    others = {
        m.RowRead: slack_us("store_read"),
        m.Scanned: slack_us("store_scan"),
        m.Collected: slack_us("store_scan"),
    }
    replies: dict[_Link, int] = {reply: way_us + others.get(reply, write_us) for reply in _REPLIES}
    return replies | {Flight: slack_us("link"), InFlightMessage: way_us}


def _interval(name: str, distribution: Distribution) -> tuple[int, int]:
    match distribution:
        case Constant(us=us):
            return us, us
        case Uniform(low_us=low_us, high_us=high_us):
            return low_us, high_us
        case _:
            raise OptionsError(
                name, distribution, "Constant or Uniform, whose shortest and longest time are known"
            )


def may_swap(left: ArrivedMessage, right: ArrivedMessage) -> bool:
    """Return whether two arrivals have the same effect in either order, as far as their places can tell."""
    if left.place != right.place:
        return bool(left.place and right.place)
    return left.place == m.STORE and _commute(left.content, right.content)


def _commute(left: Any, right: Any) -> bool:
    """Return whether the store serves two requests alike in either order. ``Choice``: in doubt, it does not."""
    rows = tuple(isinstance(request, m.Read | m.Write | m.Scan | m.CollectIds) for request in (left, right))
    if all(rows):
        if _consumes(left, right) or _consumes(right, left):
            return False
        if left.computation != right.computation or (isinstance(left, m.Read) and isinstance(right, m.Read)):
            return True
        keys, others = _keys(left), _keys(right)
        return keys is not None and others is not None and not keys & others
    if any(rows):
        journal, row = (right, left) if rows[0] else (left, right)
        if isinstance(journal, m.Mint):
            return False
        return not (isinstance(row, m.Scan) and isinstance(journal, m.JournalWatermarks | m.JournalPosition))
    return False


def _consumes(left: Any, right: Any) -> bool:
    """Return whether a write may consume a weak production of a step that another write stores.

    What the first write makes durable is what allows the second one's cause to be forgotten (S3): though no process can tell
    their order, an invariant can.
    """
    return (
        isinstance(left, m.Write)
        and isinstance(right, m.Write)
        and any(f">{right.computation}#" in record_id for delta in left.deltas for record_id, _ in delta.seen)
    )


def _keys(request: m.Read | m.Write | m.Scan | m.CollectIds) -> frozenset[str] | None:
    """Return the keys of the rows that a request touches; ``None``: a range of them."""
    if isinstance(request, m.Write):
        return frozenset(request.keys())
    return frozenset([request.key]) if isinstance(request, m.Read) else None


def next_overtaker(handled: Sequence[ArrivedMessage], index: int, *, anywhere: bool = False) -> int | None:
    """Return how many more arrivals must overtake one to change the order; ``None``: none can within its interval.

    The arguments are those of `overtakers`.
    """
    return next(overtakers(handled, index, anywhere=anywhere), None)


def overtakers(handled: Sequence[ArrivedMessage], index: int, *, anywhere: bool = False) -> Iterator[int]:
    """Yield each number of overtaking arrivals that yields a different order.

    Args:
        handled: the arrivals of a run.
        index: of the arrival in them.
        anywhere: distinguish all orders of arrivals, at any place.
    """
    delayed, past = handled[index], 0
    led_to = set(delayed.activations)
    for later in handled[index + 1 :]:
        if later.at_us > delayed.latest_us:
            return
        if later.cause in led_to:
            led_to.update(later.activations)
        elif anywhere or later.place == delayed.place:
            past += 1
            if later.place and not later.periodic and (anywhere or not may_swap(delayed, later)):
                yield past
