"""Micro-batches as Spark makes them, without Spark: the key intervals' tasks, level by level, in this process."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headrace import MAX_TIME, MILLISECOND, MIN_TIME, Pipeline
from headrace.api.specs import OUTSIDE
from headrace.history import Injected
from headrace.injector.injection import productions_of
from headrace.spark.hosting.chunks import NEVER, decode_header
from headrace.spark.hosting.group_task import (
    HEADERS,
    GroupTask,
    bundle_rows,
    decode_headers,
    seed_rows,
    unbundled,
)
from headrace.spark.hosting.history_export import exported_injections
from headrace.spark.hosting.history_sample import Sample, sample_of
from headrace.spark.hosting.images import Image, encode_image, images_of, install
from headrace.spark.hosting.interval_task import run_interval
from headrace.spark.hosting.layout import EVERYTHING, BatchContext, JobPlan, Splits, computation_of, limits_of
from headrace.spark.hosting.parcels import Packed, Parcel, Post, Tally
from headrace.spark.hosting.processor import run_bounded
from headrace.spark.runtime.event_time import END_MS, from_spark
from headrace.wire.effects import SourceRecord, SourceWatermark
from headrace_properties.reference import Emitted
from headrace_sim import Feed
from headrace_sim.feed import FeedEntry


class Store:
    """One interval's part of a state store, and Spark's timer for it. Counts its calls."""

    def __init__(self) -> None:
        self.head: bytes | None = None
        self.chunks: dict[int, bytes] = {}
        self.timer_ms: int | None = None
        self.reads = self.writes = 0

    def is_begun(self) -> bool:
        return False

    def header(self) -> bytes | None:
        return self.head

    def set_header(self, data: bytes | None) -> None:
        self.head = data

    def chunk(self, number: int) -> bytes | None:
        self.reads += 1
        return self.chunks.get(number)

    def set_chunk(self, number: int, data: bytes | None) -> None:
        if data is None:
            self.chunks.pop(number, None)
        else:
            self.writes += 1
            self.chunks[number] = data

    def set_timer(self, before_ms: int | None, at_ms: int | None) -> None:
        assert before_ms == self.timer_ms
        self.timer_ms = at_ms


class FusedStore:
    """The state of an operator for all levels, and Spark's timer for it."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, int], bytes] = {}
        self.timer_ms: int | None = None

    def value(self, group: str, number: int) -> bytes | None:
        return self.values.get((group, number))

    def set_value(self, group: str, number: int, data: bytes | None) -> None:
        if data is None:
            self.values.pop((group, number), None)
        else:
            self.values[group, number] = data

    def set_timer(self, before_ms: int | None, at_ms: int | None) -> None:
        assert before_ms == self.timer_ms
        self.timer_ms = at_ms


