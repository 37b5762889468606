"""Files that are there are read as Spark reads them: CSV and JSON by a schema, Parquet by its own."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace_sim.spark.client.sessions import ClientSession, connected
from headrace_sim.spark.refusals import CannotFollowError, UnknownTableError


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.chdir(tmp_path)
    Path("codes.csv").write_text("code,name,rate\nde,Germany,1.5\nfr,,x\n")
    Path("lines").mkdir()
    Path("lines/a.json").write_text('{"id": 1, "name": "one"}\nno json\n')
    Path("lines/_SUCCESS").write_text("")
    pq.write_table(pa.table({"id": [1, 2], "name": ["x", None]}), "rows.parquet")
    with connected(ClientSession()) as session:
        yield session


def _rows(frame: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.collect()]


def test_csv_is_text_or_what_its_schema_says(spark: Any) -> None:
    plain = spark.read.option("header", True).csv("codes.csv")
    assert plain.columns == ["code", "name", "rate"]
    assert _rows(plain) == [("de", "Germany", "1.5"), ("fr", None, "x")]
    typed = spark.read.csv("codes.csv", header=True, schema="code STRING, name STRING, rate DOUBLE")
    assert _rows(typed) == [("de", "Germany", 1.5), ("fr", None, None)]
    assert spark.read.csv("codes.csv").columns == ["_c0", "_c1", "_c2"]


def test_json_goes_by_its_schema_and_parquet_by_its_own(spark: Any) -> None:
    assert _rows(spark.read.schema("id INT, name STRING").json("lines")) == [(1, "one"), (None, None)]
    assert _rows(spark.read.parquet("rows.parquet")) == [(1, "x"), (2, None)]
    assert _rows(spark.read.format("parquet").load("rows.parquet").select("name")) == [("x",), (None,)]


def test_what_was_read_where_the_program_began_is_there_in_another_directory(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.read.parquet("rows.parquet")
    monkeypatch.chdir(tmp_path.parent)
    assert _rows(frame) == [(1, "x"), (2, None)]


def test_what_needs_to_be_inferred_is_refused_and_what_is_not_there_unknown(spark: Any) -> None:
    for read in (lambda: spark.read.json("lines"), lambda: spark.read.csv("codes.csv", inferSchema=True),
                 lambda: spark.read.option("multiLine", True).schema("id INT").json("lines")):  # fmt: skip
        with pytest.raises(CannotFollowError, match="schema"):
            read()  # type: ignore[no-untyped-call]
    with pytest.raises(UnknownTableError, match="NOT_FOUND"):
        spark.read.parquet("nowhere")
