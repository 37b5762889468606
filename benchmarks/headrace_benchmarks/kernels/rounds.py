"""Runs several things in turn, several times, so that a machine that changes its speed changes it for all of them.

Rules of this file: time is CPU time of this process; what is set up before the work is not in it; only ratios within one round
mean something on a machine that others use too, and of several rounds the median.
"""

import gc
import time
from collections.abc import Callable, Mapping
from statistics import median

Run = Callable[[], float]
"""Does some work, and tells how much of it a CPU second does."""


def rate(amount: int, work: Callable[[], object]) -> float:
    """Do some work, and tell how much of it a CPU second does. ``amount``: how much it is."""
    gc.collect()
    began = time.process_time()
    work()
    return amount / max(time.process_time() - began, 1e-9)


class Rounds:
    """What several runs came to, round by round.

    Args:
        runs: by name.
        rounds: how often each is run, in turn.
        on_run: told of each that is done.
    """

    def __init__(self, runs: Mapping[str, Run], rounds: int, on_run: Callable[[str], None]) -> None:
        self._rates: dict[str, list[float]] = {name: [] for name in runs}
        for _ in range(rounds):
            for name, run in runs.items():
                self._rates[name].append(run())
                on_run(name)

    def rate(self, name: str) -> float:
        """The median of one's rates, by CPU second."""
        return median(self._rates[name])

    def ratio(self, name: str, anchor: str) -> float:
        """The median, over the rounds, of one's rate as a part of another's."""
        pairs = zip(self._rates[name], self._rates[anchor], strict=True)
        return median(one / other for one, other in pairs)
