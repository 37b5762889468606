"""The report of ``headrace verify``, for people and as JSON.

Rule of this file: the verdict comes first, then the promises, the user's code, and the protocol in one line.
"""

import enum
import shlex
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from headrace_cli.reports.scope_report import result_words, scope_document, scope_lines
from headrace_cli.reports.search_end import SearchEnd
from headrace_cli.reports.stated import HINT, print_proposals, stated_document
from headrace_cli.reports.unseen import print_unreached, print_unseen, unseen_document
from headrace_cli.terminal.documents import failure_document, finding_document, invariants_document
from headrace_cli.terminal.exit import RESULT_WORDS, ExitCode
from headrace_cli.terminal.render import (
    counted,
    plain_table,
    print_counts,
    print_dropped,
    print_error,
    print_heading,
    print_input,
    print_lines,
    print_plan,
    print_result,
    print_sentences,
    print_table,
    print_text,
    print_verdicts,
    print_violations,
)
from headrace_properties.checkers import CASES
from headrace_properties.checkers.invariant_catalogue import is_about_code
from headrace_properties.explain.descriptions import input_lines, titles
from headrace_properties.findings import Finding, FindingClass
from headrace_properties.pipeline_target import PipelineTarget
from headrace_properties.pipeline_trials import PipelineTrials
from headrace_properties.promises.guesses import Proposal
from headrace_properties.search.judging import violations
from headrace_properties.search.limits import CALL_S
from headrace_properties.search.ordering import Ordering
from headrace_properties.search.small_parts import WHOLE
from headrace_properties.search.store_breaches import NOTICED_BY
from headrace_properties.search.verification import Verification
from headrace_properties.session import Result
from headrace_properties.user_code.guessed_promises import guessed_promises
from headrace_properties.user_code.habits import headline_of
from headrace_properties.user_code.review import (
    DECLARED,
    NOT_ASKED,
    NOT_COMPARED,
    NOTED,
    PERMITTED,
    CodeReview,
)
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from headrace_sim import ClusterOptions, Protocol
from headrace_sim.faults import ASSUMPTIONS, KINDS


