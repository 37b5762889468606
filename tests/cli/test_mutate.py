"""`headrace mutate`: its report, exit codes and errors."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from headrace_cli.actions.mutate_action import MutationReport, print_result
from headrace_properties.mutation.judge import Judgement
from headrace_properties.mutation.measuring import MutantResult
from headrace_properties.mutation.sampling import module_of, mutants_of
from tests.cli.rig import Run

PIPELINE = (
    "mutate",
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
    assert "headrace mutate --json" in result.stderr


def test_a_survivor_is_printed_with_its_place_and_the_note_to_fill_in(
    capsys: pytest.CaptureFixture[str],
) -> None:
    mutants = mutants_of([module_of("headrace.deadlines")])
    unseen = MutantResult(mutants[0], Judgement(), 0)
    differing = MutantResult(mutants[1], Judgement(runs=5, changed=1), 5)
    killed = MutantResult(mutants[1], Judgement(runs=2, killed_by=("S1",)), 5, "it is not")
    unfit = MutantResult(mutants[1], Judgement(unfit="no"), 5)

    def code(*found: MutantResult) -> int:
        return MutationReport("", 4, 9, [], [*found]).exit_code

    assert (code(unseen, killed), code(killed, unfit), code(unfit), code()) == (1, 0, 3, 3)
    result = MutationReport("", 4, 9, [], [unseen, differing, killed, unfit])
    print_result(Console(width=200, markup=False), result)
    text = capsys.readouterr().out
    assert "headrace.deadlines  4        1       2         1          0           33%" in text
    assert "killed by: S1 1. 1 cannot be imported" in text
    assert "2 mutations that no promise or invariant notices" in text
    assert f"deadlines.py:{mutants[0].mutation.line}  {mutants[0].mutation.kind}, in" in text
    assert "No run reaches this line." in text
    assert "5 runs reached it, and 1 History differed." in text
    assert '  [[equivalent]]\n  module = "headrace.deadlines"\n' in text
    assert "is noted as equivalent, but killed: remove the note" in text


@pytest.mark.usefixtures("folder")
def test_a_pipeline_that_fails_by_itself_is_an_error(run: Run) -> None:
    result = run("mutate", "failing:pipeline", "--runs", "2", "--jobs", "1")
    assert result.exit_code == 2
    assert "seed 0: error fails without any mutation" in result.stderr


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("nowhere:pipeline",), "there is no module 'nowhere'"),
        (("views:pipeline", "--notes", "nowhere.toml"), "nowhere.toml: cannot read it"),
    ],
)
def test_wrong_use_is_one_message(run: Run, arguments: tuple[str, ...], problem: str) -> None:
    result = run("mutate", *arguments)
    assert result.exit_code == 2
    assert problem in result.stderr
