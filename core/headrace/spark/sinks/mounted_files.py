"""Files on a file system that all machines mount: each batch atomically and exactly once (MillWheel 6.1.1, 6.2).

Rules of this file:

* Spark writes a batch to a draft directory. One **rename** moves it into place, unless the batch is there already: the first one
  counts, and a batch that is repeated after a restart of the query is skipped.
* Each start **claims** the next epoch of its writer, as `TableSink` does. An epoch is a directory that its batches pass
  through and that its successor renames away. After that, the final rename of an older epoch finds nothing to rename. There is no
  gap between a check and the write.
* Several batches can be **published** together, as few large files: until then each waits aside, under the same rules. The rename
  of the new directory, which has the last batch's number, makes all of them count; what waits up to that number is deleted then.
"""

import os
import shutil
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

from pyspark.sql import DataFrame, SparkSession

from headrace.spark.io_errors import FencedWriterError

_AWAY = ".away"
_FILE_BYTES = 128 << 20
"""Size of the largest files that are published for several batches: what Spark reads in one task."""


class MountedFiles:
    """Writes the batches of a `FileSink` whose path all machines mount.

    Attributes:
        epoch: the epoch that it claimed.
    """

    def __init__(
        self, path: Path, format: str, writer: str, batches: int, name: str  # noqa: A002  Spark's word
    ) -> None:  # fmt: skip
        self._path, self._format, self._batches, self._name = path, format, batches, name
        self._writer = writer
        # Readers of the path, including Spark, ignore names that begin with an underscore.
        self._epochs = path / "_writers" / f"writer-{quote(writer, safe='')}"
        self._waiting = self._epochs / "waiting"
        self._newest: dict[str, int] = {}
        self.epoch = self._claim()

    def write(self, frame: DataFrame, query: str, batch: int) -> bool:
        """See `FileSink.write`."""
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
        """See `FileSink.publish`."""
        for waiting in sorted(self._waiting.iterdir()) if self._waiting.is_dir() else ():
            self._publish(spark, waiting.name)

    def _publish(self, spark: SparkSession, own: str) -> None:
        waiting = self._waiting / own
        numbers = _batches_in(waiting)
        coming = [number for number in numbers if number > self._published(own)]
        if coming:
            paths = [waiting / f"batch={number}" for number in coming]
            size = sum(file.stat().st_size for path in paths for file in path.iterdir())
            rows = spark.read.format(self._format).load([str(path) for path in paths])
            self._put_published(rows.coalesce(-(-size // _FILE_BYTES)), own, coming[-1])
        for number in numbers:
            shutil.rmtree(waiting / f"batch={number}", ignore_errors=True)

    def _published(self, own: str) -> int:
        """Return the number of the newest batch that readers see; -1: none. The batches of a query come in their order."""
        if own not in self._newest:
            self._newest[own] = max(_batches_in(self._path / f"query={own}"), default=-1)
        return self._newest[own]

    def _put_published(self, frame: DataFrame, own: str, batch: int) -> bool:
        written = self._save(frame, self._path / f"query={own}" / f"batch={batch}")
        self._newest[own] = batch
        return written

    def _save(self, frame: DataFrame, target: Path) -> bool:
        """Write rows to a draft, and move it to its place; return whether this one was first."""
        draft = f"{os.getpid()}-{os.urandom(6).hex()}"
        aside, passing = self._epochs / "drafts" / draft, self._gate(self.epoch) / draft
        frame.write.mode("overwrite").format(self._format).save(str(aside))
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
        return FencedWriterError(self._name, self.epoch, self._latest())


def _batches_in(directory: Path) -> list[int]:
    """Return the numbers of the batches in a directory, ascending."""
    names = [path.name.removeprefix("batch=") for path in directory.glob("batch=*")]
    return sorted(int(name) for name in names if name.isdecimal())
