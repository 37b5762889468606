"""``headrace verify``: search for a fault schedule that breaks a pipeline, and shrink it."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace import OptionsError
from headrace.api.errors import HeadraceError
from headrace.histories import header_of
from headrace_cli.options.confinement import Confinement
from headrace_cli.options.heeded import refuse_unheeded_options
from headrace_cli.options.kept import FailuresOption, memory, save_findings
from headrace_cli.options.names import invariants_named, names_of, protocol_without
from headrace_cli.options.option_groups import (
    CodeTimeoutOption,
    JsonOption,
    PipelineArgument,
    VerboseOption,
    with_options,
)
from headrace_cli.options.pools import PoolOptions
from headrace_cli.options.program_options import ArgumentsOption, Engine, ProgramOptions
from headrace_cli.options.scope_options import ScopeOptions
from headrace_cli.options.target_options import TargetOptions
from headrace_cli.reports.search_report import SearchReport
from headrace_cli.reports.spark_report import SparkSearchReport
from headrace_cli.targets.loading import (
    is_pipeline,
    is_spark_job,
    load_target,
)
from headrace_cli.targets.spark_loading import program_trials, schemas_named, spark_trials
from headrace_cli.terminal.documents import show, stdout_reserved
from headrace_cli.terminal.files import (
    HISTORY,
    SIMULATED,
    ForceOption,
    HistoryOption,
    OutputFiles,
    write_history,
)
from headrace_cli.terminal.live_progress import SearchProgress
from headrace_cli.terminal.signals import signal_of, stop_requested
from headrace_properties.pipeline_target import Search
from headrace_properties.pipeline_trials import PipelineTrials
from headrace_properties.search.judging import run_plan
from headrace_properties.search.limits import CALL_S, CodeLimits
from headrace_properties.search.parallel import Jobs
from headrace_properties.search.scope import Scope
from headrace_properties.search.steering import FEEDS
from headrace_properties.search.store_breaches import breaches_named
from headrace_properties.session import Session
from headrace_properties.target_kinds import SearchKind, check_allowed
from headrace_sim.faults import Breach

if TYPE_CHECKING:
    from headrace_properties.spark_jobs.laboratory import Laboratory
    from headrace_properties.spark_trials import SparkTrials
    from headrace_sim.spark.client.scripts import Script

    AnyTrials = PipelineTrials | SparkTrials

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace verify headrace_scenarios.zeitgeist:pipeline
  headrace verify my_job:pipeline --examples 10000 --seed 7
  headrace verify my_job:pipeline --version my_job:next_pipeline
  headrace verify job_v2.py --version job_v1.py
  headrace verify my_job:pipeline --search enumerate --jobs 2
  headrace verify my_job:pipeline --search pairs --examples 5000 --jobs 2
  headrace verify my_job:pipeline --search exhaustive --records 2 --faults 1 --delays 1
  headrace verify my_job:pipeline --search lineage --records 2 --faults 2
  headrace verify my_job:pipeline --search pct --depth 3
  headrace verify my_job:pipeline --examples 1000000 --master spark://host:7077
  headrace verify my_job:pipeline --on spark
  headrace verify my_job:pipeline --allow-unknown S8,S9,L1
  headrace verify my_job:pipeline --json > report.json
  headrace verify jobs/stream.py --env BROKERS=kafka:9092 -- --topic orders
  headrace verify -m package.stream --query orders
  headrace verify jobs/stream.py --on spark
  headrace verify my_spark_job:write_batch --schema 'account STRING, amount INT' --on spark

[bold]Exit codes[/]
  0 holds; 1 violated: a failure changes what comes out, a promise is broken, something is lost or doubled, or code raises,
  hangs or escapes; 3 undeclared: only you can say what is meant, and a line of code answers it (1 with --strict), or unknown:
  no run exercised it; 2 usage error; 130 interrupted"""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The search and its limits."""

    how: Annotated[
        SearchKind,
        typer.Option(
            "--search",
            help="Random fault schedules; every single fault at every protocol step (enumerate); pairs of those; every"
            " order of arrivals and every fault of a small scope (exhaustive); the faults that what led to a good outcome"
            " depends on (lineage); or random faults with orders of arrival by priorities, which bound the chance to miss a"
            " failure (pct).",
        ),
    ] = SearchKind.RANDOM
    examples: Annotated[
        int | None,
        typer.Option(
            min=1,
            show_default="200, or no limit with --until-quiet or --minutes",
            help="Number of runs in which at least one fault really strikes, or of pairs. Enumerate and exhaustive try all.",
        ),
    ] = None
    until_quiet: Annotated[
        float,
        typer.Option(
            "--until-quiet",
            metavar="P",
            min=0.0,
            max=1.0,
            show_default=False,
            help="Random: stop once the chance that the next run shows new behaviour is estimated below this, such as 0.01.",
        ),
    ] = 0.0
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes",
            metavar="M",
            min=0.0,
            help="Random, exhaustive: stop after this many minutes; results then depend on the machine.",
        ),
    ] = None
    seed: Annotated[
        int, typer.Option(help="Seed for the search and the first input; the same seed repeats the search.")
    ] = 0
    feeds: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of different inputs, made from the seed and the numbers after it.",
        ),
    ] = FEEDS
    depth: Annotated[
        int, typer.Option(min=1, help="Pct: the depth of the failures for which the bound holds.")
    ] = 2
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            metavar="FILE",
            help="Exhaustive, lineage: note all runs in this file, and go on from those that it has.",
        ),
    ] = None
    outside: Annotated[
        str,
        typer.Option(
            "--outside",
            metavar="KIND,...",
            help="Also break what MillWheel takes for granted of its store, to see that the invariants notice:"
            f" {', '.join(breach.value for breach in Breach)}.",
        ),
    ] = ""
    code_timeout: CodeTimeoutOption = CALL_S

    def search(self, scope: Scope) -> Search:
        """Return the options in the search's own type.

        Raises:
            OptionsError: there is no fault outside the model of a name.
        """
        outside = breaches_named(names_of(self.outside))
        return Search(
            self.how, self.examples, self.until_quiet, self.minutes, self.seed, self.feeds, self.depth, scope, self.resume,
            outside,
        )  # fmt: skip


@app.command("verify", epilog=_EXAMPLES)
@with_options
def verify(
    context: typer.Context,
    pipeline: PipelineArgument,
    options: SearchOptions,
    scope: ScopeOptions,
    pools: PoolOptions,
    target: TargetOptions,
    program: ProgramOptions,
    arguments: ArgumentsOption = None,
    save: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Where to save a failure, besides where it is kept."),
    ] = None,
    history: HistoryOption = None,
    failures: FailuresOption = None,
    force: ForceOption = False,
    verbose: VerboseOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline through many fault schedules in a simulated cluster, and judge each run.

    The invariants of the protocol and the promises of the module must hold in each. If one breaks,
    the schedule is shrunk to a smallest one that still breaks it, and saved as a file to replay.
    """
    files = OutputFiles(force=force)
    files.claim(save, "--save")
    files.claim(history, HISTORY)
    is_program = program.is_program(pipeline)
    on_spark = program.on_spark(pipeline, target.schema or (), arguments or ())
    confinement = Confinement(CodeLimits(call_s=options.code_timeout), target.allow)
    with stdout_reserved(), confinement.entered(verbose=verbose):
        trials: AnyTrials
        with _offered(on_spark, program.on):
            if is_program:
                trials = _program(
                    context,
                    program.script(pipeline, arguments or ()),
                    program.query,
                    options,
                    target,
                    confinement.limits,
                    _laboratory(program, pools),
                )
            else:
                trials = _trials(pipeline, options, scope.scope, target, confinement.limits, program, pools)
        of_pipeline = isinstance(trials, PipelineTrials)
        if of_pipeline:
            pools.check()
        refuse_unheeded_options(context, trials.kind)
        program.own_batches()  # it may be refused: a pipeline in the simulation has none
        check_allowed(names_of(target.allow), trials.kind)
        session = Session(trials, memory(failures, trials.source))
        with (
            _offered(on_spark, program.on),
            pools.pool() if of_pipeline else nullcontext(1) as jobs,
            SearchProgress(trials.expected) as progress,
        ):
            stopped_by = _run(trials, session, jobs, progress)
    with confinement.entered():  # codecs and promises are asked for what is told
        save_findings(session, save, files)
        report = _report(trials, session, progress, stopped_by, strict=target.strict)
        _write_history(trials, history, files)
        show(report.document, partial(report.print, verbose=verbose), as_json=as_json)
    raise typer.Exit(files.code(report.code))


