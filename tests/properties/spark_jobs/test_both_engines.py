"""The simulation and the real Spark are compared finding by finding, and crash point by crash point."""

from collections import Counter
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from headrace_properties.query_search import QuerySearch
from headrace_properties.sinks import SinkFinding, SinkReport, UnfollowableSinkError, Wrong
from headrace_properties.sinks.sink_reports import PointOutcome
from headrace_properties.spark_jobs.both_engines import compared
from headrace_properties.spark_jobs.job_findings import finding_of_sink
from headrace_properties.spark_jobs.targets import SparkReport
from headrace_properties.target import SparkSource
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.trial_contents import Contents

BEHIND, BEFORE = (SinkFault(SinkFaultKind.KILL, 0, effect) for effect in (1, 0))
TWICE = SinkFinding(Wrong.TWICE, "t", (), "job.py:3", "append", "Twice.", "Say the key.", BEHIND)


def report(
    *found: SinkFinding, points: tuple[SinkFault, ...] = (BEFORE, BEHIND), rows: int = 2
) -> SparkReport:
    wrong = {finding.fault: frozenset({(finding.wrong, finding.destination)}) for finding in found}
    outcomes = tuple(PointOutcome(fault, wrong.get(fault, frozenset())) for fault in points)
    left: Contents = {"t": Counter({"row": rows})}
    sink = SinkReport(found, (), len(points), (1,), left=left, outcomes=outcomes)
    return SparkReport("job.py", None, sink, tuple(finding_of_sink(finding, 0, None) for finding in found))


SOUND, WRONG = report(), report(TWICE)
ELSEWHERE = report(replace(TWICE, destination="/data/t"))
SAME = "both find the same at 2 of 2 crash points"
ONE = "both find the same at 1 of 2 crash points"


@pytest.mark.parametrize(
    ("simulated", "real", "notes"),
    [
        (SOUND, SOUND, ["0 of 0", SAME]),
        (WRONG, ELSEWHERE, ["1 of 1", SAME]),
        (SOUND, WRONG, [
            "0 of 1", "only the real Spark finds: each row exactly once (twice) at job.py:3", ONE,
            "killed at effect 2 of batch 0: nothing in the simulation, twice on the real Spark",
        ]),
        (WRONG, SOUND, [
            "0 of 1", "only the simulation finds: each row exactly once (twice) at job.py:3", ONE,
            "killed at effect 2 of batch 0: twice in the simulation, nothing on the real Spark",
        ]),
        (SOUND, report(points=(BEFORE,)), ["0 of 0", ONE]),
        (SOUND, report(rows=3), [
            "0 of 0", SAME, "undisturbed, t has 2 rows in the simulation, and 3 on the real Spark",
        ]),
        (replace(SOUND, sink=None), SOUND, ["0 of 0"]),
    ],
)  # fmt: skip
def test_what_differs_is_told(simulated: SparkReport, real: SparkReport, notes: list[str]) -> None:
    agreed, *others = compared(simulated, real).notes
    assert [agreed.removeprefix("the simulation and the real Spark both find "), *others] == notes


def test_what_either_finds_counts() -> None:
    assert len(compared(SOUND, WRONG).findings) == len(compared(WRONG, SOUND).findings) == 1


def test_what_the_real_spark_cannot_try_is_said_beside_what_the_simulation_found() -> None:
    def refuse(**_: Any) -> SparkReport:
        raise UnfollowableSinkError("it lacks a jar")

    here = SimpleNamespace(verify=lambda **_: WRONG, laboratory=SimpleNamespace())
    engines = (here, SimpleNamespace(verify=refuse))
    target: Any = SimpleNamespace(engines=engines, upgrade=None)
    trials = QuerySearch(target, lambda _: target, SparkSource("job.py"), 0)
    trials.search()
    assert trials.report is not None
    assert (len(trials.report.findings), trials.report.unknown) == (1, ("on the real Spark: it lacks a jar",))
