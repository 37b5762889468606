"""Which search method finds broken protocols soonest, and which one finds the smallest plans.

Both runs and CPU time are counted, since only runs are the same on every machine.
The mutants and seeds differ from those by which the steering was chosen.
"""

import contextlib
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

import hypothesis
from hypothesis import HealthCheck, Phase, given, settings, target
from hypothesis import strategies as st

from headrace_properties.proof.mutants import CATALOGUE, Mutant
from headrace_properties.proof.oracles import ERROR, REFERENCE
from headrace_properties.proof.workloads import WORKLOADS, Workload
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.coverage import Spot
from headrace_properties.search.judging import Failure, JudgedRun, try_plan
from headrace_properties.search.plans import (
    FAULT_SLOTS,
    HEADER_BYTES,
    MAKERS,
    PLAN_BYTES,
    SLOT_BYTES,
    decode_plan,
    ground_of,
)
from headrace_properties.search.smaller_plans import shrink
from headrace_properties.search.steering import AIMED, Steering

MOST_RUNS = 96
SEEDS = (3, 4, 5)
REACH_RUNS = 250
CHOSEN_BY = (
    "ack on receipt", "a remnant is taken", "send before checkpoint", "weak upstream ACKed too early",
    "a timer in the past never fires", "the same token for the next owner", "one input only",
    "injector position at send", "state in memory only",
)  # fmt: skip
"""The mutants by which the steering was chosen, with seeds 0 to 2."""


def _others() -> list[str]:
    """List the mutants by which nothing was chosen, and which an invariant of a History detects by chance."""
    return [
        name
        for name, mutant in CATALOGUE.items()
        if name not in CHOSEN_BY and mutant.directed is None and set(mutant.breaks) - {REFERENCE, ERROR}
    ]


MUTANTS = tuple(_others()[3::4])
"""Every fourth of these mutants."""

BYTES = st.binary(min_size=PLAN_BYTES, max_size=PLAN_BYTES)
_byte = st.integers(0, 255)
_slot = st.tuples(st.integers(1, len(MAKERS)), _byte, _byte, _byte, _byte).map(bytes)
LISTS = st.tuples(
    st.tuples(*[_byte] * HEADER_BYTES).map(bytes), st.lists(_slot, max_size=FAULT_SLOTS).map(b"".join)
).map(lambda parts: (parts[0] + parts[1]).ljust(HEADER_BYTES + FAULT_SLOTS * SLOT_BYTES, b"\0"))
"""The same plans as a list of structured faults."""


class _Found(Exception):  # noqa: N818  it stops a search, it is not an error
    """A broken protocol was detected."""


@dataclass(slots=True)
class EngineTrial:
    """One search for one mutant, on its workload.

    Attributes:
        mutant: the mutant.
        seed: seed of the search.
        runs: number of runs until the mutant was detected, or the search gave up.
        cpu_s: CPU time of these runs, seconds.
        shrink_runs: number of runs for shrinking the plan.
        shrink_cpu_s: CPU time of shrinking, seconds.
        failure: the smallest failing plan; ``None``: not found.
    """

    mutant: Mutant
    seed: int
    runs: int = 0
    cpu_s: float = 0.0
    shrink_runs: int = 0
    shrink_cpu_s: float = 0.0
    failure: Failure | None = None
    _began: float = field(default_factory=time.process_time)

    def run(self, data: bytes) -> JudgedRun:
        """Decode and run a plan."""
        workload = WORKLOADS[self.mutant.workload]
        feed = workload.feed(0)
        plan = decode_plan(data, ground_of(workload.deployed, feed, workload.options), workload.options)
        return self.test(PipelineTrial(plan))

    def test(self, trial: PipelineTrial) -> JudgedRun:
        """Make a run, and record the result."""
        outcome = try_plan(_application(WORKLOADS[self.mutant.workload]), trial, self.mutant.protocol())
        if self.failure is not None:
            self.shrink_runs += 1
        else:
            self.runs += 1
            self.cpu_s = time.process_time() - self._began
        if outcome.failed:  # the last failing run of a shrinker is its smallest
            self.failure = outcome.failure(trial)
        return outcome

    def end(self) -> "EngineTrial":
        """Finish the trial."""
        self.shrink_cpu_s = time.process_time() - self._began - self.cpu_s
        return self


def _application(workload: Workload) -> Application:
    """Return the workload with the input of seed 0, whatever the seed of a search."""
    return Application.with_input(workload.deployed, workload.feed(0))


def by_hypothesis(
    strategy: st.SearchStrategy[bytes], *, steer: bool = False
) -> Callable[[Mutant, int], EngineTrial]:
    """Search and shrink with Hypothesis; ``steer``: maximize the number of steps at which a plan's faults strike."""

    def search(mutant: Mutant, seed: int) -> EngineTrial:
        trial = EngineTrial(mutant, seed)

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


