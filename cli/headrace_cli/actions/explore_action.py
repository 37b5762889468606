"""The work of ``headrace explore``."""

import signal
import webbrowser
from pathlib import Path

import typer

from headrace import HistoryFormatError, OptionsError
from headrace_cli.options.confinement import Confinement
from headrace_cli.options.explore_options import ExploreOptions
from headrace_cli.options.heeded import given_options
from headrace_cli.options.kept import save_failure
from headrace_cli.reruns.pipeline_reruns import load_recorded
from headrace_cli.runs.explorer_server import ExplorerServer
from headrace_cli.targets.loading import load_target
from headrace_cli.targets.protocols import protocol_asked
from headrace_cli.targets.trust import check_trusted
from headrace_cli.terminal.consoles import output_console
from headrace_cli.terminal.documents import stdout_reserved
from headrace_cli.terminal.files import OutputFiles
from headrace_cli.terminal.render import print_text
from headrace_cli.terminal.signals import signal_of
from headrace_properties.explorer.explorer import ExploredPosition, Explorer
from headrace_properties.explorer.saved_schedules import schedule_test
from headrace_properties.kept_failures import free_name
from headrace_properties.pipeline_target import PipelineTarget
from headrace_properties.replays import read_replay
from headrace_properties.search.application import PipelineTrial
from headrace_properties.search.limits import CodeLimits
from headrace_properties.search.moves import ScopedRuns
from headrace_properties.search.scope import Scope, small_cluster
from headrace_properties.target import PipelineSource


def explore_target(context: typer.Context, options: ExploreOptions) -> None:
    """Serve the page until a signal arrives. SIGINT is the usual end.

    Raises:
        HeadraceError: the target cannot be loaded, or the port cannot be used.
    """
    confinement = Confinement(CodeLimits(call_s=options.code_timeout), options.allow)
    with stdout_reserved(), confinement.entered():
        is_file = ":" not in options.target or Path(options.target).is_file()
        load = _recorded if is_file else _fresh
        target, trial = load(context, options, confinement.limits)
        explorer = Explorer(target, trial)
        explorer.state(
            ExploredPosition()
        )  # what is wrong with a promise or an option is said here, not on the page
    with ExplorerServer(
        explorer, lambda kind, position: _save(explorer, target, kind, position), options.port
    ) as server:
        print_text(output_console(), f"Explore {target.name} at {server.address}")
        print_text(output_console(), "Only this machine can reach it. Ctrl-C ends it.")
        if options.browser:
            webbrowser.open(server.address)
        try:
            with confinement.entered():
                server.serve()
        except KeyboardInterrupt as stop:
            if signal_of(stop) is not signal.SIGINT:
                raise


def _fresh(
    _: typer.Context, options: ExploreOptions, limits: CodeLimits
) -> tuple[PipelineTarget, PipelineTrial]:
    """Load a pipeline, and return its run in a small cluster without any fault."""
    protocol = protocol_asked(options.protocol, options.without)
    target = load_target(
        options.target, options.feed, options.version or (), options.promise or (), limits, protocol
    )
    target.check_input(options.feed_seed)
    scope = Scope(options.records, options=small_cluster(options.workers))
    return target, ScopedRuns(target.application, scope, options.feed_seed).trial()


_IN_THE_FILE = frozenset({"feed", "feed_seed", "records", "workers", "version", "without", "protocol"})


def _recorded(
    context: typer.Context, options: ExploreOptions, limits: CodeLimits
) -> tuple[PipelineTarget, PipelineTrial]:
    """Load the pipeline that a replay file names, and return the run that it records."""
    path = Path(options.target)
    replay = read_replay(path)
    source, trial = replay.source, replay.trial
    for name, value in given_options(context):
        if name in _IN_THE_FILE:
            raise OptionsError(name, value, "left out for a replay file, which says what is run")
    if not isinstance(source, PipelineSource) or not isinstance(trial, PipelineTrial):
        reason = f"it has no cluster to explore. To run it again: headrace replay {path}"
        raise HistoryFormatError("replay file", str(path), reason)
    if not options.trust:
        check_trusted(path, source.names, None)
    return load_recorded(source, trial, path, tuple(options.promise or ()), limits), trial


def _save(
    explorer: Explorer, target: PipelineTarget, kind: str, position: ExploredPosition
) -> dict[str, str]:
    """Save a schedule in the current directory, and say where, and how to run it."""
    data, failure = explorer.replay(position)
    form, command = "headrace-explored-{}.json", "headrace replay {} --explain"
    if kind == "test":
        data, form, command = (
            schedule_test(target, failure.trial).encode(),
            "test_explored_{}.py",
            "pytest {}",
        )
    path = save_failure(data, free_name(Path(), data, form), OutputFiles())
    if path is None:
        return {"error": "The file cannot be written; the terminal says why."}
    broken = ", ".join(failure.violations) or ("an error" if failure.error else "")
    return {"path": str(path), "run": command.format(path), "shows": broken}
