"""Options of ``headrace explore``."""

from dataclasses import dataclass
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
)


@dataclass(frozen=True, slots=True)
class ExploreOptions:
    """The run to explore, and its page."""

    target: Annotated[
        str,
        typer.Argument(
            metavar="MODULE:PIPELINE|FILE", help="A pipeline; or a replay file, whose run to step through."
        ),
    ]
    port: Annotated[int, typer.Option(min=0, max=65_535, help="Port of the page; 0: any free one.")] = 0
    browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser.")] = False
    feed: FeedOption = DEFAULT_FEED
    feed_seed: Annotated[int, typer.Option(help="Seed of the input.")] = 0
    records: Annotated[int, typer.Option(min=0, help="Keep this many of the input's first records.")] = 3
    workers: Annotated[int, typer.Option(min=1, help="Number of workers.")] = 2
    version: Annotated[
        list[str] | None,
        typer.Option(
            metavar="MODULE:PIPELINE",
            help="Another version of the pipeline, which you may deploy; repeat for more.",
        ),
    ] = None
    without: WithoutOption = None
    protocol: ProtocolOption = None
    promise: PromiseOption = None
    trust: Annotated[
        bool, typer.Option("--trust", help="Import the file's module even if it is not part of this project.")
    ] = False
    code_timeout: CodeTimeoutOption = CALL_S
    allow: AllowEffectOption = ""
