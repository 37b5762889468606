"""How much a search may take: runs, CPU time, or both."""

import math
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """What is allowed.

    Attributes:
        runs: how many.
        cpu_s: CPU time of this process, seconds: on a busy machine no less is tried. Without a limit of time what is found is
            the same on every machine.
    """

    runs: int
    cpu_s: float = math.inf

    def begin(self) -> "Meter":
        """Begin to spend it."""
        return Meter(self)


class Meter:
    """What is left of a budget.

    Args:
        budget: what is allowed from now on.
    """

    __slots__ = ("_runs_left", "_until_s")

    def __init__(self, budget: Budget) -> None:
        self._runs_left = budget.runs
        self._until_s = time.process_time() + budget.cpu_s

    @property
    def spent(self) -> bool:
        """Nothing is left."""
        return self._runs_left <= 0 or time.process_time() >= self._until_s

    def run(self) -> None:
        """One run more has been made."""
        self._runs_left -= 1
