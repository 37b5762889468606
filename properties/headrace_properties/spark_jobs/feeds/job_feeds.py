"""The input that a job is tried with, where nobody has written one."""

from collections.abc import Mapping
from itertools import chain
from pathlib import Path
from typing import Any

from headrace.api.errors import HeadraceError
from headrace_properties.spark_jobs.feeds.drawing import batches_for, one_of
from headrace_properties.spark_jobs.feeds.drawn_rows import BATCHES, drawn_batches
from headrace_properties.spark_jobs.feeds.query_plans import SinkPlans, read_hints
from headrace_properties.spark_jobs.feeds.samples import SampleFile, own_files, rows_of
from headrace_properties.spark_jobs.feeds.thresholds import rows_waited_for
from headrace_properties.spark_jobs.watching import handlers_of
from headrace_sim.spark.spark_job import SparkJob, StreamJoin, StreamSource, Union

_Rows = list[tuple[Any, ...]]


class UnknownSourceError(HeadraceError):
    """A sample of a source that the job does not have. Fields: name, known."""

    def __init__(self, name: str, known: str) -> None:
        super().__init__(name, known)
        self.name, self.known = name, known

    def __str__(self) -> str:
        """Name the sources."""
        what = f"no source is called {self.name!r}" if self.name else "the job has several sources"
        return f"{what}. Write --sample NAME=FILE, with a NAME of: {self.known}"


def feed_of(
    job: SparkJob, seed: int, samples: Mapping[str, str], sink: SinkPlans | None = None
) -> list[_Rows]:
    """Return rows for a job: of samples, of the files that its sources read if they are there, or drawn.

    ``seed``: what is drawn follows from it. ``samples``: files, by the name of the source; "": of the only one. ``sink``: what
    its sink does with its output. Raise
    `SampleError` if a sample cannot be read, or does not fit, `UndrawableError` if a type cannot be drawn, or
    `UnknownSourceError` if the job has no source of a sample's name.
    """
    sources = job.sources or (StreamSource("input", "", job.input),)
    hints = read_hints(job.plan, sources, sink)
    named = _named(sources, samples)
    files = {source.name: own for source in sources if (own := named.get(source.name) or own_files(source))}
    with_state = bool(job.stateful)
    waited_for = rows_waited_for(handlers_of(job)) if with_state else 0
    of_streams = bool(job.steps) and isinstance(job.steps[0], Union | StreamJoin)
    with_itself = of_streams and len(sources) == 1
    if files:
        others = batches_for(hints, seed, with_state=with_state) if len(files) < len(sources) else []
        return _as_stream(_of_files(hints.rows, files, others), with_itself=with_itself)
    if hints.tell:
        drawn = batches_for(hints, seed, with_state=with_state, waited_for=waited_for)
        return _as_stream(drawn, with_itself=with_itself)
    drawn = drawn_batches(job.input, seed, with_state=with_state, waited_for=waited_for)
    if not of_streams:
        return drawn
    dealt = [
        [one_of(row[number % len(row)], number % len(row), len(row)) for number, row in enumerate(rows)]
        for rows in drawn
    ]
    return _as_stream(dealt, with_itself=with_itself)


def _as_stream(batches: list[_Rows], *, with_itself: bool) -> list[_Rows]:
    """Return the rows of the one stream of a job. ``with_itself``: which is joined or united with itself."""
    return [[(row,) for row in rows] for rows in batches] if with_itself else batches


def _named(sources: tuple[StreamSource, ...], samples: Mapping[str, str]) -> dict[str, SampleFile]:
    names = {label: source.name for source in sources for label in (source.label, source.name)}
    for name in samples:
        if name not in names and (name or len(sources) > 1):
            raise UnknownSourceError(name, ", ".join(source.label for source in sources))
    return {
        names[name] if name else sources[0].name: SampleFile(Path(path)) for name, path in samples.items()
    }


def _of_files(rows: Mapping[str, Any], files: Mapping[str, SampleFile], others: list[_Rows]) -> list[_Rows]:
    """Return the rows of files in a few batches, with those of the other sources as they were drawn."""
    batches: list[_Rows] = [[] for _ in range(BATCHES)]
    for place, name in enumerate(rows):
        if name in files:
            own = [one_of(row, place, len(rows)) for row in rows_of(rows[name], files[name])]
        else:
            own = [row for row in chain.from_iterable(others) if row[place] is not None]
        size = -(-len(own) // BATCHES)
        for number in range(BATCHES):
            batches[number] += own[number * size : (number + 1) * size]
    return list(filter(None, batches))
