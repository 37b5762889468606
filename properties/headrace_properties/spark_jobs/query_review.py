"""A review of a query by what Spark's documentation says of its settings: one table, each row with its reference.

What is documented of a setting is no failure that was seen: a row asks its author, or tells something. Whatever a trial can
show is left to the trials. A query for looking (console, memory) is said to be one, and not reviewed.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace.spark.runtime.required_settings import ROCKSDB
from headrace_properties.findings import Family, Finding, FindingClass, Kind
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import place_at
from headrace_sim.spark.client.settings import STATE_STORE
from headrace_sim.spark.columns.in_force import ZONE, unheeded
from headrace_sim.spark.columns.zones import zone_of
from headrace_sim.spark.plan.drawn_columns import drawn_columns, windows_of_days
from headrace_sim.spark.sinks.streaming_sinks import BatchAgain, StreamingSink, streaming_sink, written_again
from headrace_sim.spark.spark_job import SparkJob, StreamSource, TransformWithState
from headrace_sim.spark.tables.connectors import Repeated

_SPARK = "https://spark.apache.org/docs/latest/streaming"
_GUIDE = f"{_SPARK}/apis-on-dataframes-and-datasets.html"
_KAFKA = f"{_SPARK}/structured-streaming-kafka-integration.html"
_HUDI = "https://hudi.apache.org/docs/configurations"


@dataclass(frozen=True, slots=True)
class ReviewRule:
    """A row of the table."""

    name: str  # by which the author says that it is meant
    # returns what is seen of it in a query, each as text for the sentence, with its place
    seen: Callable[[SparkJob], Iterator[tuple[str, str]]]
    sentence: str  # what is documented, with ``{}`` for what is seen
    remedy: str  # what to do
    reference: str  # where that is documented
    finding_class: FindingClass = FindingClass.UNDECLARED  # whether it asks, or tells


@dataclass(frozen=True, slots=True)
class QueryReview:
    """What a review has found."""

    findings: tuple[Finding, ...] = ()  # what only the author can say
    notes: tuple[str, ...] = ()  # what is worth knowing
    unknown: tuple[str, ...] = ()  # what was not judged


_CHECKPOINTS = "spark.sql.streaming.checkpointLocation"
"""The setting of a session below which each query has its checkpoint."""


def review_query(job: SparkJob, allow: Collection[Cause] = ()) -> QueryReview:
    """Return what Spark's documentation says of a query, and what its sink guarantees.

    ``allow``: what is meant: ``settings``, ``repeated``.
    """
    if is_for_looking(job):
        note = f"the query writes to {job.sink.format} alone, which is for looking: nothing is kept that could be lost or doubled"
        return QueryReview(notes=(note,))
    tells = [rule for rule in RULES if rule.finding_class is FindingClass.NOTE]
    asks = [] if Cause.SETTINGS in allow else [rule for rule in RULES if rule not in tells]
    asked = (_asked(rule, text, place) for rule, text, place in _seen(asks, job))
    notes = (f"{text}. {rule.remedy}: {rule.reference}" for rule, text, _ in _seen(tells, job))
    sink = _sink_told(job, repeats=job.declares.repeated or Cause.REPEATED in allow)
    return QueryReview((*sink.findings, *asked), tuple(dict.fromkeys((*sink.notes, *notes))), sink.unknown)


def _seen(rules: Sequence[ReviewRule], job: SparkJob) -> Iterator[tuple[ReviewRule, str, str]]:
    for rule in rules:
        if rule.name not in job.declares.settings:
            yield from ((rule, rule.sentence.format(text), place) for text, place in rule.seen(job))


def is_for_looking(job: SparkJob) -> bool:
    """Return whether a query's output is only shown."""
    row = _own_sink(job)
    return row is not None and row.again is BatchAgain.SHOWN


def _own_sink(job: SparkJob) -> StreamingSink | None:
    """Return the row of a sink of Spark's own, or of a connector; None: it is code, or unknown."""
    return None if _is_code(job) else streaming_sink(job.sink.format)


def _is_code(job: SparkJob) -> bool:
    return job.sink.function is not None or job.sink.writer is not None


