"""Mutants of how user code is run, and of what becomes of its failures (MillWheel 4.1, 6.1.2)."""

from typing import ClassVar

import msgspec

from headrace import SECOND
from headrace.api.context import Context
from headrace.history import DeadLettered
from headrace.wire.rows import Production
from headrace.worker.running import StepCause, StepRun
from headrace_properties.proof.mutants.mutant import Mutant, Parts, Probe, leaving_out


class DropsFailures(StepRun):
    """Takes a record that user code fails on for done."""

    probe: ClassVar[Probe]

    def give_up(self, cause: StepCause, attempts: int, error: Exception) -> bool:
        """Leave no letter."""
        productions, emitted = self.outcome.productions, self.emitted
        given_up = super().give_up(cause, attempts, error)
        if given_up:
            self.probe.note()
            self.outcome.productions, self.emitted = productions, emitted
        return given_up


class GivesUpSilently(StepRun):
    """Leaves a dead letter and reports it nowhere."""

    probe: ClassVar[Probe]

    def give_up(self, cause: StepCause, attempts: int, error: Exception) -> bool:
        """Leave the letter only."""
        given_up = super().give_up(cause, attempts, error)
        if given_up:
            self.probe.note()
            events = self.outcome.events
            self.outcome.events = tuple(event for event in events if not isinstance(event, DeadLettered))
        return given_up


class LeavesTraces(StepRun):
    """Runs a record twice when it is in a step with others, as if the first time had failed."""

    probe: ClassVar[Probe]

    def run_record(self, record: Production) -> bool:
        """Run it, twice if it is not alone."""
        if self.outcome.arrivals:
            self.probe.note()
            super().run_record(record)
        return super().run_record(record)


class StampsEarly(StepRun):
    """What user code makes of a record has an earlier timestamp than the record."""

    probe: ClassVar[Probe]

    def addressed(self, context: Context, identity: str, origin: int) -> tuple[Production, ...]:
        """Stamp them early."""
        productions = super().addressed(context, identity, origin)
        self.probe.count += len(productions)
        return tuple(
            msgspec.structs.replace(production, timestamp=production.timestamp - SECOND)
            for production in productions
        )


MUTANTS = (
    Mutant(
        "a failed record is dropped", ("S4", "reference"), "4.1",
        "a record that user code keeps failing on is ACKed, and nobody is told", Parts(run=DropsFailures), "refusing",
    ),
    Mutant(
        "a dead letter is not reported", ("S5",), "4.1",
        "a record that user code keeps failing on becomes a dead letter, and no event says so", Parts(run=GivesUpSilently),
        "refusing",
    ),
    Mutant(
        "a re-run leaves traces", ("S4", "reference"), "6.1.2",
        "what user code did in an attempt that does not count is committed with the next one", Parts(run=LeavesTraces),
        "bursts",
    ),
    Mutant(
        "state in memory only", ("reference",), "4.4, 6.2",
        "state is kept in memory, and not in the row", Parts(rules=leaving_out("written", state=None)), "echoes",
    ),
    Mutant(
        "holds in memory only", ("reference", "S10"), "5.2, 6.2",
        "the time of a state is kept in memory, and not in the row", Parts(rules=leaving_out("written", hold=None)), "holding",
    ),
    Mutant(
        "a production before its cause", ("S15", "S16"), "4.5",
        "what is made of a record has an earlier timestamp than the record", Parts(run=StampsEarly), "windows",
    ),
)  # fmt: skip
"""All of this file."""
