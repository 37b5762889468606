"""A started query's plan, split once into sources, steps and a sink: a `SparkJob`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pyspark.sql.connect.proto as pb
from pyspark.sql import types as t

from headrace_sim.spark.columns.ddl import interval_us, parse_schema
from headrace_sim.spark.columns.expressions import bind
from headrace_sim.spark.columns.frames import Rows, column
from headrace_sim.spark.columns.joins import joined, kind_of_join
from headrace_sim.spark.columns.recorded import USER_FUNCTION, Recorded, shown
from headrace_sim.spark.plan.plan_expressions import (
    expressions_in,
    kind_of,
    marked,
    placed,
    refuse_unread,
    user_function,
)
from headrace_sim.spark.plan.relations import Compiler, Computed, join_of
from headrace_sim.spark.pyspark_versions import PythonEvalType
from headrace_sim.spark.refusals import SPARKS_STATE, CannotFollowError, columns_named
from headrace_sim.spark.spark_job import (
    Aggregate,
    ApplyWithState,
    Columns,
    Deduplicate,
    InitialState,
    Limit,
    MapInPandas,
    OutputMode,
    SparkJob,
    SparkJobError,
    SparksOwn,
    Step,
    StreamBranch,
    StreamJoin,
    StreamSource,
    TimeMode,
    TransformWithState,
    Union,
    UsersOwn,
    WatermarkStep,
)
from headrace_sim.spark.state.tasks import expect_processor

PARAMETER = "headrace parameter"
"""The format of a stream that a function takes as a parameter. Its option ``name`` is the parameter's."""
FIXED_SCHEMAS = {
    "eventhubs": "body BINARY, partition STRING, offset STRING, sequenceNumber LONG, enqueuedTime TIMESTAMP, publisher STRING, "
    "partitionKey STRING, properties MAP<STRING, STRING>, systemProperties MAP<STRING, STRING>",
    "kinesis": "partitionKey STRING, data BINARY, stream STRING, shardId STRING, sequenceNumber STRING, "
    "approximateArrivalTimestamp TIMESTAMP",
    "kafka": "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, timestampType INT",
    "org.apache.bahir.sql.streaming.mqtt.mqttstreamsourceprovider": "id INT, topic STRING, payload BINARY, timestamp TIMESTAMP",
    "rate": "timestamp TIMESTAMP, value LONG",
    "rate-micro-batch": "timestamp TIMESTAMP, value LONG",
    "socket": "value STRING",
    "text": "value STRING",
    "binaryFile": "path STRING, modificationTime TIMESTAMP, length LONG, content BINARY",
}
_TIMEOUTS = ("NoTimeout", "ProcessingTimeTimeout", "EventTimeTimeout")


@dataclass(frozen=True, slots=True)
class Stream:
    """A stream of a plan: where its rows come from, and what is done to them."""

    sources: Mapping[str, StreamSource]  # by name
    steps: tuple[Step, ...]  # one after the other
    output: t.StructType  # the schema of what comes out

    @property
    def input(self) -> t.StructType:
        """The schema of a job's input: of its source, or a column with a struct for each."""
        if len(self.sources) == 1 and not (self.steps and isinstance(self.steps[0], Union | StreamJoin)):
            return next(iter(self.sources.values())).schema
        return t.StructType([t.StructField(name, source.schema) for name, source in self.sources.items()])

    def then(self, step: Step, output: t.StructType | None = None) -> "Stream":
        """Return it with one more step."""
        return replace(self, steps=(*self.steps, step), output=step.output if output is None else output)


