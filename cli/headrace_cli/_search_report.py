"""What ``headrace verify`` has to say of a search, for people and as JSON."""

import shlex
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from headrace_cli._documents import failure_document, invariants_document, verdict_document
from headrace_cli._exit import RESULT_WORDS, ExitCode, exit_code_of_search
from headrace_cli._render import (
    counted,
    plain_table,
    print_counts,
    print_dropped,
    print_error,
    print_heading,
    print_lines,
    print_plan,
    print_table,
    print_text,
    print_verdicts,
    print_violations,
)
from headrace_cli._targets import PipelineTarget
from headrace_properties.checkers import CASES
from headrace_properties.search.verification import Verification
from headrace_properties.user_code.findings import UserFinding
from headrace_properties.user_code.review import CodeReview
from headrace_properties.verdict import Holds, Unknown, Verdict, Violated
from headrace_sim import Protocol
from headrace_sim.faults import KINDS

_STYLES = {ExitCode.HOLDS: "bold green", ExitCode.VIOLATED: "bold red"}


@dataclass(slots=True)
class SearchReport:
    """A search and its result.

    Attributes:
        target: what was verified.
        protocol: the state machines that it ran on.
        seed: of the search.
        verification: what was found.
        elapsed_s: wall time, seconds.
        runs_per_second: wall-clock rate, with the runs that shrank a failure.
        stopped_by: the signal that ended it early; ``None``: none.
        shrinking: a failure was being shrunk at that time.
        saved_as: the replay file, if there is one.
        may_be_unknown: invariants whose case need not come up.
        review: of the user's code, if the search came to its end without a failure.
    """

    target: PipelineTarget
    protocol: Protocol
    seed: int
    verification: Verification
    elapsed_s: float
    runs_per_second: float
    stopped_by: signal.Signals | None = None
    shrinking: bool = False
    saved_as: Path | None = None
    may_be_unknown: tuple[str, ...] = ()
    review: CodeReview | None = None

    @property
    def code(self) -> ExitCode:
        """The command's exit code."""
        if self.stopped_by is not None:
            return ExitCode(128 + self.stopped_by)
        code = exit_code_of_search(self.verification, self.may_be_unknown)
        return ExitCode.VIOLATED if self._bugs and code is not ExitCode.VIOLATED else code

    @property
    def _bugs(self) -> tuple[UserFinding, ...]:
        return () if self.review is None else self.review.bugs

    @property
    def headline(self) -> str:
        """The result in a line."""
        found = self.verification
        if self.stopped_by is not None:
            when = ", while a failure was being shrunk" if self.shrinking else ""
            return f"{RESULT_WORDS[self.code].upper()} after {counted(found.runs, 'run')}{when}"
        if found.failure is not None:
            return f"VIOLATED: {', '.join(found.failure.violations) or 'the run stopped with an error'}"
        if self._bugs:
            return f"BUG: {', and '.join(f'the code {bug.habit.value}' for bug in self._bugs)}"
        not_judged = ", ".join(found.unknown)
        if self.code is ExitCode.UNKNOWN:
            return f"UNKNOWN: nothing is violated, but the case of {not_judged or 'anything'} never came up"
        what = "every invariant and promise" if self._promised else "every invariant"
        holds = f"HOLDS: {what}, in {counted(found.runs, 'run')} with faults"
        return f"{holds}; not judged: {not_judged}" if not_judged else holds

    def print(self, console: Console) -> None:
        """Print it for people."""
        found = self.verification
        print_text(console, self.headline, style=_STYLES.get(self.code, "bold yellow"))
        names = ", then ".join([self.target.name, *self.target.versions])
        print_text(console, f"{names}, seed {self.seed}, protocol: {self.protocol.name}")
        if found.events:
            runs, events = counted(found.runs, "run"), counted(found.events, "event")
            print_text(console, f"{runs} in which a fault struck, {found.idle:,} in which none did")
            print_text(console, _inputs(found, self.target.feed_name))
            print_text(console, f"{events} judged; {self.runs_per_second:.1f} runs a second")
        print_dropped(console, found.dropped)
        if self.shrinking:
            print_text(console, "The same command with the same --seed finds the failure again.")
        if found.verdicts:
            promised = self._promised
            if promised:
                print_heading(console, "Promises")
                says = {promise.name: promise.title for promise in self.target.promises}
                print_verdicts(console, promised, says)
            print_heading(console, "Invariants")
            rest = {name: one for name, one in found.verdicts.items() if name not in promised}
            print_verdicts(console, rest)
        self._print_coverage(console)
        self._print_failure(console)
        if self.review is not None:
            _print_review(console, self.review)

    @property
    def _promised(self) -> dict[str, Verdict]:
        """The verdicts on the promises of the module."""
        names = {promise.name for promise in self.target.promises}
        return {name: one for name, one in self.verification.verdicts.items() if name in names}

    def _print_coverage(self, console: Console) -> None:
        found = self.verification
        struck = dict(sorted(found.struck.items()))
        cases = {case: found.reached[case] for case in CASES}
        _print_counts(console, "Faults that struck", struck, _kinds_that_never_struck(found))
        _print_counts(console, "Interesting cases", cases, [case for case in CASES if not cases[case]])
        if found.covered:
            print_heading(console, "Coverage: at how many protocol steps each fault struck, by role")
            print_table(console, _coverage_table(found), indent=2)

    def _print_failure(self, console: Console) -> None:
        print_violations(console, self.verification.verdicts)
        failure = self.verification.failure
        if failure is None:
            return
        if failure.error:
            print_error(console, failure.error, sound=self.protocol.name == Protocol().name)
        print_heading(console, "The smallest fault schedule found that does this")
        print_plan(console, failure.plan)
        if self.saved_as is not None:
            print_heading(console, "Run it again")
            print_lines(console, self.replay_command, indent=2)

    @property
    def replay_command(self) -> str:
        """What runs the failure again."""
        return f"headrace replay {shlex.quote(str(self.saved_as))}"

    def document(self) -> dict[str, Any]:
        """Tell it as JSON."""
        found = self.verification
        return {
            "pipeline": self.target.name,
            "versions": list(self.target.versions),
            "feed": self.target.feed_name,
            "seed": self.seed,
            "feed_seeds": list(found.feed_seeds),
            "protocol": self.protocol.name,
            "result": RESULT_WORDS[self.code],
            "not_judged": list(found.unknown),
            "runs": found.runs,
            "idle_runs": found.idle,
            "events": found.events,
            "elapsed_s": round(self.elapsed_s, 3),
            "runs_per_second": round(self.runs_per_second, 3),
            "promises": {
                promise.name: {"title": promise.title, **verdict_document(found.verdicts[promise.name])}
                for promise in self.target.promises
                if promise.name in found.verdicts
            },
            "invariants": invariants_document(
                {name: one for name, one in found.verdicts.items() if name not in self._promised}
            ),
            "faults_struck": dict(sorted(found.struck.items())),
            "dropped": dict(sorted(found.dropped.items())),
            "interesting_cases": {case: found.reached[case] for case in CASES},
            "coverage": [{**spot._asdict(), "times": times} for spot, times in sorted(found.covered.items())],
            "failure": self._failure_document(),
            "code": None if self.review is None else _review_document(self.review),
        }

    def _failure_document(self) -> dict[str, Any] | None:
        failure = self.verification.failure
        if failure is None:
            return None
        document = failure_document(failure)
        if self.saved_as is not None:
            document |= {"saved_as": str(self.saved_as), "replay_command": self.replay_command}
        return document


