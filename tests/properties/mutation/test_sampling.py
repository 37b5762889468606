"""Samples of mutants, notes on those that are equivalent, and reports of those that survived."""

import json
from pathlib import Path

import pytest

from headrace_properties.mutation.notes import (
    Key,
    NotesError,
    ReportError,
    key_of,
    load_notes,
    reason_of,
    survivors_of,
    void,
)
from headrace_properties.mutation.sampling import CodeMutant, module_of, mutants_of, sample

MUTANTS = mutants_of([module_of("headrace.deadlines")])


def test_a_seed_draws_the_same_and_another_draws_others() -> None:
    drawn = [key_of(mutant) for mutant in sample(MUTANTS, 10, 1)]
    assert drawn == [key_of(mutant) for mutant in sample(MUTANTS, 10, 1)]
    assert drawn != [key_of(mutant) for mutant in sample(MUTANTS, 10, 2)]
    assert len(sample(MUTANTS, 10_000, 1)) == len(MUTANTS)


def test_a_note_is_void_when_the_code_it_names_is_gone() -> None:
    notes = {key_of(MUTANTS[0]): "why"}
    assert void(notes, MUTANTS) == []
    assert void(notes, MUTANTS[1:]) == [key_of(MUTANTS[0])]


def test_a_note_on_a_class_stands_for_all_mutants_in_it_and_for_no_others() -> None:
    notes = {Key("headrace.deadlines", "Deadline", "*", "*"): "why"}
    noted = {mutant.mutation.function for mutant in MUTANTS if reason_of(notes, mutant)}
    assert noted == {
        mutant.mutation.function for mutant in MUTANTS if mutant.mutation.function.startswith("Deadline.")
    }
    assert noted
    assert void(notes, MUTANTS) == []
    assert void({Key("headrace.deadlines", "Dead", "*", "*"): "why"}, MUTANTS)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[[equivalent]]\nmodule = 'm'\n", "note 1 has other fields"),
        (
            "[[equivalent]]\nmodule='m'\nfunction='f'\nline='l'\nchange='c'\nreason=' '\n",
            "note 1 lacks a reason",
        ),
        ("other = 3\n", "nothing but"),
        ("[[equivalent]", "cannot read it"),
    ],
)
def test_wrong_notes_are_named(tmp_path: Path, text: str, problem: str) -> None:
    notes = tmp_path / "notes.toml"
    notes.write_text(text)
    with pytest.raises(NotesError, match=problem):
        load_notes(notes)


def test_who_survived_is_judged_again_unless_noted_since_or_gone(tmp_path: Path) -> None:
    alive, noted, killed, *_ = MUTANTS

    def told(mutant: CodeMutant, **other: object) -> dict[str, object]:
        key, mutation = key_of(mutant), mutant.mutation
        named = {"module": key.module, "function": key.function, "text": key.line}
        return {**named, "before": mutation.before, "after": mutation.after, "killed": False, **other}

    report = {"mutants": [told(alive), told(noted), told(killed, killed=True), told(alive, text="gone")]}
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert survivors_of(tmp_path / "report.json", MUTANTS, {key_of(noted): "It costs more."}) == [alive]
    with pytest.raises(ReportError, match="No such file"):
        survivors_of(tmp_path / "none.json", MUTANTS, {})
