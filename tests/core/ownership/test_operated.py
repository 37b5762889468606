"""An operator's verbs on a cluster in which little else happens: what each must come to, in plain Python (MillWheel 7.1).

In every other run the network repeats what masters and the authority ask of the store, up to a second later: requests are safe to
repeat, so that changes nothing.
"""

from random import Random

from msgspec.structs import replace

from headrace import MILLISECOND, SECOND, Pipeline
from headrace.history import History, IntervalMinted
from headrace.wire.keys import ALL_KEYS, KeyInterval, cover_same_keys
from headrace.wire.messages import ChangeTopology, MergeIntervals, MoveInterval, SplitInterval
from headrace_properties.proof.mutants import MUTANTS
from headrace_properties.proof.oracles import EXPECTED, fired
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import JudgedRun, try_plan
from headrace_properties.search.plans import Plan
from headrace_properties.verdict import Verdict, Violated
from headrace_sim import SOUND, FaultSchedule, Protocol
from headrace_sim.faults import Noise, Operate

_FIRST_US, _PAUSE_US, _VERBS = SECOND, 400 * MILLISECOND, 6
_REPEATED = ("Mint", "Minted", "Claim", "Claimed", "Renew", "Renewed", "JournalWatermarks", "Journaled")
_NAMES = ("senders", "cities")
_Verb = MoveInterval | SplitInterval | MergeIntervals | ChangeTopology
_Owned = dict[KeyInterval, str]


def try_operated(seed: int, protocol: Protocol = SOUND) -> JudgedRun:
    """Give verbs, one after the other, and judge by the invariants and by what the verbs must have come to.

    Args:
        seed: of the verbs, the input and the draws; odd: requests are repeated.
        protocol: the state machines to host.
    """
    workload = WORKLOADS["windows"]
    watched = replace(workload.options, check_invariants=True)
    verbs = _drawn(seed, workload.options.workers)
    given = [Operate(at_us=_FIRST_US + number * _PAUSE_US, verb=verb) for number, verb in enumerate(verbs)]
    end_us = given[-1].at_us + SECOND
    again = Noise(at_us=0, for_us=end_us, duplicate=1.0, delay_us=SECOND, kinds=_REPEATED)
    plan = Plan(
        FaultSchedule((*given, again) if seed % 2 else tuple(given), end_us),
        watched,
        seed,
    )
    feed = workload.feed(seed)

    def expected(history: History) -> dict[str, Verdict]:
        problem = _disobeyed(history, workload.pipeline, verbs)
        return {EXPECTED: Violated(problem, ())} if problem else {}

    return try_plan(
        Application.with_input(workload.deployed, feed), PipelineTrial(plan), protocol, more=expected
    )


def _drawn(seed: int, workers: int) -> list[_Verb]:
    random = Random(f"{seed}/verbs")
    found: list[_Verb] = []
    for _ in range(_VERBS):
        name, key = random.choice(_NAMES), random.choice(["", "a", "ab", "b", "ba"])
        to = random.choice(["", *(f"worker-{number}" for number in range(workers)), "nobody"])
        choices: list[_Verb] = [
            MoveInterval(name, key, to), MoveInterval(name, key, to), SplitInterval(name, key), SplitInterval(name, key),
            MergeIntervals(name, key), ChangeTopology(random.choice([-1, 1])),
        ]  # fmt: skip
        found.append(random.choice(choices))
    return found


def _disobeyed(history: History, pipeline: Pipeline, verbs: list[_Verb]) -> str:
    """Say which verb came to something else; owners are read off the mints where the master may choose."""
    mints = [event for event in history if isinstance(event, IntervalMinted)]
    owned: dict[str, _Owned] = {name: {} for name in pipeline.computations}
    for mint in mints:
        if mint.at_us < _FIRST_US:
            owned[mint.computation][mint.interval] = mint.owner
    for name, intervals in owned.items():
        if not cover_same_keys(list(intervals), [ALL_KEYS]):
            return f"{name} is owned by {intervals} when the first verb comes"
    for number, verb in enumerate(verbs):
        begin_us = _FIRST_US + number * _PAUSE_US
        made = [mint for mint in mints if begin_us <= mint.at_us < begin_us + _PAUSE_US]
        name = "" if isinstance(verb, ChangeTopology) else verb.computation
        told = {mint.interval: mint.owner for mint in made}
        wanted = {} if isinstance(verb, ChangeTopology) else _comes_to(verb, owned[name], told)
        if told != wanted or len(made) != len(told) or any(mint.computation != name for mint in made):
            return f"{verb} came to {told}, and not to {wanted}, of {owned.get(name)}"
        if name:
            kept = {one: owner for one, owner in owned[name].items() if not any(map(one.overlaps, wanted))}
            owned[name] = kept | wanted
    return ""


def _comes_to(verb: MoveInterval | SplitInterval | MergeIntervals, owned: _Owned, told: _Owned) -> _Owned:
    """What is minted; of the owners that the master may choose, the one that it has told."""
    here = next(interval for interval in owned if interval.contains(verb.key))
    owner = owned[here]
    match verb:
        case MoveInterval(to=""):
            chosen = told.get(here, "")
            return {here: chosen if chosen.startswith("worker-") and chosen != owner else "any other worker"}
        case MoveInterval():
            return {here: verb.to} if verb.to not in ("nobody", owner) else {}
        case SplitInterval():
            parts = KeyInterval(here.low, verb.key), KeyInterval(verb.key, here.high)
            return dict.fromkeys(parts, owner) if verb.key != here.low else {}
        case MergeIntervals():
            following = next((interval for interval in owned if interval.low == here.high), None)
            return {} if following is None else {KeyInterval(here.low, following.high): owner}


def test_the_sound_engine_does_what_it_is_told() -> None:
    assert [fired(try_operated(seed)) for seed in range(12)] == [()] * 12


def test_a_mint_that_counts_each_time_that_it_comes_is_noticed() -> None:
    """A repeated mint takes back what later verbs have changed; requests are repeated in every other run."""
    found = [fired(try_operated(seed, MUTANTS["a repeated mint counts"])) for seed in range(4)]
    assert [bool(one) for one in found] == [False, True, False, True]
    assert any(EXPECTED in one for one in found)


def test_roles_that_nobody_gets_leave_the_keys_without_owners() -> None:
    judged = try_operated(1, MUTANTS["a repeated claim counts"])
    assert "is owned by {} when the first verb comes" in judged.verdicts[EXPECTED].message  # type: ignore[union-attr]
