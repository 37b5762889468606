"""Check a sink: kill it at each of its effects, call it again with the same batch id, let another process overtake it.

`check_sink` runs the function undisturbed first, and so learns its effects: each statement and commit of an SQLite database,
each write, rename or removal of a file, each ``df.write``, each HTTP request. Then it runs it once for each fault at each effect
of each batch, and compares what is left with what the undisturbed run left. Every point is tried; nothing is sampled.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import types as t

from headrace_sim.deliveries import UNSAID, FeedSource
from headrace_sim.spark.client.connect_answers import SessionState
from headrace_sim.spark.columns.ddl import parse_schema
from headrace_sim.spark.columns.values import as_tuple
from headrace_sim.spark.sink_faults import SinkFault
from headrace_sim.spark.sinks.lost_rows import (
    RowsOf,
)
from headrace_sim.spark.sinks.processes import Sink, SinkFunction
from headrace_sim.spark.sinks.sink_check import SinkCheck
from headrace_sim.spark.sinks.sink_reports import OneTrial, Progress, SinkReport
from headrace_sim.spark.sinks.sink_runs import (
    Trial,
    Watcher,
    undisturbed,
)
from headrace_sim.spark.sinks.story import OtherRows


def check_sink(
    function: SinkFunction,
    batches: Sequence[Iterable[Any]],
    schema: str | t.StructType,
    *,
    prepare: Callable[[], Any] | None = None,
    overtaken: bool = True,
    ignore: Sequence[str] = (),
    keys: Mapping[str, Sequence[str]] | None = None,
    rows_of: RowsOf = RowsOf.SOURCE,
    allow: Collection[str] = (),
    source: FeedSource = UNSAID,
    new_checkpoint: bool | None = None,
    filters: bool = False,
    state: SessionState | None = None,
    revised: Sequence[tuple[int, int]] = (),
    progress: Progress | None = None,
    watcher: Watcher | None = None,
) -> SinkReport:
    """Check that each row is in its place exactly once, whatever happens to the process that runs the sink.

    Each attempt is a fork of this process that works in a new directory, so the function must write to relative paths
    (or to HTTP, or with ``df.write``, which are simulated). What it keeps in memory is lost when it is killed.

    Args:
        function: The function given to ``foreachBatch``: it takes a DataFrame and a batch id.
        batches: The rows of each micro-batch, as tuples, dicts or ``Row`` values.
        schema: Their schema.
        prepare: Called once in each new directory, before the first batch; it makes tables that the function takes for granted.
        overtaken: Whether a process that was replaced may go on (a zombie). Leave it out only if something else fences it off.
        ignore: Destinations that need not be the same, such as a log of attempts: ``out.db: attempts``.
        keys: The columns by which a connector of ``df.write`` writes that is not in `CONNECTORS`, by table; none: it adds rows.
        rows_of: Where the rows come from: a source may deliver them in other batches.
        allow: What is meant of what the undisturbed run loses: ``batching``, ``order``, ``loss``.
        source: What the source promises.
        new_checkpoint: Whether it is judged what a new checkpoint, or an older one, does; False: not tried; None: told in a note.
        filters: Whether the query before the sink may leave no row of a batch.
        state: What the session knows when a driver begins: views, functions, settings.
        revised: The numbers of rows, over all batches, of which the second one is a newer result for the key of the first one.
        progress: Called after each trial; a true result stops the search.
        watcher: Told what is seen.

    Raises:
        SinkFailsError: If the function fails in an undisturbed run.
        UnfollowableSinkError: If it does something that cannot be simulated.
        PySparkTypeError: If a row does not fit the schema.

    """
    check = SinkCheck(
        _sink(function, batches, schema, prepare, keys, state), frozenset(ignore), rows_of, frozenset(allow), revised,
        new_checkpoint, watcher=watcher, filters=filters, source=source,
    )  # fmt: skip
    return check.run(progress, overtaken=overtaken)


def try_fault(
    function: SinkFunction,
    batches: Sequence[Iterable[Any]],
    schema: str | t.StructType,
    fault: SinkFault,
    *,
    prepare: Callable[[], Any] | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
    rows_of: RowsOf = RowsOf.SOURCE,
    allow: Collection[str] = (),
    filters: bool = False,
    source: FeedSource = UNSAID,
    state: SessionState | None = None,
    watcher: Watcher | None = None,
    rows: OtherRows | None = None,
) -> OneTrial:
    """Try a sink under one fault, as `check_sink` tries it under each.

    Args:
        function: As in `check_sink`; so are ``batches``, ``schema`` and ``prepare``.
        batches: The rows of each micro-batch.
        schema: Their schema.
        fault: What happens.
        prepare: Makes what the function takes for granted.
        keys: As in `check_sink`; so are ``rows_of`` and ``allow``.
        rows_of: Where the rows come from.
        allow: What is meant.
        filters: As in `check_sink`; so are ``source``, ``state`` and ``watcher``.
        source: What the source promises.
        state: What the session knows.
        watcher: Told what is seen.
        rows: Rows that are compared with the given ones, if no fault shows what is wrong.

    Raises:
        SinkFailsError: As `check_sink` does; so is `UnfollowableSinkError`.

    """
    sink = _sink(function, batches, schema, prepare, keys, state)
    check = SinkCheck(
        sink, frozenset(), rows_of, frozenset(allow), watcher=watcher, filters=filters, source=source
    )
    return check.one(fault, rows)


def try_fault_of(
    sink: Sink,
    fault: SinkFault,
    rows_of: RowsOf = RowsOf.SOURCE,
    allow: Collection[str] = (),
    watcher: Watcher | None = None,
    rows: OtherRows | None = None,
) -> OneTrial:
    """Try a sink on its host under one fault, as `try_fault` does."""
    return SinkCheck(sink, frozenset(), rows_of, frozenset(allow), watcher=watcher).one(fault, rows)


def check_sink_of(
    sink: Sink,
    *,
    overtaken: bool = True,
    rows_of: RowsOf = RowsOf.SOURCE,
    allow: Collection[str] = (),
    source: FeedSource = UNSAID,
    new_checkpoint: bool | None = None,
    progress: Progress | None = None,
    processes: int = 1,
    watcher: Watcher | None = None,
) -> SinkReport:
    """Check a sink on its host, as `check_sink` does. ``processes``: how many share the trials, each with a host like it."""
    check = SinkCheck(
        sink, frozenset(), rows_of, frozenset(allow), source=source, new_checkpoint=new_checkpoint, processes=processes,
        watcher=watcher,
    )  # fmt: skip
    return check.run(progress, overtaken=overtaken)


def _sink(
    function: SinkFunction,
    batches: Sequence[Iterable[Any]],
    schema: str | t.StructType,
    prepare: Callable[[], Any] | None,
    keys: Mapping[str, Sequence[str]] | None,
    state: SessionState | None,
) -> Sink:
    parsed = parse_schema(schema) if isinstance(schema, str) else schema
    rows = tuple(tuple(as_tuple(row, parsed) for row in batch) for batch in batches)
    declared = {table: tuple(name.lower() for name in columns) for table, columns in (keys or {}).items()}
    return Sink(function, parsed, rows, prepare, declared, state=state)


def undisturbed_run(
    function: SinkFunction,
    batches: Sequence[Iterable[Any]],
    schema: str | t.StructType,
    prepare: Callable[[], Any] | None,
    state: SessionState | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
    chance: int = 0,
) -> Trial:
    """Run a sink once without faults; the arguments and the errors are those of `check_sink`, and ``chance`` of `undisturbed`."""
    return undisturbed(_sink(function, batches, schema, prepare, keys, state), chance)
