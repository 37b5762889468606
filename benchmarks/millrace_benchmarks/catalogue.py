"""The benchmarks of ``millrace bench``, by name."""

from millrace_benchmarks import harness, kernels
from millrace_benchmarks.figures import Benchmark

BENCHMARKS: dict[str, Benchmark] = {one.name: one for one in (harness.BENCHMARK, kernels.BENCHMARK)}
"""By name."""
