"""What Python functions give to the frames of a batch: Spark evaluates a frame anew for each action on it.

Only what a function gave for the same values at the first action, and otherwise at a later one, is told.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

_LEAST = 8
"""Choice: how many characters a result has at least, so that it is told apart from others where it is left."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A function's results that differ between two actions of one batch, as text, in the order of rows."""

    function: str
    place: str  # ``file:line`` of its call
    first: tuple[str, ...]  # those of the earlier action alone
    later: tuple[str, ...]


@dataclass(slots=True)
class _Batch:
    """By function, its place, and what it is given: its results at each action."""

    action: int = 0
    results: dict[tuple[str, str, str], dict[int, Counter[str]]] = field(default_factory=dict)


_batch: _Batch | None = None


def begin_noting() -> None:
    """Note the results of a batch from here on, and forget those before."""
    global _batch  # noqa: PLW0603  a process runs one batch at a time
    _batch = _Batch()


def begin_action() -> None:
    """Tell what follows apart from what came before."""
    if _batch is not None:
        _batch.action += 1


def note_result(function: str, place: str, arguments: Any, result: Any) -> None:
    """Note what a function gave."""
    if _batch is not None:
        actions = _batch.results.setdefault((function, place, repr(arguments)), {})
        actions.setdefault(_batch.action, Counter())[str(result)] += 1


def note_rows(
    function: Callable[..., Any], place: str, arguments: Any, rows: Iterable[Iterable[Any]]
) -> None:
    """Note the rows that a function from frames to frames gave for those of a partition or a group."""
    if _batch is not None:
        text = repr(arguments)
        for value in (value for row in rows for value in row):
            note_result(getattr(function, "__name__", "a function"), place, text, value)


def differing() -> Iterator[Evaluated]:
    """Yield what was noted of functions whose results differ between two actions."""
    differences: dict[tuple[str, str], tuple[list[str], list[str]]] = {}
    for (function, place, _), actions in (_batch or _Batch()).results.items():
        one, *others = actions.values()
        for other in others:
            first, later = (
                [text for text in part if len(text) >= _LEAST] for part in (one - other, other - one)
            )
            if first and later:
                results = differences.setdefault((function, place), ([], []))
                results[0].extend(first)
                results[1].extend(later)
    for (function, place), (first, later) in differences.items():
        yield Evaluated(function, place, tuple(first), tuple(later))
