"""The Dataflow paper's figures as scenarios: each pipeline in the simulated cluster, its panes beside the drawn ones (2.4)."""

from functools import partial

from headrace_scenarios.figures.dataflow import LEAD_US, DataflowFigure, differences, figures, steps
from headrace_scenarios.figures.dataflow_chart import Drawing, text_of
from headrace_scenarios.figures.groupings import committed_panes, feed_of
from headrace_scenarios.scenario import Scenario, Story
from headrace_sim import Protocol, start

_STORIES = {
    6: "A classic batch: all is read, and then comes one sum of all.",
    7: "The sum of all so far, at each full minute of the clock.",
    8: "What came in each minute of the clock: windows in processing time.",
    9: "Each two data, as they come: tuple-based windows.",
    10: "Windows of two minutes, on a batch engine: in event-time order, when all is read.",
    11: "The same windows, on a micro-batch engine: whatever has changed, at each full minute.",
    12: "The same windows, on a streaming engine: each when the watermark passes it, and again for the late 9.",
    13: "The same, and early results at each full minute until the watermark has passed.",
    14: "Sessions with a gap of a minute: what merges them takes back what they said alone.",
}


def _tell(figure: DataflowFigure, protocol: Protocol) -> Story:
    """Run the figure's pipeline over the ten points, and compare its panes with the drawn ones."""
    pipeline = figure.pipeline
    story = Story(start(pipeline, feed_of(pipeline, steps(), LEAD_US), protocol=protocol), pipeline)
    story.cluster.heal()
    story.cluster.run_to_the_end()
    panes = committed_panes(story.cluster.history, pipeline)
    story.account = text_of(panes)
    story.drawing = Drawing(figure, tuple(panes))
    problems = differences(figure, panes)
    story.conclusion = problems or [
        f"These are the {len(panes)} panes of Figure {figure.number}, each with its value, its window and its time."
        if len(panes) > 1
        else f"This is the pane of Figure {figure.number}, with its value, its window and its time."
    ]
    if figure.note and not problems:
        story.conclusion.append(figure.note)
    return story


DATAFLOW_FIGURES = tuple(
    Scenario(
        name=f"dataflow-fig{number}",
        title=figure.title,
        source=f"Dataflow 2.4, Figure {number}",
        story=_STORIES[number],
        tell=partial(_tell, figure),
        drawn=True,
    )
    for number, figure in figures().items()
)
"""The scenarios by the number of their figure."""
