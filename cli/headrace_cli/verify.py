"""``headrace verify``: search for a fault schedule that breaks a pipeline, and shrink it."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from headrace.histories import header_of
from headrace_cli._consoles import output_console
from headrace_cli._documents import print_document, stdout_reserved
from headrace_cli._exit import tidy_errors
from headrace_cli._files import ForceOption, OutputFiles
from headrace_cli._heeded import refuse_unheeded_options
from headrace_cli._histories import HISTORY, SIMULATED, HistoryOption, write_history
from headrace_cli._invariants import invariants_named
from headrace_cli._kept import FailuresOption, memory, save_findings
from headrace_cli._options import CodeTimeoutOption, JsonOption, PromiseOption, VerboseOption, with_options
from headrace_cli._pools import PoolOptions
from headrace_cli._progress import SearchProgress
from headrace_cli._protocols import WithoutOption, protocol_without
from headrace_cli._scope import ScopeOptions
from headrace_cli._search_report import SearchReport
from headrace_cli._signals import signal_of
from headrace_cli._spark_targets import SparkOptions, verify_spark
from headrace_cli._targets import (
    DEFAULT_FEED,
    is_pipeline,
    is_spark_job,
    load_target,
)
from headrace_cli._user_code import Confinement, names_of
from headrace_properties.pipeline_target import RUNS, PipelineTarget, PipelineTrials, Search
from headrace_properties.search.judging import run_plan
from headrace_properties.search.limits import CALL_S, CodeLimits
from headrace_properties.search.outside import breaches_named
from headrace_properties.search.parallel import Jobs
from headrace_properties.search.scope import Scope
from headrace_properties.search.steering import FEEDS
from headrace_properties.session import Memory, Session
from headrace_properties.target_kinds import SearchKind, TargetKind, check_allowed
from headrace_sim.faults import Breach

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace verify headrace_scenarios.zeitgeist:pipeline
  headrace verify my_job:pipeline --examples 10000 --seed 7
  headrace verify my_job:pipeline --version my_job:next_pipeline
  headrace verify my_job:pipeline --search enumerate --jobs 2
  headrace verify my_job:pipeline --search pairs --examples 5000 --jobs 2
  headrace verify my_job:pipeline --search exhaustive --records 2 --faults 1 --delays 1
  headrace verify my_job:pipeline --search lineage --records 2 --faults 2
  headrace verify my_job:pipeline --search pct --depth 3
  headrace verify my_job:pipeline --examples 1000000 --on spark --master spark://host:7077
  headrace verify my_job:pipeline --allow-unknown S8,S9,L1
  headrace verify my_job:pipeline --json > report.json
  headrace verify my_spark_job:write_batch --schema 'account STRING, amount INT'

[bold]Exit codes[/]
  0 every invariant holds, 1 one is violated, 2 usage error, 3 unknown: no run exercised some invariant
  or promise that --allow-unknown does not name, or a scope was not exhausted, 130 interrupted"""


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """What to search, and how long."""

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

    def search(self, scope: Scope, jobs: Jobs) -> Search:
        """Return them in the search's own type.

        Raises:
            OptionsError: there is no fault outside the model of a name.
        """
        outside = breaches_named(names_of(self.outside))
        return Search(
            self.how, self.examples, self.until_quiet, self.minutes, self.seed, self.feeds, self.depth, scope, self.resume,
            outside, jobs,
        )  # fmt: skip


PipelineArgument = Annotated[
    str, typer.Argument(metavar="MODULE:PIPELINE", help="The pipeline, such as my_job:pipeline.")
]
VersionsOption = Annotated[
    list[str] | None,
    typer.Option(
        "--version",
        metavar="MODULE:PIPELINE",
        help="Another version of the pipeline, which an operator may deploy while it runs; repeat for more.",
    ),
]
FeedOption = Annotated[
    str, typer.Option(metavar="NAME", help="Function of the same module that makes the input from a seed.")
]
UnknownOption = Annotated[
    str,
    typer.Option(
        metavar="NAME,...",
        help="Invariants and promises allowed to go unexercised, or [bold]all[/] invariants. Without timers, nothing can"
        " exercise S8, S9 and L1. [bold]growth[/]: state may stay that nothing cleans up. The report lists them.",
    ),
]
SchemaOption = Annotated[
    list[str] | None,
    typer.Option(
        "--schema",
        metavar="[PARAM=]COLUMNS",
        help="Columns of the input of a Spark job, such as 'word STRING, at TIMESTAMP'. The target is then a foreachBatch"
        " function, or a function that starts a query.",
    ),
]
AllowOption = Annotated[
    str,
    typer.Option(
        metavar="NAME,...",
        help="[bold]effect[/]: let your code change files, use sockets and start processes, which is refused otherwise."
        " Spark jobs: on what the outcome may depend: batching, order, partitions; or late (rows that are dropped), growth"
        " (state that nothing removes), loss (rows that a sink leaves out for an error), value (state that is not what was"
        " put), swallowed (errors of state calls that are caught).",
    ),
]
DuplicatesOption = Annotated[
    bool, typer.Option("--duplicates", help="Spark jobs: the source may deliver a row twice.")
]
KeysOption = Annotated[
    list[str] | None,
    typer.Option(
        "--keys",
        metavar="TABLE=COLUMN,...",
        help="Sinks: the columns by which a connector of df.write that is not known writes to a table; none: it adds rows.",
    ),
]
SaveOption = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Where to save a failure, besides where it is kept."),
]


