"""``headrace paper bench``: run a benchmark and print each figure beside its goal."""

from typing import Annotated

import typer

from headrace_cli.options.option_groups import JobsOption, JsonOption

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace paper bench
  headrace paper bench harness
  headrace paper bench kernels
  headrace paper bench harness --examples 100000 --jobs 2
  headrace paper bench alarms --examples 200000 --seed 1
  headrace paper bench harness --quick --json > figures.json
  headrace paper bench skew --quick

[bold]Exit codes[/]
  0 measured, however slow; 1 a correctness figure missed its goal; 2 usage error"""


@app.command("bench", epilog=_EXAMPLES)
def bench(
    name: Annotated[str | None, typer.Argument(help="Benchmark to run. Default: list them.")] = None,
    examples: Annotated[
        int | None,
        typer.Option(
            "--examples",
            "--runs",
            min=1,
            help="Number of runs of the longest part; for an experiment of the report: at each point.",
        ),
    ] = None,
    jobs: JobsOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed for everything random.")] = 0,
    quick: Annotated[
        bool, typer.Option("--quick", help="Run a fraction of everything, to see that it works.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Run a benchmark, and print each figure beside its goal or the paper's number."""
    from headrace_cli.actions.bench_action import print_catalogue, run_benchmark

    if name is None:
        print_catalogue(as_json=as_json)
        return
    raise typer.Exit(run_benchmark(name, seed, jobs, examples, quick=quick, as_json=as_json))
