"""The benchmarks of ``headrace bench``, by name."""

from headrace_benchmarks import harness, kernels
from headrace_benchmarks.figures import Benchmark
from headrace_benchmarks.section8 import benchmark

BENCHMARKS: dict[str, Benchmark] = {
    one.name: one for one in (harness.BENCHMARK, kernels.BENCHMARK, *benchmark.BENCHMARKS)
}
"""By name."""
