"""What a search for broken invariants does not tell: whether user code is fit to be run again, moved, and reordered.

The protocol keeps its promises whatever user code does; these are the promises that user code has to keep (4.1, 6.1.3).
"""

from dataclasses import dataclass

from headrace import HeadraceError, Pipeline
from headrace_properties.user_code.feeds import with_records
from headrace_properties.user_code.findings import Habit, UserFinding, examine
from headrace_properties.user_code.metamorphic import RELATIONS, check_relations
from headrace_properties.verdict import Holds, Unknown, Verdict
from headrace_sim import ClusterOptions, Feed

RECORDS = 200
"""Of a longer input only so many of the first are looked at: each question runs it several times."""


@dataclass(frozen=True, slots=True)
class CodeReview:
    """What is known of user code.

    Attributes:
        findings: what it does that it should not, each with the smallest input that shows it.
        relations: what may be changed in a run without changing its outcome, by name (`metamorphic`). None contradicts a finding.
    """

    findings: tuple[UserFinding, ...]
    relations: dict[str, Verdict]

    @property
    def bugs(self) -> tuple[UserFinding, ...]:
        """The findings that can not be meant."""
        return tuple(finding for finding in self.findings if finding.is_bug)


def review(
    pipeline: Pipeline, feed: Feed, *, options: ClusterOptions | None = None, seed: int = 0
) -> CodeReview:
    """Look at a pipeline's user code.

    Args:
        pipeline: whose code to look at.
        feed: an input that exercises it; of a long one, the first `RECORDS` records.
        options: of the cluster in which runs are compared.
        seed: of all draws.
    """
    few = feed if feed.records <= RECORDS else with_records(feed, range(RECORDS))
    findings = tuple(examine(pipeline, few, seed))
    order = next((one.detail for one in findings if one.habit is Habit.DEPENDS_ON_ORDER), "")
    try:
        relations = check_relations(pipeline, few, options=options, seed=seed, order_matters=order)
    except HeadraceError as error:
        unknown: Verdict = Unknown(f"the run stops without any fault: {error}")
        relations = {relation.name: unknown for relation in RELATIONS}
    for finding in findings:
        relations = {name: _beside(finding, one) for name, one in relations.items()}
    return CodeReview(findings, relations)


def _beside(finding: UserFinding, verdict: Verdict) -> Verdict:
    """What a relation says beside a finding: nothing, where by that the outcomes were the same, or not, by accident.

    The simulated cluster has all keys in one process, and its crashes leave what is kept outside the rows as it is.
    """
    match finding.habit:
        case Habit.NOT_DETERMINISTIC:
            return Unknown(f"the code {finding.habit.value}")
        case Habit.KEEPS_STATE | Habit.SHARES_STATE if isinstance(verdict, Holds):
            return Unknown(f"the code {finding.habit.value}")
    return verdict
