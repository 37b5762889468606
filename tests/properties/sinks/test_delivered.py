"""A sink on rows as sources really deliver them: what it breaks on is found, and its sound twin is left alone."""

import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from headrace_properties.sinks import SinkReport, Wrong, check_sink, try_fault
from headrace_properties.sinks.bursts import may_split
from headrace_sim.deliveries import DELIVERIES, FeedSource, RowDelivery, future_row, spoiled_rows
from headrace_sim.spark.sinks.sink_effects import Effect
from tests.sim.spark.apart import call

_SCHEMA = "id INT, price DOUBLE"
_ROWS = [[(1, 1.5), (2, 2.5)], [(3, 3.5), (4, 4.5)]]
_Sink = Callable[[Any, int], None]


def _prepare() -> None:
    with sqlite3.connect("db") as db:
        db.execute("CREATE TABLE orders (batch INT, id INT, cents INT)")


def _written(batch: int, rows: list[tuple[int, int]]) -> None:
    with sqlite3.connect("db") as db:
        db.execute("BEGIN IMMEDIATE")
        db.execute("DELETE FROM orders WHERE batch = ?", (batch,))
        db.executemany("INSERT INTO orders VALUES (?, ?, ?)", [(batch, *row) for row in rows])


def _cents(row: Any) -> tuple[int, int]:
    return row.id, int(row.price * 100)


def takes_the_first_row(df: Any, batch: int) -> None:
    df.collect()[0]
    _written(batch, list(map(_cents, df.collect())))


def fails_on_nulls(df: Any, batch: int) -> None:
    _written(batch, list(map(_cents, df.collect())))


def gives_up_on_nulls(df: Any, batch: int) -> None:
    try:
        _written(batch, list(map(_cents, df.collect())))
    except TypeError:
        return


def sets_nulls_aside(df: Any, batch: int) -> None:
    _written(batch, list(map(_cents, df.dropna().collect())))


def leaves_out_what_fails(df: Any, batch: int) -> None:
    rows = []
    for row in df.collect():
        try:
            rows.append(_cents(row))
        except TypeError:
            continue
    _written(batch, rows)


def once_in_a_batch(df: Any, batch: int) -> None:
    _written(batch, list(map(_cents, df.dropna().dropDuplicates().collect())))


def once_for_ever(df: Any, batch: int) -> None:
    rows = list(map(_cents, df.dropna().dropDuplicates().collect()))
    with sqlite3.connect("db") as db:
        db.execute("BEGIN IMMEDIATE")
        known = {row[0] for row in db.execute("SELECT id FROM orders WHERE batch <> ?", (batch,))}
        db.execute("DELETE FROM orders WHERE batch = ?", (batch,))
        new = [(batch, *row) for row in rows if row[0] not in known]
        db.executemany("INSERT INTO orders VALUES (?, ?, ?)", new)


def _first_trials(sink: _Sink, **given: Any) -> SinkReport:
    return call(
        check_sink,
        sink,
        _ROWS,
        _SCHEMA,
        prepare=_prepare,
        overtaken=False,
        progress=lambda done, _: done > 0,
        **given,
    )


def _wrong(report: SinkReport) -> list[Wrong]:
    return [finding.wrong for finding in report.findings]


def test_batch_that_a_filter_empties_ends_a_sink_and_is_told_where_nothing_filters() -> None:
    report = _first_trials(takes_the_first_row, filters=True)
    assert _wrong(report) == [Wrong.STUCK]
    again = call(
        try_fault,
        takes_the_first_row,
        _ROWS,
        _SCHEMA,
        report.findings[0].fault,
        prepare=_prepare,
        filters=True,
    )
    assert [finding.wrong for finding in again.findings] == [Wrong.STUCK]
    unfiltered = _first_trials(takes_the_first_row)
    assert (_wrong(unfiltered), "a batch without rows ends the sink" in unfiltered.notes[0]) == ([], True)


def test_bad_record_that_ends_the_query_is_told_once_with_its_line() -> None:
    report = _first_trials(fails_on_nulls, filters=True)
    assert _wrong(report) == []
    assert len(report.notes) == 1
    assert (
        "one bad record ends the query: with the row (1, None), the sink raises TypeError" in report.notes[0]
    )


