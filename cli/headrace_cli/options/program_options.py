"""``headrace verify jobs/stream.py``: a program that starts queries, run as in production."""

import enum
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from headrace import OptionsError
from headrace_cli.options.option_groups import SPARK
from headrace_cli.terminal.usage_errors import WrongOptionError

if TYPE_CHECKING:
    from headrace_sim.spark.client.scripts import Script

ArgumentsOption = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[-- ARGUMENT...]", help="Arguments of a program: headrace verify job.py -- --topic orders"
    ),
]
EnvironmentOption = Annotated[
    list[str] | None,
    typer.Option(
        "--env", metavar="NAME=VALUE", help="Programs: a variable of their environment; repeat for more."
    ),
]


class Engine(enum.StrEnum):
    """The values of ``--on``."""

    HERE = "here"
    SPARK = "spark"
    BOTH = "both"


class SourceOfRows(enum.StrEnum):
    """The values of ``--source``."""

    DRAWN = "drawn"
    KEEP = "keep"


MOST_BATCHES = 3
"""Choice: the default number of batches of its own sources that a query runs: some minutes."""


@dataclass(frozen=True, slots=True)
class ProgramOptions:
    """The environment of a program, and the engine that runs it."""

    PANEL: ClassVar = SPARK

    module: Annotated[
        bool,
        typer.Option(
            "-m", "--module", help="The target is a module with a program, as for [bold]python -m[/]."
        ),
    ] = False
    env: EnvironmentOption = None
    stand_in: Annotated[
        list[str] | None,
        typer.Option(
            "--stand-in",
            metavar="MODULE",
            help="Programs: put an inert module in the place of this one, which has every attribute and takes every call.",
        ),
    ] = None
    query: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="Programs: the only query to try, by its name, its sink or its line."
        ),
    ] = ""

    on: Annotated[
        Engine,
        typer.Option(
            "--on",
            help="Simulate it (here), run it on the Spark that is installed under every crash point (spark), or compare the two"
            " (both, of Spark jobs). A pipeline is simulated in a cluster, or hosted by Spark.",
        ),
    ] = Engine.HERE
    postgres: Annotated[
        str,
        typer.Option(
            metavar="URL",
            show_default="one that is installed",
            help="--on spark: a PostgreSQL for tests, in which each trial makes a database of its own.",
        ),
    ] = ""
    allow_writes: Annotated[
        bool,
        typer.Option(
            "--allow-writes",
            help="--on spark: let each trial write to what it cannot have for itself, such as Kafka or a database of its name,"
            " and Java to any file. For systems of tests.",
        ),
    ] = False
    allow_network: Annotated[
        bool, typer.Option("--allow-network", help="--on spark: let trials connect to other machines.")
    ] = False

    source: Annotated[
        SourceOfRows,
        typer.Option(
            "--source",
            help="--on spark: rows are drawn, or sampled (drawn); or the query's own sources are read, from a copy of its"
            " checkpoint and tables on (keep).",
        ),
    ] = SourceOfRows.DRAWN
    batches: Annotated[
        int | None,
        typer.Option(
            "--batches",
            min=1,
            show_default=str(MOST_BATCHES),
            help="--source keep: how many batches are run, at most.",
        ),
    ] = None

    def own_batches(self) -> int:
        """Return the most batches of its own sources to run; 0: rows are drawn instead.

        Raise `OptionsError` if an option would have no effect.
        """
        if self.source is SourceOfRows.DRAWN:
            if self.batches is not None:
                raise OptionsError("batches", self.batches, "given with source=keep")
            return 0
        if self.on is not Engine.SPARK:
            raise OptionsError("source", "keep", "given with on=spark")
        return self.batches or MOST_BATCHES

    @property
    def let_through(self) -> tuple[str, ...]:
        """The effects that trials on the real Spark may have outside them."""
        return ("writes",) * self.allow_writes + ("network",) * self.allow_network

    def is_program(self, name: str) -> bool:
        """Return whether a target is a program."""
        from headrace_properties.target import is_file_of_program

        return self.module or is_file_of_program(name)

    def on_spark(self, name: str, schemas: Sequence[str], arguments: Sequence[str]) -> str:
        """Return the command that verifies a target with these schemas, or a program, on the real Spark."""
        schema_options = [word for schema in schemas for word in ("--schema", schema)]
        own = ["--", *arguments] if arguments else []
        return shlex.join(
            ["headrace", "verify", *["-m"] * self.module, name, *schema_options, "--on", "spark", *own]
        )

    def script(self, name: str, arguments: Sequence[str]) -> "Script":
        """Return the program."""
        from headrace_properties.target import TargetError, is_file_of_program

        if self.module and (":" in name or is_file_of_program(name)):
            raise TargetError(name, "-m takes a module", "Write -m package.module, or a file without -m")
        return script_of(name, arguments, self.env or (), self.stand_in or ())


def script_of(
    name: str, arguments: Sequence[str], environment: Sequence[str], stand_ins: Sequence[str] = ()
) -> "Script":
    """Return a program.

    Args:
        name: Its file, or its module.
        arguments: Of its command line.
        environment: ``NAME=VALUE`` each.
        stand_ins: Modules that inert ones replace.

    Raises:
        WrongOptionError: A variable has no value.
        HeadraceError: PySpark is missing.

    """
    for variable in environment:
        if "=" not in variable:
            raise WrongOptionError("--env", f"{variable!r} has no value", "Write --env NAME=VALUE")
    try:
        from headrace_sim.spark.client.scripts import Script
    except ModuleNotFoundError:
        import headrace.spark  # noqa: F401  it says which packages are missing

        raise
    variables = dict(variable.split("=", 1) for variable in environment)
    return Script(name, tuple(arguments), variables, tuple(stand_ins))
