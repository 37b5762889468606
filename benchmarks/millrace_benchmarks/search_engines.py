"""Which way of searching finds broken protocols soonest, and which makes the smallest plans of them.

``python -m millrace_benchmarks.search_engines`` prints the table of docs/search.md. Runs are counted as well as CPU time: only
runs are the same on every machine.
"""

import contextlib
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings, target
from hypothesis import strategies as st

from millrace_benchmarks.steering import Steering
from millrace_properties.coverage import Spot
from millrace_properties.mutants import CATALOGUE, Mutant
from millrace_properties.outcome import Failure, Outcome, try_plan
from millrace_properties.plans import (
    FAULT_SLOTS,
    HEADER_BYTES,
    MAKERS,
    PLAN_BYTES,
    SLOT_BYTES,
    Plan,
    decode_plan,
    ground_of,
)
from millrace_properties.shrinking import shrink
from millrace_properties.workloads import WORKLOADS
from millrace_sim import Feed

MOST_RUNS = 80
SEEDS = (0, 1)
REACH_RUNS = 250
MUTANTS = tuple(CATALOGUE)[::11]
"""Every eleventh of the catalogue."""

BYTES = st.binary(min_size=PLAN_BYTES, max_size=PLAN_BYTES)
_byte = st.integers(0, 255)
_slot = st.tuples(st.integers(1, len(MAKERS)), _byte, _byte, _byte, _byte).map(bytes)
LISTS = st.tuples(
    st.tuples(*[_byte] * HEADER_BYTES).map(bytes), st.lists(_slot, max_size=FAULT_SLOTS).map(b"".join)
).map(lambda parts: (parts[0] + parts[1]).ljust(HEADER_BYTES + FAULT_SLOTS * SLOT_BYTES, b"\0"))
"""The same plans as a list of structured faults."""


class _Found(Exception):  # noqa: N818  it stops a search, it is not an error
    """A broken protocol was found out."""


@dataclass(slots=True)
class Trial:
    """One search for one mutant, on its workload.

    Attributes:
        runs: until it was found, or until the search gave up.
        cpu_s: the same in seconds of CPU time.
        shrink_runs: runs that made the plan smaller.
        shrink_cpu_s: the same in seconds.
        failure: the smallest plan that fails; ``None``: not found.
    """

    mutant: Mutant
    seed: int
    runs: int = 0
    cpu_s: float = 0.0
    shrink_runs: int = 0
    shrink_cpu_s: float = 0.0
    failure: Failure | None = None
    _began: float = field(default_factory=time.process_time)

    def run(self, data: bytes) -> Outcome:
        """Run a plan, and take note of it."""
        workload = WORKLOADS[self.mutant.workload]
        feed = workload.feed(0)
        plan = decode_plan(data, ground_of(workload.pipeline, feed, workload.options), workload.options)
        return self.test(plan, feed)

    def test(self, plan: Plan, feed: Feed) -> Outcome:
        """Run a plan over an input."""
        outcome = try_plan(WORKLOADS[self.mutant.workload].pipeline, feed, plan, self.mutant.protocol())
        if self.failure is not None:
            self.shrink_runs += 1
        else:
            self.runs += 1
            self.cpu_s = time.process_time() - self._began
        if outcome.failed:  # the last failing run of a shrinker is its smallest
            self.failure = outcome.failure(plan, 0)
        return outcome

    def end(self) -> "Trial":
        """It is over."""
        self.shrink_cpu_s = time.process_time() - self._began - self.cpu_s
        return self


