"""Code that the executors cannot import: the error names the package and says how to ship it."""

import importlib
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace import Pipeline
from headrace.spark import Input, SparkHostError, deploy

ONLY_HERE = """
from headrace import Computation

class Copy(Computation):
    def process_record(self, context, record):
        context.produce("copies", 1)
"""


def test_a_package_that_executors_do_not_have_is_named(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "post_office.py").write_text(ONLY_HERE)
    monkeypatch.syspath_prepend(tmp_path / "code")  # the driver's; Spark's workers have been given theirs
    copy = importlib.import_module("post_office").Copy
    pipeline = Pipeline("post")
    pipeline.injector("letters")
    pipeline.add(copy(), name="copy", inputs=["letters"], outputs=["copies"])
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"key": "anna", "ts": 1}')
    frame = spark.readStream.schema("key string, ts long").json(str(tmp_path / "in"))
    given = {"letters": Input(frame, key="key", timestamp="ts")}

    with (
        pytest.raises(
            SparkHostError, match=r"cannot import 'post_office', which this job's code needs\. Ship"
        ),
        deploy(pipeline, given, directory=tmp_path / "job", sinks={"copies": None}, intervals=1) as job,
    ):
        job.await_idle()
