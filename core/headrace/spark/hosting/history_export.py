"""The History of a run on Spark (DESIGN 4): in the vocabulary of every host, so that the same checkers judge it.

Rules of this file:

* Events travel with the outputs, so, like the outputs, they count only if their micro-batch is committed.
* Intervals on Spark divide the keys by hash. The History prefixes each key with the number of its interval, ``0003/riva``, so
  that each interval is a range of the prefixed keys.
* Within a micro-batch the operators run one after the other, and the intervals of a level independently of each other. The
  History orders their events like this: what was read; then, level by level, all deliveries followed by everything that the
  watermark's advance caused. Last come the deletions of checkpoints, because a batch's productions are delivered when it is
  committed, and the published watermarks.
* Recovery scans are left out: on Spark each batch reads only the rows that it needs.
* Choice: causes are left unknown (`headrace.causes`). Spark moves whole partitions between the operators, so an interval's events
  depend on all that its senders did in the batches before: recorded as such, everything would have caused everything.
"""

from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import attrgetter

import msgspec

from headrace.api.pipeline import Pipeline
from headrace.api.specs import OUTSIDE
from headrace.api.time import MAX_TIME, MIN_TIME
from headrace.delivery.routing import OUTSIDE_ADDRESS
from headrace.history import (
    Acked,
    AckSent,
    Applied,
    CheckpointsDeleted,
    DeadLettered,
    Delivered,
    DuplicateDropped,
    Event,
    Executed,
    History,
    IdsCollected,
    Injected,
    InjectorReported,
    IntervalDropped,
    IntervalMinted,
    KeysSampled,
    Output,
    ProcessStarted,
    Published,
    Reported,
    RoleClaimed,
    RunEnded,
    ScanBegun,
    ScanEnded,
    UserCodeFailed,
    WriteRefused,
)
from headrace.spark.hosting.history_sample import Sample
from headrace.spark.hosting.layout import BatchContext, JobPlan, computation_of, number_of
from headrace.wire.keys import KeyInterval
from headrace.wire.messages import Progress
from headrace.wire.rows import Production

_LEFT_OUT = (RoleClaimed, ProcessStarted, ScanBegun, ScanEnded, Reported)
"""Events of the host's stand-ins for other processes, and events that do not apply on Spark."""


class IntervalEvents(msgspec.Struct, array_like=True, gc=False):
    """Some events of one interval in one micro-batch, in order.

    Attributes:
        batch: number of the micro-batch.
        level: level of the operator; -1: the sources.
        advanced: whether the events came after the watermark advanced.
        group: the interval, or the partition of the sources.
        at_us: wall time of the batch, microseconds.
        low_watermark: Spark's, event time in microseconds.
        held: where the interval holds the low watermark from now on, event time in microseconds.
        events: the events.
        fraction: the sampled fraction of the keys.
        percentile: percentage that the interval follows; 100: the low watermark.
        reached: by sender, the percentile watermark that the interval has reached, event time in microseconds.
    """

    batch: int
    level: int
    advanced: bool
    group: str
    at_us: int
    low_watermark: int
    held: int
    events: list[Event]
    fraction: float = 1.0
    percentile: float = 100.0
    reached: dict[str, int] = {}


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(IntervalEvents).decode


def exported(
    plan: JobPlan,
    group: str,
    batch: BatchContext,
    events: Sequence[Event],
    under_old_watermark: int,
    held: int,
    reached: dict[str, int],
) -> list[bytes]:
    """Encode what an interval's task adds to the History.

    Args:
        plan: the layout of the pipeline.
        group: the interval.
        batch: the micro-batch.
        events: the events that the engine recorded.
        under_old_watermark: how many of them came before the watermark advanced.
        held: see `IntervalEvents`.
        reached: see `IntervalEvents`.
    """
    assert plan.history is not None, "a History was asked for"
    fraction, computation, sampled = (
        plan.history.fraction,
        computation_of(group),
        _Sampled(plan, group, events),
    )
    percent = plan.pipeline.computations[computation].watermark_percentile
    level = next(number for number, names in enumerate(plan.levels) if computation in names)
    parts = (
        (level, False, _without_deletions(events[:under_old_watermark])),
        (level, True, _without_deletions(events[under_old_watermark:])),
        (len(plan.levels), False, [event for event in events if isinstance(event, CheckpointsDeleted)]),
    )
    return [
        _encode(
            IntervalEvents(
                batch.number, at, advanced, group, batch.now_us, batch.low_watermark, held,
                [
                    placed
                    for event in part
                    if _is_of(event, computation) and (placed := sampled.part(event)) is not None
                ],
                fraction, percent, reached,
            )
        )
        for at, advanced, part in parts
    ]  # fmt: skip


