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

from headrace.spark.sources.directory import Advance, Slice
from headrace.spark.sources.injected_rows import NewRecord

_CHUNK_BYTES = 1 << 20
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)

Column = str | Callable[[Any], Any]
"""The name of a row's field, or a function of the row."""


def by_columns(
    key: Column, timestamp: Column, value: Column | None, stream: Column | None, unit_us: int
) -> Callable[[Any], NewRecord]:
    """Return a function that makes a record of a row's fields.

    Args:
        key: see `JsonLines`.
        timestamp: see `JsonLines`.
        value: ``None``: the whole row.
        stream: ``None``: the injector has only one.
        unit_us: see `JsonLines`.
    """
    key_of, timestamp_of = _getter(key), _getter(timestamp)
    value_of, stream_of = _getter(value or _itself), _getter(stream or _the_only_one)

    def make(row: Any) -> NewRecord:
        try:
            text, at = key_of(row), timestamp_of(row)
            if type(text) is int:
                text = str(text)
            at = at * unit_us if type(at) is int else _time_us(at, unit_us)
            return NewRecord(text, value_of(row), at, stream_of(row))
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
class Lines:
    """A row in each line that is not blank. ``decode`` takes the line without its line ending."""

    decode: Callable[[bytes], Any]
    make: Callable[[Any], NewRecord]
    line: str = "line"

    def advance(self, file: Any, position: int, limit: int | None) -> Advance:
        """See `Format`: count lines. The last one needs no line ending."""
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

    def read(self, file: Any, part: Slice) -> Iterator[tuple[int, bytes, Any]]:
        """Decode the lines."""
        for place, line in _lines(file, part):
            try:
                row = self.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError) as error:
                row = error
            yield place, line, row


def text_in(line: bytes) -> str:
    """Return the text of a line."""
    return line.decode().rstrip("\r")


@dataclass(frozen=True, slots=True)
class ParquetRows:
    """Rows of Parquet as dicts."""

    make: Callable[[Any], NewRecord]
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


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Round nanoseconds to microseconds, the resolution of Python's datetime."""
    kind = column.type
    return (
        column.cast(pa.timestamp("us", kind.tz), safe=False)
        if pa.types.is_timestamp(kind) and kind.unit == "ns"
        else column
    )


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
