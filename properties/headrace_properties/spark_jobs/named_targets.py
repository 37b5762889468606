"""What a user names, loaded: a ``foreachBatch`` function, a function that starts a query, a `SparkJob`, or a hosted pipeline."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from headrace.api.errors import with_article
from headrace_properties.promises import Promise
from headrace_properties.reference import run_reference
from headrace_properties.search.application import Application
from headrace_properties.search.guard import refusal_in
from headrace_properties.search.limits import OverrunError
from headrace_properties.spark_jobs.feeds.job_feeds import feed_of
from headrace_properties.spark_jobs.hosted_outcomes import TrialReader
from headrace_properties.spark_jobs.job_causes import CAUSES, Cause
from headrace_properties.spark_jobs.laboratory import Laboratory
from headrace_properties.spark_jobs.promised import check_promises_of_job
from headrace_properties.spark_jobs.targets import SparkTarget
from headrace_properties.target import TargetError, source_in
from headrace_sim.spark.client.recording import record
from headrace_sim.spark.columns.ddl import Schema, parse_schema
from headrace_sim.spark.columns.values import as_tuple
from headrace_sim.spark.declares import Declares
from headrace_sim.spark.laboratory.called import Called
from headrace_sim.spark.laboratory.hosted import query_of_pipeline, rows_of_batches
from headrace_sim.spark.refusals import CannotFollowError, definition_of, place_of_error, shown_place
from headrace_sim.spark.sinks.foreach_writers import function_of_writer
from headrace_sim.spark.spark_job import (
    SparkJob,
    SparkJobError,
    SparkSink,
    StreamJoin,
    Union,
)

FEED = "feed"
PREPARE = "prepare"
PROMISES = "promises"
DECLARES = "declares"
"""What a module calls the rows of its batches, or the function that makes them from a seed; what makes a sink's tables; what its
author promises; and what its outcome may depend on."""


def spark_target(
    name: str,
    subject: Any,
    *,
    module: ModuleType | None = None,
    schemas: str | Mapping[str, str] | None = None,
    feed: Any = None,
    seed: int = 0,
    prepare: Callable[[], Any] | None = None,
    promises: Sequence[Promise] | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
    declares: Declares | None = None,
    samples: Mapping[str, str] | None = None,
) -> SparkTarget:
    """Return what a user names, ready to be tried.

    Args:
        name: For messages.
        subject: A function of a DataFrame and a batch id; a function that starts a query; or a `SparkJob`.
        module: Where ``feed`` and ``prepare`` may stand.
        schemas: The schema of the input: one, or by the parameter's name.
        feed: The rows of each batch, or a function that makes them from a seed. Default: the module's, or drawn.
        seed: For them.
        prepare: Makes what the sink takes for granted. Default: the module's.
        promises: What the author says of the job. Default: the module's.
        keys: The columns by which connectors write that are not known, by table of ``df.write``; none: it adds rows.
        declares: What its outcome may depend on. Default: the module's.
        samples: Files with rows of its input instead of ``feed``, by the name of the source; "": of the only one.

    Raises:
        TargetError: If it is none of these, has no function for ``foreachBatch``, or its feed does not fit it.
        HeadraceError: If the job cannot be recorded.

    """
    if samples and feed is not None:
        raise TargetError(name, "a feed and a sample both give its rows", "Give one of them")
    source = getattr(module, FEED, None) if feed is None and not samples else feed
    prepare = prepare or getattr(module, PREPARE, None)
    asked = getattr(module, PROMISES, ()) if promises is None else promises
    if isinstance(subject, SparkJob):
        job = subject
    elif not callable(subject) or isinstance(subject, type):
        problem = f"this is {with_article(type(subject).__name__)}, not a Spark job"
        remedy = "Name a foreachBatch function, a function that starts a query, or a SparkJob"
        raise TargetError(name, problem, remedy)
    elif not _is_sink(subject):
        job = _recorded(name, subject, schemas)
    elif isinstance(schemas, str):
        job = SparkJob(parse_schema(schemas), sink=SparkSink(subject))
    else:
        remedy = "Give it: --schema 'account STRING, amount INT'"
        raise TargetError(name, "the schema of its rows is not known", remedy)
    job = _with_function(job)
    if not (job.sink.function or job.sink.format or job.sink.target or job.stateful):
        problem = "the query keeps no state and writes to nothing"
        raise TargetError(name, problem, "Let it start one: frame.writeStream.format('kafka').start()")
    rows = source
    if source is None:
        rows = feed_of(job, seed, samples or {})
    elif callable(source):
        rows = _made(name, source, seed)
    taken = _as_tuples(name, rows, job.input)
    if job.steps and isinstance(job.steps[0], Union | StreamJoin):
        _check_streams(name, job.input.names, taken)
    if keys and job.sink.function is None:
        raise TargetError(name, "a key is declared, and no foreachBatch() function is there", "Leave it out")
    meant = declared_in(name, module) | (declares or Declares())
    job = replace(job, declares=job.declares | meant)
    assumed = source is None and not job.steps and subject is job.sink.function
    target = SparkTarget(
        name, job, taken, prepare, check_promises_of_job(asked), keys or {}, assumed=assumed, feed_seed=seed
    )
    return target if source is not None or samples else target.with_drawn_rows()


def declared_in(name: str, module: Any) -> Declares:
    """Return what a module declares, also of its source. Raise `TargetError` if ``declares`` is something else."""
    meant = getattr(module, DECLARES, None)
    if meant is not None and not isinstance(meant, Declares):
        remedy = "Write it as declares = Declares(running=True)"
        raise TargetError(name, f"declares is {meant!r:.100}", remedy)
    return Declares(source=source_in(module)) | (meant or Declares())


def hosted_target(name: str, application: Application, seed: int, laboratory: Laboratory) -> SparkTarget:
    """Return a pipeline with its input, ready to be tried on Spark.

    Args:
        name: ``MODULE:PIPELINE``.
        application: The pipeline, its inputs, and what its author and their source promise.
        seed: Of the input.
        laboratory: Where it is tried.

    Raises:
        HeadraceError: Its code fails on that input without faults.

    """
    pipeline, feed, promises = application.pipeline, application.feed(seed), application.promises
    called = Called(pipeline, name)
    job = called.query(query_of_pipeline(pipeline))
    job = replace(job, declares=job.declares | Declares(source=application.source))
    rows = rows_of_batches(pipeline, [(entry.address, entry.event) for entry in feed.entries])
    reader = TrialReader(pipeline, promises, feed, run_reference(pipeline, feed))
    hosted = replace(laboratory, script=called, queries=(job,), reader=reader)
    batches = _as_tuples(name, rows, job.input)
    return SparkTarget(name, job, batches, promises=promises, laboratory=hosted, feed_seed=seed)


def spark_target_on(laboratory: Laboratory | None, name: str, subject: Any, **arguments: Any) -> SparkTarget:
    """Return what a user names, ready to be tried in the laboratory, or simulated; the other arguments are `spark_target`'s."""
    if laboratory is None:
        return spark_target(name, subject, **arguments)
    called = Called(subject, name, arguments.get("schemas"))
    try:
        target = spark_target(name, subject, **arguments)
    except CannotFollowError as error:
        run = replace(laboratory, script=called).looked(str(error))
        target = replace(spark_target(name, run.queries[0], **arguments), assumed=True)
        laboratory = replace(laboratory, beside=False)
    if isinstance(subject, SparkJob) or target.job.sink.function is subject:
        called = replace(called, job=target.job)
    queries = (called.query(target.job),)
    return replace(
        target, laboratory=replace(laboratory, script=called, queries=queries, prepare=target.prepare)
    )


