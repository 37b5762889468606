"""Runs to draw: scenarios, and workloads under random faults."""

import pytest

from headrace.history import History
from headrace_properties.proof.oracles import plan_of
from headrace_properties.proof.workloads import WORKLOADS
from headrace_scenarios.catalogue import SCENARIOS
from headrace_sim import simulate

RUNS = (
    "zombie-timer",
    "zombie-production",
    "straggler-checkpoint",
    "windows 3",
    "weak windows 8",
    "changing 15",
    "slips 6",
)
"""Scenarios, and workloads under the random plan of a seed."""


@pytest.fixture(scope="module", params=RUNS)
def history(request: pytest.FixtureRequest) -> History:
    if request.param in SCENARIOS:
        return SCENARIOS[request.param].run("sequencers").history
    name, _, seed = request.param.rpartition(" ")
    workload, number = WORKLOADS[name], int(seed)
    feed = workload.feed(number)
    plan = plan_of(workload, feed, number)
    return simulate(workload.deployed, feed, options=plan.options, faults=plan.faults, seed=plan.seed)
