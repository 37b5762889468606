"""Many hunts at once, spread over processes."""

from collections.abc import Iterator, Sequence
from functools import partial

from headrace_properties.mutants.hunt import Hunted, hunt_named
from headrace_properties.search.processes import spread


def hunt_all(names: Sequence[str], seeds: int, jobs: int) -> Iterator[Hunted]:
    """Hunt mutants, and tell of each when it is done; the order of the results differs from run to run, and nothing else.

    Args:
        names: of the mutants.
        seeds: how many runs each may take; the first ``seeds`` seeds.
        jobs: how many processes; 1: this one.
    """
    yield from spread(partial(hunt_named, seeds=range(seeds)), names, jobs)
