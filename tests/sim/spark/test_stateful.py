"""Stateful processors come to what they came to on Spark 4.3: outputs by batch, state, timers, watermarks, late rows."""

import json

import pytest

from tests.sim.spark.failures import FAILED, FAILURES, simulated_failure
from tests.sim.spark.processors import CASES, CLOCKED, CLOCKED_OUTCOMES, OUTCOMES, simulated
from tests.sim.spark.programs import case_of, recorded

RECORDED = json.loads(OUTCOMES.read_text())
RECORDED_BY_CLOCK = json.loads(CLOCKED_OUTCOMES.read_text())
RECORDED_FAILURES = json.loads(FAILED.read_text())


@pytest.mark.parametrize("name", CASES)
def test_processor_comes_to_what_it_came_to_on_spark(name: str) -> None:
    assert json.loads(json.dumps(simulated(CASES[name]))) == RECORDED[name]


@pytest.mark.parametrize("name", CLOCKED)
def test_ttl_and_timers_by_the_clock_come_to_what_they_came_to_at_the_same_times(name: str) -> None:
    clock = RECORDED_BY_CLOCK[name]["clock"]
    assert json.loads(json.dumps(simulated(CLOCKED[name], clock))) == RECORDED_BY_CLOCK[name]


def test_drawn_programs_come_to_what_they_came_to_on_spark() -> None:
    programs, outcome = recorded()
    assert len(programs) > 100
    assert json.loads(json.dumps(simulated(case_of(programs)))) == outcome


@pytest.mark.parametrize("name", FAILURES)
def test_failure_ends_with_what_it_ended_with_on_spark(name: str) -> None:
    assert json.loads(json.dumps(simulated_failure(FAILURES[name]))) == RECORDED_FAILURES[name]
