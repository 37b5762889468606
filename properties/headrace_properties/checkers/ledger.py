"""The truth of a run, replayed from its History: rows, owners, deliveries and pending work, as no process knows them.

Rules of this file:

* A production is **owed** from the moment when it is durable (or accepted, by an injector) until its consumer has
  **settled** it: its id was applied; without exactly-once, an ACK was sent; outside, it was received.
* A weak production (6.1.3) is owed once it is checkpointed. Before that its cause is still owed by the sender before.
  What a weak step commits without a checkpoint must have been settled.
* **Late** work (4.5) holds no watermark back: injected behind the injector's watermark, or born behind the published
  watermark of its computation. What only late causes, or causes that nobody owes any more, give birth to is late as well,
  until its owner ACKs the cause (only then does it know that its write was applied) and the injectors are not past it.
* Without exactly-once, a record that is run again makes productions anew. They, and what they lead to, may be refused as
  remnants; that settles them.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from headrace import MAX_TIME, MIN_TIME, KeyInterval
from headrace.history import (
    AckSent,
    Applied,
    CheckpointsDeleted,
    ComputationRemoved,
    DuplicateDropped,
    Executed,
    IdsCollected,
    Injected,
    InjectorReported,
    IntervalMinted,
    Output,
    Published,
    SourceHeld,
)
from headrace.wire.rows import Production, StoredTimer
from headrace_properties.checkers.held_sources import HeldSource
from headrace_properties.checkers.topology_union import TopologyUnion
from headrace_properties.checkers.work import PendingWork, WorkItem

_NONE_OWED: dict[str, WorkItem] = {}
_NONE_SETTLED: dict[str, int] = {}
_NO_RUNS: list[Executed] = []


@dataclass(slots=True, eq=False)
class RowWork:
    """The durable state of one key, as far as checkers need it."""

    timers: dict[str, WorkItem] = field(default_factory=dict)
    checkpoints: dict[tuple[str, str], Production] = field(default_factory=dict)
    hold: WorkItem | None = None


_NO_ROW = RowWork()


class WorkLedger:
    """Replays a History. Checkers read it; only `handlers` change it.

    Attributes:
        topology: what was deployed.
        work: everything pending, by sender.
        owed: consumer to record id to the production's work.
        published: name to the greatest low watermark that was broadcast; `MIN_TIME`: none.
        published_horizon: the same for horizons.
        deliveries: how many productions have been owed so far.
        sources: address of an injector's process to what its source held, if the host tells.
        ids: computation to the record ids in its rows; of each its key, its origin, and when it was applied.
        handlers: the events that it wants.
    """

    def __init__(self, topology: TopologyUnion) -> None:
        self.topology = topology
        self.work = PendingWork()
        self.owed: dict[str, dict[str, WorkItem]] = {}
        self.published: dict[str, int] = {}
        self.published_horizon: dict[str, int] = {}
        self.deliveries = 0
        self.sources: dict[str, HeldSource] = {}
        self.ids: dict[str, dict[str, tuple[str, int, int]]] = {}
        self._settled: dict[str, dict[str, int]] = {}
        self._rows: dict[str, dict[str, RowWork]] = {}
        self._runs: dict[tuple[int, int], list[Executed]] = {}
        self._weak_runs: dict[str, Executed] = {}
        self._loose_runs: dict[tuple[str, str], list[Executed]] = {}
        self._minted: dict[str, list[IntervalMinted]] = {}
        self._owners: dict[str, dict[str, int]] = {}
        self._removed: set[str] = set()
        self._injectors: dict[str, int] = {}
        self._undecided: dict[tuple[str, str], list[WorkItem]] = {}
        self._rises: dict[str, list[tuple[int, int, int]]] = {}
        self.handlers: dict[type, Callable[[Any], None]] = {
            SourceHeld: self._on_held,
            Injected: self._on_injected,
            Executed: self._on_executed,
            Applied: self._on_applied,
            CheckpointsDeleted: self._on_deleted,
            IdsCollected: self._on_collected,
            AckSent: self._on_ack_sent,
            Output: self._on_output,
            IntervalMinted: self._on_minted,
            Published: self._on_published,
            InjectorReported: self._on_injector_reported,
            ComputationRemoved: self._on_removed,
        }
        if topology.at_least_once:
            self.handlers[DuplicateDropped] = self._on_dropped

    # Reading it

    def row(self, computation: str, key: str) -> RowWork:
        """Return the durable state of a key."""
        return self._rows.get(computation, {}).get(key, _NO_ROW)

    def rows(self, computation: str, interval: KeyInterval) -> Iterable[tuple[str, RowWork]]:
        """Return the rows of an interval."""
        return [(key, row) for key, row in self._rows.get(computation, {}).items() if interval.contains(key)]

    def timers(self) -> Iterator[WorkItem]:
        """Yield all durable pending timers."""
        for rows in self._rows.values():
            for row in rows.values():
                yield from row.timers.values()

    def checkpoints(self) -> Iterator[tuple[str, str, Production]]:
        """Yield everything that is checkpointed: computation, key, production."""
        for computation, rows in self._rows.items():
            for key, row in rows.items():
                for production in row.checkpoints.values():
                    yield computation, key, production

    def ids_before(self, computation: str, interval: KeyInterval, origin: int) -> list[str]:
        """Return the record ids in an interval's rows whose origin is earlier than this."""
        ids = self.ids.get(computation, {})
        return [
            record_id for record_id, (key, born, _) in ids.items() if born < origin and interval.contains(key)
        ]

    def runs(self, sequencer: int, number: int) -> list[Executed]:
        """Return the executions that this version of a row claims, in order."""
        return self._runs.get((sequencer, number), _NO_RUNS)

    def runs_of(self, computation: str, record_id: str) -> list[Executed]:
        """Return all executions of a record, where exactly-once is off."""
        return self._loose_runs.get((computation, record_id), _NO_RUNS)

    def is_weak_id(self, record_id: str) -> bool:
        """Return whether a weak step produced this record."""
        return record_id in self._weak_runs

    def is_settled(self, consumer: str, record_id: str) -> bool:
        """Return whether a consumer has finished with a record."""
        return record_id in self._settled.get(consumer, _NONE_SETTLED) or consumer in self._removed

    def settled_at_us(self, consumer: str, record_id: str) -> int | None:
        """Return when a consumer finished with a record, true wall time; ``None``: it has not, or has left the topology."""
        return (
            None if consumer in self._removed else self._settled.get(consumer, _NONE_SETTLED).get(record_id)
        )

    def is_owed(self, consumer: str, record_id: str) -> bool:
        """Return whether a durable production is waiting for its consumer."""
        return record_id in self.owed.get(consumer, _NONE_OWED)

    def is_safe(self, production: Production) -> bool:
        """Return whether a production is settled or durable: its cause may be forgotten (6.1.1, 6.1.3)."""
        consumer, record_id = production.consumer, production.record_id
        return self.is_settled(consumer, record_id) or self.is_owed(consumer, record_id)

    def has_left(self, computation: str) -> bool:
        """Return whether it has been removed and not added again."""
        return computation in self._removed

    def is_present(self, computation: str) -> bool:
        """Return whether it has owners, and has not left the topology."""
        return computation in self._minted and computation not in self._removed

    def owner(self, computation: str, key: str) -> int:
        """Return the latest sequencer minted for an interval with this key; 0: none (6.2)."""
        owners = self._owners.get(computation)
        if owners is None:
            return 0
        sequencer = owners.get(key)
        if sequencer is None:
            minted = self._minted[computation]
            sequencer = next(
                (tenure.sequencer for tenure in reversed(minted) if tenure.interval.contains(key)), 0
            )
            owners[key] = sequencer
        return sequencer

    def latest_mint(self, computation: str, sequencer: int) -> IntervalMinted | None:
        """Return the mint of this sequencer."""
        return next(
            (minted for minted in self._minted.get(computation, ()) if minted.sequencer == sequencer), None
        )

    def live_mints(self, computation: str) -> list[IntervalMinted]:
        """Return the latest mint of each interval: who owns what."""
        live: list[IntervalMinted] = []
        for mint in reversed(self._minted.get(computation, ())):
            if not any(minted.interval.overlaps(mint.interval) for minted in live):
                live.append(mint)
        return sorted(live, key=lambda tenure: tenure.interval.low)

    def owns_all(self, computation: str, sequencer: int, interval: KeyInterval) -> bool:
        """Return whether no newer sequencer overlaps this interval."""
        minted = self._minted.get(computation, ())
        return not any(
            interval_minted.sequencer > sequencer and interval_minted.interval.overlaps(interval)
            for interval_minted in minted
        )

    def injectors_progress(self, name: str) -> int:
        """Return the least of the last low watermarks reported by the processes of the injectors upstream."""
        known = self._injectors
        return min(
            (known.get(address, MIN_TIME) for address in self.topology.sources[name]), default=MIN_TIME
        )

    def published_input(self, computation: str) -> int:
        """Return the least low watermark that was broadcast for its senders."""
        published = self.published
        return min(
            (published.get(sender, MIN_TIME) for sender in self.topology.senders[computation]),
            default=MIN_TIME,
        )

    def passed_at_us(self, computation: str, time_us: int) -> int | None:
        """Return when the broadcast input watermark reached a time, true wall time; ``None``: never."""
        passed = MIN_TIME
        for sender in self.topology.senders[computation]:
            at_us = next((at_us for at_us, low, _ in self._rises.get(sender, ()) if low >= time_us), None)
            if at_us is None:
                return None
            passed = max(passed, at_us)
        return passed

    def risen_at_us(self, name: str) -> int:
        """Return when a name's broadcast low watermark last rose, true wall time; 0: never."""
        rises = self._rises.get(name)
        return rises[-1][0] if rises else 0

    def passed_before(self, name: str, time_us: int, work: WorkItem) -> bool:
        """Return whether a name's broadcast low watermark had passed a time before this work was born."""
        return any(low > time_us and count < work.number for _, low, count in self._rises.get(name, ()))

    # Deliveries

    def not_injected(self) -> Iterator[SourceHeld]:
        """Yield what the sources held and was not injected."""
        for source in self.sources.values():
            yield from source.owed.values()

    def _on_held(self, event: SourceHeld) -> None:
        source = self.sources.get(event.process)
        if source is None:
            source = self.sources[event.process] = HeldSource()
        source.take(event)

    def _on_injected(self, event: Injected) -> None:
        source = self.sources.get(event.process)
        if source is not None:
            source.owed.pop(event.offset, None)
        injector = event.process.partition("/")[0]
        for production in event.productions:
            work = self.owed.get(production.consumer, _NONE_OWED).get(production.record_id)
            if work is None:
                self._owe(injector, production, event, late=production.timestamp < event.source_watermark)
            elif production.origin < work.origin:
                work.origin = production.origin
                self.work.hold_horizon(work)

    def _owe(
        self, sender: str, production: Production, source: Injected | Applied, *, late: bool
    ) -> WorkItem | None:
        """Record a production as owed; ``None``: it is settled, or already owed."""
        consumer, record_id = production.consumer, production.record_id
        if self.is_settled(consumer, record_id):
            return None
        owed = self.owed.get(consumer)
        if owed is None:
            owed = self.owed[consumer] = {}
        if record_id in owed:
            return None
        work = WorkItem(
            sender, production.key, production, production.timestamp, production.origin, source, late=late
        )
        owed[record_id] = work
        self.deliveries += 1
        self.work.add(work)
        if sender not in self.topology.loose:
            self.work.hold_horizon(work)
        return work

    def _settle(self, consumer: str, record_id: str, at_us: int) -> None:
        settled = self._settled.get(consumer)
        if settled is None:
            settled = self._settled[consumer] = {}
        settled.setdefault(record_id, at_us)
        work = self.owed.get(consumer, _NONE_OWED).pop(record_id, None)
        if work is not None:
            self.work.finish(work)

    def _on_output(self, event: Output) -> None:
        self._settle("", event.production.record_id, event.at_us)

    def _on_ack_sent(self, event: AckSent) -> None:
        if self._undecided:
            for record_id in event.record_ids:
                self._decide(event.computation, record_id)
        if event.computation in self.topology.at_least_once:
            for record_id in event.record_ids:
                self._settle(event.computation, record_id, event.at_us)

    def _on_dropped(self, event: DuplicateDropped) -> None:
        senders = self.topology.senders.get(event.computation, ())
        if event.by == "horizon" and not self.topology.loose.isdisjoint(senders):
            self._settle(event.computation, event.record_id, event.at_us)

    def _on_removed(self, event: ComputationRemoved) -> None:
        self._removed.add(event.computation)
        for work in self.owed.pop(event.computation, _NONE_OWED).values():
            self.work.finish(work)

    # Executions and rows

    def _on_executed(self, event: Executed) -> None:
        version = (event.version.sequencer, event.version.number)
        runs = self._runs.get(version)
        if runs is None:
            self._runs[version] = [event]
        else:
            runs.append(event)
        topology = self.topology
        if event.computation in topology.weak:
            for production in event.productions:
                self._weak_runs[production.record_id] = event
        if event.timer is None and event.computation in topology.at_least_once:
            self._loose_runs.setdefault((event.computation, event.cause), []).append(event)

    def _on_applied(self, event: Applied) -> None:
        computation, delta = event.computation, event.delta
        rows = self._rows.get(computation)
        if rows is None:
            rows = self._rows[computation] = {}
        row = rows.get(delta.key)
        if row is None:
            row = rows[delta.key] = RowWork()
        least = max(self.published.get(computation, MIN_TIME), self._least_cause(event, row))
        if delta.seen:
            self._take_ids(event)
        works = self._change_timers(row, event, least)
        if delta.hold is not None:
            works.append(self._change_hold(row, event, delta.hold, least))
        for production in delta.productions:
            row.checkpoints[production.record_id, production.consumer] = production
        for production in self._productions_of(event):
            work = self._owe(computation, production, event, late=production.timestamp < least)
            if work is not None:
                works.append(work)
        if works:
            self._decide_later(event, works)

    def _take_ids(self, event: Applied) -> None:
        computation, key, at_us = event.computation, event.delta.key, event.at_us
        ids = self.ids.get(computation)
        if ids is None:
            ids = self.ids[computation] = {}
        for record_id, origin in event.delta.seen:
            self._settle(computation, record_id, at_us)
            ids[record_id] = (key, origin, at_us)

    def _on_collected(self, event: IdsCollected) -> None:
        for record_id in self.ids_before(event.computation, event.interval, event.below):
            del self.ids[event.computation][record_id]

    def _on_deleted(self, event: CheckpointsDeleted) -> None:
        rows = self._rows.get(event.computation, {})
        for key, record_id, consumer in event.checkpoints:
            rows.get(key, _NO_ROW).checkpoints.pop((record_id, consumer), None)

    def _productions_of(self, event: Applied) -> tuple[Production, ...]:
        """Return what a step must have delivered: its checkpoints, and omitted productions, which should be settled."""
        productions = event.delta.productions
        if event.computation in self.topology.weak:
            for run in self.runs(event.sequencer, event.delta.number):
                productions += run.productions
        return productions

    def _change_timers(self, row: RowWork, event: Applied, least: int) -> list[WorkItem]:
        """Update the timers; return the new ones."""
        delta, timers = event.delta, row.timers
        for timer in delta.fired:
            work = timers.get(timer.tag)
            if work is not None and _set_by_same(work, timer):
                del timers[timer.tag]
                self.work.finish(work)
        for tag in (*delta.cancelled, *[timer.tag for timer in delta.set_timers]):
            work = timers.pop(tag, None)
            if work is not None:
                self.work.finish(work)
        works = []
        for timer in delta.set_timers:
            held = MAX_TIME if timer.held is None else timer.held
            work = WorkItem(event.computation, delta.key, timer, held, timer.origin, event, late=held < least)
            timers[timer.tag] = work
            self.work.add(work)
            works.append(work)
        return works

    def _change_hold(self, row: RowWork, event: Applied, hold: int, least: int) -> WorkItem:
        if row.hold is not None:
            self.work.finish(row.hold)
        work = row.hold = WorkItem(
            event.computation, event.delta.key, None, hold, MAX_TIME, event, late=hold < least
        )
        self.work.add(work)
        return work

    # Lateness (4.5)

    def _decide_later(self, event: Applied, works: list[WorkItem]) -> None:
        """Late work that no published watermark has passed yet may be on time when its owner learns of it."""
        behind = self.published.get(event.computation, MIN_TIME)
        undecided = [work for work in works if work.late and behind <= work.time_us < MAX_TIME]
        if undecided:
            delta = event.delta
            causes = [record_id for record_id, _ in delta.seen]
            causes = causes or [
                run.cause for run in self.runs(event.sequencer, delta.number) if run.timer is None
            ]
            if causes:
                self._undecided.setdefault((event.computation, causes[0]), []).extend(undecided)

    def _decide(self, computation: str, record_id: str) -> None:
        works = self._undecided.pop((computation, record_id), None)
        if works is None:
            return
        passed = max(self.published.get(computation, MIN_TIME), self.injectors_progress(computation))
        for work in works:
            if not work.done and work.time_us >= passed:
                work.late = False
                self.work.hold_watermark(work)

    def _least_cause(self, event: Applied, row: RowWork) -> int:
        """Return the least time that a step's causes have held so far: nothing of the computation has passed it."""
        computation, delta = event.computation, event.delta
        least = MAX_TIME
        for timer in delta.fired:
            least = min(least, self._held_by_timer(row, timer))
        if computation in self.topology.at_least_once:
            for run in self.runs(event.sequencer, delta.number):
                least = min(least, self._held_by_run(run))
        for record_id, _ in delta.seen:
            least = min(least, self._held_by_record(computation, record_id))
        return least

    def _held_by_record(self, consumer: str, record_id: str) -> int:
        work = self.owed.get(consumer, _NONE_OWED).get(record_id)
        if work is not None:
            return MAX_TIME if work.late else work.time_us
        run = self._weak_runs.get(record_id)
        return MAX_TIME if run is None else self._held_by_run(run)

    def _held_by_run(self, run: Executed) -> int:
        if run.timer is None:
            return self._held_by_record(run.computation, run.cause)
        return self._held_by_timer(self.row(run.computation, run.key), run.timer)

    @staticmethod
    def _held_by_timer(row: RowWork, timer: StoredTimer) -> int:
        work = row.timers.get(timer.tag)
        if work is None or work.late or not _set_by_same(work, timer):
            return MAX_TIME
        return work.time_us

    # Owners and watermarks

    def _on_minted(self, event: IntervalMinted) -> None:
        self._minted.setdefault(event.computation, []).append(event)
        self._owners[event.computation] = {}
        self._removed.discard(event.computation)

    def _on_published(self, event: Published) -> None:
        for name, progress in event.values:
            if progress.low_watermark > self.published.get(name, MIN_TIME):
                self.published[name] = progress.low_watermark
                rise = (event.at_us, progress.low_watermark, self.work.count)
                self._rises.setdefault(name, []).append(rise)
            if progress.horizon > self.published_horizon.get(name, MIN_TIME):
                self.published_horizon[name] = progress.horizon

    def _on_injector_reported(self, event: InjectorReported) -> None:
        self._injectors[event.process] = event.low_watermark


def _set_by_same(work: WorkItem, timer: StoredTimer) -> bool:
    return isinstance(work.what, StoredTimer) and work.what.set_by == timer.set_by
