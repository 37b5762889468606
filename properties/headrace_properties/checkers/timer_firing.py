"""Timers fire in order, once, not too early, and eventually (MillWheel 4.6)."""

from itertools import pairwise

from headrace import MIN_TIME, Clock, format_time
from headrace.history import Applied, Executed, RunEnded
from headrace.wire.rows import AskedTimer, StoredTimer
from headrace_properties.checkers.checker import Handlers, OpenVerdict
from headrace_properties.checkers.ledger import WorkLedger
from headrace_properties.checkers.liveness_due import GRACE_US, SETTLE_US, Calm, left
from headrace_properties.checkers.work import WorkItem


class TimersInOrder:
    """S8: when a timer fires, no durable pending timer of its key and clock is earlier.

    A timer that the same step cancels or moves is not counted: a handler before it may have done so. Nor does a step continue
    after it has set a timer that is due at once, which the next record or timer would overtake.
    """

    name = "S8"
    title = "timers of a key fire in order"
    section = "4.6"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._verdict = OpenVerdict("no timer fired")
        self.verdict = self._verdict.verdict
        self.handlers: Handlers = {Applied: self._on_applied}

    def _on_applied(self, event: Applied) -> None:
        delta = event.delta
        if delta.set_timers:
            self._judge_inside(event)
        if not delta.fired:
            return
        self._verdict.reached += len(delta.fired)
        row = self._ledger.row(event.computation, delta.key)
        left = dict(row.timers)
        for tag in (*delta.cancelled, *[timer.tag for timer in delta.set_timers]):
            if not any(timer.tag == tag for timer in delta.fired):
                left.pop(tag, None)
        for timer in delta.fired:
            left.pop(timer.tag, None)
            for work in left.values():
                self._compare(event, timer, work)

    def _judge_inside(self, event: Applied) -> None:
        """Check that nothing runs in a step after it sets a timer that is due at once."""
        runs = self._ledger.runs(event.sequencer, event.delta.number)
        for run, following in pairwise(runs):
            for timer in run.asked.timers if run.asked is not None else ():
                if timer.timestamp is None or not self._is_due(timer, run, event):
                    continue
                self._verdict.violated(
                    f"timer {timer.tag!r} of key {event.delta.key!r} at {event.computation!r} was set at"
                    f" {format_time(run.at_us)} for {format_time(timer.timestamp)}, and was due at once; {following.cause} ran"
                    " before it in the same step (MillWheel 4.6)",
                    run,
                    following,
                    event,
                )

    @staticmethod
    def _is_due(asked: AskedTimer, run: Executed, event: Applied) -> bool:
        if asked.clock is Clock.WATERMARK:
            return asked.timestamp is not None and asked.timestamp <= run.input_watermark
        return any(timer.tag == asked.tag and timer.overdue for timer in event.delta.set_timers)

    def _compare(self, event: Applied, timer: StoredTimer, work: WorkItem) -> None:
        other = work.what
        assert isinstance(other, StoredTimer)
        if other.clock is timer.clock and other.order < timer.order:
            self._verdict.violated(
                f"timer {timer.tag!r} (due {format_time(timer.due)}) of key {event.delta.key!r} at {event.computation!r} fired at"
                f" {format_time(event.at_us)}, before timer {other.tag!r} (due {format_time(other.due)}), which was pending"
                " (MillWheel 4.6)",
                work.source,
                event,
            )


