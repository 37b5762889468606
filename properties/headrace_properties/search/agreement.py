"""What processes believe at the end of a run, against the store: who holds what, who knows what, and what rows have.

And what they remember of what is over: ids, keys and failures (MillWheel 6.1.1, 6.2).

Invariants of a History do not tell what a process would do next. One that believes in a role which it has lost, in a table that
has been replaced or in a row that has changed does harm some day, if not in this run.

Rules of this file:

* Beliefs are compared once nothing has disturbed them for so long that everybody has been told (`QUIET_US`).
* Memory is compared with the store, which knows; never with what another process believes.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from headrace import MAX_TIME, SECOND, EngineOptions
from headrace.history import (
    AckSent,
    Applied,
    Delivered,
    DuplicateDropped,
    Executed,
    IntervalMinted,
    Published,
    RoleClaimed,
    RunEnded,
    ScanEnded,
)
from headrace.injector.injector import Injector, Phase
from headrace.ownership.master import Master
from headrace.store.mediator import MASTER_ROLE, Mediator, StoredRow, authority_role
from headrace.watermarks.authority import WatermarkAuthority
from headrace.wire.messages import Progress, Table
from headrace.worker.interval import OwnedInterval
from headrace.worker.seen import fingerprint
from headrace.worker.slot import KeySlot
from headrace.worker.worker import Worker
from headrace_sim import FaultSchedule
from headrace_sim.cluster import Cluster
from headrace_sim.endpoints.node import NodeState

QUIET_US = 3 * SECOND
"""Choice: longer than a lease, a heartbeat's time-out and eight broadcast periods of the workloads."""
_SETTLED_US = 3 * SECOND // 10
"""Choice: what was minted or claimed so long ago is known to all, if nothing is disturbed."""
_ON_ITS_WAY_US = SECOND // 10
"""Choice: what was broadcast so long ago has come."""


def check_agreement(cluster: Cluster, faults: FaultSchedule, engine: EngineOptions) -> None:
    """Assert that the processes agree with the store, if a run has ended that nothing has disturbed for a while.

    Args:
        cluster: of the run.
        faults: that were planned.
        engine: its options.

    Raises:
        AssertionError: one of them believes something else.
    """
    history = cluster.history
    if type(history[-1]) is not RunEnded or history[-1].why != "quiescent":
        return
    end_us = history[-1].at_us
    ends = (
        [faults.heals_at_us]
        if faults.at_steps or faults.lasting
        else [fault.end_us for fault in faults.faults]
    )
    claims = [event.at_us for event in history if isinstance(event, RoleClaimed | IntervalMinted)]
    if max(ends, default=-QUIET_US) + QUIET_US > end_us or max(claims, default=end_us) + _SETTLED_US > end_us:
        return
    told_us = max((event.at_us for event in history if type(event) is Published), default=end_us)
    mediator = cluster.store.mediator
    running = {
        name: node
        for name, node in cluster.nodes.items()
        if node.state is NodeState.UP and name not in faults.lasting
    }
    for address, node in running.items():
        process = node.process
        match process:
            case Worker():
                _check_worker(process, node.incarnation, mediator, informed=end_us - told_us > _ON_ITS_WAY_US)
                _check_memory(process, cluster, engine)
            case Injector():
                _check_injector(process, mediator)
            case Master() if process.is_active:
                _check_holder(address, mediator, MASTER_ROLE, process.epoch)
                assert process.table == mediator.table, f"{address} knows another table than the store"
            case WatermarkAuthority() if process.is_active:
                _check_authority(process, mediator)
                waits = list(filter(process.counts_work, process.names))
                assert not waits or end_us - told_us <= _ON_ITS_WAY_US, (
                    f"{address} still counts work of {waits}"
                )


def _check_holder(address: str, mediator: Mediator, role: str, epoch: int) -> None:
    latest = mediator.journal(role).epoch
    assert epoch == latest, (
        f"{address} believes that it holds {role} in epoch {epoch}, and the latest is {latest}"
    )


def _check_authority(authority: WatermarkAuthority, mediator: Mediator) -> None:
    role = authority_role(authority.shard)
    _check_holder(authority.address, mediator, role, authority.epoch)
    journaled = mediator.journal(role).contents
    for name in () if authority.is_journaling else authority.names:
        assert authority.published(name) == journaled.get(name, Progress()), (
            f"{authority.address} publishes {authority.published(name)} of {name}, and journaled {journaled.get(name)}"
        )


def _check_injector(injector: Injector, mediator: Mediator) -> None:
    if injector.phase is not Phase.RUNNING:
        return
    journal = mediator.journal(injector.address)
    _check_holder(injector.address, mediator, injector.address, injector.epoch)
    assert injector.table == mediator.table, f"{injector.address} knows another table than the store"
    journaled = journal.position, journal.contents.get(injector.address)
    intake = injector.intake
    assert journaled == (intake.position, intake.promised), (
        f"{injector.address} journaled {journaled}, and takes {intake.position}, {intake.promised} for journaled"
    )


