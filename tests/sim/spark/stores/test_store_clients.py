"""Sinks that write with clients of Redis and Kafka: what a second run, a lost reply or an end before `flush` does."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from headrace_properties.sinks import check_sink
from tests.sim.spark.apart import call

MODULES = Path(__file__).parents[3] / "properties" / "spark_jobs" / "corpus_modules"
ROWS = [[("home", 2)], [("home", 1)]]


@pytest.fixture(autouse=True)
def clients(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the clients installed."""
    monkeypatch.syspath_prepend(str(MODULES))


def redis(**options: Any) -> Any:
    return __import__("redis").Redis(**options)


def adds(df: Any, batch_id: int) -> None:
    client = redis()
    for row in df.collect():
        client.hincrby("views", row.page, row.views)


def sets(df: Any, batch_id: int) -> None:
    client = redis()
    for row in df.collect():
        client.hset("views", f"{row.page}-{row.views}", row.views)


def members(df: Any, batch_id: int) -> None:
    for row in df.collect():
        redis().sadd("pages", f"{row.page}-{row.views}")


def looks_first(df: Any, batch_id: int) -> None:
    client = redis(decode_responses=True)
    if client.get(f"done-{batch_id}") == "yes":
        return
    client.set(f"done-{batch_id}", "yes")
    for row in df.collect():
        client.sadd("pages", f"{row.page}-{row.views}")


def producer() -> Any:
    made = __import__("kafka").KafkaProducer
    return made(bootstrap_servers="kafka:9092", value_serializer=lambda value: json.dumps(value).encode())


def sends(df: Any, batch_id: int) -> None:
    client = producer()
    for row in df.collect():
        client.send("views", [row.page, row.views])


def sends_and_waits(df: Any, batch_id: int) -> None:
    sends(df, batch_id)
    producer().flush()


def produces(df: Any, batch_id: int) -> None:
    client = __import__("confluent_kafka").Producer({"bootstrap.servers": "kafka:9092"})
    for row in df.collect():
        client.produce("views", key=row.page, value=str(row.views))
        client.poll(0)


def produces_and_waits(df: Any, batch_id: int) -> None:
    produces(df, batch_id)
    __import__("confluent_kafka").Producer({"bootstrap.servers": "kafka:9092"}).flush()


@pytest.mark.parametrize(
    ("sink", "wrong"),
    [
        (adds, {"differs"}),
        (sets, set()),
        pytest.param(members, set(), marks=pytest.mark.nightly),
        (looks_first, {"missing"}),
        (sends, {"not flushed", "twice"}),
        pytest.param(sends_and_waits, {"twice"}, marks=pytest.mark.nightly),
        pytest.param(produces, {"not flushed", "twice"}, marks=pytest.mark.nightly),
        (produces_and_waits, {"twice"}),
    ],
)
def test_what_a_client_writes_is_kept_like_a_store_would(
    sink: Callable[[Any, int], None], wrong: set[str]
) -> None:
    report = call(check_sink, sink, ROWS, "page STRING, views INT")
    assert ({finding.wrong.value for finding in report.findings}, report.unknown) == (wrong, ())
