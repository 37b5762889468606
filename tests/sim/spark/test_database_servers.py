"""Sinks that write to a database server: an SQLite database answers, with the module's own placeholders and exceptions."""

import importlib
import sqlite3
import sys
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest.mock import Mock

import pytest

from headrace_properties.sinks import (
    SinkFailsError,
    SinkReport,
    UnfollowableSinkError,
    Wrong,
    check_sink,
)
from headrace_sim.spark.sinks import database_servers
from headrace_sim.spark.sinks.database_servers import databases_kept, look_for_bindings
from tests.sim.spark import server_like
from tests.sim.spark.server_like import connect
from tests.sim.spark.server_like.extras import execute_values

INSERT = "INSERT INTO payments VALUES (%s, %s, %s)"


def make_tables() -> None:
    with server_like.connect("dbname=bank user=me") as db, db.cursor() as cursor:
        cursor.execute("CREATE TABLE payments (batch INT, account TEXT, amount NUMERIC(10, 2))")
        cursor.execute("CREATE TABLE batches (id INT PRIMARY KEY)")


def id_first(df: Any, batch_id: int) -> None:
    db = server_like.connect(host="db.test", dbname="bank")
    try:
        with db, db.cursor() as cursor:
            cursor.execute("INSERT INTO batches VALUES (%(id)s::int)", {"id": batch_id})
            cursor.executemany(INSERT, [(batch_id, *row) for row in df.collect()])
    except server_like.IntegrityError:
        pass
    finally:
        db.close()


def no_id(df: Any, batch_id: int) -> None:
    db = connect("postgresql://me@db.test/bank")
    rows = [(batch_id, row.account, Decimal(row.amount)) for row in df.collect()]
    execute_values(db.cursor(), "INSERT INTO payments (batch, account, amount) VALUES %s", rows)
    db.commit()


def looked_up_first(df: Any, batch_id: int) -> None:
    with server_like.connect(database="bank") as db, db.cursor() as cursor:
        cursor.execute("SELECT 1 FROM payments WHERE batch = %s", (batch_id,))
        if not cursor.fetchone():
            cursor.executemany(INSERT, [(batch_id, *row) for row in df.collect()])


def each_statement_committed(df: Any, batch_id: int) -> None:
    db = server_like.connect(database="bank")
    db.autocommit = True
    cursor = db.cursor()
    cursor.execute("DELETE FROM payments WHERE batch = %s", (batch_id,))
    cursor.execute("INSERT INTO payments VALUES (%s, 'x', 1)", (batch_id,))


def written_again_after_a_lost_reply(df: Any, batch_id: int) -> None:
    rows = [(batch_id, *row) for row in df.collect()]
    try:
        with server_like.connect(database="bank") as db:
            db.execute("INSERT INTO batches VALUES (%s)", (batch_id,))
            db.cursor().executemany(INSERT, rows)
    except server_like.IntegrityError:
        pass  # it was written before
    except server_like.OperationalError:
        with server_like.connect(database="bank") as db:
            db.execute("INSERT OR IGNORE INTO batches VALUES (%s)", (batch_id,))
            db.cursor().executemany(INSERT, rows)


def imported_late(df: Any, batch_id: int) -> None:
    del sys.modules[server_like.__name__]
    from tests.sim.spark.server_like import connect  # noqa: PLC0415  as people write it

    with connect("dbname=bank") as db:
        db.cursor().executemany(INSERT, [(batch_id, *row) for row in df.collect()])


def imported_by_name(df: Any, batch_id: int) -> None:
    del sys.modules[server_like.__name__]
    with importlib.import_module(server_like.__name__).connect("dbname=bank") as db:
        db.cursor().executemany(INSERT, [(batch_id, *row) for row in df.collect()])


def _check(function: Callable[..., Any]) -> SinkReport:
    return check_sink(function, [[("ann", 10)]], "account STRING, amount INT", prepare=make_tables)


def test_rows_and_batch_id_in_one_transaction_of_a_server_hold() -> None:
    report = _check(id_first)
    assert (report.findings, report.unknown, report.effects) == ((), (), (3,))


@pytest.mark.parametrize(
    "function",
    [
        no_id,
        pytest.param(looked_up_first, marks=pytest.mark.nightly),
        pytest.param(each_statement_committed, marks=pytest.mark.nightly),
        written_again_after_a_lost_reply,
        imported_late,
        imported_by_name,
    ],
    ids=lambda function: function.__name__,
)
def test_rows_written_twice_to_a_server_are_found(function: Callable[..., Any]) -> None:
    destination = f"{server_like.__name__}-bank.db: payments"
    found = {(finding.wrong, finding.destination) for finding in _check(function).findings}
    assert found == {(Wrong.TWICE, destination)}


