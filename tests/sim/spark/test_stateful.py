"""Stateful processors come to what they came to on Spark 4.3: outputs by batch, state, timers, watermarks, late rows."""

import json

import pytest

from tests.sim.spark.processors import CASES, OUTCOMES, simulated

RECORDED = json.loads(OUTCOMES.read_text())


@pytest.mark.parametrize("name", CASES)
def test_processor_comes_to_what_it_came_to_on_spark(name: str) -> None:
    assert json.loads(json.dumps(simulated(CASES[name]))) == RECORDED[name]
