"""`verify`: search for a fault schedule that breaks an invariant, and shrink it.

Hypothesis draws plans, which are steered to steps without a fault so far (`headrace_properties.search.steering`);
`headrace_properties.search.shrinking` minimizes the failing one. A run in which no fault took effect does not count as an
example.
"""

import math
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from headrace_properties.checkers.catalogue import is_about_code
from headrace_properties.search.application import Application, Trial
from headrace_properties.search.budget import Budget
from headrace_properties.search.coverage import Spot
from headrace_properties.search.judging import Failure, JudgedRun, try_plan
from headrace_properties.search.novelty import Novelty
from headrace_properties.search.ordering import Ordering, ordering_of
from headrace_properties.search.parallel import Jobs, RunTrials, run_apart, runner, useful_jobs
from headrace_properties.search.run_error import Stop
from headrace_properties.search.scope import Exploration
from headrace_properties.search.shrinking import shrink
from headrace_properties.search.steering import Steering
from headrace_properties.search.user_lines import Branch, unreached
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from headrace_sim import SOUND, ClusterOptions, Protocol
from headrace_sim.faults import Breach


@dataclass(slots=True)
class Verification:
    """The result of a search.

    Attributes:
        runs: runs in which at least one fault took effect.
        idle: runs in which none did; they do not count.
        events: History events judged.
        struck: fault to how often it really took effect.
        reached: interesting case to how often it came up (the `sometimes` twins).
        covered: protocol step, fault and role to how often that fault took effect there.
        dropped: elements that groupings of the Dataflow layer dropped, by computation, in all runs.
        verdicts: invariant to its verdict over all runs.
        feed_seeds: seeds of the different inputs that the runs take turns with.
        feeds_asked: how many inputs were wanted; more than there are if some seeds make the same one.
        novelty: what the runs have shown, and what they may not have.
        code: the branches of user code that the watched runs took, counted in the same way.
        unreached: lines of user code, as (file, line), that no watched run reached; known at the end.
        stopped_for: why a search ended before all runs were made: ``quiet`` or ``minutes``.
        failure: the shrunk counterexample, if there is one.
        exploration: the progress of an exhaustive search; ``None`` for any other search.
        ordering: the orders of a search by priorities; ``None`` for any other search.
    """

    runs: int = 0
    idle: int = 0
    events: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    covered: Counter[Spot] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    feed_seeds: tuple[int, ...] = ()
    feeds_asked: int = 1
    novelty: Novelty = field(default_factory=Novelty)
    code: Novelty = field(default_factory=Novelty)
    unreached: tuple[tuple[str, int], ...] = ()
    stopped_for: str = ""
    failure: Failure | None = None
    exploration: Exploration | None = None
    ordering: Ordering | None = None
    _branches: set[Branch] = field(default_factory=set)
    _held: Counter[str] = field(default_factory=Counter)

    @property
    def ok(self) -> bool | None:
        """``True``: every invariant holds; ``False``: one is violated; ``None``: some case never arose.

        Findings about re-run user code under weak productions (S5-weak) do not count: they are no invariants.
        """
        if self.failure is not None:
            return False
        return None if self.unknown or not self.verdicts or not self.exhausted else True

    @property
    def exhausted(self) -> bool:
        """Whether all planned runs were made; only an exhaustive search can be incomplete."""
        return self.exploration is None or self.exploration.exhausted

    @property
    def unknown(self) -> tuple[str, ...]:
        """The invariants that were never exercised, without findings about user code."""
        return tuple(
            name
            for name, verdict in self.verdicts.items()
            if isinstance(verdict, Unknown) and not is_about_code(name)
        )

    def take(self, judged: JudgedRun) -> None:
        """Add a run."""
        if judged.strikes:
            self.runs += 1
        else:
            self.idle += 1
        self.events += judged.events
        if self.ordering is not None:
            self.ordering.take(judged.chains)
        self.struck.update(judged.strikes)
        self.reached.update(judged.cases)
        self.covered.update(judged.covered)
        self.dropped.update(judged.dropped)
        self.novelty.take(judged.behaviour)
        if judged.branches is not None:
            self.code.take(f"{file}: {first}, then {then}" for file, first, then in judged.branches)
            self._branches |= judged.branches
        for name, verdict in judged.verdicts.items():
            self._note(name, verdict)

    @property
    def chance_of_news(self) -> float:
        """An estimate of the chance that the next run shows new behaviour, or takes a new branch of user code."""
        return max(self.novelty.chance, self.code.chance)

    def end(self, application: Application) -> None:
        """Note what no run has reached."""
        if self._branches:
            self.unreached = unreached(application, self._branches)

    def fail(self, failure: Failure) -> None:
        """Note a counterexample, or a smaller one."""
        self.failure = failure
        self.verdicts.update(failure.violations)

    def _note(self, name: str, verdict: Verdict) -> None:
        before = self.verdicts.get(name)
        cut_short = isinstance(before, Unknown) and before.cut_short
        if isinstance(verdict, Holds):
            self._held[name] += verdict.reached
            if not isinstance(before, Violated) and not cut_short:
                self.verdicts[name] = Holds(self._held[name])
        elif before is None or (_outranks_holds(verdict) and not isinstance(before, Violated)):
            self.verdicts[name] = verdict


