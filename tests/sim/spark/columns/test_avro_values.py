"""Avro's bytes are read as its specification writes them, and written as they are read."""

import io
import json
from datetime import date, datetime
from typing import Any

import pytest
from pyspark.errors import SparkRuntimeException

from headrace_sim.spark.columns.avro_values import avro_type, decoded
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.columns.expressions import bind
from headrace_sim.spark.columns.recorded import Recorded
from headrace_sim.spark.refusals import CannotFollowError, NotSimulatedError

TEST = {
    "type": "record",
    "name": "test",
    "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string"}],
}


def from_avro(schema: Any, data: bytes | None, *options: Any) -> Any:
    node = Recorded(
        "from_avro", (Recorded("col", ("value",), "job.py:1"), json.dumps(schema), *options), "job.py:1"
    )
    return bind(node, parse_schema("value BINARY")).value((data,))


def test_the_examples_of_the_specification() -> None:
    assert from_avro(TEST, bytes([0x36, 0x06, 0x66, 0x6F, 0x6F])) == (27, "foo")
    assert from_avro({"type": "array", "items": "long"}, bytes([0x04, 0x06, 0x36, 0x00])) == [3, 27]
    assert from_avro(["null", "string"], bytes([0x00])) is None
    assert from_avro(["null", "string"], bytes([0x02, 0x02, 0x61])) == "a"
    assert from_avro(TEST, None) is None


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ("int", -64),
        ("long", 1 << 62),
        ("double", 0.1),
        ("boolean", True),
        ("bytes", b"\x00\xff"),
        ({"type": "map", "values": "int"}, {"a": 1, "b": -1}),
        ({"type": "enum", "name": "suit", "symbols": ["SPADES", "HEARTS"]}, "HEARTS"),
        ({"type": "int", "logicalType": "date"}, date(2030, 1, 2)),
        ({"type": "long", "logicalType": "timestamp-millis"}, datetime(2030, 1, 2, 3, 4, 5, 678_000)),
        ({"type": "array", "items": ["null", TEST]}, [None, (1, "x")]),
    ],
)
def test_what_is_written_is_read(schema: Any, value: Any) -> None:
    avro = avro_type(json.dumps(schema))
    data = io.BytesIO(avro.write(value))
    assert avro.read(data) == value
    assert data.read() == b""


def test_malformed_bytes_are_an_error_or_a_row_of_nulls() -> None:
    with pytest.raises(SparkRuntimeException, match="MALFORMED_RECORD"):
        from_avro(TEST, b"\x36")
    assert from_avro(TEST, b"\x36", ["mode", "PERMISSIVE"]) == (None, None)
    assert decoded(b"", avro_type('"int"'), permissive=True) is None


def test_what_is_not_known_of_avro_is_refused() -> None:
    with pytest.raises(NotSimulatedError, match="an Avro union of 2 types"):
        avro_type('["int", "string"]')
    with pytest.raises(CannotFollowError, match=r"from_avro\(\) with Avro's type 'decimal'"):
        from_avro({"type": "bytes", "logicalType": "decimal", "precision": 4}, b"")
    with pytest.raises(CannotFollowError, match="avroSchema"):
        from_avro(TEST, b"", ["avroSchema", "{}"])
