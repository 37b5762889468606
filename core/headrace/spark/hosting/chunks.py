"""Rows in Spark's state store (MillWheel 6.2, 7.1): stored in chunks of many rows, of which only the touched ones are unpacked.

Rules of this file:

* A call to Spark's state store costs as much as dozens of records, so rows are read and written in chunks. A chunk is written
  back only if one of its rows was touched, and untouched rows stay packed.
* The header of an interval records, for each chunk, how far its rows hold the watermark back and when their next timers are
  due. So chunks with nothing to do are not read at all.
* Chunks are divided as they grow; a key's chunk follows from its hash and the number of chunks.
* Where a percentile watermark follows an interval (7.2), the header also counts each chunk's pending timestamps.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Protocol
from zlib import crc32

import msgspec

from headrace.api.records import Clock
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.store.mediator import StoredRow
from headrace.watermarks.oldest_work import OldestWork
from headrace.wire.rows import StoredTimer, Version

ROWS_IN_CHUNK = 64
"""Average rows per chunk above which the number of chunks is doubled."""

Dues = tuple[int, int, int]
"""Where it holds the watermark (event time); when its next watermark timer (event time) and wall timer (wall time) are due."""

Buckets = tuple[tuple[int, int], ...]
"""Pending timestamps: event time, rounded down, and how many."""

NEVER = MAX_TIME + 1
"""Due time for "no timer": later than `MAX_TIME`, at which a timer can be set."""

_NOTHING_DUE = (MAX_TIME, NEVER, NEVER)


class IntervalStore(Protocol):
    """The part of Spark's state store that belongs to one key interval."""

    def is_begun(self) -> bool:
        """Return whether this task has already written the header: Spark may call an interval twice in a micro-batch."""
        ...

    def header(self) -> bytes | None:
        """Read the header."""
        ...

    def set_header(self, data: bytes | None) -> None:
        """Write the header; ``None``: remove it."""
        ...

    def chunk(self, number: int) -> bytes | None:
        """Read a chunk."""
        ...

    def set_chunk(self, number: int, data: bytes | None) -> None:
        """Write a chunk; ``None``: remove it."""
        ...

    def set_timer(self, before_ms: int | None, at_ms: int | None) -> None:
        """Ask Spark to call the interval when its watermark reaches ``at_ms``, and no longer at ``before_ms``."""
        ...


class WaitingRecords(msgspec.Struct, array_like=True, frozen=True):
    """Records in one chunk that wait to be injected.

    Attributes:
        earliest: their earliest timestamp, event time in microseconds.
        enters_at: the slowest low watermark at which the first of them may enter, event time in microseconds.
        records: how many they are.
    """

    earliest: int
    enters_at: int
    records: int


