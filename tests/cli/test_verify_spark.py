"""``headrace verify`` on a Spark job or sink: exit codes, the text and the JSON document."""

import io
import json
import os
import signal
import sys
from functools import partial
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from rich.console import Console

from headrace_cli.reports.search_end import SearchEnd
from headrace_cli.reports.spark_report import SparkSearchReport
from headrace_cli.terminal.live_progress import SearchProgress
from headrace_properties.findings import Family, Finding, Kind
from headrace_properties.search.guard import unguarded
from headrace_properties.session import Result, Session
from headrace_properties.spark_trials import SparkTrials
from headrace_properties.user_frames import Place
from tests.cli.rig import Run, plain

pytestmark = pytest.mark.spark  # it needs PySpark, though not Java

PAYMENTS = """
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("payments").getOrCreate()

feed = [[("ann", 1)], [("bob", 2)]]


def append(df, batch_id):
    with open("payments.txt", "a") as file:
        file.write("".join(f"{row.account}\\n" for row in df.collect()))


def replace(df, batch_id):
    Path("new").write_text(str(df.collect()))
    Path("new").replace(f"{batch_id}.txt")


def show(df, batch_id):
    df.show()


def build(payments):
    return payments.select("account").writeStream.foreachBatch(replace).start()


@F.udf("string")
def initial(account):
    return account[0].upper()


def build_with_a_function(payments):
    made = payments.select(initial("account").alias("account"))
    return made.writeStream.foreachBatch(append if spark.conf else replace).start()


def weekdays(payments):
    day = F.date_format(F.lit("2030-01-02"), "EEE")
    return payments.select(day.alias("account")).writeStream.foreachBatch(replace).start()


def reads_a_topic(spark):
    topics = spark.readStream.format("kafka").load().select("topic")
    topics.writeStream.foreachBatch(replace).option("checkpointLocation", "c").start()


def reads_by_another_name(mine):
    reads_a_topic(mine.newSession() if mine is None else mine)
    mine.sparkContext.setLogLevel("WARN")


def reads_as_annotated(mine: "SparkSession", topic="topic"):
    reads_a_topic(mine)
    mine.streams.awaitAnyTermination()


def reads_by_itself():
    reads_a_topic(SparkSession.builder.config("spark.app.name", "payments").getOrCreate())
"""
SCHEMA = ("--schema", "account STRING, amount INT")
BATCHES, ONE_BATCH = '[[("ann", 1)], [("bob", 2)]]', '[[("ann", 1), ("bob", 2)]]'
"""The input, and one that has fewer trials."""
ONE_RECORD = '[[(b"k", b"v", "payments", 0, 0, None, 0)]]'
"""That of a topic."""


@pytest.fixture
def payments(folder: Path) -> Path:
    (folder / "payments.py").write_text(PAYMENTS)
    return folder


@pytest.mark.parametrize(
    ("target", "code", "told"),
    [
        (
            "append",
            1,
            (
                "payments.py:13: In batch 0 the driver died after write on payments.txt",
                f"Violated with PySpark {version('pyspark')[:3]}, after",
            ),
        ),
        ("replace", 0, ("Holds with PySpark ", "HOLDS: no failure changes the output\n")),
        (
            "build",
            0,
            (
                "No promise says whether that run is right: --verbose proposes promises",
                "Assumed of the source: each record arrives once, in any order. Undeclared: whether any arrives again",
            ),
        ),
        ("build_with_a_function", 1, ("then payments.txt has A once too often",)),
        ("show", 3, ("UNKNOWN: no effect of the sink was seen",)),
    ],
)
def test_exit_code_reflects_the_findings(
    payments: Path, run: Run, target: str, code: int, told: tuple[str, ...]
) -> None:
    (payments / "payments.py").write_text(PAYMENTS.replace(BATCHES, ONE_BATCH))
    done = run("verify", f"payments:{target}", *SCHEMA)
    assert (done.exit_code, [text for text in told if text not in done.output]) == (code, []), done.output
    header, *lines = done.stdout.splitlines()
    assert header.startswith(("HOLDS: ", "VIOLATED: ", "UNKNOWN: ")[(0, 1, 3).index(code)])
    assert len(lines) < 25, "the verdict, the cause, the line and the next command"
    assert not (payments / "payments.txt").exists()
    early = plain(done.stderr).partition("The search goes on.")
    assert (early[0].startswith("VIOLATED: each row exactly once"), bool(early[1])) == (code == 1,) * 2


