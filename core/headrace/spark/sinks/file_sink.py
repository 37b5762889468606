"""A file sink that writes each batch exactly once (MillWheel 6.1.1, 6.2), and which files of a directory count.

Rules of this file: what makes a batch count depends on what the file system can do. Where all machines mount it, that is a
rename (`headrace.spark.sinks.mounted_files`); behind a URI, a log of files that are each created once
(`headrace.spark.sinks.store_files`).
"""

import json
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.errors import PySparkRuntimeError
from pyspark.sql import DataFrame, SparkSession

from headrace.api.errors import OptionsError
from headrace.spark.io_errors import SinkError
from headrace.spark.runtime.hadoop import Place, files_in, job_directory
from headrace.spark.runtime.job_files import local_directory, scheme_of
from headrace.spark.runtime.spark_session import has_driver, query_of
from headrace.spark.sinks.mounted_files import MountedFiles
from headrace.spark.sinks.store_files import StoreFiles, files_in_store

FORMATS = ("json", "parquet", "csv", "orc")
BY_COLUMN = ("orc", "parquet")
"""Formats whose files tell their schema, so that they can be read and written again."""


class FileSink:
    """Writes files, each micro-batch to a separate directory, ``PATH/query=ID/batch=NUMBER``; read them all as ``PATH``.

    If the path is a URI, such as ``s3a://bucket/totals``, read ``spark.read.parquet(*committed_files(PATH, spark))`` instead:
    ``PATH`` may also have files of a batch that does not count, or not yet. There a batch's directory has another name each time.

    With ``batches`` above 1, that many micro-batches share a directory, with one file for each 128 MiB. Readers see them when the
    last one is written, or at `publish`; they are durable before.

    Create a new sink for each start of a query and for each stream: a new sink fences those created before it.

    Args:
        path: a directory: a path or a ``file:`` URI on a file system that all machines mount, or a URI of any store where Spark
            can keep a checkpoint.
        format: ``json``, ``parquet``, ``csv`` or ``orc``.
        writer: a name that distinguishes sinks that write to one path at the same time.
        batches: number of micro-batches to publish together; above 1 only for ``parquet`` and ``orc`` on a mounted file system.
        spark: the session whose Hadoop client reaches a URI; default: the active one.

    Attributes:
        path: the directory.
        format: as given.
        name: its name in messages.
        epoch: the epoch that it claimed.

    Raises:
        OptionsError: the format or the path is not supported.
        SinkError: the store behind a URI replaces files that exist.
    """

    def __init__(
        self, path: str | Path, format: str = "parquet", *, writer: str = "", batches: int = 1,  # noqa: A002  Spark's word
        spark: SparkSession | None = None,
    ) -> None:  # fmt: skip
        if format not in FORMATS:
            raise OptionsError("format", format, f"one of {', '.join(FORMATS)}")
        if batches < 1:
            raise OptionsError("batches", batches, "at least 1")
        if batches > 1 and format not in BY_COLUMN:
            raise OptionsError(
                "batches", batches, f"1 for {format}; only {' and '.join(BY_COLUMN)} can be merged"
            )
        place = _directory("path", path, spark)
        if batches > 1 and not isinstance(place, Path):
            raise OptionsError(
                "batches",
                batches,
                "1 for a URI; only on a file system that all machines mount can batches wait",
            )
        self.path, self.format = place, format
        self.name = f"files in {str(place)!r}"
        self._lock = threading.Lock()
        self._files = (
            MountedFiles(place, format, writer, batches, self.name)
            if isinstance(place, Path)
            else StoreFiles(place, format, writer, self.name)
        )
        self.epoch = self._files.epoch

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write a micro-batch; called by ``foreachBatch``.

        Raises:
            FencedWriterError: a newer start of the query owns the writer. Nothing was written.
            SinkError: it was called outside a streaming query.
        """
        self.write(frame, query_of(frame, self.name), batch)

    def write(self, frame: DataFrame, query: str, batch: int) -> bool:
        """Write a batch of a query, unless it was written before; return whether it was written now.

        Args:
            frame: its rows.
            query: id of the query, which stays the same across restarts.
            batch: number of the batch.

        Raises:
            FencedWriterError: see `__call__`.
        """
        with self._lock:
            return self._files.write(frame, query, batch)

    def publish(self, spark: SparkSession) -> None:
        """Publish what has been written and waits for more batches, of all queries with this writer, also while they run.

        Raises:
            FencedWriterError: see `__call__`.
        """
        with self._lock:
            self._files.publish(spark)


def _directory(option: str, path: str | Path, spark: SparkSession | None) -> Place:
    """Return the directory of a path, or of a URI if there is a session to reach it with.

    Raises:
        OptionsError: there is none, or it does not reach it.
    """
    if isinstance(path, Path) or scheme_of(path) in (None, "file"):
        return local_directory(option, path)
    session = spark
    if session is None:
        with suppress(PySparkRuntimeError):  # there is none
            session = SparkSession.active()
    if session is None or not has_driver(session):
        expected = (
            "a directory on a file system that all machines mount, as long as no Spark session with its driver in this process "
            "is active; for a URI start one first"
        )
        raise OptionsError(option, path, expected)
    return job_directory(path, session, option)


def committed_files(directory: str | Path, spark: SparkSession | None = None) -> list[str]:
    """Return the files that count in a directory: those that Spark's own file sink has committed, or a `FileSink` behind a URI.

    A killed query may leave files that belong to no committed batch. Spark itself ignores those of its own sink when it reads.

    Args:
        directory: the directory that the streaming query writes to: a path, or a URI.
        spark: the session whose Hadoop client reaches a URI; default: the active one.

    Returns:
        Paths, or URIs, oldest batch first.

    Raises:
        SinkError: no streaming query writes there.
        OptionsError: the directory is a URI that cannot be reached.
    """
    place = _directory("directory", directory, spark)
    files = None if isinstance(place, Path) else files_in_store(place)
    return _files_of_spark(place) if files is None else files


def _files_of_spark(directory: Place) -> list[str]:
    """Return the files in the log of Spark's own file sink."""
    names = [path.name for path in files_in(directory / "_spark_metadata")]
    if not names:
        remedy = (
            "Give the directory that a query with Spark's file sink writes to, or a FileSink behind a URI"
        )
        raise SinkError(str(directory), "there is no log of a streaming query (_spark_metadata)", remedy)
    batches = {int(name.partition(".")[0]): name for name in names if name[0].isdigit()}
    compacted = max((number for number, name in batches.items() if name.endswith(".compact")), default=0)
    files: dict[str, None] = {}
    for number in sorted(batches):
        if number < compacted:
            continue
        entries = (directory / "_spark_metadata" / batches[number]).read_bytes().decode().splitlines()[1:]
        for line in entries:  # the first line is the format's version
            entry = json.loads(line)
            path = _local(entry["path"])
            if entry["action"] == "add":
                files[path] = None
            else:
                files.pop(path, None)
    return list(files)


def _local(uri: str) -> str:
    parts = urlsplit(uri)
    return unquote(parts.path) if parts.scheme in ("", "file") else uri
