"""The staged layout without Spark: its logs, its source and its tasks, driven in any order, in this process."""

from collections import Counter
from collections.abc import Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
from pyspark.sql.streaming.datasource import ReadAllAvailable

from headrace import MIN_TIME, Pipeline
from headrace.api.specs import OUTSIDE
from headrace.injector.injection import productions_of
from headrace.spark.hosting.history_sample import Sample, sample_of
from headrace.spark.hosting.interval_task import run_interval
from headrace.spark.hosting.layout import JobPlan, MicroBatch, Reshard, Splits, computation_of, followers_of
from headrace.spark.hosting.parcels import Parcel, Post
from headrace.spark.hosting.progress import Board
from headrace.spark.hosting.resharding import Image, images_of, retire, write_images
from headrace.spark.jobs.attach import Sources
from headrace.spark.jobs.log import Entry, Fed, Log, PartWriter, entry_of
from headrace.spark.jobs.log_source import LogReader, Reading, decode_followed
from headrace.spark.jobs.stages import Keying, computation_plan
from headrace.spark.sources.data_source import Offset
from headrace.wire.effects import SourceRecord, SourceWatermark
from headrace_properties.reference import Emitted
from headrace_sim.feed import FeedEntry
from tests.spark.microbatches import Store


@dataclass
class _Stage:
    plan: JobPlan
    reader: LogReader
    offset: Offset
    number: int = 0
    stores: dict[str, Store] = field(default_factory=dict)


