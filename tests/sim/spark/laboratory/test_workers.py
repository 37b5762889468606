"""A program whose effects Spark has in its workers, or does itself: each can die there, or between two batches."""

from pathlib import Path

import pytest
from pyspark.sql import types as t

from headrace_properties.sinks.sink_check import SinkCheck
from headrace_properties.sinks.sink_reports import OneTrial
from headrace_sim.spark.client.scripts import Script
from headrace_sim.spark.laboratory.jvm import SparkJvm
from headrace_sim.spark.laboratory.laboratory_program import LaboratoryProgram
from headrace_sim.spark.laboratory.real_drivers import RealDrivers, looked
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.processes import Sink

pytestmark = pytest.mark.spark

READ = """
import sqlite3
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

spark = SparkSession.builder.appName("payments").getOrCreate()
payments = spark.readStream.schema("id LONG, amount LONG").json("/data/in")
"""
START = '.option("checkpointLocation", "/data/checkpoint").start().awaitTermination()\n'
WRITER = """
class Writer:
    def open(self, partition, epoch):
        self.db = sqlite3.connect("out.db", isolation_level=None)
        self.db.execute("CREATE TABLE IF NOT EXISTS payments (id INTEGER, amount INTEGER)")
        self.db.execute("CREATE TABLE IF NOT EXISTS done (partition INTEGER, epoch INTEGER, UNIQUE (partition, epoch))")
        self.db.execute("BEGIN IMMEDIATE")
        NOTED
        return True

    def process(self, row):
        self.db.execute("INSERT INTO payments VALUES (?, ?)", (row.id, row.amount))

    def close(self, error):
        self.db.execute("ROLLBACK" if error else "COMMIT")

payments.writeStream.foreach(Writer())"""
NOTES = 'if not self.db.execute("INSERT OR IGNORE INTO done VALUES (?, ?)", (partition, epoch)).rowcount: return False'
APPENDING, ONCE = (READ + WRITER.replace("NOTED", code) + START for code in ("pass", NOTES))
FILES = f'{READ}payments.writeStream.format("parquet").option("path", "/data/out"){START}'
ROWS = (((1, 10), (2, 20)), ((3, 30),), ((4, 40),))
SCHEMA = t.StructType([t.StructField(name, t.LongType()) for name in ("id", "amount")])
PAYMENTS = "out.db: payments"
KILL, TASK, RESTART, PAUSE = (
    SinkFaultKind.KILL,
    SinkFaultKind.TASK,
    SinkFaultKind.RESTART,
    SinkFaultKind.PAUSE,
)
NIGHTLY = pytest.mark.nightly


def tried(jvm: SparkJvm, folder: Path, program: str, fault: SinkFault) -> OneTrial:
    file = folder / "stream.py"
    file.write_text(program)
    script = Script(str(file))
    (job,), _ = looked(LaboratoryProgram(script, ()), jvm, folder)
    host = RealDrivers(LaboratoryProgram(script, (job,)), jvm, folder)
    several = range(len(job.sources))
    rows = (
        ROWS
        if len(several) == 1
        else tuple(tuple(tuple(row for _ in several) for row in batch) for batch in ROWS)
    )
    return SinkCheck(Sink(None, job.input, rows, None, host=host)).one(fault)


@pytest.mark.parametrize(
    ("program", "fault", "twice"),
    [
        (APPENDING, SinkFault(TASK, 1, 5), True),
        pytest.param(ONCE, SinkFault(TASK, 1, 6), False, marks=NIGHTLY),
        pytest.param(APPENDING, SinkFault(KILL, 1, 4), False, marks=NIGHTLY),
        pytest.param(APPENDING, SinkFault(KILL, 1, 5), True, marks=NIGHTLY),
        pytest.param(ONCE, SinkFault(KILL, 1, 6), False, marks=NIGHTLY),
        pytest.param(APPENDING, SinkFault(PAUSE, 1, 0), True, marks=NIGHTLY),
        pytest.param(APPENDING, SinkFault(RESTART, 1, 5), False, marks=NIGHTLY),
    ],
)
def test_a_writer_of_rows_is_tried_in_its_task(
    jvm: SparkJvm, tmp_path: Path, program: str, fault: SinkFault, *, twice: bool
) -> None:
    trial = tried(jvm, tmp_path, program, fault)
    assert {effect.partition for effect in trial.undisturbed} == {0}
    assert trial.fault == fault
    assert [finding.destination for finding in trial.findings] == [PAYMENTS] * twice
    assert sum(trial.left[PAYMENTS].values()) == 4 + twice


SENDING = f"""{READ}
from kafka import KafkaProducer

class Sender:
    def open(self, partition, epoch):
        self.producer = KafkaProducer(bootstrap_servers="brokers:9092")
        return True

    def process(self, row):
        self.producer.send("paid", key=str(row.id).encode(), value=str(row.amount).encode())

payments.writeStream.foreach(Sender()){START}"""


@NIGHTLY
def test_what_a_worker_sends_in_the_background_is_sent(jvm: SparkJvm, tmp_path: Path) -> None:
    trial = tried(jvm, tmp_path, SENDING, SinkFault(TASK, 1, 1))
    assert [(effect.target, effect.is_late) for effect in trial.undisturbed] == [("kafka: paid", True)] * 4
    assert sum(trial.left["kafka: paid"].values()) == 5


@NIGHTLY
def test_spark_writes_nothing_itself_where_a_writer_of_rows_does_nothing(
    jvm: SparkJvm, tmp_path: Path
) -> None:
    writer = "def write(row):\n    if row.id == 1:\n        Path('out.txt').write_text(f'{row}')\n"
    program = f"from pathlib import Path\n{READ}{writer}payments.writeStream.foreach(write){START}"
    trial = tried(jvm, tmp_path, program, SinkFault(KILL, 1, 0))
    assert {effect.batch for effect in trial.undisturbed} == {0}


@pytest.mark.parametrize("kind", [pytest.param(KILL, marks=NIGHTLY), pytest.param(RESTART, marks=NIGHTLY)])
def test_a_file_sink_is_sound_where_spark_dies_before_its_commit(
    jvm: SparkJvm, tmp_path: Path, kind: SinkFaultKind
) -> None:
    trial = tried(jvm, tmp_path, FILES, SinkFault(kind, 1, 1))
    assert [(effect.action, effect.target, effect.batch) for effect in trial.undisturbed] == [
        ("parquet", "/data/out", batch) for batch in range(3)
    ]
    assert [effect.batch for effect in trial.effects] == [0, 1, *[1] * (kind is KILL), 2]
    assert not trial.findings
    assert sum(trial.left["/data/out"].values()) == 4


WINDOWS = """
windows = (payments.withColumn("at", F.timestamp_seconds(F.col("amount") * 60)).withWatermark("at", "1 minute")
    .groupBy(F.window("at", "5 minutes")).count().select("window.start", "count"))
"""


@NIGHTLY
def test_what_the_watermark_of_the_last_batch_closes_is_not_lost_where_its_sink_skips_that_batch(
    jvm: SparkJvm, tmp_path: Path
) -> None:
    program = READ + WINDOWS + FILES.removeprefix(READ).replace("payments", "windows")
    trial = tried(jvm, tmp_path, program, SinkFault(KILL, 2, 1))
    assert trial.fault is not None
    assert trial.left["/data/out"].total() > 1
    assert not trial.findings
