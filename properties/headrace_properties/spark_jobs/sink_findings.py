"""What the trials of a sink show, as findings like those of any other target."""

from headrace_properties.findings import Family, Finding, FindingClass, Kind
from headrace_properties.spark_jobs.causes import CAUSES
from headrace_properties.spark_jobs.findings import place_at
from headrace_properties.spark_jobs.trials import SinkTrial
from headrace_sim.spark.sinks import SinkFinding


def finding_of_sink(found: SinkFinding, feed_seed: int, kept: tuple[int, ...] | None) -> Finding:
    """Return what a fault shows: something is lost, doubled or stuck, which is violated whatever else is meant.

    Args:
        found: What was found.
        feed_seed: Seed of the rows.
        kept: Which of the rows are left; ``None``: all.

    """
    return Finding(
        Kind(Family.SINK, found.wrong.value, FindingClass.VIOLATED, len(CAUSES)),
        found.story,
        place_at(found.place),
        found.remedy,
        (f"{found.effect} on {found.destination}",),
        SinkTrial(found.fault, feed_seed, kept),
        found.trials,
    )
