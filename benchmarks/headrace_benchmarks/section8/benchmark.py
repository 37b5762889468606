"""The experiments of `headrace paper report` as single benchmarks of `headrace paper bench`: each figure beside the paper's."""

from collections.abc import Iterator

from headrace_benchmarks.figures import Benchmark, BenchOptions, Figure, OnProgress
from headrace_benchmarks.section8.experiment import FULL, QUICK, Experiment, ExperimentSize
from headrace_benchmarks.section8.experiments import EXPERIMENTS
from headrace_benchmarks.section8.paper import CLAIMS
from headrace_benchmarks.section8.reporting import measure


def _benchmark(experiment: Experiment) -> Benchmark:
    def measured(options: BenchOptions, on_progress: OnProgress) -> Iterator[Figure]:
        size = QUICK if options.quick else FULL
        size = ExperimentSize(options.runs or size.seeds, size.quick)
        (result,) = measure(
            [experiment.name], size, options.jobs, lambda done, total, name: on_progress(name, done, total)
        )
        for row in result.rows:
            claim = CLAIMS.get((experiment.name, row.point, row.figure))
            anchor = "" if claim is None else claim.words or f"{claim.value:g}"
            half = "" if row.value.half is None else f"± {row.value.half:.3g} over {result.seeds} runs"
            yield Figure(f"{row.point}: {row.figure}", row.value.mean, _unit(experiment), anchor, detail=half)

    return Benchmark(experiment.name, f"{experiment.place}: {experiment.title}", measured, experiment.needs)


def _unit(experiment: Experiment) -> str:
    return f"simulated {experiment.unit}" if experiment.unit else ""


BENCHMARKS = tuple(_benchmark(experiment) for experiment in EXPERIMENTS.values())
"""In the report's order. They ignore ``--seed`` and use the report's seeds, so that their figures match the report's."""
