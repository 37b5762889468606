"""The results of a trial: files, SQLite tables, Spark tables and HTTP resources, as comparable items and as rows."""

import ast
import csv
import json
import os
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

from pyspark.sql import Row

from headrace_sim.spark.sinks.requests_over_http import resources
from headrace_sim.spark.sinks.sink_effects import Effect
from headrace_sim.spark.sinks.store_clients import stored, stored_objects
from headrace_sim.spark.tables.tables import tables

Item = str | tuple[tuple[str, str], ...]
"""A line, or a row as (column, value) pairs."""
Raw = dict[str, list[Item]]
Contents = dict[str, Counter[Item]]
Column = tuple[str, str]
"""A destination, and a column of it."""

_SQLITE = b"SQLite format 3\0"
_BESIDE_SQLITE = ("-journal", "-wal", "-shm")
EMPTY_FILE = "(an empty file)"


def collected(folder: Path, effects: list[Effect], counts: Callable[[Path], bool] = lambda _: True) -> Raw:
    """Return the contents of the folder and of the stand-ins, by destination.

    ``effects``: what was done. ``counts``: returns whether a file is looked at.
    """
    raw: Raw = {name: [*map(_pairs, version.pairs())] for name, version in tables(effects).items()}
    raw.update(stored(effects))
    for address, bodies in resources(effects).items():
        raw[address] = [item for body in bodies for item in items_of(body, "")]
    for address, content in stored_objects(effects).items():
        raw[address] = items_of(content, Path(address).suffix)
    for path in sorted(filter(counts, _files(folder))):
        name = os.path.relpath(path, folder)
        if name.endswith(_BESIDE_SQLITE):  # the first look at the database may have removed it
            continue
        content = path.read_bytes()
        if content.startswith(_SQLITE):
            raw.update({f"{name}: {table}": rows for table, rows in _sqlite_tables(path)})
        else:
            raw[name] = items_of(content, path.suffix)
    return raw


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file())


def _pairs(row: Any) -> Item:
    return tuple((str(name), repr(value)) for name, value in row)


def items_of(content: bytes, suffix: str) -> list[Item]:
    """Parse as JSON, as lines of JSON, or as CSV; else as lines of text; or, if it is not text, as one item."""
    if not content:
        return [EMPTY_FILE]
    try:
        text = content.decode()
    except UnicodeDecodeError:
        return [repr(content)]
    try:
        whole = json.loads(text)
    except ValueError:
        lines = text.splitlines()
        if suffix != ".csv":
            return [_line(line) for line in lines]
        rows = [enumerate(row) for row in csv.reader(lines)]
        return [tuple((f"column {place}", value) for place, value in row) for row in rows]
    return [_json_item(item) for item in whole] if isinstance(whole, list) else [_json_item(whole)]


def _line(line: str) -> Item:
    try:
        return _json_item(json.loads(line))
    except ValueError:
        return line


def _json_item(value: Any) -> Item:
    return _pairs(value.items()) if isinstance(value, dict) else json.dumps(value)


def _sqlite_tables(path: Path) -> Iterator[tuple[str, list[Item]]]:
    with closing(sqlite3.connect(path)) as database:
        named = "SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name"
        for table, sql in database.execute(named).fetchall():
            quoted = table.replace('"', '""')
            columns = database.execute(f'PRAGMA table_info("{quoted}")').fetchall()
            # SQLite's own counters never go back, so they reveal how often something was tried.
            own = {name for _, name, _, _, _, key in columns if key}
            counted = own if "AUTOINCREMENT" in sql.upper() else set()
            rows = database.execute(f'SELECT * FROM "{quoted}"').fetchall()  # noqa: S608  its own name, quoted
            names = [column[1] for column in columns]
            pairs = [zip(names, row, strict=True) for row in rows]
            yield table, [_pairs(pair for pair in row if pair[0] not in counted) for row in pairs]


