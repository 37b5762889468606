"""Avro's binary encoding of a schema in JSON, as Spark's ``from_avro`` reads it and ``to_avro`` writes it."""

import io
import json
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, BinaryIO

from pyspark.errors import SparkRuntimeException
from pyspark.sql import types as t

from headrace_sim.spark.refusals import NotSimulatedError

_EPOCH = datetime(1970, 1, 1)


@dataclass(frozen=True, slots=True)
class AvroType:
    """A type of Avro."""

    kind: t.DataType  # what Spark makes of it
    read: Callable[[BinaryIO], Any]  # reads a value; raises `ValueError` if it is malformed
    write: Callable[[Any], bytes]  # returns a value's bytes


def avro_type(schema: str) -> AvroType:
    """Return the type that a schema in JSON describes.

    Raise `NotSimulatedError` if it has a union of several types, or a type that is not known here.
    """
    return _type_of(json.loads(schema), {})


def decoded(data: bytes, avro: AvroType, *, permissive: bool) -> Any:
    """Return the value in some bytes. If they are malformed, it is a row of nulls, or null, where that is permitted.

    Raise `SparkRuntimeException` if they are malformed, and that is not permitted.
    """
    try:
        return avro.read(io.BytesIO(data))
    except ValueError as error:
        if not permissive:
            problem = (
                "[MALFORMED_RECORD_IN_PARSING] Malformed records are detected in record parsing (FAILFAST)"
            )
            raise SparkRuntimeException(message=f"{problem}: {error}") from error
        kind = avro.kind
        return t._create_row(kind.names, [None] * len(kind)) if isinstance(kind, t.StructType) else None


def _type_of(schema: Any, known: dict[str, AvroType]) -> AvroType:
    if isinstance(schema, list):
        return _optional(schema, known)
    if isinstance(schema, str):
        schema = {"type": schema}
    name, logical = schema["type"], schema.get("logicalType")
    if isinstance(name, dict | list) or name in known:
        return known[name] if isinstance(name, str) else _type_of(name, known)
    if (name, logical) in _LOGICAL:
        return _LOGICAL[name, logical]
    if name in _SIMPLE and logical is None:
        return _SIMPLE[name]
    if name in _NESTED and logical is None:
        return _NESTED[name](schema, known)
    raise NotSimulatedError(f"Avro's type {logical or name!r}")


def _optional(union: list[Any], known: dict[str, AvroType]) -> AvroType:
    """Return a type that may be null."""
    others = [option for option in union if option != "null"]
    if len(others) != 1:
        raise NotSimulatedError(f"an Avro union of {len(others)} types")
    inner = _type_of(others[0], known)
    if len(union) == 1:
        return AvroType(
            inner.kind,
            lambda data: (_read_long(data), inner.read(data))[1],
            lambda value: b"\0" + inner.write(value),
        )
    null, other = union.index("null"), 1 - union.index("null")

    def read(data: BinaryIO) -> Any:
        branch = _read_long(data)
        if branch not in {0, 1}:
            raise ValueError(f"there is no type {branch} in its union")
        return None if branch == null else inner.read(data)

    def write(value: Any) -> bytes:
        return _long(null) if value is None else _long(other) + inner.write(value)

    return AvroType(inner.kind, read, write)


def _record(schema: Mapping[str, Any], known: dict[str, AvroType]) -> AvroType:
    parts = [
        (part["name"], _type_of(part["type"], known), _is_optional(part["type"])) for part in schema["fields"]
    ]
    kind = t.StructType([t.StructField(name, part.kind, nullable) for name, part, nullable in parts])
    record = AvroType(
        kind,
        lambda data: t._create_row(kind.names, [part.read(data) for _, part, _ in parts]),
        lambda row: b"".join(part.write(value) for (_, part, _), value in zip(parts, row, strict=True)),
    )
    known[schema["name"]] = record
    return record


def _is_optional(schema: Any) -> bool:
    return isinstance(schema, list) and "null" in schema