@dataclass(slots=True)
class Splitter:
    """Splits the relations of streams."""

    compiler: Compiler  # compiles what is no stream
    # returns the relation that a view's name or a SQL text stands for; any other as it is
    resolved: Callable[[pb.Relation], pb.Relation] = lambda relation: relation
    # returns the schema of what a topic, a table or a path holds, if something tells it
    known: Callable[[StreamSource], t.StructType | None] = lambda _source: None
    numbers: Iterator[int] = field(default_factory=lambda: count(1))
    seen: dict[int, Stream] = field(default_factory=dict)
    streaming: dict[int, bool] = field(default_factory=dict)

    def is_stream(self, relation: pb.Relation) -> bool:
        """Return whether a relation reads from a stream."""
        number = number_of(relation)
        if number is not None and number in self.streaming:
            return self.streaming[number]
        resolved = self.resolved(relation)
        if resolved.WhichOneof("rel_type") == "read":
            streaming = bool(resolved.read.is_streaming)
        else:
            streaming = any(map(self.is_stream, inputs_of(resolved)))
        if number is not None:
            self.streaming[number] = streaming
        return streaming

    def split(self, relation: pb.Relation) -> Stream:
        """Return the stream that a relation describes.

        Raise `CannotFollowError` if it has a step that is not simulated, or `SparkJobError` if Spark would refuse it.
        """
        number = number_of(relation)
        if number is not None and number in self.seen:
            return self.seen[number]
        stream = self._split(self.resolved(relation))
        if number is not None:
            self.seen[number] = stream
        return stream

    def _split(self, relation: pb.Relation) -> Stream:
        kind, place = relation.WhichOneof("rel_type") or "", self.compiler.place(relation)
        message = getattr(relation, kind)
        if kind == "read":
            source = self._source(message, place)
            return Stream({source.name: source}, (), source.schema)
        if kind in _SPLIT:
            return _SPLIT[kind](self, message, place)
        if kind == "with_relations":
            remedy = "Write it with the calls of the DataFrame"
            raise CannotFollowError("this query in spark.sql() of a stream", place, remedy)
        if kind == "join" and all(map(self.is_stream, inputs_of(relation))):
            return self._joined(message, place)
        if kind == "set_op" and all(map(self.is_stream, inputs_of(relation))):
            return self._united(message, place)
        return self._by_columns(relation, kind, place)

    def _source(self, message: Any, place: str) -> StreamSource:
        options = dict(message.data_source.options)
        kind = message.data_source.format.lower() or "parquet"
        if message.HasField("named_table"):
            kind, options = "table", dict(message.named_table.options)
        name = options.pop("name", "") if kind == PARAMETER else ""
        path = ",".join(message.data_source.paths) or options.get("path", "")
        path = message.named_table.unparsed_identifier or path
        option = "" if kind == PARAMETER else kind
        source = StreamSource(name, option, t.StructType([]), tuple(options.items()), path, place)
        if message.data_source.schema:
            schema: t.StructType | None = _schema_of(message.data_source.schema)
        else:
            is_text = kind == "cloudfiles" and options.get("cloudFiles.format") in {"binaryFile", "text"}
            fixed = FIXED_SCHEMAS.get(options["cloudFiles.format"] if is_text else kind)
            schema = self.known(source) if fixed is None else parse_schema(fixed)
        if schema is None:
            named = f"{source.label}=" if source.label else ""
            option = f"--schema '{named}{columns_named(place.rpartition(':')[0])}'"
            own = "" if kind in {"delta", "iceberg", "table"} else "Say readStream.schema('word STRING'), or "
            remedy = f"{own}{'give' if own else 'Give'} it: {option}"
            raise CannotFollowError(f"readStream of {kind} without a schema", place, remedy)
        return replace(source, name=name or f"stream{next(self.numbers)}", schema=schema)

    def _by_columns(self, relation: pb.Relation, kind: str, place: str) -> Stream:
        """Return a stream with a step that treats each row separately: only one input is a stream."""
        message = getattr(relation, kind)
        streams = [stream for stream in inputs_of(relation) if self.is_stream(stream)]
        if kind == "join":
            self._expect_join(message, streams, place)
        elif kind == "set_op":
            problem = (
                "[_LEGACY_ERROR_TEMP_3102] Union between streaming and batch DataFrames is not supported"
            )
            raise SparkJobError(problem, place, "Read the other one as a stream, too")
        (stream,) = streams
        inner = self.split(stream)
        box: list[Rows] = []
        known: dict[int, Computed] = {stream.common.plan_id: lambda: box[0]}
        compiled = replace(self.compiler, known={**self.compiler.known, **known}).compiled(relation)

        def compute(rows: Rows) -> Rows:
            box[:] = [rows]
            return compiled()

        output = compute(Rows(inner.output, [], streaming=True)).schema
        if kind in _CHANGES_NOTHING:
            return inner
        nodes = tuple(map(self.compiler.reading(place), expressions_in(message)))
        functions = tuple(functions_in(nodes))
        return inner.then(Columns(_CALLED.get(kind, kind), compute, output, place, functions, nodes))

    def _expect_join(self, message: Any, streams: list[pb.Relation], place: str) -> None:
        kind = {"outer": "full", "cross": "inner"}.get(join_of(message), join_of(message))
        outer = {"full", "right" if streams[0] == message.left else "left"}
        if kind in outer:
            problem = f"[UNSUPPORTED_OPERATION] a {kind} join of a stream with a batch would have to wait for the stream's end"
            raise SparkJobError(problem, place, "Use an inner or left join, or swap the sides")

    def _aggregated(self, message: Any, place: str) -> Stream:
        refuse_unread(
            message, {"input", "group_type", "grouping_expressions", "aggregate_expressions"}, place
        )
        if message.group_type != message.GROUP_TYPE_GROUPBY:
            name = pb.Aggregate.GroupType.Name(message.group_type).removeprefix("GROUP_TYPE_").lower()
            raise CannotFollowError(f"{name}() of a stream", place, "Group by columns")
        inner = self.split(message.input)
        groups = self.compiler.nodes(message.grouping_expressions, place)
        values = self.compiler.nodes(message.aggregate_expressions, place)
        empty = Rows(inner.output, [], streaming=True)
        output = empty.aggregate([_as_window(node) for node in groups], values).schema
        return inner.then(Aggregate(tuple(groups), tuple(values), output, place=place))

    def _kept_once(self, message: Any, place: str) -> Stream:
        refuse_unread(message, {"input", "column_names", "all_columns_as_keys", "within_watermark"}, place)
        inner = self.split(message.input)
        names = [bind(column(f"`{name}`", place), inner.output).name for name in message.column_names]
        keys = tuple(names or inner.output.names)
        step = Deduplicate(keys, inner.output, within_watermark=message.within_watermark, place=place)
        return inner.then(step)

    def _limited(self, message: Any, place: str) -> Stream:
        refuse_unread(message, {"input", "limit"}, place)
        inner = self.split(message.input)
        return inner.then(Limit(message.limit, inner.output, place=place))

    def _joined(self, message: Any, place: str) -> Stream:
        """Return the join of two streams."""
        refuse_unread(message, {"left", "right", "join_condition", "join_type", "using_columns"}, place)
        left, right, how = self.split(message.left), self.split(message.right), kind_of_join(join_of(message))
        on: Any = tuple(message.using_columns)
        if message.HasField("join_condition"):
            condition = marked(message.join_condition, (message.left, message.right))
            on = placed(self.compiler.reading(place)(condition), (left.output, right.output))
        output = joined((left.output, []), (right.output, []), how, on, place)[0]
        step = StreamJoin(_branch(left), _branch(right), how, on, output, place=place)
        return Stream({**left.sources, **right.sources}, (step,), output)

    def _watermark(self, message: Any, place: str) -> Stream:
        inner = self.split(message.input)
        kind = bind(Recorded("col", (message.event_time,), place), inner.output).type
        if not isinstance(kind, (t.TimestampType, t.TimestampNTZType)):
            problem = f"The event time {message.event_time!r} is {kind.simpleString().upper()}"
            problem = f"[EVENT_TIME_IS_NOT_ON_TIMESTAMP_TYPE] {problem}"
            raise SparkJobError(problem, place, "Cast the column to TIMESTAMP first")
        delay = _delay_us(message.delay_threshold, place)
        return inner.then(WatermarkStep(message.event_time, delay, inner.output, place))

    def _united(self, message: Any, place: str) -> Stream:
        if message.set_op_type != message.SET_OP_TYPE_UNION or not message.is_all:
            raise CannotFollowError("a set operation of two streams", place, SPARKS_STATE)
        if message.allow_missing_columns:
            remedy = "Add the missing columns before: withColumn('x', F.lit(None).cast('INT'))"
            raise CannotFollowError("unionByName(allowMissingColumns=True)", place, remedy)
        left, right = self.split(message.left_input), self.split(message.right_input)
        empty = [Rows(stream.output, [], streaming=True) for stream in (left, right)]
        if message.by_name:
            ordered = empty[1].in_columns_of(empty[0])
            step = Columns("select", lambda rows: rows.in_columns_of(empty[0]), ordered.schema, place)
            right = right.then(step)
            empty[1] = ordered
        output = empty[0].union(empty[1], place).schema
        for one, two in zip(output.fields, empty[1].schema.fields, strict=True):
            if one.dataType != two.dataType:
                types = f"{one.dataType.simpleString()} and {two.dataType.simpleString()}"
                remedy = f"Cast the column {one.name!r} of both streams to one type before"
                raise CannotFollowError(f"union() of columns of types {types}", place, remedy)
        branches = (*_branches(left, output, place), *_branches(right, output, place))
        return Stream({**left.sources, **right.sources}, (Union(branches, output, place),), output)

    def _mapped(self, message: Any, place: str) -> Stream:
        function = user_function(message.func)
        if function.evalType != PythonEvalType.SQL_MAP_PANDAS_ITER_UDF:
            raise CannotFollowError("DataFrame.mapInArrow()", place, "Use mapInPandas()")
        return self.split(message.input).then(MapInPandas(function.func, function.returnType, place))

    def _applied(self, message: Any, place: str) -> Stream:
        if message.timeout_conf not in _TIMEOUTS:
            problem = f"the timeout {message.timeout_conf!r} is none of: {', '.join(_TIMEOUTS)}"
            raise SparkJobError(problem, place, "Choose one of them")
        inner, output, state = (
            self.split(message.input), _schema_of(message.output_schema), _schema_of(message.state_schema),
        )  # fmt: skip
        mode = chosen(OutputMode, message.output_mode, "output mode", place)
        keys = self._keys(message.grouping_expressions, inner.output, place)
        function = user_function(message.func).func
        return inner.then(ApplyWithState(function, keys, output, state, mode, message.timeout_conf, place))

    def _with_state(self, message: Any, place: str) -> Stream:
        if not message.HasField("transform_with_state_info"):
            raise CannotFollowError("applyInPandas() of a stream", place, SPARKS_STATE)
        inner, function = self.split(message.input), user_function(message.func)
        info = message.transform_with_state_info
        # PySpark wraps the processor: the function is a method of what drives it.
        processor = function.func.__self__._stateful_processor
        expect_processor(processor, place)
        schema = kind_of(info.output_schema)
        assert isinstance(schema, t.StructType)
        mode = chosen(OutputMode, message.output_mode, "output mode", place)
        event_time = info.event_time_column_name
        step = TransformWithState(
            processor, self._keys(message.grouping_expressions, inner.output, place), schema, mode,
            chosen(TimeMode, info.time_mode, "time mode", place), function.evalType in _OF_PANDAS,
            self._initial_state(message, place), event_time, place,
        )  # fmt: skip
        if event_time and event_time not in schema.names:
            problem = f"eventTimeColumnName {event_time!r} is not in the output: {', '.join(schema.names)}"
            problem = f"[UNRESOLVED_COLUMN.WITH_SUGGESTION] {problem}"
            raise SparkJobError(problem, place, "Name a TIMESTAMP column of the output schema")
        return inner.then(step)

    def _initial_state(self, message: Any, place: str) -> InitialState | None:
        if not message.HasField("initial_input"):
            return None
        rows = self.compiler.compiled(message.initial_input)()
        keys = self._keys(message.initial_grouping_expressions, rows.schema, place)
        return InitialState(rows.schema, keys, tuple(rows.all()))

    def _keys(self, expressions: Any, schema: t.StructType, place: str) -> tuple[str, ...]:
        names = []
        for node in self.compiler.nodes(expressions, place):
            name = str(node.args[0]).strip("`") if node.name == "col" else "."
            if "." in name:
                remedy = "Add it as a column first: withColumn('name', ...).groupBy('name')"
                raise CannotFollowError(f"groupBy({shown(node)}), a computed key,", place, remedy)
            bind(node, schema)
            names.append(name)
        return tuple(names)


