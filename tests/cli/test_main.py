"""The command as a whole: what a user sees first."""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from headrace_benchmarks.section8.experiment import FULL, QUICK
from headrace_benchmarks.section8.experiments import EXPERIMENTS
from headrace_benchmarks.section8.markdown import PLOTS
from headrace_cli.main import app
from headrace_cli.options import choices
from headrace_cli.options.names import PARTS
from headrace_cli.terminal.defects import report_defect
from headrace_properties.kept_failures import FOLDER
from headrace_properties.search.limits import CALL_S
from headrace_properties.search.scope import USUAL_KINDS
from headrace_properties.search.steering import FEEDS
from headrace_sim.faults import Breach
from tests.cli.rig import Run, environment, plain, run_process

COMMANDS = [
    ("paper", "scenario", "list"),
    ("paper", "scenario", "run"),
    ("verify",),
    ("replay",),
    ("explore",),
    ("paper", "bench"),
    ("job", "skip"),
]
FORMER = {
    "serve": "job serve",
    "state": "job state",
    "skip": "job skip",
    "spark-submit": "job submit",
    "scenario": "paper scenario",
    "report": "paper report",
    "bench": "paper bench",
}


def test_help_names_each_command_shows_examples_and_lists_the_exit_codes(run: Run) -> None:
    result = run("--help")
    assert result.exit_code == 0
    text = plain(result.stdout)
    for listed in ("job Serve a job", "verify Run a pipeline", "replay Run a saved failure"):
        assert f" {listed} " in text
    assert "headrace verify headrace_scenarios.zeitgeist:pipeline" in text
    assert "0 holds, 1 violated, 2 usage error, 3 unknown, 70 a defect of Headrace, 130 interrupted" in text


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_of_each_command_shows_an_example_of_it(run: Run, command: tuple[str, ...]) -> None:
    result = run(*command, "--help")
    assert result.exit_code == 0
    _, examples = plain(result.stdout).split(" Example", 1)
    assert f"headrace {' '.join(command)}" in examples


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_help_of_each_command_that_lists_exit_codes_lists_that_of_a_defect(
    run: Run, command: tuple[str, ...]
) -> None:
    text = plain(run(*command, "--help").stdout)
    assert ("Exit codes" in text) is text.rstrip().endswith("; 70 a defect of Headrace")


@pytest.mark.parametrize(
    ("command", "panels"),
    [
        ("verify", ["Arguments", "Options", "General", "Search", "Small", "Spark", "Output"]),
        ("chaos", ["Arguments", "Options", "Faults", "Spark", "General"]),
        ("mutate", ["Arguments", "Options", "Sample", "Judging"]),
        ("paper report", ["Options", "Measure", "Check"]),
    ],
)
def test_help_of_a_command_of_many_options_has_them_in_panels(
    run: Run, command: str, panels: list[str]
) -> None:
    lines = run(*command.split(), "--help").stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("╭")] == panels
    general = next((number for number, line in enumerate(lines) if " General " in line), None)
    assert command != "verify" or (general and lines[general + 1].startswith("│ --examples,"))


def test_each_command_calls_the_number_of_its_runs_examples() -> None:
    former = {"--max-examples", "--runs", "--seeds", "--plans"}
    for name in ("verify", "mutants", "mutate", "compare", "recheck", "paper report", "paper bench"):
        command: Any = get_command(app)
        for word in name.split():
            command = command.commands[word]
        (option,) = (option for option in command.params if former & set(option.opts))
        assert option.opts[0] == "--examples", name


def test_commands_options_and_values_are_completed(tmp_path: Path) -> None:
    for words, wanted in (("headrace verif", "verify"), ("headrace verify --search pc", "pct")):
        variables = {"_HEADRACE_COMPLETE": "complete_bash", "COMP_WORDS": words}
        number = str(len(words.split()) - 1)
        done = subprocess.run(
            [sys.executable, "-m", "headrace_cli"],
            cwd=tmp_path,
            env={**environment(), **variables, "COMP_CWORD": number},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stdout.split() == [wanted]


ESCAPING = {
    "an error": "raise LookupError('no such thing')",
    "another kind of error": "raise BaseException('no such thing')",
    "a recursion without end": "def again(): again()\nagain()",
    "a reader at the end of its input": "input()",
    "a closed pipe": "import errno, os\nraise OSError(errno.EPIPE, 'no such thing')",
}


@pytest.mark.parametrize("source", ESCAPING.values(), ids=list(ESCAPING))
def test_what_escapes_a_command_is_a_defect_of_ours_and_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    def fail(**_: object) -> None:
        exec(source, {})  # noqa: S102  it stands above

    monkeypatch.setattr("headrace_cli.actions.verify_action.OutputFiles", fail)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    result = CliRunner().invoke(app, ["verify", "views:pipeline"])
    assert result.exit_code == 70
    assert "This is a defect of Headrace, not of your job, and no verdict." in plain(result.stderr)
    (report,) = tmp_path.glob("headrace-defect-*.txt")
    assert str(report) in result.stderr
    assert "Traceback (most recent call last)" in report.read_text()
    assert "Traceback" not in result.stderr


def test_a_report_that_cannot_be_written_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    report_defect(LookupError("\ud800"))
    assert "LookupError" in capsys.readouterr().err


def test_without_arguments_it_shows_help_and_exits_2(run: Run) -> None:
    result = run()
    assert result.exit_code == 2
    assert "Usage: headrace" in plain(result.stdout + result.stderr)


@pytest.mark.parametrize(("former", "now"), FORMER.items())
def test_a_former_word_is_understood_and_says_the_new_one(run: Run, former: str, now: str) -> None:
    result, renamed = run(former, "--help"), run(*now.split(), "--help")
    assert (result.exit_code, result.stdout) == (0, renamed.stdout)
    assert f"headrace {former} is headrace {now} now" in result.stderr
    assert renamed.stderr == ""
    assert not re.search(rf"^. {former} ", run("--help").stdout, re.MULTILINE)


def test_unknown_command_and_unknown_option_exit_2(run: Run) -> None:
    assert run("veryfi").exit_code == 2
    assert run("verify", "views:pipeline", "--exmaples", "3").exit_code == 2


HEAVY = re.compile(
    r"headrace_(sim|benchmarks)\b|headrace_properties\.(?!target_kinds$)|headrace_scenarios\.(?!chaos(\.plan|\.chaos_job)?$)"
    r"|headrace_cli\.(actions|reports|reruns|runs|targets)\b|headrace\.(?!api\b|wire\b)"
)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("--help", 0),
        ("veryfi", 2),
        ("verify --exmaples 3", 2),
        *((f"{' '.join(each)} --help", 0) for each in COMMANDS),
    ],
)
def test_help_and_wrong_options_import_neither_the_engine_nor_heavy_libraries(
    tmp_path: Path, line: str, code: int
) -> None:
    program = f"import sys, headrace_cli.main as main\ntry: main.app({line.split()})\nfinally: print('\\n', *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    imported = done.stdout.splitlines()[-1].split()
    assert done.returncode == code
    assert [name for name in imported if HEAVY.match(name)] == []
    assert {"hypothesis", "networkx", "simpy", "pyspark", "pandas", "pyarrow", "numpy"}.isdisjoint(imported)


