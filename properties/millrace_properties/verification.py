"""`verify`: search for a fault schedule that breaks an invariant, shrink it, and keep it as a file.

Hypothesis draws plans (`millrace_properties.plans`) and shrinks the one that fails. A run in which no fault struck does not count
towards the examples.
"""

import warnings
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import hypothesis
import msgspec
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from millrace import Pipeline
from millrace.history import FaultStruck, History
from millrace_properties.checkers import judge, reached
from millrace_properties.plans import PLAN_BYTES, Plan, decode_plan, ground_of
from millrace_properties.verdict import Holds, Unknown, Verdict, Violated
from millrace_sim import SOUND, ClusterOptions, Feed, Protocol, simulate

FeedOf = Callable[[int], Feed]
"""Makes the input from a seed."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A plan that breaks something, as small as it could be made.

    Attributes:
        plan: the faults, options and seed.
        feed_seed: of the input.
        violations: invariant to what it broke.
        digest: of its History.
        error: what the run stopped with instead, if it did.
    """

    plan: Plan
    feed_seed: int
    violations: dict[str, Violated]
    digest: str
    error: str = ""


@dataclass(slots=True)
class Verification:
    """What a search has found.

    Attributes:
        runs: runs in which at least one fault struck.
        idle: runs in which none did; they do not count.
        events: History events judged.
        struck: fault to how often it really struck.
        reached: interesting case to how often it came up (the `sometimes` twins).
        verdicts: invariant to its verdict over all runs.
        failure: the shrunk counterexample, if there is one.
    """

    runs: int = 0
    idle: int = 0
    events: int = 0
    struck: Counter[str] = field(default_factory=Counter)
    reached: Counter[str] = field(default_factory=Counter)
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
        unknown = [
            name for name, one in self.verdicts.items() if isinstance(one, Unknown) and not is_finding(name)
        ]
        return None if unknown or not self.verdicts else True

    def take(self, history: History, verdicts: dict[str, Verdict], cases: dict[str, int]) -> int:
        """Add a run; returns how many faults struck in it."""
        strikes = [
            event.kind for event in history if isinstance(event, FaultStruck) and event.kind not in _ENDS
        ]
        if strikes:
            self.runs += 1
        else:
            self.idle += 1
        self.events += len(history)
        self.struck.update(strikes)
        self.reached.update(cases)
        for name, verdict in verdicts.items():
            self._note(name, verdict)
        return len(strikes)

    def _note(self, name: str, verdict: Verdict) -> None:
        before = self.verdicts.get(name)
        if isinstance(verdict, Holds):
            self._held[name] += verdict.reached
            if not isinstance(before, Violated):
                self.verdicts[name] = Holds(self._held[name])
        elif before is None or (isinstance(verdict, Violated) and not isinstance(before, Violated)):
            self.verdicts[name] = verdict


_ENDS = frozenset({"restart", "revive"})
"""Strikes that end a fault, rather than being one."""


class _Broken(Exception):  # noqa: N818  it carries a finding to Hypothesis, it is not an error
    """A run broke an invariant."""


def run_plan(
    pipeline: Pipeline, feed: Feed, plan: Plan, protocol: Protocol = SOUND
) -> tuple[History, dict[str, Verdict], dict[str, int]]:
    """Run one plan and judge it: (history, verdict by invariant, interesting cases).

    Raises:
        MillraceError: user code or input stopped the run.
    """
    history = simulate(
        pipeline, feed, options=plan.options, faults=plan.faults, seed=plan.seed, protocol=protocol
    )
    return history, judge(history, [pipeline]), reached(history)


def is_finding(name: str) -> bool:
    """Tell whether a verdict is about user code, and not about the protocol."""
    return name.endswith("-weak")


def violations(verdicts: dict[str, Verdict]) -> dict[str, Violated]:
    """Those that are broken. Findings about user code under weak productions are not the protocol's, and left out."""
    return {name: one for name, one in verdicts.items() if isinstance(one, Violated) and not is_finding(name)}


def verify(
    pipeline: Pipeline,
    feed_of: FeedOf,
    *,
    examples: int = 200,
    seed: int = 0,
    options: ClusterOptions | None = None,
    protocol: Protocol = SOUND,
    on_run: Callable[[Verification], None] | None = None,
) -> Verification:
    """Run a pipeline under this many fault schedules, and judge each.

    Args:
        pipeline: what to verify.
        feed_of: makes an input from a seed.
        examples: runs in which at least one fault really struck.
        seed: of the search; the same seed makes the same search.
        options: of the cluster, where a plan does not vary them.
        protocol: the state machines to host; default: the engine's own.
        on_run: told after each run, for progress.
    """
    base = options or ClusterOptions()
    search = _Search(pipeline, feed_of(seed), seed, base, protocol, on_run)

    @hypothesis.seed(seed)
    @settings(
        max_examples=examples, deadline=None, database=None, print_blob=False, report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink), suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(st.binary(min_size=PLAN_BYTES, max_size=PLAN_BYTES))
    def every_schedule(data: bytes) -> None:
        assume(search.run(data))

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", hypothesis.errors.HypothesisWarning)
            every_schedule()
    except _Broken:
        pass
    return search.result()


class _Search:
    """The runs of one search, and the last one that failed."""

    def __init__(
        self, pipeline: Pipeline, feed: Feed, feed_seed: int, base: ClusterOptions, protocol: Protocol,
        on_run: Callable[[Verification], None] | None,
    ) -> None:  # fmt: skip
        self._pipeline = pipeline
        self._feed = feed
        self._feed_seed = feed_seed
        self._base = base
        self._protocol = protocol
        self._on_run = on_run
        self._ground = ground_of(pipeline, feed, base)
        self._verification = Verification()

    def run(self, data: bytes) -> int:
        """Run a plan; returns how many faults struck. A broken invariant is remembered, and raised to Hypothesis."""
        plan = decode_plan(data, self._ground, self._base)
        found = self._verification
        try:
            history, verdicts, cases = run_plan(self._pipeline, self._feed, plan, self._protocol)
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            found.failure = Failure(plan, self._feed_seed, {}, "", text)
            raise _Broken(text) from error
        broken = violations(verdicts)
        strikes = 1
        if found.failure is None:  # what is run to shrink a failure is not counted
            strikes = found.take(history, verdicts, cases)
        if broken:
            found.failure = Failure(plan, self._feed_seed, broken, history.digest())
        if self._on_run is not None:
            self._on_run(found)
        if broken:
            raise _Broken(", ".join(broken))
        return strikes

    def result(self) -> Verification:
        """What was found."""
        if self._verification.failure is not None:
            self._verification.verdicts.update(self._verification.failure.violations)
        return self._verification


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
        format: of this file.
    """

    pipeline: str
    feed_seed: int
    plan: Plan
    protocol: str
    digest: str
    violations: dict[str, str]
    feed: str = "feed"
    format: int = 1


def to_replay(failure: Failure, pipeline: str, protocol: str = "sound", feed: str = "feed") -> bytes:
    """Write a failure for a file; the arguments are those of `ReplayFile`."""
    broken = {name: one.message for name, one in failure.violations.items()} or {"error": failure.error}
    content = ReplayFile(pipeline, failure.feed_seed, failure.plan, protocol, failure.digest, broken, feed)
    return msgspec.json.format(msgspec.json.encode(content), indent=2)
