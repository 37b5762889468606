"""Mutants of timers: journaled, in order, once, and not too early (MillWheel 4.6, 6.2)."""

from typing import ClassVar

import msgspec

from headrace import SECOND
from headrace.api.records import Clock
from headrace.wire import messages as m
from headrace.wire.rows import RowDelta, RowImage, StoredTimer
from headrace.worker.commits import Commits
from headrace.worker.recovery import Recovery
from headrace.worker.step import KeySlot, Step
from headrace.worker.stepping import StepRunner
from headrace.worker.timers import TimerQueue, due_timers
from headrace_properties.mutants.mutant import Mutant, Parts, Probe

_EARLY_US = SECOND // 5


class StepWithoutTimers(Step, eq=False):
    """A step whose write has none of the timers that it sets."""

    probe: ClassVar[Probe]

    def delta(self, *, remember: bool) -> RowDelta:
        """All of it but them."""
        delta = super().delta(remember=remember)
        if delta.set_timers:
            self.probe.note()
        return msgspec.structs.replace(delta, set_timers=())


class TimersInNextWrite(Commits):
    """Writes the timers of a step by a write of their own, once the step is durable."""

    probe: ClassVar[Probe]

    def _finish(self, now: int, steps: list[Step]) -> None:
        interval, store = self._interval, self._shared.store
        super()._finish(now, steps)
        for step in steps:
            timers = tuple(timer for timer in step.changes.values() if timer is not None)
            if timers:
                number = self._runner._next_number
                self._runner._next_number += 1
                delta = RowDelta(step.slot.key, number, set_timers=timers)
                write = m.Write(store.number(), interval.computation, interval.sequencer, (delta,))
                store.ask(now, write, lambda _now, _reply: None, interval)


class StepKeepsFired(Step, eq=False):
    """A step whose write does not remove the timers that it fired."""

    probe: ClassVar[Probe]

    def delta(self, *, remember: bool) -> RowDelta:
        """All of it, as if none had fired."""
        if self.fired:
            self.probe.note()
        return msgspec.structs.replace(super().delta(remember=remember), fired=())


class RecoveryWithoutTimers(Recovery):
    """Restores everything but the timers."""

    probe: ClassVar[Probe]

    def _restore(self, now: int, image: RowImage) -> None:
        if image.timers:
            self.probe.note()
        super()._restore(now, msgspec.structs.replace(image, timers=()))


class RecoveryQueuesNothing(Recovery):
    """Restores timers into the memory of their keys, where nobody looks before something else comes for the key."""

    probe: ClassVar[Probe]

    def _restore(self, now: int, image: RowImage) -> None:
        super()._restore(now, image)
        if image.timers:
            self.probe.note()
            self._interval.timers = type(self._interval.timers)()


class LatestFirst(StepRunner):
    """Fires what is due in the wrong order."""

    probe: ClassVar[Probe]

    def _due_timers(self, now: int, slot: KeySlot) -> list[StoredTimer]:
        due = super()._due_timers(now, slot)
        if len(due) > 1:
            self.probe.note()
        return due[::-1]


class OverdueNeverFires(StepRunner):
    """Fires what the watermark comes to, and not what it has gone by."""

    def _due_timers(self, now: int, slot: KeySlot) -> list[StoredTimer]:
        return [timer for timer in super()._due_timers(now, slot) if not timer.overdue]


class OverdueQueue(TimerQueue):
    """Waits for the watermark to come to a timer, and it has gone by."""

    probe: ClassVar[Probe]

    def add(self, key: str, timer: StoredTimer) -> None:
        """A timer was set."""
        if timer.overdue:
            self.probe.note()
        else:
            super().add(key, timer)


class EarlyQueue(TimerQueue):
    """Looks for timers a little ahead of the watermark."""

    def due_keys(self, watermark: int, now: int) -> list[str]:
        """Take out the keys that are due, or soon will be."""
        return super().due_keys(watermark + _EARLY_US, now)


class EarlyRunner(StepRunner):
    """Fires timers a little ahead of the watermark."""

    probe: ClassVar[Probe]

    def _due_timers(self, now: int, slot: KeySlot) -> list[StoredTimer]:
        watermark = self._interval.timer_watermark
        due = due_timers(slot, watermark + _EARLY_US, now)
        if any(timer.clock is Clock.WATERMARK and timer.due > watermark for timer in due):
            self.probe.note()
        return due


class OneTimerAtATime(StepRunner):
    """Looks at a key once when the watermark advances, and fires the first of its timers that are due."""

    probe: ClassVar[Probe]

    def _run_timers(self, now: int, step: Step, _budget: int) -> bool:
        ran = super()._run_timers(now, step, 1)
        if step.slot.due and step.fired:
            self.probe.note()
            step.slot.due = False
        return ran


class LetsGoWhenFired(StepRunner):
    """A timer holds nothing back once it fires, though its write is not durable yet."""

    probe: ClassVar[Probe]

    def _run_timer(self, now: int, step: Step, timer: StoredTimer) -> bool:
        ran = super()._run_timer(now, step, timer)
        live = (step.slot.timers or {}).get(timer.tag)
        if ran and live is not None and live.holds_watermark and timer.held is not None:
            self.probe.note()
            live.holds_watermark = False
            self._interval.accounts._work.remove(timer.held)
        return ran


MUTANTS = (
    Mutant(
        "timers not journaled", ("S9",), "4.6",
        "timers are kept in memory, and not in the row", Parts(step=StepWithoutTimers), "windows",
    ),
    Mutant(
        "timers outside the write", ("S4",), "6.2",
        "timers are written after the state that belongs to them, by a write of their own",
        Parts(step=StepWithoutTimers, commits=TimersInNextWrite), "windows",
    ),
    Mutant(
        "a fired timer stays", ("S4", "S9"), "4.6",
        "a timer is not removed by the write that it led to, and fires again", Parts(step=StepKeepsFired), "windows",
    ),
    Mutant(
        "recovery without timers", ("S7", "L1"), "6.2, 7.1",
        "a new owner does not restore pending timers", Parts(recovery=RecoveryWithoutTimers), "windows",
    ),
    Mutant(
        "recovery queues no timer", ("S7", "L1"), "6.2, 7.1",
        "a new owner restores pending timers and does not put them into its heap", Parts(recovery=RecoveryQueuesNothing),
        "windows",
    ),
    Mutant(
        "timers latest first", ("S8",), "4.6, 6.2",
        "of the timers of a key that are due the latest fires first", Parts(runner=LatestFirst), "windows",
    ),
    Mutant(
        "a timer in the past never fires", ("L1", "L4"), "4.6",
        "a timer that is set behind the watermark waits for the watermark to come by again",
        Parts(timers=OverdueQueue, runner=OverdueNeverFires), "late windows",
    ),
    Mutant(
        "timers fire early", ("S9",), "4.6",
        "a timer fires a little before the low watermark is there", Parts(timers=EarlyQueue, runner=EarlyRunner), "windows",
    ),
    Mutant(
        "one timer for each advance", ("L1", "L4"), "4.6",
        "when the watermark passes several timers of a key, only the first fires", Parts(runner=OneTimerAtATime), "windows",
    ),
    Mutant(
        "a timer lets go when it fires", ("S10",), "4.5, 7.2",
        "a timer holds the low watermark until it fires, and not until its write is durable", Parts(runner=LetsGoWhenFired),
        "windows",
    ),
)  # fmt: skip
"""All of this file."""
