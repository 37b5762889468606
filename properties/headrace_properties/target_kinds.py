"""The kinds of targets and of searches, and what each of them heeds: an option that has no effect is refused, and never ignored.

One table serves the command ``headrace verify`` and the fixture ``headrace_verify``, by the names that their users write; another
one the command ``headrace replay``.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from headrace import OptionsError


class TargetKind(Enum):
    """What is verified, or run again."""

    PIPELINE = "a pipeline"
    QUERY = "a Spark query"
    SINK = "a Spark sink"
    PROGRAM = "a Spark program"
    HOSTED = "a pipeline on Spark"
    CODE = "your code by itself"
    """Only a replay file is about it: a pipeline's search reviews the code."""


class SearchKind(Enum):
    """The kinds of search of a pipeline."""

    RANDOM = "random"
    ENUMERATE = "enumerate"
    PAIRS = "pairs"
    EXHAUSTIVE = "exhaustive"
    LINEAGE = "lineage"
    PCT = "pct"


_PIPELINE = frozenset({TargetKind.PIPELINE})
_PROGRAM = frozenset({TargetKind.PROGRAM})
_NAMED = frozenset({TargetKind.QUERY, TargetKind.SINK})
_SPARK = _NAMED | _PROGRAM
_QUERY = frozenset({TargetKind.QUERY}) | _PROGRAM
_SCHEDULED = _QUERY | _PIPELINE
_RANDOM = frozenset({SearchKind.RANDOM, SearchKind.PCT})
_SCOPE = frozenset({SearchKind.EXHAUSTIVE, SearchKind.LINEAGE})


@dataclass(frozen=True, slots=True)
class Heeded:
    """A row of a table of options.

    Attributes:
        kinds: The kinds of targets that heed the option.
        why: Why the others do not.
        searches: The searches of a pipeline that heed it.

    """

    kinds: frozenset[TargetKind] = frozenset(TargetKind)
    why: str = ""
    searches: frozenset[SearchKind] = frozenset(SearchKind)


_OWN_FAULTS = "it is tried under schedules and faults of its own"
_HERE = "it is tried on this machine, simulated or on the Spark that is installed"
_SPARK_HAS_IT = "only a Spark job has it"
_NO_PROGRAM = "only a program has it"
_KEEPS_STATE = "only a Spark query keeps state"
_NO_HISTORY = "it has no History"
_ONE_RUN = "it is one run, and no moment of it decides"
_SEARCHED = Heeded(_PIPELINE, _OWN_FAULTS)
_SCOPED = Heeded(_PIPELINE, _OWN_FAULTS, _SCOPE)
_SHOWN = Heeded(_PIPELINE, _NO_HISTORY)

OPTIONS: Mapping[str, Heeded] = {
    "pipeline": Heeded(),
    "search": _SEARCHED,
    "examples": Heeded(
        _SCHEDULED,
        "every fault at each of its effects is tried, and nothing of it runs under schedules",
        frozenset(SearchKind) - {SearchKind.ENUMERATE},
    ),
    "until_quiet": Heeded(_PIPELINE, _OWN_FAULTS, _RANDOM),
    "minutes": Heeded(_PIPELINE, _OWN_FAULTS, _RANDOM | _SCOPE),
    "seed": Heeded(),
    "feeds": Heeded(_PIPELINE, "all its schedules run on one input, which --seed and --feed choose"),
    "depth": Heeded(_PIPELINE, _OWN_FAULTS, frozenset({SearchKind.PCT})),
    "resume": _SCOPED,
    "outside": _SEARCHED,
    "code_timeout": Heeded(),
    "records": _SCOPED,
    "faults": _SCOPED,
    "delays": Heeded(_PIPELINE, _OWN_FAULTS, frozenset({SearchKind.EXHAUSTIVE})),
    "workers": _SCOPED,
    "fault_kinds": _SCOPED,
    "scope": Heeded(_PIPELINE, _OWN_FAULTS, frozenset({SearchKind.EXHAUSTIVE})),
    "options": Heeded(_PIPELINE, _OWN_FAULTS, _RANDOM),
    "protocol": Heeded(_PIPELINE, "Spark runs it, and no protocol of Headrace"),
    "jobs": Heeded(),  # at most so many processes: one is enough
    "on": Heeded(),
    "master": Heeded(_PIPELINE, _HERE),
    "version": Heeded(_SCHEDULED, "it keeps no state that another version could go on with"),
    "feed": Heeded(),
    "promise": Heeded(),
    "promises": Heeded(),
    "without": Heeded(_PIPELINE, "Spark runs it, and no protocol of Headrace"),
    "allow_unknown": Heeded(),
    "save": Heeded(),
    "html": Heeded(),
    "history": Heeded(_PIPELINE, _NO_HISTORY),
    "failures": Heeded(),
    "schema": Heeded(_SPARK, _SPARK_HAS_IT),
    "sample": Heeded(_SPARK, "its input is its feed"),
    "prepare": Heeded(_SPARK, _SPARK_HAS_IT),
    "allow": Heeded(),  # not all of its names: see `check_allowed`
    "duplicates": Heeded(_SPARK, _SPARK_HAS_IT),
    "keys": Heeded(_SPARK, "only a sink has tables"),
    "arguments": Heeded(_PROGRAM, _NO_PROGRAM),
    "args": Heeded(_PROGRAM, _NO_PROGRAM),
    "module": Heeded(_PROGRAM, _NO_PROGRAM),
    "env": Heeded(_PROGRAM, _NO_PROGRAM),
    "stand_in": Heeded(_PROGRAM, _NO_PROGRAM),
    "stand_ins": Heeded(_PROGRAM, _NO_PROGRAM),
    "query": Heeded(_PROGRAM, _NO_PROGRAM),
    "postgres": Heeded(_SPARK | {TargetKind.HOSTED}, _SPARK_HAS_IT),
    "allow_writes": Heeded(_SPARK | {TargetKind.HOSTED}, _SPARK_HAS_IT),
    "allow_network": Heeded(_SPARK | {TargetKind.HOSTED}, _SPARK_HAS_IT),
    "batches": Heeded(_SPARK, _SPARK_HAS_IT),
    "running": Heeded(_SPARK, _SPARK_HAS_IT),
    "repeated": Heeded(_SPARK, _SPARK_HAS_IT),
    "settings": Heeded(_SPARK, _SPARK_HAS_IT),
    "new_checkpoint": Heeded(_SPARK, _SPARK_HAS_IT),
    "source": Heeded(),
    "late": Heeded(_QUERY, _KEEPS_STATE),
    "bounded_by": Heeded(_QUERY, _KEEPS_STATE),
    "strict": Heeded(),
    "force": Heeded(),
    "verbose": Heeded(),
    "json": Heeded(),
}
"""A row for each option of ``headrace verify``, and for each argument of ``headrace_verify``."""

