"""``headrace replay``: run a saved failure again, byte for byte."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer

from headrace import HistoryFormatError
from headrace_cli.options.confinement import AllowEffectOption, Confinement
from headrace_cli.options.heeded import refuse_unheeded_options
from headrace_cli.options.option_groups import CodeTimeoutOption, JsonOption, PromiseOption, with_options
from headrace_cli.options.program_options import EnvironmentOption
from headrace_cli.reports.pictures import Showing, print_saved
from headrace_cli.reruns.pipeline_reruns import rerun_pipeline
from headrace_cli.reruns.reruns import ReplayOptions, Rerun, print_headline
from headrace_cli.reruns.spark_reruns import rerun_spark
from headrace_cli.targets.trust import check_trusted
from headrace_cli.terminal.consoles import output_console
from headrace_cli.terminal.documents import print_document, stdout_reserved
from headrace_cli.terminal.exit import RESULT_WORDS
from headrace_cli.terminal.files import HISTORY, HistoryOption
from headrace_properties.replays import ReplayFile, read_replay
from headrace_properties.search.application import PipelineTrial
from headrace_properties.search.limits import CALL_S, CodeLimits
from headrace_properties.spark_jobs.trials import QueryTrial, SinkTrial
from headrace_properties.target import PipelineSource, SparkSource
from headrace_properties.target_kinds import TargetKind
from headrace_properties.user_code.code_trial import CodeTrial

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace replay headrace-failure-1f3a90c2.json
  headrace replay headrace-failure-1f3a90c2.json --explain --html failure.html
  headrace replay headrace-failure-1f3a90c2.json --until violation
  headrace replay headrace-failure-1f3a90c2.json installed.package:pipeline

[bold]Exit codes[/]
  0 it no longer violates anything, 1 it violates something again, 2 usage error, 3 nothing is violated, but the code or
  the input has changed, so that the run may no longer show what it showed"""


UntilOption = Annotated[
    str | None,
    typer.Option(
        metavar="EVENT",
        help="Show the run up to an event, and the state of the cluster then. EVENT is a number, a kind such as Applied"
        " (the first one), or [bold]violation[/].",
    ),
]


@app.command("replay", epilog=_EXAMPLES)
@with_options
def replay(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Replay file saved by [bold]headrace verify[/].")
    ],
    showing: Showing,
    pipeline: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE:PIPELINE]", help="Run this pipeline instead of the one that the file names."
        ),
    ] = None,
    promise: PromiseOption = None,
    until: UntilOption = None,
    history: HistoryOption = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Import the file's module even if it is not part of this project.")
    ] = False,
    when: Annotated[
        bool,
        typer.Option(
            "--when",
            help="Find the moment after which the run fails whatever else happens: 1,000 more runs.",
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, show_default="all cores", help="Processes that share the runs of --when."),
    ] = None,
    code_timeout: CodeTimeoutOption = CALL_S,
    env: EnvironmentOption = None,
    allow: AllowEffectOption = "",
    as_json: JsonOption = False,
) -> None:
    """Run a saved failure again, byte for byte, and show what it violates and which events prove it.

    Run it where you ran verify: the pipeline is imported by its name. A module outside that project is imported only if you
    name it, too, or pass --trust.
    """
    files = showing.files([file])
    files.claim(history, HISTORY)
    confinement = Confinement(CodeLimits(call_s=code_timeout), allow)
    options = ReplayOptions(
        file, showing, confinement.limits, promise or (), until, history, when=when, jobs=jobs,
        environment=env or (), context=context,
    )  # fmt: skip
    with stdout_reserved(), confinement.entered():
        recorded = _named(read_replay(file), pipeline)
        refuse_unheeded_options(context, _KINDS[type(recorded.trial)])
        if not trust:
            check_trusted(file, recorded.source.names, pipeline)
        rerun = _again(recorded, options)
    with confinement.entered():  # codecs and promises are asked for what is told
        if as_json:
            words = {"result": RESULT_WORDS[rerun.code], "changed": rerun.changes}
            print_document({**words, **rerun.document()})
            rerun.save(files)
        else:
            console = output_console()
            print_headline(console, rerun, recorded)
            rerun.tell(console)
            rerun.save(files)
            print_saved(console, files.saved)
    if rerun.stopped is not None:
        raise rerun.stopped
    raise typer.Exit(files.code(rerun.code))


_KINDS = {
    PipelineTrial: TargetKind.PIPELINE,
    CodeTrial: TargetKind.CODE,
    QueryTrial: TargetKind.QUERY,
    SinkTrial: TargetKind.SINK,
}
"""Whose options a trial heeds."""


def _named(replay: ReplayFile, name: str | None) -> ReplayFile:
    """Return what was recorded, with the target that the user names instead."""
    source = replay.source if name is None else msgspec.structs.replace(replay.source, name=name)
    return msgspec.structs.replace(replay, source=source)


def _again(replay: ReplayFile, options: ReplayOptions) -> Rerun:
    """Load the target where it comes from, and make the trial again."""
    match replay.source, replay.trial:
        case PipelineSource() as source, PipelineTrial() | CodeTrial() as trial:
            return rerun_pipeline(replay, source, trial, options)
        case SparkSource() as source, QueryTrial() | SinkTrial() as trial:
            return rerun_spark(replay, source, trial, options)
        case _:
            raise HistoryFormatError(
                "replay file", str(options.path), "its trial is not one of its source: somebody has edited it"
            )
