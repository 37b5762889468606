"""`verify` holds for the sound protocol, breaks the unsound one, and keeps what it found as a file."""

import dataclasses
from collections import Counter
from itertools import pairwise
from typing import Any

import msgspec
import pytest

from headrace import SECOND, Computation, Context, Pipeline, Productions, Record
from headrace.history import FaultStruck
from headrace_properties.checkers.invariant_catalogue import is_about_code
from headrace_properties.findings import Family
from headrace_properties.proof.mutants import MUTANTS
from headrace_properties.replays import ERROR, REPLAY_FORMAT, ReplayFile, messages_of, to_replay
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import JudgedRun, run_plan, violations
from headrace_properties.search.plans import Plan
from headrace_properties.search.steering import Steering
from headrace_properties.search.strategy import search
from headrace_properties.search.verification import Verification
from headrace_properties.target import PipelineSource
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from headrace_scenarios import zeitgeist
from headrace_sim import NO_FAULTS, SOUND, Feed
from headrace_sim import faults as f
from tests.sim.rig import CHECKED, Sorter, city, letters, mail

BROKEN = MUTANTS["without sequencers"]
BROKEN_SEED = 0


def small_feed(_seed: int) -> Feed:
    return letters(mail(), 20)


# The sound protocol


@pytest.fixture(scope="module")
def sound() -> Verification:
    return search(Steering(Application(zeitgeist.pipeline, zeitgeist.feed)), examples=40)


def test_zeitgeist_holds_under_forty_schedules(sound: Verification) -> None:
    assert sound.failure is None
    assert sound.ok
    assert sound.runs == 40
    assert {name for name, verdict in sound.verdicts.items() if not isinstance(verdict, Holds)} == set()
    assert sound.verdicts.keys() >= {f"S{number}" for number in range(1, 12)} | {"L1", "L2", "L4"}


def test_forty_schedules_strike_with_every_kind_of_fault(sound: Verification) -> None:
    kinds = {kind.split("_")[0] if kind.startswith("noise") else kind for kind in sound.struck}
    fates = {"drop_message", "duplicate_message", "delay_message"}  # of the messages of steps
    assert kinds >= set(f.KINDS.values())
    assert kinds <= set(f.KINDS.values()) | fates


def test_forty_schedules_reach_the_hard_cases(sound: Verification) -> None:
    hard = (
        "a delivery was re-sent", "a duplicate arrived", "a duplicate came behind the horizon", "a record was late",
        "ownership changed",
        "a scan found timers", "a scan found checkpointed productions", "a write was refused", "a zombie's write came late",
        "an id was collected", "a process restarted", "a standby took over",
    )  # fmt: skip
    assert [case for case in hard if not sound.reached[case]] == []
    assert sound.reached["a zombie's write was applied"] == 0


def test_weak_zeitgeist_holds_too() -> None:
    found = search(Steering(Application(zeitgeist.weak_pipeline, zeitgeist.feed), seed=1), examples=15)
    assert found.failure is None
    assert found.reached["a straggler was checkpointed"] or found.runs == 15


@pytest.mark.parametrize(
    "switches",
    [
        {},
        {"exactly_once": False},
        {"productions": Productions.WEAK},
        {"productions": Productions.WEAK, "exactly_once": False},
    ],
    ids=["strong", "at least once", "weak", "weak, at least once"],
)
def test_a_small_pipeline_holds_with_every_process_checking_its_invariants(
    switches: dict[str, Any],
) -> None:
    found = search(Steering(Application(mail(**switches), small_feed), options=CHECKED), examples=25)
    assert found.failure is None, found.failure
    assert found.runs == 25


# Counting


def test_every_run_that_counts_had_a_fault_in_it() -> None:
    seen: list[tuple[int, int, int]] = []

    def note(found: Verification) -> None:
        seen.append((found.runs, found.idle, found.struck.total()))

    found = search(Steering(Application(mail(), small_feed), seed=3), examples=12, on_run=note)
    assert found.runs == 12
    assert [runs + idle for runs, idle, _ in seen] == list(range(1, 12 + found.idle + 1))
    for (runs, _, strikes), (next_runs, _, next_strikes) in pairwise(seen):
        assert (next_runs > runs) == (next_strikes > strikes)


def test_the_ends_of_faults_are_not_counted_as_faults() -> None:
    found = search(Steering(Application(mail(), small_feed), seed=3), examples=12)
    assert not {"restart", "revive"} & found.struck.keys()


