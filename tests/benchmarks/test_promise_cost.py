"""The cost of promises: what is measured, not how much it is."""

from headrace_benchmarks.figures import BenchOptions
from headrace_benchmarks.promise_cost import EXAMPLES, PROMISES, cpu_seconds, measure


def test_each_example_has_three_promises_and_each_trial_is_made_both_ways() -> None:
    assert {len(application.promises) for application in EXAMPLES.values()} == {PROMISES}
    without, promising = cpu_seconds(EXAMPLES["orders"], 3, 0)
    assert len(without) == len(promising) == 3


def test_every_example_has_its_figure() -> None:
    figures = list(measure(BenchOptions(quick=True, runs=1), lambda *_: None))
    assert [figure.name for figure in figures] == [
        f"CPU with {PROMISES} promises: {name}" for name in EXAMPLES
    ]
