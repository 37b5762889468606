"""Running many plans, in this process or spread over several: the outcomes are the same, and in the same order."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from headrace_properties.search.outcome import Outcome, try_plan
from headrace_properties.search.plans import Plan
from headrace_properties.search.processes import KilledProcessError
from headrace_sim import Feed, Protocol, Versions
from headrace_sim.kernel import seldom_collected

RunPlans = Callable[[Sequence[Plan]], Iterator[Outcome]]
"""Runs plans, and gives the outcome of each in their order."""

_AT_ONCE = 16
"""Choice: so many plans at most go to a process at once, for a run takes a few milliseconds only."""


@contextmanager
def runner(pipeline: Versions, feed: Feed, protocol: Protocol, jobs: int) -> Iterator[RunPlans]:
    """Begin to run plans.

    Args:
        pipeline: the pipeline, or its versions.
        feed: its input.
        protocol: the state machines to host.
        jobs: processes that share the runs; 1: this one, and a plan is run when its outcome is asked for.

    Raises:
        KilledProcessError: one of them was killed.
    """
    with seldom_collected():  # what is forked inherits it
        if jobs == 1:
            yield lambda plans: (try_plan(pipeline, feed, plan, protocol) for plan in plans)
            return
        # Forked, for a pipeline can have what can not be sent to another process: functions without a name.
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(jobs, context, _begin_job, (pipeline, feed, protocol)) as pool:
            try:
                yield lambda plans: pool.map(
                    _job, plans, chunksize=max(1, min(len(plans) // jobs // 2, _AT_ONCE))
                )
            except BrokenProcessPool as error:
                raise KilledProcessError(jobs) from error
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


_shared: tuple[Versions, Feed, Protocol]


def _begin_job(pipeline: Versions, feed: Feed, protocol: Protocol) -> None:
    global _shared  # noqa: PLW0603  what a pool's process has from its parent
    _shared = pipeline, feed, protocol


def _job(plan: Plan) -> Outcome:
    pipeline, feed, protocol = _shared
    return try_plan(pipeline, feed, plan, protocol)
