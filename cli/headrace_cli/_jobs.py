"""What ``headrace run`` can run: the pipelines that Headrace ships, by name, and the user's own, as ``MODULE:PIPELINE``.

A job is a pipeline with its input. The input may differ from host to host: the simulated cluster takes the beginning of a long
one, and then outputs are comparable as far as that goes.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path

from headrace import MAX_TIME, Pipeline
from headrace_cli._exit import WrongOptionError
from headrace_cli._input import InputOptions, read_input
from headrace_cli._targets import DEFAULT_FEED, load_pipeline, load_promises, load_target
from headrace_properties.promises import Promise
from headrace_scenarios.zeitgeist import flights
from headrace_scenarios.zeitgeist.flight_log import YEAR, FlightLog, LogOptions, flight_log, midnight_us
from headrace_sim import Feed

ZEITGEIST = "zeitgeist"
"""Name of the pipeline over real flights."""

SIMULATED_UNTIL = date(2013, 2, 15)
"""Choice: the simulated cluster gets the flights until this time: the blizzard is over, and the run takes half a minute."""


@dataclass(frozen=True, slots=True)
class JobInput:
    """The input of a run.

    Attributes:
        feed: what arrives.
        until_us: the output is complete as far as this timestamp, event time in microseconds; `MAX_TIME`: all of it.
        flights: the log that it was made from, if it is one of flights.
    """

    feed: Feed
    until_us: int = MAX_TIME
    flights: FlightLog | None = None


@dataclass(frozen=True, slots=True)
class Job:
    """A pipeline, and where its input comes from.

    Attributes:
        name: as the user wrote it.
        pipeline: the pipeline, validated.
        input_for: makes the input for a host, by its name; for several, what the least of them can take.
        promises: those of its module.
    """

    name: str
    pipeline: Pipeline
    input_for: Callable[[*tuple[str, ...]], JobInput]
    promises: tuple[Promise, ...] = ()


def load_job(
    name: str, seed: int, path: Path | None, reading: InputOptions, until: date | None, feed: str | None
) -> Job:
    """Load a job.

    Args:
        name: ``zeitgeist``, ``nexmark-q0`` to ``nexmark-q12``, or ``MODULE:PIPELINE``.
        seed: of the input, where a function makes it.
        path: a file with the input; ``None``: a function makes it.
        reading: how to read the file.
        until: the day after the last, of the flights.
        feed: name of that function.

    Raises:
        WrongOptionError: the options do not fit.
        TargetError: there is no such pipeline, or nothing that makes its input.
    """
    if re.fullmatch(r"nexmark-q(\d|1[0-2])", name):
        name = name.replace("nexmark-", "headrace_scenarios.nexmark:")
    if path is not None and feed is not None:
        raise WrongOptionError(name, "there are two inputs, --input and --feed", "Give one of them")
    if path is None and reading != InputOptions():
        remedy = "Name the file with --input"
        raise WrongOptionError(
            name, "--stream, --key, --timestamp and --slack say how to read a file", remedy
        )
    if name == ZEITGEIST:
        if path is not None or feed is not None:
            remedy = "Leave out --input and --feed, or run your own pipeline, MODULE:PIPELINE"
            raise WrongOptionError(name, "its input is the flights of 2013", remedy)
        return Job(name, flights.pipeline, lambda *hosts: _flights(until or _last(hosts)))
    if until is not None:
        raise WrongOptionError(name, f"--until is for {ZEITGEIST} only", "Leave it out")
    if path is not None:
        pipeline = load_pipeline(name)
        from_file = JobInput(read_input(path, pipeline, reading))
        return Job(name, pipeline, lambda *_: from_file, load_promises(name))
    target = load_target(name, feed or DEFAULT_FEED)
    made = JobInput(target.feed(seed))
    return Job(name, target.pipeline, lambda *_: made, target.promises)


def _last(hosts: tuple[str, ...]) -> date:
    return SIMULATED_UNTIL if "sim" in hosts else YEAR[1]


@cache
def _flights(until: date) -> JobInput:
    """Choice: a wall second for each day, which makes a run of the simulated cluster short and leaves room for faults."""
    log = flight_log(LogOptions(until=until, day_us=flights.SIMULATED_DAY_US))
    until_us = MAX_TIME if until == YEAR[1] else midnight_us(until)
    return JobInput(log.feed(flights.pipeline), until_us, log)
