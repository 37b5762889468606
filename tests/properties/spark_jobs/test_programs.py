"""The queries of a program: which are tried, with what, and what they do to each other."""

from pathlib import Path
from typing import Any

import pytest

from headrace_properties.findings import FindingClass
from headrace_properties.spark_jobs.programs import Program, ProgramInput, program_of, run_program
from headrace_properties.spark_jobs.shared_tables import shared_tables
from headrace_properties.spark_trials import read_program
from headrace_properties.target import TargetError
from headrace_sim import FeedSource
from headrace_sim.spark.client.scripts import Script, surroundings
from headrace_sim.spark.declares import Declares

BEGIN = """
import sqlite3
from pyspark.sql import SparkSession
spark = SparkSession.builder.getOrCreate()
rows = spark.readStream.schema("id INT, item STRING").format("json").load("/in")
def write(df, batch_id): df.write.mode("overwrite").parquet(f"/out/{batch_id}")
def query(name="", target="/lake/a", form="parquet", **options):
    writer = rows.writeStream.format(form).queryName(name or target)
    return writer.options(**options).start(target)
def batches(name, **options):
    return rows.writeStream.foreachBatch(write).queryName(name).options(**options).start()
"""


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)

    def program(text: str, query: str = "", **given: Any) -> Program:
        Path("job.py").write_text(BEGIN + text)
        script = Script("job.py")
        with surroundings(script) as module:
            run = run_program(script, module)
            return program_of(script, run, ProgramInput(**given), 0, query)

    return program


TOGETHER = {
    "one checkpoint at once": (
        'batches("a", checkpointLocation="/c")\nbatches("b", checkpointLocation="/c/")',
        [("checkpoint", FindingClass.VIOLATED)],
    ),
    "one checkpoint one behind the other": (
        'batches("a", checkpointLocation="/c").stop()\nbatches("b", checkpointLocation="/c")',
        [("checkpoint", FindingClass.UNDECLARED)],
    ),
    "own checkpoints": (
        'batches("a", checkpointLocation="/c/a")\nbatches("b", checkpointLocation="/c/b")',
        [],
    ),
    "no checkpoints": ('batches("a")\nbatches("b")', []),
    "files in one place": ('query("a")\nquery("b", form="json")', [("missing", FindingClass.VIOLATED)]),
    "files in two places": ('query("a")\nquery("b", "/lake/b")', []),
    "a table with a log of its own": ('query("a", form="delta")\nquery("b", form="delta")', []),
    "a topic for two": ('query("a", "", "kafka", topic="t")\nquery("b", "", "kafka", topic="t")', []),
}


@pytest.mark.parametrize("name", TOGETHER)
def test_queries_are_judged_together(program: Any, name: str) -> None:
    text, right = TOGETHER[name]
    findings = program(text).findings
    assert [(finding.kind.name, finding.finding_class) for finding in findings] == right
    assert all(finding.place.file.endswith("job.py") for finding in findings)


def test_file_beside_a_program_says_its_promises(program: Any) -> None:
    promised = "from headrace_properties.promises import unique\npromises = [unique('id')]\nspark = 1\n"
    Path("job_promises.py").write_text(promised)
    Path("job.py").write_text(BEGIN + 'batches("a")\nfeed = [[(1, "x")]]')
    script = Script("job.py")
    with surroundings(script) as module:
        run, _, _ = read_program(script, module, None)
        (target,) = program_of(script, run, ProgramInput(), 0).queries.values()
    assert [promise.name for promise in target.promises] == ["unique_id"]
    assert target.feed == [[(1, "x")]]
    Path("job_promises.py").write_text("promises = [1 / 0]")
    with (
        surroundings(script) as module,
        pytest.raises(TargetError, match=r"job_promises.py fails at .*:1: ZeroDivision"),
    ):
        read_program(script, module, None)


LOG = """
    with sqlite3.connect("log.db") as db:
        db.execute("CREATE TABLE IF NOT EXISTS batches (id INT PRIMARY KEY)")
        db.execute("INSERT OR IGNORE INTO batches VALUES (?)", (batch_id,))
"""
SHARED = {
    "both overwrite": ('.mode("overwrite")', [("missing", FindingClass.VIOLATED)] * 2),
    "one id of transactions": (
        '.mode("append").option("txnAppId", "t").option("txnVersion", batch_id)',
        [("missing", FindingClass.VIOLATED)] * 2,
    ),
    "own ids of transactions": (
        '.mode("append").option("txnAppId", name).option("txnVersion", batch_id)',
        [],
    ),
    "both append": ('.mode("append")', []),
    "one log of batches": ('.mode("append")', []),
    "one key": (
        '.format("mongodb").mode("append").option("collection", "t").option("idFieldList", "id")',
        [("order", FindingClass.UNDECLARED)],
    ),
}


