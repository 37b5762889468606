"""Throughput of NEXMark's queries on real Spark, beside the same queries written with Spark's own operators.

PySpark is imported only when the experiment runs: other reports do not need it.
"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from headrace_benchmarks.section8.experiment import Experiment, RunSample

EVENTS, WARM_UP = 20_000, 200
LAYER, OWN = "Headrace, events/s", "Spark's operators, events/s"
_THREADS = "local[2]"


def sample(_point: str, _seed: int) -> RunSample:
    """Measure all queries, in one session."""
    from headrace.spark import session  # noqa: PLC0415  an extra
    from headrace_benchmarks import spark_nexmark  # noqa: PLC0415  imports PySpark
    from headrace_scenarios.nexmark import QUERIES  # noqa: PLC0415  builds thirteen pipelines

    def measured(place: Path) -> Iterator[tuple[str, str, float]]:
        path, warm_up = (
            spark_nexmark.write_events(place / f"{count}.parquet", count) for count in (EVENTS, WARM_UP)
        )
        with session(_THREADS, "headrace paper report") as spark:
            for query in QUERIES:
                ways = {LAYER: spark_nexmark.by_layer, OWN: spark_nexmark.by_spark}
                for figure in [*ways] if query in spark_nexmark.OWN else [LAYER]:
                    rate = spark_nexmark.throughput(spark, ways[figure], query, path, warm_up, EVENTS)
                    yield _row(query), figure, rate

    with TemporaryDirectory(ignore_cleanup_errors=True) as place:
        return RunSample("queries", 0, tuple(measured(Path(place))))


def _row(query: str) -> str:
    from headrace_scenarios.nexmark import TITLES  # noqa: PLC0415  builds thirteen pipelines

    return f"{query}, {TITLES[query].partition(' (')[0]}"


EXPERIMENT = Experiment(
    "nexmark",
    "NEXMark",
    "The queries of NEXMark on Spark, with the Dataflow layer and with Spark's own operators: wall time",
    ("queries",),
    (),
    sample,
    f"**Not simulated: wall time on the machine that wrote this report**, one run of each on {_THREADS} over a file of {EVENTS:,}"
    f" events, after one over {WARM_UP}; starting the jobs is part of it. Both read the same bounded file: with Spark's own"
    " operators, several of the queries join and rank, which Spark does for bounded input only. Headrace calls Python for events"
    " and writes what would make it exactly once, and Spark's operators are compiled and keep nothing. Query 12 is by processing"
    " time, and has no figure for Spark's operators: Spark reads the clock once for all rows of a query, so that all are in one"
    " window. `headrace_scenarios.nexmark` has the pipelines, `headrace_benchmarks.spark_nexmark` those with Spark's operators;"
    " a test compares both with plain Python, query 12 by the sum of each bidder's counts.",
    wall=True,
    wide=True,
    needs="pyspark",
)
