"""Figure 16's load: rows that wait for the low watermark, and the CPU time of workers and store (MillWheel 8.3).

A row buffers its key's records until the low watermark passes the end of its window; then a timer fetches it, sends on its size,
and clears it. A row that is in the worker's cache at that time need not be read from the store.

Rules of this file:

* CPU time is computed from the size of each request to the store; nothing is random, and nothing is fitted.
* Choice: windows are sessions. Each begins with its key's first record, so rows become due one after the other, in the order in
  which they were written: the access pattern that the paper calls hostile to LRU. If all rows shared one boundary, as with fixed
  windows, both policies would keep equally useful rows.
* Choice: a key has only one session, so a row is not used again once it has been fetched. The rows whose window has begun but not
  ended are the working set.
"""

import random
from dataclasses import dataclass
from functools import partial

import msgspec

from headrace import (
    MILLISECOND,
    SECOND,
    BytesCodec,
    Computation,
    Context,
    EngineOptions,
    Eviction,
    Pipeline,
    Record,
    Timer,
)
from headrace.history import History
from headrace.rules import Rules
from headrace.store.mediator import Mediator
from headrace.wire.messages import Reply, Request, RowRead, Write
from headrace.wire.rows import RowDelta, RowImage
from headrace_benchmarks.section8.calibration import CALIBRATION
from headrace_sim import ClusterOptions, Feed, FeedBuilder, start
from headrace_sim.protocol import Protocol