def _enum(schema: Mapping[str, Any], known: dict[str, AvroType]) -> AvroType:
    symbols = list(schema["symbols"])

    def read(data: BinaryIO) -> str:
        place = _read_long(data)
        if not 0 <= place < len(symbols):
            raise ValueError(f"there is no symbol {place} in {schema['name']}")
        return str(symbols[place])

    known[schema["name"]] = enum = AvroType(
        t.StringType(), read, lambda text: _long(symbols.index(text) if text in symbols else 0)
    )
    return enum


def _array(schema: Mapping[str, Any], known: dict[str, AvroType]) -> AvroType:
    item = _type_of(schema["items"], known)
    return AvroType(
        t.ArrayType(item.kind, _is_optional(schema["items"])),
        lambda data: [item.read(data) for _ in _counted(data)],
        lambda items: _block(map(item.write, items), len(items)),
    )


def _map(schema: Mapping[str, Any], known: dict[str, AvroType]) -> AvroType:
    item, key = _type_of(schema["values"], known), _SIMPLE["string"]
    return AvroType(
        t.MapType(t.StringType(), item.kind, _is_optional(schema["values"])),
        lambda data: {key.read(data): item.read(data) for _ in _counted(data)},
        lambda pairs: _block(
            (key.write(name) + item.write(value) for name, value in pairs.items()), len(pairs)
        ),
    )


def _block(items: Iterable[bytes], count: int) -> bytes:
    return (_long(count) + b"".join(items) if count else b"") + _long(0)


def _counted(data: BinaryIO) -> Iterator[None]:
    """Yield once for each item of the blocks of an array or a map."""
    while count := _read_long(data):
        if count < 0:
            count = -count
            _read_long(data)  # how many bytes the block has
        for _ in range(count):
            yield None


def _long(value: int) -> bytes:
    rest, encoded = (value << 1) ^ (value >> 63), bytearray()
    while rest > 0x7F:
        encoded.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([*encoded, rest])


def _read_long(data: BinaryIO) -> int:
    value = shift = 0
    while True:
        (byte,) = _read(data, 1)
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1)


def _read(data: BinaryIO, length: int) -> bytes:
    content = data.read(length) if length >= 0 else b""
    if len(content) != length:
        raise ValueError("it ends too early")
    return content


def _packed(form: str, kind: t.DataType) -> AvroType:
    size = struct.calcsize(form)
    return AvroType(
        kind, lambda data: struct.unpack(form, _read(data, size))[0], lambda value: struct.pack(form, value)
    )


def _since_epoch(unit: timedelta) -> AvroType:
    return AvroType(
        t.TimestampType(),
        lambda data: _EPOCH + _read_long(data) * unit,
        lambda at: _long((at - _EPOCH) // unit),
    )


_BYTES = AvroType(
    t.BinaryType(), lambda data: _read(data, _read_long(data)), lambda value: _long(len(value)) + value
)
_SIMPLE = {
    "boolean": AvroType(t.BooleanType(), lambda data: _read(data, 1) != b"\0", lambda value: bytes([value])),
    "bytes": _BYTES,
    "double": _packed("<d", t.DoubleType()),
    "float": _packed("<f", t.FloatType()),
    "int": AvroType(t.IntegerType(), _read_long, _long),
    "long": AvroType(t.LongType(), _read_long, _long),
    "string": AvroType(t.StringType(), lambda data: _BYTES.read(data).decode(), lambda text: _BYTES.write(text.encode())),
}  # fmt: skip
_LOGICAL = {
    ("int", "date"): AvroType(
        t.DateType(), lambda data: _EPOCH.date() + timedelta(_read_long(data)), lambda day: _long((day - _EPOCH.date()).days)
    ),
    ("long", "timestamp-micros"): _since_epoch(timedelta(microseconds=1)),
    ("long", "timestamp-millis"): _since_epoch(timedelta(milliseconds=1)),
    ("string", "uuid"): _SIMPLE["string"],
}  # fmt: skip
_NESTED: dict[str, Callable[[Mapping[str, Any], dict[str, AvroType]], AvroType]] = {
    "array": _array, "enum": _enum, "map": _map, "record": _record,
}  # fmt: skip
