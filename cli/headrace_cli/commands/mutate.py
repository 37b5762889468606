"""``headrace mutate``: small mistakes in a pipeline's code, and which of them no promise or invariant notices."""

from pathlib import Path
from typing import Annotated

import typer

from headrace_cli.options.option_groups import DEFAULT_FEED, JobsOption, JsonOption

app = typer.Typer(add_completion=False)

NOTES = Path("equivalent-mutants.toml")
"""Where notes are looked for, in the current directory."""


_SAMPLE, _JUDGING = "Sample", "Judging"
"""Panels of help."""

_EXAMPLES = """[bold]Examples[/]
  headrace mutate my_job:pipeline
  headrace mutate my_job:pipeline --count 20 --seed 7 --examples 50 --json > report.json
  headrace mutate my_job:pipeline --again report.json

[bold]Exit codes[/]
  0 every mutant was killed or is noted as equivalent, 1 one survived, 2 usage error,
  3 unknown: there is nothing to mutate, 130 interrupted"""


@app.command("mutate", epilog=_EXAMPLES)
def mutate(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:PIPELINE", help="The pipeline, such as my_job:pipeline.")
    ],
    count: Annotated[
        int, typer.Option(min=1, rich_help_panel=_SAMPLE, help="Number of mutants; all if there are fewer.")
    ] = 50,
    seed: Annotated[
        int, typer.Option(rich_help_panel=_SAMPLE, help="Seed of the sample; the same seed draws the same.")
    ] = 0,
    examples: Annotated[
        int,
        typer.Option(
            "--examples",
            "--runs",
            min=1,
            rich_help_panel=_JUDGING,
            help="Maximum number of runs for a mutant.",
        ),
    ] = 300,
    notes: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=_JUDGING,
            show_default=f"{NOTES}, if it exists",
            help="TOML that names equivalent mutants, each with the reason.",
        ),
    ] = None,
    again: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel=_SAMPLE,
            help="Judge no new sample, but the survivors in this report (--json), except those noted since.",
        ),
    ] = None,
    feed: Annotated[
        str,
        typer.Option(
            metavar="NAME", rich_help_panel=_JUDGING, help="Function of the module that makes the input."
        ),
    ] = DEFAULT_FEED,
    jobs: JobsOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make small random mistakes in the code of a pipeline, and list those that no promise or invariant notices.

    A mistake that survives is a sentence that no promise says: mutation testing under faults.
    """
    from headrace_cli.actions.mutate_action import judge_mutants

    path = notes or (NOTES if NOTES.exists() else None)
    raise typer.Exit(judge_mutants(target, feed, count, seed, examples, path, again, jobs, as_json=as_json))
