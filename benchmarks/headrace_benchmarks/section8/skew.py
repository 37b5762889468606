"""Hours of skew between two sources, and the buffering that it causes, with and without a limit on the skew (MillWheel 8.4).

One source is hours behind the other. The low watermark follows the slower one; records of the other one stay in open windows.
Event time runs many times faster than simulated time here, as when a backlog is processed.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import correlation

from headrace import HOUR, MILLISECOND, MINUTE, SECOND, Computation, Context, Pipeline, Record, Timer
from headrace.history import Applied, History, Injected, Output, Published
from headrace.wire.effects import SourceRecord
from headrace_benchmarks.section8.experiment import Experiment, RunSample
from headrace_benchmarks.section8.paper import PROPORTIONAL
from headrace_sim import ClusterOptions, Feed, FeedBuilder, simulate

LIMIT_US = HOUR
SKEW = "newest injected record minus low watermark, peak hours"
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
    """The result of one run.

    Attributes:
        skew_us: peak skew, event time, microseconds.
        buffered_bytes: peak size of all rows.
        waiting_bytes: peak size of records that had arrived but were not injected.
        windows: number of windows that ended.
    """

    skew_us: int
    buffered_bytes: int
    waiting_bytes: int
    windows: int


class WindowSize(Computation):
    """Buffers the records of each window, and produces their number once the watermark has passed the window's end."""

    def process_record(self, context: Context, record: Record) -> None:
        """Buffer the record."""
        end = record.timestamp // _WINDOW_US * _WINDOW_US + _WINDOW_US
        context.state.setdefault(str(end), []).append(record.value)
        context.set_timer(str(end), end)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Produce the number of records in the window that has ended."""
        context.produce("windows", len(context.state.pop(timer.tag)))


def run_skewed(hours: int, limit_us: int | None, seed: int) -> Skewed:
    """Run two sources, one of which is this many hours behind."""
    pipeline = Pipeline("skew")
    pipeline.injector("prompt", skew_limit_us=limit_us)
    pipeline.injector("behind", skew_limit_us=limit_us)
    pipeline.add(WindowSize(), name="windows of both", inputs=["prompt", "behind"], outputs=["windows"])
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
    """Make the input: one source reports events as they happen, the other the same period of events, but hours later."""
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
    """Yield, after each event, how far the newest record in the system is ahead of the windows' watermark."""
    newest_us = low_watermark = 0
    for event in history:
        if isinstance(event, Injected):
            newest_us = max(newest_us, *(production.timestamp for production in event.productions))
        elif isinstance(event, Published):
            known = dict(event.values).get("windows of both")
            low_watermark = max(low_watermark, known.low_watermark if known else 0)
        yield newest_us - low_watermark


def _buffered(history: History) -> Iterator[int]:
    """Yield the total size of all states after each write, bytes."""
    states: dict[str, int] = {}
    total = 0
    for event in history:
        if isinstance(event, Applied) and event.delta.state is not None:
            key, size = event.delta.key, len(event.delta.state)
            total += size - states.get(key, 0)
            states[key] = size
            yield total


def _waiting(arrivals: Sequence[int], history: History) -> Iterator[int]:
    """Yield, after each arrival and each injection, how many records had arrived but were not injected."""
    changes = [(at_us, 1) for at_us in arrivals]
    changes += [(event.at_us, -1) for event in history if isinstance(event, Injected)]
    waiting = 0
    for _, change in sorted(changes):
        waiting += change
        yield waiting


def sample(point: str, seed: int) -> RunSample:
    """Run each number of hours, with or without the limit."""
    by_hours = {hours: run_skewed(hours, LIMIT_US if point == LIMITED else None, seed) for hours in _HOURS}
    values: list[tuple[str, str, float]] = []
    for hours, skewed in by_hours.items():
        place = f"{hours} h behind, {point}"
        values += [
            (place, SKEW, skewed.skew_us / HOUR),
            (place, BUFFERED, skewed.buffered_bytes / 1_000),
            (place, WAITING, skewed.waiting_bytes / 1_000),
        ]
    if point == UNLIMITED:
        buffered = [skewed.buffered_bytes for skewed in by_hours.values()]
        values.append((point, PROPORTIONAL, correlation(_HOURS, buffered) ** 2))
    return RunSample(point, seed, tuple(values))


EXPERIMENT = Experiment(
    "skew",
    "8.4, skew",
    "Hours of skew between two sources, with and without the injectors' limit",
    (UNLIMITED, LIMITED),
    (UNLIMITED, LIMITED),
    sample,
    "Skew and hours are event time. One source is hours behind the other, whose records are buffered until the low watermark"
    f" passes the end of their window of {_WINDOW_US // MINUTE} minutes. With the limit, a record that is further than the limit"
    " ahead of the slowest low watermark is not injected yet, and buffering no longer grows with the skew. The record waits in"
    " its source; Headrace's injector keeps reading, and keeps waiting records in its own memory, since it must find the next"
    " record in event time. The skew stays slightly below the limit, because the known watermark is slightly outdated.",
    wide=True,
)
