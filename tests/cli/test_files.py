"""Files that commands write: none is replaced unasked, none is left incomplete, and none hides a verdict."""

import errno
import json
import os
from collections import Counter
from pathlib import Path

import pytest

from headrace import Computation, Context, Pipeline, Record
from headrace_cli.runs.output_file import output_files, write_outputs
from headrace_cli.terminal.exit import ExitCode
from headrace_cli.terminal.files import OutputFiles, write_bytes
from headrace_cli.terminal.usage_errors import ExistingFileError, UnwritableFileError
from headrace_properties.reference import Emitted
from headrace_properties.search.guard import unguarded
from tests.cli.rig import Run, plain, save_zombie


def fails(path: Path) -> None:
    with unguarded():  # it stands for what a command does, and is no user's code
        path.write_bytes(b"half of it")
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_an_existing_file_is_replaced_only_by_force(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("precious")
    with pytest.raises(
        ExistingFileError, match=r"a.json: it already exists\. .* with --save, or replace .* --force"
    ):
        OutputFiles().claim(path, "--save")
    files = OutputFiles(force=True)
    files.claim(path, "--save")
    assert files.write(path, "--save", write_bytes(b"new"))
    assert (path.read_bytes(), files.saved, files.failed) == (b"new", [path], False)


def test_a_file_that_appeared_during_the_work_is_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files, path = OutputFiles(), tmp_path / "a.json"
    files.claim(path, "--save")
    path.write_text("precious")
    assert not files.write(path, "--save", write_bytes(b"new"))
    assert path.read_text() == "precious"
    assert "it already exists" in capsys.readouterr().err


def test_a_file_that_the_command_reads_is_not_written_even_by_force(tmp_path: Path) -> None:
    path, link = tmp_path / "a.json", tmp_path / "link"
    path.write_text("precious")
    link.symlink_to(path)
    for name in (path, link, tmp_path / "x" / ".." / "a.json"):
        (tmp_path / "x").mkdir(exist_ok=True)
        with pytest.raises(UnwritableFileError, match="this command reads it"):
            OutputFiles(force=True, inputs=[path]).claim(name, "--html")


def test_two_options_cannot_name_the_same_file(tmp_path: Path) -> None:
    files = OutputFiles()
    files.claim(tmp_path / "a", "--html")
    with pytest.raises(UnwritableFileError, match=r"--html names it, too\. Name another file with --svg"):
        files.claim(tmp_path / "a", "--svg")


@pytest.mark.parametrize("before", ["", "precious"])
def test_a_full_disk_leaves_no_half_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], before: str
) -> None:
    files, path = OutputFiles(force=True), tmp_path / "a.json"
    if before:
        path.write_text(before)
    assert not files.write(path, "--save", fails)
    assert "a.json: No space left on device" in " ".join(capsys.readouterr().err.split())
    assert [path.read_text() for path in tmp_path.iterdir()] == ([before] if before else [])


def test_a_missing_file_turns_success_into_wrong_use_and_hides_no_violation(tmp_path: Path) -> None:
    files = OutputFiles()
    assert files.code(ExitCode.HOLDS) is ExitCode.HOLDS
    files.write(tmp_path / "a", "--html", fails)
    assert [files.code(code) for code in (ExitCode.HOLDS, ExitCode.UNKNOWN, ExitCode.VIOLATED)] == [
        ExitCode.WRONG_USE, ExitCode.WRONG_USE, ExitCode.VIOLATED,
    ]  # fmt: skip


def test_a_device_is_written_in_place_and_a_link_stays_one(tmp_path: Path) -> None:
    files = OutputFiles(force=True)
    files.claim(Path("/dev/null"), "--html")
    files.claim(Path("/dev/null"), "--svg")
    assert files.write(Path("/dev/null"), "--html", write_bytes(b"x"))
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o600)
    link.symlink_to(target)
    assert files.write(link, "--html", write_bytes(b"new"))
    assert (link.is_symlink(), target.read_text(), target.stat().st_mode & 0o777) == (True, "new", 0o600)


NAMES = ["../escaped", "a/b", "..", "counts", "per cent%2F", "naïve"]


