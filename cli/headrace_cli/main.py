"""The `headrace` command and its entry point."""

import sys
from collections import UserDict
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from headrace_cli._defects import report_defect
from headrace_cli._signals import signal_of, signals_raised
from headrace_cli._streams import guarded_streams

_NAMES = (
    "scenario",
    "verify",
    "mutants",
    "bench",
    "compare",
    "run",
    "check",
    "recheck",
    "spark-submit",
    "chaos",
    "serve",
    "state",
    "skip",
    "report",
    "replay",
)

_EXAMPLES = """[bold]Examples[/]
  headrace scenario list
  headrace scenario run zombie-timer --without sequencers
  headrace verify headrace_scenarios.zeitgeist:pipeline --examples 2000
  headrace compare headrace_scenarios.wall_clock:pipeline
  headrace replay headrace-failure-1f3a90c2.json
  headrace run zeitgeist --on sim
  headrace check history.jsonl --pipeline my_job:pipeline
  headrace recheck history.jsonl my_job:pipeline
  headrace spark-submit my_job.py
  headrace chaos --faults 20
  headrace serve my_job:deployment --port 8080
  headrace state jobs/counts counter anna
  headrace skip jobs/counts counter mail/0:17
  headrace mutants --seeds 100
  headrace bench harness
  headrace report --quick

[bold]Exit codes[/]
  0 holds, 1 violated, 2 usage error, 3 unknown, 70 a defect of Headrace, 130 interrupted, 143 terminated, 129 hung up"""

_DEFECT = "; 70 a defect of Headrace"
"""What every command adds to its exit codes."""

_CLICK_ERROR = typer.BadParameter.__mro__[
    2
]  # ClickException, which typer has from click, or of its own, by release


class _Commands(UserDict[str, Any]):
    """The subcommands. Each is imported only when used: importing all of them takes a second."""

    def __init__(self) -> None:
        super().__init__({name: f"headrace_cli.{name.replace('-', '_')}" for name in _NAMES})

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        command = get_command(import_module(self.data[name]).app)
        assert isinstance(command, TyperCommand | TyperGroup)
        command.name = name  # a group has none of its own, and help lists it by this
        for part in command.commands.values() if isinstance(command, TyperGroup) else [command]:
            part.epilog = (
                f"{part.epilog or ''}{_DEFECT if '[bold]Exit codes[/]' in (part.epilog or '') else ''}"
            )
        return command


class _Headrace(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()

    def invoke(self, ctx: Any) -> Any:
        """Run a command, and report what escapes it and should not: Python would exit with 1, which means violated."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:  # before the command could prepare for it
            raise typer.Exit(128 + signal_of(stop)) from stop
        except BaseException as error:
            if isinstance(error, (typer.Exit, typer.Abort, _CLICK_ERROR)):
                raise
            from headrace_cli._exit import ExitCode  # noqa: PLC0415  costly, and seldom needed

            report_defect(error)
            raise typer.Exit(ExitCode.DEFECT) from error


app = typer.Typer(
    cls=_Headrace,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # an escaped exception is our own bug, and a plain traceback is easy to report
    rich_markup_mode="rich",
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001  typer's way
    if not wanted:
        return
    try:
        typer.echo(f"headrace {version('headrace')}")
    except PackageNotFoundError:
        typer.echo("headrace, not installed")
    raise typer.Exit


@app.callback(epilog=_EXAMPLES)
def headrace(
    show_version: Annotated[  # noqa: FBT002  typer's way
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Test a streaming job under faults: write it in MillWheel's model, and let Headrace search for what breaks it."""
    del show_version


def main() -> None:
    """Run the command; what the script `headrace` calls."""
    with guarded_streams(), signals_raised():
        try:
            app(prog_name="headrace")
        finally:
            guard = sys.modules.get("headrace_properties.search.guard")
            if guard is not None:  # user code may have run
                guard.guard_the_end()
