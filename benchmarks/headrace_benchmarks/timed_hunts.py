"""Hunts of mistakes, timed: each in a process of its own, forked from one that has imported nothing of what is hunted.

Rules of this file:

* CPU time counts from the import of the target until the first run or the first finding about the code that shows the mistake,
  with that of child processes. Making the failure small and telling it do not count.
* A hunt ends after `BUDGET_S`, and then has found nothing.
"""

import importlib
import math
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

from headrace_properties.drawn_feeds import feed_function
from headrace_properties.findings import FindingClass
from headrace_properties.mutation.judge import SourceChanges
from headrace_properties.mutation.sampling import CodeMutant, in_workers, module_of, sample
from headrace_properties.mutation.survey import survey
from headrace_properties.pipeline_target import PipelineTarget, Search, pipeline_target
from headrace_properties.pipeline_trials import PipelineTrials
from headrace_properties.promises import check_promises
from headrace_properties.proof.mutants import CATALOGUE
from headrace_properties.proof.mutants.hunt import MutantCase
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.guard import guarded
from headrace_properties.search.judging import JudgedRun
from headrace_properties.search.limits import CodeLimits, call_time_limited, limit_memory
from headrace_properties.search.origins import user_modules
from headrace_properties.search.parallel import leave_signals_to_parent
from headrace_properties.search.user_lines import modules_of
from headrace_properties.search.verification import Verification
from headrace_properties.target import source_in
from headrace_properties.user_code.review import CodeReview
from headrace_sim.kernel import seldom_collected

ResultT = TypeVar("ResultT")

BUDGET_S = 20.0
"""CPU time of a hunt, seconds."""
_WALL_S = 900.0
"""Wall time after which a hunt is ended: a target that waits uses no CPU."""
_SURVEYED = 12
"""Runs on the sound code, whose lines may be mutated: those of one search's inputs."""
ENDLESS = 1_000_000_000
ROOT = Path(__file__).parents[2]
"""A clone has planted bugs there; an installation has none."""
README = "views"
"""The module of README's pipeline, which a clone has."""
PLANTED_JOBS = "tests.properties.spark_jobs.trials"
"""A clone has this module with planted jobs by name, ``ALL``, each with its ``target``."""

FIRST = "plain"
SEARCHES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {FIRST: {"small_first": False}, "small parts first": {}}
)
"""By name, what each search sets of `Search`. The others are compared with the first."""


@dataclass(frozen=True, slots=True)
class Mistake:
    """Something wrong that is to be found.

    Attributes:
        name: of the broken protocol, of the pipeline's module, or of the planted job.
        protocol: name of the broken protocol that hosts the pipeline; ``""``: the sound one does.
        sources: module to source, where that is not what its file says.
        asked: its author being asked about it counts, too.
        what: tells it from others of its name.
    """

    name: str
    protocol: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    asked: bool = False
    what: str = ""


@dataclass(frozen=True, slots=True)
class Hunt:
    """A mistake, and how it is hunted.

    Attributes:
        mistake: it.
        search: name of the search.
        seed: of the search.
        how: searches for it, and calls the last argument with ``found`` after each step.
        runs: after so many in which a fault strikes the search ends; ``None``: after as many as by default.
    """

    mistake: Mistake
    search: str
    seed: int
    how: "HowToHunt"
    runs: int | None = ENDLESS


@dataclass(frozen=True, slots=True)
class HuntResult:
    """The result of a hunt.

    Attributes:
        hunt: which.
        cpu_s: CPU time until it was found, seconds; ``None``: it was not.
        spent_s: CPU time until the search ended without finding anything, seconds; ``None``: it did not come to its end.
        why: why it could not even be hunted; ``""``: it could.
    """

    hunt: Hunt
    cpu_s: float | None = None
    spent_s: float | None = None
    why: str = ""

    @property
    def counted_s(self) -> float:
        """What medians count, seconds."""
        return BUDGET_S if self.cpu_s is None else self.cpu_s


def readme_source() -> str:
    """Return the source of README's pipeline; ``""``: there is no README."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    block = re.search(rf"^```python\n(# {README}\.py.*?)^```", text, re.MULTILINE | re.DOTALL)
    return block[1] if block else ""


# In a process that imports nothing of what is hunted


def hunt_apart(hunt: Hunt) -> HuntResult:
    """Hunt in a child process."""
    return _apart(partial(_hunt, hunt), HuntResult(hunt))


def jobs_apart(module: str) -> tuple[str, ...]:
    """Return the names of a module's planted jobs; none if this is no clone, or PySpark is not installed."""
    return _apart(partial(_named_jobs, module), ())


def draw_apart(part: tuple[str, int, int]) -> tuple[str, Sequence[CodeMutant]]:
    """Draw mutants of a module's pipeline, by the seed, in a child process. ``part``: the module, how many, the seed."""
    return part[0], _apart(partial(_draw, *part), ())


