"""The command as a whole: what a user sees first."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.rig import Run, environment, plain, run_process

COMMANDS = [("scenario", "list"), ("scenario", "run"), ("verify",), ("replay",), ("bench",), ("skip",)]


def test_help_names_each_command_shows_examples_and_lists_the_exit_codes(run: Run) -> None:
    result = run("--help")
    assert result.exit_code == 0
    text = plain(result.stdout)
    for listed in ("scenario Run scenarios", "verify Run a pipeline", "replay Run a saved failure"):
        assert f" {listed} " in text
    assert "headrace verify headrace_scenarios.zeitgeist:pipeline" in text
    assert "0 holds, 1 violated, 2 usage error, 3 unknown, 130 interrupted" in text


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_of_each_command_shows_an_example_of_it(run: Run, command: tuple[str, ...]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    _, examples = plain(result.stdout).split(" Example", 1)
    assert f"headrace {' '.join(command)}" in examples


def test_without_arguments_it_shows_help_and_exits_2(run: Run) -> None:
    result = run()
    assert result.exit_code == 2
    assert "Usage: headrace" in plain(result.stdout + result.stderr)


def test_unknown_command_and_unknown_option_exit_2(run: Run) -> None:
    assert run("veryfi").exit_code == 2
    assert run("verify", "views:pipeline", "--exmaples", "3").exit_code == 2


def test_a_command_is_suggested_and_libraries_are_imported_only_when_needed(tmp_path: Path) -> None:
    program = "import sys, headrace_cli.main as main\ntry: main.app(['veryfi'])\nfinally: print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "'verify'" in plain(done.stderr)) == (2, True)
    assert {"hypothesis", "networkx", "simpy", "headrace"} & set(done.stdout.split()) == set()


def test_version_is_printed(run: Run) -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert re.fullmatch(r"headrace(,)? (\d+\.\d+\.\d+\S*|not installed)\n", result.stdout)


def test_as_a_process_it_runs_a_scenario_and_returns_its_exit_code(tmp_path: Path) -> None:
    done = run_process("scenario", "run", "straggler-checkpoint", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "searches/0:0>A#0>B#0" in done.stdout
    assert run_process("scenario", "run", "nope", cwd=tmp_path).returncode == 2


def test_output_into_a_pipe_has_no_colours_and_no_trailing_blanks(tmp_path: Path) -> None:
    done = run_process("scenario", "run", "straggler-checkpoint", cwd=tmp_path)
    assert "\x1b" not in done.stdout
    assert [line for line in done.stdout.splitlines() if line != line.rstrip()] == []
