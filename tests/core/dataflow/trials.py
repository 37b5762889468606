"""Random groupings, many of them: the layer and the simulated cluster against the second, independently written model.

::

    python -m tests.core.dataflow.trials --layer 100000 --cluster 20000 --seed 1
"""

import argparse
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import astuple, dataclass
from multiprocessing import get_context
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from tests.core.dataflow.drawn_groupings import cases
from tests.core.dataflow.test_cluster import (
    PLANS,
    faulty_cluster_settles,
    second_grouping_settles,
)
from tests.core.dataflow.test_losses import accounts_for_all, loses_nothing
from tests.core.dataflow.test_model import agree

PARTS = {"layer": 500, "cluster": 50}
"""So many cases are one piece of work, with a seed of its own: a few CPU seconds."""
TELL_EVERY_S = 10


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of trials.

    Attributes:
        check: raises an `AssertionError` if a case goes wrong; may return the number of elements that were dropped, which it has
            compared with an independent count.
        drawn: what it takes: a `GroupingCase` first.
        place: where the groupings run: ``layer`` or ``cluster``.
    """

    check: Callable[..., int | None]
    drawn: tuple[SearchStrategy[Any], ...]
    place: str


KINDS = {
    "pane by pane": Kind(agree, (cases(),), "layer"),
    "where times coincide": Kind(agree, (cases(coinciding=True),), "layer"),
    "with retractions": Kind(agree, (cases(coinciding=True, retractions=True),), "layer"),
    "each element once, or counted as dropped": Kind(accounts_for_all, (cases(coinciding=True),), "layer"),
    "what is on time, through two groupings": Kind(loses_nothing, (cases(settling=True),), "layer"),
    "in a cluster with faults": Kind(faulty_cluster_settles, (cases(settling=True), PLANS), "cluster"),
    "through two groupings, in a cluster with faults": Kind(
        second_grouping_settles, (cases(settling=True, merging=False), PLANS), "cluster"
    ),
}


@dataclass(slots=True)
class Tally:
    """What came of some cases.

    Attributes:
        cases: how many were run.
        elements: how many elements these had.
        dropped: how many of these the layer dropped, and the independent count too.
        cpu_s: CPU time, seconds.
        problems: how many parts went wrong; each stops at its first case that does, once it is shrunk.
    """

    cases: int = 0
    elements: int = 0
    dropped: int = 0
    cpu_s: float = 0.0
    problems: int = 0

    def add(self, other: "Tally") -> None:
        """Add another."""
        for name, before, more in zip(self.__slots__, astuple(self), astuple(other), strict=True):
            setattr(self, name, before + more)

    @property
    def rate(self) -> str:
        """Cases per CPU second."""
        return f"{self.cases / max(self.cpu_s, 1e-9):,.0f} per CPU second"


def tried(name: str, examples: int, number: int) -> tuple[Tally, str]:
    """Try cases of a kind; return what came of them, and what went wrong, if something did."""
    kind, tally, began = KINDS[name], Tally(), time.process_time()

    def check(drawn: tuple[Any, ...]) -> None:
        tally.cases += 1
        tally.elements += sum(step.element is not None for step in drawn[0].steps)
        tally.dropped += kind.check(*drawn) or 0

    chosen = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[*HealthCheck],
    )
    problem = ""
    try:
        seed(number)(chosen(given(st.tuples(*kind.drawn))(check)))()
    except Exception:  # noqa: BLE001  all is told
        problem, tally.problems = traceback.format_exc(limit=-3), 1
    tally.cpu_s = time.process_time() - began
    return tally, problem


def parts(wanted: dict[str, int], first_seed: int) -> Iterator[tuple[str, int, int]]:
    """Iterate over (kind, number of cases, seed)."""
    for place, total in wanted.items():
        names = [name for name, kind in KINDS.items() if kind.place == place]
        for name in names:
            left, number = -(-total // len(names)), 0
            while left > 0:
                yield name, min(left, PARTS[place]), first_seed * 1_000_000 + number
                left, number = left - PARTS[place], number + 1


def tallies(work: list[tuple[str, int, int]], jobs: int) -> dict[str, Tally]:
    """Do the work, and tell how far it is, and each problem at once; return the tallies by kind."""
    found, done = {name: Tally() for name, *_ in work}, Tally()
    asked, told_at = sum(count for _, count, _ in work), time.monotonic()
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        names = {pool.submit(tried, *part): part for part in work}
        for future in as_completed(names):
            (name, _, number), (tally, problem) = names[future], future.result()
            found[name].add(tally)
            done.add(tally)
            if problem:
                sys.stdout.write(f"{name}, seed {number}\n{problem}\n")
            if problem or time.monotonic() - told_at >= TELL_EVERY_S:
                told_at = time.monotonic()
                sys.stdout.write(
                    f"{done.cases:,} of {asked:,} cases, {done.rate}; problems so far: {done.problems}\n"
                )
                sys.stdout.flush()
    return found


def main(arguments: list[str] | None = None) -> int:
    """Print a table; return 1 if a case went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--layer", type=int, default=1_000, metavar="CASES", help="on the layer alone")
    parser.add_argument("--cluster", type=int, default=100, metavar="CASES", help="in the simulated cluster")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes")
    asked = parser.parse_args(arguments)
    found = tallies([*parts({"layer": asked.layer, "cluster": asked.cluster}, asked.seed)], asked.jobs)
    total = Tally()
    for name, tally in found.items():
        total.add(tally)
        sys.stdout.write(f"{tally.cases:>9,}  {tally.rate:>20}  {KINDS[name].place:8} {name}\n")
    verdict = f"problems: {total.problems}" if total.problems else "all counts agreed"
    counts = f"{total.elements:,} elements checked, {total.dropped:,} dropped"
    sys.stdout.write(f"{total.cases:,} cases, {counts}; {verdict}\n")
    return bool(total.problems)


if __name__ == "__main__":
    sys.exit(main())
