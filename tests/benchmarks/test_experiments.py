"""Section 8 on the simulated cluster: what the model is made of, what it is fitted to, and that its numbers are reproducible."""

import dataclasses
from itertools import pairwise

import msgspec
import pytest

from headrace import SECOND, Productions
from headrace_benchmarks.section8 import fitting
from headrace_benchmarks.section8.calibration import CALIBRATION, Calibration
from headrace_benchmarks.section8.experiment import FULL, QUICK, ExperimentSize, RunSample, rows_of
from headrace_benchmarks.section8.experiments import EXPERIMENTS
from headrace_benchmarks.section8.lagging import STAGES, lags_us
from headrace_benchmarks.section8.markdown import FITTED, render
from headrace_benchmarks.section8.on_spark import JOBS
from headrace_benchmarks.section8.paper import CHANCE, CLAIMS, USUAL, Basis
from headrace_benchmarks.section8.reporting import (
    ExperimentReport,
    ExperimentResult,
    calibration_document,
    measure,
    problems,
    provenance,
)
from headrace_benchmarks.section8.sorting import Sorting, latencies_us
from headrace_benchmarks.section8.statistics import quantile

SMALL = Sorting(cpus=20, for_us=2 * SECOND)
STRONG = dataclasses.replace(SMALL, productions=Productions.STRONG, exactly_once=True)
ALONE = dataclasses.replace(CALIBRATION, contended_share=0.0)


def median_us(sorting: Sorting, calibration: Calibration = CALIBRATION) -> int:
    return quantile(latencies_us(sorting, calibration, 0), 0.5)


def test_a_strong_production_waits_for_its_commit_and_a_weak_one_does_not() -> None:
    slow = dataclasses.replace(CALIBRATION, commit_us=3 * CALIBRATION.commit_us)
    weak, strong = median_us(SMALL), median_us(STRONG)
    assert median_us(STRONG, slow) > 2 * strong > 4 * weak
    assert abs(median_us(SMALL, slow) - weak) < (median_us(STRONG, slow) - strong) / 20


def test_the_weak_tail_comes_from_others_on_the_machine_and_the_median_does_not() -> None:
    larger = dataclasses.replace(SMALL, cpus=60)
    shared, alone = latencies_us(larger, CALIBRATION, 0), latencies_us(larger, ALONE, 0)
    assert quantile(shared, 0.99) > 1.5 * quantile(alone, 0.99)
    assert quantile(shared, 0.5) < 1.5 * quantile(alone, 0.5)


def test_with_fewer_keys_more_records_wait_for_others_of_their_key() -> None:
    few = dataclasses.replace(CALIBRATION, keys=50)
    assert quantile(latencies_us(SMALL, few, 0), 0.95) > 2 * quantile(
        latencies_us(SMALL, CALIBRATION, 0), 0.95
    )


def test_no_latency_is_shorter_than_the_wire_and_no_record_is_forgotten() -> None:
    found = latencies_us(SMALL, CALIBRATION, 0)
    assert found[0] >= CALIBRATION.link_us + CALIBRATION.message_cpu_us
    expected = SMALL.cpus / 2 * CALIBRATION.records_per_cpu * SMALL.for_us / SECOND
    assert len(found) == pytest.approx(expected, rel=0.2)


@pytest.mark.slow
def test_each_stage_lags_behind_the_one_before_it_and_the_first_behind_what_its_source_promises() -> None:
    found = lags_us(CALIBRATION, 0, polls=5)
    assert list(found) == list(STAGES)
    assert all(lag > CALIBRATION.source_lag_us for lag in found[STAGES[0]])
    for before, stage in pairwise(STAGES):
        assert sum(found[stage]) > sum(found[before])


# The fit


@pytest.mark.nightly
@pytest.mark.parametrize("target", fitting.LATENCIES, ids=lambda target: target.parameter)
def test_what_the_file_holds_is_what_the_fit_finds(target: fitting.Target) -> None:
    assert fitting.is_fitted(target, CALIBRATION)


@pytest.mark.nightly
def test_what_the_sources_promise_is_what_the_fit_finds() -> None:
    assert fitting.fit_lag(CALIBRATION) == CALIBRATION


@pytest.mark.nightly
def test_a_parameter_that_was_not_fitted_is_noticed() -> None:
    commit = fitting.LATENCIES[-1]
    other = dataclasses.replace(CALIBRATION, commit_us=CALIBRATION.commit_us + 4_000)
    assert not fitting.is_fitted(commit, other)


