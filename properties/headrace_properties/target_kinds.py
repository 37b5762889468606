"""The kinds of targets, and what each of them heeds: an option that it does not heed is refused, and never ignored."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from headrace import OptionsError


class TargetKind(Enum):
    """What is verified."""

    PIPELINE = "a pipeline"
    QUERY = "a Spark query"
    SINK = "a Spark sink"


PIPELINE, SPARK = frozenset({TargetKind.PIPELINE}), frozenset({TargetKind.QUERY, TargetKind.SINK})
QUERY, ALL = frozenset({TargetKind.QUERY}), frozenset(TargetKind)


@dataclass(frozen=True, slots=True)
class Heeded:
    """A row of a table of options.

    Attributes:
        kinds: The kinds of targets that heed the option.
        why: Why the others do not.

    """

    kinds: frozenset[TargetKind] = ALL
    why: str = ""


OWN_FAULTS = "it is tried under schedules and faults of its own"
ONE_INPUT = "all its schedules run on one input, which --seed and --feed choose"
SPARK_HAS_IT = "only a Spark job has it"
EACH_EFFECT = "every fault at each of its effects is tried, and nothing of it runs under schedules"
"""Reasons that several rows give."""

EFFECT = "effect"
"""What a user calls effects outside the process, which any target may be allowed."""
OF_A_SINK = frozenset({EFFECT, "batching", "loss", "order"})
"""What a sink may be allowed: what its undisturbed run leaves out, and why."""


def check_allowed(names: Iterable[str], kind: TargetKind) -> None:
    """Refuse what cannot be allowed for a kind of target.

    Raises:
        OptionsError: There is something.

    """
    known = {TargetKind.PIPELINE: frozenset({EFFECT}), TargetKind.SINK: OF_A_SINK}
    for name in names:
        if kind in known and name not in known[kind]:
            raise OptionsError(
                "allow", name, f"left out for {kind.value}, which takes {', '.join(sorted(known[kind]))}"
            )


def refuse_unheeded(
    table: Mapping[str, Heeded], given: Iterable[tuple[str, str, object]], kind: TargetKind
) -> None:
    """Refuse the first option that would have no effect.

    Args:
        table: What each option is heeded by, by its name.
        given: The name in the table, the name to show, and the value, of each option that the user gives.
        kind: What is verified.

    Raises:
        OptionsError: There is one.

    """
    for name, shown, value in given:
        if kind not in table[name].kinds:
            raise OptionsError(shown, value, f"left out for {kind.value}: {table[name].why}")
