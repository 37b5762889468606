"""Files on Spark: each batch once and whole, one writer at a time (MillWheel 6.1.1, 6.2); without Spark."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headrace import Computation, OptionsError, Pipeline
from headrace.spark.host_errors import SparkHostError
from headrace.spark.io_errors import FencedWriterError
from headrace.spark.sinks import mounted_files
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
        for number in range(self.files):
            Path(path, f"part-{number}").write_text(self.text[number :: self.files])

    files = 1

    @property
    def sparkSession(self) -> "Frame":  # noqa: N802  Spark's name
        return self

    read = sparkSession

    def load(self, paths: list[str]) -> "Frame":
        return Frame("".join(Path(path, "part-0").read_text() for path in paths))

    def coalesce(self, files: int) -> "Frame":
        self.files = files
        return self


def put(sink: FileSink, batch: int, text: str, meanwhile: Callable[[], object] = lambda: None) -> bool:
    frame = Frame(text, meanwhile)
    written = sink.write(frame, "q", batch)
    assert frame.computed == 1
    return written


def seen(path: Path) -> dict[str, str]:
    """As Spark reads it: without what begins with an underscore."""
    files = [file for file in sorted(path.rglob("part-*")) if "_writers" not in file.relative_to(path).parts]
    return {str(file.parent.relative_to(path)): file.read_text() for file in files}


TOGETHER = [(0, "a"), (1, "b"), (2, "c"), (3, "d"), (4, "e"), (5, "f"), (6, "g")]


def test_batches_are_published_together(tmp_path: Path) -> None:
    sink = FileSink(tmp_path, batches=3)
    shown = []
    for batch, text in TOGETHER:
        assert put(sink, batch, text)
        assert not put(sink, batch, "again")
        shown.append(seen(tmp_path))
    first, second = {"query=q/batch=2": "abc"}, {"query=q/batch=5": "def"}
    assert shown == [{}, {}, first, first, first, first | second, first | second]
    sink.publish(Frame(""))
    assert seen(tmp_path) == first | second | {"query=q/batch=6": "g"}
    assert not put(sink, 1, "restored from a backup")
    assert not [path for path in tmp_path.rglob("part-*") if "_writers" in path.parts]


def test_a_sink_with_another_number_of_batches_goes_on(tmp_path: Path) -> None:
    for batches, (batch, text) in zip((3, 3, 1, 2, 2, 9, 2), TOGETHER, strict=True):
        put(FileSink(tmp_path, batches=batches), batch, text)
    assert seen(tmp_path) == {
        "query=q/batch=1": "ab", "query=q/batch=2": "c", "query=q/batch=4": "de", "query=q/batch=6": "fg"
    }  # fmt: skip


def test_large_files_are_not_made_larger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mounted_files, "_FILE_BYTES", 4)
    sink = FileSink(tmp_path, batches=2)
    put(sink, 0, "abcde")
    put(sink, 1, "fgh")
    files = sorted((tmp_path / "query=q" / "batch=1").iterdir())
    assert ["".join(file.read_text()) for file in files] == ["aceg", "bdfh"]


@pytest.mark.parametrize("at", range(24))
def test_a_driver_that_dies_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    """It dies at each of its steps, before or after it. The next one gets the batch again."""
    steps = 0

    def dying(step: Callable[..., object]) -> Callable[..., object]:
        def run(*arguments: object, **options: object) -> object:
            nonlocal steps
            steps += 1
            if steps == at // 2 + 1 and at % 2 == 0:
                raise KeyboardInterrupt
            result = step(*arguments, **options)
            if steps == at // 2 + 1:
                raise KeyboardInterrupt
            return result

        return run

    sink = FileSink(tmp_path, batches=3)
    last = 0

    def run_all() -> None:
        nonlocal last
        for last, text in TOGETHER[:6]:
            put(sink, last, text)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", dying(Path.rename))
        patched.setattr(shutil, "rmtree", dying(shutil.rmtree))
        with pytest.raises(KeyboardInterrupt):
            run_all()
    sink = FileSink(tmp_path, batches=3)
    for batch, text in TOGETHER[last:]:
        put(sink, batch, text)
        sofar = "".join(seen(tmp_path).values())
        assert sofar == "abcdefg"[: len(sofar)]
    sink.publish(Frame(""))
    assert "".join(seen(tmp_path).values()) == "abcdefg"


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
    draft = tmp_path / "_writers" / "writer-" / f"{zombie.epoch:06d}" / "draft"
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


def test_other_formats_and_numbers_of_batches_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionsError, match="batches=0: expected at least 1"):
        FileSink(tmp_path, batches=0)
    with pytest.raises(
        OptionsError, match="batches=2: expected 1 for json; only orc and parquet can be merged"
    ):
        FileSink(tmp_path, "json", batches=2)
    with pytest.raises(OptionsError, match="format='xml': expected one of json, parquet"):
        FileSink(tmp_path, "xml")
    assert FileSink(f"file://{tmp_path}").path == tmp_path


def test_one_sink_for_two_streams_is_refused(tmp_path: Path) -> None:
    """It would take the second stream's rows for the first one's, come again."""
    pipeline, sink = Pipeline("mail"), FileSink(tmp_path)
    pipeline.injector("letters")
    pipeline.add(Computation(), name="sorter", inputs=["letters"], outputs=["a", "b"])
    with pytest.raises(SparkHostError, match="one FileSink is given for both 'a' and 'b'"):
        Sinks({"a": sink, "b": TypedSink(sink, "n long")}).check(pipeline)
    with pytest.raises(SparkHostError, match="both 'a' and 'the History'"):
        Sinks({"a": sink}, sink).check(pipeline)
    Sinks({"a": sink, "b": FileSink(tmp_path, writer="b")}).check(pipeline)
