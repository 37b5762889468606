"""Tables as a promise computes them: by SQL, which SQLite evaluates, or by a function of a pandas DataFrame.

SQLite has no times, decimals or structs: a time is text without a zone there, a decimal a float, and what has parts is JSON.
"""

import inspect
import json
import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from headrace_properties.promises.promise_errors import NotInPipelineError, Unexercised

_LACKING = re.compile(r"no such table: (?:main\.)?(.+)")
_KEPT = (int, float, str, bytes, type(None))


def rows_by_sql(query: str, table: Callable[[str], Sequence[Any]]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return the columns and the rows of a query. ``table``: returns the rows of a table that it names.

    Raises:
        NotInPipelineError: SQLite cannot evaluate it.
        Unexercised: a table that it reads has no rows.
    """
    with closing(sqlite3.connect(":memory:")) as database:
        known = set[str]()
        while True:
            try:
                cursor = database.execute(query)
                rows = cursor.fetchall()
                return [name for name, *_ in cursor.description or ()], rows
            except (sqlite3.Error, sqlite3.Warning) as error:
                lacking = _LACKING.fullmatch(str(error))
                if lacking is None or lacking[1] in known:
                    remedy = (
                        'Write it as SQLite reads it, a table\'s name as it is, in quotes: "shop.db: orders"'
                    )
                    raise NotInPipelineError(f"SQLite cannot evaluate it: {error}. {remedy}") from error
                name = lacking[1]
            known.add(name)
            _load(database, name, table(name))


def _load(database: sqlite3.Connection, name: str, rows: Sequence[Any]) -> None:
    if not rows:
        raise Unexercised(f"{name} has no rows")
    fields = [fields_of(row) for row in rows]
    columns = list(dict.fromkeys(column for row in fields for column in row))
    quoted = ", ".join(_quoted(column) for column in columns)
    database.execute(f"CREATE TABLE {_quoted(name)} ({quoted})")
    places = ", ".join("?" * len(columns))
    stored = ([as_stored(row.get(column)) for column in columns] for row in fields)
    database.executemany(f"INSERT INTO {_quoted(name)} VALUES ({places})", stored)  # noqa: S608  names, quoted


def as_stored(value: Any) -> Any:
    """Return a value as SQLite keeps it."""
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, datetime):
        return str(value.replace(tzinfo=None))
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, _KEPT):
        return value
    if isinstance(value, date):
        return str(value)
    return json.dumps(value.asDict(recursive=True) if hasattr(value, "asDict") else value, default=str)


def fields_of(row: Any) -> dict[str, Any]:
    """Return a row's columns; those of a value that is no row: ``value``."""
    if isinstance(row, Mapping):
        return dict(row)
    return dict(row.asDict()) if hasattr(row, "asDict") else {"value": row}


def takes_frame(function: Callable[..., Any]) -> bool:
    """Return whether the first parameter of a function is annotated as a DataFrame."""
    parameters = iter(inspect.signature(function).parameters.values())
    annotation = getattr(next(parameters, None), "annotation", "")
    return str(getattr(annotation, "__name__", annotation)).rpartition(".")[2] == "DataFrame"


def frame_of_rows(rows: Sequence[Any]) -> Any:
    """Return rows as a pandas DataFrame, whose times have no zone."""
    import pandas as pd  # noqa: PLC0415  slow to import, and only for those that want it

    def naive(value: Any) -> Any:
        return value.replace(tzinfo=None) if isinstance(value, datetime) else value

    return pd.DataFrame([{column: naive(value) for column, value in fields_of(row).items()} for row in rows])


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