_OF_PANDAS = frozenset(
    number for name, number in vars(PythonEvalType).items() if name.startswith("SQL_TRANSFORM_WITH_STATE_PANDAS")
)  # fmt: skip
_SPLIT: dict[str, Callable[[Splitter, Any, str], Stream]] = {
    "aggregate": Splitter._aggregated, "apply_in_pandas_with_state": Splitter._applied, "deduplicate": Splitter._kept_once,
    "group_map": Splitter._with_state, "limit": Splitter._limited, "map_partitions": Splitter._mapped,
    "with_watermark": Splitter._watermark,
}  # fmt: skip
"""The relations of a stream that become steps of their own."""
_CALLED = {
    "drop_na": "dropna", "fill_na": "fillna", "project": "select", "subquery_alias": "alias", "to_df": "toDF",
    "with_columns": "withColumn", "with_columns_renamed": "withColumnRenamed",
}  # fmt: skip
_CHANGES_NOTHING = frozenset({"collect_metrics", "hint", "repartition", "repartition_by_expression"})


def inlined(relation: pb.Relation, resolved: Callable[[pb.Relation], pb.Relation]) -> pb.Relation:
    """Return a copy of a relation with those of the views that it reads. ``resolved``: as in `Splitter`."""
    copied = pb.Relation()
    copied.CopyFrom(resolved(relation))
    for inner in inputs_of(copied):
        inner.CopyFrom(inlined(inner, resolved))
    return copied


