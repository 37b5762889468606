"""The trials of a pipeline in one session: its code by itself, kept failures, and a search."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from msgspec import structs

from headrace_properties.checkers.invariant_catalogue import is_about_code
from headrace_properties.explain.descriptions import describe_failure
from headrace_properties.explanation import Explanation
from headrace_properties.findings import Finding, FindingClass, Kind, ranked
from headrace_properties.kept_failures import KeptFailure, KeptFailures, Retried
from headrace_properties.pipeline_target import PipelineTarget, Search
from headrace_properties.replays import ERROR, kind_of, messages_of, to_replay
from headrace_properties.search.application import Application, PipelineTrial
from headrace_properties.search.judging import JudgedRun
from headrace_properties.search.origins import input_digest
from headrace_properties.search.parallel import Jobs, runner, useful_jobs
from headrace_properties.search.plausible import implausible, missing_records
from headrace_properties.search.store_breaches import is_outside
from headrace_properties.search.verification import Verification
from headrace_properties.target import PipelineSource
from headrace_properties.target_kinds import TargetKind
from headrace_properties.user_code.code_trial import CodeTrial
from headrace_properties.user_code.review import DELIVERED, CodeReview, redelivered, review
from headrace_properties.user_code.two_runs import explain_redelivered
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from headrace_sim import SOUND, Protocol


@dataclass(slots=True)
class PipelineTrials:
    """The trials of a pipeline in one session: a review of its code, kept failures, and a search.

    Attributes:
        target: the pipeline.
        wanted: the search.
        jobs: processes that share the runs, or a pool of them.
        on_run: called after each run, for progress.
        allow_unknown: invariants and promises that no run needs to exercise.
        code: what is known about the user's code; ``None``: a broken protocol is not there to judge it.
        verification: what the runs have shown so far.
        again: the file of the kept failure that failed again, which is then the result.
        ended: whether the search has come to its end.
        elsewhere: names of promises that do not stand in the pipeline's module, where a replay would read them.
    """

    target: PipelineTarget
    wanted: Search
    jobs: Jobs = 1
    on_run: Callable[[Verification], None] = lambda _: None
    allow_unknown: Collection[str] = ()
    code: CodeReview | None = None
    verification: Verification = field(default_factory=Verification)
    again: Path | None = None
    ended: bool = False
    elsewhere: frozenset[str] = frozenset()

    @property
    def kind(self) -> TargetKind:
        """What it is."""
        return self.target.kind

    def review(self) -> None:
        """Review the user's code alone, over all inputs of the search, before a cluster hosts it.

        Raises:
            TargetError: what makes the input makes none, or another one each time.
        """
        target, wanted = self.target, self.wanted
        target.check_input(wanted.seed)
        if target.protocol is not SOUND:
            return
        seeds = target.application.feed_seeds(wanted.seed, wanted.feeds)
        feeds = {seed: target.feed(seed) for seed in seeds}
        self.code = review(
            target.deployed,
            feeds,
            options=target.options,
            seed=wanted.seed,
            limits=target.application.limits,
            promises=target.promises,
            source=target.feed_source,
        )

    def retry(self, kept: KeptFailures) -> Sequence[Retried]:
        """Try kept findings about the code, and then kept failures of runs again."""
        target, retried = self.target, list[Retried]()
        if self.code is not None:
            self.code, of_code = retry_code(target.application, kept.load(), self.code)
            retried += of_code
        if self._useless:
            return retried
        runs = retry_runs(target.application, kept.load(), target.protocol, self.jobs)
        verification = found_again(runs)
        if verification is not None:
            self.verification, self.ended = verification, True
            self.again = next(failure.path for failure in runs if failure.failed)
        return [*retried, *runs]

    def search(self) -> None:
        """Search, unless a kept failure has failed again, or the runs would do harm."""
        if not (self.ended or self._useless):
            self.verification = self.target.search(self.wanted, self.jobs, self._take)
            self.ended = True

    def _take(self, verification: Verification) -> None:
        self.verification = verification
        self.on_run(verification)

    @property
    def expected(self) -> int:
        """How many runs the search takes, if it finds nothing."""
        return self.target.expected_runs(self.wanted)

    @property
    def source(self) -> PipelineSource:
        """Where the pipeline comes from."""
        return self.target.source

    @property
    def _useless(self) -> bool:
        return self.code is not None and bool(self.code.why_no_runs)

    @property
    def failing(self) -> Finding | None:
        """The smallest failing run that was found, by the first thing that it violates; ``None``: none fails."""
        failure = self.verification.failure
        if failure is None:
            return None
        (kind, message), *_ = messages_of(failure).items()
        violated = failure.violations.get(kind.name)
        witness = () if violated is None else violated.witness
        return Finding(kind, message, trial=failure.trial, witness=witness)

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is wrong with user code, then the failing run, and then what only the author can say of the code."""
        code = self.code or CodeReview(())
        asked = (
            finding
            for finding in code.of(FindingClass.UNDECLARED)
            if finding.kind.name not in self.allow_unknown
        )
        failing = () if self.failing is None else (self.failing,)
        return (*code.of(FindingClass.VIOLATED), *failing, *asked)

    @property
    def unknown(self) -> tuple[str, ...]:
        """What no run exercised, and may not go unexercised."""
        return tuple(name for name in self.verification.unknown if name not in self.allow_unknown)

    @property
    def is_open(self) -> bool:
        """Whether something that the search was to judge was not judged."""
        verification = self.verification
        nothing = all(isinstance(verdict, Unknown) for verdict in verification.verdicts.values())
        return bool(self.unknown) or not verification.exhausted or nothing

    def told(self, finding: Finding) -> str:
        """Tell a finding in paragraphs, as a test's report shows it."""
        application, failure = self.target.application, self.verification.failure
        if failure is not None and finding == self.failing:
            return describe_failure(failure, application).rstrip()
        return finding.told(application.pipeline.name)

    @property
    def leading(self) -> Finding | None:
        """The failing run, or else the first finding about the code."""
        return self.failing or next(iter(self.findings), None)

    def explanation(self, finding: Finding) -> Explanation | None:
        """Return both runs that tell a finding about the code; ``None``: there are none."""
        trial = finding.trial
        return (
            explain_code(self.target.application, trial, [finding.kind])
            if isinstance(trial, CodeTrial)
            else None
        )

    def replay(self, finding: Finding) -> bytes | None:
        """Write a finding for a file; ``None``: only several inputs together show it."""
        if finding.trial is None:
            return None
        digest, failure = (
            input_digest(self.target.application.input_of(finding.trial)),
            self.verification.failure,
        )
        if failure is not None and finding == self.failing:
            messages = messages_of(failure)
            return to_replay(self.source, finding.trial, messages, digest=failure.digest, input_digest=digest)
        messages = {finding.kind: " ".join(finding.sentences)}
        return to_replay(self.source, finding.trial, messages, input_digest=digest)

    def file_of(self, finding: Finding) -> Path | None:
        """Return the file of the kept failure that failed again, if this is it."""
        return self.again if finding == self.failing else None

    def why_not_kept(self, finding: Finding) -> str:
        """Return why later sessions do not try it again; ``""``: they do."""
        failure = self.verification.failure
        if finding.trial is None:
            return "only several inputs together show it"
        if failure is None or finding != self.failing:
            return ""
        lacking = next((name for name in failure.violations if name in self.elsewhere), None)
        if lacking is not None:
            return f"add {lacking} to a list promises beside the pipeline, where replay reads it"
        return "it is outside the model" if is_outside(failure.plan) else ""


