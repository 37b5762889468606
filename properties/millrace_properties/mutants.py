"""Broken protocols, by name: each replaces one state machine of the engine by a subclass that gets one thing wrong.

A checker that no mutant fails is worth nothing. The engine itself has no switch for being wrong.
"""

from millrace._mediator import Mediator, StoredRow
from millrace_sim import SOUND, Protocol


class MediatorWithoutSequencers(Mediator):
    """A store that checks no sequencer: whatever arrives is applied (what MillWheel 6.2 warns of, Figure 12)."""

    def is_live(self, computation: str, sequencer: int, low: str, high: str) -> bool:
        """Let everybody write."""
        del computation, sequencer, low, high
        return True

    def is_current_report(self, reporter: str, fence: int) -> bool:
        """Let everybody report."""
        del reporter, fence
        return True

    def already_taken(self, row: StoredRow, sequencer: int, number: int) -> bool:
        """A write of another owner can not be told from a new one; only an exact copy can."""
        return (row.sequencer, row.number) == (sequencer, number)


MUTANTS: dict[str, Protocol] = {
    one.name: one
    for one in (
        Protocol("without sequencers", mediator=MediatorWithoutSequencers),
    )
}  # fmt: skip
"""By name."""


def protocol_named(name: str) -> Protocol:
    """Find a protocol.

    Raises:
        KeyError: there is none of this name.
    """
    return SOUND if name == SOUND.name else MUTANTS[name]
