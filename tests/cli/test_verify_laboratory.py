"""``headrace verify jobs/stream.py --on spark``: the program as it is, on the real Spark, which dies at each of its effects."""

import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path
from subprocess import PIPE

import msgspec
import pytest

from headrace_properties.replays import read_replay
from headrace_properties.spark_jobs.trials import SinkTrial
from tests.cli.rig import Run

pytestmark = pytest.mark.spark

PROGRAM = """
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.appName("payments").getOrCreate()
payments = spark.readStream.schema("id LONG, amount LONG").json("/landing/payments")
feed = [[(1, 10)]]


def write(df, batch_id):
    rows = df.rdd.map(lambda row: (row.id, row.amount)).sortByKey().collect()
    frame = spark.createDataFrame(rows, "id LONG, amount LONG"){dated}
    frame.write.mode("{mode}").json(f"s3a://lake/payments{place}")


payments.writeStream.foreachBatch(write).option("checkpointLocation", "s3a://lake/_checkpoint").start()
spark.streams.awaitAnyTermination()
spark.stop()
"""
DOUBLED = PROGRAM.format(mode="append", place="", dated="")
SOUND = PROGRAM.format(mode="overwrite", place="/batch={batch_id}", dated="")


def line_of(program: str, call: str) -> int:
    return next(number for number, line in enumerate(program.splitlines(), 1) if call in line)


