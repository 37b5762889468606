"""`headrace mutants` prints the matrix, in words and as JSON, and its exit code shows whether one survived."""

import json

import pytest

from headrace_properties.proof.mutants import CATALOGUE
from headrace_properties.proof.mutants.hunt import Hunted
from tests.cli.rig import Run
from tests.properties.oracle_names import oracle_names

TWO = ("ack before commit", "recovery without timers")


def test_the_matrix_shows_which_invariant_killed_each_mutant_in_how_many_runs(run: Run) -> None:
    result = run("mutants", *TWO, "--jobs", "1")
    assert result.exit_code == 0
    assert "2 of 2 mutants activated, 2 killed" in result.stdout
    line = next(line for line in result.stdout.splitlines() if line.startswith("ack before commit"))
    assert line.split() == ["ack", "before", "commit", "S3", "yes", "S3,", "calm", "1", "0"]


def test_a_single_mutant_is_reported_with_its_smallest_plan(run: Run) -> None:
    result = run("mutants", "recovery without timers", "--jobs", "1")
    assert result.exit_code == 0
    assert "a new owner does not restore pending timers (MillWheel 6.2, 7.1)" in result.stdout
    assert "S7: timer" in result.stdout
    assert "The smallest plan, healed at" in result.stdout


def test_json_is_a_list_of_objects_in_the_order_of_the_names(run: Run) -> None:
    result = run("mutants", *TWO, "--json", "--jobs", "2")
    assert result.exit_code == 0
    rows = json.loads(result.stdout)
    assert [row["name"] for row in rows] == list(TWO)
    for row in rows:
        assert {"name", "invariant", "activated", "killed", "killed_by", "runs", "faults"} <= set(row)
        assert row["activated"] is row["killed"] is True
        assert set(row["killed_by"]) <= oracle_names()
        assert set(row["killed_by"]) & set(row["invariant"].split(", "))
        assert row["faults"] == len(row["fault_schedule"]) <= 3
        assert row["runs"] >= 1


def test_a_survivor_is_exit_code_1_and_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    survivor = Hunted("ack before commit", ("S3",), activated=True, killed_by=(), runs=5)
    monkeypatch.setattr("headrace_cli.actions.mutants_action.hunt_all", lambda *_: iter([survivor]))
    result = run("mutants", "ack before commit")
    assert result.exit_code == 1
    assert "1 of 1 mutants activated, 0 killed" in result.stdout
    assert "ack before commit survived 5 runs: a record is ACKed when user code has run" in result.stdout


def test_a_mutant_that_was_never_activated_is_exit_code_1(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    idle = Hunted("ack before commit", ("S3",), activated=False, killed_by=(), runs=5)
    monkeypatch.setattr("headrace_cli.actions.mutants_action.hunt_all", lambda *_: iter([idle]))
    result = run("mutants", "ack before commit", "--json")
    assert result.exit_code == 1
    (row,) = json.loads(result.stdout)
    assert (row["activated"], row["killed"], row["killed_by"], row["faults"]) == (False, False, [], None)


def test_too_few_seeds_let_one_survive(run: Run) -> None:
    result = run("mutants", "recovery without timers", "--seeds", "1", "--jobs", "1")
    assert result.exit_code == 1
    assert "nothing: it survived" in result.stdout


def test_list_says_what_each_gets_wrong_and_runs_nothing(run: Run) -> None:
    result = run("mutants", "--list")
    assert result.exit_code == 0
    words = " ".join(result.stdout.split())
    assert "ack before commit 6.1.1 order S3" in words
    rows = json.loads(run("mutants", "--list", "--json").stdout)
    assert [row["name"] for row in rows] == list(CATALOGUE)


@pytest.mark.parametrize(
    "options",
    [["no luck"], ["--seeds", "0"], ["--jobs", "0"], ["--jobs", "2", "--master", "local"]],
)
def test_wrong_use_is_exit_code_2(run: Run, options: list[str]) -> None:
    assert run("mutants", *options).exit_code == 2


def test_an_unknown_mutant_gets_a_suggestion(run: Run) -> None:
    result = run("mutants", "ack too early")
    assert "there is no mutant 'ack too early'" in result.stderr
    assert "Did you mean 'ack on receipt'" in result.stderr


def test_help_has_examples(run: Run) -> None:
    result = run("mutants", "--help")
    assert result.exit_code == 0
    assert "headrace mutants --list" in result.stdout
