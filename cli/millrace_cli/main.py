"""The `millrace` command: its subcommands, and where it starts."""

from importlib.metadata import PackageNotFoundError, version
from typing import Annotated

import typer

from millrace_cli import bench, chaos, compare, mutants, replay, report, run, scenario, verify

_EXAMPLES = """[bold]Examples[/]

  millrace scenario list

  millrace scenario run zombie-timer --without sequencers

  millrace verify millrace_scenarios.zeitgeist:pipeline --examples 2000

  millrace compare millrace_scenarios.wall_clock:pipeline

  millrace replay millrace-failure-1f3a90c2.json

  millrace run zeitgeist --on sim

  millrace chaos --faults 20

  millrace mutants --seeds 100

  millrace bench harness

  millrace report --quick

[bold]Exit codes[/]

  0 holds, 1 violated, 2 wrong use, 3 unknown, 130 interrupted"""

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # what escapes is our own bug, and a plain traceback can be reported
    rich_markup_mode="rich",
)


def _print_version(wanted: bool) -> None:  # noqa: FBT001  typer's way
    if not wanted:
        return
    try:
        typer.echo(f"millrace {version('millrace')}")
    except PackageNotFoundError:
        typer.echo("millrace, not installed")
    raise typer.Exit


@app.callback(epilog=_EXAMPLES)
def millrace(
    show_version: Annotated[  # noqa: FBT002  typer's way
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Prove a streaming computation under faults: write it in MillWheel's model, and let Millrace look for what breaks it."""
    del show_version


app.add_typer(scenario.app, name="scenario")
app.command("verify", epilog=verify.VERIFY_EXAMPLES)(verify.verify)
app.command("mutants", epilog=mutants.MUTANTS_EXAMPLES)(mutants.mutants)
app.command("bench", epilog=bench.BENCH_EXAMPLES)(bench.bench)
app.command("compare", epilog=compare.COMPARE_EXAMPLES)(compare.compare)
app.command("run", epilog=run.RUN_EXAMPLES)(run.run)
app.command("chaos", epilog=chaos.CHAOS_EXAMPLES)(chaos.chaos)
app.command("report", epilog=report.REPORT_EXAMPLES)(report.report)
app.command("replay", epilog=replay.REPLAY_EXAMPLES)(replay.replay)


def main() -> None:
    """Run the command; what the script `millrace` calls."""
    app(prog_name="millrace")
