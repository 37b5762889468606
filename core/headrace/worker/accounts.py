"""An interval's own oldest work (MillWheel 4.5, 7.2): what it holds back, in event time and in origins.

Rules of this file:

* Counted are pending productions, pending timers and holds; what is queued or in commit is un-ACKed at its sender, and
  counted there. The horizon counts it here too, in each report: a weak sender may have died since (6.1.3).
* Late work, born behind what the interval last reported, is never counted (4.5).
* A report is the minimum of own oldest work and of the input as this worker knows it (7.2), and never goes back.
"""

from collections.abc import Iterable

from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.rules import RULES, Rules, Work
from headrace.watermarks.oldest_work import OldestWork
from headrace.wire.rows import Production, StoredTimer
from headrace.worker.slot import KeySlot, LiveTimer
from headrace.worker.step import Holder

# Asked for with each production: a global name is found faster than an enumeration's member.
_SENT, _CHECKPOINT, _STATE = Work.SENT, Work.CHECKPOINT, Work.STATE
_FIRING, _RECEIVED = Work.FIRING, Work.RECEIVED


class Accounts:
    """Oldest work of one interval, and its last report.

    Attributes:
        low_watermark: last reported, event time in microseconds.
        horizon: last reported, origin in microseconds.
    """

    __slots__ = (
        "_holds_horizon", "_holds_watermark", "_origins", "_rules", "_timer", "_work", "horizon", "low_watermark",
    )  # fmt: skip

    def __init__(self, *, strong: bool, rules: Rules = RULES) -> None:
        self.low_watermark = MIN_TIME
        self.horizon = MIN_TIME
        self._rules = rules
        self._holds_watermark, self._holds_horizon = rules.holds_watermark, rules.holds_horizon
        self._timer = Work.TIMER if strong else Work.WEAK_TIMER
        self._work = OldestWork()
        self._origins = OldestWork()

    @property
    def work(self) -> OldestWork:
        """What holds the low watermark."""
        return self._work

    @property
    def origins(self) -> OldestWork:
        """What holds the horizon."""
        return self._origins

    def start_from(self, low_watermark: int, horizon: int) -> None:
        """Resume from a predecessor's reports: nothing that they led to is taken back."""
        self.low_watermark = self._rules.advanced(self.low_watermark, low_watermark)
        self.horizon = self._rules.advanced(self.horizon, horizon)

    def add_production(self, holder: Holder, production: Production) -> None:
        """Count a pending production."""
        work = _CHECKPOINT if holder.durable else _SENT
        timestamp, origin = production.timestamp, production.origin
        if self._holds_watermark(work, timestamp, self.low_watermark):
            holder.holds_watermark = True
            self._work.add(timestamp)
        if self._holds_horizon(work, origin, self.horizon):
            holder.holds_horizon = True
            self._origins.add(origin)

    def remove_production(self, holder: Holder, production: Production) -> None:
        """Forget a production that was ACKed."""
        if holder.holds_watermark:
            holder.holds_watermark = False
            self._work.remove(production.timestamp)
        if holder.holds_horizon:
            holder.holds_horizon = False
            self._origins.remove(production.origin)

    def add_timer(self, timer: StoredTimer) -> LiveTimer:
        """Count a pending timer."""
        held = timer.held
        holds_watermark = False
        if held is not None and self._holds_watermark(self._timer, held, self.low_watermark):
            holds_watermark = True
            self._work.add(held)
        holds_horizon = self._holds_horizon(self._timer, timer.origin, self.horizon)
        if holds_horizon:
            self._origins.add(timer.origin)
        return LiveTimer(timer, holds_watermark, holds_horizon)

    def remove_timer(self, live: LiveTimer) -> None:
        """Forget a timer that fired, moved, or was cancelled."""
        if live.holds_watermark:
            held = live.timer.held
            assert held is not None
            self._work.remove(held)
        if live.holds_horizon:
            self._origins.remove(live.timer.origin)

    def hold_origin(self, origin: int) -> bool:
        """Count a step in progress that fired a timer, with an origin of its own; return whether it was counted."""
        if not self._holds_horizon(_FIRING, origin, self.horizon):
            return False
        self._origins.add(origin)
        return True

    def release_origin(self, origin: int) -> None:
        """Let go of the origin of a timer's productions: they are pending now, and hold it themselves."""
        self._origins.remove(origin)

    def set_hold(self, slot: KeySlot, hold: int) -> None:
        """Set the hold of a key's state; `MAX_TIME`: none."""
        if slot.holds_watermark:
            self._work.remove(slot.hold)
        slot.hold = hold
        slot.holds_watermark = hold < MAX_TIME and self._holds_watermark(_STATE, hold, self.low_watermark)
        if slot.holds_watermark:
            self._work.add(hold)

    def report(self, input_low: int, input_horizon: int, received: Iterable[int] = ()) -> tuple[int, int]:
        """Return the (low watermark, horizon) to report now, in microseconds; ``received``: origins of what is in progress."""
        reach, horizon = self._rules.low_watermark, self.horizon
        self.low_watermark = reach(self.low_watermark, self._work.oldest(), input_low)
        if input_horizon > horizon:
            held = [origin for origin in received if self._holds_horizon(_RECEIVED, origin, horizon)]
            self.horizon = reach(horizon, min((self._origins.oldest(), *held)), input_horizon)
        return self.low_watermark, self.horizon

    def release_watermark(self, live: LiveTimer) -> None:
        """Release a timer's hold of the watermark."""
        if live.holds_watermark and live.timer.held is not None:
            live.holds_watermark = False
            self._work.remove(live.timer.held)

    def pending_buckets(self, width_us: int) -> tuple[tuple[int, int], ...]:
        """Count the pending timestamps in buckets, for percentile watermarks (7.2)."""
        return self._work.buckets(width_us)

    def __len__(self) -> int:
        """Return how much work is counted in event time."""
        return len(self._work)
