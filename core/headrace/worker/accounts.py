"""An interval's own oldest work (MillWheel 4.5, 7.2): what it holds back, in event time and in origins.

Rules of this file:

* Counted are pending productions, pending timers and holds; what is queued or in commit is un-ACKed at its sender, and
  counted there.
* Work that is born behind what the interval last reported is late (4.5): it is never counted, and so never lowers a report.
* A report is the minimum of own oldest work and of the input as this worker knows it (7.2), and never goes back.
"""

from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.watermarks.oldest_work import OldestWork
from headrace.wire.rows import Production, StoredTimer
from headrace.worker.step import Holder, KeySlot, LiveTimer


class Accounts:
    """Oldest work of one interval, and its last report.

    Attributes:
        low_watermark: last reported, event time in microseconds.
        horizon: last reported, origin in microseconds.
        timers_hold_horizon: pending timers hold the horizon (weak computations; see docs/protocol.md).
    """

    __slots__ = ("_origins", "_work", "horizon", "low_watermark", "timers_hold_horizon")

    def __init__(self, *, timers_hold_horizon: bool) -> None:
        self.low_watermark = MIN_TIME
        self.horizon = MIN_TIME
        self.timers_hold_horizon = timers_hold_horizon
        self._work = OldestWork()
        self._origins = OldestWork()

    def start_from(self, low_watermark: int, horizon: int) -> None:
        """Nothing that a predecessor's reports have led to is taken back."""
        self.low_watermark = max(self.low_watermark, low_watermark)
        self.horizon = max(self.horizon, horizon)

    def add_production(self, holder: Holder, production: Production) -> None:
        """A production is pending."""
        if production.timestamp >= self.low_watermark:
            holder.holds_watermark = True
            self._work.add(production.timestamp)
        if production.origin >= self.horizon:
            holder.holds_horizon = True
            self._origins.add(production.origin)

    def remove_production(self, holder: Holder, production: Production) -> None:
        """It was ACKed."""
        if holder.holds_watermark:
            holder.holds_watermark = False
            self._work.remove(production.timestamp)
        if holder.holds_horizon:
            holder.holds_horizon = False
            self._origins.remove(production.origin)

    def add_timer(self, timer: StoredTimer) -> LiveTimer:
        """A timer is pending."""
        held = timer.held
        holds_watermark = held is not None and held >= self.low_watermark
        holds_horizon = self.timers_hold_horizon and timer.origin >= self.horizon
        if holds_watermark:
            assert held is not None
            self._work.add(held)
        if holds_horizon:
            self._origins.add(timer.origin)
        return LiveTimer(timer, holds_watermark, holds_horizon)

    def remove_timer(self, live: LiveTimer) -> None:
        """It fired, moved, or was cancelled."""
        if live.holds_watermark:
            held = live.timer.held
            assert held is not None
            self._work.remove(held)
        if live.holds_horizon:
            self._origins.remove(live.timer.origin)

    def hold_origin(self, origin: int) -> bool:
        """A step that fired a timer is under way, with an origin of its own; tells whether it was counted."""
        if origin < self.horizon:
            return False
        self._origins.add(origin)
        return True

    def release_origin(self, origin: int) -> None:
        """Its productions are pending, and hold the origin themselves."""
        self._origins.remove(origin)

    def set_hold(self, slot: KeySlot, hold: int) -> None:
        """A key's state has another hold; `MAX_TIME`: none."""
        if slot.holds_watermark:
            self._work.remove(slot.hold)
        slot.hold = hold
        slot.holds_watermark = self.low_watermark <= hold < MAX_TIME
        if slot.holds_watermark:
            self._work.add(hold)

    def report(self, input_low: int, input_horizon: int) -> tuple[int, int]:
        """(low watermark, horizon) to report now, in microseconds."""
        self.low_watermark = max(self.low_watermark, min(self._work.oldest(), input_low))
        self.horizon = max(self.horizon, min(self._origins.oldest(), input_horizon))
        return self.low_watermark, self.horizon

    def release_watermark(self, live: LiveTimer) -> None:
        """Let a timer hold the watermark no longer."""
        if live.holds_watermark and live.timer.held is not None:
            live.holds_watermark = False
            self._work.remove(live.timer.held)

    def pending_buckets(self, width_us: int) -> tuple[tuple[int, int], ...]:
        """Pending timestamps in buckets, for percentile watermarks (7.2)."""
        return self._work.buckets(width_us)

    def __len__(self) -> int:
        """How much work is counted in event time."""
        return len(self._work)
