"""``headrace paper bench sooner``: CPU time until a search finds what is wrong, by kind of mistake and by search.

Rules of this file:

* Each hunt has a process of its own, forked from one that has imported the search, but nothing that is hunted.
* Its CPU time counts from the import of the target until the first run or the first finding about the code that shows the
  mistake, with all child processes. Making the failure small and telling it do not count.
* What is not found within `BUDGET_S` counts as found at that time. So it does in medians, and in no share.
* Which mistakes are hunted follows from the options alone: all broken protocols but those that need a directed scenario,
  random mutants of the seed, and every bug that a clone has planted; or of each kind as many as `BenchOptions.runs`.
"""

import importlib
import math
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection
from operator import attrgetter
from pathlib import Path
from statistics import median, quantiles
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

from headrace_benchmarks.figures import Benchmark, BenchOptions, Figure, OnProgress, at_least, at_most
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
from headrace_properties.search.parallel import leave_signals_to_parent, spread
from headrace_properties.search.user_lines import modules_of
from headrace_properties.search.verification import Verification
from headrace_properties.target import source_in
from headrace_properties.user_code.review import CodeReview
from headrace_sim.kernel import seldom_collected

ResultT = TypeVar("ResultT")

BUDGET_S = 20.0
"""CPU time of a hunt, seconds."""
WITHIN_S = (2, 5, 20)
"""Shares are told of what is found within these, seconds of CPU time."""
GOAL = 3
"""The new search is to take at most this part of the plain one's time."""
_WALL_S = 900.0
"""Wall time after which a hunt is ended: a target that waits uses no CPU."""
_ENDLESS = 1_000_000_000

_FIRST = "plain"
SEARCHES: Mapping[str, Mapping[str, Any]] = MappingProxyType({_FIRST: MappingProxyType({})})
"""By name, what each search sets of `Search`. The others are compared with the first."""

EXAMPLES = (
    "headrace_scenarios.examples.bank",
    "headrace_scenarios.examples.orders",
    "headrace_scenarios.examples.windowed_join",
    "headrace_scenarios.zeitgeist",
)
"""Modules with a ``pipeline``, its ``feed`` and ``promises``, in whose code mistakes are drawn."""
README = "views"
"""The module of README's pipeline, which a clone has."""
MUTANTS, README_MUTANTS = 100, 40
HOLDS_S = 6.0
"""CPU time in which README's pipeline is to hold, seconds."""
_SURVEYED = 12
"""Runs on the sound code, whose lines may be mutated: those of one search's inputs."""
ROOT = Path(__file__).parents[2]
"""A clone has planted bugs there; an installation has none."""
QUICK_EACH = 4

PROTOCOLS, CODE, PLANTED, JOBS = "broken protocols", "random mutants", "planted bugs", "planted Spark jobs"
README_PROTOCOLS, README_CODE = (f"{kind}, README's pipeline" for kind in (PROTOCOLS, CODE))


@dataclass(frozen=True, slots=True)
class Mistake:
    """Something wrong that is to be found.

    Attributes:
        kind: of mistake.
        name: of the broken protocol, of the pipeline's module, or of the planted job.
        protocol: name of the broken protocol that hosts the pipeline; ``""``: the sound one does.
        sources: module to source, where that is not what its file says.
        asked: its author being asked about it counts, too.
        what: tells it from others of its name.
    """

    kind: str
    name: str
    protocol: str = ""
    sources: Mapping[str, str] = field(default_factory=dict)
    asked: bool = False
    what: str = ""


@dataclass(frozen=True, slots=True)
class Hunt:
    """A mistake, and the search that is to find it. ``seed``: of the search."""

    mistake: Mistake
    search: str
    seed: int


@dataclass(frozen=True, slots=True)
class HuntResult:
    """The result of a hunt.

    Attributes:
        hunt: which.
        cpu_s: CPU time until it was found, seconds; ``None``: it was not.
        why: why it could not even be hunted; ``""``: it could.
    """

    hunt: Hunt
    cpu_s: float | None = None
    why: str = ""

    @property
    def counted_s(self) -> float:
        """What medians count, seconds."""
        return BUDGET_S if self.cpu_s is None else self.cpu_s


