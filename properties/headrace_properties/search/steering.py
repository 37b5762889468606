"""Steering a random search to where no fault has struck yet: (role, protocol step, fault).

Rules of this file:

* Plans are drawn in rounds of `ROUND`. The draws depend on the seed, and on what the previous rounds have reached, so any
  number of processes may share a round's runs.
* Hypothesis draws the bytes. All faults at all steps of the healthy run are known beforehand
  (`headrace_properties.search.step_faults`); every plan gets `AIMED` of them, where faults have struck or been tried least
  often. So what a search has not reached is not left to chance, and is combined with random faults.
* The very first plan is the one without faults, on the first input. The inputs take turns.
* Most plans run on small parts of the inputs (`headrace_properties.search.small_parts`): two of three until each input has had
  its turn as a whole, for one of them may have the record that breaks something, and two of four from then on; one of four
  runs on a middle part, and one on a whole input.
"""

import warnings
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from random import Random

import msgspec

from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.coverage import Spot
from headrace_properties.search.fault_kinds import FIRST_TABLE, NEWEST_TABLE
from headrace_properties.search.ground import Ground
from headrace_properties.search.judging import try_plan
from headrace_properties.search.ordering import ordering_of
from headrace_properties.search.parallel import RunTrials
from headrace_properties.search.plans import PLAN_BYTES, Plan, decode_plan, ground_of
from headrace_properties.search.small_parts import (
    MIDDLE,
    SMALL,
    InputPart,
    Meetings,
    breaks_invariant,
    draw_part,
    meetings_in,
    says_nothing,
    with_own_times,
)
from headrace_properties.search.step_faults import single_faults
from headrace_properties.search.store_breaches import breaches_of
from headrace_properties.search.strategy import Batch
from headrace_properties.search.user_lines import EVERY
from headrace_properties.search.verification import Verification
from headrace_sim import NO_FAULTS, SOUND, ClusterOptions, Protocol, StepFault
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


@lru_cache(maxsize=256)
def drawn(seed: int, number: int) -> tuple[bytes, ...]:
    """Return the bytes of a round's plans, as Hypothesis draws them; zeros, the plan without faults, in the first round only.

    Remembered, as a process that searches several pipelines from one seed draws the same for each.

    Args:
        seed: of the search.
        number: of the round, from 0.
    """
    # As late as this: commands that end with an error, or replay a failure, draw nothing.
    from unittest.mock import patch  # noqa: PLC0415

    import hypothesis  # noqa: PLC0415
    from hypothesis import HealthCheck, Phase, given, settings  # noqa: PLC0415
    from hypothesis import strategies as st  # noqa: PLC0415
    from hypothesis.internal.conjecture import providers  # noqa: PLC0415

    plans: list[bytes] = []
    # Hypothesis mixes literals of all imported modules into what it draws, and caches them in the current directory. No plan
    # depends on them, and to read them takes longer than a short search.
    no_constants = patch.object(
        providers, "_get_local_constants", type(providers.GLOBAL_CONSTANTS), create=True
    )

    @hypothesis.seed(seed * _ROUNDS + number)
    @settings(
        max_examples=ROUND, deadline=None, database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.binary(min_size=PLAN_BYTES, max_size=PLAN_BYTES))
    def note(data: bytes) -> None:
        if any(data) or not (number or plans):
            plans.append(data)

    with warnings.catch_warnings(), no_constants:
        warnings.simplefilter("ignore", hypothesis.errors.HypothesisWarning)
        note()
    return tuple(plans)


_STEPS = (1, 8, 16, 24, ROUND)
"""The first round is run in steps, so that what shows at once is found before there are parts: up to these plans."""

_WHOLE_FIRST, _WHOLE_LATER = 3, 4
"""Choice: one plan in so many runs on a whole input, until each input has had its turn, and from then on."""

_PARTS = 24
"""Choice: so many small parts, and so many middle ones, take turns."""

_WATCHED = 11
"""Choice: one run of a whole input in so many is watched where parts have the other runs; prime to the dozen inputs, too."""

StepFaults = Mapping[Spot, list[StepFault]]
"""All faults at all steps of a run without any, by where they are counted."""


