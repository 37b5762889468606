"""Two queries of a program that only the real Spark reads: what they do to the table that both write."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headrace_properties.findings import FindingClass
from headrace_properties.spark_jobs.laboratory import Laboratory
from headrace_properties.spark_jobs.programs import ProgramInput
from headrace_properties.spark_jobs.shared_tables import shared_tables
from headrace_properties.spark_trials import TrialOptions, trials_of_program
from headrace_sim.spark.client.scripts import Script, surroundings
from headrace_sim.spark.sinks.sink_runs import undisturbed

pytestmark = pytest.mark.spark

PROGRAM = """
import sqlite3
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.getOrCreate()
seen = spark.sparkContext.parallelize([1])  # which the simulation cannot follow

def start(name):
    def write(df, batch_id):
        WRITE

    rows = spark.readStream.schema("id LONG, n LONG").json(f"/in/{name}")
    rows.writeStream.foreachBatch(write).queryName(name).start()

start("a")
start("b")
spark.streams.awaitAnyTermination()
"""
TABLES = """with sqlite3.connect("out.db") as db:
            db.execute("CREATE TABLE IF NOT EXISTS batches (id TEXT PRIMARY KEY)")
            db.execute("CREATE TABLE IF NOT EXISTS t (id INT PRIMARY KEY, n INT)")
            if db.execute("INSERT OR IGNORE INTO batches VALUES (?)", (MARK,)).rowcount:
                db.executemany("INSERT INTO t VALUES (?, ?) ON CONFLICT DO UPDATE SET n = excluded.n", df.collect())"""
LOST, ASKED = ("missing", FindingClass.VIOLATED), ("order", FindingClass.UNDECLARED)


@pytest.mark.parametrize(
    ("write", "found"),
    [
        pytest.param(TABLES.replace("MARK", "batch_id"), [LOST, LOST], id="one table of ids"),
        pytest.param(
            TABLES.replace("MARK", 'f"{name} {batch_id}"'), [ASKED], id="one key", marks=pytest.mark.nightly
        ),
        pytest.param(
            'df.write.mode("overwrite").parquet("/t")',
            [LOST, LOST],
            id="one place",
            marks=pytest.mark.nightly,
        ),
        pytest.param(
            'df.write.mode("append").parquet("/t")', [], id="both append", marks=pytest.mark.nightly
        ),
    ],
)
def test_queries_that_only_the_real_spark_reads_are_run_behind_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: str, found: list[Any]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("job.py").write_text(PROGRAM.replace("WRITE", write))
    script = Script("job.py")
    feed = {"a": [[(1, 10)], [(2, 20), (3, 30)]], "b": [[(1, 11), (4, 40)]]}
    how = TrialOptions(laboratory=Laboratory(script=script))
    with surroundings(script) as module:
        parts = trials_of_program(script, module, ProgramInput(feed), how).parts
        targets = {part.source.query: part.target for part in parts}
        left = {}
        for label, target in targets.items():
            assert target.laboratory is not None, "it is on Spark"
            calm = undisturbed(target.laboratory.sink(target.job, target.feed, target.keys)).contents
            left[label] = {name: Counter(items) for name, items in calm.items()}
        findings, untold = shared_tables(targets, (), left)
    assert [
        (finding.kind.name, finding.finding_class) for finding in findings if "batches" not in finding.message
    ] == found
    assert untold == []
