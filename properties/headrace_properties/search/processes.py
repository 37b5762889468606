"""Work spread over processes."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import TypeVar

from headrace import HeadraceError

ThingT = TypeVar("ThingT")
ResultT = TypeVar("ResultT")


class KilledProcessError(HeadraceError):
    """A process that work was spread over was killed. Fields: jobs."""

    def __init__(self, jobs: int) -> None:
        super().__init__(jobs)
        self.jobs = jobs

    def __str__(self) -> str:
        """Say what may have killed it."""
        return (
            f"one of the {self.jobs} processes at work was killed, and what it was at is lost. The system does that when memory"
            " runs out: try fewer --jobs"
        )


def spread(work: Callable[[ThingT], ResultT], things: Sequence[ThingT], jobs: int) -> Iterator[ResultT]:
    """Do the same to many things, and give each result as soon as it is there; in which order differs from run to run.

    Args:
        work: what to do to a thing; a function with a name, as it crosses to another process.
        things: to what.
        jobs: how many processes; 1: this one.

    Raises:
        KilledProcessError: one of them was killed.
    """
    if jobs == 1:
        yield from map(work, things)
        return
    # Choice: fresh processes, as the caller may have threads (a progress bar has one), which a fork would tear apart.
    with ProcessPoolExecutor(min(jobs, len(things)), mp_context=get_context("spawn")) as pool:
        results = [pool.submit(work, thing) for thing in things]
        try:
            for one in as_completed(results):
                yield one.result()
        except BrokenProcessPool as error:
            raise KilledProcessError(jobs) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
