"""A run as a space-time diagram: processes across, time down, messages as arrows, in one HTML file that needs nothing else.

Rules of this package: what is true is derived here, from the History, and goes into the page as data; `diagram.js` only chooses
what to show, and draws. The file opens from a disk without a network, and stays readable by later versions of a browser.
`still` draws a picture without a page from the same data.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import msgspec

from headrace import MAX_TIME, MIN_TIME
from headrace import history as h
from headrace.wire.messages import STORE
from headrace.wire.rows import Version
from headrace_properties.checkers.catalogue import rule
from headrace_properties.explain.causality import Link, links_of, messages_of, numbers_of
from headrace_properties.explain.event_summaries import phrase
from headrace_properties.explain.narrative import narrate, subject_of
from headrace_properties.explain.tenures import outages_of, tenures_of
from headrace_properties.verdict import Verdict, Violated

_GROUPS: dict[type, str] = {
    h.Injected: "record", h.Delivered: "record", h.DuplicateDropped: "record", h.Resent: "record", h.Output: "record",
    h.Executed: "run", h.UserCodeFailed: "run", h.DeadLettered: "run", h.Checkpointed: "run",
    h.Applied: "write", h.WriteRefused: "write", h.CheckpointsDeleted: "write", h.IdsCollected: "write",
    h.AckSent: "ack", h.Acked: "ack",
    h.IntervalMinted: "ownership", h.ScanBegun: "ownership", h.ScanEnded: "ownership", h.IntervalDropped: "ownership",
    h.RoleClaimed: "ownership", h.ComputationRemoved: "ownership", h.VersionAdopted: "ownership",
    h.ProcessStarted: "ownership",
    h.Reported: "watermark", h.InjectorReported: "watermark", h.Published: "watermark",
    h.InputWatermarkAdvanced: "watermark",
    h.FaultStruck: "fault", h.StepReached: "fault", h.Healed: "fault", h.RunEnded: "fault", h.KeysSampled: "fault",
}  # fmt: skip

_ROLES = ("injector", "worker", "master", "authority", "store", "outside")
"""Lanes in this order, from left to right."""


def spacetime_html(
    history: Sequence[h.Event], verdicts: Mapping[str, Verdict], *, title: str, subtitle: str = ""
) -> str:
    """Draw a run.

    Args:
        history: what happened.
        verdicts: on it; each violation can be shown with its causal past.
        title: of the page and the figure.
        subtitle: one line: the pipeline, the protocol.
    """
    package = files(__package__)
    data = msgspec.json.encode(document_of(history, verdicts, title, subtitle)).decode()
    parts = {
        "{{title}}": escape(title),
        "{{css}}": package.joinpath("diagram.css").read_text("utf-8"),
        "{{data}}": data.replace("<", "\\u003c"),  # else a value could end the script
        "{{diagram}}": package.joinpath("diagram.js").read_text("utf-8"),
        "{{page}}": package.joinpath("page.js").read_text("utf-8"),
    }
    page = package.joinpath("template.html").read_text("utf-8")
    head, *rest = page.split("{{")
    return head + "".join(parts["{{" + one.split("}}", 1)[0] + "}}"] + one.split("}}", 1)[1] for one in rest)


def role_of(address: str) -> str:
    """What a process is, by its address; the role's name is also the order of its lane.

    >>> role_of("worker-3"), role_of("queries/0"), role_of("")
    ('worker', 'injector', '')
    """
    if not address:
        return ""
    if address in (STORE, "outside"):
        return address
    return "injector" if "/" in address else address.partition("-")[0]


def lanes_of(history: Iterable[h.Event]) -> list[str]:
    """The processes that something happened at, in the order of the figure; those of other hosts' roles come last."""
    found = {event.process for event in history} - {""}
    return sorted(found, key=_place)


def _place(address: str) -> tuple[int, list[tuple[str, int]]]:
    """By role, then by number: worker-10 is after worker-9."""
    role = role_of(address)
    parts = re.findall(r"(\D*)(\d*)", address)
    place = _ROLES.index(role) if role in _ROLES else len(_ROLES)
    return place, [(text, int(number or -1)) for text, number in parts]


