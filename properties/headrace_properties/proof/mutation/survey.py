"""The survey: each run on the sound code once, with the lines that it executes, so that a mutant is judged where it can show.

A run that does not execute a mutated line is the same with the mutant as without.

Rules of this file:

* Lines count only while a root of the runs is active (`Runs`): what a checker or a promise executes is not under test.
* A run in which an oracle fires on the sound code stops the survey: a mutant could not be told from it.
"""

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from types import CodeType, FrameType
from typing import Any

from headrace import HeadraceError
from headrace_properties.proof.mutation.mutant_runs import RunsSpec
from headrace_properties.proof.oracles import fired
from headrace_properties.search.judging import JudgedRun
from headrace_properties.search.parallel import spread
from headrace_properties.verdict import Holds

Lines = Mapping[str, int]
"""File to lines: bit ``n`` is line ``n``. There are thousands of runs, and a set for each would fill the memory."""


def bits(lines: Iterable[int]) -> int:
    """Return lines as bits."""
    found = 0
    for line in lines:
        found |= 1 << line
    return found


class UnsoundRunError(HeadraceError):
    """An oracle fires although nothing was mutated. Fields: workload, seed, oracles, message."""

    def __init__(self, workload: str, seed: int, oracles: tuple[str, ...], message: str) -> None:
        super().__init__(workload, seed, oracles, message)
        self.workload, self.seed, self.oracles, self.message = workload, seed, oracles, message

    def __str__(self) -> str:
        """Say where, and what comes first."""
        return (
            f"{self.workload}, seed {self.seed}: {', '.join(self.oracles)} fails without any mutation: {self.message}."
            " Fix this first, or no mutation can be told from it (headrace verify finds and shrinks it)"
        )


def lines_of(found: int) -> Iterator[int]:
    """Give the lines of bits."""
    return (line for line in range(found.bit_length()) if found >> line & 1)


@dataclass(frozen=True, slots=True)
class SurveyedRun:
    """A run on the sound code.

    Attributes:
        workload: its name.
        seed: of its input and of its plan.
        digest: of its History.
        lines: executed, by file.
        held: invariants and promises that it exercised, and hard cases that came up, in order.
    """

    workload: str
    seed: int
    digest: str
    lines: Lines
    held: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Survey:
    """All runs on the sound code.

    Attributes:
        runs: of every workload the first seed, then of every workload the second, and so on.
    """

    runs: tuple[SurveyedRun, ...]

    def reaching(self, file: str, lines: Iterable[int]) -> tuple[SurveyedRun, ...]:
        """Return the runs that execute one of some lines of a file."""
        wanted = bits(lines)
        return tuple(run for run in self.runs if run.lines.get(file, 0) & wanted)

    def reached(self, file: str) -> int:
        """Return all lines of a file that a run executes, as bits."""
        found = 0
        for run in self.runs:
            found |= run.lines.get(file, 0)
        return found


def survey(
    spec: RunsSpec,
    files: frozenset[str],
    seeds: int,
    jobs: int = 1,
    on_part: Callable[[int, int], None] = lambda _done, _total: None,
) -> Survey:
    """Make each run on the sound code.

    Args:
        spec: the runs.
        files: whose lines count.
        seeds: how many runs of each workload.
        jobs: processes that share them.
        on_part: told how many of how many parts are done, for progress.

    Raises:
        UnsoundRunError: an oracle fires.
    """
    names = spec.load().workloads
    parts = [(name, seed) for name in names for seed in range(0, seeds, _PART)]
    found: list[SurveyedRun] = []
    work = partial(_part, spec=spec, files=files, seeds=seeds)
    for done, part in enumerate(spread(work, parts, min(jobs, len(parts))), 1):
        found += part
        on_part(done, len(parts))
    order = {name: number for number, name in enumerate(names)}
    return Survey(tuple(sorted(found, key=lambda run: (run.seed, order[run.workload]))))


_PART = 20


def _part(
    begin: tuple[str, int], *, spec: RunsSpec, files: frozenset[str], seeds: int
) -> Sequence[SurveyedRun]:
    name, first = begin
    runs = spec.load()
    found = []
    for seed in range(first, min(first + _PART, seeds)):
        with _traced(files, runs.roots) as lines:
            judged = runs.run(name, seed)
        if judged.failed:
            message = str(judged.error or next(iter(judged.broken.values())).message)
            raise UnsoundRunError(name, seed, fired(judged), message)
        found.append(SurveyedRun(name, seed, judged.digest, lines(), held_in(judged)))
    return found


def held_in(judged: JudgedRun) -> tuple[str, ...]:
    """Return the invariants and promises that a run exercised, and that held; and the hard cases that came up."""
    held = [name for name, verdict in judged.verdicts.items() if isinstance(verdict, Holds)]
    return tuple(sorted([*held, *(f"{CASE}{name}" for name, count in judged.cases.items() if count)]))


CASE = "case: "
"""What the name of a hard case begins with."""
_OFTEN = 10
"""Choice: in so many runs a case does not fail to come up because a message took a little longer."""


def expected_of(runs: Iterable[SurveyedRun]) -> list[str]:
    """Return what some of these runs must exercise: what one has, and a hard case that has come up in many."""
    counts = Counter(name for run in runs for name in run.held)
    return sorted(name for name, count in counts.items() if count >= (_OFTEN if name.startswith(CASE) else 1))


@contextmanager
def _traced(files: frozenset[str], roots: frozenset[CodeType]) -> Iterator[Callable[[], Lines]]:
    """Collect the lines of files that are executed while a root is active; the tracer of before is put back.

    A function all of whose lines this run has executed is traced no more, which is most of what it calls.
    """
    missing: dict[CodeType, set[int]] = {}
    foreign: set[CodeType] = set()
    active = 0

    def enter(frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal active
        code = frame.f_code
        if code in roots:
            active += 1
            return leave
        if not active or code in foreign:
            return None
        if code not in missing:
            if code.co_filename not in files:
                foreign.add(code)
                return None
            missing[code] = set(executable(code)) - {code.co_firstlineno}
        return step if missing[code] else None

    def leave(_frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal active
        if event == "return":
            active -= 1
        return leave

    def step(frame: FrameType, event: str, _argument: Any) -> Any:
        if event == "line":
            missing[frame.f_code].discard(frame.f_lineno)
        return step

    def lines() -> Lines:
        found: dict[str, int] = {}
        for code, left in missing.items():
            reached = bits(line for line in executable(code) if line not in left)
            found[code.co_filename] = found.get(code.co_filename, 0) | reached
        return found

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        yield lines
    finally:
        sys.settrace(before)


def executable(code: CodeType) -> Iterator[int]:
    """Give the lines that have code, without those of the functions in it."""
    for _, _, line in code.co_lines():
        if line:
            yield line


def functions_in(code: CodeType) -> Iterator[CodeType]:
    """Give the code of the functions in a module's, which are executed when they are called; not that of classes' bodies."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            if constant.co_flags & _OPTIMIZED:
                yield constant
            yield from functions_in(constant)


_OPTIMIZED = 1
"""``inspect.CO_OPTIMIZED``: functions have it, the bodies of modules and classes do not."""
