"""An injector's process (MillWheel 5.2, 6.1.1, 8.4): it brings records in from outside and seeds the low watermark.

Rules of this file:

* **One at a time.** A process claims its role's fenced journal, and reads the source from the journaled position on. When the
  journal is refused, a successor exists: it never sends anything again.
* **Same ids.** A record's id is its place in the source, ``INJECTOR/P:OFFSET``: one that is read again is the same record.
* **Progress** is that of what it has read and not finished (`Intake`). It is journaled at whole periods if it may have changed,
  and only what is journaled is reported, again and again since a report may be lost.
* **Skew** (8.4): a record more than the limit ahead of the slowest computation waits, in order of timestamps and not of
  arrival, since the next one may be what the slowest waits for. Late ones never wait. Choice: as long as nothing is known of
  a computation it is the slowest one, and all others wait for it: how far the other processes are, no process can know. What
  waits is in this process's progress, which is journaled and reported all the same, and so the first broadcast comes.
"""

import enum
from collections import Counter
from collections.abc import Sequence
from heapq import heappop, heappush

from headrace.api.errors import HeadraceError, MalformedRecordError
from headrace.api.options import EngineOptions
from headrace.api.pipeline import Pipeline
from headrace.api.specs import DeadLetter, InjectorSpec, Subscriber, process_address
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.deadlines import QUIET_PERIODS, Deadline, Wakes
from headrace.delivery.deployed import deployed
from headrace.delivery.outbox import Outbox, Pending
from headrace.delivery.routing import NOWHERE, routing_of
from headrace.dispatch import Transition, ignore, undeclared
from headrace.history import (
    Acked,
    DeadLettered,
    History,
    Injected,
    InjectorReported,
    ProcessStarted,
    Resent,
    VersionAdopted,
)
from headrace.injector.injection import dead_letter, productions_of, time_of
from headrace.injector.intake import Intake, IntakeRecord
from headrace.rules import RULES, Rules
from headrace.store.client import StoreClient
from headrace.wire import messages as m
from headrace.wire.effects import (
    Effect,
    Event,
    Halt,
    Replay,
    Replayed,
    Send,
    SourceRecord,
    SourceWatermark,
    Start,
    Wake,
)
from headrace.wire.rows import Production


class Phase(enum.Enum):
    """Where a process is in its life."""

    NEW = "new"
    PEEKING = "peeking"
    CLAIMING = "claiming"
    RUNNING = "running"
    FENCED = "fenced"
    """There is a successor (6.2)."""
    HALTED = "halted"
    """A record was malformed, and the policy is to stop."""

    # looked up with each event; an enumeration's own hash is that of the member's name
    __hash__ = object.__hash__


