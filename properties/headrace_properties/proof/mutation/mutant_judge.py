"""Judge a mutant: make the runs in a process of its own, with a limit of time and memory, until an oracle fires in one.

Rules of this file:

* What a mutant comes to is a function of it and of the runs. Time is the process's own (CPU), so that a busy machine changes
  nothing short of a run that nearly takes the limit.
* A run that takes too long or ends its process is noticed: `verify` would hang or end, too.
* What the sound runs exercise and no run of the mutant does is noticed, too: `verify` would call it unknown. So is a hard case
  that comes up in ten of them, and in no run of the mutant.
"""

import contextlib
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Self

from headrace import HeadraceError
from headrace_properties.proof.mutation.mutant_runs import RunsSpec
from headrace_properties.proof.mutation.survey import SurveyedRun, expected_of, held_in
from headrace_properties.proof.oracles import fired
from headrace_properties.search.limits import CodeLimits, limit_memory

RUN_S = 10.0
"""CPU time that one run may take, seconds; a sound one takes some milliseconds."""
ALL_S = 60.0
"""CPU time after which no further run is begun, seconds."""
CPU_S = 200
"""CPU time after which the system ends the process, seconds: with memory full, Python 3.11 can loop and see no signal."""
WALL_S = 1_800.0
"""Wall time after which the process is killed, seconds, if it does not even notice that its CPU time is up."""

TIME, DEATH = "time", "process ended"
"""What notices a mutant, beside oracles: a run does not end, or its process does."""


class ChangedRunError(HeadraceError):
    """The runs differ in a process of their own, although nothing was mutated. Fields: workload, seed, problem."""

    def __init__(self, workload: str, seed: int, problem: str) -> None:
        super().__init__(workload, seed, problem)
        self.workload, self.seed, self.problem = workload, seed, problem

    def __str__(self) -> str:
        """Say what cannot be right."""
        where = f"{self.workload}, seed {self.seed}: " if self.workload else ""
        return (
            f"{where}{self.problem} in a process of its own, although nothing is mutated. Code that does not do the same in"
            " every process cannot be judged so"
        )


@dataclass(frozen=True, slots=True)
class Judgement:
    """What the runs say of a mutant.

    Attributes:
        runs: how many were made; the last one is the one in which something fired.
        killed_by: what fired in it; empty: the mutant survived.
        workload: of that run.
        seed: of that run.
        message: what the first that fired says.
        changed: in how many runs the History was not the sound one, and nothing fired.
        unfit: why the mutant cannot even be imported; ``""``: it can.
    """

    runs: int = 0
    killed_by: tuple[str, ...] = ()
    workload: str = ""
    seed: int = 0
    message: str = ""
    changed: int = 0
    unfit: str = ""


def turns(runs: Sequence[SurveyedRun], most: int) -> list[SurveyedRun]:
    """Return at most so many runs; the workloads take turns."""
    rounds: dict[str, int] = {}
    keyed = []
    for run in runs:
        rounds[run.workload] = rounds.get(run.workload, 0) + 1
        keyed.append((rounds[run.workload], run))
    return [run for _, run in sorted(keyed, key=lambda one: one[0])][:most]


def judge_all(
    mutants: Sequence[tuple[Mapping[str, str], Sequence[SurveyedRun]]], spec: RunsSpec, jobs: int
) -> Iterator[Judgement]:
    """Judge mutants, and give what each comes to, in their order.

    Args:
        mutants: each with the sources that it changes, by module, and its runs.
        spec: where a process gets its runs.
        jobs: how many at once.
    """
    with ThreadPoolExecutor(jobs) as pool, _Processes() as processes:
        yield from pool.map(lambda one: processes.judge(one[0], one[1], spec), mutants)


