"""The sources that `injected` reads (MillWheel 5.2): directories of files, and a generator.

Each is a frozen description, checked when it is used.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import msgspec

from headrace.api.time import MICROSECOND
from headrace.spark.sources.data_source import Planner
from headrace.spark.sources.directory import Directory, FilesPlanner, Format
from headrace.spark.sources.formats import Column, Lines, ParquetRows, by_columns, text_in
from headrace.spark.sources.generated import Generated
from headrace.spark.sources.injected_rows import InjectionPlan, NewRecord

__all__ = ["Files", "Generated", "JsonLines", "ParquetFiles"]


@dataclass(frozen=True, slots=True)
class Files:
    """The file injector of Figure 10: files of lines, and a function that parses a line. Files named ``*.gz`` are decompressed.

    Attributes:
        directory: a path, or a `Directory` with options. The low watermark is the creation time of the oldest unfinished file.
        parse: converts a line to a record. If it raises an exception, the record is malformed.
        max_records: maximum records of one batch; ``None``: no limit.
    """

    directory: str | Directory
    parse: Callable[[str], NewRecord]
    max_records: int | None = None

    def planner(self, entry: InjectionPlan) -> Planner:
        """Check the description, and return the planner that reads the source."""
        return _files(entry, self.directory, Lines(text_in, self.parse), self.max_records)


@dataclass(frozen=True, slots=True)
class _RecordFiles:
    """Files whose records have a key and a timestamp; see the subclasses for the attributes."""

    _format: ClassVar[partial[Lines] | type[ParquetRows]]

    directory: str | Directory
    key: Column
    timestamp: Column
    value: Column | None = None
    stream: Column | None = None
    unit_us: int = MICROSECOND
    max_records: int | None = None

    def planner(self, entry: InjectionPlan) -> Planner:
        """Check the description, and return the planner that reads the source."""
        make = by_columns(self.key, self.timestamp, self.value, self.stream, self.unit_us)
        return _files(entry, self.directory, type(self)._format(make), self.max_records)


@dataclass(frozen=True, slots=True)
class JsonLines(_RecordFiles):
    """Files with one JSON object per line. Files named ``*.gz`` are decompressed.

    Attributes:
        directory: a path, or a `Directory` with options.
        key: field, or function of the object; a ``str``, or an ``int`` that is converted to one.
        timestamp: field, or function: a number of units, or a date or time in ISO 8601 (UTC if it has no time zone).
        value: field, or function; default: the whole object.
        stream: field, or function; default: the injector's only output.
        unit_us: unit of a numeric timestamp in microseconds, such as `MILLISECOND` or `SECOND`.
        max_records: maximum records of one batch; ``None``: no limit.
    """

    _format = partial(Lines, msgspec.json.decode)


@dataclass(frozen=True, slots=True)
class ParquetFiles(_RecordFiles):
    """Parquet files; each row is a dict.

    Attributes:
        directory: a path, or a `Directory` with options.
        key: column, or function of the row; a ``str``, or an ``int`` that is converted to one.
        timestamp: column, or function: a number of units, a date or a time (UTC if it has no time zone).
        value: column, or function; default: the whole row.
        stream: column, or function; default: the injector's only output.
        unit_us: unit of a numeric timestamp in microseconds, such as `MILLISECOND` or `SECOND`.
        max_records: maximum records of one batch; ``None``: no limit.
    """

    _format = ParquetRows


def _files(
    entry: InjectionPlan, directory: str | Directory, format_: Format, max_records: int | None
) -> Planner:
    where = directory if isinstance(directory, Directory) else Directory(str(directory))
    planner = FilesPlanner(entry, where, format_, max_records)
    planner.check()
    return planner
