"""Comparing a run on Spark under faults with the sequential reference (`headrace_properties.reference`).

Rules of this file: only rows of committed transactions count, since the work of a killed attempt is repeated. Outputs are
counted, so that an extra one is found as well as a missing one. States are taken from the History.
"""

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from headrace import Pipeline
from headrace.spark.hosting.history_export import history_of
from headrace_properties.checkers import judge
from headrace_properties.reference import Emitted, RunResult
from headrace_properties.results import result_of
from headrace_properties.search.judging import violations
from headrace_properties.user_code.comparison import OutputComparison, same_output
from headrace_properties.verdict import Verdict
from headrace_scenarios.chaos.job import TABLE

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


def find(pipeline: Pipeline, expected: RunResult, rows: Sequence[Row]) -> ChaosFindings:
    """Compare the sink's rows with the reference.

    Args:
        pipeline: the pipeline that ran.
        expected: the result of `run_reference`.
        rows: rows of the sink's table.
    """
    history = history_of(pipeline, [value for stream, _, value, _ in rows if stream is None])
    states = {
        (
            computation,
            key.partition("/")[2],
        ): state  # the History prefixes a key with the number of its interval
        for (computation, key), state in result_of(history).states.items()
    }
    verdicts = judge(history, [pipeline])
    differences = tuple(_differences(expected.states, states))
    names = expected.states.keys() | states.keys()
    compared = same_output(expected.outputs, _emitted(rows))
    return ChaosFindings(compared, differences, len(names), verdicts, len(history))


def _emitted(rows: Iterable[Row]) -> Counter[Emitted]:
    return Counter(
        Emitted(stream, str(key), value, int(timestamp or 0))
        for stream, key, value, timestamp in rows
        if stream is not None
    )


def _differences(
    expected: Mapping[tuple[str, str], bytes], found: Mapping[tuple[str, str], bytes]
) -> Iterable[StateDifference]:
    for name in sorted(expected.keys() | found.keys()):
        if expected.get(name) != found.get(name):
            yield StateDifference(*name, expected.get(name), found.get(name))


def read_rows(database: Path) -> list[Row]:
    """Return all rows of the sink's table; none if nothing was ever written."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(database)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (TABLE,)).fetchall():
            return []
        return connection.execute(_SELECT).fetchall()
