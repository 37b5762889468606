"""Recheck kept findings about user code on the inputs that showed them; retire those that no longer show."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from headrace_properties.search.application import Application
from headrace_properties.search.judging import JudgedRun
from headrace_properties.search.kept_failures import KeptFailure, Retried
from headrace_properties.search.plausible import implausible
from headrace_properties.search.replay_file import ReplayFile
from headrace_properties.user_code.habits import UserFinding
from headrace_properties.user_code.review import CodeReview, review
from headrace_properties.verdict import Holds, Verdict


def retry_findings(
    application: Application, kept: Sequence[KeptFailure], known: CodeReview
) -> tuple[CodeReview, tuple[Retried, ...]]:
    """Recheck kept findings; return the review with them added, and the result of each.

    Args:
        application: what is under test.
        kept: the findings.
        known: today's findings. What it contains is not rechecked; nothing is rechecked if it says that runs do harm.
    """
    retried = []
    for failure in kept:
        file = failure.file
        wrong = implausible(file.plan, application.feed(file.feed_seed), file.kept)
        if wrong:
            retried.append(Retried(failure, None, wrong=wrong))
            continue
        found: dict[str, Verdict] = {
            name: known.verdicts[name] for name in file.violations if name in known.verdicts
        }
        if not found and not known.why_no_runs:
            again = shown_again(application, file)
            found = dict(again.verdicts) or dict.fromkeys(file.violations, Holds(1))
            known = replace(known, findings=(*known.findings, *again.findings))
        judged = JudgedRun(found, {}, Counter(), Counter(), 0, "")
        retried.append(Retried(failure, judged, file.changes(application)))
    return known, tuple(retried)


def shown_again(application: Application, file: ReplayFile) -> CodeReview:
    """Look for a finding in the input that a file names; if it does not show, return any other finding.

    Args:
        application: what is under test.
        file: the finding.
    """
    feed = {file.feed_seed: application.input_of(file.trial)}
    found = review(application.versions, feed, seed=file.plan.seed, limits=application.limits)
    findings: tuple[UserFinding, ...] = tuple(
        finding for finding in found.findings if finding.habit.verdict_name in file.violations
    )
    numbers = file.kept or ()
    whole = (
        replace(finding, kept=tuple(numbers[number] for number in finding.kept))
        for finding in findings or found.findings
    )
    return replace(found, findings=tuple(whole))
