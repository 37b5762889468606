"""Comparing a run on Spark under faults with the sequential reference (`headrace_properties.reference`).

Rules of this file: only rows of committed transactions count, since the work of a killed attempt is repeated. Outputs are
counted, so that an extra one is found as well as a missing one. States are taken from the History; those of a job without one are
what it has stored. What was added to the pipeline during the run has no part in it.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import msgspec

from headrace import Encoded, Pipeline
from headrace.spark.hosting.history_export import history_of
from headrace_properties.checkers import judge
from headrace_properties.reference import Emitted, RunResult
from headrace_properties.results import result_of
from headrace_properties.search.judging import violations
from headrace_properties.user_code.comparison import OutputComparison, same_output
from headrace_properties.verdict import Verdict
from headrace_scenarios.chaos.job import ADDED, TABLE, StoredRow

Row = tuple[str | None, str | None, bytes, int | None]
"""A row of the sink's table: stream, key, value, timestamp; a History event has only a value."""

_SELECT = f"SELECT stream, key, value, timestamp FROM {TABLE}"  # noqa: S608  our own name


@dataclass(frozen=True, slots=True)
class StateDifference:
    """A state that differs from the reference.

    Attributes:
        computation: its computation.
        key: key of the row.
        expected: the reference's state, encoded; ``None``: it has none.
        found: the run's state, encoded; ``None``: it has none.
    """

    computation: str
    key: str
    expected: bytes | None
    found: bytes | None


@dataclass(frozen=True, slots=True)
class ChaosFindings:
    """The comparison of a run with the reference.

    Attributes:
        outputs: comparison of outputs: the reference's first, the run's second.
        states: the states that differ.
        states_compared: number of states compared.
        verdicts: verdicts of the checkers, by invariant.
        events: number of History events.
    """

    outputs: OutputComparison
    states: tuple[StateDifference, ...]
    states_compared: int
    verdicts: Mapping[str, Verdict]
    events: int

    @property
    def problems(self) -> tuple[str, ...]:
        """The problems found, in words."""
        found: list[str] = []
        missing, extra = self.outputs.only_first.total(), self.outputs.only_second.total()
        if missing or extra:
            found.append(f"outputs: {missing} missing, {extra} extra, {self.outputs.common} as expected")
        if self.states:
            found.append(f"states: {len(self.states)} of {self.states_compared} differ from the reference")
        found += [f"{name}: {violated.message}" for name, violated in violations(dict(self.verdicts)).items()]
        return tuple(found)


def find(
    pipeline: Pipeline,
    expected: RunResult,
    rows: Sequence[Row],
    stored: Mapping[tuple[str, str], bytes] | None = None,
) -> ChaosFindings:
    """Compare the sink's rows with the reference.

    Args:
        pipeline: the pipeline that ran.
        expected: the result of `run_reference`.
        rows: rows of the sink's table.
        stored: states that the job has stored, by computation and key; ``None``: they are in the History.
    """
    if stored is not None:
        return _found(expected, rows, stored)
    history = history_of(pipeline, [value for stream, _, value, _ in rows if stream is None])
    states = {
        (
            computation,
            key.partition("/")[2],
        ): state  # the History prefixes a key with the number of its interval
        for (computation, key), state in result_of(history).states.items()
    }
    return _found(expected, rows, states, judge(history, [pipeline]), len(history))


def _found(
    expected: RunResult,
    rows: Sequence[Row],
    states: Mapping[tuple[str, str], Encoded],
    verdicts: Mapping[str, Verdict] | None = None,
    events: int = 0,
) -> ChaosFindings:
    differences = tuple(_differences(expected.states, states))
    names = expected.states.keys() | states.keys()
    compared = same_output(expected.outputs, _emitted(rows))
    return ChaosFindings(compared, differences, len(names), verdicts or {}, events)


def _emitted(rows: Iterable[Row]) -> Counter[Emitted]:
    return Counter(
        Emitted(stream, str(key), value, int(timestamp or 0))
        for stream, key, value, timestamp in rows
        if stream is not None
    )


def _differences(
    expected: Mapping[tuple[str, str], Encoded], found: Mapping[tuple[str, str], Encoded]
) -> Iterable[StateDifference]:
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            yield StateDifference(*name, _bytes(expected.get(name)), _bytes(found.get(name)))


def _bytes(state: Encoded | None) -> bytes | None:
    return None if state is None else bytes(state)


def read_states(path: Path) -> dict[tuple[str, str], bytes]:
    """Return the states that a job had stored when it ended, without those of additions."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    rows = [msgspec.json.decode(line, type=StoredRow) for line in lines]
    return {(row.computation, row.key): row.state for row in rows if not row.computation.startswith(ADDED)}


def read_rows(database: Path) -> list[Row]:
    """Return all rows of the sink's table; none if nothing was ever written."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(database)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (TABLE,)).fetchall():
            return []
        return connection.execute(_SELECT).fetchall()
