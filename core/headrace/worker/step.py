"""A step (MillWheel 6.1.1): some records and timers of one key, run one after the other and committed together.

Rules of this file:

* What a step changes is one row delta, or nothing at all.
* The step's life is the table `STEP`. Strong: run, commit. Weak (6.1.3): run, wait for the ACKs of what it sent, commit; a
  straggler is checkpointed by that commit instead of being waited for.
* Nothing is ACKed before the step is done.

What is built for each record is a struct: like a class with slots, but built several times faster.
"""

import enum
from collections.abc import Mapping
from types import MappingProxyType

import msgspec

from headrace.api.records import Clock
from headrace.api.time import MAX_TIME
from headrace.wire.rows import Production, RowDelta, StoredTimer, Version
from headrace.worker.cache import CachedRow


class StepState(enum.IntEnum):
    """Where a step is."""

    RUNNING = 0
    """User code runs."""
    AWAITING_ACKS = 1
    """Weak: its productions were sent and are not all ACKed."""
    COMMITTABLE = 2
    """It waits for a write to share."""
    COMMITTING = 3
    """Its write is under way."""
    DONE = 4
    """It is durable, or needed no write."""


class StepInput(enum.IntEnum):
    """What moves a step on."""

    SENT = 0
    """Weak productions are on their way."""
    COMPLETE = 1
    """Nothing is left to wait for before the commit."""
    STRAGGLING = 2
    """Some production was not ACKed in time; it will be checkpointed (Figure 11)."""
    WRITE = 3
    """Its write was sent."""
    WRITTEN = 4
    """Its write is durable."""
    SKIP_WRITE = 5
    """It changed nothing that would have to be durable."""


STEP: dict[tuple[StepState, StepInput], StepState] = {
    (
        StepState.RUNNING,
        StepInput.SENT,
    ): StepState.AWAITING_ACKS,  # 6.1.3: optimistically, prior to persisting
    (StepState.RUNNING, StepInput.COMPLETE): StepState.COMMITTABLE,  # 6.1.1: pending changes are committed
    (StepState.AWAITING_ACKS, StepInput.COMPLETE): StepState.COMMITTABLE,
    (
        StepState.AWAITING_ACKS,
        StepInput.STRAGGLING,
    ): StepState.COMMITTABLE,  # 6.1.3: checkpoint a small percentage
    (StepState.COMMITTABLE, StepInput.WRITE): StepState.COMMITTING,
    (StepState.COMMITTABLE, StepInput.SKIP_WRITE): StepState.DONE,  # 6.1.3: a stateless filter
    (StepState.COMMITTING, StepInput.WRITTEN): StepState.DONE,
}


_FOLLOWING = [{state: after for (state, other), after in STEP.items() if other is one} for one in StepInput]
"""The table by input: what is looked up four times a record is looked up without building a pair."""


class Arrival(msgspec.Struct, eq=False, gc=False):
    """A delivery that waits for its turn, or is being processed.

    Attributes:
        production: the record.
        sender: whom to ACK: the latest who sent it.
        print: its id's fingerprint.
        maybe_seen: the filter knows it, or takes it for another one that it knows.
    """

    production: Production
    sender: str
    print: int
    maybe_seen: bool


class LiveTimer:
    """A durable pending timer in its owner's memory, and whether it holds watermark and horizon back."""

    __slots__ = ("holds_horizon", "holds_watermark", "timer")

    def __init__(self, timer: StoredTimer, holds_watermark: bool, holds_horizon: bool) -> None:  # noqa: FBT001  fields
        self.timer = timer
        self.holds_watermark = holds_watermark
        self.holds_horizon = holds_horizon


