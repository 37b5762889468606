"""A machine with one process on it: its clock, its CPU, and whether it runs, stands still, or is down."""

import enum
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from headrace.wire.effects import Effect, Event
from headrace_sim.contention import SharedCpu


class StateMachine(Protocol):
    """What every process of the engine is."""

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Take an event, return effects."""
        ...

    def check_invariants(self) -> None:
        """Assert what must hold between events."""
        ...


class NodeState(enum.Enum):
    """Whether a process runs."""

    STARTING = "starting"
    """It is there, and has not been told to start: what comes now is lost, as before."""
    UP = "up"
    PAUSED = "paused"
    DOWN = "down"


class Node:
    """One machine.

    Args:
        address: of its process.
        build: makes the process anew, with an empty memory.
        clock_us: how far its clock is ahead of true time.
        cpu: what it shares its CPU with others by; ``None``: it has it for itself.

    Attributes:
        process: the state machine; `None` before it first starts.
        incarnation: counts its starts.
        inbox: what arrived while it was paused, in order.
        busy_until_us: true time until which its CPU has work.
        uncharged: for which intervals its process has run user code and was not charged; `None`: it is no worker.
        slow_factor: it takes so many times as long.
        halted_at_us: when it was last crashed or paused, true time.
        waiting: effects that a paused process's CPU had not got to yet.
    """

    __slots__ = (
        "address", "build", "busy_until_us", "clock_us", "cpu", "halted_at_us", "inbox", "incarnation", "process",
        "slow_factor", "state", "uncharged", "waiting",
    )  # fmt: skip

    def __init__(
        self, address: str, build: Callable[[], StateMachine], clock_us: int, cpu: SharedCpu | None = None
    ) -> None:
        self.address = address
        self.build = build
        self.clock_us = clock_us
        self.cpu = cpu
        self.process: Any = None
        self.state = NodeState.DOWN
        self.incarnation = 0
        self.inbox: list[Event] = []
        self.waiting: list[Callable[[], None]] = []
        self.busy_until_us = 0
        self.slow_factor = 1
        self.halted_at_us = -1
        self.uncharged: Sequence[Any] | None = None

    def start(self) -> None:
        """Begin with an empty memory."""
        self.process = self.build()
        self.uncharged = getattr(self.process, "uncharged_runs", None)
        self.incarnation += 1
        self.state = NodeState.STARTING
        self.inbox.clear()
        self.waiting.clear()