@pytest.fixture
def job(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HEADRACE_NO_COLOR", "1")
    return Path("stream.py")


@pytest.mark.cpu(75, "the one job that a command tries on the real Spark by day")
def test_job_that_only_the_real_spark_runs_is_found_to_double_its_rows(job: Path, run: Run) -> None:
    job.write_text(DOUBLED)
    before = set(Path().iterdir())
    simulated = run("verify", str(job))
    assert simulated.exit_code == 2
    assert "stream.py:10: cannot follow DataFrame.rdd.sortByKey without Spark" in simulated.output
    assert f"headrace verify {job} --on spark" in simulated.output
    result = run("verify", str(job), "--on", "spark", "--json")
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    (finding,) = document["findings"]
    assert finding["place"]["line"] == line_of(DOUBLED, ".write.mode")
    assert "(id=1, amount=10) once too often" in finding["message"]
    assert any(note.startswith("Spark 4") for note in document["queries"][0]["notes"])
    file = Path(finding["replay_file"])
    trial = read_replay(file).trial
    assert isinstance(trial, SinkTrial)
    assert trial.spark
    replay = read_replay(file)
    assert set(replay.versions or {}) == {"PySpark", "Python", "Java", "jars"}
    others = {"PySpark": "2.4.0", "Python": "2.7.18", "Java": "8.0", "jars": "lost.jar"}
    file.write_bytes(msgspec.json.encode(msgspec.structs.replace(replay, versions=others)))
    again = run("replay", str(file))
    assert again.exit_code == 1
    assert "VIOLATED again" in again.output
    for name, version in others.items():
        assert f"Recorded with {name} {version}; this is " in again.output
    assert "headrace-root" not in result.output + again.output
    assert set(Path().iterdir()) - before == {Path(".headrace")}


@pytest.mark.nightly
def test_sound_job_holds_on_the_real_spark(job: Path, run: Run) -> None:
    job.write_text(SOUND)
    result = run("verify", str(job), "--on", "spark")
    assert result.exit_code == 0, result.output


@pytest.mark.nightly
def test_rows_that_a_source_delivers_again_are_tried_where_it_may(job: Path, run: Run) -> None:
    job.write_text(SOUND)
    result = run("verify", str(job), "--on", "spark", "--duplicates", "--json")
    assert result.exit_code == 1, result.output
    (finding,) = json.loads(result.stdout)["findings"]
    assert finding["kind"] == "delivered twice"


@pytest.mark.nightly
def test_two_sparks_that_share_the_trials_find_the_same(job: Path, run: Run) -> None:
    job.write_text(DOUBLED)
    alone, shared = (run("verify", str(job), "--on", "spark", "--json", "--jobs", jobs) for jobs in "12")
    assert alone.exit_code == shared.exit_code == 1, alone.output + shared.output
    one, other = (json.loads(result.stdout)["findings"] for result in (alone, shared))
    assert [finding["message"] for finding in one] == [finding["message"] for finding in other]


COUNTING = """
import pandas as pd
from pyspark.sql.streaming import StatefulProcessor

SEEN = {}


class Counting(StatefulProcessor):
    def init(self, handle):
        self.handle = handle
        self.count = handle.getValueState("count", "n LONG")

    def handleInputRows(self, key, rows, timerValues):
        came = sum(len(part) for part in rows)
        BEFORE
        self.count.update((n,))
        self.handle.registerTimer(timerValues.getCurrentWatermarkInMs() + 60_000)
        yield pd.DataFrame({"user": [key[0]], "n": [n]})

    def handleExpiredTimer(self, key, timerValues, expiredTimerInfo):
        self.count.clear()
        yield pd.DataFrame({"user": [key[0]], "n": [0]})

    def close(self):
        pass
"""
IN_MODULE = "n = SEEN[key] = SEEN.get(key, 0) + came"
IN_STATE = "n = came + (self.count.get()[0] if self.count.exists() else 0)"
COUNTED = """
from datetime import datetime

from counting import Counting
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("counts").getOrCreate()
spark.conf.set("spark.sql.streaming.stateStore.providerClass",
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider")
clicks = spark.readStream.schema("user STRING, at TIMESTAMP").json("/data/in")
feed = [[("ann", datetime(2024, 1, 1, 12, 0))], [("ann", datetime(2024, 1, 1, 12, 0, 5))]]
counts = clicks.withWatermark("at", "0 seconds").groupBy("user").transformWithStateInPandas(
    Counting(), outputStructType="user STRING, n LONG", outputMode="Update", timeMode="EventTime")


def write(df, batch_id):
    df.write.mode("overwrite").parquet(f"/data/out/batch={batch_id}")


query = counts.writeStream.outputMode("update").foreachBatch(write).option("checkpointLocation", "/data/checkpoint").start()
query.awaitTermination()
"""


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("kept", "found"), [(IN_MODULE, ["memory"]), (IN_STATE, [])], ids=["module", "state"]
)
def test_state_that_a_module_keeps_is_lost_at_crash_points_of_the_real_spark(
    job: Path, run: Run, kept: str, found: list[str]
) -> None:
    job.write_text(COUNTED)
    Path("counting.py").write_text(COUNTING.replace("BEFORE", kept))
    result = run("verify", str(job), "--on", "spark", "--json")
    findings = json.loads(result.stdout)["findings"]
    assert [finding["kind"] for finding in findings if finding["kind"] == "memory"] == found, result.output
    assert result.exit_code == bool(found), result.output


UNREAD = """
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.getOrCreate()
known = spark.sparkContext.parallelize([("ann", "gold")]).toDF(["user", "level"])
events = spark.readStream.format("kafka").option("subscribe", "events").load()
users = events.select(F.col("key").cast("string").alias("user")).join(F.broadcast(known), "user", "left")
feed = [[(b"ann", b"{}", "events", 0, 0, None, 0)]]


def save(df, batch_id):
    df.write.mode("append").parquet("/lake/users")


users.writeStream.foreachBatch(save).option("checkpointLocation", "/lake/checkpoint").start().awaitTermination()
"""


def test_program_that_the_simulation_cannot_read_is_offered_the_real_spark(job: Path, run: Run) -> None:
    job.write_text(UNREAD)
    result = run("verify", str(job))
    assert result.exit_code == 2
    assert "cannot follow SparkContext.parallelize" in result.output
    assert f"headrace verify {job} --on spark" in result.output
    with_arguments = run("verify", "-m", "stream", "--", "--topic", "my events")
    assert "headrace verify -m stream --on spark -- --topic 'my events'" in with_arguments.output


