"""A file sink that writes each batch atomically and exactly once (MillWheel 6.1.1, 6.2), and the log of Spark's own file sink.

Rules of this file:

* Spark writes a batch to a draft directory. One **rename** moves it into place, unless the batch is there already: the first one
  counts, and a batch that is repeated after a restart of the query is skipped.
* Each `FileSink` **claims** the next epoch of its writer, as `DatabaseSink` does. An epoch is a directory that its batches pass
  through and that its successor renames away. After that, the final rename of an older epoch finds nothing to rename. There is no
  gap between a check and the write.
* Several batches can be **published** together, as few large files: until then each waits aside, under the same rules. The rename
  of the new directory, which has the last batch's number, makes all of them count; what waits up to that number is deleted then.
* Choice: a directory that all machines mount, as for a deployment. Object stores have no atomic rename.
"""

import json
import os
import shutil
import threading
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession

from headrace.api.errors import OptionsError
from headrace.spark.io_errors import FencedWriterError, SinkError
from headrace.spark.runtime.files import local_directory
from headrace.spark.runtime.session import query_of

FORMATS = ("json", "parquet", "csv", "orc")
BY_COLUMN = ("orc", "parquet")
"""Formats whose files tell their schema, so that they can be read and written again."""

_AWAY = ".away"
_FILE_BYTES = 128 << 20
"""Size of the largest files that are published for several batches: what Spark reads in one task."""


