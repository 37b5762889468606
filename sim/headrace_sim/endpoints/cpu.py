"""What the machines' CPUs spend on events and on user code."""

import random
from collections.abc import Callable, Iterable
from typing import Any

from headrace_sim.cluster_options import ClusterOptions
from headrace_sim.endpoints.node import Node


class Cpus:
    """Books the machines' CPUs.

    Args:
        options: the costs.
        stream: the random stream of a concern.
    """

    __slots__ = ("_message_us", "_user_code_us", "_user_code_us_of")

    def __init__(self, options: ClusterOptions, stream: Callable[[str], random.Random]) -> None:
        self._message_us = options.message_cpu.sampler(stream("message cpu"))
        self._user_code_us = options.user_code_cpu.sampler(stream("user code cpu"))
        self._user_code_us_of = {
            name: cpu.sampler(stream(f"user code cpu of {name}"))
            for name, cpu in options.user_code_cpu_of.items()
        }

    def book(self, node: Node, now: int) -> int:
        """Book a machine's CPU for the event that its process has just handled.

        Returns:
            When the CPU is done with it, true time: what the process sends leaves then.
        """
        cost_us = self._message_us()
        if node.uncharged:
            cost_us += self._charge(node, node.uncharged)
        begin_us = node.busy_until_us
        if begin_us < now:  # noqa: PLR1730  a call of max() for each event
            begin_us = now
        cost_us *= node.slow_factor
        cpu = node.cpu
        done_us = node.busy_until_us = begin_us + cost_us if cpu is None else cpu.finish(begin_us, cost_us)
        return done_us

    def _charge(self, node: Node, intervals: Iterable[Any]) -> int:
        """Draw the cost of user code since the process was last charged, microseconds, and charge the process."""
        cost_us, default, others = 0, self._user_code_us, self._user_code_us_of
        for interval in intervals:
            cost_us += others.get(interval.computation, default)()
        node.process.charge(cost_us * node.slow_factor)
        return cost_us
