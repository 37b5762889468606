"""Percentile watermarks on Spark (MillWheel 7.2): the simulated cluster's outputs, and a History that the same checkers judge.

Eight keys hold the watermark of `Holder` back, three of them at 1 s and five at 3 s. A consumer that follows 60 % waits for none
of the three, and one that follows the low watermark waits for all.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import MagicMock, patch

import pytest
from pyspark.sql import SparkSession

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace.spark.hosting.chunks import Chunks, decode_header
from headrace.spark.hosting.history_export import history_of
from headrace.spark.hosting.layout import JobPlan
from headrace.spark.jobs.query import _shape
from headrace_properties.checkers import judge
from headrace_properties.reference import Emitted
from headrace_properties.results import outputs_of
from headrace_properties.verdict import Holds, Violated
from headrace_sim import Feed, FeedBuilder, simulate
from headrace_sim.feed import FeedEntry
from tests.sim.rig import CHECKED
from tests.spark.microbatches import Query, query
from tests.spark.rig import run_streaming


@pytest.fixture(autouse=True, scope="module")
def _nothing_is_synced() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _descriptor: None)
        yield


HELD_US = {**dict.fromkeys(("a", "b", "c"), SECOND), **dict.fromkeys(("d", "e", "f", "g", "h"), 3 * SECOND)}


class Holder(Computation):
    """Holds the watermark at a record, or no longer, or passes the record on."""

    def process_record(self, context: Context, record: Record) -> None:
        if record.value == "hold":
            context.hold_watermark(record.timestamp)
        elif record.value == "release":
            context.hold_watermark(None)
        else:
            context.produce("passed", record.value)


class Closing(Computation):
    """Counts letters until 2 s have passed, and then tells."""

    def process_record(self, context: Context, record: Record) -> None:
        if record.late:
            context.produce("seen", "late")
            return
        context.state["count"] = context.state.get("count", 0) + 1
        context.set_timer("end", 2 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("seen", context.state["count"])


class Relay(Computation):
    def __init__(self, output: str) -> None:
        self._output = output

    def process_record(self, context: Context, record: Record) -> None:
        context.produce(self._output, record.value)


def pipeline(percent: float, *, relayed: bool = False) -> Pipeline:
    """``relayed``: between the two there is a computation with nothing pending."""
    found = Pipeline("outliers")
    found.injector("mail")
    found.add(Holder(), name="holder", inputs=["mail"], outputs=["passed"])
    if relayed:
        found.add(Relay("relayed"), name="relay", inputs=["passed"], outputs=["relayed"])
    found.add(
        Closing(), name="closing", inputs=["relayed" if relayed else "passed"], outputs=["seen"], watermark_percentile=percent
    )  # fmt: skip
    return found


def feed(of: Pipeline) -> Feed:
    builder = FeedBuilder(of)
    for number, (key, timestamp) in enumerate(HELD_US.items()):
        builder.record(at_us=SECOND + number, value="hold", timestamp=timestamp, key=key)
    builder.record(at_us=SECOND + 10, value="letter", timestamp=1_500_000, key="p")
    builder.watermark(at_us=3 * SECOND, low_watermark=10 * SECOND)
    builder.record(at_us=5 * SECOND, value="letter", timestamp=1_600_000, key="p")
    for key in HELD_US:
        builder.record(at_us=8 * SECOND, value="release", timestamp=10 * SECOND, key=key)
    return builder.build()


def in_batches(of: Pipeline, *, history: bool = False, fused: bool = False) -> Query:
    """A micro-batch for each second in which anything comes, each with one without data behind it, as Spark has it."""
    running, entries = query(of, intervals=3, history=history, fused=fused), feed(of).entries
    for second in sorted({entry.at_us // SECOND for entry in entries}):
        running.batch([entry for entry in entries if entry.at_us // SECOND == second])
        running.batch()
    return running


STRICT = Counter({Emitted("seen", "p", b"2", 2 * SECOND): 1})
EAGER = Counter({Emitted("seen", "p", b"1", 2 * SECOND): 1, Emitted("seen", "p", b'"late"', 1_600_000): 1})


@pytest.mark.parametrize("relayed", [False, True])
@pytest.mark.parametrize(("percent", "expected"), [(100, STRICT), (90, STRICT), (60, EAGER)])
def test_the_outputs_are_those_of_the_simulated_cluster(
    percent: float, expected: Counter[Emitted], *, relayed: bool
) -> None:
    of = pipeline(percent, relayed=relayed)
    assert outputs_of(simulate(of, feed(of), options=CHECKED)) == expected
    assert in_batches(of).outputs == expected
    assert in_batches(of, fused=True).outputs == expected


@pytest.mark.parametrize("fused", [False, True])
def test_the_checkers_see_a_percentile_ahead_of_the_low_watermark(*, fused: bool) -> None:
    of = pipeline(60)
    running = in_batches(of, history=True, fused=fused)
    verdicts = judge(history_of(of, running.events), [of])
    assert {name: one for name, one in verdicts.items() if isinstance(one, Violated)} == {}
    assert isinstance(verdicts["S19"], Holds)


def test_the_checkers_see_a_percentile_that_passes_too_much() -> None:
    of = pipeline(90)  # none of eight may be an outlier
    with patch.object(Chunks, "pending", lambda _chunks: ()):
        running = in_batches(of, history=True)
    assert isinstance(judge(history_of(of, running.events), [of])["S19"], Violated)


def test_pending_work_is_counted_when_somebody_begins_to_follow_it() -> None:
    """A job gets a consumer that follows a percentile: what is pending was written when nobody counted it."""
    running = query(pipeline(100), intervals=1)
    running.batch([entry for entry in feed(pipeline(60)).entries if entry.at_us < 2 * SECOND])
    running.plan = JobPlan(pipeline(60), intervals=1, with_ids=frozenset({"mail"}), progress=True)
    running.batch(tick=True)
    (store,) = [store for group, store in running.stores.items() if group.startswith("closing")]
    assert Chunks(store, 1).header.upstream == {"holder/0": ((SECOND, 3), (3 * SECOND, 5))}


@pytest.mark.parametrize("fused", [False, True])
def test_one_more_that_begins_to_follow_is_told_what_is_pending(*, fused: bool) -> None:
    running = query(pipeline(60), intervals=1, fused=fused)
    running.batch([entry for entry in feed(pipeline(60)).entries if entry.at_us < 2 * SECOND])
    running.batch()
    wider = pipeline(60)
    wider.add(Closing(), name="second", inputs=["passed"], outputs=["again"], watermark_percentile=60)
    running.plan = replace(query(wider, intervals=1, fused=fused).plan, wake_until=running.number)
    running.batch([_letter(wider)])
    assert decode_header(running.headers()["second/0"]).upstream == {
        "holder/0": ((SECOND, 3), (3 * SECOND, 5))
    }


def _letter(of: Pipeline) -> FeedEntry:
    return next(entry for entry in feed(of).entries if entry.at_us == 5 * SECOND)


def test_all_intervals_are_called_when_somebody_begins_to_follow_them() -> None:
    settings = MagicMock(intervals=1, partitions=1, fused=True, idle_us={})
    shapes = [_shape(pipeline(percent, relayed=True), settings, {}) for percent in (100, 60)]
    assert [shape.consumers["holder"] for shape in shapes if shape.consumers] == [
        ["relay"],
        ["closing", "relay"],
    ]


@pytest.mark.spark
@pytest.mark.nightly
def test_a_query_of_spark_follows_a_percentile(spark: SparkSession, tmp_path: Path) -> None:
    of = pipeline(60)
    collected = run_streaming(spark, of, feed(of), tmp_path, parts=2, restart_after=0, history=True)
    assert collected.outputs() == EAGER
    verdicts = judge(history_of(of, collected.events()), [of])
    assert {name: one for name, one in verdicts.items() if isinstance(one, Violated)} == {}
