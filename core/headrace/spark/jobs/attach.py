"""A pipeline on Spark, DataFrames in and DataFrames out (MillWheel 3, 5.2).

Rules of this file: each injector's DataFrame has its own low watermark, by a delay or in a column. A union of the DataFrames
makes Spark's watermark the minimum. A chain of stateful operators follows, one for each level or one for all:
Spark would plan an operator twice if two DataFrames used it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, IntegralType, TimestampNTZType, TimestampType

from headrace.api.codecs import writes_json
from headrace.api.pipeline import Pipeline
from headrace.api.specs import InjectorSpec
from headrace.api.time import HOUR
from headrace.spark.host_errors import SparkHostError
from headrace.spark.hosting.history_sample import Sample, sample_of
from headrace.spark.hosting.layout import JobPlan, limits_of
from headrace.spark.hosting.metrics import observed
from headrace.spark.hosting.outputs import Outputs, unpacked
from headrace.spark.hosting.parcel_injection import CLOCK, SOURCE_COLUMNS, UNPARSED, inject
from headrace.spark.hosting.parcels import PARCEL_SCHEMA
from headrace.spark.hosting.processor import OperatorProcessor, bounded
from headrace.spark.jobs.heartbeats import PROCESS_COLUMN, Heartbeats, shaped_like
from headrace.spark.sources.job_clock import WallTimerCheck, read_clock
from headrace.spark.sources.schema import WATERMARK_COLUMN

_PREPARED = (*SOURCE_COLUMNS, WATERMARK_COLUMN)


@dataclass(frozen=True, slots=True)
class Input:
    """How a DataFrame's columns become an injector's records.

    Attributes:
        frame: the DataFrame, streaming or bounded.
        key: column with the record's own key, a string.
        timestamp: column with its event time: a timestamp, or a number of microseconds.
        value: columns that make up its value, a dict; one binary column: its bytes, already encoded; ``None``: all columns.
        stream: one of the injector's streams; default: its only one.
        record_id: column with an id that the source repeats with the record, so that repeated records are recognized (6.1.1).
        keep_ids_us: how long after the watermark has passed a record its id is kept, event time in microseconds.
        delay_us: how far the low watermark is behind the latest timestamp, microseconds, as with Spark's ``withWatermark``.
        watermark: column with the injector's own low watermark, instead of a delay: a timestamp on heartbeat rows, null on
            records.
        process: column with the number of the injector's process that a record comes from, from 0, such as a partition of it.
            The low watermark is then the minimum over all processes of the injector (``processes=`` in the pipeline), each with
            that of its own records, less ``delay_us``. Jobs of `deploy`, and bounded input.
        corrupt: column, if the DataFrame has it, in which Spark's JSON and CSV readers put text that they cannot parse
            (``_corrupt_record string`` in the schema): the row is malformed, and its error and its dead letter have the text.
    """

    frame: DataFrame
    key: str
    timestamp: str
    value: str | Sequence[str] | None = None
    stream: str = ""
    record_id: str | None = None
    keep_ids_us: int = HOUR
    delay_us: int = 0
    watermark: str | None = None
    corrupt: str = "_corrupt_record"
    process: str | None = None


Inputs = Mapping[str, Input | DataFrame]
"""By injector, its records: see `attach`."""


def attach(
    pipeline: Pipeline,
    inputs: Mapping[str, Input | DataFrame],
    *,
    intervals: int = 16,
    clock_us: int | None = None,
    history: bool | Sample = False,
    tallies: bool = False,
) -> Outputs:
    """Put a pipeline between DataFrames.

    Args:
        pipeline: the pipeline, unchanged from the simulated cluster.
        inputs: for each injector, its records: a DataFrame from `injected`, or an `Input` for any other.
        intervals: key intervals of each computation, which bound its parallelism. Each costs about a millisecond in each
            micro-batch that touches it.
        clock_us: how often to check for due wall timers, microseconds; ``None``: there are no wall timers. Streaming only. Each
            check is a micro-batch, even if no timer is pending (`deploy` knows which are). So ``processAllAvailable`` returns
            only if the micro-batches of the query take less time than this.
        history: also emit the History, for the checkers; a `Sample`: of some of the keys.
        tallies: also emit the tallies from which a job's progress is computed.

    Raises:
        SparkHostError: inputs and injectors do not match, or the pipeline uses a feature that Spark does not support.
    """
    if is_streaming(inputs):
        check_followed(pipeline, inputs, "your own query on the outputs of attach")
    clock = None if clock_us is None else WallTimerCheck(clock_us)
    layout = JobPlan(pipeline, intervals, history=sample_of(history))
    parcels = attached(pipeline, inputs, layout, clock=clock)
    return unpacked(parcels, pipeline, tallies=tallies)


def check_followed(pipeline: Pipeline, inputs: Inputs, where: str) -> None:
    """Refuse what needs somebody who follows the whole job: skew limits (8.4), and inputs of several processes.

    Args:
        pipeline: the pipeline.
        inputs: the inputs.
        where: where nobody does, for the error message.

    Raises:
        SparkHostError: an injector has a skew limit, or an input names the column of its process.
    """
    for name in limits_of(pipeline):
        problem = f"injector {name!r} has a skew limit, but in {where} nobody knows how far the slowest computation is"
        raise SparkHostError(problem, "Use deploy, or set skew_limit_us=None")
    for name, entry in inputs.items():
        if isinstance(entry, Input) and entry.process is not None:
            problem = f"the input of injector {name!r} names the column of its process, but in {where} nobody follows each"
            raise SparkHostError(problem, "Use deploy, or leave out process=")


def attached(
    pipeline: Pipeline,
    inputs: Inputs,
    layout: JobPlan,
    *,
    clock: WallTimerCheck | None,
    wall_timers: bool = True,
    heartbeats: Heartbeats | None = None,
) -> DataFrame:
    """Do what `attach` does, up to the last operator's rows, for a query with this layout, but for what follows from the inputs.

    Without ``wall_timers`` a clock only tells the slowest low watermark. ``heartbeats`` tell low watermarks of inputs.
    """
    check_inputs(pipeline, inputs)
    streaming = is_streaming(inputs)
    # In pipeline order: a checkpoint identifies the sources of a query by position.
    prepared = {name: prepared_input(pipeline, name, inputs[name]) for name in pipeline.injectors}
    sources = sources_of(inputs)
    plan = replace(
        layout,
        pipeline=pipeline,
        with_ids=sources.with_ids,
        timed_by_source=sources.timed,
        clock=(clock is not None and wall_timers) or not streaming,
        progress=streaming,
        limits=limits_of(pipeline) if streaming else {},
    )
    if streaming:
        if heartbeats is not None:
            prepared = {name: heartbeats.with_heartbeats(name, frame) for name, frame in prepared.items()}
        prepared = {
            name: frame.withWatermark(WATERMARK_COLUMN, f"{delay_of(inputs[name])} microseconds")
            for name, frame in prepared.items()
        }
        if clock is not None:
            prepared[CLOCK] = _ticks(next(iter(prepared.values())), clock)
    # Spark has read its watermark by now; only these columns go to Python.
    frames = [frame.drop(PROCESS_COLUMN) for frame in prepared.values()]
    rows = reduce(lambda united, frame: united.unionByName(frame), frames).select(*SOURCE_COLUMNS)
    parcels = rows.mapInArrow(partial(inject, plan, sources.kept_ids_us), PARCEL_SCHEMA)
    for level in range(1 if plan.fused else len(plan.levels)):
        parcels = level_operator(parcels, plan, level, streaming=streaming)
    return observed(parcels, pipeline) if streaming else parcels


def level_operator(parcels: DataFrame, plan: JobPlan, level: int, *, streaming: bool) -> DataFrame:
    """Add the operator of one level, or of all, from incoming to outgoing parcels."""
    if streaming:
        return operator(parcels, OperatorProcessor(plan, level))
    return parcels.groupBy("group").applyInArrow(bounded(plan, level), PARCEL_SCHEMA)


def operator(parcels: DataFrame, processor: StatefulProcessor) -> DataFrame:
    """Add a stateful operator, from incoming to outgoing parcels."""
    return parcels.groupBy("group").transformWithState(processor, PARCEL_SCHEMA, "append", "EventTime")


@dataclass(frozen=True, slots=True)
class Sources:
    """What is known of the injectors' inputs.

    Attributes:
        with_ids: injectors whose inputs give records ids.
        timed: those that also tell how far they were read.
        kept_ids_us: for each of the others, how long its record ids are kept, event time in microseconds.
    """

    with_ids: frozenset[str]
    timed: frozenset[str]
    kept_ids_us: dict[str, int]


def sources_of(inputs: Inputs) -> Sources:
    """Return what is known of the inputs."""
    return Sources(
        with_ids=frozenset(
            name
            for name, entry in inputs.items()
            if isinstance(entry, DataFrame) or entry.record_id is not None
        ),
        timed=frozenset(name for name, entry in inputs.items() if isinstance(entry, DataFrame)),
        kept_ids_us={name: entry.keep_ids_us for name, entry in inputs.items() if isinstance(entry, Input)},
    )


def check_inputs(pipeline: Pipeline, inputs: Inputs) -> None:
    """Check that each injector has one input.

    Raises:
        SparkHostError: an injector has none, or there is no such injector.
    """
    known = list(pipeline.injectors)
    if inputs.keys() != set(known):
        problem = (
            f"the inputs are for {list(inputs)}, but the injectors of pipeline {pipeline.name!r} are {known}"
        )
        raise SparkHostError(problem, "Give each injector one input")


def is_streaming(inputs: Inputs) -> bool:
    """Return whether the inputs are streaming, not bounded.

    Raises:
        SparkHostError: they are mixed.
    """
    kinds = {name: frame_of(entry).isStreaming for name, entry in inputs.items()}
    if len(set(kinds.values())) > 1:
        text = ", ".join(f"{name!r} is {'streaming' if kind else 'bounded'}" for name, kind in kinds.items())
        raise SparkHostError(
            f"bounded and streaming inputs cannot be mixed: {text}",
            "Read all of them as streams, or all of them bounded",
        )
    return any(kinds.values())


def check_streaming(inputs: Inputs) -> None:
    """Check that a job's inputs are streaming.

    Raises:
        SparkHostError: at least one is bounded.
    """
    if not is_streaming(inputs):
        raise SparkHostError("a job needs streaming inputs", "Use attach for bounded ones")


def frame_of(entry: Input | DataFrame) -> DataFrame:
    """Return the DataFrame of an input."""
    return entry.frame if isinstance(entry, Input) else entry


def delay_of(entry: Input | DataFrame) -> int:
    """Return how far an input's low watermark is behind its latest timestamp, microseconds."""
    return entry.delay_us if isinstance(entry, Input) else 0


