"""Machines' clocks as alarms: a process that asked to be woken is, when its own machine's clock says so."""

from collections.abc import Callable
from typing import Any

from headrace.wire.effects import Wake
from headrace_sim.distributions import Sampler
from headrace_sim.endpoints.node import Node, NodeState
from headrace_sim.kernel import Kernel


class Alarms:
    """Wakes processes.

    Args:
        kernel: true time.
        lag_us: draws how late a process is woken.
        give: takes a machine and the event for its process.
    """

    def __init__(self, kernel: Kernel, lag_us: Sampler, give: Callable[[Node, Any], None]) -> None:
        self._kernel = kernel
        self._lag_us = lag_us
        self._give = give

    def wake_at(self, node: Node, at_us: int) -> None:
        """Wake a process when its machine's clock shows a time, also if the clock is set back meanwhile."""
        delay_us = max(at_us - node.clock_us - self._kernel.now, 0) + self._lag_us()
        self._kernel.call_later(delay_us, self._wake, (node, node.incarnation, at_us))

    def _wake(self, alarm: tuple[Node, int, int]) -> None:
        node, incarnation, at_us = alarm
        if node.incarnation != incarnation or node.state is NodeState.DOWN:
            return
        if node.state is NodeState.PAUSED:
            node.waiting.append(lambda: self._wake(alarm))
        elif self._kernel.now + node.clock_us < at_us:
            self.wake_at(node, at_us)
        else:
            self._give(node, _WAKE)


_WAKE = Wake()
