"""Promises that fit what a sink leaves, as code to paste: a key that is there once, its newest version, totals that add up.

They are guessed from the names and values of columns, and each is tried on the run without failures.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from headrace.api.errors import HeadraceError
from headrace_properties.promises import Promise, newest_wins, same_total, unique
from headrace_properties.promises.moment import INPUT, OUTPUT
from headrace_properties.spark_jobs.feeds.versioned_rows import in_versions
from headrace_properties.spark_jobs.promised import JobMoment
from headrace_properties.spark_jobs.table_judge import TableJudge
from headrace_properties.spark_jobs.targets import SparkTarget
from headrace_properties.spark_jobs.trials import SinkTrial
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.sink_runs import Sight

_VERSIONS = (
    "version",
    "ver",
    "seq",
    "sequence",
    "revision",
    "updated",
    "modified",
    "timestamp",
    "ts",
    "time",
    "at",
)
_AMOUNTS = ("amount", "total", "price", "quantity", "qty", "sum", "balance", "value", "count")
_UNDISTURBED = SinkFault(SinkFaultKind.NONE, 0, 0)


@dataclass(frozen=True, slots=True)
class Proposal:
    """A promise that nobody has made."""

    code: str  # as it is written in ``promises``
    broken: str  # how the run breaks it; "": it does not


def proposals(target: SparkTarget, calm: Sight) -> list[Proposal]:
    """Return promises that fit the tables that a sink leaves, each tried on a run without failures. ``calm``: such a run."""
    moment = TableJudge((), target.job, target.feed, target.outcome()).moment(calm)
    found: dict[str, Proposal] = {}
    for code, promise in _fitting(moment):
        broken = _tried(target, promise) if code not in found and len(found) < _MOST else None
        if broken is not None:
            found[code] = Proposal(code, broken)
    return [*found.values()]


_MOST = 3


def _tried(target: SparkTarget, promise: Promise) -> str | None:
    """Return how a run without failures breaks a promise; None: it cannot be tried. On Spark, the simulation says it."""
    feed = in_versions(target.feed, target.job.input.names, [promise])
    promised = replace(target, laboratory=None, promises=(promise,), feed=feed)
    try:
        broken = promised.broken_again(SinkTrial(_UNDISTURBED, promise=promise.name))
    except HeadraceError:
        return None
    return "" if broken is None else broken.message.removeprefix("in the end, without any failure: ")


def _fitting(moment: JobMoment) -> Iterator[tuple[str, Promise]]:
    """Yield promises: of keys first, then of versions, then of totals."""
    tables = {name: rows for name, rows in (moment.tables or {}).items() if rows and "line" not in rows[0]}
    given = _columns(moment.outputs)
    shared = {name: [column for column in _columns(rows) if column in given] for name, rows in tables.items()}
    keys = {name: key for name, rows in tables.items() if (key := _key(rows, shared[name]))}
    for name, key in keys.items():
        yield f'unique("{key}", table="{name}")', unique(key, table=name)
    for name, key in keys.items():
        for version in (column for column in shared[name] if _is_called(column, _VERSIONS) and column != key):
            code = f'newest_wins("{key}", version="{version}", table="{name}")'
            yield code, newest_wins(key, version=version, table=name)
    yield from _totals(moment, tables)


def _totals(moment: JobMoment, tables: Mapping[str, Sequence[Any]]) -> Iterator[tuple[str, Promise]]:
    """Yield that the amounts in tables, and in what reaches the sink, are the same."""
    are_inputs = {*_columns(moment.rows)} >= {*_columns(moment.outputs)}
    given = {INPUT: moment.rows} if are_inputs else {OUTPUT: moment.outputs}
    rows: dict[str, Sequence[Any]] = {**given, **tables}
    for column in dict.fromkeys(column for given in rows.values() for column in _columns(given)):
        amounts = {name: column for name, given in rows.items() if _adds_up(given, column)}
        if _is_called(column, _AMOUNTS) and len(amounts) > 1:
            code = ", ".join(f'"{name}": "{column}"' for name in amounts)
            yield f"same_total({{{code}}})", same_total(amounts)


def _key(rows: Sequence[Any], columns: Sequence[str]) -> str:
    """Return the column that looks like the key: called so, or else the first without a value twice; ``""``: none."""
    once = [column for column in columns if len({str(row[column]) for row in rows}) == len(rows)]
    named = [
        column
        for column in columns
        if column.lower() in {"id", "key", "uuid"} or column.lower().endswith(("_id", "key"))
    ]
    return next(iter([*(column for column in named if column in once), *named, *once]), "")


def _columns(rows: Sequence[Any]) -> list[str]:
    return list(getattr(rows[0], "__fields__", ())) if rows else []


def _is_called(column: str, words: Sequence[str]) -> bool:
    return bool({*column.lower().split("_")} & {*words})


def _adds_up(rows: Sequence[Any], column: str) -> bool:
    values = [row[column] for row in rows] if column in _columns(rows) else []
    return any(values) and all(type(value) in {int, float, Decimal, type(None)} for value in values)
