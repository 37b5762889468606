"""What leads to something, step by step: the one walk behind every account of causes."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

ThingT = TypeVar("ThingT", bound=Hashable)


def closure(of: Iterable[ThingT], before: Callable[[ThingT], Iterable[ThingT | None]]) -> dict[ThingT, None]:
    """Return some things and all that comes before them, each once, in the order in which the walk meets them.

    The walk goes from the last of them into the depth.

    >>> made_of = {"loaf": ["flour", "water"], "flour": ["wheat"]}
    >>> list(closure(["loaf"], lambda thing: made_of.get(thing, [])))
    ['loaf', 'water', 'flour', 'wheat']

    Args:
        of: the things.
        before: gives what comes right before a thing; ``None`` is nothing.
    """
    met: dict[ThingT, None] = {}
    waiting = list[ThingT | None](of)
    while waiting:
        thing = waiting.pop()
        if thing is not None and thing not in met:
            met[thing] = None
            waiting += before(thing)
    return met