@dataclass
class Query:
    """A running query: its state, and what has come out."""

    plan: JobPlan
    stores: dict[str, Store] = field(default_factory=dict)
    fused: FusedStore = field(default_factory=FusedStore)
    outputs: Counter[Emitted] = field(default_factory=Counter)
    watermarks: dict[str, int] = field(default_factory=dict)
    number: int = 0
    watermark_ms: int = 0
    now_us: int = 0
    sources: dict[str, int] = field(default_factory=dict)
    injected: list[Injected] = field(default_factory=list)
    events: list[bytes] = field(default_factory=list)
    tallies: list[Tally] = field(default_factory=list)
    slowest: int = MIN_TIME

    def batch(self, entries: Sequence[FeedEntry] = (), *, tick: bool = False) -> None:
        """One micro-batch; what its sources say of the watermark counts from the next one on."""
        post, coming = Post(), dict(self.sources)
        for entry in entries:
            self.now_us = max(self.now_us, entry.at_us)
            injector = entry.address.partition("/")[0]
            if isinstance(entry.event, SourceWatermark):
                coming[entry.address] = max(coming.get(entry.address, MIN_TIME), entry.event.low_watermark)
            elif isinstance(entry.event, SourceRecord):
                self._inject(post, injector, entry)
        if self.plan.history and self.injected:
            told = exported_injections(self.plan, "all", self.number, self.now_us, self.injected)
            post.to(self.plan.groups[OUTSIDE][0]).events.append(told)
        self.injected.clear()
        if tick:
            for name in self.plan.pipeline.computations:
                for group in self.plan.groups[name]:
                    post.to(group).tick = True
                    post.to(group).slowest = self.slowest
        if self.number <= self.plan.wake_until and (entries or tick):
            for name in self.plan.pipeline.computations:
                for group in self.plan.groups[name]:
                    post.to(group)
        self._levels(post)
        self.number += 1
        self.sources = coming
        addresses = [
            address for spec in self.plan.pipeline.injectors.values() for address in spec.addresses()
        ]
        low = min(coming.get(address, MIN_TIME) for address in addresses)
        if low > 0:
            self.watermark_ms = max(self.watermark_ms, END_MS if low == MAX_TIME else low // MILLISECOND)

    def migrate(self, intervals: int, splits: Splits | None = None, *, fused: bool | None = None) -> None:
        """Go on in a new checkpoint, with another number of intervals, or splits, or operators."""
        plan = self.laid_out(intervals, splits, fused=fused)
        self.seed(plan, self.images(plan))

    def images(self, plan: JobPlan) -> dict[str, Image]:
        """The images of all intervals of another layout."""
        before = {group: (header, self._chunks(group)) for group, header in self.headers().items()}
        return images_of(plan, before, self.plan.intervals, from_spark(self.watermark_ms))

    def seed(self, plan: JobPlan, images: Mapping[str, Image]) -> None:
        """Begin a new checkpoint."""
        self.plan, self.stores, self.fused = plan, {}, FusedStore()
        if plan.fused:
            ((_, data),) = seed_rows(plan, images)
            self._task().take(data)
            return
        for group, image in images.items():
            self.stores[group] = Store()
            install(encode_image(image), self.stores[group])

    def _task(self) -> GroupTask:
        return GroupTask(self.plan, self.fused, self.plan.hosted(0)[EVERYTHING])

    def headers(self) -> dict[str, bytes]:
        """The headers that are stored, by group."""
        if self.plan.fused:
            data = self.fused.value(HEADERS, 0)
            return {} if data is None else decode_headers(data).by_group
        return {group: store.head for group, store in self.stores.items() if store.head is not None}

    def _chunks(self, group: str) -> dict[int, bytes]:
        if self.plan.fused:
            return {number: data for (own, number), data in self.fused.values.items() if own == group}
        return self.stores[group].chunks

    def laid_out(self, intervals: int, splits: Splits | None = None, *, fused: bool | None = None) -> JobPlan:
        """The same pipeline with other intervals, all of which are called from now on."""
        plan = self.plan
        return JobPlan(
            plan.pipeline, intervals=intervals, with_ids=plan.with_ids, clock=plan.clock, progress=True,
            limits=plan.limits, fused=plan.fused if fused is None else fused, splits=splits or {},
            wake_until=self.number + 10,
        )  # fmt: skip

    def _inject(self, post: Post, injector: str, entry: FeedEntry) -> None:
        spec, event = self.plan.pipeline.injectors[injector], entry.event
        assert isinstance(event, SourceRecord)
        productions = productions_of(self.plan.pipeline, entry.address, spec.outputs, event, event.arrived_us)
        limited = injector in self.plan.limits
        if not limited:
            self.injected.append(Injected(self.now_us, entry.address, event.offset, MIN_TIME, productions))
        for production in productions:
            parcel = post.to(self.plan.group(production.consumer, production.key))
            packed = _packed(production.stream, production.record_id, production)
            if limited:
                parcel.limited.append((injector, packed))
            else:
                parcel.records.append(packed)

    def _levels(self, post: Post) -> None:
        low = from_spark(self.watermark_ms)
        batch = BatchContext(self.number, self.now_us, low)
        if self.plan.fused:
            post = self._all_levels(post, batch)
        for level in () if self.plan.fused else self.plan.levels:
            following = Post()
            following.tallies += post.tallies
            for group, parcel in post.parcels.items():
                if computation_of(group) not in level:
                    following.add(_only(group, parcel))
            for group in [group for name in level for group in self.plan.groups[name]]:
                store = self.stores.setdefault(group, Store())
                due = store.timer_ms is not None and store.timer_ms <= self.watermark_ms
                parcels = [post.parcels[group]] if group in post.parcels else []
                if parcels or due:
                    following.add(run_interval(self.plan, group, batch, parcels, store))
            post = following
        self.tallies += [tally for _, tally in post.tallies]
        for parcel in post.parcels.values():
            for stream, _, key, value, timestamp, _origin in parcel.records:
                self.outputs[Emitted(stream, key, value, timestamp)] += 1
            self.events += parcel.events

    def _all_levels(self, post: Post, batch: BatchContext) -> Post:
        """Call one operator for all levels, as Spark does: for its rows, if any, and then for its timer if it was due."""
        due = self.fused.timer_ms is not None and self.fused.timer_ms <= self.watermark_ms
        task, found = self._task(), Post()
        if post.parcels:
            rows = [bundle_rows(post).column("parcel")[0].as_py()]
            found.add(task.run(batch, unbundled(rows)))
        if due:
            found.add(task.run(batch, {}))
        return found


def _packed(stream: str, record_id: str, one: object) -> Packed:
    return stream, record_id, one.key, one.value, one.timestamp, one.origin  # type: ignore[attr-defined]


def _only(group: str, parcel: Parcel) -> Post:
    post = Post()
    post.parcels[group] = parcel
    return post


def half(running: Query, feed: Feed, size: int = 10) -> list[object]:
    """Feed the first half, to rest; return the second one."""
    entries = list(feed.entries)
    middle = len(entries) // 2
    for at in range(0, middle, size):
        running.batch(entries[at : min(at + size, middle)])
    running.batch()
    return entries[middle:]  # type: ignore[return-value]


def rest(running: Query, entries: list[object], size: int = 10) -> None:
    for at in range(0, len(entries), size):
        running.batch(entries[at : at + size])  # type: ignore[arg-type]
    running.batch()


def query(
    pipeline: Pipeline,
    *,
    intervals: int = 4,
    ids: bool = True,
    clock: bool = True,
    history: bool | Sample = False,
    fused: bool = False,
) -> Query:
    """A query that has not begun."""
    with_ids = frozenset(pipeline.injectors) if ids else frozenset[str]()
    plan = JobPlan(
        pipeline, intervals=intervals, with_ids=with_ids, clock=clock, history=sample_of(history), progress=True,
        limits=limits_of(pipeline), fused=fused,
    )  # fmt: skip
    return Query(plan)


def run_in_batches(
    pipeline: Pipeline,
    feed: Feed,
    sizes: Sequence[int],
    *,
    intervals: int = 4,
    history: bool | Sample = False,
    fused: bool = False,
) -> Query:
    """Feed it in batches of these sizes, over and over, then to the end; between two there is one without data."""
    running = query(pipeline, intervals=intervals, history=history, fused=fused)
    entries, index = list(feed.entries), 0
    while entries:
        size = sizes[index % len(sizes)]
        running.batch(entries[:size])
        entries = entries[size:]
        index += 1
    running.batch()
    while _wall_due(running):
        running.now_us += 3_600_000_000
        running.batch(tick=True)
    return running


def _wall_due(running: Query) -> bool:
    headers = map(decode_header, running.headers().values())
    return min((due[2] for header in headers for due in header.dues.values()), default=NEVER) < NEVER


__all__ = ["OUTSIDE", "Query", "Store", "half", "query", "rest", "run_in_batches"]


def bounded_outputs(pipeline: Pipeline, feed: Feed) -> Counter[Emitted]:
    """Run it as one bounded batch."""
    plan, post = query(pipeline).plan, Post()
    for entry in feed.entries:
        if isinstance(entry.event, SourceRecord):
            outputs, event = pipeline.injectors[entry.address.partition("/")[0]].outputs, entry.event
            for production in productions_of(pipeline, entry.address, outputs, event, event.arrived_us):
                parcel = post.to(plan.group(production.consumer, production.key))
                parcel.records.append(_packed(production.stream, production.record_id, production))
    for level in range(len(plan.levels)):
        following = Post()
        for group, parcel in post.parcels.items():
            following.add(run_bounded(plan, level, group, [parcel], 0))
        post = following
    records = [record for parcel in post.parcels.values() for record in parcel.records]
    return Counter(Emitted(stream, key, value, at) for stream, _, key, value, at, _origin in records)
