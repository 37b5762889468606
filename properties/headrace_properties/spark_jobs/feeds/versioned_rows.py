"""Drawn rows in which keys come in several versions, the newer one first or last, for promises about the newest one."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

from headrace_properties.promises import Promise
from headrace_properties.promises.promise import Versions

_Batches = Sequence[Sequence[tuple[Any, ...]]]


def in_versions(batches: _Batches, names: Sequence[str], promises: Sequence[Promise]) -> _Batches:
    """Return batches in which keys come in several versions, as promises need it. What came twice still does.

    A column may be one of the row's, or one of the JSON object in one of them, as behind Kafka.

    Args:
        batches: The rows.
        names: Of their columns.
        promises: Which say what comes in versions.

    """
    for versions in (promise.versions for promise in promises if promise.versions is not None):
        changed = dict(_versioned([row for batch in batches for row in batch], names, versions))
        batches = [[changed.get(repr(row), row) for row in batch] for batch in batches]
    return batches


def oldest_first(batches: _Batches, names: Sequence[str], versions: Versions) -> _Batches:
    """Return batches in which the rows of each key change places, so that older versions come first."""
    rows = [row for batch in batches for row in batch]
    places = dict[str, list[int]]()
    by_row = [_columns(row, names) for row in rows]
    for place, columns in enumerate(by_row):
        if columns.get(versions.version) is not None and {*versions.by} <= columns.keys():
            places.setdefault(repr([columns[name] for name in versions.by]), []).append(place)
    moved = dict[int, tuple[Any, ...]]()
    for known in places.values():
        ordered = sorted(known, key=lambda place: by_row[place][versions.version])
        moved |= {place: rows[old] for place, old in zip(known, ordered, strict=True)}
    numbers = count()
    return [
        [moved.get(number, row) for row, number in zip(batch, numbers, strict=False)] for batch in batches
    ]


def _versioned(
    rows: Sequence[tuple[Any, ...]], names: Sequence[str], versions: Versions
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Yield a row's text, and the row in its place: the second half of the rows have the keys of the first."""
    known = [(row, _columns(row, names)) for row in rows]
    distinct = {
        repr(columns[versions.version]): (row, columns)
        for row, columns in reversed(known)
        if {*versions.by, versions.version} <= columns.keys() and columns[versions.version] is not None
    }
    usable = [*distinct.values()][::-1]
    half = len(usable) // 2
    pairs = zip(usable[:half], usable[len(usable) - half :], strict=True)
    for number, ((one, first), (other, second)) in enumerate(pairs):
        ends = sorted([first[versions.version], second[versions.version]], reverse=number % 2 == 0)
        key = {column: first[column] for column in versions.by}
        yield repr(one), _changed(one, names, {versions.version: ends[0]})
        yield repr(other), _changed(other, names, key | {versions.version: ends[1]})


def _columns(row: Sequence[Any], names: Sequence[str]) -> dict[str, Any]:
    """Return a row's columns, and those of JSON in it."""
    inner = [column for value in row for column in (_object(value) or {}).items()]
    return dict(inner) | dict(zip(names, row, strict=True))


def _changed(row: Sequence[Any], names: Sequence[str], values: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return a row with other values in some columns."""
    return tuple(
        values[name] if name in values else _changed_object(value, values)
        for name, value in zip(names, row, strict=True)
    )


def _changed_object(value: Any, values: Mapping[str, Any]) -> Any:
    known = _object(value)
    changed = {name: values[name] for name in known or () if name in values}
    if not known or not changed:
        return value
    text = json.dumps(known | changed)
    return text if isinstance(value, str) else text.encode()


def _object(value: Any) -> dict[str, Any] | None:
    """Return the object whose JSON a value is, or None."""
    if not isinstance(value, str | bytes | bytearray):
        return None
    try:
        parsed = json.loads(value)
    except ValueError:
        return None
    return parsed if isinstance(parsed, dict) else None
