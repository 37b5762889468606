"""Each broken Dataflow layer is killed: by a transcript, and by a random case on which it differs from the model."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, find, settings
from hypothesis.errors import NoSuchExample

from tests.core.dataflow.broken_groupings import MUTANTS, DataflowMutant
from tests.core.dataflow.drawn_groupings import GroupingCase, cases
from tests.core.dataflow.model import run_model
from tests.core.dataflow.test_transcripts import SOUND
from tests.core.dataflow.transcripts.format import Transcript
from tests.core.dataflow.transcripts.layer import run_layer
from tests.core.dataflow.transcripts.matching import mismatches

by_mutant = pytest.mark.parametrize("mutant", MUTANTS, ids=lambda one: one.name)

SEARCH = settings(
    max_examples=3_000,
    derandomize=True,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


def is_killed_by(mutant: DataflowMutant, transcript: Transcript) -> bool:
    emitted = run_layer(transcript.query, transcript.steps, mutant.make)
    return bool(mismatches(transcript.expected, emitted))


def differs(mutant: DataflowMutant, case: GroupingCase) -> bool:
    emitted = run_layer(case.query, case.steps, mutant.make)
    return emitted != list(run_model(case.query, case.steps).panes)


@by_mutant
def test_a_transcript_kills_it(mutant: DataflowMutant) -> None:
    assert any(is_killed_by(mutant, transcript) for transcript in SOUND)


@pytest.mark.nightly
@by_mutant
def test_a_random_case_kills_it(mutant: DataflowMutant) -> None:
    try:
        find(cases(coinciding=True), lambda case: differs(mutant, case), settings=SEARCH)
    except NoSuchExample:
        pytest.fail("no random case shows it")


def test_mutants_have_different_names() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


def test_the_documentation_lists_them_all() -> None:
    text = (Path(__file__).parents[3] / "docs" / "reference" / "transcripts.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ") and line.count("|") == 4]
    listed = [row for row in rows if any(row.startswith(f"| {mutant.name} |") for mutant in MUTANTS)]
    assert listed == [f"| {mutant.name} | {mutant.section} | {mutant.wrong} |" for mutant in MUTANTS]
