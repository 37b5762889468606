"""Recording a job: the user's own function, from input DataFrames to a started query, is called with stand-ins.

``record(build, "word STRING, at TIMESTAMP")`` returns the `SparkJob` that ``build(df)`` starts. A parameter that is named
``spark``, annotated as a ``SparkSession`` or used as one gets a session, whose ``readStream`` gives streams of the schema that it
is told.
"""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Any, Self

from pyspark.errors import PySparkValueError
from pyspark.sql import DataFrame, GroupedData
from pyspark.sql import types as t
from pyspark.sql.classic.dataframe import DataFrameNaFunctions
from pyspark.sql.streaming import DataStreamReader, DataStreamWriter, StreamingQuery
from pyspark.sql.streaming.listener import StreamingQueryProgress

from headrace_sim.spark.client.parameters import is_session
from headrace_sim.spark.client.query_lives import QueryLife, StartedQueries
from headrace_sim.spark.client.script_time import script_time
from headrace_sim.spark.client.sessions import Session, Streams
from headrace_sim.spark.columns.ddl import interval_us, parse_schema
from headrace_sim.spark.columns.expressions import bind
from headrace_sim.spark.columns.frames import Groups, Rows
from headrace_sim.spark.columns.joins import kind_of_join
from headrace_sim.spark.columns.recorded import shown
from headrace_sim.spark.columns.recorded_columns import column_of, columns_without_java, functions_in, node_of
from headrace_sim.spark.columns.sql_text import parse_expression
from headrace_sim.spark.job import (
    ApplyWithState,
    Branch,
    Columns,
    InitialState,
    MapInPandas,
    OutputMode,
    SparkJob,
    SparkJobError,
    SparkSink,
    Step,
    TimeMode,
    TransformWithState,
    Union,
    Watermark,
    WatermarkPolicy,
)  # fmt: skip
from headrace_sim.spark.refusals import (
    SPARKS_STATE,
    CannotFollowError,
    definition_of,
    gap_in,
    place_of_error,
    refuse_the_rest,
    shown_place,
    users_place,
)
from headrace_sim.spark.state.tasks import expect_processor

_ROW_BY_ROW = (
    "alias", "cache", "coalesce", "drop", "dropna", "fillna", "persist", "repartition", "select", "toDF",
    "unpersist", "withColumn", "withColumnRenamed", "withColumns", "withColumnsRenamed",
)  # fmt: skip
_LIKE_THE_FRAME = (
    "columns",
    "dtypes",
    "printSchema",
    "schema",
    "transform",
    "__getitem__",
    "__getattr__",
    "__repr__",
)
_KAFKA = "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, timestampType INT"
_FIXED_SCHEMAS = {
    "kafka": _KAFKA,
    "rate": "timestamp TIMESTAMP, value LONG",
    "socket": "value STRING",
    "text": "value STRING",
}
_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
_TIMEOUTS = ("NoTimeout", "ProcessingTimeTimeout", "EventTimeTimeout")


def record(
    build: Callable[..., Any], schemas: str | t.StructType | Mapping[str, str | t.StructType] | None = None
) -> SparkJob:
    """Return the job that the user's function builds.

    Args:
        build: Takes DataFrames, or a session, or both; starts a query, or returns a writer or a DataFrame.
        schemas: The schema of its input: one for all parameters, or by the parameter's name.

    Raises:
        CannotFollowError: If it calls something that is not simulated.
        SparkJobError: If Spark would refuse the job; if the function fails; if it starts no query, or several.
        SchemaTextError: If a schema cannot be parsed.

    """
    with captured() as session:
        given = {
            parameter: _argument(parameter, schemas, session, build)
            for parameter in inspect.signature(build).parameters.values()
            if parameter.kind not in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL}
        }
        by_name = {
            parameter.name: value
            for parameter, value in given.items()
            if parameter.kind is parameter.KEYWORD_ONLY
        }
        try:
            returned = build(*list(given.values())[: len(given) - len(by_name)], **by_name)
        except (CannotFollowError, SparkJobError):
            raise
        except Exception as error:
            if (gap := gap_in(error)) is not None:
                raise gap from error
            problem = f"{getattr(build, '__name__', build)}() raises {type(error).__name__}: {error}"
            raise SparkJobError(
                problem,
                shown_place(place_of_error(error, definition_of(build))),
                "Fix it, or give the job by hand as a SparkJob",
            ) from error
    started = session.queries.jobs or _unstarted(returned)
    if len(started) != 1:
        name = getattr(build, "__name__", str(build))
        what = "starts no query" if not started else f"starts {len(started)} queries"
        raise SparkJobError(
            f"{name}() {what}", "", "Let it start one: frame.writeStream.foreachBatch(function).start()"
        )
    return started[0]


