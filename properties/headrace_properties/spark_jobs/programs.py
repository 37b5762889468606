"""A program that starts queries, as a target: it is run once, and each of its queries is tried."""

import runpy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

from headrace.api.errors import HeadraceError
from headrace_properties.findings import Finding
from headrace_properties.promises import Promise
from headrace_properties.search.guard import refusal_in
from headrace_properties.search.limits import CodeLimits, OverrunError
from headrace_properties.spark_jobs.job_causes import Cause
from headrace_properties.spark_jobs.job_findings import place_at
from headrace_properties.spark_jobs.named_targets import DECLARES, FEED, PREPARE, PROMISES, spark_target
from headrace_properties.spark_jobs.promised import check_promises_of_job
from headrace_properties.spark_jobs.targets import SparkTarget
from headrace_properties.spark_jobs.together import judged_together, labels_of, told_together
from headrace_properties.target import SOURCE, TargetError
from headrace_sim.spark.client.scripts import Script, ScriptRun, run_script
from headrace_sim.spark.declares import Declares
from headrace_sim.spark.refusals import place_of_error, shown_place
from headrace_sim.spark.sinks.database_servers import databases_kept
from headrace_sim.spark.spark_job import SparkJob


@dataclass(frozen=True, slots=True)
class ProgramInput:
    """What the queries of a program are tried with, besides what the program says."""

    # the rows of its query, or of each by its label; or a function that makes them from a seed. None: drawn
    feed: Any = None
    feed_name: str = FEED  # what its module calls its rows
    prepare: Callable[[], Any] | None = None  # makes what sinks take for granted. None: the module's
    promises: Sequence[Promise] | None = None  # what its author says of it. None: the module's
    # the columns by which connectors write that are not known
    keys: Mapping[str, Sequence[str]] | None = None
    declares: Declares | None = None  # what outcomes may depend on. None: the module's
    samples: Mapping[str, str] | None = None  # files with rows of its input, by the name of the source
    # of each call of its code
    limits: CodeLimits = CodeLimits()  # noqa: RUF009  it is frozen


@dataclass(frozen=True, slots=True)
class Program:
    """A program that has run, and its queries."""

    name: str  # as the user wrote it
    run: ScriptRun  # what it started
    queries: Mapping[str, SparkTarget]  # each query that can be tried, by its label
    findings: tuple[Finding, ...] = ()  # what the queries do to each other
    notes: tuple[str, ...] = ()  # what is worth knowing
    unknown: tuple[str, ...] = ()  # what was not judged, each with the reason


def run_program(script: Script, module: Any) -> ScriptRun:
    """Run a program, and return what it started.

    ``module``: its own, from `headrace_sim.spark.client.scripts.surroundings`, which must be in force. Raise `TargetError` if
    it never ends, or `HeadraceError` if it starts no query, or does something that is refused.
    """
    try:
        with databases_kept() as databases:
            run = run_script(script, module)
        return replace(run, prepare=databases.restore if databases else None)
    except OverrunError as end:
        raise TargetError(script.name, str(end), "Let it start its queries, and wait for them") from end
    except HeadraceError as error:
        raise refusal_in(error) or error from error.__cause__


def said_beside(script: Script) -> dict[str, Any]:
    """Return what the file beside a program says of it, such as ``promises``: ``orders_promises.py`` of ``orders.py``.

    Raise `TargetError` if the file fails, or `PromiseError` if its ``promises`` are none.
    """
    file = None if script.file is None else script.file.with_name(f"{script.file.stem}_promises.py")
    if file is None or not file.is_file():
        return {}
    try:
        variables = runpy.run_path(str(file))
    except (Exception, SystemExit) as error:
        place = shown_place(place_of_error(error, f"{file}:1"))
        problem = f"{file.name} fails at {place}: {type(error).__name__}: {error}".rstrip(".")
        raise TargetError(script.name, problem, "Fix it, or move it away") from error
    check_promises_of_job(variables.get(PROMISES, ()))
    return {
        name: variables[name] for name in (FEED, PREPARE, PROMISES, DECLARES, SOURCE) if name in variables
    }


