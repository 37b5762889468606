"""Histories as data: a row is a story's start, the steps that write it, and the expected verdicts in between.

A row of one step and one verdict::

    "an accepted record that was never applied is lost": (
        begin,
        inject(0, 100),
        end(),
        violates("S1", "queries/0:0"),
    )
"""

from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec

from headrace.history import Event
from headrace.wire.rows import Production
from headrace_properties.checkers import reached
from headrace_properties.verdict import Holds, Unknown
from tests.properties.stories import Story, record

P = ParamSpec("P")

Step = Callable[[Story], object]
"""Writes something into a story, or asks for a verdict."""

Row = tuple[Callable[[], Story], *tuple[Step, ...]]
Table = Mapping[str, Row]


def step(method: Callable[Concatenate[Story, P], object]) -> Callable[P, Step]:
    """Make a step from a story's method."""

    def of(*args: P.args, **kwargs: P.kwargs) -> Step:
        return lambda story: method(story, *args, **kwargs)

    return of


def check(row: Row) -> None:
    """Write a story, step by step; raise on an unexpected verdict."""
    begin, *steps = row
    story = begin()
    for step in steps:
        step(story)


# What happens

own, mint, scan = step(Story.own), step(Story.mint), step(Story.scan)
inject, run, write, take, fire = (
    step(Story.inject),
    step(Story.run),
    step(Story.write),
    step(Story.take),
    step(Story.fire),
)
delete, collect, ack, output = step(Story.delete), step(Story.collect), step(Story.ack), step(Story.output)
report, owner_reports, publish, advance = (
    step(Story.report),
    step(Story.owner_reports),
    step(Story.publish),
    step(Story.advance),
)
wait, end = step(Story.tick), step(Story.end)


def add(kind: Callable[..., Event], *fields: Any) -> Step:
    """Any other event, a millisecond later."""
    return lambda story: story.add(kind(story.tick(), *fields))


def back() -> Step:
    """Remove the last event."""
    return lambda story: story.events.pop()


# What it is about


def query(offset: int, timestamp: int, *, value: bytes = b"1", origin: int = 0) -> Production:
    """Return the record that `inject` injects."""
    return record(f"queries/0:{offset}", "counter", timestamp, value=value, origin=origin)


QUERY = query(0, 100)
COUNT = record("counter@1.1#0", "detector", 100)
WEAK_COUNT = record("queries/0:0>counter#0", "detector", 100)
"""Return the counter's production for the query."""


# Verdicts


def violates(name: str, *texts: str) -> Step:
    """Expect a violation whose message contains all of this."""

    def look(story: Story) -> None:
        message = story.violated(name)
        assert [text for text in texts if text not in message] == [], message

    return look


def holds(name: str, times: int | None = None) -> Step:
    """Expect an invariant to hold, exercised this many times."""

    def look(story: Story) -> None:
        verdict = story.verdicts()[name]
        assert isinstance(verdict, Holds) if times is None else verdict == Holds(times), verdict

    return look


def unknown(name: str, why: str = "") -> Step:
    """Expect an invariant to be unknown; ``why``: what did not happen."""

    def look(story: Story) -> None:
        verdict = story.verdicts()[name]
        assert isinstance(verdict, Unknown), verdict
        assert why in ("", verdict.why)

    return look


def breaks(*names: str, but: str = "") -> Step:
    """Expect only these violations; ``but``: one that is optional."""

    def look(story: Story) -> None:
        assert story.broken() - {but} == set(names)

    return look


def spares(name: str) -> Step:
    """Expect no violation of an invariant."""

    def look(story: Story) -> None:
        assert name not in story.broken()

    return look


def reaches(cases: Mapping[str, int]) -> Step:
    """Expect only these hard cases, this many times."""

    def look(story: Story) -> None:
        assert {case: count for case, count in reached(story.events).items() if count} == cases

    return look
