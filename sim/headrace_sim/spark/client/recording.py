"""Recording a job: the user's own function, from input DataFrames to a started query, with a session that starts nothing.

``record(build, "word STRING, at TIMESTAMP")`` returns the `SparkJob` that ``build(df)`` starts. A parameter that is named
``spark``, annotated as a ``SparkSession`` or used as one gets a session.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import pyspark.sql.connect.proto as pb
from pyspark.sql import DataFrame as ClassicDataFrame
from pyspark.sql import types as t
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.streaming.readwriter import DataStreamWriter
from pyspark.sql.streaming import DataStreamWriter as ClassicWriter

from headrace_sim.spark.client.connect_answers import Answers, SessionState
from headrace_sim.spark.client.parameters import is_session
from headrace_sim.spark.client.query_lives import QueryLife, StartedQueries
from headrace_sim.spark.client.script_time import script_time
from headrace_sim.spark.client.sessions import ModuleSession, connected
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.columns.drawn_values import UndrawableError, rows_there
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.in_force import settings_in_force
from headrace_sim.spark.plan.plan_expressions import object_of
from headrace_sim.spark.plan.plan_splitter import PARAMETER, chosen, inlined, inputs_of, job_of
from headrace_sim.spark.refusals import CannotFollowError, definition_of, gap_in, place_of_error
from headrace_sim.spark.spark_job import OutputMode, SparkJob, SparkJobError, SparkSink, WatermarkPolicy
from headrace_sim.spark.tables.connectors import FILE_FORMATS

_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"
_TRIGGERS = {
    "processing_time_interval": "processingTime", "available_now": "availableNow", "once": "once",
    "continuous_checkpoint_interval": "continuous", "real_time_batch_duration": "realTime",
}  # fmt: skip


class RecordingSession(ModuleSession):
    """A session that starts nothing.

    ``queries``: those that were started in it. ``place``: where they are started, if it is not the user's code that does it.
    """

    def __init__(self, queries: StartedQueries, state: SessionState) -> None:
        self.queries, self.place = queries, ""
        super().__init__(Answers(state=state, queries=queries, start=self._take))

    def _take(self, command: pb.WriteStreamOperationStart, place: str) -> QueryLife:
        job = job_started(self.answers, command, self.place or place)
        life = self.queries.start(job)
        life.metrics = dict(_observed(self.answers, command.input, job.sink.place))
        if job.sink.format == "memory" and job.sink.name:  # a view of what has come so far: nothing
            shown = self.frame(job.output, [])._plan.to_proto(self.client).root
            self.answers.state.views[job.sink.name.lower()] = shown
        return life


@contextmanager
def captured(state: SessionState | None = None) -> Iterator[RecordingSession]:
    """Give user code a session that starts nothing, in simulated time, and keeps in ``queries`` what is started.

    ``state``: what the session begins with.
    """
    with script_time() as time:
        session = RecordingSession(StartedQueries(time), state or SessionState())
        with connected(session):
            yield session


def job_started(answers: Answers, command: pb.WriteStreamOperationStart, place: str) -> SparkJob:
    """Return a query that is started, as a job.

    Raise `CannotFollowError` if it has a step that is not simulated, or `SparkJobError` if Spark would refuse it.
    """
    splitter = answers.splitter
    job = job_of(splitter.split(command.input), inlined(command.input, splitter.resolved))
    return replace(job.into(_sink(command, place)), policy=_policy(answers), state=answers.state.started())


def _observed(answers: Answers, relation: pb.Relation, place: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what each ``observe`` of a stream tells of a batch of one drawn row: its name, and its metrics by name."""
    relation = answers.splitter.resolved(relation)
    for inner in inputs_of(relation):
        yield from _observed(answers, inner, place)
    if relation.HasField("collect_metrics"):
        message = relation.collect_metrics
        with suppress(CannotFollowError, UndrawableError), settings_in_force(answers.state.settings.values):
            schema = answers.schema(message.input)
            nodes = answers.compiler().nodes(message.metrics, place)
            metrics = Rows(schema, [rows_there(schema)[:1]]).aggregate([], nodes)
            yield message.name, dict(zip(metrics.columns, metrics.all()[0], strict=True))


