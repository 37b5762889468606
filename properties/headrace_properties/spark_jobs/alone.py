"""What shows in the undisturbed run of a job, without any schedule."""

from collections.abc import Callable, Mapping

from headrace_properties.findings import Finding, FindingClass
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import (
    altered_value,
    early_told,
    effect_told,
    expired_told,
    finding_of,
    lost_timer_told,
)
from headrace_properties.spark_jobs.watching import Noted, place_of
from headrace_sim.spark.query.streaming_query import Outcome
from headrace_sim.spark.spark_job import (
    Aggregate,
    Deduplicate,
    Limit,
    SparkJob,
    SparksOwn,
    StreamJoin,
    TimeMode,
    TransformWithState,
    watermarks_of,
)

Look = Callable[[SparkJob, Outcome, Noted], Finding | None]


def _idle_timer(job: SparkJob, calm: Outcome, noted: Noted) -> Finding | None:
    """Find a timer that never fires for want of a watermark, or else one that is lost."""
    for place, step in enumerate(job.steps):
        timed = isinstance(step, TransformWithState) and step.time_mode is TimeMode.EVENT_TIME
        if not timed or any(watermarks_of(job.steps[:place])):
            continue
        if calm.timers.get(place):
            message = "no timer fires: the time mode is EventTime, and without withWatermark() the watermark stays at 0"
            remedy = "Call withWatermark() before groupBy(); Spark does not ask for it"
            return finding_of(Cause.TIMER, step.place, message, remedy)
    return next(map(lost_timer_told, noted.lost), None)


def _early(job: SparkJob, calm: Outcome, _noted: Noted) -> Finding | None:
    """Find rows that are dropped as late, though they come within the delay of their own stream."""
    return dropped_early(job, calm, ", undisturbed", FindingClass.VIOLATED)


def dropped_early(job: SparkJob, outcome: Outcome, when: str, claim: FindingClass) -> Finding | None:
    """Find rows that are dropped as late within the delay of their own stream.

    ``outcome``: of the run. ``when``: in which run, for the message. ``claim``: what that claims: that batches are cut
    otherwise is nobody's fault.
    """
    if not outcome.early or job.declares.late:
        return None
    rows = sum(len(batch.rows) for batch in outcome.batches)
    return early_told(outcome.early, rows, place_of_watermark(job), when, claim)


def place_of_watermark(job: SparkJob) -> str:
    """Return the place of the first watermark, or of the first step that runs code of the user's."""
    steps = (*watermarks_of(job.steps), *job.working)
    return next((step.place for step in steps), "")


def _growing(job: SparkJob, calm: Outcome, noted: Noted) -> Finding | None:
    """Find state that nothing removes, unless as few keys have some as its author declares."""
    growing, bound = lasting(calm, noted), job.declares.bounded_by
    keys = {(place, key) for place, _, key in growing}
    unbounded = [place for place, *_ in growing] or _unbounded(job, calm)
    if not unbounded or (len(keys) <= bound if isinstance(bound, int) else bound):
        return None
    step, remedy = job.step_at(unbounded[0]), ""
    if isinstance(step, SparksOwn):
        call, remedy = _UNBOUNDED[type(step)]
        message = f"no watermark bounds the state of {call}: Spark keeps what it has of each key for ever"
        place = step.place
    else:
        _, name, key = growing[0]
        message = f"nothing will ever remove the state {name!r} of key {key}: it has no timer and no TTL"
        place = place_of(step.processor if isinstance(step, TransformWithState) else step.function)
    if not isinstance(bound, int):
        return finding_of(Cause.GROWTH, place, message, remedy)
    message = f"{len(keys)} keys have state that lasts, though {bound} are declared: {message}"
    return finding_of(Cause.GROWTH, place, message, remedy, FindingClass.VIOLATED)


def _unbounded(job: SparkJob, calm: Outcome) -> list[int]:
    """Return Spark's own steps whose state no watermark bounds, though no row of this input may have come to them."""
    places = sorted(calm.state.keys() - calm.bounded)
    return [place for place in places if isinstance(job.step_at(place), SparksOwn)]


_UNBOUNDED = {
    Aggregate: (
        "groupBy()", "Group by a window of a column that has withWatermark(), and let the output mode be append or update",
    ),
    Deduplicate: (
        "dropDuplicates()",
        "Name the column that has withWatermark() among those of the key, or call dropDuplicatesWithinWatermark()",
    ),
    StreamJoin: (
        "join()",
        "Call withWatermark() on both streams, bound how far their times are apart, and filter by one stream's columns before",
    ),
    Limit: ("limit()", ""),
}  # fmt: skip
"""What Spark's own operators are called, and what bounds their state."""


def lasting(calm: Outcome, noted: Noted) -> list[tuple[int, str, tuple[object, ...]]]:
    """Return the state that nothing will remove: its step, its name and its key."""
    timed = {(place, key) for place, timers in calm.timers.items() for key, _ in timers}
    return [
        (place, name, key)
        for place, state in calm.state.items()
        for name, key in state
        if place not in calm.bounded and (place, key) not in timed and name not in noted.expiring
    ]


LOOKS: Mapping[Cause, Look] = {
    Cause.EFFECT: lambda _job, _calm, noted: next(map(effect_told, noted.effects), None),
    Cause.VALUE: lambda _job, _calm, noted: next(map(altered_value, noted.altered), None),
    Cause.TIMER: _idle_timer,
    Cause.TTL: lambda _job, _calm, noted: next(map(expired_told, noted.expired), None),
    Cause.LATE: _early,
    Cause.GROWTH: _growing,
}
"""How each cause is looked for in the undisturbed run."""
