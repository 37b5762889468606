"""Progress of a job in Spark's web interface (MillWheel 4.5): in the description of the jobs that a micro-batch starts.

Rules of this file: the pages *Jobs*, *Stages* and *SQL* show a job's description as HTML with line breaks. Spark's own text, with
the query and the micro-batch, stays first. The description is set when a micro-batch begins, so it shows the progress as of the
micro-batch before.
"""

from collections.abc import Iterable
from html import escape

from pyspark.sql import SparkSession

from headrace.api.progress import ComputationProgress
from headrace.api.time import MAX_TIME, MIN_TIME, SECOND, format_time

_DESCRIPTION = "spark.job.description"
_BREAK = "<br/>"


def describe(spark: SparkSession, computations: Iterable[ComputationProgress]) -> None:
    """Show the progress of computations in the jobs that this thread starts next.

    Args:
        spark: the session of a micro-batch.
        computations: their progress as of the micro-batch before.
    """
    context = spark.sparkContext
    lines = [
        context.getLocalProperty(_DESCRIPTION) or "",
        *(escape(described(progress)) for progress in computations),
    ]
    context.setJobDescription(_BREAK.join(lines))


def described(progress: ComputationProgress) -> str:
    """Describe the progress of a computation in one line.

    >>> described(ComputationProgress("counter", 1_234, 3, 55, 1_500_000, 2_000_000, 17, 48, 3_120))
    'counter: 1,234 records (3 late), 55 out, low watermark 1.500000s, lag 2.0s, 17 timers, 48 keys, 3,120 bytes'
    >>> described(ComputationProgress("counter", 9_000, 0, 0, MIN_TIME, None, hot_key="riva", hot_share=0.4))
    "counter: 9,000 records (0 late), 0 out, low watermark unknown, hot key 'riva' (40% of the latest records)"
    >>> described(ComputationProgress("counter", 0, 0, 0, MIN_TIME, None))
    'counter: 0 records (0 late), 0 out, low watermark unknown'
    """
    facts = [
        f"{progress.records:,} records ({progress.late_records:,} late)",
        f"{progress.outputs:,} out",
        f"low watermark {_time(progress.low_watermark)}",
    ]
    if progress.lag_us is not None:
        facts.append(f"lag {progress.lag_us / SECOND:,.1f}s")
    counts = ((progress.timers, "timers"), (progress.keys, "keys"), (progress.state_bytes, "bytes"))
    facts += [f"{count:,} {what}" for count, what in counts if count is not None]
    if progress.hot_key is not None:
        facts.append(f"hot key {progress.hot_key!r} ({progress.hot_share:.0%} of the latest records)")
    return f"{progress.name}: {', '.join(facts)}"


def _time(time_us: int) -> str:
    if time_us in (MIN_TIME, MAX_TIME):
        return "unknown" if time_us == MIN_TIME else "at the end"
    return format_time(time_us)
