"""What a user names is found and tried: a foreachBatch function, a function that starts a query, or a SparkJob."""

import re
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql import types as t

from headrace.api.errors import HeadraceError
from headrace_properties.spark_jobs.feeds.drawn_rows import drawn_batches
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.named_targets import causes_named, spark_target
from headrace_properties.spark_jobs.targets import SparkReport
from headrace_properties.spark_jobs.trials import QueryTrial
from headrace_properties.verifier import InvariantViolatedError, Verifier
from headrace_sim.spark.client.recording import record
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.columns.drawn_values import UndrawableError
from tests.sim.spark.apart import call
from tests.sim.spark.processors import ms
from tests.sim.spark.recorded_jobs import WORDS, words
from tests.stateful import StatefulProcessor

SCHEMA = "account STRING, amount INT"
FEED = [[("ann", 1), ("bob", -2)]]


def append(df: Any, batch_id: int) -> None:
    with Path("rows.txt").open("a") as file:
        file.write("".join(f"{row.account}\n" for row in df.collect()))


def replace_batch(df: Any, batch_id: int) -> None:
    Path("new").write_text("".join(f"{row}\n" for row in df.collect()))
    Path("new").replace(f"{batch_id}.txt")


def positive(events: Any) -> Any:
    return events.filter(F.col("amount") > 0).writeStream.foreachBatch(replace_batch).start()


def _use_fixture(folder: Path, function: Callable[..., Any], feed: Any = None) -> tuple[dict[str, Any], str]:
    """Use the fixture, with this module's feed if none is given. Return what it noted, and the message of its failure."""
    noted: dict[str, Any] = {}
    try:
        Verifier(1, 0, folder, noted.__setitem__)(function, FEED if feed is None else feed, schema=SCHEMA)
    except InvariantViolatedError as error:
        return noted, str(error)
    return noted, ""


def _causes(report: SparkReport) -> set[Cause]:
    return {finding.trial.cause for finding in report.findings if isinstance(finding.trial, QueryTrial)}


def test_stateless_job_is_run_up_to_its_sink() -> None:
    report = call(spark_target("positive", positive, schemas=SCHEMA, feed=FEED).verify)
    assert (report.findings, report.unknown, report.job) == ((), (), None)
    assert report.sink is not None
    assert report.sink.effects == (3,)


def test_functions_of_columns_of_a_stateless_job_are_run_under_schedules() -> None:
    seen = set[str]()

    @F.udf(t.BooleanType())
    def is_new(account):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  PySpark takes annotations for pandas types
        new = account not in seen
        seen.add(account)
        return new

    @F.pandas_udf(t.DoubleType())  # type: ignore[untyped-decorator]
    def share(amount: pd.Series) -> pd.Series:
        return amount / amount.abs().sum()

    def once(events: Any) -> Any:
        return events.filter(is_new("account")).writeStream.foreachBatch(replace_batch).start()

    def shares(events: Any, more: Any) -> Any:
        both = events.withColumn("share", share("amount")).union(more.withColumn("share", F.lit(0.5)))
        return both.writeStream.foreachBatch(replace_batch).start()

    report = spark_target("once", once, schemas=SCHEMA, feed=[[("a", 1)], [("a", 2)]]).verify(schedules=40)
    assert Cause.MEMORY in _causes(report)
    feed = [[{"events": ("a", 1)}, {"events": ("b", 3)}, {"more": ("c", 1)}]]
    report = spark_target("shares", shares, schemas={"events": SCHEMA, "more": SCHEMA}, feed=feed).verify(
        schedules=40
    )
    assert Cause.PARTITIONS in _causes(report)
    place = f"test_targets.py:{shares.__code__.co_firstlineno + 1}"
    found = [finding for finding in report.findings if isinstance(finding.trial, QueryTrial)]
    assert all(str(finding.place).endswith(place) for finding in found)


