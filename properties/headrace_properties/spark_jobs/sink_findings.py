"""What the trials of a sink show, as findings like those of any other target."""

from headrace_properties.findings import Family, Finding, FindingClass, Kind
from headrace_properties.spark_jobs.causes import CAUSES
from headrace_properties.spark_jobs.job_findings import place_at
from headrace_properties.spark_jobs.trials import SinkTrial
from headrace_sim.spark.sinks import SinkFinding, SinkQuestion


def finding_of_sink(
    found: SinkFinding, feed_seed: int, kept: tuple[int, ...] | None, spark: str = ""
) -> Finding:
    """Return what a fault shows: something is lost, doubled or stuck, which is violated whatever else is meant.

    ``found``: what was found. ``feed_seed``: seed of the rows. ``kept``: which of the rows are left; ``None``: all.
    ``spark``: as in `SinkTrial`.
    """
    return Finding(
        Kind(Family.SINK, found.wrong.value, FindingClass.VIOLATED, len(CAUSES)), found.story, place_at(found.place),
        found.remedy, (f"{found.effect} on {found.destination}",), SinkTrial(found.fault, feed_seed, kept, spark),
        found.trials,
    )  # fmt: skip


def question_of_sink(
    asked: SinkQuestion, feed_seed: int, kept: tuple[int, ...] | None, spark: str = ""
) -> Finding:
    """Return what only the author of a sink can mean, as a finding. The arguments are those of `finding_of_sink`."""
    return Finding(
        Kind(Family.SINK, asked.about.value, FindingClass.UNDECLARED, len(CAUSES)), asked.message, place_at(asked.place),
        asked.answer, trial=SinkTrial(asked.fault, feed_seed, kept, spark),
    )  # fmt: skip