def job_of(stream: Stream, plan: pb.Relation) -> SparkJob:
    """Return a stream as a job without a sink. ``plan``: its relation."""
    sources = tuple(stream.sources.values())
    serialized = plan.SerializeToString(deterministic=True)
    return SparkJob(stream.input, stream.steps, sources=sources, plan=serialized)


def number_of(relation: pb.Relation) -> int | None:
    """Return the number that PySpark's client has given to a relation, from 0; None: it made no such relation."""
    return relation.common.plan_id if relation.common.HasField("plan_id") else None


def inputs_of(relation: pb.Relation) -> list[pb.Relation]:
    """Return the relations that a relation is made of, one level down."""
    kind = relation.WhichOneof("rel_type")
    if kind is None:
        return []
    message = getattr(relation, kind)
    if kind == "with_relations":
        return [*message.references]
    relations = [part for part in message.DESCRIPTOR.fields if part.message_type is pb.Relation.DESCRIPTOR]
    single = [part.name for part in relations if not part.is_repeated]
    return [getattr(message, name) for name in single if message.HasField(name)]


def functions_in(nodes: Any) -> list[Callable[..., Any]]:
    """Return the user's functions that columns call."""
    if isinstance(nodes, Recorded):
        own = [nodes.args[0].func] if nodes.name == USER_FUNCTION else []
        return own + functions_in(nodes.args[1:] if own else nodes.args)
    if isinstance(nodes, list | tuple):
        return [function for part in nodes for function in functions_in(part)]
    return []


