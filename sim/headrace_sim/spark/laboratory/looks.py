"""A look at a program that the simulation cannot read: the real Spark runs it without rows, and its queries are noted."""

import pickle
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from pyspark.sql import types as t
from pyspark.sql.streaming import DataStreamReader, DataStreamWriter

from headrace_sim.spark.client.script_needs import ProgramError
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.laboratory.inputs import READS
from headrace_sim.spark.laboratory.watched_frames import note_calls
from headrace_sim.spark.plan.plan_splitter import FIXED_SCHEMAS, PARAMETER
from headrace_sim.spark.refusals import users_place
from headrace_sim.spark.spark_job import OutputMode, SparkJob, SparkSink, StreamSource

Schemas = Mapping[str, str] | str | None


class SourcesLook:
    """Notes the streams that this process reads, and lets each be empty, irreversibly.

    ``folder``: where each gets a directory. ``schemas``: of streams that do not say theirs: of all, or by `StreamSource.label`.
    ``tell``: told of what is missing.
    """

    def __init__(self, folder: Path, schemas: Schemas, tell: Callable[[Exception], object]) -> None:
        self.folder, self.schemas, self.tell = folder, schemas, tell
        self.sources: list[StreamSource] = []
        note_calls(DataStreamReader, "format", "schema", "option", "options")
        really_parquet = DataStreamReader.parquet
        for name in READS:
            if hasattr(DataStreamReader, name):
                setattr(DataStreamReader, name, self._reading(name, really_parquet))

    def _reading(self, name: str, really_parquet: Callable[..., Any]) -> Callable[..., Any]:
        really = getattr(DataStreamReader, name)

        def read(reader: DataStreamReader, *args: Any, **options: Any) -> Any:
            calls = vars(reader).get("_headrace", {}) | options
            format_ = calls.pop("format", "") if name in {"load", "table"} else name
            path = str(next(iter(args), calls.get("path", "")) or "")
            parameter = str(calls.pop("name", "")) if format_ == PARAMETER else ""
            format_ = format_.replace(PARAMETER, "")
            settings = tuple((key, str(value)) for key, value in calls.items() if key != "schema")
            label = parameter or f"stream{len(self.sources) + 1}"
            source = StreamSource(label, format_, t.StructType(), settings, path, users_place())
            schema = self._schema_of(
                source, calls.get("schema"), lambda: really(reader, *args, **options).schema
            )
            empty = self.folder / str(len(self.sources))
            empty.mkdir(parents=True)
            self.sources.append(replace(source, schema=schema))
            return really_parquet(reader._spark.readStream.schema(schema), empty.as_uri())

        return read

    def _schema_of(
        self, source: StreamSource, of_reader: Any, of_spark: Callable[[], t.StructType]
    ) -> t.StructType:
        """Return the schema of a stream. Raise `ProgramError` if neither the program, the user nor Spark knows it."""
        own = self.schemas.get(source.label) if isinstance(self.schemas, Mapping) else self.schemas
        schema = of_reader or FIXED_SCHEMAS.get(source.format.lower()) or own
        with suppress(Exception):  # whatever Spark raises
            schema = schema or of_spark()
        if schema is None:
            problem = f"the schema of the stream {source.label} is not known"
            error = ProgramError(problem, source.place, f"Write --schema '{source.label}=COLUMN TYPE, ...'")
            self.tell(error)
            raise error
        return parse_schema(schema) if isinstance(schema, str) else schema


def note_queries(look: SourcesLook, tell: Callable[[SparkJob], object]) -> None:
    """Tell of each query that this process starts, irreversibly. ``look``: knows their streams."""
    names = ("format", "outputMode", "queryName", "foreachBatch", "foreach")
    note_calls(DataStreamWriter, "option", "options", *names)
    really_start = DataStreamWriter.start

    def start(self: DataStreamWriter, path: str | None = None, *args: Any, **options: Any) -> Any:
        calls = vars(self).get("_headrace", {}) | options
        plan = self._df._jdf.queryExecution().analyzed().toString()
        places = [(look.folder / str(number)).as_uri() for number in range(len(look.sources))]
        pairs = zip(look.sources, places, strict=True)
        read = [source for source, place in pairs if place.removeprefix("file://") in plan]
        function = calls.get("foreachBatch") or calls.get("foreach")
        sink = SparkSink(
            function=called_in_laboratory if function is not None else None,
            format=calls.get("format", "") if function is None else "",
            output_mode=OutputMode(calls.get("outputMode", "append").lower()),
            options=tuple((key, str(value)) for key, value in calls.items() if key not in names),
            target=path or str(calls.get("path", "")),
            name=calls.get("queryName", ""),
            place=users_place(),
        )
        alone = read[0].schema if len(read) == 1 else None
        several = [t.StructField(source.name, source.schema) for source in read]
        available = self._spark._jvm.org.apache.spark.sql.streaming.Trigger.AvailableNow()
        self._jwrite = self._jwrite.trigger(available)
        tell(SparkJob(alone or t.StructType(several), sink=sink, sources=tuple(read)))
        return really_start(self, path, *args, **options)

    DataStreamWriter.start = start


def called_in_laboratory(_frame: Any, _batch_id: int) -> None:
    """Stand for a function of the program's, which only the real Spark calls."""


def kept_variables(variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of a program that another process can read: lists and dicts of what is not its own."""
    kept = {}
    for name, value in variables.items():
        with suppress(Exception):  # whatever its pickling raises
            if isinstance(value, list | dict) and b"__main__" not in pickle.dumps(value):
                kept[name] = value
    return kept
