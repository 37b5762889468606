"""The `headrace` command and its entry point."""

from collections import UserDict
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from headrace_cli._signals import signals_raised
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
  0 holds, 1 violated, 2 usage error, 3 unknown, 130 interrupted, 143 terminated, 129 hung up"""


class _Commands(UserDict[str, Any]):
    """The subcommands. Each is imported only when used: importing all of them takes a second."""

    def __init__(self) -> None:
        super().__init__({name: f"headrace_cli.{name.replace('-', '_')}" for name in _NAMES})

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        command = get_command(import_module(self.data[name]).app)
        assert isinstance(command, TyperCommand | TyperGroup)
        command.name = name  # a group has none of its own, and help lists it by this
        return command


class _Headrace(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()


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
        app(prog_name="headrace")