class Stages:
    """A pipeline in stages: `inject` and `run` are micro-batches, of whichever stage the test likes."""

    def __init__(
        self, pipeline: Pipeline, directory: Path, *, intervals: int = 3, ids: bool = True, max_records: int = 1_000_000,
        history: bool | Sample = False,
    ) -> None:  # fmt: skip
        self.directory, self.now_us = directory, 0
        self.board = Board()
        self._sources: dict[str, int] = {}
        self._injected: Counter[str] = Counter()
        self._stages: dict[str, _Stage] = {}
        self._ids, self._max_records, self._history = ids, max_records, history
        self._changes = 0
        self._intervals, self._splits = intervals, Splits()
        self.deploy(pipeline)

    def deploy(self, pipeline: Pipeline, change: Reshard | None = None) -> None:
        """Run another version of the pipeline from now on: stages that it had before begin where they were."""
        self.pipeline = pipeline
        for name in [*pipeline.injectors, *pipeline.computations]:
            Log(self.directory, name).prepare()
        for name in pipeline.computations:
            plan = self.laid_out(name, self._intervals, self._splits, change)
            begin = dict.fromkeys(pipeline.senders(name), -1)
            reading = Reading(
                str(self.directory), begin, 2, self._max_records, followed=name in plan.followers,
                division=self._changes,
            )  # fmt: skip
            reader = LogReader(reading)
            stage = self._stages.setdefault(name, _Stage(plan, reader, reader.initialOffset()))
            stage.plan, stage.reader = plan, reader

    def laid_out(
        self, name: str, intervals: int, splits: Splits | None, change: Reshard | None = None
    ) -> JobPlan:
        """The layout of a stage."""
        injectors = frozenset(self.pipeline.injectors)
        sources = Sources(
            injectors if self._ids else frozenset(), frozenset(), dict.fromkeys(injectors, 10**9)
        )
        return computation_plan(
            self.pipeline, name, sources, intervals=intervals, clock=True, history=sample_of(self._history), splits=splits,
            reshard=change,
        )  # fmt: skip

    def reshard(self, intervals: int, splits: Splits | None = None) -> None:
        """Begin anew with another number of intervals, or other splits."""
        self.finish()
        number, before, splits_before = self._changes + 1, self._intervals, self._splits
        path, made = self.directory / "intervals" / str(number), dict[str, Image]()
        for name in self._stages:
            made |= images_of(self.laid_out(name, intervals, splits), self.stored(name), before, number)
        write_images(path, made)
        batches = {name: stage.number - 1 for name, stage in self._stages.items()}
        change = Reshard(number, -1, before, str(path), tuple(made), splits_before, batches)
        self.divided(intervals, splits, number, change)

    def finish(self) -> None:
        """Let the intervals of all stages take the images of the last division, as they do before the next one."""
        for name, stage in self._stages.items():
            closed = LogReader(msgspec.structs.replace(stage.reader._reading, closed=True))
            if closed.latestOffset(stage.offset, ReadAllAvailable()) != stage.offset:
                stage.reader = closed
                assert self.run(name)

    def divided(self, intervals: int, splits: Splits | None, number: int, change: Reshard | None) -> None:
        """Go on with this division of the keys."""
        self._intervals, self._splits, self._changes = intervals, splits or {}, number
        self.deploy(self.pipeline, change)

    def stored(self, name: str) -> dict[str, Image]:
        """The state of a stage."""
        stores = self._stages[name].stores
        return {
            group: (store.head, store.chunks) for group, store in stores.items() if store.head is not None
        }

    def inject(self, entries: Iterable[FeedEntry]) -> None:
        """A micro-batch of each injector."""
        entries = list(entries)
        for name, spec in self.pipeline.injectors.items():
            writer = PartWriter(Log(self.directory, name), self._injected[name], 0)
            for entry in entries:
                self.now_us = max(self.now_us, entry.at_us)
                if entry.address.partition("/")[0] != name:
                    continue
                event = entry.event
                if isinstance(event, SourceWatermark):
                    self._sources[entry.address] = event.low_watermark
                elif isinstance(event, SourceRecord):
                    first, *_ = productions_of(
                        self.pipeline, entry.address, spec.outputs, event, event.arrived_us
                    )
                    writer.take(
                        Parcel(
                            [
                                (
                                    first.stream,
                                    first.record_id,
                                    event.key,
                                    first.value,
                                    first.timestamp,
                                    first.origin,
                                )
                            ]
                        )
                    )
            writer.report(name, min(self._sources.get(address, MIN_TIME) for address in spec.addresses()))
            self._append(name, self._injected[name], [writer], (name,))
            self._injected[name] += 1

    def run(self, name: str, *, crashed: bool = False, tick: bool = False) -> bool:
        """A micro-batch of a computation; tell whether there was anything to do.

        Args:
            name: of the computation.
            crashed: its tasks run, but the driver is gone before it has written the entry.
            tick: time has passed.
        """
        stage = self._stages[name]
        reader = stage.reader
        end = (
            reader.latestOffset(stage.offset, ReadAllAvailable())
            if reader._reading.closed
            else reader._look(stage.offset)
        )
        if end == stage.offset and not tick:
            return False
        stores = deepcopy(stage.stores) if crashed else stage.stores
        writer = PartWriter(Log(self.directory, name), stage.number, 0)
        post = self._work(stage, stores, self._read(stage, end, tick=tick))
        for parcel in post.parcels.values():
            writer.take(parcel)
        for _, tally in post.tallies:
            writer.tell(tally)
        if not crashed:
            self.board.take(tally for _, tally in post.tallies)
            self._append(name, stage.number, [writer], stage.plan.groups[name])
            stage.offset, stage.number = end, stage.number + 1
        else:
            writer.finish()
        return True

    def _read(self, stage: _Stage, end: Offset, *, tick: bool) -> Post:
        keying, post = Keying(stage.plan, stage.number, 0), Post()
        for partition in stage.reader.partitions(stage.offset, end):
            for batch in stage.reader.read(partition):
                for row in batch.to_pylist():
                    if row["part"] is not None:
                        for parcel in Log(self.directory, row["sender"]).parcels(row["part"]):
                            keying.address(post, row["sender"], parcel.records)
                    elif row["sender"] is not None:
                        followed = None if row["followed"] is None else decode_followed(row["followed"])
                        keying.tell(post, row["sender"], row["number"], row["low"], row["horizon"], followed)
                    else:
                        keying.call(post, tick=row["tick"])
        if tick:
            keying.call(post, tick=True)
        return post

    def _work(self, stage: _Stage, stores: dict[str, Store], post: Post) -> Post:
        batch, out = MicroBatch(stage.number, self.now_us, MIN_TIME), Post()
        for group, parcel in post.parcels.items():
            if group in stage.plan.groups[OUTSIDE]:
                out.to(group).taken.extend(parcel.taken)
                out.to(group).followed.extend(parcel.followed)
                continue
            store = stores.setdefault(group, Store())
            if group in stage.plan.retired.get(computation_of(group), ()):
                assert stage.plan.reshard is not None
                retire(stage.plan.reshard, group, store)
            else:
                out.add(run_interval(stage.plan, group, batch, [parcel], store))
        return out

    def _append(self, name: str, number: int, writers: Sequence[PartWriter], units: Sequence[str]) -> None:
        log = Log(self.directory, name)
        pieces = [writer.finish() for writer in writers]
        is_followed = name in self._stages and name in followers_of(self.pipeline)
        fed = Fed(name, self.pipeline.senders(name)) if is_followed else None
        before = log.following(number, name)
        log.append(entry_of(before, number, name, self.now_us, pieces, units, fed, self._changes))

    def settle(self, *, tick: bool = False) -> None:
        """Run everything, sources first, until there is nothing to do."""
        for name in self.pipeline.computations:
            if tick:
                self.run(name, tick=True)
            while self.run(name):
                pass

    def last(self, name: str) -> Entry:
        """The latest entry of a log."""
        log = Log(self.directory, name)
        found = log.entry(log.last())
        assert found is not None
        return found

    def told(self, name: str) -> tuple[Pipeline, list[bytes]]:
        """The pipeline that a stage sees, and the events of its History."""
        log = Log(self.directory, name)
        parts = [part for entry in log.entries(-1, log.last()) for part in entry.parts]
        events = [event for part in parts for parcel in log.parcels(part.name) for event in parcel.events]
        return self._stages[name].plan.pipeline, events

    @property
    def outputs(self) -> Counter[Emitted]:
        """What stands in the logs of the streams that go outside."""
        found: Counter[Emitted] = Counter()
        for name in [*self.pipeline.injectors, *self.pipeline.computations]:
            log = Log(self.directory, name)
            for entry in log.entries(-1, log.last()):
                for part in entry.parts:
                    for parcel in log.parcels(part.name):
                        for stream, _, key, value, timestamp, _origin in parcel.records:
                            if stream in self.pipeline.output_streams:
                                found[Emitted(stream, key, value, timestamp)] += 1
        return found
