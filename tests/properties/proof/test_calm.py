"""What a run without faults may cost: an engine that goes by other options than it was given is told by it."""

from typing import Any

import pytest

from headrace import MILLISECOND, SECOND, EngineOptions
from headrace.history import History
from headrace_properties.proof.calm import CALM, judge_calm
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.verdict import Violated
from headrace_sim import FaultSchedule, simulate
from headrace_sim.faults import Pause

USUAL = EngineOptions()


def run(name: str, seed: int = 0, faults: FaultSchedule = FaultSchedule(), **engine: Any) -> History:  # noqa: B008  it is frozen
    workload = WORKLOADS[name]
    options = workload.varied(name, **engine).options
    return simulate(workload.deployed, workload.feed(seed), options=options, seed=seed, faults=faults)


def said(name: str, history: History) -> str:
    """What it says, if the options are the workload's own."""
    workload = WORKLOADS[name]
    verdict = judge_calm(history, workload.pipeline, workload.options).get(CALM)
    return verdict.message if isinstance(verdict, Violated) else ""


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_run_that_nothing_disturbs_is_calm(name: str) -> None:
    assert [said(name, run(name, seed)) for seed in range(1, 4)] == [""] * 3


@pytest.mark.parametrize(
    ("name", "engine", "says"),
    [
        ("windows", {"heartbeat_period_us": USUAL.heartbeat_period_us * 2}, "heartbeats, which are too few"),
        ("long quiet", {"heartbeat_period_us": USUAL.heartbeat_period_us // 2}, "Heartbeat, of which"),
        ("windows", {"report_period_us": USUAL.report_period_us * 8}, "fired"),
        ("windows", {"broadcast_period_us": USUAL.broadcast_period_us * 8}, "fired"),
        ("windows", {"injector_journal_us": 3 * SECOND}, "fired"),
        ("long quiet", {"report_period_us": USUAL.report_period_us // 8}, "Report, of which"),
        ("long quiet", {"broadcast_period_us": USUAL.broadcast_period_us // 8}, "Watermarks, of which"),
        ("long quiet", {"lease_us": USUAL.lease_us // 4}, "of which"),
        ("late start", {"retry_us": MILLISECOND, "sweep_period_us": MILLISECOND}, "was sent again"),
        ("echoes", {"delete_delay_us": SECOND, "collect_period_us": 100 * MILLISECOND}, "was deleted"),
        ("long quiet", {"collect_period_us": 9 * SECOND}, "still had"),
        ("echoes", {"cache_bytes": 0}, "Read, of which"),
        ("echoes", {"scan_page_rows": 1, "commit_linger_us": 200 * MILLISECOND}, "was durable"),
        ("reminders", {"sweep_period_us": 400 * MILLISECOND}, ""),
    ],
)  # fmt: skip
def test_an_engine_that_goes_by_other_options_is_noticed(
    name: str, engine: dict[str, Any], says: str
) -> None:
    found = [said(name, run(name, seed, **engine)) for seed in range(3)]
    assert any(found)
    assert any(says in one for one in found), found


def test_what_was_disturbed_is_not_judged() -> None:
    """A worker stands still for so long that it is replaced: intervals are minted twice, and much comes late."""
    pause = Pause(at_us=500 * MILLISECOND, process="worker-0", for_us=3 * SECOND)
    assert said("windows", run("windows", faults=FaultSchedule((pause,), 5 * SECOND))) == ""


def test_a_message_says_what_took_too_long() -> None:
    assert "us after it could" in said("windows", run("windows", broadcast_period_us=SECOND))
