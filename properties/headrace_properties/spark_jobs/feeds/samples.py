"""A file of the owner's real input as the rows of a source: JSON Lines, CSV with a header, Parquet, or lines of text.

A row of Parquet or CSV, and a line of JSON, is an object whose names are those of the source's columns. For a source of one text
(Kafka, a socket) it is what the text holds: a line as it is, and a row as the job parses it.
"""

import csv
import json
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyarrow import ArrowException
from pyspark.errors import PySparkException
from pyspark.sql import types as t

from headrace.api.errors import HeadraceError
from headrace_properties.spark_jobs.feeds.drawing import RowValues
from headrace_properties.spark_jobs.feeds.goals import Known
from headrace_properties.spark_jobs.feeds.slots import InputSlot
from headrace_sim.spark.columns.casts import cast_value
from headrace_sim.spark.columns.drawn_values import START
from headrace_sim.spark.columns.json_values import from_json
from headrace_sim.spark.spark_job import StreamSource

MOST_OWN_ROWS = 30
"""Choice: how many rows are taken of files that nobody has named."""
MOST_ROWS = 1_000
"""Choice: the most rows of a sample. A sink is tried at each of its effects, and a search runs the job some hundred times."""


class SampleError(HeadraceError):
    """A sample that cannot be the input. Fields: path, line (from 1; 0: the entire file), problem."""

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(path, line, problem)
        self.path, self.line, self.problem = path, line, problem

    def __str__(self) -> str:
        """State the place and the problem."""
        return f"{self.path}{f', line {self.line}' if self.line else ''}: {self.problem}"


@dataclass(frozen=True, slots=True)
class SampleFile:
    """Files with rows of a source."""

    path: Path  # a file, or a folder of them
    header: bool = True  # whether the first line of a CSV file has the names
    separator: str = ","  # between the values of CSV
    most: int | None = None  # how many rows are taken; None: all, of which there may be `MOST_ROWS`


def own_files(source: StreamSource) -> SampleFile | None:
    """Return the files that a source itself reads, if they are there."""
    options = {name.lower(): value for name, value in source.options}
    if source.format not in _SUFFIXES or not source.path or options.get("multiline", "").lower() == "true":
        return None
    path = Path(source.path.removeprefix("file://"))
    separator = options.get("sep", options.get("delimiter", ","))
    sample = SampleFile(path, options.get("header", "").lower() == "true", separator, MOST_OWN_ROWS)
    return sample if any(file.suffix.lower() in _SUFFIXES[source.format] for file in _files(path)) else None


_SUFFIXES = {
    "csv": (".csv",), "json": (".json", ".jsonl", ".ndjson"), "parquet": (".parquet",), "text": (".txt", ".log", ".text"),
}  # fmt: skip


def rows_of(row: InputSlot, sample: SampleFile) -> list[tuple[Any, ...]]:
    """Return the rows of a sample, in the order of the file, or of the names of the files.

    ``row``: that of the source: its columns, and how the job parses its text. ``sample``: where the rows are. Raise
    `SampleError` if a file cannot be read, has no rows or too many, or a value is not of its column's type.
    """
    rows: list[tuple[Any, ...]] = []
    for file in _files(sample.path):
        for line, item in _items(file, sample):
            try:
                known = _known(row, item)
            except (PySparkException, ArithmeticError, ValueError) as error:
                raise SampleError(str(file), line, str(error)) from error
            at = START + timedelta(seconds=len(rows))
            rows.append(RowValues(known, known, len(rows), at, random.Random(0)).value(row))
            if len(rows) == sample.most:
                return rows
            if len(rows) > MOST_ROWS:
                problem = f"it has more than {MOST_ROWS:,} rows. Take fewer: head -n {MOST_ROWS}"
                raise SampleError(str(sample.path), line, problem)
    if not rows:
        raise SampleError(
            str(sample.path), 0, "it has no rows" if sample.path.exists() else "there is no such file"
        )
    return rows