@app.command("verify", epilog=_EXAMPLES)
@with_options
def verify(
    context: typer.Context,
    pipeline: PipelineArgument,
    options: SearchOptions,
    scope: ScopeOptions,
    pools: PoolOptions,
    versions: VersionsOption = None,
    feed: FeedOption = DEFAULT_FEED,
    promise: PromiseOption = None,
    without: WithoutOption = None,
    allow_unknown: UnknownOption = "",
    save: SaveOption = None,
    history: HistoryOption = None,
    failures: FailuresOption = None,
    schema: SchemaOption = None,
    allow: AllowOption = "",
    duplicates: DuplicatesOption = False,  # noqa: FBT002  typer's way
    keys: KeysOption = None,
    force: ForceOption = False,  # noqa: FBT002  typer's way
    verbose: VerboseOption = False,  # noqa: FBT002  typer's way
    as_json: JsonOption = False,  # noqa: FBT002  typer's way
) -> None:
    """Run a pipeline through many fault schedules in a simulated cluster, and judge each run.

    The invariants of the protocol and the promises of the module must hold in each. If one breaks,
    the schedule is shrunk to a smallest one that still breaks it, and saved as a file to replay.
    """
    with tidy_errors():
        files = OutputFiles(force=force)
        files.claim(save, "--save")
        files.claim(history, HISTORY)
        pools.check()
        confinement = Confinement(CodeLimits(call_s=options.code_timeout), allow)
        with stdout_reserved(), confinement.entered():
            is_spark = is_spark_job(pipeline) or (schema is not None and not is_pipeline(pipeline))
        if is_spark:
            asked = SparkOptions(
                schema or (),
                allow,
                duplicates,
                feed,
                RUNS if options.examples is None else options.examples,
                options.seed,
                promise or (),
                allow_unknown,
                keys or (),
                confinement,
            )
            raise typer.Exit(
                verify_spark(
                    pipeline,
                    asked,
                    memory(failures, pipeline),
                    files,
                    save,
                    context,
                    as_json=as_json,
                    verbose=verbose,
                )
            )
        refuse_unheeded_options(context, TargetKind.PIPELINE)
        check_allowed(names_of(allow), TargetKind.PIPELINE)
        with stdout_reserved(), confinement.entered(verbose=verbose):
            target = load_target(
                pipeline, feed, versions or (), promise or (), confinement.limits, protocol_without(without)
            )
            may_be_unknown = invariants_named(allow_unknown, target.deployed, target.promises)
            keeping = memory(failures, target.name, target.versions, target.protocol.name, target.feed_name)
            with pools.pool() as jobs:
                report = _searched(target, options.search(scope.scope, jobs), keeping)
        with confinement.entered():  # codecs and promises are asked for what is told
            report.may_be_unknown = may_be_unknown
            save_findings(report.session, save, files)
            failure = report.verification.failure
            if (
                failure is not None and history is not None and not failure.error
            ):  # one that stopped with an error has no History
                events, _, _ = run_plan(target.application, failure.trial, target.protocol)
                engine = failure.plan.options.engine
                write_history(files, history, events, header_of(target.deployed, SIMULATED, engine))
            if as_json:
                print_document(report.document())
            else:
                report.print(output_console(), verbose=verbose)
        raise typer.Exit(report.code)


def _searched(target: PipelineTarget, search: Search, keeping: Memory) -> SearchReport:
    """Verify a pipeline until it is done or a signal arrives."""
    stopped_by = None
    target.check_input(search.seed)
    with SearchProgress(target.expected_runs(search)) as progress:
        session = Session(PipelineTrials(target, search, progress.on_run), keeping)
        try:
            session.run()
        except KeyboardInterrupt as stop:
            stopped_by = signal_of(stop)
    return SearchReport(
        session,
        elapsed_s=progress.elapsed_s,
        runs_per_second=progress.runs_per_second,
        stopped_by=stopped_by,
        shrinking=progress.shrinking and not session.trials.ended,
    )
