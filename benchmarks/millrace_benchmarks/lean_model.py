"""The rich lean model: what a simulated delivery costs when nothing but the delivery is simulated.

MillWheel 6.1.1, 6.1.2, 6.2 and 4.5, reduced to their message pattern. It is the anchor of the wall-clock benchmarks: the
engine and its cluster are measured beside it, in one run, on one machine, and the ratio is what counts. Nothing here is
shared with them, and nothing is meant to be reused by them.

The pattern. Injectors send keyed records to the workers of stage 1; each of those produces one record, re-keyed, to the
workers of stage 2, which ends there. Each worker owns one key interval. A delivery, with its events on the kernel's heap:

1.  the record arrives: duplicate check by id; a key that is busy queues it; user code runs (``_on_record``)
2.  its commit arrives at the store: sequencer and row version are checked, then state, id and checkpointed production
    are one write (``_on_commit``)
3.  the store's reply arrives: the id is remembered, the sender is ACKed, the production is sent (``_on_committed``)
4.  the ACK arrives at the sender (``_on_ack``)
and, where the sender is a worker and so has a checkpoint to delete (strong productions):
5.  the deletion arrives at the store (``_on_delete``)
6.  its reply arrives (``_on_deleted``)

A record from an injector has the injector's tick in place of 5 and 6, which makes (5 + 6) / 2 = 5.5 events a delivery; what
the faults, the sweeps and the watermark reports add comes on top. No commit is shared by two records.

The rules that hold in the rich model (``run_rich``):

*   Each message, to the store and back too, is dropped, duplicated, delayed or left alone by one draw of one seeded stream.
*   Nobody but the sender of a record retries, until it is ACKed (and the checkpoint gone): a record that comes again while
    its commit is under way commits again, under the same row version and therefore with the same production id.
*   A commit or deletion that does not carry the latest sequencer of its key interval is rejected whole. The store mints a
    new one now and then; the worker hears of it a message later, and what it wrote in between is lost.
*   ``audit`` raises AssertionError if a record was lost or applied twice, if a checkpoint stayed behind, or if a record was
    older than the low watermark that had been announced to its receiver; the run itself does if it does not come to an end.

The bare model (``run_bare``) is the same pattern without faults, retries, watermarks, digest and audit.

Left out of both: recovery (a worker whose sequencer was replaced goes on with its memory, as if the interval had moved to
itself), and the collection of ids. Choice: the interval between two retries is constant, without backoff, because it is
what keeps a sender's unACKed records in the order in which they are due, so that a FIFO serves and no heap is needed.
"""

from __future__ import annotations

import random
import struct
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Any, Final, Protocol, TypeVar

from simpy import Environment, Event, Timeout

_A = TypeVar("_A")

# ---------------------------------------------------------------------------------------------------------------- public


class Kernel(Protocol):
    """An event loop on simulated time; events of one instant run in the order in which they were scheduled."""

    @property
    def now(self) -> int:
        """The simulated time in microseconds."""

    @property
    def heap_events(self) -> int:
        """How many events were put on the heap so far."""

    def call_later(self, delay_us: int, fn: Callable[[_A], None], arg: _A) -> None:
        """Call ``fn(arg)`` after ``delay_us`` (>= 0) microseconds of simulated time."""

    def run(self) -> None:
        """Run until no event is left."""


class HeapKernel:
    """The kernel with nothing in it: heapq and callbacks."""

    __slots__ = ("_heap", "heap_events", "now")

    def __init__(self) -> None:
        self.now = 0
        self.heap_events = 0
        self._heap: list[tuple[int, int, Callable[[Any], None], Any]] = []

    def call_later(self, delay_us: int, fn: Callable[[_A], None], arg: _A) -> None:
        """See ``Kernel``."""
        self.heap_events = order = self.heap_events + 1
        heappush(self._heap, (self.now + delay_us, order, fn, arg))

    def run(self) -> None:
        """See ``Kernel``."""
        heap = self._heap
        while heap:
            self.now, _, fn, arg = heappop(heap)
            fn(arg)


