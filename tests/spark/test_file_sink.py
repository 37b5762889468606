"""Files on Spark: each batch once and whole, one writer at a time (MillWheel 6.1.1, 6.2); without Spark."""

from collections.abc import Callable
from pathlib import Path

import pytest

from headrace import OptionsError, Pipeline
from headrace.spark.errors import SparkHostError
from headrace.spark.io_errors import FencedWriterError
from headrace.spark.sinks.file_sink import FileSink
from headrace.spark.sinks.job_sinks import Sinks, TypedSink


class Frame:
    """What a sink uses of a DataFrame: it writes a directory of one file. ``meanwhile``: what happens while Spark computes."""

    def __init__(self, text: str, meanwhile: Callable[[], object] = lambda: None) -> None:
        self.text = text
        self.meanwhile = meanwhile
        self.computed = 0
        self._format = ""

    @property
    def write(self) -> "Frame":
        return self

    def format(self, name: str) -> "Frame":
        self._format = name
        return self

    def mode(self, _name: str) -> "Frame":
        return self

    def save(self, path: str | None = None) -> None:
        self.computed += 1
        self.meanwhile()
        if self._format == "noop":
            return
        assert path is not None
        Path(path).mkdir(parents=True)  # as Spark does, with all that is missing on the way
        Path(path, "part-0").write_text(self.text)


def put(sink: FileSink, batch: int, text: str, meanwhile: Callable[[], object] = lambda: None) -> bool:
    frame = Frame(text, meanwhile)
    written = sink.write(frame, "q", batch)
    assert frame.computed == 1
    return written


def seen(path: Path) -> dict[str, str]:
    """As Spark reads it: without what begins with an underscore."""
    files = [file for file in sorted(path.rglob("part-*")) if "_writers" not in file.relative_to(path).parts]
    return {str(file.parent.relative_to(path)): file.read_text() for file in files}


def test_a_batch_that_comes_again_is_computed_and_the_first_one_stands(tmp_path: Path) -> None:
    sink = FileSink(tmp_path)
    assert [put(sink, 0, "a"), put(sink, 0, "other"), put(sink, 1, "b")] == [True, False, True]
    assert [put(FileSink(tmp_path), 1, "other"), put(FileSink(tmp_path), 2, "c")] == [False, True]
    assert seen(tmp_path) == {"query=q/batch=0": "a", "query=q/batch=1": "b", "query=q/batch=2": "c"}


def test_what_is_half_written_is_not_seen(tmp_path: Path) -> None:
    def dies() -> None:
        assert seen(tmp_path) == {}
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        put(FileSink(tmp_path), 0, "a", dies)
    assert seen(tmp_path) == {}
    assert put(FileSink(tmp_path), 0, "a")


def test_a_zombie_is_refused_after_the_query_was_started_again(tmp_path: Path) -> None:
    zombie = FileSink(tmp_path)
    put(zombie, 0, "a")
    successor = FileSink(tmp_path)
    frame = Frame("z")
    with pytest.raises(FencedWriterError) as caught:
        zombie.write(frame, "q", 1)
    assert (caught.value.epoch, caught.value.latest_epoch, frame.computed) == (1, 2, 0)
    put(successor, 1, "b")
    assert seen(tmp_path) == {"query=q/batch=0": "a", "query=q/batch=1": "b"}


@pytest.mark.parametrize("successor_writes", [True, False])
def test_a_zombie_that_computes_while_it_is_replaced_writes_nothing(
    tmp_path: Path, *, successor_writes: bool
) -> None:
    zombie = FileSink(tmp_path)

    def replace() -> None:
        successor = FileSink(tmp_path)
        if successor_writes:
            put(successor, 0, "successor's")

    with pytest.raises(FencedWriterError):
        put(zombie, 0, "zombie's", replace)
    assert seen(tmp_path) == ({"query=q/batch=0": "successor's"} if successor_writes else {})


@pytest.mark.parametrize("renames", [0, 1])
def test_a_zombie_that_is_replaced_between_its_two_renames_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, renames: int
) -> None:
    zombie, rename, seen_renames = FileSink(tmp_path), Path.rename, list[Path]()

    def stalled(path: Path, target: Path) -> Path:
        if len(seen_renames) == renames:
            seen_renames.append(path)
            put(FileSink(tmp_path), 0, "successor's")
        seen_renames.append(path)
        return rename(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", stalled)
        with pytest.raises(FencedWriterError):
            put(zombie, 0, "zombie's")
    assert seen(tmp_path) == {"query=q/batch=0": "successor's"}


def test_what_a_fenced_writer_left_is_cleared_away(tmp_path: Path) -> None:
    zombie = FileSink(tmp_path)
    draft = zombie._gate(zombie.epoch) / "draft"
    draft.mkdir()
    FileSink(tmp_path)
    assert not list(tmp_path.rglob("draft"))


def test_writers_by_name_share_a_path(tmp_path: Path) -> None:
    one, two = FileSink(tmp_path, writer="one"), FileSink(tmp_path, writer="two/2")
    assert [put(one, 0, "a"), put(two, 0, "b"), put(one, 1, "c")] == [True] * 3
    assert seen(tmp_path) == {
        "query=q-one/batch=0": "a",
        "query=q-one/batch=1": "c",
        "query=q-two%2F2/batch=0": "b",
    }


def test_a_place_that_knows_no_rename_and_other_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="path='s3://bucket/out': expected a directory"):
        FileSink("s3://bucket/out")
    with pytest.raises(OptionsError, match="format='xml': expected one of json, parquet"):
        FileSink(tmp_path, "xml")
    assert FileSink(f"file://{tmp_path}").path == tmp_path


def test_one_sink_for_two_streams_is_refused(tmp_path: Path) -> None:
    """It would take the second stream's rows for the first one's, come again."""
    pipeline, sink = Pipeline("mail"), FileSink(tmp_path)
    with pytest.raises(SparkHostError, match="one FileSink is given for both 'a' and 'b'"):
        Sinks({"a": sink, "b": TypedSink(sink, "n long")}).check(pipeline, ["a", "b"])
    with pytest.raises(SparkHostError, match="both 'a' and 'the History'"):
        Sinks({"a": sink}, sink).check(pipeline, ["a"])
    Sinks({"a": sink, "b": FileSink(tmp_path, writer="b")}).check(pipeline, ["a", "b"])
