"""What a program does with DataFrames, seen by the probe: each write is an effect, and each action may fail."""

import functools
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from pyspark.sql import DataFrameWriter, GroupedData, SparkSession
from pyspark.sql.readwriter import DataFrameWriterV2
from pyspark.sql.streaming import DataStreamWriter

from headrace.spark.runtime.required_settings import ROCKSDB
from headrace_sim.spark.client.settings import STATE_STORE
from headrace_sim.spark.laboratory.outside_writes import OutsideWrites
from headrace_sim.spark.laboratory.places import CHECKPOINTS, shown
from headrace_sim.spark.laboratory.postgres import is_lock_timeout
from headrace_sim.spark.laboratory.postgres_statements import plain_table
from headrace_sim.spark.laboratory.trial_outputs import CsvHeader
from headrace_sim.spark.refusals import definition_of, place_of_error, text_of, users_place
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.heard_errors import HeardErrors
from headrace_sim.spark.sinks.sink_effects import EffectProbe, Failed
from headrace_sim.spark.sinks.streaming_sinks import BatchAgain, streaming_sink
from headrace_sim.spark.spark_job import OutputMode, SparkJob, SparkSink

try:
    from pyspark.sql.classic import dataframe
except ImportError:  # before PySpark 4.0
    from pyspark.sql import dataframe
try:
    from pyspark.sql.merge import MergeIntoWriter
except ImportError:  # before PySpark 4.0
    MergeIntoWriter = None

if TYPE_CHECKING:
    from headrace_sim.spark.laboratory.kept_files import KeptFiles

_WRITES = ("csv", "insertInto", "jdbc", "json", "orc", "parquet", "save", "saveAsTable", "text", "xml")
_WRITES_V2 = ("append", "create", "createOrReplace", "overwrite", "overwritePartitions", "replace")
_ACTIONS = (
    "collect", "count", "first", "foreach", "foreachPartition", "head", "isEmpty", "show", "take", "tail", "toArrow",
    "toLocalIterator", "toPandas",
)  # fmt: skip


def watch_writes(probe: EffectProbe, outside: OutsideWrites) -> None:
    """Report each write of a DataFrame to the probe, irreversibly, and let it fail the actions that are due.

    ``outside``: refuses what leaves the trial.
    """
    for name in _WRITES:
        if hasattr(DataFrameWriter, name):
            setattr(DataFrameWriter, name, _written(probe, outside, name, getattr(DataFrameWriter, name)))
    for name in _WRITES_V2:
        setattr(DataFrameWriterV2, name, _written(probe, outside, name, getattr(DataFrameWriterV2, name)))
    for name in _ACTIONS:
        if hasattr(dataframe.DataFrame, name):
            setattr(dataframe.DataFrame, name, _acting(probe, getattr(dataframe.DataFrame, name)))
    if MergeIntoWriter is not None:
        MergeIntoWriter.merge = _written(probe, outside, "merge", MergeIntoWriter.merge)
        MergeIntoWriter.__init__ = _naming(MergeIntoWriter.__init__)
    DataFrameWriterV2.__init__ = _naming(DataFrameWriterV2.__init__)
    SparkSession.sql = _commanded(probe, outside, SparkSession.sql)
    note_calls(DataFrameWriter, "mode", "format", "option", "options")


def note_calls(kind: type, *names: str) -> None:
    """Let methods of a reader or writer note what they are given, as `noted` does, irreversibly."""
    for name in names:
        setattr(kind, name, noted(name, getattr(kind, name)))


