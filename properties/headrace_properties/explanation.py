"""Two runs beside each other, step by step: how a finding comes about, of a Spark job, a sink or a pipeline's code by itself."""

from collections.abc import Iterator
from dataclasses import dataclass

MOST_LINES = 60
"""Choice: the number of lines shown of a run."""


@dataclass(frozen=True, slots=True)
class Run:
    """One of the compared runs."""

    title: str  # what is special about it
    lines: tuple[str, ...]  # what happened, in order
    outcome: tuple[str, ...]  # what it came to
    strikes: tuple[int, ...] = ()  # the numbers of the lines that tell of a fault
    again: tuple[int, ...] = ()  # the numbers of the lines that tell what was done before


@dataclass(frozen=True, slots=True)
class Explanation:
    """How a finding comes about."""

    runs: tuple[Run, ...]  # the undisturbed run, and the one that differs, if there is one
    parting: tuple[str, ...] = ()  # the first state call or output that differs, in both runs
    difference: tuple[str, ...] = ()  # what the outcomes differ in

    def paragraphs(self) -> Iterator[str]:
        """Yield the text, line by line."""
        for run in self.runs:
            yield run.title
            for number, line in enumerate(run.lines[:MOST_LINES]):
                mark = "!" if number in run.strikes else " "
                yield f"{mark} {line}{'  (again)' * (number in run.again)}"
            if len(run.lines) > MOST_LINES:
                yield f"  and {len(run.lines) - MOST_LINES:,} more steps"
            yield from (f"  = {line}" for line in run.outcome)
        if self.parting:
            yield "The first difference"
            yield from (f"  {line}" for line in self.parting)
        if self.difference:
            yield "The difference to the undisturbed run"
            yield from (f"  {line}" for line in self.difference)
