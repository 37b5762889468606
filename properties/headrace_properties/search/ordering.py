"""Orders of arrivals by random priorities, and the chance that they show a failure: probabilistic concurrency testing.

Burckhardt et al. (ASPLOS 2010) for threads; Ozkan et al. (OOPSLA 2018) for messages, in chains of which each message was sent
when the one before it arrived.

Rule of this file: a failure has depth d if there are a chain and d - 1 messages such that it shows whenever that chain comes
last of all, and at these messages their chains fall behind it, in a certain order, whatever the order of the others. With c
chains in a run, that chain is the last with a probability of 1/c; the d - 1 messages are drawn, in their order, out of the first
n with one of at least 1/n^(d - 1).
"""

from dataclasses import dataclass
from random import Random

from headrace import OptionsError
from headrace_properties.search.application import Application, Trial
from headrace_properties.search.judging import try_plan
from headrace_properties.search.plans import Plan
from headrace_sim import NO_FAULTS, ClusterOptions, Priorities
from headrace_sim.arrivals import earliest

_SEED_BITS = 32


@dataclass(slots=True)
class Ordering:
    """The orders of a search.

    Attributes:
        depth: of the failures for which the bound holds, at least 1.
        messages: the changes of priority are among so many first messages of a run.
        chains: the most chains that a run has had so far.
    """

    depth: int
    messages: int
    chains: int = 1

    def __post_init__(self) -> None:
        """Refuse what is no depth."""
        if self.depth < 1:
            raise OptionsError("depth", self.depth, "at least 1")

    @property
    def chance(self) -> float:
        """The least probability with which a run shows a failure of this depth that its faults make possible."""
        return 1.0 / (self.chains * float(self.messages) ** (self.depth - 1))

    def draw(self, random: Random) -> Priorities:
        """Draw the order of a run."""
        return Priorities(random.getrandbits(_SEED_BITS), self.depth, self.messages)

    def take(self, chains: tuple[int, int]) -> None:
        """Note how many chains a run had."""
        self.chains = max(self.chains, chains[0])


def ordering_of(application: Application, options: ClusterOptions, feed_seed: int, depth: int) -> Ordering:
    """Return the ordering of a search, whose changes are among as many messages as a run without faults has.

    Args:
        application: what is under test.
        options: of the cluster; its latencies are the intervals.
        feed_seed: of the input.
        depth: of the failures to look for.

    Raises:
        OptionsError: a latency is no interval, or the depth is below 1.
    """
    ordering = Ordering(depth, messages=1)
    earliest(options)
    calm = try_plan(
        application, Trial(Plan(NO_FAULTS, options, 0, priorities=Priorities(0, 1, 0)), feed_seed)
    )
    ordering.take(calm.chains)
    ordering.messages = max(calm.chains[1], 1)
    return ordering