def _sink_told(job: SparkJob, *, repeats: bool) -> QueryReview:
    """Return what a sink that is not code guarantees. ``repeats``: whether rows may come twice."""
    if _is_code(job) or not (job.sink.format or job.sink.target):
        return QueryReview()
    row, name = _own_sink(job), job.sink.format or "table" * bool(job.sink.target)
    if row is None:
        problem = f"what {name} does with a batch that Spark gives it again is not known: its rows may be there twice"
        text = f"{problem}. Look it up, and say --allow repeated if that is meant"
        return QueryReview(unknown=() if repeats else (text,))
    needs = f". {row.needs}" if row.needs else ""
    if row.again is BatchAgain.SKIPPED:
        text = f"{name}: a batch that is run again is {row.again.value}{needs}: {row.source}"
        return QueryReview(notes=(text,))
    if row.again is BatchAgain.REFUSED:
        rule = ReviewRule(
            "refused", lambda _: iter(()), "", "Write with df.write in foreachBatch", row.source
        )
        return QueryReview((_asked(rule, f"Spark does not start this query: {row.needs}", job.sink.place),))
    becomes = written_again(job.sink.format, job.sink.options, job.output.names)
    keys = ", ".join(becomes.keys) or "the table's key"
    drawn = {name for name in drawn_columns(job.plan) if name.lower() in becomes.keys}
    if becomes.repeated in {Repeated.REPLACES, Repeated.KEEPS} and not drawn:
        text = f"{name}: a batch that is run again {becomes.repeated.value} ({keys}): {row.source}"
        return QueryReview(notes=(text,))
    adds = becomes.repeated is Repeated.ADDS
    what = "each row of it may be there twice" if adds else f"it {becomes.repeated.value}"
    text = f"{name} is given a batch again after a failure, and then {what}{needs}: it is at least once, not exactly once"
    if becomes.question and adds:
        text = f"{name}: {becomes.question}"
    remedy = becomes.remedy or "Make the key of what the row says"
    if drawn:
        text = f"{name} replaces rows by {keys}, which is drawn or counted anew when a batch is run again: then it adds them"
        remedy = (
            "Make the key of what the row says: sha2(concat_ws(...), 256), or topic, partition and offset"
        )
    kind = Kind(Family.SINK, Cause.REPEATED.value, FindingClass.UNDECLARED)
    answer = f"Do readers allow for it? Then declare repeated=True, or say --allow {Cause.REPEATED.value}"
    remedy = f"{answer}. If not: {remedy[0].lower()}{remedy[1:].rstrip('.')} ({row.source})"
    return QueryReview(() if repeats else (Finding(kind, text, place_at(job.sink.place), remedy),))


def _asked(rule: ReviewRule, message: str, place: str) -> Finding:
    answer = f"Is that meant? Then declare settings=({rule.name!r},), or say --allow {Cause.SETTINGS.value}"
    remedy = f"{answer}. If not: {rule.remedy[0].lower()}{rule.remedy[1:]} ({rule.reference})"
    kind = Kind(Family.QUERY, rule.name, FindingClass.UNDECLARED, list(_RANKED).index(rule.name))
    return Finding(kind, message, place_at(place), remedy)


def _options(job: SparkJob) -> dict[str, str]:
    return {name.lower(): value for name, value in job.sink.options}


def _of_source(source: StreamSource) -> dict[str, str]:
    return {name.lower(): str(value).lower() for name, value in source.options}


_MADE_UP = frozenset({"", "rate", "rate-micro-batch", "socket"})
"""Sources that nobody would miss a row of, and those that a function takes as a parameter."""


def _no_checkpoint(job: SparkJob) -> Iterator[tuple[str, str]]:
    real = any(source.format not in _MADE_UP for source in job.sources)
    of_session = job.state is not None and job.state.settings.get(_CHECKPOINTS, None)
    if "checkpointlocation" in _options(job) or of_session or not real:
        return
    if _is_code(job):
        then = "uses a new one for each start: the query forgets what it has read, and its batch ids begin at 0 again"
    else:
        then = f"refuses to start the query, unless {_CHECKPOINTS} is set"
    yield then, job.sink.place


def _latest(job: SparkJob) -> Iterator[tuple[str, str]]:
    for source in job.sources:
        options = _of_source(source)
        starts = ("startingoffsets", "startingtimestamp", "startingoffsetsbytimestamp")
        begins = [options.get(name) for name in starts]
        if source.format == "kafka" and (begins[0] == "latest" or not any(begins)):
            yield ("latest" if begins[0] else "latest, the default"), source.place


_SILENT = (
    ("kafka", "failOnDataLoss", "false", "records that Kafka no longer has"),
    ("eventhubs", "failOnDataLoss", "false", "events that are no longer there"),
    ("iceberg", "streaming-skip-overwrite-snapshots", "true", "what overwrites of the table change"),
    ("iceberg", "streaming-skip-delete-snapshots", "true", "what deletes of the table remove"),
    ("csv", "mode", "DROPMALFORMED", "rows that do not fit the schema"),
    ("json", "mode", "DROPMALFORMED", "rows that do not fit the schema"),
)
"""A source, an option, its value, and what it then leaves out without a word."""


def _silent_loss(job: SparkJob) -> Iterator[tuple[str, str]]:
    for source in job.sources:
        for format_, option, value, lost in _SILENT:
            if source.format == format_ and _of_source(source).get(option.lower()) == value.lower():
                yield f"{option}={value} leaves out {lost}", source.place


def _sink_with(option: str, value: str) -> Callable[[SparkJob], Iterator[tuple[str, str]]]:
    def places(job: SparkJob) -> Iterator[tuple[str, str]]:
        if _options(job).get(option, "").lower() == value:
            yield "", job.sink.place

    return places


