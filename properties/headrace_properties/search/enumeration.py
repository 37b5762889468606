"""Systematic search: every single fault at every protocol step of a small run, and pairs of them.

Each is tried in a run of its own. Nothing is left to luck, and what is found needs no shrinking.
"""

from collections.abc import Callable
from random import Random

from headrace import SECOND
from headrace_properties.search.parallel import runner
from headrace_properties.search.plans import Plan, ground_of
from headrace_properties.search.step_faults import pairs_of, single_faults
from headrace_properties.search.verification import Verification
from headrace_sim import SOUND, ClusterOptions, FaultSchedule, Feed, Protocol, StepFault, Versions


def enumerate_faults(
    pipeline: Versions,
    feed: Feed,
    *,
    feed_seed: int = 0,
    options: ClusterOptions | None = None,
    protocol: Protocol = SOUND,
    first: int = 2,
    pairs: int = 0,
    seed: int = 0,
    jobs: int = 1,
    on_run: Callable[[Verification], None] | None = None,
) -> Verification:
    """Try every single fault at every protocol step, one run each, until one breaks an invariant.

    Args:
        pipeline: the pipeline.
        feed: its input.
        feed_seed: that the input was made from.
        options: of the cluster.
        protocol: the state machines to host; default: the engine's own.
        first: so many of each kind of step are tried, and the last one.
        pairs: try so many pairs of faults instead; 0: single faults.
        seed: of the draw of pairs, and of the order in which things are tried.
        jobs: processes that share the runs. The result does not depend on it.
        on_run: told after each run, for progress.
    """
    base = options or ClusterOptions()
    singles = single_faults(pipeline, feed, base, first)
    chosen: list[tuple[StepFault, ...]] = (
        pairs_of(singles, pairs, seed) if pairs else [(single,) for single in singles]
    )
    Random(f"{seed}/order").shuffle(
        chosen
    )  # neighbours find the same: a broken protocol shows sooner this way
    heal_at_us = ground_of(pipeline, feed, base).horizon_us + SECOND
    plans = [Plan(FaultSchedule((), heal_at_us, at_steps=one), base, 0) for one in chosen]
    found = Verification()
    with runner(pipeline, feed, protocol, jobs) as run:
        for plan, judged in zip(plans, run(plans), strict=True):
            found.take(judged)
            if judged.failed:
                found.fail(judged.failure(plan, feed_seed))
            if on_run is not None:
                on_run(found)
            if judged.failed:
                break
    return found
