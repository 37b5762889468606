"""A query goes on from copies of its own checkpoint, sources and tables; nothing of its owner's is touched."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace_properties.sinks.points import of_own_source
from headrace_properties.sinks.sink_check import SinkCheck
from headrace_properties.sinks.sink_reports import OneTrial
from headrace_sim.spark.client.script_needs import ProgramError
from headrace_sim.spark.client.scripts import Script, run_script, surroundings
from headrace_sim.spark.laboratory import kept_files
from headrace_sim.spark.laboratory.jvm import SparkJvm
from headrace_sim.spark.laboratory.kept_files import kept
from headrace_sim.spark.laboratory.laboratory_program import LaboratoryProgram
from headrace_sim.spark.laboratory.places import ROOT
from headrace_sim.spark.laboratory.real_drivers import RealDrivers, looked
from headrace_sim.spark.pyspark_versions import VERSION
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.processes import Sink
from headrace_sim.spark.sinks.sink_effects import Effect
from headrace_sim.spark.sinks.sink_runs import UnfollowableSinkError
from headrace_sim.spark.sinks.write_fence import has_fence
from headrace_sim.spark.spark_job import SparkJob

pytestmark = pytest.mark.spark

PROGRAM = """
import sqlite3
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
payments = spark.readStream.schema("id LONG, amount LONG").option("maxFilesPerTrigger", 1).json("{landing}")

def write(df, batch_id):
    rows = [(row.id, row.amount) for row in df.collect()]
    with sqlite3.connect("ledger.db") as db:
        db.executemany("INSERT OR {verb} INTO ledger VALUES (?, ?)", rows)
    df.write.mode("{mode}").parquet(f"{lake}")

payments.writeStream.foreachBatch(write).option("checkpointLocation", "checkpoint").start().awaitTermination()
"""


def owned(folder: Path, *, mode: str = "append", place: str = "", verb: str = "IGNORE") -> Path:
    """Make what an owner has whose query has done batch 0 of three files: its program, landing zone, checkpoint and tables."""
    home, landing, lake = folder / "home", folder / "landing", folder / "lake"
    for made in (home, landing, lake):
        made.mkdir()
    for number in range(3):
        (landing / f"{number}.json").write_text(json.dumps({"id": number, "amount": number * 10}))
    checkpoint = home / "checkpoint"
    seen_ms = (landing / "0.json").stat().st_mtime_ns // 1_000_000
    done = {"path": f"file://{landing}/0.json", "timestamp": seen_ms, "batchId": 0}
    logs = {
        "metadata": '{"id":"9f3c5e0e-0000-4000-8000-000000000001"}',
        "offsets/0": 'v1\n{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{}}\n{"logOffset":0}',
        "commits/0": 'v1\n{"nextBatchWatermarkMs":0}',
        "sources/0/0": f"v1\n{json.dumps(done)}",
    }
    for name, text in logs.items():
        (checkpoint / name).parent.mkdir(parents=True, exist_ok=True)
        (checkpoint / name).write_text(text)
    with closing(sqlite3.connect(home / "ledger.db")) as db, db:
        db.execute("CREATE TABLE ledger (id INT PRIMARY KEY, amount INT)")
        db.execute("INSERT INTO ledger VALUES (0, 0)")
    pq.write_table(pa.table({"id": [0], "amount": [0]}), lake / "part-00000-old.parquet")
    program = PROGRAM.format(landing=landing, lake=f"{lake}{place}", mode=mode, verb=verb)
    (home / "stream.py").write_text(program)
    return home


def listed(folder: Path) -> dict[str, Any]:
    """Return each file with its bytes and its times."""
    return {
        str(path): (path.read_bytes() if path.is_file() else b"", path.lstat().st_mtime_ns)
        for path in folder.rglob("*")
    }


def job_of(program: Path) -> tuple[Script, SparkJob]:
    script = Script(str(program))
    with surroundings(script) as module:
        (job,) = run_script(script, module).queries
    return script, job


def sink_of(jvm: SparkJvm, home: Path, batches: int = 3, *, by_clock: bool = False) -> Sink:
    script, job = job_of(home / "stream.py")
    host = RealDrivers(LaboratoryProgram(script, (job,)), jvm, home)
    host.kept = kept(job, home, jvm.folder, batches)
    return Sink(job.sink.function, job.input, (), None, host=host, begins=host.kept.begins, by_clock=by_clock)


def tried(jvm: SparkJvm, home: Path, fault: SinkFault) -> OneTrial:
    return SinkCheck(sink_of(jvm, home)).one(fault)


@pytest.mark.parametrize(
    ("kind", "effect", "how"),
    [
        (SinkFaultKind.PAUSE, 2, "hung after commit on ledger.db"),
        pytest.param(SinkFaultKind.KILL, 3, "died after parquet append", marks=pytest.mark.nightly),
    ],
)
def test_query_goes_on_behind_its_own_checkpoint_and_touches_nothing(
    jvm: SparkJvm, tmp_path: Path, kind: SinkFaultKind, effect: int, how: str
) -> None:
    home = owned(tmp_path)
    before = listed(tmp_path)
    trial = tried(jvm, home, SinkFault(kind, 1, effect))
    assert listed(tmp_path) == before
    assert {effect.batch for effect in trial.undisturbed} == {1, 2}
    lake, ledger = str(tmp_path / "lake"), "ledger.db: ledger"
    (finding,) = trial.findings
    assert finding.destination == lake
    assert finding.story.startswith(f"In batch 1 the driver {how}")
    assert "(id=1, amount=10) once too often" in finding.story
    assert [sum(trial.calm[name].values()) for name in (lake, ledger)] == [3, 3]
    assert [sum(trial.left[name].values()) for name in (lake, ledger)] == [4, 3]


@pytest.mark.nightly
def test_sound_query_is_not_accused_at_any_point_of_its_own_batches(jvm: SparkJvm, tmp_path: Path) -> None:
    home = owned(tmp_path, mode="overwrite", place="/batch={batch_id}", verb="REPLACE")
    before = listed(tmp_path)
    report = SinkCheck(sink_of(jvm, home)).run()
    assert (report.findings, report.unknown, report.questions) == ((), (), ())
    assert report.effects == (3, 3)
    assert report.trials > 15
    assert listed(tmp_path) == before


@pytest.mark.nightly
def test_no_more_batches_are_run_than_are_wanted(jvm: SparkJvm, tmp_path: Path) -> None:
    report = SinkCheck(sink_of(jvm, owned(tmp_path), batches=1)).run(overtaken=False)
    assert report.effects == (3,)
    assert [finding.destination for finding in report.findings] == [str(tmp_path / "lake")]


CLOCKED = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
ticks = spark.readStream.format("rate").option("rowsPerSecond", 2).load()
ticks.writeStream.foreachBatch(lambda df, batch_id: df.write.mode("append").json("ticks")).option(
    "checkpointLocation", "checkpoint").start().awaitTermination()
"""


