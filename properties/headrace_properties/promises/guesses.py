"""Promises that nobody has made, as code to paste: a key that is there once, its newest version, totals that add up.

They are guessed from the names and values of columns. Whoever has a run tries each on it.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from headrace_properties.promises.promise import Promise
from headrace_properties.promises.table_promises import newest_wins, same_total, unique

Guess = tuple[str, Promise]
"""A promise, and how it is written."""
_VERSIONS = (
    "version", "ver", "seq", "sequence", "revision", "updated", "modified", "timestamp", "ts", "time", "at",
)  # fmt: skip
_AMOUNTS = ("amount", "total", "price", "quantity", "qty", "sum", "balance", "value", "count")
_MOST = 3


@dataclass(frozen=True, slots=True)
class Proposal:
    """A promise that nobody has made."""

    code: str  # as it is written in ``promises``
    broken: str  # how the run breaks it; "": it does not


def proposed(guesses: Iterable[Guess], tried: Callable[[Promise], str | None]) -> tuple[Proposal, ...]:
    """Return the first few guesses with what a run says. ``tried``: returns how it breaks one; None: it cannot be tried."""
    proposals: dict[str, Proposal] = {}
    for code, promise in guesses:
        broken = tried(promise) if code not in proposals and len(proposals) < _MOST else None
        if broken is not None:
            proposals[code] = Proposal(code, broken)
    return tuple(proposals.values())


def guesses_about(tables: Mapping[str, Sequence[Any]], came: Mapping[str, Sequence[Any]]) -> Iterator[Guess]:
    """Yield promises that fit tables: of keys first, then of versions, then of totals.

    Args:
        tables: the rows of each, as ``Row`` values or mappings.
        came: what they are made of, in the same way.
    """
    came_columns = {column for rows in came.values() for column in columns_of(rows)}
    shared = {
        name: [column for column in columns_of(rows) if column in came_columns]
        for name, rows in tables.items()
    }
    keys = {name: key for name, rows in tables.items() if (key := key_of(rows, shared[name]))}
    for name, key in keys.items():
        yield f'unique("{key}", table="{name}")', unique(key, table=name)
    for name, key in keys.items():
        for version in (column for column in shared[name] if _is_called(column, _VERSIONS) and column != key):
            code = f'newest_wins("{key}", version="{version}", table="{name}")'
            yield code, newest_wins(key, version=version, table=name)
    rows = {**came, **tables}
    for column in dict.fromkeys(
        column for came_columns in rows.values() for column in columns_of(came_columns)
    ):
        amounts = {name: column for name, came_columns in rows.items() if _adds_up(came_columns, column)}
        if _is_called(column, _AMOUNTS) and len(amounts) > 1:
            code = ", ".join(f'"{name}": "{column}"' for name in amounts)
            yield f"same_total({{{code}}})", same_total(amounts)


def key_of(rows: Sequence[Any], columns: Sequence[str]) -> str:
    """Return the column that looks like the key: called so, or else the first without a value twice; ``""``: none."""
    once = [column for column in columns if len({str(row[column]) for row in rows}) == len(rows)]
    named = [column for column in columns if looks_like_key(column)]
    return next(iter([*(column for column in named if column in once), *named, *once]), "")


def looks_like_key(column: str) -> bool:
    """Return whether a column is called like a key."""
    return column.lower() in {"id", "key", "uuid"} or column.lower().endswith(("_id", "key"))


def columns_of(rows: Sequence[Any]) -> list[str]:
    """Return the columns that all rows have; none of what is no row."""
    names = [row if isinstance(row, Mapping) else getattr(row, "__fields__", ()) for row in rows]
    return [name for name in (names[0] if names else ()) if all(name in known for known in names)]


def _is_called(column: str, words: Sequence[str]) -> bool:
    return bool({*column.lower().split("_")} & {*words})


def _adds_up(rows: Sequence[Any], column: str) -> bool:
    values = [row[column] for row in rows] if column in columns_of(rows) else []
    return any(values) and all(type(value) in {int, float, Decimal, type(None)} for value in values)
