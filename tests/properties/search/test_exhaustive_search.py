"""Exhaustive search: every schedule of a scope once, and each omitted one equals one that is run."""

from collections.abc import Callable
from pathlib import Path
from random import Random

import msgspec
import pytest

from headrace import SECOND, OptionsError
from headrace.history import History
from headrace.wire import messages as m
from headrace_benchmarks.exhaustive import count_without_reduction
from headrace_properties.checkers import judge, reached
from headrace_properties.proof.mutants import CATALOGUE, MUTANTS
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.replays import messages_of, read_replay, to_replay
from headrace_properties.results import result_of
from headrace_properties.search.application import PipelineTrial
from headrace_properties.search.exhaustive_search import ExhaustiveSearch
from headrace_properties.search.judging import JudgedRun, arrivals_of, run_plan, try_plan, violations
from headrace_properties.search.plans import Plan
from headrace_properties.search.scope import Scope, small_cluster
from headrace_properties.search.strategy import search
from headrace_properties.target import PipelineSource
from headrace_sim import SOUND, Delay, Protocol, arrivals, versions_of
from tests.properties.search.every_run import every_run

TALLIES = WORKLOADS["tallies"].application
SEQUENCERS = Scope(records=1, faults=1, delays=0, kinds=("reassign",))

Outcome = tuple[str, ...]


def runs_of(
    scope: Scope, protocol: Protocol = SOUND, workload: str = "tallies"
) -> list[tuple[Plan, JudgedRun]]:
    """The schedules that are run, and what they come to."""
    strategy = ExhaustiveSearch(WORKLOADS[workload].application, scope, protocol=protocol)
    return [(trial.plan, judged) for trial, judged in every_run(strategy)]


def plans_of(scope: Scope, workload: str = "tallies") -> list[Plan]:
    """The schedules that are run on the sound protocol."""
    return [plan for plan, _ in runs_of(scope, workload=workload)]


def outcome_of(
    plan: Plan, protocol: Protocol, workload: str, records: int, *, with_cases: bool = True
) -> Outcome:
    """The whole outcome of a schedule: rows, output, verdicts, and the cases that arose."""
    application = WORKLOADS[workload].application
    history, _, _ = run_plan(application, PipelineTrial(plan, 0, tuple(range(records))), protocol)
    # Orders that no process can tell apart have one History in the order of time.
    timely = History(sorted(history, key=lambda event: event.at_us))
    result, cases = result_of(timely), reached(timely)
    verdicts = violations(judge(timely, versions_of(application.versions), plan.options.engine))
    rows, sent = sorted(result.states.items()), sorted(map(repr, result.outputs.items()))
    return repr(rows), repr(sent), *verdicts, *(case for case in cases if with_cases and cases[case])


def outcomes(
    scope: Scope, protocol: Protocol = SOUND, workload: str = "tallies", *, with_cases: bool = True
) -> set[Outcome]:
    """All outcomes of the schedules of a scope."""
    return {
        (str(judged.error),)
        if judged.error
        else outcome_of(plan, protocol, workload, scope.records, with_cases=with_cases)
        for plan, judged in runs_of(scope, protocol, workload)
    }


def plain(scope: Scope) -> Scope:
    """The same without any reduction."""
    return Scope(scope.records, scope.faults, scope.delays, scope.kinds, scope.options, reduced=False)


ORDERS = Scope(records=2, faults=0, delays=1)


@pytest.fixture(scope="module")
def every_order() -> set[Outcome]:
    return outcomes(plain(ORDERS))


def test_omitted_orders_have_no_new_outcomes(every_order: set[Outcome]) -> None:
    assert outcomes(ORDERS) == every_order


def test_omitted_orders_have_no_new_outcomes_on_a_broken_protocol() -> None:
    protocol = MUTANTS["keys are not serial"]
    assert outcomes(ORDERS, protocol, "echoes") == outcomes(plain(ORDERS), protocol, "echoes")


def test_writes_of_different_rows_run_in_both_orders_if_an_invariant_can_tell() -> None:
    """S3 asks whether the consumer of a weak production had written before the row that forgets its cause was."""
    protocol, scope = MUTANTS["weak upstream ACKed too early"], Scope(records=1, faults=0, delays=1)
    reduced = outcomes(scope, protocol, "weak windows")
    assert {"S3" in outcome for outcome in reduced} == {True, False}
    assert reduced == outcomes(plain(scope), protocol, "weak windows")