@contextmanager
def captured() -> Iterator["RecordingSession"]:
    """Give PySpark a session that starts nothing, in simulated time, and keeps in ``queries`` what is started."""
    with script_time() as time:
        session = RecordingSession(StartedQueries(time))
        with columns_without_java(session):
            yield session


def _unstarted(returned: Any) -> list[SparkJob]:
    if isinstance(returned, StreamWriter):
        return [returned._job()]
    return [returned.writeStream._job()] if isinstance(returned, StreamFrame) else []


def _argument(
    parameter: inspect.Parameter, schemas: Any, session: "RecordingSession", build: Callable[..., Any]
) -> Any:
    if is_session(parameter, build):
        return session
    named = isinstance(schemas, Mapping)
    schema = schemas.get(parameter.name) if isinstance(schemas, Mapping) else schemas
    has_default = parameter.default is not inspect.Parameter.empty
    others = inspect.signature(build).parameters.values()
    needs_another = any(other.default is other.empty and not is_session(other, build) for other in others)
    if schema is None or (has_default and not named and (parameter.default is not None or needs_another)):
        if has_default:
            return parameter.default
        name = getattr(build, "__name__", str(build))
        remedy = f"Give its columns: --schema '{parameter.name}=word STRING, at TIMESTAMP'"
        raise SparkJobError(f"{name}() takes {parameter.name!r}, whose schema is not known", "", remedy)
    return session.stream(schema, parameter.name)


class RecordingSession(Session):
    """The session of a job that is recorded."""

    def __init__(self, queries: StartedQueries) -> None:
        super().__init__()
        self.queries = queries
        self._streams = count(1)

    @property
    def streams(self) -> "RecordedQueries":
        """The queries that were started."""
        return RecordedQueries(self.queries)

    def stream(self, schema: str | t.StructType, name: str = "") -> "StreamFrame":
        """Return a stream with a schema. ``name``: the parameter's, or it is counted."""
        parsed = parse_schema(schema) if isinstance(schema, str) else schema
        return StreamFrame(self, SparkJob(parsed), {name or f"stream{next(self._streams)}": parsed})

    def watermark_policy(self) -> WatermarkPolicy:
        """How several watermarks are combined, by the session's settings."""
        given = str(self.conf.get(_POLICY, "min"))
        try:
            return WatermarkPolicy(given.lower())
        except ValueError:
            problem = f"{_POLICY} is {given!r} (INVALID_CONF_VALUE)"
            raise SparkJobError(problem, "", "Set it to min or max") from None

    @property
    def readStream(self) -> "StreamReader":
        """A reader whose streams have the schema that it is given."""
        return StreamReader(self)


class StreamReader(DataStreamReader):
    """Replaces ``spark.readStream``."""

    def __init__(self, session: RecordingSession) -> None:
        self._session = session
        self._format = "parquet"
        self._schema: str | t.StructType | None = None

    def format(self, source: str) -> Self:
        """Choose the source."""
        self._format = source.lower()
        return self

    def schema(self, schema: str | t.StructType) -> Self:
        """Give the schema."""
        self._schema = schema
        return self

    def option(self, key: str, value: Any) -> Self:
        """Do nothing: the check provides the rows."""
        return self

    def options(self, **options: Any) -> Self:
        """Change nothing."""
        return self

    def load(
        self, path: Any = None, format: str | None = None, schema: Any = None, **options: Any
    ) -> "StreamFrame":
        """Return the stream."""
        self._format = format.lower() if format else self._format
        found = schema or self._schema or _FIXED_SCHEMAS.get(self._format)
        if found is None:
            raise CannotFollowError(
                f"readStream of {self._format} without a schema",
                users_place(),
                "Say readStream.schema('word STRING')",
            )
        return self._session.stream(found)

    def json(self, path: Any = None, schema: Any = None, **options: Any) -> "StreamFrame":
        """Return the stream."""
        return self.load(path, "json", schema)

    parquet = csv = orc = text = json


