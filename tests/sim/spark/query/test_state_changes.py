"""A query on the checkpoint of an earlier version: what the simulation says of it is what is recorded of Spark."""

import json
from datetime import datetime
from typing import Any

import pytest

from headrace_sim.spark.client.recording import record
from headrace_sim.spark.query.state_changes import StateChange, StateFate, changes_between, handed_over
from headrace_sim.spark.query.streaming_query import Checkpoint, run_job
from headrace_sim.spark.spark_job import SparkJob
from tests.sim.spark.upgraded import CASES, FIRST, SCHEMA, SECOND, UPGRADES, Upgraded

RECORDED: dict[str, Any] = json.loads(UPGRADES.read_text())
REREAD = {
    "another key of the same type", "a sum becomes a count", "a sum becomes a maximum", "windows of another length",
    "sessions of another gap", "duplicates by another column", "a processor by another key",
}  # fmt: skip
"""What Spark takes without a word, and should not."""
NOT_KNOWN = {
    "a join of streams by another key", "a join of streams within another time", "one more column behind a join of streams",
}  # fmt: skip


def versions_of(case: Upgraded) -> tuple[SparkJob, SparkJob]:
    def version(number: int) -> SparkJob:
        build, mode = case.version(number)
        return record(lambda frame: build(frame).writeStream.outputMode(mode).start(), SCHEMA)

    return version(0), version(1)


def rows_of(rows: list[tuple[Any, ...]], job: SparkJob) -> list[tuple[Any, ...]]:
    """Return the rows of a job's input; of one that reads its source twice, each for both streams."""
    read = [(*row[:3], datetime.fromisoformat(row[3]), row[4]) for row in rows]
    return read if len(job.input) > 2 else [*((row, None) for row in read), *((None, row) for row in read)]


def gone_on(old: SparkJob, new: SparkJob) -> list[list[str]]:
    checkpoint = run_job(old, [rows_of(FIRST, old)]).checkpoint
    assert isinstance(checkpoint, Checkpoint)
    outcome = run_job(new, [rows_of(SECOND, new)], start=handed_over(checkpoint, old, new))
    assert outcome.failure is None
    later = (rows for number, rows in outcome.outputs.items() if number >= len(checkpoint.batches))
    return sorted([str(value) for value in row] for rows in later for row in rows)


@pytest.mark.parametrize("name", RECORDED)
def test_upgrade_comes_to_what_is_recorded_on_spark(name: str) -> None:
    old, new = versions_of(CASES[name])
    changes: dict[StateFate, list[StateChange]] = {}
    for change in changes_between(old, new):
        changes.setdefault(change.fate, []).append(change)
    assert (StateFate.UNKNOWN in changes) == (name in NOT_KNOWN)
    if name in NOT_KNOWN:
        return
    refused = RECORDED[name].get("refused")
    assert (StateFate.REFUSED in changes) == (refused is not None)
    assert refused is None or any(refused in change.what for change in changes[StateFate.REFUSED])
    assert (StateFate.REREAD in changes) == (name in REREAD)
    if not {StateFate.REFUSED, StateFate.REREAD} & changes.keys():
        assert gone_on(old, new) == RECORDED[name]["outputs"]


def test_all_upgrades_are_recorded() -> None:
    assert list(RECORDED) == list(CASES)
