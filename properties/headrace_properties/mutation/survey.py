"""The survey: each run on the sound code once, with the lines that it executes, so that a mutant is judged where it can show.

A run that does not execute a mutated line is the same with the mutant as without.

Rules of this file:

* Lines count only while the cluster runs: what makes the input, and promises, are not under test.
* A run in which something fires on the sound code stops the survey: a mutant could not be told from it.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import FrameType
from typing import Any

from headrace import HeadraceError
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import JudgedRun, try_plan
from headrace_properties.search.parallel import spread
from headrace_properties.search.plans import random_plan
from headrace_properties.verdict import Holds
from headrace_sim import ClusterOptions, simulate

LoadApplication = Callable[[], Application]
"""Gets the application in whichever process; it can be pickled."""


class UnsoundRunError(HeadraceError):
    """Something fires although nothing was mutated. Fields: seed, fired, message."""

    def __init__(self, seed: int, fired: tuple[str, ...], message: str) -> None:
        super().__init__(seed, fired, message)
        self.seed, self.fired, self.message = seed, fired, message

    def __str__(self) -> str:
        """Say where, and what comes first."""
        return (
            f"seed {self.seed}: {', '.join(self.fired)} fails without any mutation: {self.message}."
            " Fix this first, or no mutation can be told from it (headrace verify finds and shrinks it)"
        )


@dataclass(frozen=True, slots=True)
class SurveyedRun:
    """A run on the sound code.

    Attributes:
        seed: of its input and of its plan.
        digest: of its History.
        lines: executed, by file.
        held: invariants and promises that it exercised, and hard cases that came up, in order.
    """

    seed: int
    digest: str
    lines: Mapping[str, frozenset[int]]
    held: tuple[str, ...] = ()


def try_seed(application: Application, seed: int) -> JudgedRun:
    """Make the run of a seed: its input, under its random plan; that of seed 0 has no faults."""
    plan = random_plan(application.deployed, application.feed(seed), ClusterOptions(), seed)
    return try_plan(application, PipelineTrial(plan, seed))


def fired_in(judged: JudgedRun) -> tuple[str, ...]:
    """Return the invariants and promises that a run violates, or ``error``."""
    return ("error",) if judged.error else tuple(judged.broken)


def message_of(judged: JudgedRun) -> str:
    """Return what the first of these says."""
    return str(judged.error or next(iter(judged.broken.values())).message)


def survey(
    load: LoadApplication,
    files: frozenset[str],
    runs: int,
    jobs: int = 1,
    on_part: Callable[[int, int], None] = lambda _done, _total: None,
) -> tuple[SurveyedRun, ...]:
    """Make each run on the sound code, and return them in the order of their seeds.

    Args:
        load: gets the application.
        files: whose lines count.
        runs: how many.
        jobs: processes that share them.
        on_part: told how many of how many parts are done, for progress.

    Raises:
        UnsoundRunError: something fires.
    """
    parts = [range(first, min(first + _PART, runs)) for first in range(0, runs, _PART)]
    surveyed: list[SurveyedRun] = []
    for done, part in enumerate(spread(partial(_part, load, files), parts, min(jobs, len(parts))), 1):
        surveyed += part
        on_part(done, len(parts))
    return tuple(sorted(surveyed, key=lambda run: run.seed))


_PART = 20


def _part(load: LoadApplication, files: frozenset[str], seeds: range) -> list[SurveyedRun]:
    application, runs = load(), []
    for seed in seeds:
        with _traced(files) as lines:
            judged = try_seed(application, seed)
        if judged.failed:
            raise UnsoundRunError(seed, fired_in(judged), message_of(judged))
        executed = {file: frozenset(numbers) for file, numbers in lines.items()}
        runs.append(SurveyedRun(seed, judged.digest, executed, held_in(judged)))
    return runs


def held_in(judged: JudgedRun) -> tuple[str, ...]:
    """Return the invariants and promises that a run exercised, and that held; and the hard cases that came up."""
    held = [name for name, verdict in judged.verdicts.items() if isinstance(verdict, Holds)]
    return tuple(sorted([*held, *(f"{CASE}{name}" for name, count in judged.cases.items() if count)]))


CASE = "case: "
"""What the name of a hard case begins with."""
_OFTEN = 10
"""Choice: in so many runs a case does not fail to come up because a message took a little longer."""


def expected_of(runs: Iterable[SurveyedRun]) -> list[str]:
    """Return what these runs must exercise: whatever one run does, and each hard case that comes up in many."""
    counts = Counter(name for run in runs for name in run.held)
    return sorted(name for name, count in counts.items() if count >= (_OFTEN if name.startswith(CASE) else 1))


@contextmanager
def _traced(files: frozenset[str]) -> Iterator[Mapping[str, set[int]]]:
    """Collect the lines of files that are executed while the cluster runs; the tracer of before is put back."""
    lines: dict[str, set[int]] = {file: set() for file in files}
    active = 0

    def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal active
        if frame.f_code is simulate.__code__:
            active += 1
            return leave
        executed = lines.get(frame.f_code.co_filename)
        if not active or executed is None:
            return None

        def step(frame: FrameType, event: str, _argument: Any) -> Any:
            if event == "line":
                executed.add(frame.f_lineno)
            return step

        return step

    def leave(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal active
        active -= event == "return"
        return leave

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield lines
    finally:
        sys.settrace(before)
