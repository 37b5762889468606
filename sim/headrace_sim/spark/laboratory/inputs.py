"""The input of a trial: the rows of each batch in files, from which Spark's own source reads one a batch.

Each stream of the program is read from a directory of its own. Batch 0 is the oldest file, and so on.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql.streaming.readwriter import DataStreamReader

from headrace_sim.spark.laboratory.watched_frames import closest, note_calls
from headrace_sim.spark.plan.plan_splitter import FIXED_SCHEMAS, PARAMETER
from headrace_sim.spark.pyspark_versions import arrow_table
from headrace_sim.spark.refusals import users_place
from headrace_sim.spark.spark_job import SparkJob, StreamSource

Rows = Sequence[tuple[Any, ...]]
_EPOCH_S = 1_700_000_000
_WHOLE_BYTES = 1 << 27
READS = ("csv", "json", "load", "orc", "parquet", "table", "text", "xml")


def write_batch(folder: Path, job: SparkJob, batch: int, rows: Rows, parts: int = 1) -> int:
    """Write the rows of a batch, for each stream of a job its own; return the size of partitions that keep parts apart, in bytes.

    ``folder``: of the trial's input. ``batch``: its index. ``rows``: as the job takes them. ``parts``: the number of parts of
    each file.
    """
    sizes = [_WHOLE_BYTES]
    is_alone = len(job.sources) == 1 and job.input == job.sources[0].schema
    for place, source in enumerate(job.sources):
        own = rows if is_alone else [row[place] for row in rows if row[place] is not None]
        into = folder / str(place) / f"{batch:05}.parquet"
        into.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(arrow_table(list(own), source.schema), into, row_group_size=-(-len(own) // parts) or 1)
        os.utime(into, (_EPOCH_S + batch, _EPOCH_S + batch))
        written = pq.read_metadata(into)
        second = written.row_group(1).column(0) if written.num_row_groups > 1 else None
        sizes += [second.dictionary_page_offset or second.data_page_offset] if second else []
    return min(sizes)


def held_back(folder: Path, after: int) -> None:
    """Take the batches after this one away."""
    for path in folder.glob("*/*.parquet"):
        if int(path.stem) > after:
            path.unlink()


def read_from(
    folder: Path, queries: Sequence[SparkJob], number: int, absolute: Callable[[str], str] | None = None
) -> None:
    """Let this process's program read the streams of one of its queries from files, irreversibly. Its other streams are empty.

    ``folder``: of the trial's input. ``queries``: those of the program, in order. ``number``: the place of the one that has
    rows. ``absolute``: returns the absolute path of one that a source of this query is given, if these are left as they are.
    """
    mine = [replace(source, name="") for source in queries[number].sources]
    waiting: dict[str, list[tuple[StreamSource, int | None]]] = {}
    for source in (replace(source, name="") for job in queries for source in job.sources):
        stream = source, mine.index(source) if source in mine else None
        if stream not in waiting.setdefault(source.place, []):  # else several queries have it
            waiting[source.place].append(stream)
    really_parquet = DataStreamReader.parquet

    def reading(really: Any) -> Any:
        def read(reader: DataStreamReader, *args: Any, **options: Any) -> Any:
            calls = vars(reader).get("_headrace", {})
            is_parameter = calls.get("format") == PARAMETER
            known = waiting.get(f"{PARAMETER} {calls.get('name', '')}" if is_parameter else users_place())
            schema, rows = calls.get("schema"), None
            schema = schema or FIXED_SCHEMAS.get(str(calls.get("format", "")).lower())
            if known is not None:
                texts = [{source.path, *(value for _, value in source.options)} for source, _ in known]
                place = closest(texts, [*args, *options.values(), *calls.values()])
                source, rows = known.pop(place) if len(known) > 1 else known[0]
                schema = source.schema
            if rows is not None and absolute is not None:
                path = next(iter(args), options.pop("path", calls.get("path")))
                if path is None or really.__name__ == "table":
                    return really(reader, *args, **options)
                return really(reader, absolute(str(path)), *args[1:], **options)
            if schema is None:
                return really(reader, *args, **options)
            into = folder / ("empty" if rows is None else str(rows))
            into.mkdir(parents=True, exist_ok=True)
            own = reader._spark.readStream.schema(schema)
            return really_parquet(own.option("maxFilesPerTrigger", 1), into.as_uri())

        return read

    note_calls(DataStreamReader, "format", "option", "schema")
    for name in READS:
        if hasattr(DataStreamReader, name):
            setattr(DataStreamReader, name, reading(getattr(DataStreamReader, name)))
