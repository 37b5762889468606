"""Percentile watermarks on Spark (MillWheel 7.2): the simulated cluster's outputs, and a History that the same checkers judge.

Eight keys hold the watermark of `Holder` back, three of them at 1 s and five at 3 s. A consumer that follows 60 % waits for none
of the three, and one that follows the low watermark waits for all.
"""

import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import MagicMock, patch

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace.spark import Layout, deploy
from headrace.spark.hosting.chunks import Chunks, decode_header
from headrace.spark.hosting.history_export import history_of
from headrace.spark.hosting.layout import JobPlan
from headrace.spark.hosting.parcels import Followed
from headrace.spark.jobs.log import NOTHING, Fed, Log, Piece, entry_of
from headrace.spark.jobs.pipelined import _layout
from headrace.spark.jobs.recorded_input import Landing, landed
from headrace.spark.jobs.staged import _is_same
from headrace_properties.checkers import judge
from headrace_properties.reference import Emitted, run_reference
from headrace_properties.results import outputs_of
from headrace_properties.verdict import Holds, Violated
from headrace_sim import Feed, FeedBuilder, simulate
from headrace_sim.feed import FeedEntry
from tests.sim.rig import CHECKED, WindowCounter, city, letters
from tests.spark.microbatches import Query, query
from tests.spark.rig import run_staged, run_streaming
from tests.spark.stages import Stages
from tests.spark.test_interval_task import Batcher


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


