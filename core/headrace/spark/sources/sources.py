"""The sources that `injected` reads (MillWheel 5.2): directories of files, and a generator.

Each is a description, a frozen value; what it says is checked when it is used.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from headrace.api.errors import OptionsError
from headrace.api.time import MICROSECOND
from headrace.spark.sources.data_source import Planner
from headrace.spark.sources.files import Directory, FilesPlanner, Format
from headrace.spark.sources.formats import Column, Columns, JsonObjects, ParquetRows, TextLines
from headrace.spark.sources.generated import GeneratedPlanner
from headrace.spark.sources.rows import Entry, NewRecord


@dataclass(frozen=True, slots=True)
class Files:
    """The file injector of Figure 10: files of lines, and a function that parses a line. Names that end in ``.gz`` are unpacked.

    Attributes:
        directory: its path, or a `Directory` to say more. The low watermark is the creation time of the oldest unfinished file.
        parse: line to record. What it raises makes the record malformed.
        max_records: of one batch; ``None``: all that is there.
    """

    directory: str | Directory
    parse: Callable[[str], NewRecord]
    max_records: int | None = None

    def planner(self, entry: Entry) -> Planner:
        """Check it, and make what reads it."""
        return _files(entry, self.directory, TextLines(self.parse), self.max_records)


@dataclass(frozen=True, slots=True)
class _RecordFiles:
    """Files whose records say what their key and their timestamp are; the attributes are explained where each kind is."""

    _format: ClassVar[type[JsonObjects] | type[ParquetRows]]

    directory: str | Directory
    key: Column
    timestamp: Column
    value: Column | None = None
    stream: Column | None = None
    unit_us: int = MICROSECOND
    max_records: int | None = None

    def planner(self, entry: Entry) -> Planner:
        """Check it, and make what reads it."""
        columns = Columns(self.key, self.timestamp, self.value, self.stream, self.unit_us)
        return _files(entry, self.directory, self._format(columns), self.max_records)


@dataclass(frozen=True, slots=True)
class JsonLines(_RecordFiles):
    """Files with a JSON object in each line. Names that end in ``.gz`` are unpacked.

    Attributes:
        directory: its path, or a `Directory` to say more.
        key: field, or function of the object; a ``str``, or an ``int`` to be written as one.
        timestamp: field, or function: a number of units, or a date or time in ISO 8601 (UTC if it does not say).
        value: field, or function; default: the whole object.
        stream: field, or function; default: the injector's only output.
        unit_us: microseconds in a unit of a numeric timestamp: `MILLISECOND`, `SECOND`.
        max_records: of one batch; ``None``: all that is there.
    """

    _format = JsonObjects


@dataclass(frozen=True, slots=True)
class ParquetFiles(_RecordFiles):
    """Files of Parquet: each row a dict.

    Attributes:
        directory: its path, or a `Directory` to say more.
        key: column, or function of the row; a ``str``, or an ``int`` to be written as one.
        timestamp: column, or function: a number of units, a date or a time (UTC if it does not say).
        value: column, or function; default: the whole row.
        stream: column, or function; default: the injector's only output.
        unit_us: microseconds in a unit of a numeric timestamp: `MILLISECOND`, `SECOND`.
        max_records: of one batch; ``None``: all that is there.
    """

    _format = ParquetRows


@dataclass(frozen=True, slots=True)
class Generated:
    """Records that a function makes, the same ones whenever it is asked again.

    >>> def numbers(process: int, offset: int) -> Iterable[NewRecord]:
    ...     return (NewRecord(f"k{n % 10}", n, n * 1000) for n in itertools.count(offset))
    >>> source = Generated(numbers, count=1_000_000, per_second=5_000)

    Attributes:
        records: (process, offset) -> the process's records from that offset on. It may be asked for any offset, in any order.
        count: how many each process has; then the source has ended. ``None``: no end.
        per_second: how many each process lets go in a second; ``None``: all at once. It goes on while the query is down.
        disorder_us: how far behind an earlier record's timestamp a later one's may be: the watermark is the timestamp of the
            next record, less this.
        watermark: (process, offset) -> the low watermark when the records before the offset are out, microseconds, in the
            place of the estimate by ``disorder_us``. Records behind it are late.
        max_records: of one batch, over all processes; ``None``: all that there are.
    """

    records: Callable[[int, int], Iterable[NewRecord]]
    count: int | None = None
    per_second: float | None = None
    disorder_us: int = 0
    watermark: Callable[[int, int], int] | None = None
    max_records: int | None = None

    def planner(self, entry: Entry) -> Planner:
        """Check it, and make what reads it."""
        if self.count is not None and self.count < 0:
            raise OptionsError("count", self.count, "at least 0, or None")
        if self.per_second is not None and self.per_second <= 0:
            raise OptionsError("per_second", self.per_second, "more than 0, or None")
        if self.max_records is not None and self.max_records < entry.spec.processes:
            raise OptionsError("max_records", self.max_records, "at least one for each process, or None")
        if self.count is None and self.per_second is None and self.max_records is None:
            raise OptionsError(
                "max_records", None, "a limit: without count and per_second a batch would have no end"
            )
        return GeneratedPlanner(
            entry,
            self.records,
            self.count,
            self.per_second,
            self.disorder_us,
            self.watermark,
            self.max_records,
        )


def _files(entry: Entry, directory: str | Directory, format_: Format, max_records: int | None) -> Planner:
    where = directory if isinstance(directory, Directory) else Directory(str(directory))
    planner = FilesPlanner(entry, where, format_, max_records)
    planner.check()
    return planner