class Injector:
    """One process of an injector: a state machine.

    Args:
        spec: the injector.
        process: its number.
        topologies: the deployed pipeline versions; a `Table` says which is in force.
        options: the engine's.
        history: where it writes what it does.
        rules: what it asks.

    Attributes:
        address: ``INJECTOR/P``, which is also the role whose journal it claims.
        phase: where it is in its life.
        epoch: the epoch in which it holds its role, as far as it knows; 0: it does not.
        intake: how far it has read, and what it has promised.
    """

    def __init__(
        self,
        spec: InjectorSpec,
        process: int,
        topologies: Sequence[Pipeline],
        options: EngineOptions,
        history: History,
        rules: Rules = RULES,
    ) -> None:
        self.address = process_address(spec.name, process)
        self.phase = Phase.NEW
        self._spec, self._process, self._topologies = spec, process, topologies
        self._options, self._record, self._rules = options, history.of(self.address), rules
        self._stamp = rules.stamp  # asked for with each record
        self._effects: list[Effect] = []
        self._wakes = Wakes(self._effects)
        self._now = MIN_TIME
        self._incarnation = 0
        self._store = StoreClient(self._effects, options.store_timeout_us)
        self.epoch = 0
        # A predecessor may have sent what is before this offset; `MAX_TIME`: not all of that has been given yet.
        self._reread_to = 0
        self.intake = Intake(0, m.Progress(), rules)
        # What waits (8.4), and what was sent.
        self._waiting: list[tuple[int, int, IntakeRecord, SourceRecord]] = []
        self._outbox: Outbox[IntakeRecord] = Outbox(options.retry_us, options.retry_max_us)
        self._masters = options.master_addresses()
        self._authorities = options.authority_addresses(options.shard_of(spec.name))
        self._first_pause_us = min(options.retry_us, options.retry_max_us)
        # What it was told.
        self._routing = NOWHERE
        self._watermarks: dict[str, int] = {}
        self._adopt_topology(0)
        # What it tells.
        self._journaled: m.Progress | None = None
        self._reported: m.Progress | None = None
        self._heartbeat_due = Deadline(options.heartbeat_period_us)
        self._has_news = False  # since it last journaled
        self._journal_due = Deadline(options.injector_journal_us)
        self._report_due = Deadline(options.report_period_us)
        self._deadlines = (self._heartbeat_due, self._journal_due, self._report_due)

    @property
    def table(self) -> m.Table:
        """The latest assignment table received."""
        return self._routing.table

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Take an event; return what is to be done.

        Args:
            now: this process's clock, microseconds.
            event: see the table `TRANSITIONS`.
        """
        transition = TRANSITIONS.get((self.phase, type(event)))
        if transition is None:
            raise undeclared(self.address, self.phase, event)
        was_put_back = now < self._now
        if was_put_back:
            self._wakes.set_clock_back()
            for waiter in (self._store, self._outbox, *self._deadlines):
                waiter.set_clock_back(now)
        self._now = now
        kind = type(event)
        if kind in _NEWS and not self._has_news:
            self._note_news(now)
        transition.handler(self, now, event)
        assert self.phase in transition.leads_to, f"{event} led to {self.phase}"
        if self.phase not in _SILENT:
            # What was sent just now is not due before the first pause is over.
            soon_us = min(now + self._first_pause_us, self._journal_due.due_us)
            if was_put_back or kind not in _NEWS or soon_us < self._wakes.next_us:
                self._ask_to_wake()
        effects = self._effects
        if not effects:
            return []
        taken = effects.copy()
        effects.clear()
        return taken

    # Becoming the holder of the role

    def _start(self, now: int, event: Start) -> None:
        self._incarnation = event.incarnation
        self._record(ProcessStarted, event.incarnation)
        self._store.start(event.incarnation)
        self._peek(now)

    def _peek(self, now: int) -> None:
        self.phase = Phase.PEEKING
        self._store.ask(now, m.Peek(self._store.number(), self.address), self._on_peeked, self)

    def _on_peeked(self, now: int, reply: m.Reply) -> None:
        assert isinstance(reply, m.Peeked)
        self.phase = Phase.CLAIMING
        holder = f"{self.address}#{self._incarnation}"
        claim = m.Claim(self._store.number(), self.address, reply.epoch, holder)
        self._store.ask(now, claim, self._on_claimed, self)

    def _on_claimed(self, now: int, reply: m.Reply) -> None:
        if isinstance(reply, m.Refused):  # Somebody else claimed it in between.
            self._peek(now)
            return
        assert isinstance(reply, m.Claimed)
        self.phase, self.epoch = Phase.RUNNING, reply.epoch
        self._journaled = dict(reply.contents).get(self.address)
        self.intake = Intake(reply.position, self._journaled or m.Progress(), self._rules)
        self._effects.append(Replay(reply.position))
        self._reread_to = MAX_TIME
        self._on_table(now, reply.table)
        self._heartbeat_due.due_us = self._report_due.due_us = now
        self._journal_due.begin(now)
        self._tick(now)

    # Reading the source (5.2)

    def _on_record(self, now: int, record: SourceRecord) -> None:
        intake = self.intake
        if not intake.is_next(record.offset):
            return
        timestamp = time_of(record)
        entry = intake.read(self._stamp(record.arrived_us, now), record.offset, timestamp)
        if entry.late or timestamp != record.timestamp or self._may_enter(timestamp):
            self._inject(now, entry, record)
        else:
            heappush(self._waiting, (timestamp, entry.offset, entry, record))

    def _on_source_watermark(self, now: int, event: SourceWatermark) -> None:
        intake = self.intake
        if intake.is_next(event.offset):
            intake.read_watermark(self._stamp(event.arrived_us, now), event.offset, event.low_watermark)

    # Injecting

    def _inject(self, now: int, entry: IntakeRecord, record: SourceRecord) -> None:
        productions = self._productions(entry, record)
        entry.left = len(productions)
        if not productions:
            return
        self._record(Injected, entry.offset, self.intake.promised.low_watermark, productions)
        for production in productions:
            self._send(self._outbox.add(now, production, entry))

    def _productions(self, entry: IntakeRecord, record: SourceRecord) -> tuple[Production, ...]:
        """Make a record's productions; none if it was malformed and the policy is to stop."""
        pipeline, spec = self._pipeline, self._spec
        record_id = self._rules.injected_id(self.address, entry.offset, self._incarnation)
        try:
            also = self._owed(record.stream) if entry.offset < self._reread_to else ()
            return productions_of(
                pipeline, self.address, spec.outputs, record, entry.origin, also, record_id=record_id
            )
        except MalformedRecordError as error:
            if not isinstance(spec.on_malformed, DeadLetter):
                return self._halt(error)
            stream = spec.on_malformed.stream
            try:
                letter = dead_letter(pipeline, self.address, stream, record, entry.timestamp, error)
                productions = productions_of(
                    pipeline, self.address, (stream,), letter, entry.origin, record_id=record_id
                )
            except HeadraceError as second:
                return self._halt(second)
            self._record(DeadLettered, spec.name, productions[0].record_id, stream)
            return productions

    def _owed(self, stream: str) -> list[Subscriber]:
        """Return the retiring subscribers: a predecessor may have died owing them what is read again now."""
        table = self._routing.table
        specs = [deployed(name, self._topologies, table).spec for name in table.retiring]
        return [(spec.name, spec.inputs[stream]) for spec in specs if stream in spec.inputs]

    def _on_replayed(self, _now: int, _event: Replayed) -> None:
        self._reread_to = self.intake.next_offset

    def _halt(self, error: HeadraceError) -> tuple[Production, ...]:
        self.phase = Phase.HALTED
        self._effects.append(Halt(error))
        return ()

    def _may_enter(self, timestamp: int) -> bool:
        limit_us = self._spec.skew_limit_us
        return limit_us is None or self._rules.may_inject(timestamp, self._slowest(), limit_us)

    def _slowest(self) -> int:
        """Return the slowest computation's low watermark, as last received (8.4)."""
        known = self._watermarks
        return min((known.get(name, MIN_TIME) for name in self._pipeline.computations), default=MAX_TIME)

    def _release(self, now: int) -> None:
        while self._waiting and self.phase is Phase.RUNNING and self._may_enter(self._waiting[0][0]):
            _, _, entry, record = heappop(self._waiting)
            self._inject(now, entry, record)

    def _send(self, pending: Pending[IntakeRecord]) -> bool:
        production = pending.production
        owner = self._routing.owner(production.consumer, production.key)
        if owner is None:
            return False
        self._effects.append(Send(owner, m.Deliver(production, self.address)))
        return True

    def _send_again(self, pending: Pending[IntakeRecord]) -> None:
        if self._rules.retries(injected=True) and self._send(pending):
            self._record(Resent, pending.production.record_id, pending.production.consumer)

    # What it is told

    def _on_ack(self, _now: int, ack: m.Ack) -> None:
        for record_id in ack.record_ids:
            pending = self._outbox.acked(ack.consumer, record_id)
            if pending is None:
                continue
            self._record(Acked, record_id, ack.consumer)
            entry = pending.holder
            entry.left -= 1
            if not entry.left:
                self.intake.finish(entry)

    def _on_table(self, now: int, table: m.Table) -> None:
        before = self._routing
        if table.version <= before.table.version:
            return
        self._routing = routing_of(table)
        for pending in self._outbox.resend_to_changed(now, before, self._routing):
            if before.owner(pending.production.consumer, pending.production.key) is None:
                self._send(pending)  # for the first time
            else:
                self._send_again(pending)
        if table.topology != before.table.topology:
            self._record(VersionAdopted, table.topology)
            if self._rules.adopts_version(injects=True):
                self._adopt_topology(table.topology)
        self._release(now)
        if table.joining is not None:  # the change waits for everybody to know
            self._heartbeat(now)

    def _adopt_topology(self, topology: int) -> None:
        self._pipeline = pipeline = self._topologies[topology]
        self._percentiles_wanted = any(
            spec.watermark_percentile < 100 and self._spec.name in pipeline.upstream(name)
            for name, spec in pipeline.computations.items()
        )

    def _on_watermarks(self, now: int, broadcast: m.Watermarks) -> None:
        if self._spec.skew_limit_us is None:
            return
        for name, progress in broadcast.values:
            known = self._watermarks.get(name, MIN_TIME)
            self._watermarks[name] = self._rules.advanced(known, progress.low_watermark)
        self._release(now)

    # What it tells: progress (7.2), and that it lives (7.1)

    def _on_wake(self, now: int, _event: Wake) -> None:
        self._wakes.came(now)
        self._tick(now)

    def _tick(self, now: int) -> None:
        self._store.sweep(now)
        if self.phase is not Phase.RUNNING:
            return
        if self._heartbeat_due.is_due(now):
            self._heartbeat(now)
        for pending in self._outbox.due(now):
            self._send_again(pending)
        if self._has_news and self._journal_due.is_due(now):
            self._journal(now)
        quiet_us = 0 if self._has_unreported else (QUIET_PERIODS - 1) * self._report_due.wait_us
        if self._journaled is not None and self._report_due.is_due(now - quiet_us):
            self._report(now)

    def _heartbeat(self, now: int) -> None:
        self._heartbeat_due.begin(now)
        beat = m.Heartbeat(
            self.address, self._incarnation, self._routing.table.version, owing=self._owing(), is_worker=False
        )
        self._effects.extend([Send(master, beat) for master in self._masters])

    def _owing(self) -> tuple[tuple[str, int], ...]:
        """Count what is pending for retiring computations; while there is more to re-read, each may be owed some of it."""
        retiring = self._routing.table.retiring
        if not retiring:
            return ()
        owing = dict(self._outbox.owing(retiring))
        if self._reread_to == MAX_TIME or any(
            record.offset < self._reread_to for _, _, record, _ in self._waiting
        ):
            owing = {name: owing.get(name, 1) for name in retiring}
        return tuple(owing.items())

    def _note_news(self, now: int) -> None:
        """Journal at the next whole period: progress may have changed."""
        self._has_news = True
        self._journal_due.begin_on_time(now)

    def _journal(self, now: int) -> None:
        intake, store = self.intake, self._store
        if len(store):  # an entry is under way
            self._journal_due.begin_on_time(now)
            return
        self._has_news = False
        if intake.promise():
            position, progress = intake.position, intake.promised
            request = m.JournalPosition(store.number(), self.address, self.epoch, position, progress)
            store.ask(now, request, self._on_journaled, self)

    def _on_journaled(self, now: int, reply: m.Reply) -> None:
        if isinstance(reply, m.Refused):
            self.phase = Phase.FENCED
            return
        assert isinstance(reply, m.Journaled)
        self._journaled = self.intake.promised
        if self._has_unreported and self._report_due.is_due(now):
            self._report(now)

    @property
    def _has_unreported(self) -> bool:
        journaled = self._journaled
        return journaled is not None and (self._percentiles_wanted or journaled != self._reported)

    def _report(self, now: int) -> None:
        progress = self._journaled
        assert progress is not None
        self._reported = progress
        self._report_due.begin(now)
        frontier = progress.low_watermark
        buckets: tuple[tuple[int, int], ...] = ()
        if self._percentiles_wanted:
            frontier = self.intake.source_us
            buckets = self.intake.buckets(self._options.percentile_bucket_us)
        name, low_us, horizon_us = self._spec.name, progress.low_watermark, progress.horizon
        report = m.InjectorReport(name, self._process, self.epoch, low_us, horizon_us, frontier, buckets)
        self._effects.extend([Send(replica, report) for replica in self._authorities])
        self._record(InjectorReported, name, low_us, horizon_us)

    # Asking the store and the clock

    def _on_reply(self, now: int, reply: m.Reply) -> None:
        self._store.reply(now, reply)

    def _ask_to_wake(self) -> None:
        needed_us = self._store.next_due()
        if self.phase is Phase.RUNNING:
            needed_us = min(needed_us, self._heartbeat_due.due_us, self._outbox.next_due())
            if self._has_news:
                needed_us = min(needed_us, self._journal_due.due_us)
            if self._has_unreported:
                needed_us = min(needed_us, self._report_due.due_us)
        self._wakes.ask(needed_us)

    @property
    def unfinished(self) -> int:
        """How many productions are sent and not ACKed; 0: it only waits, such as for a slower source (8.4)."""
        return len(self._outbox)

    @property
    def held_back(self) -> int:
        """How many records wait for the slowest computation (8.4)."""
        return len(self._waiting)

    def check_invariants(self) -> None:
        """Assert that what is unfinished waits or is pending, and that a process without its role has nothing to say."""
        self.intake.check_invariants()
        self._outbox.check_invariants()
        waiting = [entry for _, _, entry, _ in self._waiting]
        pending = Counter(entry.holder.offset for entry in self._outbox)
        for entry in waiting:
            assert not entry.late, f"{self.address}: late record {entry.offset} waits"
            assert not pending[entry.offset], f"{self.address}: record {entry.offset} waits and was sent"
        if self.phase is Phase.RUNNING:
            assert not waiting or not self._may_enter(self._waiting[0][0]), (
                f"{self.address}: a record waits for nothing"
            )
            due_us = [
                self._store.next_due(),
                self._heartbeat_due.due_us,
                *(sent.due_us for sent in self._outbox),
            ]
            due_us += [self._journal_due.due_us] if self._has_news else []
            due_us += [self._report_due.due_us] if self._has_unreported else []
            assert self._wakes.next_us <= min(due_us), f"{self.address} would wake too late"
            for deadline in self._deadlines:
                deadline.check_invariants(self._now)
        for sent in self._outbox:
            left = sent.holder.left
            assert left == pending[sent.holder.offset], (
                f"{self.address}: record {sent.holder.offset} has {left} left"
            )


