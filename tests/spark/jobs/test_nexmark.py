"""NEXMark's queries give the same answers on Spark; query 12 goes by the machine's clock, and each bidder's sum is the same."""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from headrace import SECOND
from headrace.spark import run_recorded
from headrace_benchmarks.spark_nexmark import OWN, by_layer, by_spark, write_events
from headrace_scenarios.nexmark import QUERIES, Mix, events, feed, plain
from headrace_scenarios.nexmark.queries import as_counter, settled

pytestmark = [pytest.mark.spark, pytest.mark.nightly]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_the_same_answers_on_spark(spark: SparkSession, query: str) -> None:
    pipeline, mix = QUERIES[query], Mix(count=120)
    recorded = [(entry.address, entry.event) for entry in feed(2, mix).entries]
    run = run_recorded(spark, pipeline, recorded, batch_events=100, intervals=2, clock_us=SECOND // 10)
    decode = pipeline.codec(query).decode
    answers = [(key, decode(value)) for stream, key, value, _ in run.outputs if stream == query]
    assert settled(query, answers) == as_counter(plain.ANSWERS[query]([event for _, event in events(2, mix)]))


COLUMNS: dict[str, Callable[[str, Any], tuple[Any, ...]]] = {
    **dict.fromkeys(
        ("q0", "q1", "q2"), lambda _, bid: (bid["auction"], bid["bidder"], bid["price"], bid["time"])
    ),
    "q3": lambda _, sale: (sale["auction"], sale["name"], sale["state"]),
    "q4": lambda category, price: (int(category), price),
    "q5": lambda _, hottest: (hottest[0], hottest[1]),
    "q6": lambda seller, prices: (int(seller), prices["sales"], prices["sum"]),
    "q7": lambda _, price: (price,),
    "q8": lambda _, seller: (seller["name"], seller["auctions"]),
    "q9": lambda auction, sale: (int(auction), sale["bid"]["price"]),
    "q10": lambda shard, event: (shard, event["time"]),
    "q11": lambda bidder, bids: (int(bidder), bids),
}
"""The columns of Spark's own answers, from an answer of plain Python."""


@pytest.mark.parametrize("query", QUERIES)
def test_the_benchmark_compares_queries_with_the_same_answers(
    spark: SparkSession, tmp_path: Path, query: str
) -> None:
    frame = spark.read.parquet(str(write_events(tmp_path / "events.parquet", 120)))
    answers = plain.ANSWERS[query]([event for _, event in events(0, Mix(count=120))])
    if query in OWN:
        own = Counter(repr(tuple(row)) for row in by_spark(query, frame).collect())
        assert own == Counter(repr(COLUMNS[query](key, value)) for key, value in answers)
    decode = QUERIES[query].codec(query).decode
    found = [
        (row["key"], decode(bytes(row["value"]))) for row in by_layer(query, frame, intervals=1).collect()
    ]
    assert settled(query, found) == as_counter(answers)
