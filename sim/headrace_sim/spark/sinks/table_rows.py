"""The items that a trial leaves, as rows with values: for promises, which read them."""

import ast
import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import Row

from headrace_sim.spark.sinks.trial_contents import Item


def rows_of_table(items: Iterable[Item], calm: Iterable[Item]) -> Iterator[Row]:
    """Yield the rows of a destination; ``calm``: what the undisturbed run left there, whose columns each has."""
    rows = [{"line": item} if isinstance(item, str) else dict(item) for item in items]
    named = [{"line": ""} if isinstance(item, str) else dict(item) for item in calm]
    columns = dict.fromkeys(column for row in (*named, *rows) for column in row)
    for row in rows:
        yield Row(**{column: value_of(row[column]) if column in row else None for column in columns})


def with_json(row: Row) -> Row:
    """Return a record of a topic with the fields of the JSON object that its value holds, if it holds one."""
    try:
        fields = json.loads(row["value"])
    except (TypeError, ValueError):
        return row
    return Row(**{**fields, **row.asDict()}) if isinstance(fields, dict) else row


def value_of(text: str) -> Any:
    """Return the value that a text is the ``repr`` of; the text itself if it is none."""
    try:
        return _evaluated(ast.parse(text, mode="eval").body)
    except (ValueError, SyntaxError, TypeError, ArithmeticError, RecursionError, MemoryError):
        return text


_MAKERS: Mapping[str, Any] = {
    "Decimal": Decimal, "datetime.datetime": datetime, "datetime.date": date, "datetime.timedelta": timedelta,
    "Row": Row, "bytearray": bytearray, "Timestamp": lambda text, **_zone: datetime.fromisoformat(text),
}  # fmt: skip


def _evaluated(node: ast.expr) -> Any:
    """Evaluate a literal, or a call that makes a value of a column. Raise `ValueError` if it is neither."""
    match node:
        case ast.Call() if ast.unparse(node.func) in _MAKERS:
            values = [_evaluated(argument) for argument in node.args]
            named = {str(one.arg): _evaluated(one.value) for one in node.keywords}
            return _MAKERS[ast.unparse(node.func)](*values, **named)
        case ast.List() | ast.Tuple():
            kind = list if isinstance(node, ast.List) else tuple
            return kind(map(_evaluated, node.elts))
        case ast.Dict():
            keys = [_evaluated(key) for key in node.keys if key is not None]
            return dict(zip(keys, map(_evaluated, node.values), strict=True))
        case ast.Name(id="nan" | "inf"):
            return float(node.id)
        case _:
            return ast.literal_eval(node)
