"""The benchmarks of ``millrace bench``, by name."""

from millrace_benchmarks import harness, kernels
from millrace_benchmarks.figures import Benchmark
from millrace_benchmarks.section8 import benchmark

BENCHMARKS: dict[str, Benchmark] = {
    one.name: one for one in (harness.BENCHMARK, kernels.BENCHMARK, *benchmark.BENCHMARKS)
}
"""By name."""
