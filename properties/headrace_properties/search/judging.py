"""Make and judge one run of a plan: its verdicts, the faults that took effect and where, and its failure, if any, as a value."""

from collections import Counter
from collections.abc import Callable, Collection, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

from headrace import MAX_TIME
from headrace.history import History
from headrace_properties.checkers import reached
from headrace_properties.checkers.drops import DropCounter
from headrace_properties.checkers.invariant_catalogue import is_about_code
from headrace_properties.promises import PromiseError
from headrace_properties.promises.steadiness import judge_steadily
from headrace_properties.search.agreement import check_agreement
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.coverage import Spot, covered, strikes_of
from headrace_properties.search.limits import OverrunError, call_time_limited
from headrace_properties.search.novelty import behaviour
from headrace_properties.search.plans import Plan
from headrace_properties.search.run_error import RunError
from headrace_properties.search.user_lines import Branch, watched
from headrace_properties.verdict import Verdict, Violated
from headrace_sim import SOUND, Arrivals, Cluster, Feed, Protocol, simulate, versions_of


@dataclass(frozen=True, slots=True)
class Failure:
    """A minimized plan that violates something.

    Attributes:
        plan: the faults, options and seed.
        feed_seed: seed of the input.
        violations: invariant or promise to how it was violated.
        digest: digest of its History.
        error: the error that stopped the run instead, if one did.
        kept: positions of the input records that it needs, counted from 0; ``None``: all.
        gap_us: the longest time between two of their arrivals; ``None``: they come when the input has them.
    """

    plan: Plan
    feed_seed: int
    violations: dict[str, Violated]
    digest: str
    error: RunError | None = None
    kept: tuple[int, ...] | None = None
    gap_us: int | None = None

    @property
    def trial(self) -> PipelineTrial:
        """The run that shows the failure."""
        return PipelineTrial(self.plan, self.feed_seed, self.kept, self.gap_us)


@dataclass(frozen=True, slots=True)
class JudgedRun:
    """The outcome of a run.

    Attributes:
        verdicts: by invariant or promise; none if it stopped with an error.
        cases: interesting case to how often it came up.
        covered: which fault took effect where.
        strikes: fault to how often it took effect.
        events: how many events its History has.
        digest: of its History; ``""`` if it stopped.
        error: the error that stopped it, if one did.
        dropped: elements that groupings of the Dataflow layer dropped, by computation.
        behaviour: the behaviour that it showed (`headrace_properties.search.novelty`).
        branches: branches of user code that it took; ``None`` if it was not watched.
        further: how many arrivals the plan's last delay would have to wait for to be delayed further; ``None`` if it cannot.
        chains: with priorities, how many chains of messages it had, and how many messages.
    """

    verdicts: dict[str, Verdict]
    cases: dict[str, int]
    covered: Counter[Spot]
    strikes: Counter[str]
    events: int
    digest: str
    error: RunError | None = None
    dropped: Counter[str] = field(default_factory=Counter)
    behaviour: frozenset[str] = frozenset()
    branches: frozenset[Branch] | None = None
    further: int | None = None
    chains: tuple[int, int] = (0, 0)

    @property
    def broken(self) -> dict[str, Violated]:
        """The invariants and promises that it violates."""
        return violations(self.verdicts)

    @property
    def failed(self) -> bool:
        """Whether it violates an invariant or a promise, or stopped with an error."""
        return bool(self.error or self.broken)

    def without_failure(self) -> "JudgedRun":
        """Return it with what it has shown, but without what it violates and the error that stopped it."""
        verdicts = {name: verdict for name, verdict in self.verdicts.items() if name not in self.broken}
        return replace(self, verdicts=verdicts, error=None)

    def fails_like(self, violated: Collection[str], error: RunError | None) -> bool:
        """Return whether it violates one of these, or, if there are none, stopped with an error of this one's class."""
        if violated:
            return bool(self.broken.keys() & set(violated))
        return self.error is not None and error is not None and self.error.name == error.name

    def failure(self, trial: PipelineTrial) -> Failure:
        """Return the run as a failure. ``trial``: what was run."""
        return Failure(
            trial.plan, trial.feed_seed, self.broken, self.digest, self.error, trial.kept, trial.gap_us
        )


