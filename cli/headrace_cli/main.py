"""The `headrace` command and its entry point."""

import sys
from collections import UserDict
from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from headrace_cli.terminal.signals import STOPPED, signal_of, signals_raised
from headrace_cli.terminal.streams import guarded_streams

_GROUPS = {
    "job": ("Serve a job on Spark, look into its state, submit it, or let it skip a record.", {
        "serve": "job_commands:serve", "state": "state", "submit": "job_commands:submit", "skip": "job_commands:skip",
    }),
    "paper": ("Tell the papers' scenarios, repeat MillWheel's evaluation, and measure Headrace beside it.", {
        "scenario": "scenarios", "report": "report", "bench": "bench",
    }),
}  # fmt: skip
"""Groups of commands: what each group is for, and the module of each of its commands, some of which have several."""

_ALONE = ("verify", "replay", "explore", "run", "check", "recheck", "compare", "chaos", "mutants", "mutate")

_FORMER = {
    "serve": "job serve",
    "state": "job state",
    "spark-submit": "job submit",
    "skip": "job skip",
    "scenario": "paper scenario",
    "report": "paper report",
    "bench": "paper bench",
}
"""Words of the release before, which are understood for one more, and what they are called now."""

_EXAMPLES = """[bold]Examples[/]
  headrace verify headrace_scenarios.zeitgeist:pipeline --examples 2000
  headrace replay headrace-failure-1f3a90c2.json
  headrace explore my_job:pipeline
  headrace compare headrace_scenarios.wall_clock:pipeline
  headrace run zeitgeist --on sim
  headrace check history.jsonl --pipeline my_job:pipeline
  headrace recheck history.jsonl my_job:pipeline
  headrace mutants --examples 100
  headrace mutate my_job:pipeline
  headrace chaos --faults 20
  headrace job submit my_job.py
  headrace job serve my_job:deployment --port 8080
  headrace job state jobs/counts counter anna
  headrace job skip jobs/counts counter mail/0:17
  headrace paper scenario list
  headrace paper scenario run zombie-timer --without sequencers
  headrace paper report --quick
  headrace paper bench harness
  headrace --install-completion

[bold]Exit codes[/]
  0 holds, 1 violated, 2 usage error, 3 unknown, 70 a defect of Headrace, 130 interrupted, 143 terminated, 129 hung up"""

_DEFECT = "; 70 a defect of Headrace"
"""What every command adds to its exit codes."""

_CLICK_ERROR: Any = typer.BadParameter.__mro__[2]
"""ClickException, which typer has from click, or of its own, by release."""


class _Commands(UserDict[str, Any]):
    """The commands by name, each imported when it is used.

    Args:
        modules: the module of each command, or what a group is for, and its commands.
    """

    def __init__(self, modules: Mapping[str, Any]) -> None:
        super().__init__(modules)

    def __getitem__(self, name: str) -> TyperCommand | TyperGroup:
        entry = self.data[name]
        if not isinstance(entry, str):
            purpose, modules = entry
            return _group(name, purpose, modules)
        module, _, part = entry.partition(":")
        command: Any = get_command(import_module(f"headrace_cli.commands.{module}").app)
        command = command.commands[part] if part else command
        assert isinstance(command, TyperCommand | TyperGroup)
        command.name = name  # a group has none of its own, and help lists it by this
        for one in command.commands.values() if isinstance(command, TyperGroup) else [command]:
            one.epilog = f"{one.epilog or ''}{_DEFECT if '[bold]Exit codes[/]' in (one.epilog or '') else ''}"
        return command


def _group(name: str, purpose: str, modules: Mapping[str, str]) -> TyperGroup:
    group = TyperGroup(name=name, help=purpose, no_args_is_help=True, rich_markup_mode="rich")
    group.commands = _Commands(modules)
    return group


class _Headrace(TyperGroup):
    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _Commands({name: name for name in _ALONE} | _GROUPS)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command, also by its former word, and note the word to use from now on."""
        if (now := _FORMER.get(args[0])) is not None:
            said = (
                f"Note: headrace {args[0]} is headrace {now} now. The former word goes with the next release."
            )
            typer.echo(said, err=True)
            args = [*now.split(), *args[1:]]
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run a command. What escapes it becomes a message, and an exit code: Python's own is 1, which means violated."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as stop:
            number = signal_of(stop)
            typer.echo(f"{STOPPED[number].capitalize()}.", err=True)
            raise typer.Exit(128 + number) from stop
        except _CLICK_ERROR as error:
            from headrace_cli.terminal.usage_words import reword

            reword(error)
            raise
        except BaseException as error:
            if isinstance(error, (typer.Exit, typer.Abort)):
                raise
            from headrace_cli.terminal.exit import ended_by

            raise typer.Exit(ended_by(error)) from error


app = typer.Typer(
    cls=_Headrace,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # an escaped exception is our own bug, and a plain traceback is easy to report
    rich_markup_mode="rich",
)


def _print_version(wanted: bool) -> None:
    if not wanted:
        return
    try:
        typer.echo(f"headrace {version('headrace')}")
    except PackageNotFoundError:
        typer.echo("headrace, not installed")
    raise typer.Exit


@app.callback(epilog=_EXAMPLES)
def headrace(
    show_version: Annotated[
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
