"""Messages on their way, and whether each had left its machine before the machine stopped.

A message leaves its machine when the CPU comes to send it (`sent_us`). It is put on the wire at once nevertheless, and its
receiver asks here first: a machine that stopped before `sent_us` has not sent it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from headrace.wire.effects import Event
from headrace_sim.endpoints.node import Node, NodeState
from headrace_sim.kernel import HeapEvent, Kernel

ALREADY_SENT_US = -1
"""The `sent_us` of a message that has left its machine, whatever becomes of that: earlier than any machine stops."""


class Flight(HeapEvent):
    """A message on its way to a machine, which arrives at `at_us`: most events are these.

    Attributes:
        target: the machine.
        message: what its process receives.
        source: the machine that sends it.
        incarnation: of the source's process.
        sent_us: when the source's CPU comes to send it, true time.
        cause: the activation that sends it.
    """

    target: Node
    message: Event
    source: Node
    incarnation: int
    sent_us: int
    cause: int | None


class InFlightMessage(msgspec.Struct):
    """A request on its way to the store, or a record on its way to the outside.

    Attributes:
        message: what arrives.
        source: the machine that sends it.
        incarnation: of the source's process.
        sent_us: when the source's CPU comes to send it, true time.
        cause: the activation that sends it.
        mute: the store's reply is lost.
    """

    message: Any
    source: Node
    incarnation: int
    sent_us: int
    cause: int | None
    mute: bool = False


class Departures:
    """Decides whether messages have left their machines.

    Args:
        kernel: the time.
    """

    __slots__ = ("_kernel",)

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def unsent(self, message: Flight | InFlightMessage, arrive: Callable[[Any], None]) -> bool:
        """Return whether a message that would arrive now never left its machine, because the machine stopped first.

        A paused machine sends it when it continues, and the wire then takes as long as it would have; a crashed one never does.

        Args:
            message: whose source has stopped at least once: nobody else need ask.
            arrive: takes the message when it arrives after all.
        """
        source = message.source
        if source.halted_at_us > message.sent_us:
            return False
        if source.state is NodeState.DOWN or source.incarnation != message.incarnation:
            return True
        if source.state is NodeState.PAUSED:
            wire_us = self._kernel.now - message.sent_us
            source.waiting.append(partial(self._send_late, message, wire_us, arrive))
            return True
        return False

    def _send_late(
        self, message: Flight | InFlightMessage, wire_us: int, arrive: Callable[[Any], None]
    ) -> None:
        message.sent_us = self._kernel.now
        self._kernel.call_later(wire_us, arrive, message)

    def change_speed(self, node: Node, factor: int) -> None:
        """Let a machine take ``factor`` times as long, also for what its CPU has begun and what it has yet to send."""
        now, before, node.slow_factor = self._kernel.now, node.slow_factor, factor
        if factor == before:
            return

        def put_off_us(until_us: int) -> int:
            work_us = max(until_us - now, 0)
            return work_us * factor // before - work_us

        def later_us(event: Any) -> int:
            message = getattr(event, "argument", event)
            if not isinstance(message, Flight | InFlightMessage) or message.source is not node:
                return 0
            by_us = put_off_us(message.sent_us)
            message.sent_us += by_us
            return by_us

        node.busy_until_us += put_off_us(node.busy_until_us)
        self._kernel.put_off(later_us)