def program_of(script: Script, run: ScriptRun, beside: ProgramInput, seed: int, query: str = "") -> Program:
    """Return a program's queries, ready to be tried.

    Args:
        script: The program.
        run: What it started.
        beside: What its queries are tried with.
        seed: For rows that are drawn, or made.
        query: The label of the only one that is wanted, or the line where it starts; "": all.

    Raises:
        TargetError: There is no such query, or a feed fits none.

    """
    labels = labels_of(run.queries)
    jobs = dict(zip(labels, run.queries, strict=True))
    wanted = _wanted(script.name, jobs, query)
    targets, notes, unknown = dict[str, SparkTarget](), list(run.notes), list(run.unknown)
    for label, job in wanted.items():
        name = script.name if len(jobs) == 1 else f"{script.name}, {label}"
        try:
            targets[label] = _target(name, label, job, run, beside, seed, alone=len(wanted) == 1)
        except HeadraceError as error:
            if len(wanted) == 1:
                raise
            unknown.append(f"{label}: {error}")
    findings = list(_refused(run))
    if not query:
        findings += judged_together(run.lives)
        notes += told_together(run.queries)
    notes += (f"{module} is a stand-in: what it is told goes nowhere" for module in script.stand_ins)
    return Program(script.name, run, targets, tuple(findings), tuple(notes), tuple(unknown))


def _refused(run: ScriptRun) -> Iterator[Finding]:
    """Yield what Spark refuses of a program, which then fails whenever it is run."""
    if run.refused is not None:
        error = run.refused
        yield Finding(Cause.ERROR.kind(), error.problem, place_at(error.place), error.remedy)


def _wanted(name: str, jobs: Mapping[str, SparkJob], query: str) -> dict[str, SparkJob]:
    if not query:
        return dict(jobs)
    places = {label: job.sink.place for label, job in jobs.items()}
    names = {label: {label, at.rpartition(":")[2], shown_place(at)} for label, at in places.items()}
    matching = {label: job for label, job in jobs.items() if query in names[label]}
    if len(matching) != 1:
        raise TargetError(name, f"it starts no query {query!r}", f"Its queries are: {'; '.join(jobs)}")
    return matching


def _target(
    name: str, label: str, job: SparkJob, run: ScriptRun, beside: ProgramInput, seed: int, *, alone: bool
) -> SparkTarget:
    module = _sayings(run.variables, beside.feed_name)
    feed = getattr(module, FEED) if beside.feed is None else beside.feed
    if isinstance(feed, Mapping):
        feed = feed.get(label)
    elif not alone and beside.feed is not None:
        raise TargetError(name, "it starts several queries, and one feed is given", "Name one: --query NAME")
    elif not alone:
        feed = None
    prepare = _both(run.prepare, prepare_of(run, beside))
    target = spark_target(
        name, job, module=_without_feed(module), feed=None if beside.samples else feed, seed=seed, prepare=prepare,
        promises=beside.promises, keys=beside.keys if job.sink.function is not None else None, declares=beside.declares,
        samples=beside.samples,
    )  # fmt: skip
    return replace(target, limits=beside.limits)


def prepare_of(run: ScriptRun, beside: ProgramInput) -> Callable[[], Any] | None:
    """Return what makes the tables that a program takes for granted, as its author says."""
    return beside.prepare or getattr(_sayings(run.variables, beside.feed_name), PREPARE)


def _both(first: Callable[[], Any] | None, second: Callable[[], Any] | None) -> Callable[[], Any] | None:
    """Return what calls both, as far as they are there."""
    if first is None or second is None:
        return first or second

    def prepare() -> None:
        first()
        second()

    return prepare


def _without_feed(module: SimpleNamespace) -> Any:
    """Return what a module says, without its feed."""
    return SimpleNamespace(**{name: value for name, value in vars(module).items() if name != FEED})


def _sayings(variables: Mapping[str, Any], feed_name: str) -> SimpleNamespace:
    """Return what a program's module says to Headrace: its variables of these names may be the program's own."""
    feed, prepare = variables.get(feed_name), variables.get(PREPARE)
    promises, declares = variables.get(PROMISES, ()), variables.get(DECLARES)
    code = getattr(feed, "__code__", None)
    takes_seed = code is not None and code.co_varnames[: code.co_argcount] == ("seed",)
    makes_rows = takes_seed or isinstance(feed, list | dict)
    makes_tables = getattr(getattr(prepare, "__code__", None), "co_argcount", 1) == 0
    promised = isinstance(promises, list | tuple) and all(isinstance(one, Promise) for one in promises)
    declares = declares if isinstance(declares, Declares) else None
    said = {FEED: feed if makes_rows else None, PREPARE: prepare if makes_tables else None}
    said |= {PROMISES: promises if promised else (), DECLARES: declares, SOURCE: variables.get(SOURCE)}
    return SimpleNamespace(**said)
