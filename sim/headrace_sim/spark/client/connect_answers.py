"""What a Spark Connect server would answer, in this process: PySpark's own client builds the plans, and nothing is sent.

`Answers` stands where the gRPC stub is. What it is asked to run is compiled and evaluated in memory, or handed to whoever
watches: the model of tables, or a list of started queries.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial, partialmethod
from typing import Any

import pyarrow as pa
import pyspark
import pyspark.sql.connect.proto as pb
from pyspark.errors import AnalysisException
from pyspark.sql import types as t
from pyspark.sql.connect.expressions import LiteralExpression
from pyspark.sql.connect.types import pyspark_types_to_proto_types
from pyspark.sql.udf import UserDefinedFunction

from headrace_sim.spark.client.pyspark_clients import answer_to, fresh_number
from headrace_sim.spark.client.query_lives import QueryLife, StartedQueries
from headrace_sim.spark.client.script_time import ScriptTime
from headrace_sim.spark.client.settings import Settings
from headrace_sim.spark.client.sql_commands import counts_of, sql_command
from headrace_sim.spark.client.table_commands import merge_statement, reader, request_of, request_of_v2
from headrace_sim.spark.columns.ddl import parse_type
from headrace_sim.spark.columns.evaluations import begin_action
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.grammar import SqlTextError, tree_of
from headrace_sim.spark.columns.in_force import settings_in_force
from headrace_sim.spark.plan.plan_expressions import object_of, user_function
from headrace_sim.spark.plan.plan_splitter import Splitter, inlined
from headrace_sim.spark.plan.relations import Compiler, Computed, local_rows, observing
from headrace_sim.spark.plan.selects import Queries
from headrace_sim.spark.plan.sql import NoChange, ServerQuery, SetCommand
from headrace_sim.spark.pyspark_versions import arrow_table, arrow_type
from headrace_sim.spark.refusals import CannotFollowError, users_place
from headrace_sim.spark.spark_job import SparkJobError, StreamSource
from headrace_sim.spark.tables.statements import CreateView, DropView, IfExists
from headrace_sim.spark.tables.table_versions import TableVersion
from headrace_sim.spark.tables.tables import EffectWatch, Tables, plain_name

PLACES: dict[int, str] = {}
"""``file:line`` of the user's code that made each part of a plan, by its id in PySpark's client."""
_REMEDY = "Leave it out, or do it outside of the code that is tried"


def _nothing(_seconds: float) -> None:
    """Let no time pass."""


@dataclass(slots=True)
class SessionState:
    """What a session knows, and forgets when its driver dies."""

    views: dict[str, pb.Relation] = field(default_factory=dict)  # the relations of temporary views, by name
    # the user's functions that have a name
    functions: dict[str, UserDefinedFunction] = field(default_factory=dict)
    settings: Settings = field(default_factory=Settings)  # its settings
    # persisted relations, by plan id, once they are computed
    kept: dict[int, Computed] = field(default_factory=dict)
    # the tables that there were before the first batch
    tables: dict[str, TableVersion] = field(default_factory=dict)
    # of sources that do not say theirs, by topic, table or last part of the path; "": of any
    schemas: Mapping[str, t.StructType] = field(default_factory=dict)

    def started(self) -> "SessionState":
        """Return what a query knows of it that is started: settings as they are now."""
        return replace(self, settings=self.settings.copy())

    def copy(self) -> "SessionState":
        """Return what a new driver begins with, that has run the code up to here."""
        return SessionState(
            {**self.views}, {**self.functions}, self.settings.copy(), {**self.kept}, {**self.tables}, self.schemas,
        )  # fmt: skip


@dataclass(slots=True)
class Answers:
    """Answers for one session."""

    # hears of what is done to tables. Without it, they are those that are there before the first batch
    watch: EffectWatch | None = None
    # the columns by which an unknown connector writes, by table
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    # takes a query that is started, with its plan and its place. Without it, starting is refused
    start: Callable[[pb.WriteStreamOperationStart, str], QueryLife] | None = None
    # those that were started
    queries: StartedQueries = field(default_factory=lambda: StartedQueries(ScriptTime(_nothing, _nothing)))
    action: Callable[[], AbstractContextManager[Any]] = nullcontext  # surrounds each action
    state: SessionState = field(default_factory=SessionState)  # what the session knows
    # those of the copy of the session that a query makes for its batches: that has their views, and this one has not
    batches: "Answers | None" = None
    splitter: Splitter = field(init=False)
    tables: Tables = field(init=False)  # the tables, as the trial's effects left them
    _analyzed: dict[int, Computed] = field(default_factory=dict)
    _unread: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.splitter = Splitter(self.compiler(), self.resolved, self._known)
        settings = self.state.settings
        self.tables = Tables(
            self.watch, self.keys, settings=lambda name: settings.get(name, None), frame_of=self.rows, before=self.state.tables,
        )  # fmt: skip

    # What PySpark calls.

    def Config(self, request: Any, **_: Any) -> Any:
        """Answer with settings, or set them."""
        answer = answer_to(request, "ConfigResponse")
        kind = request.operation.WhichOneof("op_type")
        operation, settings = getattr(request.operation, kind), self.state.settings
        if kind == "set":
            for pair in operation.pairs:
                settings.set(pair.key, pair.value)
        elif kind == "unset":
            for key in operation.keys:
                settings.unset(key)
        elif kind == "is_modifiable":
            for key in operation.keys:
                answer.pairs.add(key=key, value="true")
        elif kind == "get_with_default":
            for pair in operation.pairs:
                setting = settings.get(pair.key, pair.value if pair.HasField("value") else None)
                answer.pairs.add(key=pair.key, value=setting)
        elif kind in {"get", "get_option"}:
            default = () if kind == "get" else (None,)
            for key in operation.keys:
                answer.pairs.add(key=key, value=settings.get(key, *default))
        else:
            for key, value in settings.all(operation.prefix if kind == "get_all" else ""):
                answer.pairs.add(key=key, value=value)
        return answer

    def AnalyzePlan(self, request: Any, **_: Any) -> Any:
        """Answer with what a plan is, without running it."""
        answer = answer_to(request, "AnalyzePlanResponse")
        kind = request.WhichOneof("analyze")
        asked = getattr(request, kind)
        if kind == "schema":
            answer.schema.schema.CopyFrom(pyspark_types_to_proto_types(self.schema(asked.plan.root)))
        elif kind == "is_streaming":
            answer.is_streaming.is_streaming = self.splitter.is_stream(asked.plan.root)
        elif kind == "spark_version":
            answer.spark_version.version = pyspark.__version__
        elif kind == "ddl_parse":
            answer.ddl_parse.parsed.CopyFrom(pyspark_types_to_proto_types(parse_type(asked.ddl_string)))
        elif kind in {"explain", "tree_string"}:
            getattr(answer, kind).SetInParent()
        elif kind == "persist":
            self._persist(asked.relation)
            answer.persist.SetInParent()
        elif kind == "unpersist":
            self.state.kept.pop(asked.relation.common.plan_id, None)
            answer.unpersist.SetInParent()
        elif kind == "is_local":
            answer.is_local.is_local = False
        else:
            raise CannotFollowError(f"a question about a plan ({kind})", users_place(), _REMEDY)
        return answer

    def ExecutePlan(self, request: Any, **_: Any) -> Iterator[Any]:
        """Run a plan or a command."""
        plan, parts = request.plan, list[Any]()

        def part(**fields: Any) -> Any:
            answer = answer_to(
                request, "ExecutePlanResponse", operation_id=request.operation_id, response_id=str(len(parts)), **fields,
            )  # fmt: skip
            parts.append(answer)
            return answer

        rows: Rows | None = None
        begin_action()
        with observing() as observed:
            if plan.HasField("command"):
                self._command(plan.command, part())
            else:
                with self.action():
                    rows = self.rows(plan.root)
        for name, metrics in observed.items():
            values = zip(metrics.all()[0], metrics.schema.fields, strict=True)
            literals = [
                LiteralExpression(value, field.dataType).to_plan(None).literal for value, field in values
            ]
            part().observed_metrics.add(name=name, keys=metrics.columns, values=literals)
        if rows is not None:
            part().schema.CopyFrom(pyspark_types_to_proto_types(rows.schema))
            batch = part().arrow_batch
            batch.row_count, batch.data = _arrow_of(rows)
        part().result_complete.SetInParent()
        return iter(parts)

    def ReattachExecute(self, _request: Any, **_: Any) -> Iterator[Any]:
        """Answer with nothing."""
        return iter(())

    def _did_nothing(self, kind: str, request: Any, **_: Any) -> Any:
        """Answer that it is done."""
        return answer_to(request, kind)

    Interrupt = partialmethod(_did_nothing, "InterruptResponse")
    ReleaseExecute = partialmethod(_did_nothing, "ReleaseExecuteResponse")
    ReleaseSession = partialmethod(_did_nothing, "ReleaseSessionResponse")

    # Plans

    def compiler(self) -> Compiler:
        """Return what compiles relations for this session."""
        return Compiler(self._leaf, PLACES, self.state.functions, self.state.kept)

    def rows(self, relation: pb.Relation) -> Rows:
        """Evaluate a relation."""
        kind = relation.WhichOneof("rel_type")
        if kind == "catalog":
            return self._catalog(relation.catalog)
        if kind in {"html_string", "show_string"}:  # what is printed is no effect
            return Rows(_SHOWN, [(("",),)])
        if self.splitter.is_stream(relation):
            problem = (
                "Queries with streaming sources must be executed with writeStream.start() (AnalysisException)"
            )
            raise SparkJobError(problem, users_place(), "Do it in the function given to foreachBatch()")
        with settings_in_force(self.state.settings.values):  # those of this session, in any thread
            return self.compiler().compiled(relation)()

    def schema(self, relation: pb.Relation) -> t.StructType:
        """Return the schema of a relation. No function of the user's is called.

        Raise `CannotFollowError` if it has a part that is not simulated, or `AnalysisException` if Spark would refuse it.
        """
        if relation.WhichOneof("rel_type") in _OF_ONE_ROW:
            return _SHOWN
        if self.splitter.is_stream(relation):
            return self.splitter.split(relation).output
        number = relation.common.plan_id
        if number not in self._analyzed:
            leaf, functions = self._leaf_without_rows, self.state.functions
            compiler = Compiler(leaf, PLACES, functions, self._analyzed, analysis=True)
            with settings_in_force(self.state.settings.values):
                self._analyzed[number] = partial(_same, compiler.compiled(relation)())
        return self._analyzed[number]().schema

    def _leaf_without_rows(self, relation: pb.Relation, place: str) -> Computed:
        leaf = self._leaf(relation, place)
        return lambda: Rows(leaf().schema, [])

    def resolved(self, relation: pb.Relation) -> pb.Relation:
        """Return the relation that a temporary view stands for; any other as it is."""
        if relation.WhichOneof("rel_type") == "read" and relation.read.HasField("named_table"):
            name = relation.read.named_table.unparsed_identifier
            return self.state.views.get(_view_name(name), relation)
        return relation

    def _known(self, source: StreamSource) -> t.StructType | None:
        """Return the schema of a source that does not say it: as it is given, or as a query that was started writes it."""
        return self._known_table(source) or self.state.schemas.get("")

    def _known_table(self, source: StreamSource) -> t.StructType | None:
        return self.state.schemas.get(source.label) or self.queries.schema_written(source.path)

    def _leaf(self, relation: pb.Relation, place: str) -> Computed:
        kind = relation.WhichOneof("rel_type")
        if kind == "cached_remote_relation":
            value = object_of(relation.cached_remote_relation.relation_id.encode())
            return (lambda: value) if isinstance(value, Rows) else value
        if kind == "local_relation":
            schema, rows = local_rows(relation.local_relation)
            return lambda: Rows(schema, [tuple(rows)])
        if kind == "range":
            asked = relation.range
            numbers = tuple((number,) for number in range(asked.start, asked.end, asked.step))
            return lambda: Rows(t.StructType([t.StructField("id", t.LongType(), False)]), [numbers])
        view = self.resolved(relation)
        if view is not relation:
            return self.compiler().compiled(view)
        if kind == "read":
            name = _view_name(relation.read.named_table.unparsed_identifier)
            if self.batches is not None and name in self.batches.state.views:
                message = f"[TABLE_OR_VIEW_NOT_FOUND] {name} is a temporary view of the batch's own session"
                raise AnalysisException(message=f"{message}: ask that one, df.sparkSession.sql() or .table()")
            asked = self._asked_of_database(relation.read, place)
            return asked or reader(self.tables, relation.read, place, self._known_table)
        text = self._unread.get(_text_in(relation), "")
        raise CannotFollowError(f"spark.sql({text})", place, "Write it with the calls of the DataFrame")

    def _asked_of_database(self, read: pb.Read, place: str) -> Computed | None:
        """Return what answers the query that JDBC is given in place of a table; None if it is none, or cannot be read."""
        options = {name.lower(): value for name, value in read.data_source.options.items()}
        table = options.get("dbtable", "").strip()
        query = options.get("query") or (f"SELECT * FROM {table}" if table.startswith("(") else "")  # noqa: S608  read here
        if not query or self._known_table(StreamSource("", "jdbc", t.StructType([]), (), table, place)):
            return None
        try:
            return self.compiler().compiled(self._sql_queries(place).relation(tree_of(query)))
        except SqlTextError:
            return None

    def _catalog(self, asked: Any) -> Rows:
        """Answer what a session knows of tables: those that were written."""
        kind = asked.WhichOneof("cat_type")
        if kind in {"current_catalog", "current_database"}:
            return _one_row("default" if kind == "current_database" else "spark_catalog")
        if kind in {"cache_table", "clear_cache", "refresh_by_path", "refresh_table", "uncache_table"}:
            return Rows(t.StructType([]), [])
        if kind in {"drop_global_temp_view", "drop_temp_view"}:
            name = _view_name(getattr(asked, kind).view_name)
            return _one_row(self.state.views.pop(name, None) is not None)
        if kind != "table_exists":
            call = "".join(part.title() for part in kind.split("_"))
            remedy = "Use the DataFrame that the function is given"
            raise CannotFollowError(f"spark.catalog.{call[0].lower()}{call[1:]}()", users_place(), remedy)
        database = f"{asked.table_exists.db_name}." if asked.table_exists.db_name else ""
        name = plain_name(f"{database}{asked.table_exists.table_name}")
        tail, there = name.rpartition(".")[2], self.tables.exists(name)
        alike = [other for other in self.tables.versions() if other.rpartition(".")[2] == tail]
        if not there and alike:
            what = f"tableExists({name!r}) behind a write to {alike[0]!r}"
            raise CannotFollowError(what, users_place(), "Call the table by the same name everywhere")
        return _one_row(there or _view_name(name) in self.state.views)

    def _persist(self, relation: pb.Relation) -> None:
        compiled, computed = self.compiler().compiled(relation), list[Rows]()

        def kept() -> Rows:
            if not computed:
                computed.append(compiled())
            return computed[0]

        self.state.kept[relation.common.plan_id] = kept

    # Commands

    def _command(self, command: Any, answer: Any) -> None:
        kind = command.WhichOneof("command_type")
        run = _COMMANDS.get(kind)
        if run is None:
            raise CannotFollowError(f"a command to Spark ({kind})", users_place(), _REMEDY)
        run(self, getattr(command, kind), answer)

    def _sql_queries(self, place: str) -> Queries:
        return Queries(
            lambda name: self.state.views.get(_view_name(name)), lambda relation: self.schema(relation).names,
            partial(_number_at, place),
        )  # fmt: skip

    def _sql(self, command: Any, answer: Any) -> None:
        call = sql_command(command, self._sql_queries(place := users_place()), place)
        meaning = call.meaning()
        if isinstance(meaning, ServerQuery):
            self._unread[_text_in(meaning.relation)] = f"{call.query.query.strip()!r}, {meaning.problem}"
            meaning = meaning.relation
        if not isinstance(meaning, pb.Relation):
            meaning = call.counts(self._changed(meaning))
        answer.sql_command_result.relation.CopyFrom(meaning)

    def _changed(self, change: Any) -> Mapping[str, int]:
        """Do what a text says; return the counts that it answers with."""
        if isinstance(change, SetCommand):
            self.state.settings.set(change.key, change.value)
        elif isinstance(change, CreateView):
            if change.if_exists is not IfExists.KEEP or _view_name(change.view) not in self.state.views:
                self._name(change.view, change.source, replace=change.if_exists is IfExists.REPLACE)
        elif isinstance(change, DropView):
            if self.state.views.pop(_view_name(change.view), None) is None and not change.may_lack:
                raise AnalysisException(message=f"[TABLE_OR_VIEW_NOT_FOUND] {change.view} cannot be found")
        elif not isinstance(change, NoChange):
            if _view_name(change.table) in self.state.views:
                message = f"[EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE] {change.table} is a temporary view"
                raise AnalysisException(message=message)
            return counts_of(change, self.tables.execute(change))
        return {}

    def _view(self, command: Any, _answer: Any) -> None:
        self._name(command.name, command.input, replace=command.replace)

    def _name(self, name: str, relation: Any, *, replace: bool) -> None:
        name = _view_name(name)
        if not replace and name in self.state.views:
            message = f"Cannot create the temporary view `{name}`: it exists"
            raise AnalysisException(message=f"[TEMP_TABLE_OR_VIEW_ALREADY_EXISTS] {message}")
        self.state.views[name] = inlined(relation, self.resolved)  # it may replace a view that it reads

    def _register(self, command: Any, _answer: Any) -> None:
        self.state.functions[command.function_name.lower()] = user_function(command)

    def _write(self, command: Any, _answer: Any) -> None:
        self.tables.write(command.input, request_of(command, self.tables, users_place()))

    def _write_v2(self, command: Any, _answer: Any) -> None:
        request = request_of_v2(command, self.tables, self.compiler(), users_place())
        self.tables.write(command.input, request)

    def _merge(self, command: Any, _answer: Any) -> None:
        self.tables.execute(merge_statement(command, self.compiler().reading(users_place())))

    def _start(self, command: Any, answer: Any) -> None:
        if self.start is None:
            raise CannotFollowError("starting a query", users_place(), _REMEDY)
        life = self.start(command, users_place())
        result = answer.write_stream_operation_start_result
        result.query_id.id, result.query_id.run_id, result.name = life.id, life.run_id, command.query_name

    def _query(self, command: Any, answer: Any) -> None:
        result, kind = answer.streaming_query_command_result, command.WhichOneof("command")
        result.query_id.CopyFrom(command.query_id)
        life = self.queries.get(command.query_id.id)
        if life is None and self.start is None and kind in _OF_ITS_OWN_BATCH:
            # A batch asks the query that runs it. One that is told to stop ends behind the batch, as at a restart.
            for name in ("is_active", "is_data_available", "is_trigger_active") if kind == "status" else ():
                setattr(result.status, name, True)
            if kind == "exception":
                result.exception.SetInParent()
        elif life is None:
            raise CannotFollowError("a query of another session", users_place(), _REMEDY)
        elif kind == "status":
            result.status.is_active, status = life.look(), life.status
            result.status.status_message = status["message"]
            result.status.is_data_available = status["isDataAvailable"]
            result.status.is_trigger_active = status["isTriggerActive"]
        elif kind == "await_termination":
            result.await_termination.terminated = life.wait(_seconds(command.await_termination))
        elif kind in {"recent_progress", "last_progress"}:
            batches = life.progress if kind == "recent_progress" else life.progress[-1:]
            result.recent_progress.recent_progress_json.extend(batches)
        elif kind in {"exception", "explain"}:
            getattr(result, kind).SetInParent()
        elif kind == "stop":
            life.stop()

    def _queries(self, command: Any, answer: Any) -> None:
        result, kind = answer.streaming_query_manager_command_result, command.WhichOneof("command")
        if kind == "await_any_termination":
            ended = self.queries.wait_for_any(_seconds(command.await_any_termination))
            result.await_any_termination.terminated = ended
        elif kind in {"add_listener", "remove_listener", "reset_terminated"}:
            setattr(result, kind, True)
        elif kind == "active":
            result.active.SetInParent()
            for active in self.queries.active:
                _tell_life(result.active.active_queries.add(), active)
        elif kind == "get_query" and (life := self.queries.get(command.get_query)) is not None:
            _tell_life(result.query, life)

    def _nothing(self, _command: Any, _answer: Any) -> None:
        """Do nothing."""


_OF_ITS_OWN_BATCH = frozenset({"exception", "last_progress", "recent_progress", "status", "stop"})
_COMMANDS: dict[str, Callable[[Answers, Any, Any], None]] = {
    "create_dataframe_view": Answers._view, "merge_into_table_command": Answers._merge, "register_function": Answers._register,
    "sql_command": Answers._sql, "streaming_query_command": Answers._query,
    "streaming_query_listener_bus_command": Answers._nothing, "streaming_query_manager_command": Answers._queries,
    "write_operation": Answers._write, "write_operation_v2": Answers._write_v2, "write_stream_operation_start": Answers._start,
}  # fmt: skip
_OF_ONE_ROW = frozenset({"catalog", "html_string", "show_string"})
"""Relations that are answers, and no frames of the user's."""
_SHOWN = t.StructType([t.StructField("show_string", t.StringType())])


