"""Small kernels: recognizing an id, encoding and decoding a record, and the memory of an idle key."""

import gc
import tracemalloc
from zlib import crc32

import msgspec

from headrace import EngineOptions, Eviction, Pipeline
from headrace.wire import messages as m
from headrace.wire.effects import Wake
from headrace.wire.rows import Production
from headrace.worker.seen import SeenFilter
from headrace_benchmarks.kernels.loop import EngineLoop
from headrace_benchmarks.kernels.rounds import rate
from headrace_benchmarks.shuffle import KeySum

# Membership: each id is looked up, found to be new, added, and looked up again. The engine adds all ids of a write at once, when
# the write is durable.

_IN_WRITE = 10
"""The number of records per write: about as many as in the simulated deliveries; micro-batches on Spark have many more."""


def filter_rate(ids: int) -> float:
    """Return the ids per CPU second of the engine's filter, including fingerprints."""
    options = EngineOptions()
    names, again = _names(ids), _names(ids)
    writes = [names[first : first + _IN_WRITE] for first in range(0, ids, _IN_WRITE)]

    def run() -> None:
        seen = SeenFilter(options.bloom_capacity, options.bloom_error)
        for number, write in enumerate(writes):
            prints = []
            newest_origin = -1
            for origin, name in enumerate(write, number * _IN_WRITE):
                print_ = crc32(name.encode())  # as in `OwnedInterval.deliver`
                if print_ not in seen.known:
                    prints.append(print_)
                    if origin > newest_origin:  # noqa: PLR1730  as in `Commits`
                        newest_origin = origin
            seen.add_all(prints, newest_origin)
        for name in again:
            _ = crc32(name.encode()) in seen.known

    return rate(ids, run)


def set_rate(ids: int) -> float:
    """Return the ids per CPU second of a set; each id is a ``str`` without a cached hash, as if it came from the wire."""
    names, again = _names(ids), _names(ids)

    def run() -> None:
        seen: set[str] = set()
        for name in names:
            if name not in seen:
                seen.add(name)
        for name in again:
            _ = name in seen

    return rate(ids, run)


def _names(ids: int) -> list[str]:
    return [f"numbers/3:{number}" for number in range(ids)]


# Codecs: a record that crosses a process boundary on Spark, in a parcel with others, compared with a single tuple.

_RECORD = Production("numbers/3:1234567", "numbers", "sort", "04711", b"123456789", 1_234_567, 1_234_567)
_FIELDS = ("numbers/3:1234567", "numbers", "sort", "04711", b"123456789", 1_234_567, 1_234_567)
_IN_PARCEL = 100

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, str, str, str, bytes, int, int]).decode


def record_rate(records: int) -> float:
    """Return the records per CPU second, from production to bytes and back."""
    from headrace.spark.hosting.parcels import Parcel, decode_parcel, encode_parcel  # noqa: PLC0415  it may not be installed

    def run() -> None:
        for _ in range(records // _IN_PARCEL):
            parcel = Parcel()
            for _ in range(_IN_PARCEL):
                record = _RECORD
                parcel.records.append(
                    (
                        record.stream,
                        record.record_id,
                        record.key,
                        record.value,
                        record.timestamp,
                        record.origin,
                    )
                )
            for stream, record_id, key, value, timestamp, origin in decode_parcel(
                encode_parcel(parcel)
            ).records:
                Production(record_id, stream, "sort", key, value, timestamp, origin)

    return rate(records, run)


def tuple_rate(records: int) -> float:
    """Return the records per CPU second for a tuple with the same fields."""

    def run() -> None:
        for _ in range(records):
            _decode(_encode(_FIELDS))

    return rate(records, run)


# Memory

_AT_ONCE = 1_000


def _record(number: int) -> tuple[str, Production]:
    """Make a key's only record."""
    return "worker-0", Production(
        f"source:{number}", "records", "count", f"{number:07d}", b"1", number, number
    )


def idle_key_bytes(keys: int) -> float:
    """Return a worker's memory per key whose row is in the cache and whose ids were collected, bytes."""
    pipeline = Pipeline("counts")
    pipeline.injector("records")
    pipeline.add(KeySum(), name="count", inputs=["records"])
    tracemalloc.start()
    try:
        loop = EngineLoop(pipeline, 1, EngineOptions(cache_bytes=1 << 40, eviction=Eviction.LRU))
        for first in range(0, keys, _AT_ONCE):
            loop.deliver(map(_record, range(first, min(first + _AT_ONCE, keys))))
        loop.tell_all(m.Watermarks(0, (("records", m.Progress(keys, 10 * keys + 10**9)),)))
        loop.now_us += EngineOptions().collect_period_us
        loop.tell_all(Wake())
        loop.settle()
        worker = loop.dismiss()
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        del worker
        gc.collect()
        return (before - tracemalloc.get_traced_memory()[0]) / keys
    finally:
        tracemalloc.stop()