@pytest.mark.nightly
def test_columns_of_a_stateless_job_are_computed_again_when_a_batch_is() -> None:
    def write(df: Any, batch_id: int) -> None:
        for row in df.collect():
            Path(row.id).write_text(row.account)

    def by_uuid(events: Any) -> Any:
        return events.withColumn("id", F.expr("uuid()")).writeStream.foreachBatch(write).start()

    def by_hash(events: Any) -> Any:
        made = events.withColumn("id", F.sha2(F.to_json(F.struct("*")), 256))
        return made.writeStream.foreachBatch(write).start()

    def of_two(events: Any, more: Any) -> Any:
        return by_uuid(events.union(more.filter("amount > 0")))

    report = call(spark_target("by_uuid", by_uuid, schemas=SCHEMA, feed=FEED).verify)
    assert "twice" in str(report.findings)
    feed = [[{"events": ("ann", 1)}, {"more": ("bob", 2)}], [{"more": ("eve", -3)}, {"events": ("zoe", 1)}]]
    report = call(
        spark_target("of_two", of_two, schemas={"events": SCHEMA, "more": SCHEMA}, feed=feed).verify
    )
    assert "twice" in str(report.findings)
    assert report.sink is not None
    assert report.sink.effects == (4, 2)
    report = call(spark_target("by_hash", by_hash, schemas=SCHEMA, feed=FEED).verify)
    assert (report.findings, report.unknown) == ((), ())


def test_recorded_job_and_its_function_are_the_same_target() -> None:
    one = spark_target("job", record(positive, SCHEMA), feed=FEED)
    other = spark_target("positive", positive, schemas=SCHEMA, feed=lambda seed: FEED)
    assert (one.feed, one.job.output, one.job.sink) == (other.feed, other.job.output, other.job.sink)


def test_sink_is_tried_on_the_stateful_jobs_output() -> None:
    target = spark_target("words", words, schemas=WORDS, feed=[[("one", datetime(2030, 1, 1))]])
    report = call(target.verify, schedules=5, allow=causes_named(["growth"]))
    assert report.job is not None
    assert report.job.findings == ()
    assert report.sink is not None
    assert [finding.destination for finding in report.sink.findings] == ["counts"]


def test_fixture_fails_on_an_effect_that_is_not_idempotent(tmp_path: Path) -> None:
    _, told = call(_use_fixture, tmp_path, append)
    kept = next(tmp_path.rglob("headrace-failure-*.json"))
    assert re.search(
        r"test_targets:append breaks each row exactly once \(twice\)\n\n  .*test_targets.py:\d+: In batch 0",
        told,
    )
    assert f"headrace replay {kept} --explain" in told
    noted, told = call(_use_fixture, tmp_path, append)  # it is tried first, and kept
    assert told
    assert "violated again" in noted["headrace kept failure"]


def test_fixture_keeps_only_reproducible_findings(tmp_path: Path) -> None:
    assert "no replay file" in call(_use_fixture, tmp_path, append, [[("ann", 1)]])[1]
    assert not list(tmp_path.iterdir())


def test_fixture_passes_a_sink_that_holds_and_notes_its_trials(tmp_path: Path) -> None:
    noted, told = call(_use_fixture, tmp_path, replace_batch)
    assert not told
    assert list(noted) == ["headrace trials"]
    assert noted["headrace trials"] >= 2 * len(FEED)


@pytest.mark.parametrize(
    ("found", "told"),
    [
        (7, "this is an int, not a Spark job"),
        (dict, "this is a type, not a Spark job"),
        (append, "the schema of its rows is not known. Give it: --schema"),
        (
            lambda spark: spark.readStream.format("rate").load().writeStream.start(),
            "keeps no state and writes to nothing",
        ),
    ],
)
def test_target_that_cannot_be_tried_is_refused(found: Any, told: str) -> None:
    with pytest.raises(HeadraceError, match=told):
        spark_target("it", found)


def test_sink_that_gets_no_row_is_unknown() -> None:
    report = call(spark_target("positive", positive, schemas=SCHEMA, feed=[[("ann", -1)]]).verify)
    assert (report.findings, report.unknown) == (
        (),
        ("no row came to the sink: nothing could be lost or doubled",),
    )


def _fails(seed: int) -> Any:
    raise ValueError(seed)


