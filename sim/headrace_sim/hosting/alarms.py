"""Alarms: wake a process when its machine's clock reaches the time that it asked for."""

from headrace.history import History
from headrace.wire.effects import Wake
from headrace_sim.distributions import Sampler
from headrace_sim.endpoints.node import Give, Node, NodeState
from headrace_sim.kernel import Kernel

_Alarm = tuple[Node, int, int, int | None]
"""Machine, its incarnation, time on its clock, and the activation that set the alarm."""


class Alarms:
    """Wakes processes.

    Args:
        kernel: true time.
        history: knows the activation that sets an alarm.
        lag_us: draws how late a process is woken.
        give: takes a machine, the event for its process, and the event's cause.
    """

    def __init__(self, kernel: Kernel, history: History, lag_us: Sampler, give: Give) -> None:
        self._kernel = kernel
        self._history = history
        self._lag_us = lag_us
        self._give = give

    def wake_at(self, node: Node, at_us: int) -> None:
        """Wake a process when its machine's clock shows a time, even if the clock is set back meanwhile."""
        self._set((node, node.incarnation, at_us, self._history.activation))

    def _set(self, alarm: _Alarm) -> None:
        node, _, at_us, _ = alarm
        delay_us = max(at_us - node.clock_us - self._kernel.now, 0) + self._lag_us()
        self._kernel.call_later(delay_us, self._wake, alarm)

    def _wake(self, alarm: _Alarm) -> None:
        node, incarnation, at_us, cause = alarm
        if node.incarnation != incarnation or node.state is NodeState.DOWN:
            return
        if node.state is NodeState.PAUSED:
            node.waiting.append(lambda: self._wake(alarm))
        elif self._kernel.now + node.clock_us < at_us:
            self._set(alarm)
        else:
            self._give(node, _WAKE, cause)


_WAKE = Wake()
