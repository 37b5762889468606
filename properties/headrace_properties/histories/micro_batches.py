"""Read what Spark itself records of its streaming queries: event logs, progress of a listener as JSON, logs of a driver.

Rules of this file:

* All of them contain the same progress, one per micro-batch. In an event log, offsets are text, and only sources count rows.
* What is not about a streaming query is skipped, as is a last line that is still being written.
"""

import ast
import gzip
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from headrace import HistoryFormatError
from headrace.api.json_text import in_words

_SNIFFED_BYTES = 1 << 16
_ENDED = "QueryTerminatedEvent"
_KINDS = ("QueryStartedEvent", _ENDED)
_CLOSED = ("}", "]")
_OTHER_CODECS = (".lz4", ".lzf", ".snappy")


class _Camel(msgspec.Struct, frozen=True, rename="camel"):
    """A part of the progress, with Spark's names."""


class SourceRead(_Camel, frozen=True):
    """What a micro-batch read of a source: from the first offset, up to and without the second."""

    description: str = ""
    start_offset: Any = None
    end_offset: Any = None
    latest_offset: Any = None
    num_input_rows: int = 0


class StateRows(_Camel, frozen=True):
    """The rows of a stateful operator after a micro-batch. ``num_rows_removed`` is ``None`` before Spark 3.2."""

    operator_name: str = "state"
    num_rows_total: int = 0
    num_rows_removed: int | None = None
    num_rows_dropped_by_watermark: int = 0


class _Sink(_Camel, frozen=True):
    description: str = ""
    num_output_rows: int = -1


class _Progress(_Camel, frozen=True):
    id: str
    run_id: str
    batch_id: int
    timestamp: str
    name: str | None = None
    duration_ms: dict[str, int] = {}
    event_time: dict[str, str] = {}
    state_operators: list[StateRows] = []
    sources: list[SourceRead] = []
    sink: _Sink = _Sink()


@dataclass(frozen=True, slots=True)
class CompletedBatch:
    """A micro-batch that completed.

    Attributes:
        place: where the log says so.
        run: the run of the query; a restart begins another one.
        number: the batch id.
        at_us: when it was triggered, microseconds since 1970.
        duration_ms: how long it took.
        newest_us: the greatest event time among its rows; ``None``: none has one.
        watermark_us: event time, microseconds; ``None``: the query has none.
        reads: by source.
        state: by stateful operator.
        rows_out: the rows that the sink took; -1: it does not tell.
        sink: its description, without the number of an object.
    """

    place: str
    run: str
    number: int
    at_us: int
    duration_ms: int
    newest_us: int | None
    watermark_us: int | None
    reads: tuple[SourceRead, ...]
    state: tuple[StateRows, ...]
    rows_out: int
    sink: str

    @property
    def rows(self) -> int:
        """How many rows it read."""
        return sum(read.num_input_rows for read in self.reads)


@dataclass(frozen=True, slots=True)
class QueryRun:
    """The start of a run, or its end. ``exception``: what ended it; ``""``: nothing did."""

    place: str
    run: str
    ended: bool
    exception: str = ""


@dataclass(slots=True)
class QueryLog:
    """What the logs say of one streaming query: of one checkpoint, that is.

    Attributes:
        id: of the checkpoint.
        name: of the query; ``""``: it has none.
        events: in order.
        log: the file in which it begins.
    """

    id: str
    name: str
    log: Path
    events: list[CompletedBatch | QueryRun] = field(default_factory=list)

    @property
    def title(self) -> str:
        """The query, for messages."""
        return f"query {self.name!r}" if self.name else f"query {self.id[:8]}"

    @property
    def batches(self) -> list[CompletedBatch]:
        """All micro-batches, in the order in which they completed."""
        return [event for event in self.events if isinstance(event, CompletedBatch)]

    @property
    def gaps(self) -> int:
        """How many micro-batches between the first and the last one are missing."""
        numbers = {batch.number for batch in self.batches}
        return max(numbers, default=-1) - min(numbers, default=0) + 1 - len(numbers)

    @property
    def filled(self) -> list[CompletedBatch]:
        """Those with rows."""
        return [batch for batch in self.batches if batch.rows]