def _without_deletions(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, CheckpointsDeleted)]


def exported_injections(
    plan: JobPlan, partition: str, number: int, at_us: int, events: Iterable[Injected]
) -> bytes:
    """Encode what reading a partition of the sources adds to the History."""
    assert plan.history is not None, "a History was asked for"
    placed: list[Event] = []
    for event in events:
        productions = _productions(plan, plan.history, event.productions)
        if productions:
            placed.append(msgspec.structs.replace(event, productions=productions))
        for production in productions:
            if production.consumer == OUTSIDE:  # it counts when the batch is committed
                placed.append(Output(at_us, OUTSIDE_ADDRESS, production))
                placed.append(Acked(at_us, event.process, production.record_id, OUTSIDE))
    advanced, fraction = False, plan.history.fraction
    return _encode(
        IntervalEvents(number, -1, advanced, partition, at_us, MIN_TIME, MAX_TIME, placed, fraction)
    )


def _is_of(event: Event, computation: str) -> bool:
    if isinstance(event, IntervalMinted):  # the task also mints intervals that stand for the consumers
        return event.computation == computation
    return not isinstance(event, _LEFT_OUT)


class _Sampled:
    """The sampled part of one interval's events in one micro-batch, with keys and intervals as the History writes them."""

    def __init__(self, plan: JobPlan, group: str, events: Iterable[Event]) -> None:
        assert plan.history is not None, "a History was asked for"
        self._plan, self._sample, self._number = plan, plan.history, number_of(group)
        self._came: set[str] = set()
        self._made: set[str] = set()
        for event in events:
            if isinstance(event, Delivered | DuplicateDropped) and self._sample.has(event.key):
                self._came.add(event.record_id)
            elif isinstance(event, Executed) and self._sample.has(event.key):
                self._came.add(event.cause)
                self._made.update([production.record_id for production in event.productions])

    def part(self, event: Event) -> Event | None:
        """Return the part of an event that is in the sample; ``None`` if no part is."""
        sample, number, replace = self._sample, self._number, msgspec.structs.replace
        match event:
            case Executed() if sample.has(event.key):
                productions = _productions(self._plan, sample, event.productions)
                return replace(event, key=_key(number, event.key), productions=productions)
            case Applied() if sample.has(event.delta.key):
                productions = _productions(self._plan, sample, event.delta.productions)
                key = _key(number, event.delta.key)
                return replace(event, delta=replace(event.delta, key=key, productions=productions))
            case Delivered() | DuplicateDropped() | UserCodeFailed() if sample.has(event.key):
                return replace(event, key=_key(number, event.key))
            case CheckpointsDeleted():
                rest = [(_key(number, key), *names) for key, *names in event.checkpoints if sample.has(key)]
                return replace(event, checkpoints=tuple(rest)) if rest else None
            case WriteRefused():
                keys = tuple([_key(number, key) for key in event.keys if sample.has(key)])
                return replace(event, keys=keys) if keys else None
            case AckSent():
                ids = tuple([record_id for record_id in event.record_ids if record_id in self._came])
                return replace(event, record_ids=ids) if ids else None
            case Output():
                return event if event.production.record_id in self._made else None
            case Acked():
                return event if event.record_id in self._made else None
            case DeadLettered():
                return event if event.cause in self._came else None
            case IntervalMinted() | IntervalDropped() | IdsCollected():
                return replace(event, interval=_interval(number))
            case Executed() | Applied() | Delivered() | DuplicateDropped() | UserCodeFailed():
                return None  # of another key
            case _:
                return event


