"""Retiring computations (MillWheel 3): what must be known before one may leave."""

import itertools
from collections.abc import Iterable

import pytest

from headrace.api.computation import Computation
from headrace.api.pipeline import Pipeline
from headrace.ownership.draining import STAGES, Draining, DrainPhase, StageInput, _Retiring
from headrace.wire.keys import ALL_KEYS
from headrace.wire.messages import Assignment, Heartbeat, IntervalLoad, Table

OWNERS = {"first": ("w0", 1), "second": ("w1", 2), "third": ("w0", 3)}
"""Computation to owner and sequencer."""
REQUIRED = ["source/0", "w0", "w1"]


def chain(*names: str) -> Pipeline:
    """Each computation feeds the next."""
    made = Pipeline("chain")
    made.injector("source", outputs=["into-" + names[0]])
    for name, following in itertools.zip_longest(names, names[1:]):
        outputs = [f"into-{following}"] if following else []
        made.add(Computation(), name=name, inputs=[f"into-{name}"], outputs=outputs)
    return made


TOPOLOGIES = [chain("first", "second", "third"), chain("first"), chain("third")]


def table(version: int, *retiring: str, names: Iterable[str] = OWNERS, topology: int = 1) -> Table:
    """Every computation has one interval."""
    rows = tuple(Assignment(name, ALL_KEYS, OWNERS[name][1], OWNERS[name][0], 1) for name in names)
    return Table(version, topology, retiring, rows)


def beats(
    version: int,
    *,
    pending: dict[str, int] | None = None,
    owing: dict[str, tuple[tuple[str, int], ...]] | None = None,
    unlisted: Iterable[str] = (),
    versions: dict[str, int] | None = None,
) -> dict[str, Heartbeat]:
    """Everybody knows the same table, lists all its intervals with nothing pending, and owes nothing, unless told otherwise."""
    found = {}
    for address in REQUIRED:
        loads = tuple(
            IntervalLoad(name, sequencer, 0, 0, "", (pending or {}).get(name, 0))
            for name, (owner, sequencer) in OWNERS.items()
            if owner == address and name not in unlisted
        )
        known = (versions or {}).get(address, version)
        is_worker = address.startswith("w")
        found[address] = Heartbeat(address, 1, known, loads, (owing or {}).get(address, ()), is_worker)
    return found


def draining(at: Table) -> Draining:
    drain = Draining(TOPOLOGIES)
    drain.adopt(at)
    return drain


def wants_mint(drain: Draining) -> bool:
    return drain.wants_mint


@pytest.mark.parametrize(("stage", "given"), list(itertools.product(DrainPhase, StageInput)))
def test_each_stage_and_input_is_declared_or_raises(stage: DrainPhase, given: StageInput) -> None:
    retiring = _Retiring(5)
    retiring.stage = stage
    expected = STAGES.get((stage, given))
    if expected:
        retiring.take(given, 7)
        marked = (stage, expected) == (DrainPhase.SETTLED, DrainPhase.EMPTYING)
        assert (retiring.stage, retiring.since, retiring.marked) == (expected, 5, 7 if marked else 0)
    else:
        with pytest.raises(AssertionError, match="cannot take"):
            retiring.take(given, 7)


def test_it_leaves_once_it_is_owed_nothing_and_is_then_empty() -> None:
    drain = draining(table(5, "second"))
    assert drain.look(beats(5), REQUIRED) == ()
    assert wants_mint(drain)
    drain.adopt(table(6, "second"))
    assert not wants_mint(drain)
    assert drain.look(beats(6), REQUIRED) == ("second",)


def test_heartbeats_from_before_the_mark_do_not_say_that_it_is_empty() -> None:
    # A heartbeat from before the last delivery, with nothing pending, may arrive after everybody said that nothing is owed.
    drain = draining(table(5, "second"))
    drain.look(beats(5), REQUIRED)
    drain.adopt(table(6, "second"))
    assert drain.look(beats(5), REQUIRED) == ()
    assert drain.look(beats(6, pending={"second": 1}), REQUIRED) == ()
    assert drain.look(beats(6), REQUIRED) == ("second",)


