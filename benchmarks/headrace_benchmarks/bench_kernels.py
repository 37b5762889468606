"""The kernels of ``headrace bench kernels`` under pytest-benchmark, one test each (``make bench``).

Machines are noisy and differ: only the ratios mean something.
"""

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from headrace_benchmarks.kernels import KERNELS, WHOLE, Kernel


@pytest.mark.parametrize("kernel", KERNELS.values(), ids=lambda kernel: kernel.name)
def test_kernel_beside_its_anchor(
    kernel: Kernel, benchmark: BenchmarkFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """Print each figure beside its goal; the rounds are the kernel's own, in which it and its anchor take turns."""
    if not kernel.can_run:
        pytest.skip(f"{kernel.needs} is not installed")

    def measure() -> list[str]:
        found = kernel.measure(WHOLE, 0, lambda _: None)
        return [
            f"  {one.name}: {one.value:,.2f} {one.unit} ({one.anchor or 'no goal'}). {one.detail}"
            for one in found
        ]

    figures = benchmark.pedantic(measure, rounds=1, iterations=1)  # type: ignore[no-untyped-call]
    with capsys.disabled():
        print("", *figures, sep="\n")