@dataclass(slots=True)
class SearchReport:
    """The report on a pipeline.

    Attributes:
        trials: of the pipeline.
        end: of the search.
    """

    trials: PipelineTrials
    end: SearchEnd

    @property
    def target(self) -> PipelineTarget:
        """The target of the search."""
        return self.trials.target

    @property
    def verification(self) -> Verification:
        """The results of the runs."""
        return self.trials.verification

    @property
    def review(self) -> CodeReview | None:
        """The review of the user's code; ``None`` on a broken protocol."""
        return self.trials.code

    @property
    def _seed(self) -> int:
        return self.trials.wanted.seed

    @property
    def _wrong(self) -> tuple[Finding, ...]:
        """Findings of what user code must not do by itself."""
        return () if self.review is None else self.review.of(FindingClass.VIOLATED)

    @property
    def _undeclared(self) -> tuple[Finding, ...]:
        """Questions about user code to its author that nothing answers."""
        findings = self.trials.findings
        return tuple(finding for finding in findings if finding.finding_class is FindingClass.UNDECLARED)

    @property
    def _violated(self) -> list[str]:
        """The violations, first those of the smallest failing run, then those of the run from which it was shrunk."""
        failure = self.verification.failure
        smallest = [] if failure is None else list(failure.violations)
        return list(dict.fromkeys([*smallest, *violations(self.verification.verdicts)]))

    @property
    def _only_before_shrinking(self) -> list[str]:
        """The violations that the smallest failing run does not show."""
        failure = self.verification.failure
        return [] if failure is None else [name for name in self._violated if name not in failure.violations]

    @property
    def _titles(self) -> dict[str, str]:
        """Each promise's statement, by name."""
        return {promise.name: promise.title for promise in self.target.promises}

    @property
    def headline(self) -> str:
        """The result in a line."""
        verification = self.verification
        stopped = (
            ["the run stopped with an error"]
            if verification.failure is not None and not self._violated
            else []
        )
        violated = ", ".join([*map(headline_of, self._wrong), *self._violated, *stopped])
        if self.end.stopped_by is not None:
            when = ", while a failure was being shrunk" if self.end.shrinking else ""
            so_far = f"; VIOLATED so far: {violated}" if violated else ""
            return f"{RESULT_WORDS[self.end.code].upper()} after {counted(verification.runs, 'run')}{when}{so_far}"
        if self.end.session.result is Result.VIOLATED:
            return f"VIOLATED: {violated}"
        unknown = ", ".join(verification.unknown)
        if self.end.session.result is Result.UNKNOWN and not verification.exhausted:
            assert verification.exploration is not None
            return f"UNKNOWN: nothing is violated {result_words(verification.exploration)}"
        if self.end.session.result is not Result.HOLDS:
            asked = ", ".join(map(headline_of, self._undeclared))
            names = ", ".join(self.trials.unknown)
            missing = "" if asked and not names else f", but no run exercised {names or 'anything'}"
            begins = f"UNDECLARED: {asked}. Nothing" if asked else "UNKNOWN: nothing"
            return f"{begins} is violated{missing}{self._found_in_code}"
        what = "every invariant and promise" if self._titles else "every invariant"
        omitted = f"; not exercised: {unknown}" if unknown else ""
        omitted += f"; not compared: {', '.join(self._uncompared)}" if self._uncompared else ""
        if verification.exploration is not None:
            return f"HOLDS: {what}, {result_words(verification.exploration)}{omitted}"
        holds = f"HOLDS: {what}, in {counted(verification.runs, 'run')} with faults"
        return f"{holds}{omitted or self._found_in_code}"

    @property
    def _uncompared(self) -> tuple[str, ...]:
        return () if self.review is None else self.review.noted(NOT_COMPARED)

    @property
    def _found_in_code(self) -> str:
        """The findings about user code that break no invariant."""
        verdicts = about(Concern.CODE, self.verification.verdicts)
        names = ", ".join(name for name, verdict in verdicts.items() if isinstance(verdict, Violated))
        return f"; but {names} is a finding about your code" if names else ""

    def print(self, console: Console, *, verbose: bool = False) -> None:
        """Print it for people: the verdict, the promises, the user's code, the protocol, and then the failure, if any.

        What is violated is alone in a brief report: the cause, the input, the schedule, and the command that repeats it.

        Args:
            console: where to.
            verbose: with all tables, and the whole input of a failure.
        """
        verification = self.verification
        brief = self.end.code is ExitCode.VIOLATED and not verbose
        print_result(console, self.headline, self.end.code)
        names = ", then ".join([self.target.name, *self.target.versions])
        print_text(console, f"{names}, seed {self._seed}, protocol: {self.target.protocol.name}")
        self._print_runs(console, verbose=verbose, brief=brief)
        self._print_findings(console, self._wrong)
        if self.review is not None and self.review.why_no_runs:
            words = (
                f"No runs with faults: {self.review.why_no_runs}. Fix it, or declare it, and verify again."
            )
            print_text(console, words)
        for line in self.end.session.kept:
            print_text(console, f"Kept failure {line}")
        print_dropped(console, verification.dropped)
        if self.end.shrinking:
            words = "The failure below is not yet the smallest. The same command with the same --seed finds the failure again."
            print_text(console, words)
        if not brief:
            self._print_promises(console)
            self._print_code(console)
            self._print_protocol(console, verbose=verbose)
        elif about(Concern.CODE, verification.verdicts):
            self._print_code(console)
        self._print_failure(console, verbose=verbose, brief=brief)
        self._print_findings(console, self._undeclared)

    def _print_runs(self, console: Console, *, verbose: bool, brief: bool) -> None:
        """Print what was run, and how far that goes."""
        verification = self.verification
        if verification.exploration is not None:
            records = self.target.application.feed(self._seed).records
            for line in scope_lines(verification.exploration, self.target.application.pipeline, records):
                print_text(console, line)
        if verification.events:
            runs, events = counted(verification.runs, "run"), counted(verification.events, "event")
            print_text(console, f"{runs} in which a fault struck, {verification.idle:,} in which none did")
            if verification.feed_seeds:
                print_text(console, _inputs(verification, self.target.feed_name))
            if verbose and len(verification.sizes) > 1:
                print_text(console, _sizes(verification))
            if not brief:
                print_text(console, f"{events} judged; {self.end.runs_per_second:.1f} runs a second")
                print_text(console, f"Assumed of the source: {self.target.feed_source.assumed}")
        if verification.ordering is not None:
            print_text(console, _bound(verification.ordering))
        for breach in self.trials.wanted.outside:
            words = f"Outside the model: {breach.value} struck {counted(verification.struck[breach.value], 'time')}"
            noticed = ", ".join(NOTICED_BY[breach])
            print_text(console, f"{words}. It breaks that {ASSUMPTIONS[breach]}; {noticed} should notice")
        if not brief:
            print_unseen(console, verification)
            self._print_stated(console, verbose=verbose)

    def _print_stated(self, console: Console, *, verbose: bool) -> None:
        """Print that nobody has said what should leave, and what could be promised."""
        if self.target.promises:
            return
        unsaid = "Judged by the invariants. No promise says whether the output is right"
        if verbose:
            print_proposals(console, unsaid, self._proposals(), "its module")
        else:
            print_sentences(console, f"{unsaid}{HINT}")

    def _proposals(self) -> tuple[Proposal, ...]:
        """Return what could be promised, if nothing is."""
        target = self.target
        if target.promises or self.review is None:
            return ()
        application, options = target.application, target.options or ClusterOptions()
        feed = application.feed(self._seed)
        return guessed_promises(target.pipeline, feed, options, self._seed, application.limits)

    def _print_promises(self, console: Console) -> None:
        verdicts = about(Concern.PROMISES, self.verification.verdicts)
        if verdicts:
            print_heading(console, "Promises")
            print_verdicts(console, verdicts, self._titles, only_before_shrinking=self._only_before_shrinking)

    def _print_code(self, console: Console) -> None:
        verdicts = about(Concern.CODE, self.verification.verdicts)
        if not verdicts and self.review is None and not self.verification.unreached:
            return
        print_heading(console, "Your code")
        if verdicts:
            print_verdicts(console, verdicts)
        if self.review is not None:
            if not (self._wrong or self._undeclared):
                none = "no other finding" if self._found_in_code else "no finding"
                print_text(console, f"{none}, over {counted(self.review.feeds, 'input')}", indent=2)
            _print_review(console, self.review)
        print_unreached(console, self.verification)

    def _print_protocol(self, console: Console, *, verbose: bool) -> None:
        """In one line, and in a table of what is wrong there, if something is; with all tables if they are wanted."""
        verification = self.verification
        verdicts = about(Concern.PROTOCOL, verification.verdicts)
        if not verdicts:
            return
        print_heading(console, "Protocol")
        hint = "" if verbose else " (--verbose shows tables)"
        print_text(console, _protocol_words(verification, verdicts) + hint, indent=2)
        wrong = {
            name: verdict
            for name, verdict in verdicts.items()
            if not isinstance(verdict, Holds) and name not in self.trials.allow_unknown
        }
        if verbose or wrong:
            shown = verdicts if verbose else wrong
            print_verdicts(console, shown, only_before_shrinking=self._only_before_shrinking)
        if verbose:
            self._print_coverage(console)

    def _print_coverage(self, console: Console) -> None:
        verification = self.verification
        struck = dict(sorted(verification.struck.items()))
        cases = {case: verification.reached[case] for case in CASES}
        _print_counts(console, "Faults that struck", struck, _kinds_that_never_struck(verification))
        _print_counts(console, "Interesting cases", cases, [case for case in CASES if not cases[case]])
        if verification.covered:
            print_heading(console, "Coverage: number of protocol steps at which each fault struck, by role")
            print_table(console, _coverage_table(verification), indent=2)

    def _print_failure(self, console: Console, *, verbose: bool, brief: bool) -> None:
        failure = self.verification.failure
        shown = failure.violations if failure is not None and not verbose else self.verification.verdicts
        print_violations(console, shown, self._titles, brief=brief)
        if failure is None:
            return
        if self._only_before_shrinking:
            if not brief:
                console.print()
            others = ", ".join(self._only_before_shrinking)
            words = f"The run that this was shrunk from also violates {others}."
            print_text(console, words, indent=2 if brief else 0)
        if failure.error:
            print_error(console, failure.error, sound=self.target.protocol.name == Protocol().name)
        application = self.target.application
        which = "An" if self.end.shrinking else "The smallest"
        print_heading(console, f"{which} input found that does this")
        records = input_lines(failure, application)
        print_input(console, records, whole=verbose, brief=brief)
        print_heading(console, f"{'A' if self.end.shrinking else which} fault schedule found that does this")
        print_plan(console, failure.plan)
        again = self._saved(self.trials.failing)
        if again:
            print_heading(console, "Run it again")
            print_lines(console, again["replay_command"], indent=2)

    def _print_findings(self, console: Console, findings: tuple[Finding, ...]) -> None:
        for finding in findings:
            begins = "UNDECLARED: " if finding.finding_class is FindingClass.UNDECLARED else ""
            print_heading(console, f"{begins}{finding.kind.title}")
            for sentence in finding.sentences:
                print_text(console, sentence, indent=2)
            again = self._saved(finding)
            if again:
                print_text(console, f"Run it again: {again['replay_command']}", indent=2)

    def _command_for(self, path: Path) -> str:
        call_s = self.target.application.limits.call_s
        timeout = f" --code-timeout {call_s:g}" if call_s != CALL_S else ""
        return f"headrace replay {shlex.quote(str(path))}{timeout}"

    def document(self) -> dict[str, Any]:
        """Return it as JSON."""
        verification = self.verification
        return {
            "pipeline": self.target.name,
            "versions": self.target.versions,
            "feed": self.target.feed_name,
            "assumed": self.target.feed_source.assumed,
            "seed": self._seed,
            "feed_seeds": verification.feed_seeds,
            "protocol": self.target.protocol.name,
            "result": self.end.result,
            "not_judged": [
                *verification.unknown,
                *dict.fromkeys(str(finding.kind) for finding in self._undeclared),
            ],
            "runs": verification.runs,
            "idle_runs": verification.idle,
            "events": verification.events,
            "sizes": {
                size: {"runs": runs, "events": verification.sizes_events[size]}
                for size, runs in sorted(verification.sizes.items())
            },
            "elapsed_s": round(self.end.elapsed_s, 3),
            "runs_per_second": round(self.end.runs_per_second, 3),
            "promises": invariants_document(about(Concern.PROMISES, verification.verdicts), self._titles),
            **stated_document(self.target.promises, self._proposals()),
            "invariants": invariants_document(about(Concern.PROTOCOL, verification.verdicts)),
            "findings": invariants_document(about(Concern.CODE, verification.verdicts)),
            "faults_struck": dict(sorted(verification.struck.items())),
            "dropped": dict(sorted(verification.dropped.items())),
            "interesting_cases": {case: verification.reached[case] for case in CASES},
            "coverage": [
                {**spot._asdict(), "times": times} for spot, times in sorted(verification.covered.items())
            ],
            "exploration": scope_document(verification.exploration),
            "ordering": verification.ordering
            and {**asdict(verification.ordering), "least_chance": verification.ordering.chance},
            "unseen": unseen_document(verification),
            "kept_failures": self.end.session.kept,
            "failure": self._failure_document(),
            "code": None if self.review is None else self._review_document(self.review),
        }

    def _failure_document(self) -> dict[str, Any] | None:
        failure = self.verification.failure
        if failure is None:
            return None
        application = self.target.application
        document = failure_document(failure)
        document["input"] = input_lines(failure, application)
        return document | self._saved(self.trials.failing)

    def _saved(self, finding: Finding | None) -> dict[str, str]:
        """Return where a finding is on file."""
        path = self.end.session.files.get(self.trials.findings.index(finding))
        return {} if path is None else {"saved_as": str(path), "replay_command": self._command_for(path)}

    def _review_document(self, review: CodeReview) -> dict[str, Any]:
        findings = [
            finding_document(finding) | self._saved(finding) for finding in (*self._wrong, *self._undeclared)
        ]
        return {
            "findings": findings,
            **{
                str(kind): review.noted(kind)
                for kind in (DECLARED, PERMITTED, NOTED, NOT_COMPARED, NOT_ASKED)
            },
            "feeds": review.feeds,
            "relations": review.relations,
        }


