"""How a retiring computation leaves without losing anything (MillWheel 3: computations are removed while the system runs).

Rules of this file. A retiring computation gets no new records, but still has to finish those that it was sent. It leaves when

1. every retiring computation that sends to it has left;
2. **nobody owes it anything**: every interval of all other computations is listed by its owner (a scan may bring up old
   checkpoints), and every live process and every expected injector process has adopted the change and waits for no ACK of it;
3. then a mint, whatever else it changes, marks the table, so that heartbeats from before and after can be told apart
   (they are delayed and reordered: when they arrive says nothing);
4. **it is empty**: each of its intervals is listed, in a heartbeat that knows the mark, with nothing pending, and still nobody
   owes it anything: an injector's process that has restarted may owe it again what it re-reads.

Otherwise nothing can reach it after 2, so that once an interval is empty it stays so. A new master begins again at 2.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from headrace.api.pipeline import Pipeline
from headrace.delivery.deployed import deployed
from headrace.wire.messages import Heartbeat, Table


class DrainPhase(enum.Enum):
    """How far a retiring computation has come."""

    OWED = "owed"
    """Somebody may still send to it."""
    SETTLED = "settled"
    """Nobody owes it anything; the mark is not minted yet."""
    EMPTYING = "emptying"
    """It finishes what it has."""


class StageInput(enum.Enum):
    """What moves it on."""

    NOBODY_OWES = "nobody owes"
    MINTED = "minted"


STAGES: dict[tuple[DrainPhase, StageInput], DrainPhase] = {
    (DrainPhase.OWED, StageInput.NOBODY_OWES): DrainPhase.SETTLED,
    (DrainPhase.OWED, StageInput.MINTED): DrainPhase.OWED,
    (DrainPhase.SETTLED, StageInput.MINTED): DrainPhase.EMPTYING,
    (DrainPhase.EMPTYING, StageInput.MINTED): DrainPhase.EMPTYING,
}


@dataclass(slots=True)
class _Retiring:
    """One of them.

    Attributes:
        since: heartbeats that know this table or a later one tell what it is owed.
        marked: those that know this one or a later one tell whether it is empty.
        stage: how far it has come.
    """

    since: int
    marked: int = 0
    stage: DrainPhase = DrainPhase.OWED

    def take(self, input_: StageInput, version: int) -> None:
        after = STAGES.get((self.stage, input_))
        if after is None:
            raise AssertionError(f"a retiring computation cannot take {input_} in {self.stage}")
        if after is DrainPhase.EMPTYING and self.stage is DrainPhase.SETTLED:
            self.marked = version
        self.stage = after


class Draining:
    """The retiring computations of the table, as its master sees them."""

    def __init__(self, topologies: Sequence[Pipeline]) -> None:
        self._topologies = topologies
        self._table = Table()
        self._retiring: dict[str, _Retiring] = {}

    def adopt(self, table: Table) -> None:
        """Take in the table of a new mint."""
        self._table = table
        kept = {name: self._retiring[name] for name in table.retiring if name in self._retiring}
        for retiring in kept.values():
            retiring.take(StageInput.MINTED, table.version)
        self._retiring = {name: kept.get(name) or _Retiring(table.version) for name in table.retiring}

    @property
    def wants_mint(self) -> bool:
        """Whether the table has to be marked."""
        return any(retiring.stage is DrainPhase.SETTLED for retiring in self._retiring.values())

    def look(self, beats: Mapping[str, Heartbeat], required: Sequence[str]) -> tuple[str, ...]:
        """Update how far they have come.

        Args:
            beats: the latest heartbeat by address.
            required: addresses that may still owe something: live processes and expected injector processes.

        Returns:
            Those that have drained.
        """
        drained = []
        for name, retiring in self._retiring.items():
            if not self._is_settled(name, retiring.since, beats, required):
                continue  # an injector's process that has restarted since may owe again what it re-reads
            if retiring.stage is DrainPhase.OWED:
                retiring.take(StageInput.NOBODY_OWES, self._table.version)
            elif retiring.stage is DrainPhase.EMPTYING and self._is_empty(name, retiring.marked, beats):
                drained.append(name)
        return tuple(drained)

    def _is_settled(
        self, name: str, version: int, beats: Mapping[str, Heartbeat], required: Sequence[str]
    ) -> bool:
        if any(self._sends(sender, name) for sender in self._table.retiring if sender != name):
            return False
        for address in required:
            beat = beats.get(address)
            if beat is None or beat.table_version < version or any(owed == name for owed, _ in beat.owing):
                return False
        return all(
            _pending(beats, assignment.owner, assignment.incarnation, assignment.sequencer, 0) is not None
            for assignment in self._table.assignments
            if assignment.computation != name
        )

    def _sends(self, sender: str, name: str) -> bool:
        """Return whether a retiring computation, in the version that it runs in, sends to another.

        There is no circle: each runs in the version that it retired from. What retires later is not in the senders' version
        any more, or retires from the same one.
        """
        pipeline = deployed(sender, self._topologies, self._table).pipeline
        return name in pipeline.computations and sender in pipeline.senders(name)

    def _is_empty(self, name: str, version: int, beats: Mapping[str, Heartbeat]) -> bool:
        return all(
            _pending(beats, assignment.owner, assignment.incarnation, assignment.sequencer, version) == 0
            for assignment in self._table.assignments
            if assignment.computation == name
        )


def _pending(
    beats: Mapping[str, Heartbeat], owner: str, incarnation: int, sequencer: int, version: int
) -> int | None:
    """Return what its owner says is pending in an interval; ``None`` if it has not said so since that version."""
    beat = beats.get(owner)
    if beat is None or beat.incarnation != incarnation or beat.table_version < version:
        return None
    for load in beat.loads:
        if load.sequencer == sequencer:
            return load.pending
    return None