@dataclass(frozen=True, slots=True)
class _Scene:
    """What a plan is drawn for: an input or a part of one, what there is to disturb, and faults at its steps."""

    part: InputPart
    ground: Ground
    faults: StepFaults


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
        small_first: run small parts of the inputs first and most often, unless arrivals are ordered by priorities.

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
        small_first: bool = True,
    ) -> None:
        self.application, self.protocol = application, protocol
        self.usual = base = options or ClusterOptions()
        self._feed_seeds = application.feed_seeds(seed, feeds)
        self._ordering = None if depth is None else ordering_of(application, base, seed, depth)
        self.verification = Verification(
            feed_seeds=self._feed_seeds, feeds_asked=feeds, ordering=self._ordering
        )
        self._seed, self._aimed, self._table = seed, aimed, table
        self._small_first = small_first and depth is None
        self._rounds = self._wholes = 0
        self._tried: Counter[Spot] = Counter()
        self._scenes: dict[tuple[bool, int], _Scene | None] = {}
        self._met: dict[int, Meetings] = {}
        self._breaches = breaches_of(application.versions, application.feed(seed), base, outside)
        self._outside = Random(f"{seed}/outside")
        self._run: RunTrials = lambda trials: (try_plan(application, trial, protocol) for trial in trials)

    def batches(self, run: RunTrials) -> Iterator[Batch]:
        """Run round after round, each steered by what those before it have reached; the first one in steps."""
        self._run = run
        begin = 0
        for end in _STEPS:
            yield self._made(self._drawn(0, begin, end, self.verification.covered))
            begin = end
        self._rounds = 1
        while True:
            yield self._made(self.round(self.verification.covered))

    def _made(self, trials: list[PipelineTrial]) -> Batch:
        """Make runs. What breaks the author's part of one on closer arrivals has to break it with the input's own times, too."""
        for trial, judged in zip(trials, self._run(trials), strict=True):
            if trial.gap_us is None or not judged.failed or breaks_invariant(judged, self.application):
                yield trial, judged
                continue
            own_times = with_own_times(trial, self.application)
            healthy = msgspec.structs.replace(own_times, plan=Plan(NO_FAULTS, self.usual, 0))
            again, undisturbed = self._run([own_times, healthy])
            by_faults = not says_nothing(undisturbed, self.application)
            failed = by_faults and again.fails_like(judged.broken, judged.error)
            yield (own_times, again) if failed else (trial, judged.without_failure())

    def round(self, covered: Counter[Spot]) -> list[PipelineTrial]:
        """Return the next round. ``covered``: where faults have struck so far."""
        number, self._rounds = self._rounds, self._rounds + 1
        return self._drawn(number, 0, ROUND, covered)

    def _drawn(self, of_round: int, begin: int, end: int, covered: Counter[Spot]) -> list[PipelineTrial]:
        """Return some trials of a round."""
        data = drawn(self._seed, of_round)[begin:end]
        return [
            self._trial(some, of_round * ROUND + place, covered) for place, some in enumerate(data, begin)
        ]

    def _trial(self, data: bytes, number: int, covered: Counter[Spot]) -> PipelineTrial:
        """Aim a drawn plan at the scene whose turn it is."""
        scene = (self._part_of(number) if self._small_first and number else None) or self._whole()
        in_newest = number // ROUND % _NEWEST_EVERY == _NEWEST_EVERY - 1
        plan = decode_plan(data + bytes([NEWEST_TABLE]) if in_newest else data, scene.ground, self.usual)
        if plan.faults.count:
            plan = self._aim(plan, covered, scene.faults)
        if self._ordering is not None:
            priorities = self._ordering.draw(Random(f"{self._seed}/{number}/priorities"))
            plan = msgspec.structs.replace(plan, priorities=priorities)
        return scene.part.trial(plan, watched=scene.part.kept is None and self._is_watched())

    def _whole(self) -> _Scene:
        """Return the next whole input."""
        turn, self._wholes = self._wholes % len(self._feed_seeds), self._wholes + 1
        return _Scene(InputPart(self._feed_seeds[turn]), self._grounds[turn], self._faults)

    def _is_watched(self) -> bool:
        return (self._wholes - 1) % (_WATCHED if any(self._scenes.values()) else EVERY) == 0

    def _part_of(self, number: int) -> _Scene | None:
        """Return the part whose turn it is; ``None``: it is a whole input's, or the part says nothing."""
        of_round, place = divmod(number, ROUND)
        all_in_turn = number < _WHOLE_FIRST * len(self._feed_seeds)
        if number % (_WHOLE_FIRST if all_in_turn else _WHOLE_LATER) == 0:
            return None
        middle = not all_in_turn and number % _WHOLE_LATER == 1
        index = of_round // 2 if middle else of_round + 3 if of_round else place // 8
        return self._scene(middle, index % _PARTS)

    def _scene(self, middle: bool, index: int) -> _Scene | None:  # noqa: FBT001  a private helper
        """Return the part of a number, prepared once."""
        if (middle, index) not in self._scenes:
            self._scenes[middle, index] = self._prepared(middle, index)
        return self._scenes[middle, index]

    def _prepared(self, middle: bool, index: int) -> _Scene | None:  # noqa: FBT001  a private helper
        application = self.application
        feed_seed = self._feed_seeds[index % len(self._feed_seeds)]
        records = application.feed(feed_seed).records
        if records <= max(MIDDLE if middle else SMALL):
            return None
        random = Random(f"{self._seed}/part/{middle}/{index}")
        part = draw_part(random, feed_seed, records, self._meetings(feed_seed), middle=middle)
        healthy = part.healthy(self.usual)
        if any(says_nothing(judged, application) for judged in self._run([healthy])):
            return None
        feed = application.input_of(healthy)
        return _Scene(part, ground_of(application.versions, feed, self.usual), self._early_faults)

    def _meetings(self, feed_seed: int) -> Meetings:
        if feed_seed not in self._met:
            self._met[feed_seed] = meetings_in(self.application.pipeline, self.application.feed(feed_seed))
        return self._met[feed_seed]

    @cached_property
    def _grounds(self) -> list[Ground]:
        versions, feed = self.application.versions, self.application.feed
        return [ground_of(versions, feed(feed_seed), self.usual) for feed_seed in self._feed_seeds]

    @cached_property
    def _early_faults(self) -> StepFaults:
        """Those of them at the first steps of their kinds, which a part has, too."""
        early = {
            spot: [fault for fault in faults if fault.step.nth <= 2] for spot, faults in self._faults.items()
        }
        return {spot: faults for spot, faults in early.items() if faults}

    @cached_property
    def _faults(self) -> StepFaults:
        """The faults at the steps of the first input."""
        if not self._aimed:
            return {}
        feed = self.application.feed(self._seed)
        try:
            faults = single_faults(self.application.versions, feed, self.usual, table=self._table)
        except Exception:  # noqa: BLE001  user code that fails without any fault: the first plan will show it
            return {}
        Random(f"{self._seed}/steering").shuffle(faults)
        at: defaultdict[Spot, list[StepFault]] = defaultdict(list)
        for fault in faults:
            at[spot_of(fault)].append(fault)
        return at

    def _aim(self, plan: Plan, covered: Counter[Spot], faults: StepFaults) -> Plan:
        given = [self._next(covered, faults) for _ in range(self._aimed if faults else 0)]
        given += self._outside.choice(self._breaches) if self._breaches else ()
        schedule = plan.faults
        return msgspec.structs.replace(plan, faults=schedule.with_planned([*schedule.planned, *given]))

    def _next(self, covered: Counter[Spot], faults: StepFaults) -> StepFault:
        """Return a fault for the place struck or tried least often, a different one each time."""
        tried = self._tried
        spot = min(faults, key=lambda spot: covered[spot] + tried[spot])
        tried[spot] += 1
        return faults[spot][tried[spot] % len(faults[spot])]


def spot_of(fault: StepFault) -> Spot:
    """Return where a fault at a step is counted, if it strikes."""
    return Spot(role_of(fault.step.process), fault.step.verb, fault.fault.kind)
