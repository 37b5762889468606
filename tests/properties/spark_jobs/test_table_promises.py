"""Promises about what a sink leaves: planted sinks that break one without any failure, and their sound twins."""

import json
import sqlite3
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, tzinfo
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pandas as pd
import pytest
from pyspark.sql import Row

from headrace_properties.promises import (
    Broken,
    Promise,
    PromiseError,
    PromiseKind,
    Unexercised,
    always,
    answered_once,
    at_end,
    expected,
    never,
    newest_wins,
    no_gap,
    same_total,
    unique,
)
from headrace_properties.query_search import Again, QuerySearch
from headrace_properties.replays import ReplayFile
from headrace_properties.sinks.trial import undisturbed_run
from headrace_properties.spark_jobs.feeds.versioned_rows import in_versions
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_properties.spark_jobs.promised import JobMoment
from headrace_properties.spark_jobs.proposals import proposals
from headrace_properties.spark_jobs.table_judge import TableJudge
from headrace_properties.spark_jobs.targets import SparkTarget
from headrace_properties.spark_jobs.trials import SinkTrial
from headrace_properties.target import SparkSource
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.sink_runs import Sight
from headrace_sim.spark.sinks.trial_contents import value_of

Sink = Callable[[Any, int], None]
MAIL = "http://mail/send"
UNDISTURBED = SinkFault(SinkFaultKind.NONE, 0, 0)


def _rows(df: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in df.collect()]


def upsert(condition: str) -> Sink:
    """Keep orders by id, an older version only if it meets a condition."""

    def write(df: Any, _batch_id: int) -> None:
        with sqlite3.connect("shop.db") as db:
            db.execute("CREATE TABLE IF NOT EXISTS orders (id INT PRIMARY KEY, version INT)")
            update = f"ON CONFLICT (id) DO UPDATE SET version = excluded.version {condition}"
            db.executemany(f"INSERT INTO orders VALUES (?, ?) {update}", _rows(df.sort("version")))  # noqa: S608

    return write


def append(*, once: bool) -> Sink:
    """Add payments, each id ``once`` or as often as the source delivers it."""

    def write(df: Any, batch_id: int) -> None:
        with sqlite3.connect("bank.db") as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("CREATE TABLE IF NOT EXISTS payments (id INT, amount INT)")
            db.execute("CREATE TABLE IF NOT EXISTS batches (batch INT)")
            if db.execute("SELECT 1 FROM batches WHERE batch = ?", (batch_id,)).fetchone():
                return
            db.execute("INSERT INTO batches VALUES (?)", (batch_id,))
            for row in df.sort("id").collect():
                known = db.execute("SELECT 1 FROM payments WHERE id = ?", (row.id,)).fetchone()
                if not (once and known):
                    db.execute("INSERT INTO payments VALUES (?, ?)", (row.id, row.amount))

    return write


def book(*, fee: int) -> Sink:
    """Keep each payment and the balance, which loses a fee."""

    def write(df: Any, batch_id: int) -> None:
        with sqlite3.connect("bank.db") as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("CREATE TABLE IF NOT EXISTS payments (batch INT, id INT, amount INT)")
            db.execute("CREATE TABLE IF NOT EXISTS balances (id INT PRIMARY KEY, amount INT)")
            if db.execute("SELECT 1 FROM payments WHERE batch = ?", (batch_id,)).fetchone():
                return
            for id_, amount in sorted(_rows(df)):
                db.execute("INSERT INTO payments VALUES (?, ?, ?)", (batch_id, id_, amount))
                add = "ON CONFLICT (id) DO UPDATE SET amount = amount + excluded.amount"
                db.execute(f"INSERT INTO balances VALUES (?, ?) {add}", (id_, amount - fee))  # noqa: S608

    return write


def number(*, from_table: bool) -> Sink:
    """Give each row a number, from the table or by the id of its batch."""

    def write(df: Any, batch_id: int) -> None:
        with sqlite3.connect("log.db") as db:
            db.execute("BEGIN IMMEDIATE")
            db.execute("CREATE TABLE IF NOT EXISTS log (number INT, id INT, batch INT)")
            if db.execute("SELECT 1 FROM log WHERE batch = ?", (batch_id,)).fetchone():
                return
            for place, (id_, _) in enumerate(sorted(_rows(df))):
                (known,) = db.execute("SELECT count(*) FROM log").fetchone()
                at = known if from_table else 10 * batch_id + place
                db.execute("INSERT INTO log VALUES (?, ?, ?)", (at, id_, batch_id))

    return write


