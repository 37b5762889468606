"""The network: latency for everybody, and what faults do to messages."""

import random
from collections.abc import Callable
from typing import Any

from millrace._messages import STORE, Message
from millrace.history import FaultStruck, History
from millrace_sim.faults import DropMessages, Hold, Noise, Partition


Send = Callable[[], None]
"""Sends a held message on its way."""


class _Rule:
    """A fault that is waiting for, or acting on, messages."""

    __slots__ = ("fault", "held", "left", "other", "side")

    def __init__(self, fault: Any) -> None:
        self.fault = fault
        self.left: int = getattr(fault, "count", 0)
        self.held: list[Send] = []
        self.side = frozenset(getattr(fault, "side", ()))
        self.other = frozenset(getattr(fault, "other", ()))


class Fate:
    """What becomes of a message: how often it arrives, and how much later than usual. Zero times: lost or held.

    ``held``: if it is held, where to leave word of how to send it on.
    """

    __slots__ = ("copies", "delay_us", "held")

    def __init__(self, copies: int = 1, delay_us: int = 0, held: list[Send] | None = None) -> None:
        self.copies = copies
        self.delay_us = delay_us
        self.held = held


_NORMAL = Fate()
_LOST = Fate(copies=0)


class Network:
    """Decides on each message. Nothing is decided, and nothing drawn, while no fault is active.

    Args:
        history: where strikes are written.
        source: of the draws for noise.

    Attributes:
        rules: the active faults by handle; while there are none, nobody need ask for a message's `fate`.
    """

    def __init__(self, history: History, source: random.Random) -> None:
        self._history = history
        self._random = source
        self.rules: dict[int, _Rule] = {}
        self._next = 0

    def begin(self, fault: Partition | Noise | Hold | DropMessages) -> int:
        """Let a fault act from now on; returns its handle."""
        self._next += 1
        self.rules[self._next] = _Rule(fault)
        return self._next

    def end(self, handle: int) -> list[Send]:
        """End a fault; returns what sends on what it held."""
        rule = self.rules.pop(handle, None)
        return rule.held if rule is not None else []

    def clear(self) -> None:
        """End every fault; what was held is lost."""
        self.rules.clear()

    def fate(self, source: str, target: str, message: Message) -> Fate:
        """Decide on one message."""
        fate = _NORMAL
        for handle, rule in list(self.rules.items()):
            match rule.fault:
                case Partition():
                    if self._cuts(rule, source, target):
                        return self._strike(rule, source, target, message, _LOST)
                case Noise() if STORE not in (source, target):
                    drawn = self._noise(rule.fault, source, target, message)
                    if drawn is not _NORMAL:
                        fate = self._strike(rule, source, target, message, drawn)
                        if not fate.copies:
                            return fate
                case Hold() | DropMessages() if self._matches(rule.fault, source, target, message):
                    rule.left -= 1
                    fate = _LOST
                    if isinstance(rule.fault, Hold):
                        fate = Fate(copies=0, held=rule.held)
                        if rule.left == 0:
                            rule.fault = _SPENT
                    elif rule.left == 0:
                        del self.rules[handle]
                    return self._strike(rule, source, target, message, fate)
        return fate

    def _strike(self, rule: _Rule, source: str, target: str, message: Message, fate: Fate) -> Fate:
        kind = rule.fault.kind if rule.fault is not _SPENT else "hold"
        if isinstance(rule.fault, Noise):
            kind = "noise_drop" if not fate.copies else "noise_duplicate" if fate.copies > 1 else "noise_delay"
        history = self._history
        history.record(FaultStruck(history.at_us, source, kind, f"{type(message).__name__} {source} -> {target}"))
        return fate

    @staticmethod
    def _cuts(rule: _Rule, source: str, target: str) -> bool:
        fault: Partition = rule.fault
        there = source in rule.side and (target in rule.other if rule.other else target not in rule.side)
        back = target in rule.side and (source in rule.other if rule.other else source not in rule.side)
        return there or (back and not fault.one_way)

    def _noise(self, fault: Noise, source: str, target: str, message: Message) -> Fate:
        if fault.kinds and type(message).__name__ not in fault.kinds:
            return _NORMAL
        if fault.process and fault.process not in (source, target):
            return _NORMAL
        draw = self._random.random()
        if draw < fault.drop:
            return _LOST
        draw -= fault.drop
        if draw < fault.duplicate:
            return Fate(2, int(self._random.random() * fault.delay_us))
        if draw - fault.duplicate < fault.delay:
            return Fate(1, int(self._random.random() * fault.delay_us))
        return _NORMAL

    @staticmethod
    def _matches(fault: Hold | DropMessages, source: str, target: str, message: Message) -> bool:
        return (
            type(message).__name__ == fault.message
            and fault.source in ("", source)
            and fault.target in ("", target)
        )  # fmt: skip


_SPENT: Any = object()
"""In the place of a hold that has held as many messages as it was to, and only waits to release them."""
