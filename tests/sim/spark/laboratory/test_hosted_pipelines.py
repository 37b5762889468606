"""Headrace's own host in the laboratory: a pipeline on Spark, whose driver dies with Java where its sink has a micro-batch."""

from pathlib import Path

import pytest

from headrace_sim.spark.client.scripts import Script
from headrace_sim.spark.laboratory.driver import LaboratoryProgram
from headrace_sim.spark.laboratory.hosts import RealDrivers, looked
from headrace_sim.spark.laboratory.jvm import SparkJvm
from headrace_sim.spark.sink_faults import SinkFault, SinkFaultKind
from headrace_sim.spark.sinks.processes import Sink
from headrace_sim.spark.sinks.trial import try_fault_of

pytestmark = [pytest.mark.spark, pytest.mark.nightly]

PIPELINE = "headrace_scenarios.chaos.turnstiles:pipeline"


@pytest.mark.parametrize(
    ("arguments", "effects", "wrong"),
    [((PIPELINE, "--append"), 3, ["outputs.sqlite: outputs"]), ((PIPELINE,), 8, [])],
    ids=["append", "fenced"],
)
def test_outputs_are_doubled_only_where_any_driver_may_add_them(
    jvm: SparkJvm, tmp_path: Path, arguments: tuple[str, ...], effects: int, wrong: list[str]
) -> None:
    script = Script("headrace_scenarios.chaos.hosted", arguments)
    jobs, variables = looked(LaboratoryProgram(script, ()), jvm, tmp_path)
    rows = tuple(map(tuple, variables["feed"]))
    host = RealDrivers(LaboratoryProgram(script, jobs), jvm, tmp_path)
    sink = Sink(jobs[0].sink.function, jobs[0].input, rows, None, host=host)
    trial = try_fault_of(sink, SinkFault(SinkFaultKind.KILL, 1, effects))
    assert trial.fault is not None, trial.undisturbed
    assert [finding.destination for finding in trial.findings] == wrong, trial.effects
    assert trial.left["outputs.sqlite: outputs"].total() > 10
