"""Steering a random search to where no fault has struck yet: (role, protocol step, fault).

Rules of this file:

* Plans are drawn in rounds of `ROUND`. The draws depend on the seed, and on what the previous rounds have reached, so any
  number of processes may share a round's runs.
* Hypothesis draws the bytes. All faults at all steps of the healthy run are known beforehand
  (`headrace_properties.search.step_faults`); every plan gets `AIMED` of them, where faults have struck or been tried least
  often. So what a search has not reached is not left to chance, and is combined with random faults.
* The very first plan is the one without faults, on the first input. The inputs take turns.
"""

import warnings
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from functools import lru_cache
from random import Random
from unittest.mock import patch

import hypothesis
import msgspec
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import providers

from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.coverage import Spot
from headrace_properties.search.fault_kinds import FIRST_TABLE, NEWEST_TABLE
from headrace_properties.search.ordering import ordering_of
from headrace_properties.search.parallel import RunTrials
from headrace_properties.search.plans import PLAN_BYTES, Plan, decode_plan, ground_of
from headrace_properties.search.step_faults import single_faults
from headrace_properties.search.store_breaches import breaches_of
from headrace_properties.search.strategy import Batch
from headrace_properties.search.user_lines import EVERY
from headrace_properties.search.verification import Verification
from headrace_sim import SOUND, ClusterOptions, Protocol, StepFault
from headrace_sim.faults import Breach
from headrace_sim.steps import role_of

FEEDS = 12
"""Default number of inputs of a search. Choice: each gets many runs."""

ROUND = 32
"""Plans in a round. Choice: enough to keep several processes busy, and few enough to aim each round well."""


AIMED = 3
"""Faults that a plan is given. Choice: measured, see docs/explanation/search.md."""

_ROUNDS = 1_000_003
"""More than any search makes."""


_NEWEST_EVERY = 4
"""Choice: every fourth round draws from the newest table of kinds, so that most plans of a seed stay what they were."""


_no_constants = patch.object(providers, "_get_local_constants", type(providers.GLOBAL_CONSTANTS), create=True)
"""Hypothesis mixes literals of all imported modules into what it draws, and caches them in the current directory. No plan depends
on them, and to read them takes longer than a short search."""


@lru_cache(maxsize=256)
def drawn(seed: int, number: int) -> tuple[bytes, ...]:
    """Return the bytes of a round's plans, as Hypothesis draws them; zeros, the plan without faults, in the first round only.

    Remembered, as a process that searches several pipelines from one seed draws the same for each.

    Args:
        seed: of the search.
        number: of the round, from 0.
    """
    plans: list[bytes] = []

    @hypothesis.seed(seed * _ROUNDS + number)
    @settings(
        max_examples=ROUND, deadline=None, database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.binary(min_size=PLAN_BYTES, max_size=PLAN_BYTES))
    def note(data: bytes) -> None:
        if any(data) or not (number or plans):
            plans.append(data)

    with warnings.catch_warnings(), _no_constants:
        warnings.simplefilter("ignore", hypothesis.errors.HypothesisWarning)
        note()
    return tuple(plans)


