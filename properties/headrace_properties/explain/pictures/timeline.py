"""A History as a timeline in text: lanes across, time down, as the papers draw their figures."""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace import MIN_TIME, format_time
from headrace import history as h
from headrace.wire.messages import STORE

_LANE_WIDTH = 26


@dataclass(frozen=True, slots=True)
class TimelineLane:
    """A column of the timeline: a process and its role.

    Attributes:
        address: the process's address.
        title: its role.
        computation: show only events of this computation; ``""``: of all. For watermarks, the names to show.
    """

    address: str
    title: str
    computation: str = ""


def render(history: Iterable[h.Event], lanes: Sequence[TimelineLane]) -> str:
    """Draw the main events, each in the lane of its process."""
    head = [f"{'time':>10} "] + [f"{lane.title:^{_LANE_WIDTH}}" for lane in lanes]
    rule = ["-" * 10 + " "] + ["-" * _LANE_WIDTH for _ in lanes]
    rows = ["|".join(head), "+".join(rule)]
    said: dict[int, str] = {}
    for event in history:
        for index, lane in enumerate(lanes):
            text = _words(event, lane)
            if text and not (isinstance(event, h.Published) and said.get(index) == text):
                said[index] = text
                rows.extend(_row(event.at_us, index, text, len(lanes)))
    return "\n".join(row.rstrip() for row in rows)


def _row(at_us: int, index: int, text: str, lanes: int) -> list[str]:
    lines = textwrap.wrap(text, _LANE_WIDTH - 2) or [""]
    rows = []
    for number, line in enumerate(lines):
        time = f"{format_time(at_us):>10} " if number == 0 else " " * 11
        cells = [
            f" {line:<{_LANE_WIDTH - 1}}" if lane == index else " " * _LANE_WIDTH for lane in range(lanes)
        ]
        rows.append("|".join([time, *cells]))
    return rows


def _words(event: h.Event, lane: TimelineLane) -> str:  # noqa: C901, PLR0912  a table of phrases
    """Return an event's text in a lane; nothing if it belongs to another lane or is not shown."""
    if isinstance(event, h.Published):
        return _published(event, lane)
    computation = getattr(event, "computation", None)
    if event.process != lane.address or (lane.computation and computation not in (None, lane.computation)):
        return ""
    match event:
        case h.Executed(timer=None):
            return f"runs {event.computation} on {event.cause}"
        case h.Executed():
            return f"TIMER {event.timer.tag!r} of {event.key!r} FIRES" if event.timer else ""
        case h.Delivered():
            return f"receives {event.record_id}"
        case h.Checkpointed():
            return f"checkpoints straggler {event.record_id}"
        case h.AckSent():
            return f"ACKs {', '.join(event.record_ids)}"
        case h.ScanBegun():
            return "scans its rows"
        case h.ScanEnded():
            parts = [f"timer {tag!r} of {key!r}" for key, tag in event.timers] + [
                f"production {one}" for one, _ in event.productions
            ]
            return f"scan done: {', '.join(parts) or 'no timer, no production'}"
        case h.IntervalDropped():
            return f"learns that it is not the owner ({event.why})"
        case h.FaultStruck() if event.kind not in ("partition", "noise_drop"):
            return f"** {event.kind} {event.detail}"
        case h.Applied():
            return _applied(event)
        case h.WriteRefused():
            return f"REFUSES write with sequencer {event.sequencer}: {event.live} is the latest"
        case h.IntervalMinted():
            return f"mints sequencer {event.sequencer} for {event.owner}"
        case h.Output():
            return f"receives {event.production.value.decode(errors='replace')}"
        case _:
            return ""


def _applied(event: h.Applied) -> str:
    delta = event.delta
    parts = [f"timer {timer.tag!r} of {delta.key!r}" for timer in delta.set_timers]
    parts += [f"production {production.record_id}" for production in delta.productions]
    parts += [f"fired {timer.tag!r} of {delta.key!r}" for timer in delta.fired]
    if not parts and not delta.seen:
        return ""
    stale = "" if event.sequencer == event.live else f" -- STALE, {event.live} is the latest"
    return f"applies write of {event.sequencer}: {', '.join(parts) or 'state'}{stale}"


def _published(event: h.Published, lane: TimelineLane) -> str:
    if lane.title != "watermarks":
        return ""
    values = [
        f"{name} {format_time(progress.low_watermark)}"
        for name, progress in event.values
        if name in lane.computation.split() and progress.low_watermark != MIN_TIME
    ]
    return ", ".join(values)


STORE_LANE = TimelineLane(STORE, "store")