@contextmanager
def _offered(command: str, engine: Engine) -> Iterator[None]:
    """Where the simulation cannot follow a target, add the command that runs it on the real Spark to the error.

    Raises:
        CannotSimulateError: The simulation cannot.

    """
    try:
        yield
    except HeadraceError as error:
        if engine is not Engine.HERE or type(error).__name__ not in _REFUSALS:
            raise
        raise CannotSimulateError(str(error), command) from error


_REFUSALS = frozenset({"CannotFollowError", "UnfollowableSinkError"})
"""The names of what the simulation refuses with; their modules need PySpark."""


class CannotSimulateError(HeadraceError):
    """The simulation cannot follow a target, which the real Spark runs as it is. Fields: problem, command."""

    def __init__(self, problem: str, command: str) -> None:
        super().__init__(problem, command)
        self.problem, self.command = problem, command

    def __str__(self) -> str:
        """Repeat the problem, and name the command."""
        return f"{self.problem}. Or let the real Spark run it as it is, some seconds a trial: {self.command}"


def _trials(
    name: str,
    options: SearchOptions,
    scope: Scope,
    asked: TargetOptions,
    limits: CodeLimits,
    program: ProgramOptions,
    pools: PoolOptions,
) -> "AnyTrials":
    """Load what is verified, and say how."""
    search = options.search(scope)
    of_spark = is_spark_job(name) or ((asked.schema or asked.sample) and not is_pipeline(name))
    if of_spark or program.on is Engine.SPARK:
        return spark_trials(name, search, asked, limits, _laboratory(program, pools))
    if program.on is Engine.BOTH:
        raise OptionsError("on", "both", "given for a Spark job")
    protocol = protocol_without(asked.without)
    target = load_target(name, asked.feed, asked.versions or (), asked.promise or (), limits, protocol)
    unknown = invariants_named(asked.allow_unknown, target.deployed, target.promises)
    target.check_input(search.seed)
    return PipelineTrials(target, search, allow_unknown=unknown)