class _NoRows(Rows):
    """Tells what comes out of a step of a stream, and what a stream cannot do."""

    isStreaming = True


class StreamFrame(DataFrame):
    """A stream whose steps are recorded."""

    def __new__(cls, *_args: Any, **_kwargs: Any) -> Self:
        """Make one of ours."""
        return object.__new__(cls)

    def __init__(self, session: RecordingSession, job: SparkJob, sources: Mapping[str, t.StructType]) -> None:
        self._session = session
        self._job = job
        self._sources = sources
        self._empty = _NoRows(session, job.output, [])

    def _then(self, step: Step) -> "StreamFrame":
        return StreamFrame(self._session, self._job.then(step), self._sources)

    @property
    def sparkSession(self) -> Any:
        """The session."""
        return self._session

    @property
    def isStreaming(self) -> bool:
        """A stream streams."""
        return True

    @property
    def writeStream(self) -> "StreamWriter":
        """A writer that records the sink."""
        return StreamWriter(self)

    def withWatermark(self, eventTime: str, delayThreshold: str) -> "StreamFrame":
        """Record the watermark."""
        place = users_place()
        kind = bind(node_of(eventTime), self._job.output).type
        if not isinstance(kind, (t.TimestampType, t.TimestampNTZType)):
            problem = f"[EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE] The event time {eventTime!r} is {kind.simpleString().upper()}"
            raise SparkJobError(problem, shown_place(place), "Cast the column to TIMESTAMP first")
        return self._then(Watermark(eventTime, _delay_us(delayThreshold, place), self._job.output, place))

    def mapInPandas(self, func: Callable[..., Any], schema: Any, *_more: Any) -> "StreamFrame":
        """Record the function."""
        output = parse_schema(schema) if isinstance(schema, str) else schema
        return self._then(MapInPandas(func, output, users_place()))

    def union(self, other: DataFrame) -> "StreamFrame":
        """Record a union of two streams that matches columns by position."""
        place = users_place()
        if not isinstance(other, StreamFrame):
            problem = (
                "[_LEGACY_ERROR_TEMP_3102] Union between streaming and batch DataFrames is not supported"
            )
            raise SparkJobError(problem, shown_place(place), "Read the other one as a stream, too")
        output = self._empty.union(other._empty).schema
        for one, two in zip(output.fields, other.schema.fields, strict=True):
            if one.dataType != two.dataType:
                types = f"{one.dataType.simpleString()} and {two.dataType.simpleString()}"
                remedy = f"Cast the column {one.name!r} of both streams to one type before"
                raise CannotFollowError(f"union() of columns of types {types}", place, remedy)
        sources = {**self._sources, **other._sources}
        branches = (*self._branches(output, place), *other._branches(output, place))
        given = t.StructType([t.StructField(name, schema) for name, schema in sources.items()])
        return StreamFrame(self._session, SparkJob(given, (Union(branches, output, place),)), sources)

    unionAll = union

    @property
    def na(self) -> DataFrameNaFunctions:
        """Its functions for nulls."""
        return DataFrameNaFunctions(self)

    def unionByName(self, other: DataFrame, allowMissingColumns: bool = False) -> "StreamFrame":
        """Record a union of two streams that matches columns by name."""
        if allowMissingColumns:
            remedy = "Add the missing columns before: withColumn('x', F.lit(None).cast('INT'))"
            raise CannotFollowError("unionByName(allowMissingColumns=True)", users_place(), remedy)
        return self.union(other.select(*(f"`{name}`" for name in self.columns)))

    def _branches(self, output: t.StructType, place: str) -> tuple[Branch, ...]:
        """Return the steps of each stream in this one, ending with columns of the final names."""
        first, *rest = self._job.steps or (None,)
        branches: tuple[Branch, ...] = first.branches if isinstance(first, Union) else ()
        if not branches:
            (source,), rest = self._sources, list(self._job.steps)
            branches = (Branch(source),)
        renamed = Columns("toDF", lambda rows: rows.toDF(*output.names), output, place)
        steps = list[Columns | Watermark]()
        for step in (*rest, renamed):
            if not isinstance(step, Columns | Watermark):
                raise CannotFollowError(
                    "union() after a function or a step with state",
                    place,
                    "Bring the streams together before",
                )
            steps.append(step)
        return tuple(Branch(branch.source, (*branch.steps, *steps)) for branch in branches)

    def filter(self, condition: Any) -> "StreamFrame":
        """Record ``filter``."""
        if isinstance(condition, str):
            condition = column_of(parse_expression(condition, users_place()))
        return self._row_by_row("filter", (condition,), {})

    def where(self, condition: Any) -> "StreamFrame":
        """Record ``filter``."""
        return self.filter(condition)

    def selectExpr(self, *expr: Any) -> "StreamFrame":
        """Record ``select`` of columns given as SQL text."""
        place, texts = users_place(), expr[0] if expr and isinstance(expr[0], list) else expr
        columns = [column_of(parse_expression(text, place)) for text in texts]
        return self._row_by_row("select", columns, {})

    def join(self, other: DataFrame, on: Any = None, how: str | None = None) -> "StreamFrame":
        """Record a join with a frame of a batch, which keeps no state; one with a stream is Spark's own."""
        place, kind = users_place(), kind_of_join(how or "inner")
        if isinstance(other, StreamFrame):
            raise CannotFollowError("a join of two streams", place, SPARKS_STATE["join"])
        if kind in {"right", "full"}:
            problem = f"[UNSUPPORTED_OPERATION] a {kind} join of a stream with a batch would have to wait for the stream's end"
            raise SparkJobError(problem, shown_place(place), "Use an inner or left join, or swap the sides")
        return self._row_by_row("join", (other, on, how), {})

    def hint(self, name: str, *parameters: Any) -> "StreamFrame":
        """Do nothing: a hint changes how fast a join is."""
        return self

    def groupBy(self, *cols: Any) -> "StreamGroups":
        """Group by columns."""
        return StreamGroups(self, self._empty.groupBy(*cols))

    groupby = groupBy

    def _row_by_row(self, call: str, args: Any, options: Any) -> "StreamFrame":
        output = getattr(self._empty, call)(*args, **options).schema
        functions = tuple(functions_in([*args, *options.values()]))
        step = Columns(
            call, lambda rows: getattr(rows, call)(*args, **options), output, users_place(), functions
        )
        return self if call in {"cache", "persist", "unpersist"} else self._then(step)


