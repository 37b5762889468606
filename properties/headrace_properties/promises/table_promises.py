"""Ready-made promises about tables: what a sink leaves, what a query gives out, or what leaves a pipeline on a stream.

Each reads its tables with ``moment.table(name)``. A column is the name of one, or a function of a row.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import date, datetime
from itertools import pairwise
from typing import Any

from headrace_properties.promises.moment import GIVEN, INPUT, OUTPUT
from headrace_properties.promises.promise import Names, Promise, PromiseKind, Versions, make
from headrace_properties.promises.promise_errors import Broken, NotInPipelineError, PromiseError, Unexercised
from headrace_properties.promises.table_queries import (
    as_stored,
    fields_of,
    frame_of_rows,
    rows_by_sql,
    takes_frame,
)

Column = str | Callable[[Any], Any]
"""The name of a column, or what returns a value of a row."""

_SHOWN = 3


def unique(
    *by: Column, table: str = "", when: PromiseKind = PromiseKind.AT_END, name: str = ""
) -> Promise:  # fmt: skip
    """Promise that no two rows of a table have the same key: no order is there twice, no e-mail is told twice.

    Args:
        by: the columns of the key.
        table: which; default: the only one.
        when: `PromiseKind.ALWAYS`: also while batches are written.
        name: default: of the columns and the table.
    """

    def no_key_twice(moment: Any) -> None:
        for key, rows in _by_key(moment.table(table), by, table).items():
            if len(rows) > 1:
                raise Broken(f"{_the(table)} has {_shown(by, key)} {len(rows)} times: {_some(rows)}")

    title = f"No two rows of {_the(table)} have the same {_columns(by)}"
    return _made(no_key_twice, "unique", by, table, name, title, when)


def newest_wins(*by: Column, version: Column, came: str = "", table: str = "", name: str = "") -> Promise:
    """Promise that a table has the newest version of each key that came, in whatever order.

    Args:
        by: the columns of the key, in the table and in the rows that came.
        version: the column that is greater in a newer row, in both.
        came: the table or stream of these; default: what reaches the sink, or all input of a pipeline.
        table: which; default: the only one.
        name: default: of the columns and the table.
    """

    def is_newest(moment: Any) -> None:
        came_rows = _by_key(moment.table(came or GIVEN), by, came or INPUT)
        known = {key: max(_versions(rows, version), default=None) for key, rows in came_rows.items()}
        kept = _by_key(moment.table(table), by, table)
        if not any(len({*_versions(known_rows, version)}) > 1 for known_rows in came_rows.values()):
            raise Unexercised("no key came in two versions")
        for key, rows in kept.items():
            newest, held = known.get(key), max(_versions(rows, version), default=None)
            if newest is not None and (held is None or held < newest):
                row = next(row for row in came_rows[key] if plain(_value(row, version)) == newest)
                raise Broken(f"{_the(table)} has {_some(rows)}, and a newer version came: {row}")

    title = f"{_the(table)} has the newest version of each {_columns(by)}"
    promise = _made(is_newest, "newest", by, table, name, title)
    columns = [column for column in (*by, version) if isinstance(column, str)]
    is_named = len(columns) == len(by) + 1
    return replace(promise, versions=Versions(tuple(columns[:-1]), columns[-1])) if is_named else promise


def no_gap(number: Column, *, of: Names = (), table: str = "", name: str = "") -> Promise:
    """Promise that the numbers in a column follow each other without a gap.

    Args:
        number: the column.
        of: the columns of a key, each of which has its own numbers.
        table: which; default: the only one.
        name: default: of the columns and the table.
    """
    by: tuple[Column, ...] = (of,) if isinstance(of, str) else tuple(of)

    def no_number_lacks(moment: Any) -> None:
        for key, rows in _by_key(moment.table(table), by, table).items():
            for one, other in pairwise(sorted(_versions(rows, number))):
                if other - one > 1:
                    whose = f" of {_shown(by, key)}" if by else ""
                    raise Broken(f"{_the(table)} has {one} and then {other} as {_columns([number])}{whose}")

    title = f"No {_columns([number])} is left out in {_the(table)}"
    return _made(no_number_lacks, "no_gap", [number], table, name, title)


def same_total(
    amounts: Mapping[str, Column], *, when: PromiseKind = PromiseKind.AT_END, name: str = ""
) -> Promise:  # fmt: skip
    """Promise that the amounts in several tables add up to the same: nothing is lost or made between them.

    Args:
        amounts: table to its column, or to what returns the amount of a row; ``input`` and ``output`` are tables, too.
        when: `PromiseKind.ALWAYS`: also while batches are written.
        name: default: of the tables.

    Raises:
        PromiseError: there is only one table.
    """

    def adds_up(moment: Any) -> None:
        totals = {
            table: sum(_value(row, amount) or 0 for row in moment.table(table))
            for table, amount in amounts.items()
        }
        if len({plain(total) for total in totals.values()}) > 1:
            parts = [f"{_the(table)} has {total}" for table, total in totals.items()]
            raise Broken((", but " if len(parts) == 2 else ", ").join(parts))

    if len(amounts) < 2:
        raise PromiseError(name, "declaration", "", "compares nothing: name two tables, each with its column")
    title = f"The totals of {' and '.join(map(_the, amounts))} are the same"
    return _made(adds_up, "same_total", (), tuple(amounts), name, title, when)


def one_row_each(by: Column, of: Column, table: str, name: str) -> Promise:
    """Promise that a table has exactly one row for each key of the input. ``of``: the key of a row of the table."""

    def each_once(moment: Any) -> None:
        wanted, rows = _by_key(moment.table(INPUT), (by,), INPUT), _by_key(moment.table(table), (of,), table)
        for key in wanted:
            if key not in rows:
                raise Broken(f"{_shown([by], key)} came in, and {_the(table)} has no row of it")
        for key, same_key in rows.items():
            if key not in wanted:
                raise Broken(f"{_the(table)} has {_some(same_key)}, which nothing came in for")
            if len(same_key) > 1:
                raise Broken(
                    f"{_the(table)} has {_shown([of], key)} {len(same_key)} times: {_some(same_key)}"
                )

    title = f"Each {_columns([by])} that comes in has exactly one row in {_the(table)}"
    return _made(each_once, "answered_once", [by], table, name, title)


def expected_table(function: Callable[[Any], Any], table: str, name: str) -> Promise:
    """Promise that a table has exactly the rows that a function makes of the input, in any order."""

    def same(moment: Any) -> None:
        rows = moment.table(INPUT)
        returned = function(frame_of_rows(rows) if takes_frame(function) else tuple(rows))
        if hasattr(returned, "to_dict"):
            _compare(moment.table(table), returned.to_dict("records"), list(returned.columns))
            return
        wanted = list(returned)
        _compare(
            moment.table(table),
            wanted,
            list(wanted[0]) if wanted and isinstance(wanted[0], Mapping) else None,
        )

    return make(same, PromiseKind.AT_END, name=name, table=table, written=function)


def expected_query(query: str, table: str, name: str) -> Promise:
    """Promise that a table has exactly the rows of an SQL query over the input and over other tables, in any order."""

    def same(moment: Any) -> None:
        columns, rows = rows_by_sql(query, moment.table)
        wanted = [dict(zip(columns, row, strict=True)) for row in rows]
        stored = [
            {column: as_stored(value) for column, value in fields_of(row).items()}
            for row in moment.table(table)
        ]
        _compare(stored, wanted, columns)

    return _made(
        same, "expected", (), table, name, f"{_the(table)} has the rows of: {' '.join(query.split())}"
    )


def _compare(stored: Iterable[Any], wanted: Iterable[Any], columns: list[str] | None) -> None:
    """Raise `Broken` unless rows are the same, however often each is there. ``columns``: as for `_comparable`."""
    actual, expects = (Counter(_comparable(row, columns) for row in rows) for rows in (stored, wanted))
    differences = [
        f"{word} {', '.join(map(str, list(rows.elements())[:_SHOWN]))}"
        for word, rows in (("missing:", expects - actual), ("not expected:", actual - expects))
        if rows
    ]
    if differences:
        raise Broken("; ".join(differences))


def _comparable(row: Any, columns: list[str] | None) -> Any:
    """Return a row in a form that compares by values. ``columns``: only these, by name; None: all, in order."""
    if columns is not None:
        return tuple(plain(_value(row, name)) for name in columns)
    values = row.values() if isinstance(row, Mapping) else row
    return tuple(map(plain, values)) if isinstance(row, list | tuple | Mapping) else plain(row)


def plain(value: Any) -> Any:
    """Return a value that is the same in every store: a time is text without a zone there; a float's last digits are chance."""
    if isinstance(value, float | date) and value != value:  # noqa: PLR0124  pandas' nulls
        return None
    if isinstance(value, float):
        return float(f"{value:.9g}")
    if isinstance(value, date):
        return str(value.replace(tzinfo=None) if isinstance(value, datetime) else value)
    return repr(value) if isinstance(value, list | dict | set) else value


