"""Drives a source's reader as Spark does, without Spark: offsets go through JSON, tasks through pickle."""

import itertools
import json
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pyspark import cloudpickle
from pyspark.sql.streaming.datasource import ReadLimit

from headrace import Computation, DeadLetter, Pipeline
from headrace.spark.runtime.event_time import from_spark
from headrace.spark.sources.data_source import InjectorBatchReader, InjectorStreamReader, OutsideSource
from headrace.spark.sources.directory import Directory
from headrace.spark.sources.injected_rows import InjectionPlan, NewRecord
from headrace.spark.sources.schema import WATERMARK_COLUMN
from headrace.spark.sources.sources import JsonLines

Row = dict[str, Any]


def pipeline_of(
    *, processes: int = 1, dead_letters: str = "", outputs: tuple[str, ...] = ("mail",)
) -> Pipeline:
    pipeline = Pipeline("post")
    policy = DeadLetter(dead_letters) if dead_letters else None
    pipeline.injector("mail", outputs=outputs, processes=processes, on_malformed=policy)
    pipeline.add(Computation(), name="sorter", inputs={"mail": lambda record: record.value["to"]})
    return pipeline


def letters(directory: str | Path | Directory, max_records: int | None = None) -> JsonLines:
    where = directory if isinstance(directory, Directory) else str(directory)
    return JsonLines(where, key="from", timestamp="at", max_records=max_records)


def by_value() -> Callable[[int, int], Iterable[NewRecord]]:
    """A function that goes to the workers by value: they do not import the tests."""

    def numbers(process: int, offset: int) -> Iterable[NewRecord]:
        """Record n has timestamp n seconds; every third one is two seconds late."""
        return (
            NewRecord(f"k{n % 3}", n, (n - 2 * (n % 3 == 2)) * 1_000_000) for n in itertools.count(offset)
        )

    return numbers


numbers = by_value()


def _through_json(offset: dict[str, Any]) -> dict[str, Any]:
    again: dict[str, Any] = json.loads(json.dumps(offset))
    return again


class Query:
    """A query's progress through a source: its offset log, and the rows of each batch."""

    def __init__(self, source: OutsideSource, pipeline: Pipeline | None = None) -> None:
        self._source = source
        self._pipeline = pipeline or pipeline_of()
        self.offsets: list[dict[str, Any]] = []
        self.restart()

    def restart(self) -> None:
        """The driver is lost, with all that is not in the checkpoint."""
        self.reader = InjectorStreamReader(self._source.planner(InjectionPlan.of(self._pipeline, "mail")))

    def available_now(self) -> None:
        self.reader.prepareForTriggerAvailableNow()

    def batch(self, limit: ReadLimit | None = None) -> list[Row]:
        """The next batch's rows; none if the source has nothing to say."""
        start = self.offsets[-1] if self.offsets else _through_json(self.reader.initialOffset())
        end = _through_json(self.reader.latestOffset(start, limit or self.reader.getDefaultReadLimit()))
        if json.dumps(end) == json.dumps(start):
            return []
        self.offsets.append(end)
        return self.again(len(self.offsets) - 1)

    def again(self, number: int) -> list[Row]:
        """The rows of a batch, read once more, as after a crash."""
        start = self.offsets[number - 1] if number else _through_json(self.reader.initialOffset())
        rows: list[Row] = []
        for part in self.reader.partitions(start, self.offsets[number]):
            reader, sent = cloudpickle.loads(cloudpickle.dumps((self.reader, part)))
            for batch in reader.read(sent):
                rows += batch.to_pylist()
        return rows

    def batches(self) -> list[list[Row]]:
        return list(self._batches())

    def _batches(self) -> Iterator[list[Row]]:
        while rows := self.batch():
            yield rows


def bounded(source: OutsideSource, pipeline: Pipeline | None = None) -> list[Row]:
    reader = InjectorBatchReader(source.planner(InjectionPlan.of(pipeline or pipeline_of(), "mail")))
    rows: list[Row] = []
    for part in reader.partitions():
        again, sent = cloudpickle.loads(cloudpickle.dumps((reader, part)))
        for batch in again.read(sent):
            rows += batch.to_pylist()
    return rows


def data(rows: list[Row]) -> list[Row]:
    """The records among rows."""
    return [row for row in rows if row["key"] is not None]


def keys(rows: list[Row]) -> list[str]:
    return [row["key"] for row in data(rows)]


def heartbeat(rows: list[Row]) -> tuple[int, int]:
    """The (low watermark, horizon) of the one heartbeat in a batch, which is its last row."""
    assert [row["key"] is None for row in rows] == [False] * (len(rows) - 1) + [True]
    told: datetime | None = rows[-1][WATERMARK_COLUMN]
    return watermark_of(told), rows[-1]["horizon"]


def watermark_of(told: datetime | None) -> int:
    """What Spark makes of a heartbeat's timestamp. Rows that Spark has collected have no time zone: it is UTC."""
    if told is None:
        return from_spark(0)
    return from_spark(
        (told.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)
    )


def write_lines(path: Path, *lines: str) -> None:
    """A file appears, whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    hidden = path.with_name(f".{path.name}")
    hidden.write_text("".join(f"{line}\n" for line in lines))
    hidden.rename(path)


def letter(key: str, at_us: int, to: str = "Riva") -> str:
    return json.dumps({"from": key, "at": at_us, "to": to})