def _outranks_holds(verdict: Verdict) -> bool:
    """Return whether a verdict outweighs runs in which the invariant held."""
    return isinstance(verdict, Violated) or (isinstance(verdict, Unknown) and verdict.cut_short)


FEEDS = 12
"""Inputs of a search, unless it is told otherwise. Choice: each gets many runs."""


def verify(
    application: Application,
    *,
    examples: int = 200,
    seed: int = 0,
    feeds: int = FEEDS,
    until_quiet: float = 0.0,
    minutes: float = math.inf,
    options: ClusterOptions | None = None,
    protocol: Protocol = SOUND,
    jobs: Jobs = 1,
    outside: Collection[Breach] = (),
    depth: int | None = None,
    on_run: Callable[[Verification], None] | None = None,
) -> Verification:
    """Search for a fault schedule that breaks an invariant; stop at the first one found, and make it as small as possible.

    Args:
        application: what is under test; plans put its versions in force, if there are several.
        examples: number of runs in which at least one fault takes effect.
        seed: seed of the search and of the first input.
        feeds: how many inputs the runs take turns with: those of this seed and the next ones.
        until_quiet: stop once the chance that the next run shows something new is estimated below this (`novelty`).
        minutes: stop after this much wall time; the number of runs then depends on the machine.
        options: of the cluster; each plan draws some of them itself.
        protocol: the state machines to host; default: the engine's own.
        jobs: processes that share the runs, or a pool of them. The result does not depend on it.
        outside: faults outside the model, of which each run gets one.
        depth: draw the order of arrivals by priorities, for failures of this depth (`ordering`); default: draw latencies.
        on_run: called after each run, for progress.

    Raises:
        OptionsError: with ``depth``, it is below 1, or a latency of the options is no interval.
    """
    base = options or ClusterOptions()
    feed_seeds = application.feed_seeds(seed, feeds)
    ordering = None if depth is None else ordering_of(application, base, seed, depth)
    steering = Steering(application, base, seed, feed_seeds, outside=outside, ordering=ordering)
    found = Verification(feed_seeds=feed_seeds, feeds_asked=feeds, ordering=ordering)
    tell = on_run or (lambda _: None)
    with runner(application, protocol, useful_jobs(jobs, examples)) as run:
        _find(found, steering, run, examples, until_quiet, minutes, tell)
    found.end(application)
    if found.failure is not None:
        error = found.failure.error
        make = run_apart if error is not None and error.stop is Stop.ENDED else try_plan

        def again(trial: Trial) -> JudgedRun:
            judged = make(application, trial, protocol)
            tell(found)
            return judged

        found.fail(shrink(found.failure, application, base, again))
    return found


_MOST_IDLE = 10
"""The search ends after this multiple of the requested runs, even if no fault took effect in most of them."""


def _find(
    found: Verification,
    steering: Steering,
    run: RunTrials,
    examples: int,
    until_quiet: float,
    minutes: float,
    tell: Callable[[Verification], None],
) -> None:
    """Make runs, round by round, until one fails or enough of them count.

    A round is steered by what the rounds before it have reached, and taken in the order in which it was drawn: whoever makes
    it, the first run that fails is the same.
    """
    left = Budget(_MOST_IDLE * examples).begin()
    ends_s = time.monotonic() + minutes * 60
    while not left.spent:
        trials = steering.round(found.covered)
        for trial, judged in zip(trials, run(trials), strict=True):
            left.run()
            found.take(judged)
            if judged.failed:
                found.fail(judged.failure(trial))
            tell(found)
            if found.failure is not None or found.runs == examples:
                return
            if time.monotonic() >= ends_s:
                found.stopped_for = "minutes"
                return
        if found.chance_of_news < until_quiet:
            found.stopped_for = "quiet"
            return
