"""What a run on Spark under faults has come to, against the plain sequential reference (`headrace_properties.reference`).

Rules of this file: only rows of transactions that were committed count, since what a killed attempt made is made again; outputs
are counted, so that one too many is found like one too few; states are those that the History tells.
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
from headrace_properties.search.verification import violations
from headrace_properties.user_code.comparison import OutputComparison, same_output
from headrace_properties.verdict import Verdict
from headrace_scenarios.chaos.job import TABLE

Row = tuple[str | None, str | None, bytes, int | None]
"""Of the sink's table: stream, key, value, timestamp; an event of the History has its value only."""

_SELECT = f"SELECT stream, key, value, timestamp FROM {TABLE}"  # noqa: S608  a name of ours


@dataclass(frozen=True, slots=True)
class StateDifference:
    """A state that is not the reference's; ``None``: there is none.

    Attributes:
        computation: whose.
        key: of the row.
        expected: the reference's, encoded.
        found: the run's.
    """

    computation: str
    key: str
    expected: bytes | None
    found: bytes | None


@dataclass(frozen=True, slots=True)
class ChaosFindings:
    """How a run compares.

    Attributes:
        outputs: the reference's first, the run's second.
        states: that differ.
        states_compared: how many there are.
        verdicts: of the checkers, invariant to verdict.
        events: of the History.
    """

    outputs: OutputComparison
    states: tuple[StateDifference, ...]
    states_compared: int
    verdicts: Mapping[str, Verdict]
    events: int

    @property
    def problems(self) -> tuple[str, ...]:
        """What is wrong, in sentences."""
        found: list[str] = []
        missing, extra = self.outputs.only_first.total(), self.outputs.only_second.total()
        if missing or extra:
            found.append(
                f"outputs: {missing} missing, {extra} too many, {self.outputs.common} as they should be"
            )
        if self.states:
            found.append(f"states: {len(self.states)} of {self.states_compared} are not the reference's")
        found += [f"{name}: {one.message}" for name, one in violations(dict(self.verdicts)).items()]
        return tuple(found)


def find(pipeline: Pipeline, expected: RunResult, rows: Sequence[Row]) -> ChaosFindings:
    """Compare what the sink has with the reference.

    Args:
        pipeline: that ran.
        expected: what `run_reference` gives.
        rows: of the sink's table.
    """
    history = history_of(pipeline, [value for stream, _, value, _ in rows if stream is None])
    states = {
        (computation, key.partition("/")[2]): state  # the History writes a key with its interval's number
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
    """All rows that the sink has; none if it has never written."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(database)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (TABLE,)).fetchall():
            return []
        return connection.execute(_SELECT).fetchall()