class SimpyKernel:
    """SimPy through its public API: a Timeout with a callback for each event; no process, no Store."""

    __slots__ = ("_env", "_fire", "heap_events", "now")

    def __init__(self) -> None:
        self.now = 0
        self.heap_events = 0
        self._env = Environment()
        self._fire = self._call

    def call_later(self, delay_us: int, fn: Callable[[_A], None], arg: _A) -> None:
        """See ``Kernel``."""
        self.heap_events += 1
        Timeout(self._env, delay_us, (fn, arg)).callbacks.append(self._fire)

    def run(self) -> None:
        """See ``Kernel``."""
        self._env.run()

    def _call(self, event: Event) -> None:
        self.now = self._env.now  # type: ignore[assignment]  # an int, as all delays are
        fn, arg = event.value  # type: ignore[misc]  # never None here
        fn(arg)


@dataclass(frozen=True, slots=True)
class LeanOptions:
    """What is simulated. Times are simulated microseconds, fault rates are probabilities for each message.

    Raises ValueError when a value does not fit.
    """

    seed: int = 0
    """Seed of the random streams: keys, latencies, faults."""
    records: int = 50_000
    """Records injected, in all; each is delivered twice, once in each stage."""
    workers: int = 200
    """Workers in all, half of them in each stage; even."""
    injectors: int = 20
    keys_per_worker: int = 100
    tick_us: int = 200
    """Between two records of one injector. The default keeps about 1,500 events pending."""
    latency_us: int = 500
    """The least that a message takes."""
    jitter_us: int = 1_000
    """What it takes on top, at most; uniform."""
    drop: float = 0.002
    duplicate: float = 0.002
    delay: float = 0.002
    delay_us: int = 150_000
    """What a delayed message takes on top, at most; uniform. Longer than ``retry_us``, so that remnants meet retries."""
    retry_us: int = 50_000
    """How long a sender waits for the ACK before it sends again."""
    report_us: int = 25_000
    """Between two watermark reports of one worker, and between two broadcasts."""
    mint_us: int = 10_000
    """Between two new sequencers, each for one interval drawn from all."""

    def __post_init__(self) -> None:
        if self.workers < 2 or self.workers % 2:
            raise ValueError(
                f"workers must be even and at least 2, as each stage gets one half, not {self.workers}"
            )
        for name in ("injectors", "keys_per_worker", "tick_us", "retry_us", "report_us", "mint_us"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        for name in ("records", "latency_us", "jitter_us", "delay_us", "drop", "duplicate", "delay"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative, not {getattr(self, name)}")
        if self.drop + self.duplicate + self.delay >= 1.0:
            raise ValueError(
                "drop + duplicate + delay must leave room for messages that arrive (sum below 1)"
            )


@dataclass(frozen=True, slots=True)
class Struck:
    """How often each hard case came up in a run. All zero in the bare model."""

    dropped: int = 0
    duplicated: int = 0
    delayed: int = 0
    retried: int = 0
    """Records and deletions that were sent again."""
    refused: int = 0
    """Arrivals of a record that had been applied."""
    queued: int = 0
    """Arrivals of a record whose key was busy with another."""
    rejected: int = 0
    """Commits and deletions whose sequencer was no longer the latest."""


@dataclass(frozen=True, slots=True)
class LeanResult:
    """What one run did and cost. Equal options give an equal digest, on either kernel and in every process."""

    deliveries: int
    """Records applied, in both stages; duplicates do not count."""
    heap_events: int
    cpu_seconds: float
    """CPU time of the event loop alone, in wall-clock seconds of this process; set-up and audit are not in it."""
    digest: str = ""
    """Hash of all (time, kind, id) in hexadecimal; empty in the bare model."""
    low_watermark_us: int = 0
    """Stage 2's low watermark as last broadcast; 0 in the bare model."""
    struck: Struck = Struck()

    @property
    def deliveries_per_second(self) -> float:
        """Deliveries by CPU second: simulated records, wall-clock seconds."""
        return self.deliveries / max(self.cpu_seconds, 1e-9)

    @property
    def heap_events_per_delivery(self) -> float:
        """The number that group commit and batching lower."""
        return self.heap_events / max(self.deliveries, 1)


def run_rich(options: LeanOptions, kernel: Kernel) -> LeanResult:
    """Run the rich lean model to its end on a fresh kernel, and audit it.

    Raises AssertionError if a record was lost or applied twice, or a watermark was wrong.

    >>> run_rich(LeanOptions(records=100, workers=4), HeapKernel()).deliveries
    200
    """
    model = RichModel(options, kernel)
    cpu_seconds = _run(kernel)
    model.audit()
    return LeanResult(
        deliveries=model.deliveries(),
        heap_events=kernel.heap_events,
        cpu_seconds=cpu_seconds,
        digest=model.digest(),
        low_watermark_us=model.broadcast[2],
        struck=Struck(**model.struck),
    )


def run_bare(options: LeanOptions, kernel: Kernel) -> LeanResult:
    """Run the bare model to its end on a fresh kernel; with a ``SimpyKernel`` it is *the* bare SimPy model.

    Of the options, those for faults, retries, watermarks and sequencers have no effect.
    """
    model = BareModel(options, kernel)
    cpu_seconds = _run(kernel)
    return LeanResult(model.deliveries(), kernel.heap_events, cpu_seconds)


def _run(kernel: Kernel) -> float:
    """The CPU seconds that it took."""
    began = time.process_time()
    kernel.run()
    return time.process_time() - began


# ------------------------------------------------------------------------------------------------------------------ data

# Compared by identity and without a repr: they refer to each other in rings.


@dataclass(slots=True, eq=False, repr=False)
class Process:
    """An injector (stage 0) or a worker with its key interval (stage 1 or 2)."""

    index: int
    stage: int
    sequencer: int = 0
    """The latest that it has heard of."""
    seen: set[int] = field(default_factory=set)
    """Ids of records that it has applied."""
    pending: dict[int, Record] = field(default_factory=dict)
    """What it sent and still owes, by id: not ACKed, or ACKed and the checkpoint not yet deleted."""
    unacked: deque[Record] = field(default_factory=deque)
    """The same, each record with its next retry, earliest first; settled ones stay until a sweep meets them."""
    sweeping: bool = False
    reported_us: int = 0
    """The low watermark that it reported last."""


@dataclass(slots=True, eq=False, repr=False)
class Row:
    """One key of one stage, as its worker holds it in memory."""

    index: int
    worker: Process
    version: int = 0
    """Of the last commit that the store confirmed."""
    total: int = 0
    """The user's state as of that version: the sum of the values of all records."""
    in_flight: Record | None = None
    """The record whose commit is under way: per key strictly one."""
    waiting: list[Record] = field(default_factory=list)


@dataclass(slots=True, eq=False, repr=False)
class Record:
    """A record on its way from its sender to the owner of its row."""

    id: int
    origin: int
    """The number of the injected record that it is or comes from: its value."""
    timestamp_us: int
    row: Row
    sender: Process
    source: Row | None
    """The row that produced it and holds its checkpoint; None if it was injected."""
    acked: bool = False
    due_us: int = 0
    """When its sender sends it again."""


@dataclass(slots=True, eq=False, repr=False)
class StoredRow:
    """One key of one stage, as the store holds it (MillWheel 6.2: one row, one write)."""

    version: int = 0
    total: int = 0
    seen: set[int] = field(default_factory=set)
    checkpoints: dict[int, Record] = field(default_factory=dict)


Commit = tuple[Record, int, int, int, Record | None]
"""(record, sequencer, row version, total, production): a tuple, because one is built for each delivery."""
Deletion = tuple[Record, Row, int]
"""(production whose checkpoint goes, row that holds it, sequencer)."""

_STAGES: Final = 2
_FOREVER_US: Final = 2**62
_PATIENCE: Final = 1_000
"""After the last injection, how many times ``retry_us`` may pass before a run counts as hung."""

# Kinds in the trace. Plain ints: an enum's members cost a second look-up in each handler.
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


def _processes(options: LeanOptions) -> tuple[list[Process], list[Process]]:
    """All injectors, and all workers: those of stage 1 first."""
    half = options.workers // _STAGES
    injectors = [Process(index, stage=0) for index in range(options.injectors)]
    return injectors, [Process(index, stage=1 + index // half) for index in range(options.workers)]


def _rows(options: LeanOptions, workers: list[Process]) -> list[Row]:
    """One row for each key; ``index // keys_per_worker`` is the interval, hence the worker."""
    per_worker = options.keys_per_worker
    return [Row(index, workers[index // per_worker]) for index in range(len(workers) * per_worker)]


def _production(record: Record, version: int, rows: list[Row], first_id: int) -> Record:
    """The same value under another key, of stage 2. Its id comes from the producing row's version, and so is unique."""
    half = len(rows) // 2
    target = rows[half + record.origin * 2_654_435_761 % half]
    source = record.row
    production_id = first_id + version * len(rows) + source.index
    return Record(production_id, record.origin, record.timestamp_us, target, source.worker, source)


# ------------------------------------------------------------------------------------------------------------ rich model


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
        self._open = options.records  # records not yet injected, or owed by some process
        last_tick_us = options.tick_us * (options.records // options.injectors + 1)
        self._deadline_us = last_tick_us + _PATIENCE * options.retry_us
        self.injectors, self.workers = _processes(options)
        self.rows = _rows(options, self.workers)
        # The store: by row, by interval; and what only the audit reads, by stage and origin.
        self.store = [StoredRow() for _ in self.rows]
        self.sequencers = [0] * len(self.workers)
        self.applied = [bytearray(options.records) for _ in range(1 + _STAGES)]
        self.too_old = 0
        # The watermark authority: by stage, the last report of each process, and what was broadcast.
        sizes = (len(self.injectors), len(self.workers), len(self.workers))
        self.reported = [[0] * size for size in sizes]
        self.broadcast = [0] * (1 + _STAGES)
        self.struck: Counter[str] = Counter()  # the fields of Struck; only rare events touch it
        self._start()

    def deliveries(self) -> int:
        """How many records were applied so far, in both stages."""
        return sum(stored.version for stored in self.store)

    def audit(self) -> None:
        """Raise AssertionError unless each record was applied once in each stage and nothing is left over."""
        for stage in (1, 2):
            counts = self.applied[stage]
            lost, once = counts.count(0), counts.count(1)
            assert not lost, f"stage {stage} lost {lost} records, the first is {counts.index(0)}"
            assert once == len(counts), f"stage {stage} applied {len(counts) - once} records more than once"
        self._audit_rows()
        owed = sum(len(process.pending) for process in (*self.injectors, *self.workers))
        assert not owed, f"{owed} records are still owed by their senders"
        assert not self.too_old, f"{self.too_old} records were older than their receivers' input watermark"

    def _audit_rows(self) -> None:
        """The states must say the same as the counts of ``audit``, which no handler reads."""
        half, total = len(self.store) // 2, self._options.records * (self._options.records - 1) // 2
        for rows in (self.store[:half], self.store[half:]):
            found = sum(stored.total for stored in rows)
            assert found == total, f"the states of one stage add up to {found}, not to {total}"
        for row, stored in zip(self.rows, self.store, strict=True):
            assert row.version == stored.version, (
                f"row {row.index}: the worker's memory is not what is stored"
            )
            assert len(stored.seen) == stored.version, f"row {row.index}: ids do not match the version"
            assert not stored.checkpoints, f"row {row.index}: checkpoints were never deleted"

    def digest(self) -> str:
        """The hash of the trace so far, in hexadecimal."""
        self._flush_trace()
        return self._hasher.hexdigest()

    # -- starting

    def _start(self) -> None:
        """Spread the periodic events over their periods, so that they do not come in bursts."""
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
        """Send a message, unless a fault strikes it: one draw says whether, one how long the message takes."""
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
        # Ids below `records` are the injectors'; productions have theirs from row and version, above it.
        self._trace.extend((now, _INJECTED, origin))
        self._owe(Record(origin, origin, now, row, injector, source=None))
        self._kernel.call_later(self._options.tick_us, self._on_tick, injector)

    def _owe(self, record: Record) -> None:
        """Send a record, and again until it is settled."""
        sender, retry_us = record.sender, self._options.retry_us
        sender.pending[record.id] = record
        record.due_us = self._kernel.now + retry_us
        sender.unacked.append(record)
        if not sender.sweeping:
            sender.sweeping = True
            self._kernel.call_later(retry_us, self._on_sweep, sender)
        self._send(self._on_record, record)

    def _on_sweep(self, sender: Process) -> None:
        """Send again what is due, and sleep until the first that is owed is due."""
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
        """Refuse what was applied, queue behind another record of the key, or take the step."""
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
            production = _production(record, version, self.rows, self._options.records)
        self._trace.extend((self._kernel.now, _STEPPED, record.id))
        self._send(self._on_commit, (record, worker.sequencer, version, total, production))

    def _on_committed(self, commit: Commit) -> None:
        """Remember the id, ACK, send the production, and go on with the key's next record."""
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
        """Apply the step as one write, unless its sequencer is stale; once, however often it comes."""
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
        """Nothing is written and nobody is told: the sender of the record, or of the deletion, comes again."""
        self.struck["rejected"] += 1
        self._trace.extend((self._kernel.now, _REJECTED, record.id))

    def _on_mint_due(self, _: None) -> None:
        """Invalidate the sequencer of one interval; the worker knows the new one a message later."""
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
        """Report the minimum of what the process owes and of its input watermark, as it was told it last.

        What it received and has not committed is still owed by the sender, and so is in the input watermark.
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
        if low_watermark_us > reported[process.index]:  # else it was overtaken by a later one
            reported[process.index] = low_watermark_us
            self._trace.extend((self._kernel.now, _REPORTED, low_watermark_us))

    def _on_broadcast_due(self, _: None) -> None:
        """Combine the reports of each stage; and hash the trace, which would grow without end."""
        half = len(self.workers) // 2
        self.broadcast[0] = min(self.reported[0])
        self.broadcast[1] = min(self.reported[1][:half])
        self.broadcast[2] = min(self.reported[2][half:])
        self._flush_trace()
        if self._open:
            assert self._kernel.now < self._deadline_us, f"{self._open} records are never settled"
            self._kernel.call_later(self._options.report_us, self._on_broadcast_due, None)

    def _flush_trace(self) -> None:
        """Hash bytes of one layout, not Python's ``hash``: the same on every machine and build."""
        self._hasher.update(struct.pack(f"<{len(self._trace)}q", *self._trace))
        self._trace.clear()


# ------------------------------------------------------------------------------------------------------------ bare model


class BareModel:
    """The same message pattern on a network that loses nothing, with nobody watching."""

    def __init__(self, options: LeanOptions, kernel: Kernel) -> None:
        self._kernel = kernel
        self._options = options
        self._draw = random.Random(f"bare {options.seed}").random
        self._latency_us = options.latency_us
        self._jitter_us = options.jitter_us
        self._injected = 0
        injectors, workers = _processes(options)
        self.rows = _rows(options, workers)
        self.store = [StoredRow() for _ in self.rows]
        self.sequencers = [0] * len(workers)
        for injector in injectors:
            kernel.call_later(options.tick_us * injector.index // len(injectors), self._on_tick, injector)

    def deliveries(self) -> int:
        """How many records were applied so far, in both stages."""
        return sum(stored.version for stored in self.store)

    def _send(self, fn: Callable[[_A], None], arg: _A) -> None:
        self._kernel.call_later(self._latency_us + int(self._draw() * self._jitter_us), fn, arg)

    def _on_tick(self, injector: Process) -> None:
        origin = self._injected
        if origin == self._options.records:
            return
        self._injected = origin + 1
        row = self.rows[int(self._draw() * (len(self.rows) // 2))]
        self._owe(Record(origin, origin, self._kernel.now, row, injector, source=None))
        self._kernel.call_later(self._options.tick_us, self._on_tick, injector)

    def _owe(self, record: Record) -> None:
        record.sender.pending[record.id] = record
        self._send(self._on_record, record)

    def _on_record(self, record: Record) -> None:
        row = record.row
        if record.id in row.worker.seen:
            self._send(self._on_ack, record)
        elif row.in_flight is None:
            row.in_flight = record
            self._step(record, row)
        else:
            row.waiting.append(record)

    def _step(self, record: Record, row: Row) -> None:
        worker, version, total = row.worker, row.version + 1, row.total + record.origin
        production = None
        if worker.stage == 1:
            production = _production(record, version, self.rows, self._options.records)
        self._send(self._on_commit, (record, worker.sequencer, version, total, production))

    def _on_commit(self, commit: Commit) -> None:
        record, sequencer, version, total, production = commit
        row = record.row
        if sequencer == self.sequencers[row.worker.index]:
            stored = self.store[row.index]
            stored.version = version
            stored.total = total
            stored.seen.add(record.id)
            if production is not None:
                stored.checkpoints[production.id] = production
            self._send(self._on_committed, commit)

    def _on_committed(self, commit: Commit) -> None:
        record, _, version, total, production = commit
        row = record.row
        row.version = version
        row.total = total
        row.in_flight = None
        row.worker.seen.add(record.id)
        self._send(self._on_ack, record)
        if production is not None:
            self._owe(production)
        if row.waiting:
            self._on_record(row.waiting.pop(0))

    def _on_ack(self, record: Record) -> None:
        if record.source is None:
            del record.sender.pending[record.id]
        else:
            self._send(self._on_delete, (record, record.source, record.sender.sequencer))

    def _on_delete(self, deletion: Deletion) -> None:
        record, source, sequencer = deletion
        if sequencer == self.sequencers[source.worker.index]:
            del self.store[source.index].checkpoints[record.id]
            self._send(self._on_deleted, record)

    def _on_deleted(self, record: Record) -> None:
        del record.sender.pending[record.id]
