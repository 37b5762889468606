"""A file sink in a store that no machine mounts: each batch once and whole, one writer at a time (MillWheel 6.1.1, 6.2)."""

from collections import Counter
from collections.abc import Callable
from urllib.parse import urlsplit

import pytest
from pyspark.sql import SparkSession

from headrace import OptionsError
from headrace.spark import FencedWriterError, FileSink, SinkError, committed_files
from headrace.spark.runtime.hadoop import HadoopPath
from headrace.spark.sinks import store_files
from headrace_scenarios.chaos.object_store import ObjectStore
from tests.spark.sinks.test_file_sink import Frame


class Files:
    """A directory in a store."""

    def __init__(self, spark: SparkSession, store: ObjectStore) -> None:
        self.uri, self._spark, self._store = f"{store.uri}/out", spark, store

    def sink(self, writer: str = "") -> FileSink:
        return FileSink(self.uri, writer=writer, spark=self._spark)

    def put(
        self, sink: FileSink, batch: int, text: str, meanwhile: Callable[[], object] = lambda: None
    ) -> bool:
        frame = _Frame(self._store, text, meanwhile)
        written = sink.write(frame, "q", batch)
        assert frame.computed == 1
        return written

    def committed(self) -> str:
        """The text of all files that count."""
        files = committed_files(self.uri, self._spark)
        return "".join(self._store.objects[urlsplit(uri).path][0].decode() for uri in files)

    def there(self) -> str:
        """The text of all files that are there."""
        texts = [
            data for path, (data, _) in self._store.objects.items() if path.rpartition("/")[2] == "part-0"
        ]
        return b"".join(texts).decode()


class _Frame(Frame):
    def __init__(self, store: ObjectStore, text: str, meanwhile: Callable[[], object]) -> None:
        super().__init__(text, meanwhile)
        self._store = store

    def save(self, path: str | None = None) -> None:
        self.computed += 1
        self.meanwhile()
        if path is not None:
            for name, text in {"part-0": self.text, "_SUCCESS": "done"}.items():
                self._store.put(f"{urlsplit(path).path}/{name}", text.encode())


@pytest.fixture
def files(spark: SparkSession, object_store: ObjectStore) -> Files:
    return Files(spark, object_store)


def test_each_batch_counts_once(files: Files) -> None:
    with pytest.raises(SinkError, match=r"webhdfs://.*/out: there is no log"):
        committed_files(files.uri)
    sink = files.sink()
    assert [files.put(sink, 0, "a"), files.put(sink, 0, "a"), files.put(sink, 1, "b")] == [True, False, True]
    sink = files.sink()
    sink.publish(files._spark)
    assert [files.put(sink, 1, "b"), files.put(sink, 2, "c")] == [False, True]
    assert (files.committed(), files.there(), sink.epoch) == ("abc", "abc", 2)


@pytest.mark.parametrize("batches", [0, 1, 2])
def test_a_zombie_that_wakes_behind_its_successor_writes_nothing(files: Files, batches: int) -> None:
    """It is stopped while Spark computes its batch; its successor has written none, the same one, or another one, too."""
    zombie = files.sink()

    def succeed() -> None:
        successor = files.sink()
        for batch in range(batches):
            assert files.put(successor, batch, "ab"[batch])

    with pytest.raises(FencedWriterError, match=r"this writer has epoch 1, but .* claimed epoch 2"):
        files.put(zombie, 0, "zombie", succeed)
    with pytest.raises(FencedWriterError):
        zombie.write(None, "q", 5)  # it does not even look at the frame
    assert files.committed() == files.there() == "ab"[:batches]


def test_a_zombie_that_was_replaced_before_its_batch_computes_nothing(files: Files) -> None:
    zombie = files.sink()
    files.sink()
    with pytest.raises(FencedWriterError):
        zombie.write(None, "q", 0)


def _before_next(
    monkeypatch: pytest.MonkeyPatch, name: str, meanwhile: Callable[[], object], *, after: bool = False
) -> None:
    """Let something happen before the next call of a method, or after it."""
    method = getattr(HadoopPath, name)

    def calling(*arguments: object) -> object:
        monkeypatch.setattr(HadoopPath, name, method)
        if not after:
            meanwhile()
        result = method(*arguments)
        if after:
            meanwhile()
        return result

    monkeypatch.setattr(HadoopPath, name, calling)