def by_us(aimed: int, depth: int | None = None) -> Callable[[Mutant, int], EngineTrial]:
    """Search like `verify`: rounds of bytes, and our own shrinker.

    Args:
        aimed: faults per plan at steps not struck before.
        depth: draw the order of arrivals by priorities, for failures of this depth; default: draw latencies.
    """

    def search(mutant: Mutant, seed: int) -> EngineTrial:
        trial, workload = EngineTrial(mutant, seed), WORKLOADS[mutant.workload]
        application, covered = _application(workload), Counter[Spot]()
        steering = Steering(
            application, seed=seed, feeds=1, options=workload.options, depth=depth, aimed=aimed
        )
        while trial.failure is None and trial.runs < MOST_RUNS:
            for plan in steering.round(covered.copy()):
                outcome = trial.test(plan)
                covered.update(outcome.covered)
                if outcome.failed or trial.runs == MOST_RUNS:
                    break
        if trial.failure is not None:
            trial.failure = shrink(trial.failure, application, workload.options, trial.test)
        return trial.end()

    return search


ENGINES: dict[str, Callable[[Mutant, int], EngineTrial]] = {
    "lists, Hypothesis": by_hypothesis(LISTS),
    "bytes, Hypothesis": by_hypothesis(BYTES),
    "bytes, Hypothesis with target()": by_hypothesis(BYTES, steer=True),
    "bytes, own shrinker": by_us(aimed=0),
    "steered bytes, own shrinker": by_us(AIMED),
    "steered bytes, priorities of depth 2": by_us(AIMED, depth=2),
}


def compare(engines: Sequence[str], seeds: Sequence[int] = SEEDS) -> dict[str, list[EngineTrial]]:
    """Search for every mutant with these engines in turn."""
    chosen = [CATALOGUE[name] for name in MUTANTS]
    trials: dict[str, list[EngineTrial]] = {name: [] for name in engines}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", hypothesis.errors.HypothesisWarning)
        for mutant in chosen:
            for seed in seeds:
                for name in engines:
                    trials[name].append(ENGINES[name](mutant, seed))
    return trials


def reach(runs: int = REACH_RUNS, seed: int = 0) -> dict[str, int]:
    """Return the number of distinct (role, step, fault) that each method reaches in some runs of the sound protocol."""
    workload = WORKLOADS["tallies"]
    feed = workload.feed(0)
    ground = ground_of(workload.deployed, feed, workload.options)

    application = _application(workload)

    reached = {}
    for name, aimed in (("bytes", 0), ("steered bytes", AIMED)):
        steering = Steering(application, seed=seed, feeds=1, options=workload.options, aimed=aimed)
        seen = Counter[Spot]()
        trials = (trial for _ in range(runs) for trial in steering.round(seen.copy()))
        for trial in islice(trials, runs):
            seen.update(try_plan(application, trial).covered)
        reached[name] = len(seen)
    spots: set[Spot] = set()

    @hypothesis.seed(seed)
    @settings(
        max_examples=runs, deadline=None, database=None, phases=(Phase.generate, Phase.target),
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(BYTES)
    def targeted(data: bytes) -> None:
        outcome = try_plan(application, PipelineTrial(decode_plan(data, ground, workload.options)))
        spots.update(outcome.covered)
        target(len(outcome.covered))

    targeted()
    return {**reached, "bytes, Hypothesis with target()": len(spots)}


def places() -> Iterator[dict[str, str]]:
    """Count the (role, step, fault) that each method reaches in some runs of the sound protocol, by seed."""
    for seed in SEEDS:
        yield {"seed": str(seed), **{name: str(count) for name, count in reach(seed=seed).items()}}


def engines(chosen: Sequence[str] = ()) -> Iterator[dict[str, str]]:
    """Compare engines on mutants; ``chosen``: only these."""
    for name, trials in compare(chosen or list(ENGINES)).items():
        hits = [trial for trial in trials if trial.failure is not None]
        faults = [trial.failure.plan.faults.count for trial in hits if trial.failure is not None]
        yield {
            "engine": name,
            f"found of {len(trials)}": str(len(hits)),
            "runs (mean)": f"{statistics.mean(trial.runs for trial in trials):.1f}",
            "CPU s": f"{statistics.mean(trial.cpu_s for trial in trials):.2f}",
            "shrink runs": f"{statistics.mean(trial.shrink_runs for trial in hits):.0f}",
            "shrink CPU s": f"{statistics.mean(trial.shrink_cpu_s for trial in hits):.2f}",
            "faults left": f"{statistics.mean(faults):.2f}",
        }