def test_the_same_seed_makes_the_same_search() -> None:
    first, again, other = (
        search(Steering(Application(mail(), small_feed), seed=seed), examples=8) for seed in (5, 5, 6)
    )
    assert (first.struck, first.reached, first.verdicts) == (again.struck, again.reached, again.verdicts)
    assert first.struck != other.struck


def test_the_result_is_the_same_with_any_number_of_processes() -> None:
    """What is found first is what is first in the order of the plans, whoever has run it."""
    for protocol in (SOUND, BROKEN):
        one, other = (
            search(
                Steering(Application(mail(), small_feed), seed=2, protocol=protocol), examples=16, jobs=jobs
            )
            for jobs in (1, 2)
        )
        assert one == other
        assert (one.failure is None) == (protocol is SOUND)


def test_the_runs_take_turns_with_a_dozen_inputs() -> None:
    """Only input 17 has a letter whose handler raises."""
    made: list[int] = []

    def feed(seed: int) -> Feed:
        made.append(seed)
        return letters(touchy(), 21 if seed == 17 else seed)

    found = search(Steering(Application(touchy(), feed), seed=9), examples=40, jobs=1)
    assert found.feed_seeds == tuple(range(9, 21))
    assert sorted(made) == list(range(9, 21))
    assert found.failure is not None
    assert (found.failure.feed_seed, found.failure.plan.faults.count, found.failure.kept) == (17, 0, (20,))
    assert search(Steering(Application(touchy(), feed), seed=9, feeds=1), examples=40).failure is None


def test_inputs_that_are_the_same_take_one_turn() -> None:
    found = search(Steering(Application(mail(), lambda seed: letters(mail(), 5 + seed % 2))), examples=3)
    assert (found.feed_seeds, found.feeds_asked) == ((0, 1), 12)


def test_the_first_plan_is_the_one_without_faults() -> None:
    assert search(Steering(Application(mail(), small_feed)), examples=1).idle == 1


def test_an_unexercised_invariant_leaves_the_result_open() -> None:
    """Nobody sets a timer: nothing is said of timers, and nothing is green."""
    pipeline = Pipeline("post")
    pipeline.injector("mail")
    pipeline.add(Sorter(), name="sorter", inputs={"mail": city}, outputs=["sorted"])
    found = search(Steering(Application(pipeline, small_feed)), examples=5)
    assert found.ok is None
    assert isinstance(found.verdicts["S8"], Unknown)
    assert isinstance(found.verdicts["S1"], Holds)


CUT_SHORT = Unknown("the run was ended at its limit", cut_short=True)


@pytest.mark.parametrize(
    "verdicts",
    [
        (Holds(1), CUT_SHORT),
        (CUT_SHORT, Holds(1)),
        (Unknown("nobody set a timer"), CUT_SHORT, Holds(1)),
        (CUT_SHORT, Unknown("nobody set a timer"), Holds(1)),
    ],
)
def test_a_run_that_was_cut_short_leaves_the_result_open_whatever_the_others_say(
    verdicts: tuple[Verdict, ...],
) -> None:
    found, trial = Verification(), PipelineTrial(Plan(NO_FAULTS, CHECKED, 0))
    for verdict in verdicts:
        found.take(trial, JudgedRun({"L2": verdict}, {}, Counter(), Counter({"crash": 1}), 1, ""))
    assert found.verdicts == {"L2": CUT_SHORT}
    assert found.ok is None
    violated = Violated("stuck", ())
    found.take(trial, JudgedRun({"L2": violated}, {}, Counter(), Counter({"crash": 1}), 1, ""))
    assert found.verdicts == {"L2": violated}


def test_without_runs_nothing_is_known() -> None:
    assert Verification().ok is None


# The broken protocol


def short_evening(seed: int) -> Feed:
    """Half of the feed that Zeitgeist is verified with, so that shrinking takes half as long."""
    return zeitgeist.feed(
        seed, dataclasses.replace(zeitgeist.EVENING, duration_us=3 * SECOND, disturbances=())
    )


@pytest.fixture(scope="module")
def broken() -> Verification:
    return search(
        Steering(Application(zeitgeist.pipeline, short_evening), seed=BROKEN_SEED, protocol=BROKEN),
        examples=100,
    )


def test_a_store_without_sequencers_is_detected_within_a_hundred_schedules(broken: Verification) -> None:
    assert broken.ok is False
    assert broken.failure is not None
    assert broken.runs <= 100
    assert broken.failure.violations
    assert {
        name for name, verdict in broken.verdicts.items() if isinstance(verdict, Violated)
    } >= broken.failure.violations.keys()


