"""The SparkSession that code gets without Spark: PySpark's own, for Connect, whose server is in this process."""

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import pyspark.sql.connect.proto as pb
from pyspark.errors import PySparkNotImplementedError
from pyspark.sql import SparkSession
from pyspark.sql import types as t
from pyspark.sql.catalog import Catalog
from pyspark.sql.connect import expressions, functions, plan
from pyspark.sql.connect.dataframe import DataFrame
from pyspark.sql.connect.group import GroupedData
from pyspark.sql.connect.plan import LogicalPlan
from pyspark.sql.connect.session import SparkSession as ConnectSession
from pyspark.sql.connect.streaming import readwriter
from pyspark.sql.connect.streaming.query import StreamingQueryManager
from pyspark.sql.connect.streaming.readwriter import DataStreamWriter
from pyspark.sql.connect.udf import UserDefinedFunction as ConnectFunction
from pyspark.sql.udf import UserDefinedFunction

from headrace_sim.spark.client.connect_answers import PLACES, Answers
from headrace_sim.spark.client.contexts import ClientContext, JavaName, contexts_without_spark
from headrace_sim.spark.client.delta_tables import delta_without_java
from headrace_sim.spark.client.pyspark_clients import ChannelBuilder, frame_of, noted, with_values
from headrace_sim.spark.client.rdds import RowsOfFrame
from headrace_sim.spark.columns.ddl import parse_type
from headrace_sim.spark.columns.draws import batch_of_draws, new_batch
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.in_force import settings_in_force
from headrace_sim.spark.columns.task_context import read_from_file
from headrace_sim.spark.columns.values import as_tuple
from headrace_sim.spark.plan.plan_expressions import handle
from headrace_sim.spark.plan.relations import Computed
from headrace_sim.spark.pyspark_versions import INSTALLED, VERSION
from headrace_sim.spark.refusals import CannotFollowError, users_place

_SESSION_ID = "00000000-0000-4000-8000-000000000001"
"""The same for all: a frame of one session may be joined with those of another, as a restarted driver's code does."""
_REMEDY = "Compute it in Python from collect() instead, or move it behind a function that the check can call with plain rows"


class _Channel:
    """Stands for a gRPC channel: a call of the protocol is a call of a method."""

    def __init__(self, answers: Answers) -> None:
        self._answers = answers

    def unary_unary(self, path: str, **_: Any) -> Callable[..., Any]:
        name = path.rpartition("/")[2]

        def call(request: Any, **options: Any) -> Any:
            answer = getattr(self._answers, name, None)
            if answer is None:
                raise CannotFollowError(f"{name} of Spark's server", users_place(), _REMEDY)
            return answer(request, **options)

        return call

    unary_stream = stream_unary = unary_unary

    def close(self) -> None:
        """Close nothing."""


class _Builder(ChannelBuilder):
    def __init__(self, answers: Answers) -> None:
        super().__init__(f"sc://localhost/;session_id={_SESSION_ID}")
        self._answers = answers

    def toChannel(self) -> Any:
        return _Channel(self._answers)


class _Given(LogicalPlan):
    """A plan of rows that are in this process."""

    def __init__(self, rows: Rows | Computed) -> None:
        super().__init__(None)
        self._handle = handle(rows).decode()

    def plan(self, session: Any) -> pb.Relation:
        del session
        relation: pb.Relation = self._create_proto_relation()
        relation.cached_remote_relation.relation_id = self._handle
        return relation


