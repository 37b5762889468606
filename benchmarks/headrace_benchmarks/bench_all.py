"""All that ``headrace paper bench`` measures, under pytest-benchmark, a test each: ``make bench ARGS='-k kernels'``.

pytest-benchmark times and keeps whole measurements (``--benchmark-json``, ``--benchmark-compare``). Machines are noisy and
differ: of speeds, only the ratios within a run are meaningful, and they are what is printed.
"""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from headrace_benchmarks.benchmark_catalogue import BENCHMARKS
from headrace_benchmarks.figures import Benchmark, BenchOptions, Figure, is_there


@pytest.mark.parametrize("measured", BENCHMARKS.values(), ids=lambda measured: measured.name)
def test_figures_beside_their_anchors(
    measured: Benchmark, benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Print each figure beside its goal; one about correctness has to meet it."""
    if not is_there(measured.needs):
        pytest.skip(f"{measured.needs} is not installed")

    def measure() -> list[Figure]:
        return list(measured.measure(BenchOptions(), lambda *_: None))

    figures = benchmark.pedantic(measure, rounds=1, iterations=1)  # type: ignore[no-untyped-call]
    with capsys.disabled():
        print()
        for figure in figures:
            print(
                f"  {figure.name}: {figure.value:,.2f} {figure.unit} ({figure.anchor or 'no goal'}). {figure.detail}"
            )
    assert not [figure.name for figure in figures if figure.failed]