def test_of_two_claims_that_race_one_is_the_older(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one begins and ends when the first one has read the log and not yet written."""
    second: list[FileSink] = []
    _before_next(monkeypatch, "create", lambda: second.append(files.sink()))
    first = files.sink()
    assert (second[0].epoch, first.epoch) == (1, 2)
    with pytest.raises(FencedWriterError):
        files.put(second[0], 0, "a")
    assert files.put(first, 0, "b")
    assert files.committed() == "b"


def test_a_claim_that_comes_just_before_the_slot_is_taken_counts(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    zombie, successors = files.sink(), list[FileSink]()

    def meanwhile() -> None:
        _before_next(monkeypatch, "create", lambda: successors.append(files.sink()))

    with pytest.raises(FencedWriterError):
        files.put(zombie, 0, "zombie", meanwhile)
    assert files.put(successors[0], 0, "a")
    assert files.committed() == files.there() == "a"


def test_writers_by_name_share_a_path(files: Files) -> None:
    one, two = files.sink("one"), files.sink("two/2")
    assert files.put(one, 0, "a", lambda: files.put(two, 0, "b"))
    assert [files.put(two, 1, "c"), files.put(one, 1, "d"), files.put(one, 0, "a")] == [True, True, False]
    assert files.committed() == "bacd"


class Killed(BaseException):
    """The driver has died."""


def _die() -> None:
    raise Killed


def _refuse() -> None:
    raise OSError("the connection was lost")


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_a_driver_that_dies_as_it_takes_a_slot_loses_and_doubles_nothing(
    files: Files, monkeypatch: pytest.MonkeyPatch, *, after: bool
) -> None:
    _before_next(monkeypatch, "create", _die, after=after)
    with pytest.raises(Killed):
        files.sink()
    sink = files.sink()
    _before_next(monkeypatch, "create", _die, after=after)
    with pytest.raises(Killed):
        files.put(sink, 0, "a")
    assert files.committed() == ("a" if after else "")
    assert files.put(files.sink(), 0, "b") == (not after)
    assert files.committed() == ("a" if after else "b")


def test_a_slot_that_was_taken_counts_though_the_answer_was_lost(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    sink = files.sink()
    _before_next(monkeypatch, "create", _refuse, after=True)
    assert files.put(sink, 0, "a")
    _before_next(monkeypatch, "create", _refuse)
    with pytest.raises(OSError, match="the connection was lost"):
        files.put(sink, 1, "b")
    assert files.put(sink, 1, "c")
    assert files.committed() == "ac"


def test_a_reader_reads_the_slots_since_the_last_sum_only(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_files, "_SUM_UP", 4)
    reads, read = Counter[str](), HadoopPath.read_created

    def counted(path: HadoopPath) -> bytes:
        reads[path.name] += 1
        return read(path)

    for writer, texts in (("", "abcd"), ("other", "e"), ("", "fg")):
        sink = files.sink(writer)
        for text in texts:
            assert files.put(sink, "abcdefg".index(text), text)
        assert not files.put(sink, "abcdefg".index(texts[-1]), "again")
    with monkeypatch.context() as patched:
        patched.setattr(HadoopPath, "read_created", counted)
        assert files.committed() == "abcdefg"
    assert sorted(int(name) for name in reads) == [8, 9, 10]
    assert files.sink().epoch == 3


def test_what_a_uri_cannot_have_is_refused(
    files: Files, monkeypatch: pytest.MonkeyPatch, spark: SparkSession
) -> None:
    with pytest.raises(OptionsError, match="batches=2: expected 1 for a URI"):
        FileSink(files.uri, batches=2)
    with pytest.raises(OptionsError, match=r"path='s3a://bucket/out': .* Hadoop says: "):
        FileSink("s3a://bucket/out", spark=spark)


def test_a_store_that_replaces_files_is_refused(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    def replace(path: HadoopPath, data: bytes) -> None:
        files._store.put(urlsplit(str(path)).path, data)

    monkeypatch.setattr(HadoopPath, "create", replace)
    with pytest.raises(SinkError, match=r"the store replaces a file that exists.*checkpointFileManagerClass"):
        files.sink()
