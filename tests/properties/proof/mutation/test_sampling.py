"""Samples of automatic mutants, and notes on those that are equivalent."""

import json
from pathlib import Path

import pytest

from headrace_properties.proof.mutation.equivalents import (
    OURS,
    Key,
    NotesError,
    key_of,
    load_notes,
    reason_for,
    void,
)
from headrace_properties.proof.mutation.reports import ReportError, survivors_of
from headrace_properties.proof.mutation.sampling import (
    AutomaticMutant,
    UnknownModuleError,
    engine_modules,
    mutants_of,
    sample,
)


def test_a_seed_draws_the_same_and_another_draws_others() -> None:
    mutants = mutants_of(engine_modules(["headrace.rules"]))
    drawn = [key_of(mutant) for mutant in sample(mutants, 20, 1)]
    assert drawn == [key_of(mutant) for mutant in sample(mutants, 20, 1)]
    assert drawn != [key_of(mutant) for mutant in sample(mutants, 20, 2)]
    assert len(sample(mutants, 10_000, 1)) == len(mutants)


def test_modules_are_those_of_the_machines_and_a_package_names_all_in_it() -> None:
    names = [module.name for module in engine_modules()]
    assert {"headrace.rules", "headrace.worker.commits", "headrace.dataflow.grouping"} <= {*names}
    assert not any(name.startswith(("headrace.spark", "headrace.api")) for name in names)
    stores = [module.name for module in engine_modules(["headrace.store", "headrace.deadlines"])]
    assert stores == [name for name in names if name == "headrace.deadlines" or ".store" in name]
    with pytest.raises(UnknownModuleError, match=r"no module or package 'headrace\.spark' to mutate"):
        engine_modules(["headrace.rules", "headrace.spark"])


def test_every_note_on_the_engine_names_a_mutant_that_there_is() -> None:
    notes = load_notes(OURS)
    modules = [module for module in engine_modules() if any(key.module == module.name for key in notes)]
    assert void(notes, mutants_of(modules)) == []
    assert {key.module for key in notes} <= {module.name for module in modules}


def test_a_note_survives_when_code_moves_and_is_void_when_it_changes(tmp_path: Path) -> None:
    module = tmp_path / "headrace.py"
    mutants = mutants_of(engine_modules(["headrace.deadlines"]))
    notes = {key_of(mutants[0]): "why"}
    assert void(notes, mutants) == []
    assert void(notes, mutants[1:]) == [key_of(mutants[0])]
    assert not module.exists()


def test_a_note_on_a_class_stands_for_all_mutants_in_it_and_for_no_others() -> None:
    mutants = mutants_of(engine_modules(["headrace.deadlines"]))
    notes = {Key("headrace.deadlines", "Deadline", "*", "*"): "why"}
    noted = {mutant.mutation.function for mutant in mutants if reason_for(notes, mutant)}
    assert noted == {
        "Deadline.__init__",
        "Deadline.begin",
        "Deadline.begin_on_time",
        "Deadline.is_due",
        "Deadline.set_clock_back",
    }
    assert void(notes, mutants) == []
    assert void({Key("headrace.deadlines", "Dead", "*", "*"): "why"}, mutants)


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
    mutants = mutants_of(engine_modules(["headrace.deadlines"]))
    alive, noted, killed, *_ = mutants

    def told(mutant: AutomaticMutant, **other: object) -> dict[str, object]:
        key, mutation = key_of(mutant), mutant.mutation
        named = {"module": key.module, "function": key.function, "text": key.line}
        return {**named, "before": mutation.before, "after": mutation.after, "killed": False, **other}

    report = {"mutants": [told(alive), told(noted), told(killed, killed=True), told(alive, text="gone")]}
    (tmp_path / "report.json").write_text(json.dumps(report))
    assert survivors_of(tmp_path / "report.json", mutants, {key_of(noted): "It costs more."}) == [alive]
    with pytest.raises(ReportError, match="No such file"):
        survivors_of(tmp_path / "none.json", mutants, {})
