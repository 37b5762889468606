"""The undisturbed run is judged, too: what a sink loses while nothing fails is found; what it leaves out on purpose is not."""

import sqlite3
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest
from pyspark.sql import functions as F

from headrace_properties.sinks import RowsOf, SinkReport, Wrong, check_sink, try_fault
from headrace_sim.deliveries import FeedSource
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from tests.nights import others_at_night
from tests.sim.spark.apart import call

_SCHEMA = "id INT, name STRING, version INT"
_ROWS = [[(1, "ann", 5), (2, "bob", 7), (3, "eve", 2)], [(2, "bill", 6)]]
_UPSERT = "INSERT INTO people VALUES (?, ?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name, version = excluded.version"
_IF_NEWER = f"{_UPSERT} WHERE excluded.version > version"


def _prepare() -> None:
    with sqlite3.connect("db") as db:
        db.execute("CREATE TABLE rows (batch INT, id INT, name TEXT, version INT)")
        db.execute("CREATE TABLE people (id INT PRIMARY KEY, name TEXT, version INT)")
        db.execute("CREATE TABLE latest (id INT, name TEXT, version INT)")
        db.execute("CREATE TABLE totals (name TEXT PRIMARY KEY, n INT)")
        db.execute("CREATE TABLE done (batch INT PRIMARY KEY)")


def _once(write: Callable[[Any, list[Any], int], None]) -> Callable[[Any, int], None]:
    """Return a sink that writes each batch in one transaction with its id, which nothing that fails can break."""

    @wraps(write)
    def sink(df: Any, batch_id: int) -> None:
        rows = [tuple(row) for row in df.collect()]
        db = sqlite3.connect("db", isolation_level=None)
        db.execute("BEGIN IMMEDIATE")
        if db.execute("SELECT 1 FROM done WHERE batch = ?", (batch_id,)).fetchone() is None:
            db.execute("INSERT INTO done VALUES (?)", (batch_id,))
            write(db, rows, batch_id)
        db.execute("COMMIT")

    return sink


def _add(db: Any, rows: list[Any], batch: int) -> None:
    db.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", [(batch, *row) for row in rows])


def _newest(rows: list[Any]) -> list[Any]:
    return list({row[0]: row for row in sorted(rows, key=lambda row: row[2])}.values())


# Wrong ones.


@_once
def newest_of_the_batch(db: Any, rows: list[Any], batch: int) -> None:
    db.executemany(_UPSERT, _newest(rows))


@_once
def every_other_batch(db: Any, rows: list[Any], batch: int) -> None:
    if batch % 2 == 0:
        _add(db, rows, batch)


@_once
def no_small_batches(db: Any, rows: list[Any], batch: int) -> None:
    if len(rows) > 1:
        _add(db, rows, batch)


@_once
def table_emptied_first(db: Any, rows: list[Any], batch: int) -> None:
    db.execute("DELETE FROM latest")
    db.executemany("INSERT INTO latest VALUES (?, ?, ?)", rows)


