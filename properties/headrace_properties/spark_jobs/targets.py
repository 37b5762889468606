"""What a user names: a ``foreachBatch`` function, a function that starts a query, or a `SparkJob`; and its trials."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from headrace.api.errors import HeadraceError
from headrace_properties.spark_jobs.drawn_rows import drawn_batches
from headrace_sim.spark.ddl import Schema, parse_schema
from headrace_sim.spark.job import Columns, SparkJob, Watermark
from headrace_sim.spark.recording import record
from headrace_sim.spark.refusals import shown_place
from headrace_sim.spark.sessions import Session, as_tuple
from headrace_sim.spark.sinks import SinkReport, check_sink
from headrace_sim.spark.sinks.trial import Progress

FEED = "feed"
PREPARE = "prepare"
"""What a module calls the rows of its batches, or the function that makes them from a seed; and what makes a sink's tables."""


class SparkTargetError(HeadraceError):
    """A Spark job or sink cannot be tried. Fields: target, problem, remedy."""

    def __init__(self, target: str, problem: str, remedy: str) -> None:
        super().__init__(target, problem, remedy)
        self.target, self.problem, self.remedy = target, problem, remedy

    def __str__(self) -> str:
        """Say what is wrong and how to fix it."""
        return f"{self.target}: {self.problem}. {self.remedy}"


@dataclass(frozen=True, slots=True)
class SparkTarget:
    """A sink, and what it is tried with.

    Attributes:
        name: As the user wrote it.
        function: The ``foreachBatch`` function.
        schema: That of the rows that reach it.
        batches: Those rows.
        prepare: Makes what the sink takes for granted, or None.
        untried: What of the job is not tried, each with its place.

    """

    name: str
    function: Callable[[Any, int], Any]
    schema: Schema
    batches: Sequence[Sequence[Any]]
    prepare: Callable[[], Any] | None = None
    untried: tuple[str, ...] = ()

    def verify(self, *, overtaken: bool = True, progress: Progress | None = None) -> SinkReport:
        """Try the sink at each of its effects.

        Args:
            overtaken: Whether a driver that was replaced may go on (a zombie).
            progress: Told the number of trials that are done, and of all.

        Raises:
            SinkFailsError: If the function fails undisturbed.
            UnfollowableSinkError: If it does something that cannot be simulated.

        """
        report = check_sink(
            self.function,
            self.batches,
            self.schema,
            prepare=self.prepare,
            overtaken=overtaken,
            progress=progress,
        )
        return replace(report, unknown=(*report.unknown, *self.untried))


def spark_target(
    name: str,
    found: Any,
    *,
    module: ModuleType | None = None,
    schemas: str | Mapping[str, str] | None = None,
    feed: Any = None,
    seed: int = 0,
    prepare: Callable[[], Any] | None = None,
) -> SparkTarget:
    """Return what a user names, ready to be tried.

    Args:
        name: For messages.
        found: A function of a DataFrame and a batch id; a function that starts a query; or a `SparkJob`.
        module: Where ``feed`` and ``prepare`` may stand.
        schemas: The schema of the input: one, or by the parameter's name.
        feed: The rows of each batch, or a function that makes them from a seed. Default: the module's, or drawn.
        seed: For them.
        prepare: Makes what the sink takes for granted. Default: the module's.

    Raises:
        SparkTargetError: If it is none of these, or has no function for ``foreachBatch``.
        HeadraceError: If the job cannot be recorded.

    """
    given = getattr(module, FEED, None) if feed is None else feed
    prepare = prepare or getattr(module, PREPARE, None)
    if isinstance(found, SparkJob):
        return _of_job(name, found, given, seed, prepare)
    if not callable(found) or isinstance(found, type):
        problem = f"{type(found).__name__} is no Spark job"
        raise SparkTargetError(
            name, problem, "Name a foreachBatch function, a function that starts a query, or a SparkJob"
        )
    if not _is_sink(found):
        return _of_job(name, record(found, schemas), given, seed, prepare)
    if not isinstance(schemas, str):
        raise SparkTargetError(
            name, "the schema of its rows is not known", "Give it: --schema 'account STRING, amount INT'"
        )
    schema = parse_schema(schemas)
    return SparkTarget(name, found, schema, _batches(given, schema, seed), prepare)


def _is_sink(function: Callable[..., Any]) -> bool:
    """Tell whether it takes a DataFrame and a batch id, as ``foreachBatch`` calls it."""
    parameters = list(inspect.signature(function).parameters.values())
    needed = [
        one
        for one in parameters
        if one.default is one.empty and one.kind in {one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD}
    ]
    if len(needed) != 2:
        return False
    second = needed[1]
    return second.annotation in {int, "int"} or second.name.lower().endswith(("id", "batch", "epoch"))


def _of_job(name: str, job: SparkJob, feed: Any, seed: int, prepare: Any) -> SparkTarget:
    if job.sink.function is None:
        problem = f"the query writes to {job.sink.format or 'nothing'} itself, not by foreachBatch"
        raise SparkTargetError(name, problem, "Only sinks given to foreachBatch() are tried so far")
    untried = tuple(
        f"{type(step).__name__} at {shown_place(step.place)} was not run: the sink was tried with drawn rows of its output"
        for step in job.steps
        if not isinstance(step, Columns | Watermark)
    )
    if untried:
        return SparkTarget(
            name, job.sink.function, job.output, drawn_batches(job.output, seed), prepare, untried
        )
    session = Session()
    batches = []
    for batch in _batches(feed, job.input, seed):
        rows = session.rows(job.input, [[as_tuple(row, job.input) for row in batch]])
        for step in job.steps:
            rows = step.compute(rows) if isinstance(step, Columns) else rows
        batches.append(rows.collect())
    return SparkTarget(name, job.sink.function, job.output, batches, prepare)


def _batches(feed: Any, schema: Schema, seed: int) -> Sequence[Sequence[Any]]:
    if feed is None:
        return drawn_batches(schema, seed)
    found: Sequence[Sequence[Any]] = feed(seed) if callable(feed) else feed
    return found
