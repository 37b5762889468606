"""What the trials of a sink come to."""

from collections.abc import Callable
from dataclasses import dataclass, field

from headrace_properties.sinks.story import (
    SinkFinding,
    SinkQuestion,
    Wrong,
)
from headrace_sim.deliveries import Batches
from headrace_sim.spark.sink_faults import SinkFault
from headrace_sim.spark.sinks.sink_effects import (
    Effect,
)
from headrace_sim.spark.sinks.trial_contents import Contents

Progress = Callable[[int, int], object]
"""Told the number of trials that are done, and of all, which is 0 while the sink runs undisturbed.

What it returns says whether to stop, and to report what was found.
"""


@dataclass(frozen=True, slots=True)
class PointOutcome:
    """What a fault made different; nothing: what is left is the same."""

    fault: SinkFault
    wrong: frozenset[tuple[Wrong, str]]  # what, and at which destination


@dataclass(frozen=True, slots=True)
class SinkReport:
    """The results of a sink's trials."""

    findings: tuple[SinkFinding, ...]  # what it gets wrong, in the order in which it was found
    # what could not be judged, each with the reason. A sink without findings is sound only if this is empty
    unknown: tuple[str, ...]
    trials: int  # the number of trials
    effects: tuple[int, ...]  # the number of effects of the undisturbed run, by batch
    stopped: bool = False  # whether the search was stopped; ``unknown`` says how far it was
    notes: tuple[str, ...] = ()  # what is worth knowing of the undisturbed run, and changes no verdict
    # what only the author can say. It is sound only if they are answered, too
    questions: tuple[SinkQuestion, ...] = ()
    left: Contents = field(default_factory=dict)  # what the undisturbed run leaves, by destination
    outcomes: tuple[PointOutcome, ...] = ()  # of each fault that was judged

    @property
    def holds(self) -> bool:
        """Whether each row exists exactly once after every trial, and everything could be judged."""
        return not self.findings and not self.unknown and not self.questions


@dataclass(frozen=True, slots=True)
class LeftOf:
    """What an undisturbed run on some rows does, and leaves."""

    batches: Batches
    effects: tuple[Effect, ...] = ()
    contents: Contents = field(default_factory=dict)
    failure: str = ""  # how it fails; "": it does not
    steps: tuple[Contents | None, ...] = ()  # what was there behind each of ``effects``; None: nobody looked


@dataclass(frozen=True, slots=True)
class OneTrial:
    """The results of one fault."""

    findings: tuple[SinkFinding, ...]  # what the sink gets wrong
    undisturbed: tuple[Effect, ...]  # its effects without the fault
    effects: tuple[Effect, ...]  # its effects with the fault, by all processes
    fault: SinkFault | None = None  # the fault, if it could strike
    what: str = ""  # what happened then, in a sentence
    calm: Contents = field(default_factory=dict)  # what is left without the fault, by destination
    # what was there when the fault had struck, before another process took over; None: none did
    struck: Contents | None = None
    left: Contents = field(default_factory=dict)  # what is left in the end
    steps: tuple[Contents | None, ...] = ()  # what was there behind each of ``effects``; None: nobody looked
    calm_steps: tuple[Contents | None, ...] = ()  # the same of ``undisturbed``
    questions: tuple[SinkQuestion, ...] = ()  # what only the author can say
    batches: Batches = ()  # the rows
    # what is left of the rows as they are, and of others with which they are to be compared
    compared: tuple[LeftOf, LeftOf] | None = None
