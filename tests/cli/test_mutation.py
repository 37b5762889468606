"""`headrace mutants --automatic`, `--patch` and `--unreached`: their reports, exit codes and errors."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from headrace_cli.reports.mutation_report import exit_code, print_automatic
from headrace_cli.runs import mutation
from headrace_cli.runs.mutation import AutomaticResult
from headrace_properties.proof.mutation import measuring
from headrace_properties.proof.mutation.measuring import MutantResult
from headrace_properties.proof.mutation.mutant_judge import Judgement
from headrace_properties.proof.mutation.mutant_runs import RunsSpec, engine_spec
from headrace_properties.proof.mutation.sampling import engine_modules, mutants_of
from tests.cli.rig import Run

PIPELINE = (
    "mutants",
    "--automatic",
    "views:pipeline",
    "--runs",
    "2",
    "--count",
    "2",
    "--seed",
    "1",
    "--jobs",
    "1",
)


@pytest.fixture
def few_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workloads instead of thirty, and no control, which takes a process each time."""

    def few(seeds: int, workloads: tuple[str, ...] = (), protocol: str = "") -> RunsSpec:
        del workloads
        return engine_spec(seeds, ("tallies", "windows"), protocol)

    monkeypatch.setattr(mutation, "engine_spec", few)
    monkeypatch.setattr(measuring, "check_control", lambda *_: None)


def test_mutations_of_a_pipeline_that_nothing_notices_survive_until_they_are_noted(
    run: Run, folder: Path
) -> None:
    """Without a promise, a wrong count goes unnoticed; mutations that are noted no longer count."""
    result = run(*PIPELINE, "--json")
    document = json.loads(result.stdout)
    survivors = [mutant for mutant in document["mutants"] if not mutant["killed"]]
    assert survivors
    assert result.exit_code == 1
    assert {mutant["file"] for mutant in document["mutants"]} == {"views.py"}
    assert all("process_" in mutant["function"] for mutant in document["mutants"]), "neither feed nor build"
    assert (document["drawn"], len(document["mutants"])) == (2, 2)
    (folder / "report.json").write_text(result.stdout)
    once_more = json.loads(run(*PIPELINE, "--seed", "99", "--again", "report.json", "--json").stdout)
    assert once_more["mutants"] == survivors
    notes = "".join(
        f"[[equivalent]]\nmodule = 'views'\nfunction = '{survivor['function']}'\nline = '''{survivor['text']}'''\n"
        f"change = '''{survivor['before']} -> {survivor['after']}'''\nreason = 'nobody reads it'\n"
        for survivor in survivors
    )
    gone = "[[equivalent]]\nmodule='views'\nfunction='gone'\nline='x'\nchange='y'\nreason='z'\n"
    (folder / "equivalent-mutants.toml").write_text(notes + gone)
    again = run(*PIPELINE)
    assert again.exit_code == 0
    assert "that no promise" not in again.stdout
    assert "A note names nothing any more: views, gone: y" in again.stdout


def test_a_report_that_cannot_be_read_is_an_error(run: Run, folder: Path) -> None:
    (folder / "report.json").write_text('{"mutants": [{}]}')
    result = run(*PIPELINE, "--again", "report.json")
    assert result.exit_code == 2
    assert "cannot read report.json" in result.stderr
    assert "headrace mutants --automatic --json" in result.stderr


