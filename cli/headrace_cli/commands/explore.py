"""``headrace explore``: play the adversary, step by step, on a page in the browser."""

import typer

from headrace_cli.options.explore_options import ExploreOptions
from headrace_cli.options.option_groups import with_options

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace explore views:pipeline --open
  headrace explore views:pipeline --without sequencers --records 2
  headrace explore headrace-failure-1f3a90c2.json --port 8000

[bold]Exit codes[/]
  0 ended by Ctrl-C, 2 usage error"""


@app.command("explore", epilog=_EXAMPLES)
@with_options
def explore(context: typer.Context, options: ExploreOptions) -> None:
    """Play the adversary: choose what happens at each step of a run, and watch what breaks.

    Prints the address of a page that only this machine can reach. On it you let messages arrive, hold, lose or double them,
    crash, pause, cut off and revive processes, and move keys; you go back, and save a schedule as a replay file or as a test.
    """
    from headrace_cli.actions.explore_action import explore_target

    explore_target(context, options)
