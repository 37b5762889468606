"""The small workloads run, come to their end, and hold."""

import pytest

from headrace.history import Output, RunEnded
from headrace_properties.checkers import judge
from headrace_properties.reference import run_reference
from headrace_properties.results import outputs_of
from headrace_properties.search.workloads import WORKLOADS, Workload
from headrace_properties.verdict import Violated
from headrace_sim import simulate


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
@pytest.mark.parametrize("seed", range(3))
def test_every_workload_runs_to_its_end_and_holds(workload: Workload, seed: int) -> None:
    feed = workload.feed(seed)

    history = simulate(workload.pipeline, feed, options=workload.options, seed=seed)

    assert history.events[-1] == RunEnded(history.events[-1].at_us, "", "quiescent")
    assert not [one for one in judge(history, [workload.pipeline]).values() if isinstance(one, Violated)]
    assert any(isinstance(event, Output) for event in history)
    assert outputs_of(history) == run_reference(workload.pipeline, feed).outputs