def _apart(work: Callable[[], ResultT], otherwise: ResultT) -> ResultT:
    """Do something in a forked process, and return its result. ``otherwise``: the result if it dies or takes too long."""
    context = get_context("fork")
    results, to = context.Pipe(duplex=False)
    process = context.Process(target=_answer, args=(to, work))
    process.start()
    to.close()
    try:
        result: ResultT = results.recv() if results.poll(_WALL_S) else otherwise
    except EOFError:
        return otherwise
    else:
        return result
    finally:
        process.kill()
        process.join()


# In a process that hunts


def _answer(to: Connection, work: Callable[[], object]) -> NoReturn:
    leave_signals_to_parent()
    hard_s = math.ceil(2 * BUDGET_S)
    resource.setrlimit(resource.RLIMIT_CPU, (hard_s, hard_s))
    limit_memory(CodeLimits())
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(nothing, stream)
    sys.path.insert(0, str(ROOT))
    to.send(work())
    os._exit(0)  # threads that a target has left are nobody's


class _OverError(BaseException):
    """A hunt is over. Fields: found."""

    def __init__(self, *, found: bool) -> None:
        super().__init__(found)
        self.found = found


def _hunt(hunt: Hunt) -> HuntResult:
    began_s = _cpu_s()

    def look(*, found: bool) -> None:
        if found or _cpu_s() - began_s >= BUDGET_S:
            raise _OverError(found=found)

    search = replace(Search(examples=hunt.runs, seed=hunt.seed), **SEARCHES[hunt.search])
    try:
        with guarded(), seldom_collected():
            hunt.how(hunt.mistake, search, look)
    except _OverError as over:
        spent_s = _cpu_s() - began_s
        return HuntResult(hunt, spent_s if over.found and spent_s <= BUDGET_S else None)
    except BaseException as error:  # noqa: BLE001  a mutant may raise anything, before any search begins
        return HuntResult(hunt, why=f"{type(error).__name__}: {error}")
    return HuntResult(hunt, spent_s=_cpu_s() - began_s)


def _cpu_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


Look = Callable[..., None]
"""Called with ``found`` after each step of a hunt; ends it."""
HowToHunt = Callable[[Mistake, Search, Look], None]


def hunt_protocol(mistake: Mistake, search: Search, look: Look) -> None:
    """Search a workload on a broken protocol until an oracle that it is to break fires."""
    mutant = CATALOGUE[mistake.name]
    workload = WORKLOADS[mutant.workload]
    application = Application(workload.deployed, workload.feed)
    target = PipelineTarget(mutant.name, application, protocol=mutant.protocol(), options=workload.options)
    strategy = target.strategy(search)

    def judged(trials: Sequence[PipelineTrial]) -> Iterator[JudgedRun]:
        for trial in trials:
            case = MutantCase(mutant, trial.feed_seed)
            run, activations = case.run(trial.plan, trial.kept)
            look(found=case.kills(run, activations))
            yield run

    for batch in strategy.batches(judged):
        for trial, run in batch:
            strategy.verification.take(trial, run)


def hunt_code(mistake: Mistake, search: Search, look: Look) -> None:
    """Verify a pipeline until a run fails, or something is found about its code."""
    sys.meta_path.insert(0, SourceChanges(mistake.sources))
    target = _target(mistake.name)
    if mistake.protocol:
        target = replace(target, protocol=CATALOGUE[mistake.protocol].protocol())

    def on_run(verification: Verification) -> None:
        look(found=verification.failure is not None)

    trials = PipelineTrials(target, search, on_run=on_run)
    with call_time_limited(trials.target.application.limits):
        trials.review()
        code = trials.code or CodeReview(())
        look(found=bool(code.of(FindingClass.VIOLATED) or (mistake.asked and code.findings)))
        trials.search()


def _target(name: str) -> PipelineTarget:
    """Import a module, and return its pipeline with its input and its promises."""
    if name == README:
        folder = tempfile.mkdtemp()
        Path(folder, f"{README}.py").write_text(readme_source(), encoding="utf-8")
        sys.path.insert(0, folder)
    module = importlib.import_module(name)
    pipeline = module.pipeline
    promises = check_promises(getattr(module, "promises", ()), [pipeline])
    feed = feed_function(pipeline, module.feed)
    return pipeline_target(
        f"{name}:pipeline", pipeline, feed, promises=promises, feed_source=source_in(module)
    )


def _application(name: str) -> Application:
    return _target(name).application


def _draw(name: str, count: int, seed: int) -> tuple[CodeMutant, ...]:
    """Draw mutants of the code of a pipeline that runs in workers."""
    load = partial(_application, name)
    application = load()
    modules = [module_of(module.__name__) for module in user_modules([name, *modules_of(application)])]
    surveyed = survey(load, frozenset(module.file for module in modules), _SURVEYED)
    return tuple(sample(in_workers(application, modules, surveyed), count, seed))


def hunt_job(mistake: Mistake, _: Search, look: Look) -> None:
    """Verify a planted Spark job or its sink until the first finding."""
    planted = importlib.import_module(PLANTED_JOBS).ALL[mistake.name]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        report = planted.target().verify(progress=lambda _done, _all: look(found=False))
    look(found=bool(report.findings))


def _named_jobs(module: str) -> tuple[str, ...]:
    try:
        return tuple(importlib.import_module(module).ALL)
    except ImportError:
        return ()
