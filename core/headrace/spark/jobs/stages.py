"""The staged layout (MillWheel 3, 6.1.2): each injector and each computation is a separate query, followed by a log.

Rules of this file:

* A stage runs a pipeline that is **cut** out of the whole: its computation, with its senders as injectors. Productions are logged
  unchanged, by stream; the consumers decide who reads them, and by which keys (4.2). So stages can be added and removed without
  affecting those before them.
* Only an injector with dead letters also calls its consumers' key extractors, since a record that they refuse is malformed.
* Productions are in the log before any consumer sees them: they are strong.
"""

from collections.abc import Iterable, Mapping
from functools import partial

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from headrace.api.pipeline import Pipeline
from headrace.api.specs import OUTSIDE, ComputationSpec, DeadLetter, same_key
from headrace.api.time import MAX_TIME, MILLISECOND, MIN_TIME
from headrace.delivery.addressing import key_for
from headrace.history import Injected
from headrace.spark.hosting.history_export import exported_injections
from headrace.spark.hosting.history_sample import Sample
from headrace.spark.hosting.injection import SOURCE_COLUMNS, Injection
from headrace.spark.hosting.layout import JobPlan, Reshard, Splits, followers_of
from headrace.spark.hosting.metrics import observed
from headrace.spark.hosting.outputs import OUTPUT_SCHEMA, output_rows
from headrace.spark.hosting.parcels import (
    PARCEL_SCHEMA,
    Batches,
    Followed,
    Packed,
    Post,
    decode_parcel,
    decode_tally,
    is_tally,
    parcel_rows,
)
from headrace.spark.jobs.attach import Sources
from headrace.spark.jobs.log import Log, PartWriter, Piece
from headrace.spark.jobs.log_source import COLUMNS, Reading, decode_followed, read_logs
from headrace.spark.runtime.event_time import END_MS
from headrace.spark.runtime.failures import noted
from headrace.watermarks.percentile import percentile_watermark
from headrace.wire.rows import Production

PIECE_SCHEMA = "piece binary"
_PIECES = pa.schema([("piece", pa.binary())])
_LOW = "low"
_FLUSH_RECORDS = 50_000
"""Number of records in a task's parcels at which they are sent on."""

encode_piece = msgspec.msgpack.Encoder().encode
decode_piece = msgspec.msgpack.Decoder(Piece).decode


# Cutting


def cut_injector(pipeline: Pipeline, name: str) -> Pipeline:
    """Return the pipeline that an injector's stage runs."""
    spec = pipeline.injectors[name]
    cut = Pipeline(pipeline.name)
    cut.injector(name, outputs=spec.outputs, on_malformed=spec.on_malformed)
    consumers = pipeline.receivers(name) if isinstance(spec.on_malformed, DeadLetter) else ()
    for consumer, computation in pipeline.computations.items():
        if consumer in consumers:
            _add_computation(cut, computation, pipeline.streams_between(name, consumer))
    return _with_codecs(cut, pipeline)


def cut_computation(pipeline: Pipeline, name: str) -> Pipeline:
    """Return the pipeline that a computation's stage runs."""
    spec = pipeline.computations[name]
    cut = Pipeline(pipeline.name)
    for sender in pipeline.senders(name):
        found = pipeline.injectors.get(sender) or pipeline.computations[sender]
        cut.injector(sender, outputs=[stream for stream in found.all_outputs if stream in spec.inputs])
    _add_computation(cut, spec, list(spec.inputs))
    return _with_codecs(cut, pipeline)


def outlet(pipeline: Pipeline, name: str) -> Pipeline:
    """Return the pipeline as the readers of a stage's outputs see it: the streams and their codecs."""
    spec = pipeline.injectors.get(name) or pipeline.computations[name]
    seen = Pipeline(pipeline.name)
    seen.injector(name, outputs=spec.all_outputs or [name])  # an injector has at least one stream
    return _with_codecs(seen, pipeline)


def _add_computation(cut: Pipeline, spec: ComputationSpec, inputs: Iterable[str]) -> None:
    cut.add(
        spec.computation,
        name=spec.name,
        inputs={stream: spec.inputs[stream] for stream in inputs},
        outputs=spec.outputs,
        productions=spec.productions,
        exactly_once=spec.exactly_once,
        state_codec=spec.state_codec,
        watermark_percentile=spec.watermark_percentile,
        on_failure=spec.on_failure,
    )


