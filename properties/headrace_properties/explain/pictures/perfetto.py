"""A run as a trace for Perfetto (https://ui.perfetto.dev), in Chrome's JSON trace format.

Each process of the run is a process of the trace. Events are slices of a nanosecond, so that messages can be arrows ("flows")
from slice to slice; steps from user code to commit, tenures of intervals and faults are slices as long as they lasted; each
published low watermark is a counter. Times are true times in microseconds, as in the format. Choice: events of one process in the
same microsecond are a nanosecond apart, because a flow is tied to the slice at its time.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from headrace import MAX_TIME, MIN_TIME, SECOND
from headrace import history as h
from headrace_properties.explain.causality import LinkKind, links_of, messages_of
from headrace_properties.explain.event_summaries import phrase
from headrace_properties.explain.pictures.spacetime import lanes_of
from headrace_properties.explain.tenures import outages_of, tenures_of

_EVENTS, _FAULTS = 1, 2
"""Threads of a process: its events and its faults."""

_SLICE_US = 0.001
"""Length of an event's slice: the shortest that Perfetto supports."""

_Trace = list[dict[str, Any]]


def perfetto_json(history: Sequence[h.Event], title: str) -> bytes:
    """Return a run as a trace for Perfetto. ``title``: the trace's title."""
    processes = {address: number + 2 for number, address in enumerate(lanes_of(history))}
    processes[""] = 1
    end_us = history[-1].at_us if history else 0
    begins = _begins(history)
    trace = [
        *_names(processes),
        *_slices(history, processes, begins),
        *_flows(history, processes, begins),
        *_steps(history, processes),
        *_tenures(history, processes, end_us),
        *_outages(history, processes, end_us),
        *_counters(history, processes),
    ]
    return msgspec.json.encode({"traceEvents": trace, "displayTimeUnit": "ms", "otherData": {"title": title}})


def _names(processes: dict[str, int]) -> _Trace:
    trace: _Trace = []
    for address, pid in processes.items():
        common = {"ph": "M", "pid": pid, "tid": _EVENTS, "ts": 0}
        trace.append({**common, "name": "process_name", "args": {"name": address or "the run"}})
        trace.append({**common, "name": "process_sort_index", "args": {"sort_index": pid}})
        trace.append({**common, "name": "thread_name", "args": {"name": "events"}})
        trace.append({**common, "tid": _FAULTS, "name": "thread_name", "args": {"name": "faults"}})
    return trace


def _begins(history: Sequence[h.Event]) -> list[float]:
    """Return when each event's slice begins: at its time, or after its process's events of the same time, microseconds."""
    free: dict[str, float] = {}
    begins = []
    for event in history:
        begin = max(float(event.at_us), free.get(event.process, 0.0))
        free[event.process] = round(begin + _SLICE_US, 3)
        begins.append(begin)
    return begins


def _slices(history: Sequence[h.Event], processes: dict[str, int], begins: Sequence[float]) -> _Trace:
    return [
        {
            "ph": "X", "name": phrase(event), "cat": type(event).__name__, "pid": processes[event.process],
            "tid": _EVENTS, "ts": begins[number], "dur": _SLICE_US, "args": {"event": number},
        }
        for number, event in enumerate(history)
    ]  # fmt: skip


def _flows(history: Sequence[h.Event], processes: dict[str, int], begins: Sequence[float]) -> _Trace:
    trace: _Trace = []
    for number, link in enumerate(messages_of(links_of(history))):
        for phase, end in (("s", link.cause), ("f", link.effect)):
            event = history[end]
            trace.append(
                {
                    "ph": phase, "id": number, "name": link.label or link.kind.value, "cat": link.kind.value, "bp": "e",
                    "pid": processes[event.process], "tid": _EVENTS, "ts": begins[end],
                }
            )  # fmt: skip
    return trace


def _span(of: dict[str, Any], begin_us: int, end_us: int, **args: object) -> _Trace:
    """Return both ends of an asynchronous slice."""
    begun = {**of, "ph": "b", "ts": begin_us} | ({"args": args} if args else {})
    return [begun, {**of, "ph": "e", "ts": end_us}]


def _steps(history: Sequence[h.Event], processes: dict[str, int]) -> _Trace:
    """Return commits, from user code to the store's answer; as those of several keys overlap, they are asynchronous slices."""
    trace: _Trace = []
    for link in links_of(history):
        if link.kind is LinkKind.WRITE and isinstance(history[link.cause], h.Executed):
            begun, ended = history[link.cause], history[link.effect]
            refused = ", refused" * isinstance(ended, h.WriteRefused)
            name, pid = f"commit{refused}{link.label[5:]}", processes[begun.process]
            commit = {"cat": "commit", "id": link.effect, "name": name, "pid": pid, "tid": _EVENTS}
            trace += _span(commit, begun.at_us, ended.at_us)
    return trace


def _tenures(history: Sequence[h.Event], processes: dict[str, int], end_us: int) -> _Trace:
    trace: _Trace = []
    for tenure in tenures_of(history):
        if tenure.scan_begun is not None and tenure.owner in processes:
            name = f"{tenure.computation} {tenure.interval}, sequencer {tenure.sequencer}"
            common = {"cat": "ownership", "id": tenure.sequencer, "name": name, "tid": _EVENTS}
            end = end_us if tenure.forgotten is None else history[tenure.forgotten].at_us
            trace += _span({**common, "pid": processes[tenure.owner]}, history[tenure.scan_begun].at_us, end)
    return trace


def _outages(history: Sequence[h.Event], processes: dict[str, int], end_us: int) -> _Trace:
    trace: _Trace = []
    for number, outage in enumerate(outages_of(history)):
        fault = {
            "cat": "fault",
            "id": number,
            "name": outage.kind,
            "pid": processes[outage.process],
            "tid": _FAULTS,
        }
        end = end_us if outage.end is None else history[outage.end].at_us
        strikes = {"strikes": len(outage.details), "first": outage.details[0]}
        trace += _span(fault, history[outage.begin].at_us, end, **strikes)
    return trace


def _counters(history: Sequence[h.Event], processes: dict[str, int]) -> _Trace:
    return [
        {
            "ph": "C", "name": f"low watermark of {name}", "pid": processes[event.process], "ts": event.at_us,
            "args": {"seconds": progress.low_watermark / SECOND},
        }
        for event in history if isinstance(event, h.Published)
        for name, progress in event.values if MIN_TIME < progress.low_watermark < MAX_TIME
    ]  # fmt: skip
