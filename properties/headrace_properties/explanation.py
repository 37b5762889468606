"""Two runs beside each other, step by step: how a finding comes about, of a Spark job, a sink or a pipeline's code by itself."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum

MOST_LINES = 60
"""Choice: the number of lines shown of a run."""

Row = str | tuple[tuple[str, str], ...]
"""A line, or a row as (column, value) pairs."""
Tables = Mapping[str, tuple[Row, ...]]
"""The rows of each table, file or topic, by its name."""


class StepKind(Enum):
    """What a step is."""

    INPUT = "input"  # rows or records arrive
    RUN = "run"  # the user's code runs: a batch, a task, a call
    WRITE = "write"  # something outside the process changes
    FAULT = "fault"  # something fails, or comes otherwise than in the undisturbed run


@dataclass(frozen=True, slots=True)
class RunStep:
    """Something that happens in a run."""

    text: str  # what, in words
    kind: StepKind
    by: str = ""  # the process that does it, or that fails: ``driver 1``; "": none
    to: str = ""  # where it writes: ``bank.db: payments``; "": nowhere
    details: tuple[str, ...] = ()  # more lines
    again: bool = False  # whether it was done before
    late: bool = False  # whether a process does it that was replaced
    tables: Tables | None = None  # what is there behind it; None: as before, or not known
    quiet: bool = False  # whether the text leaves it out

    @property
    def lines(self) -> tuple[str, ...]:
        """What is said of it."""
        return () if self.quiet else (self.text, *self.details)


@dataclass(frozen=True, slots=True)
class Run:
    """One of the compared runs."""

    title: str  # what is special about it
    steps: tuple[RunStep, ...]  # what happened, in order
    outcome: tuple[str, ...]  # what it came to
    tables: Tables = field(default_factory=dict)  # what is there in the end

    def lines(self) -> Iterator[str]:
        """Yield what happened, line by line; a fault has a mark."""
        for step in self.steps:
            mark = "!" if step.kind is StepKind.FAULT else " "
            yield from (f"{mark} {line}{'  (again)' * step.again}" for line in step.lines)

    def paragraphs(self) -> Iterator[str]:
        """Yield the text, line by line."""
        yield self.title
        lines = [*self.lines()]
        yield from lines[:MOST_LINES]
        if len(lines) > MOST_LINES:
            yield f"  and {len(lines) - MOST_LINES:,} more steps"
        yield from (f"  = {line}" for line in self.outcome)


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a finding comes about."""

    runs: tuple[Run, ...]  # the undisturbed run, and the one that differs, if there is one
    parting: tuple[str, ...] = ()  # the first state call or output that differs, in both runs
    difference: tuple[str, ...] = ()  # what the outcomes differ in

    def paragraphs(self) -> Iterator[str]:
        """Yield the text, line by line."""
        for run in self.runs:
            yield from run.paragraphs()
        if self.parting:
            yield "The first difference"
            yield from (f"  {line}" for line in self.parting)
        if self.difference:
            yield "The difference to the undisturbed run"
            yield from (f"  {line}" for line in self.difference)