def by_hypothesis(
    strategy: st.SearchStrategy[bytes], *, steer: bool = False
) -> Callable[[Mutant, int], Trial]:
    """Hypothesis draws, and Hypothesis shrinks; ``steer``: it is told how many steps a plan's faults struck at."""

    def search(mutant: Mutant, seed: int) -> Trial:
        trial = Trial(mutant, seed)

        @hypothesis.seed(seed)
        @settings(
            max_examples=MOST_RUNS, deadline=None, database=None, print_blob=False, report_multiple_bugs=False,
            phases=(Phase.generate, Phase.target, Phase.shrink), suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(strategy)
        def runs(data: bytes) -> None:
            outcome = trial.run(data)
            if steer:
                target(len(outcome.covered))
            if outcome.failed:
                raise _Found

        with contextlib.suppress(_Found):
            runs()
        return trial.end()

    return search


def by_us(*, steer: bool) -> Callable[[Mutant, int], Trial]:
    """Bytes drawn by ourselves, and our own shrinker; ``steer``: towards what is new."""

    def search(mutant: Mutant, seed: int) -> Trial:
        trial, steering = Trial(mutant, seed), Steering(seed)
        workload = WORKLOADS[mutant.workload]
        while trial.failure is None and trial.runs < MOST_RUNS:
            data = steering.propose()
            outcome = trial.run(data)
            if steer:
                steering.learn(data, outcome)
        if trial.failure is not None:
            feed = workload.feed(0)
            trial.failure = shrink(trial.failure, feed, workload.options, trial.test)
        return trial.end()

    return search


ENGINES: dict[str, Callable[[Mutant, int], Trial]] = {
    "lists, Hypothesis": by_hypothesis(LISTS),
    "bytes, Hypothesis": by_hypothesis(BYTES),
    "bytes, Hypothesis with target()": by_hypothesis(BYTES, steer=True),
    "bytes, own shrinker": by_us(steer=False),
    "steered bytes, own shrinker": by_us(steer=True),
}


def compare(seeds: tuple[int, ...] = SEEDS, mutants: tuple[str, ...] = MUTANTS) -> dict[str, list[Trial]]:
    """Let every engine search for every mutant, in turn."""
    chosen = [CATALOGUE[name] for name in mutants if CATALOGUE[name].directed is None]
    found: dict[str, list[Trial]] = {name: [] for name in ENGINES}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hypothesis.errors.HypothesisWarning)
        for mutant in chosen:
            for seed in seeds:
                for name, search in ENGINES.items():
                    found[name].append(search(mutant, seed))
    return found


def reach(runs: int = REACH_RUNS, seed: int = 0) -> dict[str, int]:
    """At how many (role, step, fault) each way of drawing plans strikes in so many runs of the sound protocol."""
    workload = WORKLOADS["tallies"]
    feed = workload.feed(0)
    ground = ground_of(workload.pipeline, feed, workload.options)

    def run(data: bytes) -> Outcome:
        return try_plan(workload.pipeline, feed, decode_plan(data, ground, workload.options))

    found = {}
    for steer in (False, True):
        steering, seen = Steering(seed), set[Spot]()
        for _ in range(runs):
            data = steering.propose()
            outcome = run(data)
            seen.update(outcome.covered)
            if steer:
                steering.learn(data, outcome)
        found["steered bytes" if steer else "bytes"] = len(seen)
    spots: set[Spot] = set()

    @hypothesis.seed(seed)
    @settings(
        max_examples=runs, deadline=None, database=None, phases=(Phase.generate, Phase.target),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(BYTES)
    def targeted(data: bytes) -> None:
        outcome = run(data)
        spots.update(outcome.covered)
        target(len(outcome.covered))

    targeted()
    return {**found, "bytes, Hypothesis with target()": len(spots)}


def main() -> None:
    """Print the tables."""
    print(f"(role, step, fault) reached in {REACH_RUNS} runs of the sound protocol, seed 0: {reach()}")
    found = compare()
    print(f"{len(next(iter(found.values())))} searches of at most {MOST_RUNS} runs each, seeds {SEEDS}")
    print(f"{'engine':<34}{'found':>6}{'runs':>7}{'CPU s':>7}{'shrink runs':>13}{'CPU s':>7}{'faults':>8}")
    for name, trials in found.items():
        hits = [one for one in trials if one.failure is not None]
        faults = [one.failure.plan.faults.count for one in hits if one.failure is not None]
        figures = (
            statistics.mean(one.runs for one in trials), statistics.mean(one.cpu_s for one in trials),
            statistics.mean(one.shrink_runs for one in hits), statistics.mean(one.shrink_cpu_s for one in hits),
        )  # fmt: skip
        runs, cpu_s, shrink_runs, shrink_cpu_s = figures
        print(
            f"{name:<34}{len(hits):>6}{runs:>7.1f}{cpu_s:>7.2f}{shrink_runs:>13.0f}{shrink_cpu_s:>7.2f}"
            f"{statistics.mean(faults):>8.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
