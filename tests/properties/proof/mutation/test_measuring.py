"""Mutants in processes of their own, on a few runs of a few workloads: what is killed, by what, and what nobody can kill."""

import sys
import time
from collections import Counter
from dataclasses import replace
from functools import cache

import pytest

from headrace_properties.proof.mutation import mutant_judge
from headrace_properties.proof.mutation import survey as surveying
from headrace_properties.proof.mutation.flows import try_flows
from headrace_properties.proof.mutation.measuring import measure, unreached
from headrace_properties.proof.mutation.more_flows import try_more_flows
from headrace_properties.proof.mutation.mutant_judge import (
    ChangedRunError,
    Judgement,
    check_control,
    judge_all,
    judge_here,
    turns,
)
from headrace_properties.proof.mutation.mutant_runs import Runs, RunsSpec, engine_spec
from headrace_properties.proof.mutation.sampling import AutomaticMutant, Module, engine_modules, mutants_of
from headrace_properties.proof.mutation.survey import (
    Survey,
    SurveyedRun,
    UnsoundRunError,
    expected_of,
    survey,
)
from headrace_properties.search.judging import JudgedRun
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated

(RULES,) = engine_modules(["headrace.rules"])
SPEC = engine_spec(2, ("tallies", "windows"))


@cache
def surveyed() -> Survey:
    return survey(SPEC, frozenset([RULES.file]), 2)


def mutant(module: Module, function: str, change: str) -> AutomaticMutant:
    mutants = mutants_of([module])
    (found,) = (
        mutant for mutant in mutants if (mutant.mutation.function, mutant.change) == (function, change)
    )
    return found


def test_no_fault_of_the_sound_engine_makes_a_record_late_of_which_the_model_knows_nothing() -> None:
    """The plan of this seed delays a record until its window has been emitted."""
    assert not try_flows(83).failed


def test_what_comes_of_the_second_pipeline_is_what_plain_python_makes_of_its_input() -> None:
    assert not any(try_more_flows(seed).failed for seed in range(4))


@pytest.mark.nightly
def test_it_is_so_in_hundreds_of_runs() -> None:
    assert not any(try_more_flows(seed).failed for seed in range(4, 200))


def test_a_broken_rule_is_killed_and_code_that_no_run_reaches_is_said_to_survive() -> None:
    """Timers that fire at the wrong time break S9; percentile watermarks are on neither workload."""
    negated = mutant(RULES, "Rules.is_late", "timestamp < watermark -> timestamp <= watermark")
    outliers = next(mutant for mutant in mutants_of([RULES]) if mutant.mutation.function == "Rules.outliers")
    killed, unseen = measure([negated, outliers], surveyed(), SPEC, most_runs=4)
    assert killed.killed
    assert killed.reached == len(surveyed().runs)
    assert killed.judgement.workload in {"tallies", "windows"}
    assert (unseen.reached, unseen.survived, unseen.judgement) == (0, True, Judgement())


def test_a_broken_grouping_is_killed_by_the_model() -> None:
    (contents,) = engine_modules(["headrace.dataflow.contents"])
    name = "random groupings"
    spec = engine_spec(10, (name,))
    runs = [SurveyedRun(name, seed, "", {}) for seed in range(9)]
    broken = mutant(contents, "Contents.results", "self.values -> not self.values")
    (judged,) = judge_all([({contents.name: broken.mutation.source}, runs)], spec, 1)
    assert judged.killed_by == ("model",)


def test_a_broken_combiner_is_killed_by_what_plain_python_makes_of_the_input() -> None:
    (combining,) = engine_modules(["headrace.dataflow.combining"])
    broken = next(mutant for mutant in mutants_of([combining]) if mutant.mutation.function == "_least")
    run = SurveyedRun("flows", 0, "", {})
    spec = engine_spec(1, ("flows",))
    (judged,) = judge_all([({combining.name: broken.mutation.source}, [run])], spec, 1)
    assert judged.killed_by == ("model",)


_OWNER = "before.owner(pending.production.consumer, pending.production.key)"


