"""What ``headrace run`` can run: the pipelines that Headrace ships, by name, and the user's own, as ``MODULE:PIPELINE``.

A job is a pipeline with its input. The input may differ from host to host: the simulated cluster takes the beginning of a long
one, and then outputs are comparable as far as that goes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from headrace import Pipeline
from headrace_cli.options.option_groups import DEFAULT_FEED
from headrace_cli.options.run_options import InputOptions
from headrace_cli.runs.input_file import read_input
from headrace_cli.targets.loading import load_pipeline, load_promises, load_target
from headrace_cli.terminal.usage_errors import WrongOptionError
from headrace_properties.promises import Promise
from headrace_scenarios.shipped import JOBS, SHORT_NAMES, JobInput


@dataclass(frozen=True, slots=True)
class Job:
    """A pipeline and the source of its input.

    Attributes:
        name: as the user wrote it.
        pipeline: the pipeline, validated.
        input_for: makes the input for a host, by its name; for several, what the least of them can take.
        promises: those of its module.
        pictures: names of the pictures of its findings, which belong beside its output; empty: it has no findings.
    """

    name: str
    pipeline: Pipeline
    input_for: Callable[[*tuple[str, ...]], JobInput]
    promises: tuple[Promise, ...] = ()
    pictures: tuple[str, ...] = ()


def load_job(
    name: str, seed: int, path: Path | None, reading: InputOptions, until: date | None, feed: str | None
) -> Job:
    """Load a job.

    Args:
        name: one of `JOBS` or `SHORT_NAMES`, or ``MODULE:PIPELINE``.
        seed: of the input, where a function makes it.
        path: a file with the input; ``None``: a function makes it.
        reading: how to read the file.
        until: the day after the last, of a job that comes with its input.
        feed: name of that function.

    Raises:
        WrongOptionError: the options do not fit.
        TargetError: there is no such pipeline, or nothing that makes its input.
    """
    name = SHORT_NAMES.get(name, name)
    if path is not None and feed is not None:
        raise WrongOptionError(name, "there are two inputs, --input and --feed", "Give one of them")
    if path is None and reading != InputOptions():
        remedy = "Name the file with --input"
        raise WrongOptionError(
            name, "--stream, --key, --timestamp and --slack say how to read a file", remedy
        )
    if name in JOBS:
        shipped = JOBS[name]
        if path is not None or feed is not None:
            remedy = "Leave out --input and --feed, or run your own pipeline, MODULE:PIPELINE"
            raise WrongOptionError(name, f"its input is {shipped.source}", remedy)
        return Job(
            name,
            shipped.pipeline,
            lambda *hosts: shipped.input_until(until, "sim" in hosts),
            pictures=shipped.pictures,
        )
    if until is not None:
        raise WrongOptionError(name, f"--until is for {', '.join(JOBS)} only", "Leave it out")
    if path is not None:
        pipeline = load_pipeline(name)
        from_file = JobInput(read_input(path, pipeline, reading))
        return Job(name, pipeline, lambda *_: from_file, load_promises(name))
    target = load_target(name, feed or DEFAULT_FEED)
    drawn = JobInput(target.feed(seed))
    return Job(name, target.pipeline, lambda *_: drawn, target.promises)
