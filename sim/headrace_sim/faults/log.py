"""The one place that writes that a fault has really struck."""

from headrace.history import FaultStruck, History
from headrace_sim.kernel import Kernel


class FaultLog:
    """Writes strikes to a History.

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
        """Write that somebody makes a fault strike, now: an activation of its own. The arguments are those of `struck`."""
        self._history.begin(address, kind, self.cause)
        self.struck(kind, address, detail)

    def struck(self, kind: str, address: str, detail: str) -> None:
        """Write that a fault has struck, now.

        Args:
            kind: the fault's verb.
            address: of the process that it struck.
            detail: what it struck there.
        """
        now = self._history.at_us = self._kernel.now
        self._history.record(FaultStruck(now, address, kind, detail))
