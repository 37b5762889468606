"""One loop drives all searches: each finds the same failure in the same run, whoever drives it."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from headrace import OptionsError
from headrace_properties.proof.mutants import CATALOGUE, MUTANTS
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.search.application import Application
from headrace_properties.search.enumeration import Enumeration
from headrace_properties.search.exhaustive_search import ExhaustiveSearch
from headrace_properties.search.judging import Failure
from headrace_properties.search.lineage import LINEAGE_KINDS, LineageSearch
from headrace_properties.search.scope import Scope
from headrace_properties.search.steering import Steering
from headrace_properties.search.strategy import Strategy, search
from headrace_properties.search.verification import Verification
from headrace_sim import Protocol

STRATEGIES: dict[str, Callable[[Application, Protocol, int], Strategy]] = {
    "random": lambda application, protocol, seed: Steering(application, seed=seed, protocol=protocol),
    "pct": lambda application, protocol, seed: Steering(application, seed=seed, protocol=protocol, depth=2),
    "enumerate": lambda application, protocol, seed: Enumeration(
        application, feed_seed=seed, protocol=protocol, first=1, seed=seed
    ),
    "pairs": lambda application, protocol, seed: Enumeration(
        application, feed_seed=seed, protocol=protocol, pairs=30, seed=seed
    ),
    "exhaustive": lambda application, protocol, seed: ExhaustiveSearch(
        application, Scope(2, 1, 0, ("crash",)), feed_seed=seed, protocol=protocol
    ),
    "lineage": lambda application, protocol, seed: LineageSearch(
        application, Scope(3, 1, 0, LINEAGE_KINDS), feed_seed=seed, protocol=protocol
    ),
}

MUTANT = "no recovery scan"
APPLICATION = WORKLOADS[CATALOGUE[MUTANT].workload].application

FIRST_FAILURES: dict[tuple[str, int], tuple[int, str]] = {
    ("random", 0): (1, "39954d2d"),
    ("random", 1): (2, "e6ae8a86"),
    ("random", 2): (2, "31e3bd99"),
    ("random", 4): (3, "8c65624f"),
    ("random", 5): (5, "05dc3190"),
    ("pct", 1): (2, "4b86feef"),
    ("pct", 2): (3, "dc4b10ce"),
    ("pct", 3): (1, "2899a258"),
    ("pct", 4): (6, "fe6ad50a"),
    ("enumerate", 0): (2, "c9e3423c"),
    ("enumerate", 2): (0, "829938b8"),
    ("enumerate", 3): (4, "46864631"),
    ("enumerate", 5): (12, "e59250e4"),
    ("pairs", 0): (3, "13f5f05c"),
    ("pairs", 1): (3, "8bac3674"),
    ("pairs", 3): (0, "deb06113"),
    ("pairs", 4): (2, "7996f8b3"),
    ("exhaustive", 0): (89, "2292bae4"),
    ("exhaustive", 1): (104, "9de20832"),
    ("lineage", 0): (8, "dd55747b"),
    ("lineage", 1): (8, "22ce4d62"),
    ("lineage", 2): (8, "b63be669"),
    ("lineage", 3): (8, "4e9d7084"),
}
"""Of each search and seed: how many runs the first failing one comes after, and a digest of its plan, not yet made small."""


def digest_of(failure: Failure) -> str:
    """Digest what differs between plans, and not how the options are written."""
    plan = failure.plan
    parts = (*plan.describe(), plan.seed, failure.feed_seed, failure.kept, failure.digest)
    return hashlib.sha256(msgspec.json.encode(parts)).hexdigest()[:8]


def first_failure(strategy: Strategy) -> tuple[int, str]:
    """Search, and return the number of runs before the first failing one, and a digest of its plan."""
    failures: list[Failure] = []

    def note(found: Verification) -> None:
        if found.failure is not None:
            failures.append(found.failure)

    found = search(strategy, examples=200, on_run=note)
    return found.runs + found.idle - 1, digest_of(failures[0])


@pytest.mark.parametrize(("name", "seed"), FIRST_FAILURES)
def test_the_first_failing_run_of_a_seed_stays_the_same(name: str, seed: int) -> None:
    assert first_failure(STRATEGIES[name](APPLICATION, MUTANTS[MUTANT], seed)) == FIRST_FAILURES[name, seed]


@pytest.mark.parametrize("name", ["random", "pct", "enumerate", "pairs"])
def test_a_search_that_cannot_resume_says_so_and_begins_no_file(name: str, tmp_path: Path) -> None:
    strategy = STRATEGIES[name](APPLICATION, MUTANTS[MUTANT], 0)
    with pytest.raises(OptionsError, match="an exhaustive search, or one by lineage"):
        search(strategy, examples=1, resume=tmp_path / "search")
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_search_ends_after_its_time(name: str) -> None:
    found = search(STRATEGIES[name](WORKLOADS["tallies"].application, MUTANTS[MUTANT], 0), minutes=0.0)
    assert found.runs + found.idle == 1
    assert (found.exploration or found).stopped_for == "minutes"
