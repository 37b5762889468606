"""What can happen to the process that runs a sink."""

from dataclasses import dataclass
from enum import Enum


class SinkFaultKind(Enum):
    """What happens to the attempt that processes a batch."""

    KILL = "killed"
    """The process dies. The batch is processed again, with the same id."""
    TEAR = "killed during"
    """The process dies in the middle of an effect that has several parts."""
    LOSE_REPLY = "reply lost"
    """The request is carried out, and its caller gets a connection error."""
    REFUSE = "request refused"
    """The request is not carried out, and its caller gets a connection error."""
    FAIL = "action failed"
    """An action on the DataFrame fails, and its caller gets Spark's error. The next ones succeed."""
    PAUSE = "overtaken"
    """The process pauses; another takes over and processes the batch and all after it; then the first goes on with its batch."""
    REORDER = "reordered"
    """The process dies, and the batch comes back with its rows in another order."""
    NONE = "undisturbed"
    """Nothing: the run shows it as it is."""
    DELIVERED = "delivered twice"  # all that it was when files were first written
    """Nothing fails, but the source delivers the rows in another way: which, says its place in `Delivery` (``effect``)."""
    NEW_CHECKPOINT = "new checkpoint"
    """Nothing fails, but the checkpoint is deleted between two batches, and what the sink has written stays."""
    CHECKPOINT_RESTORED = "checkpoint restored"
    """Nothing fails, but the checkpoint is restored from a backup, and what the sink has written stays."""
    TASK = "task died"
    """A task dies behind its effect, and Spark runs it again. The driver lives."""
    STATE = "task died in its state"
    """A task dies at a call of its state, before it is made, and Spark runs it again. The driver lives."""
    RESTART = "restarted"
    """The process dies after the batch was committed, and is not processed again."""


REPLACED_CHECKPOINTS = frozenset({SinkFaultKind.NEW_CHECKPOINT, SinkFaultKind.CHECKPOINT_RESTORED})
"""What an operator does to the checkpoint."""


@dataclass(frozen=True, slots=True)
class SinkFault:
    """One fault: its kind, the index of the batch, and the index of the effect in this batch before or in which it strikes.

    An effect one past the last stands for the function's return, and -1 for its call. With ``STATE`` it counts the
    calls of the state. ``of_burst``: it strikes in one large batch, which the rows of all batches make.
    """

    kind: SinkFaultKind
    batch: int
    effect: int
    of_burst: bool = False