class IntervalHeader(msgspec.Struct, array_like=True):
    """What is known of an interval without reading its rows.

    Attributes:
        sequencer: of its last write.
        chunks: number of chunks, a power of two.
        rows: number of rows.
        low: its input's low watermark as last known, event time in microseconds.
        reported: its own low watermark, event time in microseconds; anything behind it is late, and holds nothing back (4.5).
        horizon: its input's horizon as last known, origin in microseconds.
        held: the event time at which, as its consumers last heard, it holds the watermark back, microseconds.
        timer_ms: its timer in Spark, event time in milliseconds.
        holds: by sender's group, how far that group holds its input back.
        horizons: by injector, its horizon.
        dues: by chunk, for chunks that have anything due.
        turns: number of micro-batches that processed it.
        records: number of records ever received.
        late_records: how many of them were behind its low watermark.
        outputs: number of records ever produced.
        newest: latest timestamp received, event time in microseconds.
        timers: number of pending timers.
        state_bytes: size of its chunks, bytes.
        hot_key: the key with the most records in the last micro-batch that had any for this interval.
        hot_records: how many it had.
        latest_records: how many that micro-batch had for this interval.
        dropped: number of elements ever dropped, if its computation counts them.
        pending: by chunk, its pending timestamps; ``None``: they have not been counted, because nobody wanted to know.
        upstream: by group that feeds it, that group's pending timestamps; only if it follows a percentile watermark.
        reached: by sender, the percentile watermark that it has reached, event time in microseconds.
        slowest: the slowest low watermark as last received, event time in microseconds.
        waiting: by the number of their chunk, the records that wait for it (8.4).
        told_to: the computations that know of ``held``.
        followers: the computations that know of its pending timestamps.
        generation: unused; earlier versions have stored it.
    """

    sequencer: int = 0
    chunks: int = 1
    rows: int = 0
    low: int = MIN_TIME
    reported: int = MIN_TIME
    horizon: int = MIN_TIME
    held: int = MAX_TIME
    timer_ms: int | None = None
    holds: dict[str, int] = {}
    horizons: dict[str, int] = {}
    dues: dict[int, Dues] = {}
    turns: int = 0
    records: int = 0
    late_records: int = 0
    outputs: int = 0
    newest: int = MIN_TIME
    timers: int = 0
    state_bytes: int = 0
    hot_key: str = ""
    hot_records: int = 0
    latest_records: int = 0
    dropped: int = 0
    pending: dict[int, Buckets] | None = None
    upstream: dict[str, Buckets] = {}
    reached: dict[str, int] = {}
    slowest: int = MIN_TIME
    waiting: dict[int, WaitingRecords] = {}
    generation: int = 0
    told_to: tuple[str, ...] = ()
    followers: tuple[str, ...] = ()


class _PackedTimer(msgspec.Struct, array_like=True, gc=False):
    tag: str
    timestamp: int
    wall: bool
    due: int
    overdue: bool
    hold: int | None
    sequencer: int
    number: int
    origin: int
    set_at: int


class _PackedRow(msgspec.Struct, array_like=True, gc=False):
    state: bytes
    hold: int | None
    timers: list[_PackedTimer]
    seen: dict[str, int]


_Entry = tuple[Dues | None, msgspec.Raw]

_encode = msgspec.msgpack.Encoder().encode
decode_header = msgspec.msgpack.Decoder(IntervalHeader).decode
_decode_chunk = msgspec.msgpack.Decoder(dict[str, _Entry]).decode
_decode_row = msgspec.msgpack.Decoder(_PackedRow).decode


def chunk_of(key: str, divisor: int, chunks: int) -> int:
    """Return the number of a key's chunk; for the divisor see `Chunks`."""
    return crc32(key.encode()) // divisor % chunks


def rows_of(chunk: bytes) -> Iterator[tuple[str, StoredRow]]:
    """Unpack all rows of a chunk, by key."""
    for key, (_, data) in _decode_chunk(chunk).items():
        yield key, _unpack(data)


