"""A pipeline on Spark, DataFrames in and DataFrames out (MillWheel 3, 5.2).

Rules of this file: each injector's DataFrame says its own low watermark, by a delay or in a column; they are united, so that
Spark's watermark is the least of them; then comes one stateful operator for each level, in a chain, since an operator that two
DataFrames ask for would be planned twice.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.sql.types import BinaryType, IntegralType, TimestampNTZType, TimestampType

from headrace.api.codecs import JsonCodec, TypedCodec
from headrace.api.pipeline import Pipeline
from headrace.api.specs import InjectorSpec
from headrace.api.time import HOUR
from headrace.spark.errors import SparkHostError
from headrace.spark.hosting.history_sample import Sample
from headrace.spark.hosting.injection import CLOCK, SOURCE_COLUMNS, UNPARSED, injecting
from headrace.spark.hosting.layout import Plan, plan_of
from headrace.spark.hosting.metrics import observed
from headrace.spark.hosting.outputs import OUTPUT_SCHEMA, Outputs, unpack
from headrace.spark.hosting.parcels import PARCEL_SCHEMA
from headrace.spark.hosting.processor import LevelProcessor, bounded
from headrace.spark.sources.schema import WATERMARK_COLUMN
from headrace.spark.sources.wall_clock import Clock, read_clock

_PREPARED = (*SOURCE_COLUMNS, WATERMARK_COLUMN)


@dataclass(frozen=True, slots=True)
class Input:
    """How a DataFrame's columns become an injector's records.

    Attributes:
        frame: streaming or bounded.
        key: column of the record's own key, a string.
        timestamp: column of its event time: a timestamp, or a number of microseconds.
        value: columns of its value, as a dict of them; one binary column: its bytes, encoded already; ``None``: all columns.
        stream: which of the injector's streams; default: its only one.
        record_id: column of an id that the source repeats with the record, so that a repeated record is known (6.1.1).
        keep_ids_us: for how long after the watermark has passed a record its repetition is known; event time in microseconds.
        delay_us: the low watermark is this much behind the latest timestamp, as with Spark's ``withWatermark``.
        watermark: column of the injector's own low watermark: a timestamp on heartbeat rows, null on records. Instead of a delay.
        corrupt: column, if the DataFrame has it, into which Spark's readers of JSON and CSV put the text that they can not parse
            (``_corrupt_record string`` in the schema): the row is malformed, its error shows the text, its dead letter has it.
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
        pipeline: the very one that is verified in the simulated cluster.
        inputs: for each injector, its records: a DataFrame of `injected`, or an `Input` for any other.
        intervals: key intervals of each computation: how far it can be spread over cores. Each costs about a millisecond in each
            micro-batch that touches it.
        clock_us: wall timers are looked at this often, microseconds; ``None``: there are none. Streaming only. Each look is a
            micro-batch, also where no timer is pending (`deploy` knows which are); so a query with a clock is never idle for
            ``processAllAvailable``, unless its micro-batches take less time than this.
        history: also give out the History of what happened, for the checkers; a `Sample`: of some of the keys.
        tallies: also give out what a job's progress is put together from, for those who run it.

    Raises:
        SparkHostError: inputs and injectors do not fit together, or the pipeline asks for what Spark can not do.
    """
    clock = None if clock_us is None else Clock(clock_us)
    return attached(pipeline, inputs, intervals=intervals, clock=clock, history=history, tallies=tallies)


def attached(
    pipeline: Pipeline,
    inputs: Mapping[str, Input | DataFrame],
    *,
    intervals: int,
    clock: Clock | None,
    history: bool | Sample,
    tallies: bool,
) -> Outputs:
    """Do what `attach` does, with this clock."""
    pipeline.validate()
    check_inputs(pipeline, inputs)
    streaming = is_streaming(inputs)
    # A checkpoint has the offsets of a query's sources in order.
    prepared = {name: prepared_input(pipeline, name, inputs[name]) for name in pipeline.injectors}
    sources = sources_of(inputs)
    plan = plan_of(
        pipeline,
        intervals=intervals,
        with_ids=sources.with_ids,
        timed_by_source=sources.timed,
        clock=clock is not None or not streaming,
        history=history,
        progress=streaming,
    )
    if streaming:
        prepared = {
            name: frame.withWatermark(WATERMARK_COLUMN, _delay(inputs[name]))
            for name, frame in prepared.items()
        }
        if clock is not None:
            prepared[CLOCK] = _ticks(next(iter(prepared.values())), clock)
    # Spark reads its watermark before: what remains is all that goes to Python.
    rows = _united(prepared.values()).select(*SOURCE_COLUMNS)
    parcels = rows.mapInArrow(injecting(plan, sources.kept_ids_us), PARCEL_SCHEMA)
    for level in range(len(plan.levels)):
        parcels = level_operator(parcels, plan, level, streaming=streaming)
    if streaming:
        parcels = observed(parcels, pipeline)
    return Outputs(parcels.mapInArrow(partial(unpack, tallies), OUTPUT_SCHEMA), pipeline)


def level_operator(parcels: DataFrame, plan: Plan, level: int, *, streaming: bool) -> DataFrame:
    """One level of a plan, between the parcels that come and the parcels that leave."""
    groups = parcels.groupBy("group")
    if streaming:
        return groups.transformWithStateInPandas(
            LevelProcessor(plan, level), PARCEL_SCHEMA, "append", "EventTime"
        )

    return groups.applyInArrow(bounded(plan, level), PARCEL_SCHEMA)


@dataclass(frozen=True, slots=True)
class Sources:
    """What is known of the injectors' inputs.

    Attributes:
        with_ids: injectors whose records have ids of their own.
        timed: those that also say how far they were read.
        kept_ids_us: of the others: for how long, in event time, a record that is repeated is known as such.
    """

    with_ids: frozenset[str]
    timed: frozenset[str]
    kept_ids_us: dict[str, int]


def sources_of(inputs: Mapping[str, Input | DataFrame]) -> Sources:
    """What the inputs say of themselves."""
    return Sources(
        with_ids=frozenset(
            name
            for name, given in inputs.items()
            if isinstance(given, DataFrame) or given.record_id is not None
        ),
        timed=frozenset(name for name, given in inputs.items() if isinstance(given, DataFrame)),
        kept_ids_us={name: given.keep_ids_us for name, given in inputs.items() if isinstance(given, Input)},
    )


def check_inputs(pipeline: Pipeline, inputs: Mapping[str, Input | DataFrame]) -> None:
    """Each injector has one input.

    Raises:
        SparkHostError: it has not.
    """
    known = list(pipeline.injectors)
    strange = [name for name in inputs if name not in known]
    missing = [name for name in known if name not in inputs]
    if strange or missing:
        problem = f"inputs are given for {list(inputs)}, and the pipeline {pipeline.name!r} has the injectors {known}"
        raise SparkHostError(problem, "Give each injector one input")


def is_streaming(inputs: Mapping[str, Input | DataFrame]) -> bool:
    """Tell whether the inputs are streams, or bounded.

    Raises:
        SparkHostError: some are, and some are not.
    """
    kinds = {name: frame_of(given).isStreaming for name, given in inputs.items()}
    if len(set(kinds.values())) > 1:
        text = ", ".join(f"{name!r} is {'streaming' if kind else 'bounded'}" for name, kind in kinds.items())
        raise SparkHostError(
            f"bounded and streaming inputs can not be mixed: {text}", "Read all of them in one way"
        )
    return any(kinds.values())


def check_streaming(inputs: Mapping[str, Input | DataFrame]) -> None:
    """A job's inputs are streams.

    Raises:
        SparkHostError: they are not, or only some are.
    """
    if not is_streaming(inputs):
        raise SparkHostError("a job needs streaming inputs", "For bounded ones there is attach")


def frame_of(given: Input | DataFrame) -> DataFrame:
    """The DataFrame of an input."""
    return given.frame if isinstance(given, Input) else given


def _delay(given: Input | DataFrame) -> str:
    return f"{given.delay_us} microseconds" if isinstance(given, Input) else "0 seconds"


def _united(prepared: Iterable[DataFrame]) -> DataFrame:
    first, *others = prepared
    for other in others:
        first = first.unionByName(other)
    return first


def _ticks(like: DataFrame, clock: Clock) -> DataFrame:
    """Rows that say that time has passed. They have no watermark, and so hold nothing back."""
    schema = {field.name: field.dataType for field in like.schema}
    columns = [
        F.lit(CLOCK if name == "injector" else None).cast(schema[name]).alias(name) for name in _PREPARED
    ]
    return read_clock(like.sparkSession, clock).select(*columns)


def prepared_input(pipeline: Pipeline, name: str, given: Input | DataFrame) -> DataFrame:
    """Bring an input into the columns that all have."""
    if isinstance(given, DataFrame):
        missing = [column for column in _PREPARED if column not in ("injector", *given.columns)]
        if missing:
            problem = f"the DataFrame for injector {name!r} lacks the columns {missing}"
            raise SparkHostError(
                problem, "Give one that injected() made, or say with Input which columns are what"
            )
        return given.select(F.lit(name).alias("injector"), *[one for one in _PREPARED if one != "injector"])
    _check_columns(name, given)
    return _mapped(pipeline, name, pipeline.injectors[name], given)


def _check_columns(name: str, given: Input) -> None:
    values = [given.value] if isinstance(given.value, str) else list(given.value or ())
    wanted = [
        given.key,
        given.timestamp,
        *values,
        *[one for one in (given.record_id, given.watermark) if one is not None],
    ]
    missing = [column for column in wanted if column not in given.frame.columns]
    if missing:
        problem = (
            f"the input of injector {name!r} names the columns {missing}, which its DataFrame does not have"
        )
        raise SparkHostError(problem, f"It has {given.frame.columns}")


def _mapped(pipeline: Pipeline, name: str, spec: InjectorSpec, given: Input) -> DataFrame:
    frame = given.frame
    stream = given.stream or spec.outputs[0]
    if stream not in spec.outputs or (not given.stream and len(spec.outputs) > 1):
        raise SparkHostError(
            f"injector {name!r} injects into {list(spec.outputs)}", "Say which with Input(stream=...)"
        )
    time_type = frame.schema[given.timestamp].dataType
    is_time = isinstance(time_type, TimestampType | TimestampNTZType)
    timestamp = (
        F.unix_micros(F.col(given.timestamp).cast("timestamp"))
        if is_time
        else F.col(given.timestamp).cast("long")
    )
    is_heartbeat = F.col(given.watermark).isNotNull() if given.watermark is not None else F.lit(False)  # noqa: FBT003
    mark = F.col(given.watermark) if given.watermark is not None else F.timestamp_micros(timestamp)
    record_id = (
        F.concat(F.lit(f"{name}:"), F.col(given.record_id).cast("string"))
        if given.record_id
        else F.lit(None).cast("string")
    )
    to, value = F.when(~is_heartbeat, F.lit(stream)), _value(pipeline, name, stream, given)
    if given.corrupt in frame.columns:
        text = F.col(given.corrupt).cast("string")
        file = F.coalesce(_file_of(frame), F.lit(""))
        to = F.when(text.isNotNull(), F.concat(F.lit(f"{UNPARSED}{stream}{UNPARSED}"), file)).otherwise(to)
        value = F.when(text.isNotNull(), F.encode(text, "utf-8")).otherwise(value)
        mark = F.when(text.isNull(), mark.cast("timestamp"))  # what was read of it is not to be relied on
    return frame.select(
        F.lit(name).alias("injector"),
        to.alias("stream"),
        F.col(given.key).cast("string").alias("key"),
        value.alias("value"),
        timestamp.alias("timestamp"),
        record_id.alias("record_id"),
        F.lit(None).cast("long").alias("arrived"),
        F.lit(None).cast("long").alias("horizon"),
        mark.cast("timestamp").alias(WATERMARK_COLUMN),
    )


def _file_of(frame: DataFrame) -> Column:
    """The file that a row is from; null where that is not known."""
    try:
        names = frame.select("_metadata.file_path").columns
    except AnalysisException:
        names = []
    return F.col("_metadata.file_path") if names else F.lit(None).cast("string")


def _value(pipeline: Pipeline, name: str, stream: str, given: Input) -> Column:
    frame = given.frame
    if isinstance(given.value, str) and isinstance(frame.schema[given.value].dataType, BinaryType):
        return F.col(given.value)
    codec = pipeline.codec(stream)
    if not isinstance(codec, JsonCodec | TypedCodec):
        problem = f"stream {stream!r} is written by {codec!r}, which Spark's columns can not be turned into (injector {name!r})"
        raise SparkHostError(problem, "Give one binary column as Input(value=...), encoded with that codec")
    if isinstance(given.value, str) and isinstance(frame.schema[given.value].dataType, IntegralType):
        return F.encode(F.coalesce(F.col(given.value).cast("string"), F.lit("null")), "utf-8")
    if isinstance(given.value, str):  # Spark writes no bare number or text as JSON, but an array of one
        listed = F.to_json(F.array(given.value), {"ignoreNullFields": "false"})
        return F.encode(listed.substr(F.lit(2), F.length(listed) - 2), "utf-8")
    columns = (
        list(given.value)
        if given.value is not None
        else [one for one in frame.columns if one != given.corrupt]
    )
    return F.encode(F.to_json(F.struct(*columns), {"ignoreNullFields": "false"}), "utf-8")
