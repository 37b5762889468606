"""What a mutant is: a broken protocol with a name, and the invariant that it must be caught by.

Rules of this file:

* The engine has no switch for being wrong. A mutant is made of subclasses of the engine's own classes; the engine's classes
  name the classes of their parts, so that a part deep inside can be replaced as well.
* A mutant says by its **probe** when it did something else than the sound protocol would have done: one that never does is
  not activated, and proves nothing.
* The classes are derived anew for each run, with that run's probe: nothing survives from one run to the next.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from headrace.injector.injector import Injector
from headrace.injector.intake import Intake
from headrace.ownership.master import Master
from headrace.store.mediator import Mediator
from headrace.watermarks.authority import WatermarkAuthority
from headrace.watermarks.interval_map import IntervalMap
from headrace.worker.accounts import Accounts
from headrace.worker.commits import Commits
from headrace.worker.interval import OwnedInterval
from headrace.worker.recovery import Recovery
from headrace.worker.seen import SeenFilter
from headrace.worker.step import Step
from headrace.worker.stepping import StepRunner
from headrace.worker.timers import TimerQueue
from headrace.worker.worker import Worker
from headrace_properties.search.plans import Plan
from headrace_sim import ClusterOptions, FaultSchedule, Protocol

ClassT = TypeVar("ClassT", bound=type)


class Probe:
    """Counts how often a mutant has done something else than the sound protocol, in one run."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0

    def note(self) -> None:
        """It just did."""
        self.count += 1


@dataclass(frozen=True, slots=True)
class Parts:
    """The classes that a mutant puts in the place of the engine's; each has the run's probe as ``probe``."""

    mediator: type[Mediator] = Mediator
    worker: type[Worker] = Worker
    interval: type[OwnedInterval] = OwnedInterval
    accounts: type[Accounts] = Accounts
    filter: type[SeenFilter] = SeenFilter
    recovery: type[Recovery] = Recovery
    timers: type[TimerQueue] = TimerQueue
    commits: type[Commits] = Commits
    runner: type[StepRunner] = StepRunner
    step: type[Step] = Step
    master: type[Master] = Master
    authority: type[WatermarkAuthority] = WatermarkAuthority
    map: type[IntervalMap] = IntervalMap
    injector: type[Injector] = Injector
    intake: type[Intake] = Intake

    def assembled(self, name: str, probe: Probe) -> Protocol:
        """Put them together. What is not replaced, nor has a part that is, stays the engine's own class."""

        def derive(own: ClassT, base: type, **parts: tuple[type, type]) -> ClassT:
            changed = {part: one for part, (one, sound) in parts.items() if one is not sound}
            return own if own is base and not changed else _derived(own, {"probe": probe, **changed})

        step = derive(self.step, Step)
        runner = derive(self.runner, StepRunner, step_class=(step, Step))
        commits = derive(self.commits, Commits, runner_class=(runner, StepRunner))
        interval = derive(
            self.interval,
            OwnedInterval,
            accounts_class=(derive(self.accounts, Accounts), Accounts),
            commits_class=(commits, Commits),
            filter_class=(derive(self.filter, SeenFilter), SeenFilter),
            recovery_class=(derive(self.recovery, Recovery), Recovery),
            timers_class=(derive(self.timers, TimerQueue), TimerQueue),
        )
        map_class = (derive(self.map, IntervalMap), IntervalMap)
        return Protocol(
            name,
            mediator=derive(self.mediator, Mediator),
            worker=derive(self.worker, Worker, interval_class=(interval, OwnedInterval)),
            master=derive(self.master, Master),
            authority=derive(self.authority, WatermarkAuthority, map_class=map_class),
            injector=derive(self.injector, Injector, intake_class=(derive(self.intake, Intake), Intake)),
        )


def _derived(own: ClassT, attributes: Mapping[str, Any]) -> ClassT:
    """A subclass with these class attributes, under the same name."""
    return type(own)(own.__name__, (own,), {"__module__": own.__module__, **attributes})


@dataclass(frozen=True, slots=True)
class Directed:
    """A run that shows what a search by chance does not find.

    Attributes:
        faults: what goes wrong.
        why: why chance does not find it.
        feed_seed: of the workload's input.
        seed: of the cluster's draws.
    """

    faults: FaultSchedule
    why: str
    feed_seed: int = 0
    seed: int = 0

    def plan(self, options: ClusterOptions) -> Plan:
        """All that varies; ``options``: the workload's."""
        return Plan(self.faults, options, self.seed)


@dataclass(frozen=True, slots=True)
class Mutant:
    """A broken protocol.

    Attributes:
        name: what it gets wrong, in a few words.
        breaks: the invariants by which it is caught; see `headrace_properties.search.oracles` for the names.
        section: of the paper, whose rule it breaks.
        wrong: the same in a sentence.
        parts: what it puts in the place of the engine's classes.
        workload: the name of the one on which it shows.
        directed: a run that shows it, where chance takes too long.
    """

    name: str
    breaks: tuple[str, ...]
    section: str
    wrong: str
    parts: Parts
    workload: str = "tallies"
    directed: Directed | None = field(default=None)

    def protocol(self, probe: Probe | None = None) -> Protocol:
        """The protocol for a run; ``probe``: counts its activations."""
        return self.parts.assembled(self.name, probe or Probe())
