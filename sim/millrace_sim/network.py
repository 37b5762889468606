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

    __slots__ = ("fault", "handle", "held", "judge", "left", "noise_rate", "other", "side")

    def __init__(self, handle: int, fault: Any, judge: "Judge") -> None:
        self.handle = handle
        self.fault = fault
        self.judge = judge
        self.noise_rate = 0.0
        if isinstance(fault, Noise):  # a little more than the sum, lest rounding make it too small
            self.noise_rate = (fault.drop + fault.duplicate + fault.delay) * (1 + 1e-9)
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


Judge = Callable[[_Rule, str, str, Message], Fate]
"""Takes a rule, and a message's source, target and itself, and says what the rule's fault does to it."""

NORMAL = Fate()
"""What becomes of a message that no fault strikes."""
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
        self._judges: dict[type, Judge] = {
            Partition: self._partition,
            Noise: self._noise,
            Hold: self._hold,
            DropMessages: self._drop,
        }
        self._next = 0

    def begin(self, fault: Partition | Noise | Hold | DropMessages) -> int:
        """Let a fault act from now on; returns its handle."""
        self._next += 1
        self.rules[self._next] = _Rule(self._next, fault, self._judges[type(fault)])
        return self._next

    def end(self, handle: int) -> list[Send]:
        """End a fault; returns what sends on what it held."""
        rule = self.rules.pop(handle, None)
        return rule.held if rule is not None else []

    def clear(self) -> None:
        """End every fault; what was held is lost."""
        self.rules.clear()

    def fate(self, source: str, target: str, message: Message) -> Fate:
        """Decide on one message; `NORMAL` itself if nothing strikes it."""
        fate = NORMAL
        for rule in self.rules.values():
            judged = rule.judge(rule, source, target, message)
            if judged is not NORMAL:
                fate = judged
                if not fate.copies:  # and only then may a rule have gone, so that there is no going on anyway
                    break
        return fate

    def _strike(self, kind: str, source: str, target: str, message: Message, fate: Fate) -> Fate:
        history = self._history
        history.record(
            FaultStruck(history.at_us, source, kind, f"{type(message).__name__} {source} -> {target}")
        )
        return fate

    def _partition(self, rule: _Rule, source: str, target: str, message: Message) -> Fate:
        fault: Partition = rule.fault
        there = source in rule.side and (target in rule.other if rule.other else target not in rule.side)
        back = target in rule.side and (source in rule.other if rule.other else source not in rule.side)
        if there or (back and not fault.one_way):
            return self._strike(fault.kind, source, target, message, _LOST)
        return NORMAL

    def _noise(self, rule: _Rule, source: str, target: str, message: Message) -> Fate:
        fault: Noise = rule.fault
        if STORE in (source, target) or (fault.kinds and type(message).__name__ not in fault.kinds):
            return NORMAL
        if fault.process and fault.process not in (source, target):
            return NORMAL
        draw = self._random.random()
        if draw > rule.noise_rate:
            return NORMAL
        return self._make_noise(fault, draw, source, target, message)

    def _make_noise(self, fault: Noise, draw: float, source: str, target: str, message: Message) -> Fate:
        if draw < fault.drop:
            return self._strike("noise_drop", source, target, message, _LOST)
        draw -= fault.drop
        if draw < fault.duplicate:
            twice = Fate(2, int(self._random.random() * fault.delay_us))
            return self._strike("noise_duplicate", source, target, message, twice)
        if draw - fault.duplicate < fault.delay:
            later = Fate(1, int(self._random.random() * fault.delay_us))
            return self._strike("noise_delay", source, target, message, later)
        return NORMAL

    def _hold(self, rule: _Rule, source: str, target: str, message: Message) -> Fate:
        if rule.fault is _SPENT or not self._matches(rule.fault, source, target, message):
            return NORMAL
        kind = rule.fault.kind
        rule.left -= 1
        if rule.left == 0:
            rule.fault = _SPENT
        return self._strike(kind, source, target, message, Fate(copies=0, held=rule.held))

    def _drop(self, rule: _Rule, source: str, target: str, message: Message) -> Fate:
        if not self._matches(rule.fault, source, target, message):
            return NORMAL
        rule.left -= 1
        if rule.left == 0:
            del self.rules[rule.handle]
        return self._strike(rule.fault.kind, source, target, message, _LOST)

    @staticmethod
    def _matches(fault: Hold | DropMessages, source: str, target: str, message: Message) -> bool:
        return (
            type(message).__name__ == fault.message
            and fault.source in ("", source)
            and fault.target in ("", target)
        )  # fmt: skip


_SPENT: Any = object()
"""In the place of a hold that has held as many messages as it was to, and only waits to release them."""
