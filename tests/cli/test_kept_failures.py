"""Failures are kept beside the project and tried first the next time, until a run shows that they are gone."""

import json
from pathlib import Path
from typing import Any

import pytest

from headrace_properties.kept_failures import KeptFailures
from headrace_properties.search.strategy import search
from headrace_properties.target import SparkSource
from tests.cli.rig import Run, plain, run_process, save_zombie

KEPT = Path(".headrace/failures")
BROKEN = ("verify", "views:pipeline", "--without", "sequencers", "--seed", "2")

CURSED = """
import views

class Cursed(views.CountViews):
    strict = True

    def process_record(self, context, record):
        super().process_record(context, record)
        if self.strict and record.late:
            raise ValueError("cursed")

pipeline = views.build(Cursed(), "cursed")

def feed(seed):
    return views.feed(seed)
"""
"""Fails on late records, which only occur with faults."""


_found: list[bytes] = []


@pytest.fixture
def kept(folder: Path, run: Run) -> Path:
    """A failure of `BROKEN` that is kept. It is searched for once, as that takes seconds."""
    path = KEPT / "views.pipeline" / "headrace-failure-1.json"
    if not _found:
        assert run(*BROKEN).exit_code == 1
        (found,) = path.parent.glob("*.json")
        _found.append(found.read_bytes())
        found.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(_found[0])
    return path


def no_search(*_: object, **__: object) -> Any:
    raise AssertionError("a search was begun")


def test_a_failure_is_tried_first_the_next_time(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = run(*BROKEN)
    (kept,) = (KEPT / "views.pipeline").glob("*.json")
    assert f"headrace replay {kept}" in plain(first.stdout)
    monkeypatch.setattr("headrace_properties.pipeline_target.search_with", no_search)
    again = run(*BROKEN[:-2])
    assert (first.exit_code, again.exit_code) == (1, 1)
    assert f"Kept failure {kept}: violated again: " in plain(again.stdout)
    assert f"headrace replay {kept}" in plain(again.stdout)
    monkeypatch.setattr("headrace_properties.pipeline_target.search_with", search)
    assert "Kept failure" not in run("verify", "views:pipeline", "--examples", "3").stdout, "another protocol"
    assert kept.exists()


def test_a_passing_failure_is_retired_by_name(folder: Path) -> None:
    (folder / "cursed.py").write_text(CURSED)
    verify = ("verify", "cursed:pipeline", "--seed", "1", "--feeds", "4", "--examples")
    assert run_process(*verify, "60", cwd=folder).returncode == 1
    (kept,) = (folder / KEPT / "cursed.pipeline").glob("*.json")
    again = run_process(*verify, "60", cwd=folder)
    assert (again.returncode, "violated again" in again.stdout, kept.exists()) == (1, True, True)
    (folder / "cursed.py").write_text(CURSED.replace("strict = True", "strict = False"))
    mended = run_process(*verify, "5", "--json", cwd=folder)
    (said,) = json.loads(mended.stdout)["kept_failures"]
    retired = kept.parent / "retired"
    assert said == (
        f"{kept.relative_to(folder)}: no longer violates error; its code changed; moved to {retired.relative_to(folder)}"
    )
    assert (mended.returncode, [*kept.parent.glob("*.json")], [*retired.iterdir()]) == (
        0, [], [retired / kept.name],
    )  # fmt: skip


def test_an_undecided_failure_stays(folder: Path, run: Run) -> None:
    """The promise that it broke is not checked this time."""
    path = save_zombie(folder)
    content = json.loads(path.read_text()) | {"found": {"promise": {"none such": "x"}}}
    content["source"]["protocol"] = "sound"
    kept = folder / KEPT / "views.pipeline" / "headrace-failure-0.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps(content))
    said = plain(run("verify", "views:pipeline", "--examples", "3").stdout)
    assert "kept; nothing can be said of the promise none such, which this run does not exercise" in said
    assert kept.exists()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"kept": [0, 999]}, "kept has 999; the number of records in the input is only"),
        ({"plan": {"options": {"workers": 10**9}}}, "plan.options.workers is 1000000000; expected"),
    ],
    ids=["records", "workers"],
)
def test_an_implausible_failure_is_reported_and_not_run(
    folder: Path, run: Run, change: dict[str, Any], why: str
) -> None:
    content = json.loads(save_zombie(folder).read_text())
    content["source"]["protocol"] = "sound"
    content["trial"] = _changed(content["trial"], change)
    kept = folder / KEPT / "views.pipeline" / "headrace-failure-0.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps(content))
    result = run("verify", "views:pipeline", "--examples", "3", "--json")
    (said,) = json.loads(result.stdout)["kept_failures"]
    assert said.startswith(f"{kept.relative_to(folder)}: skipped, as it cannot be run: {why}")
    assert kept.exists()


def _changed(content: dict[str, Any], change: dict[str, Any]) -> dict[str, Any]:
    return content | {
        name: _changed(content[name], value) if isinstance(value, dict) else value
        for name, value in change.items()
    }


DAMAGED = {
    "cut.json": b'{"format": 5, "source": {"type": "pipel',
    "deep.json": b'{"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "empty.json": b"",
    "newer.json": b'{"format": 6}',
    "headrace-failure-0.json": b"\xff",
}