class FileSink:
    """Writes files, each micro-batch to a separate directory, ``PATH/query=ID/batch=NUMBER``; read them all as ``PATH``.

    With ``batches`` above 1, so many micro-batches share a directory, with one file for each 128 MiB. Readers see them when the
    last one is written, or at `publish`; they are durable before.

    Create a new sink for each start of a query and for each stream: a new sink fences those created before it.

    Args:
        path: a directory on a file system that all machines mount, as a path or a ``file:`` URI. Other schemes are refused.
        format: ``json``, ``parquet``, ``csv`` or ``orc``.
        writer: a name that distinguishes sinks that write to one path at the same time.
        batches: number of micro-batches to publish together; above 1 only for ``parquet`` and ``orc``.

    Attributes:
        name: its name in messages.
        epoch: the epoch that it claimed.

    Raises:
        OptionsError: the format or the scheme of the path is not supported.
    """

    def __init__(
        self, path: str | Path, format: str = "parquet", *, writer: str = "", batches: int = 1  # noqa: A002  Spark's word
    ) -> None:  # fmt: skip
        if format not in FORMATS:
            raise OptionsError("format", format, f"one of {', '.join(FORMATS)}")
        if batches < 1:
            raise OptionsError("batches", batches, "at least 1")
        if batches > 1 and format not in BY_COLUMN:
            raise OptionsError(
                "batches", batches, f"1 for {format}; only {' and '.join(BY_COLUMN)} can be merged"
            )
        self._batches = batches
        self.path, self.format = local_directory("path", path), format
        self.name = f"files in {str(self.path)!r}"
        self._writer = writer
        # Readers of the path, including Spark, ignore names that begin with an underscore.
        self._epochs = self.path / "_writers" / f"writer-{quote(writer, safe='')}"
        self._waiting = self._epochs / "waiting"
        self._newest: dict[str, int] = {}
        self._lock = threading.Lock()
        self.epoch = self._claim()

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
            return self._write(frame, query, batch)

    def _write(self, frame: DataFrame, query: str, batch: int) -> bool:
        if not self._gate(self.epoch).is_dir():
            raise self._fenced()
        # Several sinks may serve one query, each for one stream.
        own = quote(f"{query}-{self._writer}" if self._writer else query, safe="")
        waiting = _batches_in(self._waiting / own)
        if batch <= self._published(own) or batch in waiting:
            frame.write.format("noop").mode("overwrite").save()
            return False
        if self._batches == 1:
            if waiting:  # for a sink before this one, which published several at once
                self._publish(frame.sparkSession, own)
            return self._put_published(frame, own, batch)
        written = self._save(frame, self._waiting / own / f"batch={batch}")
        if len(waiting) + 1 >= self._batches:
            self._publish(frame.sparkSession, own)
        return written

    def publish(self, spark: SparkSession) -> None:
        """Publish what has been written and waits for more batches, of all queries with this writer, also while they run.

        Raises:
            FencedWriterError: see `__call__`.
        """
        with self._lock:
            for waiting in sorted(self._waiting.iterdir()) if self._waiting.is_dir() else ():
                self._publish(spark, waiting.name)

    def _publish(self, spark: SparkSession, own: str) -> None:
        waiting = self._waiting / own
        numbers = _batches_in(waiting)
        coming = [number for number in numbers if number > self._published(own)]
        if coming:
            paths = [waiting / f"batch={number}" for number in coming]
            size = sum(file.stat().st_size for path in paths for file in path.iterdir())
            rows = spark.read.format(self.format).load([str(path) for path in paths])
            self._put_published(rows.coalesce(-(-size // _FILE_BYTES)), own, coming[-1])
        for number in numbers:
            shutil.rmtree(waiting / f"batch={number}", ignore_errors=True)

    def _published(self, own: str) -> int:
        """Return the number of the newest batch that readers see; -1: none. The batches of a query come in their order."""
        if own not in self._newest:
            self._newest[own] = max(_batches_in(self.path / f"query={own}"), default=-1)
        return self._newest[own]

    def _put_published(self, frame: DataFrame, own: str, batch: int) -> bool:
        written = self._save(frame, self.path / f"query={own}" / f"batch={batch}")
        self._newest[own] = batch
        return written

    def _save(self, frame: DataFrame, target: Path) -> bool:
        """Write rows to a draft, and move it to its place; return whether this one was first."""
        draft = f"{os.getpid()}-{os.urandom(6).hex()}"
        aside, passing = self._epochs / "drafts" / draft, self._gate(self.epoch) / draft
        frame.write.mode("overwrite").format(self.format).save(str(aside))
        try:
            return self._put(aside, passing, target)
        finally:
            for left in (aside, passing):
                shutil.rmtree(left, ignore_errors=True)

    def _put(self, aside: Path, passing: Path, target: Path) -> bool:
        """Move a draft through the epoch's directory to its final place; return whether this one was first."""
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            aside.rename(passing)
        except FileNotFoundError:
            raise self._fenced() from None
        try:
            passing.rename(target)
        except OSError as error:
            if not passing.parent.is_dir():
                raise self._fenced() from error
            if target.exists():  # another writer was faster
                return False
            raise
        return True

    # Epochs

    def _claim(self) -> int:
        self._epochs.mkdir(parents=True, exist_ok=True)
        while True:
            own = self._latest() + 1
            with suppress(FileExistsError):  # another sink was faster
                self._gate(own).mkdir()
                break
        for epoch in range(1, own):
            with suppress(FileNotFoundError):  # it was renamed away before
                self._gate(epoch).rename(f"{self._gate(epoch)}{_AWAY}")
        for away in self._epochs.glob(f"*{_AWAY}"):
            for draft in away.iterdir():
                shutil.rmtree(draft, ignore_errors=True)
        return own

    def _latest(self) -> int:
        names = [path.name.removesuffix(_AWAY) for path in self._epochs.iterdir()]
        return max([int(name) for name in names if name.isdecimal()], default=0)

    def _gate(self, epoch: int) -> Path:
        return self._epochs / f"{epoch:06d}"

    def _fenced(self) -> FencedWriterError:
        return FencedWriterError(self.name, self.epoch, self._latest())


def _batches_in(directory: Path) -> list[int]:
    """Return the numbers of the batches in a directory, ascending."""
    names = [path.name.removeprefix("batch=") for path in directory.glob("batch=*")]
    return sorted(int(name) for name in names if name.isdecimal())


def committed_files(directory: str | Path) -> list[str]:
    """Return the files that Spark's own file sink has committed, from its log. Readers other than Spark need this.

    A killed query may leave files that belong to no committed batch. Spark itself ignores them when it reads.

    Args:
        directory: the directory that the streaming query writes to, on this file system: a path or a ``file:`` URI.

    Returns:
        Paths, oldest batch first.

    Raises:
        SinkError: no streaming query writes there.
        OptionsError: the directory is a URI of another scheme.
    """
    log = local_directory("directory", directory) / "_spark_metadata"
    if not log.is_dir():
        remedy = "Give the directory that a query with Spark's file sink writes to"
        raise SinkError(str(directory), "there is no log of a streaming query (_spark_metadata)", remedy)
    batches = {
        int(path.name.partition(".")[0]): path for path in sorted(log.iterdir()) if path.name[0].isdigit()
    }
    compacted = max((number for number, path in batches.items() if path.suffix == ".compact"), default=0)
    files: dict[str, None] = {}
    for number in sorted(batches):
        if number < compacted:
            continue
        for line in batches[number].read_text().splitlines()[1:]:  # the first line is the format's version
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
