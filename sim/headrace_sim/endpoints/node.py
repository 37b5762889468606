"""A machine with one process: its clock, its CPU, and whether it is running, paused or down."""

import enum
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from headrace.wire.effects import Effect, Event
from headrace_sim.contention import SharedCpu


class Give(Protocol):
    """Has a machine's process handle an event."""

    def __call__(self, node: "Node", event: Event, cause: int | None, /) -> None:
        """Take the machine, the event, and the activation that led to it (`headrace.history.Activation`)."""
        ...


class StateMachine(Protocol):
    """The interface of every engine process."""

    def handle(self, now: int, event: Event) -> list[Effect]:
        """Take an event, return effects."""
        ...

    def check_invariants(self) -> None:
        """Assert the invariants that hold between events."""
        ...


class NodeState(enum.Enum):
    """Whether a process runs."""

    STARTING = "starting"
    """Created but not started: what arrives is still lost."""
    UP = "up"
    PAUSED = "paused"
    DOWN = "down"


class Node:
    """One machine.

    Args:
        address: of its process.
        build: makes the process, with an empty memory.
        clock_us: how far its clock is ahead of true time.
        cpu: the CPU that it shares with other jobs; ``None``: exclusive.

    Attributes:
        process: the state machine; ``None`` before it first starts.
        incarnation: counts the starts of its process.
        inbox: what arrived while it was paused, with the cause, in order.
        busy_until_us: when its CPU has no more work, true time.
        uncharged: the intervals for which its process has run user code since it was last charged; ``None``: it is no worker.
        slow_factor: how many times slower than normal it is.
        halted_at_us: when it last crashed or was paused, true time; negative: never.
        waiting: its CPU's unfinished work when it was paused, in order.
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
        self.inbox: list[tuple[Event, int | None]] = []
        self.waiting: list[Callable[[], None]] = []
        self.busy_until_us = 0
        self.slow_factor = 1
        self.halted_at_us = -1
        self.uncharged: Sequence[Any] | None = None

    def start(self) -> None:
        """Start the process with an empty memory."""
        self.process = self.build()
        self.uncharged = getattr(self.process, "uncharged_runs", None)
        self.incarnation += 1
        self.state = NodeState.STARTING
        self.inbox.clear()
        self.waiting.clear()


def never_stopping(address: str) -> Node:
    """Return a machine without a process; it never stops, so whatever it sends has been sent."""

    def build() -> StateMachine:
        raise AssertionError(f"{address} has no process")

    return Node(address, build, 0)