def _inputs(found: Verification, feed: str) -> str:
    """Say which inputs the runs had."""
    seeds = found.feed_seeds
    made = counted(len(seeds), "input")
    if len(seeds) == found.feeds_asked == 1:
        return f"{made}: {feed}({seeds[0]})"
    named = ", ".join(f"{feed}({seed})" for seed in seeds)
    if len(seeds) == found.feeds_asked:
        return f"{made}: {feed}({seeds[0]}) to {feed}({seeds[-1]})"
    return f"{made}: {named}; the other seeds up to {seeds[0] + found.feeds_asked - 1} make the same"


def _print_counts(console: Console, heading: str, counts: dict[str, int], missing: list[str]) -> None:
    if not any(counts.values()):
        return
    print_heading(console, heading)
    print_counts(console, {name: count for name, count in counts.items() if count})
    if missing:
        print_text(console, f"never: {', '.join(missing)}", indent=2)


def _print_review(console: Console, review: CodeReview) -> None:
    print_heading(console, "Your code")
    for finding in review.findings:
        print_text(console, f"{'BUG: ' if finding.is_bug else ''}{finding}", indent=2)
    groups: dict[str, list[str]] = {}
    for name, one in review.relations.items():
        groups.setdefault(_relation_words(one), []).append(name)
    for words, names in groups.items():
        print_text(console, f"{words}: {', '.join(names)}", indent=2)


def _relation_words(verdict: Verdict) -> str:
    match verdict:
        case Holds():
            return "the outcome stays the same"
        case Violated():
            return "the outcome changes (--json says how)"
        case Unknown(why=why):
            return f"not known, {why.partition(';')[0]}"


def _review_document(review: CodeReview) -> dict[str, Any]:
    return {
        "findings": [
            {
                "habit": finding.habit.name.lower(),
                "bug": finding.is_bug,
                "detail": str(finding),
                "records": finding.feed.records,
            }
            for finding in review.findings
        ],
        "relations": {name: verdict_document(one) for name, one in review.relations.items()},
    }


def _coverage_table(found: Verification) -> Table:
    """Faults by role; a cell has the number of different steps."""
    roles = sorted({spot.role for spot in found.covered}, reverse=True)
    steps = Counter((spot.fault, spot.role) for spot in found.covered)
    table = plain_table("fault", *roles)
    for fault in sorted({spot.fault for spot in found.covered}):
        table.add_row(fault, *[str(steps[fault, role] or "") for role in roles])
    return table


def _kinds_that_never_struck(found: Verification) -> list[str]:
    """A kind may strike in several ways: ``noise`` as ``noise_drop``, ``noise_delay``."""
    struck = found.struck
    return [
        kind
        for kind in KINDS.values()
        if not any(one == kind or one.startswith(f"{kind}_") for one in struck)
    ]
