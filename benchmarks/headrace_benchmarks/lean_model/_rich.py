"""The rich model: faults, retries, sequencers, watermarks, a trace and an audit. See the package's docstring for its rules."""

import random
import struct
from collections import Counter
from collections.abc import Callable
from hashlib import blake2b
from typing import Final, TypeVar

from headrace_benchmarks.lean_model._data import (
    STAGES,
    Commit,
    Deletion,
    Process,
    Record,
    Row,
    StoredRow,
    processes_of,
    production_of,
    rows_of,
)
from headrace_benchmarks.lean_model._kernels import Kernel
from headrace_benchmarks.lean_model._options import LeanOptions

_A = TypeVar("_A")

_FOREVER_US: Final = 2**62
_PATIENCE: Final = 1_000
"""A run counts as hung when ``retry_us`` has passed this many times after the last injection."""

# Kinds in the trace. Plain ints: an enum's members cost a second lookup in each handler.
_INJECTED: Final = 0
_REFUSED: Final = 1
_QUEUED: Final = 2
_STEPPED: Final = 3
_REJECTED: Final = 4
_APPLIED: Final = 5
_COMMITTED: Final = 6
_ACKED: Final = 7
_DELETED: Final = 8
_SETTLED: Final = 9
_RETRIED: Final = 10
_MINTED: Final = 11
_REPORTED: Final = 12


