"""SimPy, used lean: callbacks on events, no process or resource per message.

An event is a `Call`: a function and its argument. Time is an integer of microseconds.

Choice: events are put on SimPy's own queue as SimPy's ``schedule`` does it, with its own count, and not through it: what is done
for each message of a run is done here in one call instead of two. SimPy's loop takes them from there.
"""

import contextlib
import gc
from collections.abc import Callable, Iterator
from heapq import heapify, heappush
from typing import Any

import msgspec
import simpy


class Call(msgspec.Struct):
    """An event that has been decided already: when its time comes, a function is called with an argument.

    It has what SimPy's loop looks at in an event, and nothing else; a struct is built three times faster than a subclass of
    ``simpy.Event``.
    """

    callbacks: Any
    at_us: int
    function: Callable[[Any], None]
    argument: Any
    _ok: bool = True


class Kernel:
    """Simulated time.

    Attributes:
        now: true time, microseconds; kept by the callback of each event.
        events: how many events have been put on the heap.
    """

    __slots__ = ("_environment", "_number", "_queue", "_run", "events", "now")

    def __init__(self) -> None:
        environment = self._environment = simpy.Environment()
        self._queue: list[Any] = environment._queue
        self._number = environment._eid.__next__
        self.now = 0
        self.events = 0

        def run(event: Call) -> None:
            self.now = event.at_us
            event.function(event.argument)

        self._run = (run,)

    def put(self, at_us: int, event: Any) -> None:
        """Put an event on SimPy's queue; equal times keep the order of asking.

        Args:
            at_us: when it happens, not before now.
            event: what looks like a `Call` to SimPy; its callbacks set `now`.
        """
        self.events += 1
        heappush(self._queue, (at_us, _NORMAL, self._number(), event))

    def call_later(self, delay_us: int, function: Callable[[Any], None], argument: Any) -> None:
        """Call a function with one argument after a delay."""
        at_us = self.now + delay_us
        self.put(at_us, Call(self._run, at_us, function, argument))

    def call_at(self, at_us: int, function: Callable[[Any], None], argument: Any) -> None:
        """Call a function at a time; one that has passed means now."""
        self.call_later(max(at_us - self.now, 0), function, argument)

    def put_off(self, later_us: Callable[[Any], int]) -> None:
        """Let events happen later than they were to, or sooner, but not before now.

        Args:
            later_us: takes each event that is to come, and says by how much; negative: sooner.
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
        stop = simpy.Event(self._environment)
        self.call_at(at_us, self._end, stop)
        with seldom_collected():
            self._environment.run(until=stop)
        self.now = int(self._environment.now)

    def stop(self) -> None:
        """End the current `run_until` before the next event."""
        raise simpy.core.StopSimulation(None)

    @staticmethod
    def _end(stop: simpy.Event) -> None:
        stop.succeed()


@contextlib.contextmanager
def seldom_collected() -> Iterator[None]:
    """A History only grows: looking through it for garbage every 700 allocations is a sixth of a run.

    Going back to the former threshold makes for a collection: so one of these around a run, not around each `Kernel.run_until` of
    it, nor around many runs, as what a run leaves is collected for the least while it is young.
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


_NORMAL = simpy.events.NORMAL
_SELDOM = (1_000_000, 50, 100)