@_once
def gives_up_at_a_bad_row(db: Any, rows: list[Any], batch: int) -> None:
    try:
        for row in rows:
            _add(db, [(row[0] + 0 // (row[2] - 5), *row[1:])], batch)
    except ZeroDivisionError:
        pass


@_once
def all_but_the_last(db: Any, rows: list[Any], batch: int) -> None:
    _add(db, sorted(rows)[:-1], batch)


def overwritten(df: Any, batch_id: int) -> None:
    df.write.mode("overwrite").parquet("s3a://bucket/people")


def partition_of_another_column(df: Any, batch_id: int) -> None:
    by_name = df.withColumn("kind", F.lit("person")).write.mode("overwrite").partitionBy("kind")
    by_name.option("partitionOverwriteMode", "dynamic").parquet("s3a://bucket/people")


def written_once_only(df: Any, batch_id: int) -> None:
    df.write.format("jdbc").option("dbtable", "people").save()


WRONG = {
    newest_of_the_batch: Wrong.STALE,
    every_other_batch: Wrong.LOST,
    no_small_batches: Wrong.LOST,
    table_emptied_first: Wrong.OVERWRITTEN,
    gives_up_at_a_bad_row: Wrong.SWALLOWED,
    overwritten: Wrong.OVERWRITTEN,
    partition_of_another_column: Wrong.OVERWRITTEN,
    written_once_only: Wrong.STUCK,
}


# Right ones.


@_once
def newer_than_what_is_there(db: Any, rows: list[Any], batch: int) -> None:
    db.executemany(_IF_NEWER, _newest(rows))


@_once
def filtered(db: Any, rows: list[Any], batch: int) -> None:
    _add(db, [row for row in rows if row[2] > 2], batch)


@_once
def counted(db: Any, rows: list[Any], batch: int) -> None:
    for row in rows:
        db.execute("INSERT INTO totals VALUES (?, 1) ON CONFLICT (name) DO UPDATE SET n = n + 1", (row[1],))


@_once
def latest_batch_beside_all_rows(db: Any, rows: list[Any], batch: int) -> None:
    _add(db, rows, batch)
    db.execute("DELETE FROM latest")
    db.executemany("INSERT INTO latest VALUES (?, ?, ?)", sorted(rows))


@_once
def best_two(db: Any, rows: list[Any], batch: int) -> None:
    db.executemany(_IF_NEWER, _newest(rows))
    db.execute("DELETE FROM people WHERE id NOT IN (SELECT id FROM people ORDER BY version DESC LIMIT 2)")


@_once
def bad_rows_set_aside(db: Any, rows: list[Any], batch: int) -> None:
    for row in rows:
        try:
            _add(db, [(row[0] + 0 // (row[2] - 5), *row[1:])], batch)
        except ZeroDivisionError:
            db.execute("INSERT INTO latest VALUES (?, ?, ?)", row)


@_once
def row_that_says_how_the_others_are_written(db: Any, rows: list[Any], batch: int) -> None:
    _add(db, [row for row in rows if row[1] != "eve"], batch + 100 * any(row[1] == "eve" for row in rows))


def partition_of_the_batch(df: Any, batch_id: int) -> None:
    of_batch = df.withColumn("batch", F.lit(batch_id)).write.mode("overwrite").partitionBy("batch")
    of_batch.option("partitionOverwriteMode", "dynamic").parquet("s3a://bucket/people")


RIGHT = (
    newer_than_what_is_there,
    filtered,
    counted,
    latest_batch_beside_all_rows,
    best_two,
    bad_rows_set_aside,
    row_that_says_how_the_others_are_written,
    partition_of_the_batch,
)
LIKE_OTHERS = {every_other_batch, overwritten, latest_batch_beside_all_rows, best_two}
"""They show nothing that another one does not."""


def _check(sink: Callable[..., Any], rows: Any = _ROWS, **options: Any) -> SinkReport:
    return call(check_sink, sink, rows, _SCHEMA, prepare=_prepare, overtaken=False, **options)


def test_row_that_is_left_out_for_the_number_of_rows_is_found_by_those_that_it_lets_in() -> None:
    """Without the last row of a batch the one before it is left out: that is no trace of the last one."""
    report = _check(all_but_the_last, [[(1, "ann", 5), (2, "bob", 7)], [(3, "eve", 2), (4, "joe", 1)]])
    assert [(finding.wrong, "(2, 'bob', 7)" in finding.story) for finding in report.findings] == [
        (Wrong.LOST, True)
    ]


@pytest.mark.parametrize(
    "sink", others_at_night(set(WRONG) - LIKE_OTHERS, WRONG), ids=lambda sink: getattr(sink, "__name__", "")
)
def test_rows_that_are_lost_while_nothing_fails_are_found(sink: Callable[..., Any]) -> None:
    undisturbed = SinkFault(SinkFaultKind.NONE, 0, 0)
    found = call(try_fault, sink, _ROWS, _SCHEMA, undisturbed, prepare=_prepare).findings
    assert [finding.wrong for finding in found] == [WRONG[sink]]


@pytest.mark.parametrize(
    "sink", others_at_night(set(RIGHT) - LIKE_OTHERS, RIGHT), ids=lambda sink: getattr(sink, "__name__", "")
)
def test_rows_that_are_left_out_on_purpose_are_not(sink: Callable[..., Any]) -> None:
    undisturbed = SinkFault(SinkFaultKind.NONE, 0, 0)
    assert call(try_fault, sink, _ROWS, _SCHEMA, undisturbed, prepare=_prepare).findings == ()


def test_correct_row_is_not_said_to_be_there_instead_of_the_stale_one() -> None:
    def without_a_fence(df: Any, batch_id: int) -> None:
        with sqlite3.connect("db") as db:
            db.executemany(_UPSERT, _newest([tuple(row) for row in df.collect()]))

    report = call(check_sink, without_a_fence, _ROWS, _SCHEMA, prepare=_prepare)
    assert {finding.wrong for finding in report.findings} == {Wrong.STALE}
    assert "the row (2, 'bob', 7) is not in db: people, and the row (2, 'bill', 6) is there" in str(
        report.findings[0]
    )


def test_error_that_loses_only_its_own_row_is_a_question_and_a_filter_a_note() -> None:
    @_once
    def bad_rows_left_out(db: Any, rows: list[Any], batch: int) -> None:
        for row in rows:
            try:
                _add(db, [(row[0] + 0 // (row[2] - 5), *row[1:])], batch)
            except ZeroDivisionError:
                continue

    report = _check(bad_rows_left_out, _ROWS[:1])
    assert report.findings == ()
    assert "the row (1, 'ann', 5) is in no effect, and the sink caught ZeroDivisionError" in str(
        report.questions[0]
    )
    assert _check(bad_rows_left_out, _ROWS[:1], allow=["loss"]).holds
    report = _check(filtered, _ROWS[:1])
    assert report.holds
    assert "the row (3, 'eve', 2) is in no effect, in whatever batch" in report.notes[0]


def test_older_version_that_a_newer_one_replaces_is_told_as_written() -> None:
    report = _check(newer_than_what_is_there, [[(1, "ann", 5)], [(1, "anne", 7)]])
    assert report.findings == ()
    assert any("the row (1, 'ann', 5) is written, and replaced in whatever" in note for note in report.notes)


def test_last_row_of_a_key_is_a_matter_of_order_that_only_the_author_knows() -> None:
    @_once
    def last(db: Any, rows: list[Any], batch: int) -> None:
        db.executemany(_UPSERT, rows)

    rows = [[(2, "bob", 7), (2, "bill", 6)]]
    report = _check(last, rows)
    assert report.findings == ()
    assert "say --allow order" in str(report.questions[0])
    assert _check(last, rows, allow=["order"]).holds


def test_whole_result_may_replace_the_one_before() -> None:
    growing = [[(1, "ann", 1)], [(1, "ann", 2), (2, "bob", 1)]]
    assert call(check_sink, overwritten, growing, _SCHEMA).holds
    report = call(check_sink, overwritten, _ROWS, _SCHEMA, rows_of=RowsOf.UNKNOWN)
    assert report.findings == ()
    assert "each batch replaces the whole of s3a://bucket/people" in str(report.questions[0])


def test_cause_leads_and_hides_what_follows_from_it() -> None:
    waiting: list[Any] = []

    def with_the_next_batch(df: Any, batch_id: int) -> None:
        waiting.extend((batch_id, *row) for row in df.collect())
        if batch_id % 2:
            with sqlite3.connect("db") as db:
                db.execute("DELETE FROM rows WHERE batch >= ?", (batch_id - 1,))
                db.executemany("INSERT INTO rows VALUES (?, ?, ?, ?)", waiting)
            waiting.clear()

    report = _check(with_the_next_batch, _ROWS)
    assert [finding.wrong for finding in report.findings] == [Wrong.MEMORY]


def test_error_that_a_sink_caught_in_a_trial_is_blamed_for_missing_rows() -> None:
    def goes_on(df: Any, batch_id: int) -> None:
        try:
            with sqlite3.connect("db") as db:
                db.execute("DELETE FROM rows WHERE batch = ?", (batch_id,))
                db.executemany(
                    "INSERT INTO rows VALUES (?, ?, ?, ?)", [(batch_id, *row) for row in df.collect()]
                )
        except sqlite3.Error:
            pass

    found = call(check_sink, goes_on, _ROWS, _SCHEMA, prepare=_prepare).findings
    told = next(str(finding) for finding in found if finding.fault.kind is SinkFaultKind.PAUSE)
    assert "the sink caught OperationalError: database is locked" in told
    assert told.endswith("Let the error be raised: Spark then runs the batch again.")


@pytest.mark.parametrize(
    ("sink", "holds"), [(counted, False), (newer_than_what_is_there, True)], ids=["adds", "compares"]
)
def test_rows_that_the_source_delivers_twice_are_tried(sink: Callable[..., Any], holds: bool) -> None:
    report = _check(sink, _ROWS, source=FeedSource(once=False))
    assert report.holds == holds
    if not holds:
        assert report.findings[0].wrong is Wrong.REDELIVERED
        again = call(try_fault, sink, _ROWS, _SCHEMA, report.findings[0].fault, prepare=_prepare)
        assert again.findings[0].wrong is Wrong.REDELIVERED
