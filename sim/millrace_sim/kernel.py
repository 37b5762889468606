"""SimPy, used lean: callbacks on events, no process or resource per message.

An event is a `Call`: a function and its argument, put on SimPy's queue through its public ``schedule``. Time is an integer of
microseconds.
"""

from collections.abc import Callable
from typing import Any

import simpy


class Call(simpy.Event):
    """An event that has been decided already: when its time comes, a function is called with an argument."""

    def __init__(self, function: Callable[[Any], None], argument: Any) -> None:
        self.function = function
        self.argument = argument
        self.callbacks = _RUN
        self._ok = True
        self._value = None


def _run(event: Any) -> None:
    event.function(event.argument)


_RUN: Any = (_run,)


class Kernel:
    """Simulated time.

    Attributes:
        events: how many events have been put on the heap.
    """

    __slots__ = ("_environment", "_schedule", "_stopped", "events")

    def __init__(self) -> None:
        self._environment = simpy.Environment()
        self._schedule = self._environment.schedule
        self._stopped = False
        self.events = 0

    @property
    def now(self) -> int:
        """True time, microseconds."""
        return self._environment.now  # type: ignore[return-value]  we only ever add integers

    def call_later(self, delay_us: int, function: Callable[[Any], None], argument: Any) -> None:
        """Call a function with one argument after a delay; equal times keep the order of asking."""
        self.events += 1
        self._schedule(Call(function, argument), delay=delay_us)

    def call_at(self, at_us: int, function: Callable[[Any], None], argument: Any) -> None:
        """Call a function at a time; one that has passed means now."""
        self.call_later(max(at_us - self.now, 0), function, argument)

    def run_until(self, at_us: int) -> None:
        """Let time pass until then, or until `stop`."""
        self._stopped = False
        stop = simpy.Event(self._environment)
        self.call_at(at_us, self._end, stop)
        self._environment.run(until=stop)

    def stop(self) -> None:
        """End the current `run_until` before the next event."""
        self._stopped = True
        raise simpy.core.StopSimulation(None)

    @staticmethod
    def _end(stop: simpy.Event) -> None:
        stop.succeed()