def _upserts(df: Any, batch_id: int) -> None:
    with connect("dbname=bank") as db:
        sql = "INSERT INTO balances (account, amount) VALUES (%s, %s) ON CONFLICT (account) DO NOTHING"
        db.cursor().executemany(sql, df.collect())


def _inserts(df: Any, batch_id: int) -> None:
    with connect("dbname=bank") as db:
        db.cursor().executemany("INSERT INTO moves (account, amount) VALUES (%s, %s)", df.collect())


@pytest.mark.parametrize(("function", "wrong"), [(_upserts, set()), (_inserts, {Wrong.TWICE})])
def test_table_that_nothing_makes_is_as_its_insert_says(
    function: Callable[..., Any], wrong: set[Wrong]
) -> None:
    report = check_sink(function, [[("ann", 10)]], "account STRING, amount INT")
    assert {finding.wrong for finding in report.findings} == wrong
    assert "nothing has made the table" in report.notes[0]


def test_sql_unknown_to_sqlite_raises_the_modules_error() -> None:
    def lock(df: Any, batch_id: int) -> None:
        connect("dbname=bank").cursor().execute("SELECT id FROM batches FOR UPDATE")

    with pytest.raises(SinkFailsError, match=r"OperationalError: near .*SQLite answers for"):
        _check(lock)


@pytest.mark.parametrize(
    ("use", "call"),
    [
        (lambda db: db.cursor().copy_expert("COPY", None), "cursor.copy_expert"),
        (lambda db: db.cursor(cursor_factory=dict), "cursor() with arguments"),
        (lambda db: db.set_session(), "connection.set_session"),
    ],
    ids=["copy", "factory", "session"],
)
def test_calls_without_a_stand_in_are_refused_by_name(use: Callable[[Any], Any], call: str) -> None:
    with pytest.raises(UnfollowableSinkError) as caught:
        _check(lambda df, batch_id: use(connect("dbname=bank")))
    assert call in str(caught.value)


def test_what_a_program_makes_first_is_kept_apart_and_each_trial_begins_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program makes its tables before its query starts, beside a database that was there."""
    monkeypatch.chdir(tmp_path)
    with sqlite3.connect("there.db") as db:
        db.execute("CREATE TABLE before (n INT)")
    real = server_like.connect, sqlite3.connect
    with databases_kept() as kept:
        make_tables()
        with sqlite3.connect("there.db") as db:
            db.execute("CREATE TABLE after (n INT)")
            assert db.execute("SELECT count(*) FROM before").fetchone() == (0,)
    assert (server_like.connect, sqlite3.connect) == real
    assert [path.name for path in tmp_path.iterdir()] == ["there.db"]
    assert sorted(kept.files) == ["tests.sim.spark.server_like-bank.db", "there.db"]
    with sqlite3.connect("there.db") as db:
        assert db.execute("SELECT name FROM sqlite_master").fetchall() == [("before",)]
    schema = "account STRING, amount INT"
    assert check_sink(id_first, [[("ann", 10)]], schema, prepare=kept.restore).holds
    assert not check_sink(no_id, [[("ann", 10)]], schema, prepare=kept.restore).holds


def extras_late(df: Any, batch_id: int) -> None:
    """Write as `no_id` does, but import what psycopg2 has beside PEP 249 only here."""
    from tests.sim.spark.server_like.extras import execute_values  # noqa: PLC0415  as people write it

    with connect("dbname=bank") as db:
        cursor = db.cursor()
        cursor.execute("CREATE TABLE IF NOT EXISTS late (account TEXT, amount INT)")
        rows = [(row.account, row.amount) for row in df.collect()]
        execute_values(cursor, "INSERT INTO late (account, amount) VALUES %s", rows)
        db.commit()


def test_extras_that_are_imported_late_are_answered_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, server_like.extras.__name__)
    monkeypatch.delattr(server_like, "extras")
    assert not check_sink(extras_late, [[("ann", 10)]], "account STRING, amount INT").holds


def test_what_replaces_a_function_is_not_looked_for_where_two_modules_share_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To look costs each attempt more than its sink does: it copies the pages of all modules."""
    twin = ModuleType("twin_like")
    vars(twin).update(apilevel="2.0", paramstyle="format", connect=lambda: None)
    monkeypatch.setitem(sys.modules, "twin_like", twin)
    monkeypatch.setitem(sys.modules, "twin_like.extras", server_like.extras)
    look_for_bindings()
    looks = Mock(return_value=[])
    monkeypatch.setattr(database_servers, "_bindings", looks)
    with databases_kept():
        within = looks.call_count
    assert within == 0
