"""The worker (MillWheel 7.1, Figure 8): a process that owns key intervals of computations and runs their user code.

Rules of this file:

* What it owns is what the newest table that it has seen says of this very incarnation; a new interval is scanned before it works.
* Deliveries for keys that it does not own are ignored: their senders retry, with a newer table.
* It wakes for what is due: heartbeats; retries and time-outs of what is outstanding; a report, at whole periods and only if
  something has happened. What waits for nobody goes along with a heartbeat.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

from headrace.api.options import EngineOptions
from headrace.api.pipeline import Pipeline
from headrace.api.time import MIN_TIME
from headrace.deadlines import QUIET_PERIODS, ClockWaiter, Deadline
from headrace.delivery.deployed import Deployed, deployed
from headrace.delivery.outbox import Outbox
from headrace.delivery.routing import routing_of
from headrace.history import Acked, History, ProcessStarted, Reported, Resent, VersionAdopted
from headrace.rules import RULES, Rules
from headrace.wire import messages as m
from headrace.wire.effects import Deliveries, Effect, Event, Send, Start, Wake
from headrace.wire.rows import Production
from headrace.worker.input_progress import InputProgress
from headrace.worker.interval import WORKING, OwnedInterval
from headrace.worker.shared import Load, Shared
from headrace.worker.states import AssignmentState, IntervalInput
from headrace.worker.step import Holder


class Worker:
    """A sans-IO worker: `handle` takes an event and returns effects.

    Args:
        address: its own, such as ``worker-3``.
        topologies: the deployed pipeline versions; the table says which is in force.
        options: of the engine.
        history: where it writes what happens.
        rules: what it asks.
        taken: takes over all productions along with the commit of what made them, from a host that delivers both or neither; then
            none is checkpointed, sent or ACKed. ``None``: a network delivers them (6.1.1).

    Attributes:
        parts: subclasses that stand in for the classes of its intervals; a seam for mutants.
    """

    parts: ClassVar[Mapping[type, type]] = MappingProxyType({})

    def __init__(
        self,
        address: str,
        topologies: Sequence[Pipeline],
        options: EngineOptions,
        history: History,
        rules: Rules = RULES,
        taken: list[Production] | None = None,
    ) -> None:
        self.address = address
        self._topologies = topologies
        self._options = options
        self._rules = rules
        self._shared = Shared(address, options, history, rules, self.parts, taken)
        self._effects = self._shared.effects
        self._incarnation = 0
        self._table = m.Table()
        self._intervals: dict[int, OwnedInterval] = {}
        self._by_computation: dict[str, list[OwnedInterval]] = {}
        self._inputs = InputProgress(topologies, rules)
        self._last_reports: dict[int, m.IntervalReport] = {}
        self._wakes = self._shared.wakes
        self._sweep_due = self._shared.sweep_due
        self._first_pause_us = min(options.retry_us, options.retry_max_us, options.store_timeout_us)
        self._has_news = False  # since it last reported
        self._report_due = Deadline(options.report_period_us)
        self._repeat_due = Deadline(QUIET_PERIODS * options.report_period_us)
        self._heartbeat_due = Deadline(options.heartbeat_period_us)
        self._collect_due = Deadline(options.collect_period_us)
        self._masters = options.master_addresses()
        self._authorities = [options.authority_addresses(shard) for shard in range(options.authority_shards)]
        self._percentiles_wanted = _wants_percentiles(topologies[0])
        self._is_charged = False
        self._now = MIN_TIME

    @property
    def user_code_runs(self) -> int:
        """How often user code has run."""
        return self._shared.runs

    @property
    def uncharged_runs(self) -> Sequence[Load]:
        """The intervals user code has run for, run by run, since the last `charge`."""
        return self._shared.uncharged

    def charge(self, cpu_us: int) -> None:
        """Take in the CPU time that user code has used since the last call, for the reports of load (7.1).

        A host that calls this after each `handle` which ran user code tells computations apart; runs that are charged
        together share the time evenly. One that never does has its intervals weighed by their records.

        Args:
            cpu_us: CPU time, microseconds.
        """
        self._is_charged = True
        uncharged = self._shared.uncharged
        if uncharged:
            share_us = cpu_us // len(uncharged)
            for load in uncharged:
                load.cpu_us += share_us
            uncharged.clear()

    @property
    def intervals(self) -> Sequence[OwnedInterval]:
        """What it owns, or scans."""
        return tuple(self._intervals.values())

    @property
    def table(self) -> m.Table:
        """The latest assignment table received."""
        return self._table

    @property
    def progress(self) -> Mapping[str, m.Progress]:
        """The latest progress received, by sender."""
        return self._inputs.known

    @property
    def outbox(self) -> Outbox[Holder]:
        """What it has sent and is not ACKed."""
        return self._shared.outbox

    @property
    def owned(self) -> frozenset[int]:
        """The sequencers of what it owns and has scanned."""
        return frozenset(
            sequencer for sequencer, interval in self._intervals.items() if interval.state is _OWNED
        )

    @property
    def unacked(self) -> int:
        """How many productions are sent and not ACKed."""
        return len(self._shared.outbox)

    @property
    def unfinished(self) -> int:
        """How much is unfinished, or sent and not ACKed; 0: it only waits."""
        scanning = sum(interval.state is not _OWNED for interval in self._intervals.values())
        return self.unacked + scanning + sum(interval.unfinished for interval in self._intervals.values())

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Take one event.

        Args:
            now: this process's clock, microseconds.
            event: what has happened.
        """
        if now < self._now:
            self._set_clock_back(now)
        self._now = now
        handler = HANDLERS.get(type(event))
        assert handler is not None, f"{self.address} got {event}"
        handler(self, now, event)
        effects = self._effects
        if not effects:
            return _NO_EFFECTS
        if self._wakes.next_us > now + self._first_pause_us:  # what was sent just now is not due before
            self._ask_to_wake(now)
        taken = effects.copy()
        effects.clear()
        return taken

    # Time

    def _on_start(self, now: int, event: Start) -> None:
        self._incarnation = event.incarnation
        self._shared.store.start(event.incarnation)
        self._shared.record(ProcessStarted, event.incarnation)
        self._heartbeat_due.due_us = self._sweep_due.due_us = now
        for period in (self._report_due, self._repeat_due, self._collect_due):
            period.begin(now)
        self._on_wake(now, Wake())

    def _set_clock_back(self, now: int) -> None:
        shared = self._shared
        self._wakes.set_clock_back()
        waiting: list[ClockWaiter] = [
            shared.outbox, shared.store, self._sweep_due, self._report_due, self._repeat_due, self._heartbeat_due,
            self._collect_due, *self._intervals.values(),
        ]  # fmt: skip
        for each in waiting:
            each.set_clock_back(now)
        self._ask_to_wake(now)

    def _on_wake(self, now: int, _event: Wake) -> None:
        self._wakes.came(now)
        for interval in self._intervals.values():
            if interval.state in WORKING:
                if interval.soft.timers.wall:
                    interval.soft.fire_wall_timers(now)
                interval.pump(now)
        if now >= self._sweep_due.due_us:
            self._sweep(now)
        if self._effects:
            self._note_news(now)
        if self._has_news and now >= self._report_due.due_us:
            self._report(again=False)
        if now >= self._heartbeat_due.due_us:
            self._beat(now)
        self._ask_to_wake(now)

    def _beat(self, now: int) -> None:
        """Send a heartbeat, and do what is seldom due."""
        self._heartbeat_due.begin(now)
        self._heartbeat()
        if self._repeat_due.is_due(now):
            self._repeat_due.begin(now)
            self._report(again=True)
        if self._collect_due.is_due(now):
            self._collect_due.begin(now)
            for interval in self.intervals:
                interval.collect_ids(now)
                interval.forget_idle()

    def _ask_to_wake(self, now: int) -> None:
        shared, due_us = self._shared, self._heartbeat_due.due_us
        if self._has_news:
            due_us = min(due_us, self._report_due.due_us)
        swept_us = min(shared.outbox.next_due(), shared.store.next_due())
        for interval in self._intervals.values():
            swept_us = min(swept_us, interval.commits.next_due())
            due_us = min(due_us, interval.next_turn(now))
        self._wakes.ask(min(due_us, max(swept_us, self._sweep_due.due_us)))

    def _note_news(self, now: int) -> None:
        """Report at the next whole period: an interval's progress may have changed."""
        if not self._has_news:
            self._has_news = True
            self._report_due.begin_on_time(now)
            self._wakes.ask(self._report_due.due_us)

    def _sweep(self, now: int) -> None:
        """Do what is due of all that is outstanding, at most once in a period."""
        self._sweep_due.begin(now)
        shared = self._shared
        shared.store.sweep(now)
        if pendings := shared.outbox.due(now):
            self._resend(pendings)
        for interval in self._intervals.values():
            if interval.state in WORKING:
                interval.commits.sweep(now)

    def _resend(self, pendings: Sequence[Any]) -> None:
        shared, rules = self._shared, self._rules
        for pending in pendings:
            if not rules.retries(injected=False):
                continue
            production = rules.retried(pending.production, pending.attempts)
            owner = shared.routing.owner(production.consumer, production.key)
            if owner is not None:
                shared.record(Resent, production.record_id, production.consumer)
                shared.effects.append(Send(owner, m.Deliver(production, self.address)))

    # Records (6.1.1)

    def _on_deliver(self, now: int, message: m.Deliver) -> None:
        if not self._has_news:  # nearly always it has, for which this saves a call
            self._note_news(now)
        interval = self._delivered(message.production, message.sender)
        if interval is not None:
            interval.pump(now)

    def _delivered(self, production: Production, sender: str) -> OwnedInterval | None:
        """Deliver it to the interval of its key; return this if it is to be pumped."""
        key = production.key
        for interval in self._by_computation.get(production.consumer, ()):
            keys = interval.interval
            if keys.low <= key and (keys.high is None or key < keys.high):  # as `contains` does
                return interval if interval.deliver(production, sender) else None
        return None

    def _on_deliveries(self, now: int, event: Deliveries) -> None:
        self._note_news(now)
        for interval in self._intervals.values():
            interval.soft.in_order = event.in_order
        is_pumped = self._shared.taken is None  # a network's deliveries come one by one
        for production in event.productions:
            delivered = self._delivered(production, event.sender)
            if delivered is not None and is_pumped:
                delivered.pump(now)
        if not is_pumped:
            for interval in self.intervals:
                interval.pump(now)

    def _on_ack(self, now: int, message: m.Ack) -> None:
        self._note_news(now)
        outbox = self._shared.outbox
        for consumer in self._rules.settled_by(message.consumer, outbox.consumers):
            self._acked(now, consumer, message.record_ids)

    def _acked(self, now: int, consumer: str, record_ids: Sequence[str]) -> None:
        outbox, record = self._shared.outbox, self._shared.record
        touched: OwnedInterval | None = None
        for record_id in record_ids:
            pending = outbox.acked(consumer, record_id)
            if pending is None:
                continue
            record(Acked, record_id, consumer)
            holder = pending.holder
            interval = self._intervals[holder.sequencer]
            if touched is not None and interval is not touched:
                touched.pump(now)
            touched = interval
            self._settle(now, interval, holder, pending.production)
        if touched is not None and not touched.soft.where.strong:  # a weak step may have waited for it
            touched.pump(now)

    def _settle(self, now: int, interval: OwnedInterval, holder: Holder, production: Production) -> None:
        """Tell every interval that waits for a production that it was ACKed; the caller pumps the first one."""
        if holder.other is not None:
            other = self._intervals[holder.other.sequencer]
            self._settle(now, other, holder.other, production)
            if other is not interval:
                other.pump(now)
        interval.acked(now, holder, production)

    def _on_reply(self, now: int, reply: m.Reply) -> None:
        self._note_news(now)
        self._shared.store.reply(now, reply)

    def _on_refused(self, now: int, reply: m.Refused) -> None:
        self._shared.store.reply(now, reply)
        self._forget_dropped()

    # Ownership (7.1)

    def _on_table(self, now: int, table: m.Table) -> None:
        if table.version <= self._table.version:
            return
        self._note_news(now)
        if table.topology != self._table.topology:
            self._shared.record(VersionAdopted, table.topology)
            self._percentiles_wanted = _wants_percentiles(self._topologies[table.topology])
        self._table = table
        self._inputs.adopt(table)
        before = self._shared.routing
        routing = self._shared.routing = routing_of(table)
        is_owner, incarnation = self._rules.is_owner, self._incarnation
        mine = {
            assignment.sequencer: assignment
            for assignment in routing.assigned_to(self.address)
            if is_owner(incarnation, assignment.incarnation)
        }
        for sequencer, interval in self._intervals.items():
            if sequencer not in mine:
                interval.drop(IntervalInput.REASSIGNED)
        self._forget_dropped()
        self._take_up(mine.values())
        self._index()
        self._resend(self._shared.outbox.resend_to_changed(now, before, routing))
        self._advance_all(now)  # a sender that has left holds nothing back any more
        for interval in self.intervals:
            if interval.state is AssignmentState.SCANNING and not interval.begun:
                names = (interval.computation, *self._inputs.senders(interval.computation))
                interval.begin(now, names, self._on_recovered)
        if table.joining is not None:  # the change waits for everybody to know
            self._heartbeat()

    def _take_up(self, assignments: Iterable[m.Assignment]) -> None:
        """Begin to own what is new, and go by the version of the table in what is owned already."""
        specs: dict[str, Deployed] = {}
        for assignment in assignments:
            sequencer, name = assignment.sequencer, assignment.computation
            if name not in specs:
                specs[name] = deployed(name, self._topologies, self._table, self._rules)
            if sequencer not in self._intervals:
                interval_class = self._shared.part(OwnedInterval)
                self._intervals[sequencer] = interval_class(self._shared, specs[name], assignment)
                continue
            soft = self._intervals[sequencer].soft
            if soft.where.pipeline is specs[name].pipeline or self._rules.adopts_version(injects=False):
                soft.where = specs[name]

    def _on_recovered(self, now: int, interval: OwnedInterval, progress: Mapping[str, m.Progress]) -> None:
        if self._inputs.learn(progress.items()):
            self._advance_all(now)
        self._advance(now, interval)

    def _forget_dropped(self) -> None:
        gone = [
            sequencer for sequencer, held in self._intervals.items() if held.state is AssignmentState.DROPPED
        ]
        if gone:
            for sequencer in gone:
                del self._intervals[sequencer]
                self._last_reports.pop(sequencer, None)
            self._index()

    def _index(self) -> None:
        self._by_computation = {}
        for interval in self._intervals.values():
            self._by_computation.setdefault(interval.computation, []).append(interval)

    # Watermarks (7.2)

    def _on_watermarks(self, now: int, message: m.Watermarks) -> None:
        if self._inputs.learn(message.values):
            self._note_news(now)
            self._advance_all(now)

    def _advance_all(self, now: int) -> None:
        for interval in self.intervals:
            if self._rules.may_report(interval.state is _OWNED):
                self._advance(now, interval)
                interval.pump(now)

    def _advance(self, now: int, interval: OwnedInterval) -> None:
        low, timer, horizon = self._inputs.of(interval.computation, interval.soft.where)
        interval.soft.advance(now, low, timer, horizon)

    def _report(self, *, again: bool) -> None:
        """Tell the authority of each interval's progress that has changed, bucketed by interval (7.2).

        Args:
            again: also of what has not changed; shards with none of its intervals must hear from it, too.
        """
        self._has_news = False
        options, shared = self._options, self._shared
        by_shard: dict[int, list[m.IntervalReport]] = {}
        if again:
            by_shard = {shard: [] for shard in range(options.authority_shards)}
        bucket_us = options.percentile_bucket_us if self._percentiles_wanted else None
        for sequencer, interval in self._intervals.items():
            if not self._rules.may_report(interval.state is _OWNED):
                continue
            report = interval.report(bucket_us)
            if not again and self._last_reports.get(sequencer) == report:
                continue
            self._last_reports[sequencer] = report
            reached = report.low_watermark, report.horizon
            shared.record(Reported, interval.computation, interval.interval, sequencer, *reached)
            by_shard.setdefault(options.shard_of(interval.computation), []).append(report)
        for shard, reports in by_shard.items():
            message = m.Report(self.address, tuple(reports))
            shared.effects.extend([Send(to, message) for to in self._authorities[shard]])

    def _heartbeat(self) -> None:
        if not self._is_charged:  # this host does not measure it
            self._shared.uncharged.clear()
        retiring = self._table.retiring
        loads = tuple(
            [
                interval.take_load(retires=interval.computation in retiring)
                for interval in self._intervals.values()
                if interval.state is _OWNED
            ]
        )
        scanning = tuple(
            [sequencer for sequencer, interval in self._intervals.items() if interval.state is not _OWNED]
        )
        message = m.Heartbeat(
            self.address, self._incarnation, self._table.version, loads, self._owing(), scanning=scanning
        )
        self._shared.effects.extend([Send(to, message) for to in self._masters])

    def _owing(self) -> tuple[tuple[str, int], ...]:
        """Count what it has yet to deliver to retiring computations: sent and not ACKed, or still to be committed."""
        retiring = self._table.retiring
        if not retiring:
            return ()
        owing = dict(self._shared.outbox.owing(retiring))
        writes = [request for request in self._shared.store.open_requests() if isinstance(request, m.Write)]
        coming = [p for write in writes for delta in write.deltas for p in delta.productions]
        coming += [p for interval in self._intervals.values() for p in interval.commits.to_be_committed()]
        for production in coming:
            if production.consumer in retiring:
                owing[production.consumer] = owing.get(production.consumer, 0) + 1
        return tuple(owing.items())

    def check_invariants(self) -> None:
        """Assert what must hold between events."""
        self._shared.cache.check_invariants()
        self._shared.outbox.check_invariants()
        self._shared.store.check_invariants()
        outstanding = [self._shared.store.next_due(), *(pending.due_us for pending in self._shared.outbox)]
        outstanding += [interval.commits.next_due() for interval in self._intervals.values()]
        due_us = min(max(min(outstanding), self._sweep_due.due_us), self._heartbeat_due.due_us)
        due_us = min(due_us, self._report_due.due_us) if self._has_news else due_us
        for interval in self._intervals.values():
            due_us = min(due_us, interval.next_turn(self._now))
        assert self._wakes.next_us <= max(due_us, self._now + 1), f"{self.address} would wake too late"
        for deadline in (
            self._sweep_due,
            self._report_due,
            self._repeat_due,
            self._heartbeat_due,
            self._collect_due,
        ):
            deadline.check_invariants(self._now)
        for sequencer, interval in self._intervals.items():
            assert interval.state is not AssignmentState.DROPPED
            assert interval.sequencer == sequencer
            interval.check_invariants()
        owned = self._intervals.keys()
        assert owned >= self._last_reports.keys(), "a report of an interval that is gone is kept"
        listed = {interval.sequencer for held in self._by_computation.values() for interval in held}
        assert owned == listed, "deliveries find other intervals than it owns"
        slots = [slot for interval in self._intervals.values() for slot in interval.soft.slots.values()]
        assert self._shared.cache.used_bytes == sum(slot.cached_bytes for slot in slots), (
            "the cache keeps rows of intervals that are gone"
        )


def _wants_percentiles(pipeline: Pipeline) -> bool:
    return any(spec.watermark_percentile < 100 for spec in pipeline.computations.values())


_OWNED = AssignmentState.OWNED
_NO_EFFECTS: list[Effect] = []

HANDLERS: dict[type, Callable[[Any, int, Any], None]] = {
    Start: Worker._on_start,
    Wake: Worker._on_wake,
    m.Deliver: Worker._on_deliver,
    Deliveries: Worker._on_deliveries,
    m.Ack: Worker._on_ack,
    m.Table: Worker._on_table,
    m.Watermarks: Worker._on_watermarks,
    m.RowRead: Worker._on_reply,
    m.Scanned: Worker._on_reply,
    m.Written: Worker._on_reply,
    m.Collected: Worker._on_reply,
    m.Unavailable: Worker._on_reply,
    m.Refused: Worker._on_refused,  # 6.2: a zombie learns that it is one
}
"""By input: what happens. A worker has one state only, its intervals have theirs. All that is not here is a bug."""
