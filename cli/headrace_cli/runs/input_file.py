"""A file of records as a run's input: JSON lines, CSV with a header, or Parquet; one record in each line or row.

A line is ``{"value": ..., "timestamp": ...}``, with ``"key"``, ``"stream"`` and ``"arrived"`` if wanted; or, with
``--timestamp``, whatever object the file has, of which one field is the timestamp. Times are microseconds since 1970 or ISO 8601.
A row of a table is read as the object of its columns. A column of CSV is of numbers if each of its values is written as JSON
writes numbers, and nothing would be lost: ``007``, ``+7`` and integers of more than 64 bits are text, with all of their column.
The column of the key is text as it is written.

Rules of this file: what is wrong with a line is said with the file and the line. Records arrive in the file's order, or in that
of ``arrived``. The low watermark follows the newest timestamp so far, by the slack that was asked for; without a slack it waits
for the end of the file, and nothing is late.
"""

import base64
import binascii
import csv
import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from headrace import MILLISECOND, CodecError, HeadraceError, Pipeline
from headrace.api.json_text import JsonError, encoding_problem, read_json, repeated_name
from headrace.api.time import is_timestamp
from headrace_cli.options.run_options import InputOptions
from headrace_sim import Feed, FeedBuilder

_GAP_US = MILLISECOND
"""Choice: wall time between arrivals, whatever it was in reality: a year would not fit into a run."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TABLES = (".csv", ".parquet")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
"""A number as JSON writes it."""


class InputError(HeadraceError):
    """A line or row of an input file is not a record. Fields: path, line (from 1; 0: the entire file), problem."""

    def __init__(self, path: str, line: int, problem: str) -> None:
        super().__init__(path, line, problem)
        self.path, self.line, self.problem = path, line, problem

    def __str__(self) -> str:
        """State the place and the problem."""
        return f"{self.path}{f', line {self.line}' if self.line else ''}: {self.problem}"


@dataclass(frozen=True, slots=True)
class _InputLine:
    number: int
    stream: str
    key: str
    data: bytes | None
    value: Any
    timestamp: int
    arrived: int | None


def read_input(path: Path, pipeline: Pipeline, options: InputOptions) -> Feed:
    """Read a file of JSON lines, or, by its suffix, of CSV or Parquet.

    Args:
        path: the file.
        pipeline: whose injectors take the records; of several processes each gets its share in turn.
        options: how to read the lines.

    Raises:
        InputError: a line is not what it should be.
    """
    injectors = {stream: name for name, spec in pipeline.injectors.items() for stream in spec.outputs}
    lines = _in_order_of_arrival(path, list(_lines(path, options, injectors)))
    builder, newest = FeedBuilder(pipeline), None
    for index, line in enumerate(lines):
        _add(builder, pipeline, injectors[line.stream], path, index, line)
        if options.slack_us is not None and (newest is None or line.timestamp > newest):
            newest = line.timestamp
            for name, spec in pipeline.injectors.items():
                for process in range(spec.processes):
                    low_us, at_us = newest - options.slack_us, index * _GAP_US
                    builder.watermark(at_us=at_us, low_watermark=low_us, injector=name, process=process)
    return builder.build()


def _add(
    builder: FeedBuilder, pipeline: Pipeline, injector: str, path: Path, index: int, line: _InputLine
) -> None:
    common: dict[str, Any] = {
        "at_us": index * _GAP_US, "timestamp": line.timestamp, "key": line.key, "stream": line.stream,
        "injector": injector, "process": index % pipeline.injectors[injector].processes,
    }  # fmt: skip
    if line.data is not None:
        builder.raw(data=line.data, **common)
        return
    try:
        builder.record(value=line.value, **common)
    except CodecError as error:
        problem = f"{error.codec} of stream {line.stream!r} does not take this value: {error.reason}"
        raise InputError(str(path), line.number, problem) from error


def _lines(path: Path, options: InputOptions, injectors: dict[str, str]) -> Iterator[_InputLine]:
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(str(path), 0, f"cannot be read: {error.strerror or error}") from error
    with file:
        is_table = path.suffix.lower() in _TABLES
        for number, row in _rows(path, file, options) if is_table else enumerate(file, 1):
            if not isinstance(row, bytes) or row.strip():
                try:
                    fields = _object(row) if isinstance(row, bytes) else row
                    yield _line(number, fields, options, injectors)
                except ValueError as error:
                    raise InputError(str(path), number, str(error)) from error


def _rows(path: Path, file: BinaryIO, options: InputOptions) -> Iterator[tuple[int, dict[str, Any]]]:
    """Return the rows of a table, each with its line; of Parquet, with its number."""
    try:
        pa, parquet = (import_module(name) for name in ("pyarrow", "pyarrow.parquet"))
    except ImportError as error:
        raise InputError(str(path), 0, "tables need pyarrow: pip install 'headrace[spark]'") from error
    is_csv = path.suffix.lower() == ".csv"
    try:
        table = _csv_table(path, file, options) if is_csv else parquet.read_table(file)
        _refuse_repeated(path, table.schema.names)
        micros = [
            pa.field(column.name, pa.timestamp("us", column.type.tz))
            if pa.types.is_timestamp(column.type)
            else column
            for column in table.schema
        ]
        rows = table.cast(pa.schema(micros), safe=False).to_pylist()
    except (pa.ArrowException, ValueError, OverflowError) as error:
        raise InputError(str(path), 0, f"this is not {'CSV' if is_csv else 'Parquet'}: {error}") from error
    return ((number, msgspec.to_builtins(row)) for number, row in enumerate(rows, 2 if is_csv else 1))


def _csv_table(path: Path, file: BinaryIO, options: InputOptions) -> Any:
    """Read a table of CSV, with numbers only in columns that are written as numbers."""
    pa, table_of = import_module("pyarrow"), import_module("pyarrow.csv").read_csv
    first = next(file, b"")
    problem = encoding_problem(first)
    if problem and not first.startswith(b"\xef\xbb\xbf"):  # UTF-8's mark is skipped
        raise ValueError(problem)
    file.seek(0)
    names = next(csv.reader(line.decode("utf-8-sig", "replace") for line in file), [])
    _refuse_repeated(path, names)
    file.seek(0)
    table = table_of(file)
    _check_text(path, table)
    file.seek(0)
    as_text = import_module("pyarrow.csv").ConvertOptions(
        column_types=dict.fromkeys(table.schema.names, pa.string())
    )
    written = table_of(file, convert_options=as_text)
    for place, name in enumerate(table.schema.names):
        kind = table[name].type
        is_text = name == options.key_field
        if name != options.timestamp_field and (pa.types.is_integer(kind) or pa.types.is_floating(kind)):
            is_text |= not all(map(_is_number, written[name].to_pylist(), table[name].to_pylist()))
        if is_text:
            table = table.set_column(place, name, written[name])
    return table


def _is_number(text: str, value: float | None) -> bool:
    """Return whether nothing is lost if a text is taken for a number; an empty one is null."""
    if value is None:
        return True
    if not _NUMBER.fullmatch(text) or not math.isfinite(value):
        return False
    return not text.removeprefix("-").isdecimal() or int(text) == value


def _refuse_repeated(path: Path, names: Iterable[str]) -> None:
    """Refuse columns of one name, of which each row would keep one."""
    twice = next((name for name, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise InputError(str(path), 1, f"two columns are called {twice!r}. Rename one")


def _check_text(path: Path, table: Any) -> None:
    """Refuse text that is not UTF-8: PyArrow reads its column as bytes, which would come out as base64."""
    for name in (column.name for column in table.schema if str(column.type) == "binary"):
        for number, value in enumerate(table[name].to_pylist(), 2):
            try:
                str(value or b"", "utf-8")
            except UnicodeDecodeError:
                problem = f"{name} {value!r} is not UTF-8. Save the file as UTF-8"
                raise InputError(str(path), number, problem) from None


def _object(text: bytes) -> dict[str, Any]:
    try:
        fields = read_json(text, msgspec.json.decode)
    except JsonError as error:
        raise ValueError(f"this is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise ValueError(f"a JSON object is expected, not {_kind(fields)}")  # noqa: TRY004  the caller turns it into an InputError
    if (name := repeated_name(text)) is not None:
        raise ValueError(f"it has the field {name!r} twice. Write each field once")
    return fields


def _line(
    number: int, fields: dict[str, Any], options: InputOptions, injectors: dict[str, str]
) -> _InputLine:
    """Read a line's object; raise `ValueError` with the problem if it is malformed."""
    enveloped = options.timestamp_field is None
    data = _bytes(fields["value_base64"]) if enveloped and "value_base64" in fields else None
    value = fields.get("value") if enveloped else fields
    if enveloped and data is None and "value" not in fields:
        raise ValueError(
            'it has no "value"; write {"value": ..., "timestamp": ...}, or name the field: --timestamp FIELD'
        )
    key = _field(value, options.key_field) if options.key_field is not None else fields.get("key", "")
    if not enveloped and options.key_field is None:
        key = ""
    stream = fields.get("stream", options.stream) if enveloped else options.stream
    arrived = _time(fields["arrived"], "arrived") if enveloped and "arrived" in fields else None
    timestamp_us = _time(
        _field(fields, options.timestamp_field or "timestamp"), options.timestamp_field or "timestamp"
    )
    return _InputLine(number, _stream(stream, injectors), _key(key), data, value, timestamp_us, arrived)


