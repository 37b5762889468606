"""What a test may give the fixture ``headrace_verify`` by name, for each kind of target."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

from headrace_properties.promises import Promise
from headrace_properties.search.scope import Scope
from headrace_properties.target_kinds import TargetKind
from headrace_sim import ClusterOptions, FeedSource, Protocol
from headrace_sim.spark.declares import Meant


class VerifyArguments(TypedDict, total=False):
    """Of every target.

    Attributes:
        seed: instead of the command line's.
        promises: what must hold besides the invariants; default: the list ``promises`` beside the pipeline and its feed, or
            in the module of the Spark job.
        allow: on what outcomes may depend: of a Spark job ``batching``, ``order``, ``partitions``, ``late``, ``growth``,
            ``loss``; of a pipeline on Spark ``order``. With ``effect``, the code may change files, use sockets and start
            processes.
        allow_unknown: invariants and promises that no run needs to exercise; of a pipeline also ``growth``, if state may stay
            that nothing cleans up, or ``all`` for all but promises. Added to the setting ``headrace_allow_unknown``.
    """

    seed: int | None
    promises: Sequence[Promise] | None
    allow: Iterable[str]
    allow_unknown: Iterable[str]


class PipelineArguments(VerifyArguments, total=False):
    """Of a pipeline in the simulated cluster.

    Attributes:
        examples: runs in which a fault really strikes, instead of the command line's.
        options: of the cluster, where a plan does not vary them.
        protocol: the state machines to host; default: the engine's own.
        search: ``random``; ``pct``, with orders of arrival by priorities; or ``exhaustive``: every schedule of the scope, or the
            first ``examples``. That takes no ``options``.
        depth: with ``pct``, of the failures to look for; default: 2; see docs/explanation/exhaustive.md.
        scope: of an exhaustive search only; default: three records, one fault and two delays, on two workers.
        source: what the source of the feed promises; default: ``source`` beside the pipeline and its feed.
        on: ``here``; with ``spark``, the next arguments are taken.
    """

    examples: int | None
    options: ClusterOptions | None
    protocol: Protocol | None
    search: Literal["random", "pct", "exhaustive"]
    depth: int | None
    scope: Scope | None
    source: FeedSource | None
    on: Literal["here"]


class TrialArguments(VerifyArguments, total=False):
    """Of a pipeline that the real Spark hosts, with ``on="spark"``, and of what follows.

    Attributes:
        postgres: the URL of a PostgreSQL for tests; default: one that is installed.
        allow_writes: whether each trial writes to what it cannot have for itself.
        allow_network: whether trials reach other machines.
    """

    postgres: str
    allow_writes: bool
    allow_network: bool


class QueryArguments(TrialArguments, Meant, total=False):
    """Of a Spark job or program; so are the fields of `Declares` (``running=True``), which add to what its module declares.

    Attributes:
        examples: the number of schedules, instead of the command line's.
        sample: a file of JSON Lines, CSV or Parquet with the rows of its input; of several sources, by their names.
        prepare: makes the tables that sinks take for granted.
        duplicates: whether the source may deliver a row twice.
        keys: the columns by which a connector of ``df.write`` that is not known writes, by table; none: it adds rows.
        on: simulate it (``here``), run it on the real Spark (``spark``), or compare (``both``).
        batches: on the real Spark, how many of its own sources are run, at most, from a copy of its checkpoint; 0: drawn.
    """

    examples: int | None
    sample: str | Path | Mapping[str, str | Path] | None
    prepare: Callable[[], Any] | None
    duplicates: bool
    keys: Mapping[str, Sequence[str]] | None
    on: Literal["here", "spark", "both"]
    batches: int


class JobArguments(QueryArguments, total=False):
    """Of a ``foreachBatch`` function, a function that starts a query, or a ``SparkJob``.

    Attributes:
        schema: the columns of its input, such as ``"account STRING, amount INT"``; a ``SparkJob`` has it.
    """

    schema: str | None


class ProgramArguments(QueryArguments, total=False):
    """Of the file of a program, which is run as its owner runs it.

    Attributes:
        args: its arguments.
        env: variables that are added to its environment.
        stand_ins: modules that inert ones replace.
        query: the only query to try, by its name, its sink or its line.
    """

    args: Sequence[str]
    env: Mapping[str, str] | None
    stand_ins: Sequence[str]
    query: str


ARGUMENTS: Mapping[TargetKind, type] = {
    TargetKind.PIPELINE: PipelineArguments,
    TargetKind.HOSTED: TrialArguments,
    TargetKind.QUERY: JobArguments,
    TargetKind.PROGRAM: ProgramArguments,
}
"""The arguments of each kind; ``on`` chooses between the first two."""
