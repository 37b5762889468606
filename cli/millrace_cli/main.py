"""The `millrace` command: its subcommands, and where it starts."""

from collections import UserDict
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

_NAMES = (
    "scenario",
    "verify",
    "mutants",
    "bench",
    "compare",
    "run",
    "spark-submit",
    "chaos",
    "skip",
    "report",
    "replay",
)

_EXAMPLES = """[bold]Examples[/]

  millrace scenario list

  millrace scenario run zombie-timer --without sequencers

  millrace verify millrace_scenarios.zeitgeist:pipeline --examples 2000

  millrace compare millrace_scenarios.wall_clock:pipeline

  millrace replay millrace-failure-1f3a90c2.json

  millrace run zeitgeist --on sim

  millrace spark-submit my_job.py

  millrace chaos --faults 20

  millrace skip jobs/counts counter mail/0:17

  millrace mutants --seeds 100

  millrace bench harness

  millrace report --quick

[bold]Exit codes[/]

  0 holds, 1 violated, 2 wrong use, 3 unknown, 130 interrupted"""


class _Commands(UserDict[str, Any]):
    """The subcommands. Each is imported when it is asked for: all of them, with their libraries, take a second."""

    def __init__(self) -> None:
        super().__init__({name: f"millrace_cli.{name.replace('-', '_')}" for name in _NAMES})

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        command = get_command(import_module(self.data[name]).app)
        assert isinstance(command, TyperCommand | TyperGroup)
        return command


class _Millrace(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands()


app = typer.Typer(
    cls=_Millrace,
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # what escapes is our own bug, and a plain traceback can be reported
    rich_markup_mode="rich",
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001  typer's way
    if not wanted:
        return
    try:
        typer.echo(f"millrace {version('millrace')}")
    except PackageNotFoundError:
        typer.echo("millrace, not installed")
    raise typer.Exit


@app.callback(epilog=_EXAMPLES)
def millrace(
    show_version: Annotated[  # noqa: FBT002  typer's way
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Prove a streaming computation under faults: write it in MillWheel's model, and let Millrace look for what breaks it."""
    del show_version


def main() -> None:
    """Run the command; what the script `millrace` calls."""
    app(prog_name="millrace")
