"""The work of ``headrace chaos``."""

import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.api.errors import did_you_mean
from headrace_cli.options.chaos_options import ChaosFlags, Protection
from headrace_cli.targets.loading import load_target
from headrace_cli.terminal.documents import show, stdout_reserved
from headrace_cli.terminal.exit import ExitCode
from headrace_cli.terminal.live_progress import RunProgress
from headrace_cli.terminal.signals import signal_of
from headrace_cli.terminal.usage_errors import WrongOptionError
from headrace_properties.pipeline_target import PipelineTarget
from headrace_scenarios.chaos.plan import Verb, draw_plan

if TYPE_CHECKING:
    from headrace_cli.reports.chaos_report import Chaos, StoppedChaos


def run_under_chaos(pipeline: str, options: ChaosFlags, *, as_json: bool) -> ExitCode:
    """Run a pipeline under faults, print the comparison, and return the exit code."""
    with stdout_reserved():
        target = load_target(pipeline, options.feed)
        done = _run(target, options)
    show(done.document, done.print, as_json=as_json)
    return done.code


def _run(target: PipelineTarget, flags: ChaosFlags) -> "Chaos | StoppedChaos":
    # These need PySpark; the rest of the command does not.
    from headrace_cli.reports.chaos_report import Chaos, StoppedChaos
    from headrace_scenarios.chaos.chaos_run import ChaosOptions, StrikeResult, run_chaos

    wanted = None if flags.kinds is None else [kind.strip() for kind in flags.kinds.split(",")]
    unknown = [kind for kind in wanted or () if kind not in list(Verb)]
    if unknown:
        problem = f"there is no kind {', '.join(map(repr, unknown))}"
        raise WrongOptionError(
            "--kinds", problem, f"{did_you_mean(unknown[0], Verb)}The kinds are: {', '.join(Verb)}"
        )
    without = flags.without or []
    options = ChaosOptions(
        flags.master,
        Protection.FENCING not in without,
        Protection.STATE_IDS not in without,
        patience_s=flags.patience,
        object_store=flags.object_store,
    )
    feed = target.feed(flags.seed)
    verbs = [*Verb] if wanted is None else [Verb(kind) for kind in wanted]
    plan = draw_plan(flags.faults, flags.seed, len(feed.entries), verbs)
    directory = _directory(flags.keep)
    seen: list[StrikeResult] = []
    try:
        with RunProgress(f"chaos on {target.name}") as progress:
            report = run_chaos(
                target.name, target.pipeline, feed, plan, directory, options, progress.advance, seen.append
            )
    except KeyboardInterrupt as stop:
        return StoppedChaos(target.name, flags.seed, plan, seen, directory, signal_of(stop))
    done = Chaos(target.name, flags.seed, tuple(map(str, without)), report, directory)
    if flags.keep is None and done.code is ExitCode.HOLDS:
        shutil.rmtree(directory, ignore_errors=True)
    return done


def _directory(keep: Path | None) -> Path:
    """Return the directory for the run's files: the user's, or a temporary one."""
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="headrace-chaos-"))
    try:
        keep.mkdir(parents=True, exist_ok=True)
        taken = any(keep.iterdir())
    except OSError as error:
        raise WrongOptionError(
            "--keep", f"cannot use {keep} ({error.strerror})", "Give another directory"
        ) from error
    if taken:
        raise WrongOptionError("--keep", f"{keep} is not empty", "Give another directory, or empty it")
    return keep
