"""The kernels: event loops on simulated time, a bare one and SimPy's."""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Protocol, TypeVar

from simpy import Environment, Event, Timeout

_A = TypeVar("_A")


class Kernel(Protocol):
    """An event loop on simulated time; simultaneous events run in the order in which they were scheduled."""

    @property
    def now(self) -> int:
        """The simulated time, microseconds."""

    @property
    def heap_events(self) -> int:
        """The number of events put on the heap so far."""

    def call_later(self, delay_us: int, fn: Callable[[_A], None], arg: _A) -> None:
        """Call ``fn(arg)`` after ``delay_us`` (>= 0) microseconds of simulated time."""

    def run(self) -> None:
        """Run until no event is left."""


class HeapKernel:
    """The minimal kernel: heapq and callbacks."""

    __slots__ = ("_heap", "heap_events", "now")

    def __init__(self) -> None:
        self.now = 0
        self.heap_events = 0
        self._heap: list[tuple[int, int, Callable[[Any], None], Any]] = []

    def call_later(self, delay_us: int, fn: Callable[[_A], None], arg: _A) -> None:
        """See ``Kernel``."""
        self.heap_events = order = self.heap_events + 1
        heappush(self._heap, (self.now + delay_us, order, fn, arg))

    def run(self) -> None:
        """See ``Kernel``."""
        heap = self._heap
        while heap:
            self.now, _, fn, arg = heappop(heap)
            fn(arg)


class SimpyKernel:
    """SimPy through its public API: a Timeout with a callback for each event, without processes or Stores."""

    __slots__ = ("_env", "_fire", "heap_events", "now")

    def __init__(self) -> None:
        self.now = 0
        self.heap_events = 0
        self._env = Environment()
        self._fire = self._call

    def call_later(self, delay_us: int, fn: Callable[[_A], None], arg: _A) -> None:
        """See ``Kernel``."""
        self.heap_events += 1
        Timeout(self._env, delay_us, (fn, arg)).callbacks.append(self._fire)

    def run(self) -> None:
        """See ``Kernel``."""
        self._env.run()

    def _call(self, event: Event) -> None:
        self.now = self._env.now  # type: ignore[assignment]  # an int, as all delays are
        fn, arg = event.value  # type: ignore[misc]  # never None here
        fn(arg)
