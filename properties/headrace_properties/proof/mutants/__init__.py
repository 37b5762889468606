"""Broken protocols, by name: each is the engine's own with one rule broken.

A checker that no mutant fails is worth nothing. The engine itself has no switch for being wrong. `CATALOGUE` has what is known of
each: the rule, the invariant that must catch it, and the workload on which it shows.
"""

from headrace_properties.proof.mutants import (
    broken_deliveries,
    broken_injectors,
    broken_ownership,
    broken_productions,
    broken_timers,
    broken_topology,
    broken_user_code,
    broken_watermarks,
)
from headrace_properties.proof.mutants.mutant import Directed, Mutant, Parts, Probe
from headrace_sim import SOUND, Protocol

__all__ = ["CATALOGUE", "MUTANTS", "Directed", "Mutant", "Parts", "Probe", "protocol_named"]

CATALOGUE: dict[str, Mutant] = {
    mutant.name: mutant
    for area in (
        broken_deliveries,
        broken_productions,
        broken_timers,
        broken_ownership,
        broken_topology,
        broken_watermarks,
        broken_injectors,
        broken_user_code,
    )
    for mutant in area.MUTANTS
}
"""By name."""

MUTANTS: dict[str, Protocol] = {name: one.protocol() for name, one in CATALOGUE.items()}
"""Their protocols, for runs in which nobody asks whether they were activated."""


def protocol_named(name: str) -> Protocol:
    """Find a protocol.

    Raises:
        KeyError: there is none of this name.
    """
    return SOUND if name == SOUND.name else MUTANTS[name]
