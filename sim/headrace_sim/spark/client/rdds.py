"""``DataFrame.rdd`` without Spark: a batch's rows, in their partitions, and what is done to each partition by itself.

What brings rows of several partitions together by a key needs Spark's classic API.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import partial
from itertools import chain, islice
from typing import Any

from pyspark.accumulators import _accumulatorRegistry
from pyspark.sql import DataFrame
from pyspark.sql import types as t

from headrace_sim.spark.columns.task_context import task
from headrace_sim.spark.refusals import CannotFollowError, users_place

_REMEDY = "Use the calls of the DataFrame, or collect() and Python"
Step = Callable[[Iterator[Any]], Any]
"""What is done to the values of a partition."""


class RowsOfFrame:
    """Replaces the RDD of a frame's rows. ``frame``: the frame. ``steps``: what is done to them. Each action does it anew."""

    def __init__(self, frame: DataFrame, steps: tuple[Step, ...] = ()) -> None:
        self._frame, self._steps = frame, steps

    def _then(self, step: Step) -> "RowsOfFrame":
        return RowsOfFrame(self._frame, (*self._steps, step))

    def map(self, f: Callable[[Any], Any], preservesPartitioning: bool = False) -> "RowsOfFrame":
        return self._then(partial(map, f))

    def filter(self, f: Callable[[Any], bool]) -> "RowsOfFrame":
        return self._then(partial(filter, f))

    def flatMap(self, f: Callable[[Any], Any], preservesPartitioning: bool = False) -> "RowsOfFrame":
        return self._then(lambda values: chain.from_iterable(map(f, values)))

    def mapPartitions(self, f: Step, preservesPartitioning: bool = False) -> "RowsOfFrame":
        return self._then(f)

    def collect(self) -> list[Any]:
        return [value for part in self._partitions() for value in part]

    def _partitions(self) -> list[list[Any]]:
        """Compute the partitions, each as a task in another process does it: with a pickled copy of the functions."""
        from pyspark import cloudpickle  # noqa: PLC0415  few sinks need it

        session: Any = self._frame._session
        partitions = []
        with session.answers.action():
            rows = session.answers.rows(self._frame._plan.to_proto(session.client).root)
            for number, partition in enumerate(rows.partitions):
                travelled = cloudpickle.loads(cloudpickle.dumps(self._steps))
                values: Any = (t._create_row(rows.schema.names, row) for row in partition)
                added = [
                    (accumulator, deepcopy(accumulator._value))
                    for accumulator in _accumulatorRegistry.values()
                ]
                with task(number):
                    try:
                        for step in travelled:
                            values = step(values)
                        partitions.append(list(values))
                    except Exception:
                        for accumulator, value in added:  # what a task adds counts once it has succeeded
                            accumulator._value = value
                        raise
        return partitions

    def getNumPartitions(self) -> int:
        return len(self._partitions())

    def isEmpty(self) -> bool:
        return not self.collect()

    def count(self) -> int:
        return len(self.collect())

    def take(self, num: int) -> list[Any]:
        return list(islice(self.collect(), num))

    def first(self) -> Any:
        values = self.collect()
        if not values:
            raise ValueError("RDD is empty")
        return values[0]

    def toLocalIterator(self, prefetchPartitions: bool = False) -> Iterator[Any]:
        return iter(self.collect())

    def toDF(self, schema: Any = None, sampleRatio: float | None = None) -> DataFrame:
        frame: DataFrame = self._frame.sparkSession.createDataFrame(self.collect(), schema)
        return frame

    def foreach(self, f: Callable[[Any], Any]) -> None:
        self._then(lambda values: [None for value in values if f(value)])._partitions()

    def foreachPartition(self, f: Callable[[Iterator[Any]], Any]) -> None:
        self._then(lambda values: f(values) or ())._partitions()

    def __getattr__(self, name: str) -> Any:
        """Refuse everything else."""
        if name.startswith("__"):
            raise AttributeError(name)
        raise CannotFollowError(f"DataFrame.rdd.{name}", users_place(), _REMEDY)
