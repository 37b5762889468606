"""The smallest feed and schedule that still show what was found: rows, faults and cuts are left out as long as it does."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace

from headrace_sim.spark.schedules import Feed, Schedule

TRIES = 300
"""Choice: how many feeds and schedules are tried."""

Fails = Callable[[tuple[int, ...], Schedule], bool]
"""Tells whether a run of these rows of the feed, under this schedule, still shows it."""


def narrowed(feed: Feed, kept: Collection[int] | None) -> list[list[tuple[object, ...]]]:
    """Return the feed with some of its rows, numbered from 0 over all batches. Empty batches stay: a schedule counts them."""
    numbers = iter(range(sum(map(len, feed))))
    return [
        [row for row in batch if next(numbers) in kept] if kept is not None else list(batch) for batch in feed
    ]


def shrunk(
    rows: int, schedule: Schedule, fails: Fails, tries: int = TRIES
) -> tuple[tuple[int, ...], Schedule]:
    """Return the rows and the schedule that are left. Nothing that is left can be left out alone, unless tries ran out.

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
    """Half of the rows, a quarter of them, and so on; then one thing of the schedule."""
    size = len(kept) // 2
    while size:
        for start in reversed(range(0, len(kept), size)):
            fewer = kept[:start] + kept[start + size :]
            if fewer:
                yield fewer, schedule
        size //= 2
    for fault in schedule.faults if len(schedule.faults) > 1 else ():
        yield kept, replace(schedule, faults=tuple(one for one in schedule.faults if one is not fault))
    for batch in sorted(schedule.idle_after):
        yield kept, replace(schedule, idle_after=schedule.idle_after - {batch})
    cuts = schedule.cuts or ()
    for place in range(len(cuts) - 1):
        yield kept, replace(schedule, cuts=(*cuts[:place], cuts[place] + cuts[place + 1], *cuts[place + 2 :]))
    for place, size in enumerate(cuts):
        if size:
            yield kept, replace(schedule, cuts=(*cuts[:place], size - 1, *cuts[place + 1 :]))