def is_spark_log(path: Path) -> bool:
    """Return whether a path is a folder, or the file of a log of Spark, and not a History."""
    if path.is_dir():
        return True
    try:
        with _opened(path) as file:
            head = file.read(_SNIFFED_BYTES)
    except (OSError, HistoryFormatError):
        return path.suffix in _OTHER_CODECS
    first = head.lstrip()[:200]
    return b"headrace-history" not in first and any(
        mark in head
        for mark in (b"SparkListener", b"QueryListener", b'"runId"', b"'runId'", b"StreamExecution")
    )


def read_spark_logs(path: Path) -> list[QueryLog]:
    """Read the streaming queries of a log, or of all logs of a folder.

    Args:
        path: an event log, plain or compressed with zstd or gzip, the log of a driver, a file of progress as JSON; or a folder of
            them, such as a rolling event log or ``spark.eventLog.dir``. Several logs are taken in the order of their first event.

    Raises:
        HistoryFormatError: it cannot be read, or has no progress of a streaming query.
    """
    paths = sorted(filter(_is_log, path.rglob("*")), key=_rolled) if path.is_dir() else [path]
    logs = [(log, list(_events(log, path))) for log in paths]
    queries: dict[str, QueryLog] = {}
    for log, events in sorted(logs, key=lambda item: _first_time(item[1])):
        for place, kind, fields in events:
            _take(queries, log, place, kind, fields)
    if not any(query.batches or query.events for query in queries.values()):
        reason = "it has no progress of a streaming query. Give an event log, or the JSON of a StreamingQueryListener's progress"
        raise HistoryFormatError("Spark log", str(path), reason)
    return list(queries.values())


def _is_log(path: Path) -> bool:
    return path.is_file() and not path.name.startswith((".", "appstatus"))


def _rolled(path: Path) -> tuple[str, int, str]:
    """Order the files of a rolling event log by their number."""
    parts = path.name.split("_")
    return (str(path.parent), int(parts[1]) if len(parts) > 2 and parts[1].isdigit() else 0, path.name)


def _first_time(events: list[tuple[str, str, dict[str, Any]]]) -> str:
    return next((str(fields["timestamp"]) for _, _, fields in events if "timestamp" in fields), "")


def _opened(path: Path) -> Any:
    if path.suffix in _OTHER_CODECS:
        reason = f"it is compressed with {path.suffix[1:]}. Record with spark.eventLog.compression.codec=zstd, or decompress it"
        raise HistoryFormatError("Spark log", str(path), reason)
    if path.suffix == ".gz":
        return gzip.open(path)
    if path.suffix in {".zst", ".zstd"}:
        try:
            import zstandard  # noqa: PLC0415  comes with headrace[spark]
        except ImportError as error:
            reason = "it is compressed: pip install zstandard, or decompress it"
            raise HistoryFormatError("Spark log", str(path), reason) from error
        return zstandard.ZstdDecompressor().stream_reader(
            path.open("rb"), read_across_frames=True, closefd=True
        )
    return path.open("rb")