def objects_in(sample: SampleFile) -> Iterator[dict[Any, Any]]:
    """Yield the rows of a table, or the objects of lines of JSON, as they are written. Raise `SampleError`."""
    for file in _files(sample.path):
        for _, item in _items(file, sample):
            yield _object(item) if isinstance(item, str) else item


def _files(path: Path) -> Iterator[Path]:
    """Yield a file, or the files of a folder in the order of their names, but for those that Spark leaves out."""
    if path.is_file():
        yield path
    for file in sorted(path.rglob("*")) if path.is_dir() else ():
        hidden = any(part.startswith(("_", ".")) for part in file.relative_to(path).parts)
        if file.is_file() and not hidden:
            yield file


def _items(file: Path, sample: SampleFile) -> Iterator[tuple[int, str | dict[Any, Any]]]:
    """Yield the lines of a text, or the rows of a table as objects, each with its line."""
    try:
        if file.suffix.lower() == ".parquet":
            yield from enumerate(pq.read_table(file).to_pylist(), 1)
            return
        with file.open(encoding="utf-8-sig", newline="") as lines:
            if file.suffix.lower() == ".csv":
                table = csv.reader(lines, delimiter=sample.separator)
                names = next(table, []) if sample.header else range(1_000)
                for values in filter(None, table):
                    yield (
                        table.line_num,
                        {name: value or None for name, value in zip(names, values, strict=False)},
                    )
            else:
                yield from (
                    (number, line.rstrip("\r\n")) for number, line in enumerate(lines, 1) if line.strip()
                )
    except (OSError, ArrowException, UnicodeDecodeError, csv.Error) as error:
        raise SampleError(str(file), 0, f"it cannot be read: {error}") from error


def _known(row: InputSlot, item: str | dict[Any, Any]) -> Known:
    """Return the values of slots that a line or an object gives."""
    text = row.parts.get("value") if len(row.parts) == 1 or "topic" in row.parts else None
    if text is None or not isinstance(text.kind, t.StringType | t.BinaryType):
        if isinstance(item, dict):
            return _fields(row, item)
        parsed = from_json(item, row.kind)
        return {part.name: value for part, value in zip(row.parts.values(), parsed or (), strict=False)}
    fields = _object(item) if isinstance(item, str) else item
    if fields.keys() >= {"value"} and fields.keys() <= {part.label for part in row.parts.values()}:
        whole = fields["value"]
        return _fields(
            row, fields | {"value": whole if isinstance(whole, str | bytes | None) else _json(whole)}
        )
    if isinstance(item, str):
        return _fields(row, {text.label: item})
    inner = text
    while inner.content is not None:
        inner = inner.content
    if not isinstance(inner.kind, t.StructType):
        return _fields(row, {text.label: _json(item)})
    return {name: value for name, value in _fields(row, {}).items() if name != text.name} | _fields(
        inner, item
    )


def _object(line: str) -> dict[str, Any]:
    try:
        parsed = json.loads(line)
    except ValueError:
        return {}
    return parsed if isinstance(parsed, dict) else {}


def _json(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, default=str)


def _fields(struct: InputSlot, item: Mapping[Any, Any]) -> Known:
    parts = list(struct.parts.values())
    known: Known = {part.name: None for part in parts if part.counted is None and part.label != "timestamp"}
    for name, value in item.items():
        part = parts[name] if isinstance(name, int) else struct.parts.get(name.lower())
        if part is not None:
            known[part.name] = _typed(part, value)
    return known


def _typed(part: InputSlot, value: Any) -> Any:
    if isinstance(value, str) and not isinstance(part.kind, t.StringType):
        cast = cast_value(t.StringType(), part.kind)
        return value if cast is None else cast(value)
    return tuple(value.values()) if isinstance(value, dict) and isinstance(part.kind, t.StructType) else value
