"""Judge a mutant: make the runs in a process of its own, with a limit of time and memory, until something fires in one.

Rules of this file:

* What a mutant comes to is a function of it and of the runs. Time is the process's own (CPU), so that a busy machine changes
  nothing short of a run that nearly takes the limit.
* A process that does not end, or ends too soon, is noticed: `verify` would hang or end, too.
* What the sound runs exercise and no run of the mutant does is noticed, too: `verify` would call it unknown. So is a hard case
  that comes up in ten of them, and in no run of the mutant.
"""

import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import CodeType, ModuleType
from typing import Self

from headrace import HeadraceError
from headrace_properties.mutation.survey import (
    LoadApplication,
    SurveyedRun,
    expected_of,
    fired_in,
    held_in,
    message_of,
    try_seed,
)
from headrace_properties.search.limits import CodeLimits, limit_memory
from headrace_properties.search.parallel import leave_signals_to_parent

ALL_S = 60.0
"""CPU time after which no further run is begun, seconds."""
CPU_S = 200
"""CPU time after which the system ends the process, seconds: with memory full, Python 3.11 can loop and see no signal."""
WALL_S = 1_800.0
"""Wall time after which the process is killed, seconds, if it does not even notice that its CPU time is up."""

TIME, DEATH = "time", "process ended"
"""What notices a mutant, beside invariants and promises: its process does not end, or does too soon."""


class ChangedRunError(HeadraceError):
    """The runs differ in a process of their own, although nothing was mutated. Fields: seed, problem."""

    def __init__(self, seed: int, problem: str) -> None:
        super().__init__(seed, problem)
        self.seed, self.problem = seed, problem

    def __str__(self) -> str:
        """Say what cannot be right."""
        return (
            f"seed {self.seed}: {self.problem} in a process of its own, although nothing is mutated. Code that does not do the"
            " same in every process cannot be judged so"
        )


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the runs say of a mutant.

    Attributes:
        runs: how many were made; the last one is the one in which something fired.
        killed_by: what fired in it; empty: the mutant survived.
        seed: of that run.
        message: what the first that fired says.
        changed: in how many runs the History was not the sound one, and nothing fired.
        unfit: why the mutant cannot even be imported; ``""``: it can.
    """

    runs: int = 0
    killed_by: tuple[str, ...] = ()
    seed: int = 0
    message: str = ""
    changed: int = 0
    unfit: str = ""


Work = tuple[Mapping[str, str], Sequence[SurveyedRun]]
"""The sources that a mutant changes, by module, and its runs."""


def judge_all(mutants: Sequence[Work], load: LoadApplication, jobs: int) -> Iterator[Judgement]:
    """Judge mutants, several at once, and yield each judgement in their order. ``load``: gets the application."""
    with ThreadPoolExecutor(jobs) as pool, _Processes(load) as processes:
        yield from pool.map(processes.judge, mutants)


def check_control(runs: Sequence[SurveyedRun], load: LoadApplication) -> None:
    """Judge the sound code as if it were a mutant.

    Raises:
        ChangedRunError: it is not what it was in the survey.
    """
    with _Processes(load) as processes:
        judgement = processes.judge(({}, runs))
    if judgement.unfit or judgement.killed_by or judgement.changed:
        what = judgement.unfit or judgement.message or "a History differs"
        raise ChangedRunError(judgement.seed, what)


class _Processes:
    """The processes that judge; those that are left at the end are killed."""

    def __init__(self, load: LoadApplication) -> None:
        self._load = load
        self._running: set[BaseProcess] = set()
        self._over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        for process in [*self._running]:
            process.kill()

    def judge(self, work: Work) -> Judgement:
        """Judge one mutant; no runs: it survives."""
        sources, runs = work
        if not runs or self._over:
            return Judgement()
        context = multiprocessing.get_context("spawn")  # in a fork its modules would have been imported
        answers, to = context.Pipe(duplex=False)
        wanted = [(run.seed, run.digest) for run in runs]
        process = context.Process(
            target=_judge_apart, args=(to, sources, self._load, wanted, expected_of(runs))
        )
        process.start()
        to.close()
        self._running.add(process)
        try:
            return answers.recv() if answers.poll(WALL_S) else Judgement(killed_by=(TIME,), message=_LATE)
        except EOFError:
            process.join()
            return _ended(process.exitcode)
        finally:
            process.kill()
            process.join()
            self._running.discard(process)


_LATE = f"its process did not end within {WALL_S:g} s"


def _ended(code: int | None) -> Judgement:
    if code == -signal.SIGXCPU:
        return Judgement(killed_by=(TIME,), message=f"its process took more than {CPU_S} s of CPU time")
    return Judgement(killed_by=(DEATH,), message=f"its process ended with {code}")


# In the process of a mutant


class _Changed(SourceFileLoader):
    """Compiles another source than the file's, whatever is cached."""

    def __init__(self, name: str, path: str, source: str) -> None:
        super().__init__(name, path)
        self._changed = source

    def get_code(self, fullname: str) -> CodeType:
        code = self.source_to_code(self._changed.encode(), self.get_filename(fullname))
        assert isinstance(code, CodeType)
        return code


@dataclass(frozen=True, slots=True)
class SourceChanges:
    """Finds modules whose source is changed, and nothing else. ``sources``: by the module's name."""

    sources: Mapping[str, str]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Find a module as Python does, and give it another loader."""
        source = self.sources.get(fullname)
        spec = None if source is None else PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None and source is not None:
            spec.loader = _Changed(fullname, spec.origin, source)
        return spec


def _judge_apart(
    to: Connection,
    sources: Mapping[str, str],
    load: LoadApplication,
    wanted: Sequence[tuple[int, str]],
    held: Sequence[str],
) -> None:
    """Replace the user's modules with the changed sources, judge, and send the judgement."""
    leave_signals_to_parent()
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.dup2(nothing, 2)
    sys.meta_path.insert(0, SourceChanges(sources))
    try:
        judgement = judge_here(load, wanted, held)
    except BaseException as error:  # noqa: BLE001  a mutant may raise anything; that it cannot even begin is its outcome
        judgement = Judgement(unfit=f"{type(error).__name__}: {error}")
    to.send(judgement)
    os._exit(0)  # threads that a mutant has left are nobody's


def judge_here(load: LoadApplication, wanted: Sequence[tuple[int, str]], held: Sequence[str]) -> Judgement:
    """Make the runs in this process.

    Args:
        load: gets the application.
        wanted: seed and digest of each run.
        held: what they exercise on the sound code.
    """
    application = load()
    limit_memory(CodeLimits())
    begun = time.process_time()
    changed, exercised = 0, set[str]()
    for count, (seed, digest) in enumerate(wanted, 1):
        try:
            judged = try_seed(application, seed)
        except Exception as error:  # noqa: BLE001  a mutant may break what prepares or judges a run, too
            return Judgement(count, ("error",), seed, f"{type(error).__name__}: {error}", changed)
        if fired := fired_in(judged):
            return Judgement(count, fired, seed, message_of(judged), changed)
        changed += judged.digest != digest
        exercised.update(held_in(judged))
        if time.process_time() - begun > ALL_S:
            return Judgement(count, changed=changed)
    missing = tuple(name for name in held if name not in exercised)
    message = f"no run exercises {', '.join(missing)} any more" if missing else ""
    return Judgement(len(wanted), missing, message=message, changed=changed)
