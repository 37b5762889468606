"""Estimate what a search has not seen: the curve of new behaviour over its runs, and the chance that the next run adds to it.

The chance is the Good-Turing estimate for runs that each show several things: the share of runs that showed something no other
run did. One is added to their number, so that a few runs never look quiet.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from headrace.history import Delivered, DuplicateDropped, Event, Executed, UserCodeFailed
from headrace_properties.search.coverage import Spot

_OFTEN = -1
"""Stands in for the run that showed something, if there are several."""

_POINTS = 20
"""Number of points of the curve."""


@dataclass(slots=True)
class Novelty:
    """What the runs have shown so far.

    Attributes:
        seen: after each run, the number of different things seen.
    """

    seen: list[int] = field(default_factory=list)
    _shown_by: dict[str, int] = field(default_factory=dict)

    @property
    def runs(self) -> int:
        """The number of runs."""
        return len(self.seen)

    @property
    def things(self) -> int:
        """The number of different things that the runs have shown."""
        return len(self._shown_by)

    @property
    def chance(self) -> float:
        """An estimate of the chance that the next run shows something new.

        >>> novelty = Novelty()
        >>> for things in (["a", "b"], ["a", "c"], ["a", "b"]):
        ...     novelty.take(things)
        >>> novelty.things, novelty.chance
        (3, 0.5)
        """
        alone = {run for run in self._shown_by.values() if run != _OFTEN}
        return (len(alone) + 1) / (self.runs + 1)

    @property
    def curve(self) -> list[tuple[int, int]]:
        """Some points of the curve: (runs, different things seen)."""
        step = max(1, -(-self.runs // _POINTS))
        numbers = sorted({1, *range(step, self.runs + 1, step), self.runs} - {0}) if self.runs else []
        return [(number, self.seen[number - 1]) for number in numbers]

    def take(self, things: Iterable[str]) -> None:
        """Add a run."""
        run = self.runs
        for thing in things:
            before = self._shown_by.setdefault(thing, run)
            if before not in (run, _OFTEN):
                self._shown_by[thing] = _OFTEN
        self.seen.append(len(self._shown_by))


def behaviour(history: Iterable[Event], spots: Iterable[Spot]) -> frozenset[str]:
    """Name what a run has shown: which fault took effect where, and which event followed which at a key of a computation.

    Args:
        history: of the run.
        spots: where faults took effect in it.
    """
    last: dict[tuple[str, str], str] = {}
    successions: set[tuple[str, str | None, str]] = set()
    for event in history:
        kind_of = _KINDS.get(type(event))
        if kind_of is not None:
            kind = kind_of(event)
            place = (event.computation, event.key)  # type: ignore[union-attr]  # these events have both
            successions.add((event.computation, last.get(place), kind))  # type: ignore[union-attr]
            last[place] = kind
    spoken = {
        f"{computation}: {before or 'nothing'}, then {kind}" for computation, before, kind in successions
    }
    return frozenset(spoken | {" ".join(spot) for spot in spots})


def _run_kind(event: Executed) -> str:
    if event.timer is not None:
        return "timer run"
    return "late record run" if event.late else "record run"


_KINDS: dict[type, Callable[[Any], str]] = {
    Delivered: lambda _: "delivered",
    DuplicateDropped: lambda event: f"duplicate by {event.by}",
    Executed: _run_kind,
    UserCodeFailed: lambda _: "code failed",
}
