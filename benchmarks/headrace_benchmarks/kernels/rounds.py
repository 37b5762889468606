"""Runs several measurements in turn, several times, so that changes of the machine's speed affect all of them alike.

Rules of this file: time is this process's CPU time, without the setup before the work. On a shared machine, only ratios within
one round are meaningful, and their median over several rounds.
"""

import gc
import time
from collections.abc import Callable, Mapping
from statistics import median

Run = Callable[[], float]
"""Does some work, and returns the amount of work per CPU second."""


def rate(amount: int, work: Callable[[], object]) -> float:
    """Do some work, and return the amount of work per CPU second. ``amount``: the amount of work."""
    gc.collect()
    began = time.process_time()
    work()
    return amount / max(time.process_time() - began, 1e-9)


class Rounds:
    """The results of several runs, round by round.

    Args:
        runs: runs by name.
        rounds: number of rounds; in each, all runs take turns.
        on_run: called with the name of each finished run.
    """

    def __init__(self, runs: Mapping[str, Run], rounds: int, on_run: Callable[[str], None]) -> None:
        self._rates: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(rounds):
            for name, run in runs.items():
                self._rates[name].append(run())
                on_run(name)

    def rate(self, name: str) -> float:
        """Return the median rate of a run, per CPU second."""
        return median(self._rates[name])

    def ratio(self, name: str, anchor: str) -> float:
        """Return the median over all rounds of a run's rate relative to the anchor's."""
        pairs = zip(self._rates[name], self._rates[anchor], strict=True)
        return median(rate / anchor_rate for rate, anchor_rate in pairs)
