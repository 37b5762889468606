"""NEXMark's queries give the same answers on Spark; query 12 needs a clock, which a recorded feed has not."""

import pytest
from pyspark.sql import SparkSession

from headrace.spark import run_recorded
from headrace_scenarios.nexmark import QUERIES, Mix, events, feed, plain
from headrace_scenarios.nexmark.queries import as_counter, settled

pytestmark = [pytest.mark.spark, pytest.mark.nightly]


@pytest.mark.parametrize("query", [query for query in QUERIES if query != "q12"])
def test_a_query_gives_the_same_answers_on_spark(spark: SparkSession, query: str) -> None:
    pipeline, mix = QUERIES[query], Mix(count=120)
    recorded = [(entry.address, entry.event) for entry in feed(2, mix).entries]
    run = run_recorded(spark, pipeline, recorded, batch_events=100, intervals=2)
    decode = pipeline.codec(query).decode
    answers = [(key, decode(value)) for stream, key, value, _ in run.outputs if stream == query]
    assert settled(query, answers) == as_counter(plain.ANSWERS[query]([event for _, event in events(2, mix)]))