def measure(options: BenchOptions, on_progress: OnProgress) -> Iterator[Figure]:
    """Hunt every mistake by each search, and yield the figures of a kind once all of it is hunted."""
    for kind, by_search in _by_kind(options, on_progress):
        for search, times in by_search.items():
            yield from _figures(kind, search, times, None if search == _FIRST else by_search[_FIRST])
        if not by_search:
            yield Figure(kind, 0, detail=f"not measured: {KINDS[kind].needs}")
    for search, cpu_s in _sound(options).items():
        yield at_most(f"README's pipeline holds, {search}", cpu_s, HOLDS_S, "s of CPU time")


BENCHMARK = Benchmark("sooner", "CPU time until a search finds what is wrong, by kind of mistake", measure)


COLUMNS = (
    "mistakes", "search", "hunted", *(f"within {most_s} s" for most_s in WITHIN_S), "median", "90th percentile",
    f"median, {_FIRST} = 1",
)  # fmt: skip


def rows(options: BenchOptions, kinds: Collection[str] = ()) -> Iterator[dict[str, str]]:
    """Return the same as a table: a row for each kind of mistake and search. ``kinds``: only these."""
    for kind, by_search in _by_kind(options, lambda *_: None, kinds):
        for search, times in by_search.items():
            cells = (
                kind, search, f"{len(times.hunted):,}", *(f"{times.within(most_s):,}" for most_s in WITHIN_S),
                f"{times.median_s:.2f} s", f"{times.percentile_s:.2f} s",
                f"{times.median_s / by_search[_FIRST].median_s:.2f}",
            )  # fmt: skip
            yield dict(zip(COLUMNS, cells, strict=True))
    sound = _sound(options)
    for search, cpu_s in sound.items():
        name, ratio = "none: README's pipeline holds", f"{cpu_s / sound[_FIRST]:.2f}"
        cells = (name, search, "", *("" for _ in WITHIN_S), f"{cpu_s:.2f} s", "", ratio)
        yield dict(zip(COLUMNS, cells, strict=True))


@dataclass(frozen=True, slots=True)
class HuntTimes:
    """What hunts of one kind by one search came to. ``hunted``: their results."""

    hunted: Sequence[HuntResult]

    def within(self, most_s: float) -> int:
        """Return how many were found within some CPU time."""
        return sum(result.cpu_s is not None and result.cpu_s <= most_s for result in self.hunted)

    @property
    def median_s(self) -> float:
        """Median, seconds."""
        return median(result.counted_s for result in self.hunted)

    @property
    def percentile_s(self) -> float:
        """The 90th percentile, seconds."""
        times = [result.counted_s for result in self.hunted]
        return quantiles(times, n=10, method="inclusive")[-1] if len(times) > 1 else times[0]


def _figures(kind: str, search: str, times: HuntTimes, plain: HuntTimes | None) -> Iterator[Figure]:
    """Yield the figures of a search for one kind. ``plain``: what the first search came to; ``None``: this is it."""
    name, found, unit = f"{kind}, {search}", times.within(BUDGET_S), f"of {len(times.hunted)}"
    shares = ", ".join(f"{times.within(most_s)} within {most_s} s" for most_s in WITHIN_S)
    missed = "; ".join(_told(result.hunt.mistake) for result in times.hunted if result.cpu_s is None)
    detail = f"{shares} of CPU time{f'; not found: {missed}' if missed else ''}"
    if plain is None:
        yield Figure(f"{name}: found", found, unit, detail=detail)
    else:
        goal = plain.within(BUDGET_S)
        yield at_least(f"{name}: found", found, goal, unit, binding=True, detail=detail)
    values = attrgetter("median_s", "percentile_s")
    before = (None, None) if plain is None else values(plain)
    for word, value, plain_s in zip(("median", "90th percentile"), values(times), before, strict=True):
        if plain_s is None:
            yield Figure(f"{name}: {word}", value, "s of CPU time")
        else:
            ratio, goal_s = f"{value / plain_s:.2f} of {_FIRST}", round(plain_s / GOAL, 3)
            yield at_most(f"{name}: {word}", value, goal_s, "s of CPU time", detail=ratio)


def _told(mistake: Mistake) -> str:
    return " ".join(filter(None, (mistake.name.rpartition(".")[2], mistake.what)))


