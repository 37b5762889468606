"""``headrace paper scenario``: run scenarios from the papers."""

from pathlib import Path
from typing import Annotated

import typer

from headrace_cli.options.option_groups import JsonOption, ProtocolOption, WithoutOption, with_options
from headrace_cli.options.showing import Showing

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Run scenarios from the papers.")

_LIST_EXAMPLES = "[bold]Example[/]\n  headrace paper scenario list"

_RUN_EXAMPLES = """[bold]Examples[/]
  headrace paper scenario run zombie-timer
  headrace paper scenario run zombie-timer --without sequencers --explain
  headrace paper scenario run zombie-timer --without sequencers --html zombie.html
  headrace paper scenario run dataflow-fig14 --chart sessions.svg

[bold]Exit codes[/]
  0 nothing is violated, 1 an invariant is violated, 2 usage error, 3 nothing could be judged"""


@app.command("list", epilog=_LIST_EXAMPLES)
def list_scenarios(as_json: JsonOption = False) -> None:
    """List the scenarios."""
    from headrace_cli.actions.scenario_action import print_catalogue

    print_catalogue(as_json=as_json)


@app.command("run", epilog=_RUN_EXAMPLES)
@with_options
def run_scenario(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="Name of a scenario; [bold]headrace paper scenario list[/] shows them."
        ),
    ],
    showing: Showing,
    without: WithoutOption = None,
    protocol: ProtocolOption = None,
    chart: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Draw the Dataflow paper's figure: FILE.svg, FILE.png or FILE.html."
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Run a scenario, and print its story, its timeline and the verdicts of the invariants."""
    from headrace_cli.actions.scenario_action import tell_scenario

    raise typer.Exit(tell_scenario(name, showing, (protocol, without), chart, as_json=as_json))