def _ticks(like: DataFrame, clock: WallTimerCheck) -> DataFrame:
    """Return rows that tell that wall time has passed. They have no watermark, so they hold nothing back."""
    columns = {"injector": F.lit(CLOCK), "timestamp": F.col("slowest")}
    return shaped_like(like, read_clock(like.sparkSession, clock), columns)


def prepared_input(pipeline: Pipeline, name: str, entry: Input | DataFrame) -> DataFrame:
    """Convert an input to the columns that all inputs share."""
    if isinstance(entry, DataFrame):
        missing = [column for column in _PREPARED if column not in ("injector", *entry.columns)]
        if missing:
            problem = f"the DataFrame for injector {name!r} lacks the columns {missing}"
            raise SparkHostError(
                problem, "Use a DataFrame from injected(), or wrap yours in an Input that names its columns"
            )
        return entry.select(
            F.lit(name).alias("injector"), *[column for column in _PREPARED if column != "injector"]
        )
    _check_columns(name, entry)
    return _mapped(pipeline, name, pipeline.injectors[name], entry)


def _check_columns(name: str, entry: Input) -> None:
    values = [entry.value] if isinstance(entry.value, str) else list(entry.value or ())
    named = (entry.key, entry.timestamp, *values, entry.record_id, entry.watermark, entry.process)
    missing = [column for column in named if column is not None and column not in entry.frame.columns]
    if missing:
        problem = (
            f"the input of injector {name!r} names the columns {missing}, which its DataFrame does not have"
        )
        raise SparkHostError(problem, f"Its columns are {entry.frame.columns}")


