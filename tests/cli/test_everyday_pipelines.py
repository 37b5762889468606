"""Pipelines as people write them: sound ones are at most asked about, declared ones hold, and planted mistakes lead."""

import re

import pytest

from tests.cli.rig import Run

PIPELINES = {
    "latest": "keeps state outside its row",
    "average": "keeps state outside its row",
    "sessions": "lets the wall clock decide its outcome",
    "top": "keeps state outside its row",
    "dedup": "keeps state outside its row",
    "counter": "lets random numbers decide its outcome",
}
"""Each pipeline, and what the mistake in its twin is called."""
MODULE = "tests.planted.everyday"
SHORT = ("--examples", "3", "--feeds", "2", "--jobs", "1", "--failures", "kept", "--allow-unknown", "all")


def said(run: Run, name: str) -> tuple[int, str]:
    """Verify; return the exit code and the headline."""
    done = run("verify", f"{MODULE}:{name}", *SHORT)
    headline = re.search(r"^(HOLDS|UNKNOWN|UNDECLARED|VIOLATED):[^\n]*", done.output, re.MULTILINE)
    assert headline is not None, done.output
    return done.exit_code, headline.group()


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", PIPELINES)
def test_sound_pipeline_is_at_most_asked_about_and_holds_once_it_is_declared(run: Run, name: str) -> None:
    code, headline = said(run, name)
    assert (code in {0, 3}, headline.startswith("VIOLATED")) == (True, False), headline
    assert said(run, f"meant_{name}")[0] == 0


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", PIPELINES)
def test_planted_mistake_of_a_pipeline_comes_first(run: Run, name: str) -> None:
    code, headline = said(run, f"planted_{name}")
    assert (code, headline) == (1, f"VIOLATED: the code of 'step' {PIPELINES[name]}")
