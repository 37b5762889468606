"""Programs as they are on the real Spark that write to PostgreSQL, through its JDBC and through a driver of Python."""

from pathlib import Path

import pytest

from headrace_properties.sinks.sink_check import SinkCheck
from headrace_properties.sinks.sink_reports import OneTrial
from headrace_sim.spark.client.scripts import Script, run_script, surroundings
from headrace_sim.spark.laboratory import postgres
from headrace_sim.spark.laboratory.jvm import SparkJvm
from headrace_sim.spark.laboratory.laboratory_program import LaboratoryProgram
from headrace_sim.spark.laboratory.postgres import NoPostgresError
from headrace_sim.spark.laboratory.real_drivers import RealDrivers
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.database_servers import databases_kept
from headrace_sim.spark.sinks.processes import Sink

pytestmark = pytest.mark.spark
pytest.importorskip("psycopg")

BEGIN = """
import psycopg
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("payments").getOrCreate()
payments = spark.readStream.schema("id LONG, amount LONG").json("/data/in")
SHOP = "postgresql://app:secret@db.test:6432/shop"

"""
END = """
payments.writeStream.foreachBatch(write).option("checkpointLocation", "/data/checkpoint").start().awaitTermination()
"""
APPENDED = """
def write(df, batch_id):
    options = {"url": "jdbc:" + SHOP.replace("app:secret@", ""), "dbtable": "public.payments", "user": "app"}
    df.write.format("jdbc").options(**options).option("password", "secret").mode("append").save()
    df.groupBy().count().write.jdbc("jdbc:postgresql://db.test/shop", "counts", "append")
"""
UPSERTED = """
def prepare():
    with psycopg.connect(SHOP) as db:
        db.execute("CREATE TABLE payments (id BIGINT PRIMARY KEY, amount BIGINT)")

def write(df, batch_id):
    df.write.jdbc("jdbc:postgresql://db.test/shop", "stage", "overwrite", {"user": "app"})
    with psycopg.connect(SHOP) as db:
        db.execute("INSERT INTO payments SELECT * FROM stage ON CONFLICT (id) DO UPDATE SET amount = EXCLUDED.amount")
"""
ROWS = (((1, 10), (2, 20)), ((3, 30),))


@pytest.fixture(scope="module")
def server() -> None:
    try:
        postgres.binaries()
    except NoPostgresError as error:
        pytest.skip(str(error))
    if postgres.find_jdbc_jar() is None:
        pytest.skip("PostgreSQL's driver for JDBC is not on this machine")


def tried(jvm: SparkJvm, folder: Path, program: str, kind: SinkFaultKind, effect: int) -> OneTrial:
    file = folder / "stream.py"
    file.write_text(BEGIN + program + END)
    script = Script(str(file))
    with databases_kept(), surroundings(script) as module:
        run = run_script(script, module)
    (job,) = run.queries
    assert job.sink.function is not None
    host = RealDrivers(LaboratoryProgram(script, (job,)), jvm, folder)
    sink = Sink(job.sink.function, job.input, ROWS, run.variables.get("prepare"), host=host)
    return SinkCheck(sink).one(SinkFault(kind, 0, effect))


def test_jdbcs_append_is_doubled_where_the_driver_dies_behind_it(
    jvm: SparkJvm, server: None, tmp_path: Path
) -> None:
    trial = tried(jvm, tmp_path, APPENDED, SinkFaultKind.KILL, 1)
    assert [(effect.action, effect.target) for effect in trial.undisturbed[:2]] == [
        ("save append", "postgres: payments"),
        ("jdbc append", "postgres: counts"),
    ]
    assert [(finding.destination, finding.wrong.name) for finding in trial.findings] == [
        ("postgres: payments", "TWICE")
    ]


@pytest.mark.parametrize(
    "kind",
    [
        SinkFaultKind.LOSE_REPLY,
        pytest.param(SinkFaultKind.KILL, marks=pytest.mark.nightly),
        pytest.param(SinkFaultKind.PAUSE, marks=pytest.mark.nightly),
    ],
)
def test_an_upsert_from_a_staging_table_is_sound(
    jvm: SparkJvm, server: None, tmp_path: Path, kind: SinkFaultKind
) -> None:
    trial = tried(jvm, tmp_path, UPSERTED, kind, 2)
    assert [(effect.action, effect.target, effect.pending) for effect in trial.undisturbed[:3]] == [
        ("jdbc overwrite", "postgres: stage", False),
        ("INSERT INTO payments", "postgres: payments", True),
        ("commit", "postgres", False),
    ]
    assert trial.findings == ()


LEDGER = """
def prepare():
    with psycopg.connect(SHOP) as db:
        db.execute("CREATE TABLE payments (id BIGINT PRIMARY_KEY, amount BIGINT)")
        db.execute("CREATE TABLE done (batch BIGINT PRIMARY KEY)")
        db.execute("CREATE TABLE log (ids TEXT)")

def write(df, batch_id):
    rows = [tuple(row) for row in df.collect()]
    with CONNECTION as db, db.cursor() as cursor:
        MARK
        cursor.executemany("INSERT INTO payments VALUES (%s, %s)", rows)
        cursor.execute("INSERT INTO log VALUES (%s)", [str(sorted(row[0] for row in rows))])
"""
MARK = """cursor.execute("INSERT INTO done VALUES (%s) ON CONFLICT DO NOTHING", [batch_id])
        if not cursor.rowcount: return"""
IN_POOL = "import psycopg_pool\npool = psycopg_pool.ConnectionPool(SHOP, min_size=1, max_size=2, open=True)\n"


@pytest.mark.nightly
@pytest.mark.parametrize(
    "connection", ["psycopg.connect(SHOP)", "pool.connection()"], ids=["alone", "pooled"]
)
@pytest.mark.parametrize("mark", ["pass", MARK], ids=["again", "once"])
def test_two_tables_of_one_transaction_are_doubled_together_unless_it_knows_its_batch(
    jvm: SparkJvm, server: None, tmp_path: Path, connection: str, mark: str
) -> None:
    program = LEDGER.replace("CONNECTION", connection).replace("MARK", mark)
    key = "" if mark == "pass" else "PRIMARY KEY"
    program = program.replace("PRIMARY_KEY", key)
    pool = ""
    if connection.startswith("pool"):
        pytest.importorskip("psycopg_pool")
        pool = IN_POOL
    trial = tried(jvm, tmp_path, pool + program, SinkFaultKind.KILL, 3 if mark == "pass" else 4)
    doubled = [] if mark == MARK else ["postgres: log", "postgres: payments"]
    assert sorted(finding.destination for finding in trial.findings) == doubled
    assert trial.left["postgres: payments"].total() == (3 if mark == MARK else 5)
