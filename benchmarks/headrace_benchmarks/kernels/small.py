"""Small kernels: knowing an id, writing and reading a record, and the memory of a key that nothing happens to."""

import gc
import tracemalloc
from zlib import crc32

import msgspec

from headrace import Computation, Context, EngineOptions, Eviction, Pipeline, Record
from headrace.wire import messages as m
from headrace.wire.effects import Wake
from headrace.wire.rows import Production
from headrace.worker.seen import SeenFilter
from headrace_benchmarks.kernels.loop import EngineLoop
from headrace_benchmarks.kernels.rounds import rate

# Membership: each id is asked for, found to be new, added, and asked for again. The engine adds the ids of a write when that is
# durable, all at once.

_IN_WRITE = 10
"""Records in a write: about as many as in the simulated deliveries; in a micro-batch on Spark there are many more."""


def filter_rate(ids: int) -> float:
    """Ids by CPU second through the engine's filter, fingerprints included."""
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
    """The same through a set of the ids, each a ``str`` that nobody has hashed yet, as they come from the wire."""
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


# Codecs: a record as it crosses a process boundary on Spark, packed with others into a parcel, beside a tuple by itself.

_RECORD = Production("numbers/3:1234567", "numbers", "sort", "04711", b"123456789", 1_234_567, 1_234_567)
_FIELDS = ("numbers/3:1234567", "numbers", "sort", "04711", b"123456789", 1_234_567, 1_234_567)
_IN_PARCEL = 100

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(tuple[str, str, str, str, bytes, int, int]).decode


def record_rate(records: int) -> float:
    """Records by CPU second, from production to bytes and back."""
    from headrace.spark.hosting.parcels import Parcel, decode_parcel, encode_parcel  # noqa: PLC0415  it may not be installed

    def run() -> None:
        for _ in range(records // _IN_PARCEL):
            parcel = Parcel()
            for _ in range(_IN_PARCEL):
                one = _RECORD
                parcel.records.append(
                    (one.stream, one.record_id, one.key, one.value, one.timestamp, one.origin)
                )
            for stream, record_id, key, value, timestamp, origin in decode_parcel(
                encode_parcel(parcel)
            ).records:
                Production(record_id, stream, "sort", key, value, timestamp, origin)

    return rate(records, run)


def tuple_rate(records: int) -> float:
    """The same of a tuple with the same fields."""

    def run() -> None:
        for _ in range(records):
            _decode(_encode(_FIELDS))

    return rate(records, run)


# Memory

_AT_ONCE = 1_000


class _Count(Computation):
    """Counts what it gets."""

    def initial_state(self) -> int:
        """Nothing yet."""
        return 0

    def process_record(self, context: Context, record: Record) -> None:  # noqa: ARG002  nothing but the key counts
        """One more."""
        context.state = context.state + 1


def _record(number: int) -> tuple[str, Production]:
    """The one record of a key."""
    return "worker-0", Production(
        f"source:{number}", "records", "count", f"{number:07d}", b"1", number, number
    )


def idle_key_bytes(keys: int) -> float:
    """Memory of a worker for a key whose row is in its cache and whose ids were collected, bytes."""
    pipeline = Pipeline("counts")
    pipeline.injector("records")
    pipeline.add(_Count(), name="count", inputs=["records"])
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