@pytest.mark.nightly
def test_rows_of_a_clock_are_not_compared_between_runs(jvm: SparkJvm, tmp_path: Path) -> None:
    (tmp_path / "stream.py").write_text(CLOCKED)
    report = SinkCheck(sink_of(jvm, tmp_path, batches=2, by_clock=True)).run(overtaken=False)
    assert report.findings == ()
    assert len(report.effects) == 2
    unsteady, doubled = report.unknown
    assert unsteady.startswith("ticks differs from one undisturbed run to the next")
    assert "more than once, and undisturbed nothing" in doubled


SPARKS_OWN = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.readStream.schema("id LONG, amount LONG").option("maxFilesPerTrigger", 1).json("{landing}").writeStream.option(
    "checkpointLocation", "checkpoint").format("parquet").start("out").awaitTermination()
"""


@pytest.mark.nightly
def test_sink_of_sparks_own_dies_behind_its_last_batch(jvm: SparkJvm, tmp_path: Path) -> None:
    home = owned(tmp_path)
    (home / "stream.py").write_text(SPARKS_OWN.format(landing=tmp_path / "landing"))
    report = SinkCheck(sink_of(jvm, home)).run(overtaken=False)
    assert (report.findings, report.unknown, report.effects) == ((), (), (1, 1))
    assert report.trials == 1


def test_files_of_a_source_are_links_of_the_moment_of_the_snapshot(tmp_path: Path) -> None:
    home = owned(tmp_path)
    made = kept(job_of(home / "stream.py")[1], home, tmp_path, 3)
    assert (made.begins, made.checkpoint) == (1, "checkpoint")
    landing = made.snapshot / ROOT / str(tmp_path / "landing")[1:]
    assert {path.name for path in landing.iterdir()} == {"0.json", "1.json", "2.json"}
    assert {path.is_symlink() for path in landing.iterdir()} == {has_fence()}
    assert not (made.snapshot / "ledger.db").is_symlink()
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
    made.begin(tmp_path / "one", "trial7")
    log = (tmp_path / "one/checkpoint/sources/0/0").read_text()
    assert f'"viewfs://trial7{tmp_path}/landing/0.json"' in log
    (tmp_path / "landing/3.json").write_text("{}")  # comes into no trial
    made.begin(tmp_path / "other", "trial8")
    assert len(list((tmp_path / "other" / made.place(tmp_path / "landing")).iterdir())) == 3
    (home / "checkpoint/commits/1").write_text("v1")
    with pytest.raises(
        UnfollowableSinkError, match="checkpoint changed while its trials ran: stop the query"
    ):
        made.begin(tmp_path / "third", "trial9")


def test_what_is_too_large_to_copy_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = owned(tmp_path)
    monkeypatch.setattr(kept_files, "MOST_BYTES", 100)
    with pytest.raises(
        ProgramError, match=r"checkpoint has \d+ bytes, and each trial has a copy of at most 100"
    ):
        kept(job_of(home / "stream.py")[1], home, tmp_path, 3)


@pytest.mark.parametrize(
    ("call", "why"),
    [
        ('format("socket").option("host", "a").option("port", 1).load()', "a socket gives no row twice"),
        ('schema("id LONG").json("s3a://lake/in")', "s3a://lake/in is not on this disk"),
        ('format("kafka").option("subscribe", "orders").load()', "orders of kafka is on another machine"),
    ],
)
def test_source_that_cannot_be_left_is_refused_by_name(tmp_path: Path, call: str, why: str) -> None:
    program = tmp_path / "stream.py"
    program.write_text(f"""
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
spark.readStream.{call}.writeStream.foreachBatch(lambda df, batch_id: df.collect()).start().awaitTermination()
""")
    with pytest.raises(ProgramError, match=why):
        kept(job_of(program)[1], tmp_path, tmp_path, 3)


@pytest.mark.parametrize(
    ("has_function", "kinds"),
    [
        (True, {(SinkFaultKind.KILL, 4, 0), (SinkFaultKind.KILL, 5, 1), (SinkFaultKind.RESTART, 4, 1)}),
        (False, {(SinkFaultKind.KILL, 5, 1)}),
    ],
)
def test_points_are_those_that_can_be_struck_from_the_first_batch_on(
    has_function: bool,
    kinds: set[Any],
) -> None:
    by_batch = [[Effect(0, batch, "append", "t", "a.py:1")] for batch in range(6)]
    kinds_tried = (SinkFaultKind.KILL, SinkFaultKind.RESTART, SinkFaultKind.REORDER)
    faults = [SinkFault(kind, batch, at) for kind in kinds_tried for batch in range(6) for at in (0, 1)]
    points = {
        (point.kind, point.batch, point.effect)
        for point in of_own_source(faults, by_batch, 4, has_function=has_function)
    }
    assert kinds <= points
    assert {batch for _, batch, _ in points} == ({4, 5} if has_function else {5})
    assert SinkFaultKind.REORDER not in {kind for kind, _, _ in points}


CUSTOM = """
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader


