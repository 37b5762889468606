"""Mutants of how user code is run, and of what becomes of its failures (MillWheel 4.1, 6.1.2)."""

from typing import ClassVar

from millrace._rows import Production
from millrace._step import Step
from millrace._stepping import StepRunner, _Cause
from millrace_properties.mutants._mutant import Mutant, Parts, Probe


class DropsFailures(StepRunner):
    """Takes a record that user code fails on for done."""

    probe: ClassVar[Probe]

    def _give_up(self, step: Step, cause: _Cause, attempts: int, error: Exception) -> bool:
        made, emitted = step.productions, step.emitted
        given_up = super()._give_up(step, cause, attempts, error)
        if given_up:
            self.probe.note()
            step.productions, step.emitted = made, emitted
        return given_up


class LeavesTraces(StepRunner):
    """Runs a record twice when it is in a step with others, as if the first time had failed."""

    probe: ClassVar[Probe]

    def _run_record(self, now: int, step: Step, record: Production) -> bool:
        if step.arrivals:
            self.probe.note()
            super()._run_record(now, step, record)
        return super()._run_record(now, step, record)


MUTANTS = (
    Mutant(
        "a failed record is dropped", ("S4", "reference"), "4.1",
        "a record that user code keeps failing on is ACKed, and nobody is told", Parts(runner=DropsFailures), "refusing",
    ),
    Mutant(
        "a re-run leaves traces", ("S4", "reference"), "6.1.2",
        "what user code did in an attempt that does not count is committed with the next one", Parts(runner=LeavesTraces),
        "bursts",
    ),
)  # fmt: skip
"""All of this file."""