@pytest.mark.parametrize(
    ("name", "module", "function", "change", "killed_by"),
    [
        (
            "operators' verbs", "headrace.ownership.master", "Master._obey",
            "self._try(self._verbs.pop(0), cluster) -> self._try(cluster, self._verbs.pop(0))", "expected",
        ),
        (
            "operators' verbs", "headrace.ownership.balance", "move_interval",
            "worker.address == verb.to -> not worker.address == verb.to", "expected",
        ),
        (
            "operators' verbs", "headrace.ownership.master", "Master._change_topology",
            "0 <= topology < len(self._topologies) -> 0 <= topology <= len(self._topologies)", "error",
        ),
        (
            "random groupings", "headrace.dataflow.transforms", "GroupByKeyAndWindow.process_record",
            "self._give_up(context, element, lost) -> self._give_up(element, context, lost)", "error",
        ),
        (
            "random groupings", "headrace.dataflow.transforms", "GroupByKeyAndWindow._give_up", "0 -> 1", "model",
        ),
        (
            "random sessions", "headrace.dataflow.firing", "_merge_one", "why == _FIRED -> why != _FIRED", "model",
        ),
        (
            "flows", "headrace.dataflow.stateful", "StatefulParDo.process_record",
            "self._send(context, 'process', made, element) -> self._send('process', context, made, element)", "error",
        ),
        (
            "windows", "headrace.injector.injector", "Injector._start",
            "self._incarnation = event.incarnation -> pass", "expected",
        ),
        (
            "windows", "headrace.injector.injector", "Injector._on_table",
            f"{_OWNER} is None -> {_OWNER} is not None", "calm",
        ),
        (
            "late owners", "headrace.delivery.outbox", "Outbox.__init__",
            "_pauses(retry_us, retry_max_us) -> _pauses(retry_max_us, retry_us)", "calm",
        ),
        (
            "windows", "headrace.ownership.master", "Master._settle", "self._since_us = now -> pass", "calm",
        ),
        (
            "slips", "headrace.worker.running", "StepRun._fail", "1 -> 2", "expected",
        ),
        (
            "replaced 0", "headrace.ownership.master", "Master._change_topology",
            "0 <= topology < len(self._topologies) -> 0 < topology < len(self._topologies)", "expected",
        ),
        (
            "sharing", "headrace.worker.running", "StepRun._new_state",
            "context.uses_state -> not context.uses_state", "reference",
        ),
        (
            "forgetful", "headrace.worker.soft_state", "SoftState.forget_idle",
            "self._forgotten.add_all([fingerprint(slot.key) for slot in idle if slot.stored]) -> pass", "reference",
        ),
        (
            "more flows", "headrace.dataflow.grouping", "Grouping.assigned",
            "type(self.windows) in _OURS -> type(self.windows) not in _OURS", "model",
        ),
        (
            "random groupings", "headrace.dataflow.grouping", "Grouping.advance",
            "unread.due_by(now, watermark) -> unread.due_by(watermark, now)", "calm",
        ),
        ("flows", "headrace.dataflow.windows", "_phase", "1000003 -> 1000004", ""),
    ],
)  # fmt: skip
def test_what_was_alive_is_killed_on_the_runs_that_it_needs(
    name: str, module: str, function: str, change: str, killed_by: str
) -> None:
    """The last one chooses another phase, which is as good; it tells that the others are not killed by whatever changes."""
    (changed,) = engine_modules([module])
    runs = [SurveyedRun(name, seed, "", {}) for seed in range(1 if name == "flows" else 10)]
    sources = {changed.name: mutant(changed, function, change).mutation.source}
    (judged,) = judge_all([(sources, runs)], engine_spec(10, (name,)), 1)
    assert judged.killed_by[:1] == ((killed_by,) if killed_by else ())


def test_a_hard_case_is_missed_where_it_came_up_in_many_runs() -> None:
    often = [SurveyedRun("tallies", seed, "", {}, ("S1", "case: a zombie")) for seed in range(10)]
    seldom = [SurveyedRun("tallies", 10, "", {}, ("S2", "case: a scan"))]
    assert expected_of([*often, *seldom]) == ["S1", "S2", "case: a zombie"]


def test_the_sound_code_survives_and_changes_nothing() -> None:
    check_control(surveyed().runs, SPEC)
    other = [replace(surveyed().runs[0], digest="another")]
    with pytest.raises(ChangedRunError, match="a History differs in a process of its own"):
        check_control(other, SPEC)


