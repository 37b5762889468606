"""Promises about what a sink that is not code holds: planted queries that break one, and their sound twins."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.sql import functions as F

from headrace_properties import promises
from headrace_properties.promises import Promise, at_end, newest_wins, same_total, unique
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_properties.spark_jobs.proposals import proposals
from headrace_properties.spark_jobs.targets import SparkReport

Build = Callable[[Any], Any]
FEED = [[(1, 1, 10), (2, 5, 20)], [(3, 2, 5)], [(2, 4, 7)]]
ONCE = FEED[:2]
SCHEMA = "id INT, version INT, amount INT"


def to(format_: str, change: Build = lambda orders: orders, mode: str = "append", **options: Any) -> Build:
    def build(orders: Any) -> Any:
        writer = change(orders).writeStream.format(format_).outputMode(mode).options(**options)
        return writer.option("checkpointLocation", "/checkpoints/orders").queryName("totals").start()

    return build


def doubled(orders: Any) -> Any:
    return orders.withColumn("part", F.explode(F.array(F.lit(1), F.lit(2)))).drop("part")


def totals(orders: Any) -> Any:
    return orders.groupBy("id").agg(F.sum("amount").alias("amount"))


def as_json(orders: Any) -> Any:
    return orders.select(F.to_json(F.struct(*orders.columns)).alias("value"))


def by_topic(orders: Any) -> Any:
    topic = F.when(orders.amount > 6, "large").otherwise("small").alias("topic")
    return orders.select(F.to_json(F.struct(*orders.columns)).alias("value"), topic)


def to_table(change: Build) -> Build:
    return lambda orders: change(orders).writeStream.option("checkpointLocation", "/c").toTable("lake.orders")


BY_KEY: dict[str, Any] = {"hoodie.datasource.write.recordkey.field": "id", "path": "/lake/orders"}
BY_VERSION: dict[str, Any] = {"hoodie.datasource.write.precombine.field": "version"}
BY_COMMIT: dict[str, Any] = {"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"}


@dataclass(frozen=True)
class WrittenPlant:
    """A query that breaks a promise, and its sound twin."""

    wrong: Build
    sound: Build
    promise: Promise
    why: str
    feed: Any = None


PLANTS = {
    "files": WrittenPlant(
        to("parquet", doubled, path="/lake/orders"), to("parquet", path="/lake/orders"), unique("id", table="orders"),
        "at the end: orders has id=1 2 times",
    ),
    "table": WrittenPlant(
        to_table(doubled), to_table(lambda orders: orders), same_total({"input": "amount", "orders": "amount"}),
        "at the end: the input has 10, but orders has 20",
    ),
    "memory": WrittenPlant(
        to("memory", lambda orders: totals(doubled(orders)), "complete"), to("memory", totals, "complete"),
        same_total({"input": "amount", "totals": "amount"}), "at the end: the input has 10, but totals has 20",
    ),
    "console": WrittenPlant(
        to("console", doubled), to("console"), unique("id", table="console"), "at the end: console has id=1 2 times",
    ),
    "topic": WrittenPlant(
        to("kafka", lambda orders: as_json(doubled(orders)), topic="paid"), to("kafka", as_json, topic="paid"),
        unique("id", table="paid"), "at the end: paid has id=1 2 times",
    ),
    "old-over-new": WrittenPlant(
        to("hudi", **BY_KEY, **BY_COMMIT), to("hudi", **BY_KEY, **BY_VERSION),
        newest_wins("id", version="version", table="orders"),
        "at the end: orders has Row(id=2, version=4, amount=7), and a newer version came: Row(id=2, version=5, amount=20)",
        FEED,
    ),
}  # fmt: skip


def verified(build: Build, promise: Promise, feed: Any = None, *allow: Cause) -> SparkReport:
    target = spark_target("plant", build, schemas=SCHEMA, feed=feed or ONCE, promises=[promise])
    allowed = (Cause.GROWTH, Cause.BATCHING, Cause.ORDER, Cause.SETTINGS, *allow)
    return target.verify(schedules=12, allow=allowed)


def broken(report: SparkReport) -> list[str]:
    return [found.message for found in report.findings if found.kind.title.startswith("the promise")]


@pytest.mark.parametrize("name", PLANTS)
def test_promise_about_what_a_query_writes_is_found_broken(name: str) -> None:
    plant = PLANTS[name]
    (told,) = broken(verified(plant.wrong, plant.promise, plant.feed, Cause.REPEATED))
    assert told.startswith(plant.why)


@pytest.mark.parametrize("name", PLANTS)
def test_sound_query_keeps_its_promise(name: str) -> None:
    plant = PLANTS[name]
    report = verified(plant.sound, plant.promise, plant.feed, Cause.REPEATED)
    assert broken(report) == []


def test_batch_that_a_topic_gets_twice_breaks_a_promise_unless_readers_allow_for_it() -> None:
    build, promise = to("kafka", as_json, topic="paid"), unique("id", table="paid")
    (told,) = broken(verified(build, promise))
    assert "the driver dies after the sink" in told
    assert broken(verified(build, promise, None, Cause.REPEATED)) == []
    assert broken(verified(to("parquet", path="/lake/orders"), unique("id", table="orders"))) == []


@pytest.mark.parametrize("name", PLANTS)
def test_promise_that_finds_the_mistake_is_proposed(name: str) -> None:
    plant = PLANTS[name]
    for build in (plant.wrong, plant.sound):
        target = spark_target("plant", build, schemas=SCHEMA, feed=plant.feed or ONCE)
        found = {eval(one.code, vars(promises)): one.broken for one in proposals(target, None)}  # noqa: S307
        what = plant.promise.name.partition("_")[0]
        (told,) = (broken for promise, broken in found.items() if promise.name.startswith(what))
        assert bool(told) is (build is plant.wrong)


@at_end(table="large")
def large_ones_alone(moment: Any) -> bool:
    return {row.id for row in moment.table("large")} == {1, 2} and bool(moment.table("small")[0].value)


def test_records_name_their_topic() -> None:
    assert broken(verified(to("kafka", by_topic), large_ones_alone, None, Cause.REPEATED)) == []
