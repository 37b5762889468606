"""What `TaskContext.get()` tells the user's code in a task: its partition, its attempt, its ids and its batch."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

from pyspark import TaskContext

_BATCH = "streaming.sql.batchId"
"""The local property in which Spark tells a task its batch."""
_ids, _of_driver = count(), dict[str, str]()


def begin_batch(batch_id: int) -> None:
    """Let the tasks that begin from now on be of this batch."""
    _of_driver[_BATCH] = str(batch_id)


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