def _sink(command: pb.WriteStreamOperationStart, place: str) -> SparkSink:
    function = writer = None
    if command.HasField("foreach_batch"):
        function = object_of(command.foreach_batch.python_function.command)
    if command.HasField("foreach_writer"):
        called, *_ = object_of(command.foreach_writer.python_function.command)
        writer = inspect.getclosurevars(called).nonlocals["f"]
    sink_format = command.format.lower()
    if sink_format in FILE_FORMATS and command.output_mode.lower() in {"complete", "update"}:
        problem = f"Data source {sink_format} does not support {command.output_mode.title()} output mode (AnalysisException)"
        raise SparkJobError(problem, place, "Use append mode, or write the batch in foreachBatch()")
    mode = chosen(OutputMode, command.output_mode or "append", "output mode", place)
    options = tuple(command.options.items())
    target = command.table_name or command.path or dict(options).get("path", "")
    return SparkSink(
        function=function, writer=writer, format=sink_format, output_mode=mode, trigger=_trigger(command, place),
        options=options, target=target, name=command.query_name, place=place,
    )  # fmt: skip


def _trigger(command: pb.WriteStreamOperationStart, place: str) -> tuple[str, Any] | None:
    kind = command.WhichOneof("trigger")
    if kind is None:
        return None
    name = _TRIGGERS[kind]
    if name == "realTime":
        remedy = "Use micro-batches: processingTime or availableNow"
        raise CannotFollowError(f"trigger({name}=...)", place, remedy)
    return name, getattr(command, kind)


def _policy(answers: Answers) -> WatermarkPolicy:
    """Return how several watermarks are combined, by the session's settings."""
    policy = str(answers.state.settings.get(_POLICY))
    try:
        return WatermarkPolicy(policy.lower())
    except ValueError:
        problem = f"{_POLICY} is {policy!r} (INVALID_CONF_VALUE)"
        raise SparkJobError(problem, "", "Set it to min or max") from None


def record(
    build: Callable[..., Any], schemas: str | t.StructType | Mapping[str, str | t.StructType] | None = None
) -> SparkJob:
    """Return the job that the user's function builds.

    ``build``: takes DataFrames, or a session, or both; starts a query, or returns a writer or a DataFrame. ``schemas``: the
    schema of its input: one for all parameters, or by the parameter's name. Raise `CannotFollowError` if it calls something
    that is not simulated, `SparkJobError` if Spark would refuse the job, if the function fails, if it starts no query, or
    several, or `SchemaTextError` if a schema cannot be parsed.
    """
    with captured(SessionState(schemas=parsed_schemas(schemas))) as session:
        try:
            returned = built_with(build, schemas, session)
            if not session.queries.jobs:
                session.place = definition_of(build)
                take(returned)
        except (CannotFollowError, SparkJobError):
            raise
        except Exception as error:
            if (gap := gap_in(error)) is not None:
                raise gap from error
            problem = f"{getattr(build, '__name__', build)}() raises {type(error).__name__}: {error}"
            place = place_of_error(error, definition_of(build))
            raise SparkJobError(problem, place, "Fix it, or give the job by hand as a SparkJob") from error
    jobs = session.queries.jobs
    if len(jobs) != 1:
        name = getattr(build, "__name__", str(build))
        what = "starts no query" if not jobs else f"starts {len(jobs)} queries"
        remedy = "Let it start one: frame.writeStream.foreachBatch(function).start()"
        raise SparkJobError(f"{name}() {what}", "", remedy)
    return jobs[0]


def parsed_schemas(
    schemas: str | t.StructType | Mapping[str, str | t.StructType] | None,
) -> dict[str, t.StructType]:
    """Return schemas by name; "": of all. Raise `SchemaTextError`."""
    named = schemas if isinstance(schemas, Mapping) else {} if schemas is None else {"": schemas}
    return {
        name: parse_schema(schema) if isinstance(schema, str) else schema for name, schema in named.items()
    }


def built_with(build: Callable[..., Any], schemas: Any, session: Any) -> Any:
    """Call a function that builds a query, with a session and with streams of schemas, and return what it returns.

    Raise `SparkJobError` if the schema of a parameter is not known, or whatever it raises.
    """
    arguments = {
        parameter: _argument(parameter, schemas, session, build)
        for parameter in inspect.signature(build).parameters.values()
        if parameter.kind not in {parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL}
    }
    pairs = arguments.items()
    by_name = {each.name: value for each, value in pairs if each.kind is each.KEYWORD_ONLY}
    return build(*list(arguments.values())[: len(arguments) - len(by_name)], **by_name)


def take(returned: Any) -> None:
    """Start what a function returns without starting it: a writer, or a stream."""
    if isinstance(returned, DataFrame | ClassicDataFrame) and returned.isStreaming:
        returned = returned.writeStream
    if isinstance(returned, DataStreamWriter | ClassicWriter):
        returned.start()


def _argument(parameter: inspect.Parameter, schemas: Any, session: Any, build: Callable[..., Any]) -> Any:
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
    parsed = parse_schema(schema) if isinstance(schema, str) else schema
    return session.readStream.format(PARAMETER).schema(parsed).option("name", parameter.name).load()
