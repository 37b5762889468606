"""Spread work over processes: trials, with results in order, and other work, with results as completed."""

import multiprocessing
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import FrameType
from typing import Protocol as Interface
from typing import TypeVar

from headrace import HeadraceError
from headrace_properties.search.apart import StatusBoard, work_apart
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import JudgedRun, try_plan
from headrace_properties.search.limits import calls_told, limit_memory
from headrace_properties.search.run_error import RunError
from headrace_sim import Protocol
from headrace_sim.kernel import seldom_collected

ThingT = TypeVar("ThingT")
ResultT = TypeVar("ResultT")


class KilledProcessError(HeadraceError):
    """A worker process was killed. Fields: jobs."""

    def __init__(self, jobs: int) -> None:
        super().__init__(jobs)
        self.jobs = jobs

    def __str__(self) -> str:
        """Suggest what may have killed it."""
        return (
            f"one of the {self.jobs} processes at work was killed, and what it was at is lost. The system does that when memory"
            " runs out: try fewer --jobs"
        )


RunTrials = Callable[[Sequence[PipelineTrial]], Iterator[JudgedRun]]
"""Makes runs, and yields their outcomes in order."""


class Pool(Interface):
    """Processes on other machines that share work."""

    def spread(self, work: Callable[[ThingT], ResultT], things: Sequence[ThingT]) -> Iterator[ResultT]:
        """See `spread`."""

    def runner(self, application: Application, protocol: Protocol) -> AbstractContextManager[RunTrials]:
        """See `runner`."""


Jobs = int | Pool
"""The workers: a number of processes on this machine, or a pool. Results do not depend on it."""


def spread(
    work: Callable[[ThingT], ResultT], things: Sequence[ThingT], jobs: Jobs, *, apart: bool = False
) -> Iterator[ResultT]:
    """Apply a function to many things, and yield each result as soon as it exists, in no fixed order.

    Args:
        work: the function to apply; it needs a name, as it is sent to another process.
        things: to what.
        jobs: how many processes; 1: this one. Or a pool.
        apart: never in this process.

    Raises:
        KilledProcessError: one of them was killed.
    """
    if not isinstance(jobs, int):
        yield from jobs.spread(work, things)
        return
    if jobs == 1 and not apart:
        yield from map(work, things)
        return
    # Choice: fresh processes, as the caller may have threads (a progress bar has one), which a fork would tear apart.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(things)), context, leave_signals_to_parent) as pool:
        try:
            for future in as_completed([pool.submit(work, thing) for thing in things]):
                yield future.result()
        except BrokenProcessPool as error:
            raise KilledProcessError(jobs) from error
        except BaseException:
            for process in multiprocessing.active_children():  # their work is no longer needed
                process.terminate()
            # Waits for the pool's thread, whose pipe Python's exit would write to, open or not.
            pool.shutdown(cancel_futures=True)
            raise


def leave_signals_to_parent() -> None:
    """Make a pool process ignore Ctrl-C, which a terminal sends to it, too; its parent ends it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def signals_deferred() -> Iterator[None]:
    """Defer signals to the end of the block: one that interrupts a pool's start leaves processes that nothing ends."""
    noted: list[tuple[int, FrameType | None]] = []
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    called = {number: handler for number, handler in handlers.items() if callable(handler)}
    if threading.current_thread() is not threading.main_thread():  # only there are signals handled
        called = {}
    for number in called:
        signal.signal(number, lambda caught, frame: noted.append((caught, frame)))
    try:
        yield
    finally:
        for number, handler in called.items():
            signal.signal(number, handler)
    for caught, frame in noted[:1]:
        called[signal.Signals(caught)](caught, frame)


AT_ONCE = 16
"""Choice: at most this many trials go to a process at once, because a run takes only a few milliseconds."""

_WORTH_A_PROCESS = 16
"""Choice: one more process is worth it for at least this many runs."""

_MOST_JOBS = 32
"""Choice: the most processes that one round of a search can keep busy."""


def cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def useful_jobs(jobs: Jobs, runs: int) -> Jobs:
    """Return how many of the processes wanted help with so many runs; a pool decides for itself."""
    if not isinstance(jobs, int):
        return jobs
    return max(1, min(jobs, runs // _WORTH_A_PROCESS, _MOST_JOBS))


@contextmanager
def runner(application: Application, protocol: Protocol, jobs: Jobs) -> Iterator[RunTrials]:
    """Start making runs.

    Args:
        application: what is under test.
        protocol: the state machines to host.
        jobs: processes that share the runs; 1: this one, and a run is made when its outcome is asked for. Or a pool.

    A run that kills its process is also an outcome.
    """
    if not isinstance(jobs, int):
        with jobs.runner(application, protocol) as run:
            yield run
        return
    with seldom_collected():  # forked processes inherit it
        if jobs == 1:
            yield lambda trials: (try_plan(application, trial, protocol) for trial in trials)
            return
        # Forked, for a pipeline can have what cannot be sent to another process: functions without a name.
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(jobs, context, _begin_job, (application, protocol)) as pool:
            try:
                with signals_deferred():
                    pool.submit(int)  # starts all of its processes, and the thread that waits for them
                yield partial(_in_turn, pool, jobs, application, protocol)
            finally:
                # Waits for the few runs under way: a process that ends meanwhile, as a child of `multiprocessing` does, may hang.
                pool.shutdown(cancel_futures=True)


def _in_turn(
    pool: ProcessPoolExecutor,
    jobs: int,
    application: Application,
    protocol: Protocol,
    trials: Sequence[PipelineTrial],
) -> Iterator[JudgedRun]:
    """Make runs in the pool; once one has killed its process, make each of the rest in a separate process."""
    done = 0
    try:
        for judged in pool.map(_job, trials, chunksize=max(1, min(len(trials) // jobs // 2, AT_ONCE))):
            yield judged
            done += 1
    except BrokenProcessPool:
        for trial in trials[done:]:
            yield run_apart(application, trial, protocol)


def run_apart(application: Application, trial: PipelineTrial, protocol: Protocol) -> JudgedRun:
    """Make a run in a separate process; if it ends the process, that is its outcome, with the call that was running."""

    def work(board: StatusBoard) -> Iterator[JudgedRun]:
        with calls_told(board.write):
            judged = try_plan(application, trial, protocol)
        yield judged

    for outcome in work_apart(work, application.limits):
        if isinstance(outcome, JudgedRun):
            return outcome
        text = (
            f"user code ended its process ({outcome.how}){f', on {outcome.entry}' if outcome.entry else ''}"
        )
        break
    else:
        text = "user code ended its process"
    return JudgedRun({}, {}, Counter(), Counter(), 0, "", RunError.ended(text))


_shared: tuple[Application, Protocol]


def _begin_job(application: Application, protocol: Protocol) -> None:
    leave_signals_to_parent()
    limit_memory(application.limits)
    global _shared  # noqa: PLW0603  what a pool's process has from its parent
    _shared = application, protocol


def _job(trial: PipelineTrial) -> JudgedRun:
    application, protocol = _shared
    return try_plan(application, trial, protocol)
