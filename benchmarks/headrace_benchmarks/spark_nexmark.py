"""NEXMark's queries on real Spark, as pipelines of the Dataflow layer and with Spark's own operators, over the same bounded file.

Query 12 is by processing time, for which Spark has no operator: its ``current_timestamp`` is one reading for all rows of a query,
which are then all in one window. The layer counts by the machine's clock.
"""

import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import Window as Partition
from pyspark.sql import functions as F  # noqa: N812  as everybody calls it

from headrace.spark import Input, attach
from headrace_scenarios.nexmark import QUERIES, Mix, events, plain

FIELDS = ("id", "seller", "category", "reserve", "expires", "auction", "bidder", "price", "time")
"""The events' numbers."""


def write_events(place: Path, count: int, seed: int = 0) -> Path:
    """Write a number of events to a file: their fields as columns, and all of each event as JSON."""
    drawn = [event for _, event in events(seed, Mix(count=count))]
    columns: dict[str, pa.Array] = {
        name: pa.array([event.get(name) for event in drawn], pa.string())
        for name in ("kind", "name", "state")
    }
    columns |= {name: pa.array([event.get(name) for event in drawn], pa.int64()) for name in FIELDS}
    columns["event"] = pa.array([msgspec.json.encode(event) for event in drawn], pa.binary())
    pq.write_table(pa.table(columns), place)
    return place


def by_layer(query: str, frame: DataFrame, intervals: int = 4) -> DataFrame:
    """Return a query's answers from its pipeline."""
    events = Input(frame, key="kind", timestamp="time", value="event")
    return attach(QUERIES[query], {"events": events}, intervals=intervals).frame


def by_spark(query: str, frame: DataFrame) -> DataFrame:
    """Return a query's answers from Spark's own operators."""
    return OWN[query](frame)


def events_per_s(answers: DataFrame, count: int) -> float:
    """Compute the answers and drop them; return events per second, wall time."""
    began = time.perf_counter()
    answers.write.format("noop").mode("overwrite").save()
    return count / (time.perf_counter() - began)


def _of(frame: DataFrame, kind: str) -> DataFrame:
    return frame.where(F.col("kind") == kind)


def _bids(frame: DataFrame) -> DataFrame:
    return _of(frame, "bid").select("auction", "bidder", "price", "time")


def _in_euros(frame: DataFrame) -> DataFrame:
    return _bids(frame).withColumn("price", F.expr(f"price * {plain.RATE} div 1000"))


def _selected(frame: DataFrame) -> DataFrame:
    return _bids(frame).where(F.col("auction") % plain.SELECTED == 0)


def _local_items(frame: DataFrame) -> DataFrame:
    people = _of(frame, "person").where(F.col("state").isin(*plain.LOCAL_STATES))
    auctions = _of(frame, "auction").where(F.col("category") == plain.LOCAL_CATEGORY)
    rows = auctions.select(F.col("id").alias("auction"), "seller")
    return rows.join(people.select(F.col("id").alias("seller"), "name", "state"), "seller").drop("seller")


def _winning_bids(frame: DataFrame) -> DataFrame:
    auctions = _of(frame, "auction").select(
        F.col("id").alias("auction"), "seller", "category", "reserve", "expires"
    )
    valid = (
        _bids(frame)
        .join(auctions, "auction")
        .where((F.col("time") < F.col("expires")) & (F.col("price") >= F.col("reserve")))
    )
    best = F.row_number().over(Partition.partitionBy("auction").orderBy(F.desc("price"), "time"))
    return valid.withColumn("place", best).where(F.col("place") == 1)


def _category_prices(frame: DataFrame) -> DataFrame:
    return _winning_bids(frame).groupBy("category").agg(F.avg("price"))


def _moment() -> Column:
    return F.timestamp_micros("time")


def _seconds(microseconds: int) -> str:
    return f"{microseconds // 1_000_000} seconds"


def _hot_items(frame: DataFrame) -> DataFrame:
    lately = F.window(_moment(), _seconds(2 * plain.WINDOW_US), _seconds(plain.WINDOW_US))
    counts = _bids(frame).groupBy(lately.alias("lately"), "auction").agg(F.count("*").alias("bids"))
    most = F.max("bids").over(Partition.partitionBy("lately"))
    hottest = counts.withColumn("most", most).where(F.col("bids") == F.col("most"))
    return (
        hottest.groupBy("lately").agg(F.first("most"), F.sort_array(F.collect_set("auction"))).drop("lately")
    )


def _seller_prices(frame: DataFrame) -> DataFrame:
    lately = (
        Partition.partitionBy("seller").orderBy("expires", "auction").rowsBetween(1 - plain.LATEST_SALES, 0)
    )
    return _winning_bids(frame).select(
        "seller", F.count("*").over(lately).alias("sales"), F.sum("price").over(lately).alias("sum")
    )


def _highest_bid(frame: DataFrame) -> DataFrame:
    period = F.window(_moment(), _seconds(plain.WINDOW_US))
    return _bids(frame).groupBy(period.alias("period")).agg(F.max("price")).drop("period")


def _new_sellers(frame: DataFrame) -> DataFrame:
    period = F.window(_moment(), _seconds(plain.WINDOW_US)).alias("period")
    people = _of(frame, "person").select("id", "name", period)
    auctions = _of(frame, "auction").select(F.col("seller").alias("id"), period)
    return (
        people.join(auctions, ["id", "period"])
        .groupBy("id", "name", "period")
        .count()
        .select("name", "count")
    )


def _logs(frame: DataFrame) -> DataFrame:
    shard = F.expr(f"concat('shard ', (time div 1000000) % {plain.SHARDS})").alias("shard")
    return frame.drop("event").distinct().select(shard, "time")


def _sessions(frame: DataFrame) -> DataFrame:
    session = F.session_window(_moment(), _seconds(plain.GAP_US)).alias("session")
    return _bids(frame).groupBy(session, "bidder").count().drop("session")


OWN: dict[str, Callable[[DataFrame], DataFrame]] = {
    "q0": _bids,
    "q1": _in_euros,
    "q2": _selected,
    "q3": _local_items,
    "q4": _category_prices,
    "q5": _hot_items,
    "q6": _seller_prices,
    "q7": _highest_bid,
    "q8": _new_sellers,
    "q9": lambda frame: _winning_bids(frame).select("auction", "price"),
    "q10": _logs,
    "q11": _sessions,
}
"""The queries with Spark's own operators, by name."""


def throughput(
    spark: SparkSession,
    make: Callable[[str, DataFrame], DataFrame],
    query: str,
    path: Path,
    warm_up: Path,
    count: int,
) -> float:
    """Return a query's events per second, by the layer or by Spark's own operators, after a run on the warm-up file."""
    events_per_s(make(query, spark.read.parquet(str(warm_up))), 1)
    return events_per_s(make(query, spark.read.parquet(str(path))), count)