def noted(name: str, really: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of a reader or writer that notes what it is given in its object's ``_headrace``: Java cannot be asked."""

    @functools.wraps(really)
    def called(self: Any, *args: Any, **options: Any) -> Any:
        calls = vars(self).setdefault("_headrace", {})
        if name in {"option", "options"}:
            calls.update([args] if args else options)
        else:
            calls[name] = args[0] if args else next(iter(options.values()))
        return really(self, *args, **options)

    return called


def closest(waiting: Sequence[Collection[str]], values: Iterable[object]) -> int:
    """Return the place of what has most of its texts in what is given, the first of several.

    Threads start what one line starts in another order each time.
    """
    texts = set(map(str, values))
    return max(range(len(waiting)), key=lambda place: len(texts & {*waiting[place]}))


_COMMAND = re.compile(
    r"""\s*(?:WITH\b.*?\)\s*)?(?P<words>INSERT\s+(?:INTO|OVERWRITE)(?:\s+TABLE)?|MERGE\s+INTO|UPDATE|DELETE\s+FROM|TRUNCATE\s+TABLE
    |(?:CREATE(?:\s+OR\s+REPLACE)?|REPLACE|DROP|ALTER)(?:\s+EXTERNAL)?\s+TABLE(?:\s+IF\s+(?:NOT\s+)?EXISTS)?)\s+(?P<table>[\w.`]+)""",
    re.IGNORECASE | re.VERBOSE | re.DOTALL,
)


def _commanded(probe: EffectProbe, outside: OutsideWrites, really: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(really)
    def sql(self: SparkSession, text: str, *args: Any, **options: Any) -> Any:
        command = _COMMAND.match(text)
        if command is None:
            return really(self, text, *args, **options)
        outside.refuse({}, command["table"])
        words = " ".join(command["words"].upper().split())
        with probe.action(), probe.effect(words, command["table"].replace("`", "")):
            return really(self, text, *args, **options)

    return sql


_OF_TABLES = ("insertInto", "saveAsTable")
_OF_JDBC = ("url", "dbtable", "mode")


def without_trace(error: BaseException) -> str:
    """Return an error's message without the stack frames of Java."""
    return re.split(r"\n\s*(?:at |JVM stacktrace:)", text_of(error))[0].strip()


def _naming(really: Callable[..., Any]) -> Callable[..., Any]:
    """Return the constructor of a writer that notes the name of its table."""

    @functools.wraps(really)
    def init(self: Any, frame: Any, table: str, *args: Any) -> None:
        vars(self)["_headrace"] = {"table": table}
        really(self, frame, table, *args)

    return init


def _written(
    probe: EffectProbe, outside: OutsideWrites, name: str, really: Callable[..., Any]
) -> Callable[..., Any]:
    @functools.wraps(really)
    def write(self: Any, *args: Any, **options: Any) -> Any:
        calls = vars(self).get("_headrace", {})
        if name == "jdbc":
            by_place = dict(zip(_OF_JDBC, args, strict=False))
            calls = {**calls, "dbtable": options.get("table"), **options, **by_place}
        mode = options.get("mode") or calls.get("mode") or ""
        texts: list[Any] = [arg for arg in args if isinstance(arg, str)]
        texts += [options.get(name) for name in ("path", "name", "tableName")]
        target = str(next(filter(None, [*texts, calls.get("table"), calls.get("format")]), ""))
        if "postgresql:" in str(calls.get("url")):
            target = f"postgres: {plain_table(str(calls.get('dbtable')))}"
        header = CsvHeader() if str(options.get("header", calls.get("header"))).lower() == "true" else None
        outside.refuse(calls | options, target if name in _OF_TABLES else calls.get("table", ""))
        words = " ".join(filter(None, (name, mode)))
        with probe.action(), probe.effect(words, shown(target), payload=lambda: header):
            return really(self, *args, **options)

    return write


def _acting(probe: EffectProbe, really: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(really)
    def act(self: Any, *args: Any, **options: Any) -> Any:
        with probe.action():
            return really(self, *args, **options)

    return act


EMPTY_BATCHES = "spark.sql.streaming.noDataMicroBatches.enabled"
"""Whether batches without rows follow the last one, for what the watermark or the clock then lets go."""


def watch_states() -> None:
    """Give a query the store that its state needs, and let one that goes by Java's clock end, irreversibly.

    The first may be in the cluster's settings. With timers of processing time, Spark runs batches without rows for ever.
    """
    for name in ("applyInPandasWithState", "transformWithState", "transformWithStateInPandas"):
        if hasattr(GroupedData, name):
            setattr(GroupedData, name, _stated(getattr(GroupedData, name)))


def _stated(really: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(really)
    def called(self: Any, *args: Any, **named: Any) -> Any:
        settings = self._df.sparkSession.conf
        if really.__name__.startswith("transform") and "RocksDB" not in settings.get(STATE_STORE, ""):
            settings.set(STATE_STORE, ROCKSDB)
        texts = (text.lower() for text in (*args, *named.values()) if isinstance(text, str))
        if any(text.startswith("processingtime") for text in texts):
            settings.set(EMPTY_BATCHES, "false")
        return really(self, *args, **named)

    return called


def _started(waiting: list[SparkSink], values: Iterable[object]) -> SparkSink | None:
    """Return the query that starts with what is given, which then waits no longer; None: it is another."""
    here = [sink for sink in waiting if sink.place == users_place()]
    if not here:
        return None
    texts = [{sink.name, sink.target, *(value for _, value in sink.options)} - {""} for sink in here]
    started = here[closest(texts, values)]
    waiting[:] = [sink for sink in waiting if sink is not started]
    return started


def _trigger(spark: SparkSession, kept: "KeptFiles | None") -> Any:
    triggers = spark._jvm.org.apache.spark.sql.streaming.Trigger
    return triggers.ProcessingTime(0) if kept is not None and kept.is_endless else triggers.AvailableNow()


def watch_queries(
    probe: EffectProbe,
    fault: SinkFault | None,
    queries: Sequence[SparkJob],
    number: int,
    outside: OutsideWrites,
    kept: "KeptFiles | None" = None,
    *,
    heard: bool,
) -> Sequence[tuple[str, str, str]]:
    """Let one query of this process run through its input and end, and report each batch to the probe, irreversibly.

    Return what will be the query, if Spark writes it itself: how, where to, and the ``file:line`` of its start.

    ``probe``: told of each batch. ``fault``: what strikes. ``queries``: those of the program, in order. ``number``: the place
    of the one that is tried. The others write nowhere. ``outside``: refuses what leaves the trial. ``kept``: where it goes on,
    and how far, if its sources are left as they are. ``heard``: whether the errors are noted that its function catches.
    """
    tried, checkpoint = queries[number].sink, f"/checkpoint{number or ''}"
    waiting = [job.sink for job in queries]
    written: list[tuple[str, str, str]] = []
    really_each_batch, really_start = DataStreamWriter.foreachBatch, DataStreamWriter.start
    really_to_table = DataStreamWriter.toTable

    def starting(really: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(really)
        def start(self: DataStreamWriter, *args: Any, **options: Any) -> Any:
            calls = {**vars(self).get("_headrace", {}), **options}
            is_other = _started(waiting, [*args, *calls.values()]) is not tried
            self._jwrite = self._jwrite.trigger(_trigger(self._spark, None if is_other else kept))
            if is_other:
                self._jwrite = self._jwrite.format("noop").option("checkpointLocation", f"/{uuid4()}")
                return really_start(self)
            is_named = "checkpointlocation" in map(str.lower, calls)
            if not (is_named or self._spark.conf.get(CHECKPOINTS, "")):
                self._jwrite = self._jwrite.option("checkpointLocation", checkpoint)
            if "function" not in calls:
                target = (*args, calls.get("path") or calls.get("tableName") or "")[0]
                outside.refuse(calls, target if really is really_to_table else "")
                if _is_shown(tried):
                    target = _keep_rows(tried, self, really_each_batch)
                written.append((calls.get("format") or "write", shown(target), users_place()))
            return really(self, *args, **options)

        return start

    DataStreamWriter.foreachBatch = _reported(probe, fault, kept, heard=heard)
    DataStreamWriter.foreach = noted("function", DataStreamWriter.foreach)
    note_calls(DataStreamWriter, "format", "option", "options", "queryName")
    for name in ("start", "toTable"):
        setattr(DataStreamWriter, name, starting(getattr(DataStreamWriter, name)))
    return written


def _reported(
    probe: EffectProbe, fault: SinkFault | None, kept: "KeptFiles | None", *, heard: bool
) -> Callable[..., DataStreamWriter]:
    """Return ``foreachBatch`` that reports each batch to the probe."""
    really_each_batch = DataStreamWriter.foreachBatch
    died_after = fault.batch + 1 if fault is not None and fault.kind is SinkFaultKind.RESTART else None

    def for_each_batch(self: DataStreamWriter, function: Callable[[Any, int], None]) -> DataStreamWriter:
        @functools.wraps(function)
        def called(frame: Any, batch_id: int) -> None:
            if batch_id == died_after:
                probe.die()
            if kept is not None:
                kept.end_behind(batch_id, probe)
            probe.begin(batch_id)
            with (
                _noting_failure(probe, batch_id, function),
                HeardErrors(probe, batch_id) if heard else nullcontext(),
            ):
                function(frame, batch_id)
            probe.returned()

        vars(self).setdefault("_headrace", {})["function"] = called
        return really_each_batch(self, called)

    return for_each_batch


@contextmanager
def _noting_failure(probe: EffectProbe, batch: int, function: Callable[..., Any]) -> Iterator[None]:
    """Record what the user's function raises within."""
    try:
        yield
    except BaseException as error:
        place, message = place_of_error(error, definition_of(function)), without_trace(error)
        locked = "locked" in str(error) or "busy" in str(error) or is_lock_timeout(error)
        probe.ledger.append(Failed(probe.attempt, batch, type(error).__name__, message, place, locked))
        raise


def _is_shown(sink: SparkSink) -> bool:
    """Return whether a sink of Spark's own only shows its rows."""
    row = streaming_sink(sink.format)
    return row is not None and row.again is BatchAgain.SHOWN


def _keep_rows(sink: SparkSink, writer: DataStreamWriter, really_each_batch: Callable[..., Any]) -> str:
    """Let a query write what it would only show to a directory, and return its path. ``really_each_batch``: PySpark's own.

    A batch that is run again takes its own place: what differs then is what the query computes, and not that it is shown again.
    """
    spark, frame = writer._spark, writer._df
    view = sink.name if sink.format.lower() == "memory" else ""
    path = f"/{sink.format.lower()}"

    def keep(batch: Any, batch_id: int) -> None:
        batch._jdf.toJSON().write().mode("overwrite").text(f"{path}/batch={batch_id}")
        if view:
            there = batch_id if sink.output_mode is OutputMode.COMPLETE else "*"
            rows = spark._jsparkSession.read().schema(frame._jdf.schema()).json(f"{path}/batch={there}")
            rows.createOrReplaceTempView(view)

    if view:
        spark.createDataFrame([], frame.schema).createOrReplaceTempView(view)
    really_each_batch(writer, keep)
    return path