def retry_runs(
    application: Application, kept: Sequence[KeptFailure], protocol: Protocol, jobs: Jobs = 1
) -> tuple[Retried, ...]:
    """Run kept failures of a cluster again; leave out the others.

    Args:
        application: what is under test.
        kept: the failures.
        protocol: the state machines to host.
        jobs: processes that share the runs.
    """
    runs = [
        (failure, failure.replay.trial) for failure in kept if isinstance(failure.replay.trial, PipelineTrial)
    ]
    wrong = [implausible(trial.plan, application.feed(trial.feed_seed), trial.kept) for _, trial in runs]
    fit = [trial for (_, trial), why in zip(runs, wrong, strict=True) if not why]
    with runner(application, protocol, useful_jobs(jobs, len(fit))) as run:
        done = iter(list(run(fit)))
    return tuple(
        Retried(failure, wrong=why) if why else _judged(failure, next(done), application, trial)
        for (failure, trial), why in zip(runs, wrong, strict=True)
    )


def _judged(
    failure: KeptFailure, judged: JudgedRun, application: Application, trial: PipelineTrial
) -> Retried:
    changes = failure.replay.changes(input_digest(application.input_of(trial)))
    return Retried(failure, verdicts_of(judged), changes, judged=judged)


def verdicts_of(judged: JudgedRun) -> dict[Kind, Verdict]:
    """Return the verdicts of a run by kind, those that are violated first and in order of their causes."""
    ended: Verdict = Violated(str(judged.error), ()) if judged.error else Holds(1)
    verdicts = {
        **judged.broken,
        **{name: verdict for name, verdict in judged.verdicts.items() if not is_about_code(name)},
    }
    return {ERROR: ended} | {kind_of(name): verdict for name, verdict in verdicts.items()}