def _sizes(verification: Verification) -> str:
    """Say what share of the search went to which parts of the inputs."""
    shares = []
    for size, runs in verification.sizes.most_common():
        share = verification.sizes_events[size] / verification.events
        shares.append(f"{runs:,} on {'' if size == WHOLE else 'parts of '}{size} ({share:.0%} of the events)")
    return f"Runs: {'; '.join(shares)}"


def _inputs(verification: Verification, feed: str) -> str:
    """Describe the inputs of the runs."""
    seeds = verification.feed_seeds
    inputs = counted(len(seeds), "input")
    if len(seeds) == verification.feeds_asked == 1:
        return f"{inputs}: {feed}({seeds[0]})"
    named = ", ".join(f"{feed}({seed})" for seed in seeds)
    if len(seeds) == verification.feeds_asked:
        return f"{inputs}: {feed}({seeds[0]}) to {feed}({seeds[-1]})"
    return f"{inputs}: {named}; the other seeds up to {seeds[0] + verification.feeds_asked - 1} make the same"


def _bound(ordering: Ordering) -> str:
    """State the bound of a search by priorities."""
    of_runs = f"a run has at most {counted(ordering.chains, 'chain')} of messages"
    among = (
        ""
        if ordering.depth == 1
        else f", and priorities change among the first {counted(ordering.messages, 'message')}"
    )
    return (
        f"Orders of arrival by priorities: {of_runs}{among}. A failure of depth {ordering.depth} that the faults of a run make"
        f" possible shows in it with a probability of at least 1 in {round(1 / ordering.chance):,}"
    )


