"""``df.write`` and ``df.writeTo`` in an attempt: they ask the model of tables for what they say."""

from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrameWriter, DataFrameWriterV2

from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.refusals import refuse_the_rest
from headrace_sim.spark.tables.connectors import TARGETS
from headrace_sim.spark.tables.tables import Tables
from headrace_sim.spark.tables.versions import Columns, SaveMode, WriteRequest

_FILES = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
_MODES = {mode.value: mode for mode in SaveMode} | {
    "errorifexists": SaveMode.ERROR,
    "default": SaveMode.ERROR,
}


class Writer(DataFrameWriter):
    """Replaces ``df.write`` in an attempt."""

    def __init__(self, frame: Rows, tables: Tables) -> None:
        self._frame = frame
        self._tables = tables
        self._mode = SaveMode.ERROR
        self._format = ""
        self._options: dict[str, Any] = {}
        self._partitioned_by: tuple[str, ...] = ()

    def mode(self, saveMode: str | None) -> "Writer":
        """Choose what happens to existing data."""
        if saveMode is not None:
            if saveMode.lower() not in _MODES:
                raise AnalysisException(
                    message=f"[INVALID_SAVE_MODE] The save mode {saveMode!r} is none of: {', '.join(_MODES)}"
                )
            self._mode = _MODES[saveMode.lower()]
        return self

    def format(self, source: str) -> "Writer":
        """Choose the format."""
        self._format = source.lower()
        return self

    def option(self, key: str, value: Any) -> "Writer":
        """Set an option."""
        self._options[key.lower()] = value
        return self

    def options(self, **options: Any) -> "Writer":
        """Set options."""
        for key, value in options.items():
            self.option(key, value)
        return self

    def partitionBy(self, *cols: Any) -> "Writer":
        """Partition by columns."""
        self._partitioned_by = (
            tuple(cols[0]) if len(cols) == 1 and isinstance(cols[0], (list, tuple)) else cols
        )
        return self

    def bucketBy(self, numBuckets: int, *cols: Any) -> "Writer":
        """Do nothing: buckets do not affect which rows exist."""
        return self

    def sortBy(self, *cols: Any) -> "Writer":
        """Change nothing."""
        return self

    def clusterBy(self, *cols: Any) -> "Writer":
        """Change nothing."""
        return self

    def save(
        self,
        path: str | None = None,
        format: Any = None,
        mode: Any = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> None:
        """Write to a path, or where the options say."""
        self._given(format, mode, partitionBy, options)
        place = (
            path
            if path is not None
            else next(
                (str(self._options[key]) for key in TARGETS if key in self._options),
                None,
            )
        )
        if place is None:
            place = self._format or "parquet"
        self._write(place)

    def saveAsTable(
        self, name: str, format: Any = None, mode: Any = None, partitionBy: Any = None, **options: Any
    ) -> None:
        """Write to a table."""
        self._given(format, mode, partitionBy, options)
        self._write(name.lower())

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:
        """Add rows to a table, or overwrite it."""
        overwrites = self._mode is SaveMode.OVERWRITE if overwrite is None else overwrite
        self._mode = SaveMode.OVERWRITE if overwrites else SaveMode.APPEND
        self._write(tableName.lower(), Columns.BY_PLACE)

    def jdbc(self, url: str, table: str, mode: Any = None, properties: Any = None) -> None:
        """Write to a table of a database."""
        self._format = "jdbc"
        self._given(None, mode, None, {})
        self._write(table.lower())

    def to_table(self, name: str) -> "WriterV2":
        """Return the value of ``df.writeTo(name)``."""
        return WriterV2(self, name)

    def _given(self, format: Any, mode: Any, partitioned_by: Any, options: dict[str, Any]) -> None:
        if format is not None:
            self.format(format)
        if partitioned_by is not None:
            self.partitionBy(*([partitioned_by] if isinstance(partitioned_by, str) else partitioned_by))
        self.mode(mode).options(**options)

    def _write(self, target: str, columns: Columns = Columns.BY_NAME) -> None:
        self._tables.write(
            self._frame,
            WriteRequest(
                target,
                self._format,
                self._mode,
                self._options,
                tuple(name.lower() for name in self._partitioned_by),
                self._tables.replaces(self._options.get("partitionoverwritemode")),
                columns=columns,
            ),
        )


def _saved_as(name: str) -> Any:
    def save(self: Writer, path: str, mode: Any = None, partitionBy: Any = None, **options: Any) -> None:
        self.save(
            path,
            name,
            mode,
            partitionBy,
            **{key: value for key, value in options.items() if value is not None},
        )

    save.__doc__ = f"Write {name} files to a path."
    return save


for _name in _FILES:
    setattr(Writer, _name, _saved_as(_name))


class WriterV2(DataFrameWriterV2):
    """Replaces ``df.writeTo(table)`` in an attempt."""

    def __init__(self, writer: Writer, table: str) -> None:
        self._writer = writer.format("iceberg")
        self._table = table

    def using(self, provider: str) -> "WriterV2":
        """Choose the format."""
        self._writer.format(provider)
        return self

    def option(self, key: str, value: Any) -> "WriterV2":
        """Set an option."""
        self._writer.option(key, value)
        return self

    def options(self, **options: Any) -> "WriterV2":
        """Set options."""
        self._writer.options(**options)
        return self

    def tableProperty(self, property: str, value: str) -> "WriterV2":
        """Change nothing."""
        return self

    def append(self) -> None:
        """Add rows."""
        self._writer.saveAsTable(self._table, mode="append")

    def create(self) -> None:
        """Create the table."""
        self._writer.saveAsTable(self._table, mode="error")

    def createOrReplace(self) -> None:
        """Replace the table."""
        self._writer.saveAsTable(self._table, mode="overwrite")

    replace = createOrReplace


_REMEDY = "Write with mode(), format(), option() and save(), saveAsTable(), insertInto() or jdbc()"
refuse_the_rest(Writer, DataFrameWriter, _REMEDY)
refuse_the_rest(WriterV2, DataFrameWriterV2, _REMEDY)
