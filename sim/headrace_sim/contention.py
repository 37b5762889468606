"""Shared machines: other jobs occasionally use the CPU, and a process's work waits until they are done.

This causes the tail of latencies on machines that are not busy themselves (Dean and Barroso, The Tail at Scale).
"""

import random

import msgspec

from headrace_sim.distributions import Distribution


class Contention(msgspec.Struct, frozen=True):
    """How often and for how long other jobs use a machine's CPU, drawn per machine.

    Attributes:
        gap: from the end of one slice to the start of the next, microseconds.
        slice: how long other jobs use it, microseconds.
    """

    gap: Distribution
    slice: Distribution


class SharedCpu:
    """One machine's CPU, queried in order of time.

    Args:
        contention: of the machine.
        source: its random source.

    Attributes:
        taken_us: when other jobs use it next, true time; work that ends earlier is undisturbed.
    """

    __slots__ = ("_gap", "_returned_us", "_slice", "taken_us")

    def __init__(self, contention: Contention, source: random.Random) -> None:
        self._gap = contention.gap.sampler(source)
        self._slice = contention.slice.sampler(source)
        self._returned_us = 0
        self._take()

    def finish(self, begin_us: int, work_us: int) -> int:
        """Return when work that begins at a time and needs the CPU for some time ends. It is interrupted, not restarted.

        >>> from headrace_sim import Constant
        >>> cpu = SharedCpu(Contention(gap=Constant(100), slice=Constant(30)), random.Random(0))
        >>> cpu.finish(10, 20), cpu.finish(90, 20), cpu.finish(250, 1)
        (30, 140, 261)
        """
        while True:
            while self._returned_us <= begin_us:
                self._take()
            before_us = max(self.taken_us - begin_us, 0)
            if work_us <= before_us:
                return begin_us + work_us
            work_us -= before_us
            begin_us = self._returned_us

    def _take(self) -> None:
        self.taken_us = self._returned_us + max(self._gap(), 1)
        self._returned_us = self.taken_us + max(self._slice(), 1)