def check_control(runs: Sequence[SurveyedRun], spec: RunsSpec) -> None:
    """Judge the sound code as if it were a mutant.

    Raises:
        ChangedRunError: it is not what it was in the survey.
    """
    with _Processes() as processes:
        judgement = processes.judge({}, runs, spec)
    if judgement.unfit or judgement.killed_by or judgement.changed:
        what = judgement.unfit or judgement.message or "a History differs"
        raise ChangedRunError(judgement.workload, judgement.seed, what)


class _Processes:
    """The processes that judge; those that are left at the end are killed."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[str]] = set()
        self._over = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over = True
        for process in [*self._running]:
            process.kill()

    def judge(self, sources: Mapping[str, str], runs: Sequence[SurveyedRun], spec: RunsSpec) -> Judgement:
        """Judge one mutant; no runs: it survives."""
        if not runs or self._over:
            return Judgement()
        told = {
            "path": sys.path,
            "cpu_s": CPU_S,
            "sources": dict(sources),
            "judge": f"{__name__}:judge_here",
            "runs": {"maker": spec.maker, "arguments": spec.arguments},
            "wanted": [(run.workload, run.seed, run.digest) for run in runs],
            "held": expected_of(runs),
        }
        boot = str(Path(__file__).with_name("_boot.py"))
        process = subprocess.Popen(  # noqa: S603  our own script
            [sys.executable, boot],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._running.add(process)
        try:
            answer, _ = process.communicate(json.dumps(told), timeout=WALL_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return Judgement(killed_by=(TIME,), message=f"its process did not end within {WALL_S:g} s")
        finally:
            self._running.discard(process)
        if process.returncode == -signal.SIGXCPU:
            return Judgement(killed_by=(TIME,), message=f"its process took more than {CPU_S} s of CPU time")
        if not answer:
            return Judgement(killed_by=(DEATH,), message=f"its process ended with {process.returncode}")
        found = json.loads(answer)
        return Judgement(**{**found, "killed_by": tuple(found.get("killed_by", ()))})


# In the process of a mutant


class _TooLongError(BaseException):
    """A run has taken too long: no `Exception`, as neither the engine nor user code may take it for one of theirs."""


def judge_here(
    runs: dict[str, Any], wanted: Sequence[tuple[str, int, str]], held: Sequence[str]
) -> dict[str, Any]:
    """Make the runs in this process.

    Args:
        runs: where to get them.
        wanted: workload, seed and digest of each.
        held: what they exercise on the sound code.
    """
    made = RunsSpec(**runs).load()
    limit_memory(CodeLimits())
    begun = time.process_time()
    changed, exercised = 0, set[str]()
    for count, (workload, seed, digest) in enumerate(wanted, 1):
        killed_by: tuple[str, ...] = ()
        message = ""
        try:
            with _time_limited():
                judged = made.run(workload, seed)
        except _TooLongError:
            killed_by, message = (TIME,), f"a run does not end within {RUN_S:g} s of CPU time"
        except Exception as error:  # noqa: BLE001  a mutant may break what prepares or judges a run, too
            killed_by, message = ("error",), f"{type(error).__name__}: {error}"
        else:
            killed_by = fired(judged)
            if killed_by:
                message = str(judged.error or judged.broken[killed_by[0]].message)
            else:
                changed += judged.digest != digest
                exercised.update(held_in(judged))
        if killed_by or time.process_time() - begun > ALL_S:
            killed = {"killed_by": killed_by, "workload": workload, "seed": seed, "message": message}
            return {"runs": count, "changed": changed, **(killed if killed_by else {})}
    found: dict[str, Any] = {"runs": len(wanted), "changed": changed}
    missing = [name for name in held if name not in exercised]
    if missing:
        found |= {"killed_by": missing, "message": f"no run exercises {', '.join(missing)} any more"}
    return found


@contextlib.contextmanager
def _time_limited() -> Iterator[None]:
    def stop(_number: int, _frame: FrameType | None) -> None:
        raise _TooLongError

    signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, RUN_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
