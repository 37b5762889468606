"""``--jobs`` and ``--master``: the processes that share the runs of a search."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from headrace import OptionsError
from headrace_cli.options.option_groups import GENERAL

if TYPE_CHECKING:
    from headrace_properties.search.parallel import Jobs


@dataclass(frozen=True, slots=True)
class PoolOptions:
    """The processes that share the runs."""

    PANEL: ClassVar = "Search"

    jobs: Annotated[
        int | None,
        typer.Option(
            rich_help_panel=GENERAL,
            min=1,
            show_default="all cores",
            help="Maximum number of processes that share the runs. The result does not depend on it. Programs on the real"
            " Spark: how many of them share the trials, each some 1 GB; 1 unless it is said.",
        ),
    ] = None
    master: Annotated[
        str | None,
        typer.Option(
            "--master",
            metavar="URL",
            help="Share the runs among the executors of a Spark cluster, such as spark://host:7077, yarn, or"
            " local-cluster[2,1,1024], instead of processes of this machine. The result is the same.",
        ),
    ] = None

    def check(self) -> None:
        """Refuse options that contradict each other.

        Raises:
            OptionsError: they do.
        """
        if self.master is not None and self.jobs is not None:
            raise OptionsError(
                "jobs", self.jobs, "left out with --master, which uses every core of the executors"
            )

    @contextmanager
    def pool(self) -> Iterator["Jobs"]:
        """Start what shares the runs.

        Raises:
            HeadraceError: Spark cannot be started.
        """
        self.check()
        if self.master is None:
            from headrace_properties.search.parallel import cores

            yield self.jobs or cores()
            return
        from headrace.spark import session
        from headrace_properties.search.spark_executors import SparkExecutors

        with session(self.master, "headrace search") as spark:
            yield SparkExecutors(spark.sparkContext)
