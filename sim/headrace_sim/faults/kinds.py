"""The kinds of faults, each a value with its fields. To add one, see CONTRIBUTING.md."""

import enum

import msgspec

from headrace import SECOND
from headrace.wire.messages import ChangeTopology, MergeIntervals, MoveInterval, SplitInterval

PATIENCE_US = 2 * SECOND
"""Choice: long enough for a busy process to send or write something, and for the master to miss it."""


class Fault(msgspec.Struct, frozen=True, tag=True, kw_only=True):
    """What all faults have.

    ``at_us``: when it begins, true time; for a fault tied to a step: how long after the step.
    """

    at_us: int

    @property
    def kind(self) -> str:
        """The fault's verb, by which reports count it."""
        if isinstance(self, BreakStore):
            return self.how.value
        return KINDS.get(type(self)) or _MESSAGE_KINDS[type(self)]

    @property
    def end_us(self) -> int:
        """When it ends; a fault that waits for something to strike, or for the heal, gets `PATIENCE_US`."""
        match self:
            case Crash(restart_after_us=int() as for_us):
                pass
            case Crash() | DropMessages() | LoseCommit() | LoseReply() | BreakStore():
                for_us = PATIENCE_US
            case DelayCommit() | DuplicateCommit():
                for_us = PATIENCE_US + self.by_us
            case _:
                for_us = getattr(self, "for_us", 0)
        return self.at_us + for_us

    @property
    def addresses(self) -> tuple[str, ...]:
        """The addresses that it names."""
        single = [getattr(self, name, "") for name in ("process", "source", "target")]
        return tuple(filter(None, (*single, *getattr(self, "side", ()), *getattr(self, "other", ()))))


class Crash(Fault, frozen=True, kw_only=True):
    """A process loses its memory and restarts after a while; ``None``: at the heal."""

    process: str
    restart_after_us: int | None = None


class Pause(Fault, frozen=True, kw_only=True):
    """A process stops with its memory intact and continues when revived: as a zombie, if it was replaced meanwhile."""

    process: str
    for_us: int


class Partition(Fault, frozen=True, kw_only=True):
    """No message passes between ``side`` and ``other`` (empty: everybody else).

    ``one_way``: only messages from ``side`` to ``other`` are lost.
    """

    side: tuple[str, ...]
    other: tuple[str, ...] = ()
    for_us: int
    one_way: bool = False


class Noise(Fault, frozen=True, kw_only=True):
    """A bad network: each message is dropped, duplicated or delayed with these probabilities. Delays reorder messages.

    ``kinds``: names of message classes, such as ``Ack``; empty: all. ``process``: only messages to or from it; ``""``: all.
    The traffic with the store is spared, unless ``kinds`` names it (such as ``Mint``).
    """

    for_us: int
    drop: float = 0.0
    duplicate: float = 0.0
    delay: float = 0.0
    delay_us: int = 0
    kinds: tuple[str, ...] = ()
    process: str = ""


class Hold(Fault, frozen=True, kw_only=True):
    """The next messages of a kind are held, and released together later.

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
    """The next writes of a process are applied, but the store's replies are lost."""

    process: str
    count: int = 1


class DuplicateCommit(Fault, frozen=True, kw_only=True):
    """The next writes of a process arrive twice, the second copy later: a network remnant."""

    process: str
    count: int = 1
    by_us: int


class StoreUnavailable(Fault, frozen=True, kw_only=True):
    """The store refuses every request, or is silent. ``process``: only that one's; ``""``: all."""

    for_us: int
    silent: bool = False
    process: str = ""


class StoreErrors(Fault, frozen=True, kw_only=True):
    """Reads and scans fail with this probability."""

    for_us: int
    rate: float


class Slow(Fault, frozen=True, kw_only=True):
    """A machine takes ``factor`` times as long for everything."""

    process: str
    for_us: int
    factor: int


class SkewClock(Fault, frozen=True, kw_only=True):
    """A machine's clock jumps, and jumps back after a while."""

    process: str
    by_us: int
    for_us: int


class LateRecords(Fault, frozen=True, kw_only=True):
    """An injector process's next records reach it later, while its source's watermark estimate advances."""

    process: str
    count: int
    by_us: int


class StallSource(Fault, frozen=True, kw_only=True):
    """An injector process's source stalls."""

    process: str
    for_us: int


class Operate(Fault, frozen=True, kw_only=True):
    """An operator asks to move, split or merge an interval, or to change the topology."""

    verb: MoveInterval | SplitInterval | MergeIntervals | ChangeTopology


class Breach(enum.Enum):
    """How the store breaks a guarantee that the paper takes for granted."""

    LOST_WRITE = "lost_write"
    """It answers a write, and does not apply it."""
    TORN_ROW = "torn_row"
    """It applies a write's states, but not its ids, timers and productions."""
    WRONG_ROW = "wrong_row"
    """It applies a write to the row of another key."""
    OLD_SNAPSHOT = "old_snapshot"
    """It answers a read or a scan with rows as they were when the fault began."""


class BreakStore(Fault, frozen=True, kw_only=True):
    """The store breaks a guarantee of the paper's, once: a fault outside the model, which no search tries unless it is asked to.

    It strikes the next request for which that makes a difference. ``process``: only that one's; ``""``: anybody's.
    """

    how: Breach
    process: str = ""


class DropMessage(Fault, frozen=True, kw_only=True):
    """The message of the step is lost."""


class DuplicateMessage(Fault, frozen=True, kw_only=True):
    """The message of the step arrives twice, the second copy ``by_us`` later."""

    by_us: int


class DelayMessage(Fault, frozen=True, kw_only=True):
    """The message of the step arrives ``by_us`` later."""

    by_us: int


MessageFault = DropMessage | DuplicateMessage | DelayMessage
"""What can happen to the message of a step; never at a time."""

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
"""The verb of each kind of fault that can begin at a time."""

_MESSAGE_KINDS: dict[type[Fault], str] = {
    DropMessage: "drop_message",
    DuplicateMessage: "duplicate_message",
    DelayMessage: "delay_message",
}

AnyFault = (
    Crash | Pause | Partition | Noise | Hold | DropMessages | DelayCommit | LoseCommit | LoseReply | DuplicateCommit
    | StoreUnavailable | StoreErrors | Slow | SkewClock | LateRecords | StallSource | Operate | BreakStore
)  # fmt: skip