REPLAY_OPTIONS: Mapping[str, Heeded] = {
    "file": Heeded(),
    "explain": Heeded(),
    "html": Heeded(),
    "svg": _SHOWN,
    "perfetto": _SHOWN,
    "force": Heeded(),
    "pipeline": Heeded(),
    "promise": Heeded(_PIPELINE, "its file names what it breaks"),
    "until": _SHOWN,
    "history": _SHOWN,
    "trust": Heeded(),
    "when": Heeded(_PIPELINE, _ONE_RUN),
    "jobs": Heeded(_PIPELINE, _ONE_RUN),
    "code_timeout": Heeded(),
    "env": Heeded(_SPARK, _NO_PROGRAM),
    "allow": Heeded(),
    "json": Heeded(),
}
"""A row for each option of ``headrace replay``."""

EFFECT = "effect"
"""What a user calls effects outside the process, which any target may be allowed."""
ORDER = "order"
"""What a user calls the order of arrival, on which a job's outcome may be allowed to depend."""
OF_A_SINK = frozenset(
    {EFFECT, ORDER, "alike", "batching", "duplicates", "evaluated", "loss", "repeated", "settings"}
)
"""What a sink may be allowed: what its undisturbed run leaves out, what it does again, and its query's settings."""


def check_allowed(names: Iterable[str], kind: TargetKind) -> None:
    """Refuse what cannot be allowed for a kind of target.

    Raises:
        OptionsError: There is something.

    """
    known = {
        TargetKind.PIPELINE: frozenset({EFFECT}),
        TargetKind.HOSTED: frozenset({EFFECT, ORDER}),
        TargetKind.SINK: OF_A_SINK,
    }
    for name in names:
        if kind in known and name not in known[kind]:
            raise OptionsError(
                "allow", name, f"left out for {kind.value}, which takes {', '.join(sorted(known[kind]))}"
            )


def refuse_unheeded(
    table: Mapping[str, Heeded],
    options: Mapping[str, object],
    kind: TargetKind,
    search: SearchKind = SearchKind.RANDOM,
) -> None:
    """Refuse the first option that would have no effect.

    Args:
        table: `OPTIONS` or `REPLAY_OPTIONS`.
        options: The value of each option that the user gives, by its name in the table.
        kind: What is verified, or run again.
        search: How a pipeline is searched.

    Raises:
        OptionsError: There is one.

    """
    for name, value in options.items():
        row = table[name]
        if kind not in row.kinds:
            raise OptionsError(name, value, f"left out for {kind.value}: {row.why}")
        if kind is TargetKind.PIPELINE and search not in row.searches:
            names = " or ".join(each.value for each in SearchKind if each in row.searches)
            raise OptionsError(name, value, f"given with search={names}")