def _source_of(
    format_: str, option: str = "", value: str = ""
) -> Callable[[SparkJob], Iterator[tuple[str, str]]]:
    """Yield the places of sources of a format, if they have an option, too, where one is named."""
    return lambda job: (
        ("", source.place)
        for source in job.sources
        if source.format == format_ and _of_source(source).get(option, "") == value
    )


def _unheeded(job: SparkJob) -> Iterator[tuple[str, str]]:
    values = {} if job.state is None else job.state.settings.values
    yield from ((setting, job.sink.place) for setting in unheeded(values))


def _days_of_utc(job: SparkJob) -> Iterator[tuple[str, str]]:
    zone = job.state.settings.values.get(ZONE, "") if job.state else ""
    seasons = (datetime(2030, month, 1, tzinfo=UTC).astimezone(zone_of(zone)) for month in (1, 7) if zone)
    if any(at.utcoffset() for at in seasons):
        yield from (
            (f"{length} begins at midnight of UTC, not of {zone}", job.sink.place)
            for length in windows_of_days(job.plan)
        )


def _unfit_store(job: SparkJob) -> Iterator[tuple[str, str]]:
    for step in job.steps:
        if isinstance(step, TransformWithState) and job.state is not None:
            store = job.state.settings.get(STATE_STORE, "") or ""
            if "RocksDB" not in store:
                yield store.rpartition(".")[2], step.place


def _triggered(name: str) -> Callable[[SparkJob], Iterator[tuple[str, str]]]:
    def places(job: SparkJob) -> Iterator[tuple[str, str]]:
        if job.sink.trigger is not None and job.sink.trigger[0] == name:
            yield "", job.sink.place

    return places


RULES = (
    ReviewRule(
        "checkpoint", _no_checkpoint, "the query has no checkpointLocation, and Spark {}",
        'Give each query one of its own: .option("checkpointLocation", path)',
        f"{_GUIDE}#recovering-from-failures-with-checkpointing",
    ),
    ReviewRule(
        "loss", _silent_loss, "the source's option {}, and the query goes on without a word",
        "Leave the option out if that is not meant: the query then fails", _KAFKA, FindingClass.NOTE,
    ),
    ReviewRule(
        "acks", _sink_with("kafka.acks", "0"),
        "kafka.acks=0 takes a record for written before Kafka has it: a broker that fails loses it",
        "Leave kafka.acks out, or set it to all", "https://kafka.apache.org/documentation/#producerconfigs_acks",
    ),
    ReviewRule(
        "failed batch", _sink_with("hoodie.datasource.write.streaming.ignore.failed.batch", "true"),
        "Hudi goes on with the next batch when one fails, and its rows are lost",
        "Leave hoodie.datasource.write.streaming.ignore.failed.batch out", _HUDI,
    ),
    ReviewRule(
        "changes", _source_of("delta", "ignorechanges", "true"),
        "ignoreChanges gives rows again that an update or delete has only moved to another file",
        "Say skipChangeCommits or read the change feed, or drop duplicates by a key",
        "https://docs.delta.io/latest/delta-streaming.html#ignore-updates-and-deletes",
    ),
    ReviewRule(
        "socket", _source_of("socket"), "a socket cannot give rows again: those of a batch that dies are lost",
        "Read from a source that keeps its rows, such as Kafka or files", f"{_GUIDE}#input-sources",
    ),
    ReviewRule(
        "latest", _latest, "startingOffsets is {}: a new query, or one with a new checkpoint, leaves out all that came before",
        "Say earliest if that counts", f"{_KAFKA}#creating-a-kafka-source-for-streaming-queries", FindingClass.NOTE,
    ),
    ReviewRule(
        "continuous", _triggered("continuous"), "trigger(continuous=...) has no batches: it was tried with micro-batches",
        "What Spark says of it, at least once, holds for every sink", f"{_GUIDE}#continuous-processing", FindingClass.NOTE,
    ),
    ReviewRule(
        "legacy", _unheeded, "{} is set: what is computed on the real Spark has it, and Headrace's own columns are as without it",
        "Leave it out if the job does not need it",
        "https://spark.apache.org/docs/latest/sql-migration-guide.html", FindingClass.NOTE,
    ),
    ReviewRule(
        "store", _unfit_store, "transformWithState does not start with {}",
        f"Set {STATE_STORE} to {ROCKSDB}, if the cluster's settings do not",
        f"{_SPARK}/structured-streaming-transform-with-state.html",
        FindingClass.NOTE,
    ),
    ReviewRule(
        "days", _days_of_utc, "a window of {}, which is the session's time zone",
        "Group by F.to_date(...): the fourth argument of window() is the same in summer and in winter",
        "https://spark.apache.org/docs/latest/api/python/reference/pyspark.sql/api/pyspark.sql.functions.window.html",
        FindingClass.NOTE,
    ),
    ReviewRule(
        "once", _triggered("once"), "trigger(once=True) is deprecated: it puts the whole backlog into one batch",
        "Say trigger(availableNow=True)", f"{_GUIDE}#triggers", FindingClass.NOTE,
    ),
)  # fmt: skip
"""What is documented of a single query."""

_RANKED = (*(rule.name for rule in RULES), "refused")
