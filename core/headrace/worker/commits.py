"""Turn steps into writes (MillWheel 6.1.1, 6.1.3, 6.2): which steps run, when they are written, and what follows a commit.

Rules of this file:

* Per key strictly serial: a key is locked from user code to the answer of its write. Keys run in parallel.
* Group commit (6.1.1): steps that wait share the next write, as far as it has room; so do the deletions of checkpoints that were
  ACKed, which need no lock and no version of their own (see docs/protocol.md).
* Strong order: user code, commit, ACK, send. Weak order (6.1.3): user code, send, wait, commit, ACK; what is not ACKed in time is
  checkpointed by the commit instead.
* Soft state is brought up to the row when the write is answered, and not before; a refused write ends the assignment.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence

from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.history import Checkpointed, DuplicateDropped
from headrace.rules import Act
from headrace.wire import messages as m
from headrace.wire.effects import Halt
from headrace.wire.rows import Production, RowImage, Version
from headrace.worker.cache import CachedRow
from headrace.worker.running import MOST_IN_STEP, StepOutcome, StepRun, StepSettings, StepView
from headrace.worker.sending import Sending
from headrace.worker.slot import KeySlot
from headrace.worker.soft_state import SoftState
from headrace.worker.states import PACE, Pace, PaceInput, StepInput, StepState, moved
from headrace.worker.step import KeyStep

# Asked for with each record: a global name is found faster than an enumeration's member.
_OPEN, _LINGERING, _AWAITING_WAKE, _AWAITING_ANSWER = Pace
_COMPLETE, _WRITE, _WRITTEN = StepInput.COMPLETE, StepInput.WRITE, StepInput.WRITTEN


RestoresRead = Callable[[int, KeySlot, RowImage | None], bool]


class Commits:
    """The steps and writes of one owned interval.

    Args:
        soft: the interval's: what steps read, and what writes change.
        sending: what the interval sends.
        on_refused: called if the interval has a newer owner.

    Attributes:
        pace: what the next write waits for.
        batch: see `EngineOptions.commit_batch`.
        restores_read: takes the clock, a key and its row as it was read, and returns whether it has restored all of it; ``None``:
            no scan goes on, and a read brings what was evicted.
    """

    __slots__ = (
        "_acks_after", "_acks_first", "_awaits", "_committable", "_delivered", "_delivered_since", "_failures",
        "_linger_until", "_locks_key", "_most_writes", "_needs_write", "_next_number", "_on_refused", "_ready",
        "_resting", "_rules", "_run_class", "_sends_after", "_sends_first", "_settings", "_stragglers", "_strong", "_taken",
        "_writes", "_written", "batch", "pace", "restores_read", "sending", "shared", "soft",
    )  # fmt: skip

    def __init__(self, soft: SoftState, sending: Sending, on_refused: Callable[[], None]) -> None:
        shared, where = soft.shared, soft.where
        options = shared.options
        self.soft = soft
        self.sending = sending
        self.shared = shared
        self._on_refused = on_refused
        rules = self._rules = shared.rules
        # For as long as it is assigned:
        self._strong = where.strong
        self._locks_key, self._written = rules.locks_key(), rules.written
        self._needs_write = rules.needs_write
        order = rules.order(where.strong)
        run, commit = order.index(Act.RUN), order.index(Act.COMMIT)
        self._taken = shared.taken
        self._sends_first = self._taken is None and Act.SEND in order[run:commit]
        self._awaits = Act.AWAIT in order[run:commit]
        self._acks_first = Act.ACK in order[run:commit]
        self._acks_after, self._sends_after = Act.ACK in order[commit:], Act.SEND in order[commit:]
        most = min(options.commit_batch, MOST_IN_STEP)
        self._settings = StepSettings(
            rules, shared.address, most, options.user_code_attempts, shared.history.keeps
        )
        self._run_class = shared.part(StepRun)
        self._next_number = 1
        self._failures: Mapping[str, int] = {}
        self._resting: deque[tuple[int, KeySlot]] = deque()
        self._ready = soft.ready
        self._committable: deque[KeyStep] = deque()
        self._stragglers: deque[tuple[int, KeyStep]] = deque()
        self._delivered: list[tuple[str, str, str]] = []
        self._delivered_since = 0
        self._writes = 0
        self._most_writes = options.commits_in_flight
        self.batch = options.commit_batch
        self._linger_until = MIN_TIME
        self.pace = Pace.OPEN
        self.restores_read: RestoresRead | None = None

    def pump(self, now: int) -> None:
        """Run what is ready and write what is to be committed, until the limit of writes in flight is reached.

        A strong step runs only when it may be written, so that it takes in all that has come for its key meanwhile.
        """
        ready, committable = self._ready, self._committable
        if self.pace is _OPEN and not (ready or committable):  # nearly always, when an idle worker wakes
            return
        strong, batch = self._strong, self.batch
        if strong and self._must_wait(now):
            return
        while True:
            while ready and not (strong and len(committable) >= batch):
                self._turn(now, ready.popleft())
            if not committable or self._must_wait(now):
                return
            self._write(now)
            if strong and self._must_wait(now):
                return

    @property
    def waits(self) -> bool:
        """Whether nothing runs until something else calls `pump`, so that deliveries need not."""
        return self._strong and self.pace >= _AWAITING_WAKE

    def _must_wait(self, now: int) -> bool:
        """Return whether nothing may be written now: what it waits for comes back to `pump`. A full write lingers no longer."""
        pace = self.pace
        if pace is _AWAITING_ANSWER:
            return True
        if pace is not _OPEN and now >= self._linger_until:
            pace = self._move(PaceInput.LINGERED)
        waiting = len(self._ready) + len(self._committable)
        if pace is _OPEN or waiting >= self.batch:
            return False
        if waiting and pace is _LINGERING:
            self._move(PaceInput.STEPS_CAME)
            self.shared.wakes.ask(self._linger_until)
        return True

    def _move(self, input_: PaceInput) -> Pace:
        self.pace = moved(PACE, self.pace, input_, "commits")
        return self.pace

    def _turn(self, now: int, slot: KeySlot) -> None:
        if slot.busy:
            return
        if slot.row is None:
            if self._rules.must_read(slot.stored):
                self._read(now, slot)
                return
            slot.row = CachedRow()
        slot.busy = self._locks_key
        run = self.prepare(now, slot, shares=self.soft.where.spec.share_state)
        run.run()
        if run.outcome.failed and run.view.shares:
            run = self.prepare(now, slot)
            run.run()
        outcome = run.outcome
        count = len(outcome.arrivals) + len(outcome.fired)
        self._take(slot, outcome, count)
        if count:
            self.ran(now, KeyStep(slot, run.view.version, outcome))
        elif not outcome.failed:
            self.soft.release(slot)
        elif outcome.error is None:
            rested_us = now + self.shared.options.user_code_retry_us
            self._resting.append((rested_us, slot))
            self.shared.wakes.ask(rested_us)

    def prepare(self, now: int, slot: KeySlot, *, shares: bool = False) -> StepRun:
        """Prepare the next run of a key. ``shares``: see `StepView`."""
        soft = self.soft
        version = Version(soft.sequencer, self.take_number())
        view = StepView(
            soft.where, slot, version, soft.timer_watermark, soft.horizon, soft.accounts.horizon, now,
            self.shared.history.at_us, shares, soft.in_order,
        )  # fmt: skip
        return self._run_class(self._settings, view, StepOutcome(self._failures, slot.due))

    def take_number(self) -> int:
        """Number the next version of a row."""
        number = self._next_number
        self._next_number = number + 1
        return number

    def _take(self, slot: KeySlot, outcome: StepOutcome, count: int) -> None:
        """Note what ran, whether or not it will be committed; ``count``: how many inputs it consumed."""
        soft, shared = self.soft, self.shared
        runs = count + outcome.failed
        shared.runs += runs
        soft.load.records += count
        shared.uncharged.extend([soft.load] * runs)
        if slot.due:
            slot.due = outcome.due
        if slot.queue:
            del slot.queue[: len(outcome.arrivals) + outcome.dropped]
        self._failures = outcome.failures
        for event in outcome.events:
            shared.history.record(event)
            if type(event) is DuplicateDropped:
                arrival = soft.in_progress.pop(event.record_id)
                if self._rules.acks_duplicate():
                    self.sending.ack(arrival.sender, [event.record_id])
        if outcome.error is not None:
            shared.effects.append(Halt(outcome.error))

    def ran(self, now: int, step: KeyStep) -> None:
        """Send what user code has made in a step, or commit it first."""
        if step.outcome.origins and self._strong:
            hold = self.soft.accounts.hold_origin
            step.held_origins = tuple([origin for origin in step.outcome.origins if hold(origin)])
        if self._sends_first:
            self._send_first(now, step)
        else:
            if self._taken is None:
                step.checkpoints = step.outcome.productions
            self.complete(step)

    def _read(self, now: int, slot: KeySlot) -> None:
        slot.busy = True
        store, soft = self.shared.store, self.soft

        def read(now: int, reply: m.Reply) -> None:
            if isinstance(reply, m.Refused):
                self._on_refused()
                return
            assert isinstance(reply, m.RowRead)
            row, restores = reply.row, self.restores_read
            if restores is None or not restores(now, slot, row):
                slot.row = CachedRow(row.state, dict(row.seen)) if row is not None else CachedRow()
            slot.busy = False
            self._ready.append(slot)
            self.pump(now)

        request = m.Read(store.number(), soft.computation, soft.sequencer, slot.key)
        store.ask(now, request, read, soft)

    def _send_first(self, now: int, step: KeyStep) -> None:
        """Send productions before anything is committed (6.1.3)."""
        for production in step.outcome.productions:
            # Without exactly-once a step is run again; what it made may be on its way as a checkpoint, as good as ACKed.
            if not self.sending.is_checkpointed(production):
                step.holders += (self.sending.send_or_share(now, production, step.slot, step),)
                step.waiting += 1
        if not (step.waiting and self._awaits):
            self.complete(step)
            return
        step.advance(StepInput.SENT)
        self._stragglers.append((now, step))
        self.shared.sweep_at(now + self.shared.options.straggler_delay_us)

    def complete(self, step: KeyStep) -> None:
        """Let a step be committed: there is nothing left to wait for before it."""
        step.advance(_COMPLETE)
        self._committable.append(step)
        if self._acks_first:
            self.sending.ack_steps([step])

    def sweep(self, now: int) -> None:
        """Handle what has waited long enough: stragglers, rows to release, deletions."""
        if self._stragglers:
            self._checkpoint_stragglers(now)
        while self._resting and self._resting[0][0] <= now:
            self.soft.release(self._resting.popleft()[1])
        self.pump(now)
        if self._delivered:
            self._delete_delivered(now)

    @property
    def lingers_until(self) -> int:
        """When steps that wait for others to share their write wait no longer; `MAX_TIME`: none does."""
        return self._linger_until if self.pace is _AWAITING_WAKE else MAX_TIME

    def next_due(self) -> int:
        """Return when `sweep` is next due, microseconds; `MAX_TIME`: nothing waits."""
        due_us, options = MAX_TIME, self.shared.options
        if self._stragglers:
            due_us = self._stragglers[0][0] + options.straggler_delay_us
        if self._resting:
            due_us = min(due_us, self._resting[0][0])
        if self._delivered:
            due_us = min(due_us, self._delivered_since + options.delete_delay_us)
        return due_us

    def set_clock_back(self, now: int) -> None:
        """See `ClockWaiter`."""
        options = self.shared.options
        self._stragglers = deque((min(sent, now), step) for sent, step in self._stragglers)
        self._delivered_since = min(self._delivered_since, now)
        self._linger_until = min(self._linger_until, now + options.commit_linger_us)
        self._move(PaceInput.CLOCK_SET_BACK)
        latest_us = now + options.user_code_retry_us
        self._resting = deque((min(until, latest_us), slot) for until, slot in self._resting)

    def _checkpoint_stragglers(self, now: int) -> None:
        """Checkpoint the un-ACKed productions of weak steps that have waited too long (Figure 11)."""
        delay_us, rules = self.shared.options.straggler_delay_us, self._rules
        while self._stragglers and rules.is_straggler(now - self._stragglers[0][0], delay_us):
            step = self._stragglers.popleft()[1]
            if step.state is not StepState.AWAITING_ACKS:
                continue
            late = self.sending.unacked(step)
            step.checkpoints = rules.checkpointed(late)
            for production in late:
                self.shared.record(
                    Checkpointed, self.soft.computation, production.record_id, production.consumer
                )
            step.advance(StepInput.STRAGGLING)
            self._committable.append(step)

    # Writes (6.1.1, 6.2)

    def _write(self, now: int) -> None:
        """Commit the next steps, along with pending deletions."""
        to_write, to_skip = [], []
        for step in self._next_batch():
            outcome = step.outcome
            changed = bool(outcome.touched or step.checkpoints or outcome.fired)
            if self._needs_write(changed, self.soft.exactly_once, bool(outcome.arrivals)):
                step.advance(_WRITE)
                to_write.append(step)
            else:
                step.advance(StepInput.SKIP_WRITE)
                to_skip.append(step)
        if to_skip:
            self.finish(now, to_skip)
        if not to_write and not self._delivered:
            return
        soft, store, written_of = self.soft, self.shared.store, self._written
        deltas = [written_of(step.delta(remember=soft.exactly_once)) for step in to_write]
        delivered, self._delivered = self._delivered, []
        self._writes += 1
        self._linger_until = now + self.shared.options.commit_linger_us
        room = self._writes < self._most_writes
        self._move(PaceInput.WROTE if room else PaceInput.WROTE_LAST)

        def written(now: int, reply: m.Reply) -> None:
            if isinstance(reply, m.Refused):
                self._on_refused()
                return
            self._writes -= 1
            self._move(PaceInput.ANSWERED)
            for step in to_write:
                step.advance(_WRITTEN)
                step.slot.stored = True
            self.finish(now, to_write)
            self.pump(now)

        deletions = tuple(delivered)
        request = m.Write(store.number(), soft.computation, soft.sequencer, tuple(deltas), deletions)
        store.ask(now, request, written, soft)

    def _next_batch(self) -> list[KeyStep]:
        """Take the steps to commit together."""
        committable, room = self._committable, self.batch
        steps: list[KeyStep] = []
        for step in committable:
            room -= len(step.outcome.arrivals) + len(step.outcome.fired)
            if room < 0 and steps:
                break
            steps.append(step)
        for _ in steps:
            committable.popleft()
        return steps

    def _delete_delivered(self, now: int) -> None:
        """Delete ACKed checkpoints that have waited long enough for a write to share."""
        options = self.shared.options
        due = now - self._delivered_since >= options.delete_delay_us
        if due and not self._committable and not self._ready and self.pace is not _AWAITING_ANSWER:
            self._write(now)

    def finish(self, now: int, steps: list[KeyStep]) -> None:
        """ACK the senders of steps that are durable, or need not be; then send the productions."""
        soft, sending = self.soft, self.sending
        for step in steps:
            soft.adopt(now, step)
        if soft.exactly_once:
            soft.remember(steps)
        if self._acks_after:
            sending.ack_steps(steps)
        for step in steps:
            slot = step.slot
            if self._taken is not None:
                self._taken.extend(step.outcome.productions)
            elif self._sends_after:
                for production in step.outcome.productions:
                    sending.send(now, production, slot)
            elif step.holders:
                self._settle_holders(now, step)
            for origin in step.held_origins:
                soft.accounts.release_origin(origin)
            soft.release(slot)

    def _settle_holders(self, now: int, step: KeyStep) -> None:
        """Note that the productions that a weak step checkpointed are durable now."""
        for production in step.checkpoints:
            holder = self.sending.holder_of(production, step)
            if holder is not None:
                holder.durable = True
                holder.step = None
            else:  # ACKed while the checkpoint was being written
                self.delete(now, step.slot.key, production)

    def acked(self, step: KeyStep) -> None:
        """Count down the productions that a weak step waits for: one was ACKed."""
        step.waiting -= 1
        if step.waiting == 0 and step.state is StepState.AWAITING_ACKS:
            self.complete(step)

    def delete(self, now: int, key: str, production: Production) -> None:
        """Delete a checkpoint that was ACKed with any write of the interval, whatever its key is doing."""
        if not self._delivered:
            self._delivered_since = now
            self.shared.sweep_at(now + self.shared.options.delete_delay_us)
        self._delivered.append((key, production.record_id, production.consumer))

    # What the interval says of it

    def clear(self) -> None:
        """Forget all that waits: the interval was dropped."""
        self._committable.clear()
        self._stragglers.clear()
        self._resting.clear()

    @property
    def failures(self) -> Mapping[str, int]:
        """How often user code has failed, by cause: a record, or a timer."""
        return self._failures

    @property
    def delivered(self) -> Sequence[tuple[str, str, str]]:
        """Checkpoints that are to be deleted: key, record id and consumer."""
        return self._delivered

    def to_be_committed(self) -> list[Production]:
        """Return the productions of steps that wait for a write."""
        return [production for step in self._committable for production in step.checkpoints]

    @property
    def under_way(self) -> int:
        """How many writes are unanswered, and how many checkpoints are to be deleted."""
        return self._writes + len(self._delivered)

    @property
    def unfinished(self) -> int:
        """How much is unfinished: writes, deletions, and steps to commit."""
        return self.under_way + len(self._committable)

    def check_invariants(self) -> None:
        """Assert what must hold between events."""
        assert 0 <= self._writes <= self._most_writes, (
            f"{self._writes} writes are under way, of at most {self._most_writes}"
        )
        assert (self.pace is _AWAITING_ANSWER) == (self._writes == self._most_writes), (
            f"the pace of writes is {self.pace.name} with {self._writes} of {self._most_writes} under way"
        )
        assert self.pace >= _AWAITING_WAKE or not (self._ready or self._committable), (
            "steps wait, and nothing will wake them"
        )
        assert all(self.soft.interval.contains(key) for key, _, _ in self._delivered), (
            "a foreign key has a checkpoint"
        )