def _with_function(job: SparkJob) -> SparkJob:
    """Return the job with the function of a batch that its writer of ``foreach`` amounts to, if it has one."""
    if job.sink.writer is None or job.sink.function is not None:
        return job
    return replace(job, sink=replace(job.sink, function=function_of_writer(job.sink.writer)))


def _recorded(name: str, build: Callable[..., Any], schemas: Any) -> SparkJob:
    try:
        return record(build, schemas)
    except (SystemExit, OverrunError) as end:
        function = getattr(build, "__name__", str(build))
        why = f"SystemExit({end})" if type(end) is SystemExit else str(end)
        problem = f"{function}() does not return: {why}"
        raise TargetError(name, problem, "Let it start a query, and return") from end
    except SparkJobError as error:
        raise refusal_in(error) or error from error.__cause__


def _made(name: str, feed: Callable[[int], Any], seed: int) -> Any:
    try:
        return feed(seed)
    except (Exception, SystemExit, OverrunError) as error:
        place = shown_place(place_of_error(error, definition_of(feed)))
        problem = f"the feed fails at {place}: {type(error).__name__}: {error}".rstrip(".")
        remedy = "Let it take a seed and return batches of rows: [[row, ...], ...]"
        raise TargetError(name, problem, remedy) from error


def _as_tuples(name: str, rows: Any, schema: Schema) -> list[list[tuple[Any, ...]]]:
    remedy = "Write it as batches of rows: feed = [[row, ...], ...]"
    batches = list(rows) if _lists(rows) else []
    if not batches or not all(map(_lists, batches)):
        raise TargetError(name, f"the feed is no list of batches: {rows!r:.100}", remedy)
    taken = []
    for number, batch in enumerate(batches):
        try:
            taken.append([as_tuple(row, schema) for row in batch])
        except (TypeError, ValueError) as error:
            problem = f"a row of batch {number} of the feed does not fit {schema.simpleString()}: {str(error).rstrip('.')}"
            raise TargetError(name, problem, "Mend the row, or the schema") from error
    return taken


