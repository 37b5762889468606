"""Random priorities for arrival orders, and the chance that they reveal a failure: probabilistic concurrency testing.

Burckhardt et al. (ASPLOS 2010) for threads; Ozkan et al. (OOPSLA 2018) for messages, in chains of which each message was sent
when the one before it arrived.

Rule of this file: a failure has depth d if there are a chain and d - 1 messages such that it shows whenever that chain comes
last, and at these messages their chains fall behind it, in a certain order, however the others are ordered. With c chains in
a run, that chain is last with probability 1/c; the d - 1 messages are drawn in order from the first n with probability at
least 1/n^(d - 1).
"""

from dataclasses import dataclass
from random import Random

from headrace import OptionsError
from headrace_properties.search.application import Application, PipelineTrial
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
        messages: priorities change within the first this many messages of a run.
        chains: the most chains that a run has had so far.
    """

    depth: int
    messages: int
    chains: int = 1

    def __post_init__(self) -> None:
        """Refuse an invalid depth."""
        if self.depth < 1:
            raise OptionsError("depth", self.depth, "at least 1")

    @property
    def chance(self) -> float:
        """A lower bound on the probability that a run shows a failure of this depth that its faults make possible."""
        return 1.0 / (self.chains * float(self.messages) ** (self.depth - 1))

    def draw(self, random: Random) -> Priorities:
        """Draw the order of a run."""
        return Priorities(random.getrandbits(_SEED_BITS), self.depth, self.messages)

    def take(self, chains: tuple[int, int]) -> None:
        """Record the number of chains of a run."""
        self.chains = max(self.chains, chains[0])


def ordering_of(application: Application, options: ClusterOptions, feed_seed: int, depth: int) -> Ordering:
    """Return a search's ordering, whose changes fall within the number of messages of a run without faults.

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
        application, PipelineTrial(Plan(NO_FAULTS, options, 0, priorities=Priorities(0, 1, 0)), feed_seed)
    )
    ordering.take(calm.chains)
    ordering.messages = max(calm.chains[1], 1)
    return ordering
