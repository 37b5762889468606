"""Systematic search: every single fault at every protocol step of a small run, and pairs of them.

Each is tried in its own run. Nothing is left to chance, and findings need no shrinking.
"""

from collections.abc import Callable, Collection
from random import Random

from headrace import SECOND
from headrace_properties.search.application import Application, Trial
from headrace_properties.search.outside import breaches_of
from headrace_properties.search.parallel import Jobs, runner, useful_jobs
from headrace_properties.search.plans import Plan, ground_of
from headrace_properties.search.step_faults import pairs_of, single_faults
from headrace_properties.search.verification import Verification
from headrace_sim import SOUND, ClusterOptions, FaultSchedule, Protocol, StepFault
from headrace_sim.faults import Breach


def enumerate_faults(
    application: Application,
    *,
    feed_seed: int = 0,
    options: ClusterOptions | None = None,
    protocol: Protocol = SOUND,
    first: int = 2,
    pairs: int = 0,
    seed: int = 0,
    jobs: Jobs = 1,
    outside: Collection[Breach] = (),
    on_run: Callable[[Verification], None] | None = None,
) -> Verification:
    """Try every single fault at every protocol step, one run each, until one breaks an invariant.

    Args:
        application: what is under test.
        feed_seed: of the input.
        options: of the cluster.
        protocol: the state machines to host; default: the engine's own.
        first: number of steps of each kind to try, besides the last one.
        pairs: number of pairs of faults to try instead; 0: single faults.
        seed: for the choice of pairs, and for the order of trials.
        jobs: processes that share the runs, or a pool of them. The result does not depend on it.
        outside: faults outside the model to try as well, at every write.
        on_run: told after each run, for progress.
    """
    base, feed = options or ClusterOptions(), application.feed(feed_seed)
    singles = single_faults(application.versions, feed, base, first)
    chosen: list[tuple[StepFault, ...]] = (
        pairs_of(singles, pairs, seed) if pairs else [(single,) for single in singles]
    )
    chosen += breaches_of(application.versions, feed, base, outside)
    Random(f"{seed}/order").shuffle(
        chosen
    )  # neighbours find the same, so a broken protocol shows sooner in random order
    heal_at_us = ground_of(application.versions, feed, base).horizon_us + SECOND
    plans = [Plan(FaultSchedule((), heal_at_us, at_steps=faults), base, 0) for faults in chosen]
    trials = [Trial(plan, feed_seed) for plan in plans]
    found = Verification(feed_seeds=(feed_seed,))
    with runner(application, protocol, useful_jobs(jobs, len(trials))) as run:
        for trial, judged in zip(trials, run(trials), strict=True):
            found.take(judged)
            if judged.failed:
                found.fail(judged.failure(trial))
            if on_run is not None:
                on_run(found)
            if judged.failed:
                break
    return found
