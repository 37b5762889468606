"""A session comes up with what Headrace relies on, wherever it is started, and says so when it cannot."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pyspark
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StatefulProcessor

from headrace.spark import (
    SessionRunningError,
    SessionSettingsError,
    SparkVersionError,
    check_session,
    prepare_session,
    session,
)
from headrace.spark.runtime.required_settings import REQUIRED, ROCKSDB
from headrace.spark.runtime.spark_session import process_environment, worker_path

WATERMARK_POLICY = "spark.sql.streaming.multipleWatermarkPolicy"

COUNTS = """
import json, sys
from pathlib import Path

import pandas as pd
from pyspark.sql.streaming import StatefulProcessor
from headrace.spark import session

import greetings


class Greet(StatefulProcessor):
    def init(self, handle):
        pass

    def handleInputRows(self, key, rows, timer_values):
        for frame in rows:
            yield pd.DataFrame({"greeting": [greetings.greet(key[0]) for _ in range(len(frame))]})

    def close(self):
        pass


def run(spark):
    stream = spark.readStream.schema("name string").json("names")
    greeted = stream.groupBy("name").transformWithStateInPandas(Greet(), "greeting string", "Append", "None")
    query = greeted.writeStream.trigger(availableNow=True).start("out", "json", checkpointLocation="checkpoint")
    query.awaitTermination()
    return sorted(row.greeting for row in spark.read.json("out").collect())


with session(MASTER) as spark:
    print(json.dumps([spark.sparkContext.master, run(spark)]))
"""


class Count(StatefulProcessor):
    """How often each word came."""

    def init(self, handle: Any) -> None:
        self.count = handle.getValueState("count", "count long")

    def handleInputRows(  # noqa: N802  Spark's name
        self, key: tuple[str], rows: Iterator[pd.DataFrame], timer_values: Any
    ) -> Iterator[pd.DataFrame]:
        count = (self.count.get()[0] if self.count.exists() else 0) + sum(map(len, rows))
        self.count.update((count,))
        yield pd.DataFrame({"word": [key[0]], "count": [count]})

    def close(self) -> None:
        pass


def test_a_stateful_query_runs_keeps_its_state_and_stops(
    spark: SparkSession, tmp_path: Path, checkpoint: str
) -> None:
    words = tmp_path / "words"
    words.mkdir()
    stream = spark.readStream.schema("word string").json(str(words))
    counts = stream.groupBy("word").transformWithStateInPandas(
        Count(), "word string, count long", "Update", "None"
    )
    query = (
        counts.writeStream.outputMode("update")
        .format("memory")
        .queryName("counts")
        .option("checkpointLocation", checkpoint)
        .start()
    )
    try:
        for name in ("one", "two"):
            (words / f"{name}.json").write_text('{"word": "a"}\n{"word": "b"}\n{"word": "a"}\n')
            query.processAllAvailable()
    finally:
        query.stop()
    rows = sorted((row["word"], row["count"]) for row in spark.table("counts").collect())
    assert rows == [("a", 2), ("a", 4), ("b", 1), ("b", 2)]
    assert not query.isActive


def test_a_second_session_is_refused_while_one_runs(spark: SparkSession) -> None:
    with pytest.raises(SessionRunningError) as caught:
        session("local[3]")
    assert caught.value.args == ("local[2]", "headrace tests")


def test_a_session_has_what_is_required_and_few_partitions(spark: SparkSession) -> None:
    check_session(spark)
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.sparkContext.uiWebUrl is None
    assert spark.sparkContext.pythonExec == sys.executable


def test_the_environment_is_as_it_was(spark: SparkSession) -> None:
    ours = {"SPARK_SUBMIT_OPTS", "SPARK_LOCAL_IP", "PYSPARK_PYTHON"}
    assert [name for name in ours if "headrace" in os.environ.get(name, "")] == []


def test_a_wrong_setting_is_named_with_what_it_must_be(fresh_session: SparkSession) -> None:
    fresh_session.conf.set(WATERMARK_POLICY, "max")
    fresh_session.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    with pytest.raises(SessionSettingsError) as caught:
        check_session(fresh_session)
    assert [(setting.name, setting.value, setting.needed) for setting in caught.value.wrong] == [
        (WATERMARK_POLICY, "max", "min"),
        ("spark.sql.session.timeZone", "Europe/Berlin", "UTC"),
    ]
    assert "spark.sql.session.timeZone is 'Europe/Berlin', must be 'UTC': " in str(caught.value)
    assert "prepare_session(spark)" in str(caught.value)
    assert fresh_session.conf.get(WATERMARK_POLICY) == "max"


def test_preparing_mends_every_setting(fresh_session: SparkSession) -> None:
    wrong = {
        "spark.sql.streaming.stateStore.providerClass": ROCKSDB.replace("RocksDB", "HDFSBacked"),
        WATERMARK_POLICY: "max",
        "spark.sql.streaming.noDataMicroBatches.enabled": "false",
        "spark.sql.streaming.statefulOperator.allowMultiple": "false",
        "spark.sql.session.timeZone": "Europe/Berlin",
    }
    assert wrong.keys() == {setting.name for setting in REQUIRED}
    for name, value in wrong.items():
        fresh_session.conf.set(name, value)
    with pytest.raises(SessionSettingsError) as caught:
        check_session(fresh_session)
    assert {setting.name for setting in caught.value.wrong} == wrong.keys()
    prepare_session(fresh_session)
    check_session(fresh_session)


def test_what_a_session_refuses_is_named() -> None:
    class Fixed:
        def get(self, name: str) -> str:
            return {setting.name: setting.value for setting in REQUIRED[1:]}.get(name, "another")

        def set(self, name: str, value: str) -> None:
            raise RuntimeError(name)

    fixed: Any = SimpleNamespace(version="4.3.0", conf=Fixed())
    with pytest.raises(SessionSettingsError) as caught:
        prepare_session(fixed)
    assert [setting.name for setting in caught.value.wrong] == [REQUIRED[0].name]


@pytest.mark.parametrize("version", ["3.5.8", "4.0.1", "4.2.0", "unknown"])
def test_an_older_spark_is_refused(version: str) -> None:
    old: Any = SimpleNamespace(version=version)
    with pytest.raises(SparkVersionError, match=f"runs Spark {version}; Headrace needs 4.3 or newer"):
        check_session(old)


def test_workers_import_from_this_directory_and_not_from_the_interpreters(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", "", str(tmp_path / "nowhere"), *sys.path])
    paths = worker_path().split(os.pathsep)
    assert paths[0] == str(tmp_path)
    assert len(paths) == len(set(paths))
    assert [path for path in paths if path.endswith(("site-packages", "lib-dynload", "nowhere"))] == []


def test_python_processes_import_the_installed_pyspark_and_not_its_archive(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They would compile the archive again and again; the Spark that `SPARK_HOME` names has its own PySpark, and keeps it."""
    home = Path(process_environment("local[2]", launched=True)["SPARK_HOME"])
    assert (home / "jars").samefile(Path(pyspark.__file__).parent / "jars")
    assert not (home / "python").exists()
    assert "SPARK_HOME" not in process_environment("yarn", launched=True)
    (tmp_path / "python").mkdir()
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    assert "SPARK_HOME" not in process_environment("local[2]", launched=True)


