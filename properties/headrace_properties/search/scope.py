"""The scope of an exhaustive search, and how far the search has come."""

import dataclasses
from collections import Counter
from dataclasses import dataclass, field

import msgspec

from headrace import OptionsError
from headrace_properties.search.plans import Plan
from headrace_sim import ClusterOptions
from headrace_sim import faults as f

FAULT_KINDS: dict[str, type[f.Fault]] = {
    "crash": f.Crash,
    "pause": f.Pause,
    "drop": f.DropMessage,
    "duplicate": f.DuplicateMessage,
    "delay": f.DelayMessage,
    "reassign": f.Operate,
    "cut": f.Partition,
}
"""The kinds of faults that can be tried, by name. Commits and the store's replies are messages, too."""

USUAL_KINDS = tuple(kind for kind in FAULT_KINDS if kind != "cut")
"""Choice: the default kinds. A cut is many lost messages."""


def small_cluster(workers: int = 2, options: ClusterOptions | None = None) -> ClusterOptions:
    """Return the options of a small cluster: few workers, one master, one authority. ``options``: all others."""
    options = options or ClusterOptions()
    engine = dataclasses.replace(options.engine, masters=1, authority_replicas=1)
    return msgspec.structs.replace(options, workers=workers, engine=engine)


@dataclass(frozen=True, slots=True)
class Scope:
    """The bounds of the search.

    Attributes:
        records: so many of the input's first records.
        faults: a run has at most so many faults.
        delays: a run has at most so many arrivals that others overtake.
        kinds: of faults, by name; see `FAULT_KINDS`.
        outside: faults outside the model to try as well.
        options: of the cluster; its latencies are the intervals.
        reduced: leave out what is equivalent; else all arrivals are put in every order, whether a process can tell or not.
    """

    records: int = 3
    faults: int = 1
    delays: int = 2
    kinds: tuple[str, ...] = USUAL_KINDS
    options: ClusterOptions = field(default_factory=small_cluster)
    reduced: bool = True
    outside: tuple[f.Breach, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an invalid scope."""
        for name in ("records", "faults", "delays"):
            if getattr(self, name) < 0:
                raise OptionsError(name, getattr(self, name), "at least 0")
        for kind in self.kinds:
            if kind not in FAULT_KINDS:
                raise OptionsError("kinds", kind, f"one of {', '.join(FAULT_KINDS)}")

    @property
    def moves(self) -> int:
        """The maximum number of departures in a schedule."""
        return self.faults + self.delays


@dataclass(slots=True)
class Exploration:
    """The progress of an exhaustive search.

    Attributes:
        scope: what it is to exhaust.
        runs: schedules run, by their numbers of faults and delays.
        pruned: moves left out because another one is equivalent; each stands for at least one schedule, and all that follow it.
        rounds: with fewer moves than this, all schedules of the scope have been run.
        done: how many schedules with as many moves as ``rounds`` have been run.
        expected: about how many of them there are.
        exhausted: all schedules of the scope have been run.
        lineage: it is a search by lineage: schedules are sets of faults that hit every known support of a goal.
        singles: of a search by lineage: how many single faults of the same kinds there are at all steps of the run without any.
        stopped_for: why not: ``examples``, ``minutes`` or ``failure``; ``""``: it is, or somebody interrupted it.
    """

    scope: Scope
    runs: Counter[tuple[int, int]] = field(default_factory=Counter)
    pruned: int = 0
    rounds: int = 0
    done: int = 0
    expected: int = 1
    exhausted: bool = False
    stopped_for: str = ""
    lineage: bool = False
    singles: int = 0

    def take(self, plan: Plan) -> None:
        """Count a schedule that has been run."""
        self.runs[len(plan.faults.at_steps), len(plan.delays or ())] += 1
        self.done += 1

    @property
    def total(self) -> int:
        """The number of schedules run."""
        return self.runs.total()
