"""`verify`: search for a fault schedule that breaks an invariant, shrink it, and keep it as a file.

Hypothesis draws plans, which are steered to where no fault has struck yet (`headrace_properties.search.steering`);
`headrace_properties.search.shrinking` makes the one that fails smaller. A run in which no fault struck does not count towards the
examples.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from headrace_properties.search.budget import Budget
from headrace_properties.search.coverage import Spot
from headrace_properties.search.judging import Failure, JudgedRun, is_finding, run_plan, try_plan, violations
from headrace_properties.search.parallel import RunPlans, runner
from headrace_properties.search.plans import Plan
from headrace_properties.search.shrinking import Test, shrink
from headrace_properties.search.steering import Steering
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from headrace_sim import SOUND, ClusterOptions, Feed, Protocol, Versions

__all__ = [
    "REPLAY_FORMAT",
    "Failure",
    "JudgedRun",
    "ReplayFile",
    "Search",
    "Verification",
    "is_finding",
    "run_plan",
    "to_replay",
    "try_plan",
    "verify",
    "violations",
]  # fmt: skip

FeedOf = Callable[[int], Feed]
"""Makes the input from a seed."""


@dataclass(slots=True)
class Verification:
    """What a search has found.

    Attributes:
        runs: runs in which at least one fault struck.
        idle: runs in which none did; they do not count.
        events: History events judged.
        struck: fault to how often it really struck.
        reached: interesting case to how often it came up (the `sometimes` twins).
        covered: protocol step, fault and role to how often that fault struck there.
        dropped: elements that groupings of the Dataflow layer dropped, by computation, in all runs.
        verdicts: invariant to its verdict over all runs.
        failure: the shrunk counterexample, if there is one.
    """

    runs: int = 0
    idle: int = 0
    events: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
    covered: Counter[Spot] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    failure: Failure | None = None
    _held: Counter[str] = field(default_factory=Counter)

    @property
    def ok(self) -> bool | None:
        """``True``: every invariant holds; ``False``: one is violated; ``None``: some case never arose.

        Findings about re-run user code under weak productions (S5-weak) do not count: they are no invariants.
        """
        if self.failure is not None:
            return False
        return None if self.unknown or not self.verdicts else True

    @property
    def unknown(self) -> tuple[str, ...]:
        """The invariants whose case never came up; findings about user code are none."""
        return tuple(
            name for name, one in self.verdicts.items() if isinstance(one, Unknown) and not is_finding(name)
        )

    def take(self, judged: JudgedRun) -> None:
        """Add a run."""
        if judged.strikes:
            self.runs += 1
        else:
            self.idle += 1
        self.events += judged.events
        self.struck.update(judged.strikes)
        self.reached.update(judged.cases)
        self.covered.update(judged.covered)
        self.dropped.update(judged.dropped)
        for name, verdict in judged.verdicts.items():
            self._note(name, verdict)

    def fail(self, failure: Failure) -> None:
        """A counterexample is found, or found again smaller."""
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
    """Tell whether it says something that no run in which the invariant held can make up for."""
    return isinstance(verdict, Violated) or (isinstance(verdict, Unknown) and verdict.cut_short)


def verify(
    pipeline: Versions,
    feed_of: FeedOf,
    *,
    examples: int = 200,
    seed: int = 0,
    options: ClusterOptions | None = None,
    protocol: Protocol = SOUND,
    jobs: int = 1,
    on_run: Callable[[Verification], None] | None = None,
) -> Verification:
    """Search for a fault schedule that breaks an invariant; stop at the first one found, and make it as small as possible.

    Args:
        pipeline: the pipeline, or its versions (3), which plans then change.
        feed_of: makes the input from a seed.
        examples: how many runs in which at least one fault strikes.
        seed: of the search and of the input.
        options: of the cluster; each plan draws some of them anew.
        protocol: the state machines to host; default: the engine's own.
        jobs: processes that share the runs. The result does not depend on it.
        on_run: told after each run, for progress.
    """
    feed, base = feed_of(seed), options or ClusterOptions()
    steering = Steering(pipeline, feed, base, seed)
    search = Search(feed, seed, base, on_run)
    with runner(pipeline, feed, protocol, jobs) as run:
        search.find(steering, run, examples)
    return search.result(lambda plan, kept: try_plan(pipeline, kept, plan, protocol))


_MOST_IDLE = 10
"""So many times as many runs as wanted, and the search is over, though in most of them no fault struck."""


class Search:
    """The runs of one search, and the first one that failed.

    Args:
        feed: the input.
        feed_seed: that it was made from.
        base: options that plans vary.
        on_run: told after each run.
    """

    def __init__(
        self, feed: Feed, feed_seed: int, base: ClusterOptions, on_run: Callable[[Verification], None] | None = None
    ) -> None:  # fmt: skip
        self._feed = feed
        self._feed_seed = feed_seed
        self._base = base
        self._on_run = on_run
        self._found = Verification()

    def find(self, steering: Steering, run: RunPlans, examples: int) -> None:
        """Run plans, round by round, until one fails or so many of them count.

        A round is steered by what the rounds before it have reached, and taken in the order in which it was drawn: whoever runs
        it, the first plan that fails is the same.
        """
        found, left = self._found, Budget(_MOST_IDLE * examples).begin()
        while not left.spent:
            plans = steering.round(found.covered)
            for plan, judged in zip(plans, run(plans), strict=True):
                left.run()
                self._take(plan, judged)
                if found.failure is not None or found.runs == examples:
                    return

    def result(self, test: Test) -> Verification:
        """What was found, as small as it can be made. ``test``: runs a plan over an input."""
        found = self._found

        def again(plan: Plan, feed: Feed) -> JudgedRun:
            judged = test(plan, feed)
            self._tell()
            return judged

        if found.failure is not None:
            found.fail(shrink(found.failure, self._feed, self._base, again))
        return found

    def _take(self, plan: Plan, judged: JudgedRun) -> None:
        self._found.take(judged)
        if judged.failed:
            self._found.fail(judged.failure(plan, self._feed_seed))
        self._tell()

    def _tell(self) -> None:
        if self._on_run is not None:
            self._on_run(self._found)


REPLAY_FORMAT = 4
"""Of the files that this version writes, and the oldest that it reads."""


class ReplayFile(msgspec.Struct, frozen=True):
    """A failing run as a file: all that is needed to run it again, byte for byte.

    Attributes:
        pipeline: ``MODULE:PIPELINE``.
        feed_seed: of the input.
        plan: the faults, options and seed.
        protocol: name of the state machines that it ran on.
        digest: of its History; ``""`` if it stopped with an error.
        violations: invariant to message, or ``error`` to what it stopped with.
        feed: name of the function, in the pipeline's module, that makes the input from ``feed_seed``.
        format: of this file; 1 to 3 were written under the project's former name, and name modules that are gone.
        kept: which of the input's records the run needs, by their order from 0; ``None``: all.
        versions: further versions of the pipeline, likewise ``MODULE:PIPELINE``.
    """

    pipeline: str
    feed_seed: int
    plan: Plan
    protocol: str
    digest: str
    violations: dict[str, str]
    feed: str = "feed"
    format: int = REPLAY_FORMAT
    kept: tuple[int, ...] | None = None
    versions: tuple[str, ...] = ()

    def input_of(self, feed: Feed) -> Feed:
        """What the run needs of the whole input."""
        return feed if self.kept is None else feed.only(self.kept)


def to_replay(
    failure: Failure,
    pipeline: str,
    protocol: str = "sound",
    feed: str = "feed",
    versions: tuple[str, ...] = (),
) -> bytes:
    """Write a failure for a file; the arguments are those of `ReplayFile`."""
    broken = {name: one.message for name, one in failure.violations.items()} or {"error": failure.error}
    content = ReplayFile(
        pipeline, failure.feed_seed, failure.plan, protocol, failure.digest, broken, feed, kept=failure.kept,
        versions=versions,
    )  # fmt: skip
    return msgspec.json.format(msgspec.json.encode(content), indent=2)
