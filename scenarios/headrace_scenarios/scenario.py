"""What a scenario is: a short, named story of the papers, told by running it.

A scenario's code says who does what, when; its result is a History, the verdicts on it, a timeline, and a sentence or two of
conclusion that are read off the History.
"""

import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from headrace import Pipeline
from headrace.history import History
from headrace_properties.checkers import judge
from headrace_properties.mutants import MUTANTS
from headrace_properties.verdict import Verdict, Violated
from headrace_scenarios.pictures.timeline import TimelineLane, render
from headrace_sim import SOUND, Cluster, Protocol


class Picture(typing.Protocol):
    """What a scenario looks like in the paper."""

    def save(self, path: Path) -> None:
        """Draw it into a file, in the format that the file's ending names."""


@dataclass(slots=True)
class Story:
    """A scenario while it is being told.

    Attributes:
        cluster: the cluster that it happens in.
        pipeline: what runs there.
        lanes: the columns of its timeline.
        conclusion: what the History shows, in sentences.
        account: told in the timeline's place; ``""``: the timeline is drawn from the History.
        drawing: what it looks like in the paper; ``None``: it has no such picture.
    """

    cluster: Cluster
    pipeline: Pipeline
    lanes: Sequence[TimelineLane] = ()
    conclusion: list[str] = field(default_factory=list)
    account: str = ""
    drawing: Picture | None = None

    def owner(self, computation: str) -> str:
        """The address that owns a computation's only interval, by the newest table."""
        return next(a.owner for a in self.cluster.table.assignments if a.computation == computation)


@dataclass(frozen=True, slots=True)
class ScenarioRun:
    """A scenario that has been told.

    Attributes:
        scenario: which.
        protocol: name of the state machines that it ran on.
        history: what happened.
        verdicts: invariant to verdict.
        timeline: for people, as text.
        conclusion: what the History shows, in sentences.
        drawing: what it looks like in the paper; ``None``: it has no such picture.
    """

    scenario: "Scenario"
    protocol: str
    history: History
    verdicts: dict[str, Verdict]
    timeline: str
    conclusion: tuple[str, ...]
    drawing: Picture | None = None

    @property
    def violations(self) -> dict[str, Violated]:
        """The broken invariants."""
        return {name: one for name, one in self.verdicts.items() if isinstance(one, Violated)}


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named story.

    Attributes:
        name: for the command line.
        title: one line.
        source: the paper's figure and section.
        story: what happens, in a few sentences.
        tell: runs it on a protocol.
        drawn: there is a picture of it in the paper.
    """

    name: str
    title: str
    source: str
    story: str
    tell: Callable[[Protocol], Story]
    drawn: bool = False

    def run(self, without: str = "") -> ScenarioRun:
        """Tell it.

        Args:
            without: ``"sequencers"`` for a store that does not check them; ``""``: the sound protocol.

        Raises:
            KeyError: there is no protocol that lacks just this.
        """
        protocol = MUTANTS[f"without {without}"] if without else SOUND
        story = self.tell(protocol)
        history = story.cluster.history
        return ScenarioRun(
            scenario=self,
            protocol=protocol.name,
            history=history,
            verdicts=judge(history, [story.pipeline]),
            timeline=story.account or render(history, story.lanes),
            conclusion=tuple(story.conclusion),
            drawing=story.drawing,
        )
