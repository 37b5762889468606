"""What the user's code is told in a task: `TaskContext.get()` has its ids and its batch, ``_metadata`` the file of its rows."""

import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from datetime import datetime
from itertools import count
from typing import Any

from pyspark import TaskContext
from pyspark.sql import types as t

from headrace_sim.spark.columns.held import held

BATCH_PROPERTY = "streaming.sql.batchId"
"""The local property in which Spark tells a task its batch."""
_ids, _of_driver = count(), dict[str, str]()


def begin_batch(batch_id: int) -> None:
    """Let the tasks that begin from now on be of this batch."""
    _of_driver[BATCH_PROPERTY] = str(batch_id)


def running_partition() -> int | None:
    """Return the partition of the task that runs; None: the driver's code does."""
    context = TaskContext.get()
    return None if context is None else context.partitionId()


@contextmanager
def task(partition: int) -> Iterator[None]:
    """Run a task of this partition in this context."""
    before = TaskContext.get()
    TaskContext._setTaskContext(None)
    context = TaskContext()
    context._stageId, context._partitionId, context._attemptNumber = 0, partition, 0
    context._taskAttemptId, context._localProperties = next(_ids), dict(_of_driver)
    try:
        yield
    finally:
        TaskContext._setTaskContext(before)


_FILE: ContextVar[str] = ContextVar("file", default="part-00000")
METADATA = t.StructType([
    t.StructField("file_path", t.StringType(), False), t.StructField("file_name", t.StringType(), False),
    t.StructField("file_size", t.LongType(), False), t.StructField("file_block_start", t.LongType(), False),
    t.StructField("file_block_length", t.LongType(), False), t.StructField("file_modification_time", t.TimestampType(), False),
])  # fmt: skip
"""The fields of the hidden column."""


def read_from_file(rows: Any) -> AbstractContextManager[Any]:
    """Let the rows of a batch come from a file of their own within, the same one whenever they are read."""
    return held(_FILE, f"part-{zlib.crc32(repr(rows).encode()):05}")


def metadata_of_file() -> tuple[Any, ...]:
    """Return the values of the hidden column."""
    name = _FILE.get()
    return f"file:///input/{name}", name, 100, 0, 100, datetime(2030, 1, 1)
