"""When liveness is due: at the end of a run whose faults have stopped."""

from millrace.history import FaultStruck, Healed, RunEnded
from millrace_properties.checkers._finding import Handlers

UNFAIR = "the run ended by its deadline while faults still struck; heal first"


class Calm:
    """Tells whether the faults have stopped.

    Attributes:
        since_us: when they stopped, true time; 0: there were none, or they have not.
        handlers: the events that it wants.
    """

    def __init__(self) -> None:
        self._struck = False
        self.since_us = 0
        self.handlers: Handlers = {FaultStruck: self._on_fault, Healed: self._on_healed}

    def _on_fault(self, _event: FaultStruck) -> None:
        self._struck = True

    def _on_healed(self, event: Healed) -> None:
        self._struck = False
        self.since_us = event.at_us

    def is_due(self, end: RunEnded) -> bool:
        """Whether everything should be done by now."""
        return end.why == "quiescent" or not self._struck
