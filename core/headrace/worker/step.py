"""A step (MillWheel 6.1.1): some records and timers of one key, run one after the other and committed together.

Rules of this file:

* What a step changes is one row delta, or nothing at all.
* The step's life is the table `STEP`.
* Nothing is ACKed before the step is done.

What is built for each record is a struct: like a class with slots, but built several times faster.
"""

import msgspec

from headrace.wire.rows import Production, RowDelta, StoredTimer, Version
from headrace.worker.running import StepOutcome
from headrace.worker.slot import KeySlot
from headrace.worker.states import STEP, StepInput, StepState

_FOLLOWING = [{state: after for (state, given), after in STEP.items() if given is kind} for kind in StepInput]
"""The table by input: what is looked up four times a record is looked up without building a pair."""


class KeyStep(msgspec.Struct, eq=False):
    """One step of one key.

    Attributes:
        slot: the key.
        version: that its write gives the row.
        outcome: what user code did.
        state: where it is.
        checkpoints: productions that its write makes durable.
        waiting: how many of the productions that it has sent are not ACKed.
        holders: of those productions.
        held_origins: that it holds the horizon at until it is done, microseconds.
    """

    slot: KeySlot
    version: Version
    outcome: StepOutcome
    state: StepState = StepState.RUNNING
    checkpoints: tuple[Production, ...] = ()
    waiting: int = 0
    holders: tuple["Holder", ...] = ()
    held_origins: tuple[int, ...] = ()

    def advance(self, input_: StepInput) -> None:
        """Move on by the table; any other move is our bug."""
        try:
            self.state = _FOLLOWING[input_][self.state]
        except KeyError:
            raise AssertionError(f"a step cannot take {input_.name} in {self.state.name}") from None

    def delta(self, *, remember: bool) -> RowDelta:
        """Return all of it as one delta; ``remember``: with the ids of its records (exactly-once)."""
        outcome = self.outcome
        changes = outcome.changes
        set_timers: tuple[StoredTimer, ...] = ()
        cancelled: tuple[str, ...] = ()
        seen: tuple[tuple[str, int], ...] = ()
        if changes:
            set_timers = tuple([timer for timer in changes.values() if timer is not None])
            cancelled = tuple([tag for tag, timer in changes.items() if timer is None])
        if remember and outcome.arrivals:
            seen = tuple(
                [(arrival.production.record_id, arrival.production.origin) for arrival in outcome.arrivals]
            )
        return RowDelta(
            self.slot.key, self.version.number, outcome.state_after, outcome.hold, set_timers, cancelled, outcome.fired, seen,
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
        holds_horizon: the same for origins.
        other: the next holder of the same production.
    """

    sequencer: int
    slot: KeySlot
    step: KeyStep | None
    durable: bool
    holds_watermark: bool = False
    holds_horizon: bool = False
    other: "Holder | None" = None

    def all(self) -> list["Holder"]:
        """Return this one, and the others behind it."""
        return [self, *([] if self.other is None else self.other.all())]

    def of(self, step: KeyStep) -> "Holder | None":
        """Return the one that this step waits with, if it does."""
        return next((holder for holder in self.all() if holder.step is step), None)


def linked(holders: list[Holder]) -> Holder:
    """Let these hold the same production; return the first."""
    for holder, following in zip(holders, [*holders[1:], None], strict=True):
        holder.other = following
    return holders[0]