def test_a_survivor_is_printed_with_its_place_and_the_note_to_fill_in(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mutants = mutants_of(engine_modules(["headrace.deadlines"]))
    unseen = MutantResult(mutants[0], Judgement(), 0)
    differing = MutantResult(mutants[1], Judgement(runs=5, changed=1), 5)
    killed = MutantResult(mutants[1], Judgement(runs=2, killed_by=("S1",)), 5, "it is not")
    unfit = MutantResult(mutants[1], Judgement(unfit="no"), 5)
    result = AutomaticResult("", 4, 9, [unseen, differing, killed, unfit])
    assert exit_code(result) == 1
    assert exit_code(AutomaticResult("", 2, 9, [killed, unfit])) == 0
    assert exit_code(AutomaticResult("", 1, 9, [unfit])) == exit_code(AutomaticResult("", 0, 0)) == 3
    print_automatic(Console(width=200, markup=False), result)
    text = capsys.readouterr().out
    assert "headrace.deadlines  4        1       2         1          0           33%" in text
    assert "killed by: S1 1. 1 cannot be imported" in text
    assert "2 mutations that no oracle notices" in text
    assert f"deadlines.py:{mutants[0].mutation.line}  {mutants[0].mutation.kind}, in" in text
    assert "No run reaches this line." in text
    assert "5 runs reached it, and 1 History differed." in text
    assert '  [[equivalent]]\n  module = "headrace.deadlines"\n' in text
    assert "is noted as equivalent, but killed: remove the note" in text


@pytest.mark.usefixtures("folder")
def test_a_pipeline_that_fails_by_itself_is_an_error(run: Run) -> None:
    result = run("mutants", "--automatic", "failing:pipeline", "--runs", "2", "--jobs", "1")
    assert result.exit_code == 2
    assert "failing:pipeline, seed 0: error fails without any mutation" in result.stderr


@pytest.mark.usefixtures("few_workloads")
def test_a_patch_that_breaks_the_engine_is_killed(run: Run, tmp_path: Path) -> None:
    (rules,) = engine_modules(["headrace.rules"])
    lines = rules.source.splitlines()
    number = next(n for n, line in enumerate(lines, 1) if "return timestamp < watermark" in line)
    broken = tmp_path / "broken.diff"
    broken.write_text(
        f"--- a/core/headrace/rules.py\n+++ b/core/headrace/rules.py\n@@ -{number} +{number} @@\n"
        f"-{lines[number - 1]}\n+        return timestamp <= watermark\n"
    )
    result = run("mutants", "--patch", str(broken), "--runs", "20", "--jobs", "1")
    assert result.exit_code == 0
    assert "killed by S16" in result.stdout


@pytest.mark.usefixtures("few_workloads")
def test_a_users_own_protocol_is_judged(run: Run, tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    command = ("mutants", "--patch", str(own), "--runs", "20", "--jobs", "1")
    own.write_text("from headrace_sim import SOUND\n\nprotocol = SOUND\n")
    sound = run(*command, "--json")
    assert sound.exit_code == 1
    document = json.loads(sound.stdout)
    assert (document["killed"], document["changed"], document["runs"]) == (False, 0, 4)
    own.write_text(
        "from headrace.rules import Rules\nfrom headrace_sim import Protocol\n\n\nclass Mine(Rules):\n"
        "    def is_late(self, timestamp, watermark):\n        return True\n\n\nprotocol = Protocol('mine', Mine())\n"
    )
    broken = run(*command)
    assert broken.exit_code == 0
    assert "killed by S16" in broken.stdout
    own.write_text("protocol = 3\n")
    wrong = run(*command)
    assert wrong.exit_code == 2
    assert "is a int, not a headrace_sim.Protocol" in wrong.stderr


@pytest.mark.usefixtures("few_workloads")
def test_code_that_no_run_executes_is_listed(run: Run) -> None:
    result = run("mutants", "--unreached", "--modules", "headrace.rules", "--runs", "10", "--jobs", "1")
    assert result.exit_code == 0
    assert "rules.py" in result.stdout
    assert "lines in 1 module." in result.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--automatic", "--list"), "--automatic and --list exclude each other"),
        (("--automatic", "one:a", "two:b"), "--automatic takes one pipeline, not one:a two:b"),
        (("--unreached", "one"), "--unreached takes no name, not one"),
        (("--automatic", "one:a", "--modules", "headrace.rules"), "--modules names modules of the engine"),
        (("--automatic", "--modules", "headrace.spark"), "no module or package 'headrace.spark' to mutate"),
        (("--automatic", "nowhere:pipeline"), "there is no module 'nowhere'"),
        (("--patch", "nowhere.diff"), "nowhere.diff: cannot read it"),
        (("--patch", "nowhere.py"), "nowhere.py: there is no such file"),
        (("--count", "3"), "--count is for --automatic"),
    ],
)
def test_wrong_use_is_one_message(run: Run, arguments: tuple[str, ...], problem: str) -> None:
    result = run("mutants", *arguments)
    assert result.exit_code == 2
    assert problem in result.stderr