class Numbers(DataSource):
    @classmethod
    def name(cls):
        return "numbers"

    def schema(self):
        return "id LONG"

    def simpleStreamReader(self, schema):
        return Reader()


class Reader(SimpleDataSourceStreamReader):
    def initialOffset(self):
        return {"at": 0}

    def read(self, start):
        return self.readBetweenOffsets(start, {"at": start["at"] + 2}), {"at": start["at"] + 2}

    def readBetweenOffsets(self, start, end):
        return iter([(number,) for number in range(start["at"], end["at"])])


spark = SparkSession.builder.getOrCreate()
spark.dataSource.register(Numbers)
numbers = spark.readStream.format("numbers").load()
numbers.writeStream.foreachBatch(lambda df, batch_id: df.write.mode("append").json("out")).option(
    "checkpointLocation", "checkpoint").start().awaitTermination()
"""


@pytest.mark.nightly
@pytest.mark.skipif(VERSION < (4, 0), reason="PySpark 3.5 has no data sources in Python")
def test_source_in_python_is_read_as_it_is(jvm: SparkJvm, tmp_path: Path) -> None:
    script = Script(str(tmp_path / "stream.py"))
    (tmp_path / "stream.py").write_text(CUSTOM)
    ((job,), _) = looked(LaboratoryProgram(script, ()), jvm, tmp_path)
    host = RealDrivers(LaboratoryProgram(script, (job,)), jvm, tmp_path)
    host.kept = kept(job, tmp_path, jvm.folder, 1)
    sink = Sink(job.sink.function, job.input, (), None, host=host, begins=0)
    trial = SinkCheck(sink).one(SinkFault(SinkFaultKind.PAUSE, 0, 0))
    assert [finding.destination for finding in trial.findings] == ["out"]
    assert sum(trial.calm["out"].values()) == 2
