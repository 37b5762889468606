"""Options of ``headrace verify`` about its search, and about the small scope of an exhaustive one."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from headrace_cli.options.choices import BREACHES, CALL_S, FAULT_KINDS, FEEDS
from headrace_cli.options.option_groups import GENERAL, CodeTimeoutOption, names_of
from headrace_properties.target_kinds import SearchKind

if TYPE_CHECKING:
    from headrace_properties.pipeline_target import Search
    from headrace_properties.search.scope import Scope


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """The search and its limits."""

    PANEL: ClassVar = "Search"

    examples: Annotated[
        int | None,
        typer.Option(
            "--examples",
            "--max-examples",
            metavar="N",
            rich_help_panel=GENERAL,
            min=1,
            show_default="200, or no limit with --until-quiet or --minutes",
            help="Number of runs in which at least one fault really strikes, or of pairs. Enumerate and exhaustive try all.",
        ),
    ] = None
    seed: Annotated[
        int,
        typer.Option(
            rich_help_panel=GENERAL,
            help="Seed for the search and the first input; the same seed repeats the search.",
        ),
    ] = 0
    how: Annotated[
        SearchKind,
        typer.Option(
            "--search",
            help="Random fault schedules; every single fault at every protocol step (enumerate); pairs of those; every"
            " order of arrivals and every fault of a small scope (exhaustive); the faults that what led to a good outcome"
            " depends on (lineage); or random faults with orders of arrival by priorities, which bound the chance to miss a"
            " failure (pct).",
        ),
    ] = SearchKind.RANDOM
    minutes: Annotated[
        float | None,
        typer.Option(
            "--minutes",
            metavar="M",
            min=0.0,
            help="Random, exhaustive: stop after this many minutes; results then depend on the machine.",
        ),
    ] = None
    until_quiet: Annotated[
        float,
        typer.Option(
            "--until-quiet",
            metavar="P",
            min=0.0,
            max=1.0,
            show_default=False,
            help="Random: stop once the chance that the next run shows new behaviour is estimated below this, such as 0.01.",
        ),
    ] = 0.0
    feeds: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of different inputs, made from the seed and the numbers after it.",
        ),
    ] = FEEDS
    depth: Annotated[
        int, typer.Option(min=1, help="Pct: the depth of the failures for which the bound holds.")
    ] = 2
    outside: Annotated[
        str,
        typer.Option(
            "--outside",
            metavar="KIND,...",
            help="Also break what MillWheel takes for granted of its store, to see that the invariants notice:"
            f" {', '.join(BREACHES)}.",
        ),
    ] = ""
    resume: Annotated[
        Path | None,
        typer.Option(
            "--resume",
            metavar="FILE",
            help="Exhaustive, lineage: note all runs in this file, and go on from those that it has.",
        ),
    ] = None
    code_timeout: CodeTimeoutOption = CALL_S

    def search(self, scope: "Scope") -> "Search":
        """Return the options in the search's own type.

        Raises:
            OptionsError: there is no fault outside the model of a name.
        """
        from headrace_properties.pipeline_target import Search
        from headrace_properties.search.store_breaches import breaches_named

        return Search(
            self.how, self.examples, self.until_quiet, self.minutes, self.seed, self.feeds, self.depth, scope, self.resume,
            breaches_named(names_of(self.outside)),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class ScopeOptions:
    """The scope of an exhaustive search."""

    PANEL: ClassVar = "Small scope"

    records: Annotated[
        int, typer.Option(min=0, help="Exhaustive, lineage: keep this many of the input's first records.")
    ] = 3
    faults: Annotated[
        int, typer.Option(min=0, help="Exhaustive, lineage: maximum number of faults in a run.")
    ] = 1
    delays: Annotated[
        int, typer.Option(min=0, help="Exhaustive: maximum number of arrivals in a run that others overtake.")
    ] = 2
    workers: Annotated[int, typer.Option(min=1, help="Exhaustive, lineage: number of workers.")] = 2
    fault_kinds: Annotated[
        str,
        typer.Option(
            "--fault-kinds",
            metavar="KIND,...",
            help="Kinds of faults to try; lineage: only crash, drop, cut.",
        ),
    ] = ",".join(FAULT_KINDS)

    @property
    def scope(self) -> "Scope":
        """The scope in the search's own type.

        Raises:
            OptionsError: there is no fault of that kind.
        """
        from headrace_properties.search.scope import Scope, small_cluster

        kinds = tuple(names_of(self.fault_kinds))
        return Scope(self.records, self.faults, self.delays, kinds, small_cluster(self.workers))