def test_a_target_that_is_not_there_is_refused_before_what_only_a_search_needs_is_imported(
    tmp_path: Path,
) -> None:
    program = (
        "import sys, headrace_cli.main as main\ntry: main.app(['verify', 'nosuch:pipeline'])\n"
        "finally: print('\\n', *sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "nosuch" in done.stderr) == (2, True)
    needless = {"hypothesis", "unittest.mock", "pyspark", "pandas", "numpy", "headrace_cli.reports.pictures"}
    assert needless.isdisjoint(done.stdout.splitlines()[-1].split())


def test_the_names_and_defaults_in_help_are_those_of_the_code() -> None:
    assert (choices.CALL_S, choices.FAILURES, choices.FEEDS) == (CALL_S, FOLDER, FEEDS)
    assert choices.FAULT_KINDS == USUAL_KINDS
    assert tuple(breach.value for breach in Breach) == choices.BREACHES
    assert choices.PARTS == PARTS
    assert tuple(EXPERIMENTS) == choices.EXPERIMENTS
    assert choices.REPORT_FOLDER == PLOTS
    assert {"full": FULL.seeds, "quick": QUICK.seeds} == choices.REPORT_SEEDS


WRONG = {
    "veryfi": "No such command 'veryfi'. Did you mean 'verify'?",
    "verify views:pipelin": "Did you mean 'pipeline'?",
    "verify view:pipeline": "Did you mean 'views'?",
    "verify views:pipeline --exmaples 3": "There is no option --exmaples. Did you mean '--examples'",
    "verify views:pipeline --search randm": "'randm' is not one of random, enumerate",
    "verify views:pipeline --examples abc": "'abc' is not a whole number",
    "verify views:pipeline --examples 0": "'0' is not at least 1",
    "verify views:pipeline --until-quiet x": "'x' is not a number",
    "verify views:pipeline --until-quiet 2": "'2' is not at most 1",
    "verify views:pipeline --without sequencer": "Did you mean 'sequencers'?",
    "verify views:pipeline --feed fed": "Did you mean 'feed'?",
    "verify views:pipeline --outside lost_writ": "Did you mean 'lost_write'?",
    "verify views:pipeline --search exhaustive --fault-kinds crsh": "Did you mean 'crash'?",
    "verify views:pipeline --allow-unknown growht": "Did you mean 'growth'",
    "verify failure.json": "To repeat a saved failure: headrace replay failure.json",
    "replay views.py": "it is a program. To verify it: headrace verify views.py",
    "replay views:pipeline": "it is a target. To verify it: headrace verify views:pipeline",
    "replay history.jsonl": "it is a recorded run. To judge it: headrace check history.jsonl",
    "mutants without-sequencers": "Did you mean 'without sequencers'",
    "paper scenario run zombi-timer": "Did you mean 'zombie-timer'?",
    "paper bench harnes": "Did you mean 'harness'",
    "chaos --kinds zombi": "Did you mean 'zombie'?",
}


@pytest.mark.parametrize(("line", "words"), WRONG.items())
def test_a_wrong_name_or_value_is_named_in_plain_words_with_what_was_meant(
    folder: Path, run: Run, line: str, words: str
) -> None:
    result = run(*line.split())
    text = " ".join(plain(result.stdout + result.stderr).replace("│", " ").split())
    assert (result.exit_code, words in text) == (2, True), text
    assert not any(framework in text for framework in ("Value error", "Input should", "Expected `"))


def test_version_is_printed(run: Run) -> None:
    result = run("--version")
    assert result.exit_code == 0
    assert re.fullmatch(r"headrace(,)? (\d+\.\d+\.\d+\S*|not installed)\n", result.stdout)


def test_as_a_process_it_runs_a_scenario_and_returns_its_exit_code(tmp_path: Path) -> None:
    done = run_process("paper", "scenario", "run", "straggler-checkpoint", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "searches/0:0>A#0>B#0" in done.stdout
    assert "\x1b" not in done.stdout, "colours are for terminals"
    assert [line for line in done.stdout.splitlines() if line != line.rstrip()] == []
    assert run_process("paper", "scenario", "run", "nope", cwd=tmp_path).returncode == 2
