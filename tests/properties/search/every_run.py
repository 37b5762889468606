"""All that a strategy proposes, run."""

from collections.abc import Iterator, Sequence

from headrace_properties.search.application import PipelineTrial
from headrace_properties.search.judging import JudgedRun, try_plan
from headrace_properties.search.strategy import Strategy


def every_run(strategy: Strategy) -> Iterator[tuple[PipelineTrial, JudgedRun]]:
    """Make each run of a strategy, also those after one that fails."""

    def run(trials: Sequence[PipelineTrial]) -> Iterator[JudgedRun]:
        return (try_plan(strategy.application, trial, strategy.protocol) for trial in trials)

    for batch in strategy.batches(run):
        yield from batch