def tell(*, once: bool) -> Sink:
    """Send a mail for each row, or for each order, by a key that makes it known."""

    def write(df: Any, _batch_id: int) -> None:
        for order, amount in sorted(_rows(df)):
            key = str(order) if once else f"{order}-{amount}"
            body = json.dumps({"order": order}).encode()
            request = urllib.request.Request(MAIL, body, {"Idempotency-Key": key})
            urllib.request.urlopen(request).read()  # noqa: S310  the trial answers it

    return write


def to_file(*, rounded: bool) -> Sink:
    """Write each batch to a file of its own."""

    def write(df: Any, batch_id: int) -> None:
        part = Path(f"part-{batch_id}.tmp")
        lines = [
            json.dumps({"id": id_, "amount": amount // 10 * 10 if rounded else amount})
            for id_, amount in sorted(_rows(df))
        ]
        part.write_text("\n".join(lines))
        part.rename(f"part-{batch_id}.jsonl")

    return write


@expected(table="bank.db: balances")
def balance_of_each_account(rows: tuple[Any, ...]) -> list[dict[str, Any]]:
    """Each account has the sum of its payments."""
    return [
        {"id": id_, "amount": sum(row.amount for row in rows if row.id == id_)}
        for id_ in {row.id for row in rows}
    ]


@expected(table="balances")
def balance_by_pandas(payments: pd.DataFrame) -> pd.DataFrame:
    return payments.groupby("id", as_index=False)["amount"].sum()


@always(table=["payments", "balances"])
def balances_are_never_behind(moment: Any) -> None:
    assert sum(row.amount for row in moment.table("payments")) == sum(
        row.amount for row in moment.table("balances")
    )


SUMS = "SELECT id, sum(amount) AS amount FROM"
BALANCES, LESS = "(1, 15), (2, 20), (3, 7)", "(1, 13), (2, 19), (3, 6)"
DOUBLED = "payments has id=2 2 times: Row(id=2, amount=20), Row(id=2, amount=20)"
PAID = [[(1, 10), (2, 20)], [(1, 5)], [(3, 7)]]
TWICE = [[(1, 10), (2, 20)], [(2, 20)], [(3, 7)]]
VERSIONS = [[(1, 1), (2, 5)], [(1, 3)], [(2, 4)]]


@dataclass(frozen=True)
class Plant:
    """A sink that breaks a promise, and its sound twin."""

    wrong: Sink
    sound: Sink
    promise: Promise
    feed: list[list[tuple[int, int]]]
    why: str
    columns: str = "id INT, amount INT"


PLANTS = {
    "old-over-new": Plant(
        upsert(""), upsert("WHERE excluded.version > version"), newest_wins("id", version="version", table="orders"),
        VERSIONS, "orders has Row(id=2, version=4), and a newer version came: Row(id=2, version=5)", "id INT, version INT",
    ),
    "delivered-twice": Plant(
        append(once=False), append(once=True), unique("id", table="payments"), TWICE, DOUBLED,
    ),
    "totals": Plant(
        book(fee=1), book(fee=0), same_total({"payments": "amount", "balances": "amount"}), PAID,
        "payments has 42, but balances has 38",
    ),
    "total-of-input": Plant(
        append(once=True), append(once=False), same_total({"input": "amount", "payments": "amount"}), PAID,
        "the input has 42, but payments has 37",
    ),
    "expected": Plant(
        book(fee=1), book(fee=0), balance_of_each_account, PAID, f"missing: {BALANCES}; not expected: {LESS}",
    ),
    "pandas": Plant(
        book(fee=1), book(fee=0), balance_by_pandas, PAID, f"missing: {BALANCES}; not expected: {LESS}",
    ),
    "sql": Plant(
        book(fee=1), book(fee=0), expected(sql=f"{SUMS} input GROUP BY id", table="balances"), PAID,
        f"missing: {BALANCES}; not expected: {LESS}",
    ),
    "sql of another table": Plant(
        book(fee=1), book(fee=0), expected(sql=f'{SUMS} "bank.db: payments" GROUP BY id', table="balances"), PAID,
        f"missing: {BALANCES}; not expected: {LESS}",
    ),
    "gap": Plant(
        number(from_table=False), number(from_table=True), no_gap("number", table="log"), PAID,
        "log has 1 and then 10 as number",
    ),
    "told-twice": Plant(
        tell(once=False), tell(once=True), unique("order", table=MAIL), PAID,
        f"{MAIL} has order=1 2 times: Row(order=1), Row(order=1)",
    ),
    "files": Plant(
        to_file(rounded=True), to_file(rounded=False), same_total({"input": "amount", "part-*.jsonl": "amount"}), PAID,
        "the input has 42, but part-*.jsonl has 30",
    ),
    "answered-once": Plant(
        append(once=False), append(once=True), answered_once(by="id", table="payments"), TWICE,
        DOUBLED,
    ),
}  # fmt: skip


def target_of(plant: Plant, sink: Sink, *promises: Promise) -> SparkTarget:
    asked = promises or (plant.promise,)
    return spark_target("plant", sink, schemas=plant.columns, feed=plant.feed, promises=asked)


def seen(plant: Plant, sink: Sink, fault: SinkFault = UNDISTURBED, *promises: Promise) -> str:
    """Return how a promise is broken in one run; "": it is kept."""
    target = target_of(plant, sink, *promises)
    found = target.broken_again(SinkTrial(fault, promise=target.promises[0].name))
    return "" if found is None else found.message


@pytest.mark.parametrize("name", PLANTS)
def test_broken_promise_is_found_without_any_failure(name: str) -> None:
    plant = PLANTS[name]
    assert seen(plant, plant.wrong) == f"in the end, without any failure: {plant.why}"


@pytest.mark.parametrize("name", PLANTS)
def test_sound_twin_keeps_its_promise(name: str) -> None:
    plant = PLANTS[name]
    assert seen(plant, plant.sound) == ""


def test_broken_promise_leads_the_report_and_is_shown_again_by_its_replay_file() -> None:
    plant = replace(PLANTS["gap"], feed=[[(1, 10)], [(2, 5)]])
    target = target_of(plant, plant.wrong)
    trials = QuerySearch(target, lambda _: target, SparkSource("plant", feed="feed"), 0)
    finding = target.verify(overtaken=False).findings[0]
    assert finding.kind.title == f"the promise {plant.promise.name}"
    assert len(finding.trial.kept) == 2  # one row of each of two batches
    data = trials.replay(finding)
    assert data is not None
    replay = msgspec.json.decode(data, type=ReplayFile)
    assert isinstance(replay.trial, SinkTrial)
    again = Again(replay, replay.trial, target).finding
    assert again is not None
    assert str(again) == str(finding)
    gone = spark_target("plant", plant.wrong, schemas=plant.columns, feed=plant.feed)
    assert "which the module no longer makes" in Again(replay, replay.trial, gone).wrong


def test_keys_come_in_versions_only_where_a_promise_needs_them() -> None:
    columns, promise = "id INT, version INT", newest_wins("id", version="version", table="orders")
    sink, sound = upsert(""), upsert("WHERE excluded.version > version")
    (plain, wrong, twin) = (
        spark_target("plant", function, schemas=columns, promises=promises)
        for function, promises in ((sink, []), (sink, [promise]), (sound, [promise]))
    )
    trial = SinkTrial(UNDISTURBED, promise=promise.name)
    assert len({row[0] for batch in plain.feed for row in batch}) > len(
        {row[0] for batch in wrong.feed for row in batch}
    )
    assert wrong.broken_again(trial) is not None
    assert twin.broken_again(trial) is None


def test_versions_are_drawn_within_the_json_of_kafka_too() -> None:
    promise = newest_wins("id", version="n", table="orders")
    rows = [[(json.dumps({"id": number, "n": number}).encode(), 7)] for number in range(4)]
    changed = in_versions(rows, ["value", "offset"], [promise])
    told = [json.loads(value) for batch in changed for value, _ in batch]
    assert told == [{"id": 0, "n": 2}, {"id": 1, "n": 1}, {"id": 0, "n": 0}, {"id": 1, "n": 3}]


def proposed(columns: str, sink: Sink, feed: Any) -> dict[str, str]:
    target = spark_target("plant", sink, schemas=columns, feed=feed)
    calm = undisturbed_run(*target.sink_call(), None).at_end(len(feed))
    return {proposal.code: proposal.broken for proposal in proposals(target, calm)}


def test_promises_are_proposed_from_keys_versions_and_totals_and_tried() -> None:
    unique_id = 'unique("id", table="shop.db: orders")'
    newest = 'newest_wins("id", version="version", table="shop.db: orders")'
    found = proposed("id INT, version INT", upsert(""), [[(1, 1), (2, 5)], [(3, 3)]])
    assert found.keys() == {unique_id, newest}
    assert found[unique_id] == ""
    assert found[newest].startswith("shop.db: orders has Row(id=")
    sound = upsert("WHERE excluded.version > version")
    assert proposed("id INT, version INT", sound, [[(1, 1), (2, 5)], [(3, 3)]]) == {unique_id: "", newest: ""}


def test_totals_of_the_input_and_of_two_tables_are_proposed() -> None:
    found = proposed("id INT, amount INT", book(fee=1), PAID)
    total = 'same_total({"input": "amount", "bank.db: balances": "amount", "bank.db: payments": "amount"})'
    assert found[total] == "the input has 42, bank.db: balances has 38, bank.db: payments has 42"
    assert proposed("id INT, amount INT", book(fee=0), PAID)[total] == ""


@pytest.mark.parametrize("zone", [None, UTC])
def test_versions_that_are_times_are_compared_with_their_text_in_a_table(zone: tzinfo | None) -> None:
    came = tuple(Row(id=1, at=datetime(2030, 1, day, tzinfo=zone)) for day in (2, 1))
    promise = newest_wins("id", version="at", table="orders")
    kept, old = ({"shop.db: orders": (Row(id=1, at=f"2030-01-0{day} 00:00:00"),)} for day in (2, 1))
    assert promise(JobMoment(came, came, {}, 0, kept)) is None  # type: ignore[arg-type]
    with pytest.raises(Broken, match="a newer version came: Row"):
        promise(JobMoment(came, came, {}, 0, old))  # type: ignore[arg-type]


def moment_of(*came: Row, **tables: tuple[Row, ...]) -> Any:
    return JobMoment(came, came, {}, 0, tables)


def test_sql_and_tables_compare_times_decimals_and_structs_as_sqlite_keeps_them() -> None:
    came = Row(at=datetime(2030, 1, 1, tzinfo=UTC), price=Decimal("0.10"), item=Row(name="x"), paid=True)
    kept = Row(at="2030-01-01 00:00:00", price=Decimal("0.1"), item='{"name": "x"}', paid=True)
    promise = expected(sql="SELECT * FROM input", table="orders")
    assert promise(moment_of(came, orders=(kept,))) is None
    with pytest.raises(Broken, match="missing: "):
        promise(moment_of(came, orders=()))
    with pytest.raises(Unexercised, match="input has no rows"):
        promise(moment_of(orders=(kept,)))


def test_frame_without_rows_and_times_without_a_value_are_compared() -> None:
    @expected(table="orders")
    def late(orders: "pd.DataFrame") -> Any:
        return orders[orders["at"].isna()]

    came = Row(id=1, at=datetime(2030, 1, 1, tzinfo=UTC)), Row(id=2, at=None)
    assert late(moment_of(*came, orders=(Row(id=2, at=None),))) is None
    assert late(moment_of(came[0], orders=())) is None
    with pytest.raises(Broken, match="not expected"):
        late(moment_of(came[0], orders=(Row(id=2, at=None),)))


def test_always_reads_what_is_committed_where_a_driver_dies() -> None:
    """Two transactions: in between, the balances are behind. One transaction: never."""

    def twice(df: Any, batch_id: int) -> None:
        rows = _rows(df)
        for table in ("payments", "balances"):
            with sqlite3.connect("bank.db") as db:
                db.execute(f"CREATE TABLE IF NOT EXISTS {table} (batch INT, amount INT)")
                if not db.execute(f"SELECT 1 FROM {table} WHERE batch = ?", (batch_id,)).fetchone():  # noqa: S608
                    paid = [(batch_id, amount) for _, amount in rows]
                    db.executemany(f"INSERT INTO {table} VALUES (?, ?)", paid)  # noqa: S608

    plant = PLANTS["totals"]
    same = same_total({"payments": "amount", "balances": "amount"}, when=PromiseKind.ALWAYS, name="same")
    between = SinkFault(SinkFaultKind.KILL, 1, 3)
    told = seen(plant, twice, between, same)
    assert told.startswith("without any failure, in batch 1 after commit on bank.db (")
    assert told.endswith("payments has 35, but balances has 30")
    assert seen(plant, twice, between, plant.promise) == ""
    assert seen(plant, plant.sound, between, balances_are_never_behind) == ""


def test_redelivered_rows_are_judged_by_the_promises_too() -> None:
    plant = replace(PLANTS["delivered-twice"], feed=[[(1, 10)], [(2, 5)]])
    assert seen(plant, plant.wrong) == ""
    told = seen(plant, plant.wrong, SinkFault(SinkFaultKind.DELIVERED, 0, 0))
    assert told.startswith("the source delivers each row twice in its batch; in the end: payments has id=")


@at_end(table="refunds")
def of_no_table(moment: Any) -> bool:
    return bool(moment.table("refunds"))


@at_end(table="payments")
def of_no_column(moment: Any) -> bool:
    return bool([row["price"] for row in moment.table("payments")])


@never(table=MAIL)
def of_a_case_that_never_comes(moment: Any) -> bool:
    raise Unexercised("nobody is refunded")


@pytest.mark.parametrize(
    ("promise", "told"),
    [
        (
            of_no_table,
            "it reads the table 'refunds', and the sink leaves: 'bank.db: batches', 'bank.db: payments'",
        ),
        (of_no_column, "of_no_column"),
        (unique("price", table="payments"), "has no column 'price'"),
        (
            expected(sql="SELECT id FROM input WHERE", table="payments"),
            "is wrong: SQLite cannot evaluate it: incomplete",
        ),
        (
            expected(sql="SELECT id FROM refunds", table="payments"),
            "is wrong: it reads the table 'refunds', and",
        ),
        (
            expected(sql="SELECT price FROM input", table="payments"),
            "no such column: price. Write it as SQLite",
        ),
        (expected(sql="SELECT sum(id) FROM input", table="payments"), "has no column 'sum\\(id\\)'"),
    ],
)
def test_promise_that_names_what_is_not_there_is_wrong_use(promise: Promise, told: str) -> None:
    plant = PLANTS["delivered-twice"]
    with pytest.raises(PromiseError, match=told):
        seen(plant, plant.sound, UNDISTURBED, promise)


def test_promise_that_no_trial_tested_is_unknown_unless_it_is_allowed() -> None:
    plant, name = PLANTS["told-twice"], of_a_case_that_never_comes.name
    target = replace(target_of(plant, tell(once=True), of_a_case_that_never_comes), feed=[[(1, 10)]])
    assert target.verify(overtaken=False).unknown == (
        f"the promise {name} was not tested: nobody is refunded",
    )
    assert target.verify(overtaken=False, allow_unknown=[name]).unknown == ()


@pytest.mark.parametrize(
    "value",
    [1, -2.5, None, "it's", True, b"x", Decimal("1.50"), [1, {"a": (2,)}], Row(a=1, b="x"), "2024-10-10"],
)
def test_values_of_a_table_are_read_as_they_were(value: Any) -> None:
    assert value_of(repr(value)) == value


@pytest.mark.parametrize("text", ["2030-01-01 00:10:00", "2030-01-01 00:10:00+0000', tz='UTC"])
def test_time_that_pandas_read_from_a_file_is_one(text: str) -> None:
    assert value_of(f"Timestamp('{text}')").replace(tzinfo=None) == datetime(2030, 1, 1, 0, 10)


@pytest.mark.parametrize("text", ["__import__('os')", "open('x')", "a b", "lambda: 1", "1 +", "2024-10-10"])
def test_text_that_is_no_value_stays_text(text: str) -> None:
    assert value_of(text) == text


def test_promise_that_reads_rows_which_only_the_source_knows_is_not_tested() -> None:
    target = spark_target("write", upsert(""), schemas="id INT, version INT", feed=[[(1, 1)]])
    promises = [
        unique("id", table="orders"),
        same_total({"orders": "version", "input": "version"}),
        newest_wins("id", version="version", table="orders"),
    ]
    judge = TableJudge(promises, target.job, None, None)
    rows = [(("id", "1"), ("version", "1")), (("id", "1"), ("version", "2"))]
    judge.take(Sight(UNDISTURBED, 1, {"shop.db: orders": [*rows]}, [], is_end=True))
    (broken,) = judge.findings(0, None, "4.3")
    assert broken.kind.name == "unique_id_in_orders"
    unseen = [why for why in judge.asked().values() if why]
    assert len(unseen) == 2
    assert all("which --source keep leaves to the source" in why for why in unseen)