def test_bad_record_for_which_a_whole_batch_is_given_up_is_found() -> None:
    report = _first_trials(gives_up_on_nulls)
    assert _wrong(report) == [Wrong.SWALLOWED]
    assert "in batch 0, the sink caught TypeError" in report.findings[0].story
    again = call(try_fault, gives_up_on_nulls, _ROWS, _SCHEMA, report.findings[0].fault, prepare=_prepare)
    assert [finding.wrong for finding in again.findings] == [Wrong.SWALLOWED]
    assert _wrong(_first_trials(gives_up_on_nulls, allow={"loss"})) == []


def test_sink_that_takes_each_row_once_in_its_batch_is_asked_whether_rows_come_later_again() -> None:
    report = _first_trials(once_in_a_batch)
    assert (_wrong(report), [asked.about.value for asked in report.questions]) == ([], ["duplicates"])
    again = call(try_fault, once_in_a_batch, _ROWS, _SCHEMA, report.questions[0].fault, prepare=_prepare)
    assert [asked.about.value for asked in again.questions] == ["duplicates"]
    assert _first_trials(once_in_a_batch, allow={"duplicates"}).questions == ()


@pytest.mark.parametrize("sink", [sets_nulls_aside, leaves_out_what_fails, once_for_ever])
def test_sound_sink_is_left_alone(sink: _Sink) -> None:
    report = _first_trials(sink, filters=True)
    assert (_wrong(report), report.questions, report.notes) == ([], (), ())


_PAID = [[("ann", 1), ("ann", 2)], [("ann", 3), ("bob", 4)], [("ann", 5), ("bob", 6)]]
_PAID_SCHEMA = "name STRING, amount INT"


def _accounts() -> None:
    with sqlite3.connect("db") as db:
        db.execute("CREATE TABLE accounts (batch INT, name TEXT, amount INT, PRIMARY KEY (batch, name))")


def _paid(batch: int, amounts: dict[str, int]) -> None:
    with sqlite3.connect("db") as db:
        db.execute("BEGIN IMMEDIATE")
        db.executemany(
            "INSERT OR REPLACE INTO accounts VALUES (?, ?, ?)", [(batch, *paid) for paid in amounts.items()]
        )


def _totals(df: Any, key: Callable[[str], str]) -> dict[str, int]:
    totals = dict[str, int]()
    for row in df.dropna().collect():
        totals[key(row.name)] = totals.get(key(row.name), 0) + row.amount
    return totals


def one_account_in_a_batch_and_two_in_the_table(df: Any, batch: int) -> None:
    names = {row.name.strip().lower(): row.name for row in df.dropna().collect()}
    totals = _totals(df, lambda name: name.strip().lower())
    _paid(batch, {names[name]: total for name, total in totals.items() if name == names[name] or batch})


def keys_as_they_are(df: Any, batch: int) -> None:
    _paid(batch, _totals(df, str))


def keys_normalized(df: Any, batch: int) -> None:
    _paid(batch, _totals(df, lambda name: name.strip().lower()))


def _tried_keys(sink: _Sink, **given: Any) -> SinkReport:
    return call(
        check_sink, sink, _PAID, _PAID_SCHEMA, prepare=_accounts, overtaken=False, progress=lambda done, _: done > 0, **given
    )  # fmt: skip


@pytest.mark.parametrize("sink", [keys_as_they_are, keys_normalized])
def test_sink_that_takes_spellings_of_a_key_for_two_or_for_one_is_left_alone(sink: _Sink) -> None:
    report = _tried_keys(sink)
    assert (_wrong(report), report.questions) == ([], ())


def test_sink_that_takes_spellings_of_a_key_for_one_here_and_two_there_is_asked() -> None:
    (asked,) = _tried_keys(one_account_in_a_batch_and_two_in_the_table).questions
    assert (
        asked.about.value,
        "the keys 'ann' and 'ANN' are one key to a part of the sink" in str(asked),
    ) == ("alike", True)
    again = call(
        try_fault,
        one_account_in_a_batch_and_two_in_the_table,
        _PAID,
        _PAID_SCHEMA,
        asked.fault,
        prepare=_accounts,
    )
    assert [question.about.value for question in again.questions] == ["alike"]
    assert _tried_keys(one_account_in_a_batch_and_two_in_the_table, allow={"alike"}).questions == ()


def test_keys_that_are_declared_to_be_one_must_be_one() -> None:
    assert _wrong(_tried_keys(keys_as_they_are, source=FeedSource(keys_alike=True))) == [Wrong.ALIKE]
    assert _wrong(_tried_keys(keys_normalized, source=FeedSource(keys_alike=True))) == []


