"""Combiners (Dataflow 2.3, 2.4): *what* is computed from a pane's contents.

A reversible combiner (one with ``uncombine``) handles retractions itself. For any other combiner, a grouping that may receive
retractions keeps the values, and combines the remaining ones again.
"""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import msgspec

from headrace.dataflow.arguments import check_count, check_function


def _itself(accumulator: Any) -> Any:
    return accumulator


@dataclass(frozen=True, slots=True)
class CombineFn:
    """An associative and commutative aggregation (2.3). Accumulators are JSON-like and may be changed in place.

    Attributes:
        create: returns an empty accumulator.
        add: takes (accumulator, value) and returns the accumulator.
        merge: takes two accumulators and returns one.
        extract: takes an accumulator and returns the pane's value.
        uncombine: takes (accumulator, value) and returns the accumulator without that value, which was added before or will be
            added later; ``None``: not reversible.
    """

    create: Callable[[], Any]
    add: Callable[[Any, Any], Any]
    merge: Callable[[Any, Any], Any]
    extract: Callable[[Any], Any] = _itself
    uncombine: Callable[[Any, Any], Any] | None = None

    def __post_init__(self) -> None:
        for option in ("create", "add", "merge", "extract"):
            check_function(option, getattr(self, option))
        if self.uncombine is not None:
            check_function("uncombine", self.uncombine)


SUM = CombineFn(int, operator.add, operator.add, uncombine=operator.sub)
"""The sum of the values. Sums of ``float`` are subject to rounding, also when a value is retracted."""


def _one_more(accumulator: int, _value: Any) -> int:
    return accumulator + 1


def _one_less(accumulator: int, _value: Any) -> int:
    return accumulator - 1


COUNT = CombineFn(int, _one_more, operator.add, uncombine=_one_less)
"""The number of values."""


def _mean(accumulator: list[Any]) -> float | None:
    total, count = accumulator
    return total / count if count else None


MEAN = CombineFn(
    lambda: [0, 0],
    lambda accumulator, value: [accumulator[0] + value, accumulator[1] + 1],
    lambda left, right: [left[0] + right[0], left[1] + right[1]],
    _mean,
    lambda accumulator, value: [accumulator[0] - value, accumulator[1] - 1],
)
"""The mean of the values; ``None`` if there are none."""


def _nothing() -> None:
    return None


def _least(left: Any, right: Any) -> Any:
    return right if left is None or (right is not None and right < left) else left


def _greatest(left: Any, right: Any) -> Any:
    return right if left is None or (right is not None and right > left) else left


MIN = CombineFn(_nothing, _least, _least)
"""The smallest value; ``None`` if there are none."""

MAX = CombineFn(_nothing, _greatest, _greatest)
"""The greatest value; ``None`` if there are none."""


def _append(accumulator: list[Any], value: Any) -> list[Any]:
    accumulator.append(value)
    return accumulator


LIST = CombineFn(list, _append, lambda left, right: [*left, *right])
"""A list of the values in unspecified order: a plain ``GroupByKeyAndWindow``."""


def _json(value: Any) -> bytes:
    return msgspec.json.encode(value, order="deterministic")


def _sorted(values: list[Any]) -> list[Any]:
    return sorted(values, key=_json)


def _distinct(values: list[Any]) -> list[Any]:
    return [value for value, _ in groupby(_sorted(values))]


DISTINCT = CombineFn(
    list,
    lambda accumulator, value: accumulator if value in accumulator else [*accumulator, value],
    lambda left, right: [*left, *right],
    _distinct,
)
"""The different values, in the order of their JSON."""


def by_label(labels: Iterable[str]) -> CombineFn:
    """Make a combiner of [label, value] pairs: a dict of the values by label, each list in the order of the values' JSON."""
    known = tuple(labels)

    def add(accumulator: dict[str, list[Any]], pair: Any) -> dict[str, list[Any]]:
        label, value = pair
        accumulator[label].append(value)
        return accumulator

    return CombineFn(
        lambda: {label: [] for label in known},
        add,
        lambda left, right: {label: [*left[label], *right[label]] for label in known},
        lambda accumulator: {label: _sorted(accumulator[label]) for label in known},
    )


def top(count: int, *, key: Callable[[Any], Any] | None = None) -> CombineFn:
    """Make a combiner that lists the greatest values, greatest first.

    >>> combine = top(2)
    >>> combine.merge(combine.add(combine.create(), 3), [7, 5])
    [7, 5]

    Args:
        count: number of values to keep, at least 1.
        key: takes a value and returns what to compare, as for ``max``: ``top(1, key=...)`` is arg max. Of values that compare
            equal, those whose JSON sorts last come first, so that the result does not depend on the order of arrival.

    Raises:
        OptionsError: the count is not an int of at least 1.
    """
    check_count("count", count)
    if key is not None:
        check_function("key", key)

    def rank(value: Any) -> Any:
        return value if key is None else (key(value), _json(value))

    def merge(left: list[Any], right: list[Any]) -> list[Any]:
        return sorted([*left, *right], key=rank, reverse=True)[:count]

    return CombineFn(list, lambda accumulator, value: merge(accumulator, [value]), merge)
