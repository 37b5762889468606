"""A sink that writes files, each batch once and as a whole (MillWheel 6.1.1, 6.2).

Rules of this file:

* Spark writes a batch aside; then one **rename** puts it in its place, unless there is one already: the first one stands, and a
  batch that comes again, after the query was started again, is skipped.
* Each `FileSink` **claims** the next epoch of its writer, as `DatabaseSink` does. An epoch is a directory through which its
  batches pass on their way, and which its successor takes away: the last rename of an older epoch then finds nothing to rename.
  No look at the clock or at a file comes in between.
* Choice: a directory that all machines mount, as a deployment's own. What only looks like files has no rename that is one step.
"""

import json
import os
import shutil
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from pyspark.sql import DataFrame

from headrace.api.errors import OptionsError
from headrace.spark.io_errors import FencedWriterError, SinkError
from headrace.spark.runtime.files import local_directory
from headrace.spark.runtime.session import query_of

FORMATS = ("json", "parquet", "csv", "orc")

_AWAY = ".away"


class FileSink:
    """Writes files, each micro-batch to a directory of its own, ``PATH/query=ID/batch=NUMBER``; read them all as ``PATH``.

    Make a new one for each start of a query, and one for each stream: making it fences those that were made before.

    Args:
        path: of a directory on a file system that all machines mount; also as a ``file:`` URI. Other schemes are refused.
        format: ``json``, ``parquet``, ``csv`` or ``orc``.
        writer: several sinks that write to one path at a time have a name each.

    Attributes:
        name: what messages call it.
        epoch: that it has claimed.

    Raises:
        OptionsError: another format, or a path of another kind.
    """

    def __init__(self, path: str | Path, format: str = "parquet", *, writer: str = "") -> None:  # noqa: A002  Spark's word
        if format not in FORMATS:
            raise OptionsError("format", format, f"one of {', '.join(FORMATS)}")
        self.path, self.format = local_directory("path", path), format
        self.name = f"files in {str(self.path)!r}"
        self._writer = writer
        # Readers of the path, Spark among them, leave out what begins with an underscore.
        self._epochs = self.path / "_writers" / f"writer-{quote(writer, safe='')}"
        self.epoch = self._claim()

    def __call__(self, frame: DataFrame, batch: int) -> None:
        """Write a micro-batch, as ``foreachBatch`` asks for it.

        Raises:
            FencedWriterError: a newer start of the query owns the writer. Nothing was written.
            SinkError: it was called outside of a streaming query.
        """
        self.write(frame, query_of(frame, self.name), batch)

    def write(self, frame: DataFrame, query: str, batch: int) -> bool:
        """Write a batch of a query, unless it was written before; tell whether it was written now.

        Args:
            frame: its rows.
            query: the query's name, which it keeps when it is started again.
            batch: its number.

        Raises:
            FencedWriterError: as `__call__`.
        """
        if not self._gate(self.epoch).is_dir():
            raise self._fenced()
        own = (
            f"{query}-{self._writer}" if self._writer else query
        )  # several may serve one query, a stream each
        target = self.path / f"query={quote(own, safe='')}" / f"batch={batch}"
        if target.exists():
            frame.write.format("noop").mode("overwrite").save()
            return False
        draft = f"{os.getpid()}-{os.urandom(6).hex()}"
        aside, passing = self._epochs / "drafts" / draft, self._gate(self.epoch) / draft
        frame.write.mode("overwrite").format(self.format).save(str(aside))
        try:
            return self._put(aside, passing, target)
        finally:
            for left in (aside, passing):
                shutil.rmtree(left, ignore_errors=True)

    def _put(self, aside: Path, passing: Path, target: Path) -> bool:
        """Let a draft pass through the gate to its place."""
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
            if target.exists():  # another one was faster
                return False
            raise
        return True

    # Epochs

    def _claim(self) -> int:
        self._epochs.mkdir(parents=True, exist_ok=True)
        while True:
            own = self._latest() + 1
            with suppress(FileExistsError):  # another one was faster
                self._gate(own).mkdir()
                break
        for epoch in range(1, own):
            with suppress(FileNotFoundError):  # it was taken away before
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


def committed_files(directory: str | Path) -> list[str]:
    """The files that Spark's file sink has written exactly once, by its log; other readers than Spark need this.

    A query that was killed may leave files behind that belong to no finished batch. Spark itself leaves them out when it reads.

    Args:
        directory: what the streaming query writes to, on this file system: a path or a ``file:`` URI.

    Returns:
        Paths, oldest batch first.

    Raises:
        SinkError: no streaming query writes there.
        OptionsError: a URI of another scheme.
    """
    log = local_directory("directory", directory) / "_spark_metadata"
    if not log.is_dir():
        remedy = "Name the directory that a query with a file sink writes to"
        raise SinkError(str(directory), "there is no log of a streaming query (_spark_metadata)", remedy)
    batches = {
        int(path.name.partition(".")[0]): path for path in sorted(log.iterdir()) if path.name[0].isdigit()
    }
    compacted = max((number for number, path in batches.items() if path.suffix == ".compact"), default=0)
    files: dict[str, None] = {}
    for number in sorted(batches):
        if number < compacted:
            continue
        for line in batches[number].read_text().splitlines()[1:]:  # the first is the format's version
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
