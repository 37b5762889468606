"""Systematic search: every single fault at every protocol step of a small run, and pairs of them.

Each is tried in its own run. Nothing is left to chance, and findings need no shrinking.
"""

from collections.abc import Collection, Iterator
from random import Random

from headrace import SECOND
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.parallel import RunTrials
from headrace_properties.search.plans import Plan, ground_of
from headrace_properties.search.step_faults import pairs_of, single_faults
from headrace_properties.search.store_breaches import breaches_of
from headrace_properties.search.strategy import Batch
from headrace_properties.search.verification import Verification
from headrace_sim import SOUND, ClusterOptions, FaultSchedule, Protocol, StepFault
from headrace_sim.faults import Breach


class Enumeration:
    """Every single fault at every protocol step, or pairs of them: one run each.

    Args:
        application: what is under test.
        feed_seed: of the input.
        options: of the cluster.
        protocol: the state machines to host; default: the engine's own.
        first: number of steps of each kind to try, besides the last one.
        pairs: number of pairs of faults to try instead; 0: single faults.
        seed: for the choice of pairs, and for the order of trials.
        outside: faults outside the model to try as well, at every write.
    """

    usual = None
    described = ""

    def __init__(
        self,
        application: Application,
        *,
        feed_seed: int = 0,
        options: ClusterOptions | None = None,
        protocol: Protocol = SOUND,
        first: int = 2,
        pairs: int = 0,
        seed: int = 0,
        outside: Collection[Breach] = (),
    ) -> None:
        self.application, self.protocol = application, protocol
        self.verification = Verification(feed_seeds=(feed_seed,))
        base, feed = options or ClusterOptions(), application.feed(feed_seed)
        singles = single_faults(application.versions, feed, base, first)
        chosen: list[tuple[StepFault, ...]] = (
            pairs_of(singles, pairs, seed) if pairs else [(single,) for single in singles]
        )
        chosen += breaches_of(application.versions, feed, base, outside)
        # Neighbours find the same, so a broken protocol shows sooner in random order.
        Random(f"{seed}/order").shuffle(chosen)
        heal_at_us = ground_of(application.versions, feed, base).horizon_us + SECOND
        schedules = (FaultSchedule((), heal_at_us, at_steps=faults) for faults in chosen)
        self._trials = [PipelineTrial(Plan(schedule, base, 0), feed_seed) for schedule in schedules]

    def batches(self, run: RunTrials) -> Iterator[Batch]:
        """Run all of them at once."""
        yield zip(self._trials, run(self._trials), strict=True)