def test_no_name_of_a_stream_leads_out_of_the_directory(tmp_path: Path) -> None:
    class Forward(Computation):
        def process_record(self, context: Context, record: Record) -> None:
            context.produce(NAMES[0], record.value)

    pipeline = Pipeline("names")
    pipeline.injector("in")
    pipeline.add(Forward(), name="forward", inputs=["in"], outputs=NAMES)
    folder = tmp_path / "out"
    folder.mkdir()
    written = output_files(folder, pipeline)
    write_outputs(folder, Counter(Emitted(name, "", b"1", 0) for name in NAMES), pipeline, OutputFiles())
    assert len(set(written.values())) == len(NAMES)
    assert sorted(tmp_path.rglob("*.jsonl")) == sorted(written.values())
    assert {file.parent for file in written.values()} == {folder}
    assert written["counts"].name == "counts.jsonl"


# The commands


def test_replay_never_writes_over_its_file(folder: Path, run: Run) -> None:
    path = save_zombie(folder)
    before = path.read_bytes()
    for extra in ((), ("--force",)):
        result = run("replay", path.name, "--html", path.name, *extra)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "this command reads it" in result.stderr
    assert path.read_bytes() == before


def test_run_never_writes_over_its_input_or_what_it_compares_with(folder: Path, run: Run) -> None:
    line = json.dumps({"stream": "views", "value": 1, "timestamp": 1, "key": "a"}) + "\n"
    (folder / "counts.jsonl").write_text(line)
    for reading in (("--input", "counts.jsonl"), ("--compare", "counts.jsonl"), ("--compare", ".")):
        for output in ("counts.jsonl", "."):
            result = run("run", "views:pipeline", *reading, "--output", output, "--force")
            assert (result.exit_code, result.stdout) == (2, ""), (reading, output)
            assert "counts.jsonl: this command reads it" in result.stderr
    assert (folder / "counts.jsonl").read_text() == line


def test_each_command_refuses_to_replace_a_file_before_it_begins(folder: Path, run: Run) -> None:
    (folder / "old.svg").write_text("precious")
    (folder / "counts.jsonl").write_text("precious")
    for command in (
        ("verify", "views:pipeline", "--save", "old.svg"),
        ("replay", str(save_zombie(folder)), "--svg", "old.svg"),
        ("paper", "scenario", "run", "zombie-timer", "--svg", "old.svg"),
        ("paper", "scenario", "run", "dataflow-fig14", "--chart", "old.svg"),
        ("run", "views:pipeline", "--output", "."),
        ("paper", "report", "--only", "figure-13", "--quick", "--output", "old.svg"),
    ):
        result = run(*command)
        assert (result.exit_code, result.stdout) == (2, ""), command
        assert "it already exists" in result.stderr, command
    assert (folder / "old.svg").read_text() == (folder / "counts.jsonl").read_text() == "precious"


def test_the_verdict_of_a_replay_is_printed_though_its_picture_cannot_be_saved(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace_cli.reports.pictures.write_bytes", lambda _: fails)
    result = run("replay", str(save_zombie(folder)), "--svg", "a.svg")
    assert result.exit_code == 1
    assert result.stdout.startswith("VIOLATED again: ")
    assert "a.svg: No space left on device" in " ".join(result.stderr.split())
    assert not list(folder.glob("*.svg*"))


def test_a_failure_that_was_saved_before_is_named_again_and_another_is_not_replaced(
    folder: Path, run: Run
) -> None:
    command = ("verify", "views:pipeline", "--without", "sequencers", "--seed", "2")
    assert run(*command).exit_code == 1
    (saved,) = folder.rglob("headrace-failure-*.json")
    assert run(*command).exit_code == 1
    assert list(folder.rglob("headrace-failure-*.json")) == [saved]
    saved.write_text("edited")
    other = run(*command, "--failures", "elsewhere", "--save", str(saved))
    assert (other.exit_code, saved.read_text()) == (2, "edited")
    unreadable = run(*command)
    assert (unreadable.exit_code, saved.read_text()) == (1, "edited")  # it is named, and the search goes on
    assert f"{saved.relative_to(folder)}: skipped, as it cannot be read" in plain(unreadable.stdout)
