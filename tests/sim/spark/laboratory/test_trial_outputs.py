"""What a trial of the laboratory left, read as any reader of its tables would. Spark itself is not needed."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace_sim.spark.laboratory.places import looked_at
from headrace_sim.spark.laboratory.trial_outputs import CsvHeader, collected
from headrace_sim.spark.sinks.sink_effects import Effect
from headrace_sim.spark.sinks.trial_contents import Item

pytestmark = pytest.mark.spark  # it needs PySpark, though not Java


def no_iceberg(_path: str) -> list[Item]:
    raise AssertionError("there is no table of Iceberg")


def part(path: Path, *numbers: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": list(numbers)}), path)


def checkpoint(folder: Path) -> None:
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
        (folder / name / "0").write_text("v1")
    (folder / "metadata").write_text(json.dumps({"id": "x"}))


def test_partitions_are_one_table_and_a_checkpoint_below_it_is_no_row(tmp_path: Path) -> None:
    part(tmp_path / "headrace-root/out/day=1/part-0.snappy.parquet", 1)
    part(tmp_path / "headrace-root/out/day=2/part-0.snappy.parquet", 2)
    part(tmp_path / "headrace-root/out/_temporary/0/part-1.snappy.parquet", 3)
    checkpoint(tmp_path / "headrace-root/out/checkpoint")
    assert collected(tmp_path, [], {}, no_iceberg) == {
        "/out": [(("n", "1"), ("day", "'1'")), (("n", "2"), ("day", "'2'"))]
    }


def test_only_what_the_log_of_a_file_sink_counts_is_there(tmp_path: Path) -> None:
    part(tmp_path / "s3a/lake/out/part-0.parquet", 1)
    part(tmp_path / "s3a/lake/out/part-1.parquet", 1)
    log = tmp_path / "s3a/lake/out/_spark_metadata/0"
    log.parent.mkdir()
    log.write_text("v1\n" + json.dumps({"path": "s3a://lake/out/part-0.parquet", "action": "add"}))
    assert collected(tmp_path, [], {}, no_iceberg) == {"s3a://lake/out": [(("n", "1"),)]}


def test_what_was_there_before_is_not_what_a_trial_left(tmp_path: Path) -> None:
    part(tmp_path / "rates/part-0.parquet", 1)
    (tmp_path / "config.yaml").write_text("a: 1")
    known = looked_at(tmp_path)
    part(tmp_path / "out/part-0.parquet", 2)
    assert collected(tmp_path, [], known, no_iceberg) == {"out": [(("n", "2"),)]}


def test_the_names_of_columns_in_a_file_of_csv_are_no_row(tmp_path: Path) -> None:
    for day in (1, 2):
        path = tmp_path / f"out/day={day}/part-0.csv"
        path.parent.mkdir(parents=True)
        path.write_text(f"n,name\n{day},ann\n")
    (tmp_path / "out/part-1.csv").touch()
    written = Effect(0, 0, "csv append", "out", "job.py:1", payload=CsvHeader())
    assert collected(tmp_path, [written], {}, no_iceberg) == {
        "out": [(("n", str(day)), ("name", "ann"), ("day", f"'{day}'")) for day in (1, 2)]
    }