class KeySlot(msgspec.Struct, eq=False, gc=False):
    """The soft state of one key (6.2): its timers, always; its row, if cached; what waits for it.

    A worker has one for each key that it knows, so that its size is what a key costs (``headrace bench kernels``).

    Attributes:
        key: the key.
        row: what is cached of its row.
        busy: locked by a read, a step, or a pause after failed user code; the key is serial (4.1).
        stored: the store has a row for it, so that a missing ``row`` must be read.
        due: a timer of it may be due.
        queue: what waits for its turn, in order of arrival; a list, since it is short and mostly empty.
        timers: by tag; ``None``: there are none.
        hold: event time at which its state holds the watermark; `MAX_TIME`: none.
        holds_watermark: it is counted in the interval's oldest work.
        cached_bytes: what the cache has accounted for its row.
        cache_boundary: under which boundary it stands there.
    """

    key: str
    row: CachedRow | None = None
    busy: bool = False
    stored: bool = False
    due: bool = False
    queue: list[Arrival] | None = None
    timers: dict[str, LiveTimer] | None = None
    hold: int = MAX_TIME
    holds_watermark: bool = False
    cached_bytes: int = 0
    cache_boundary: int = MAX_TIME

    @property
    def is_idle(self) -> bool:
        """Nothing of it waits, is under way, or holds anything back."""
        return not (self.busy or self.queue or self.due or self.timers or self.hold != MAX_TIME)

    def next_boundary(self) -> int:
        """When its next watermark timer is due, event time in microseconds; `MAX_TIME`: it has none."""
        if not self.timers:
            return MAX_TIME
        timers = [live.timer for live in self.timers.values()]
        return min([timer.due for timer in timers if timer.clock is Clock.WATERMARK], default=MAX_TIME)


_NO_CHANGES: Mapping[str, StoredTimer | None] = MappingProxyType({})


class Step(msgspec.Struct, eq=False):
    """One step of one key, with the version that its write gives the row: what it consumed, and what it changes.

    Tuples and not lists: most of them stay empty, which then costs nothing, and go into the delta as they are. What it consumed
    can be many.
    """

    slot: KeySlot
    version: Version
    state: StepState = StepState.RUNNING
    arrivals: list[Arrival] = []
    fired: tuple[StoredTimer, ...] = ()
    changes: Mapping[str, StoredTimer | None] = _NO_CHANGES
    productions: tuple[Production, ...] = ()
    checkpoints: tuple[Production, ...] = ()
    state_after: bytes | None = None
    hold: int | None = None
    touched: bool = False
    emitted: int = 0
    waiting: int = 0
    holders: tuple["Holder", ...] = ()
    held_origins: tuple[int, ...] = ()

    def advance(self, input_: StepInput) -> None:
        """Move on by the table; any other move is our bug."""
        try:
            self.state = _FOLLOWING[input_][self.state]
        except KeyError:
            raise AssertionError(f"a step can not take {input_.name} in {self.state.name}") from None

    def delta(self, *, remember: bool) -> RowDelta:
        """All of it as one delta; ``remember``: with the ids of its records (exactly-once)."""
        changes = self.changes
        set_timers: tuple[StoredTimer, ...] = ()
        cancelled: tuple[str, ...] = ()
        seen: tuple[tuple[str, int], ...] = ()
        if changes:
            set_timers = tuple([timer for timer in changes.values() if timer is not None])
            cancelled = tuple([tag for tag, timer in changes.items() if timer is None])
        if remember and self.arrivals:
            seen = tuple([(one.production.record_id, one.production.origin) for one in self.arrivals])
        return RowDelta(
            self.slot.key, self.version.number, self.state_after, self.hold, set_timers, cancelled, self.fired, seen,
            self.checkpoints,
        )  # fmt: skip


class Holder(msgspec.Struct, eq=False):
    """Why a pending production is pending: for the accounts of its interval.

    Choice: without exactly-once several steps of a weak computation can make the same production, and several rows have the same
    checkpoint, if a sender's re-run gave the causing record another key. One is pending, and has a holder for each of them.

    Attributes:
        sequencer: of the interval that sends it.
        slot: the key that made it.
        step: of a weak production, the step that waits for it.
        durable: the row has it as a checkpoint, to be deleted once it is ACKed.
        holds_watermark: it is counted in the interval's oldest work.
        holds_horizon: likewise for origins.
        other: the next holder of the same production.
    """

    sequencer: int
    slot: KeySlot
    step: Step | None
    durable: bool
    holds_watermark: bool = False
    holds_horizon: bool = False
    other: "Holder | None" = None

    def all(self) -> list["Holder"]:
        """This one, and the others behind it."""
        return [self, *([] if self.other is None else self.other.all())]

    def of(self, step: Step) -> "Holder | None":
        """The one that this step waits with, if it does."""
        return next((one for one in self.all() if one.step is step), None)


def linked(holders: list[Holder]) -> Holder:
    """Let these hold the same production; returns the first."""
    for one, other in zip(holders, [*holders[1:], None], strict=True):
        one.other = other
    return holders[0]