def knows_the_batch_before(df: Any, batch: int) -> None:
    with sqlite3.connect("db") as db:
        db.execute("BEGIN IMMEDIATE")
        known = {row[0] for row in db.execute("SELECT id FROM orders WHERE batch = ?", (batch - 1,))}
        rows = [
            (batch, *_cents(row)) for row in df.dropna().dropDuplicates().collect() if row.id not in known
        ]
        db.execute("DELETE FROM orders WHERE batch = ?", (batch,))
        db.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)


@pytest.mark.parametrize(
    ("sink", "wrong"), [(knows_the_batch_before, [Wrong.REDELIVERED]), (once_for_ever, [])]
)
def test_sink_that_forgets_what_it_has_known_is_found_where_rows_come_again_behind_all(
    sink: _Sink, wrong: list[Wrong]
) -> None:
    rows = [*_ROWS, [(5, 5.5)]]
    report = call(
        check_sink, sink, rows, _SCHEMA, prepare=_prepare, overtaken=False, source=FeedSource(once=False),
        progress=lambda done, _: done > 0,
    )  # fmt: skip
    assert _wrong(report) == wrong
    assert all("behind all others" in finding.story for finding in report.findings)


def _in_parts(batch: int, rows: list[tuple[int, int]], size: int, *, together: bool) -> None:
    db = sqlite3.connect("db", isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    if not db.execute("SELECT 1 FROM orders WHERE batch = ?", (batch,)).fetchone():
        for begin in range(0, len(rows), size):
            db.executemany(
                "INSERT INTO orders VALUES (?, ?, ?)", [(batch, *row) for row in rows[begin : begin + size]]
            )
            if begin + size < len(rows) and not together:
                db.execute("COMMIT")
                db.execute("BEGIN IMMEDIATE")
    db.execute("COMMIT")


def commits_each_part(df: Any, batch: int) -> None:
    _in_parts(batch, list(map(_cents, df.dropna().collect())), 500, together=False)


def commits_all_parts(df: Any, batch: int) -> None:
    _in_parts(batch, list(map(_cents, df.dropna().collect())), 500, together=True)


@pytest.mark.parametrize(("sink", "wrong"), [(commits_each_part, [Wrong.MISSING]), (commits_all_parts, [])])
def test_sink_that_commits_the_parts_of_a_large_batch_apart_is_killed_between_them(
    sink: _Sink, wrong: list[Wrong]
) -> None:
    report = call(check_sink, sink, _ROWS, _SCHEMA, prepare=_prepare, overtaken=False)
    assert _wrong(report) == wrong
    for found in report.findings:
        assert found.story.startswith("Of one batch of 1,200 rows, which it splits: ")
        again = call(try_fault, sink, _ROWS, _SCHEMA, found.fault, prepare=_prepare)
        assert [shown.wrong for shown in again.findings] == [Wrong.MISSING]


@pytest.mark.parametrize(
    ("places", "expected"), [(["a.py:1"] * 3, False), (["a.py:1"] * 3 + ["a.py:2"], True)]
)
def test_only_a_sink_with_an_effect_for_a_whole_batch_is_given_a_large_one(
    places: list[str], *, expected: bool
) -> None:
    """A store's client that is called for each row would only take long."""
    effects = [Effect(0, 0, "insert", "orders", place) for place in places]
    assert may_split([3, 1], [effects, effects[:1]]) is expected


def test_message_of_kafka_is_spoiled_and_moved_into_the_future_in_its_value() -> None:
    value = b'{"id":1,"at":"2030-01-01T00:10:00","ms":1893456600000}'
    rows = [[(b"ann", value, "orders", 0, 0, None, 0)]]
    assert [row[1] for row in spoiled_rows(rows)][:2] == [
        b"{",
        b'{"id":null,"at":"2030-01-01T00:10:00","ms":1893456600000}',
    ]
    assert {row[2] for row in spoiled_rows(rows)} == {"orders"}
    assert (future_row(rows) or ())[1] == b'{"id":1,"at":"2100-01-01T00:10:00","ms":4102444800000}'


def test_each_delivery_has_a_row_of_the_table_and_changes_batches() -> None:
    rows = [[(1, "2030-01-01", "ann")], [(2, "2030-01-02", "ann")]]
    assert [delivery for delivery in RowDelivery if DELIVERIES[delivery].of(rows) == rows] == []
