"""``headrace chaos``: run a pipeline on Spark while its processes are killed and stopped, and compare what comes out."""

import shutil
import tempfile
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from headrace import HeadraceError
from headrace_cli._consoles import output_console
from headrace_cli._documents import print_document, stdout_reserved
from headrace_cli._exit import ExitCode, tidy_errors
from headrace_cli._options import JsonOption
from headrace_cli._progress import RunProgress
from headrace_cli._targets import DEFAULT_FEED, PipelineTarget, load_target

if TYPE_CHECKING:
    from headrace_cli._chaos_report import Chaos

DEFAULT_PIPELINE = "headrace_scenarios.chaos.turnstiles:pipeline"

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]

  headrace chaos

  headrace chaos --faults 20 --seed 3

  headrace chaos my_job:pipeline --faults 4 --kinds zombie,kill_driver --keep chaos/

  headrace chaos --faults 2 --kinds zombie --without fencing

[bold]Exit codes[/]

  0 outputs and states are the reference's, and no invariant is violated; 1 they are not; 2 wrong use;
  3 unknown: a fault never struck"""


class Protection(StrEnum):
    """What can be left out, to see what it is there for."""

    FENCING = "fencing"
    STATE_IDS = "state-ids"


class ChaosUseError(HeadraceError):
    """Options that can not be used. Fields: option, problem, remedy."""

    def __init__(self, option: str, problem: str, remedy: str) -> None:
        super().__init__(option, problem, remedy)
        self.option, self.problem, self.remedy = option, problem, remedy

    def __str__(self) -> str:
        """Say which, and what to do."""
        return f"{self.option}: {self.problem}. {self.remedy}"


@app.command("chaos", epilog=_EXAMPLES)
def chaos(
    pipeline: Annotated[
        str,
        typer.Argument(metavar="[MODULE:PIPELINE]", help="Default: people who pass a station's turnstiles."),
    ] = DEFAULT_PIPELINE,
    faults: Annotated[int, typer.Option(min=0, help="So many; each strikes a part of the input.")] = 7,
    seed: Annotated[int, typer.Option(help="Of the faults and of the input.")] = 0,
    kinds: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,...",
            help="Of these kinds only: kill_executor, kill_python_worker, kill_driver, kill_driver_after_sink, "
            "forget_commit, zombie, restart. Default: all, in turns.",
        ),
    ] = None,
    feed: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="The module's function that makes the input. Nothing in it may be late."
        ),
    ] = DEFAULT_FEED,
    without: Annotated[
        list[Protection] | None,
        typer.Option(
            help="Leave out a protection: the sink's fencing of older drivers, or the ids of attempts in Spark's state."
        ),
    ] = None,
    master: Annotated[
        str, typer.Option(metavar="URL", help="Spark's, with processes of its own for executors.")
    ] = "local-cluster[2,1,1024]",
    patience: Annotated[
        float, typer.Option(metavar="SECONDS", min=1, help="For a start of Spark, or a part of the input.")
    ] = 300.0,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep logs, checkpoint and outputs here. Default: only when something is wrong.",
        ),
    ] = None,
    as_json: JsonOption = False,  # noqa: FBT002  typer's way
) -> None:
    """Run a pipeline on Spark on this machine while executors, Python workers and drivers are killed, stopped and continued.

    Then outputs and states are compared with the plain sequential reference, and the History is judged. Each fault takes
    about as long as a start of Spark, half a minute.
    """  # fmt: skip
    with tidy_errors():
        with stdout_reserved(as_json):
            target = load_target(pipeline, feed)
            done = _run(target, faults, seed, kinds, without or [], master, patience, keep)
        if as_json:
            print_document(done.document())
        else:
            done.print(output_console())
        raise typer.Exit(done.code)


def _run(
    target: PipelineTarget, faults: int, seed: int, kinds: str | None, without: list[Protection], master: str, patience: float,
    keep: Path | None,
) -> "Chaos":  # fmt: skip
    # What follows needs PySpark, which the rest of the command does without.
    from headrace_cli._chaos_report import Chaos  # noqa: PLC0415
    from headrace_scenarios.chaos.plan import Verb, draw_plan  # noqa: PLC0415
    from headrace_scenarios.chaos.run import ChaosOptions, run_chaos  # noqa: PLC0415

    wanted = list(Verb) if kinds is None else [one.strip() for one in kinds.split(",")]
    strange = [one for one in wanted if one not in list(Verb)]
    if strange:
        problem = f"there is no kind {', '.join(map(repr, strange))}"
        raise ChaosUseError("--kinds", problem, f"There are: {', '.join(Verb)}")
    options = ChaosOptions(
        master, Protection.FENCING not in without, Protection.STATE_IDS not in without, patience_s=patience
    )
    feed = target.feed(seed)
    plan = draw_plan(faults, seed, len(feed.entries), [Verb(one) for one in wanted])
    directory = _directory(keep)
    with RunProgress(f"chaos on {target.name}") as progress:
        report = run_chaos(target.name, target.pipeline, feed, plan, directory, options, progress.advance)
    done = Chaos(target.name, seed, tuple(map(str, without)), report, directory)
    if keep is None and done.code is ExitCode.HOLDS:
        shutil.rmtree(directory, ignore_errors=True)
    return done


def _directory(keep: Path | None) -> Path:
    """Where the run leaves its files: the user's directory, or one that goes if there is nothing to look for in it."""
    if keep is None:
        return Path(tempfile.mkdtemp(prefix="headrace-chaos-"))
    try:
        keep.mkdir(parents=True, exist_ok=True)
        taken = any(keep.iterdir())
    except OSError as error:
        raise ChaosUseError("--keep", f"{keep} can not be used ({error.strerror})", "Name another") from error
    if taken:
        raise ChaosUseError("--keep", f"{keep} is not empty", "Name another, or empty it")
    return keep
