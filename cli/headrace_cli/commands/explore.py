"""``headrace explore``: play the adversary, step by step, on a page in the browser."""

from typing import Annotated

import typer

from headrace_cli.options.choices import CALL_S
from headrace_cli.options.option_groups import (
    DEFAULT_FEED,
    AllowEffectOption,
    CodeTimeoutOption,
    FeedOption,
    PromiseOption,
    ProtocolOption,
    WithoutOption,
    with_options,
)

app = typer.Typer(add_completion=False)

_EXAMPLES = """[bold]Examples[/]
  headrace explore views:pipeline --open
  headrace explore views:pipeline --without sequencers --records 2
  headrace explore headrace-failure-1f3a90c2.json --port 8000

[bold]Exit codes[/]
  0 ended by Ctrl-C, 2 usage error"""


@app.command("explore", epilog=_EXAMPLES)
@with_options
def explore(
    context: typer.Context,
    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:PIPELINE|FILE", help="A pipeline; or a replay file, whose run to step through."
        ),
    ],
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of the page; 0: any free one.")] = 0,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False,
    feed: FeedOption = DEFAULT_FEED,
    feed_seed: Annotated[int, typer.Option(help="Seed of the input.")] = 0,
    records: Annotated[int, typer.Option(min=0, help="Keep this many of the input's first records.")] = 3,
    workers: Annotated[int, typer.Option(min=1, help="Number of workers.")] = 2,
    version: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE:PIPELINE",
            help="Another version of the pipeline, which you may deploy; repeat for more.",
        ),
    ] = None,
    without: WithoutOption = None,
    protocol: ProtocolOption = None,
    promise: PromiseOption = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Import the file's module even if it is not part of this project.")
    ] = False,
    code_timeout: CodeTimeoutOption = CALL_S,
    allow: AllowEffectOption = "",
) -> None:
    """Play the adversary: choose what happens at each step of a run, and watch what breaks.

    Prints the address of a page that only this machine can reach. On it you let messages arrive, hold, lose or double them,
    crash, pause, cut off and revive processes, and move keys; you go back, and save a schedule as a replay file or as a test.
    """
    from headrace_cli.actions.explore_action import ExploreOptions, explore_target
    from headrace_cli.options.confinement import Confinement
    from headrace_properties.search.limits import CodeLimits

    confinement = Confinement(CodeLimits(call_s=code_timeout), allow)
    options = ExploreOptions(
        target, port, feed, feed_seed, records, workers, tuple(version or ()), without, protocol,
        tuple(promise or ()), opens=browser, trusts=trust,
    )  # fmt: skip
    explore_target(context, options, confinement)
