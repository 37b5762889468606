"""Programs that only the real Spark runs: each with a bug that a crash point shows, beside a sound one."""

from pathlib import Path

import pytest

from headrace_sim.spark.laboratory.jvm import SparkJvm
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from tests.sim.spark.laboratory.test_workers import FILES, READ, START, tried

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

EACH_BATCH = f"{{frame}}.writeStream.foreachBatch(write){START}"
APPEND = 'df.write.mode("append").parquet("/data/out")'
OVERWRITE = 'df.write.mode("overwrite").parquet(f"/data/out/batch={batch_id}")'
RDD = (
    READ
    + """
def save(rows):
    db = sqlite3.connect("out.db")
    db.execute("CREATE TABLE IF NOT EXISTS payments (id INTEGER PRIMARY KEY, amount INTEGER)")
    for row in rows:
        db.execute(SAVE, (row.id, row.amount))
    db.commit()

def write(df, batch_id):
    df.rdd.foreachPartition(save)

"""
    + EACH_BATCH.format(frame="payments")
)
ADDS = "INSERT INTO payments VALUES (?, ?) ON CONFLICT DO UPDATE SET amount = amount + excluded.amount"
DATA_SOURCE = (
    READ
    + """
import json, os, uuid
from dataclasses import dataclass
from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage

@dataclass
class Written(WriterCommitMessage):
    lines: str

class LedgerWriter(DataSourceStreamWriter):
    def write(self, rows):
        lines = "".join(json.dumps(row.asDict()) + "\\n" for row in rows)
        WRITE
        return Written(lines)

    def commit(self, messages, batch_id):
        lines = "".join(message.lines for message in messages)
        COMMIT

    def abort(self, messages, batch_id):
        pass

class Ledger(DataSource):
    @classmethod
    def name(cls):
        return "ledger"

    def streamWriter(self, schema, overwrite):
        return LedgerWriter()

spark.dataSource.register(Ledger)
payments.writeStream.format("ledger")"""
    + START
)
ADDS_LINES = """with open("ledger.jsonl", "a") as file:
            file.write(lines)"""
REPLACES_FILE = """with open(f"{batch_id}.tmp", "w") as file:
            file.write(lines)
        os.replace(f"{batch_id}.tmp", f"ledger-{batch_id}.jsonl")"""
STAGES = """path = f"stage-{uuid.uuid4()}.tmp"
        with open(path, "w") as file:
            file.write(lines)
        lines = path"""
RENAMES = """for number, message in enumerate(messages):
            if os.path.exists(message.lines):
                os.replace(message.lines, f"ledger-{batch_id}-{number}.jsonl")"""
TIMED = """
timed = payments.withColumn("at", F.timestamp_seconds("amount")).withWatermark("at", "5 seconds")
"""
SESSIONS = 'timed.groupBy(F.session_window("at", "3 seconds"), F.col("id") * 0).agg(F.sum("id").alias("ids")).select("ids")'
JOINED = """
refunds = spark.readStream.schema("id LONG, amount LONG").json("/data/refunds")
late = refunds.select(F.col("id").alias("refund"), F.timestamp_seconds("amount").alias("when")).withWatermark("when", "5 seconds")
near = F.expr("id = refund AND when BETWEEN at AND at + INTERVAL 1 SECOND")
joined = timed.join(late, near, "left_outer").select("id", "refund")
"""
WRITE = """
def write(df, batch_id):
    CODE

"""
SCALA = """
def write(df, batch_id):
    from pyspark.sql.classic.column import Column
    key = spark._jvm.org.apache.spark.sql.functions.sha2(df.id.cast("string")._jc, 256)
    df = df.withColumn("key", Column(key))
    CODE

"""
STATE = (
    READ
    + """
import pandas as pd
from pyspark.sql.streaming import StatefulProcessor

class Counting(StatefulProcessor):
    def init(self, handle):
        self.count = handle.getValueState("count", "n LONG")

    def handleInputRows(self, key, rows, timer_values):
        n = sum(len(part) for part in rows) + (self.count.get()[0] if self.count.exists() else 0)
        self.count.update((n,))
        NOTE
        yield pd.DataFrame({"key": [key[0]], "n": [n]})

    def close(self):
        pass

spark.conf.set("spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
counts = payments.withColumn("key", F.col("id") * 0).groupBy("key").transformWithStateInPandas(
    Counting(), outputStructType="key LONG, n LONG", outputMode="Update", timeMode="None")

def write(df, batch_id):
    df.write.mode("overwrite").parquet(f"/data/out/batch={batch_id}")

"""
    + EACH_BATCH.format(frame="counts")
).replace(".option", '.outputMode("update").option')
NOTE = """with sqlite3.connect("log.db") as db:
            db.execute("CREATE TABLE IF NOT EXISTS seen (n LONG)")
            db.execute("INSERT INTO seen VALUES (?)", (n,))"""


def program(*parts: str, code: str = "", frame: str = "") -> str:
    text = "".join(parts).replace("CODE", code)
    return text + (EACH_BATCH.format(frame=frame) if frame else "")


def source(write: str, commit: str) -> str:
    return DATA_SOURCE.replace("WRITE", write).replace("COMMIT", commit)


@pytest.mark.parametrize(
    ("text", "effect", "found"),
    [
        pytest.param(RDD.replace("SAVE", repr(ADDS)), 3, "out.db: payments", id="rdd-adds"),
        pytest.param(
            RDD.replace("SAVE", repr("REPLACE INTO payments VALUES (?, ?)")), 3, "", id="rdd-replaces"
        ),
        pytest.param(source("pass", ADDS_LINES), 2, "ledger.jsonl", id="source-adds"),
        pytest.param(source("pass", REPLACES_FILE), 3, "", id="source-replaces"),
        pytest.param(source(ADDS_LINES, "pass"), 2, "ledger.jsonl", id="source-task-adds"),
        pytest.param(source(STAGES, RENAMES), 2, "", id="source-stages"),
        pytest.param(source(STAGES, RENAMES), 3, "", id="source-renames"),
        pytest.param(program(READ, SCALA, code=APPEND, frame="payments"), 1, "/data/out", id="scala-appends"),
        pytest.param(program(READ, SCALA, code=OVERWRITE, frame="payments"), 1, "", id="scala-overwrites"),
        pytest.param(
            program(READ, TIMED, JOINED, WRITE, code=APPEND, frame="joined"),
            1,
            "/data/out",
            id="join-appends",
        ),
        pytest.param(
            program(READ, TIMED, JOINED, WRITE, code=OVERWRITE, frame="joined"), 1, "", id="join-overwrites"
        ),
        pytest.param(
            program(READ, TIMED, WRITE, code=APPEND, frame=f"{SESSIONS}"),
            1,
            "/data/out",
            id="sessions-append",
        ),
        pytest.param(
            program(READ, TIMED, FILES.removeprefix(READ).replace("payments", SESSIONS)),
            1,
            "",
            id="sessions-file",
        ),
        pytest.param(STATE.replace("NOTE", NOTE), 4, "log.db: seen", id="state-notes"),
        pytest.param(STATE.replace("NOTE", "pass"), 1, "", id="state-only"),
    ],
)
def test_a_bug_is_found_behind_its_effects_and_its_sound_twin_is_not_accused(
    jvm: SparkJvm, tmp_path: Path, text: str, effect: int, found: str
) -> None:
    trial = tried(jvm, tmp_path, text, SinkFault(SinkFaultKind.KILL, 1, effect))
    assert trial.fault is not None, trial.undisturbed
    assert [finding.destination for finding in trial.findings] == [found] * bool(found)
    assert any(trial.left.values())
