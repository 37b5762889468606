"""What a later version makes of the states and timers of the one before: wrong where both agree alone, else told."""

from collections.abc import Callable

import pytest

from headrace import SECOND, Computation, Context, Pipeline, Record, Timer
from headrace_properties.findings import Finding
from headrace_properties.user_code.habits import Habit, habit_of
from headrace_properties.user_code.review import NOTED, CodeReview, review
from headrace_sim import Feed, FeedBuilder


class Totals(Computation):
    """Gives out the total of each key so far, kept in some unit."""

    def __init__(self, unit: int = 1, step: Callable[[int], int] = int) -> None:
        self.unit, self.step = unit, step

    def initial_state(self) -> dict[str, int]:
        return {}

    def process_record(self, context: Context, record: Record) -> None:
        total = context.state.get("total", 0) + self.step(record.value) * self.unit
        context.state["total"] = total
        context.produce("out", total / self.unit)


class Closing(Computation):
    """Counts what comes until a timer fires, which each version may know by another tag."""

    def __init__(self, tag: str) -> None:
        self.tag = tag

    def process_record(self, context: Context, record: Record) -> None:
        context.state = (context.state or 0) + 1
        context.set_timer(self.tag, at=10 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        if timer.tag == self.tag:
            context.produce("out", context.state)
            context.state = None


def of(*versions: Computation) -> tuple[list[Pipeline], Feed]:
    pipelines = []
    for version in versions:
        pipeline = Pipeline("totals")
        pipeline.injector("records")
        pipeline.add(version, name="totals", inputs=["records"], outputs=["out"], ordered=True)
        pipelines.append(pipeline)
    builder = FeedBuilder(pipelines[0])
    for number in range(8):
        at_us = SECOND + number * SECOND // 10
        builder.record(at_us=at_us, value=number + 1, timestamp=at_us, key="ab"[number > 1])
    return pipelines, builder.build()


def _reviewed(*versions: Computation) -> CodeReview:
    return review(*of(*versions))


def _misread(found: CodeReview) -> list[Finding]:
    return [finding for finding in found.findings if habit_of(finding) is Habit.MISREADS]


@pytest.mark.parametrize(
    ("before", "after"), [(Totals(), Totals(100)), (Closing("end"), Closing("close"))], ids=["unit", "timer"]
)
def test_state_that_is_taken_for_something_else_is_found(before: Computation, after: Computation) -> None:
    (finding,) = _misread(_reviewed(before, after))
    assert finding.subject == "totals"
    assert "on their own, both versions agree" in finding.message
    assert len(finding.trial.kept) <= 3


@pytest.mark.parametrize(
    ("before", "after"), [(Totals(), Totals()), (Closing("end"), Closing("end"))], ids=["state", "timer"]
)
def test_version_that_goes_on_is_left_alone(before: Computation, after: Computation) -> None:
    assert _misread(_reviewed(before, after)) == []


def test_version_that_counts_otherwise_is_told_what_it_goes_on_from() -> None:
    found = _reviewed(Totals(), Totals(step=lambda value: 2 * value))
    assert _misread(found) == []
    (line,) = found.noted(NOTED)
    assert "on their own, the versions differ, too" in line
