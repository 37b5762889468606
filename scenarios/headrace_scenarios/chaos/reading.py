"""What a run under chaos left: the rows of its sink and its states, but for what was added to the pipeline meanwhile."""

import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec

from headrace_properties.spark_jobs.hosted_outcomes import Row
from headrace_scenarios.chaos.job import ADDED, TABLE, SavedState

_SELECT = f"SELECT stream, key, value, timestamp FROM {TABLE}"  # noqa: S608  our own name


def read_states(path: Path) -> dict[tuple[str, str], bytes]:
    """Return the states that a job had stored when it ended, without those of additions."""
    lines = path.read_bytes().splitlines() if path.exists() else []
    rows = [msgspec.json.decode(line, type=SavedState) for line in lines]
    return {(row.computation, row.key): row.state for row in rows if not row.computation.startswith(ADDED)}


def read_rows(database: Path) -> list[Row]:
    """Return all rows of the sink's table; none if nothing was ever written."""
    if not database.exists():
        return []
    with closing(sqlite3.connect(database)) as connection:
        if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (TABLE,)).fetchall():
            return []
        return connection.execute(_SELECT).fetchall()