def _branch(stream: Stream) -> StreamBranch:
    """Return the steps of a stream that is joined with another one."""
    if stream.steps and isinstance(stream.steps[0], Union | StreamJoin):
        return StreamBranch("", stream.steps)
    return StreamBranch(next(iter(stream.sources)), stream.steps)


def _branches(stream: Stream, output: t.StructType, place: str) -> tuple[StreamBranch, ...]:
    """Return the steps of each stream in this one, ending with columns of the final names."""
    renamed = Columns("toDF", lambda rows: rows.named(output.names), output, place)
    if any(isinstance(step, MapInPandas | UsersOwn) for step in stream.steps):
        remedy = "Bring the streams together before"
        raise CannotFollowError("union() after a function or a step with state", place, remedy)
    first, *rest = stream.steps or (None,)
    if isinstance(first, Union) and not any(isinstance(step, SparksOwn) for step in rest):
        return tuple(
            StreamBranch(branch.source, (*branch.steps, *rest, renamed)) for branch in first.branches
        )
    branch = _branch(stream)
    return (StreamBranch(branch.source, (*branch.steps, renamed)),)


def _as_window(node: Recorded) -> Recorded:
    """Return a session window as a window, which has a column of the same type."""
    if node.name == "session_window":
        window = Recorded("window", (node.args[0], "1 second"), node.place)
        return Recorded("as", (window, "session_window"), node.place)
    if node.name == "as":
        return Recorded("as", (_as_window(node.args[0]), *node.args[1:]), node.place)
    return node


def _schema_of(text: str) -> t.StructType:
    """Return a schema that PySpark wrote as JSON, or the user as DDL."""
    schema = t._parse_datatype_json_string(text) if text.lstrip().startswith("{") else parse_schema(text)
    assert isinstance(schema, t.StructType)
    return schema


def _delay_us(text: str, place: str) -> int:
    """Return how late a row may be, in microseconds."""
    length_us = interval_us(text)
    if length_us is None:
        problem = f"[CANNOT_PARSE_INTERVAL] Unable to parse {text!r}"
        raise SparkJobError(problem, place, "Write it as '10 minutes'")
    if length_us < 0:
        problem = f"the delay threshold ({text}) should not be negative (IllegalArgumentException)"
        raise SparkJobError(problem, place, "Say how much later than the latest a row may come")
    return length_us


_CONDITIONS = {OutputMode: "STREAMING_OUTPUT_MODE.INVALID", TimeMode: "STATEFUL_PROCESSOR_UNKNOWN_TIME_MODE"}


def chosen(kinds: Any, name: str, what: str, place: str) -> Any:
    """Return the member of an enumeration that a name of Spark's means. Raise `SparkJobError` if there is none."""
    member = next((kind for kind in kinds if kind.value == str(name).lower()), None)
    if member is None:
        named = ", ".join(kind.value for kind in kinds)
        problem = f"[{_CONDITIONS[kinds]}] the {what} {name!r} is none of: {named}"
        raise SparkJobError(problem, place, "Choose one of them")
    return member
