"""Simulated time on SimPy, without its processes and resources: an event is a struct with a callback.

Time is an integer of microseconds.

Choice: events go straight on SimPy's queue, as SimPy's own ``schedule`` would put them there, because a run schedules one for
every message and one call is cheaper than two. SimPy's loop removes them. No other file uses anything private of SimPy;
``tests/sim/test_kernel.py`` lists what this one relies on, and pyproject.toml keeps to the releases that have it.
"""

import contextlib
import gc
from collections.abc import Callable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, ClassVar

import msgspec
import simpy

from headrace import HeadraceError, format_time


class EndlessRunError(HeadraceError):
    """The run does not end. Fields: events, at_us."""

    def __init__(self, events: int, at_us: int) -> None:
        super().__init__(events, at_us)
        self.events, self.at_us = events, at_us

    def __str__(self) -> str:
        """Say how far the run got, and what may keep it going."""
        return (
            f"the run never ends: it has had {self.events:,} events and has reached {format_time(self.at_us)}. Look for a handler"
            " that sets its own timer again without end"
        )


class HeapEvent(msgspec.Struct):
    """The parts of an event that SimPy's loop reads: a struct is built three times faster than a ``simpy.Event``.

    Attributes:
        callbacks: SimPy calls each of them with the event; the first sets `Kernel.now` to ``at_us``.
        at_us: when it happens, true time.
    """

    callbacks: Any
    at_us: int
    _ok: ClassVar[bool] = True


class ScheduledCall(HeapEvent):
    """Calls a function with one argument when its time comes."""

    function: Callable[[Any], None]
    argument: Any


class Aside(ScheduledCall):
    """A call on which `Kernel.take` has no say."""


class Kernel:
    """Simulated time.

    Attributes:
        now: true time, microseconds; kept by the callback of each event.
        events: number of events put on the heap so far.
        most_events: maximum number of events; ``None``: unlimited.
        take: decides on each event whose time has come, and lets it `happen` or keeps it for later; ``None``: all happen.
    """

    __slots__ = ("_environment", "_next_number", "_queue", "_run", "events", "most_events", "now", "take")

    def __init__(self) -> None:
        environment = self._environment = simpy.Environment()
        self._queue: list[Any] = environment._queue
        self._next_number = environment._eid.__next__
        self.now = 0
        self.events = 0
        self.most_events: int | None = None
        self.take: Callable[[Any], None] | None = None

        def run(event: ScheduledCall) -> None:
            self.now = event.at_us
            event.function(event.argument)

        self._run = (run,)

    def put(self, at_us: int, event: HeapEvent) -> None:
        """Schedule an event, not before now; events of one time happen in the order in which they were put.

        Raises:
            EndlessRunError: the maximum number of events is exceeded.
        """
        self.events += 1
        if self.events == self.most_events:
            raise EndlessRunError(self.events, self.now)
        heappush(self._queue, (at_us, _NORMAL, self._next_number(), event))

    def call_later(self, delay_us: int, function: Callable[[Any], None], argument: Any) -> None:
        """Call a function with one argument after a delay."""
        at_us = self.now + delay_us
        self.put(at_us, ScheduledCall(self._run, at_us, function, argument))

    def call_aside(self, delay_us: int, function: Callable[[Any], None]) -> None:
        """Call a function with ``None`` after a delay, whatever decides on events."""
        at_us = self.now + delay_us
        self.put(at_us, Aside(self._run, at_us, function, None))

    def call_at(self, at_us: int, function: Callable[[Any], None], argument: Any) -> None:
        """Call a function at a time, or now if that has passed."""
        self.call_later(max(at_us - self.now, 0), function, argument)

    def pending(self) -> list[Any]:
        """Return the pending events in no particular order: ours, and SimPy's event that ends `run_until`."""
        return [event for _, _, _, event in self._queue]

    def next_us(self, without: Callable[[Any], bool]) -> int:
        """Return when the next event is due, true time; now, if there is none. ``without``: events that do not count."""
        return min((at_us for at_us, _, _, event in self._queue if not without(event)), default=self.now)

    def put_off(self, later_us: Callable[[Any], int]) -> None:
        """Move pending events, but none to before now.

        Args:
            later_us: takes a pending event and returns how much later it happens; negative: earlier.
        """
        queue, now = self._queue, self.now
        for index, (at_us, priority, number, event) in enumerate(queue):
            by_us = later_us(event)
            if by_us:
                event.at_us = max(at_us + by_us, now)
                queue[index] = (event.at_us, priority, number, event)
        heapify(queue)

    def run_until(self, at_us: int) -> None:
        """Let time pass until then, or until `stop`."""
        if self.take is not None:
            self._offer_until(at_us, self.take)
            return
        stop = simpy.Event(self._environment)
        self.call_at(at_us, self._end, stop)
        with seldom_collected():
            self._environment.run(until=stop)
        self.now = int(self._environment.now)

    def _offer_until(self, at_us: int, take: Callable[[Any], None]) -> None:
        """Let time pass until then, and let `take` decide on each event."""
        over: list[None] = []
        self.call_at(at_us, over.append, None)
        with seldom_collected(), contextlib.suppress(simpy.core.StopSimulation):
            while not over:
                event = heappop(self._queue)[-1]
                decide = self.happen if type(event) is Aside else take
                decide(event)

    def happen(self, event: HeapEvent) -> None:
        """Let an event that `take` was given happen now."""
        for callback in event.callbacks:
            callback(event)

    def put_first(self, event: HeapEvent, at_us: int) -> None:
        """Schedule an event that `take` has kept as the next one. ``at_us``: when it happens; time continues from there."""
        event.at_us = at_us
        heappush(self._queue, (self.now, _URGENT, self._next_number(), event))

    def mark(self) -> int:
        """Return a number for `put_since`."""
        return self._next_number()

    def put_since(self, mark: int) -> list[Any]:
        """Return the pending events that were put after a mark, in no particular order."""
        return [event for _, _, number, event in self._queue if number > mark]

    def stop(self) -> None:
        """End the current `run_until` before the next event."""
        raise simpy.core.StopSimulation(None)

    @staticmethod
    def _end(stop: simpy.Event) -> None:
        stop.succeed()


@contextlib.contextmanager
def seldom_collected() -> Iterator[None]:
    """Raise the garbage collector's thresholds: a History only grows, and the defaults cost a sixth of a run's time.

    Restoring the thresholds causes a collection. So wrap a whole search, or at least a run, not each `Kernel.run_until`.
    """
    before = gc.get_threshold()
    if before[0] >= _SELDOM[0]:
        yield
        return
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def collect_run() -> None:
    """Free the cluster of a run that is over, whose parts know each other; nothing else may know it any more.

    While it is young this takes a twentieth of the run, and what the next run allocates is still in the processor's caches.
    """
    gc.collect(0)


_NORMAL, _URGENT = simpy.events.NORMAL, simpy.events.URGENT
_SELDOM = (1_000_000, 50, 100)
