"""Fault schedules: what goes wrong, where and when, as a value (serialisable, comparable, readable).

Names of processes are addresses: ``worker-0``, ``master-0``, ``authority-0.0``, ``queries/1`` (process 1 of injector
``queries``), ``store``. All times are true time in microseconds since the run began. Verbs are those of turmoil and TigerBeetle.
A fault can be tied to a protocol step instead (`StepFault`): it begins when a process sends or receives a certain message.
"""

from collections.abc import Iterable

import msgspec

from headrace import MAX_TIME, SECOND, HistoryFormatError, format_time
from headrace.wire.messages import ChangeTopology, MergeIntervals, MoveInterval, SplitInterval
from headrace_sim.steps import Moment, Step

PATIENCE_US = 2 * SECOND
"""Choice: long enough for a busy process to send or write something, and to be missed by the master."""


class Fault(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """What all faults have: when they begin.

    ``at_us``: true time, microseconds; of a fault that is tied to a step: how long after the step.
    """

    at_us: int

    @property
    def kind(self) -> str:
        """The fault's verb, as reports count it."""
        return KINDS.get(type(self)) or _MESSAGE_KINDS[type(self)]

    @property
    def end_us(self) -> int:
        """When it is over; one that waits for something to strike, or for the heal, is given `PATIENCE_US` more."""
        match self:
            case Crash(restart_after_us=int() as for_us):
                pass
            case Crash() | DropMessages() | LoseCommit() | LoseReply():
                for_us = PATIENCE_US
            case DelayCommit() | DuplicateCommit():
                for_us = PATIENCE_US + self.by_us
            case _:
                for_us = getattr(self, "for_us", 0)
        return self.at_us + for_us

    @property
    def addresses(self) -> tuple[str, ...]:
        """The processes that it names."""
        single = [getattr(self, name, "") for name in ("process", "source", "target")]
        return tuple(filter(None, (*single, *getattr(self, "side", ()), *getattr(self, "other", ()))))


class Crash(Fault, frozen=True, kw_only=True):
    """A process loses its memory, and starts again after a while; ``None``: when all is healed."""

    process: str
    restart_after_us: int | None = None


class Pause(Fault, frozen=True, kw_only=True):
    """A process stops, memory intact; when it is revived it goes on where it was: a zombie, if it was replaced meanwhile."""

    process: str
    for_us: int


class Partition(Fault, frozen=True, kw_only=True):
    """No message from ``side`` reaches ``other`` (empty: everybody else), nor the other way round.

    ``one_way``: only from ``side`` to ``other``.
    """

    side: tuple[str, ...]
    other: tuple[str, ...] = ()
    for_us: int
    one_way: bool = False


class Noise(Fault, frozen=True, kw_only=True):
    """A bad network: each message is dropped, doubled or delayed with these probabilities. Delays reorder.

    ``kinds``: names of message classes, such as ``Ack``; empty: all. ``process``: only to or from it; ``""``: everywhere.
    """

    for_us: int
    drop: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0
    delay_us: int = 0
    kinds: tuple[str, ...] = ()
    process: str = ""


class Hold(Fault, frozen=True, kw_only=True):
    """The next messages of a kind from a process are held back, and released together later.

    ``source`` or ``target`` ``""``: any.
    """

    message: str
    source: str = ""
    target: str = ""
    count: int = 1
    for_us: int


class DropMessages(Fault, frozen=True, kw_only=True):
    """The next messages of a kind are lost. ``source`` or ``target`` ``""``: any."""

    message: str
    source: str = ""
    target: str = ""
    count: int = 1


class DelayCommit(Fault, frozen=True, kw_only=True):
    """The next writes of a process are delayed on the wire, before the store's check (6.2, Figure 12)."""

    process: str
    count: int = 1
    by_us: int


class LoseCommit(Fault, frozen=True, kw_only=True):
    """The next writes of a process never reach the store."""

    process: str
    count: int = 1


class LoseReply(Fault, frozen=True, kw_only=True):
    """The next writes of a process are applied, but it does not hear of it."""

    process: str
    count: int = 1


class DuplicateCommit(Fault, frozen=True, kw_only=True):
    """The next writes of a process arrive twice, the second time later: a network remnant."""

    process: str
    count: int = 1
    by_us: int


class StoreUnavailable(Fault, frozen=True, kw_only=True):
    """The store answers nobody: it says so, or is silent. ``process``: only for this one; ``""``: for all."""

    for_us: int
    silent: bool = False
    process: str = ""


class StoreErrors(Fault, frozen=True, kw_only=True):
    """Reads and scans fail with this probability."""

    for_us: int
    rate: float


class Slow(Fault, frozen=True, kw_only=True):
    """A machine takes this many times as long for everything."""

    process: str
    for_us: int
    factor: int


class SkewClock(Fault, frozen=True, kw_only=True):
    """A machine's clock jumps by so much, and back after a while."""

    process: str
    by_us: int
    for_us: int


class LateRecords(Fault, frozen=True, kw_only=True):
    """The next records of an injector's process reach it later, while its source's watermark estimate goes on."""

    process: str
    count: int
    by_us: int


class StallSource(Fault, frozen=True, kw_only=True):
    """A source gives its injector's process nothing for a while."""

    process: str
    for_us: int


class Operate(Fault, frozen=True, kw_only=True):
    """An operator asks for a move, split or merge of an interval, or for another topology."""

    verb: MoveInterval | SplitInterval | MergeIntervals | ChangeTopology


class DropMessage(Fault, frozen=True, kw_only=True):
    """The message of the step is lost."""


class DuplicateMessage(Fault, frozen=True, kw_only=True):
    """The message of the step arrives twice, the second time so much later."""

    by_us: int


class DelayMessage(Fault, frozen=True, kw_only=True):
    """The message of the step arrives so much later."""

    by_us: int


MessageFault = DropMessage | DuplicateMessage | DelayMessage
"""What can happen to the message of a step itself; never tied to a time."""

KINDS: dict[type[Fault], str] = {
    Crash: "crash",
    Pause: "pause",
    Partition: "partition",
    Noise: "noise",
    Hold: "hold",
    DropMessages: "drop",
    DelayCommit: "delay_commit",
    LoseCommit: "lose_commit",
    LoseReply: "lose_reply",
    DuplicateCommit: "duplicate_commit",
    StoreUnavailable: "store_unavailable",
    StoreErrors: "store_errors",
    Slow: "slow",
    SkewClock: "skew_clock",
    LateRecords: "late_records",
    StallSource: "stall_source",
    Operate: "operate",
}
"""What a fault at a time can be, and its verb."""

_MESSAGE_KINDS: dict[type[Fault], str] = {
    DropMessage: "drop_message",
    DuplicateMessage: "duplicate_message",
    DelayMessage: "delay_message",
}

AnyFault = (
    Crash | Pause | Partition | Noise | Hold | DropMessages | DelayCommit | LoseCommit | LoseReply | DuplicateCommit
    | StoreUnavailable | StoreErrors | Slow | SkewClock | LateRecords | StallSource | Operate
)  # fmt: skip


class StepFault(msgspec.Struct, frozen=True, omit_defaults=True):
    """A fault that begins at a protocol step, whenever that comes; never after the heal.

    Attributes:
        step: whose and which.
        fault: its ``at_us`` is how long after the step it begins: 0 for at that very moment.
        moment: before or after the step is taken.
    """

    step: Step
    fault: AnyFault | MessageFault
    moment: Moment = Moment.BEFORE

    def describe(self) -> str:
        """Write it as a sentence.

        >>> from headrace_sim.steps import Does
        >>> step = Step("worker-1", Does.SENDS, "Write", 3)
        >>> StepFault(step, Crash(at_us=0, process="worker-1", restart_after_us=1_200_000)).describe()
        'worker-1 crashes before it sends its 3rd Write; it restarts after 1.200000s'
        >>> StepFault(step, DelayMessage(at_us=0, by_us=500_000)).describe()
        'the 3rd Write that worker-1 sends is delayed by 0.500000s'
        """
        step, fault = self.step, self.fault
        if isinstance(fault, MessageFault):
            return f"the {step.what} that {step.process} {step.does.value} is {_fate(fault)}"
        who = "it" if fault.addresses == (step.process,) else step.process
        when = f"{self.moment.value} {who} {step.does.value} its {step.what}"
        if fault.at_us:
            when = f"{format_time(fault.at_us)} {when.replace('before ', 'after ', 1)}"
        return _sentence(fault, when)


class FaultSchedule(msgspec.Struct, frozen=True):
    """Everything that goes wrong in a run.

    Attributes:
        faults: in any order.
        heal_at_us: then every fault ends: partitions heal, the paused revive, the crashed restart; ``None``: after the last.
        lasting: addresses that stay crashed, paused or cut off, once they are, also when all else heals (a permanently bad
            minority).
        at_steps: faults that are tied to protocol steps; those whose step comes only after the heal never begin.
    """

    faults: tuple[AnyFault, ...] = ()
    heal_at_us: int | None = None
    lasting: tuple[str, ...] = ()
    at_steps: tuple[StepFault, ...] = ()

    @property
    def heals_at_us(self) -> int:
        """When everything heals, microseconds."""
        if self.heal_at_us is not None:
            return self.heal_at_us
        ends = [fault.end_us for fault in self.faults]
        # Choice: as long again as for a fault that waits for something to strike, for who knows when the step comes.
        ends += [2 * PATIENCE_US + one.fault.end_us for one in self.at_steps]
        return max(ends, default=0)

    @property
    def planned(self) -> "tuple[AnyFault | StepFault, ...]":
        """All faults, at times and at steps."""
        return self.faults + self.at_steps

    @property
    def count(self) -> int:
        """How many faults there are, of both kinds."""
        return len(self.faults) + len(self.at_steps)

    def with_planned(self, planned: "Iterable[AnyFault | StepFault]") -> "FaultSchedule":
        """The same schedule with these faults instead."""
        planned = tuple(planned)
        return msgspec.structs.replace(
            self,
            faults=tuple(one for one in planned if not isinstance(one, StepFault)),
            at_steps=tuple(one for one in planned if isinstance(one, StepFault)),
        )

    def describe(self) -> str:
        """Write it for people, one fault a line: those at a time in its order, then those at a step."""
        lines = [describe(fault) for fault in sorted(self.faults, key=lambda fault: fault.at_us)]
        lines += [one.describe() for one in self.at_steps]
        lines += [f"{address} is not healed" for address in self.lasting]
        return "\n".join(lines) or "no faults"

    def to_json(self) -> bytes:
        """Write it for a file."""
        return msgspec.json.format(msgspec.json.encode(self), indent=2)

    @classmethod
    def from_json(cls, data: bytes, path: str = "<bytes>") -> "FaultSchedule":
        """Read what `to_json` wrote.

        Raises:
            HistoryFormatError: it is not one; the message names the field that is wrong.
        """
        try:
            return msgspec.json.decode(data, type=cls)
        except msgspec.MsgspecError as error:
            raise HistoryFormatError("fault schedule", path, str(error)) from error


NO_FAULTS = FaultSchedule()


def describe(fault: AnyFault) -> str:
    """Write one fault for people.

    >>> describe(Pause(at_us=1_500_000, process="worker-1", for_us=2_000_000))
    '1.500000s pause process=worker-1 for=2.000000s'
    """
    return f"{format_time(fault.at_us)} {_words(fault)}"


def _words(fault: AnyFault) -> str:
    """The fault and its fields, without when."""
    words = [fault.kind]
    for name in fault.__struct_fields__:
        value = getattr(fault, name)
        if name == "at_us" or value in ("", (), None, 0.0):
            continue
        if name.endswith("_us"):
            words.append(f"{name.removesuffix('_us')}={format_time(min(value, MAX_TIME))}")
        elif name == "verb":
            words.append(
                f"{type(value).__name__}({', '.join(str(getattr(value, f)) for f in value.__struct_fields__)})"
            )
        else:
            words.append(f"{name}={','.join(value) if isinstance(value, tuple) else value}")
    return " ".join(words)


def _sentence(fault: AnyFault, when: str) -> str:
    match fault:
        case Crash(restart_after_us=None):
            return f"{fault.process} crashes {when}; it stays down until the heal"
        case Crash(restart_after_us=int() as after_us):
            return f"{fault.process} crashes {when}; it restarts after {format_time(after_us)}"
        case Pause():
            return f"{fault.process} pauses {when}; it is revived after {format_time(fault.for_us)}"
        case Slow():
            return f"{fault.process} is {fault.factor} times slower {when}, for {format_time(fault.for_us)}"
        case _:
            return f"{_words(fault)}, {when}"


def _fate(fault: MessageFault) -> str:
    match fault:
        case DropMessage():
            return "lost"
        case DuplicateMessage():
            return f"doubled, the second copy {format_time(fault.by_us)} later"
        case DelayMessage():
            return f"delayed by {format_time(fault.by_us)}"
