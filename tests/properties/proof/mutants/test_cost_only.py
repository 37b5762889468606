"""What is said of the rules that decide costs only is so: broken either way, they violate nothing."""

import pytest

from docs.scripts.rule_table import COST_ONLY
from headrace import MILLISECOND
from headrace.rules import Rules
from headrace_properties.proof.mutants.mutant import Mutant, Parts, Probe
from headrace_properties.proof.oracles import fired, plan_of, try_workload
from headrace_properties.proof.workloads import WORKLOADS, Workload

BUSY = [
    WORKLOADS[name].varied(
        f"busy {name}", balance_period_us=200 * MILLISECOND, heartbeat_period_us=100 * MILLISECOND, split_load=2,
        merge_load=1, overload=1.1, memory_limit_bytes=300, cache_bytes=300,
    )
    for name in ("weak windows", "bursts")
]  # fmt: skip
"""Workloads in which intervals are split, moved and merged, and rows are evicted, all the time."""


class NeverStraggles(Rules):
    def is_straggler(self, waited_us: int, delay_us: int) -> bool:
        del waited_us, delay_us
        return False


class AlwaysStraggles(Rules):
    def is_straggler(self, waited_us: int, delay_us: int) -> bool:
        del waited_us, delay_us
        return True


class WeighsNothing(Rules):
    def weight(self, records: int, cpu_us: int, split_load: int, split_cpu_us: int) -> int:
        del records, cpu_us, split_load, split_cpu_us
        return 0


class WeighsTheSame(Rules):
    def weight(self, records: int, cpu_us: int, split_load: int, split_cpu_us: int) -> int:
        del records, cpu_us, split_load, split_cpu_us
        return 99


class NeverOverloaded(Rules):
    def is_overloaded(self, load: float, most: float) -> bool:
        del load, most
        return False


class OverloadedByAnything(Rules):
    def is_overloaded(self, load: float, most: float) -> bool:
        del most
        return load > 0


class MovesAlways(Rules):
    def is_relief(self, target: int, source: int) -> bool:
        del target, source
        return True


class MovesNever(Rules):
    def is_relief(self, target: int, source: int) -> bool:
        del target, source
        return False


class MergesAlways(Rules):
    def is_idle(self, load: int, least: int) -> bool:
        del load, least
        return True


class MergesNever(Rules):
    def is_idle(self, load: int, least: int) -> bool:
        del load, least
        return False


BROKEN = (
    NeverStraggles, AlwaysStraggles, WeighsNothing, WeighsTheSame, NeverOverloaded, OverloadedByAnything, MovesAlways,
    MovesNever, MergesAlways, MergesNever,
)  # fmt: skip


def broken(rules: type[Rules]) -> Mutant:
    return Mutant("costly", ("S1",), "7.1", "it costs more", Parts(rules=rules))


def run(rules: type[Rules], workload: Workload, seed: int) -> tuple[int, tuple[str, ...]]:
    """How often a broken rule gave another answer, and what fired."""
    probe, feed = Probe(), workload.feed(seed)
    outcome = try_workload(workload, feed, plan_of(workload, feed, seed), broken(rules).protocol(probe))
    return probe.count, fired(outcome)


def test_every_rule_that_decides_costs_only_is_broken_here() -> None:
    assert {name for rules in BROKEN for name in broken(rules).rules} == set(COST_ONLY)


@pytest.mark.parametrize("rules", BROKEN, ids=lambda rules: rules.__name__)
def test_a_rule_that_decides_costs_only_violates_nothing_when_it_is_broken(rules: type[Rules]) -> None:
    activations = 0
    for seed in range(60):  # at least six, and as many as it takes until the rule was asked
        for workload in BUSY:
            count, violated = run(rules, workload, seed)
            assert violated == ()
            activations += count
        if activations and seed >= 5:
            return
    pytest.fail("the broken rule was never asked, or answered as the sound one does")
