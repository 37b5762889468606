"""The catalogue of ``headrace paper bench``."""

from headrace_benchmarks import harness, kernels, layer_costs, promise_cost, sooner, spark_hosts, spark_jobs
from headrace_benchmarks.figures import Benchmark
from headrace_benchmarks.section8 import benchmark as section8

BENCHMARKS: dict[str, Benchmark] = {
    benchmark.name: benchmark
    for benchmark in (
        harness.BENCHMARK,
        harness.ALARMS,
        kernels.BENCHMARK,
        layer_costs.BENCHMARK,
        promise_cost.BENCHMARK,
        sooner.BENCHMARK,
        spark_jobs.BENCHMARK,
        *spark_hosts.BENCHMARKS,
        *section8.BENCHMARKS,
    )
}
"""All benchmarks by name."""
