"""What two queries of one program do to each other: one checkpoint, one place to write to, one that reads what another writes.

Rules of this file:

* Two queries that run at the same time from one checkpoint, or that write files to one place, lose rows on every run: that is
  violated. One behind the other with one checkpoint may be the same query, run again: that is asked.
* What reads the output of another query repeats what that one doubles: that is told.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

from headrace_properties.findings import Finding, FindingClass
from headrace_properties.spark_jobs.job_findings import finding_of_pair
from headrace_sim.spark.client.query_lives import QueryLife
from headrace_sim.spark.refusals import shown_place
from headrace_sim.spark.spark_job import SparkJob
from headrace_sim.spark.tables.connectors import TARGETS

_LOGGED = frozenset({"csv", "json", "orc", "parquet", "text", "avro"})
"""Formats of Spark's file sink, whose log of batches (``_spark_metadata``) is in the place that it writes to."""
_PLACES = (*TARGETS, "kafka.topic")


def label_of(job: SparkJob) -> str:
    """Return a query's name, or else its sink."""
    sink = job.sink
    if sink.name:
        return sink.name
    if sink.function is not None:
        return f"foreachBatch({getattr(sink.function, '__name__', type(sink.function).__name__)})"
    if sink.writer is not None:
        return f"foreach({getattr(sink.writer, '__name__', type(sink.writer).__name__)})"
    return f"{sink.format or 'table'} {target_of_query(job)}".rstrip()


def labels_of(jobs: Sequence[SparkJob]) -> list[str]:
    """Return a label for each query that no other has: with its line, and its number, as far as needed."""
    labels = [label_of(job) for job in jobs]
    places = [f"{label} at {shown_place(job.sink.place)}" for label, job in zip(labels, jobs, strict=True)]
    placed = [label if labels.count(label) == 1 else at for label, at in zip(labels, places, strict=True)]
    numbered = [f"{label}, {placed[: number + 1].count(label)}" for number, label in enumerate(placed)]
    return [label if placed.count(label) == 1 else at for label, at in zip(placed, numbered, strict=True)]


def judged_together(lives: Sequence[QueryLife]) -> tuple[Finding, ...]:
    """Return what is wrong with the queries of one program beside each other."""
    pairs = combinations(lives, 2)
    findings = [check(*pair) for pair in pairs for check in (_checkpoint, _files)]
    return tuple(finding for finding in findings if finding is not None)


def told_together(jobs: Sequence[SparkJob]) -> Iterator[str]:
    """Yield which query reads what another one writes."""
    labels = labels_of(jobs)
    for writer, written in zip(jobs, labels, strict=True):
        for reader, read in zip(jobs, labels, strict=True):
            target = target_of_query(writer)
            if writer is not reader and target and target in _read(reader):
                yield f"{read} reads {target}, which {written} writes: what that doubles or loses, this does, too"


def _checkpoint(first: QueryLife, second: QueryLife) -> Finding | None:
    place = _option(first.job, "checkpointlocation")
    if not place or place != _option(second.job, "checkpointlocation"):
        return None
    shared = f"{_both(first, second)} have one checkpoint, {place}"
    remedy = "Give each query a checkpointLocation of its own"
    if first.number not in second.beside:
        message = f"{shared}, one behind the other: the second goes on where the first has ended, and reads nothing before"
        question = f"Are they the same query, run again? If not: {remedy[0].lower()}{remedy[1:]}"
        return finding_of_pair(
            "checkpoint", message, second.job.sink.place, question, FindingClass.UNDECLARED
        )
    message = f"{shared}: Spark stops the one when the other starts, which then goes on from offsets that are not its own"
    return finding_of_pair("checkpoint", message, second.job.sink.place, remedy)


def _files(first: QueryLife, second: QueryLife) -> Finding | None:
    place, formats = target_of_query(first.job), {first.job.sink.format, second.job.sink.format}
    if not place or place != target_of_query(second.job) or not formats <= _LOGGED:
        return None
    if _checkpoint(first, second) is not None:
        return None
    message = (
        f"{_both(first, second)} write files to one place, {place}, and so have one log of batches: a batch of the one counts as"
        " written if the other has one of its number, and its rows are missing"
    )
    remedy = "Give each query a path of its own, or bring the streams together with union()"
    return finding_of_pair("missing", message, second.job.sink.place, remedy)


def _both(first: QueryLife, second: QueryLife) -> str:
    one, other = labels_of([first.job, second.job])
    return f"the queries {one} and {other}"


def _option(job: SparkJob, name: str) -> str:
    return next((value.rstrip("/") for key, value in job.sink.options if key.lower() == name), "")


def target_of_query(job: SparkJob) -> str:
    """Return where a query writes to: a path, a table, a topic; "": it does not say."""
    return (job.sink.target or next(filter(None, (_option(job, name) for name in _PLACES)), "")).rstrip("/")


def _read(job: SparkJob) -> set[str]:
    """Return where a query reads from."""
    options = [option for source in job.sources for option in source.options]
    places = [value for key, value in options if key.lower() in {"path", "subscribe"}]
    return {place.rstrip("/") for place in (*places, *(source.path for source in job.sources)) if place}