def _events(log: Path, path: Path) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield place, kind and fields of everything that is about streaming queries."""
    where = "" if log == path else f" of {log.name}"
    try:
        with _opened(log) as file, io.TextIOWrapper(file, "utf-8", errors="replace") as lines:
            for number, value in _objects(lines):
                for item in value if isinstance(value, list) else [value]:
                    if isinstance(item, dict) and (kind := _kind(item)):
                        yield f"line {number}{where}", kind, item.get("progress", item)
    except (OSError, EOFError) as error:
        raise HistoryFormatError("Spark log", str(log), str(error)) from error


def _kind(item: dict[str, Any]) -> str:
    """Return what a JSON object reports of a streaming query; ``""``: nothing."""
    fields = item.get("progress", item)
    if isinstance(fields, dict) and {"batchId", "runId", "id"} <= fields.keys():
        return "Progress"
    kind = str(item.get("Event", "")).rpartition("$")[2]
    return kind if kind in _KINDS else ""


def _objects(lines: Iterable[str]) -> Iterator[tuple[int, Any]]:
    """Yield JSON values with the line in which each begins: one a line, behind other text, or spread over lines."""
    begun, parts = 0, list[str]()
    for number, line in enumerate(lines, 1):
        end = line.rstrip()
        if parts and line[:1] in " }]":
            parts.append(line)
            if end in _CLOSED:
                yield begun, _value("".join(parts))
                parts = []
            continue
        begun, parts = number, [end[-1]] if end.endswith(("{", "[")) else []
        if "runId" in line:
            begin = 0 if line[0] == "[" else line.find("{")
            yield number, _value(line[max(begin, 0) :])


def _value(text: str) -> Any:
    """Return the value of a text in JSON, or as Python prints it; ``None``: it is neither."""
    for read in (json.loads, ast.literal_eval):
        try:
            return read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return None


def _take(queries: dict[str, QueryLog], log: Path, place: str, kind: str, fields: Mapping[str, Any]) -> None:
    try:
        if kind == "Progress":
            progress = msgspec.convert(
                {name: value for name, value in fields.items() if value is not None}, _Progress
            )
            event: CompletedBatch | QueryRun = _micro_batch(place, progress)
        else:
            event = QueryRun(place, str(fields["runId"]), kind == _ENDED, str(fields.get("exception") or ""))
        query = queries.setdefault(str(fields["id"]), QueryLog(str(fields["id"]), "", log))
    except (msgspec.ValidationError, KeyError, ValueError) as error:
        raise HistoryFormatError(
            "Spark log", str(log), f"{place}: malformed progress: {in_words(error)}"
        ) from error
    query.name = query.name or str(fields.get("name") or "")
    query.events.append(event)


def _micro_batch(place: str, progress: _Progress) -> CompletedBatch:
    times = {name: micros(text) for name, text in progress.event_time.items()}
    reads = tuple(
        msgspec.structs.replace(
            read,
            start_offset=_offset(read.start_offset),
            end_offset=_offset(read.end_offset),
            latest_offset=_offset(read.latest_offset),
        )
        for read in progress.sources
    )
    return CompletedBatch(
        place=place,
        run=progress.run_id,
        number=progress.batch_id,
        at_us=micros(progress.timestamp),
        duration_ms=progress.duration_ms.get("triggerExecution", 0),
        newest_us=times.get("max"),
        watermark_us=times.get("watermark"),
        reads=reads,
        state=tuple(progress.state_operators),
        rows_out=progress.sink.num_output_rows,
        sink=progress.sink.description.partition("@")[0],
    )


def _offset(value: Any) -> Any:
    """Return an offset as a value: an event log has the JSON of it as text."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def micros(text: str) -> int:
    """Return a time as Spark writes it in microseconds since 1970; without a zone, it is UTC."""
    time = datetime.fromisoformat(text)
    return round((time if time.tzinfo else time.replace(tzinfo=UTC)).timestamp() * 1_000_000)


def partitions(offset: Any) -> dict[tuple[str, str], int]:
    """Return the offset of each partition of Kafka; of other sources nothing."""
    if not isinstance(offset, dict) or not all(isinstance(parts, dict) for parts in offset.values()):
        return {}
    positions = {(topic, part): at for topic, parts in offset.items() for part, at in parts.items()}
    return positions if all(isinstance(at, int) for at in positions.values()) else {}


def spark_time(time_us: int) -> str:
    """Write a time as Spark does, to the second.

    >>> spark_time(micros("2026-01-01T00:00:08.000Z"))
    '2026-01-01T00:00:08Z'
    """
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
