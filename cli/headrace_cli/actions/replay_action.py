"""The work of ``headrace replay``."""

from pathlib import Path

import msgspec
import typer

from headrace import HistoryFormatError
from headrace_cli.options.confinement import Confinement
from headrace_cli.options.heeded import refuse_unheeded_options
from headrace_cli.reports.pictures import print_saved
from headrace_cli.reruns.pipeline_reruns import rerun_pipeline
from headrace_cli.reruns.reruns import ReplayOptions, Rerun, print_headline
from headrace_cli.reruns.spark_reruns import rerun_spark
from headrace_cli.targets.trust import check_trusted
from headrace_cli.terminal.consoles import output_console
from headrace_cli.terminal.documents import print_document, stdout_reserved
from headrace_cli.terminal.exit import RESULT_WORDS, ExitCode
from headrace_properties.replays import ReplayFile, read_replay
from headrace_properties.search.application import PipelineTrial
from headrace_properties.spark_jobs.trials import QueryTrial, SinkTrial
from headrace_properties.target import PipelineSource, SparkSource, is_file_of_program
from headrace_properties.target_kinds import TargetKind
from headrace_properties.user_code.code_trial import CodeTrial


def replay_failure(
    context: typer.Context,
    options: ReplayOptions,
    confinement: Confinement,
    pipeline: str | None,
    *,
    trust: bool,
    as_json: bool,
) -> ExitCode:
    """Repeat a saved failure, print what it violates, and return the exit code."""
    file = options.path
    files = options.showing.files([file])
    files.claim(options.history, "--history")
    with stdout_reserved(), confinement.entered():
        _refuse_target(file)
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
    return files.code(rerun.code)


def _refuse_target(file: Path) -> None:
    """Refuse what other commands take, and name the command.

    Raises:
        HistoryFormatError: it is a program, a target or a History.
    """
    name = str(file)
    if file.suffix == ".jsonl":
        reason = f"it is a recorded run. To judge it: headrace check {name}"
    elif is_file_of_program(name):
        reason = f"it is a program. To verify it: headrace verify {name}"
    elif ":" in name and not file.exists():
        reason = f"it is a target. To verify it: headrace verify {name}"
    else:
        return
    raise HistoryFormatError("replay file", name, reason)


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
