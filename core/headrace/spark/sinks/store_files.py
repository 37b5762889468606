"""Files in a store that no machine mounts: each batch once, one writer at a time (MillWheel 6.1.1, 6.2).

Rules of this file:

* Spark writes a batch to a directory of its own, which is never renamed. What counts is a **log**: its slots 0, 1, 2, ... are
  files that are each created once. A slot says that a writer has claimed an epoch, or which files are a batch.
* A writer takes the next free slot. If another one was faster, it reads that slot first: a newer claim of its own name means that
  it was replaced, and none of its batch counts. So there is no gap between a check and the write.
* **No slot is ever deleted**: a writer that was paused would take it anew. Every hundredth also holds the sum of those before it,
  so that nobody need read them.
* A log is as safe as a query's checkpoint in the same store, because the same manager of files creates both
  (`headrace.spark.runtime.hadoop`): two writers cannot both take a slot if the store renames atomically (HDFS) or writes
  conditionally, with a manager that uses it.
"""

import os
from contextlib import suppress
from urllib.parse import quote

import msgspec
from pyspark.sql import DataFrame, SparkSession

from headrace.spark.io_errors import FencedWriterError, SinkError
from headrace.spark.runtime.hadoop import HadoopPath

_LOG = "_log"
"""Readers of the path, including Spark, ignore names that begin with an underscore."""

_SUM_UP = 100
"""Choice: a claim and a reader read at most this number of slots; the sum of the others is written once in as many batches."""


class SlotEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a slot says.

    Attributes:
        writer: the writer's name.
        epoch: its epoch.
        token: distinguishes this entry from all others.
        query: the query and writer of a batch; empty: this is a claim.
        batch: number of the batch.
        files: paths of its files, from the sink's own.
    """

    writer: str
    epoch: int
    token: str
    query: str = ""
    batch: int = -1
    files: tuple[str, ...] = ()


class LogContents(msgspec.Struct):
    """What the slots of a log add up to.

    Attributes:
        epochs: by writer, the newest that was claimed.
        batches: by query and writer, the number of the newest batch. The batches of a query come in their order.
        files: those of all batches, in order.
    """

    epochs: dict[str, int] = {}
    batches: dict[str, int] = {}
    files: list[str] = []

    def take(self, entry: SlotEntry) -> None:
        """Add an entry."""
        if entry.query:
            self.batches[entry.query] = entry.batch
            self.files.extend(entry.files)
        else:
            self.epochs[entry.writer] = entry.epoch


class _Slot(msgspec.Struct, frozen=True):
    entry: SlotEntry
    before: LogContents | None = None


_encode = msgspec.json.encode
_decode = msgspec.json.Decoder(_Slot).decode


class FileLog:
    """The log of a directory.

    Attributes:
        contents: what has been read of it.
    """

    def __init__(self, directory: HadoopPath) -> None:
        self._folder = directory / _LOG
        self._next = 0
        self.contents = LogContents()

    def read(self) -> int:
        """Read the slots that were taken since; return how many are."""
        if self._next == 0:
            newest = max(
                [int(path.name) for path in self._folder.files() if path.name.isdecimal()], default=0
            )
            self._next = newest - newest % _SUM_UP
        while (data := self._data(self._next)) is not None:
            slot = _decode(data)
            if slot.before is not None and self._next % _SUM_UP == 0:
                self.contents = slot.before
            self.contents.take(slot.entry)
            self._next += 1
        return self._next

    def add(self, entry: SlotEntry) -> bool:
        """Take the next slot; return whether it was free. If it was not, it has been read now.

        Raises:
            OSError: the store did not keep it.
        """
        before = self.contents if self._next % _SUM_UP == 0 else None
        slot, data = self._slot(self._next), _encode(_Slot(entry, before))
        refused: OSError | None = None
        try:
            slot.create(data)
        except OSError as error:
            refused = error
        there = self._data(self._next)
        if there is None:
            raise refused or OSError(f"{slot} was written, and is not there")
        self.read()
        return there == data

    def check_store(self) -> bool:
        """Return whether the store refuses to create the last slot anew. That spoils it otherwise."""
        last = self._slot(self._next - 1)
        data = last.read_created()
        with suppress(OSError):
            last.create(b"")
        return last.read_created() == data

    def _slot(self, number: int) -> HadoopPath:
        return self._folder / f"{number:09d}"

    def _data(self, number: int) -> bytes | None:
        try:
            return self._slot(number).read_created()
        except FileNotFoundError:
            return None


class StoreFiles:
    """Writes the batches of a `FileSink` whose path is a URI.

    Attributes:
        epoch: the epoch that it claimed.

    Raises:
        SinkError: the store replaces files that exist.
    """

    def __init__(self, path: HadoopPath, format: str, writer: str, name: str) -> None:  # noqa: A002  Spark's word
        self._path, self._format, self._writer, self._name = path, format, writer, name
        self._log = FileLog(path)
        begins = self._log.read() == 0
        while True:
            self.epoch = self._newest_epoch() + 1
            if self._log.add(SlotEntry(writer, self.epoch, _token())):
                break
        if begins and not self._log.check_store():
            problem = "the store replaces a file that exists, where a new one was to be created"
            remedy = "Set spark.sql.streaming.checkpointFileManagerClass to a manager that does not, or write to another store"
            raise SinkError(name, problem, remedy)

    def write(self, frame: DataFrame, query: str, batch: int) -> bool:
        """See `FileSink.write`."""
        self._log.read()
        self._check_epoch()
        own = f"{query}-{self._writer}" if self._writer else query
        if batch <= self._log.contents.batches.get(own, -1):
            frame.write.format("noop").mode("overwrite").save()
            return False
        token = _token()
        name = f"query={quote(own, safe='')}/batch={batch}-{self.epoch}-{token}"
        place = self._path / name
        frame.write.mode("overwrite").format(self._format).save(str(place))
        files = tuple(f"{name}/{path.name}" for path in place.files() if path.name[0] not in "._")
        entry = SlotEntry(self._writer, self.epoch, token, own, batch, files)
        try:
            while not self._log.add(entry):
                self._check_epoch()
        except FencedWriterError:
            place.remove()
            raise
        return True

    def publish(self, spark: SparkSession) -> None:
        """Do nothing: each batch has been published when it was written."""

    def _newest_epoch(self) -> int:
        return self._log.contents.epochs.get(self._writer, 0)

    def _check_epoch(self) -> None:
        if self._newest_epoch() > self.epoch:
            raise FencedWriterError(self._name, self.epoch, self._newest_epoch())


def _token() -> str:
    return os.urandom(6).hex()


def files_in_store(directory: HadoopPath) -> list[str] | None:
    """Return the URIs of the files that count, oldest batch first; ``None``: the directory has no log."""
    log = FileLog(directory)
    if log.read() == 0:
        return None
    return [str(directory / name) for name in log.contents.files]