@pytest.mark.nightly
def test_program_that_only_the_real_spark_reads_is_judged_and_replayed(job: Path, run: Run) -> None:
    job.write_text(UNREAD)
    result = run("verify", str(job), "--on", "spark", "--json")
    assert result.exit_code == 1, result.output
    document = json.loads(result.stdout)
    (finding,) = document["findings"]
    assert "(user='ann', level='gold') once too often" in finding["message"]
    assert document["notes"][0].startswith("only the real Spark can read the program")
    assert run("replay", finding["replay_file"]).exit_code == 1


BEGIN = """
from pyspark.sql import SparkSession, functions as F

spark = SparkSession.builder.getOrCreate()
seen = spark.sparkContext.parallelize([1])  # which the simulation cannot follow
"""
PAYMENTS = """
payments = spark.readStream.schema("id LONG, amount LONG").json("/in")
feed = [[(1, 10)], [(2, 20)]]
"""
START = """
payments.writeStream.foreachBatch(save).option("checkpointLocation", "{checkpoint}").start().awaitTermination()
"""
INSERTED = (
    BEGIN  # noqa: S608  a program's text
    + """
spark.sql("CREATE TABLE IF NOT EXISTS sales (id LONG, amount LONG) USING parquet")
"""
    + PAYMENTS
    + """
def save(df, batch_id):
    df.createOrReplaceTempView("batch")
    df.sparkSession.sql("INSERT INTO sales SELECT * FROM batch")
"""
    + START.format(checkpoint="/checkpoint")
)
BESIDE = (
    BEGIN
    + PAYMENTS
    + """
def save(df, batch_id):
    df.write.mode("overwrite").parquet(f"/out/batch={batch_id}")
"""
    + START.format(checkpoint="/out/checkpoint")
)
ADDED = (
    BEGIN
    + """
spark.range(1).selectExpr("0L AS total").write.mode("ignore").saveAsTable("totals")
"""
    + PAYMENTS
    + """
def save(df, batch_id):
    total = spark.table("totals").first()[0] + df.agg(F.sum("amount")).first()[0]
    spark.createDataFrame([(total,)], "total LONG").write.mode("overwrite").parquet("/next")
    spark.read.parquet("/next").write.mode("overwrite").insertInto("totals")
"""
    + START.format(checkpoint="/checkpoint")
)
TWO = (
    BEGIN
    + """
def topic(name):
    return spark.readStream.format("kafka").option("subscribe", name).load().selectExpr("CAST(key AS STRING) k")

def save(place):
    def write(df, batch_id):
        df.write.mode("overwrite").parquet(f"{place}/batch={batch_id}")
    return write

topic("orders").writeStream.foreachBatch(save("/orders")).option("checkpointLocation", "/c/orders").start()
topic("users").writeStream.foreachBatch(save("/users")).option("checkpointLocation", "/c/users").start()
spark.streams.awaitAnyTermination()
"""
)
LOOKS_UP = (
    BEGIN
    + """
levels = spark.read.option("header", True).csv("{folder}/levels.csv")
"""
    + PAYMENTS
    + """
def save(df, batch_id):
    joined = df.join(levels, df.id == levels.number, "left").orderBy("id")
    joined.write.mode("overwrite").json(f"/out/batch={{batch_id}}")
"""
    + START.format(checkpoint="/checkpoint")
)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("program", "wrong"),
    [
        pytest.param(INSERTED, "/warehouse/sales has (id=1, amount=10) once too often", id="sql"),
        pytest.param(ADDED, "/next has (total=", id="reads_its_own_table"),
        pytest.param(BESIDE, "", id="checkpoint_below_its_output"),
        pytest.param(TWO, "", id="two_queries"),
        pytest.param(LOOKS_UP, "", id="looks_up"),
    ],
)
def test_program_that_only_the_real_spark_follows_is_judged(
    job: Path, run: Run, tmp_path_factory: pytest.TempPathFactory, program: str, wrong: str
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "levels.csv").write_text("number,level\n1,gold\n")
    job.write_text(program.replace("{folder}", str(elsewhere)).replace("{{", "{").replace("}}", "}"))
    result = run("verify", str(job), "--on", "spark")
    assert result.exit_code == bool(wrong), result.output
    assert wrong in result.output
    assert [path.name for path in elsewhere.iterdir()] == ["levels.csv"]