def _by_kind(
    options: BenchOptions, on_progress: OnProgress, kinds: Collection[str] = ()
) -> Iterator[tuple[str, dict[str, HuntTimes]]]:
    """Hunt, kind by kind; yield what each search came to, and nothing of a kind that is not here.

    Each mistake is hunted by all searches one after the other, on an equally busy machine.
    """
    for kind in kinds or KINDS:
        chosen = KINDS[kind].mistakes(options)
        chosen = chosen[:: max(1, math.ceil(len(chosen) / _most(options)))]
        hunts = [Hunt(mistake, search, options.seed) for mistake in chosen for search in SEARCHES]
        hunted: list[HuntResult] = []
        for result in spread(hunt_apart, hunts, options.jobs, apart=True) if hunts else ():
            hunted.append(result)
            on_progress(f"hunting {kind}", len(hunted), len(hunts))
        hunted.sort(key=lambda result: hunts.index(result.hunt))
        fit = [result for result in hunted if not result.why]
        yield (
            kind,
            {
                search: HuntTimes([result for result in fit if result.hunt.search == search])
                for search in (SEARCHES if fit else ())
            },
        )


def _sound(options: BenchOptions) -> dict[str, float]:
    """Return the CPU time in which each search lets README's pipeline hold, seconds."""
    sound = Mistake(README_CODE, README)
    hunts = [Hunt(sound, search, options.seed) for search in SEARCHES if _readme()]
    results = list(spread(hold_apart, hunts, 1, apart=True)) if hunts else []
    return {result.hunt.search: result.cpu_s for result in results if result.cpu_s is not None}


# What is hunted


def _most(options: BenchOptions) -> int:
    """Return the most mistakes of a kind that are hunted."""
    return QUICK_EACH if options.quick else options.runs or MUTANTS + len(CATALOGUE)


def _protocols(_: BenchOptions) -> Sequence[Mistake]:
    return [Mistake(PROTOCOLS, name) for name in _BY_CHANCE]


def _readme_protocols(_: BenchOptions) -> Sequence[Mistake]:
    names = _BY_CHANCE if _readme() else ()
    return [Mistake(README_PROTOCOLS, README, name, what=f"on {name}") for name in names]


_BY_CHANCE = tuple(name for name, mutant in CATALOGUE.items() if mutant.directed is None)


def _random_mutants(options: BenchOptions) -> Sequence[Mistake]:
    return _mutants(CODE, EXAMPLES, MUTANTS, options)


def _readme_mutants(options: BenchOptions) -> Sequence[Mistake]:
    return _mutants(README_CODE, (README,) if _readme() else (), README_MUTANTS, options)


def _mutants(kind: str, modules: Sequence[str], count: int, options: BenchOptions) -> Sequence[Mistake]:
    wanted = min(count, _most(options))
    parts = [
        (name, len(range(place, wanted, len(modules))), options.seed) for place, name in enumerate(modules)
    ]
    drawn = dict(spread(_draw_apart, parts, options.jobs, apart=True)) if parts else {}
    return [
        Mistake(
            kind, name, sources={mutant.module.name: mutant.mutation.source},
            what=f"{Path(mutant.module.file).name}:{mutant.mutation.line}: {mutant.change}",
        )
        for name, _, _ in parts
        for mutant in drawn[name]
    ]  # fmt: skip


def _planted(_: BenchOptions) -> Sequence[Mistake]:
    files = sorted((ROOT / "tests" / "planted").glob("*.py"))
    sources = {file.stem: file.read_text(encoding="utf-8") for file in files}
    return [
        Mistake(
            PLANTED, f"tests.planted.{name}", asked=bool(re.search(r"^ASKED = True", source, re.MULTILINE))
        )
        for name, source in sources.items()
        if "\nCAUSE = " in source
    ]


def _jobs(_: BenchOptions) -> Sequence[Mistake]:
    (names,) = spread(_jobs_apart, [_PLANTED_JOBS], 1, apart=True)
    return [Mistake(JOBS, name) for name in names]


_PLANTED_JOBS = "tests.properties.spark_jobs.trials"
"""A clone has this module with planted jobs by name, ``ALL``, each with its ``target``."""