def test_a_failure_is_shrunk_to_at_most_three_faults(broken: Verification) -> None:
    assert broken.failure is not None
    plan = broken.failure.plan
    assert 1 <= plan.faults.count <= 3
    assert plan.faults.describe().count("\n") < 3


@pytest.mark.parametrize("seed", [1, 7])
def test_it_is_detected_on_a_small_pipeline_by_any_seed(seed: int) -> None:
    found = search(Steering(Application(mail(), small_feed), seed=seed, protocol=BROKEN), examples=100)
    assert found.failure is not None
    assert found.failure.plan.faults.count <= 3


def test_the_same_plan_is_survived_with_sequencers(broken: Verification) -> None:
    assert broken.failure is not None
    _, verdicts, cases = run_plan(Application(zeitgeist.pipeline, short_evening), broken.failure.trial)
    assert violations(verdicts) == {}
    assert cases["a zombie's write was applied"] == 0


def test_the_file_of_a_failure_runs_again_to_the_same_history(broken: Verification) -> None:
    assert broken.failure is not None
    failure = broken.failure
    source = PipelineSource(
        "headrace_scenarios.zeitgeist:pipeline", protocol=BROKEN.name, feed="short_evening"
    )
    data = to_replay(source, failure.trial, messages_of(failure), digest=failure.digest)
    found = msgspec.json.decode(data, type=ReplayFile)
    assert (found.source, found.format) == (source, REPLAY_FORMAT)
    assert isinstance(found.trial, PipelineTrial)
    history, verdicts, _ = run_plan(Application(zeitgeist.pipeline, short_evening), found.trial, BROKEN)
    assert history.digest() == found.digest == broken.failure.digest
    messages = {name: violation.message for name, violation in violations(verdicts).items()}
    assert found.found == {Family.INVARIANT: messages}
    assert any(isinstance(event, FaultStruck) for event in history)


def test_a_failure_needs_only_some_of_the_records(broken: Verification) -> None:
    assert broken.failure is not None
    assert broken.failure.kept is not None
    assert len(broken.failure.kept) < short_evening(BROKEN_SEED).records / 10


def test_a_file_that_names_no_records_needs_the_whole_input(broken: Verification) -> None:
    assert broken.failure is not None
    trial = msgspec.structs.replace(broken.failure.trial, kept=None)
    data = to_replay(PipelineSource("m:p"), trial, messages_of(broken.failure))
    application = Application(zeitgeist.pipeline, short_evening)
    read = msgspec.json.decode(data, type=ReplayFile).trial
    assert application.input_of(read) is application.feed(broken.failure.feed_seed)


# Code that fails


class Brittle(Computation):
    """Fails on a letter that it gets a second time: it keeps what it should not."""

    def __init__(self) -> None:
        self.seen: set[str] = set()

    def process_record(self, context: Context, record: Record) -> None:
        if record.record_id in self.seen:
            raise RuntimeError(f"{record.record_id} again")
        self.seen.add(record.record_id)


def brittle() -> Pipeline:
    pipeline = Pipeline("brittle")
    pipeline.injector("mail")
    pipeline.add(Brittle(), name="brittle", inputs={"mail": city})
    return pipeline


def test_user_code_that_fails_in_a_run_is_a_finding_with_its_error() -> None:
    """The object is shared by all runs of the search, so that the second run of any plan fails: shrinking ends at no fault."""
    found = search(Steering(Application(brittle(), small_feed)), examples=20)
    assert found.ok is False
    assert found.failure is not None
    assert str(found.failure.error).startswith("UserCodeError: computation 'brittle'")
    assert "RuntimeError: mail/0:" in str(found.failure.error)
    assert (found.failure.violations, found.failure.digest) == ({}, "")
    assert messages_of(found.failure) == {ERROR: str(found.failure.error)}


class Touchy(Computation):
    """Cannot stand the twentieth letter."""

    def process_record(self, context: Context, record: Record) -> None:
        if record.value["number"] == 20:
            raise ValueError("a twentieth letter")


def touchy() -> Pipeline:
    pipeline = Pipeline("touchy")
    pipeline.injector("mail")
    pipeline.add(Touchy(), name="touchy", inputs={"mail": city})
    return pipeline


# Findings about user code


@pytest.mark.parametrize(("name", "finding"), [("S5-weak", True), ("S5", False), ("S1", False)])
def test_problems_of_weak_user_code_are_findings_and_not_violations(name: str, finding: bool) -> None:  # noqa: FBT001  a parameter of the test
    assert is_about_code(name) is finding
    verdicts: dict[str, Verdict] = {name: Violated("two values for one id", ()), "S2": Holds(1)}
    assert violations(verdicts).keys() == (set() if finding else {name})