def _print_counts(console: Console, heading: str, counts: dict[str, int], missing: list[str]) -> None:
    if not any(counts.values()):
        return
    print_heading(console, heading)
    print_counts(console, {name: count for name, count in counts.items() if count})
    if missing:
        print_text(console, f"never: {', '.join(missing)}", indent=2)


def _protocol_words(verification: Verification, verdicts: Mapping[str, Verdict]) -> str:
    """Sum up the protocol in a line."""
    names: dict[type[Verdict], list[str]] = {Holds: [], Violated: [], Unknown: []}
    for name, verdict in verdicts.items():
        names[type(verdict)].append(name)
    held = len(names[Holds])
    words = [f"{held} invariants hold" if held != 1 else "1 invariant holds"]
    words += [f"violated: {', '.join(names[Violated])}"] if names[Violated] else []
    words += [f"not exercised: {', '.join(names[Unknown])}"] if names[Unknown] else []
    steps = len({(spot.role, spot.step) for spot in verification.covered})
    kinds = len(KINDS) - len(_kinds_that_never_struck(verification))
    faults = f"{kinds} of {len(KINDS)} kinds of faults struck, at {counted(steps, 'protocol step')}"
    return f"{'; '.join(words)}; {faults}"


def _print_review(console: Console, review: CodeReview) -> None:
    for line in (line for kind in (DECLARED, PERMITTED, NOTED) for line in review.noted(kind)):
        print_text(console, line, indent=2)
    for name in review.noted(NOT_ASKED):
        print_text(console, f"not asked: {name}", indent=2)
    groups: dict[str, list[str]] = {}
    for name, verdict in review.relations.items():
        groups.setdefault(_relation_words(verdict), []).append(name)
    for words, names in groups.items():
        print_text(console, f"{words}: {', '.join(names)}", indent=2)


