"""Hours of skew between two sources, and what that buffers, with a limit on the skew and without (MillWheel 8.4).

One source is hours behind the other. The low watermark follows the one that is behind; what the other brings stays in windows
that are open. Event time runs many times faster than simulated time here, as when a backlog is worked off.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import correlation

from headrace import HOUR, MILLISECOND, MINUTE, SECOND, Computation, Context, Pipeline, Record, Timer
from headrace.history import Applied, History, Injected, Output, Published
from headrace.wire.effects import SourceRecord
from headrace_benchmarks.section8.experiment import Experiment, Sample
from headrace_benchmarks.section8.paper import PROPORTIONAL
from headrace_sim import ClusterOptions, Feed, FeedBuilder, simulate

LIMIT_US = HOUR
SKEW = "skew: newest record injected less low watermark, peak hours"
BUFFERED = "buffered in rows, peak kB"
WAITING = "waiting to be injected, peak kB"
UNLIMITED, LIMITED = "no limit", "limit of 1 h"
_HOURS = (1, 2, 4, 8)
_MORE_HOURS = 3
_HOUR_TAKES_US = 2 * SECOND
"""Simulated time for an hour of event time."""
_BEGIN_US = 2 * SECOND
_PROMISE_US = 50 * MILLISECOND
_WINDOW_US = 10 * MINUTE
_RECORDS_AN_HOUR = 60
_KEYS = 10
_VALUE_BYTES = 500


@dataclass(frozen=True, slots=True)
class Skewed:
    """What one run came to; bytes.

    Attributes:
        skew_us: event time, the most.
        buffered_bytes: in all rows, the most at a time.
        waiting_bytes: that had come and were not injected, the most at a time.
        windows: that ended.
    """

    skew_us: int
    buffered_bytes: int
    waiting_bytes: int
    windows: int


class Window(Computation):
    """Buffers the records of each window, and sends on how many there were when the watermark has passed its end."""

    def process_record(self, context: Context, record: Record) -> None:
        """Keep it."""
        end = record.timestamp // _WINDOW_US * _WINDOW_US + _WINDOW_US
        context.state.setdefault(str(end), []).append(record.value)
        context.set_timer(str(end), end)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """The window has ended."""
        context.produce("windows", len(context.state.pop(timer.tag)))


def run_skewed(hours: int, limit_us: int | None, seed: int) -> Skewed:
    """Run two sources of which one is so many hours behind."""
    pipeline = Pipeline("skew")
    pipeline.injector("prompt", skew_limit_us=limit_us)
    pipeline.injector("behind", skew_limit_us=limit_us)
    pipeline.add(Window(), name="windows of both", inputs=["prompt", "behind"], outputs=["windows"])
    feed = _feed(pipeline, hours, seed)
    history = simulate(pipeline, feed, options=ClusterOptions(), seed=seed)
    arrivals = [entry.at_us for entry in feed.entries if isinstance(entry.event, SourceRecord)]
    return Skewed(
        max(_skews(history)),
        max(_buffered(history)),
        _VALUE_BYTES * max(_waiting(arrivals, history)),
        sum(isinstance(event, Output) for event in history),
    )


def _feed(pipeline: Pipeline, hours: int, seed: int) -> Feed:
    """The prompt source tells what happens; the other one, what happened so many hours ago, and of that both tell all."""
    builder, draw = FeedBuilder(pipeline), random.Random(f"{seed}/skew")
    last_us = (hours + _MORE_HOURS) * HOUR
    for name, behind_us in (("prompt", 0), ("behind", hours * HOUR)):
        timestamp = 0.0
        while timestamp < last_us:
            builder.record(
                at_us=_when(int(timestamp) + behind_us),
                value="." * _VALUE_BYTES,
                timestamp=int(timestamp),
                key=str(draw.randrange(_KEYS)),
                injector=name,
            )
            timestamp += draw.expovariate(_RECORDS_AN_HOUR / HOUR)
        for at_us in range(_BEGIN_US, _when(last_us + behind_us), _PROMISE_US):
            promised_us = (at_us - _BEGIN_US) * HOUR // _HOUR_TAKES_US - behind_us
            builder.watermark(at_us=at_us, low_watermark=max(promised_us, 0), injector=name)
    return builder.build()


def _when(event_us: int) -> int:
    return _BEGIN_US + event_us * _HOUR_TAKES_US // HOUR


def _skews(history: History) -> Iterator[int]:
    """After each event, how far the newest record in the system is ahead of the windows' watermark."""
    newest_us = low_watermark = 0
    for event in history:
        if isinstance(event, Injected):
            newest_us = max(newest_us, *(one.timestamp for one in event.productions))
        elif isinstance(event, Published):
            known = dict(event.values).get("windows of both")
            low_watermark = max(low_watermark, known.low_watermark if known else 0)
        yield newest_us - low_watermark


def _buffered(history: History) -> Iterator[int]:
    """After each write, the bytes of all states."""
    states: dict[str, int] = {}
    total = 0
    for event in history:
        if isinstance(event, Applied) and event.delta.state is not None:
            key, size = event.delta.key, len(event.delta.state)
            total += size - states.get(key, 0)
            states[key] = size
            yield total


def _waiting(arrivals: Sequence[int], history: History) -> Iterator[int]:
    """After each record that was injected, how many had come and were not; and after the first that is not at once."""
    changes = [(at_us, 1) for at_us in arrivals]
    changes += [(event.at_us, -1) for event in history if isinstance(event, Injected)]
    waiting = 0
    for _, change in sorted(changes):
        waiting += change
        yield waiting


def sample(point: str, seed: int) -> Sample:
    """Run each number of hours, with the limit or without."""
    found = {hours: run_skewed(hours, LIMIT_US if point == LIMITED else None, seed) for hours in _HOURS}
    values: list[tuple[str, str, float]] = []
    for hours, one in found.items():
        place = f"{hours} h behind, {point}"
        values += [
            (place, SKEW, one.skew_us / HOUR),
            (place, BUFFERED, one.buffered_bytes / 1_000),
            (place, WAITING, one.waiting_bytes / 1_000),
        ]
    if point == UNLIMITED:
        buffered = [one.buffered_bytes for one in found.values()]
        values.append((point, PROPORTIONAL, correlation(_HOURS, buffered) ** 2))
    return Sample(point, seed, tuple(values))


EXPERIMENT = Experiment(
    "skew",
    "8.4, skew",
    "Hours of skew between two sources, with the injectors' limit and without",
    (UNLIMITED, LIMITED),
    (UNLIMITED, LIMITED),
    sample,
    "Skew and hours are event time. One source is hours behind the other, and what the other brings is buffered until the low"
    f" watermark passes the end of its window of {_WINDOW_US // MINUTE} minutes. With the limit, a record more than that ahead of"
    " the slowest low watermark is not injected yet, and what is buffered no longer follows the skew. It waits in its source;"
    " Headrace's injector reads on, and holds what waits in its own memory, as it must find the record that comes next in event"
    " time. The skew stays a little below the limit, as what is known of the watermark is a little old.",
    wide=True,
)