class Chunks:
    """The rows of one interval.

    Args:
        store: where they are stored.
        divisor: number of intervals of the computation; the rest of the key's hash decides its chunk.
        bucket_us: width of the buckets in which pending timestamps are counted, microseconds; ``None``: they are not.
        header: its header, if it is not the stored one.
    """

    def __init__(
        self,
        store: IntervalStore,
        divisor: int,
        bucket_us: int | None = None,
        header: IntervalHeader | None = None,
    ) -> None:
        self._store = store
        self._divisor = divisor
        self._bucket_us = bucket_us
        data = store.header() if header is None else None
        self.header = header or (IntervalHeader() if data is None else decode_header(data))
        self._loaded: dict[int, dict[str, _Entry]] = {}
        self._sizes: dict[int, int] = {}
        self._timers: dict[str, int] = {}

    def row(self, key: str) -> StoredRow | None:
        """Read one row."""
        entry = self._chunk(self._number(key)).get(key)
        if entry is None:
            return None
        row = _unpack(entry[1])
        self._timers[key] = len(row.timers)
        return row

    def due(self, low: int, now: int) -> list[str]:
        """Return the keys with a timer that is due by the low watermark (event time) or by now (wall time), in order."""
        keys: list[str] = []
        for number, (_, watermark_due, wall_due) in sorted(self.header.dues.items()):
            if watermark_due <= low or wall_due <= now:
                for key, (dues, _row) in self._chunk(number).items():
                    if dues is not None and (dues[1] <= low or dues[2] <= now):
                        keys.append(key)
        keys.sort()
        return keys

    def dues(self) -> Dues:
        """Return the earliest dues of the whole interval."""
        return _earliest(self.header.dues.values())

    def pending(self) -> Buckets:
        """Return the pending timestamps of the whole interval."""
        if self.header.pending is None:
            self.header.pending = {}
            for number in self.header.dues:
                self._count_pending(number, self._chunk(number))
        return merged(self.header.pending.values())

    def write(self, rows: dict[str, StoredRow]) -> None:
        """Store these rows, each of them new or read before, and write the chunks that contain them."""
        touched: dict[int, dict[str, _Entry]] = {}
        for key, row in rows.items():
            number = self._number(key)
            chunk = touched.setdefault(number, self._chunk(number))
            before = len(chunk)
            if _is_empty(row):
                chunk.pop(key, None)
            else:
                chunk[key] = _pack(row, self.header.reported)
            self.header.rows += len(chunk) - before
            self.header.timers += len(row.timers) - self._timers.get(key, 0)
            self._timers[key] = len(row.timers)
        if self.header.rows > self.header.chunks * ROWS_IN_CHUNK:
            touched = self._divided(list(self.entries()))
        for number, chunk in touched.items():
            self._write_chunk(number, chunk)

    def entries(self) -> Iterator[tuple[str, _Entry]]:
        """Iterate over all rows, packed, by key."""
        for number in range(self.header.chunks):
            yield from self._chunk(number).items()

    def adopt(self, rows: dict[str, _Entry]) -> None:
        """Store packed rows of other intervals in this one, which has none."""
        self.header.rows = len(rows)
        for number, chunk in self._divided(rows.items()).items():
            self._write_chunk(number, chunk)
        for dues, data in rows.values():
            if dues is not None:
                self.header.timers += len(_unpack(data).timers)

    def write_header(self) -> None:
        """Write the header. Do this last, after all other writes to the interval."""
        self._store.set_header(_encode(self.header))

    def _number(self, key: str) -> int:
        return chunk_of(key, self._divisor, self.header.chunks)

    def _chunk(self, number: int) -> dict[str, _Entry]:
        entries = self._loaded.get(number)
        if entries is None:
            data = self._store.chunk(number)
            self._sizes[number] = 0 if data is None else len(data)
            entries = self._loaded[number] = {} if data is None else _decode_chunk(data)
        return entries

    def _divided(self, rows: Iterable[tuple[str, _Entry]]) -> dict[int, dict[str, _Entry]]:
        """Distribute all rows over as many chunks as they need by now."""
        while self.header.rows > self.header.chunks * ROWS_IN_CHUNK:
            self.header.chunks *= 2
        self._loaded = {number: {} for number in range(self.header.chunks)}
        for key, entry in rows:
            self._loaded[self._number(key)][key] = entry
        return self._loaded

    def _write_chunk(self, number: int, chunk: dict[str, _Entry]) -> None:
        dues = _earliest([entry[0] for entry in chunk.values() if entry[0] is not None])
        if dues == _NOTHING_DUE:
            self.header.dues.pop(number, None)
        else:
            self.header.dues[number] = dues
        if self._bucket_us is None:
            self.header.pending = None
        elif self.header.pending is not None:
            self._count_pending(number, chunk)
        data = _encode(chunk) if chunk else b""
        self.header.state_bytes += len(data) - self._sizes.get(number, 0)
        self._sizes[number] = len(data)
        self._store.set_chunk(number, data or None)

    def _count_pending(self, number: int, chunk: dict[str, _Entry]) -> None:
        """Count a chunk's pending timestamps, without late ones, as an interval's accounts do."""
        assert self._bucket_us is not None, "nobody wants to know"
        assert self.header.pending is not None, "they were counted before"
        work = OldestWork()
        for dues, data in chunk.values():
            if dues is not None:
                row = _unpack(data)
                held = (row.hold, *(timer.held for timer in row.timers.values() if timer.held is not None))
                for time_us in held:
                    if self.header.reported <= time_us < MAX_TIME:
                        work.add(time_us)
        self.header.pending[number] = work.buckets(self._bucket_us)
        if not self.header.pending[number]:
            del self.header.pending[number]


