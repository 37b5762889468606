"""What people write around a batch gives what Spark gives, or is left to the real Spark; nothing is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import Observation
from pyspark.sql import functions as F

from headrace_sim.spark.client.recording import record
from headrace_sim.spark.client.sessions import ClientSession, connected
from headrace_sim.spark.query.streaming_query import run_job
from headrace_sim.spark.real.answers import SWITCH
from headrace_sim.spark.refusals import CannotFollowError
from tests.sim.spark.frame_programs import set_as_recorded
from tests.sim.spark.snippets import OUTCOMES, SNIPPETS, WITHOUT_JAR, result


def _results(folder: Path) -> tuple[dict[str, Any], list[str]]:
    """Return what the snippets give, but for those without a package; and which are left to Spark."""
    found, left = dict[str, Any](), list[str]()
    for name in SNIPPETS:
        with connected(ClientSession()) as session:
            set_as_recorded(session)
            try:
                found[name] = result(session, name, str(folder))
            except CannotFollowError:
                left.append(name)
    assert set(found) | set(left) >= WITHOUT_JAR
    return json.loads(json.dumps(found)), left


def _recorded(found: dict[str, Any]) -> dict[str, Any]:
    known: dict[str, Any] = json.loads(OUTCOMES.read_text())
    return {name: known.get(name, value) for name, value in found.items()}


def test_no_snippet_is_wrong_and_few_are_left_to_spark(tmp_path: Path) -> None:
    found, left = _results(tmp_path)
    assert found == _recorded(found)
    assert len(SNIPPETS) == 97
    assert len(left) <= 27


@pytest.mark.spark
@pytest.mark.nightly
def test_real_spark_gives_the_rest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SWITCH)
    found, left = _results(tmp_path)
    assert found == _recorded(found)
    assert left == []


def test_task_that_fails_adds_nothing() -> None:
    def each(row: Any) -> None:
        seen.add(1)
        if row.n == 2:
            raise ValueError("two")

    with connected(ClientSession()) as session:
        seen = session.sparkContext.accumulator(0)
        frame = session.frame(session.createDataFrame([], "n INT").schema, [[(0,), (1,)], [(1,), (2,)]])
        with pytest.raises(ValueError, match="two"):
            frame.foreach(each)
        assert seen.value == 2
        assert frame.rdd.flatMap(lambda row: range(row.n)).filter(bool).collect() == [1]
        assert [row.a for row in frame.rdd.map(lambda row: (row.n, "x")).toDF(["a", "b"]).collect()] == [
            0,
            1,
            1,
            2,
        ]
        with pytest.raises(CannotFollowError, match="reduceByKey"):
            frame.rdd.reduceByKey(max)


def test_observed_stream_is_the_same_stream_and_metrics_are_of_what_passes() -> None:
    job = record(
        lambda df: (
            df.observe("seen", F.count("*").alias("n")).filter("n > 1").writeStream.format("noop").start()
        ),
        "n INT",
    )
    assert [*run_job(job, [[(1,), (2,)]]).rows()] == [(2,)]
    with connected(ClientSession()) as session:
        frame, metrics = session.createDataFrame([(1,), (2,)], "n INT"), Observation("m")
        frame.observe(metrics, F.max("n").alias("most"), F.count("*").alias("n")).filter(
            "n > 1"
        ).write.saveAsTable("kept")
        assert metrics.get == {"most": 2, "n": 2}
        with pytest.raises(PySparkException):
            frame.observe("m", F.col("n"))