@pytest.mark.parametrize(("terminal", "width"), [(False, 100), (True, 80)])
def test_a_brief_report_of_many_findings_names_those_that_do_not_fit(*, terminal: bool, width: int) -> None:
    shows = partial(Finding, place=Place("/payments.py", 7), remedy="Keep the batch id with the rows. " * 4)
    kinds = [Kind(Family.SINK, name) for name in ("twice", "missing", "stale", "differs", "stuck", "memory")]
    findings = [
        shows(kind, "the driver died after commit", trial=SimpleNamespace(schedule=1)) for kind in kinds
    ]
    trials = SimpleNamespace(
        findings=findings * 2, why_open=("the search was stopped",), parts=(), notes=tuple("abcdefghijk"), pyspark="4.3.0",
        source=SimpleNamespace(environment={}), part_of=lambda _finding: None,
    )  # fmt: skip
    files = dict.fromkeys(range(12), Path("failure.json"))
    session = SimpleNamespace(kept=("kept",) * 30, files=files, result=Result.VIOLATED)
    report = SparkSearchReport(cast(SparkTrials, trials), SearchEnd(cast(Session, session), 1.0))
    texts = []
    for verbose in (False, True):
        console = Console(file=io.StringIO(), force_terminal=terminal, width=width, color_system=None)
        report.print(console, verbose=verbose)
        texts.append(console.file.getvalue())  # type: ignore[attr-defined]
    brief = texts[0]
    assert brief.startswith("VIOLATED: each row exactly once (twice)\n  /payments.py:7: the driver died")
    assert "\n  headrace replay failure.json --explain\n" in brief
    assert len(brief.splitlines()) <= 25, brief
    assert "\nWith it: " in brief
    assert "(--verbose shows each) " in plain(brief)
    assert [text.count("VIOLATED: ") for text in texts] == [brief.count("VIOLATED: "), 12]
    assert 1 <= brief.count("VIOLATED: ") < 12
    assert [text.count("\nkept\n") for text in texts] == [0, 1]


SUMS = """
from pyspark.sql import functions as F
from headrace_properties.promises import at_end, expected, unique

TOTALS = "SELECT account, sum(amount) AS amount FROM input GROUP BY account"


@at_end
def somebody_is_refunded(moment):
    assert all(row.amount < 0 for row in moment.outputs if row.amount < 0)


def keep(payments):
    totals = payments.groupBy("account").agg(F.sum("amount").alias("amount"))
    return totals.writeStream.outputMode("complete").format("memory").queryName("totals").start()


def keep_rows(payments):
    return payments.writeStream.format("memory").queryName("totals").start()


feed = [[("ann", 1)], [("ann", 2)]]
"""
PROMISED_SUMS = """
from sums import *

promises = [unique("account", table="totals"), expected(sql=TOTALS, table="totals"), somebody_is_refunded]
"""


def test_json_says_what_nobody_said_and_what_each_promise_came_to(payments: Path, run: Run) -> None:
    (payments / "sums.py").write_text(SUMS)
    (payments / "promised_sums.py").write_text(PROMISED_SUMS)
    options = (*SCHEMA, "--examples", "8", "--allow", "growth,batching", "--json")
    said, unsaid, wrong = (
        json.loads(run("verify", target, *options).stdout)
        for target in ("promised_sums:keep", "sums:keep", "promised_sums:keep_rows")
    )
    assert (unsaid["nobody_said"], unsaid["promises"]) == (True, {})
    assert {proposal["code"]: proposal["broken"] for proposal in unsaid["proposals"]} == {
        'unique("account", table="totals")': "",
        'same_total({"input": "amount", "totals": "amount"})': "",
    }
    assert (said["nobody_said"], said["proposals"]) == (False, [])
    names = ["unique_account_in_totals", "expected_in_totals", "somebody_is_refunded"]
    verdicts = [[document["promises"][name]["verdict"] for name in names] for document in (said, wrong)]
    assert verdicts == [["holds", "holds", "unknown"], ["violated", "violated", "unknown"]]
    assert "was not tested" in said["promises"]["somebody_is_refunded"]["why"]


