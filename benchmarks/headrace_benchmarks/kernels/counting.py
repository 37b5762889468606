"""A count by key and window, in one process: the engine beside the loop that one would write by hand.

Both get the same records, encoded, in the same order, and make the same counts, encoded. The loop knows nothing of failures: it
keeps its counts in a dict for each key, and tells a window when the watermark has passed it. The engine has one worker that owns
all keys; what it has been given is durable before more is given, with strong productions, exactly-once.
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
"""Event time between two records: a batch of them is one window long."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

Packed = tuple[str, bytes, int]
"""Key, encoded value, timestamp."""


def packed(records: int) -> list[Packed]:
    """The records, in order of time."""
    return [
        (f"{number * _STRIDE % _KEYS:04d}", _encode(number), number * _GAP_US) for number in range(records)
    ]


class _WindowedCount(Computation):
    """Counts records by window, and tells each count when the watermark has passed the window's end."""

    def process_record(self, context: Context, record: Record) -> None:
        """One more in its window."""
        end_us = (record.timestamp // WINDOW_US + 1) * WINDOW_US
        counts, window = context.state, str(end_us)
        if window in counts:
            counts[window] += 1
        else:
            counts[window] = 1
            context.set_timer(window, end_us)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """The window is complete."""
        context.produce("counts", context.state.pop(timer.tag))


def engine_rate(records: int) -> float:
    """Records by CPU second of the engine."""
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

    found = rate(records, run)
    assert loop.outputs == len(plain_counts(data)), "the engine has told other windows than the loop"
    return found


def _advance(loop: EngineLoop, low_watermark: int) -> None:
    loop.tell_all(m.Watermarks(0, (("records", m.Progress(low_watermark, low_watermark)),)))
    loop.settle()


def plain_rate(records: int) -> float:
    """Records by CPU second of the loop."""
    data = packed(records)
    return rate(records, lambda: plain_counts(data))


def plain_counts(records: list[Packed]) -> list[tuple[str, int, bytes]]:
    """The loop: (key, end of the window, encoded count) of each window."""
    counts: dict[str, dict[int, int]] = {}
    ends: list[tuple[int, str]] = []
    told: list[tuple[str, int, bytes]] = []
    for number, (key, value, at_us) in enumerate(records):
        if number % _BATCH == 0:
            _tell(counts, ends, told, at_us)
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
    _tell(counts, ends, told, MAX_TIME)
    return told


def _tell(
    counts: dict[str, dict[int, int]],
    ends: list[tuple[int, str]],
    told: list[tuple[str, int, bytes]],
    low_us: int,
) -> None:
    while ends and ends[0][0] <= low_us:
        end_us, key = heappop(ends)
        told.append((key, end_us, _encode(counts[key].pop(end_us))))
