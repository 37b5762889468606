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