def _check_worker(worker: Worker, incarnation: int, mediator: Mediator, *, informed: bool) -> None:
    table: Table = mediator.table
    assert worker.table == table, f"{worker.address} knows another table than the store"
    mine = {
        assignment.sequencer
        for assignment in table.assignments
        if (assignment.owner, assignment.incarnation) == (worker.address, incarnation)
    }
    owned = {interval.sequencer for interval in worker.intervals}
    assert owned == mine, f"{worker.address} believes that it owns {owned}, and owns {mine}"
    if informed and mine:
        for name, progress in mediator.progress.items():
            known = worker.progress.get(name)
            assert known == progress, f"{worker.address} was told {known} of {name}, which is at {progress}"
    for interval in worker.intervals:
        for key, row in mediator.rows(interval.computation).items():
            if interval.interval.contains(key):
                for what, remembered, stored in _compared(
                    interval.soft.slots.get(key), row, interval.collected_below
                ):
                    assert remembered == stored, (
                        f"{worker.address} takes {what} of {interval.computation} for {remembered} at {key!r}, which is {stored}"
                    )
        _check_accounts(interval, worker)


def _compared(slot: KeySlot | None, row: StoredRow, below: int) -> Iterator[tuple[str, object, object]]:
    """Yield what is remembered of a row, and what it is. A forgotten key has nothing waiting; ids before ``below`` are out."""
    timers: Mapping[str, Any] = {} if slot is None else slot.timers or {}
    yield "the timers", {tag: live.timer for tag, live in timers.items()}, row.timers
    yield "the hold", MAX_TIME if slot is None else slot.hold, row.hold
    if slot is not None and slot.row is not None:
        yield "the state", bytes(slot.row.state), bytes(row.state)
        known, stored = (
            {one for one in seen.items() if one[1] >= below} for seen in (slot.row.seen, row.seen)
        )
        yield "the seen ids", known, stored


def _check_accounts(interval: OwnedInterval, worker: Worker) -> None:
    """Assert that what waits, and no more, holds its watermark and its horizon."""
    soft, work, origins = interval.soft, list[int](), list[int]()
    for slot in soft.slots.values():
        work += [slot.hold] if slot.holds_watermark else []
        for live in (slot.timers or {}).values():
            if live.holds_watermark and live.timer.held is not None:
                work.append(live.timer.held)
            origins += [live.timer.origin] if live.holds_horizon else []
    for pending in worker.outbox:
        for holder in pending.holder.all():
            if holder.sequencer == interval.sequencer:
                work += [pending.production.timestamp] if holder.holds_watermark else []
                origins += [pending.production.origin] if holder.holds_horizon else []
    for counted, waits in ((soft.accounts.work, work), (soft.accounts.origins, origins)):
        assert (len(counted), counted.oldest()) == (len(waits), min(waits, default=MAX_TIME)), (
            f"{worker.address} counts {len(counted)} from {counted.oldest()} on at {soft.computation}, and {len(waits)} wait"
        )


def _check_memory(worker: Worker, cluster: Cluster, engine: EngineOptions) -> None:
    """Assert that what may still come again, and no more, is remembered."""
    history, mediator = cluster.history, cluster.store.mediator
    reads_rows = any(activation.input == "Read" for activation in history.activations)
    forgets_us = engine.collect_period_us + engine.heartbeat_period_us + _SETTLED_US
    done, used, answered_us = set[str](), dict[tuple[str, str], int](), 0
    for event in history:
        if isinstance(event, Executed) and event.process == worker.address:
            done.add(event.cause)
        if isinstance(event, Executed | Delivered | DuplicateDropped):
            used[event.computation, event.key] = event.at_us
        elif isinstance(event, Applied):
            used[event.computation, event.delta.key] = event.at_us
        elif isinstance(event, ScanEnded):
            used[event.computation, ""] = event.at_us
        elif isinstance(event, AckSent) and event.process == worker.address:
            answered_us = event.at_us  # only now was it told of a write whose first answer was lost
    for interval in worker.intervals:
        name, soft, below = interval.computation, interval.soft, interval.collected_below
        where = f"{worker.address}, {name}"
        failed = done.intersection(interval.commits.failures)
        assert not failed, f"{where}: failures of {failed} count, which have been done since"
        for key, row in mediator.rows(name).items():
            if soft.exactly_once and interval.interval.contains(key):
                unknown = [
                    record_id
                    for record_id, origin in row.seen.items()
                    if origin >= below and fingerprint(record_id) not in soft.seen_filter.known
                ]
                assert not unknown, (
                    f"{where}: the row of {key!r} has {unknown}, which the filter takes for new"
                )
        for key, slot in soft.slots.items():
            seen = {} if reads_rows or slot.row is None else slot.row.seen
            assert all(origin >= below for origin in seen.values()), (
                f"{where}: the cached row of {key!r} has ids that were collected before {below}: {seen}"
            )
            is_idle = slot.row is None and not slot.timers and slot.hold == MAX_TIME
            last_us = max(used.get((name, key), 0), used.get((name, ""), 0), answered_us)
            assert not is_idle or engine.cache_bytes or last_us + forgets_us > history[-1].at_us, (
                f"{where}: {key!r} is idle since {last_us} us, and not forgotten"
            )