class MemoryStore:
    """Keeps an interval in memory."""

    def __init__(self, header: bytes | None = None, chunks: dict[int, bytes] | None = None) -> None:
        self._header = header
        self._chunks = dict(chunks or {})

    def image(self) -> tuple[bytes, dict[int, bytes]]:
        """Return header and chunks."""
        assert self._header is not None, "it was written"
        return self._header, self._chunks

    def is_begun(self) -> bool:
        """See `IntervalStore`. No other task writes here."""
        return True

    def header(self) -> bytes | None:
        """See `IntervalStore`."""
        return self._header

    def set_header(self, data: bytes | None) -> None:
        """See `IntervalStore`."""
        self._header = data

    def chunk(self, number: int) -> bytes | None:
        """See `IntervalStore`."""
        return self._chunks.get(number)

    def set_chunk(self, number: int, data: bytes | None) -> None:
        """See `IntervalStore`."""
        if data is None:
            self._chunks.pop(number, None)
        else:
            self._chunks[number] = data

    def set_timer(self, before_ms: int | None, at_ms: int | None) -> None:
        """See `IntervalStore`. Nobody calls it later."""


def merged(buckets: Iterable[Buckets]) -> Buckets:
    """Add up pending timestamps."""
    counts: Counter[int] = Counter()
    for times in buckets:
        counts.update(dict(times))
    return tuple(sorted(counts.items()))


def _earliest(dues: Iterable[Dues]) -> Dues:
    hold, watermark_due, wall_due = _NOTHING_DUE
    for due in dues:
        hold, watermark_due, wall_due = min(hold, due[0]), min(watermark_due, due[1]), min(wall_due, due[2])
    return hold, watermark_due, wall_due


def _is_empty(row: StoredRow) -> bool:
    return not (row.state or row.timers or row.seen) and row.hold == MAX_TIME


def _pack(row: StoredRow, reported: int) -> _Entry:
    assert not row.productions, "a query delivers its productions in the same micro-batch"
    timers = [
        _PackedTimer(
            timer.tag, timer.timestamp, timer.clock is Clock.WALL, timer.due, timer.overdue, timer.hold,
            timer.set_by.sequencer, timer.set_by.number, timer.origin, timer.set_at,
        )
        for timer in row.timers.values()
    ]  # fmt: skip
    hold = None if row.hold == MAX_TIME else row.hold
    packed = msgspec.Raw(_encode(_PackedRow(bytes(row.state), hold, timers, row.seen)))
    return (_dues(row, reported) if timers or hold is not None else None), packed


def _dues(row: StoredRow, reported: int) -> Dues:
    hold = row.hold if row.hold >= reported else MAX_TIME
    watermark_due = wall_due = NEVER
    for timer in row.timers.values():
        if timer.clock is Clock.WATERMARK:
            watermark_due = min(watermark_due, timer.due)
        else:
            wall_due = min(wall_due, timer.due)
            if timer.hold is not None and timer.hold >= reported:
                hold = min(hold, timer.hold)
    return hold, watermark_due, wall_due


def _unpack(data: msgspec.Raw) -> StoredRow:
    packed, row = _decode_row(data), StoredRow()
    row.state = packed.state
    row.hold = MAX_TIME if packed.hold is None else packed.hold
    row.seen = packed.seen
    for timer in packed.timers:
        clock = Clock.WALL if timer.wall else Clock.WATERMARK
        row.timers[timer.tag] = StoredTimer(
            timer.tag, timer.timestamp, clock, timer.due, timer.overdue, timer.hold, Version(timer.sequencer, timer.number),
            timer.origin, timer.set_at,
        )  # fmt: skip
    return row