def test_it_stays_while_an_injector_that_has_restarted_may_owe_it_again() -> None:
    """It was owed nothing, and is empty; then the process crashes, and reads again what it had sent."""
    drain = draining(table(5, "second"))
    drain.look(beats(5), REQUIRED)
    drain.adopt(table(6, "second"))
    assert drain.look(beats(6, owing={"source/0": (("second", 1),)}), REQUIRED) == ()
    assert drain.look(beats(6), REQUIRED) == ("second",)


@pytest.mark.parametrize(
    "missing",
    [
        beats(5, owing={"source/0": (("second", 1),)}),
        beats(5, owing={"w0": (("other", 3), ("second", 2))}),
        beats(5, versions={"source/0": 4}),
        beats(5, versions={"w1": 4}),
        beats(5, unlisted=["first"]),
        {address: beat for address, beat in beats(5).items() if address != "source/0"},
    ],
    ids=[
        "injector owes",
        "worker owes",
        "injector lags",
        "worker lags",
        "owner scans",
        "injector is missing",
    ],
)
def test_it_stays_while_it_may_still_be_owed_something(missing: dict[str, Heartbeat]) -> None:
    drain = draining(table(5, "second"))
    assert drain.look(missing, REQUIRED) == ()
    assert not wants_mint(drain)


@pytest.mark.parametrize(
    "missing",
    [
        beats(6, pending={"second": 3}),
        beats(6, unlisted=["second"]),
        beats(6, versions={"w1": 5}),
        {**beats(6), "w1": Heartbeat("w1", 2, 6, beats(6)["w1"].loads)},
    ],
    ids=["it has work", "its owner scans", "its owner lags", "its owner is another incarnation"],
)
def test_it_stays_while_it_may_have_work(missing: dict[str, Heartbeat]) -> None:
    drain = draining(table(5, "second"))
    drain.look(beats(5), REQUIRED)
    drain.adopt(table(6, "second"))
    assert drain.look(missing, REQUIRED) == ()


def test_its_own_work_and_debts_to_others_do_not_count_as_owed() -> None:
    drain = draining(table(5, "second"))
    drain.look(beats(5, owing={"w0": (("third", 2),)}, unlisted=["second"]), REQUIRED)
    assert wants_mint(drain)


def test_a_chain_leaves_from_its_source_on() -> None:
    drain = draining(table(5, "second", "third"))
    drain.look(beats(5), REQUIRED)
    drain.adopt(table(6, "second", "third"))
    assert drain.look(beats(6), REQUIRED) == ("second",)
    assert not wants_mint(drain)
    drain.adopt(table(7, "third", names=["first", "third"]))
    assert drain.look(beats(7), REQUIRED) == ()
    assert wants_mint(drain)
    drain.adopt(table(8, "third", names=["first", "third"]))
    assert drain.look(beats(8), REQUIRED) == ("third",)


def test_computations_that_do_not_feed_each_other_leave_together() -> None:
    drain = draining(table(5, "first", "third", topology=1))
    drain.look(beats(5), REQUIRED)
    drain.adopt(table(6, "first", "third"))
    assert drain.look(beats(6), REQUIRED) == ("first", "third")


def test_every_mint_is_a_mark() -> None:
    # A move that was minted for other reasons, after nobody owed anything, tells heartbeats apart as well.
    drain = draining(table(5, "second"))
    drain.look(beats(5), REQUIRED)
    drain.adopt(table(6, "second"))
    drain.adopt(table(7, "second"))
    assert drain.look(beats(6), REQUIRED) == ("second",)


def test_a_computation_that_is_restored_and_retired_again_starts_over() -> None:
    drain = draining(table(5, "second"))
    drain.look(beats(5), REQUIRED)
    drain.adopt(table(6, "second"))
    drain.adopt(table(7, topology=0))
    assert drain.look(beats(7), REQUIRED) == ()
    drain.adopt(table(8, "second"))
    assert drain.look(beats(7), REQUIRED) == ()
    assert not wants_mint(drain)
    drain.look(beats(8), REQUIRED)
    assert wants_mint(drain)


def test_a_new_master_starts_with_the_debts() -> None:
    drain = draining(table(9, "second"))
    assert drain.look(beats(9), REQUIRED) == ()
    assert wants_mint(drain)
