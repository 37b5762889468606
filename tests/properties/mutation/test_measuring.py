"""Mutants in processes of their own, on a few runs of a small pipeline: what is killed, by what, and what nobody can kill."""

import sys
from collections import Counter
from dataclasses import replace
from functools import cache, partial

import pytest

from headrace_cli.actions.mutate_action import load_application
from headrace_properties.mutation import judge, survey
from headrace_properties.mutation.judge import (
    ChangedRunError,
    Judgement,
    check_control,
    judge_all,
    judge_here,
)
from headrace_properties.mutation.measuring import measure
from headrace_properties.mutation.sampling import CodeMutant, module_of, mutants_of
from headrace_properties.mutation.survey import SurveyedRun, UnsoundRunError, expected_of
from headrace_properties.search.application import Application
from headrace_properties.search.judging import JudgedRun
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated

COUNTING = module_of("tests.properties.mutation.counting")
LOAD = partial(load_application, f"{COUNTING.name}:pipeline", "feed")


@cache
def surveyed() -> tuple[SurveyedRun, ...]:
    return survey.survey(LOAD, frozenset([COUNTING.file]), 2)


def mutant(function: str, change: str) -> CodeMutant:
    (found,) = (
        mutant
        for mutant in mutants_of([COUNTING])
        if (mutant.mutation.function, mutant.change) == (f"Counter.{function}", change)
    )
    return found


def test_what_breaks_a_promise_is_killed_and_what_none_speaks_of_or_no_run_reaches_survives() -> None:
    mutants = [
        mutant("process_record", "context.state % 2 == 0 -> context.state % 2 != 0"),
        mutant("initial_state", "0 -> 1"),
        mutant("process_record", "context.produce('large', context.state) -> pass"),
    ]
    killed, unnoticed, unreached = measure(mutants, surveyed(), LOAD)
    assert killed.judgement.killed_by == ("says_rightly_what_is_even",)
    assert (killed.reached, killed.killed, killed.survived) == (2, True, False)
    assert (unnoticed.survived, unnoticed.judgement) == (True, Judgement(runs=2, changed=2))
    assert (unreached.reached, unreached.survived, unreached.judgement) == (0, True, Judgement())


def test_a_hard_case_is_missed_where_it_came_up_in_many_runs() -> None:
    often = [SurveyedRun(seed, "", {}, ("S1", "case: a zombie")) for seed in range(10)]
    seldom = [SurveyedRun(10, "", {}, ("S2", "case: a scan"))]
    assert expected_of([*often, *seldom]) == ["S1", "S2", "case: a zombie"]


def test_the_sound_code_survives_and_changes_nothing() -> None:
    check_control(surveyed(), LOAD)
    with pytest.raises(ChangedRunError, match="a History differs in a process of its own"):
        check_control([replace(surveyed()[0], digest="another")], LOAD)


def test_what_cannot_be_imported_is_unfit_and_what_ends_its_process_is_killed() -> None:
    runs = surveyed()[:1]
    ending = {COUNTING.name: "import os\nos._exit(3)\n"}
    unfit, ended = judge_all([({COUNTING.name: "1 / 0\n"}, runs), (ending, runs)], LOAD, 1)
    assert "ZeroDivisionError" in unfit.unfit
    assert ended == Judgement(killed_by=("process ended",), message="its process ended with 3")


def test_what_no_signal_of_python_reaches_is_ended_by_the_system() -> None:
    endless = {
        COUNTING.name: "import resource\nresource.setrlimit(resource.RLIMIT_CPU, (1, -1))\nsum(range(10**15))\n"
    }
    (ended,) = judge_all([(endless, surveyed()[:1])], LOAD, 1)
    assert ended.killed_by == ("time",)


def test_lines_count_only_while_the_cluster_runs() -> None:
    text = COUNTING.source.splitlines()
    (lines,) = {run.lines[COUNTING.file] for run in surveyed()}
    reached = {text[line - 1].strip() for line in lines}
    assert "context.state += 1" in reached
    assert not any("large" in line or line.startswith(("assert", "builder")) for line in reached)


def test_a_tracer_of_before_is_put_back() -> None:
    def tracer(*_: object) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        survey.survey(LOAD, frozenset(), 1)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


def fake(_: Application, seed: int, fails_at: int) -> JudgedRun:
    verdicts: dict[str, Verdict] = (
        {"S1": Violated("lost", ())} if seed == fails_at else {"L1": Holds(1), "S8": Unknown("never")}
    )
    return JudgedRun(verdicts, {}, Counter(), Counter(), 0, f"{seed}")


def test_the_first_run_that_fails_kills_and_so_does_what_no_run_exercises(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(judge, "limit_memory", lambda _: None)  # this process is the tests'
    monkeypatch.setattr(judge, "ALL_S", 1_000.0)
    wanted = [(0, "other"), (1, "1"), (2, "2")]
    monkeypatch.setattr(judge, "try_seed", partial(fake, fails_at=1))
    assert judge_here(LOAD, wanted, []) == Judgement(2, ("S1",), 1, "lost", 1)
    monkeypatch.setattr(judge, "try_seed", partial(fake, fails_at=9))
    assert judge_here(LOAD, wanted, ["L1"]) == Judgement(3, changed=1)
    unknown = judge_here(LOAD, wanted, ["L1", "S8"])
    assert unknown == Judgement(3, ("S8",), message="no run exercises S8 any more", changed=1)


def test_what_fires_without_mutation_stops_the_survey(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "try_seed", partial(fake, fails_at=1))
    with pytest.raises(UnsoundRunError, match="seed 1: S1 fails without any mutation: lost"):
        survey.survey(LOAD, frozenset(), 2)
