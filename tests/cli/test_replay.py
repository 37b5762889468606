"""``millrace replay``: the same failure, byte for byte, or the news that something has changed."""

import json
from pathlib import Path
from typing import Any

import pytest

from millrace_properties.verification import ReplayFile
from tests.cli.rig import MODULES, Run, run_process, save_zombie


def change(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def test_the_recorded_run_is_run_again_byte_for_byte_with_the_events_that_prove_it(
    folder: Path, run: Run
) -> None:
    """A paused worker is replaced, wakes up, and writes: the store has no sequencers to refuse it."""
    result = run("replay", str(save_zombie(folder)))
    assert result.exit_code == 1
    assert result.stdout.startswith("VIOLATED again: ")
    assert "The run is the recorded one, byte for byte (History digest " in result.stdout
    assert "views:pipeline, input feed(0), protocol: without sequencers\n" in result.stdout
    assert (
        "\n  0.768750s pause process=worker-0 for=1.220000s\n  5.000000s everything heals\n  seed 0\n"
        in result.stdout
    )
    _, finding = result.stdout.split("\nS6, only the latest owner writes: VIOLATED\n")
    assert "  Witness:\n" in finding
    assert "store: Applied computation='counter'" in finding


def test_another_process_replays_the_same_bytes(folder: Path) -> None:
    done = run_process("replay", save_zombie(folder).name, "--json", cwd=folder)
    assert done.returncode == 1
    assert json.loads(done.stdout)["identical"] is True


def test_json_has_verdicts_and_whole_witnesses(folder: Path, run: Run) -> None:
    path = save_zombie(folder)
    result = run("replay", str(path), "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert document["result"] == "violated"
    assert document["digest"] == document["recorded_digest"] == json.loads(path.read_text())["digest"]
    assert document["fault_schedule"] == ["0.768750s pause process=worker-0 for=1.220000s"]
    assert document["invariants"]["S6"]["witness"][-1]["type"] == "Applied"
    assert document["error"] == ""


def test_code_that_has_changed_since_is_noticed(folder: Path, run: Run) -> None:
    path = save_zombie(folder)
    change(path, digest="0" * 64)
    result = run("replay", str(path))
    assert result.exit_code == 1
    assert (
        "The run is not the recorded one: the pipeline, its input or Millrace has changed since."
        in result.stdout
    )
    document = json.loads(run("replay", str(path), "--json").stdout)
    assert document["identical"] is False


def test_a_failure_that_was_mended_exits_0(folder: Path, run: Run) -> None:
    path = save_zombie(folder)
    change(path, protocol="sound")
    result = run("replay", str(path))
    assert result.exit_code == 0
    assert result.stdout.startswith("HOLDS: this run violates nothing any more\n")
    assert " Recorded was a violation of " in " ".join(result.stdout.split())


def test_user_code_that_fails_fails_again_until_it_is_mended(folder: Path) -> None:
    found = run_process("verify", "failing:pipeline", "--examples", "3", "--save", "failing.json", cwd=folder)
    assert found.returncode == 1
    again = run_process("replay", "failing.json", cwd=folder)
    assert again.returncode == 1
    assert (
        "VIOLATED again: the run stopped with an error\nThe run stopped with the recorded error.\n"
        in again.stdout
    )
    (folder / "failing.py").write_text(MODULES["views"])
    assert run_process("replay", "failing.json", cwd=folder).returncode == 0


def test_the_feed_that_was_named_is_replayed(folder: Path, run: Run) -> None:
    path = save_zombie(folder, "short_feed")
    document = json.loads(run("replay", str(path), "--json").stdout)
    assert (document["feed"], document["identical"]) == ("short_feed", True)


def test_a_replay_file_is_readable_without_the_command(folder: Path) -> None:
    """It is a `ReplayFile` with one more field, which a strict reader of that type may ignore."""
    content = json.loads(save_zombie(folder).read_text())
    assert set(ReplayFile.__struct_fields__) <= set(content)
    assert content["plan"]["faults"]["faults"][0]["type"] == "Pause"


CORRUPT = {
    "": "Input data was truncated",
    "{": "Input data was truncated",
    "[]": "Expected `object`, got `array`",
    "{}": "Object missing required field `format`",
    '{"format": 9}': "it has format 9, and this version of Millrace reads formats up to 2",
    '{"format": 1}': "Object missing required field `pipeline`",
    '{"format": 1, "pipeline": 3}': "Expected `str`, got `int` - at `$.pipeline`",
}


@pytest.mark.parametrize(("content", "reason"), CORRUPT.items())
def test_a_file_that_is_no_replay_file_exits_2_and_says_why(
    folder: Path, run: Run, content: str, reason: str
) -> None:
    (folder / "x.json").write_text(content)
    result = run("replay", "x.json")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"Error: x.json is not a replay file that can be read: {reason}\n"


def test_bytes_that_are_no_text_exit_2(folder: Path, run: Run) -> None:
    (folder / "x.json").write_bytes(bytes(range(256)))
    result = run("replay", "x.json")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: x.json is not a replay file that can be read: ")


def test_a_missing_file_and_a_directory_exit_2(folder: Path, run: Run) -> None:
    for path, reason in (("x.json", "No such file or directory"), (".", "Is a directory")):
        result = run("replay", path)
        assert result.exit_code == 2
        assert result.stderr == f"Error: {path} is not a replay file that can be read: {reason}\n"


def test_a_protocol_that_there_is_no_more_exits_2(folder: Path, run: Run) -> None:
    path = save_zombie(folder)
    change(path, protocol="without luck")
    result = run("replay", path.name)
    assert result.exit_code == 2
    assert "there is no protocol 'without luck'" in result.stderr


def test_a_pipeline_that_can_not_be_imported_exits_2(folder: Path, run: Run) -> None:
    path = save_zombie(folder)
    change(path, pipeline="moved:pipeline")
    result = run("replay", path.name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert "there is no module 'moved', neither in the current directory nor installed" in result.stderr