def in_stages(of: Pipeline, directory: Path, *, history: bool = False) -> Stages:
    """The same, staged: each stage takes what there is, as often as there is anything."""
    running, entries = Stages(of, directory, history=history), feed(of).entries
    for second in sorted({entry.at_us // SECOND for entry in entries}):
        running.inject([entry for entry in entries if entry.at_us // SECOND == second])
        running.settle()
    return running


STRICT = Counter({Emitted("seen", "p", b"2", 2 * SECOND): 1})
EAGER = Counter({Emitted("seen", "p", b"1", 2 * SECOND): 1, Emitted("seen", "p", b'"late"', 1_600_000): 1})


@pytest.mark.parametrize("relayed", [False, True])
@pytest.mark.parametrize(("percent", "expected"), [(100, STRICT), (90, STRICT), (60, EAGER)])
def test_the_outputs_are_those_of_the_simulated_cluster(
    tmp_path: Path, percent: float, expected: Counter[Emitted], *, relayed: bool
) -> None:
    of = pipeline(percent, relayed=relayed)
    assert outputs_of(simulate(of, feed(of), options=CHECKED)) == expected
    assert in_batches(of).outputs == expected
    assert in_batches(of, fused=True).outputs == expected
    assert in_stages(of, tmp_path).outputs == expected


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
    shapes = [_layout(pipeline(percent, relayed=True), settings, {}) for percent in (100, 60)]
    assert [shape.consumers["holder"] for shape in shapes if shape.consumers] == [
        ["relay"],
        ["closing", "relay"],
    ]


# Through the logs of stages


def diamond() -> Pipeline:
    """Letters wait in the batcher, and come to the counter on two ways that join before it. Of so few none may be an outlier."""
    found = Pipeline("diamond")
    found.injector("mail")
    found.add(Batcher(), name="batcher", inputs={"mail": city}, outputs=["sorted"])
    for way in ("left", "right"):
        found.add(Relay(way), name=way, inputs=["sorted"], outputs=[way])
    found.add(Relay("joined"), name="join", inputs=["left", "right"], outputs=["joined"])
    found.add(
        WindowCounter(), name="counter", inputs={"joined": city, "right": city}, outputs=["counts", "late"],
        watermark_percentile=99.9,
    )  # fmt: skip
    return found


STAGES = ("batcher", "left", "right", "join", "counter")


@settings(max_examples=15)
@given(
    every=st.fixed_dictionaries(dict.fromkeys(STAGES, st.integers(1, 8))),
    crashing=st.sampled_from(STAGES),
    size=st.integers(5, 15),
    max_records=st.integers(1, 30),
)
def test_no_percentile_passes_a_record_on_its_way_through_logs(
    every: dict[str, int], crashing: str, size: int, max_records: int
) -> None:
    """Each stage runs every so many rounds, and so lags behind others; one crashes each time, and runs again."""
    of = diamond()
    came = letters(of, 90)
    entries = list(came.entries)
    with TemporaryDirectory() as directory:
        running = Stages(of, Path(directory), intervals=2, max_records=max_records)
        for number in range(1, 1 + -(-len(entries) // size)):
            running.inject(entries[:size])
            entries = entries[size:]
            for name in [name for name in STAGES if number % every[name] == 0]:
                for crashed in (True, False) if name == crashing else (False,):
                    running.run(name, crashed=crashed, tick=name == "batcher")
        for _ in range(5):
            running.settle(tick=True)
            running.now_us += SECOND
        assert running.outputs == run_reference(of, came).outputs


def test_the_checkers_see_a_percentile_of_stages_ahead_of_the_low_watermark(tmp_path: Path) -> None:
    of = pipeline(60)
    seen, events = in_stages(of, tmp_path, history=True).told("closing")
    verdicts = judge(history_of(seen, events), [seen])
    assert {name: one for name, one in verdicts.items() if isinstance(one, Violated)} == {}
    assert isinstance(verdicts["S19"], Holds)


@pytest.mark.parametrize("relayed", [False, True])
def test_stages_are_called_when_somebody_begins_to_follow_them_even_if_nothing_comes(
    tmp_path: Path, *, relayed: bool
) -> None:
    """Nobody follows, and everything has come to rest. Then the last one does: it goes as far as if it always had."""
    of = pipeline(100, relayed=relayed)
    running = Stages(of, tmp_path)
    running.inject([entry for entry in feed(of).entries if entry.at_us < 4 * SECOND])
    running.settle()
    before = running.last("holder")
    assert (before.low, before.work) == (SECOND, msgspec.UNSET)
    running.deploy(pipeline(60, relayed=relayed))
    running.settle()
    assert running.outputs == Counter({Emitted("seen", "p", b"1", 2 * SECOND): 1})
    assert running.last("holder").number == before.number + 1
    assert not running.run("holder")
    running.deploy(of)
    running.settle()
    assert running.last("holder").work is msgspec.UNSET
    running.deploy(pipeline(60, relayed=relayed))
    running.settle()
    followed = running.last("holder").followed
    assert followed is not None
    assert followed.pending["holder"][1] == ((SECOND, 3), (3 * SECOND, 5))


def test_a_log_has_nothing_more_than_before_if_no_percentile_follows(tmp_path: Path) -> None:
    running = in_stages(pipeline(100), tmp_path)
    path = Log(tmp_path, "holder").path / "entries" / f"{running.last('holder').number:012d}"
    assert list(msgspec.json.decode(path.read_bytes())) == [
        "number", "query", "at_us", "parts", "lows", "low", "horizon", "taken", "news"
    ]  # fmt: skip
    assert running._stages["holder"].offset.keys() == {"logs", "tick"}


def _followed(frontier: int, **pending: tuple[int, int]) -> Followed:
    return Followed(frontier, {name: (number, ((at, 1),)) for name, (number, at) in pending.items()})


def test_what_a_stage_says_is_as_of_what_it_has_taken() -> None:
    """It says nothing until all its intervals and senders have. Of two ways from "a" the one further behind counts."""
    units, fed = ("s/0", "s/1"), Fed("s", ("left", "right"))
    left, right = _followed(70, a=(4, 30), left=(2, 40)), _followed(60, a=(3, 20))
    entry, told = NOTHING, list[Followed | None]()
    for number, piece in enumerate(
        [
            Piece(pending={"s/0": ((50, 1),)}, senders={"left": left}),
            Piece(senders={"right": right}),
            Piece(pending={"s/1": ((50, 2),)}),
            Piece(pending={"s/1": ((50, 2),)}),
            Piece(pending={"s/0": ()}),
        ]
    ):
        entry = entry_of(entry, number, "q", 0, [piece], units, fed)
        told.append(entry.followed)
    both = Followed(60, {"s": (2, ((50, 3),)), "a": (3, ((20, 1),)), "left": (2, ((40, 1),))})
    assert told[:4] == [None, None, both, both]
    assert told[4] == Followed(60, both.pending | {"s": (4, ((50, 2),))})
    assert entry.news == 4
    fewer = entry_of(entry, 5, "q", 0, [], units[:1], Fed("s", ("left",)))
    assert fewer.followed == Followed(70, left.pending | {"s": (5, ())})


def test_what_intervals_had_pending_says_nothing_of_those_of_another_division() -> None:
    units, fed = ("s/0", "s/1"), Fed("s", ("left",))
    old = Piece(pending=dict.fromkeys(units, ((50, 1),)), senders={"left": _followed(70)})
    entry = entry_of(NOTHING, 0, "q", 0, [old], units, fed)
    assert entry.followed is not None
    entry = entry_of(entry, 1, "q", 0, [Piece(pending={"s/0": ((60, 1),)})], units, fed, division=1)
    assert entry.followed is None, "s/1 has not said yet what it took over"
    entry = entry_of(entry, 2, "q", 0, [Piece(pending={"s/1": ((20, 1),)})], units, fed, division=1)
    assert entry.followed == Followed(70, {"s": (2, ((20, 1), (60, 1)))})


def test_only_a_stage_that_begins_to_be_followed_starts_again() -> None:
    before = pipeline(100, relayed=True)
    after = before.with_computation("closing", watermark_percentile=60)
    names = ["mail", "holder", "relay", "closing"]
    assert [name for name in names if _is_same(name, before, after)] == ["mail"]
    wider = after.copy()
    wider.add(Closing(), name="second", inputs=["relayed"], outputs=["again"], watermark_percentile=60)
    assert all(_is_same(name, after, wider) for name in names)


@pytest.mark.spark
@pytest.mark.nightly
def test_a_query_of_spark_follows_a_percentile(spark: SparkSession, tmp_path: Path) -> None:
    of = pipeline(60)
    collected = run_streaming(spark, of, feed(of), tmp_path, parts=2, restart_after=0, history=True)
    assert collected.outputs() == EAGER
    verdicts = judge(history_of(of, collected.events()), [of])
    assert {name: one for name, one in verdicts.items() if isinstance(one, Violated)} == {}


@pytest.mark.spark
@pytest.mark.nightly
def test_a_staged_job_on_spark_follows_a_percentile(spark: SparkSession, tmp_path: Path) -> None:
    of = pipeline(60, relayed=True)
    assert run_staged(spark, of, feed(of), tmp_path, restart_after=0) == EAGER


@pytest.mark.spark
@pytest.mark.nightly
def test_a_running_staged_job_begins_to_follow_a_percentile(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing comes any more. The query that holds the watermark is restarted, and calls all its intervals."""
    of, seen = pipeline(100, relayed=True), list[str]()
    landing = Landing(of, tmp_path / "landing")
    landing.put((entry.address, entry.event) for entry in feed(of).entries if entry.at_us < 4 * SECOND)

    def take(frame: DataFrame, _batch: int) -> None:
        seen.extend(row["value"] for row in frame.collect())

    inputs = landed(spark, of, tmp_path / "landing")
    with deploy(
        of, inputs, directory=tmp_path / "job", sinks={"seen": take}, layout=Layout.STAGED, intervals=2
    ) as job:
        job.await_idle()
        assert seen == []
        before = {query.name: query.query.runId for query in job._host.queries()}
        job.change(of.with_computation("closing", watermark_percentile=60))
        after = {query.name: query.query.runId for query in job._host.queries()}
        assert [name.rpartition(" ")[2] for name in after if after[name] == before[name]] == ["mail"]
        until = time.monotonic() + 120
        while not seen and time.monotonic() < until:
            job.await_idle()
            time.sleep(0.05)
    assert seen == ["1"]
