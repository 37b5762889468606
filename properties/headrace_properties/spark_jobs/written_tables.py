"""What a sink that is not code holds after a run of its query, for promises: files, a table, a topic, memory, the console.

`STREAMING_SINKS` says whether it skips a batch that Spark gives it again, and `CONNECTORS` whether a row replaces another.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headrace_properties.spark_jobs.together import target_of_query
from headrace_sim.spark.columns.frames import Rows
from headrace_sim.spark.columns.values import InputRows
from headrace_sim.spark.query.streaming_query import Outcome
from headrace_sim.spark.sinks.streaming_sinks import BatchAgain, streaming_sink, written_again
from headrace_sim.spark.sinks.trial_contents import with_json
from headrace_sim.spark.spark_job import OutputMode, SparkJob
from headrace_sim.spark.tables.connectors import Repeated
from headrace_sim.spark.tables.table_versions import SaveMode, TableVersion, WriteRequest, written

_TOPIC = "topic"


def written_tables(job: SparkJob, outcome: Outcome) -> Mapping[str, tuple[Any, ...]] | None:
    """Return the rows of each table that a query's sink holds, as ``Row`` values; None: its sink is code, or it has none."""
    sink, name = (
        job.sink,
        target_of_query(job) or job.sink.name * (job.sink.format == "memory") or job.sink.format,
    )
    if not name or sink.function is not None or sink.writer is not None:
        return None
    mode = SaveMode.OVERWRITE if sink.output_mode is OutputMode.COMPLETE else SaveMode.APPEND
    request = WriteRequest(name, sink.format.lower(), mode)
    known = written_again(sink.format, sink.options, job.output.names)
    if known.repeated is Repeated.FAILS:  # Spark goes no further, and nothing more is written
        known = replace(known, repeated=Repeated.KEEPS)
    table = TableVersion(job.output)
    for rows in _given(job, outcome):
        table = written(table, Rows(job.output, [tuple(rows)]), request, known)
    held = InputRows(job.output).rows(table.rows)
    if sink.format != "kafka":
        return {name: tuple(held)}
    by_topic = _TOPIC in job.output.names and not target_of_query(job)
    names = dict.fromkeys(row[_TOPIC] for row in held) if by_topic else [name]
    return {
        topic: tuple(with_json(row) for row in held if not by_topic or row[_TOPIC] == topic)
        for topic in names
    }


def _given(job: SparkJob, outcome: Outcome) -> list[list[tuple[Any, ...]]]:
    """Return what the sink writes, call by call. A batch that is run again is one more call, unless it is skipped or meant."""
    row = streaming_sink(job.sink.format)
    if row is not None and row.again is BatchAgain.WRITTEN and not job.declares.repeated:
        return [list(call.rows) for call in outcome.sink_calls]
    return [rows for _, rows in sorted(outcome.outputs.items())]
