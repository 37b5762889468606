"""Make what shows something as small as possible (delta debugging; Zeller and Hildebrandt 2002): one driver for all targets.

What is made small, and how it becomes smaller, is up to the caller: a plan and its input, a schedule and its feed, records alone.
"""

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Generic, TypeVar

ThingT = TypeVar("ThingT")
PartT = TypeVar("PartT")


@dataclass(frozen=True, slots=True)
class Budget:
    """What shrinking may take.

    Attributes:
        runs: how many.
        cpu_s: CPU time of this process, seconds: a busy machine tries as much. Without a time limit the result is the same on
            every machine.
    """

    runs: int
    cpu_s: float = math.inf


class Shrinker(Generic[ThingT]):
    """The smallest thing so far, and the rest of the budget.

    Args:
        thing: what shows it.
        shows: tells whether a smaller one still does.
        budget: how often that is asked at most.

    Attributes:
        best: the smallest so far.
    """

    def __init__(self, thing: ThingT, shows: Callable[[ThingT], bool], budget: Budget) -> None:
        self.best = thing
        self._shows = shows
        self._runs_left = budget.runs
        self._until_s = time.process_time() + budget.cpu_s

    @property
    def spent(self) -> bool:
        """Whether the budget is spent."""
        return self._runs_left <= 0 or time.process_time() >= self._until_s

    def tries(self, candidate: ThingT) -> bool:
        """Try a candidate; keep it if it shows the same."""
        if self.spent or candidate == self.best:
            return False
        self._runs_left -= 1
        if not self._shows(candidate):
            return False
        self.best = candidate
        return True

    def leave_out(
        self,
        parts: Sequence[PartT],
        rest: Callable[[tuple[PartT, ...]], ThingT],
        *,
        least: int = 0,
        order: Callable[[range], Iterable[int]] = iter,
    ) -> None:
        """Leave out parts, all first, then halves, then smaller ones, as long as the rest still shows it.

        Args:
            parts: of the smallest so far.
            rest: makes a candidate of the parts that are left.
            least: keep at least so many.
            order: in which to try them; `reversed`: the last ones first.
        """
        size, parts = len(parts), tuple(parts)
        while size:
            chunks = [parts[begin : begin + size] for begin in range(0, len(parts), size)]
            for place in order(range(len(chunks))):
                fewer = tuple(chain(*chunks[:place], *chunks[place + 1 :]))
                if len(fewer) >= least and self.tries(rest(fewer)):
                    chunks[place], parts = (), fewer
            size //= 2


def smallest(
    thing: ThingT,
    shows: Callable[[ThingT], bool],
    ways: Iterable[Callable[[Shrinker[ThingT]], None]],
    budget: Budget,
) -> ThingT:
    """Return the smallest thing found that still shows something.

    Args:
        thing: what shows it.
        shows: tells whether a smaller one still does.
        ways: try to make the smallest so far smaller, in turn, until none of them gets anywhere.
        budget: how often ``shows`` is asked at most.
    """
    shrinker, ways, before = Shrinker(thing, shows, budget), tuple(ways), None
    while before != shrinker.best and not shrinker.spent:
        before = shrinker.best
        for smaller in ways:
            smaller(shrinker)
    return shrinker.best


def fewest(
    parts: tuple[PartT, ...], shows: Callable[[tuple[PartT, ...]], bool], budget: Budget
) -> tuple[PartT, ...]:
    """Return the fewest parts found that still show something. ``budget``: how often ``shows`` is asked at most.

    >>> fewest((1, 2, 3, 4, 5), lambda parts: {2, 5} <= {*parts}, Budget(100))
    (2, 5)
    """

    def fewer(shrinker: Shrinker[tuple[PartT, ...]]) -> None:
        shrinker.leave_out(shrinker.best, tuple)

    return smallest(parts, shows, [fewer], budget)
