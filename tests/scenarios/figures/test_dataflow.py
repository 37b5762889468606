"""Figures 6 to 14 of the Dataflow paper, pane for pane: on the model, the layer's logic and the simulated cluster (2.4)."""

from dataclasses import replace

import pytest

from headrace import MINUTE, SECOND
from headrace.dataflow import Window
from headrace_scenarios.figures.dataflow import (
    LEAD_US,
    DataflowFigure,
    differences,
    figures,
    points,
    steps,
    watermark,
)
from headrace_scenarios.figures.groupings import committed_panes, feed_of
from headrace_sim import simulate
from tests.core.dataflow.model import run_model
from tests.core.dataflow.transcripts.layer import run_layer

FIGURES = list(figures().values())
by_figure = pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: f"figure {figure.number}")


@by_figure
def test_the_model_emits_the_figure(figure: DataflowFigure) -> None:
    assert differences(figure, run_model(figure.query, steps()).panes) == []


@by_figure
def test_the_layer_emits_the_figure(figure: DataflowFigure) -> None:
    assert differences(figure, run_layer(figure.query, steps())) == []


@by_figure
def test_the_cluster_emits_the_figure(figure: DataflowFigure) -> None:
    pipeline = figure.pipeline
    history = simulate(pipeline, feed_of(pipeline, steps(), LEAD_US))
    assert differences(figure, committed_panes(history, pipeline)) == []


def test_the_points_are_those_of_figure_5() -> None:
    assert [point.value for point in points()] == [5, 7, 3, 4, 3, 8, 3, 9, 8, 1]
    assert sum(point.value for point in points()) == 51


def test_only_the_9_is_late() -> None:
    """It is the single datum that appears behind the watermark (2.4)."""
    late = []
    for point in points():
        low = max((event_us for at_us, event_us in watermark() if at_us <= point.proc_us), default=0)
        late += [point.value] if point.event_us < low else []
    assert late == [9]


def test_a_wrong_pane_is_reported() -> None:
    figure = figures()[12]
    panes = list(run_model(figure.query, steps()).panes)
    assert differences(figure, panes[1:])[-1] == "5 panes are drawn, and 4 came"
    (wrong_value,) = differences(figure, [replace(panes[0], value=6), *panes[1:]])
    assert wrong_value.startswith("pane 0 is drawn as ")
    (too_late,) = differences(
        figure, [*panes[:3], replace(panes[3], at_us=panes[3].at_us + 2 * SECOND), panes[4]]
    )
    assert too_late == "pane 3, 14, is drawn at 12:08:20.0, and came at 12:08:22.0"
    moved = replace(panes[3], window=Window(0, MINUTE))
    assert len(differences(figure, [*panes[:3], moved, panes[4]])) == 1
