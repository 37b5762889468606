"""What Spark's ``from_json`` makes of a text."""

import json
from typing import Any

from pyspark.errors import DateTimeException
from pyspark.sql import types as t

from headrace_sim.spark.casts import BITS, FRACTIONAL, cast_value, is_number
from headrace_sim.spark.refusals import CannotFollowError


def from_json(text: str, kind: t.DataType) -> Any:
    """Parse a text as ``from_json`` does: fields by name; values that are malformed or do not fit are null.

    Raises:
        CannotFollowError: If the schema has a type that is not simulated in JSON.

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
            found = parsed if isinstance(parsed, dict) else {}
            return t._create_row(
                kind.names, [_from_parsed(found.get(field.name), field.dataType) for field in kind.fields]
            )
        case t.ArrayType():
            return (
                [_from_parsed(item, kind.elementType) for item in parsed]
                if isinstance(parsed, list)
                else None
            )
        case t.MapType():
            return (
                {key: _from_parsed(item, kind.valueType) for key, item in parsed.items()}
                if isinstance(parsed, dict)
                else None
            )
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
        raise CannotFollowError(
            f"from_json() with {kind.simpleString()}", "the schema", "Parse the text in Python"
        )
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
