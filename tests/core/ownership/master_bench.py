"""A master on a bench: its tests play the store, the workers and the clock."""

from collections.abc import Sequence

from headrace.api.computation import Computation
from headrace.api.options import EngineOptions
from headrace.api.pipeline import Pipeline
from headrace.history import History
from headrace.ownership.master import Master
from headrace.wire.effects import Effect, Send, Start, Wake, WakeAt
from headrace.wire.keys import KeyInterval
from headrace.wire.messages import (
    STORE,
    Assignment,
    Claimed,
    Heartbeat,
    IntervalLoad,
    Message,
    Mint,
    MintChange,
    Minted,
    Peeked,
    Table,
)

OPTIONS = EngineOptions(
    lease_us=1_000_000,
    store_timeout_us=500,
    heartbeat_period_us=100,
    heartbeat_timeout_us=1_000,
    balance_period_us=0,
)
FIRST = (1 << 32) + 1
LEFT, RIGHT = KeyInterval("", "m"), KeyInterval("m")


def pipeline(*extra: str) -> Pipeline:
    """One computation in two halves; the extra ones beside it, undivided."""
    made = Pipeline("p")
    made.injector("source")
    made.add(Computation(), name="a", inputs=["source"], split_at=["m"])
    for name in extra:
        made.add(Computation(), name=name, inputs=["source"])
    return made


def row(
    interval: KeyInterval, sequencer: int, owner: str, incarnation: int = 1, name: str = "a"
) -> Assignment:
    return Assignment(name, interval, sequencer, owner, incarnation)


def change(interval: KeyInterval, owner: str, incarnation: int = 1, name: str = "a") -> MintChange:
    return MintChange(name, interval, owner, incarnation)


HALVES = Table(4, 0, (), (row(LEFT, 1, "w0"), row(RIGHT, 2, "w1")))


class Bench:
    """A master that has the role since 1,000; keeps the store's table, and wakes the master.

    ``heard``: heartbeats that came long before. ``wakes``: when it has asked to be woken.
    """

    def __init__(
        self,
        *topologies: Pipeline,
        table: Table = HALVES,
        options: EngineOptions = OPTIONS,
        heard: Sequence[Heartbeat] = (),
    ) -> None:
        self.master = Master("master-0", topologies or (pipeline(),), options, History())
        self.table = table
        self.wakes: list[int] = []
        self.now = -99_000 if heard else 1_000
        self.handle(Start(1))
        for beat in heard:
            self.handle(beat)
        if heard:
            self.now = 1_000
            self.handle(Wake())
        self.handle(Peeked(FIRST, 0, 0))
        assert self.handle(Claimed(FIRST + 1, 1, (), 0, table)) == []

    def handle(self, event: Start | Wake | Message) -> list[Effect]:
        """Return what it does, but for asking to be woken."""
        effects = self.master.handle(self.now, event)
        self.master.check_invariants()
        self.wakes += [effect.at_us for effect in effects if isinstance(effect, WakeAt)]
        return [effect for effect in effects if not isinstance(effect, WakeAt)]

    def wake(self, after: int = 100) -> list[Effect]:
        self.now += after
        effects = self.handle(Wake())
        assert any(at_us > self.now for at_us in self.wakes)
        return effects

    def beat(self, *senders: str, incarnation: int = 1, version: int | None = None) -> list[Effect]:
        """Heartbeats of processes that know the store's table, and list all that they own there."""
        effects: list[Effect] = []
        for sender in senders:
            mine = [
                assignment
                for assignment in self.table.assignments
                if (assignment.owner, assignment.incarnation) == (sender, incarnation)
            ]
            loads = tuple(
                IntervalLoad(assignment.computation, assignment.sequencer, 0, 0, "", 0) for assignment in mine
            )
            known = self.table.version if version is None else version
            effects += self.handle(Heartbeat(sender, incarnation, known, loads, (), "/" not in sender))
        return effects

    def settle(self, *senders: str) -> list[Effect]:
        """Deliver these, and wait until the master may decide."""
        self.beat(*senders)
        assert self.wake() == []
        return self.wake()

    def mint(self, effects: list[Effect]) -> Mint:
        """Carry out the mint that the master asks for, as the store would."""
        assert len(effects) == 1
        assert isinstance(effects[0], Send)
        assert effects[0].to == STORE
        mint = effects[0].message
        assert isinstance(mint, Mint)
        rows = [
            assignment
            for assignment in self.table.assignments
            if assignment.computation not in mint.removed
            and not any(
                assignment.computation == c.computation and assignment.interval.overlaps(c.interval)
                for c in mint.changes
            )
        ]
        fresh = 100 * mint.number
        rows += [
            Assignment(c.computation, c.interval, fresh + at, c.owner, c.incarnation)
            for at, c in enumerate(mint.changes)
        ]
        rows.sort(key=lambda tenure: (tenure.computation, tenure.interval.low))
        self.table = Table(self.table.version + 1, mint.topology, mint.retiring, tuple(rows), mint.joining)
        return mint

    def minted(self, effects: list[Effect]) -> list[Effect]:
        return self.handle(Minted(self.mint(effects).request, self.table))


def asks(
    number: int,
    *changes: MintChange,
    request: int = 1,
    topology: int = 0,
    joining: int | None = None,
    **more: tuple[str, ...],
) -> list[Effect]:
    """The mint of this number; ``request`` counts from the claim."""
    return [Send(STORE, Mint(FIRST + 1 + request, 1, number, changes, topology, **more, joining=joining))]
