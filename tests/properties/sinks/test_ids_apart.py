"""Random ids by which rows of several stores belong together: after a retry, each store must have the same ones."""

import random
import sqlite3
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import functions as F

from headrace_properties.sinks import SinkReport, Wrong, check_sink
from headrace_sim.spark.sink_faults import SinkFaultKind
from tests.sim.spark.apart import call


def _prepare() -> None:
    for name in ("orders.db", "items.db"):
        with sqlite3.connect(name) as db:
            db.execute("CREATE TABLE rows (id TEXT, item TEXT, batch INT)")


def _once(store: str, rows: list[tuple[str, str]], batch: int) -> None:
    db = sqlite3.connect(store, isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    if db.execute("SELECT 1 FROM rows WHERE batch = ?", (batch,)).fetchone() is None:
        db.executemany("INSERT INTO rows VALUES (?, ?, ?)", [(*row, batch) for row in rows])
    db.execute("COMMIT")
    db.close()


def drawn_for_both(df: Any, batch_id: int) -> None:
    rows = [(str(uuid.uuid4()), row.item) for row in df.collect()]
    _once("orders.db", rows, batch_id)
    _once("items.db", rows, batch_id)


def fractions_for_both(df: Any, batch_id: int) -> None:
    rows = [(str(random.random()), row.item) for row in df.collect()]
    _once("orders.db", rows, batch_id)
    _once("items.db", rows, batch_id)


def shares_for_both(df: Any, batch_id: int) -> None:
    """The fractions are those of the rows."""
    rows = [(str(1 / (3 + len(row.item))), row.item) for row in df.collect()]
    _once("orders.db", rows, batch_id)
    _once("items.db", rows, batch_id)


def part_of_the_first(df: Any, batch_id: int) -> None:
    """The second store has some of the rows, by hexadecimal ids without dashes."""
    rows = [(uuid.uuid4().hex, row.item) for row in df.collect()]
    _once("orders.db", rows, batch_id)
    _once("items.db", rows[:1], batch_id)


def drawn_for_each(df: Any, batch_id: int) -> None:
    items = [row.item for row in df.collect()]
    for store in ("orders.db", "items.db"):
        _once(store, [(str(uuid.uuid4()), item) for item in items], batch_id)


def made_of_the_row(df: Any, batch_id: int) -> None:
    rows = [(str(uuid.uuid5(uuid.NAMESPACE_OID, f"{batch_id} {row.item}")), row.item) for row in df.collect()]
    _once("orders.db", rows, batch_id)
    _once("items.db", rows, batch_id)


def drawn_by_spark(df: Any, batch_id: int) -> None:
    """A frame's ids are the same in both writes, and others when the batch is run again."""
    ids = df.withColumn("id", F.expr("uuid()"))
    ids.select("id").write.mode("overwrite").parquet(f"ids/batch={batch_id}")
    ids.write.mode("overwrite").parquet(f"items/batch={batch_id}")


def made_by_spark(df: Any, batch_id: int) -> None:
    ids = df.withColumn("id", F.sha2("item", 256))
    ids.select("id").write.mode("overwrite").parquet(f"ids/batch={batch_id}")
    ids.write.mode("overwrite").parquet(f"items/batch={batch_id}")


def _check(sink: Callable[..., Any]) -> SinkReport:
    return call(check_sink, sink, [[("tea",), ("jam",)]], "item STRING", prepare=_prepare)


@pytest.mark.parametrize("sink", [drawn_for_both, fractions_for_both, part_of_the_first])
def test_ids_that_a_retry_draws_anew_for_one_of_two_stores_are_found(sink: Callable[..., Any]) -> None:
    (finding,) = (found for found in _check(sink).findings if found.wrong is Wrong.APART)
    assert "orders.db: rows" in finding.story
    assert "items.db: rows" in finding.story


def test_ids_that_spark_draws_are_apart_if_a_hung_driver_goes_on() -> None:
    (finding,) = _check(drawn_by_spark).findings
    assert (finding.wrong, finding.fault.kind) == (Wrong.APART, SinkFaultKind.PAUSE)


@pytest.mark.parametrize("sink", [drawn_for_each, made_of_the_row, made_by_spark, shares_for_both])
def test_ids_of_one_store_and_ids_made_of_the_row_are_fine(sink: Callable[..., Any]) -> None:
    assert _check(sink).holds