@pytest.mark.parametrize(
    ("number", "target", "when", "stopped", "told"),
    [
        (signal.SIGINT, "append", 0, "before its first trial", ""),
        (signal.SIGTERM, "append", 8, "after 7 of ", "VIOLATED: "),
        (signal.SIGTERM, "build_with_a_function", 2, "after 2 of 5 schedules", "Terminated"),
    ],
)
def test_a_signal_ends_a_search_with_what_it_found(
    payments: Path, run: Run, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, target: str, when: int, stopped: str,
    told: str,
) -> None:  # fmt: skip
    def struck(_progress: SearchProgress, done: int, _wanted: int) -> None:
        if done == when:
            with unguarded():  # nobody's code but the test's
                os.kill(os.getpid(), number)

    monkeypatch.setattr(SearchProgress, "on_trial", struck)
    examples = () if target == "append" else ("--examples", "5")  # which a sink alone does not heed
    done = run("verify", f"payments:{target}", *SCHEMA, *examples)
    assert done.exit_code == 128 + number, done.output
    assert f"UNKNOWN: the search was stopped {stopped}" in done.output
    assert told in done.output


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("reads_a_topic", marks=pytest.mark.nightly),
        pytest.param("reads_by_another_name", marks=pytest.mark.nightly),
        pytest.param("reads_as_annotated", marks=pytest.mark.nightly),
        "reads_by_itself",
    ],
)
def test_function_of_a_session_needs_no_schema(payments: Path, run: Run, target: str) -> None:
    (payments / "payments.py").write_text(PAYMENTS.replace(BATCHES, ONE_RECORD))
    done = run("verify", f"payments:{target}")
    assert done.exit_code == 0, done.output


def test_gap_at_import_is_no_error_of_the_module(payments: Path, run: Run) -> None:
    (payments / "payments.py").write_text(PAYMENTS + "\nwords = spark.read.text('words.txt')\n")
    done = run("verify", "payments:append", *SCHEMA)
    told = "payments.py:63: cannot follow reading words.txt, which nothing here has made,"
    assert (done.exit_code, told in done.output, "Fix it" in done.output) == (2, True, False), done.output


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("payments:append",), "give the columns of its input with --schema"),
        (("payments:missing", *SCHEMA), "has no 'missing'"),
        (("payments:append", "--schema", "account STRINGG"), "unsupported data type 'stringg'"),
        (
            ("payments:build", "--schema", "other=account STRING"),
            "takes 'payments', whose schema is not known",
        ),
        (("payments:build", *SCHEMA, "--schema", "x=a INT"), "with a parameter's name and without"),
        (("payments:weekdays", *SCHEMA), "Error: payments.py:41: cannot follow date_format() with 'EEE'"),
        (("payments:feed", *SCHEMA), "this is a list, not a Spark job"),
        (("payments:append", *SCHEMA, "--feed", "rows"), "has no 'rows' with the rows of its input"),
        (("payments:append", *SCHEMA, "--promise", "kept"), "--promise kept: module 'payments' has no such"),
        (("payments:append", *SCHEMA, "--allow-unknown", "S8"), "no such invariant or promise"),
        (
            ("payments:replace", *SCHEMA, "--allow", "growth"),
            "allow='growth' must be left out for a Spark sink",
        ),
        (
            ("headrace_scenarios.zeitgeist:pipeline", "--allow", "order"),
            "option allow='order' must be left out for a pipeline",
        ),
    ],
)
def test_wrong_use_is_one_message(payments: Path, run: Run, arguments: tuple[str, ...], told: str) -> None:
    done = run("verify", *arguments)
    assert (done.exit_code, told in done.output) == (2, True), done.output