@pytest.mark.nightly
def test_session_of_a_module_beside_the_program_is_the_real_one(
    job: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("sessions.py").write_text(
        "from pyspark.sql import SparkSession\nspark = SparkSession.builder.getOrCreate()\n"
    )
    monkeypatch.delitem(sys.modules, "sessions", raising=False)
    made = 'spark = SparkSession.builder.appName("payments").getOrCreate()'
    job.write_text(SOUND.replace(made, "from sessions import spark"))
    result = run("verify", str(job), "--on", "spark")
    assert result.exit_code == 0, result.output


@pytest.mark.nightly
def test_both_engines_are_compared(job: Path, run: Run) -> None:
    job.write_text(
        DOUBLED.replace("df.rdd.map(lambda row: (row.id, row.amount)).sortByKey().collect()", "df.collect()")
    )
    result = run("verify", str(job), "--on", "both")
    assert result.exit_code == 1, result.output
    assert "the simulation and the real Spark both find 1 of 1" in result.output


@pytest.mark.nightly
@pytest.mark.parametrize(
    "arguments", [["stream:write", "--schema", "id LONG, amount LONG"], ["stream:build"]]
)
def test_function_is_a_target_as_a_program_is(job: Path, run: Run, arguments: list[str]) -> None:
    begin, sink, _ = re.split(r"(?=def write)|(?=payments.writeStream)", DOUBLED)
    build = """
def build(spark):
    payments = spark.readStream.schema("id LONG, amount LONG").json("/in")
    return payments.writeStream.foreachBatch(write).option("checkpointLocation", "/checkpoint")
"""
    job.write_text(begin + sink + build)
    result = run("verify", *arguments, "--on", "spark", "--json")
    assert result.exit_code == 1, result.output
    (finding,) = json.loads(result.stdout)["findings"]
    assert "(id=1, amount=10) once too often" in finding["message"]
    assert run("replay", finding["replay_file"]).exit_code == 1


def living(session: int) -> list[str]:
    """Return the processes of a session that live, each as the kernel names it."""
    stats = []
    for process in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            name, _, told = process.read_text().rpartition(")")
            if int(told.split()[3]) == session:
                stats.append(name)
    return stats


@pytest.mark.nightly
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="it looks for processes in /proc")
@pytest.mark.parametrize(
    ("number", "sparks", "when"),
    [
        (signal.SIGINT, "1", "running undisturbed"),
        (signal.SIGINT, "2", " of "),
        (signal.SIGTERM, "1", " of "),  # as from `timeout`, whose signal comes to the whole group
    ],
)
def test_signal_tells_what_is_done_and_leaves_no_process(
    job: Path, number: signal.Signals, sparks: str, when: str
) -> None:
    job.write_text(DOUBLED)
    command = [sys.executable, "-m", "headrace_cli", "verify", str(job), "--on", "spark", "--jobs", sparks]
    verifying = subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, start_new_session=True)
    assert verifying.stderr is not None
    assert any(when in line for line in verifying.stderr)
    os.killpg(verifying.pid, number)  # as a terminal does
    told, _ = verifying.communicate()
    assert verifying.returncode == 128 + number
    assert "UNKNOWN: the search was stopped " in told
    until = time.monotonic() + 30
    while (left := living(verifying.pid)) and time.monotonic() < until:
        time.sleep(0.1)
    assert not left


@pytest.mark.nightly
@pytest.mark.parametrize("module", ["pyspark.sql", "pyspark.sql.connect.session"])
def test_client_of_spark_connect_gets_a_classic_session(job: Path, run: Run, module: str) -> None:
    remote = SOUND.replace("builder.appName", 'builder.remote("sc://cluster:15002").appName')
    text = remote.replace(
        "from pyspark.sql import SparkSession, ",
        f"from {module} import SparkSession\nfrom pyspark.sql import ",
    )
    job.write_text(text.replace("df.rdd.map(lambda row: (row.id, row.amount)).collect()", "df.collect()"))
    result = run("verify", str(job), "--on", "spark")
    assert result.exit_code == 0, result.output
    assert "It is a client of Spark Connect, and had a classic session" in result.output