def test_as_many_parameters_are_fitted_as_the_report_says() -> None:
    required = [
        field.name for field in dataclasses.fields(Calibration) if field.default is dataclasses.MISSING
    ]
    assert sorted(FITTED) == sorted(required)
    claims = {place for place, claim in CLAIMS.items() if claim.basis is Basis.FITTED}
    assert claims == {*(target.claim for target in fitting.LATENCIES), fitting.LAG}
    assert len(claims) == len(FITTED)


# The report


@pytest.fixture(scope="module")
def report() -> ExperimentReport:
    small = dataclasses.replace(EXPERIMENTS["figure-14"], quick=("20 CPUs", "50 CPUs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(EXPERIMENTS, small.name, small)
        measured = tuple(measure([small.name], ExperimentSize(seeds=2, quick=True), 1, lambda *_: None))
    return ExperimentReport(
        provenance("headrace paper report"), quick=True, calibration=calibration_document(), measured=measured
    )


def test_every_figure_of_the_report_is_reproducible(report: ExperimentReport) -> None:
    assert list(problems(report, again=2)) == []


def test_a_report_is_read_as_it_was_written(report: ExperimentReport) -> None:
    runs = (
        RunSample("a", 0, (("a", "mean", 1.5), ("b", "mean", 7.0), ("a", "95 %", 2.5)), {3: 1, 5: 2}),
        RunSample("a", 1, (("a", "mean", 2.5), ("b", "mean", 8.0), ("a", "95 %", 3.5)), {4: 1, 5: 3}),
    )
    measured = ExperimentResult("figure-13", 2, runs, plot_sha256="00")
    both = msgspec.structs.replace(report, measured=(*report.measured, measured))
    assert ExperimentReport.from_bytes(both.to_bytes()) == both


def test_a_report_that_lacks_a_run_is_refused(report: ExperimentReport) -> None:
    (measured,) = report.measured
    more = with_measured(report, msgspec.structs.replace(measured, seeds=3))
    with pytest.raises(
        msgspec.ValidationError, match="figure-14: 20 CPUs: 3 values are expected in each figure"
    ):
        ExperimentReport.from_bytes(more.to_bytes())


def test_a_fabricated_run_is_noticed_when_rerun(report: ExperimentReport) -> None:
    measured = report.measured[0]
    first = measured.samples[0]
    better = msgspec.structs.replace(first, values=((first.point, "median", 3.6), *first.values[1:]))
    samples = (better, *measured.samples[1:])
    doctored = msgspec.structs.replace(measured, samples=samples)
    assert list(problems(with_measured(report, doctored), again=1)) == [
        "figure-14: 20 CPUs, seed 0: a repeated run gives different figures"
    ]


def test_a_report_of_another_calibration_is_stale(report: ExperimentReport) -> None:
    other = msgspec.structs.replace(report, calibration=report.calibration | {"link_us": 1.0})
    assert list(problems(other, again=0)) == [
        "its calibration differs from this code's: write the report again"
    ]


def test_each_figure_is_written_with_its_command_seeds_versions_and_the_papers_number(
    report: ExperimentReport,
) -> None:
    text = render(report)
    assert "Command: `headrace paper report --only figure-14`. Seeds: 0 to 1 at each point." in text
    for name, version in report.provenance.versions.items():
        assert f"{name} {version}" in text
    for row in report.measured[0].rows:
        assert f"| {row.point} | {row.figure} | " in text
        assert f" {row.value} |" in text
    assert "| 20 CPUs | median | roughly constant |" in text
    assert "**A quick report**" in text


def test_what_was_not_measured_is_named(report: ExperimentReport) -> None:
    _, unmeasured = render(report).split("## Left out of this run\n")
    for name in ("Figure 13", "Figure 15", "Figure 16", "6.1.3", "6.1.2, 6.1.3", "8.4, skew", "7.2", "8.1"):
        assert f"- {name}: " in unmeasured
    assert "Figure 14" not in unmeasured


def test_every_claim_of_the_paper_has_a_place_in_an_experiment() -> None:
    assert {name for name, _, _ in CLAIMS} <= set(EXPERIMENTS)


def test_an_experiment_without_its_requirements_is_left_out_unless_requested() -> None:
    spark = EXPERIMENTS["spark"]
    without = dataclasses.replace(spark, needs="no_such_module")
    there = dataclasses.replace(spark, needs="headrace")
    assert (without.is_usual(FULL), there.is_usual(FULL), there.is_usual(QUICK)) == (False, True, False)
    assert there.tasks(QUICK) == [(point, 0) for point in JOBS]


@pytest.mark.spark
def test_the_points_on_spark_are_the_existing_jobs() -> None:
    counts = pytest.importorskip("headrace_benchmarks.spark_counts")
    assert tuple(counts.STREAMS) == JOBS


def test_figures_of_several_units_get_a_row_per_point_beside_the_papers_number() -> None:
    rows = ("| 5 stages | 4.9 ± 0.0 | 4.9 ± 0.0 |", "| 5 stages, strong | 160.0 ± 0.0 |")
    text = render(made_up("depth", {("5 stages, strong", "latency"): 160.0, FIVE: 4.9, CLOSED: 4.9}))
    for row in rows:
        assert row in text
    assert f"| | {CHANCE} | closed form, % |" in text
    assert f"| 5 stages | {CHANCE} | 4.9 | 4.9 ± 0.0 | +0% | predicted |" in text


def test_real_time_has_its_own_chapter_and_is_not_rerun() -> None:
    place = "500,000 intervals, 1 shard", USUAL
    both = made_up("depth", {FIVE: 4.9}), made_up("authority", {place: 2.5})
    report = msgspec.structs.replace(both[0], measured=both[0].measured + both[1].measured)
    simulated, real = render(report).split("# Real time\n")
    assert "| 500,000 intervals, 1 shard | 2.5 ± 0.0 |" in real
    assert "| | figure | paper | this machine | error | |" in real
    assert "CPU µs" not in simulated
    assert "simulated" not in real.partition("## Left out of this run")[0].replace("Not simulated", "")
    assert list(problems(both[1], again=1)) == []


@pytest.mark.parametrize(("name", "point"), [("skew", "limit of 1 h"), ("hot-key", "90 %")])
def test_a_fabricated_run_of_any_experiment_is_noticed(name: str, point: str) -> None:
    sample = EXPERIMENTS[name].sample(point, 0).rounded()
    honest = ExperimentResult(name, 1, (sample,))
    assert list(problems(with_measured(made_up(name, {}), honest), again=1)) == []
    *rest, (place, figure, value) = sample.values
    better = msgspec.structs.replace(sample, values=(*rest, (place, figure, value + 1)))
    doctored = ExperimentResult(name, 1, (better,))
    assert list(problems(with_measured(made_up(name, {}), doctored), again=1)) == [
        f"{name}: {point}, seed 0: a repeated run gives different figures"
    ]


def test_real_time_experiments_run_once_at_the_end_and_alone() -> None:
    names = list(EXPERIMENTS)
    real = [name for name, experiment in EXPERIMENTS.items() if experiment.wall]
    assert real == names[-len(real) :] == ["authority", "spark", "nexmark"]
    assert len(EXPERIMENTS["authority"].tasks(FULL)) == len(EXPERIMENTS["authority"].points)


def test_whatever_has_an_interval_has_at_least_20_seeds() -> None:
    for experiment in EXPERIMENTS.values():
        assert experiment.wall or experiment.seeds(FULL) >= 20
        assert set(experiment.quick) <= set(experiment.points)
        assert len(experiment.remark) > 100, "what the figures mean is said beside them"


def test_a_row_has_the_runs_of_its_point_only() -> None:
    samples = [
        RunSample("a", 0, (("a", "mean", 1.0),)),
        RunSample("b", 0, (("b", "mean", 5.0),)),
        RunSample("a", 1, (("a", "mean", 3.0),)),
    ]
    assert [(row.point, row.value.mean) for row in rows_of(samples)] == [("a", 2.0), ("b", 5.0)]


def with_measured(report: ExperimentReport, measured: ExperimentResult) -> ExperimentReport:
    return msgspec.structs.replace(report, measured=(measured,))


FIVE = "5 stages", CHANCE
CLOSED = "5 stages", "closed form, %"


def made_up(name: str, values: dict[tuple[str, str], float]) -> ExperimentReport:
    """A report without actual runs; two seeds, which agree."""
    samples = tuple(
        RunSample("somewhere", seed, tuple((*place, value) for place, value in values.items()))
        for seed in range(2)
    )
    measured = ExperimentResult(name, 2, samples)
    return ExperimentReport(provenance("headrace paper report"), False, calibration_document(), (measured,))  # noqa: FBT003  ``quick``
