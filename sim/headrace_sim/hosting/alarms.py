"""Alarms: wake a process when its machine's clock reaches the time that it asked for."""

from collections import Counter

from headrace.api.time import MAX_TIME
from headrace.wire.effects import Wake
from headrace_sim.distributions import Sampler
from headrace_sim.endpoints.node import Give, Node, NodeState
from headrace_sim.kernel import HeapEvent, Kernel, ScheduledCall

_Alarm = tuple[Node, int, int, int | None]
"""Machine, its incarnation, time on its clock, and the activation that set the alarm."""


class Alarms:
    """Wakes processes.

    Args:
        kernel: true time.
        lag_us: draws how late a process is woken.
        give: takes a machine, the event for its process, and the event's cause.

    Attributes:
        coming: how many alarms will come, by machine, incarnation and time on its clock; ``None``: nobody wants to know.
    """

    def __init__(self, kernel: Kernel, lag_us: Sampler, give: Give) -> None:
        self._kernel = kernel
        self._lag_us = lag_us
        self._give = give
        self.coming: Counter[tuple[str, int, int]] | None = None

    def wake_at(self, node: Node, at_us: int, cause: int | None) -> None:
        """Wake a process when its machine's clock shows a time, even if the clock is set back meanwhile.

        Args:
            node: the process's machine.
            at_us: the time, by its clock.
            cause: the activation that sets the alarm.
        """
        kernel = self._kernel
        if self.coming is not None:
            self.coming[node.address, node.incarnation, at_us] += 1
        delay_us = at_us - node.clock_us - kernel.now
        if delay_us < 0:  # noqa: PLR1730  a call of max() for each alarm
            delay_us = 0
        kernel.call_later(delay_us + self._lag_us(), self._wake, (node, node.incarnation, at_us, cause))

    def is_alarm(self, event: HeapEvent) -> bool:
        """Return whether a pending event is one of these alarms."""
        return isinstance(event, ScheduledCall) and event.function == self._wake

    def _wake(self, alarm: _Alarm, *, came: bool = False) -> None:
        """Wake a process, or when it goes on. ``came``: the time has come, whatever the clock says now."""
        node, incarnation, at_us, cause = alarm
        if self.coming is not None and node.state is not NodeState.PAUSED:
            self.coming[node.address, incarnation, at_us] -= 1
        if node.incarnation != incarnation or node.state is NodeState.DOWN:
            return
        came = came or self._kernel.now + node.clock_us >= at_us
        if node.state is NodeState.PAUSED:
            node.waiting.append(lambda: self._wake(alarm, came=came))
        elif not came:
            self.wake_at(node, at_us, cause)
        else:
            self._give(node, _WAKE, cause)

    def check_invariants(self, node: Node) -> None:
        """Assert that a process will be woken when it believes so."""
        assert self.coming is not None
        wakes = getattr(node.process, "_wakes", None)
        now = self._kernel.now + node.clock_us
        if wakes is not None and now < wakes.next_us < MAX_TIME:
            assert self.coming[node.address, node.incarnation, wakes.next_us] > 0, (
                f"{node.address} believes that it will be woken at {wakes.next_us}"
            )


_WAKE = Wake()