def _relation_words(verdict: Verdict) -> str:
    match verdict:
        case Holds():
            return "output unaffected by"
        case Violated():
            return "output changed by (--json says how)"
        case Unknown(why=why):
            return f"unknown, {why.partition(';')[0]}"


def _coverage_table(verification: Verification) -> Table:
    """Faults by role; a cell has the number of different steps."""
    roles = sorted({spot.role for spot in verification.covered}, reverse=True)
    steps = Counter((spot.fault, spot.role) for spot in verification.covered)
    table = plain_table("fault", *roles)
    for fault in sorted({spot.fault for spot in verification.covered}):
        table.add_row(fault, *[str(steps[fault, role] or "") for role in roles])
    return table


def _kinds_that_never_struck(verification: Verification) -> list[str]:
    """Return the kinds that never took effect; one kind may have several names: ``noise_drop``, ``noise_delay``."""
    struck = verification.struck
    return [
        kind
        for kind in KINDS.values()
        if not any(name == kind or name.startswith(f"{kind}_") for name in struck)
    ]


class Concern(enum.Enum):
    """The subject of a verdict."""

    PROMISES = "promises"
    CODE = "code"
    PROTOCOL = "protocol"


def concern_of(name: str) -> Concern:
    """Return the subject of a named verdict; a promise may have any name that no invariant has."""
    if is_about_code(name):
        return Concern.CODE
    return Concern.PROTOCOL if name in titles() else Concern.PROMISES


def about(concern: Concern, verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """Pick the verdicts of one concern."""
    return {name: verdict for name, verdict in verdicts.items() if concern_of(name) is concern}
