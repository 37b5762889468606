"""The smallest feed and schedule that still show what was found: leave out rows, faults and cuts as long as it shows."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import TypeVar

from headrace_sim.spark.schedules import Feed, Schedule

TRIES = 300
"""Choice: the number of feeds and schedules to try."""

Item = TypeVar("Item")
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
    kept = tuple(range(rows))
    smaller = True
    while smaller:
        smaller = False
        for fewer, simpler in _smaller(kept, schedule):
            tries -= 1
            if tries < 0:
                return kept, schedule
            if fails(fewer, simpler):
                kept, schedule, smaller = fewer, simpler, True
                break
    return kept, schedule


def _smaller(kept: tuple[int, ...], schedule: Schedule) -> Iterator[tuple[tuple[int, ...], Schedule]]:
    """Yield candidates without half of the rows, a quarter of them, and so on; then without one part of the schedule."""
    size = len(kept) // 2
    while size:
        for start in reversed(range(0, len(kept), size)):
            fewer = kept[:start] + kept[start + size :]
            if fewer:
                yield fewer, schedule
        size //= 2
    yield from ((kept, simpler) for simpler in _simpler(schedule))


def _simpler(schedule: Schedule) -> Iterator[Schedule]:
    if len(schedule.faults) > 1:
        yield from (replace(schedule, faults=faults) for faults in _without_one(schedule.faults))
    yield from (replace(schedule, steps_ms=steps) for steps in _without_one(schedule.steps_ms))
    yield from (
        replace(schedule, delayed=rows)
        for rows in (*_without_one(schedule.delayed), *_earlier(schedule.delayed))
    )
    yield from (
        replace(schedule, twice=rows) for rows in (*_without_one(schedule.twice), *_earlier(schedule.twice))
    )
    yield from (
        replace(schedule, idle_after=schedule.idle_after - {batch}) for batch in sorted(schedule.idle_after)
    )
    cuts = schedule.cuts or ()
    for place in range(len(cuts) - 1):
        yield replace(schedule, cuts=(*cuts[:place], cuts[place] + cuts[place + 1], *cuts[place + 2 :]))
    yield from (replace(schedule, cuts=fewer) for fewer in _earlier(cuts))


def _without_one(items: tuple[Item, ...]) -> Iterator[tuple[Item, ...]]:
    yield from (items[:place] + items[place + 1 :] for place in range(len(items)))


def _earlier(numbers: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Yield each schedule with one number decreased by one."""
    for place, number in enumerate(numbers):
        if number:
            yield (*numbers[:place], number - 1, *numbers[place + 1 :])
