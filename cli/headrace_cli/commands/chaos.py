"""``headrace chaos``: run a pipeline on Spark while killing and pausing its processes, and compare the results."""

from typing import Annotated

import typer

from headrace_cli.options.chaos_options import ChaosFlags
from headrace_cli.options.option_groups import JsonOption, with_options

app = typer.Typer(add_completion=False)

DEFAULT_PIPELINE = "headrace_scenarios.chaos.turnstiles:pipeline"


_EXAMPLES = """[bold]Examples[/]
  headrace chaos
  headrace chaos --faults 20 --seed 3
  headrace chaos my_job:pipeline --faults 4 --kinds zombie,kill_driver --keep chaos/
  headrace chaos --faults 2 --kinds zombie --without fencing
  headrace chaos --kinds reshard,change --faults 4
  headrace chaos --object-store --faults 8

[bold]Exit codes[/]
  0 outputs and states match the reference; 1 otherwise; 2 usage error; 3 unknown: a fault never struck"""


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
    from headrace_cli.actions.chaos_action import run_under_chaos

    raise typer.Exit(run_under_chaos(pipeline, options, as_json=as_json))
