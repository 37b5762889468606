"""``headrace recheck``: today's code on the input of a recorded run."""

from pathlib import Path
from typing import Annotated

import typer

from headrace_cli.options.option_groups import JsonOption

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace recheck yesterday.jsonl my_job:pipeline
  headrace recheck yesterday.jsonl my_job:pipeline --examples 200

[bold]Exit codes[/]
  0 it reproduces what was recorded, 1 it does not, 2 usage error or malformed file, 3 unknown,
  130 interrupted"""


@app.command("recheck", epilog=_EXAMPLES)
def recheck(
    history: Annotated[
        Path,
        typer.Argument(
            metavar="HISTORY.jsonl",
            help="A recorded run: --history of [bold]run[/], of a Spark job or of another engine.",
        ),
    ],
    pipeline: Annotated[
        str, typer.Argument(metavar="MODULE:PIPELINE", help="Today's pipeline, such as my_job:pipeline.")
    ],
    examples: Annotated[
        int, typer.Option("--examples", "--plans", min=0, help="Number of runs under faults.")
    ] = 20,
    seed: Annotated[int, typer.Option(help="Seed of the faults.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Run today's code on the input of a recorded run, under faults, and compare with what was recorded.

    Each recorded step is run again on the state that its row had then; then the whole input is run, with and without faults.
    Computations that declare ordered=True or nondeterministic="reason" are not compared.
    """
    from headrace_cli.actions.recheck_action import recheck_history

    raise typer.Exit(recheck_history(history, pipeline, examples, seed, as_json=as_json))
