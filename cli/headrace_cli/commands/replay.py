"""``headrace replay``: run a saved failure again, byte for byte."""

from pathlib import Path
from typing import Annotated

import typer

from headrace_cli.options.choices import CALL_S
from headrace_cli.options.option_groups import (
    AllowEffectOption,
    CodeTimeoutOption,
    HistoryOption,
    JsonOption,
    PromiseOption,
    with_options,
)
from headrace_cli.options.program_options import EnvironmentOption
from headrace_cli.options.showing import Showing

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace replay headrace-failure-1f3a90c2.json
  headrace replay headrace-failure-1f3a90c2.json --explain --html failure.html
  headrace replay headrace-failure-1f3a90c2.json --until violation
  headrace replay headrace-failure-1f3a90c2.json installed.package:pipeline

[bold]Exit codes[/]
  0 it no longer violates anything, 1 it violates something again, 2 usage error, 3 nothing is violated, but the code or
  the input has changed, so that the run may no longer show what it showed"""


UntilOption = Annotated[
    str | None,
    typer.Option(
        metavar="EVENT",
        help="Show the run up to an event, and the state of the cluster then. EVENT is a number, a kind such as Applied"
        " (the first one), or [bold]violation[/].",
    ),
]


@app.command("replay", epilog=_EXAMPLES)
@with_options
def replay(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Replay file saved by [bold]headrace verify[/].")
    ],
    showing: Showing,
    pipeline: Annotated[
        str | None,
        typer.Argument(
            metavar="[MODULE:PIPELINE]", help="Run this pipeline instead of the one that the file names."
        ),
    ] = None,
    promise: PromiseOption = None,
    until: UntilOption = None,
    history: HistoryOption = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Import the file's module even if it is not part of this project.")
    ] = False,
    when: Annotated[
        bool,
        typer.Option(
            "--when",
            help="Find the moment after which the run fails whatever else happens: 1,000 more runs.",
        ),
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(min=1, show_default="all cores", help="Processes that share the runs of --when."),
    ] = None,
    code_timeout: CodeTimeoutOption = CALL_S,
    env: EnvironmentOption = None,
    allow: AllowEffectOption = "",
    as_json: JsonOption = False,
) -> None:
    """Run a saved failure again, byte for byte, and show what it violates and which events prove it.

    Run it where you ran verify: the pipeline is imported by its name. A module outside that project is imported only if you
    name it, too, or pass --trust.
    """
    from headrace_cli.actions.replay_action import replay_failure
    from headrace_cli.options.confinement import Confinement
    from headrace_cli.reruns.reruns import ReplayOptions
    from headrace_properties.search.limits import CodeLimits

    confinement = Confinement(CodeLimits(call_s=code_timeout), allow)
    options = ReplayOptions(
        file, showing, confinement.limits, promise or (), until, history, when=when, jobs=jobs,
        environment=env or (), context=context,
    )  # fmt: skip
    raise typer.Exit(replay_failure(context, options, confinement, pipeline, trust=trust, as_json=as_json))
