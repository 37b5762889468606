"""JSON as Spark's ``from_json`` and ``get_json_object`` read it, and as ``to_json`` writes it."""

import json
import math
import re
from collections.abc import Callable, Iterable
from itertools import starmap
from typing import Any

from pyspark.errors import DateTimeException
from pyspark.sql import types as t

from headrace_sim.spark.columns.casts import BITS, FRACTIONAL, cast_value, is_number, java_double
from headrace_sim.spark.columns.in_force import NO_NULL_FIELDS, is_on
from headrace_sim.spark.columns.zones import offset_time
from headrace_sim.spark.refusals import CannotFollowError, NotSimulatedError


def from_json(text: str, kind: t.DataType) -> Any:
    """Parse a text as ``from_json`` does: fields by name; values that are malformed or do not fit are null.

    Raise `CannotFollowError` if the schema has a type that is not simulated in JSON.
    """
    try:
        parsed = json.loads(text)
    except ValueError:
        parsed = None
        if isinstance(kind, t.StructType) and text.strip():
            parsed = {}
    return _from_parsed(parsed, kind)


def _from_parsed(parsed: Any, kind: t.DataType) -> Any:
    if parsed is None:
        return None
    match kind:
        case t.StructType():
            members = parsed if isinstance(parsed, dict) else {}
            values = [_from_parsed(members.get(field.name), field.dataType) for field in kind.fields]
            return t._create_row(kind.names, values)
        case t.ArrayType():
            items = parsed if isinstance(parsed, list) else None
            return None if items is None else [_from_parsed(item, kind.elementType) for item in items]
        case t.MapType():
            pairs = parsed.items() if isinstance(parsed, dict) else None
            return None if pairs is None else {key: _from_parsed(item, kind.valueType) for key, item in pairs}
        case t.StringType():
            return parsed if isinstance(parsed, str) else json.dumps(parsed, separators=(",", ":"))
        case t.BooleanType():
            return parsed if isinstance(parsed, bool) else None
        case _:
            return _simple_from_parsed(parsed, kind)


def _simple_from_parsed(parsed: Any, kind: t.DataType) -> Any:
    if is_number(kind):
        return _number_from_json(parsed, kind)
    cast = cast_value(t.StringType(), kind)
    if cast is None:
        what = f"from_json() with {kind.simpleString()}"
        raise CannotFollowError(what, "the schema", "Parse the text in Python")
    try:
        return cast(parsed) if isinstance(parsed, str) else None
    except DateTimeException:
        return None


def _number_from_json(parsed: Any, kind: t.DataType) -> Any:
    if isinstance(parsed, bool) or not isinstance(parsed, (int, float)):
        return None
    if type(kind) in BITS:
        limit = 1 << BITS[type(kind)] - 1
        return parsed if isinstance(parsed, int) and -limit <= parsed < limit else None
    cast = cast_value(t.DoubleType(), kind)
    assert cast is not None
    return cast(float(parsed)) if isinstance(kind, FRACTIONAL) else cast(parsed)


def json_writer(kind: t.DataType, place: str) -> Callable[[Any], str]:
    """Return what writes a value of a type as ``to_json`` does. Fields that are null are left out, unless a setting keeps them.

    Raise `CannotFollowError` if the type is not simulated in JSON.
    """
    match kind:
        case t.StructType(fields=fields):
            without_nulls = is_on(NO_NULL_FIELDS)
            names = [json.dumps(field.name, ensure_ascii=False) for field in fields]
            writers = [json_writer(field.dataType, place) for field in fields]

            def of_row(row: Any) -> str:
                parts = zip(names, writers, row, strict=True)
                texts = ((name, "null" if item is None else write(item)) for name, write, item in parts)
                kept = (f"{name}:{text}" for name, text in texts if text != "null" or not without_nulls)
                return _enclosed("{}", kept)

            return of_row
        case t.ArrayType(elementType=inner):
            write = json_writer(inner, place)
            return lambda items: _enclosed("[]", ("null" if item is None else write(item) for item in items))
        case t.MapType(keyType=keys, valueType=values):
            write, name = json_writer(values, place), cast_value(keys, t.StringType()) or str

            def of_pair(key: Any, item: Any) -> str:
                return f"{json.dumps(name(key))}:{'null' if item is None else write(item)}"

            return lambda pairs: _enclosed("{}", starmap(of_pair, pairs.items()))
        case t.TimestampType():
            return lambda at: f'"{offset_time(at).isoformat(timespec="milliseconds").replace("+00:00", "Z")}"'
        case _:
            return _simple_writer(kind, place)


def _simple_writer(kind: t.DataType, place: str) -> Callable[[Any], str]:
    cast = cast_value(kind, t.StringType())
    if cast is None or isinstance(kind, (t.BinaryType, t.TimestampNTZType)):
        raise CannotFollowError(f"to_json() of {kind.simpleString()}", place, "Write it in Python")
    if isinstance(kind, (t.StringType, t.DateType)):
        return lambda value: json.dumps(cast(value), ensure_ascii=False)
    return lambda value: cast(value) if value == value and abs(value) != math.inf else f'"{cast(value)}"'  # noqa: PLR0124 # NaN


def _enclosed(marks: str, parts: Iterable[str]) -> str:
    return f"{marks[0]}{','.join(parts)}{marks[1]}"


def json_object(text: str, path: str) -> str | None:
    """Return what ``get_json_object`` finds at a path like ``$.orders[0].id``.

    Raise `NotSimulatedError` if the path has other parts.
    """
    parts = re.findall(r"\.([^.\[]+)|\['([^']+)'\]|\[(\d+)\]|(.)", path.removeprefix("$"))
    if not path.startswith("$") or any(other or "*" in name for name, _, _, other in parts):
        raise NotSimulatedError(f"the path {path!r} (known are $.name, $['name'] and $[0])")
    try:
        value = json.loads(text)
    except ValueError:
        return None
    for name, quoted, place, _ in parts:
        known = value if isinstance(value, list if place else dict) else {}
        key = int(place) if place else name or quoted
        value = known[key] if key in (range(len(known)) if place else known) else None
    return value if value is None or isinstance(value, str) else _written(value)


def _written(value: Any) -> str:
    if isinstance(value, dict):
        return _enclosed("{}", (f"{json.dumps(name)}:{_written(item)}" for name, item in value.items()))
    if isinstance(value, list):
        return _enclosed("[]", map(_written, value))
    return java_double(value) if isinstance(value, float) else json.dumps(value, ensure_ascii=False)
