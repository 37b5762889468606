"""Options of ``headrace verify`` about its target."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from headrace import OptionsError
from headrace_cli.options.option_groups import (
    DEFAULT_FEED,
    GENERAL,
    SPARK,
    FeedOption,
    PromiseOption,
    ProtocolOption,
    WithoutOption,
)

if TYPE_CHECKING:
    from headrace_sim.spark.declares import Declares


@dataclass(frozen=True, slots=True)
class TargetOptions:
    """The target besides its name, and what is declared of it."""

    PANEL: ClassVar = GENERAL

    promise: PromiseOption = None
    feed: FeedOption = DEFAULT_FEED
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if something is undeclared, too.")] = (
        False
    )
    allow: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="[bold]effect[/]: let your code change files, use sockets and start processes, which is refused otherwise."
            " Spark jobs: what a module declares: order, batching (running results), late (rows that are dropped), growth (state"
            " that nothing removes); or partitions, frames, ttl, value (state that is not what was put), loss (rows that a sink"
            " leaves out for an error).",
        ),
    ] = ""
    allow_unknown: Annotated[
        str,
        typer.Option(
            metavar="NAME,...",
            help="Invariants and promises allowed to go unexercised, or [bold]all[/] invariants. Without timers, nothing can"
            " exercise S8, S9 and L1. [bold]growth[/]: state may stay that nothing cleans up. The report lists them.",
        ),
    ] = ""
    versions: Annotated[
        list[str] | None,
        typer.Option(
            "--version",
            metavar="TARGET",
            help="Another version of a pipeline, which an operator may deploy while it runs; repeat for more. Of a Spark job: the"
            " version before, from whose checkpoint it goes on.",
        ),
    ] = None
    without: WithoutOption = None
    protocol: ProtocolOption = None
    schema: Annotated[
        list[str] | None,
        typer.Option(
            "--schema",
            metavar="[PARAM=]COLUMNS",
            rich_help_panel=SPARK,
            help="Columns of the input of a Spark job, such as 'word STRING, at TIMESTAMP'. The target is then a foreachBatch"
            " function, or a function that starts a query.",
        ),
    ] = None
    sample: Annotated[
        list[str] | None,
        typer.Option(
            "--sample",
            metavar="[NAME=]FILE",
            rich_help_panel=SPARK,
            help="Spark jobs: a file of real input (JSON Lines, CSV with a header, Parquet) instead of drawn rows; of several"
            " sources, each by its name.",
        ),
    ] = None
    duplicates: Annotated[
        bool,
        typer.Option(
            "--duplicates", rich_help_panel=SPARK, help="Spark jobs: the source may deliver a row twice."
        ),
    ] = False
    keys: Annotated[
        list[str] | None,
        typer.Option(
            "--keys",
            metavar="TABLE=COLUMN,...",
            rich_help_panel=SPARK,
            help="Sinks: the columns by which a connector of df.write that is not known writes to a table; none: it adds rows.",
        ),
    ] = None

    @property
    def meant(self) -> "Declares":
        """The declarations on the command line, besides those of its module."""
        from headrace_sim.deliveries import FeedSource
        from headrace_sim.spark.declares import Declares

        return Declares(source=FeedSource(once=False if self.duplicates else None))

    @property
    def version(self) -> str:
        """The earlier version of a Spark job, or "". Raise `OptionsError` if there are several."""
        if self.versions and len(self.versions) > 1:
            raise OptionsError("version", ", ".join(self.versions), "one name: of the version before")
        return next(iter(self.versions or ()), "")
