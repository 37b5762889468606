"""Files that are there before the job: a lookup table beside it, or what ``prepare()`` makes."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql import types as t
from pyspark.sql.pandas.types import from_arrow_schema

from headrace_sim.spark.columns.casts import cast_value
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.json_values import from_json
from headrace_sim.spark.columns.values import as_tuple
from headrace_sim.spark.pyspark_versions import rows_of
from headrace_sim.spark.refusals import CannotFollowError

_SEEN: dict[str, Rows] = {}
"""What was read where the program began: an attempt works in a directory of its own."""


def rows_of_files(
    path: str, source: str, options: Mapping[str, str], schema: t.StructType | None, place: str
) -> Rows | None:
    """Return the rows of a file, or of those in a folder; None: there is none.

    ``path``: as the user's code names it. ``source``: the format. ``options``: with names in lower case. ``schema``: that the
    reader is given, or None. ``place``: ``file:line`` of the user's code. Raise `CannotFollowError` if an option, or the format
    without a schema, is not followed.
    """
    key = repr((path, source, sorted(options.items()), schema))
    files = _files(Path(path.removeprefix("file://").removeprefix("file:")))
    if not files:
        return _SEEN.get(key)
    unread = [name for name in options if name not in _OPTIONS.get(source, ())]
    if source not in _OPTIONS or unread or (source == "json" and schema is None):
        what = f"the option {unread[0]}" if unread else "no schema" if source == "json" else "this format"
        remedy = "Give the reader a schema, and no more than that"
        raise CannotFollowError(f"spark.read of {source} with {what}", place, remedy)
    if options.get("inferschema", "false").lower() == "true" and schema is None:
        raise CannotFollowError("spark.read with inferSchema", place, "Give the reader a schema")
    parts = [_read(file, source, options, schema) for file in files]
    _SEEN[key] = Rows(parts[0][0], [rows for _, rows in parts])
    return _SEEN[key]


_OPTIONS: dict[str, frozenset[str]] = {
    "csv": frozenset({"path", "header", "sep", "delimiter", "inferschema"}),
    "json": frozenset({"path"}),
    "parquet": frozenset({"path"}),
    "text": frozenset({"path"}),
}


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    files = (file for file in sorted(path.glob("*")) if not file.name.startswith(("_", ".")))
    return [file for file in files if file.is_file()]


def _read(
    file: Path, source: str, options: Mapping[str, str], schema: t.StructType | None
) -> tuple[t.StructType, tuple[tuple[Any, ...], ...]]:
    if source == "parquet":
        table = pq.read_table(file)
        own = from_arrow_schema(table.schema)
        rows = [as_tuple(tuple(row), own) for row in rows_of(table, own)]
        return own, tuple(rows)
    if source == "csv":
        return _csv(file, options, schema)
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line or source == "text"]
    if source == "text":
        return t.StructType([t.StructField("value", t.StringType())]), tuple((line,) for line in lines)
    assert schema is not None
    nulls = (None,) * len(schema.fields)
    return schema, tuple(tuple(from_json(line, schema) or nulls) for line in lines)


def _csv(
    file: Path, options: Mapping[str, str], schema: t.StructType | None
) -> tuple[t.StructType, tuple[tuple[Any, ...], ...]]:
    """Read CSV: columns go by their place, a value that is not of its type is null."""
    separator = options.get("sep", options.get("delimiter", ","))
    with file.open(encoding="utf-8-sig", newline="") as lines:
        cells = [row for row in csv.reader(lines, delimiter=separator) if row]
    names = [f"_c{place}" for place in range(max(map(len, cells), default=0))]
    if options.get("header", "false").lower() == "true":
        names, cells = (cells[0], cells[1:]) if cells else ([], [])
    schema = schema or t.StructType([t.StructField(name, t.StringType()) for name in names])
    kinds = [column.dataType for column in schema.fields]
    return schema, tuple(tuple(map(_cell, (*row, *[""] * len(kinds)), kinds)) for row in cells)


def _cell(text: str, kind: t.DataType) -> Any:
    cast = cast_value(t.StringType(), kind)
    if not text or cast is None:
        return None
    try:
        return cast(text)
    except Exception:  # noqa: BLE001  PERMISSIVE, the mode by default
        return None
