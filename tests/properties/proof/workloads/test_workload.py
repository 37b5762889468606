"""The small workloads run to their end, and hold."""

from collections import Counter

import pytest
from msgspec.structs import replace

from headrace.history import Output, RunEnded
from headrace_properties.checkers import judge
from headrace_properties.proof.workloads import WORKLOADS, Workload
from headrace_properties.reference import Emitted, run_reference
from headrace_properties.results import outputs_of
from headrace_properties.verdict import Violated
from headrace_sim import simulate


@pytest.mark.parametrize("workload", WORKLOADS.values(), ids=WORKLOADS)
@pytest.mark.parametrize("seed", range(3))
def test_every_workload_runs_to_its_end_and_holds(workload: Workload, seed: int) -> None:
    feed = workload.feed(seed)

    history = simulate(workload.pipeline, feed, options=workload.options, seed=seed)

    assert history.events[-1] == RunEnded(history.events[-1].at_us, "", "quiescent")
    assert not [
        verdict for verdict in judge(history, [workload.pipeline]).values() if isinstance(verdict, Violated)
    ]
    assert any(isinstance(event, Output) for event in history)
    assert not workload.unexpected(history)
    assert _settled(workload, outputs_of(history)) == _settled(
        workload, run_reference(workload.pipeline, feed).outputs
    )


def _settled(workload: Workload, outputs: Counter[Emitted]) -> Counter[Emitted]:
    """Leave out timestamps where wall timers without a hold make the records: these are as far as the watermark happens to be.

    What witnesses report is of clocks and watermarks, and differs from run to run: `Workload.unexpected` judges it.
    """
    if workload.name == "witnesses":
        return Counter()
    if workload.name not in ("reminders", "patient"):
        return outputs
    return Counter(replace(emitted, timestamp=0) for emitted in outputs.elements())