@pytest.mark.parametrize("name", SHARED)
def test_sinks_that_write_one_table_are_run_behind_each_other(program: Any, name: str) -> None:
    how, right = SHARED[name]
    save = "save()" if "mongodb" in how else 'saveAsTable("t")'
    form = "" if "mongodb" in how else '.format("delta")'
    text = (
        f"def write(df, batch_id, name):\n    df.write{form}{how}.{save}\n{LOG if 'log' in name else ''}"
        "from pyspark.sql import functions as F\ndef start(name, first):\n"
        '    rows = spark.readStream.schema("id INT, n INT").parquet("/in").withColumn("n", F.lit(first))\n'
        "    rows.writeStream.foreachBatch(lambda df, batch_id: write(df, batch_id, name)).queryName(name).start()\n"
        'start("a", 1)\nstart("b", 2)'
    )
    found, untold = shared_tables(program(text).queries, (), {})
    assert untold == []
    assert [(finding.kind.name, finding.finding_class) for finding in found] == right
    assert not right or "write " in found[0].message


def test_reader_of_what_another_query_writes_is_told(program: Any) -> None:
    reads = 'spark.readStream.schema("id INT").parquet("/lake/a/").writeStream.foreachBatch(write).queryName("b").start()'
    (note,) = program(f'query("a")\n{reads}').notes
    assert note == "b reads /lake/a, which a writes: what that doubles or loses, this does, too"


def test_schema_of_what_another_query_writes_is_known(program: Any) -> None:
    done = program(
        'rows.writeStream.queryName("a").toTable("bronze")\n'
        'spark.readStream.table("bronze").writeStream.queryName("b").option("path", "/lake/b").start()\n'
        'spark.readStream.format("delta").load("/lake/b/").select("id").writeStream.queryName("c").toTable("gold")'
    )
    assert [target.job.output.names for target in done.queries.values()] == [
        ["id", "item"],
        ["id", "item"],
        ["id"],
    ]
    assert [note.partition(",")[0] for note in done.notes] == ["b reads bronze", "c reads /lake/b"]


def test_what_spark_refuses_is_an_error_of_the_program(program: Any) -> None:
    done = program("rows.select('nothing').writeStream.format('console').start()")
    (finding,) = done.findings
    assert (finding.kind.name, finding.finding_class, finding.place.line) == (
        "error",
        FindingClass.VIOLATED,
        12,
    )
    assert not done.queries


def test_labels_tell_queries_apart(program: Any) -> None:
    done = program(
        "for _ in range(2):\n    rows.writeStream.option('x', _).foreachBatch(write).start()\nbatches('c')"
    )
    assert list(done.queries) == [
        "foreachBatch(write) at job.py:13, 1", "foreachBatch(write) at job.py:13, 2", "c",
    ]  # fmt: skip
    names = {label: target.name for label, target in done.queries.items()}
    assert names["c"] == "job.py, c"
    assert list(program("batches('a')\nbatches('c')", "c").queries) == ["c"]
    with pytest.raises(TargetError, match=r"starts no query 'x'\. Its queries are: a; c"):
        program("batches('a')\nbatches('c')", "x")


def test_query_for_looking_is_run_and_said_to_be_one(program: Any) -> None:
    (target,) = program("rows.writeStream.format('console').start()").queries.values()
    report = target.verify()
    assert (report.findings, report.unknown, sum(report.written) > 0) == ((), (), True)
    assert "for looking" in report.notes[0]


def test_feed_and_declarations_beside_the_program_are_its_own(program: Any) -> None:
    beside = (
        "from headrace_sim import FeedSource\nfrom headrace_sim.spark.declares import Declares\nfeed = [[(1, 'a')]]\n"
        "declares = Declares(running=True)\nsource = FeedSource(ordered=True)\n"
    )
    (target,) = program(f"{beside}batches('a')").queries.values()
    assert [list(batch) for batch in target.feed] == [[(1, "a")]]
    assert target.job.declares == Declares(running=True, source=FeedSource(ordered=True))
    own = "feed = rows\ndef prepare(df): pass\npromises = 'many'\ndeclares = 3\nbatches('a')"
    (target,) = program(own).queries.values()
    assert (target.prepare, target.promises, target.job.declares) == (None, (), Declares())
    assert sum(map(len, target.feed)) > 1


def test_each_query_may_have_a_feed(program: Any) -> None:
    text, feed = "batches('a')\nbatches('b')", [[(7, "x")]]
    done = program(text, feed={"a": feed})
    assert [list(batch) for batch in done.queries["a"].feed] == feed
    assert [list(batch) for batch in done.queries["b"].feed] != feed
    assert [list(batch) for batch in program(text, "b", feed=feed).queries["b"].feed] == feed
    assert "one feed is given" in program(text, feed=feed).unknown[0]


def test_database_that_the_program_makes_is_there_in_its_trials(program: Any, tmp_path: Path) -> None:
    text = 'with sqlite3.connect("made.db") as db:\n    db.execute("CREATE TABLE t (id INT)")\nbatches("a")'
    (target,) = program(text).queries.values()
    assert not (tmp_path / "made.db").exists()
    target.prepare()
    assert (tmp_path / "made.db").exists()