def _recorded(call: str) -> Any:
    def method(self: StreamFrame, *args: Any, **options: Any) -> StreamFrame:
        return self._row_by_row(call, args, options)

    method.__doc__ = f"Record ``{call}``."
    return method


def _of_empty(name: str) -> Any:
    """Return a frame without rows, for what a stream knows without them."""
    original = getattr(Rows, name)
    if isinstance(original, property):
        return property(lambda self: getattr(self._empty, name))
    return lambda self, *args: original(self if name == "transform" else self._empty, *args)


for _name in _ROW_BY_ROW:
    setattr(StreamFrame, _name, _recorded(_name))
for _name in _LIKE_THE_FRAME:
    setattr(StreamFrame, _name, _of_empty(_name))


def _delay_us(text: str, place: str) -> int:
    """Return how late a row may be, in microseconds."""
    length_us = interval_us(text)
    if length_us is None:
        raise SparkJobError(
            f"[CANNOT_PARSE_INTERVAL] Unable to parse {text!r}",
            shown_place(place),
            "Write it as '10 minutes'",
        )
    if length_us < 0:
        problem = f"the delay threshold ({text}) should not be negative (IllegalArgumentException)"
        raise SparkJobError(problem, shown_place(place), "Say how much later than the latest a row may come")
    return length_us