class ClientSession(ConnectSession):
    """A session without Spark. ``answers``: what its server answers."""

    def __init__(self, answers: Answers | None = None) -> None:
        self.answers = answers or Answers()
        super().__init__(_Builder(self.answers))
        self.client._use_reattachable_execute = False

    def frame(self, schema: t.StructType, partitions: Sequence[Sequence[tuple[Any, ...]]]) -> DataFrame:
        """Return a frame of rows."""
        return frame_of(_Given(Rows(schema, [tuple(part) for part in partitions])), self)

    def derived(self, frame: DataFrame, compute: Callable[[Rows], Rows]) -> DataFrame:
        """Return a frame of a batch, whose rows are computed from those of another, afresh for each action."""
        relation, seed = frame._plan.to_proto(self.client).root, new_batch()

        def rows() -> Rows:
            read = self.answers.rows(relation)
            with batch_of_draws(seed), read_from_file(read.all()):
                return compute(read)

        return frame_of(_Given(rows), self)

    @property
    def sparkContext(self) -> ClientContext:
        """A Spark context, for jobs that set its log level or the pool of their jobs."""
        return ClientContext(self.conf)

    _sc = sparkContext
    _jvm = JavaName()
    _jsc = JavaName("_jsc")

    def createDataFrame(self, data: Any, schema: Any = None, *more: Any, **options: Any) -> Any:
        """Return a frame of rows; with a schema, values are verified and converted as Spark's classic client does it."""
        if isinstance(schema, str):
            schema = parse_type(schema)
        if not isinstance(data, list | tuple) or not isinstance(schema, t.DataType):
            return super().createDataFrame(data, schema, *more, **options)
        if not isinstance(schema, t.StructType):
            schema, data = t.StructType([t.StructField("value", schema)]), [(value,) for value in data]
        return self.frame(schema, [[as_tuple(row, schema) for row in data]])

    def sql(self, sqlQuery: str, args: Any = None, **values: Any) -> Any:
        """Return what a text says, with the frames and values that it names in braces."""
        if values and VERSION < (4, 0):
            return super().sql(with_values(sqlQuery, values), args)
        return super().sql(sqlQuery, args, **values)

    def newSession(self) -> Any:
        """Return the session itself: it shares its tables."""
        return self

    def stop(self) -> None:
        """Do nothing: there is nothing to stop."""

    def __del__(self) -> None:
        """Do nothing: no server has to know."""

    def __getattr__(self, name: str) -> Any:
        """Refuse what is Java's."""
        if name.startswith("_j"):
            raise CannotFollowError(f"SparkSession.{name}, which is Java's,", users_place(), _REMEDY)
        return super().__getattr__(name)


_IN_FORCE: list[ClientSession] = []


class ModuleSession(ClientSession):
    """The session that a module gets when it is imported: for its functions, the one that is in force when they are called."""

    def __getattribute__(self, name: str) -> Any:
        """Ask the session that is in force."""
        current = _IN_FORCE[-1] if _IN_FORCE else self
        return super().__getattribute__(name) if current is self else getattr(current, name)


class _Pickler:
    """Stands for PySpark's pickler where it writes functions into plans: they stay what they are."""

    @staticmethod
    def dumps(value: Any) -> bytes:
        """Return what stands for a function."""
        return handle(value)


