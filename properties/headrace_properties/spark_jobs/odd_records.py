"""What becomes of a query that meets a record which does not parse, has a null, or has a time of the far future.

Spark does what is documented, and no promise is broken: it is told, since nobody sees it before it happens.
"""

from collections.abc import Iterator

from headrace.api.errors import HeadraceError
from headrace_properties.search.limits import CodeLimits, call_time_limited
from headrace_properties.spark_jobs.alone import place_of_watermark
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.runs import place_of_failure, raised_told, run_changed
from headrace_sim.deliveries import (
    DELIVERIES,
    FAR_YEAR,
    Batches,
    RowDelivery,
    future_row,
    spoiled_rows,
    with_first,
    without_stream,
)
from headrace_sim.spark.query.schedules import Feed, Schedule
from headrace_sim.spark.query.streaming_query import Outcome
from headrace_sim.spark.refusals import shown_place
from headrace_sim.spark.spark_job import SparkJob, StreamJoin, Union, watermarks_of

_HASTY = CodeLimits(call_s=1.0)
"""Choice: the limits of a call on an odd record, which may have it count up to the far future."""


def told_of_odd_records(job: SparkJob, feed: Feed, calm: Outcome, *, spoiled: bool) -> Iterator[str]:
    """Yield the findings and notes of a query.

    Args:
        job: It, without the function of its sink, which the trials of that run.
        feed: Its rows.
        calm: Its outcome on them as they are.
        spoiled: Whether rows are tried that do not parse or have nulls.

    """
    yield from _resting(job, feed, calm)
    with call_time_limited(_HASTY):
        yield from _future(job, feed, calm)
        if spoiled:
            yield from _spoiled(job, feed)


def _resting(job: SparkJob, feed: Feed, calm: Outcome) -> Iterator[str]:
    """Tell of the first stream without which nothing that waits for the watermark comes out."""
    if not (job.steps and isinstance(job.steps[0], Union | StreamJoin) and calm.watermark_ms > 0):
        return
    for place, stream in enumerate(job.input.names):
        outcome = _outcome(job, without_stream(feed, place))
        if outcome is not None and outcome.failure is None and outcome.watermark_ms <= 0:
            yield (
                f"{shown_place(place_of_watermark(job))}: while the stream {stream} has no rows, nothing comes out that waits "
                "for the watermark, which is the least of all streams', and state grows. Let the source send heartbeats, or set "
                "spark.sql.streaming.multipleWatermarkPolicy to max if rows of the slower stream may be dropped"
            )
            return


def _future(job: SparkJob, feed: Feed, calm: Outcome) -> Iterator[str]:
    row = future_row(feed)
    outcome = None if row is None else _outcome(job, DELIVERIES[RowDelivery.FUTURE].of(feed))
    if outcome is None:
        return
    if outcome.failure is not None:
        yield _ended(job, f"one row of the year {FAR_YEAR}, such as {row},", outcome.failure)
    elif any(watermarks_of(job.steps)) and (lost := outcome.late - calm.late) > 0:
        yield (
            f"{shown_place(place_of_watermark(job))}: behind one row of the year {FAR_YEAR}, {lost} more are dropped as late: "
            "the watermark follows the latest time that was ever seen, also after a restart. Filter such times out before "
            "withWatermark(): they are later than current_timestamp()"
        )


def _spoiled(job: SparkJob, feed: Feed) -> Iterator[str]:
    together = _outcome(job, DELIVERIES[RowDelivery.SPOILED].of(feed))
    if together is None or together.failure is None:
        return
    for row in spoiled_rows(feed):
        alone = _outcome(job, with_first(feed, [row]))
        if alone is not None and alone.failure is not None:
            yield _ended(job, f"one bad record, such as {row},", alone.failure)
            return


def _outcome(job: SparkJob, batches: Batches) -> Outcome | None:
    """Return the outcome on these rows; None: they cannot be followed."""
    try:
        return run_changed(job, batches, Schedule(), Cause.FAULTS)
    except HeadraceError:
        return None


def _ended(job: SparkJob, what: str, failure: Exception) -> str:
    place = place_of_failure(failure, next((step.place for step in (*job.working, *job.stateful)), ""))
    ending = f"{what} ends the query with {raised_told(failure)}, and again after each restart"
    return f"{shown_place(place)}: {ending}. Filter such rows out, or set them aside"
