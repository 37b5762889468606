"""Mutants of timers: journaled, in order, once, and not too early (MillWheel 4.6, 6.2)."""

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from headrace import MAX_TIME, SECOND, Clock
from headrace.rules import RULES, Rules
from headrace.wire.rows import RowDelta, StoredTimer
from headrace.worker.commits import Commits
from headrace.worker.step import KeyStep
from headrace_properties.proof.mutants.mutant import InNextWrite, Mutant, Parts, Probe, answering, leaving_out

_EARLY_US = SECOND // 5


class HoldsTooLate(Rules):
    """Writes a hold a little later than user code asked of `hold_watermark`."""

    def written(self, delta: RowDelta) -> RowDelta:
        """Return all of it, with another hold."""
        if delta.hold is None or delta.hold == MAX_TIME:
            return delta
        return msgspec.structs.replace(delta, hold=delta.hold + 1)


class QueuesNoRecoveredWall(Rules):
    """The same for wall timers alone."""

    def queues(self, timer: StoredTimer, recovered: bool) -> bool:
        """Return none of them."""
        return super().queues(timer, recovered) and not (recovered and timer.clock is Clock.WALL)


class OverdueNeverFires(Rules):
    """Waits for the watermark to come to a timer, and it has gone by."""

    def queues(self, timer: StoredTimer, recovered: bool) -> bool:
        """Return none that is overdue."""
        return super().queues(timer, recovered) and not timer.overdue


class OvertakesTimersTimer(Rules):
    """Goes on with the next timer of a key when a timer's handler has set one that is due before it."""

    def ends_step(self, timer: StoredTimer, watermark: int, wall: int) -> bool:
        """Answer as the engine does only for what is due at the watermark itself: what a record's handler sets."""
        return super().ends_step(timer, watermark, wall) and timer.due >= watermark


class OneTimerAtATime(Rules):
    """Looks at a key once when the watermark advances, and fires the first of its timers that are due."""

    def most_firings(self, room: int) -> int:
        """Return one."""
        return min(room, 1)

    def fires_rest(self) -> bool:
        """Never."""
        return False


class TimersInNextWrite(InNextWrite):
    """Writes the timers of a step by a write of their own, once the step is durable."""

    def left_out(self, step: KeyStep) -> Mapping[str, Any]:
        """Return the timers, if any."""
        timers = tuple(timer for timer in step.outcome.changes.values() if timer is not None)
        return {"set_timers": timers} if timers else {}


class LetsGoWhenFired(Commits):
    """A timer holds nothing back once it fires, though its write is not durable yet."""

    probe: ClassVar[Probe]

    def ran(self, now: int, step: KeyStep) -> None:
        """Let go of the timers that have fired."""
        for timer in step.outcome.fired:
            live = (step.slot.timers or {}).get(timer.tag)
            if live is not None and live.holds_watermark and timer.held is not None:
                self.probe.note()
                self.soft.accounts.release_watermark(live)
        super().ran(now, step)


MUTANTS = (
    Mutant(
        "a hold is written too late", ("S4",), "5.2, 6.2",
        "the state holds the watermark a little later than user code asked for", Parts(rules=HoldsTooLate), "holding",
    ),
    Mutant(
        "timers not journaled", ("S9",), "4.6",
        "timers are kept in memory, and not in the row", Parts(rules=leaving_out("written", set_timers=())), "windows",
    ),
    Mutant(
        "timers outside the write", ("S4",), "6.2",
        "timers are written after the state that belongs to them, by a write of their own",
        Parts(rules=leaving_out("written", set_timers=()), commits=TimersInNextWrite), "windows",
    ),
    Mutant(
        "a fired timer stays", ("S4", "S9"), "4.6",
        "a timer is not removed by the write that it led to, and fires again",
        Parts(rules=leaving_out("written", fired=())), "windows",
    ),
    Mutant(
        "recovery without timers", ("S7", "L1"), "6.2, 7.1",
        "a new owner does not restore pending timers", Parts(rules=leaving_out("recovered", timers=())), "windows",
    ),
    Mutant(
        "recovery queues no timer", ("S7", "L1"), "6.2, 7.1",
        "a new owner restores pending timers and does not put them into its heap",
        Parts(rules=answering(queues=lambda timer, recovered: RULES.queues(timer, recovered) and not recovered)), "windows",
    ),
    Mutant(
        "recovery queues no wall timer", ("L1",), "4.6, 7.1",
        "a new owner restores pending wall timers and does not put them into its heap", Parts(rules=QueuesNoRecoveredWall),
        "reminders",
    ),
    Mutant(
        "timers latest first", ("S8",), "4.6, 6.2",
        "of the timers of a key that are due the latest fires first",
        Parts(rules=answering(in_order=lambda due: RULES.in_order(due)[::-1])), "windows",
    ),
    Mutant(
        "a timer in the past never fires", ("L1", "L4"), "4.6",
        "a timer that is set behind the watermark waits for the watermark to come by again",
        Parts(rules=OverdueNeverFires), "late windows",
    ),
    Mutant(
        "a timer is due when it is set", ("S9", "reference"), "4.6",
        "a timer is due at once, whether its time has passed or not",
        Parts(rules=answering(due=lambda _timestamp, now: now)), "windows",
    ),
    Mutant(
        "timers fire early", ("S9",), "4.6",
        "a timer fires a little before the low watermark is there",
        Parts(rules=answering(may_fire=lambda due, reading: due <= reading + _EARLY_US)), "windows",
    ),
    Mutant(
        "a due timer is overtaken", ("S8", "reference"), "4.6, 6.2",
        "a timer that a handler sets and that is due is overtaken by the next record or timer of its step",
        Parts(rules=answering(ends_step=False)), "prompt",
    ),
    Mutant(
        "a timer overtakes what a timer set", ("S8",), "4.6, 6.2",
        "a timer that a timer's handler sets is overtaken by a later one that is due in the same step",
        Parts(rules=OvertakesTimersTimer), "chains",
    ),
    Mutant(
        "one timer for each advance", ("L1", "L4"), "4.6",
        "when the watermark passes several timers of a key, only the first fires", Parts(rules=OneTimerAtATime), "windows",
    ),
    Mutant(
        "a timer lets go when it fires", ("S10",), "4.5, 7.2",
        "a timer holds the low watermark until it fires, and not until its write is durable", Parts(commits=LetsGoWhenFired),
        "windows", bypasses=("holds_watermark",),
    ),
)  # fmt: skip
"""All of this file."""
