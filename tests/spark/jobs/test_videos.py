"""A Dataflow pipeline on Spark: two groupings, sessions that late views change, retractions, and totals that are right."""

import pytest
from pyspark.sql import SparkSession

from headrace.spark import run_recorded
from headrace_properties.checkers import judge
from headrace_properties.verdict import Violated
from headrace_scenarios.videos import calm_pipeline, expected_totals, feed, totals_of, watch

pytestmark = [pytest.mark.spark, pytest.mark.nightly]


def test_the_totals_of_the_video_provider_are_right_on_spark(spark: SparkSession) -> None:
    """Each micro-batch brings some views and what the source says of the watermark; cem's views come when it has passed."""
    events = [(entry.address, entry.event) for entry in feed(1).entries]
    run = run_recorded(spark, calm_pipeline, events, batch_events=22, intervals=2, history=True)
    codec = calm_pipeline.codec("accounts")
    told = [(key, codec.decode(value)) for stream, key, value, _ in run.outputs if stream == "accounts"]
    assert totals_of(told) == expected_totals(watch(1))
    assert any(pane.retraction for _, pane in told)
    assert run.history is not None
    assert [
        name for name, one in judge(run.history, [calm_pipeline]).items() if isinstance(one, Violated)
    ] == []
