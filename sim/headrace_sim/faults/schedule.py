"""Schedules: everything that goes wrong in a run, at times and at protocol steps."""

from collections.abc import Iterable

import msgspec

from headrace import HistoryFormatError, format_time
from headrace.api.json_text import JsonError, read_json
from headrace_sim.faults.kinds import PATIENCE_US, AnyFault, MessageFault
from headrace_sim.faults.wording import describe, fate_of, sentence
from headrace_sim.steps import Moment, Step


class StepFault(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fault that begins when a process reaches a protocol step, but never after the heal.

    Attributes:
        step: the step.
        fault: the fault; its ``at_us`` counts from the step, 0 is that very moment.
        moment: before or after the process takes the step.
    """

    step: Step
    fault: AnyFault | MessageFault
    moment: Moment = Moment.BEFORE

    def describe(self) -> str:
        """Write the fault as a sentence.

        >>> from headrace_sim import Does
        >>> from headrace_sim.faults import Crash, DelayMessage
        >>> step = Step("worker-1", Does.SENDS, "Write", 3)
        >>> StepFault(step, Crash(at_us=0, process="worker-1", restart_after_us=1_200_000)).describe()
        'worker-1 crashes before it sends its 3rd Write; it restarts after 1.200000s'
        >>> StepFault(step, DelayMessage(at_us=0, by_us=500_000)).describe()
        'the 3rd Write that worker-1 sends is delayed by 0.500000s'
        """
        step, fault = self.step, self.fault
        if isinstance(fault, MessageFault):
            return f"the {step.what} that {step.process} {step.does.value} is {fate_of(fault)}"
        who = "it" if fault.addresses == (step.process,) else step.process
        when = f"{self.moment.value} {who} {step.does.value} its {step.what}"
        if fault.at_us:
            when = f"{format_time(fault.at_us)} {when.replace('before ', 'after ', 1)}"
        return sentence(fault, when)


class FaultSchedule(msgspec.Struct, frozen=True):
    """Everything that goes wrong in a run.

    Attributes:
        faults: those that begin at a time, in any order.
        heal_at_us: when every fault ends (partitions heal, paused processes revive, crashed ones restart), true time; ``None``:
            after the last fault.
        lasting: addresses that stay crashed, paused or cut off when all else heals (a permanently bad minority).
        at_steps: those that begin at a protocol step, unless the step comes after the heal.
    """

    faults: tuple[AnyFault, ...] = ()
    heal_at_us: int | None = None
    lasting: tuple[str, ...] = ()
    at_steps: tuple[StepFault, ...] = ()

    @property
    def heals_at_us(self) -> int:
        """When all faults end, true time in microseconds."""
        if self.heal_at_us is not None:
            return self.heal_at_us
        ends = [fault.end_us for fault in self.faults]
        # Choice: nobody knows when a step comes, so allow as much again as for a fault that waits for something to strike.
        ends += [2 * PATIENCE_US + tied.fault.end_us for tied in self.at_steps]
        return max(ends, default=0)

    @property
    def planned(self) -> "tuple[AnyFault | StepFault, ...]":
        """All faults, those at times before those at steps."""
        return self.faults + self.at_steps

    @property
    def count(self) -> int:
        """The number of faults."""
        return len(self.faults) + len(self.at_steps)

    def with_planned(self, planned: "Iterable[AnyFault | StepFault]") -> "FaultSchedule":
        """Return the same schedule with these faults instead."""
        planned = tuple(planned)
        return msgspec.structs.replace(
            self,
            faults=tuple(fault for fault in planned if not isinstance(fault, StepFault)),
            at_steps=tuple(fault for fault in planned if isinstance(fault, StepFault)),
        )

    def before(self, at_us: int) -> "FaultSchedule":
        """Return the same schedule without the faults that begin at a time, and not before this one."""
        early = tuple(fault for fault in self.faults if fault.at_us < at_us)
        return msgspec.structs.replace(self, faults=early, heal_at_us=self.heals_at_us)

    def describe(self) -> str:
        """Write one fault a line: those at times in order of time, then those at steps."""
        lines = [describe(fault) for fault in sorted(self.faults, key=lambda fault: fault.at_us)]
        lines += [tied.describe() for tied in self.at_steps]
        lines += [f"{address} is not healed" for address in self.lasting]
        return "\n".join(lines) or "no faults"

    def to_json(self) -> bytes:
        """Write the schedule for a file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    @classmethod
    def from_json(cls, data: bytes, path: str = "<bytes>") -> "FaultSchedule":
        """Read what `to_json` wrote.

        Raises:
            HistoryFormatError: the data is no schedule; the message names the field that is wrong.
        """
        try:
            return read_json(data, msgspec.json.Decoder(cls).decode)
        except JsonError as error:
            raise HistoryFormatError("fault schedule", path, str(error)) from error


NO_FAULTS = FaultSchedule()