class StreamGroups(GroupedData):
    """A stream grouped by columns."""

    def __init__(self, frame: StreamFrame, groups: Groups) -> None:
        self._frame = frame
        self._groups = groups

    def transformWithState(
        self, statefulProcessor: Any, outputStructType: Any, outputMode: str, timeMode: str, initialState: Any = None,
        eventTimeColumnName: str = "",
    ) -> StreamFrame:  # fmt: skip
        """Record the processor."""
        return self._with_state(
            statefulProcessor,
            outputStructType,
            outputMode,
            timeMode,
            initialState,
            eventTimeColumnName,
            pandas=False,
        )

    def transformWithStateInPandas(
        self, statefulProcessor: Any, outputStructType: Any, outputMode: str, timeMode: str, initialState: Any = None,
        eventTimeColumnName: str = "",
    ) -> StreamFrame:  # fmt: skip
        """Record the processor."""
        return self._with_state(
            statefulProcessor,
            outputStructType,
            outputMode,
            timeMode,
            initialState,
            eventTimeColumnName,
            pandas=True,
        )

    def _with_state(
        self,
        processor: Any,
        output: Any,
        output_mode: str,
        time_mode: str,
        initial: Any,
        event_time: str,
        *,
        pandas: bool,
    ) -> StreamFrame:
        place = users_place()
        expect_processor(processor, place)
        schema = parse_schema(output) if isinstance(output, str) else output
        step = TransformWithState(
            processor, self._keys(place), schema, _chosen(OutputMode, output_mode, "output mode", place),
            _chosen(TimeMode, time_mode, "time mode", place), pandas, _initial_state(initial, place), event_time, place,
        )  # fmt: skip
        if event_time and event_time not in schema.names:
            names = ", ".join(schema.names)
            problem = f"[UNRESOLVED_COLUMN.WITH_SUGGESTION] eventTimeColumnName {event_time!r} is not in the output: {names}"
            raise SparkJobError(problem, shown_place(place), "Name a TIMESTAMP column of the output schema")
        return self._frame._then(step)

    def applyInPandasWithState(
        self,
        func: Callable[..., Any],
        outputStructType: Any,
        stateStructType: Any,
        outputMode: str,
        timeoutConf: str,
    ) -> StreamFrame:
        """Record the function."""
        place = users_place()
        if timeoutConf not in _TIMEOUTS:
            raise SparkJobError(
                f"the timeout {timeoutConf!r} is none of: {', '.join(_TIMEOUTS)}",
                shown_place(place),
                "Choose one of them",
            )
        output, state = (
            parse_schema(schema) if isinstance(schema, str) else schema
            for schema in (outputStructType, stateStructType)
        )
        mode = _chosen(OutputMode, outputMode, "output mode", place)
        return self._frame._then(
            ApplyWithState(func, self._keys(place), output, state, mode, timeoutConf, place)
        )

    def _keys(self, place: str) -> tuple[str, ...]:
        names = [str(node.args[0]).strip("`") if node.name == "col" else None for node in self._groups._keys]
        for node, name in zip(self._groups._keys, names, strict=True):
            if name is None or "." in name:
                remedy = "Add it as a column first: withColumn('name', ...).groupBy('name')"
                raise CannotFollowError(f"groupBy({shown(node)}), a computed key,", place, remedy)
            bind(node, self._frame._job.output)
        return tuple(name for name in names if name is not None)


_CONDITIONS = {OutputMode: "STREAMING_OUTPUT_MODE.INVALID", TimeMode: "STATEFUL_PROCESSOR_UNKNOWN_TIME_MODE"}


def _chosen(kinds: Any, given: str, what: str, place: str) -> Any:
    found = next((kind for kind in kinds if kind.value == str(given).lower()), None)
    if found is None:
        named = ", ".join(kind.value for kind in kinds)
        raise SparkJobError(
            f"[{_CONDITIONS[kinds]}] the {what} {given!r} is none of: {named}",
            shown_place(place),
            "Choose one of them",
        )
    return found


def _initial_state(given: Any, place: str) -> InitialState | None:
    if given is None:
        return None
    if not isinstance(given, Groups):
        remedy = "Make it in the function: spark.createDataFrame(rows, schema).groupBy(key)"
        raise CannotFollowError("an initial state that is no grouped DataFrame of rows", place, remedy)
    keys = tuple(str(node.args[0]).strip("`") for node in given._keys)
    return InitialState(given._frame.schema, keys, tuple(given._frame._all()))