def _one_row(value: Any) -> Rows:
    kind = t.BooleanType() if isinstance(value, bool) else t.StringType()
    return Rows(t.StructType([t.StructField("value", kind)]), [((value,),)])


def _text_in(relation: pb.Relation) -> str:
    """Return the text of a query that stays as it is."""
    whole = relation.WhichOneof("rel_type") == "with_relations"
    return str((relation.with_relations.root if whole else relation).sql.query)


def _number_at(place: str) -> int:
    """Return the id of a part of a plan that a place in the user's code has made."""
    number = fresh_number()
    PLACES[number] = place
    return number


def _same(rows: Rows) -> Rows:
    return rows


def _seconds(waits: Any) -> float | None:
    return waits.timeout_ms / 1000 if waits.HasField("timeout_ms") else None


def _tell_life(instance: Any, life: QueryLife) -> None:
    instance.id.id, instance.id.run_id = life.id, life.run_id
    if life.name is not None:
        instance.name = life.name


def _view_name(name: str) -> str:
    return name.replace("`", "").lower().removeprefix("global_temp.")


def _arrow_of(rows: Rows) -> tuple[int, bytes]:
    """Return the number of rows, and the rows as PySpark's client reads them."""
    values = rows.all()
    nothing = pa.schema(list(arrow_type(rows.schema))).empty_table()
    table = arrow_table(values, rows.schema) if values else nothing
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        for batch in table.combine_chunks().to_batches() or [
            pa.RecordBatch.from_pylist([], schema=table.schema)
        ]:
            stream.write_batch(batch)
    return table.num_rows, sink.getvalue().to_pybytes()
