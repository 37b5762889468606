"""The result of a search, which grows with each run."""

from collections import Counter
from dataclasses import dataclass, field

from headrace_properties.checkers.invariant_catalogue import is_about_code
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.coverage import Spot
from headrace_properties.search.judging import Failure, JudgedRun
from headrace_properties.search.novelty import Novelty
from headrace_properties.search.ordering import Ordering
from headrace_properties.search.scope import Exploration
from headrace_properties.search.small_parts import size_of
from headrace_properties.search.user_lines import Branch, unreached
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated


@dataclass(slots=True)
class Verification:
    """The result of a search.

    Attributes:
        runs: runs in which at least one fault took effect.
        idle: runs in which none did; they do not count.
        events: History events judged.
        sizes: size of the part of an input (`small_parts.size_of`) to the number of runs on such parts.
        sizes_events: the same, to the number of History events of those runs.
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
        failure: the first counterexample, and in the end the smallest, if there is one.
        exploration: the progress of an exhaustive search; ``None`` for any other search.
        ordering: the orders of a search by priorities; ``None`` for any other search.
    """

    runs: int = 0
    idle: int = 0
    events: int = 0
    sizes: Counter[str] = field(default_factory=Counter)
    sizes_events: Counter[str] = field(default_factory=Counter)
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

    @property
    def counted(self) -> int:
        """The runs that count towards a limit: where all schedules of a scope are run, those without a fault, too."""
        return self.runs if self.exploration is None else self.exploration.total

    def take(self, trial: PipelineTrial, judged: JudgedRun) -> None:
        """Add a run; the first that fails is the counterexample."""
        if judged.strikes:
            self.runs += 1
        else:
            self.idle += 1
        self.events += judged.events
        self.sizes[size_of(trial)] += 1
        self.sizes_events[size_of(trial)] += judged.events
        if self.ordering is not None:
            self.ordering.take(judged.chains)
        if self.exploration is not None:
            self.exploration.take(trial.plan)
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
        if judged.failed and self.failure is None:
            self.fail(judged.failure(trial))

    @property
    def chance_of_news(self) -> float:
        """An estimate of the chance that the next run shows new behaviour, or takes a new branch of user code."""
        return max(self.novelty.chance, self.code.chance)

    def stop(self, why: str) -> None:
        """Note why the search ends before it has run everything; ``""``: it goes on."""
        if self.exploration is not None:
            self.exploration.stopped_for = why
        elif why in ("quiet", "minutes"):
            self.stopped_for = why

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