class TimersOnce:
    """S9: each timer that was set fires once at most, and not while the watermark is below it."""

    name = "S9"
    title = "each timer fires once, and not too early"
    section = "4.6"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._topology = ledger.topology
        self._verdict = OpenVerdict("no timer fired")
        self.verdict = self._verdict.verdict
        self._fired: dict[tuple[str, str, str, int, int], Applied] = {}
        self.handlers: Handlers = {Executed: self._on_executed, Applied: self._on_applied}

    def _on_executed(self, event: Executed) -> None:
        timer = event.timer
        if timer is None or timer.clock is not Clock.WATERMARK:
            return
        known, due = event.input_watermark, _due(timer)
        if known < due:
            text = (
                f"{_timer(event, timer)}, when its input watermark was {format_time(known)} (MillWheel 4.6)"
            )
            self._verdict.violated(text, event)
        if event.computation in self._topology.percentile or self._topology.changes:
            return
        if self._ledger.injectors_progress(event.computation) < due:
            self._verdict.violated(
                f"{_timer(event, timer)}, and not even the injectors were so far (MillWheel 4.5, 4.6)", event
            )

    def _on_applied(self, event: Applied) -> None:
        for timer in event.delta.fired:
            self._verdict.reached += 1
            set_by = timer.set_by
            identity = (event.computation, event.delta.key, timer.tag, set_by.sequencer, set_by.number)
            before = self._fired.setdefault(identity, event)
            if before is not event:
                times = f"at {format_time(before.at_us)}, and at {format_time(event.at_us)}"
                self._verdict.violated(
                    f"{_fired(event, timer)} fired twice: {times} (MillWheel 4.6)", before, event
                )
            work = self._ledger.row(event.computation, event.delta.key).timers.get(timer.tag)
            if work is None or work.what != timer:
                text = f"{_fired(event, timer)} fired at {format_time(event.at_us)}, and was not pending (MillWheel 4.6)"
                self._verdict.violated(text, event)


def _fired(event: Applied, timer: StoredTimer) -> str:
    return f"timer {timer.tag!r} of key {event.delta.key!r} at {event.computation!r}, set by version {timer.set_by},"


def _due(timer: StoredTimer) -> int:
    """Return the earliest time at which it may fire, however the engine adjusted the requested timestamp."""
    return max(timer.due, timer.timestamp)


def _timer(event: Executed, timer: StoredTimer) -> str:
    return (
        f"timer {timer.tag!r} of key {event.key!r} at {event.computation!r}, due at {format_time(_due(timer))}, ran at"
        f" {format_time(event.at_us)} on {event.process}"
    )


class TimersFire:
    """L1: once faults have stopped, each timer that is due fires in bounded time.

    A wall timer has `GRACE_US` however the run ends, as machines' clocks may be behind. Others have `SETTLE_US` if it ends at
    rest: a timer that a late record has set holds nothing, and may be on its way.
    """

    name = "L1"
    title = "each due timer fires"
    section = "4.6"

    def __init__(self, ledger: WorkLedger) -> None:
        self._ledger = ledger
        self._verdict = OpenVerdict()
        self.verdict = self._verdict.verdict
        self._calm = Calm()
        self._fired = 0
        self.handlers: Handlers = {**self._calm.handlers, Applied: self._on_applied, RunEnded: self._on_end}

    def _on_applied(self, event: Applied) -> None:
        self._fired += len(event.delta.fired)

    def _on_end(self, event: RunEnded) -> None:
        if not self._calm.is_due(event, self._ledger, self._verdict):
            return
        self._verdict.unreached = "no timer came due"
        self._verdict.reached = self._fired
        soon_us = SETTLE_US if event.why == "quiescent" else GRACE_US
        for work in self._ledger.timers():
            timer = work.what
            if isinstance(timer, StoredTimer):
                grace_us = soon_us if timer.clock is Clock.WATERMARK else GRACE_US
                since_us = self._due_since_us(work, timer)
                if since_us is not None and event.at_us - since_us >= grace_us:
                    self._note(event, work, timer, since_us)

    def _due_since_us(self, work: WorkItem, timer: StoredTimer) -> int | None:
        if timer.clock is Clock.WALL:
            return max(timer.due, work.source.at_us, self._calm.since_us)
        passed_us = self._ledger.passed_at_us(work.sender, timer.due)
        return None if passed_us is None else max(passed_us, work.source.at_us, MIN_TIME)

    def _note(self, event: RunEnded, work: WorkItem, timer: StoredTimer, since_us: int) -> None:
        passed = (
            ", when the low watermark of its input had passed it," if timer.clock is Clock.WATERMARK else ""
        )
        self._verdict.violated(
            f"{work}, set at {format_time(work.source.at_us)}, has been due since {format_time(since_us)}{passed}"
            f" and had not fired by the end, {format_time(event.at_us)}{left(event, self._ledger)} (MillWheel 4.6, 6.2)",
            work.source,
            event,
            awaited=work.awaited(since_us),
        )
