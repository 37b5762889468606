"""A count by key and window, in one process: the engine compared with a hand-written loop.

Both get the same encoded records in the same order, and produce the same encoded counts. The loop does not handle failures: it
keeps its counts in a dict for each key, and outputs a window once the watermark has passed it. The engine has one worker that
owns all keys, with strong productions and exactly-once; each batch of input is durable before the next one begins.
"""

from heapq import heappop, heappush

import msgspec

from headrace import MAX_TIME, SECOND, Computation, Context, EngineOptions, Pipeline, Record, Timer
from headrace.wire import messages as m
from headrace.wire.rows import Production
from headrace_benchmarks.kernels.loop import EngineLoop
from headrace_benchmarks.kernels.rounds import rate

WINDOW_US = 10 * SECOND
_KEYS = 1_000
_STRIDE = 617
_BATCH = 10_000
"""Records between two advances of the watermark."""
_GAP_US = 1_000
"""Event time between two records, microseconds: a batch is one window long."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

Packed = tuple[str, bytes, int]
"""Key, encoded value, timestamp."""


def packed(records: int) -> list[Packed]:
    """Make the records, ordered by time."""
    return [
        (f"{number * _STRIDE % _KEYS:04d}", _encode(number), number * _GAP_US) for number in range(records)
    ]


class _WindowedCount(Computation):
    """Counts records by window, and produces each count once the watermark has passed the window's end."""

    def process_record(self, context: Context, record: Record) -> None:
        """Increase the count of the record's window."""
        end_us = (record.timestamp // WINDOW_US + 1) * WINDOW_US
        counts, window = context.state, str(end_us)
        if window in counts:
            counts[window] += 1
        else:
            counts[window] = 1
            context.set_timer(window, end_us)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Produce the count of a complete window."""
        context.produce("counts", context.state.pop(timer.tag))


def engine_rate(records: int) -> float:
    """Return the engine's records per CPU second."""
    pipeline = Pipeline("counts")
    pipeline.injector("records")
    pipeline.add(_WindowedCount(), name="count", inputs=["records"], outputs=["counts"])
    loop = EngineLoop(pipeline, 1, EngineOptions(commit_batch=1 << 30, commits_in_flight=1))
    data = packed(records)

    def run() -> None:
        for first in range(0, records, _BATCH):
            batch = data[first : first + _BATCH]
            loop.deliver_at_once(
                "worker-0",
                (
                    Production(f"source:{number}", "records", "count", key, value, at_us, at_us)
                    for number, (key, value, at_us) in enumerate(batch, first)
                ),
            )
            _advance(loop, batch[-1][2] + 1)
        _advance(loop, MAX_TIME)

    per_second = rate(records, run)
    assert loop.outputs == len(plain_counts(data)), "engine and loop have different numbers of windows"
    return per_second


def _advance(loop: EngineLoop, low_watermark: int) -> None:
    loop.tell_all(m.Watermarks(0, (("records", m.Progress(low_watermark, low_watermark)),)))
    loop.settle()


def plain_rate(records: int) -> float:
    """Return the loop's records per CPU second."""
    data = packed(records)
    return rate(records, lambda: plain_counts(data))


def plain_counts(records: list[Packed]) -> list[tuple[str, int, bytes]]:
    """Run the loop; return (key, end of the window, encoded count) of each window."""
    counts: dict[str, dict[int, int]] = {}
    ends: list[tuple[int, str]] = []
    closed: list[tuple[str, int, bytes]] = []
    for number, (key, value, at_us) in enumerate(records):
        if number % _BATCH == 0:
            _tell(counts, ends, closed, at_us)
        _decode(value)
        windows = counts.get(key)
        if windows is None:
            windows = counts[key] = {}
        end_us = (at_us // WINDOW_US + 1) * WINDOW_US
        if end_us in windows:
            windows[end_us] += 1
        else:
            windows[end_us] = 1
            heappush(ends, (end_us, key))
    _tell(counts, ends, closed, MAX_TIME)
    return closed


def _tell(
    counts: dict[str, dict[int, int]],
    ends: list[tuple[int, str]],
    closed: list[tuple[str, int, bytes]],
    low_us: int,
) -> None:
    while ends and ends[0][0] <= low_us:
        end_us, key = heappop(ends)
        closed.append((key, end_us, _encode(counts[key].pop(end_us))))
