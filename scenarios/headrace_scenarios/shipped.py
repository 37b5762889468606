"""Pipelines that Headrace ships with an input of their own and a report on their output, by name.

Whoever runs one knows neither the data nor what is looked for in them.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, Protocol

from headrace import MAX_TIME, Pipeline
from headrace_properties.reference import Emitted
from headrace_scenarios.zeitgeist import flights
from headrace_scenarios.zeitgeist.flight_findings import find
from headrace_scenarios.zeitgeist.flight_log import YEAR, LogOptions, flight_log, midnight_us
from headrace_scenarios.zeitgeist.flights_report import FlightsReport
from headrace_sim.feed import Feed

SIMULATED_UNTIL = date(2013, 2, 15)
"""Choice: the simulated cluster gets the flights until this time: the blizzard is over, and the run takes half a minute."""


class DataReport(Protocol):
    """What a job found in its data."""

    def about(self) -> list[str]:
        """Describe the input, in paragraphs."""

    def lines(self) -> list[str]:
        """Draw the findings in text, under a heading, which is the first line; empty: there is nothing to draw."""

    def summary(self) -> str:
        """Say the rest of them in a paragraph."""

    def document(self) -> dict[str, Any]:
        """Return all of them as JSON."""

    def draw(self, path: Path) -> None:
        """Draw them into a file.

        Raises:
            OSError: the file cannot be written, or its name ends with no known format.
        """


@dataclass(frozen=True, slots=True)
class JobInput:
    """The input of a run.

    Attributes:
        feed: what arrives.
        until_us: the output is complete as far as this timestamp, event time in microseconds; `MAX_TIME`: all of it.
        report: makes the report on an output; ``None``: there is none.
    """

    feed: Feed
    until_us: int = MAX_TIME
    report: Callable[[Counter[Emitted]], DataReport] | None = None


@dataclass(frozen=True, slots=True)
class ShippedJob:
    """A pipeline with its input.

    Attributes:
        pipeline: the pipeline.
        source: what its input is.
        input_until: makes the input, to this day (exclusive); ``None``: as far as a host can take it, simulated or not.
        pictures: names of the pictures that belong beside its output.
    """

    pipeline: Pipeline
    source: str
    input_until: Callable[[date | None, bool], JobInput]
    pictures: tuple[str, ...]


def _flights_until(until: date | None, simulated: bool) -> JobInput:  # noqa: FBT001  as `ShippedJob.input_until`
    return _flights(until or (SIMULATED_UNTIL if simulated else YEAR[1]))


@cache
def _flights(until: date) -> JobInput:
    """Choice: a wall second for each day, which makes a run of the simulated cluster short and leaves room for faults."""
    log = flight_log(LogOptions(until=until, day_us=flights.SIMULATED_DAY_US))
    until_us = MAX_TIME if until == YEAR[1] else midnight_us(until)
    return JobInput(
        log.feed(flights.pipeline),
        until_us,
        lambda outputs: FlightsReport(find(outputs, log.options), log),
    )


JOBS = {
    "zeitgeist": ShippedJob(
        flights.pipeline, "the flights of 2013", _flights_until, ("dips.svg", "dips.png")
    ),
}
"""All of them by name."""

SHORT_NAMES = {f"nexmark-q{number}": f"headrace_scenarios.nexmark:q{number}" for number in range(13)}
"""Other pipelines that Headrace ships, ``MODULE:PIPELINE`` by short name: their module makes their input."""
