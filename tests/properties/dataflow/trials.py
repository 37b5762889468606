"""Random groupings, many of them: the layer and the simulated cluster against the second, independently written model.

::

    python -m tests.properties.dataflow.trials --layer 100000 --cluster 20000 --seed 1
"""

import argparse
import os
import sys
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from headrace_properties.dataflow.cases import cases
from tests.properties.dataflow.test_cluster import PLANS, faulty_cluster_settles, second_grouping_settles
from tests.properties.dataflow.test_losses import accounts_for_all, loses_nothing
from tests.properties.dataflow.test_model import agree

PART = 500
"""So many cases are one piece of work, with a seed of its own."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of trials.

    Attributes:
        check: raises an `AssertionError` if a case goes wrong.
        drawn: what it takes.
        place: where the groupings run: ``layer`` or ``cluster``.
    """

    check: Callable[..., None]
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


def tried(name: str, examples: int, number: int) -> tuple[int, str]:
    """Try cases of a kind; return how many were run, and what went wrong, if something did."""
    kind, counted = KINDS[name], Counter[str]()

    def check(drawn: tuple[Any, ...]) -> None:
        counted["cases"] += 1
        kind.check(*drawn)

    chosen = settings(
        max_examples=examples,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=[*HealthCheck],
    )
    try:
        seed(number)(chosen(given(st.tuples(*kind.drawn))(check)))()
    except Exception:  # noqa: BLE001  all is told
        return counted["cases"], traceback.format_exc(limit=-3)
    return counted["cases"], ""


def parts(wanted: dict[str, int], first_seed: int) -> Iterator[tuple[str, int, int]]:
    """Iterate over (kind, number of cases, seed)."""
    for place, total in wanted.items():
        names = [name for name, kind in KINDS.items() if kind.place == place]
        for name in names:
            left, number = -(-total // len(names)), 0
            while left > 0:
                yield name, min(left, PART), first_seed * 1_000_000 + number
                left, number = left - PART, number + 1


def main() -> int:
    """Print a table; return 1 if a case went wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--layer", type=int, default=1_000, metavar="CASES", help="on the layer alone")
    parser.add_argument("--cluster", type=int, default=100, metavar="CASES", help="in the simulated cluster")
    parser.add_argument("--seed", type=int, default=0, help="of all that is drawn")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, metavar="N", help="processes")
    asked = parser.parse_args()
    work = [*parts({"layer": asked.layer, "cluster": asked.cluster}, asked.seed)]
    done: Counter[str] = Counter()
    wrong: list[str] = []
    with ProcessPoolExecutor(asked.jobs, get_context("spawn")) as pool:
        for (name, *_), (count, problem) in zip(work, pool.map(tried, *zip(*work, strict=True)), strict=True):
            done[name] += count
            sys.stderr.write(f"\r{sum(done.values()):,} cases")
            if problem:
                wrong.append(f"{name}\n{problem}")
    for name, count in done.items():
        sys.stdout.write(f"{count:>9,}  {KINDS[name].place:8} {name}\n")
    said = "\n".join(wrong) or f"{sum(done.values()):,} cases, none went wrong"
    sys.stdout.write(f"{said}\n")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