def _in_order_of_arrival(path: Path, lines: list[_InputLine]) -> list[_InputLine]:
    if all(line.arrived is None for line in lines):
        return lines
    missing = next((line for line in lines if line.arrived is None), None)
    if missing is not None:
        raise InputError(str(path), missing.number, 'it has no "arrived", and other lines have')
    return sorted(lines, key=lambda line: line.arrived or 0)


def _field(value: Any, field: str) -> Any:
    if not isinstance(value, dict):
        raise ValueError(f"the value is {_kind(value)} and has no field {field!r}")  # noqa: TRY004  as above
    if field not in value:
        raise ValueError(f"it has no field {field!r}; its fields are: {', '.join(value) or 'none'}")
    return value[field]


def _stream(stream: Any, injectors: dict[str, str]) -> str:
    if stream is None:
        return next(iter(injectors))
    if not isinstance(stream, str) or stream not in injectors:
        raise ValueError(f"no injector has a stream {stream!r}; the streams are: {', '.join(injectors)}")
    return stream


def _key(key: Any) -> str:
    """Return a key as text; numbers are accepted because many files have numbered keys."""
    if isinstance(key, bool) or not isinstance(key, str | int):
        raise ValueError(f"the key is {_kind(key)}, not a string")  # noqa: TRY004  as above
    return str(key)


def _time(time: Any, field: str) -> int:
    if isinstance(time, str):
        try:
            moment = datetime.fromisoformat(time)
        except ValueError as error:
            raise ValueError(f"{field} {time!r} is not ISO 8601, such as 2013-02-08T16:00:00Z") from error
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return (moment - _EPOCH) // timedelta(microseconds=1)
    if not is_timestamp(time):
        raise ValueError(f"{field} {time!r} is neither microseconds since 1970 (an integer) nor ISO 8601")
    return int(time)


def _bytes(text: Any) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, TypeError, ValueError) as error:
        raise ValueError(f"value_base64 is not base64: {error}") from error


def _kind(value: Any) -> str:
    kinds = {dict: "an object", list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