class RichModel:
    """The rich lean model: its state, one handler for each kind of event, and the audit."""

    def __init__(self, options: LeanOptions, kernel: Kernel) -> None:
        self._kernel = kernel
        self._options = options
        self._draw_key = random.Random(f"keys {options.seed}").random
        self._draw_fault = random.Random(f"faults {options.seed}").random
        self._draw_latency = random.Random(f"latencies {options.seed}").random
        self._fault_rate = options.drop + options.duplicate + options.delay
        self._latency_us = options.latency_us
        self._jitter_us = options.jitter_us
        self._trace: list[int] = []
        self._hasher = blake2b(digest_size=16)
        self._injected = 0
        self._open = options.records  # records that are not yet injected, or not settled
        last_tick_us = options.tick_us * (options.records // options.injectors + 1)
        self._deadline_us = last_tick_us + _PATIENCE * options.retry_us
        self.injectors, self.workers = processes_of(options)
        self.rows = rows_of(options, self.workers)
        # The store: by row, and by interval; read only by the audit: by stage and origin.
        self.store = [StoredRow() for _ in self.rows]
        self.sequencers = [0] * len(self.workers)
        self.applied = [bytearray(options.records) for _ in range(1 + STAGES)]
        self.too_old = 0
        # The watermark authority, by stage: the last report of each process, and the last broadcast.
        sizes = (len(self.injectors), len(self.workers), len(self.workers))
        self.reported = [[0] * size for size in sizes]
        self.broadcast = [0] * (1 + STAGES)
        self.struck: Counter[str] = Counter()  # the fields of Struck; only rare events touch it
        self._start()

    def deliveries(self) -> int:
        """Return the number of records applied so far, in both stages."""
        return sum(stored.version for stored in self.store)

    def audit(self) -> None:
        """Assert that each record was applied once in each stage, and nothing is left over."""
        for stage in (1, 2):
            counts = self.applied[stage]
            lost, once = counts.count(0), counts.count(1)
            assert not lost, f"stage {stage} lost {lost} records, the first is {counts.index(0)}"
            assert once == len(counts), f"stage {stage} applied {len(counts) - once} records more than once"
        self._audit_rows()
        owed = sum(len(process.pending) for process in (*self.injectors, *self.workers))
        assert not owed, f"{owed} records are not settled by their senders"
        assert not self.too_old, f"{self.too_old} records were older than their receivers' input watermark"

    def _audit_rows(self) -> None:
        """Assert that the states agree with the counts in ``audit``, which no handler reads."""
        half, total = len(self.store) // 2, self._options.records * (self._options.records - 1) // 2
        for rows in (self.store[:half], self.store[half:]):
            found = sum(stored.total for stored in rows)
            assert found == total, f"the states of one stage add up to {found}, not {total}"
        for row, stored in zip(self.rows, self.store, strict=True):
            assert row.version == stored.version, (
                f"row {row.index}: the worker's memory differs from the stored row"
            )
            assert len(stored.seen) == stored.version, f"row {row.index}: ids do not match the version"
            assert not stored.checkpoints, f"row {row.index}: checkpoints were never deleted"

    def digest(self) -> str:
        """Return the hash of the trace so far, hex."""
        self._flush_trace()
        return self._hasher.hexdigest()

    # -- starting

    def _start(self) -> None:
        """Schedule the periodic events, spread over their periods to avoid bursts."""
        options, call_later = self._options, self._kernel.call_later
        for injector in self.injectors:
            call_later(options.tick_us * injector.index // len(self.injectors), self._on_tick, injector)
        everyone = (*self.injectors, *self.workers)
        for place, process in enumerate(everyone):
            call_later(options.report_us * place // len(everyone), self._on_report_due, process)
        call_later(options.report_us, self._on_broadcast_due, None)
        call_later(options.mint_us, self._on_mint_due, None)

    # -- the network

    def _send(self, fn: Callable[[_A], None], arg: _A) -> None:
        """Send a message, unless a fault strikes it: one draw decides that, another one the latency."""
        draw = self._draw_fault()
        if draw < self._fault_rate:
            self._send_faulty(draw, fn, arg)
        else:
            self._kernel.call_later(self._latency_us + int(self._draw_latency() * self._jitter_us), fn, arg)

    def _send_faulty(self, draw: float, fn: Callable[[_A], None], arg: _A) -> None:
        options, struck = self._options, self.struck
        if draw < options.drop:
            struck["dropped"] += 1
            return
        delays_us = [self._latency_us + int(self._draw_latency() * self._jitter_us)]
        if draw < options.drop + options.duplicate:
            struck["duplicated"] += 1
            delays_us.append(self._latency_us + int(self._draw_latency() * self._jitter_us))
        else:
            struck["delayed"] += 1
            delays_us[0] += int(self._draw_fault() * options.delay_us)
        for delay_us in delays_us:
            self._kernel.call_later(delay_us, fn, arg)

    # -- the sender

    def _on_tick(self, injector: Process) -> None:
        """Inject one record, stamped with the time; the workers of stage 1 own the first half of the rows."""
        origin = self._injected
        if origin == self._options.records:
            return
        self._injected = origin + 1
        row = self.rows[int(self._draw_key() * (len(self.rows) // 2))]
        now = self._kernel.now
        # Ids below `records` belong to injectors; productions have larger ones, made from row and version.
        self._trace.extend((now, _INJECTED, origin))
        self._owe(Record(origin, origin, now, row, injector, source=None))
        self._kernel.call_later(self._options.tick_us, self._on_tick, injector)

    def _owe(self, record: Record) -> None:
        """Send a record, and retry until it is settled."""
        sender, retry_us = record.sender, self._options.retry_us
        sender.pending[record.id] = record
        record.due_us = self._kernel.now + retry_us
        sender.unacked.append(record)
        if not sender.sweeping:
            sender.sweeping = True
            self._kernel.call_later(retry_us, self._on_sweep, sender)
        self._send(self._on_record, record)

    def _on_sweep(self, sender: Process) -> None:
        """Send due records again, and sleep until the next one is due."""
        now, pending, unacked = self._kernel.now, sender.pending, sender.unacked
        while unacked:
            record = unacked[0]
            if record.id not in pending:
                unacked.popleft()
            elif record.due_us <= now:
                self._retry(record)
                unacked.rotate(-1)
            else:
                self._kernel.call_later(record.due_us - now, self._on_sweep, sender)
                return
        sender.sweeping = False

    def _retry(self, record: Record) -> None:
        self.struck["retried"] += 1
        now = self._kernel.now
        self._trace.extend((now, _RETRIED, record.id))
        record.due_us = now + self._options.retry_us
        if record.acked and record.source is not None:
            self._send(self._on_delete, (record, record.source, record.sender.sequencer))
        else:
            self._send(self._on_record, record)

    def _on_ack(self, record: Record) -> None:
        if record.acked:
            return
        record.acked = True
        self._trace.extend((self._kernel.now, _ACKED, record.id))
        if record.source is None:  # an injector has no checkpoint to delete
            del record.sender.pending[record.id]
            self._open -= 1
        else:
            self._send(self._on_delete, (record, record.source, record.sender.sequencer))

    def _on_deleted(self, record: Record) -> None:
        if record.sender.pending.pop(record.id, None) is not None:
            self._trace.extend((self._kernel.now, _SETTLED, record.id))
            self._open -= 1

    # -- the receiver

    def _on_record(self, record: Record) -> None:
        """Refuse an applied record, queue it behind another record of its key, or run the step."""
        row = record.row
        if record.id in row.worker.seen:
            self.struck["refused"] += 1
            self._trace.extend((self._kernel.now, _REFUSED, record.id))
            self._send(self._on_ack, record)
        elif row.in_flight is None or row.in_flight is record:
            row.in_flight = record
            self._step(record, row)
        else:
            self.struck["queued"] += 1
            self._trace.extend((self._kernel.now, _QUEUED, record.id))
            row.waiting.append(record)

    def _step(self, record: Record, row: Row) -> None:
        """Run user code (add the value to the row's total, produce it under another key) and commit."""
        worker, version, total = row.worker, row.version + 1, row.total + record.origin
        production = None
        if worker.stage == 1:
            production = production_of(record, version, self.rows, self._options.records)
        self._trace.extend((self._kernel.now, _STEPPED, record.id))
        self._send(self._on_commit, (record, worker.sequencer, version, total, production))

    def _on_committed(self, commit: Commit) -> None:
        """Remember the id, ACK the record, send the production, and continue with the key's next record."""
        record, _, version, total, production = commit
        row = record.row
        if version <= row.version:  # the reply to a commit that was sent twice
            return
        row.version = version
        row.total = total
        row.in_flight = None
        row.worker.seen.add(record.id)
        self._trace.extend((self._kernel.now, _COMMITTED, record.id))
        self._send(self._on_ack, record)
        if production is not None:
            self._open += 1
            self._owe(production)
        while row.waiting and row.in_flight is None:
            self._on_record(row.waiting.pop(0))

    # -- the store

    def _on_commit(self, commit: Commit) -> None:
        """Apply the step as one write, unless its sequencer is stale; apply repeated commits only once."""
        record, sequencer, version, total, production = commit
        row = record.row
        if sequencer != self.sequencers[row.worker.index]:
            self._reject(record)
            return
        stored = self.store[row.index]
        if version > stored.version:
            stored.version = version
            stored.total = total
            stored.seen.add(record.id)
            if production is not None:
                stored.checkpoints[production.id] = production
            stage = row.worker.stage
            self.applied[stage][record.origin] += 1
            if record.timestamp_us < self.broadcast[stage - 1]:
                self.too_old += 1
            self._trace.extend((self._kernel.now, _APPLIED, record.id))
        self._send(self._on_committed, commit)

    def _on_delete(self, deletion: Deletion) -> None:
        record, source, sequencer = deletion
        if sequencer != self.sequencers[source.worker.index]:
            self._reject(record)
            return
        self.store[source.index].checkpoints.pop(record.id, None)
        self._trace.extend((self._kernel.now, _DELETED, record.id))
        self._send(self._on_deleted, record)

    def _reject(self, record: Record) -> None:
        """Write nothing and reply nothing: the sender of the record, or of the deletion, will retry."""
        self.struck["rejected"] += 1
        self._trace.extend((self._kernel.now, _REJECTED, record.id))

    def _on_mint_due(self, _: None) -> None:
        """Invalidate the sequencer of one interval; its worker learns the new one a message later."""
        if self._open:
            worker = self.workers[int(self._draw_fault() * len(self.workers))]
            self.sequencers[worker.index] = sequencer = self.sequencers[worker.index] + 1
            self._trace.extend((self._kernel.now, _MINTED, worker.index))
            self._kernel.call_later(self._latency_us, self._on_minted, (worker, sequencer))
            self._kernel.call_later(self._options.mint_us, self._on_mint_due, None)

    def _on_minted(self, news: tuple[Process, int]) -> None:
        worker, sequencer = news
        worker.sequencer = sequencer

    # -- low watermarks

    def _on_report_due(self, process: Process) -> None:
        """Report the minimum of the process's pending records and its last known input watermark.

        Records that it received but has not committed are still pending at their sender, and so hold the input watermark.
        """
        if not self._open:
            return
        oldest_us = self._input_watermark_us(process)
        for record in process.pending.values():
            oldest_us = min(oldest_us, record.timestamp_us)
        assert oldest_us >= process.reported_us, f"the watermark of process {process.index} went back"
        process.reported_us = oldest_us
        self._send(self._on_report, (process, oldest_us))
        self._kernel.call_later(self._options.report_us, self._on_report_due, process)

    def _input_watermark_us(self, process: Process) -> int:
        if process.stage:
            return self.broadcast[process.stage - 1]
        return self._kernel.now if self._injected < self._options.records else _FOREVER_US

    def _on_report(self, report: tuple[Process, int]) -> None:
        process, low_watermark_us = report
        reported = self.reported[process.stage]
        if low_watermark_us > reported[process.index]:  # otherwise a later report overtook it
            reported[process.index] = low_watermark_us
            self._trace.extend((self._kernel.now, _REPORTED, low_watermark_us))

    def _on_broadcast_due(self, _: None) -> None:
        """Combine the reports of each stage, and hash the trace, which would otherwise grow without limit."""
        half = len(self.workers) // 2
        self.broadcast[0] = min(self.reported[0])
        self.broadcast[1] = min(self.reported[1][:half])
        self.broadcast[2] = min(self.reported[2][half:])
        self._flush_trace()
        if self._open:
            assert self._kernel.now < self._deadline_us, f"{self._open} records were never settled"
            self._kernel.call_later(self._options.report_us, self._on_broadcast_due, None)

    def _flush_trace(self) -> None:
        """Hash the trace in a fixed byte layout, which is the same on every machine and build, unlike Python's ``hash``."""
        self._hasher.update(struct.pack(f"<{len(self._trace)}q", *self._trace))
        self._trace.clear()
