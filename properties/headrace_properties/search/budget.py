"""The budget of a search: runs, CPU time, or both."""

import math
import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Budget:
    """The allowance.

    Attributes:
        runs: how many.
        cpu_s: CPU time of this process, seconds: a busy machine tries as much. Without a time limit the findings are the
            same on every machine.
    """

    runs: int
    cpu_s: float = math.inf

    def begin(self) -> "Meter":
        """Start to spend it."""
        return Meter(self)


class Meter:
    """The remainder of a budget.

    Args:
        budget: what is allowed from now on.
    """

    __slots__ = ("_runs_left", "_until_s")

    def __init__(self, budget: Budget) -> None:
        self._runs_left = budget.runs
        self._until_s = time.process_time() + budget.cpu_s

    @property
    def spent(self) -> bool:
        """Whether the budget is spent."""
        return self._runs_left <= 0 or time.process_time() >= self._until_s

    def run(self) -> None:
        """Count a run."""
        self._runs_left -= 1