def _with_codecs(cut: Pipeline, pipeline: Pipeline) -> Pipeline:
    for stream in cut.streams:
        cut.stream(stream, pipeline.codec(stream))
    return cut


def injector_plan(pipeline: Pipeline, name: str, sources: Sources, *, history: Sample | None) -> JobPlan:
    """Return the layout of an injector's stage."""
    return JobPlan(
        cut_injector(pipeline, name), 1, with_ids=sources.with_ids, timed_by_source=sources.timed, history=history, staged=True,
    )  # fmt: skip


def computation_plan(
    pipeline: Pipeline,
    name: str,
    sources: Sources,
    *,
    intervals: int,
    clock: bool,
    history: Sample | None,
    partitions: int = 0,
    splits: Splits | None = None,
    reshard: Reshard | None = None,
) -> JobPlan:
    """Return the layout of a computation's stage. Those that follow it are in other stages."""
    senders = frozenset(pipeline.senders(name))
    return JobPlan(
        cut_computation(pipeline, name), intervals, with_ids=sources.with_ids & senders,
        timed_by_source=sources.timed & senders, clock=clock, history=history, staged=True, progress=True,
        partitions=partitions, splits=splits or {}, reshard=None if reshard is None else reshard.of(name),
        followers=followers_of(pipeline),
    )  # fmt: skip


# An injector's stage


def injector_pieces(
    prepared: DataFrame, plan: JobPlan, log: Log, *, kept_ids_us: Mapping[str, int], delay_us: int
) -> DataFrame:
    """Write an injector's rows to its log, and return what each task wrote.

    Args:
        prepared: its rows, with the column of its watermark last.
        plan: see `injector_plan`.
        log: its log.
        kept_ids_us: see `Sources`.
        delay_us: how far its low watermark is behind that column, microseconds.
    """
    marked = prepared.select(*SOURCE_COLUMNS, F.unix_micros(prepared.columns[-1]).alias(_LOW))
    return marked.mapInArrow(partial(_log_injected, plan, log, dict(kept_ids_us), delay_us), PIECE_SCHEMA)


def _log_injected(
    plan: JobPlan, log: Log, kept_ids_us: dict[str, int], delay_us: int, batches: Batches
) -> Batches:
    number, partition = place()
    injection = Injection(plan, kept_ids_us, number, partition)
    writer = PartWriter(log, number, partition)
    with noted():
        for batch in batches:
            low = pc.max(batch.column(_LOW)).as_py()
            if low is not None:
                writer.report(log.stage, MAX_TIME if low >= END_MS * MILLISECOND else low - delay_us)
            rows = zip(*[batch.column(name).to_pylist() for name in SOURCE_COLUMNS], strict=True)
            for parcel in injection.inject(rows).parcels.values():
                writer.take(parcel)
        yield _told(writer)


# A computation's stage


def parcels_of(spark: SparkSession, reading: Reading, plan: JobPlan) -> DataFrame:
    """Read the logs of a computation's senders as parcels for its intervals."""
    return read_logs(spark, reading).mapInArrow(partial(_read, plan, reading.directory), PARCEL_SCHEMA)


def _read(plan: JobPlan, directory: str, batches: Batches) -> Batches:
    keying = Keying(plan, *place())
    post, count = Post(), 0
    with noted():
        for batch in batches:
            for sender, part, number, low, horizon, followed, tick in zip(
                *[batch.column(name).to_pylist() for name in COLUMNS], strict=True
            ):
                if part is not None:
                    for parcel in Log(directory, sender).parcels(part):
                        keying.address(post, sender, parcel.records)
                        count += len(parcel.records)
                elif sender is not None:
                    told = None if followed is None else decode_followed(followed)
                    keying.tell(post, sender, number, low, horizon, told)
                else:
                    keying.call(post, tick=tick)
                if count > _FLUSH_RECORDS:
                    yield parcel_rows(post)
                    post, count = Post(), 0
        if post.parcels:
            yield parcel_rows(post)


