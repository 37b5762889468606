"""A file of real input is the feed of a Spark job."""

import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.api.errors import HeadraceError
from headrace_properties.spark_jobs.feeds.job_feeds import feed_of
from headrace_properties.spark_jobs.named_targets import spark_target
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.spark_job import SparkJob, StreamSource

SCHEMA = "account STRING, amount INT, at TIMESTAMP"
ROWS = [
    (name, amount, datetime(2026, 3, 1, 12, amount)) for name, amount in [("ann", 1), ("bob", 2), ("eve", 3)]
]
OBJECTS = [{"account": name, "amount": amount, "at": at.isoformat(" ")} for name, amount, at in ROWS]


def as_json_lines(path: Path) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in OBJECTS))


def as_csv(path: Path) -> None:
    lines = [
        "at,account,amount,more",
        *(f"{row['at']},{row['account']},{row['amount']},x" for row in OBJECTS),
    ]
    path.write_text("\n".join(lines))


def as_parquet(path: Path) -> None:
    pq.write_table(
        pa.table({"amount": [1, 2, 3], "account": [row[0] for row in ROWS], "at": [row[2] for row in ROWS]}),
        path,
    )


def write(df: Any, batch_id: int) -> None:
    df.write.mode("append").parquet("out")


@pytest.mark.parametrize(
    ("name", "written"), [("in.jsonl", as_json_lines), ("in.csv", as_csv), ("in.parquet", as_parquet)]
)
def test_rows_are_read_by_the_names_of_the_columns(
    tmp_path: Path, name: str, written: Callable[[Path], None]
) -> None:
    written(tmp_path / name)
    target = spark_target("it", write, schemas=SCHEMA, samples={"": str(tmp_path / name)})
    assert target.feed == [[row] for row in ROWS]


def kafka(name: str = "clicks") -> StreamSource:
    schema = "key BINARY, value BINARY, topic STRING, partition INT, offset LONG, timestamp TIMESTAMP, timestampType INT"
    return StreamSource(name, "kafka", parse_schema(schema), (("subscribe", name),))


def test_a_line_is_what_a_record_of_kafka_holds(tmp_path: Path) -> None:
    as_json_lines(tmp_path / "in.jsonl")
    job = SparkJob(kafka().schema, sources=(kafka(),))
    rows = [row for batch in feed_of(job, 0, {"": str(tmp_path / "in.jsonl")}) for row in batch]
    assert [row[1] for row in rows] == [json.dumps(row).encode() for row in OBJECTS]
    assert [row[2:5] for row in rows] == [("clicks", 0, 0), ("clicks", 1, 0), ("clicks", 0, 1)]


def test_a_dump_of_records_has_their_keys_and_values(tmp_path: Path) -> None:
    record = {"key": "ann", "value": {"amount": 1}, "partition": 3}
    (tmp_path / "in.jsonl").write_text(json.dumps(record))
    [[row], *_] = feed_of(
        SparkJob(kafka().schema, sources=(kafka(),)), 0, {"clicks": str(tmp_path / "in.jsonl")}
    )
    assert row[:4] == (b"ann", b'{"amount":1}', "clicks", 3)


def test_each_of_several_sources_has_its_own_file_or_is_drawn(tmp_path: Path) -> None:
    as_json_lines(tmp_path / "in.jsonl")
    sources = kafka("views"), kafka("clicks")
    schema = parse_schema("views STRUCT<x: INT>, clicks STRUCT<x: INT>")
    job = SparkJob(schema, sources=sources)
    rows = [row for batch in feed_of(job, 0, {"clicks": str(tmp_path / "in.jsonl")}) for row in batch]
    assert sum(row[1] is not None for row in rows) == len(OBJECTS)
    assert sum(row[0] is not None for row in rows) > 1
    with pytest.raises(HeadraceError, match=r"no source is called 'likes'.*NAME of: views, clicks"):
        feed_of(job, 0, {"likes": "in.jsonl"})
    with pytest.raises(HeadraceError, match="the job has several sources"):
        feed_of(job, 0, {"": "in.jsonl"})


def test_files_that_a_source_reads_are_its_sample_if_they_are_there(tmp_path: Path) -> None:
    folder = tmp_path / "landing"
    folder.mkdir()
    (folder / "_SUCCESS").touch()
    (folder / "1.csv").write_text("ann;1\nbob;2\n")
    (folder / "2.csv").write_text("eve;3\n")
    source = StreamSource(
        "in", "csv", parse_schema("account STRING, amount INT"), (("sep", ";"),), str(folder)
    )
    job = SparkJob(source.schema, sources=(source,))
    assert feed_of(job, 0, {}) == [[("ann", 1)], [("bob", 2)], [("eve", 3)]]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("account,amount\nann,1\nbob,many\n", r"in\.csv, line 3: .*CAST_INVALID_INPUT.*many"),
        ("account,amount\n", r"in\.csv: it has no rows"),
        (
            "account,amount\n" + "ann,1\n" * 1001,
            r"in\.csv, line \d+: it has more than 1,000 rows\. Take fewer",
        ),
        (None, r"in\.csv: there is no such file"),
    ],
)
def test_sample_that_cannot_be_the_input_is_refused_with_its_line(
    tmp_path: Path, text: str | None, told: str
) -> None:
    if text is not None:
        (tmp_path / "in.csv").write_text(text)
    with pytest.raises(HeadraceError, match=told):
        spark_target(
            "it", write, schemas="account STRING, amount INT", samples={"": str(tmp_path / "in.csv")}
        )
