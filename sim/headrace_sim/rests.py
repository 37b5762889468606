"""Skip the time in which a cluster rests: its processes tell each other that they live, and nothing else happens.

A source may be silent for hours. A run would then consist of heartbeats, renewals and repeated reports, none of which changes
anything. It is as if all machines were suspended at once: whatever a process waits for comes as much later, in the same order, so
that nobody seems to be lost.

Rules of this file:

* A cluster rests if for a second its processes have only repeated reports and deliveries, each interval has its owner, and
  nobody has anything unfinished; for longer, if options let processes wait longer for one another. If an interval has no owner,
  as when the only master is down, or something is unfinished, a minute of that must pass. To skip more would be no error either:
  machines may be suspended at any time.
* Time is never skipped beyond what comes from elsewhere: an event of a source, a fault's beginning or end, a wall timer, or the
  end of `Cluster.run_until`. The cluster is awake again as long before that.
* Rests shorter than `LEAST_US` are not skipped.
"""

from typing import Any

from headrace import MINUTE, SECOND, EngineOptions
from headrace.history import InjectorReported, Reported, Resent, Rested
from headrace_sim.ending import Ending
from headrace_sim.hosting.host import Host

LEAST_US = 5 * SECOND
"""Shortest time that is skipped."""
_STUCK_US = MINUTE
_REPEATED = (Reported, InjectorReported, Resent, Rested)
_UNEVEN_US = 37_003
"""No period is a divisor of how often to look, lest a message be under way each time."""


class Rests:
    """Looks again and again whether a cluster rests, and skips its rests.

    Args:
        host: of the processes.
        ending: knows whether all is done that can be done now.
        engine: how long processes wait for one another.
    """

    def __init__(self, host: Host, ending: Ending, engine: EngineOptions) -> None:
        self._host = host
        self._ending = ending
        self._awake_us = max(
            SECOND, engine.lease_us, engine.heartbeat_timeout_us, 2 * engine.report_period_us,
            2 * engine.broadcast_period_us, 2 * engine.injector_journal_us,
        )  # fmt: skip
        self._look_us = self._awake_us + _UNEVEN_US
        self._read = 0
        self._quiet_since_us = 0

    def begin(self) -> None:
        """Look from now on."""
        self._look_after(self._look_us)

    def _look_after(self, delay_us: int) -> None:
        self._host.kernel.call_aside(delay_us, self._look)

    def _look(self, _: None) -> None:
        now = self._host.kernel.now
        if not self._was_quiet():
            self._quiet_since_us = now
        quiet_us = now - self._quiet_since_us
        rests = quiet_us >= _STUCK_US or (quiet_us and self._ending.is_settled)
        skipped_us = self._skip() if rests else 0
        self._look_after(skipped_us + self._look_us)

    def _was_quiet(self) -> bool:
        """Return whether nothing new has been recorded since the last look. Events may be taken out of the History meanwhile."""
        events = self._host.history.events
        begin, self._read = self._read, len(events)
        return begin <= len(events) and all(type(event) in _REPEATED for event in events[begin:])

    def _skip(self) -> int:
        """Let the cluster sleep, if that is worthwhile; return for how long, microseconds."""
        kernel, history, is_alarm = self._host.kernel, self._host.history, self._host.is_alarm
        until_us = min([kernel.next_us(without=is_alarm), *self._ending.wall_timers_us(latest=False)])
        by_us = until_us - self._awake_us - kernel.now
        if by_us < LEAST_US:
            return 0

        def later_us(event: Any) -> int:
            return max(min(by_us, until_us - event.at_us), 0) if is_alarm(event) else 0

        kernel.put_off(later_us)
        history.at_us = kernel.now
        history.begin("", "rest", None)
        history.record(Rested(kernel.now, "", by_us))
        return by_us
