"""Check a sink: kill it at each of its effects, call it again with the same batch id, let another process overtake it.

`check_sink` runs the function undisturbed first, and so learns its effects: each statement and commit of an SQLite database,
each write, rename or removal of a file, each ``df.write``, each HTTP request. Then it runs it once for each fault at each effect
of each batch, and compares what is left with what the undisturbed run left. Every point is tried; nothing is sampled.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from headrace_properties.sinks.sink_check import SinkCheck
from headrace_properties.sinks.sink_reports import OneTrial, Progress, SinkReport
from headrace_properties.sinks.story import OtherRows
from headrace_sim.spark.client.connect_answers import SessionState
from headrace_sim.spark.columns.ddl import Schema, parse_schema
from headrace_sim.spark.columns.values import as_tuple
from headrace_sim.spark.sink_faults import SinkFault
from headrace_sim.spark.sinks.processes import Sink, SinkFunction
from headrace_sim.spark.sinks.sink_runs import Trial, undisturbed


def check_sink(
    function: SinkFunction,
    batches: Sequence[Iterable[Any]],
    schema: str | Schema,
    *,
    prepare: Callable[[], Any] | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
    state: SessionState | None = None,
    progress: Progress | None = None,
    overtaken: bool = True,
    **how: Any,
) -> SinkReport:
    """Check that each row is in its place exactly once, whatever happens to the process that runs the sink.

    Each attempt is a fork of this process that works in a new directory, so the function must write to relative paths
    (or to HTTP, or with ``df.write``, which are simulated). What it keeps in memory is lost when it is killed.

    Args:
        function: The function given to ``foreachBatch``: it takes a DataFrame and a batch id.
        batches: The rows of each micro-batch, as tuples, dicts or ``Row`` values.
        schema: Their schema.
        prepare: Called once in each new directory, before the first batch; it makes tables that the function takes for granted.
        keys: The columns by which a connector of ``df.write`` writes that is not in `CONNECTORS`, by table; none: it adds rows.
        state: What the session knows when a driver begins: views, functions, settings.
        progress: As in `SinkCheck.run`; so is ``overtaken``.
        overtaken: Whether a zombie may go on.
        how: Fields of `SinkCheck`.

    Raises:
        SinkFailsError: If the function fails in an undisturbed run.
        UnfollowableSinkError: If it does something that cannot be simulated.
        PySparkTypeError: If a row does not fit the schema.

    """
    check = SinkCheck(sink_of(function, batches, schema, prepare, keys, state), **how)
    return check.run(progress, overtaken=overtaken)


def try_fault(
    function: SinkFunction,
    batches: Sequence[Iterable[Any]],
    schema: str | Schema,
    fault: SinkFault,
    prepare: Callable[[], Any] | None = None,
    rows: OtherRows | None = None,
    **how: Any,
) -> OneTrial:
    """Try a sink under one fault, as `check_sink`, which has these arguments and errors, tries it under each.

    ``rows``: as in `SinkCheck.one`.
    """
    return SinkCheck(sink_of(function, batches, schema, prepare), **how).one(fault, rows)


def sink_of(
    function: SinkFunction,
    batches: Sequence[Iterable[Any]],
    schema: str | Schema,
    prepare: Callable[[], Any] | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
    state: SessionState | None = None,
) -> Sink:
    """Return a simulated sink; the arguments are those of `check_sink`."""
    parsed = parse_schema(schema) if isinstance(schema, str) else schema
    rows = tuple(tuple(as_tuple(row, parsed) for row in batch) for batch in batches)
    declared = {table: tuple(name.lower() for name in columns) for table, columns in (keys or {}).items()}
    return Sink(function, parsed, rows, prepare, declared, state=state)


def undisturbed_run(
    function: SinkFunction,
    batches: Sequence[Iterable[Any]],
    schema: str | Schema,
    prepare: Callable[[], Any] | None,
    state: SessionState | None = None,
    keys: Mapping[str, Sequence[str]] | None = None,
    chance: int = 0,
) -> Trial:
    """Run a sink once without faults; the arguments and the errors are those of `check_sink`, and ``chance`` of `undisturbed`."""
    return undisturbed(sink_of(function, batches, schema, prepare, keys, state), chance)
