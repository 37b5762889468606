"""What faults of the network do to messages: lose, duplicate, delay or hold them."""

import random
from collections.abc import Callable
from typing import Any

from headrace.wire.messages import STORE, Message
from headrace_sim.faults import DropMessages, Hold, Noise, Partition
from headrace_sim.faults.log import FaultLog

SendOn = Callable[[], None]
"""Sends a held message on its way."""


class _Rule:
    """A fault that acts on messages, or waits for some."""

    __slots__ = ("fault", "handle", "held", "judge", "lasts", "other", "remaining", "side")

    def __init__(self, handle: int, fault: Any) -> None:
        self.handle = handle
        self.fault = fault
        self.judge: Judge = _acquit
        self.remaining: int = getattr(fault, "count", 0)
        self.lasts = False
        self.held: list[SendOn] = []
        self.side = frozenset(getattr(fault, "side", ()))
        self.other = frozenset(getattr(fault, "other", ()))


class Fate:
    """The fate of a message.

    Attributes:
        copies: how often it arrives; 0: it is lost or held.
        delay_us: how much later than usual the last copy arrives.
        held: if it is held, where to put the function that sends it on.
    """

    __slots__ = ("copies", "delay_us", "held")

    def __init__(self, copies: int = 1, delay_us: int = 0, held: list[SendOn] | None = None) -> None:
        self.copies = copies
        self.delay_us = delay_us
        self.held = held


Judge = Callable[[str, str, Message], Fate]
"""Takes a message's source, its target and the message, and decides on it: `NORMAL` itself if no fault affects it."""

NORMAL = Fate()
"""The fate of a message that no fault strikes."""
_LOST = Fate(copies=0)


def _acquit(_source: str, _target: str, _message: Message) -> Fate:
    return NORMAL


class Network:
    """Decides on each message while a fault is active.

    Args:
        log: records the faults that take effect.
        noise: draws what befalls each message.

    Attributes:
        rules: the active faults by handle; while empty, nobody need ask for a message's `fate`.
        fate: decides on one message; replaced with the rules, because every message asks.
    """

    def __init__(self, log: FaultLog, noise: random.Random) -> None:
        self._log = log
        self._draw = noise.random
        self.rules: dict[int, _Rule] = {}
        self.fate: Judge = _acquit
        self._judges: dict[type, Callable[[_Rule], Judge]] = {
            Partition: self._partition,
            Noise: self._noise,
            Hold: self._hold,
            DropMessages: self._drop,
        }
        self._next = 0

    def begin(self, fault: Partition | Noise | Hold | DropMessages) -> int:
        """Begin a fault; return its handle."""
        self._next += 1
        rule = self.rules[self._next] = _Rule(self._next, fault)
        rule.judge = self._judges[type(fault)](rule)
        self._appoint()
        return self._next

    def end(self, handle: int) -> list[SendOn]:
        """End a fault; return what sends on the messages that it held."""
        rule = self.rules.pop(handle, None)
        self._appoint()
        return rule.held if rule is not None else []

    def leave(self, handle: int) -> None:
        """Keep a partition when everything else heals: it continues, but no longer counts as striking."""
        self.rules[handle].lasts = True

    def clear(self) -> None:
        """End every fault; held messages are lost."""
        self.rules.clear()
        self._appoint()

    def _appoint(self) -> None:
        judges = [rule.judge for rule in self.rules.values()]
        self.fate = judges[0] if len(judges) == 1 else self._fate_by_all

    def _fate_by_all(self, source: str, target: str, message: Message) -> Fate:
        fate = NORMAL
        for rule in self.rules.values():
            judged = rule.judge(source, target, message)
            if judged is not NORMAL:
                fate = judged
                if (
                    not fate.copies
                ):  # only such a rule may have removed itself, which ends the iteration anyway
                    break
        return fate

    def _strike(self, kind: str, source: str, target: str, message: Message, fate: Fate) -> Fate:
        self._log.struck(kind, source, f"{type(message).__name__} {source} -> {target}")
        return fate

    def _partition(self, rule: _Rule) -> Judge:
        fault: Partition = rule.fault
        side, other = rule.side, rule.other

        def judge(source: str, target: str, message: Message) -> Fate:
            there = source in side and (target in other if other else target not in side)
            back = target in side and (source in other if other else source not in side)
            if there or (back and not fault.one_way):
                return _LOST if rule.lasts else self._strike(fault.kind, source, target, message, _LOST)
            return NORMAL

        return judge

    def _noise(self, rule: _Rule) -> Judge:
        fault: Noise = rule.fault
        draw, picky, spares_store = self._draw, bool(fault.kinds or fault.process), not fault.kinds
        # A single comparison decides most messages: slightly above the sum, in case rounding makes it too small.
        rate = (fault.drop + fault.duplicate + fault.delay) * (1 + 1e-9)

        def judge(source: str, target: str, message: Message) -> Fate:
            if spares_store and (target == STORE or source == STORE):  # noqa: PLR1714  no tuple for each message
                return NORMAL
            if picky and not self._hears(fault, source, target, message):
                return NORMAL
            drawn = draw()
            if drawn > rate:
                return NORMAL
            return self._make_noise(fault, drawn, source, target, message)

        return judge

    @staticmethod
    def _hears(fault: Noise, source: str, target: str, message: Message) -> bool:
        kind_fits = not fault.kinds or type(message).__name__ in fault.kinds
        return kind_fits and (not fault.process or fault.process in (source, target))

    def _make_noise(self, fault: Noise, draw: float, source: str, target: str, message: Message) -> Fate:
        if draw < fault.drop:
            return self._strike("noise_drop", source, target, message, _LOST)
        draw -= fault.drop
        if draw < fault.duplicate:
            twice = Fate(2, int(self._draw() * fault.delay_us))
            return self._strike("noise_duplicate", source, target, message, twice)
        if draw - fault.duplicate < fault.delay:
            later = Fate(1, int(self._draw() * fault.delay_us))
            return self._strike("noise_delay", source, target, message, later)
        return NORMAL

    def _hold(self, rule: _Rule) -> Judge:
        fault: Hold = rule.fault

        def judge(source: str, target: str, message: Message) -> Fate:
            if not self._matches(fault, source, target, message):
                return NORMAL
            rule.remaining -= 1
            if rule.remaining == 0:  # from now on it only waits to be released
                rule.judge = _acquit
                self._appoint()
            return self._strike(fault.kind, source, target, message, Fate(copies=0, held=rule.held))

        return judge

    def _drop(self, rule: _Rule) -> Judge:
        fault: DropMessages = rule.fault

        def judge(source: str, target: str, message: Message) -> Fate:
            if not self._matches(fault, source, target, message):
                return NORMAL
            rule.remaining -= 1
            if rule.remaining == 0:
                del self.rules[rule.handle]
                self._appoint()
            return self._strike(fault.kind, source, target, message, _LOST)

        return judge

    @staticmethod
    def _matches(fault: Hold | DropMessages, source: str, target: str, message: Message) -> bool:
        return (
            type(message).__name__ == fault.message
            and fault.source in ("", source)
            and fault.target in ("", target)
        )  # fmt: skip