@pytest.mark.nightly
@pytest.mark.parametrize(("faults", "delays"), [(0, 1), (1, 0)])
@pytest.mark.parametrize("name", CATALOGUE)
def test_omitted_schedules_have_no_new_outcomes_on_any_broken_protocol(
    name: str, faults: int, delays: int
) -> None:
    """Of faults, only crashes and what an operator does are left out."""
    workload = CATALOGUE[name].workload
    options = msgspec.structs.replace(
        WORKLOADS[workload].options, limit_us=120 * SECOND
    )  # some never come to an end
    scope = Scope(1, faults, delays, ("crash", "reassign"), small_cluster(options=options))
    reduced, every = (
        outcomes(searched, MUTANTS[name], workload, with_cases=True) for searched in (scope, plain(scope))
    )
    assert reduced == every


def changed_by_swaps(protocol: Protocol, workload: str, faults: int, swaps: int) -> tuple[int, list[str]]:
    """Let random arrivals of random runs come after others with which they commute: (how many, which made a difference)."""
    options = small_cluster(options=WORKLOADS[workload].options)
    draws, application = Random(0), WORKLOADS[workload].application
    runs = runs_of(Scope(2, 1, 0, ("drop", "reassign"), options), protocol, workload)
    tried, changed = 0, list[str]()
    for plan, judged in draws.sample(runs, min(faults, len(runs))):
        made = arrivals_of(plan)
        if judged.error or made is None:
            continue
        run_plan(application, PipelineTrial(plan, 0, (0, 1)), protocol, made)
        usual = outcome_of(plan, protocol, workload, 2)
        free = [delay for index in range(len(made.handled)) if (delay := free_delay(made.handled, index))]
        for delay in draws.sample(free, min(swaps, len(free))):
            tried += 1
            swapped = msgspec.structs.replace(plan, delays=(delay,))
            if outcome_of(swapped, protocol, workload, 2) != usual:
                changed.append(f"{plan.describe()}: {delay.describe()}")
    return tried, changed


def free_delay(handled: list[arrivals.ArrivedMessage], index: int) -> Delay | None:
    """Return the longest delay of an arrival in which it overtakes only what it commutes with, if it overtakes anything."""
    past = [*arrivals.overtakers(handled, index, anywhere=True)]
    if handled[index].content is None or not past or arrivals.next_overtaker(handled, index) is not None:
        return None
    return Delay(handled[index].step, past[-1], anywhere=True)


def test_swapping_arrivals_that_commute_changes_no_outcome() -> None:
    tried, changed = changed_by_swaps(MUTANTS["keys are not serial"], "echoes", faults=8, swaps=4)
    assert tried == 32
    assert not changed


def test_swapping_arrivals_that_do_not_commute_changes_outcomes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arrivals, "may_swap", ignoring(BROKEN_REDUCTIONS["all arrivals commute"]))
    assert changed_by_swaps(MUTANTS["keys are not serial"], "echoes", faults=8, swaps=4)[1]


@pytest.mark.nightly
@pytest.mark.parametrize("workload", WORKLOADS)
def test_swapping_arrivals_that_commute_changes_no_outcome_of_any_workload(workload: str) -> None:
    assert not changed_by_swaps(SOUND, workload, faults=60, swaps=10)[1]


@pytest.fixture(scope="module")
def reassigned() -> set[Outcome]:
    return outcomes(SEQUENCERS, MUTANTS["without sequencers"])


def test_omitted_faults_have_no_new_outcomes(reassigned: set[Outcome]) -> None:
    assert outcomes(plain(SEQUENCERS), MUTANTS["without sequencers"]) == reassigned


def ignoring(
    ignores: Callable[[arrivals.ArrivedMessage, arrivals.ArrivedMessage], bool],
) -> Callable[..., bool]:
    sound = arrivals.may_swap
    return lambda left, right: sound(left, right) or ignores(left, right)


BROKEN_REDUCTIONS: dict[str, Callable[[arrivals.ArrivedMessage, arrivals.ArrivedMessage], bool]] = {
    "all arrivals commute": lambda _one, _other: True,
    "a worker's arrivals commute": lambda arrival, _: arrival.place.startswith("worker"),
    "a table commutes with everything": lambda left, right: "Table" in (left.name, right.name),
}