def _value(row: Any, column: Column) -> Any:
    """Return what a row has in a column. Raise `NotInPipelineError` if it has no such column."""
    if callable(column):
        return column(row)
    try:
        return row[column]
    except (KeyError, ValueError, TypeError, IndexError):
        raise NotInPipelineError(f"{row} has no column {column!r}") from None


def _by_key(rows: Iterable[Any], by: Iterable[Column], table: str) -> dict[tuple[Any, ...], list[Any]]:
    """Group rows by key; rows whose key is null are left out, as in SQL. Raise `Unexercised` if there are no rows."""
    groups: dict[tuple[Any, ...], list[Any]] = {}
    for row in rows:
        key = tuple(plain(_value(row, column)) for column in by)
        if None not in key:
            groups.setdefault(key, []).append(row)
    if not groups:
        raise Unexercised(f"{_the(table)} has no rows")
    return groups


def _versions(rows: Iterable[Any], column: Column) -> Iterator[Any]:
    return (value for row in rows if (value := plain(_value(row, column))) is not None)


def _the(table: str) -> str:
    return {INPUT: "the input", OUTPUT: "the output", "": "the table"}.get(table, table)


def _columns(by: Iterable[Column]) -> str:
    return ", ".join(column if isinstance(column, str) else column.__name__ for column in by)


def _shown(by: Iterable[Column], key: tuple[Any, ...]) -> str:
    names = [column if isinstance(column, str) else column.__name__ for column in by]
    return ", ".join(f"{name}={value!r}" for name, value in zip(names, key, strict=True))


def _some(rows: list[Any]) -> str:
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return ", ".join(map(str, rows[:_SHOWN])) + more


def _made(
    check: Callable[[Any], None],
    what: str,
    by: Iterable[Column],
    table: Names,
    name: str,
    title: str,
    when: PromiseKind = PromiseKind.AT_END,
) -> Promise:
    tables = (table,) if isinstance(table, str) else tuple(table)
    words = [column for column in by if isinstance(column, str)]
    tails = [re.split(r"[/:. ]", each.rstrip("/"))[-1] for each in tables if each]
    default = re.sub(r"\W+", "_", "_".join([what, *words, *(["in", *tails] if tails else [])]))
    return make(check, when, name=name or default, title=title, table=tables)
