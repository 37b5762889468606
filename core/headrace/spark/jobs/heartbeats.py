"""Low watermarks of inputs that Spark cannot derive by itself, and that the driver tells (MillWheel 4.5, 5.2).

Rules of this file:

* **Idle inputs.** An input is idle when, for its timeout, it has brought neither a record nor a later watermark of its own. Time
  is that of the driver, and begins anew at each start of the query. While it is idle, its low watermark is the minimum over the
  inputs that are neither idle nor ended. If there are none, it stays: nobody knows more.
* When it brings something again, it holds the watermark again, from where that is by then. Its records behind that are late, and
  delivered as such (4.5).
* **Inputs of several processes**, such as the partitions of a topic. Spark's watermark follows the latest record of all, so a
  partition that lags would make its own records late. Here the low watermark is the minimum over the expected processes, each
  with that of its own records: one that has brought nothing holds it, unless it is idle.
* What has been reached is kept in the job's directory, since a process may bring nothing for a long time after a restart.
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.sql.streaming.query import StreamingQuery

from headrace.api.time import MILLISECOND, MIN_TIME
from headrace.rules import RULES
from headrace.spark.hosting.parcel_injection import UNPARSED
from headrace.spark.runtime.event_time import END_MS
from headrace.spark.runtime.hadoop import Place, write
from headrace.spark.sources.driver_file import DriverFile, read_heartbeats
from headrace.spark.sources.schema import WATERMARK_COLUMN

PROCESS_COLUMN = "_process"
"""Of the rows of an input of several processes: the number of the process."""

_LOOK_EVERY_S = 0.2
_END = END_MS * MILLISECOND


def metric_of(injector: str) -> str:
    """Return the name of the observed metric with what an input has brought in a micro-batch."""
    return f"input: {injector}"


@dataclass(frozen=True, slots=True)
class InputWatermark:
    """How an input's low watermark is known.

    Attributes:
        delay_us: how far it is behind the latest timestamp, microseconds.
        timeout_us: after which time the input, or a process of it, is idle, wall time in microseconds; ``None``: never.
        processes: how many processes it has, if its records say from which they come; 0: they do not.
    """

    delay_us: int = 0
    timeout_us: int | None = None
    processes: int = 0

    @property
    def is_driven(self) -> bool:
        """Whether the driver ever tells it."""
        return self.timeout_us is not None or self.processes > 0


@dataclass(slots=True)
class _Known:
    """What is known of a process: when it last brought anything, wall time, and its own low watermark, both microseconds."""

    brought_us: int
    low: int = MIN_TIME


class Heartbeats:
    """The driver's side: decides what the inputs' low watermarks are, and tells the sources.

    Args:
        inputs: by injector, how its low watermark is known.
        path: a file that keeps what has been reached for the next start of the job; ``None``: it is not kept.
        clock_us: the driver's clock, microseconds.

    Attributes:
        file: what the sources read.
    """

    def __init__(
        self,
        inputs: Mapping[str, InputWatermark],
        path: Place | None = None,
        clock_us: Callable[[], int] = lambda: time.monotonic_ns() // 1_000,
    ) -> None:
        self._inputs, self._path, self._clock_us = dict(inputs), path, clock_us
        self.file = DriverFile()
        self._lock = threading.Lock()
        self.begin()

    def begin(self) -> None:
        """Begin to wait for all inputs: a query starts."""
        now_us, self._batch = self._clock_us(), -1
        kept: dict[str, list[int]] = {}
        if self._path is not None and self._path.exists():
            kept = msgspec.json.decode(self._path.read_bytes())
        self._known: dict[str, list[_Known]] = {}
        for name, watermark in self._inputs.items():
            lows, count = kept.get(name, []), max(1, watermark.processes)
            self._known[name] = [
                _Known(now_us, low) for low in [*lows, *[MIN_TIME] * (count - len(lows))][:count]
            ]

    def with_heartbeats(self, injector: str, prepared: DataFrame) -> DataFrame:
        """Observe what an input brings, and unite it with its heartbeats if there will be any."""
        watermark = self._inputs[injector]
        prepared = prepared.observe(metric_of(injector), *_metrics(watermark)).drop(PROCESS_COLUMN)
        if not watermark.is_driven:
            return prepared
        low = F.timestamp_micros(F.col("low") + watermark.delay_us)
        columns = {"injector": F.lit(injector), WATERMARK_COLUMN: low}
        heartbeats = read_heartbeats(prepared.sparkSession, injector, self.file.path)
        return prepared.unionByName(shaped_like(prepared, heartbeats, columns))

    def follow(self, query: StreamingQuery) -> None:
        """Look at a query's reports until it ends, in a thread."""
        self.begin()
        threading.Thread(target=self._follow, args=(query,), name="headrace heartbeats", daemon=True).start()

    def _follow(self, query: StreamingQuery) -> None:
        try:
            while query.isActive:
                self.look(query.lastProgress)
                time.sleep(_LOOK_EVERY_S)
        except Exception:  # noqa: BLE001  Spark has ended, and the query with it
            return

    def look(self, progress: Mapping[str, Any] | None) -> None:
        """Take what the inputs have brought in a micro-batch, and tell their low watermarks. Any thread may call it.

        Args:
            progress: the latest report of the query; one that was taken before changes nothing.
        """
        with self._lock:
            if progress is not None and progress["batchId"] != self._batch:
                self._batch = progress["batchId"]
                self._take(progress["observedMetrics"])
            known = self.file.note.lows
            lows = {name: low for name, low in self._lows().items() if low > known.get(name, MIN_TIME)}
            self.file.write(lows=known | lows)

    def _take(self, metrics: Mapping[str, Any]) -> None:
        before = self._reached()
        for name, known in self._known.items():
            brought = metrics.get(metric_of(name))
            if brought is None:  # there was no micro-batch
                continue
            for number, process in enumerate(known):
                low = brought[f"low_{number}"]
                low = MIN_TIME if low is None else low
                if brought[f"records_{number}"] or low > process.low:
                    process.brought_us = self._clock_us()
                process.low = RULES.advanced(process.low, low)
        if self._path is not None and self._reached() != before:
            write(self._path, msgspec.json.encode(self._reached()))

    def _reached(self) -> dict[str, list[int]]:
        return {name: [process.low for process in known] for name, known in self._known.items()}

    def _lows(self) -> dict[str, int]:
        """Return the low watermarks to tell: of idle inputs, and of those with several processes."""
        own = {name: self._own(name) for name in self._inputs}
        others = [low for low in own.values() if low is not None and low < _END]
        slowest = RULES.input_watermark(others) if others else MIN_TIME
        return {
            name: slowest if low is None else low
            for name, low in own.items()
            if low is None or self._inputs[name].processes
        }

    def _own(self, name: str) -> int | None:
        """Return an input's own low watermark, the minimum over its processes that are not idle; ``None``: all are."""
        timeout_us, now_us = self._inputs[name].timeout_us, self._clock_us()
        busy = [
            process.low
            for process in self._known[name]
            if timeout_us is None or now_us - process.brought_us < timeout_us
        ]
        return RULES.input_watermark(busy) if busy else None


def shaped_like(rows: DataFrame, frame: DataFrame, known: Mapping[str, Column]) -> DataFrame:
    """Return a frame with the columns of other rows: those that are given; the others are null."""
    columns = [
        known.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name) for field in rows.schema
    ]
    return frame.select(*columns)


def _metrics(watermark: InputWatermark) -> list[Column]:
    if not watermark.processes:
        low = F.unix_micros(F.max(WATERMARK_COLUMN)) - watermark.delay_us
        return [F.count("stream").alias("records_0"), low.alias("low_0")]
    columns = []
    for number in range(watermark.processes):
        is_of = (F.col(PROCESS_COLUMN) == number) & ~F.col("stream").startswith(UNPARSED)
        columns.append(F.count(F.when(is_of, 1)).alias(f"records_{number}"))
        columns.append((F.max(F.when(is_of, F.col("timestamp"))) - watermark.delay_us).alias(f"low_{number}"))
    return columns