class Steering:
    """Random plans, round by round, steered to where no fault has struck.

    Args:
        application: what is under test; plans put its versions in force, if there are several.
        seed: of all draws, and of the first input.
        feeds: how many inputs the runs take turns with: those of this seed and the next ones.
        options: of the cluster; each plan draws some of them itself.
        protocol: the state machines to host.
        outside: faults outside the model, of which each plan gets one more.
        depth: draw the order of arrivals by priorities, for failures of this depth (`ordering`); default: draw latencies.
        aimed: faults that a plan is given where none has struck yet; 0: plans are left as they are drawn.
        table: of the kinds of those faults; a seed means the same faults of the same table for ever.

    Raises:
        OptionsError: with ``depth``, it is below 1, or a latency of the options is no interval.
    """

    described = ""

    def __init__(
        self,
        application: Application,
        *,
        seed: int = 0,
        feeds: int = FEEDS,
        options: ClusterOptions | None = None,
        protocol: Protocol = SOUND,
        outside: Collection[Breach] = (),
        depth: int | None = None,
        aimed: int = AIMED,
        table: int = FIRST_TABLE,
    ) -> None:
        self.application, self.protocol = application, protocol
        self.usual = base = options or ClusterOptions()
        self._feed_seeds = application.feed_seeds(seed, feeds)
        self._ordering = None if depth is None else ordering_of(application, base, seed, depth)
        self.verification = Verification(
            feed_seeds=self._feed_seeds, feeds_asked=feeds, ordering=self._ordering
        )
        self._grounds = [
            ground_of(application.versions, application.feed(feed_seed), base)
            for feed_seed in self._feed_seeds
        ]
        self._seed = seed
        self._aimed = aimed
        self._rounds = 0
        self._tried: Counter[Spot] = Counter()
        self._faults: defaultdict[Spot, list[StepFault]] = defaultdict(list)
        feed = application.feed(seed)
        self._breaches = breaches_of(application.versions, feed, base, outside)
        self._outside = Random(f"{seed}/outside")
        for fault in self._all_faults(table):
            self._faults[spot_of(fault)].append(fault)

    def batches(self, run: RunTrials) -> Iterator[Batch]:
        """Run round after round, each steered by what those before it have reached."""
        while True:
            trials = self.round(self.verification.covered)
            yield zip(trials, run(trials), strict=True)

    def _all_faults(self, table: int) -> list[StepFault]:
        if not self._aimed:
            return []
        try:
            feed = self.application.feed(self._seed)
            faults = single_faults(self.application.versions, feed, self.usual, table=table)
        except Exception:  # noqa: BLE001  user code that fails without any fault: the first plan will show it
            return []
        Random(f"{self._seed}/steering").shuffle(faults)
        return faults

    def round(self, covered: Counter[Spot]) -> list[PipelineTrial]:
        """Return the next round. ``covered``: where faults have struck so far."""
        number, self._rounds = self._rounds, self._rounds + 1
        return [
            self._trial(data, number * ROUND + place, covered)
            for place, data in enumerate(drawn(self._seed, number))
        ]

    def _trial(self, data: bytes, number: int, covered: Counter[Spot]) -> PipelineTrial:
        """Aim a drawn plan, and give it the next input in turn."""
        turn = number % len(self._feed_seeds)
        in_newest = number // ROUND % _NEWEST_EVERY == _NEWEST_EVERY - 1
        plan = decode_plan(
            data + bytes([NEWEST_TABLE]) if in_newest else data, self._grounds[turn], self.usual
        )
        aimed = self._aim(plan, covered) if plan.faults.count else plan
        if self._ordering is not None:
            priorities = self._ordering.draw(Random(f"{self._seed}/{number}/priorities"))
            aimed = msgspec.structs.replace(aimed, priorities=priorities)
        return PipelineTrial(aimed, self._feed_seeds[turn], watched=number % EVERY == 0)

    def _aim(self, plan: Plan, covered: Counter[Spot]) -> Plan:
        faults = [self._next(covered) for _ in range(self._aimed if self._faults else 0)]
        faults += self._outside.choice(self._breaches) if self._breaches else ()
        schedule = plan.faults
        return msgspec.structs.replace(plan, faults=schedule.with_planned([*schedule.planned, *faults]))

    def _next(self, covered: Counter[Spot]) -> StepFault:
        """Return a fault for the place struck or tried least often, a different one each time."""
        tried = self._tried
        spot = min(self._faults, key=lambda spot: covered[spot] + tried[spot])
        faults = self._faults[spot]
        tried[spot] += 1
        return faults[tried[spot] % len(faults)]


def spot_of(fault: StepFault) -> Spot:
    """Return where a fault at a step is counted, if it strikes."""
    return Spot(role_of(fault.step.process), fault.step.verb, fault.fault.kind)
