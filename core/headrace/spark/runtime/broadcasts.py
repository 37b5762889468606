"""Bytes from the driver for Python workers, wherever these run.

Rules of this file:

* Choice: a broadcast for each piece, not ``SparkContext.addFile``. What was added cannot be taken back: once it is deleted from
  its store, every executor that joins later fails every task of every job in the session.
* A broadcast is unpickled where it is needed, not with what refers to it: Spark also unpickles a stateful operator in a process
  of the driver that asks for the schema of its state, and gives that no broadcasts.
"""

from typing import Self

from pyspark import Broadcast, cloudpickle
from pyspark.sql import SparkSession


class Sent:
    """Bytes that functions which run in Python workers can refer to.

    Args:
        given: the broadcast; in a Python worker, what is pickled of it.
    """

    __slots__ = ("_given",)

    def __init__(self, given: Broadcast[bytes] | bytes) -> None:
        self._given = given

    @classmethod
    def by(cls, spark: SparkSession, data: bytes) -> Self:
        """Send bytes. They are kept as long as a query refers to them."""
        return cls(spark.sparkContext.broadcast(data))

    def __reduce__(self) -> tuple[type[Self], tuple[bytes]]:
        given = self._given
        return type(self), (given if isinstance(given, bytes) else cloudpickle.dumps(given),)

    def read(self) -> bytes:
        """Return the bytes. A Python worker, which may live as long as the query, does not keep them."""
        if not isinstance(self._given, bytes):
            return bytes(self._given.value)
        broadcast: Broadcast[bytes] = cloudpickle.loads(self._given)
        data = bytes(broadcast.value)
        if hasattr(broadcast, "_path"):  # it is in a file; if Spark encrypts those, there is only the value
            del broadcast._value
        return data