def _lists(value: Any) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


def _check_streams(name: str, streams: Sequence[str], batches: list[list[tuple[Any, ...]]]) -> None:
    """Refuse a row that does not belong to one of several streams."""
    for row in (row for batch in batches for row in batch):
        if sum(value is not None for value in row) != 1:
            remedy = f"Write it as {{{streams[0]!r}: (...)}}, so that its stream is known"
            raise TargetError(name, f"the row {row} is not a row of one of: {', '.join(streams)}", remedy)


def keys_named(texts: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Return the columns of each table's key, given as ``table=column,column``; ``table=``: it adds rows.

    Raise `TargetError` if a text is of another form.
    """
    keys = {}
    for text in texts:
        table, equals, columns = text.partition("=")
        if not (equals and table.strip()):
            problem = f"{text!r} does not name a table and its key"
            remedy = "Write --keys TABLE=COLUMN,COLUMN, or --keys TABLE= if it adds rows"
            raise TargetError("--keys", problem, remedy)
        keys[table.strip()] = tuple(name.strip() for name in columns.split(",") if name.strip())
    return keys


def causes_named(names: Iterable[str]) -> frozenset[Cause]:
    """Return the named things that the outcome may depend on. Raise `TargetError` if there is no such name."""
    known = {cause.value: cause for cause in Cause if CAUSES[cause].allowable}
    for name in names:
        if name not in known:
            remedy = f"Allow one of: {', '.join(sorted(known))}"
            raise TargetError("--allow", f"{name!r} cannot be allowed", remedy)
    return frozenset(known[name] for name in names)


def _is_sink(function: Callable[..., Any]) -> bool:
    """Return whether it takes a DataFrame and a batch id, as ``foreachBatch`` calls it."""
    positional = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
    ]
    needed = sum(parameter.default is parameter.empty for parameter in positional)
    if len(positional) < 2 or needed not in {1, 2}:
        return False
    second = positional[1]
    if needed == 1:  # the id may have a default, for calls by hand
        return "batch" in second.name.lower() or "epoch" in second.name.lower()
    if second.annotation in {int, "int"} or second.name.lower().endswith(("id", "batch", "epoch")):
        return True
    names = set(getattr(getattr(inspect.unwrap(function), "__code__", None), "co_names", ()))
    return "writeStream" not in names and bool(names & _OF_A_BATCH)


_OF_A_BATCH = frozenset({
    "collect", "count", "foreach", "foreachPartition", "isEmpty", "toLocalIterator", "toPandas", "write", "writeTo",
})  # fmt: skip
"""What only the DataFrame of a batch can do."""
