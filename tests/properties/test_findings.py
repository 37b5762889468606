"""Findings are told in one order for every target: the gravest first, causes before what they explain, each once."""

from headrace_properties.findings import Family, Finding, FindingClass, Kind, ranked

_OUTCOME = Family.OUTCOME
ASKED = Finding(
    Kind(_OUTCOME, "late", FindingClass.UNDECLARED, 3), "rows are late once batches are cut otherwise"
)
LOST = Finding(
    Kind(_OUTCOME, "late", FindingClass.VIOLATED, 3), "rows are late within their own stream's delay"
)
CAUSE = Finding(Kind(_OUTCOME, "memory", FindingClass.VIOLATED, 1), "a field is kept")
NOTED = Finding(Kind(_OUTCOME, "growth", FindingClass.NOTE, 0), "state of two keys stays")


def test_what_is_violated_comes_before_questions_and_causes_before_what_they_explain() -> None:
    assert ranked([NOTED, ASKED, CAUSE]) == (CAUSE, ASKED, NOTED)


def test_a_question_does_not_hide_what_is_violated_at_its_place() -> None:
    asked, lost = (Finding(finding.kind, "rows are late") for finding in (ASKED, LOST))
    assert [finding.finding_class for finding in ranked([asked, lost])] == [FindingClass.VIOLATED]


def test_one_cause_seen_twice_is_one_finding() -> None:
    assert ranked([CAUSE, CAUSE]) == (CAUSE,)
