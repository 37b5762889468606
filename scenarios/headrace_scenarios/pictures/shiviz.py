"""A run as a log for ShiViz (https://bestchai.bitbucket.io/shiviz): each event with its vector clock.

Two lines an event: what happened, in words; then the process, and the clock as JSON. The first line of the log is the regular
expression that ShiViz reads the others with, its own default; the second, which would separate several runs, is empty.
"""

from bisect import bisect_left
from collections.abc import Sequence

import msgspec

from headrace import history as h
from headrace.causes import Causes
from headrace_properties.explain.causality import links_of, messages_of
from headrace_properties.explain.event_summaries import phrase, seconds

PARSER = r"(?<event>.*)\n(?<host>\S*) (?<clock>{.*})"
"""How ShiViz takes the log apart, as long as it is not told otherwise."""

Clock = dict[str, int]
"""Process to how many of its events came before, or are this one."""


def shiviz_log(history: Sequence[h.Event]) -> str:
    """Write a run for ShiViz."""
    lines = [
        f"{type(event).__name__} at {seconds(event.at_us)}: {_line(event)}\n{_host(event)} {msgspec.json.encode(clock).decode()}"
        for event, clock in zip(history, vector_clocks(history), strict=True)
    ]
    return "\n".join([PARSER, "", *lines, ""])


def vector_clocks(history: Sequence[h.Event]) -> list[Clock]:
    """The clock of each event: it is after all that its process did before, and after all that its process had heard of."""
    clocks: list[Clock] = []
    latest: dict[str, Clock] = {}
    for event, heard in zip(history, _heard(history), strict=True):
        host = _host(event)
        clock = dict(latest.get(host, {}))
        for cause in heard:
            for other, count in clocks[cause].items():
                clock[other] = max(clock.get(other, 0), count)
        clock[host] = clock.get(host, 0) + 1
        latest[host] = clock
        clocks.append(clock)
    return clocks


def _heard(history: Sequence[h.Event]) -> list[list[int]]:
    """Of each event: the last event of each process that happens before it. Without causes: what led to its messages."""
    heard: list[list[int]] = [[] for _ in history]
    causes = Causes.if_known(history)
    if causes is None:
        for link in messages_of(links_of(history)):
            heard[link.effect].append(link.cause)
        return heard
    numbers: dict[str, list[int]] = {}
    for number, event in enumerate(history):
        for process, known in numbers.items():
            count = bisect_left(known, causes.known_of(number, process))
            heard[number] += known[count - 1 : count]
        numbers.setdefault(event.process, []).append(number)
    return heard


def _host(event: h.Event) -> str:
    return event.process or "the-run"


def _line(event: h.Event) -> str:
    return " ".join(phrase(event).split())
