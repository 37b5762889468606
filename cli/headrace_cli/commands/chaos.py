"""``headrace chaos``: run a pipeline on Spark while killing and pausing its processes, and compare the results."""

import shutil
import tempfile
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace_cli.options.option_groups import DEFAULT_FEED, LONGEST_S, JsonOption, with_options
from headrace_cli.targets.loading import load_target
from headrace_cli.terminal.consoles import error_console
from headrace_cli.terminal.documents import show, stdout_reserved
from headrace_cli.terminal.exit import ExitCode, WrongOptionError
from headrace_cli.terminal.live_progress import RunProgress
from headrace_properties.pipeline_target import PipelineTarget
from headrace_scenarios.chaos.plan import Verb, draw_plan

if TYPE_CHECKING:
    from headrace_cli.reports.chaos_report import Chaos

DEFAULT_PIPELINE = "headrace_scenarios.chaos.turnstiles:pipeline"

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace chaos
  headrace chaos --faults 20 --seed 3
  headrace chaos my_job:pipeline --faults 4 --kinds zombie,kill_driver --keep chaos/
  headrace chaos --faults 2 --kinds zombie --without fencing
  headrace chaos --kinds reshard,change --faults 4
  headrace chaos --object-store --faults 8

[bold]Exit codes[/]
  0 outputs and states match the reference; 1 otherwise; 2 usage error; 3 unknown: a fault never struck"""


class Protection(StrEnum):
    """A protection that can be switched off to see what it prevents."""

    FENCING = "fencing"
    STATE_IDS = "state-ids"


@dataclass(frozen=True, slots=True)
class ChaosFlags:
    """The faults, and what they strike."""

    faults: Annotated[
        int, typer.Option(min=0, help="Number of faults; each strikes one part of the input.")
    ] = 5
    seed: Annotated[int, typer.Option(help="Seed for faults and input.")] = 0
    kinds: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,...",
            help=f"Kinds of faults to use: {', '.join(Verb)}. Default: all, in turn.",
        ),
    ] = None
    object_store: Annotated[
        bool,
        typer.Option(
            help="Keep checkpoint, job and outputs in a store as weak as S3, without atomic renames."
        ),
    ] = False
    feed: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            help="The module's function that generates the input, which must not have late records.",
        ),
    ] = DEFAULT_FEED
    without: Annotated[
        list[Protection] | None,
        typer.Option(
            help="Switch off a protection: the sink's fencing of older drivers, or separate state files for each attempt."
        ),
    ] = None
    master: Annotated[
        str, typer.Option(metavar="URL", help="Spark's master, with separate processes for executors.")
    ] = "local-cluster[1,2,1024]"
    patience: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            min=1,
            max=LONGEST_S,
            help="Maximum wait for a start of Spark or a part of the input.",
        ),
    ] = 300.0
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep logs, checkpoint and outputs here. Default: keep them only if something is wrong.",
        ),
    ] = None


@app.command("chaos", epilog=_EXAMPLES)
@with_options
def chaos(
    options: ChaosFlags,
    pipeline: Annotated[
        str,
        typer.Argument(metavar="[MODULE:PIPELINE]", help="Default: people passing a station's turnstiles."),
    ] = DEFAULT_PIPELINE,
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline as a job on Spark on this machine while killing and pausing executors, Python workers and drivers.

    Then compare outputs and states with the sequential reference. Each fault takes about a quarter of a minute. To try every
    crash point of its sink and its state instead: [bold]headrace verify MODULE:PIPELINE --on spark[/].
    """  # fmt: skip
    with stdout_reserved():
        target = load_target(pipeline, options.feed)
        done = _run(target, options)
    show(done.document, done.print, as_json=as_json)
    raise typer.Exit(done.code)


def _run(target: PipelineTarget, flags: ChaosFlags) -> "Chaos":
    # These need PySpark; the rest of the command does not.
    from headrace_cli.reports.chaos_report import Chaos  # noqa: PLC0415
    from headrace_scenarios.chaos.chaos_run import ChaosOptions, run_chaos  # noqa: PLC0415

    wanted = None if flags.kinds is None else [kind.strip() for kind in flags.kinds.split(",")]
    unknown = [kind for kind in wanted or () if kind not in list(Verb)]
    if unknown:
        problem = f"there is no kind {', '.join(map(repr, unknown))}"
        raise WrongOptionError("--kinds", problem, f"The kinds are: {', '.join(Verb)}")
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
    try:
        with RunProgress(f"chaos on {target.name}") as progress:
            report = run_chaos(target.name, target.pipeline, feed, plan, directory, options, progress.advance)
    except KeyboardInterrupt:
        error_console().print(f"Logs, checkpoint and outputs so far: {directory}", soft_wrap=True)
        raise
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