def _key(number: int, key: str) -> str:
    return f"{number:04d}/{key}"


def user_key(key: str) -> str:
    """Return the key as user code knows it, of one in the History of a run on Spark: without the group that it is in."""
    return key.partition("/")[2]


def _interval(number: int) -> KeyInterval:
    return KeyInterval(f"{number:04d}/", f"{number:04d}0")  # "0" is the character after "/"


def _productions(
    plan: JobPlan, sample: Sample, productions: tuple[Production, ...]
) -> tuple[Production, ...]:
    return tuple(
        production if production.consumer == OUTSIDE
        else msgspec.structs.replace(
            production, key=_key(number_of(plan.group(production.consumer, production.key)), production.key)
        )
        for production in productions
        if production.consumer == OUTSIDE or sample.has(production.key)
    )  # fmt: skip


def history_of(pipeline: Pipeline, rows: Iterable[bytes]) -> History:
    """Assemble the History of a run.

    Args:
        pipeline: the pipeline that ran.
        rows: the column ``value`` of `Outputs.history`, in any order.
    """
    entries = sorted(map(_decode, rows), key=attrgetter("batch", "level", "advanced", "group"))
    history, held, low = History(), dict[str, int](), MIN_TIME
    reached: dict[str, dict[float, int]] = {}
    fraction = min([entry.fraction for entry in entries], default=1.0)
    if fraction < 1:
        history.record(KeysSampled(entries[0].at_us, "spark", fraction))
    for _, of_batch in groupby(entries, attrgetter("batch")):
        batch = list(of_batch)
        history.at_us = batch[0].at_us
        low = max(low, *[entry.low_watermark for entry in batch])
        _report_injectors(history, pipeline, low)
        for entry in batch:
            history.events.extend(_with_source_watermark(event, low) for event in entry.events)
        held.update({entry.group: entry.held for entry in batch if entry.level >= 0})
        for entry in batch:
            for sender, low_us in entry.reached.items():
                known = reached.setdefault(sender, {})
                known[entry.percentile] = max(low_us, known.get(entry.percentile, MIN_TIME))
        _publish(history, pipeline, held, low, reached)
    history.record(RunEnded(history.at_us, "spark", "quiescent" if low == MAX_TIME else "deadline"))
    return history


def _with_source_watermark(event: Event, low: int) -> Event:
    """Add the watermark in force at an injection, which the injecting task does not know; a record behind it was late."""
    if isinstance(event, Injected) and event.source_watermark == MIN_TIME:
        return msgspec.structs.replace(event, source_watermark=low)
    return event


def _report_injectors(history: History, pipeline: Pipeline, low: int) -> None:
    """Record what Spark knows of the injectors when a micro-batch begins."""
    if low > MIN_TIME:
        for name, spec in pipeline.injectors.items():
            for address in spec.addresses():
                history.record(InjectorReported(history.at_us, address, name, low, MIN_TIME))


def _publish(
    history: History, pipeline: Pipeline, held: dict[str, int], low: int, reached: dict[str, dict[float, int]]
) -> None:
    """Record the watermarks at the end of a micro-batch: Spark's, except where intervals hold theirs back.

    A percentile is recorded as far as any interval has followed it. One that had nothing to do does not know that the low
    watermark has passed it.
    """
    if low == MIN_TIME:
        return
    lows = dict.fromkeys(pipeline.injectors, low)
    for name in pipeline.computations:
        holds = [time_us for group, time_us in held.items() if computation_of(group) == name]
        lows[name] = min([low, *holds])
    values = []
    for name, low_us in lows.items():
        percentiles = sorted(reached.get(name, {}).items())
        values.append(
            (name, Progress(low_us, percentiles=tuple((p, max(at, low_us)) for p, at in percentiles)))
        )
    history.record(Published(history.at_us, "spark", tuple(values)))