def start(script: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a script in a reader's directory that has a module, and input."""
    (folder / "greetings.py").write_text("def greet(name):\n    return 'Hello, ' + name\n")
    (folder / "names").mkdir()
    (folder / "names" / "some.json").write_text('{"name": "Ada"}\n{"name": "Grace"}\n{"name": "Ada"}\n')
    (folder / "app.py").write_text(script)
    temporary = folder / "temporary"
    temporary.mkdir()
    search_path = os.pathsep.join(str(Path(one).absolute()) for one in sys.path if one)
    return subprocess.run(
        [sys.executable, "app.py"],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": search_path, "TMPDIR": str(temporary)} | environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.nightly  # by day, `test_elsewhere` does so under spark-submit
def test_on_a_machine_without_java_the_wheels_runs_a_local_cluster(
    tmp_path: Path, path_without_java: str
) -> None:
    """In any directory, whose module the executors import; quietly, and nothing is left behind."""
    folder = tmp_path / "a reader's"
    folder.mkdir()
    spark_home = Path(sys.modules["pyspark"].__path__[0])
    before = set(spark_home.iterdir())
    master = "local-cluster[2,1,1024]"
    done = start(f"MASTER = {master!r}\n{COUNTS}", folder, PATH=path_without_java, JAVA_HOME="")
    assert done.stdout == f'["{master}", ["Hello, Ada", "Hello, Ada", "Hello, Grace"]]\n', done.stderr
    assert done.stderr == ""
    assert set(spark_home.iterdir()) == before
    made = {"app.py", "greetings.py", "names", "out", "checkpoint", "temporary"}
    assert {path.name for path in folder.iterdir() if path.name != "__pycache__"} == made
    assert list((folder / "temporary").glob("headrace-spark-*")) == []
