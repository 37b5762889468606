"""Record that a fault took effect; no other file does."""

from headrace.history import FaultStruck, History
from headrace_sim.kernel import Kernel


class FaultLog:
    """Records in a History the faults that take effect.

    Args:
        history: of the run.
        kernel: the time.

    Attributes:
        cause: the activation whose step lets a fault `begin`; ``None``: none does.
    """

    __slots__ = ("_history", "_kernel", "cause")

    def __init__(self, history: History, kernel: Kernel) -> None:
        self._history = history
        self._kernel = kernel
        self.cause: int | None = None

    def begin(self, kind: str, address: str, detail: str) -> None:
        """Record that an operator makes a fault take effect now, as an activation of its own; arguments as in `struck`."""
        self._history.begin(address, kind, self.cause)
        self.struck(kind, address, detail)

    def struck(self, kind: str, address: str, detail: str) -> None:
        """Record that a fault takes effect now.

        Args:
            kind: the fault's verb.
            address: the affected process.
            detail: what it affected there.
        """
        now = self._history.at_us = self._kernel.now
        self._history.record(FaultStruck(now, address, kind, detail))
