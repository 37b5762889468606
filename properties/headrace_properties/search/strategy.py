"""One search, whatever its strategy: make the proposed runs, stop at the first failure, and make it as small as possible."""

import math
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol as Interface

from headrace import OptionsError
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.journal import RunJournal
from headrace_properties.search.judging import JudgedRun, try_plan
from headrace_properties.search.parallel import Jobs, RunTrials, run_apart, runner, useful_jobs
from headrace_properties.search.run_error import StopCause
from headrace_properties.search.smaller_plans import shrink
from headrace_properties.search.verification import Verification
from headrace_sim import ClusterOptions, Protocol
from headrace_sim.kernel import seldom_collected

Batch = Iterable[tuple[PipelineTrial, JudgedRun]]
"""Runs with their outcomes; each is made when it is asked for."""


class Strategy(Interface):
    """A way to search: what to run next, given the outcomes so far.

    Attributes:
        application: what is under test.
        protocol: the state machines to host.
        verification: the result so far, to which the search adds each run.
        usual: the options that a smallest failure has; ``None``: failures are smallest as they are found.
        described: tells it from other searches in the file of one that can resume; ``""``: it cannot.
    """

    application: Application
    protocol: Protocol
    verification: Verification

    @property
    def usual(self) -> ClusterOptions | None:
        """See above."""

    @property
    def described(self) -> str:
        """See above."""

    def batches(self, run: RunTrials) -> Iterator[Batch]:
        """Yield what to run next, once all runs of the batch before it have been added to the result."""


def search(
    strategy: Strategy,
    *,
    examples: float = math.inf,
    until_quiet: float = 0.0,
    minutes: float = math.inf,
    jobs: Jobs = 1,
    resume: Path | None = None,
    on_run: Callable[[Verification], None] = lambda _: None,
) -> Verification:
    """Search until something breaks, the strategy has nothing more to run, or a limit is reached; a failure is made small.

    Args:
        strategy: what to run.
        examples: stop after so many runs in which a fault took effect, or of all of them if the strategy exhausts a scope.
        until_quiet: stop once the chance that the next run shows something new is estimated below this (`novelty`).
        minutes: stop after this much wall time; the number of runs then depends on the machine.
        jobs: processes that share the runs, or a pool of them. The result does not depend on it.
        resume: a file to go on from, and to note all runs in; a new one is begun.
        on_run: called after each run, for progress.

    Raises:
        JournalError: ``resume`` is the file of another search.
        OptionsError: such a search cannot resume.
    """
    application, verification = strategy.application, strategy.verification
    if resume is not None and not strategy.described:
        raise OptionsError("resume", str(resume), "an exhaustive search, or one by lineage")
    jobs = jobs if math.isinf(examples) else useful_jobs(jobs, int(examples))
    with seldom_collected(), runner(application, strategy.protocol, jobs) as run:
        if resume is not None:
            run = RunJournal(resume, strategy.described, application).through(run)  # noqa: PLW2901  the same runs
        _run_all(
            strategy.batches(run),
            verification,
            examples,
            until_quiet,
            time.monotonic() + minutes * 60,
            on_run,
        )
    verification.end(application)
    if verification.failure is not None and strategy.usual is not None:
        error = verification.failure.error
        make = run_apart if error is not None and error.stop is StopCause.ENDED else try_plan

        def again(trial: PipelineTrial) -> JudgedRun:
            judged = make(application, trial, strategy.protocol)
            on_run(verification)
            return judged

        verification.fail(shrink(verification.failure, application, strategy.usual, again))
    return verification


_MOST_IDLE = 10
"""The search ends after this multiple of the requested runs, even if no fault took effect in most of them."""


def _run_all(
    batches: Iterator[Batch],
    verification: Verification,
    examples: float,
    until_quiet: float,
    ends_s: float,
    on_run: Callable[[Verification], None],
) -> None:
    """Make runs, batch by batch, until one fails or enough of them count.

    The results of a batch are taken in its order, so the first failure is the same whichever process makes the runs.
    """
    for batch in batches:
        for trial, judged in batch:
            verification.take(trial, judged)
            why = _why_stopped(verification, examples, ends_s)
            verification.stop(why)
            on_run(verification)
            if why:
                return
        if verification.chance_of_news < until_quiet:
            verification.stop("quiet")
            return
        if verification.runs + verification.idle >= _MOST_IDLE * examples:
            return


def _why_stopped(verification: Verification, examples: float, ends_s: float) -> str:
    if verification.failure is not None:
        return "failure"
    if verification.counted >= examples:
        return "examples"
    return "minutes" if time.monotonic() >= ends_s else ""