def _noting_places(original: Callable[..., None]) -> Callable[..., None]:
    def init(self: LogicalPlan, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        PLACES[self._plan_id] = users_place()

    return init


def _analyze(plan: LogicalPlan, session: Any) -> None:
    """Analyze a frame when it is made, as Spark does in the driver: a wrong column is an error in its own line."""
    if isinstance(session, ClientSession):
        session.answers.schema(plan.to_proto(session.client).root)


def _configured(session: ClientSession) -> Callable[..., ClientSession]:
    def get(builder: Any) -> ClientSession:
        for key, value in builder._options.items():
            session.conf.set(key, value)
        return session

    return get


def _java_frame(_frame: Any) -> Any:
    raise CannotFollowError("DataFrame._jdf", users_place(), _REMEDY)


def _refusing(original: Callable[..., None]) -> Callable[..., None]:
    """Record calls that PySpark's client lacks: code may catch the error, which classic Spark would not raise."""

    def init(self: Any, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        if str(self).startswith("[UNSUPPORTED_SIGNATURE]"):
            return  # any Spark raises it, and catches it: type hints of a UDF that say nothing of pandas
        raise CannotFollowError(f"a call that Spark Connect lacks ({self})", users_place(), _REMEDY)

    return init


def _called(function: UserDefinedFunction, *columns: Any, **named: Any) -> Any:
    """Call a function that was made before this session was in force, when a test's module was imported."""
    called = ConnectFunction(
        function.func, function._returnType_placeholder or function._returnType, function._name, function.evalType,
        function.deterministic,
    )  # fmt: skip
    return called(*columns, **named)


def _catalog_of(catalog: Any, session: Any) -> None:
    """Make a catalog of classic PySpark, `Catalog(spark)`, that of the session."""
    catalog.__class__ = type(session.catalog)
    catalog.__init__(session)


def _checkpointed(frame: Any, *_: Any, **__: Any) -> Any:
    """Return a frame of the rows that another has now."""
    session = frame._session
    return frame_of(_Given(session.answers.rows(frame._plan.to_proto(session.client).root)), session)


class JsonTexts:
    """What `toJSON` gives on classic Spark: texts, and no frame as in PySpark's client."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame.select(functions.to_json(functions.struct("*")).alias("value"))

    def collect(self) -> list[str]:
        """Return all texts."""
        return [row.value for row in self._frame.collect()]

    def take(self, num: int) -> list[str]:
        """Return the first texts."""
        return [row.value for row in self._frame.take(num)]

    def first(self) -> str:
        """Return the first text."""
        return self.take(1)[0]

    def __getattr__(self, name: str) -> Any:
        """Refuse anything else."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise CannotFollowError(f"DataFrame.toJSON().{name}", users_place(), _REMEDY)


def _needs_newer(*_: Any, **__: Any) -> None:
    what = f"transformWithStateInPandas() with PySpark {INSTALLED}"
    raise CannotFollowError(what, users_place(), "Install 4.1 or newer, if the job may run there")


@contextmanager
def connected(session: ClientSession) -> Iterator[ClientSession]:
    """Let user code get a session, and PySpark's functions make columns for it.

    A Spark session running in this process is hidden until the context ends.
    """
    with ExitStack() as patches:

        def put(owner: Any, name: str, value: Any) -> None:
            patches.enter_context(patch.object(owner, name, value, create=True))  # 3.5 lacks some

        patches.enter_context(settings_in_force(session.answers.state.settings.values))
        patches.enter_context(warnings.catch_warnings())
        for message in ("WARN WindowExpression: No Partition Defined", "Cannot infer the eval type"):
            warnings.filterwarnings("ignore", message=message)
        patches.enter_context(patch.dict(os.environ, {"SPARK_CONNECT_MODE_ENABLED": "1"}))
        patches.enter_context(delta_without_java())
        patches.enter_context(noted(_analyze))
        put(LogicalPlan, "__init__", _noting_places(LogicalPlan.__init__))
        for module in (expressions, plan, readwriter):
            put(module, "CloudPickleSerializer", _Pickler)
        for owner in (SparkSession, ConnectSession):
            put(owner.Builder, "getOrCreate", _configured(session))
            for name in ("getActiveSession", "active"):
                put(owner, name, staticmethod(lambda: session))
        patches.enter_context(contexts_without_spark(lambda: session))
        put(PySparkNotImplementedError, "__init__", _refusing(PySparkNotImplementedError.__init__))
        for name, getter in (("rdd", RowsOfFrame), ("_jdf", _java_frame)):
            patches.enter_context(patch.object(DataFrame, name, property(getter), create=True))
        put(UserDefinedFunction, "__call__", _called)
        put(Catalog, "__init__", _catalog_of)
        listeners = session.answers.queries.listeners
        put(StreamingQueryManager, "addListener", lambda _queries, listener: listeners.add(listener))
        put(StreamingQueryManager, "removeListener", lambda _queries, listener: listeners.remove(listener))
        patches.enter_context(patch.object(DataStreamWriter, "table", DataStreamWriter.toTable, create=True))
        put(DataFrame, "toJSON", lambda frame: JsonTexts(frame))  # noqa: PLW0108  a class is not bound
        for name in ("checkpoint", "localCheckpoint"):
            put(DataFrame, name, _checkpointed)
        if VERSION == (4, 0):  # whose client has no processors, though its classic one does
            put(GroupedData, "transformWithStateInPandas", _needs_newer)
        put(DataFrame, "foreach", lambda frame, f: RowsOfFrame(frame).foreach(f))
        put(DataFrame, "foreachPartition", lambda frame, f: RowsOfFrame(frame).foreachPartition(f))
        _IN_FORCE.append(session)
        patches.callback(_IN_FORCE.pop)
        put(ConnectSession, "_default_session", session)
        yield session