def damage(store: Path) -> list[Path]:
    """Put files into the store that cannot be read."""
    store.mkdir(parents=True, exist_ok=True)
    for name, data in DAMAGED.items():
        (store / name).write_bytes(data)
    (store / "dangling.json").symlink_to(store / "gone")
    (store / "folder.json").mkdir()
    return sorted(path for path in store.iterdir() if path.name not in {"headrace-failure-1.json", "retired"})


def test_what_cannot_be_read_is_told_skipped_and_left_as_it_is(kept: Path, run: Run) -> None:
    """One of seven damaged files lies before the failure, and six behind it."""
    damaged = damage(kept.parent)
    again = run(*BROKEN[:-2])
    said = plain(again.stdout)
    assert (again.exit_code, f"Kept failure {kept}: violated again: " in said) == (1, True)
    assert [path for path in damaged if said.count(f"{path}: skipped, as it cannot be read: ") != 1] == []
    assert sorted(kept.parent.iterdir()) == sorted([kept, *damaged])
    elsewhere = run("verify", "views:pipeline", "--examples", "3", "--json")
    assert elsewhere.exit_code in (0, 3), "none of them says anything about the code"
    assert len(json.loads(elsewhere.stdout)["kept_failures"]) == len(damaged)


def test_a_failure_of_another_input_function_is_left_alone(folder: Path, run: Run) -> None:
    content = json.loads(save_zombie(folder, "short_feed").read_text())
    kept = folder / KEPT / "views.pipeline" / "headrace-failure-0.json"
    kept.parent.mkdir(parents=True)
    kept.write_text(json.dumps(content))
    (kept.parent / ".headrace-failure-1.7.part.json").write_text("the rest of a process that was killed")
    tried = [
        json.loads(
            run(
                "verify", "views:pipeline", "--examples", "3", "--without", "sequencers", "--json", *more
            ).stdout
        )["kept_failures"]
        for more in ((), ("--feed", "short_feed"))
    ]
    assert list(map(len, tried)) == [0, 1]


def test_nothing_is_kept_in_a_home_directory_unasked(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(folder))
    assert run(*BROKEN).exit_code == 1
    assert not (folder / ".headrace").exists()
    assert len(list(folder.glob("headrace-failure-*.json"))) == 1
    assert run(*BROKEN, "--failures", "here", "--force").exit_code == 1
    assert len(list((folder / "here").rglob("headrace-failure-*.json"))) == 1


def test_an_unwritable_directory_is_reported_and_hides_no_verdict(folder: Path, run: Run) -> None:
    (folder / ".headrace").write_text("a file")
    result = run(*BROKEN)
    assert result.exit_code == 1
    assert "Note: .headrace/failures/views.pipeline cannot be written (" in plain(result.stderr)
    assert len(list(folder.glob("headrace-failure-*.json"))) == 1


def test_a_replay_whose_code_or_input_has_changed_says_so_and_exits_3(folder: Path) -> None:
    """The helper and the pipeline are in different modules."""
    (folder / "cursed.py").write_text(CURSED)
    search = ("--seed", "1", "--feeds", "4", "--examples", "60")
    run_process("verify", "cursed:pipeline", *search, "--save", "a.json", cwd=folder)
    views = (folder / "views.py").read_text()
    (folder / "views.py").write_text(views.replace("value=seed", "value=seed + 1"))
    again = run_process("replay", "a.json", cwd=folder)
    assert (again.returncode, "VIOLATED again" in again.stdout) == (1, True), "still violated is violated"
    (folder / "views.py").write_text(views)
    (folder / "cursed.py").write_text(CURSED.replace("strict = True", "strict = False"))
    mended = run_process("replay", "a.json", cwd=folder)
    assert (mended.returncode, mended.stdout.splitlines()[0]) == (
        3, "UNKNOWN: nothing is violated, but the code has changed since",
    )  # fmt: skip
    document = json.loads(run_process("replay", "a.json", "--json", cwd=folder).stdout)
    assert (document["result"], document["changed"]) == ("unknown", ["code"])
    (folder / "views.py").write_text(views.replace("value=seed", "value=seed + 1"))
    document = json.loads(run_process("replay", "a.json", "--json", cwd=folder).stdout)
    assert document["changed"] == ["code", "input"]


def test_line_ends_that_git_has_converted_are_no_change_of_the_code(folder: Path, run: Run) -> None:
    path = save_zombie(folder)
    source = (folder / "views.py").read_bytes()
    (folder / "views.py").write_bytes(b"\xef\xbb\xbf" + source.replace(b"\n", b"\r\n"))
    assert json.loads(run("replay", path.name, "--json").stdout)["changed"] == []
    (folder / "views.py").write_bytes(source + b"# another line\r\n")
    assert json.loads(run("replay", path.name, "--json").stdout)["changed"] == ["code"]


def test_a_spark_jobs_store_is_read_past_what_cannot_be_read(tmp_path: Path) -> None:
    kept = KeptFailures(tmp_path, SparkSource("job:sink"))
    damaged = damage(kept.folder)
    assert kept.load() == ()
    assert [line.partition(": skipped, as it cannot be read: ")[0] for line in kept.unreadable()] == list(
        map(str, damaged)
    )
    assert kept.unreadable() == (), "told once"