def document_of(
    history: Sequence[h.Event], verdicts: Mapping[str, Verdict], title: str, subtitle: str
) -> dict[str, Any]:
    """Return what there is to draw of a run: lanes, events, messages, tenures, outages, watermarks and violations."""
    lanes = lanes_of(history)
    place = {address: number for number, address in enumerate(lanes)}
    links = links_of(history)
    told = narrate(history, verdicts)
    return {
        "title": title,
        "subtitle": subtitle,
        "lanes": [{"address": address, "role": role_of(address)} for address in lanes],
        "events": [_event(event, place) for event in history],
        "links": [[one.cause, one.effect, one.kind.value, one.label] for one in messages_of(links)],
        "tenures": [
            {
                "lane": place[one.owner], "computation": one.computation, "interval": str(one.interval),
                "sequencer": one.sequencer, "begin": one.scan_begun, "replaced": one.replaced, "end": one.forgotten,
            }
            for one in tenures_of(history) if one.scan_begun is not None and one.owner in place
        ],
        "outages": [
            {"lane": place[one.process], "kind": one.kind, "begin": one.begin, "end": one.end, "strikes": len(one.details)}
            for one in outages_of(history) if one.process in place
        ],
        "watermarks": _watermarks(history),
        "verdicts": [
            _violation(history, name, one, verdicts, links) for name, one in verdicts.items() if isinstance(one, Violated)
        ],
        "told": told.invariant if told else "",
    }  # fmt: skip


def _violation(
    history: Sequence[h.Event],
    name: str,
    violated: Violated,
    verdicts: Mapping[str, Verdict],
    links: list[Link],
) -> dict[str, Any]:
    witness = numbers_of(history, violated.witness)
    story = narrate(history, verdicts, name)
    paragraphs = story.paragraphs if story else ()
    sentences = story.sentences if story else ()
    return {
        "name": name,
        "title": rule(name).title,
        "message": violated.message,
        "witness": witness,
        "subject": sorted(subject_of(history, witness, links)),
        "story": [{"event": sentence.number, "text": sentence.text} for sentence in sentences],
        "moral": list(paragraphs[len(sentences) :]),
    }


def _event(event: h.Event, place: Mapping[str, int]) -> dict[str, Any]:
    document = {
        "at": event.at_us,
        "lane": place.get(event.process, -1),
        "type": type(event).__name__,
        "group": _GROUPS[type(event)],
        "label": phrase(event),
        "fields": {
            name: _plain(getattr(event, name))
            for name in event.__struct_fields__
            if name not in ("at_us", "process")
        },
    }
    mark = _mark(event)
    return {**document, "mark": mark} if mark else document


def _mark(event: h.Event) -> str:
    """What is special about an event, for its sign."""
    match event:
        case h.Applied() if event.sequencer != event.live:
            return "stale"
        case h.WriteRefused():
            return "refused"
        case h.Executed() if event.timer is not None:
            return "timer"
        case h.Applied() if event.delta.set_timers:
            return "sets timer"
        case _:
            return ""


def _plain(value: object) -> Any:
    """A value for a reader in a browser, whose numbers have 53 bits: the ends of time by name, bytes as text."""
    match value:
        case Version():
            return str(value)
        case int() if value >= MAX_TIME:
            return "end"
        case int() if value <= MIN_TIME:
            return "unknown"
        case bytes():
            return value.decode(errors="replace")
        case tuple():
            return [_plain(one) for one in value]
        case msgspec.Struct():
            return {name: _plain(getattr(value, name)) for name in value.__struct_fields__}
        case _:
            return msgspec.to_builtins(value)


def _watermarks(history: Sequence[h.Event]) -> list[dict[str, Any]]:
    """What the authority has broadcast, as steps: (number of the event, value), by computation and injector."""
    steps: dict[str, list[tuple[int, Any]]] = {}
    for number, event in enumerate(history):
        if isinstance(event, h.Published):
            for name, progress in event.values:
                known = steps.setdefault(name, [])
                value = _plain(progress.low_watermark)
                if not known or known[-1][1] != value:
                    known.append((number, value))
    return [{"name": name, "steps": known} for name, known in steps.items()]