class Keying:
    """Addresses the content of the logs to the intervals of one computation.

    Args:
        plan: see `computation_plan`.
        batch: number of the micro-batch.
        partition: number of the partition.
    """

    def __init__(self, plan: JobPlan, batch: int, partition: int) -> None:
        self._plan = plan
        self._batch, self._partition = batch, partition
        (self._spec,) = plan.pipeline.computations.values()
        self._groups = plan.groups[self._spec.name]
        self._is_followed = self._spec.name in plan.followers
        self._count = 0

    def address(self, post: Post, sender: str, records: Iterable[Packed]) -> None:
        """Address records by the computation's key extractors.

        Raises:
            KeyExtractorError: a key extractor failed.
            CodecError: a value cannot be decoded.
        """
        plan, name, told = self._plan, self._spec.name, []
        for stream, record_id, key, value, timestamp, origin in records:
            extractor = self._spec.inputs.get(stream)
            if extractor is None:
                continue
            own = key
            if extractor is not same_key:
                codec = plan.pipeline.codec(stream)
                own = key_for(name, extractor, codec, stream, key, value, timestamp, record_id)
            post.to(plan.group(name, own)).records.append((stream, record_id, own, value, timestamp, origin))
            if plan.history:
                self._count += 1
                production = Production(record_id, stream, name, own, value, timestamp, origin)
                told.append(Injected(0, f"{sender}/0", self._count, MIN_TIME, (production,)))
        if told:
            events = exported_injections(plan, f"{self._batch}.{self._partition}", self._batch, 0, told)
            post.to(plan.groups[OUTSIDE][0]).events.append(events)

    def tell(
        self, post: Post, sender: str, number: int, low: int, horizon: int | None, followed: Followed | None
    ) -> None:
        """Send a sender's watermarks and horizon to all intervals, and how far its log was read to this stage's log."""
        followed = followed or Followed(low)
        percent, reached = self._spec.watermark_percentile, None
        if percent < 100:
            pending = [bucket for _, buckets in followed.pending.values() for bucket in buckets]
            reached = percentile_watermark(percent, MIN_TIME, low, followed.frontier, pending)
        for group in self._groups:
            parcel = post.to(group)
            parcel.holds.append((sender, low))
            if reached is not None:
                parcel.reached.append((sender, reached))
            if horizon is not None and self._spec.exactly_once:
                parcel.horizons.append((sender, horizon))
        outside = post.to(self._plan.groups[OUTSIDE][0])
        outside.taken.append((sender, number))
        if self._is_followed:
            outside.followed.append((sender, followed))

    def call(self, post: Post, *, tick: bool) -> None:
        """Call all intervals, also old ones; ``tick``: because wall time has passed."""
        for group in (*self._groups, *self._plan.retired.get(self._spec.name, ())):
            post.to(group).tick |= tick


def logged(produced: DataFrame, plan: JobPlan, log: Log) -> DataFrame:
    """Write what an operator sends to its log, and return what each task wrote."""
    return observed(produced, plan.pipeline).mapInArrow(partial(_log_produced, log), PIECE_SCHEMA)


def _log_produced(log: Log, batches: Batches) -> Batches:
    writer = PartWriter(log, *place())
    for batch in batches:
        for data in batch.column("parcel").to_pylist():
            if is_tally(data):
                writer.tell(decode_tally(data))
            else:
                writer.take(decode_parcel(data))
    yield _told(writer)


# Outputs


def outputs_of(spark: SparkSession, log: Log, parts: Iterable[str]) -> DataFrame:
    """Read records and History events of some parts of a log as rows of `OUTPUT_SCHEMA`."""
    names = [(name,) for name in parts]
    rows = spark.createDataFrame(names, "part string")
    return rows.mapInArrow(partial(_read_outputs, log), OUTPUT_SCHEMA)


def _read_outputs(log: Log, batches: Batches) -> Batches:
    for batch in batches:
        for name in batch.column("part").to_pylist():
            for parcel in log.parcels(name):
                yield output_rows([parcel])


def place() -> tuple[int, int]:
    """Return the running task's micro-batch number and partition number."""
    task = TaskContext.get()
    assert task is not None, "called outside a Spark task"
    return int(task.getLocalProperty("streaming.sql.batchId") or 0), task.partitionId()


def _told(writer: PartWriter) -> pa.RecordBatch:
    data = [encode_piece(writer.finish())]
    return pa.RecordBatch.from_arrays([pa.array(data, pa.binary())], schema=_PIECES)
