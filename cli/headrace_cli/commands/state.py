"""``headrace job state``: print what a job on Spark has stored, by computation and key, also while it runs."""

from typing import Annotated

import typer

from headrace_cli.options.option_groups import JsonOption

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace job state jobs/counts
  headrace job state jobs/counts counter --limit 100
  headrace job state jobs/counts counter anna --pipeline my_job:pipeline

[bold]Exit codes[/]
  0 printed, also if the key has no row; 2 usage error, or the state cannot be read"""


@app.command("state", epilog=_EXAMPLES)
def state(
    directory: Annotated[str, typer.Argument(help="The job's directory, as given to deploy.")],
    computation: Annotated[
        str | None, typer.Argument(help="Print the key intervals and rows of this one.")
    ] = None,
    key: Annotated[str | None, typer.Argument(help="Print the row of this key in full.")] = None,
    limit: Annotated[int, typer.Option(min=0, help="Print at most this many rows of a computation.")] = 20,
    pipeline: Annotated[
        str | None,
        typer.Option(
            metavar="MODULE:PIPELINE",
            help="Decode states with the codecs of this pipeline. Default: as JSON.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print what a job on Spark has stored as of its last committed micro-batch, also while it runs.

    Without COMPUTATION: one line for each. The command writes nothing to DIRECTORY.
    """
    from headrace_cli.actions.state_action import print_state

    print_state(directory, computation, key, limit, pipeline, as_json=as_json)
