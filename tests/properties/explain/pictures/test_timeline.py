"""Timelines: what a reader of the paper expects, in the right lane and order."""

import re

import pytest

from headrace import KeyInterval
from headrace import history as h
from headrace.wire.messages import Progress
from headrace_properties.explain.pictures.timeline import STORE_LANE, TimelineLane, render
from headrace_scenarios.catalogue import SCENARIOS

STORIES: dict[tuple[str, str], list[tuple[str, str]]] = {
    ("zombie-timer", ""): [
        ("A", "runs A on searches/0:1"),
        ("B (zombie)", "receives A@1.2#0"),
        ("B (zombie)", "runs B on A@1.2#0"),
        ("B (zombie)", "** delay_commit write of B [cat videos]"),
        ("store", "mints sequencer 3 for worker-2"),
        ("B'", "scans its rows"),
        ("B'", "scan done: timer 'window 1' of 'dog videos'"),
        ("store", "REFUSES write with sequencer 2: 3 is the latest"),
        ("B (zombie)", "learns that it is not the owner (refused)"),
        ("B'", "receives A@1.2#0"),
        ("store", "applies write of 3: timer 'window 1' of 'cat videos'"),
        ("B'", "ACKs A@1.2#0"),
        ("B'", "TIMER 'window 1' of 'cat videos' FIRES"),
        ("watermarks", "B 3.000000s"),
    ],
    ("zombie-timer", "sequencers"): [
        ("B (zombie)", "** delay_commit write of B [cat videos]"),
        ("store", "mints sequencer 3 for worker-2"),
        ("B'", "scan done: timer 'window 1' of 'dog videos'"),
        ("store", "applies write of 2: timer 'window 1' of 'cat videos' -- STALE, 3 is the latest"),
        ("B (zombie)", "ACKs A@1.2#0"),
        ("B'", "TIMER 'window 1' of 'dog videos' FIRES"),
        ("watermarks", "B 3.000000s"),
        ("B'", "scan done: timer 'window 1' of 'cat videos'"),
        ("B'", "TIMER 'window 1' of 'cat videos' FIRES"),
    ],
    ("zombie-production", ""): [
        ("B (zombie)", "** delay_commit write of B [cat videos]"),
        ("B'", "scan done: no timer, no production"),
        ("store", "REFUSES write with sequencer 2: 4 is the latest"),
        ("B'", "runs B on A@1.2#0"),
        ("watermarks", "B 3.000000s"),
    ],
    ("zombie-production", "sequencers"): [
        ("B (zombie)", "** delay_commit write of B [cat videos]"),
        ("B'", "scan done: no timer, no production"),
        ("store", "applies write of 2: production B@2.2#0 -- STALE, 4 is the latest"),
        ("B (zombie)", "ACKs A@1.2#0"),
        ("watermarks", "B 3.000000s"),
        ("B'", "scan done: production B@2.2#0"),
    ],
    ("straggler-checkpoint", ""): [
        ("A", "runs A on searches/0:0"),
        ("B", "runs B on searches/0:0>A#0"),
        ("C", "runs C on searches/0:0>A#0>B#0"),
        ("C", "** delay_commit write of C [cat videos]"),
        ("B", "checkpoints straggler searches/0:0>A#0>B#0"),
        ("store", "applies write of 2: production searches/0:0>A#0>B#0"),
        ("B", "ACKs searches/0:0>A#0"),
        ("B", "** crash incarnation 1"),
        ("B", "** restart"),
        ("B", "scan done: production searches/0:0>A#0>B#0"),
        ("C", "ACKs searches/0:0>A#0>B#0"),
    ],
}  # fmt: skip


def said(timeline: str) -> list[tuple[str, str]]:
    """(lane, words) of each entry, with wrapped lines joined again."""
    head, rule, *rows = timeline.splitlines()
    assert set(rule) <= {"-", "+", " "}
    titles = [cell.strip() for cell in head.split("|")][1:]
    entries: list[tuple[str, str]] = []
    for row in rows:
        time, *cells = row.split("|")
        index = next(number for number, cell in enumerate(cells) if cell.strip())
        words = cells[index].strip()
        if time.strip():
            entries.append((titles[index], words))
        else:
            assert entries[-1][0] == titles[index], "what is wrapped goes on in its lane"
            entries[-1] = (titles[index], f"{entries[-1][1]} {words}")
    return entries


