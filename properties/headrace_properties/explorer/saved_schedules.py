"""A schedule that was chosen by hand, as a test in a user's project."""

from collections.abc import Sequence

import msgspec

from headrace import HistoryFormatError, Pipeline
from headrace.api.json_text import JsonError, read_json
from headrace_properties.pipeline_target import PipelineTarget, pipeline_target
from headrace_properties.printable import printable_json
from headrace_properties.promises import Promise
from headrace_properties.search.application import FeedOf, PipelineTrial
from headrace_properties.search.judging import try_plan


def check_schedule(
    schedule: str,
    pipeline: Pipeline,
    feed: FeedOf,
    promises: Sequence[Promise] = (),
    versions: Sequence[Pipeline] = (),
) -> None:
    """Run a pipeline under one schedule, and assert that nothing is violated.

    Args:
        schedule: a trial as JSON, as ``headrace explore`` saves it in a test.
        pipeline: what is run.
        feed: makes its input from a seed.
        promises: what must hold besides the invariants.
        versions: further versions of the pipeline, which the schedule may put in force.

    Raises:
        AssertionError: something is violated, or an error stops the run; the message says what.
        HistoryFormatError: the schedule is not one.
    """
    try:
        trial = read_json(schedule.encode(), msgspec.json.Decoder(PipelineTrial).decode)
    except JsonError as error:
        raise HistoryFormatError("schedule", "<text>", str(error)) from error
    others = {f"version {number}": version for number, version in enumerate(versions, 1)}
    target = pipeline_target("the pipeline", pipeline, feed, versions=others, promises=tuple(promises))
    judged = try_plan(target.application, trial)
    problems = [f"{name}: {violated.message}" for name, violated in judged.broken.items()]
    if judged.error is not None:
        problems.append(str(judged.error))
    assert not problems, "\n".join([*trial.plan.describe(), *problems])


def schedule_test(target: PipelineTarget, trial: PipelineTrial) -> str:
    """Return a module with a test that a target holds under a schedule, on the sound protocol."""
    module, _, pipeline = target.name.partition(":")
    lines, arguments = [f"from {module} import {pipeline}", f"from {module} import {target.feed_name}"], []
    if target.promises:
        lines.append(f"from {module} import promises")
        arguments.append("promises")
    names = []
    for number, version in enumerate(target.versions, 1):
        other, _, name = version.partition(":")
        names.append(f"version_{number}")
        lines.append(f"from {other} import {name} as {names[-1]}")
    arguments += [f"versions=[{', '.join(names)}]"] if names else []
    imports = "\n".join(lines)
    story = "\n".join(f"    {line}" for line in trial.plan.describe())
    schedule = printable_json(trial).decode().replace('"""', '\\"""')
    call = ", ".join(["SCHEDULE", pipeline, target.feed_name, *arguments])
    return f'''"""A schedule that was chosen by hand with headrace explore."""

from headrace_properties.explorer.saved_schedules import check_schedule

{imports}

SCHEDULE = r"""
{schedule}
"""


def test_it_holds_under_the_chosen_schedule() -> None:
    r"""
{story}
    """
    check_schedule({call})
'''