def _mapped(pipeline: Pipeline, name: str, spec: InjectorSpec, entry: Input) -> DataFrame:
    frame = entry.frame
    stream = entry.stream or spec.outputs[0]
    if stream not in spec.outputs or (not entry.stream and len(spec.outputs) > 1):
        raise SparkHostError(
            f"injector {name!r} injects into {list(spec.outputs)}", "Choose one with Input(stream=...)"
        )
    timestamp = F.col(entry.timestamp)
    is_time = isinstance(frame.schema[entry.timestamp].dataType, TimestampType | TimestampNTZType)
    timestamp = F.unix_micros(timestamp.cast("timestamp")) if is_time else timestamp.cast("long")
    is_heartbeat = F.col(entry.watermark).isNotNull() if entry.watermark is not None else F.lit(False)  # noqa: FBT003
    mark = F.col(entry.watermark) if entry.watermark is not None else F.timestamp_micros(timestamp)
    own_id = F.col(entry.record_id) if entry.record_id else F.lit(None)  # null with the prefix, too
    to, value = F.when(~is_heartbeat, F.lit(stream)), _value(pipeline, name, stream, entry)
    if entry.corrupt in frame.columns:
        text = F.col(entry.corrupt).cast("string")
        file = F.coalesce(_file_of(frame), F.lit(""))
        to = F.when(text.isNotNull(), F.concat(F.lit(f"{UNPARSED}{stream}{UNPARSED}"), file)).otherwise(to)
        value = F.when(text.isNotNull(), F.encode(text, "utf-8")).otherwise(value)
        # The parsed fields of a corrupt row are unreliable.
        mark = F.when(text.isNull(), mark.cast("timestamp"))
    key, processes = F.col(entry.key).cast("string"), []
    if entry.process is not None:
        number = F.col(entry.process)
        mark = F.lit(None)
        processes = [number.cast("int").alias(PROCESS_COLUMN)]
        problem = F.concat(
            F.lit(f"injector {name!r}: a record comes from process "), number.cast("string"),
            F.lit(f", but the pipeline gives it {spec.processes}, from 0: deploy it with more processes"),
        )  # fmt: skip
        key = F.when((number < 0) | (number >= spec.processes), F.raise_error(problem)).otherwise(key)
    return frame.select(
        F.lit(name).alias("injector"),
        to.alias("stream"),
        key.alias("key"),
        value.alias("value"),
        timestamp.alias("timestamp"),
        F.concat(F.lit(f"{name}:"), own_id.cast("string")).alias("record_id"),
        F.lit(None).cast("long").alias("arrived"),
        F.lit(None).cast("long").alias("horizon"),
        mark.cast("timestamp").alias(WATERMARK_COLUMN),
        *processes,
    )