def test_what_cannot_be_imported_is_unfit_and_what_ends_its_process_is_killed() -> None:
    runs = surveyed().runs[:1]
    ending = {RULES.name: "import os\nos._exit(3)\n"}
    unfit, ended = judge_all([({RULES.name: "1 / 0\n"}, runs), (ending, runs)], SPEC, 1)
    assert unfit == Judgement(unfit="ZeroDivisionError: division by zero")
    assert ended == Judgement(killed_by=("process ended",), message="its process ended with 3")


def test_what_no_signal_of_python_reaches_is_ended_by_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutant_judge, "CPU_S", 1)
    endless = {RULES.name: "sum(range(10**15))\n"}
    (ended,) = judge_all([(endless, surveyed().runs[:1])], SPEC, 1)
    assert ended == Judgement(killed_by=("time",), message="its process took more than 1 s of CPU time")


def test_lines_count_only_while_the_cluster_runs_and_a_check_is_not_listed() -> None:
    (rules,) = unreached([RULES], surveyed().reached)
    text = RULES.source.splitlines()
    assert rules.of > len(rules.lines) > 0
    assert not any("check_invariants" in text[line - 1] for line in rules.lines)
    reached = surveyed().reached(RULES.file)
    fires = next(n for n, line in enumerate(text, 1) if "return due <= reading" in line)
    outliers = next(n for n, line in enumerate(text, 1) if "def outliers" in line)
    assert reached >> fires & 1
    assert not reached >> (outliers + 1) & 1


def test_a_tracer_of_before_is_put_back() -> None:
    def tracer(*_: object) -> None:
        return None

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        survey(engine_spec(1, ("tallies",)), frozenset(), 1)
        assert sys.gettrace() is tracer
    finally:
        sys.settrace(before)


def test_workloads_take_turns() -> None:
    runs = [SurveyedRun(name, seed, "", {}) for name in "ab" for seed in range(3)]
    assert [(run.workload, run.seed) for run in turns(runs, 5)] == [
        ("a", 0),
        ("b", 0),
        ("a", 1),
        ("b", 1),
        ("a", 2),
    ]


def judged(*, wrong: bool = False, digest: str = "same") -> JudgedRun:
    verdicts: dict[str, Verdict] = (
        {"S1": Violated("lost", ())} if wrong else {"L1": Holds(1), "S8": Unknown("never")}
    )
    return JudgedRun(verdicts, {}, Counter(), Counter(), 0, digest)


def fake(arguments: dict[str, str]) -> Runs:
    def run(_: str, seed: int) -> JudgedRun:
        if arguments["does"] == "never ends":
            while True:
                time.monotonic()
        return judged(wrong=arguments["does"] == "fails" and seed == 1, digest=f"{seed}")

    return Runs(("one",), run)


def test_a_run_that_never_ends_kills_and_so_does_the_first_that_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def spec(does: str) -> dict[str, object]:
        return {"maker": "", "arguments": {"does": does}}

    monkeypatch.setattr(RunsSpec, "load", lambda one: fake(one.arguments))
    monkeypatch.setattr(mutant_judge, "RUN_S", 0.05)
    monkeypatch.setattr(mutant_judge, "ALL_S", 1.0)  # less than what this process has used by now
    monkeypatch.setattr(mutant_judge, "limit_memory", lambda _: None)  # this process is the tests'
    wanted = [("one", 0, "other"), ("one", 1, "1"), ("one", 2, "2")]
    assert judge_here(spec("never ends"), wanted, [])["killed_by"] == ("time",)
    failed = judge_here(spec("fails"), wanted, [])
    assert (failed["runs"], failed["killed_by"], failed["seed"], failed["message"]) == (2, ("S1",), 1, "lost")
    assert judge_here(spec("holds"), wanted, ["L1"]) == {"runs": 3, "changed": 1}
    unknown = judge_here(spec("holds"), wanted, ["L1", "S8"])
    assert (unknown["runs"], unknown["killed_by"], unknown["message"]) == (
        3,
        ["S8"],
        "no run exercises S8 any more",
    )


def test_an_oracle_that_fires_without_mutation_stops_the_survey(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RunsSpec, "load", lambda _: fake({"does": "fails"}))
    with pytest.raises(UnsoundRunError, match="one, seed 1: S1 fails without any mutation: lost"):
        surveying.survey(RunsSpec("", {}), frozenset(), 2)
