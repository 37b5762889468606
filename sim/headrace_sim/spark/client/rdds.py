"""``DataFrame.rdd`` without Spark: what a sink asks of a batch's rows. What makes other RDDs of it needs Spark's classic API."""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from pyspark.sql import DataFrame

from headrace_sim.spark.refusals import CannotFollowError, users_place

_REMEDY = "Use the calls of the DataFrame, or collect() and Python"


class RowsOfFrame:
    """Replaces the RDD of a frame's rows. ``frame``: the frame. Each action computes it anew."""

    def __init__(self, frame: DataFrame) -> None:
        self._frame = frame

    def isEmpty(self) -> bool:
        return bool(self._frame.isEmpty())

    def count(self) -> int:
        return int(self._frame.count())

    def collect(self) -> list[Any]:
        return list(self._frame.collect())

    def take(self, num: int) -> list[Any]:
        return list(islice(self._frame.collect(), num))

    def first(self) -> Any:
        rows = self._frame.collect()
        if not rows:
            raise ValueError("RDD is empty")
        return rows[0]

    def toLocalIterator(self, prefetchPartitions: bool = False) -> Iterator[Any]:
        return iter(self._frame.collect())

    def foreach(self, f: Callable[[Any], None]) -> None:
        self._frame.foreach(f)

    def foreachPartition(self, f: Callable[[Iterator[Any]], None]) -> None:
        self._frame.foreachPartition(f)

    def __getattr__(self, name: str) -> Any:
        """Refuse everything else."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise CannotFollowError(f"DataFrame.rdd.{name}", users_place(), _REMEDY)
