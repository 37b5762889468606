"""Many hunts at once, spread over processes."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context

from millrace_properties.hunt import Hunted, hunt_named


def hunt_all(names: Sequence[str], seeds: int, jobs: int) -> Iterator[Hunted]:
    """Hunt mutants, and tell of each when it is done; the order of the results differs from run to run, and nothing else.

    Args:
        names: of the mutants.
        seeds: how many runs each may take; the first ``seeds`` seeds.
        jobs: how many processes; 1: this one.
    """
    if jobs == 1:
        for name in names:
            yield hunt_named(name, range(seeds))
        return
    # Choice: fresh processes, as the caller may have threads (a progress bar has one), which a fork would tear apart.
    with ProcessPoolExecutor(min(jobs, len(names)), mp_context=get_context("spawn")) as pool:
        found = [pool.submit(hunt_named, name, range(seeds)) for name in names]
        try:
            for one in as_completed(found):
                yield one.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
