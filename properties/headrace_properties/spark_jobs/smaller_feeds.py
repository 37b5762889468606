"""The smallest feed and schedule that still show what was found: leave out rows, faults and cuts as long as it shows."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from headrace_properties.shrinking import Budget, Shrinker, smallest
from headrace_sim.spark.query.schedules import Feed, Schedule

TRIES = 300
"""Choice: the number of feeds and schedules to try."""

Fails = Callable[[tuple[int, ...], Schedule], bool]
"""Returns whether a run of these rows of the feed, under this schedule, still shows it."""


def narrowed(feed: Feed, kept: Collection[int] | None) -> list[list[tuple[object, ...]]]:
    """Return the feed with some of its rows, numbered from 0 over all batches. Empty batches stay: a schedule counts them."""
    numbers = iter(range(sum(map(len, feed))))
    return [
        [row for row in batch if next(numbers) in kept] if kept is not None else list(batch) for batch in feed
    ]


def shrunk(
    rows: int, schedule: Schedule, fails: Fails, tries: int = TRIES
) -> tuple[tuple[int, ...], Schedule]:
    """Return the remaining rows and schedule. Unless tries ran out, no single part of them can be left out.

    Args:
        rows: How many the feed has.
        schedule: What failed.
        fails: Tells whether it still does.
        tries: How often that is asked at most.

    """
    ways = (_fewer_rows, _fewer_items, _merge_cuts, _lower_numbers)
    return smallest((tuple(range(rows)), schedule), lambda both: fails(*both), ways, Budget(tries))


_Candidate = tuple[tuple[int, ...], Schedule]
_Smaller = Shrinker[_Candidate]


def _fewer_rows(shrinker: _Smaller) -> None:
    """Leave out rows, the last ones first."""
    kept, schedule = shrinker.best
    shrinker.leave_out(kept, lambda rows: (rows, schedule), least=1, order=reversed)


_LISTS = {"faults": 1, "steps_ms": 0, "delayed": 0, "twice": 0, "idle_after": 0}
"""Fields of a schedule from which items can be left out, and how many must stay."""


def _fewer_items(shrinker: _Smaller) -> None:
    for name, least in _LISTS.items():
        _fewer_of(shrinker, name, least)


def _fewer_of(shrinker: _Smaller, name: str, least: int) -> None:
    items = getattr(shrinker.best[1], name)
    kind = type(items)
    parts = sorted(items) if kind is frozenset else items
    shrinker.leave_out(parts, lambda some: _with(shrinker, **{name: kind(some)}), least=least)


def _merge_cuts(shrinker: _Smaller) -> None:
    """Make one batch of two."""
    place = 0
    while place + 1 < len(cuts := shrinker.best[1].cuts or ()):
        merged = (*cuts[:place], cuts[place] + cuts[place + 1], *cuts[place + 2 :])
        if not shrinker.tries(_with(shrinker, cuts=merged)):
            place += 1


def _lower_numbers(shrinker: _Smaller) -> None:
    """Let rows come from earlier places, and batches be smaller: each number by one, as long as it shows."""
    for name in ("delayed", "twice", "cuts"):
        for place, number in enumerate(getattr(shrinker.best[1], name) or ()):
            for lower in reversed(range(number)):
                numbers = getattr(shrinker.best[1], name)
                changed = (*numbers[:place], lower, *numbers[place + 1 :])
                if not shrinker.tries(_with(shrinker, **{name: changed})):
                    break


def _with(shrinker: _Smaller, **changes: Any) -> _Candidate:
    """Change the schedule of the smallest so far."""
    kept, schedule = shrinker.best
    return kept, replace(schedule, **changes)