def _readme() -> str:
    """Return the source of README's pipeline; ``""``: there is no README."""
    readme = ROOT / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else ""
    block = re.search(rf"^```python\n(# {README}\.py.*?)^```", text, re.MULTILINE | re.DOTALL)
    return block[1] if block else ""


# In a process that imports nothing of what is hunted


def hunt_apart(hunt: Hunt) -> HuntResult:
    """Hunt in a child process."""
    return _apart(partial(_hunt, hunt), HuntResult(hunt))


def hold_apart(hunt: Hunt) -> HuntResult:
    """Verify in a child process, to the end; the time is that until it holds, and ``None`` if it does not."""
    return _apart(partial(_hunt, hunt, ends=True), HuntResult(hunt))


def _jobs_apart(module: str) -> tuple[str, ...]:
    return _apart(partial(_named_jobs, module), ())


def _draw_apart(part: tuple[str, int, int]) -> tuple[str, Sequence[CodeMutant]]:
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


def _hunt(hunt: Hunt, *, ends: bool = False) -> HuntResult:
    """Hunt a mistake, or with ``ends`` take the end of the search for the result."""
    began_s, kind = _cpu_s(), KINDS[hunt.mistake.kind]

    def look(*, found: bool) -> None:
        if found or _cpu_s() - began_s >= BUDGET_S:
            raise _OverError(found=found)

    search = replace(Search(examples=None if ends else kind.runs, seed=hunt.seed), **SEARCHES[hunt.search])
    try:
        with guarded(), seldom_collected():
            kind.hunt(hunt.mistake, search, look)
    except _OverError as over:
        spent_s = _cpu_s() - began_s
        return HuntResult(hunt, spent_s if over.found and spent_s <= BUDGET_S and not ends else None)
    except BaseException as error:  # noqa: BLE001  a mutant may raise anything, before any search begins
        return HuntResult(hunt, why=f"{type(error).__name__}: {error}")
    return HuntResult(hunt, _cpu_s() - began_s if ends else None)


def _cpu_s() -> float:
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


Look = Callable[..., None]
"""Called with ``found`` after each step of a hunt; ends it."""


def _hunt_protocol(mistake: Mistake, search: Search, look: Look) -> None:
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


def _hunt_code(mistake: Mistake, search: Search, look: Look) -> None:
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
        Path(folder, f"{README}.py").write_text(_readme(), encoding="utf-8")
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


def _hunt_job(mistake: Mistake, _: Search, look: Look) -> None:
    """Verify a planted Spark job or its sink until the first finding."""
    planted = importlib.import_module(_PLANTED_JOBS).ALL[mistake.name]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        report = planted.target().verify(progress=lambda _done, _all: look(found=False))
    look(found=bool(report.findings))


def _named_jobs(module: str) -> tuple[str, ...]:
    """Return the names of the planted jobs; none if this is no clone, or PySpark is not installed."""
    try:
        return tuple(importlib.import_module(module).ALL)
    except ImportError:
        return ()


@dataclass(frozen=True, slots=True)
class KindOfMistake:
    """A kind of mistake.

    Attributes:
        mistakes: lists them.
        hunt: searches for one, and calls the last argument with ``found`` after each step.
        needs: what they are in.
        runs: after so many in which a fault strikes a search ends; ``None``: after as many as by default.
    """

    mistakes: Callable[[BenchOptions], Sequence[Mistake]]
    hunt: Callable[[Mistake, Search, Look], None]
    needs: str = "a clone of the repository has them"
    runs: int | None = _ENDLESS


KINDS: Mapping[str, KindOfMistake] = MappingProxyType(
    {
        PROTOCOLS: KindOfMistake(_protocols, _hunt_protocol),
        CODE: KindOfMistake(_random_mutants, _hunt_code),
        PLANTED: KindOfMistake(_planted, _hunt_code),
        JOBS: KindOfMistake(_jobs, _hunt_job, "they need PySpark, and a clone of the repository"),
        README_PROTOCOLS: KindOfMistake(_readme_protocols, _hunt_code, runs=None),
        README_CODE: KindOfMistake(_readme_mutants, _hunt_code, runs=None),
    }
)
"""All of them, by name. README's pipeline is hunted as ``headrace verify`` does, which stops after some runs."""
