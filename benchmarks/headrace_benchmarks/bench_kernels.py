"""The kernels of ``headrace paper bench kernels`` under pytest-benchmark, one test each (``make bench``).

Machines are noisy and differ: only ratios are meaningful.
"""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from headrace_benchmarks.kernels import KERNELS, WHOLE, EngineKernel


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=lambda kernel: kernel.name)
def test_kernel_beside_its_anchor(
    kernel: EngineKernel, benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Print each figure beside its goal. Each kernel runs its own rounds, in which it alternates with its anchor."""
    if not kernel.can_run:
        pytest.skip(f"{kernel.needs} is not installed")

    def measure() -> list[str]:
        found = kernel.measure(WHOLE, 0, lambda _: None)
        return [
            f"  {figure.name}: {figure.value:,.2f} {figure.unit} ({figure.anchor or 'no goal'}). {figure.detail}"
            for figure in found
        ]

    figures = benchmark.pedantic(measure, rounds=1, iterations=1)  # type: ignore[no-untyped-call]
    with capsys.disabled():
        print("", *figures, sep="\n")