class StreamWriter(DataStreamWriter):
    """Replaces ``writeStream``: records the sink, and starts nothing."""

    def __init__(self, frame: StreamFrame) -> None:
        self._frame = frame
        self._sink = SparkSink()

    def _job(self) -> SparkJob:
        policy = self._frame._session.watermark_policy()
        return replace(self._frame._job, sink=self._sink, policy=policy)

    def _set(self, **changed: Any) -> Self:
        self._sink = replace(self._sink, **changed)
        return self

    def foreachBatch(self, func: Callable[[Any, int], Any]) -> Self:
        """Record the function."""
        return self._set(function=func)

    def format(self, source: str) -> Self:
        """Record the format."""
        return self._set(format=source.lower())

    def outputMode(self, outputMode: str) -> Self:
        """Record the output mode."""
        return self._set(output_mode=_chosen(OutputMode, outputMode, "output mode", users_place()))

    def option(self, key: str, value: Any) -> Self:
        """Record an option."""
        return self._set(options=(*self._sink.options, (key, str(value))))

    def options(self, **options: Any) -> Self:
        """Record options."""
        return self._set(
            options=(*self._sink.options, *((key, str(value)) for key, value in options.items()))
        )

    def queryName(self, queryName: str) -> Self:
        """Record the name."""
        return self._set(name=queryName)

    def partitionBy(self, *cols: Any) -> Self:
        """Record nothing: the layout of files does not matter to the check."""
        return self

    def trigger(self, **kinds: Any) -> Self:
        """Record the trigger."""
        given = [(name, value) for name, value in kinds.items() if value is not None]
        if len(given) != 1:
            raise PySparkValueError(errorClass="ONLY_ALLOW_SINGLE_TRIGGER", messageParameters={})
        if given[0][0] in {"continuous", "realTime"}:
            raise CannotFollowError(
                f"trigger({given[0][0]}=...)",
                users_place(),
                "Use micro-batches: processingTime or availableNow",
            )
        return self._set(trigger=given[0])

    def start(
        self, path: str | None = None, format: str | None = None, outputMode: str | None = None, partitionBy: Any = None,
        queryName: str | None = None, **options: Any,
    ) -> "RecordedQuery":  # fmt: skip
        """Record that the query is started."""
        self.options(**options)._set(target=path or self._sink.target, place=users_place())
        if queryName is not None:
            self.queryName(queryName)
        if format is not None:
            self.format(format)
        if outputMode is not None:
            self.outputMode(outputMode)
        return RecordedQuery(self._frame._session.queries.start(self._job()))

    def toTable(self, tableName: str, **given: Any) -> "RecordedQuery":
        """Record that the query is started."""
        return self.start(tableName, **given)


class RecordedQuery(StreamingQuery):
    """The result of ``start()``: a query of which no batch runs."""

    def __init__(self, life: QueryLife) -> None:
        self._life = life

    @property
    def id(self) -> str:
        """The query's id."""
        return self._life.id

    @property
    def runId(self) -> str:
        """The id of this run."""
        return self._life.run_id

    @property
    def name(self) -> Any:
        """The query's name, or None."""
        return self._life.name

    @property
    def isActive(self) -> bool:
        """Whether it runs."""
        return self._life.look()

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:
        """What is known of the latest batch."""
        return next(reversed(self.recentProgress), None)

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:
        """What is known of each batch."""
        return [StreamingQueryProgress.fromJson(json.loads(told)) for told in self._life.progress]

    @property
    def status(self) -> dict[str, Any]:
        """Whether it waits, or has ended."""
        self._life.look()
        return self._life.status

    def awaitTermination(self, timeout: int | None = None) -> bool | None:
        """Let the time pass."""
        ended = self._life.wait(timeout)
        return None if timeout is None else ended

    def explain(self, extended: bool = False) -> None:
        """Print nothing."""

    def processAllAvailable(self) -> None:
        """Return at once."""

    def stop(self) -> None:
        """End it."""
        self._life.stop()

    def exception(self) -> None:
        """Return nothing: it did not fail."""


class RecordedQueries(Streams):
    """Replaces ``spark.streams``."""

    def __init__(self, queries: StartedQueries) -> None:
        self._queries = queries

    @property
    def active(self) -> list[StreamingQuery]:
        """Those that run."""
        return [RecordedQuery(life) for life in self._queries.active]

    def get(self, id: str) -> StreamingQuery | None:
        """Return a query by its id."""
        life = self._queries.get(id)
        return None if life is None else RecordedQuery(life)

    def awaitAnyTermination(self, timeout: int | None = None) -> bool | None:
        """Let the time pass."""
        ended = self._queries.wait_for_any(timeout)
        return None if timeout is None else ended


_REMEDY = "Move it out of the function that builds the query, or give the job by hand as a SparkJob"
for _stand_in, _original in (
    (StreamReader, DataStreamReader), (StreamFrame, DataFrame), (StreamGroups, GroupedData), (StreamWriter, DataStreamWriter),
    (RecordedQuery, StreamingQuery),
):  # fmt: skip
    refuse_the_rest(_stand_in, _original, _REMEDY, SPARKS_STATE)
