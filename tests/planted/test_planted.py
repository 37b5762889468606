"""Bugs that people make are found with default settings, and explained; code without them is not accused."""

import pytest

from tests.planted.trials import BUGS, verify

NOT_FOUND_YET = frozenset({"weak_and_changing"})
"""Bugs that a search with default settings should find, and does not."""

RUNS = "25"
DEEP_RUNS = "5000"


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=pytest.mark.xfail(bug in NOT_FOUND_YET, reason="not yet")) for bug in BUGS],
)
def test_a_planted_bug_is_found_and_its_cause_is_in_the_first_sentences(bug: str) -> None:
    trial = verify(bug)

    assert trial.code == 1, trial.output
    assert trial.is_explained, (trial.cause, trial.explanations, trial.output)


@pytest.mark.parametrize("bug", BUGS)
def test_its_mended_twin_is_not_accused(bug: str) -> None:
    trial = verify(bug, "mended", "--examples", RUNS, "--allow-unknown", "all")

    assert trial.code == 0, trial.output


@pytest.mark.nightly
@pytest.mark.parametrize("bug", BUGS)
def test_its_mended_twin_holds_in_thousands_of_runs(bug: str) -> None:
    trial = verify(bug, "mended", "--examples", DEEP_RUNS, "--allow-unknown", "all")

    assert trial.code == 0, trial.output