@dataclass(frozen=True, slots=True)
class ExpectedContents:
    """The results of an undisturbed run, and what varies between such runs: names of files, columns, scratch files."""

    contents: Contents  # what each destination holds
    names: frozenset[str]  # the destinations that have the same name in each run
    passing: dict[str, frozenset[str]]  # the columns, by destination, whose values differ from run to run
    scratch: frozenset[str]  # the places in the code where files are made that are gone in the end
    unsteady: tuple[str, ...]  # the destinations that cannot be compared
    # columns of random ids, and those of other destinations where each of these ids is, too
    joins: tuple[tuple[Column, Column], ...] = ()

    def read(self, raw: Raw, effects: list[Effect]) -> Contents:
        """Return a run's results, without what varies between undisturbed runs."""
        makers: dict[str, set[str]] = {}
        for effect in effects:
            if effect.action == "open":
                makers.setdefault(effect.target, set()).add(effect.place)
        passing = {name for name, places in makers.items() if places <= self.scratch}
        kept = {name: items for name, items in raw.items() if name not in passing}
        return _grouped(kept, self.names, self.passing)


def expected(runs: list[tuple[Raw, list[Effect]]]) -> ExpectedContents:
    """Return what two undisturbed runs have in common, at different times and with different random numbers."""
    (first, _), (second, _) = runs
    names = frozenset(first.keys() & second.keys())
    groups = [_grouped(raw, names, {}) for raw in (first, second)]
    passing = {
        name: _passing(groups[0].get(name, Counter()), groups[1].get(name, Counter()))
        for name in sorted({*groups[0], *groups[1]})
    }
    groups = [_grouped(raw, names, passing) for raw in (first, second)]
    unsteady = tuple(name for name in passing if groups[0].get(name) != groups[1].get(name))
    effects = [(effect, raw) for raw, effects in runs for effect in effects]
    opened = [(effect.target, effect.place, raw) for effect, raw in effects if effect.action == "open"]
    lasting = {
        place for target, place, raw in opened if any(f"{name}: ".startswith(f"{target}: ") for name in raw)
    }
    scratch = frozenset(place for _, place, _ in opened if place not in lasting)
    return ExpectedContents(groups[0], names, passing, scratch, unsteady, _joins(runs, names, passing))


def _joins(
    runs: list[tuple[Raw, list[Effect]]], names: frozenset[str], passing: dict[str, frozenset[str]]
) -> tuple[tuple[Column, Column], ...]:
    drawn_ids = [ids(raw, names) for raw, _ in runs]
    both = sorted(drawn_ids[0].keys() & drawn_ids[1].keys())
    drawn = [column for column in both if column[1] in passing[column[0]]]
    pairs = [(one, other) for one, other in product(drawn, drawn) if one[0] != other[0]]
    joins = [pair for pair in pairs if all(values[pair[0]] <= values[pair[1]] for values in drawn_ids)]
    return tuple((one, other) for one, other in joins if one < other or (other, one) not in joins)


def ids(raw: Raw, names: frozenset[str]) -> dict[Column, set[str]]:
    """Return the random ids in each column of each destination: UUIDs, and fractions as `random.random` draws them."""
    drawn: dict[Column, set[str]] = {}
    for name, items in raw.items():
        for item in items:
            for column, value in item if isinstance(item, tuple) else ():
                if _DRAWN_ID.search(value):
                    drawn.setdefault((destination_of(name, names), column), set()).add(value)
    return drawn


_DRAWN_ID = re.compile(
    r"\b[0-9a-f]{8}(-?)[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{4}\1[0-9a-f]{12}\b|(?<![\w.])0\.\d{12,}\b",
    re.IGNORECASE,
)


def _grouped(raw: Raw, names: frozenset[str], passing: dict[str, frozenset[str]]) -> Contents:
    contents: Contents = {}
    for name, items in raw.items():
        destination = destination_of(name, names)
        left_out = passing.get(destination, frozenset())
        kept = (
            tuple(pair for pair in item if pair[0] not in left_out) if isinstance(item, tuple) else item
            for item in items
        )
        contents.setdefault(destination, Counter()).update(kept)
    return contents


def destination_of(name: str, names: frozenset[str]) -> str:
    """Return the name, or the pattern of names that vary between runs."""
    if name in names or ": " in name:
        return name
    folder, slash, file = name.rpartition("/")
    return f"{folder}{slash}*{Path(file).suffix}"


def _passing(first: Counter[Item], second: Counter[Item]) -> frozenset[str]:
    """Return the columns whose values differ between two runs."""
    values: list[dict[str, Counter[str]]] = [{}, {}]
    for by_column, items in zip(values, (first, second), strict=True):
        for item in items.elements():
            for name, value in item if isinstance(item, tuple) else ():
                by_column.setdefault(name, Counter())[value] += 1
    both = values[0].keys() & values[1].keys()
    return frozenset(name for name in both if values[0][name] != values[1][name])


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