def _laboratory(program: ProgramOptions, pools: PoolOptions) -> "Laboratory | None":
    from headrace_properties.spark_jobs.laboratory import laboratory_on  # noqa: PLC0415  it needs PySpark

    batches = program.own_batches()
    return laboratory_on(program.on.value, program.postgres, pools.jobs or 1, program.let_through, batches)


def _program(
    context: typer.Context,
    script: "Script",
    query: str,
    options: SearchOptions,
    asked: TargetOptions,
    limits: CodeLimits,
    where: "Laboratory | None",
) -> "SparkTrials":
    """Run a program, whose surroundings last as long as the command, and say how its queries are tried."""
    from headrace_sim.spark.client.scripts import surroundings  # noqa: PLC0415  it needs PySpark

    script = replace(script, schemas=schemas_named(script.name, asked.schema or ()))
    module = context.with_resource(surroundings(script))
    laboratory = None if where is None else replace(where, script=script)
    search = options.search(Scope())
    return program_trials(script, module, query, search, asked, limits, laboratory)


def _run(
    trials: "AnyTrials", session: Session, jobs: Jobs, progress: SearchProgress
) -> signal.Signals | None:
    """Verify a target until it is done, or a signal arrives, which is returned."""
    if isinstance(trials, PipelineTrials):
        trials.jobs, trials.on_run = jobs, progress.on_run
        try:
            session.run()
        except KeyboardInterrupt as stop:
            return signal_of(stop)
        return None
    with stop_requested() as stopped:

        def told(done: int, wanted: int) -> bool:
            progress.on_trial(done, wanted)
            return stopped()

        trials.progress = told
        session.run()
    return stopped.signal


def _report(
    trials: "AnyTrials",
    session: Session,
    progress: SearchProgress,
    stopped_by: signal.Signals | None,
    *,
    strict: bool,
) -> SearchReport | SparkSearchReport:
    if not isinstance(trials, PipelineTrials):
        return SparkSearchReport(trials, session, progress.elapsed_s, stopped_by, strict)
    shrinking = progress.shrinking and not trials.ended
    return SearchReport(
        trials, session, progress.elapsed_s, progress.runs_per_second, stopped_by, shrinking, strict
    )


def _write_history(trials: "AnyTrials", path: Path | None, files: OutputFiles) -> None:
    """Write the History of the failing run; one that stopped with an error has none."""
    if not isinstance(trials, PipelineTrials) or path is None:
        return
    failure = trials.verification.failure
    if failure is None or failure.error:
        return
    target = trials.target
    events, _, _ = run_plan(target.application, failure.trial, target.protocol)
    header = header_of(target.deployed, SIMULATED, failure.plan.options.engine)
    write_history(files, path, events, header)
