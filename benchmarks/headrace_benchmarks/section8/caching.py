"""Figure 16's load: rows that wait for the low watermark, and the CPU time of workers and store for it (MillWheel 8.3).

A row buffers what comes for its key until the low watermark passes the end of its window; then a timer fetches it, sends on what
it comes to, and clears it. What is in the worker's cache then need not be read from the store.

Rules of this file:

* CPU time is counted request by request at the store's door, from what each carries; nothing is drawn, and nothing fitted.
* Choice: windows are sessions. Each begins with its key's first record, so that rows come due one after the other, in the order
  in which they were written: the use that the paper calls hostile to LRU. Were one boundary common to all rows, as with fixed
  windows, the two policies would keep rows that are equally good.
* Choice: a key has one session, so that a row is dead once it was fetched. Those whose window has begun and not ended are the
  working set.
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
    """What rows cost the CPUs of workers and store, microseconds.

    The store's are from Bigtable's own evaluation (Chang et al., OSDI 2006, Section 7 and Figure 6): what one tablet server's CPU
    did in a second with rows of 1,000 bytes, as it says that the CPU was what limited it.

    Attributes:
        message: to take or send a message, at either end: that of the calibration for Figures 13 to 15.
        block: to fetch and unpack the block of 64 KiB that has the row: of 1,212 random reads a second each took 825, of which
            two messages and the bytes take 165.
        read_kb: to read a kilobyte that is at hand: 15,385 a second are scanned, many with one message.
        write_kb: to log and keep a kilobyte: of 8,850 random writes a second each took 113; half of them for the messages, which
            the server took together at times.
        code_kb: for a worker to read or write a kilobyte of wire format. Choice: 100 MB a second, usual for protocol buffers.
    """

    message: float = CALIBRATION.message_cpu_us
    block: float = 660.0
    read_kb: float = 65.0
    write_kb: float = 63.0
    code_kb: float = 10.0

    def of_read(self, size_bytes: int) -> float:
        """A row that is read: two messages, each sent and taken, its blocks, and its bytes at the store and at the worker."""
        blocks = max(-(-size_bytes // _BLOCK_BYTES), 1)
        return 4 * self.message + blocks * self.block + (self.read_kb + self.code_kb) * size_bytes / _KB

    def of_write(self, size_bytes: int) -> float:
        """A write, of one row or of several: likewise."""
        return 4 * self.message + (self.write_kb + self.code_kb) * size_bytes / _KB

    def of_delivery(self, size_bytes: int) -> float:
        """A record that a worker takes, or sends, and the ACK for it; the other end is not a worker."""
        return 2 * self.message + self.code_kb * size_bytes / _KB


COSTS = RowCosts()


@dataclass(frozen=True, slots=True)
class Buffering:
    """The load, and the cache.

    Attributes:
        cache_part: capacity of all caches together, as a part of the working set.
        eviction: the caches' policy.
        workers: processes, with an interval each.
        rows_a_second: sessions that begin.
        session_us: from a session's first record to its end, event time.
        records: of a session; the first opens it, the others come soon after one another.
        record_bytes: of each.
        sessions: how many lengths of a session are measured, after one that fills the caches.
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
        """State of the rows that wait at a time."""
        return self.rows_a_second * self.session_us // SECOND * self.records * self.record_bytes

    @property
    def cache_bytes(self) -> int:
        """Of one worker."""
        return round(self.cache_part * self.working_set_bytes / self.workers)


@dataclass(slots=True)
class Ledger:
    """CPU time that requests for rows took, microseconds, and how many rows were read."""

    cpu_us: float = 0.0
    reads: int = 0

    def take(self, request: Request, reply: Reply) -> None:
        """Add a request that was served."""
        if isinstance(reply, RowRead):
            self.reads += 1
            self.cpu_us += COSTS.of_read(_size_of(reply.row))
        elif isinstance(request, Write):
            self.cpu_us += COSTS.of_write(sum(map(_size_of, request.deltas)))


class _MeteredStore(Mediator):
    """The store's gatekeeper, with somebody at the door who writes down what comes and goes."""

    def __init__(self, ledger: Ledger, history: History, page_rows: int, rules: Rules) -> None:
        super().__init__(history, page_rows, rules)
        self._ledger = ledger

    def handle(self, request: Request) -> Reply:
        """Serve it, and write it down."""
        reply = super().handle(request)
        self._ledger.take(request, reply)
        return reply


class Session(Computation):
    """Buffers a session, and sends on how much it was when it has ended."""

    def __init__(self, session_us: int) -> None:
        self._session_us = session_us

    def initial_state(self) -> bytes:
        """Nothing yet."""
        return b""

    def process_record(self, context: Context, record: Record) -> None:
        """Keep it; the first one begins the session."""
        if not context.state:
            context.set_timer("end", record.timestamp + self._session_us)
        context.state += record.value

    def process_timer(self, context: Context, timer: Timer) -> None:
        """The session has ended."""
        del timer
        context.produce("sizes", len(context.state))
        context.clear_state()


@dataclass(frozen=True, slots=True)
class Load:
    """What one run took, in the time that is measured.

    Attributes:
        cpu_us: of workers and store, for each session that began.
        reads: rows read from the store, for each session that began.
    """

    cpu_us: float
    reads: float


_BEGIN_US = 2 * SECOND
"""All intervals are assigned by then."""
_RECORDS_APART_US = 100 * MILLISECOND
_PROMISE_US = 50 * MILLISECOND


def load_of(buffering: Buffering, seed: int) -> Load:
    """Run it."""
    pipeline = _pipeline(buffering)
    ledger = Ledger()
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
    return Load((ledger.cpu_us - cpu_us) / begun + _others_us(buffering), (ledger.reads - reads) / begun)


_SETTLED_US = SECOND
"""By then the first sessions have ended, whatever the watermark lags."""


def _others_us(buffering: Buffering) -> float:
    """What a session costs besides its row: its records arrive, and its size leaves."""
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
        Session(buffering.session_us),
        name="sessions",
        inputs=["records"],
        outputs=["sizes"],
        state_codec=BytesCodec(),
        split_at=[f"{part / buffering.workers:.6f}" for part in range(1, buffering.workers)],
    )
    return pipeline


def _feed(pipeline: Pipeline, buffering: Buffering, seed: int) -> Feed:
    """Sessions that begin one after the other, under keys that nobody has had before."""
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