CHANGES = (
    BEGIN  # noqa: S608  a program's text
    + PAYMENTS.replace(", [(2, 20)]", "")
    + """
import os, sqlite3
from pathlib import Path

def save(df, batch_id):
    with open("rates.csv", "a") as file:
        file.write("2,silver\\n")
    Path("{home}/notes.txt").write_text("changed")
    if os.path.exists("old.txt"):
        os.remove("old.txt")
    with sqlite3.connect("{home}/ledger.db") as db:
        db.execute("DELETE FROM ledger")
    df.write.mode("overwrite").parquet("lake")
    df.write.mode("overwrite").parquet("file://{home}/lake2")
    spark.sql("DROP TABLE IF EXISTS nowhere")
"""
    + START.format(checkpoint="{home}/checkpoint")
)


def contents_of(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file() and ".headrace" not in path.parts)
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.mark.nightly
def test_files_of_the_owner_are_left_as_they_are(job: Path, run: Run) -> None:
    home = Path.cwd()
    job.write_text(CHANGES.replace("{home}", str(home)))
    for name in (
        "rates.csv",
        "notes.txt",
        "old.txt",
        "lake/part-0.parquet",
        "lake2/part-0.parquet",
        "checkpoint/metadata",
    ):
        (home / name).parent.mkdir(exist_ok=True)
        (home / name).write_text("owner's")
    with closing(sqlite3.connect("ledger.db")) as db, db:
        db.execute("CREATE TABLE ledger (id INTEGER)")
        db.execute("INSERT INTO ledger VALUES (1)")
    before = contents_of(home)
    result = run("verify", str(job), "--on", "spark", "--json")
    assert result.exit_code in {0, 1, 3}, result.output
    assert json.loads(result.stdout)["queries"][0]["trials"] > 0
    assert contents_of(home) == before
    assert "headrace-root" not in result.output


KEPT = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.appName("kept").getOrCreate()
payments = spark.readStream.schema("id LONG").option("maxFilesPerTrigger", 1).json("landing")
payments.writeStream.foreachBatch(lambda df, batch_id: df.write.mode("append").json("lake")).option(
    "checkpointLocation", "checkpoint").start().awaitTermination()
"""


@pytest.mark.nightly
def test_job_is_tried_on_its_own_source_and_a_replay_says_what_has_come_since(job: Path, run: Run) -> None:
    job.write_text(KEPT)
    Path("landing").mkdir()
    Path("landing/1.json").write_text('{"id": 1}')
    result = run("verify", str(job), "--on", "spark", "--source", "keep", "--batches", "1", "--json")
    assert result.exit_code == 1, result.output
    (finding,) = json.loads(result.stdout)["findings"]
    assert "lake has (id=1) once too often" in finding["message"]
    assert not Path("lake").exists()
    assert not Path("checkpoint").exists()
    replay = read_replay(Path(finding["replay_file"]))
    recorded = replay.versions or {}
    assert recorded["checkpoint"] == "new"
    assert recorded["sources"].startswith("1 files (")
    Path("landing/2.json").write_text('{"id": 2}')
    again = run("replay", finding["replay_file"])
    assert again.exit_code == 1, again.output
    assert "VIOLATED again" in again.output
    assert f"Recorded with sources {recorded['sources']}; this is 2 files" in again.output


def test_own_source_needs_the_real_spark(job: Path, run: Run) -> None:
    job.write_text(KEPT)
    result = run("verify", str(job), "--source", "keep")
    assert (result.exit_code, "option source='keep' must be given with on=spark" in result.output) == (
        2,
        True,
    )
    result = run("verify", str(job), "--on", "spark", "--batches", "2")
    assert (result.exit_code, "option batches=2 must be given with source=keep" in result.output) == (
        2,
        True,
    )
