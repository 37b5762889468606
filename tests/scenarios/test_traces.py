"""Runs for other tools' eyes: what Perfetto's and ShiViz's formats demand holds for each scenario."""

import json
import re
from collections import Counter
from typing import Any

import pytest

from millrace_properties.causality import links_of, messages_of, program_order
from millrace_scenarios.catalogue import SCENARIOS
from millrace_scenarios.perfetto import perfetto_json
from millrace_scenarios.scenario import Outcome
from millrace_scenarios.shiviz import PARSER, shiviz_log, vector_clocks


@pytest.fixture(scope="module", params=["zombie-timer", "zombie-production", "straggler-checkpoint"])
def outcome(request: pytest.FixtureRequest) -> Outcome:
    return SCENARIOS[request.param].run("sequencers")


def trace_of(outcome: Outcome) -> list[dict[str, Any]]:
    document = json.loads(perfetto_json(outcome.history.events, "a run"))
    assert document["displayTimeUnit"] == "ms"
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


# Perfetto


def test_each_trace_event_has_what_its_phase_demands(outcome: Outcome) -> None:
    demanded = {
        "M": {"name", "args"}, "X": {"name", "ts", "dur"},
        "s": {"id", "name", "cat", "ts"}, "f": {"id", "name", "cat", "ts", "bp"},
        "b": {"id", "cat", "name", "ts"}, "e": {"id", "cat", "name", "ts"}, "C": {"name", "ts", "args"},
    }  # fmt: skip
    trace = trace_of(outcome)
    assert {one["ph"] for one in trace} == set(demanded)
    for one in trace:
        assert demanded[one["ph"]] <= set(one)
        assert isinstance(one["pid"], int)
        assert isinstance(one["ts"], int)
        assert one["ts"] >= 0


def test_each_process_is_named_once_and_every_event_is_a_slice_of_a_named_one(outcome: Outcome) -> None:
    trace = trace_of(outcome)
    names = {one["pid"]: one["args"]["name"] for one in trace if one["name"] == "process_name"}
    assert len(set(names.values())) == len(names)
    slices = [one for one in trace if one["ph"] == "X"]
    assert len(slices) == len(outcome.history)
    for one in slices:
        event = outcome.history.events[one["args"]["event"]]
        assert (names[one["pid"]], one["ts"]) == (event.process or "the run", event.at_us)


def test_every_flow_begins_and_ends_once_in_a_slice_and_never_goes_back(outcome: Outcome) -> None:
    trace = trace_of(outcome)
    slices = {(one["pid"], one["tid"], one["ts"]) for one in trace if one["ph"] == "X"}
    begun = {one["id"]: one for one in trace if one["ph"] == "s"}
    ended = {one["id"]: one for one in trace if one["ph"] == "f"}
    assert begun
    assert set(begun) == set(ended)
    for number, one in begun.items():
        assert one["ts"] <= ended[number]["ts"]
        assert one["name"] == ended[number]["name"]
        assert all((end["pid"], end["tid"], end["ts"]) in slices for end in (one, ended[number]))


def test_asynchronous_slices_come_in_pairs(outcome: Outcome) -> None:
    halves = Counter(
        (one["ph"], one["cat"], one["id"], one["pid"]) for one in trace_of(outcome) if one["ph"] in ("b", "e")
    )
    for _, *which in halves:
        assert halves["b", *which] == halves["e", *which] == 1


def test_watermarks_are_counters_in_seconds_and_never_fall(outcome: Outcome) -> None:
    values: dict[str, list[float]] = {}
    for one in trace_of(outcome):
        if one["ph"] == "C":
            values.setdefault(one["name"], []).append(one["args"]["seconds"])
    assert "low watermark of B" in values
    assert all(known == sorted(known) for known in values.values())


# ShiViz


def test_the_parser_in_the_first_line_reads_every_line(outcome: Outcome) -> None:
    first, empty, *lines = shiviz_log(outcome.history.events).splitlines()
    assert (first, empty) == (PARSER, "")
    parser = re.compile(PARSER.replace("(?<", "(?P<"))
    assert len(lines) == len(outcome.history)
    for line, event in zip(lines, outcome.history, strict=True):
        found = parser.fullmatch(line)
        assert found
        assert found["host"] == (event.process or "the-run")
        assert found["host"] in json.loads(found["clock"])


def test_a_process_counts_its_own_events_by_one(outcome: Outcome) -> None:
    counts: Counter[str] = Counter()
    for event, clock in zip(outcome.history, vector_clocks(outcome.history), strict=True):
        host = event.process or "the-run"
        counts[host] += 1
        assert clock[host] == counts[host]


def test_a_clock_is_after_those_of_its_process_and_of_what_led_to_it(outcome: Outcome) -> None:
    clocks = vector_clocks(outcome.history)
    pairs = [(link.cause, link.effect) for link in messages_of(links_of(outcome.history))]
    for before, after in [*pairs, *program_order(outcome.history)]:
        assert clocks[before] != clocks[after]
        assert all(clocks[after].get(host, 0) >= count for host, count in clocks[before].items())