# The states and their inputs


def _transitions() -> dict[tuple[Phase, type], Transition[Phase]]:
    new, peeking, claiming, running = Phase.NEW, Phase.PEEKING, Phase.CLAIMING, Phase.RUNNING
    fenced, halted = Phase.FENCED, Phase.HALTED
    own = Injector
    table: dict[tuple[Phase, type], Transition[Phase]] = {
        (new, Start): Transition(own._start, (peeking,)),
        # Fenced journals: look, then claim what was seen.
        (peeking, Wake): Transition(own._on_wake, (peeking,)),
        (peeking, m.Peeked): Transition(own._on_reply, (peeking, claiming)),
        (claiming, Wake): Transition(own._on_wake, (claiming,)),
        (claiming, m.Claimed): Transition(own._on_reply, (claiming, running)),
        (claiming, m.Refused): Transition(own._on_reply, (claiming, peeking)),
        # 5.2, 6.1.1, 7.2, 8.4
        (running, Wake): Transition(own._on_wake, (running,)),
        (running, SourceRecord): Transition(own._on_record, (running, halted)),
        (running, SourceWatermark): Transition(own._on_source_watermark, (running,)),
        (running, Replayed): Transition(own._on_replayed, (running,)),
        (running, m.Ack): Transition(own._on_ack, (running,)),
        (running, m.Table): Transition(own._on_table, (running, halted)),
        (running, m.Watermarks): Transition(own._on_watermarks, (running, halted)),
        (running, m.Journaled): Transition(own._on_reply, (running,)),
        (running, m.Refused): Transition(own._on_reply, (running, fenced)),
    }
    for phase, inputs in _IGNORED.items():
        table.update({(phase, kind): Transition(ignore, (phase,)) for kind in inputs})
    return table


