"""Options of ``headrace chaos``."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from headrace_cli.options.option_groups import DEFAULT_FEED, GENERAL, LONGEST_S, SPARK
from headrace_scenarios.chaos.plan import Verb


class Protection(StrEnum):
    """A protection that can be switched off to see what it prevents."""

    FENCING = "fencing"
    STATE_IDS = "state-ids"


@dataclass(frozen=True, slots=True)
class ChaosFlags:
    """The faults, and what they strike."""

    PANEL: ClassVar = "Faults"

    faults: Annotated[
        int, typer.Option(min=0, help="Number of faults; each strikes one part of the input.")
    ] = 5
    seed: Annotated[int, typer.Option(help="Seed for faults and input.")] = 0
    kinds: Annotated[
        str | None,
        typer.Option(
            metavar="KIND,...",
            help=f"Kinds of faults to use: {', '.join(Verb)}. Default: all, in turn.",
        ),
    ] = None
    object_store: Annotated[
        bool,
        typer.Option(
            "--object-store",
            rich_help_panel=SPARK,
            help="Keep checkpoint, job and outputs in a store as weak as S3, without atomic renames.",
        ),
    ] = False
    feed: Annotated[
        str,
        typer.Option(
            metavar="NAME",
            rich_help_panel=GENERAL,
            help="The module's function that generates the input, which must not have late records.",
        ),
    ] = DEFAULT_FEED
    without: Annotated[
        list[Protection] | None,
        typer.Option(
            help="Switch off a protection: the sink's fencing of older drivers, or separate state files for each attempt."
        ),
    ] = None
    master: Annotated[
        str,
        typer.Option(
            metavar="URL",
            rich_help_panel=SPARK,
            help="Spark's master, with separate processes for executors.",
        ),
    ] = "local-cluster[1,2,1024]"
    patience: Annotated[
        float,
        typer.Option(
            metavar="SECONDS",
            rich_help_panel=SPARK,
            min=1,
            max=LONGEST_S,
            help="Maximum wait for a start of Spark or a part of the input.",
        ),
    ] = 300.0
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            rich_help_panel=GENERAL,
            help="Keep logs, checkpoint and outputs here. Default: keep them only if something is wrong.",
        ),
    ] = None
