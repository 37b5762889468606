"""The Dataflow layer on Spark: transcripts that no clock plays a part in, and Figures 6, 9, 10, 11 and 12 of the paper (2.4)."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from headrace import MINUTE, SECOND, Pipeline
from headrace.dataflow import MicroBatch, Pane
from headrace.spark.jobs.attach import attach
from headrace.spark.jobs.recorded_input import Landing, landed
from headrace_scenarios.figures.dataflow import figures, points, steps
from headrace_scenarios.figures.groupings import EmittedPane, InputStep, emission_of, feed_of
from headrace_sim import Feed
from tests.core.dataflow.model import run_model
from tests.core.dataflow.transcripts.cluster_runs import bare, pipeline_of, until_the_end
from tests.core.dataflow.transcripts.format import load_transcript
from tests.spark.rig import Collected, begin, run_bounded

pytestmark = pytest.mark.spark

FOLDER = Path(__file__).parents[2] / "transcripts"
TRANSCRIPTS = (
    "windows/sessions-chain",
    "lateness/up-to-the-limit",
    *(
        pytest.param(name, marks=pytest.mark.nightly)
        for name in ("triggers/count-after-merge", "refinement/retraction-comes-first")
    ),
)
"""Each step is a micro-batch of Spark's, which takes a second or more."""


def panes_of(rows: Iterable[Sequence[object]], pipeline: Pipeline) -> list[EmittedPane]:
    """Output rows as panes, in their order."""
    found = []
    for stream, key, value, *_ in rows:
        pane: Pane = pipeline.codec(str(stream)).decode(bytes(value))  # type: ignore[call-overload]
        found.append(emission_of(-1, 0, str(key), pane))
    return found


def parts_of(feed: Feed) -> list[Feed]:
    """Each arrival by itself: a micro-batch of Spark's each."""
    return [Feed((entry,)) for entry in feed.entries]


def run_parts(
    spark: SparkSession, pipeline: Pipeline, parts: Sequence[Feed], place: Path, clock_us: int | None = None
) -> list[EmittedPane]:
    """Let parts of a feed fall one after the other; with a clock, wait until each has had its effect."""
    landing, collected = Landing(pipeline, place / "landing"), Collected()
    outputs = attach(pipeline, landed(spark, pipeline, place / "landing"), intervals=2, clock_us=clock_us)
    query = begin(outputs, collected, place / "checkpoint")
    try:
        for part in parts:
            before = len(_rows(collected))
            landing.put((entry.address, entry.event) for entry in part.entries)
            if clock_us is None:
                query.processAllAvailable()
            else:
                _await_rows(collected, before)
    finally:
        query.stop()
    return panes_of(_rows(collected), pipeline)


def _rows(collected: Collected) -> list[tuple[object, ...]]:
    return [row for _, rows in sorted(collected.batches.items()) for row in rows]


def _await_rows(collected: Collected, before: int, patience_s: float = 300) -> None:
    """Wait for more output than there was before."""
    end = time.monotonic() + patience_s
    while len(_rows(collected)) <= before:
        assert time.monotonic() < end, "nothing came out"
        time.sleep(0.05)


@pytest.mark.parametrize("name", TRANSCRIPTS)
def test_spark_tells_the_transcript(spark: SparkSession, name: str, tmp_path: Path) -> None:
    transcript = load_transcript(FOLDER / f"{name}.toml")
    pipeline = pipeline_of(transcript.query)
    panes = run_parts(spark, pipeline, parts_of(feed_of(pipeline, transcript.steps)), tmp_path)
    assert bare(panes) == bare(run_model(transcript.query, until_the_end(transcript.steps)).panes)


@pytest.mark.parametrize("number", [6, 10])
def test_spark_in_batch_emits_the_figure(spark: SparkSession, number: int, tmp_path: Path) -> None:
    figure = figures()[number]
    outputs = run_bounded(spark, figure.pipeline, feed_of(figure.pipeline, steps()), tmp_path)
    rows = [(output.stream, output.key, output.value) for output in outputs.elements()]
    panes = sorted(panes_of(rows, figure.pipeline), key=lambda pane: pane.window.order)
    assert [(pane.value, pane.window) for pane in panes] == [
        (pane.value, pane.window) for pane in figure.panes
    ]


@pytest.mark.nightly
@pytest.mark.parametrize("number", [9, 12])
def test_spark_in_streaming_emits_the_figure(spark: SparkSession, number: int, tmp_path: Path) -> None:
    """Of the watermark, what matters is when it passes the end of a window."""
    figure = figures()[number]
    feed = feed_of(figure.pipeline, [step for step in steps() if _matters(step)])
    panes = run_parts(spark, figure.pipeline, parts_of(feed), tmp_path)
    drawn = [(pane.value, pane.window, pane.retraction) for pane in figure.panes]
    assert [(pane.value, pane.window, pane.retraction) for pane in panes] == drawn


def _matters(step: InputStep) -> bool:
    return step.element is not None or step.watermark in (
        2 * MINUTE,
        4 * MINUTE,
        6 * MINUTE,
        steps()[-1].watermark,
    )


@pytest.mark.nightly
def test_spark_in_micro_batches_emits_figure_11(spark: SparkSession, tmp_path: Path) -> None:
    """A minute takes two seconds of Spark's clock; what is in a part arrives at one instant, and so in one batch."""
    figure = replace(figures()[11], engine=MicroBatch(2 * SECOND))
    feed = feed_of(figure.pipeline, [step for step in steps() if step.element is not None])
    entries = [entry for entry in feed.entries if hasattr(entry.event, "value")]
    proc = [point.proc_us for point in points()]
    minutes = sorted({-(-at_us // MINUTE) for at_us in proc})
    parts = [
        Feed(tuple(e for e, at_us in zip(entries, proc, strict=True) if -(-at_us // MINUTE) == minute))
        for minute in minutes
    ]
    panes = run_parts(spark, figure.pipeline, parts, tmp_path, clock_us=SECOND // 4)
    drawn = [(pane.value, pane.window, pane.retraction) for pane in figure.panes]
    assert [(pane.value, pane.window, pane.retraction) for pane in panes] == drawn
