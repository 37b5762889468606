"""Runs for another tool: scenarios and runs under chaos satisfy Perfetto's format."""

import json
from collections import Counter
from itertools import pairwise
from typing import Any

import pytest

from headrace.history import History
from headrace_properties.explain.causality import links_of, messages_of
from headrace_properties.explain.pictures.perfetto import perfetto_json

# Perfetto: the Trace Event Format, JSON Object Format

COMMON = {"ph", "name", "cat", "pid", "tid", "ts", "args"}
FIELDS = {
    "M": (COMMON - {"cat"}, set[str]()),
    "X": (COMMON | {"dur"}, set[str]()),
    "s": (COMMON - {"args"} | {"id", "bp"}, set[str]()),
    "f": (COMMON - {"args"} | {"id", "bp"}, set[str]()),
    "b": (COMMON - {"args"} | {"id"}, {"args"}),
    "e": (COMMON - {"args"} | {"id"}, {"args"}),
    "C": (COMMON - {"cat", "tid"}, set[str]()),
}  # fmt: skip
"""Phase to the fields that it has, and those that it may have besides: metadata, slices, flows, asynchronous slices, counters."""


def trace_of(history: History) -> list[dict[str, Any]]:
    document = json.loads(perfetto_json(history, "a run"), parse_constant=pytest.fail)
    assert document.keys() == {"traceEvents", "displayTimeUnit", "otherData"}
    assert document["displayTimeUnit"] == "ms"
    events: list[dict[str, Any]] = document["traceEvents"]
    return events


def of_phase(history: History, *phases: str) -> list[dict[str, Any]]:
    return [entry for entry in trace_of(history) if entry["ph"] in phases]


def test_each_trace_event_has_the_fields_of_its_phase_and_no_others(history: History) -> None:
    trace = trace_of(history)
    assert {"M", "X", "s", "f", "C"} <= {entry["ph"] for entry in trace} <= FIELDS.keys()
    for entry in trace:
        needed, allowed = FIELDS[entry["ph"]]
        assert needed <= entry.keys() <= needed | allowed, entry


def test_fields_are_of_the_types_that_the_format_has(history: History) -> None:
    kinds: dict[str, type | tuple[type, ...]] = {
        "ph": str, "name": str, "cat": str, "bp": str, "pid": int, "tid": int, "id": int, "args": dict,
        "ts": (int, float), "dur": (int, float),
    }  # fmt: skip
    for entry in trace_of(history):
        for name, value in entry.items():
            assert isinstance(value, kinds[name]), entry
        assert entry["ts"] >= 0
        assert entry["name"]
        assert entry.get("bp", "e") == "e"


def test_each_process_and_track_is_named_once_before_it_is_used(history: History) -> None:
    named: set[tuple[int, int]] = set()
    processes: dict[int, str] = {}
    for entry in trace_of(history):
        if entry["ph"] != "M":
            assert entry["pid"] in processes
            assert entry["ph"] == "C" or (entry["pid"], entry["tid"]) in named
        elif entry["name"] == "process_name":
            assert entry["pid"] not in processes
            processes[entry["pid"]] = entry["args"]["name"]
        elif entry["name"] == "thread_name":
            assert (entry["pid"], entry["tid"]) not in named
            named.add((entry["pid"], entry["tid"]))
        else:
            assert entry["name"] == "process_sort_index"
    assert len(set(processes.values())) == len(processes)


def test_every_event_is_a_slice_of_its_process_at_its_time(history: History) -> None:
    names = {
        entry["pid"]: entry["args"]["name"]
        for entry in of_phase(history, "M")
        if entry["name"] == "process_name"
    }
    slices = of_phase(history, "X")
    assert [entry["args"]["event"] for entry in slices] == list(range(len(history)))
    for shown, event in zip(slices, history, strict=True):
        assert names[shown["pid"]] == (event.process or "the run")
        assert 0 <= shown["ts"] - event.at_us < 1, "the same microsecond"


def test_slices_of_a_track_come_in_order_and_do_not_overlap(history: History) -> None:
    tracks: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for entry in of_phase(history, "X"):
        tracks.setdefault((entry["pid"], entry["tid"]), []).append((entry["ts"], entry["dur"]))
    for slices in tracks.values():
        for (begin, lasts), (following, _) in pairwise(slices):
            assert 1_000 * following >= 1_000 * begin + 1_000 * lasts - 1e-3, "to the nanosecond"


def test_every_flow_begins_and_ends_once_each_in_one_slice_and_never_goes_back(history: History) -> None:
    slices = Counter((entry["pid"], entry["tid"], entry["ts"]) for entry in of_phase(history, "X"))
    begun = {entry["id"]: entry for entry in of_phase(history, "s")}
    ended = {entry["id"]: entry for entry in of_phase(history, "f")}
    assert len(begun) == len(of_phase(history, "s"))
    assert len(ended) == len(of_phase(history, "f"))
    assert begun.keys() == ended.keys() != set()
    for number, begin in begun.items():
        other = ended[number]
        assert begin["ts"] <= other["ts"]
        assert (begin["name"], begin["cat"]) == (other["name"], other["cat"])
        assert all(slices[end["pid"], end["tid"], end["ts"]] == 1 for end in (begin, other))


def test_a_flow_ends_in_the_slice_of_what_it_led_to(history: History) -> None:
    numbers = {(entry["pid"], entry["ts"]): entry["args"]["event"] for entry in of_phase(history, "X")}
    flows: dict[int, list[int]] = {}
    for entry in of_phase(history, "s", "f"):
        flows.setdefault(entry["id"], []).append(numbers[entry["pid"], entry["ts"]])
    links = [[link.cause, link.effect] for link in messages_of(links_of(history))]
    assert list(flows.values()) == links


def test_asynchronous_slices_come_in_pairs_of_one_name_that_end_after_they_begin(history: History) -> None:
    begun: dict[tuple[str, int], dict[str, Any]] = {}
    ended: dict[tuple[str, int], dict[str, Any]] = {}
    for half in of_phase(history, "b", "e"):
        halves = begun if half["ph"] == "b" else ended
        assert (half["cat"], half["id"]) not in halves, "ids are the whole trace's"
        halves[half["cat"], half["id"]] = half
    assert begun.keys() == ended.keys() != set()
    for which, half in begun.items():
        other = ended[which]
        assert (half["name"], half["pid"], half["tid"]) == (other["name"], other["pid"], other["tid"])
        assert half["ts"] <= other["ts"]


def test_watermarks_are_counters_in_seconds_that_come_in_order_and_never_fall(history: History) -> None:
    values: dict[str, list[tuple[float, float]]] = {}
    for entry in of_phase(history, "C"):
        assert entry["args"].keys() == {"seconds"}
        values.setdefault(entry["name"], []).append((entry["ts"], entry["args"]["seconds"]))
    assert values
    for known in values.values():
        assert [at for at, _ in known] == sorted(at for at, _ in known)
    authorities = Counter(entry["pid"] for entry in of_phase(history, "C"))
    if len(authorities) == 1:  # another one may begin behind
        assert all([low for _, low in known] == sorted(low for _, low in known) for known in values.values())