PROMISES = """
from headrace_properties.promises import always, sometimes

@always
def few(moment):
    return len(moment.rows) < 2

@sometimes
def refund(moment):
    return any(row.amount < 0 for row in moment.rows)

promises = [few, refund]
"""


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        ((), 1, "VIOLATED: the promise few"),
        (("--promise", "refund"), 3, "UNKNOWN: the promise refund never came true"),
        (("--promise", "refund", "--allow-unknown", "refund"), 0, "Holds"),
    ],
)
def test_promises_are_picked_and_may_go_untested(
    payments: Path, run: Run, options: tuple[str, ...], code: int, told: str
) -> None:
    (payments / "payments.py").write_text(PAYMENTS.replace(BATCHES, ONE_BATCH) + PROMISES)
    done = run("verify", "payments:replace", *SCHEMA, *options)
    assert (done.exit_code, told in done.output) == (code, True), done.output


STORE = """
feed = [[("ann", 1)]]

def store(df, batch_id):
    df.write.format("com.acme.store").option("table", "t").mode("append").save()
"""


@pytest.mark.parametrize(
    ("options", "code", "told"),
    [
        (
            (),
            3,
            "UNDECLARED: each row exactly once (keys)\n  store.py:5: t: is a second write of the same row a second row?",
        ),
        (("--keys", "t=account"), 0, "Holds"),
        (("--keys", "t="), 1, "t has (account='ann', amount=1) once too often"),
        (("--strict",), 1, "\nUndeclared with PySpark "),
        (("--keys", "account"), 2, "does not name a table and its key"),
        (("--keys", "other=account"), 2, "Its tables: t"),
    ],
)
def test_key_of_a_table_is_asked_for_and_declared(
    folder: Path, run: Run, options: tuple[str, ...], code: int, told: str
) -> None:
    (folder / "store.py").write_text(STORE)
    done = run("verify", "store:store", *SCHEMA, *options)
    assert (done.exit_code, told in done.output) == (code, True), done.output
    if "once too often" in told:
        again = run("replay", str(next(folder.rglob("headrace-failure-*.json"))))
        assert (again.exit_code, told in again.output) == (1, True), again.output


LATEST = """
import sqlite3

feed = [[("ann", 1), ("bob", 2)], [("cat", 3), ("ann", 4)]]
one_batch = [[("ann", 1), ("cat", 3)]]
of_one_key = [[("ann", 1), ("ann", 4)]]


def prepare():
    with sqlite3.connect("a.db") as db:
        db.execute("CREATE TABLE latest (account TEXT PRIMARY KEY, amount INT)")
        db.execute("CREATE TABLE done (batch INT PRIMARY KEY)")
        db.execute("CREATE TABLE shares (batch INT, account TEXT, share INT, PRIMARY KEY (batch, account))")
        db.execute("CREATE TABLE firsts (batch INT PRIMARY KEY, account TEXT, amount INT)")


def by_arrival(df, batch_id):
    db = sqlite3.connect("a.db", isolation_level=None)
    db.execute("BEGIN IMMEDIATE")
    if not db.execute("SELECT 1 FROM done WHERE batch = ?", (batch_id,)).fetchone():
        db.execute("INSERT INTO done VALUES (?)", (batch_id,))
        for row in df.collect():
            db.execute("INSERT OR REPLACE INTO latest VALUES (?, ?)", (row.account, row.amount))
    db.execute("COMMIT")
    db.close()


def one_of_each_batch(df, batch_id):
    (first, *_) = sorted((row.account, row.amount) for row in df.collect())
    with sqlite3.connect("a.db") as db:
        db.execute("INSERT OR REPLACE INTO firsts VALUES (?, ?, ?)", (batch_id, *first))


def poisoned(df, batch_id):
    with sqlite3.connect("a.db") as db:
        for row in df.collect():
            try:
                values = (batch_id, row.account, row.amount // (row.amount - 3))
                db.execute("INSERT OR REPLACE INTO shares VALUES (?, ?, ?)", values)
            except ZeroDivisionError:
                continue
"""