def found_again(retried: Sequence[Retried]) -> Verification | None:
    """Return the runs' verification if one of them failed; the first one is the failure."""
    runs = [
        (again.kept.replay.trial, again.judged)
        for again in retried
        if isinstance(again.kept.replay.trial, PipelineTrial) and again.judged is not None
    ]
    seeds = tuple(dict.fromkeys(trial.feed_seed for trial, _ in runs))
    verification = Verification(feed_seeds=seeds, feeds_asked=len(seeds))
    for trial, judged in runs:
        verification.take(trial, judged)
    return None if verification.failure is None else verification


def retry_code(
    application: Application, kept: Sequence[KeptFailure], known: CodeReview
) -> tuple[CodeReview, tuple[Retried, ...]]:
    """Look for kept findings about user code again; return the review with them added, and the result of each.

    Args:
        application: what is under test.
        kept: the failures; those of runs are left out.
        known: today's findings. What it contains is not looked for; nothing is if it says that runs do harm.
    """
    retried = []
    for failure in kept:
        replay, trial = failure.replay, failure.replay.trial
        if not isinstance(trial, CodeTrial):
            continue
        wrong = missing_records(application.feed(trial.feed_seed), trial.kept)
        if wrong:
            retried.append(Retried(failure, wrong=wrong))
            continue
        verdicts: dict[Kind, Verdict] = {
            kind: verdict for kind, verdict in known.verdicts.items() if replay.shows(kind)
        }
        if not verdicts and not known.why_no_runs:
            again = shown_again(application, trial, replay.kinds)
            verdicts = dict(again.verdicts) or dict.fromkeys(replay.kinds, Holds(1))
            known = replace(known, findings=ranked([*known.findings, *again.findings]))
        changes = replay.changes(input_digest(application.input_of(trial)))
        asked = known.of(FindingClass.UNDECLARED) if Violated not in map(type, verdicts.values()) else ()
        question = next((finding for finding in asked if finding.kind in verdicts), None)
        retried.append(Retried(failure, verdicts, changes, finding=question))
    return known, tuple(retried)


def explain_code(application: Application, trial: CodeTrial, kinds: Collection[Kind]) -> Explanation | None:
    """Return both runs of a trial whose records come otherwise; None: it is of another kind, or no longer shows.

    The arguments are those of `shown_again`.
    """
    pipeline, feed = application.pipeline, application.input_of(trial)
    for habit in (habit for habit in DELIVERED if habit.kind in kinds):
        shown = redelivered(habit, pipeline, feed, application.source)
        if shown is not None:
            return explain_redelivered(pipeline, shown)
    return None


def shown_again(application: Application, trial: CodeTrial, kinds: Collection[Kind]) -> CodeReview:
    """Look for findings in the input that a trial keeps; if they do not show, return any other finding.

    Args:
        application: what is under test.
        trial: what showed them.
        kinds: what was found.
    """
    feed = {trial.feed_seed: application.input_of(trial)}
    today = review(
        application.versions,
        feed,
        seed=trial.seed,
        limits=application.limits,
        promises=application.promises,
        source=application.source,
    )
    names = {kind.name for kind in kinds}
    shown = tuple(finding for finding in today.findings if finding.trial is not None)
    same = tuple(finding for finding in shown if finding.kind.name in names)
    numbers = trial.kept or ()
    whole = (
        replace(
            finding,
            trial=structs.replace(
                finding.trial, kept=tuple(numbers[number] for number in finding.trial.kept)
            ),
        )
        for finding in same or shown
    )
    return replace(today, findings=tuple(whole))