_REPLIES = (m.Peeked, m.Claimed, m.Journaled, m.Refused, m.Unavailable)
_UNASKED = (SourceRecord, SourceWatermark, Replayed, m.Ack, m.Table, m.Watermarks)
_IGNORED: dict[Phase, tuple[type, ...]] = {
    # `Replay` brings again what the source has, and `Claimed` a table; broadcasts are repeated; nothing is there to be ACKed.
    # Replies belong to another incarnation, or were doubled; what is unavailable is asked for again when its time is out.
    Phase.PEEKING: (*_UNASKED, m.Claimed, m.Journaled, m.Refused, m.Unavailable),
    Phase.CLAIMING: (*_UNASKED, m.Peeked, m.Journaled, m.Unavailable),
    Phase.RUNNING: (m.Peeked, m.Claimed, m.Unavailable),
    # Silent for ever.
    Phase.FENCED: (Wake, *_UNASKED, *_REPLIES),
    Phase.HALTED: (Wake, *_UNASKED, *_REPLIES),
}
_SILENT = (Phase.FENCED, Phase.HALTED)
_NEWS = frozenset({SourceRecord, SourceWatermark, m.Ack})
"""What these change is only what is sent, what is pending, and what there is to journal."""

TRANSITIONS = _transitions()
"""(phase, input): what happens, and where it leads. All that is not here is a bug."""
