"""The wakes that a process asks its host for."""

from bisect import insort
from collections.abc import Iterable

from headrace.wire.effects import Effect, Event, Wake, WakeAt


def take_wakes(wakes: list[int], now: int, event: Event, effects: Iterable[Effect]) -> list[Effect]:
    """Move the wakes that an event made a process ask for to a list, and return its other effects.

    Args:
        wakes: the times on its clock at which it will be woken, earliest first. A `Wake` ends those that have come.
        now: its clock, microseconds.
        event: what it has handled.
        effects: all that it returned.
    """
    if isinstance(event, Wake):
        wakes[:] = [at_us for at_us in wakes if at_us > now]
    others: list[Effect] = []
    for effect in effects:
        if isinstance(effect, WakeAt):
            insort(wakes, effect.at_us)
        else:
            others.append(effect)
    return others
