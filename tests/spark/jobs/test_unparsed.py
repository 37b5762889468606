"""Lines that Spark's own reader cannot parse: told with their text, and kept."""

import base64
import json
from pathlib import Path

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from headrace import DeadLetter, Pipeline
from headrace.api.computation import Computation
from headrace.spark import Input, attach
from headrace.spark.hosting.outputs import Outputs

pytestmark = pytest.mark.spark

TORN = '{"key": "anna", "ts": 5, "text": "\x1b[2J' + "x" * 1_000
TEXTS = ['{"key": "anna", "ts": 3}', TORN, '{"key": "anna", "ts": 4}']


class Nothing(Computation):
    """Takes what comes."""


def attached(spark: SparkSession, place: Path, schema: str, *, dead_letters: bool) -> Outputs:
    (place / "in put").mkdir()
    (place / "in put" / "a.json").write_text("\n".join(TEXTS))
    pipeline = Pipeline("letters")
    pipeline.injector("mail", on_malformed=DeadLetter("unreadable") if dead_letters else None)
    pipeline.add(Nothing(), name="nothing", inputs=["mail"])
    frame = spark.read.schema(schema).json(str(place / "in put"))
    return attach(pipeline, {"mail": Input(frame, key="key", timestamp="ts")}, intervals=1)


def test_a_line_that_cannot_be_parsed_is_told_with_its_file_its_line_and_its_text(
    spark: SparkSession, tmp_path: Path
) -> None:
    outputs = attached(spark, tmp_path, "key string, ts long, _corrupt_record string", dead_letters=False)
    with pytest.raises(PythonException) as caught:
        outputs.frame.collect()
    told = next(line for line in str(caught.value).splitlines() if "MalformedRecordError: " in line)
    assert "line 2 of file:/" in told
    assert '/in%20put/a.json: Spark\'s reader cannot parse it with the schema: \'{"key": "anna"' in told
    assert "\\x1b[2Jxxx" in told
    assert "\x1b" not in told
    assert f"... ({len(TORN)} bytes)" in told
    assert len(told) < 1_000


def test_the_dead_letter_of_a_line_that_cannot_be_parsed_has_all_of_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    outputs = attached(spark, tmp_path, "key string, ts long, _corrupt_record string", dead_letters=True)
    (row,) = outputs.table("unreadable").collect()
    letter = json.loads(row["value"])
    assert (letter["injector"], letter["stream"]) == ("mail", "mail")
    assert base64.b64decode(letter["value"]).decode() == TORN
    assert "/in%20put/a.json: Spark's reader cannot parse it" in letter["error"]


def test_a_row_of_nulls_is_told_with_how_to_keep_the_text(spark: SparkSession, tmp_path: Path) -> None:
    outputs = attached(spark, tmp_path, "key string, ts long", dead_letters=False)
    with pytest.raises(PythonException, match=r"timestamp None .*add '_corrupt_record string' to the schema"):
        outputs.frame.collect()