def run_plan(
    application: Application,
    trial: PipelineTrial,
    protocol: Protocol = SOUND,
    arrivals: Arrivals | None = None,
) -> tuple[History, dict[str, Verdict], dict[str, int]]:
    """Make one run and judge it: (history, verdict by invariant or promise, interesting cases).

    ``arrivals``: the plan's arrivals; default: new ones.

    Raises:
        AssertionError: nothing is violated, but a process's memory contradicts itself, or is more than it may be.
        HeadraceError: user code or input stopped the run, or a promise is wrong in itself.
    """
    plan, versions = trial.plan, application.versions
    feed = application.input_of(trial)
    if arrivals is None:
        arrivals = arrivals_of(plan)
    wrong: list[AssertionError] = []

    def look(cluster: Cluster) -> None:
        try:
            cluster.check_invariants()
            check_agreement(cluster, plan.faults, plan.options.engine)
        except AssertionError as error:
            wrong.append(error)

    history = simulate(
        versions,
        feed,
        options=plan.options,
        faults=plan.faults,
        seed=plan.seed,
        protocol=protocol,
        redraw=trial.redraw,
        most_events=most_events(feed),
        arrivals=arrivals,
        look=look,
    )
    deployed = versions_of(versions)
    verdicts = judge_steadily(history, application.promises, deployed, plan.options.engine)
    if wrong and all(is_about_code(name) for name in violations(verdicts)):
        raise wrong[0]
    return history, verdicts, reached(history)


def arrivals_of(plan: Plan) -> Arrivals | None:
    """Return what decides the order of arrivals in a run; ``None`` means randomly drawn latencies."""
    if plan.delays is None and plan.priorities is None:
        return None
    return Arrivals(plan.delays or (), plan.priorities)


def most_events(feed: Feed) -> int:
    """Return the number of events of the simulation beyond which a run is assumed never to end.

    Choice: a run of a search has some hundred events per record.
    """
    return 1_000_000 + feed.records * 5_000


def try_plan(
    application: Application,
    trial: PipelineTrial,
    protocol: Protocol = SOUND,
    more: Callable[[History], dict[str, Verdict]] = lambda _: {},
) -> JudgedRun:
    """Make a run, judge it, and note the faults that took effect; an error is an outcome, too.

    ``more``: gives further verdicts of the History, beside those of the checkers.

    Raises:
        PromiseError: a promise is wrong in itself, which says nothing of the application; but not on a part of an input whose
            arrivals are put closer, where it may expect what is not there.
    """
    arrivals = arrivals_of(trial.plan)
    application.feed(
        trial.feed_seed
    )  # the function that makes the input may fail, too, which is not an outcome of a run
    try:
        with (
            call_time_limited(application.limits),
            watched(application) if trial.watched else nullcontext() as taken,
        ):
            history, verdicts, cases = run_plan(application, trial, protocol, arrivals)
    except PromiseError:
        if trial.gap_us is None:
            raise
        return JudgedRun(
            {}, {}, Counter(), Counter(), 0, ""
        )  # it expects more of an input than this part of one
    except (Exception, SystemExit, OverrunError) as error:  # noqa: BLE001  user code and broken protocols may raise anything: it is what is looked for
        return JudgedRun({}, {}, Counter(), Counter(), 0, "", RunError.of(error))
    drops = DropCounter(versions_of(application.versions))
    drops.take(history)
    spots = covered(history)
    return JudgedRun(
        verdicts | more(history),
        cases,
        spots,
        strikes_of(history),
        len(history),
        history.digest(),
        dropped=drops.counts(),
        behaviour=behaviour(history, spots),
        branches=None if taken is None else frozenset(taken),
        further=None if arrivals is None else arrivals.further(),
        chains=(0, 0) if arrivals is None else arrivals.size,
    )


def violations(verdicts: dict[str, Verdict]) -> dict[str, Violated]:
    """Return the violated ones, the cause first, without findings on user code under weak productions, not the protocol's."""
    return {name: violated for name, violated in by_cause(verdicts).items() if not is_about_code(name)}


_CAUSES_FIRST = (
    "S6", "S7", "S2", "S1", "S3", "S9", "S8", "S5", "S4", "S14", "S15", "S10", "S11", "S12", "S13", "S16",
    "L5", "L1", "L2", "L3", "L4",
)  # fmt: skip
"""Invariants by explanatory power: the others follow from the first violated one."""


def by_cause(verdicts: Mapping[str, Verdict]) -> dict[str, Violated]:
    """Return the violated ones; the one that the others follow from comes first.

    Those of the protocol cause those of user code. Of several promises, the one that was broken first leads. Findings that only
    explain come last.
    """
    broken = {name: verdict for name, verdict in verdicts.items() if isinstance(verdict, Violated)}

    def precedence(name: str) -> tuple[int, bool, int]:
        rank = _CAUSES_FIRST.index(name) if name in _CAUSES_FIRST else len(_CAUSES_FIRST)
        return (
            rank,
            is_about_code(name),
            max((event.at_us for event in broken[name].witness), default=MAX_TIME),
        )

    return {name: broken[name] for name in sorted(broken, key=precedence)}