@pytest.mark.parametrize("broken", BROKEN_REDUCTIONS)
def test_a_reduction_that_equates_too_much_loses_outcomes(
    broken: str, monkeypatch: pytest.MonkeyPatch, every_order: set[Outcome]
) -> None:
    monkeypatch.setattr(arrivals, "may_swap", ignoring(BROKEN_REDUCTIONS[broken]))
    assert outcomes(ORDERS) < every_order


def test_a_reduction_that_treats_writes_as_routine_loses_outcomes(
    monkeypatch: pytest.MonkeyPatch, reassigned: set[Outcome]
) -> None:
    monkeypatch.setattr(arrivals, "_ROUTINE", (m.Write, m.Written))
    assert outcomes(SEQUENCERS, MUTANTS["without sequencers"]) < reassigned


def test_schedules_of_a_plain_search_are_counted_without_running_them() -> None:
    scope = Scope(records=0, faults=0, delays=1)
    run = len(plans_of(plain(scope)))
    assert len(plans_of(scope)) < run
    assert run * 0.9 < count_without_reduction(TALLIES, scope) <= run


def test_every_schedule_is_run_once() -> None:
    scope = Scope(records=0, faults=0, delays=2)
    plans = plans_of(scope)
    assert len(plans) > 30
    assert len({repr(plan) for plan in plans}) == len(plans)
    numbers = [len(plan.delays or ()) for plan in plans]
    assert numbers == sorted(numbers)


def test_a_scope_is_exhausted_when_all_its_schedules_have_been_run() -> None:
    found = search(ExhaustiveSearch(TALLIES, Scope(records=1, faults=0, delays=1)))
    exploration = found.exploration
    assert exploration is not None
    assert (exploration.exhausted, exploration.stopped_for, exploration.rounds) == (True, "", 2)
    assert found.failure is None
    assert exploration.total == found.runs + found.idle


def test_a_search_that_was_cut_short_has_not_exhausted_its_scope() -> None:
    exploration = search(
        ExhaustiveSearch(TALLIES, Scope(records=1, faults=1, delays=1)), examples=5
    ).exploration
    assert exploration is not None
    assert (exploration.exhausted, exploration.stopped_for, exploration.total) == (False, "examples", 5)
    assert exploration.rounds == 1  # only the run without departures is known


def test_the_result_does_not_depend_on_the_number_of_processes() -> None:
    scope = Scope(records=1, faults=0, delays=1)
    alone, shared = search(ExhaustiveSearch(TALLIES, scope)), search(ExhaustiveSearch(TALLIES, scope), jobs=2)
    assert alone.exploration == shared.exploration
    assert (alone.verdicts, alone.reached, alone.events) == (shared.verdicts, shared.reached, shared.events)


def test_the_first_counterexample_has_the_fewest_departures_and_runs_again_from_its_file(
    tmp_path: Path,
) -> None:
    """Without sequencers one reassignment is enough; the file has the order of arrivals."""
    protocol = MUTANTS["without sequencers"]
    application = WORKLOADS["windows"].application
    found = search(
        ExhaustiveSearch(
            application, Scope(records=1, faults=1, delays=1, kinds=("reassign",)), protocol=protocol
        )
    )
    failure, exploration = found.failure, found.exploration
    assert failure is not None
    assert exploration is not None
    assert exploration.stopped_for == "failure"
    assert failure.plan.faults.count + len(failure.plan.delays or ()) == exploration.rounds
    path = tmp_path / "failure.json"
    source = PipelineSource("somewhere:pipeline", protocol=protocol.name)
    path.write_bytes(to_replay(source, failure.trial, messages_of(failure), digest=failure.digest))
    trial = read_replay(path).trial
    assert isinstance(trial, PipelineTrial)
    again = try_plan(application, trial, protocol)
    assert again.digest == failure.digest
    assert again.broken.keys() == failure.violations.keys()


def test_an_invalid_scope_is_refused() -> None:
    with pytest.raises(OptionsError, match="kinds='flood'"):
        Scope(kinds=("flood",))
    with pytest.raises(OptionsError, match="delays"):
        Scope(delays=-1)
