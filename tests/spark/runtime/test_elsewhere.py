"""Spark that this process has not started: a script under ``spark-submit``, and a Spark Connect server."""

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from pyspark.sql import DataFrame

from headrace import Computation, Pipeline
from headrace.spark import Input, SparkHostError, deploy
from headrace.spark.io_errors import SinkError
from headrace.spark.runtime.spark_session import process_environment, query_of
from tests.readme_blocks import DOCS, ROOT, files

ON_CONNECT = """
import sys
import pyarrow as pa, pyarrow.parquet as pq
from pathlib import Path
from pyspark.sql import SparkSession
from headrace import Computation, Pipeline
from headrace.spark import Input, SparkHostError, attach, deploy, prepare_session
from counting import pipeline

place = Path(sys.argv[1])
columns = {"key": ["a", "b", "a"], "timestamp": pa.array([1, 2, 3], pa.int64())}
(place / "in").mkdir()
pq.write_table(pa.table(columns), place / "in" / "0.parquet")
spark = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2").getOrCreate()
prepare_session(spark)

def given(reader):
    frame = reader.schema("key string, timestamp long").parquet(str(place / "in"))
    return {"records": Input(frame, key="key", timestamp="timestamp", value="timestamp")}

def show(frame):
    print(sorted((row.key, row.timestamp, bytes(row.value)) for row in frame.collect()))

show(attach(pipeline, given(spark.read)).frame)
outputs = attach(pipeline, given(spark.readStream)).frame
writer = outputs.writeStream.format("parquet").option("path", str(place / "out"))
query = writer.option("checkpointLocation", str(place / "checkpoint")).trigger(availableNow=True).start()
assert query.awaitTermination(120)
show(spark.read.parquet(str(place / "out")))
try:
    deploy(pipeline, given(spark.readStream), directory=place / "job", sinks={})
except SparkHostError as error:
    print(error)
"""
COUNTING = """
from headrace import Computation, Pipeline

class Count(Computation):
    def process_record(self, context, record):
        context.state = {"count": context.state.get("count", 0) + 1}
        context.produce("counts", context.state["count"])

pipeline = Pipeline("count")
pipeline.injector("records")
pipeline.add(Count(), name="count", inputs=["records"], outputs=["counts"])
"""


class _ConnectSession:
    """As Spark Connect's: what only a driver has raises an AttributeError."""


def _on_connect() -> DataFrame:
    return cast("DataFrame", SimpleNamespace(sparkSession=_ConnectSession(), isStreaming=True))


def run(
    command: list[str], place: Path, timeout_s: int = 600, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run it where its modules are."""
    modules = os.pathsep.join([str(place), *(str(Path(one).absolute()) for one in sys.path if one)])
    return subprocess.run(
        command,
        cwd=place,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable, "PYTHONPATH": modules} | environment,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def test_a_job_is_refused_on_spark_connect_with_what_to_do_instead(tmp_path: Path) -> None:
    pipeline = Pipeline("nothing")
    pipeline.injector("records")
    pipeline.add(Computation(), name="nothing", inputs=["records"])
    given = Input(_on_connect(), key="key", timestamp="at")
    with pytest.raises(SparkHostError, match="Use attach"):
        deploy(pipeline, {"records": given}, directory=tmp_path, sinks={})


def test_a_sink_says_that_spark_connect_does_not_name_the_query() -> None:
    with pytest.raises(SinkError, match="query name of your own"):
        query_of(_on_connect(), "database")


@pytest.mark.slow
@pytest.mark.nightly
def test_the_pages_script_runs_under_spark_submit_on_an_executor_of_its_own_without_a_java_on_the_machine(
    tmp_path: Path, path_without_java: str
) -> None:
    for name, source in files((DOCS / "how-to" / "spark-job.md").read_text()).items():
        (tmp_path / name).write_text(source)
    events = tmp_path / "events"
    events.mkdir()
    command = [sys.executable, "-m", "headrace_cli", "job", "submit", "--master", "local-cluster[1,1,1024]"]
    for setting in ("enabled=true", f"dir={events.as_uri()}", "compress=false", "rolling.enabled=false"):
        command += ["--conf", f"spark.eventLog.{setting}"]
    done = run([*command, "visits_on_spark.py"], tmp_path, PATH=path_without_java, JAVA_HOME="")
    assert done.returncode == 0, done.stderr
    assert "|2026-01-01 12:00:01|home|     2|" in done.stdout
    (log,) = events.iterdir()
    added = [line for line in log.read_text().splitlines() if "SparkListenerExecutorAdded" in line]
    assert {json.loads(line)["Executor ID"] for line in added} == {"0"}


@pytest.mark.nightly
@pytest.mark.parametrize("steps", ["test_operate.py", "test_changes.py", "test_migration.py"])
def test_a_job_is_operated_on_executors_of_their_own(steps: str, tmp_path: Path) -> None:
    """What the tests do in one process, on two executors: their Python workers have nothing of the driver's memory."""
    options = f"-q -p no:cacheprovider -p no:xdist -m spark --rootdir {ROOT} --basetemp {tmp_path / 'steps'}"
    command = [sys.executable, "-m", "pytest", *options.split(), f"tests/spark/jobs/{steps}"]
    done = run(
        command, ROOT, 3_600, SPARK_TESTS_MASTER="local-cluster[2,1,1024]", HYPOTHESIS_PROFILE="nightly"
    )
    assert done.returncode == 0, done.stdout[-5_000:]
    assert " passed" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(find_spec("grpc") is None, reason="Spark Connect needs grpcio, which is not installed")
def test_attach_works_on_spark_connect_and_deploy_says_that_it_does_not(tmp_path: Path) -> None:
    (tmp_path / "counting.py").write_text(COUNTING)
    (tmp_path / "on_connect.py").write_text(ON_CONNECT)
    environment = process_environment("local[2]", launched=True)
    done = run([sys.executable, "on_connect.py", str(tmp_path)], tmp_path, 600, **environment)
    assert done.returncode == 0, done.stderr
    counts = [("a", 1, b"1"), ("a", 3, b"2"), ("b", 2, b"1")]
    printed = [line for line in done.stdout.splitlines() if line.startswith(("[(", "on Spark:"))]
    assert printed[:2] == [repr(counts)] * 2
    assert "Spark Connect" in printed[2]
