"""Fault coverage: (role, protocol step, fault), counted from a History, whatever planned the faults.

A search that has crashed workers a thousand times, but never between a write and its ACK, has not tested that case.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import NamedTuple

from headrace.history import Event, FaultStruck, History, StepReached
from headrace_sim.steps import MESSAGES, role_of

_ENDS = frozenset({"restart", "revive"})
"""Logged effects that end a fault instead of being one."""

_MESSAGES = frozenset(MESSAGES)


class Spot(NamedTuple):
    """One fault at one protocol step of one kind of process.

    Attributes:
        role: worker, master, authority, injector, or ``anybody`` where a fault names no process.
        step: what the process was doing: ``sends Write`` if a message was struck or the fault was tied to the step; else the
            last thing that the History tells of it, such as ``after Executed``.
        fault: the verb.
    """

    role: str
    step: str
    fault: str


def covered(history: Iterable[Event]) -> Counter[Spot]:
    """Count which faults took effect where in a run. A fault that found nothing to affect at its step is not counted."""
    spots: Counter[Spot] = Counter()
    last: dict[str, str] = {}
    awaited: defaultdict[str, list[Spot]] = defaultdict(list)
    for event in history:
        if type(event) is FaultStruck:
            if event.kind not in _ENDS:
                verb = _verb(event.kind)
                tied = awaited[verb]
                spots[tied.pop(0) if tied else _spot(event, last)] += 1
        elif type(event) is StepReached:
            awaited[event.fault].append(Spot(role_of(event.process), event.step, event.fault))
        else:
            last[event.process] = type(event).__name__
    return spots


def strikes_of(history: History) -> Counter[str]:
    """Count the faults that took effect in a run, by kind."""
    return Counter(event.kind for event in history if type(event) is FaultStruck and event.kind not in _ENDS)


def _verb(kind: str) -> str:
    """Return the kind of a fault's effect; noise has several."""
    return "noise" if kind.startswith("noise_") else kind


def _spot(strike: FaultStruck, last: dict[str, str]) -> Spot:
    """Return where a fault took effect; the network notes the affected message in the detail."""
    message = strike.detail.partition(" ")[0]
    if message in _MESSAGES and strike.kind != "operate":
        step = f"sends {message}"
    elif not strike.process:
        step = "any time"
    else:
        step = f"after {last.get(strike.process, 'nothing')}"
    return Spot(role_of(strike.process), step, strike.kind)
