"""How the files of a source are read: lines of text, JSON lines, Parquet (MillWheel 5.2).

Rules of this file: a position is one that a reader can seek to (a byte offset in lines, a row number in Parquet). A row that
cannot be read is passed on as an exception, because the injector's policy decides what to do about it.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from operator import itemgetter
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.spark.sources.files import Advance, Slice
from headrace.spark.sources.rows import NewRecord

_CHUNK_BYTES = 1 << 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Column = str | Callable[[Any], Any]
"""The name of a row's field, or a function of the row."""


@dataclass(frozen=True, slots=True)
class Columns:
    """How a row's fields become a record. ``value=None``: the whole row; ``stream=None``: the injector has only one."""

    key: Column
    timestamp: Column
    value: Column | None
    stream: Column | None
    unit_us: int

    def record(self) -> Callable[[Any], NewRecord]:
        """Return a function that converts a row to a record."""
        key, timestamp = _getter(self.key), _getter(self.timestamp)
        value, stream = _getter(self.value or _itself), _getter(self.stream or _the_only_one)
        unit_us = self.unit_us

        def make(row: Any) -> NewRecord:
            try:
                text, at = key(row), timestamp(row)
                if type(text) is int:
                    text = str(text)
                at = at * unit_us if type(at) is int else _time_us(at, unit_us)
                return NewRecord(text, value(row), at, stream(row))
            except KeyError as error:
                if isinstance(row, Mapping) and error.args[0] not in row:
                    raise _MissingFieldError(error.args[0], tuple(map(str, row))) from error
                raise

        return make


class _MissingFieldError(KeyError):
    """A row lacks a required field. Fields: field, fields."""

    def __str__(self) -> str:
        """Name the missing field, and list the fields of the row."""
        name, names = self.args
        return f"there is no field {name!r}; the fields are {', '.join(map(repr, names))}"


def _getter(column: Column) -> Callable[[Any], Any]:
    return itemgetter(column) if isinstance(column, str) else column


def _itself(row: Any) -> Any:
    return row


def _the_only_one(_row: Any) -> str:
    return ""


def _time_us(value: Any, unit_us: int) -> int:
    """Convert a date, a datetime, an ISO 8601 string or a float of units to microseconds. Without a time zone it is UTC."""
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
        return int((aware - _EPOCH) // _MICROSECOND)
    if isinstance(value, date):
        return int((datetime.combine(value, time(), UTC) - _EPOCH) // _MICROSECOND)
    if isinstance(value, float):
        return round(value * unit_us)
    kind = type(value).__name__
    raise TypeError(f"timestamp {value!r:.80} is a {kind}, not a number, a date or a time in ISO 8601")


@dataclass(frozen=True, slots=True)
class TextLines:
    """Lines of text, each parsed by the user's function. ``parse`` takes the line without its line ending."""

    parse: Callable[[str], NewRecord]
    line: str = "line"

    def advance(self, file: Any, position: int, limit: int | None) -> Advance:
        """See `Format`: count lines."""
        return _advance(file, position, limit)

    def read(self, file: Any, part: Slice) -> Iterator[tuple[int, bytes, Any]]:
        """Yield the lines that are not blank."""
        for place, line in _lines(file, part):
            try:
                yield place, line, line.decode().rstrip("\r")
            except UnicodeDecodeError as error:
                yield place, line, error

    def record(self) -> Callable[[Any], NewRecord]:
        """Return the user's function."""
        return self.parse


@dataclass(frozen=True, slots=True)
class JsonObjects:
    """One JSON value in each line."""

    columns: Columns
    line: str = "line"

    def advance(self, file: Any, position: int, limit: int | None) -> Advance:
        """See `Format`: count lines."""
        return _advance(file, position, limit)

    def read(self, file: Any, part: Slice) -> Iterator[tuple[int, bytes, Any]]:
        """Decode the lines that are not blank."""
        decode = msgspec.json.Decoder().decode
        for place, line in _lines(file, part):
            try:
                row = decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                row = error
            yield place, line, row

    def record(self) -> Callable[[Any], NewRecord]:
        """Return a function that picks the fields."""
        return self.columns.record()


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """Rows of Parquet as dicts."""

    columns: Columns
    line: str = "row"

    def advance(self, file: Any, position: int, limit: int | None) -> Advance:
        """See `Format`: use the row count in the footer."""
        rows = pq.ParquetFile(file).metadata.num_rows
        to = rows if limit is None else min(rows, position + limit)
        return Advance(to, to - position, to == rows)

    def read(self, file: Any, part: Slice) -> Iterator[tuple[int, bytes, Any]]:
        """Read the row groups that contain the part."""
        parquet = pq.ParquetFile(file)
        names = parquet.schema_arrow.names
        low = 0
        for group in range(parquet.num_row_groups):
            high = low + parquet.metadata.row_group(group).num_rows
            begin, end = max(low, part.position), min(high, part.to)
            if begin < end:
                table = parquet.read_row_group(group).slice(begin - low, end - begin)
                columns = [_plain(column).to_pylist() for column in table.columns]
                for place, values in enumerate(zip(*columns, strict=True), begin + 1):
                    row = dict(zip(names, values, strict=True))
                    yield place, b"", row
            low = high

    def record(self) -> Callable[[Any], NewRecord]:
        """Return a function that picks the fields."""
        return self.columns.record()


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Round nanoseconds to microseconds, the resolution of Python's datetime."""
    kind = column.type
    return (
        column.cast(pa.timestamp("us", kind.tz), safe=False)
        if pa.types.is_timestamp(kind) and kind.unit == "ns"
        else column
    )


def _advance(file: Any, position: int, limit: int | None) -> Advance:
    """Advance to the end of a file, or by at most ``limit`` lines. The last line needs no line ending."""
    file.seek(position)
    records, at, ended = 0, position, True
    while chunk := file.read(_CHUNK_BYTES):
        count = chunk.count(b"\n")
        if limit is not None and records + count >= limit:
            at += _after_line(chunk, limit - records)
            file.seek(at)
            return Advance(at, limit, not file.read(1))
        records, at, ended = records + count, at + len(chunk), chunk.endswith(b"\n")
    return Advance(at, records + (not ended), done=True)


def _after_line(chunk: bytes, number: int) -> int:
    """Return the position after a number of lines."""
    at = 0
    for _ in range(number):
        at = chunk.index(b"\n", at) + 1
    return at


def _lines(file: Any, part: Slice) -> Iterator[tuple[int, bytes]]:
    file.seek(part.position)
    left, begun, place = part.to - part.position, b"", part.first_record
    while left:
        chunk = file.read(min(left, _CHUNK_BYTES))
        left -= len(chunk)
        *lines, begun = (begun + chunk).split(b"\n")
        for line in lines:
            place += 1
            if line and not line.isspace():
                yield place, line
    if begun and not begun.isspace():
        yield place + 1, begun
