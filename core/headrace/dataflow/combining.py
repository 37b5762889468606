"""Combiners (Dataflow 2.3, 2.4): *what* is computed of a pane's contents.

A combiner that can be reversed (``uncombine``) takes retractions in by itself. For one that can not, a grouping that may get
retractions keeps the values, and combines those that are left anew.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from headrace.dataflow.arguments import check_count, check_function


def _itself(accumulator: Any) -> Any:
    return accumulator


@dataclass(frozen=True, slots=True)
class CombineFn:
    """An associative and commutative aggregation (2.3). Accumulators are JSON-like, and may be changed in place.

    Attributes:
        create: makes the accumulator of nothing.
        add: takes (accumulator, value), and returns the accumulator.
        merge: takes two accumulators, and returns one.
        extract: makes the pane's value of an accumulator.
        uncombine: takes (accumulator, value), and returns the accumulator without a value that was added, or will be; ``None``:
            it can not be reversed.
    """

    create: Callable[[], Any]
    add: Callable[[Any, Any], Any]
    merge: Callable[[Any, Any], Any]
    extract: Callable[[Any], Any] = _itself
    uncombine: Callable[[Any, Any], Any] | None = None

    def __post_init__(self) -> None:
        """Refuse what can not be called."""
        for option in ("create", "add", "merge", "extract"):
            check_function(option, getattr(self, option))
        if self.uncombine is not None:
            check_function("uncombine", self.uncombine)


def _zero() -> int:
    return 0


def _plus(accumulator: Any, value: Any) -> Any:
    return accumulator + value


def _minus(accumulator: Any, value: Any) -> Any:
    return accumulator - value


SUM = CombineFn(_zero, _plus, _plus, uncombine=_minus)
"""The sum of the values. Sums of ``float`` round, also when something is taken back."""


def _one_more(accumulator: int, _value: Any) -> int:
    return accumulator + 1


def _one_less(accumulator: int, _value: Any) -> int:
    return accumulator - 1


COUNT = CombineFn(_zero, _one_more, _plus, uncombine=_one_less)
"""How many values there are."""


def _mean(accumulator: list[Any]) -> float | None:
    total, count = accumulator
    return total / count if count else None


MEAN = CombineFn(
    lambda: [0, 0],
    lambda accumulator, value: [accumulator[0] + value, accumulator[1] + 1],
    lambda one, other: [one[0] + other[0], one[1] + other[1]],
    _mean,
    lambda accumulator, value: [accumulator[0] - value, accumulator[1] - 1],
)
"""Their mean; ``None`` of nothing."""


def _nothing() -> None:
    return None


def _least(one: Any, other: Any) -> Any:
    return other if one is None or (other is not None and other < one) else one


def _greatest(one: Any, other: Any) -> Any:
    return other if one is None or (other is not None and other > one) else one


MIN = CombineFn(_nothing, _least, _least)
"""The least value; ``None`` of nothing."""

MAX = CombineFn(_nothing, _greatest, _greatest)
"""The greatest value; ``None`` of nothing."""


def _append(accumulator: list[Any], value: Any) -> list[Any]:
    accumulator.append(value)
    return accumulator


LIST = CombineFn(list, _append, lambda one, other: [*one, *other])
"""The values themselves, in no order that one may rely on: a plain ``GroupByKeyAndWindow``."""


def top(count: int) -> CombineFn:
    """Make a combiner of the greatest values, the greatest first.

    >>> combine = top(2)
    >>> combine.merge(combine.add(combine.create(), 3), [7, 5])
    [7, 5]

    Args:
        count: how many of them, at least 1.

    Raises:
        OptionsError: it is not.
    """
    check_count("count", count)

    def merge(one: list[Any], other: list[Any]) -> list[Any]:
        return sorted([*one, *other], reverse=True)[:count]

    return CombineFn(list, lambda accumulator, value: merge(accumulator, [value]), merge)
