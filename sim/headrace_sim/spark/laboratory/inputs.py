"""The input of a trial: the rows of each batch in files, from which Spark's own source reads one a batch.

Each stream of the program is read from a directory of its own. Batch 0 is the oldest file, and so on.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from pyspark.sql.streaming.readwriter import DataStreamReader

from headrace_sim.spark.job import Source
from headrace_sim.spark.refusals import users_place
from headrace_sim.spark.versions import arrow_table

Rows = Sequence[tuple[Any, ...]]
_EPOCH_S = 1_700_000_000
READS = ("csv", "json", "load", "orc", "parquet", "table", "text", "xml")


def write_batch(folder: Path, sources: Sequence[Source], batch: int, rows: Rows) -> None:
    """Write the rows of a batch, for each stream its own.

    Args:
        folder: Of the trial's input.
        sources: The streams. Where there are several, a row has a value in the column of one of them.
        batch: Its index.
        rows: As the job takes them.

    """
    for place, source in enumerate(sources):
        own = rows if len(sources) == 1 else [row[place] for row in rows if row[place] is not None]
        into = folder / str(place) / f"{batch:05}.parquet"
        into.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(arrow_table(list(own), source.schema), into)
        os.utime(into, (_EPOCH_S + batch, _EPOCH_S + batch))


def held_back(folder: Path, after: int) -> None:
    """Take the batches after this one away."""
    for path in folder.glob("*/*.parquet"):
        if int(path.stem) > after:
            path.unlink()


def read_from(folder: Path, sources: Sequence[Source]) -> None:
    """Let this process's programs read these streams from files, irreversibly; others are as they are.

    Args:
        folder: Of the trial's input.
        sources: The streams. Those that one line reads come in their order.

    """
    waiting = dict(enumerate(sources))
    really_parquet = DataStreamReader.parquet

    def reading(really: Any) -> Any:
        def read(reader: DataStreamReader, *args: Any, **options: Any) -> Any:
            here = users_place()
            number = next((number for number, source in waiting.items() if source.place == here), None)
            if number is None:
                return really(reader, *args, **options)
            own = reader._spark.readStream.schema(waiting.pop(number).schema)
            return really_parquet(own.option("maxFilesPerTrigger", 1), (folder / str(number)).as_uri())

        return read

    for name in READS:
        if hasattr(DataStreamReader, name):
            setattr(DataStreamReader, name, reading(getattr(DataStreamReader, name)))
