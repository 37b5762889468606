"""Operators' verbs come to what they say, also if the network repeats what masters ask of the store."""

from headrace_properties.proof.mutants import MUTANTS
from headrace_properties.proof.mutation.operated import try_operated
from headrace_properties.proof.oracles import EXPECTED, fired


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
