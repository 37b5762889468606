"""Bugs that people make are found and explained; code without them is not accused.

The searches here are short. The night runs them with default settings, and the mended twins in thousands of runs, as
``python -m tests.planted`` and ``python -m tests.planted --mended 5000`` do.
"""

import pytest

from tests.planted.trials import BUGS, verify

SHORT = ("--examples", "4", "--feeds", "4")
SHORTER = ("--examples", "2", "--feeds", "2")
"""For twins: a bug shows in the first runs and inputs; the night verifies its twin in thousands of runs."""
IMPATIENT = {"endless_loop": ("--code-timeout", "1")}
DEEP = 5_000


def check_found(bug: str, *options: str) -> None:
    trial = verify(bug, "pipeline", *options)

    assert trial.is_found, trial.output
    assert trial.is_explained, (trial.cause, trial.explanations, trial.output)


def check_holds(bug: str, *options: str, runs: int = 0) -> None:
    trial = verify(bug, "mended", "--allow-unknown", "all", *options, runs=runs)

    assert trial.code == 0, trial.output


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found_and_its_cause_is_in_the_first_sentences(bug: str) -> None:
    check_found(bug, *SHORT, *IMPATIENT.get(bug, ()))


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS)
def test_its_fixed_twin_is_not_accused(bug: str) -> None:
    check_holds(bug, *SHORTER)


@pytest.mark.nightly
@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found_with_default_settings(bug: str) -> None:
    check_found(bug)


@pytest.mark.nightly
@pytest.mark.parametrize("bug", BUGS)
def test_its_fixed_twin_holds_in_thousands_of_runs(bug: str) -> None:
    check_holds(bug, runs=DEEP)


def test_at_least_two_dozen_bugs_are_planted() -> None:
    assert len(BUGS) >= 24
