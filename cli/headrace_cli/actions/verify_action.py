"""The work of ``headrace verify``."""

import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import typer

from headrace import OptionsError
from headrace.api.errors import HeadraceError
from headrace.histories import header_of
from headrace_cli.options.confinement import Confinement
from headrace_cli.options.heeded import refuse_unheeded_options
from headrace_cli.options.kept import memory, save_findings
from headrace_cli.options.names import invariants_named
from headrace_cli.options.option_groups import OutputOptions, names_of
from headrace_cli.options.pools import PoolOptions
from headrace_cli.options.program_options import Engine, ProgramOptions
from headrace_cli.options.search_options import ScopeOptions, SearchOptions
from headrace_cli.options.showing import Showing
from headrace_cli.options.target_options import TargetOptions
from headrace_cli.reports.search_end import SearchEnd
from headrace_cli.reports.search_report import SearchReport
from headrace_cli.reports.spark_report import SparkSearchReport
from headrace_cli.targets.loading import (
    is_pipeline,
    is_spark_job,
    load_target,
)
from headrace_cli.targets.protocols import protocol_asked
from headrace_cli.targets.spark_loading import program_trials, schemas_named, spark_trials
from headrace_cli.terminal.documents import show, stdout_reserved
from headrace_cli.terminal.exit import ExitCode
from headrace_cli.terminal.files import (
    SIMULATED,
    OutputFiles,
    write_history,
)
from headrace_cli.terminal.live_progress import SearchProgress
from headrace_cli.terminal.signals import signal_of, stop_requested
from headrace_properties.pipeline_trials import PipelineTrials
from headrace_properties.search.judging import run_plan
from headrace_properties.search.limits import CodeLimits
from headrace_properties.search.parallel import Jobs
from headrace_properties.search.scope import Scope
from headrace_properties.session import Session
from headrace_properties.target_kinds import check_allowed

if TYPE_CHECKING:
    from headrace_properties.spark_jobs.laboratory import Laboratory
    from headrace_properties.spark_trials import SparkTrials
    from headrace_sim.spark.client.scripts import Script

    AnyTrials = PipelineTrials | SparkTrials


def verify_target(
    context: typer.Context,
    pipeline: str,
    target: TargetOptions,
    options: SearchOptions,
    pools: PoolOptions,
    scope: ScopeOptions,
    program: ProgramOptions,
    output: OutputOptions,
    arguments: Sequence[str],
) -> ExitCode:
    """Search for a failure of a target, keep what is found and print the report, and return the exit code."""
    files = OutputFiles(force=output.force)
    files.claim(output.save, "--save")
    files.claim(output.html, "--html")
    files.claim(output.history, "--history")
    is_program = program.is_program(pipeline)
    on_spark = program.on_spark(pipeline, target.schema or (), arguments)
    confinement = Confinement(CodeLimits(call_s=options.code_timeout), target.allow)
    with stdout_reserved(), confinement.entered(verbose=output.verbose):
        trials: AnyTrials
        with _offered(on_spark, program.on):
            if is_program:
                trials = _program(
                    context,
                    program.script(pipeline, arguments),
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
        session = Session(trials, memory(output.failures, trials.source))
        with (
            _offered(on_spark, program.on),
            pools.pool() if of_pipeline else nullcontext(1) as jobs,
            SearchProgress(trials.expected) as progress,
        ):
            stopped_by = _run(trials, session, jobs, progress)
    with confinement.entered():  # codecs and promises are asked for what is told
        save_findings(session, output.save, files)
        end = _end(trials, session, progress, stopped_by, strict=target.strict)
        report = (
            SearchReport(trials, end)
            if isinstance(trials, PipelineTrials)
            else SparkSearchReport(trials, end)
        )
        _save_run(trials, output, files)
        show(report.document, partial(report.print, verbose=output.verbose), as_json=output.as_json)
    return files.code(end.code)


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
    protocol = protocol_asked(asked.protocol, asked.without)
    target = load_target(name, asked.feed, asked.versions or (), asked.promise or (), limits, protocol)
    unknown = invariants_named(asked.allow_unknown, target.deployed, target.promises)
    target.check_input(search.seed)
    return PipelineTrials(target, search, allow_unknown=unknown)


def _laboratory(program: ProgramOptions, pools: PoolOptions) -> "Laboratory | None":
    from headrace_properties.spark_jobs.laboratory import laboratory_on

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
    from headrace_sim.spark.client.scripts import surroundings

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

        trials.progress, trials.on_first = told, progress.on_first
        session.run()
    return stopped.signal


def _end(
    trials: "AnyTrials",
    session: Session,
    progress: SearchProgress,
    stopped_by: signal.Signals | None,
    *,
    strict: bool,
) -> SearchEnd:
    shrinking = isinstance(trials, PipelineTrials) and progress.shrinking and not trials.ended
    return SearchEnd(session, progress.elapsed_s, progress.runs_per_second, stopped_by, shrinking, strict)


def _save_run(trials: "AnyTrials", output: OutputOptions, files: OutputFiles) -> None:
    """Write the page of the leading finding, and the History of the failing run; one that stopped with an error has none."""
    finding = trials.leading
    if output.html is None and output.history is None:
        return
    failure = trials.verification.failure if isinstance(trials, PipelineTrials) else None
    if finding is not None and (failure is None or failure.error):
        name = trials.target.name if isinstance(trials, PipelineTrials) else trials.name
        from headrace_cli.reports.pictures import save_comparison

        save_comparison(output.html, files, name, finding, trials.explanation(finding))
    if not isinstance(trials, PipelineTrials) or failure is None or failure.error:
        return
    target = trials.target
    events, verdicts, _ = run_plan(target.application, failure.trial, target.protocol)
    from headrace_cli.reports.pictures import save_pictures

    save_pictures(
        Showing(html=output.html), files, events, verdicts, title=target.name,
        subtitle=f"input {target.feed_name}({failure.trial.feed_seed}), protocol: {target.protocol.name}",
        pipelines=target.deployed,
    )  # fmt: skip
    header = header_of(target.deployed, SIMULATED, failure.plan.options.engine)
    write_history(files, output.history, events, header)