@pytest.mark.parametrize(
    ("target", "feed", "meant"),
    [
        pytest.param("by_arrival", "feed", "order", marks=pytest.mark.nightly),
        pytest.param("one_of_each_batch", "feed", "batching", marks=pytest.mark.nightly),
        ("poisoned", "one_batch", "loss"),
    ],
)
def test_what_a_question_about_a_sink_says_is_accepted_and_answers_it(
    folder: Path, run: Run, target: str, feed: str, meant: str
) -> None:
    (folder / "latest.py").write_text(LATEST)
    verify = ("verify", f"latest:{target}", *SCHEMA, "--feed", feed)
    asked = run(*verify)
    assert (asked.exit_code, f"say --allow {meant}" in asked.output) == (3, True), asked.output
    answered = run(*verify, "--allow", f"{meant},duplicates")
    assert answered.exit_code == 0, answered.output


def test_question_about_a_sink_is_asked_again_until_its_module_answers(folder: Path, run: Run) -> None:
    (folder / "latest.py").write_text(LATEST)
    verify = ("verify", "latest:by_arrival", *SCHEMA, "--feed", "of_one_key")
    assert run(*verify).exit_code == 3
    again = run("replay", str(next(folder.rglob("headrace-failure-*.json"))))
    assert (again.exit_code, "UNDECLARED again" in again.output) == (3, True), again.output
    answer = "\nfrom headrace_sim import FeedSource\n\nsource = FeedSource(ordered=True)\n"
    (folder / "latest.py").write_text(LATEST + answer)
    sys.modules.pop("latest", None)
    answered = run(*verify)
    assert (answered.exit_code, "no longer violates" in answered.output) == (0, True), answered.output


def test_sample_is_the_input_and_its_replay_reads_it_again(folder: Path, run: Run) -> None:
    (folder / "payments.py").write_text(PAYMENTS)
    (folder / "real.jsonl").write_text('{"account": "zoe"}\n')
    given = ("--schema", "account STRING", "--sample", "real.jsonl", "--save", "failure.json")
    done = run("verify", "payments:append", *given)
    assert (done.exit_code, "zoe" in done.output) == (1, True), done.output
    assert run("replay", "failure.json").exit_code == 1
    (folder / "real.jsonl").write_text('{"account": "eve"}\n')
    assert "payments.txt has eve once too often" in run("replay", "failure.json").output


def test_json_names_the_line_the_fault_and_the_pyspark_and_replay_on_another_says_so(
    folder: Path, run: Run
) -> None:
    (folder / "payments.py").write_text(PAYMENTS.replace(BATCHES, ONE_BATCH))
    document = json.loads(
        run("verify", "payments:append", *SCHEMA, "--save", "failure.json", "--json").stdout
    )
    finding = document["findings"][0]
    assert (document["result"], document["effects"], finding["kind"]) == ("violated", [2], "twice")
    assert (finding["class"], finding["trial"]["fault"]) == (
        "violated",
        {"kind": "killed", "batch": 0, "effect": 2, "of_burst": False},
    )
    assert (Path(finding["place"]["file"]).name, finding["place"]["line"]) == ("payments.py", 13)
    kept = (folder / "failure.json").read_text()
    assert f'"PySpark": "{document["pyspark"]}"' in kept
    assert "Recorded with" not in run("replay", "failure.json").output
    (folder / "failure.json").write_text(kept.replace(document["pyspark"], "2.4.0"))
    again = run("replay", "failure.json")
    assert again.exit_code == 1
    assert f"Recorded with PySpark 2.4.0; this is {document['pyspark']}" in again.output
