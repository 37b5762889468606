"""One set of pipelines and inputs; the reference, the simulated cluster with and without faults, and Spark give equal outputs."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace import Pipeline
from headrace.spark.hosting.history_export import history_of
from headrace_properties.checkers import judge
from headrace_properties.reference import Emitted, run_reference
from headrace_properties.results import outputs_of
from headrace_properties.verdict import Violated
from headrace_scenarios import zeitgeist
from headrace_sim import FaultSchedule, Feed, simulate
from tests.sim.rig import CHECKED, HEAL_US, letters, mail, storm
from tests.spark.rig import run_bounded, run_streaming

pytestmark = pytest.mark.spark


@dataclass(frozen=True)
class Case:
    """A pipeline, and input of which nothing is late: what is late differs from host to host.

    ``source``, ``computation``: whom faults strike.
    """

    name: str
    pipeline: Pipeline
    feed: Feed
    source: str
    computation: str


def _cases() -> list[Case]:
    two_stages = mail(processes=2)
    searches = zeitgeist.feed(7, replace(zeitgeist.EVENING, late_share=0.0))
    return [
        Case("mail", two_stages, letters(two_stages), "mail/0", "counter"),
        Case("zeitgeist", zeitgeist.pipeline, searches, "searches/0", "window_counter"),
    ]


CASES = _cases()
Host = Callable[[SparkSession, Case, Path], Counter[Emitted]]


def _cluster(_spark: SparkSession, case: Case, _place: Path) -> Counter[Emitted]:
    return outputs_of(simulate(case.pipeline, case.feed, options=CHECKED))


def _faulty_cluster(_spark: SparkSession, case: Case, _place: Path) -> Counter[Emitted]:
    faults = tuple(
        crash for crash in storm(case.source, case.computation) if type(crash).__name__ != "LateRecords"
    )
    schedule = FaultSchedule(faults, heal_at_us=HEAL_US)
    return outputs_of(simulate(case.pipeline, case.feed, options=CHECKED, faults=schedule, seed=3))


def _restarted(spark: SparkSession, case: Case, place: Path) -> Counter[Emitted]:
    return run_streaming(spark, case.pipeline, case.feed, place, restart_after=0).outputs()


def _bounded(spark: SparkSession, case: Case, place: Path) -> Counter[Emitted]:
    return run_bounded(spark, case.pipeline, case.feed, place)


HOSTS: dict[str, Host] = {
    "cluster": _cluster,
    "faulty cluster": _faulty_cluster,
    "restarted": _restarted,
    "bounded": _bounded,
}
_BY_NIGHT = {
    ("mail", "restarted"),  # by day it is judged, too: see below
    ("zeitgeist", "restarted"),
}


@pytest.mark.parametrize(
    ("case", "host"),
    [
        pytest.param(
            case,
            host,
            id=f"{case.name}-{host}",
            marks=pytest.mark.nightly if (case.name, host) in _BY_NIGHT else (),
        )
        for case in CASES
        for host in HOSTS
    ],
)
def test_every_host_gives_the_references_outputs(
    spark: SparkSession, case: Case, host: str, tmp_path: Path
) -> None:
    assert HOSTS[host](spark, case, tmp_path) == run_reference(case.pipeline, case.feed).outputs


def test_a_restarted_run_on_spark_is_judged_by_the_same_checkers(spark: SparkSession, tmp_path: Path) -> None:
    case = CASES[0]
    collected = run_streaming(spark, case.pipeline, case.feed, tmp_path, restart_after=0, history=True)
    history = history_of(case.pipeline, collected.events())
    verdicts = judge(history, [case.pipeline])
    assert {name: one for name, one in verdicts.items() if isinstance(one, Violated)} == {}
    assert outputs_of(history) == collected.outputs() == run_reference(case.pipeline, case.feed).outputs
