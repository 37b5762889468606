"""Inputs that bring nothing (MillWheel 4.5): after a time, an idle input no longer holds the low watermark.

Rules of this file:

* An input is idle when, for its timeout, it has brought neither a record nor a later watermark of its own. Time is that of the
  driver, and begins anew at each start of the query.
* While it is idle, its low watermark is the minimum over the inputs that are neither idle nor ended. If there are none, it stays.
* When it brings something again, it holds the watermark again, from where that is by then. Its records behind that are late, and
  delivered as such (4.5).
"""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import msgspec
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it
from pyspark.sql.streaming.query import StreamingQuery

from headrace.api.time import MILLISECOND, MIN_TIME
from headrace.rules import RULES
from headrace.spark.runtime.event_time import END_MS
from headrace.spark.runtime.files import replace_file, scratch
from headrace.spark.sources.idle_inputs import read_idle
from headrace.spark.sources.schema import WATERMARK_COLUMN

_LOOK_EVERY_S = 0.2
_END = END_MS * MILLISECOND


def metric_of(injector: str) -> str:
    """Return the name of the observed metric with what an input has brought in a micro-batch."""
    return f"input: {injector}"


@dataclass(slots=True)
class _Known:
    """What is known of an input: when it last brought anything, wall time, and its own low watermark, both microseconds."""

    brought_us: int
    low: int = MIN_TIME


class IdleInputs:
    """Decides which inputs are idle, and tells the sources.

    Args:
        timeouts_us: by injector, the time after which its input is idle, wall time in microseconds; ``None``: never.
        delays_us: by injector, how far its low watermark is behind the column that Spark reads, microseconds.
        clock_us: the driver's clock, microseconds.
    """

    def __init__(
        self,
        timeouts_us: Mapping[str, int | None],
        delays_us: Mapping[str, int],
        clock_us: Callable[[], int] = lambda: time.monotonic_ns() // 1_000,
    ) -> None:
        self._timeouts_us, self._delays_us, self._clock_us = dict(timeouts_us), dict(delays_us), clock_us
        self._path = scratch() / f"idle-{uuid4().hex}.json"
        self._lock = threading.Lock()
        self._told: dict[str, int] = {}
        self.begin()

    def begin(self) -> None:
        """Begin to wait for all inputs: a query starts."""
        now_us, self._batch = self._clock_us(), -1
        self._known = {name: _Known(now_us) for name in self._timeouts_us}

    def with_heartbeats(self, injector: str, prepared: DataFrame) -> DataFrame:
        """Observe what an input brings, and unite it with its heartbeats if it may be idle."""
        delay_us = self._delays_us.get(injector, 0)
        low = F.unix_micros(F.max(WATERMARK_COLUMN)) - delay_us
        prepared = prepared.observe(metric_of(injector), F.count("stream").alias("records"), low.alias("low"))
        if self._timeouts_us[injector] is None:
            return prepared
        told = {"injector": F.lit(injector), WATERMARK_COLUMN: F.timestamp_micros(F.col("low") + delay_us)}
        heartbeats = read_idle(prepared.sparkSession, injector, self._path)
        return prepared.unionByName(
            heartbeats.select(
                *[
                    told.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
                    for field in prepared.schema
                ]
            )
        )

    def follow(self, query: StreamingQuery) -> None:
        """Look at a query's reports until it ends, in a thread."""
        self.begin()
        threading.Thread(target=self._follow, args=(query,), name="headrace idle inputs", daemon=True).start()

    def _follow(self, query: StreamingQuery) -> None:
        try:
            while query.isActive:
                self.look(query.lastProgress)
                time.sleep(_LOOK_EVERY_S)
        except Exception:  # noqa: BLE001  Spark has ended, and the query with it
            return

    def look(self, progress: Mapping[str, Any] | None) -> None:
        """Take what the inputs have brought in a micro-batch, and tell of those that are idle. Any thread may call it.

        Args:
            progress: the latest report of the query; one that was taken before changes nothing.
        """
        with self._lock:
            if progress is not None and progress["batchId"] != self._batch:
                self._batch = progress["batchId"]
                self._take(progress["observedMetrics"])
            idle = [name for name in self._timeouts_us if self._is_idle(name)]
            lows = [known.low for name, known in self._known.items() if name not in idle and known.low < _END]
            low = RULES.input_watermark(lows) if lows else MIN_TIME
            told = {name: low for name in idle if low > self._told.get(name, MIN_TIME)}
            if told:
                self._told |= told
                replace_file(self._path, msgspec.json.encode(self._told))

    def _take(self, metrics: Mapping[str, Any]) -> None:
        for name, known in self._known.items():
            brought = metrics.get(metric_of(name))
            if brought is None:  # there was no micro-batch
                continue
            low = MIN_TIME if brought["low"] is None else brought["low"]
            if brought["records"] or low > known.low:
                known.brought_us = self._clock_us()
            known.low = RULES.advanced(known.low, low)

    def _is_idle(self, name: str) -> bool:
        timeout_us = self._timeouts_us[name]
        return timeout_us is not None and self._clock_us() - self._known[name].brought_us >= timeout_us
