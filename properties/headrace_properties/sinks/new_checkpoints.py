"""A life of restarts: the query starts with a new checkpoint, or with an older one, and what its sink has written stays.

Spark counts batches in the checkpoint: with a new one, ids begin at 0 again, and with an older one they come again, with whatever
rows have come since. A sink that tells by the id what it has written then skips new rows, or writes old ones again. An operator
does that, and no failure.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headrace_properties.sinks.story import shown_items
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.sink_runs import Restart
from headrace_sim.spark.sinks.trial_contents import EMPTY_FILE, Contents, Item

Batches = Sequence[Sequence[Any]]


def restarts(batches: Batches) -> tuple[Restart, ...]:
    """Return the restarts that are tried: none if fewer than two batches have rows. The first shows whether batch ids count."""
    full = [list(batch) for batch in batches if batch]
    if len(full) < 2:
        return ()
    half, last = len(full) // 2, len(full) - 2
    merged = [*full[:last], [*full[-2], *full[-1]]]
    finer = [part for part in (full[0][:1], full[0][1:]) if part] + full[1:]
    whole = [[row for batch in full for row in batch]]
    new, older = SinkFaultKind.NEW_CHECKPOINT, SinkFaultKind.CHECKPOINT_RESTORED
    again = (
        Restart(SinkFault(new, 0, number), "from the earliest offsets", full, cut, 0, cut)
        for number, cut in enumerate((finer, whole), 1)
    )
    backup = "with a checkpoint restored from a backup, or copied for a second query"
    return (
        Restart(SinkFault(new, 0, 0), "from the latest offsets", full[:half], full[half:], 0, full),
        *again,
        Restart(SinkFault(older, last, 0), backup, full[:-1], merged[last:], last, merged),
    )


def restored_target(batches: Batches) -> Restart | None:
    """Return the life of a target that goes back by one batch while the checkpoint goes on; ``None``: as in `restarts`."""
    full = [list(batch) for batch in batches if batch]
    last = len(full) - 1
    fault = SinkFault(SinkFaultKind.CHECKPOINT_RESTORED, last, 0)
    return Restart(fault, "", full[: last - 1], full[last:], last, full) if last > 0 else None


@dataclass(frozen=True, slots=True)
class AfterRestart:
    """What a restart makes different in a destination, or how the sink fails behind it."""

    restart: Restart
    destination: str
    what: str
    is_refused: bool = False  # whether the sink raises an error each time

    def __str__(self) -> str:
        """Say how the checkpoint is replaced, from where the query goes on, and what is different."""
        is_new = self.restart.fault.kind is SinkFaultKind.NEW_CHECKPOINT
        return f"{_BEGINS}: " * is_new + f"{self.restart.how}, {self.what}"


def restored_note(after: AfterRestart) -> str:
    """Return the note on a target that is restored, and a checkpoint that is not."""
    when = "if the target is restored from a backup, and the checkpoint is not"
    if after.is_refused:
        return f"{when}, {after.what}: nothing is lost without a word"
    batch = after.restart.first_id - 1
    return (
        f"{when}, Spark does not give batch {batch} again: "
        f"{after.what}. Restore the checkpoint of that time with it, or an older one: its batches come again, and rows that are "
        "keyed by what they say (an id; topic, partition and offset) are then there once"
    )


def differences(
    restart: Restart, usual: Contents, left: Contents, compared: Collection[str]
) -> Iterator[AfterRestart]:
    """Yield what a restart makes different, by destination.

    Args:
        restart: It.
        usual: What is left without it, but for ids of batches.
        left: What it leaves.
        compared: The destinations that can be.

    """
    for name in sorted(compared):
        calm, items = (_told(contents.get(name, Counter())) for contents in (usual, left))
        surplus, missing = items - calm, calm - items
        what = f"{name} has {shown_items(surplus)} once too often"
        if missing:
            instead = f"has {shown_items(surplus)} instead of" if surplus else "lacks"
            what = f"{name} {instead} {shown_items(missing)}"
        if surplus or missing:
            yield AfterRestart(restart, name, what)


def _told(items: Counter[Item]) -> Counter[Item]:
    """Leave out items that only say how many batches there were."""
    return Counter({item: count for item, count in items.items() if item not in {(), EMPTY_FILE}})


REMEDY = (
    "Key rows by what they say (an id; topic, partition and offset), not by the batch id, or keep a name beside the id that"
    " changes with the checkpoint (Delta: txnAppId)."
)
_BEGINS = "if its checkpoint is deleted, batch ids begin at 0 again"
_DECLARE = "Declare new_checkpoint=True to have that judged, or False if it is never done"


def noted(differing: Sequence[AfterRestart], place: str) -> str:
    """Return the note on what restarts do: the first one, and which others differ. ``place``: of the effect to blame."""
    others = dict.fromkeys(
        after.restart.how for after in differing if after.restart.how != differing[0].restart.how
    )
    too = f"; rows also differ {' and '.join(others)}" if others else ""
    return f"{differing[0]} ({place}){too}. {REMEDY} {_DECLARE}"
