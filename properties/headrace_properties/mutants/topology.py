"""Mutants of topology changes: computations that are added and removed while the pipeline runs (MillWheel 3)."""

from typing import ClassVar

from headrace import MILLISECOND, SECOND
from headrace.injector.injector import Injector
from headrace.ownership.master import Master
from headrace.wire.messages import ChangeTopology, Mint, Table
from headrace.worker.execution import deployed
from headrace.worker.worker import Worker
from headrace_properties.mutants.mutant import Directed, Mutant, Parts, Probe
from headrace_sim.faults import DropMessages, FaultSchedule, Hold, Operate


class RemovesAtOnce(Master):
    """Takes a retiring computation out of the table without waiting until it has drained."""

    probe: ClassVar[Probe]

    __slots__ = ()

    def _drain(self, now: int) -> Mint | None:
        table = self.table
        if not table.retiring:
            return super()._drain(now)
        self.probe.note()
        return self._build([], table.topology, (), table.joining, table.retiring)


class DoesNotCountPassing(Worker):
    """Takes for the senders of a computation those of the version in force, without those that retire."""

    probe: ClassVar[Probe]

    def _find_senders(self, computation: str) -> tuple[str, ...]:
        sound = super()._find_senders(computation)
        senders = deployed(computation, self._topologies, self._table).pipeline.senders(computation)
        if set(senders) != set(sound):
            self.probe.note()
        return senders


class FeedsBeforeAllKnow(Master):
    """Puts a version in force as soon as it is minted, whether everybody has heard of its computations or not."""

    probe: ClassVar[Probe]

    __slots__ = ()

    def _switch(self, now: int) -> Mint | None:
        if self.table.joining is None:
            return None
        mint = super()._switch(now)
        if mint is None:
            self.probe.note()
            mint = self._put_in_force(self.table.joining)
        return mint


class KeepsItsVersion(Worker):
    """Goes on by the version of the pipeline that it had when it got an interval."""

    probe: ClassVar[Probe]

    def _on_table(self, now: int, table: Table) -> None:
        before = {sequencer: one.where for sequencer, one in self._intervals.items()}
        super()._on_table(now, table)
        for sequencer, where in before.items():
            interval = self._intervals.get(sequencer)
            if interval is not None and interval.where.pipeline is not where.pipeline:
                self.probe.note()
                interval.where = where


class InjectsByTheFirstVersion(Injector):
    """Never feeds but those that were there when it began."""

    probe: ClassVar[Probe]

    def _adopt_topology(self, topology: int) -> None:
        if topology:
            self.probe.note()
        super()._adopt_topology(0)


MUTANTS = (
    Mutant(
        "removed before it has drained", ("S10",), "4.5",
        "a computation that retires leaves at once, with what it was sent and has not finished", Parts(master=RemovesAtOnce),
        "changing",
    ),
    Mutant(
        "retiring senders are not counted", ("S10",), "4.5",
        "a computation's input watermark does not wait for those of its senders that retire",
        Parts(worker=DoesNotCountPassing), "changing",
    ),
    Mutant(
        "fed before all know of it", ("S10",), "4.5",
        "an added computation is fed before those behind it count it among their senders", Parts(master=FeedsBeforeAllKnow),
        "changing",
        Directed(
            FaultSchedule(
                (
                    Operate(at_us=950 * MILLISECOND, verb=ChangeTopology(1)),
                    Hold(at_us=950 * MILLISECOND, message="Table", target="worker-2", count=9, for_us=2 * SECOND),
                    DropMessages(at_us=970 * MILLISECOND, message="Deliver", source="worker-0", count=6),
                ),
                4 * SECOND,
            ),
            why="the reader's owner must hear of the change late, and a record of the added one must be lost before: chance"
            " did not find it in 1,000 runs",
            feed_seed=2,
        ),
    ),
    Mutant(
        "an old owner keeps its version", ("S17",), "4.3",
        "what is produced goes to the consumers of the version that was in force when its owner got the interval",
        Parts(worker=KeepsItsVersion), "changing",
    ),
    Mutant(
        "an injector keeps its version", ("S17",), "4.3",
        "what is injected goes to the consumers of the first version, whichever is in force",
        Parts(injector=InjectsByTheFirstVersion), "gaining",
    ),
)  # fmt: skip
"""All of this file."""
