"""Stateful processors come to what they came to on Spark 4.3: outputs by batch, state, timers, watermarks, late rows."""

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from pyspark.sql import Row

from headrace_sim.spark.client.recording import record
from headrace_sim.spark.query.streaming_query import run_job
from headrace_sim.spark.state.tasks import copied
from tests.sim.spark.failures import FAILED, FAILURES, simulated_failure
from tests.sim.spark.processors import CASES, CLOCKED, CLOCKED_OUTCOMES, OUTCOMES, simulated
from tests.sim.spark.programs import case_of, recorded
from tests.stateful import StatefulProcessor

RECORDED = json.loads(OUTCOMES.read_text())
RECORDED_BY_CLOCK = json.loads(CLOCKED_OUTCOMES.read_text())
RECORDED_FAILURES = json.loads(FAILED.read_text())


@pytest.mark.parametrize("name", CASES)
def test_processor_has_the_outcome_recorded_on_spark(name: str) -> None:
    assert json.loads(json.dumps(simulated(CASES[name]))) == RECORDED[name]


@pytest.mark.parametrize("name", CLOCKED)
def test_ttl_and_clock_timers_have_the_outcomes_recorded_at_the_same_times(name: str) -> None:
    clock = RECORDED_BY_CLOCK[name]["clock"]
    assert json.loads(json.dumps(simulated(CLOCKED[name], clock))) == RECORDED_BY_CLOCK[name]


def test_drawn_programs_have_the_outcomes_recorded_on_spark() -> None:
    programs, outcome = recorded()
    assert len(programs) > 100
    assert json.loads(json.dumps(simulated(case_of(programs)))) == outcome


@pytest.mark.parametrize("name", FAILURES)
def test_failure_is_the_one_recorded_on_spark(name: str) -> None:
    assert json.loads(json.dumps(simulated_failure(FAILURES[name]))) == RECORDED_FAILURES[name]


class CountsUntilTheEnd(StatefulProcessor):
    """Counts a key's rows, and tells the number a minute after the first."""

    def init(self, handle: Any) -> None:
        self.handle = handle
        self.rows = handle.getValueState("rows", "n INT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: Any) -> Iterator[Row]:
        if not self.rows.exists():
            self.handle.registerTimer(60_000)
        self.rows.update(((self.rows.get() or (0,))[0] + len(list(rows)),))
        yield from ()

    def handleExpiredTimer(self, key: Any, timerValues: Any, expiredTimerInfo: Any) -> Iterator[Row]:
        yield Row(key=str(key[0]), zero=key[0] == 0, n=self.rows.get()[0])
        self.rows.clear()


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_both_zeros_are_one_group_of_a_batch_and_two_keys_of_the_state(partitions: int) -> None:
    """As on Spark 4.3, with two and with seven partitions: a shuffle takes them for one, and the state compares bytes."""

    def counts(events: Any) -> Any:
        groups = events.withWatermark("at", "0 seconds").groupBy("x")
        made = groups.transformWithState(
            CountsUntilTheEnd(), "key STRING, zero BOOLEAN, n INT", "append", "eventtime"
        )
        return made.writeStream.format("memory").queryName("q").start()

    feed = [[(0.0, at(1)), (-0.0, at(2))], [(-0.0, at(3))], [(1.5, at(90))]]
    job = replace(record(counts, "x DOUBLE, at TIMESTAMP"), partitions=partitions)
    told = [row for rows in run_job(job, feed).outputs.values() for row in rows]
    assert sorted(told) == [("-0.0", True, 1), ("0.0", True, 2), ("1.5", False, 1)]


def at(second: int) -> datetime:
    return datetime.fromtimestamp(second)


def test_classes_that_are_first_copied_in_two_runs_stay_two(monkeypatch: pytest.MonkeyPatch) -> None:
    copies = []
    for label in ("one", "other"):
        monkeypatch.setattr(os, "urandom", bytes)  # each run begins with the same chance
        made = type("Made", (), {"__module__": "__main__", "label": label})
        copies.append(copied(made(), "", "processor"))
    one, other = [copy() for copy in copies]
    assert (one.label, other.label) == ("one", "other")


def test_what_a_copy_of_a_scripts_processor_keeps_is_in_no_other_copy() -> None:
    variables: dict[str, Any] = {"__name__": "__main__", "seen": []}
    exec("class Made:\n    def keep(self):\n        seen.append(1)\n        return len(seen)", variables)  # noqa: S102
    made = variables["Made"]()
    assert [copied(made, "", "processor")().keep() for _ in range(2)] == [1, 1]