@pytest.mark.parametrize(("name", "without"), STORIES, ids=lambda without: without or "with")
def test_a_timeline_has_what_the_story_is_about_in_its_order(name: str, without: str) -> None:
    entries = iter(said(SCENARIOS[name].run(without).timeline))
    for expected in STORIES[name, without]:
        assert expected in entries, f"{expected} is missing, or not where it should be"


TIMELINES = [name for name, scenario in SCENARIOS.items() if not scenario.drawn]
"""The others are told by their panes: see test_dataflow_figures.py."""


@pytest.mark.parametrize("name", TIMELINES)
def test_a_timeline_is_in_order_of_time_and_in_columns(name: str) -> None:
    lines = SCENARIOS[name].run().timeline.splitlines()
    bars = [match.start() for match in re.finditer(r"\|", lines[0])]
    assert all([match.start() for match in re.finditer(r"\|", line)] == bars for line in lines[2:])
    times = [float(line[:10].rstrip("s ")) for line in lines[2:] if line[:10].strip()]
    assert times == sorted(times)
    assert all(line == line.rstrip() for line in lines)
    assert max(map(len, lines)) <= 150


def test_every_scenario_with_a_timeline_has_a_story_here() -> None:
    assert {name for name, _ in STORIES} == set(TIMELINES)


# Lanes


def test_a_lane_shows_its_process_and_its_computation_only() -> None:
    events: list[h.Event] = [
        h.Delivered(1_000_000, "worker-0", "B", "k", "A@1.1#0", "worker-1"),
        h.Delivered(2_000_000, "worker-0", "C", "k", "A@1.2#0", "worker-1"),
        h.Delivered(3_000_000, "worker-1", "B", "k", "A@1.2#0", "worker-0"),
        h.FaultStruck(4_000_000, "worker-0", "pause", ""),
    ]
    assert said(render(events, [TimelineLane("worker-0", "B", "B")])) == [
        ("B", "receives A@1.1#0"),
        ("B", "** pause"),
    ]
    assert [words for _, words in said(render(events, [TimelineLane("worker-0", "all")]))] == [
        "receives A@1.1#0", "receives A@1.2#0", "** pause",
    ]  # fmt: skip


def test_an_event_of_two_roles_is_shown_in_both() -> None:
    crash = h.FaultStruck(1_000_000, "worker-0", "crash", "incarnation 1")
    lanes = [TimelineLane("worker-0", "A", "A"), STORE_LANE, TimelineLane("worker-0", "B", "B")]
    assert said(render([crash], lanes)) == [("A", "** crash incarnation 1"), ("B", "** crash incarnation 1")]


def test_a_watermark_is_shown_when_it_changes() -> None:
    def published(at_us: int, **low: int) -> h.Published:
        return h.Published(
            at_us, "authority-0.0", tuple((name, Progress(value)) for name, value in low.items())
        )

    events = [
        published(1_000_000, A=5, B=1_000_000),
        published(2_000_000, A=6, B=1_000_000),
        published(3_000_000, B=2_000_000),
    ]
    lanes = [TimelineLane("", "watermarks", "B")]
    assert said(render(events, lanes)) == [("watermarks", "B 1.000000s"), ("watermarks", "B 2.000000s")]


def test_a_scan_tells_what_it_found() -> None:
    def scan(timers: tuple[tuple[str, str], ...], productions: tuple[tuple[str, str], ...]) -> str:
        event = h.ScanEnded(1_000_000, "worker-0", "B", KeyInterval(), 3, 1, timers, productions)
        ((_, words),) = said(render([event], [TimelineLane("worker-0", "B")]))
        return words

    assert scan((), ()) == "scan done: no timer, no production"
    assert scan((("k", "t"),), (("A@1.1#0", "B"),)) == "scan done: timer 't' of 'k', production A@1.1#0"


def test_a_timeline_of_nothing_is_its_head() -> None:
    assert render([], [STORE_LANE]).splitlines() == [
        f"{'time':>10} |{'store':^26}".rstrip(), f"{'-' * 10} +{'-' * 26}",
    ]  # fmt: skip
