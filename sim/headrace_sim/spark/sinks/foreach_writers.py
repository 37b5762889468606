"""``writeStream.foreach``: the function of a batch that calls a writer, or a function of a row, as Spark's tasks do.

Each partition of a batch is a task with its own copy of the writer. It calls ``open(partition, epoch)``, ``process`` for each
row unless that returned something false, and ``close`` with the error or None. A batch that runs again has the same epoch, but
may be cut into other partitions: https://spark.apache.org/docs/latest/streaming/apis-on-dataframes-and-datasets.html#foreach
"""

from collections.abc import Callable, Iterator
from typing import Any

from pyspark import TaskContext
from pyspark.sql.streaming import DataStreamWriter


def function_of_writer(writer: Any) -> Callable[[Any, int], None]:
    """Return what ``foreachBatch`` would be given instead of a writer.

    Raise `PySparkAttributeError` if it is neither a function nor has a method ``process``.
    """
    drive = DataStreamWriter._construct_foreach_function(writer)

    def each_partition(rows: Iterator[Any]) -> None:
        context = TaskContext.get()
        assert context is not None
        drive(context.partitionId(), rows)

    def write(frame: Any, _batch_id: int) -> None:
        frame.foreachPartition(each_partition)

    write.__wrapped__ = writer if callable(writer) else writer.process  # type: ignore[attr-defined]  # its definition is the place
    return write