def _file_of(frame: DataFrame) -> Column:
    """Return the column with the file that a row is from; null if unknown."""
    try:
        names = frame.select("_metadata.file_path").columns
    except AnalysisException:
        names = []
    return F.col("_metadata.file_path") if names else F.lit(None).cast("string")


def _value(pipeline: Pipeline, name: str, stream: str, entry: Input) -> Column:
    frame = entry.frame
    if isinstance(entry.value, str) and isinstance(frame.schema[entry.value].dataType, BinaryType):
        return F.col(entry.value)
    codec = pipeline.codec(stream)
    if not writes_json(codec):
        problem = (
            f"Spark cannot encode columns with the codec {codec!r} of stream {stream!r} (injector {name!r})"
        )
        raise SparkHostError(
            problem, "Encode the values with that codec, and give them as one binary column, Input(value=...)"
        )
    if isinstance(entry.value, str) and isinstance(frame.schema[entry.value].dataType, IntegralType):
        return F.encode(F.coalesce(F.col(entry.value).cast("string"), F.lit("null")), "utf-8")
    if isinstance(
        entry.value, str
    ):  # Spark cannot write a bare number or string as JSON, but it can write an array of one
        listed = F.to_json(F.array(entry.value), {"ignoreNullFields": "false"})
        return F.encode(listed.substr(F.lit(2), F.length(listed) - 2), "utf-8")
    whole = [column for column in frame.columns if column != entry.corrupt]
    columns = whole if entry.value is None else entry.value
    return F.encode(F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}), "utf-8")
