"""Scenarios: short, named stories from the papers, told by running them.

A scenario's code says who does what, when; its result is a History, the verdicts on it, a timeline, and a sentence or two of
conclusion, all derived from the History.
"""

import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace import Pipeline
from headrace.history import History
from headrace_properties.checkers import judge
from headrace_properties.explain.pictures.timeline import TimelineLane, render
from headrace_properties.proof.mutants import MUTANTS
from headrace_properties.verdict import Verdict, Violated
from headrace_sim import SOUND, Cluster, Protocol


class Picture(typing.Protocol):
    """A scenario's picture in the paper's style."""

    def save(self, path: Path) -> None:
        """Draw the picture into a file, in the format of the file's ending."""


@dataclass(slots=True)
class Story:
    """A scenario that is running.

    Attributes:
        cluster: the simulated cluster.
        pipeline: the pipeline that it runs.
        lanes: the columns of its timeline.
        conclusion: what the History shows, in sentences.
        account: text shown instead of the timeline; ``""``: the timeline is drawn from the History.
        drawing: the picture in the paper's style; ``None``: the paper has none.
    """

    cluster: Cluster
    pipeline: Pipeline
    lanes: Sequence[TimelineLane] = ()
    conclusion: list[str] = field(default_factory=list)
    account: str = ""
    drawing: Picture | None = None

    def owner(self, computation: str) -> str:
        """Return the owner of a computation's only interval, according to the newest table."""
        return next(a.owner for a in self.cluster.table.assignments if a.computation == computation)


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """The result of a scenario.

    Attributes:
        scenario: the scenario.
        protocol: name of the protocol that it ran on.
        pipeline: the pipeline that ran, which has the codecs of its values.
        history: the run's events.
        verdicts: verdict of each invariant.
        timeline: the timeline as text.
        names: what the paper calls the processes at these addresses.
        conclusion: what the History shows, in sentences.
        drawing: the picture in the paper's style; ``None``: the paper has none.
    """

    scenario: "Scenario"
    protocol: str
    pipeline: Pipeline
    history: History
    verdicts: dict[str, Verdict]
    timeline: str
    names: Mapping[str, str]
    conclusion: tuple[str, ...]
    drawing: Picture | None = None

    @property
    def violations(self) -> dict[str, Violated]:
        """The violated invariants."""
        return {name: verdict for name, verdict in self.verdicts.items() if isinstance(verdict, Violated)}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named scenario.

    Attributes:
        name: its name on the command line.
        title: one line.
        source: the paper's figure and section.
        story: what happens, in a few sentences.
        tell: function that runs it on a protocol.
        drawn: whether the paper has a picture of it.
    """

    name: str
    title: str
    source: str
    story: str
    tell: Callable[[Protocol], Story]
    drawn: bool = False

    def run(self, without: str | Protocol = "") -> ScenarioRun:
        """Run the scenario.

        Args:
            without: ``"sequencers"`` for a store that does not check sequencers; ``""``: the sound protocol; or a protocol.

        Raises:
            KeyError: no protocol lacks exactly this.
        """
        named = without or SOUND
        protocol = named if isinstance(named, Protocol) else MUTANTS[f"without {named}"]
        story = self.tell(protocol)
        history = story.cluster.history
        return ScenarioRun(
            scenario=self,
            protocol=protocol.name,
            pipeline=story.pipeline,
            history=history,
            verdicts=judge(history, [story.pipeline]),
            timeline=story.account or render(history, story.lanes),
            names={lane.address: lane.title for lane in story.lanes if lane.address},
            conclusion=tuple(story.conclusion),
            drawing=story.drawing,
        )
