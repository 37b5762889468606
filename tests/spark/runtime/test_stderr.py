"""What a user sees on stderr when a job fails: the script in its own process, since Java's stderr is a process's."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.spark.runtime.spark_session import worker_path

BETWEEN = "-- between two jobs --"

FAILING = '''
"""Jobs whose user code, or whose query by Spark's own doing, fails on their first record: each error as an uncaught one."""

import sys
from pathlib import Path

from headrace import Computation, Pipeline
from headrace.spark import Input, deploy, session


class Broken(Computation):
    def process_record(self, context, record):
        raise ValueError("a mistake of one's own")


class Copy(Computation):
    def process_record(self, context, record):
        context.produce("out", 1)


def explode(frame, batch):
    frame.selectExpr("raise_error('Spark itself fails')").collect()


def run(place, spark, fails, name):
    pipeline = Pipeline("failing")
    pipeline.injector("mail")
    pipeline.add(Broken() if fails == "user" else Copy(), name="code", inputs=["mail"], outputs=["out"])
    frame = spark.readStream.schema("key string, ts long").json(str(place / "in"))
    given = {"mail": Input(frame, key="key", timestamp="ts")}
    with deploy(
        pipeline, given, directory=place / name, sinks={"out": explode}, intervals=1
    ) as job:
        job.await_idle()


with session("local[2]") as spark:
    for fails in ("spark", "user"):
        try:
            run(Path(sys.argv[1]), spark, fails, fails)
        except Exception:
            sys.excepthook(*sys.exc_info())
        print(sys.argv[2], file=sys.stderr)
    logger = "org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkStateServer"
    reset = spark._jvm.java.net.SocketException("Connection reset")  # what it reads when its worker ends in the midst of a call
    spark._jvm.org.apache.logging.log4j.LogManager.getLogger(logger).error("Error reading message: Connection reset", reset)
    run(Path(sys.argv[1]), spark, "user", "last")
'''


@pytest.mark.slow
@pytest.mark.nightly
def test_an_error_of_user_code_is_shown_with_its_own_traceback_and_no_frames_of_java_but_sparks_own_in_full(
    tmp_path: Path,
) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text(json.dumps({"key": "anna", "ts": 1}))
    (tmp_path / "failing.py").write_text(FAILING)
    done = subprocess.run(
        [sys.executable, "failing.py", str(tmp_path), BETWEEN],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": worker_path()}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    of_spark, *of_user = done.stderr.split(BETWEEN)

    assert "ERROR MicroBatchExecution: Query" in of_spark
    assert "[USER_RAISED_EXCEPTION] Spark itself fails" in of_spark
    assert "\tat org.apache.spark" in of_spark

    assert len(of_user) == 2  # caught, and uncaught
    for told in of_user:
        assert told.count("terminated with error") == 1
        assert told.rstrip().endswith("ValueError: a mistake of one's own")
        assert 'failing.py", line 13, in process_record' in told
        for noise in ("\tat ", "py4j", "pyspark.zip", "headrace-error", "direct cause", "During handling"):
            assert noise not in told
        assert len(told) < 4_000, told
