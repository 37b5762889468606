"""``headrace run``: run a pipeline on a host, from an input to an output, and compare hosts."""

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from headrace_cli.options.option_groups import JsonOption, with_options
from headrace_cli.options.run_options import HostName, ReadingOptions, WritingOptions

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace run zeitgeist --on sim --faults 30 --compare reference
  headrace run my_job:pipeline --on spark --judge 0.01 --compare reference
  headrace run my_job:pipeline --on sim --input clicks.jsonl --output counts/
  headrace run my_job:pipeline --faults 10 --chart run.html
  headrace run my_job:pipeline --on reference --input clicks.csv --timestamp time --key user --slack 60 --output -

[bold]Exit codes[/]
  0 done, 1 an invariant or a promise is violated, the outputs differ, or your code failed, 2 usage error,
  130 interrupted, 143 terminated, 129 hung up: with the output so far; on spark, after the current micro-batch"""


RunArgument = Annotated[
    str,
    typer.Argument(
        metavar="zeitgeist|nexmark-qN|MODULE:PIPELINE",
        help="Zeitgeist on real flights, a query of NEXMark (0 to 12), or your own pipeline.",
    ),
]
FaultsOption = Annotated[int, typer.Option(min=0, help="Number of faults, drawn from the seed; on sim only.")]
SeedOption = Annotated[int, typer.Option(help="Seed for the faults, the cluster and the generated input.")]
JudgeOption = Annotated[
    float | None,
    typer.Option(
        metavar="FRACTION",
        min=0,
        max=1,
        help="On spark: fraction of the keys whose History is judged, up to 1.",
    ),
]
UntilOption = Annotated[
    datetime | None,
    typer.Option(formats=["%Y-%m-%d"], help="Zeitgeist: end date (exclusive). Default on sim: 2013-02-15."),
]
ChartOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE.svg|FILE.png|FILE.html",
        help="On sim: draw the key with the most results in event time, with panes and watermark. "
        "Zeitgeist: expected and actual departures.",
    ),
]


@app.command("run", epilog=_EXAMPLES)
@with_options
def run(
    pipeline: RunArgument,
    reading: ReadingOptions,
    writing: WritingOptions,
    on: Annotated[HostName, typer.Option("--on", help="Host to run on.")] = HostName.SIM,
    faults: FaultsOption = 0,
    seed: SeedOption = 0,
    judge: JudgeOption = None,
    until: UntilOption = None,
    chart: ChartOption = None,
    as_json: JsonOption = False,
) -> None:
    """Run a pipeline on a host, write its output, and compare hosts record by record.

    On sim, the simulated cluster, the run is also judged. The reference processes one record at a time.
    """
    from headrace_cli.actions.run_action import run_pipeline

    last = until.date() if until else None
    raise typer.Exit(
        run_pipeline(pipeline, reading, writing, on, faults, seed, judge, last, chart, as_json=as_json)
    )