@pytest.mark.parametrize(
    ("feed", "told"), [(_fails, "ValueError: 0"), (dict, "TypeError"), (lambda: 1, "TypeError")]
)
def test_feed_that_fails_is_refused(feed: Any, told: str) -> None:
    with pytest.raises(HeadraceError, match=rf"the feed fails at .*: {told}.*Let it take a seed"):
        spark_target("it", append, schemas=SCHEMA, feed=feed)


def test_drawn_rows_for_a_sink_repeat_in_a_later_batch() -> None:
    """Else a sink that remembers what it has seen, in memory, never sees anything again."""
    batches = drawn_batches(parse_schema("k STRING, n INT, at TIMESTAMP"), 0)
    *earlier, last = [{row[:2] for row in batch} for batch in batches]
    assert last & set().union(*earlier)
    assert len({row[2] for batch in batches for row in batch}) == 6


def test_drawn_rows_for_a_job_with_state_repeat_and_end_what_was_begun() -> None:
    drawn = drawn_batches(
        parse_schema("k STRING, n INT, at TIMESTAMP, p STRUCT<at: TIMESTAMP>"), 0, with_state=True
    )
    rows = [row for batch in drawn for row in batch]
    assert [len(batch) for batch in drawn] == [5, 5, 0, 0, 5, 0, 0, 1]
    assert len({row[:2] for row in rows}) < len(rows) - 1
    assert all(row[2] == row[3][0] for row in rows)
    assert rows[10][2] - rows[9][2] == rows[15][2] - rows[14][2] == timedelta(days=3)


@pytest.mark.parametrize("gap_ms", [10_000, 1_800_000])
def test_drawn_rows_lie_on_both_sides_of_a_sessions_gap(gap_ms: int) -> None:
    """A session takes in whatever row comes before its timer fires, even one long after its end: that is seen without a feed."""

    def sessions(events: Any) -> Any:
        grouped = events.withWatermark("at", "5 seconds").groupBy("user")
        rows = grouped.transformWithState(_Sessions(gap_ms), "user STRING, n INT", "append", "eventtime")
        return rows.writeStream.format("memory").start()

    report = spark_target("sessions", sessions, schemas="user STRING, at TIMESTAMP").verify(schedules=40)
    assert [finding.trial.cause for finding in report.job.findings if report.job] == [Cause.BATCHING]  # type: ignore[union-attr]


class _Sessions(StatefulProcessor):
    def __init__(self, gap_ms: int) -> None:
        self.gap_ms = gap_ms

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.session = handle.getValueState("session", "n INT, end LONG")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Any:
        for row in rows:
            n, end = self.session.get() or (0, 0)
            if n:
                self.handle.deleteTimer(end)
            end = max(end, ms(row) + self.gap_ms)
            self.session.update((n + 1, end))
            self.handle.registerTimer(end)
        return iter(())

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Any:
        yield Row(user=key[0], n=self.session.get()[0])
        self.session.clear()


def test_rows_are_drawn_for_each_type_from_the_seed() -> None:
    schema = parse_schema(
        "a STRING, b TINYINT, c BIGINT, d DOUBLE, e BOOLEAN, f BINARY, g DATE, h TIMESTAMP, i DECIMAL(4,2), j ARRAY<INT>,"
        "k MAP<STRING, INT>, l STRUCT<x: INT>"
    )
    assert drawn_batches(schema, 1) == drawn_batches(schema, 1) != drawn_batches(schema, 2)
    with pytest.raises(UndrawableError, match="INTERVAL YEAR TO MONTH"):
        drawn_batches(parse_schema("a INTERVAL YEAR TO MONTH"), 1)


def append_by_hand(df: Any, batch_id: int | None = None) -> None:
    append(df, batch_id or 0)


@pytest.mark.parametrize(
    "function", [append, replace_batch, append_by_hand], ids=lambda function: function.__name__
)
def test_function_of_a_frame_and_an_id_is_a_sink(function: Callable[..., Any]) -> None:
    assert spark_target("it", function, schemas=SCHEMA).job.sink.function is function
