"""A Spark query and a sink that replay files were recorded of: it outputs random numbers, and its sink appends rows to a file."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming import StatefulProcessor


class Total(StatefulProcessor):  # type: ignore[misc]  # PySpark has no types
    """Sums a key's prices, and adds a random fee."""

    def init(self, handle: Any) -> None:
        self.total = handle.getValueState("total", "price INT")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Row]:  # noqa: N802, N803  Spark calls it so
        total = sum(row.price for row in rows) + (self.total.get() or (0,))[0]
        self.total.update((total,))
        yield Row(symbol=key[0], price=total + random.randrange(10))

    def close(self) -> None:
        pass


def write(df: DataFrame, batch_id: int) -> None:
    """Append the rows to a file."""
    with Path("prices.txt").open("a") as file:
        file.write("".join(f"{row}\n" for row in df.collect()))


def job(ticks: DataFrame) -> Any:
    """Sum prices by symbol, and write the sums."""
    grouped = ticks.groupBy("symbol")
    totals = grouped.transformWithState(Total(), "symbol STRING, price INT", "update", "none")
    return totals.writeStream.outputMode("update").foreachBatch(write).start()


feed = [[("a", 1), ("b", 2)], [("a", 3)]]
