"""Combiners (Dataflow 2.3, 2.4): *what* is computed of a pane's contents.

A combiner that can be reversed (``uncombine``) takes retractions in by itself. For one that can not, a grouping that may get
retractions keeps the values, and combines those that are left anew.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


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
