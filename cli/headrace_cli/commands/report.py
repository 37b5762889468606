"""``headrace paper report``: run the paper's evaluation and write REPORT.md."""

from pathlib import Path
from typing import Annotated

import typer

from headrace_cli.options.choices import EXPERIMENTS, REPORT_FOLDER, REPORT_SEEDS
from headrace_cli.options.option_groups import ForceOption, JobsOption, JsonOption

app = typer.Typer(add_completion=False)

_MEASURING, _CHECKING = "Measure", "Check"
"""Panels of help."""

_EXAMPLES = """[bold]Examples[/]
  headrace paper report --quick --output /tmp/REPORT.md
  headrace paper report --only figure-13
  headrace paper report --check

[bold]Exit codes[/]
  0 written, or checked without a difference, 1 a number differs from what the code computes, 2 usage error, 130 interrupted"""


@app.command("report", epilog=_EXAMPLES)
def report(
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            rich_help_panel=_MEASURING,
            help="Use fewer seeds and sizes: minutes instead of half an hour.",
        ),
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=_MEASURING,
            help=f"Run (with --check: repeat) only this experiment: {', '.join(EXPERIMENTS)}.",
        ),
    ] = None,
    examples: Annotated[
        int | None,
        typer.Option(
            "--examples",
            "--seeds",
            min=1,
            rich_help_panel=_MEASURING,
            help="Number of runs at each point. Default: {full}, or {quick} with --quick.".format(
                **REPORT_SEEDS
            ),
        ),
    ] = None,
    jobs: JobsOption = None,
    update: Annotated[
        bool,
        typer.Option(
            "--update",
            rich_help_panel=_MEASURING,
            help="With --only: replace these experiments in the report and keep the others.",
        ),
    ] = False,
    output: Annotated[
        Path,
        typer.Option(
            metavar="FILE.md", help=f"The report; its data and pictures go into {REPORT_FOLDER} beside it."
        ),
    ] = Path("REPORT.md"),
    check: Annotated[
        bool,
        typer.Option(
            "--check",
            rich_help_panel=_CHECKING,
            help="Write nothing; list where the report differs from what the code computes.",
        ),
    ] = False,
    again: Annotated[
        int,
        typer.Option(
            min=0,
            rich_help_panel=_CHECKING,
            help="With --check: number of runs of each experiment to repeat.",
        ),
    ] = 1,
    force: ForceOption = False,
    as_json: JsonOption = False,
) -> None:
    """Run MillWheel's evaluation (Section 8) on the calibrated simulated cluster, and write the results beside the paper's.

    Times are simulated, except in one chapter on real time. The data of the report contain the figures of every run; simulated
    runs can be repeated exactly.
    """
    from headrace_cli.actions.report_action import check_report, write_report

    if check:
        raise typer.Exit(check_report(output, again, only or [], as_json=as_json))
    raise typer.Exit(
        write_report(
            output, only or [], examples, jobs, quick=quick, update=update, force=force, as_json=as_json
        )
    )
