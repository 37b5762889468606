"""Where a target comes from, and what goes wrong before it runs."""

from collections.abc import Mapping, Sequence

import msgspec

from headrace import HeadraceError
from headrace_sim.deliveries import UNSAID, FeedSource


class TargetError(HeadraceError):
    """A target or its input cannot be loaded. Fields: target, problem, remedy."""

    def __init__(self, target: str, problem: str, remedy: str) -> None:
        super().__init__(target, problem, remedy)
        self.target, self.problem, self.remedy = target, problem, remedy

    def __str__(self) -> str:
        """Say what is wrong and how to fix it."""
        return f"{self.target}: {self.problem}. {self.remedy}"


class PipelineSource(msgspec.Struct, frozen=True, tag="pipeline"):
    """Where a pipeline comes from.

    Attributes:
        name: ``MODULE:PIPELINE``.
        versions: further versions of it, also as ``MODULE:PIPELINE``.
        protocol: name of the state machines that host it.
        feed: name of the function, in its module, that makes the input from a seed.
    """

    name: str
    versions: tuple[str, ...] = ()
    protocol: str = "sound"
    feed: str = "feed"

    @property
    def names(self) -> tuple[str, ...]:
        """What is imported."""
        return (self.name, *self.versions)

    def is_like(self, other: object) -> bool:
        """Return whether what was found in one of them says something of the other."""
        return self == other


class SparkSource(msgspec.Struct, frozen=True, tag="spark"):
    """Where a Spark job or a sink comes from.

    Attributes:
        name: ``MODULE:NAME``; of a program, its file, or its module.
        schemas: of its input: one, or by the parameter's name; ``None``: it has its own.
        feed: what its module calls its rows.
        keys: the declared keys of tables.
        samples: files with rows of its input, by the name of the source.
        arguments: of a program.
        environment: names of the variables that a program was given; their values may be secrets.
        stand_ins: the modules of a program that inert ones replace.
        query: which of a program's queries, by its label; ``""``: all.
        version: the earlier version from whose checkpoint it is to go on, or ``""``.
        batches: how many its own sources give, at most; not set: drawn or sampled rows come in their place.
        postgres: the URL of its owner's server for tests, without a password; not set: there is none.
    """

    name: str
    schemas: str | dict[str, str] | None = None
    feed: str = "feed"
    keys: dict[str, tuple[str, ...]] = {}
    samples: dict[str, str] = {}
    arguments: tuple[str, ...] = ()
    environment: tuple[str, ...] = ()
    stand_ins: tuple[str, ...] = ()
    query: str = ""
    version: str = ""
    batches: int | msgspec.UnsetType = msgspec.UNSET
    postgres: str | msgspec.UnsetType = msgspec.UNSET

    @property
    def names(self) -> tuple[str, ...]:
        """What is imported, or run."""
        return (self.name, self.version) if self.version else (self.name,)

    @property
    def is_program(self) -> bool:
        """Whether it is a program that is run, and nothing that is imported."""
        return is_program(self.name)

    def is_like(self, other: object) -> bool:
        """Return whether what was found in one of them says something of the other, whose keys may be declared since."""
        return isinstance(other, SparkSource) and self._identity == other._identity

    @property
    def _identity(self) -> tuple[object, ...]:
        return self.name, self.feed, self.arguments, self.query, self.version, bool(self.batches)


Source = PipelineSource | SparkSource
SOURCE = "source"
"""What a module calls what the source of its feed promises."""


def source_in(module: object) -> FeedSource:
    """Return what a module says of the source of its feed; a variable of that name may be its own."""
    value = getattr(module, SOURCE, None)
    return value if isinstance(value, FeedSource) else UNSAID


def is_program(name: str) -> bool:
    """Return whether a target's name is that of a program: a file, or a module of which nothing is named."""
    return is_file_of_program(name) or ":" not in name


def is_file_of_program(name: str) -> bool:
    """Return whether a target's name is that of a program's file."""
    return name.endswith((".py", ".ipynb"))


def spark_source(
    name: str,
    schemas: str | Mapping[str, str] | None,
    feed: str = "feed",
    keys: Mapping[str, Sequence[str]] | None = None,
    samples: Mapping[str, str] | None = None,
) -> SparkSource:
    """Return where a Spark job or a sink comes from. Its arguments are the attributes of `SparkSource`."""
    columns = {table: tuple(names) for table, names in (keys or {}).items()}
    return SparkSource(
        name, dict(schemas) if isinstance(schemas, Mapping) else schemas, feed, columns, dict(samples or {})
    )
