"""The transcripts of tests/transcripts, on the brute-force model and on the layer's pure logic; and their format (Dataflow 2)."""

from pathlib import Path

import pytest

from tests.core.dataflow.model import run_model
from tests.core.dataflow.transcripts.format import (
    Transcript,
    TranscriptError,
    load_transcript,
    load_transcripts,
)
from tests.core.dataflow.transcripts.layer import run_layer
from tests.core.dataflow.transcripts.matching import mismatches

FOLDER = Path(__file__).parents[2] / "transcripts"
ALL = load_transcripts(FOLDER)
SOUND = [transcript for transcript in ALL if not transcript.wrong]
NEGATIVE = [transcript for transcript in ALL if transcript.wrong]


@pytest.mark.parametrize("transcript", SOUND, ids=lambda one: one.name)
def test_the_model_tells_the_transcript(transcript: Transcript) -> None:
    told = run_model(transcript.query, transcript.steps)
    assert mismatches(transcript.expected, told.panes) == []


@pytest.mark.parametrize("transcript", SOUND, ids=lambda one: one.name)
def test_the_layer_tells_the_transcript(transcript: Transcript) -> None:
    emitted = run_layer(transcript.query, transcript.steps)
    assert mismatches(transcript.expected, emitted) == []


@pytest.mark.parametrize("transcript", ALL, ids=lambda one: one.name)
def test_layer_and_model_agree_to_the_microsecond(transcript: Transcript) -> None:
    told = run_model(transcript.query, transcript.steps)
    assert run_layer(transcript.query, transcript.steps) == list(told.panes)


@pytest.mark.parametrize("transcript", NEGATIVE, ids=lambda one: one.name)
def test_what_a_negative_transcript_gets_wrong_is_reported(transcript: Transcript) -> None:
    assert mismatches(transcript.expected, run_model(transcript.query, transcript.steps).panes)
    assert mismatches(transcript.expected, run_layer(transcript.query, transcript.steps))


def test_there_are_transcripts_of_every_part_of_the_model() -> None:
    folders = {transcript.name.split("/")[0] for transcript in ALL}
    assert folders == {
        "engines", "lateness", "merging", "negative", "refinement", "streaming102", "triggers", "windows",
    }  # fmt: skip
    assert len(NEGATIVE) == len(list((FOLDER / "negative").iterdir()))


def test_a_mismatch_says_what_was_expected_and_what_came() -> None:
    (wrong,) = [transcript for transcript in NEGATIVE if transcript.name == "negative/wrong-value"]
    assert mismatches(wrong.expected, run_layer(wrong.query, wrong.steps)) == [
        (
            "pane 0: expected 6 of [0, 120) for k, by step 1, "
            "got 5 of [0, 120) for k, on_time, index 0, at 58.000 s: value differs"
        )
    ]


# The format

HEAD = """
title = "a title"
source = "a source"
windows = "FixedWindows(60)"
trigger = "Repeat(AtWatermark())"
accumulation = "discarding"
"""


def read(tmp_path: Path, text: str) -> Transcript:
    path = tmp_path / "one.toml"
    path.write_text(text)
    return load_transcript(path)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("title = ", "Invalid value"),
        ("title = 'only'", "missing required field `source`"),
        (HEAD + "steps = [{at = 1, watermak = 2}]", "unknown field `watermak` - at `$.steps[0]`"),
        (HEAD + "steps = [{at = 2}, {at = 1}]", "steps[1] is at 1.0 s, before the step that precedes it"),
        (HEAD + "steps = [{at = 1, value = 5}]", "steps[0] has to have both value and time, or neither"),
        (
            HEAD + "steps = [{at = 1, value = 5, time = 1, watermark = 2}]",
            "steps[0] is both an element and a watermark: make two steps of it",
        ),
        (HEAD.replace("FixedWindows(60)", "Fixed(60)") + "steps = []", "there is no Fixed. There are: "),
        (HEAD.replace("FixedWindows(60)", "FixedWindows(0)") + "steps = []", "FixedWindows: "),
        (HEAD.replace("AtWatermark()", "AtWatermark") + "steps = []", "AtWatermark is neither a number nor a call"),
        (HEAD.replace("Repeat(AtWatermark())", "Repeat(") + "steps = []", "is no expression"),
        (HEAD.replace("Repeat(AtWatermark())", "__import__('os')") + "steps = []", "there is no __import__"),
        (HEAD + "combine = 'median'\nsteps = []", "there is no such combiner. There are: sum, count"),
    ],
)  # fmt: skip
def test_a_transcript_that_makes_no_sense_is_refused_with_its_place(
    tmp_path: Path, text: str, problem: str
) -> None:
    with pytest.raises(TranscriptError) as caught:
        read(tmp_path, text)
    assert str(caught.value).startswith(str(tmp_path / "one.toml"))
    assert problem in str(caught.value)


def test_the_documentations_example_is_met(tmp_path: Path) -> None:
    text = (FOLDER.parents[1] / "docs" / "reference" / "transcripts.md").read_text()
    example = read(tmp_path, text.split("```toml\n")[1].split("```")[0])
    assert mismatches(example.expected, run_layer(example.query, example.steps)) == []


def test_a_folder_without_transcripts_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TranscriptError, match="there is no transcript"):
        load_transcripts(tmp_path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TranscriptError, match="cannot be read"):
        load_transcript(tmp_path / "none.toml")
