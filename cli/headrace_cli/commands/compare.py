"""``headrace compare``: strong and weak productions, with and without exactly-once, under the same faults (6.1.2, 6.1.3)."""

from typing import Annotated

import typer

from headrace_cli.options.option_groups import DEFAULT_FEED, FeedOption, JsonOption, PipelineArgument

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace compare headrace_scenarios.wall_clock:pipeline --faults 10
  headrace compare my_job:pipeline --faults 5 --examples 200 --json

[bold]Exit codes[/]
  0 no invariant is violated, 1 one is violated, or a run stopped with an error, 2 usage error, 130 interrupted"""


@app.command("compare", epilog=_EXAMPLES)
def compare(
    pipeline: PipelineArgument,
    faults: Annotated[int, typer.Option(min=0, help="Number of faults in each run.")] = 10,
    examples: Annotated[
        int,
        typer.Option(
            "--examples", "--runs", min=1, help="Number of runs each way, each with its own faults."
        ),
    ] = 20,
    seed: Annotated[int, typer.Option(help="Seed for the input and the faults.")] = 0,
    feed: FeedOption = DEFAULT_FEED,
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline with strong and weak productions, with and without exactly-once, under the same faults, and compare.

    The pipeline's own choice of productions is overridden. Times are simulated.
    """
    from headrace_cli.actions.compare_action import compare_ways

    raise typer.Exit(compare_ways(pipeline, feed, faults, examples, seed, as_json=as_json))