_KB = 1_000
_BLOCK_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class RowCosts:
    """CPU time of workers and store for rows, microseconds.

    The store's costs are from Bigtable's own evaluation (Chang et al., OSDI 2006, Section 7 and Figure 6): the work of one tablet
    server per second with rows of 1,000 bytes, which the paper says was limited by the CPU.

    Attributes:
        message: sending or receiving a message, at either end: the value calibrated for Figures 13 to 15.
        block: fetching and unpacking the row's block of 64 KiB: at 1,212 random reads per second, each took 825, of which two
            messages and the bytes take 165.
        read_kb: reading a kilobyte in memory: 15,385 are scanned per second, many in one message.
        write_kb: logging and storing a kilobyte: at 8,850 random writes per second, each took 113, half of it for the messages,
            which the server sometimes handled together.
        code_kb: decoding or encoding a kilobyte of wire format in a worker. Choice: 100 MB per second, usual for protocol
            buffers.
    """

    message: float = CALIBRATION.message_cpu_us
    block: float = 660.0
    read_kb: float = 65.0
    write_kb: float = 63.0
    code_kb: float = 10.0

    def of_read(self, size_bytes: int) -> float:
        """Return the cost of reading a row: two messages, sent and received, its blocks, and its bytes at store and worker."""
        blocks = max(-(-size_bytes // _BLOCK_BYTES), 1)
        return 4 * self.message + blocks * self.block + (self.read_kb + self.code_kb) * size_bytes / _KB

    def of_write(self, size_bytes: int) -> float:
        """Return the cost of writing one or several rows: two messages, sent and received, and the bytes at store and worker."""
        return 4 * self.message + (self.write_kb + self.code_kb) * size_bytes / _KB

    def of_delivery(self, size_bytes: int) -> float:
        """Return a worker's cost of receiving or sending a record and its ACK; the other end is not a worker."""
        return 2 * self.message + self.code_kb * size_bytes / _KB


COSTS = RowCosts()


@dataclass(frozen=True, slots=True)
class Buffering:
    """The load and the cache.

    Attributes:
        cache_part: total capacity of all caches, as a fraction of the working set.
        eviction: the caches' policy.
        workers: number of workers, each with one interval.
        rows_a_second: number of sessions that begin per second.
        session_us: time from a session's first record to its end, event time, microseconds.
        records: number of records in a session; the first opens it, the others follow soon.
        record_bytes: size of a record.
        sessions: duration of the measurement in session lengths, after one that fills the caches.
    """

    cache_part: float
    eviction: Eviction = Eviction.BOUNDARY
    workers: int = 4
    rows_a_second: int = 250
    session_us: int = 4 * SECOND
    records: int = 1
    record_bytes: int = 5_500
    sessions: int = 1

    @property
    def working_set_bytes(self) -> int:
        """Size of the state of all rows that wait at one time."""
        return self.rows_a_second * self.session_us // SECOND * self.records * self.record_bytes

    @property
    def cache_bytes(self) -> int:
        """Capacity of one worker's cache."""
        return round(self.cache_part * self.working_set_bytes / self.workers)


@dataclass(slots=True)
class ReadCosts:
    """CPU time of requests for rows, microseconds, and the number of rows read."""

    cpu_us: float = 0.0
    reads: int = 0

    def take(self, request: Request, reply: Reply) -> None:
        """Add the cost of a served request."""
        if isinstance(reply, RowRead):
            self.reads += 1
            self.cpu_us += COSTS.of_read(_size_of(reply.row))
        elif isinstance(request, Write):
            self.cpu_us += COSTS.of_write(sum(map(_size_of, request.deltas)))


class _MeteredStore(Mediator):
    """A mediator that records the cost of each request."""

    def __init__(self, ledger: ReadCosts, history: History, page_rows: int, rules: Rules) -> None:
        super().__init__(history, page_rows, rules)
        self._ledger = ledger

    def handle(self, request: Request) -> Reply:
        """Serve a request, and record its cost."""
        reply = super().handle(request)
        self._ledger.take(request, reply)
        return reply


class SessionBuffer(Computation):
    """Buffers a session, and produces its size when it has ended."""

    def __init__(self, session_us: int) -> None:
        self._session_us = session_us

    def initial_state(self) -> bytes:
        """Return an empty session."""
        return b""

    def process_record(self, context: Context, record: Record) -> None:
        """Buffer the record; the first one begins the session."""
        if not context.state:
            context.set_timer("end", record.timestamp + self._session_us)
        context.state += record.value

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Produce the size of the session that has ended."""
        del timer
        context.produce("sizes", len(context.state))
        context.clear_state()


@dataclass(frozen=True, slots=True)
class MeasuredLoad:
    """The load of one run during the measurement.

    Attributes:
        cpu_us: CPU time of workers and store per session, microseconds.
        reads: rows read from the store per session.
    """

    cpu_us: float
    reads: float


_BEGIN_US = 2 * SECOND
"""All intervals are assigned by then."""
_RECORDS_APART_US = 100 * MILLISECOND
_PROMISE_US = 50 * MILLISECOND


def load_of(buffering: Buffering, seed: int) -> MeasuredLoad:
    """Run a load, and measure it."""
    pipeline = _pipeline(buffering)
    ledger = ReadCosts()
    protocol = Protocol("metered", mediator=partial(_MeteredStore, ledger))
    cluster = start(
        pipeline, _feed(pipeline, buffering, seed), options=_options(buffering), seed=seed, protocol=protocol
    )
    measured_us = buffering.sessions * buffering.session_us
    first_us = _BEGIN_US + buffering.session_us + _SETTLED_US
    cluster.run_until(first_us)
    cpu_us, reads = ledger.cpu_us, ledger.reads
    cluster.run_until(first_us + measured_us)
    begun = buffering.rows_a_second * measured_us / SECOND
    return MeasuredLoad(
        (ledger.cpu_us - cpu_us) / begun + _others_us(buffering), (ledger.reads - reads) / begun
    )


_SETTLED_US = SECOND
"""Time by which the first sessions have ended, despite the watermark's lag."""


def _others_us(buffering: Buffering) -> float:
    """Return a session's cost apart from its row: its records arrive, and its size is sent."""
    return buffering.records * COSTS.of_delivery(buffering.record_bytes) + COSTS.of_delivery(0)


def _size_of(row: RowDelta | RowImage | None) -> int:
    return 0 if row is None else len(_ENCODER.encode(row))


_ENCODER = msgspec.msgpack.Encoder()


def _options(buffering: Buffering) -> ClusterOptions:
    engine = EngineOptions(
        balance_period_us=0, cache_bytes=buffering.cache_bytes, eviction=buffering.eviction
    )
    return ClusterOptions(workers=buffering.workers, engine=engine)


def _pipeline(buffering: Buffering) -> Pipeline:
    pipeline = Pipeline("sessions")
    pipeline.stream("records", BytesCodec())
    pipeline.injector("source", outputs=["records"])
    pipeline.add(
        SessionBuffer(buffering.session_us),
        name="sessions",
        inputs=["records"],
        outputs=["sizes"],
        state_codec=BytesCodec(),
        split_at=[f"{part / buffering.workers:.6f}" for part in range(1, buffering.workers)],
    )
    return pipeline


def _feed(pipeline: Pipeline, buffering: Buffering, seed: int) -> Feed:
    """Make sessions that begin one after the other, each under a new key."""
    builder, draw = FeedBuilder(pipeline), random.Random(f"{seed}/caching")
    end_us = _BEGIN_US + _SETTLED_US + (buffering.sessions + 1) * buffering.session_us
    value, at = bytes(buffering.record_bytes), float(_BEGIN_US)
    while at < end_us:
        key = f"{draw.random():.12f}"
        for number in range(buffering.records):
            at_us = int(at) + number * _RECORDS_APART_US
            builder.record(at_us=at_us, value=value, timestamp=at_us, key=key)
        at += draw.expovariate(buffering.rows_a_second / SECOND)
    for at_us in range(_BEGIN_US, end_us, _PROMISE_US):
        builder.watermark(at_us=at_us, low_watermark=at_us)
    return builder.build()
