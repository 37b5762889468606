"""A run as a space-time diagram and an animation, in one self-contained HTML file.

Processes are across, time runs down, messages are arrows. Each event has a row of its own, and its text stands in a column to
the right of all processes: no arrow can cross it, and it fits on a phone.

Rules of this package: all facts are derived here, from the History, and go into the page as data; the scripts only choose what to
show, and draw it. `page` writes the page, `still` draws a picture without scripts from the same data.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec

from headrace import MAX_TIME, MIN_TIME, Pipeline
from headrace import history as h
from headrace.causes import Causes
from headrace.wire.messages import STORE
from headrace.wire.rows import Production, Version
from headrace_properties.checkers.invariant_catalogue import is_invariant, rule
from headrace_properties.explain.causality import Link, LinkKind, links_of, messages_of, numbers_of
from headrace_properties.explain.decoding import Codecs
from headrace_properties.explain.event_summaries import phrase, seconds
from headrace_properties.explain.fault_sentences import struck
from headrace_properties.explain.losses import losses_of
from headrace_properties.explain.narrative import LONGEST, narrate
from headrace_properties.explain.pictures.spacetime.page import harmless_of, page_of
from headrace_properties.explain.subject import end_of, subject_of
from headrace_properties.explain.tenures import outages_of, tenures_of
from headrace_properties.search.inevitability import FailureRates
from headrace_properties.verdict import Verdict, Violated

_GROUPS: dict[type, str] = {
    h.SourceHeld: "record",
    h.Injected: "record", h.Delivered: "record", h.DuplicateDropped: "record", h.Resent: "record", h.Output: "record",
    h.Executed: "run", h.UserCodeFailed: "run", h.DeadLettered: "run", h.Checkpointed: "run",
    h.Applied: "write", h.WriteRefused: "write", h.CheckpointsDeleted: "write", h.IdsCollected: "write",
    h.AckSent: "ack", h.Acked: "ack",
    h.IntervalMinted: "ownership", h.ScanBegun: "ownership", h.ScanEnded: "ownership", h.IntervalDropped: "ownership",
    h.RoleClaimed: "ownership", h.ComputationRemoved: "ownership", h.VersionAdopted: "ownership",
    h.ProcessStarted: "ownership",
    h.Reported: "watermark", h.InjectorReported: "watermark", h.Published: "watermark",
    h.InputWatermarkAdvanced: "watermark",
    h.FaultStruck: "fault", h.StepReached: "fault", h.Rested: "fault", h.Healed: "fault", h.RunEnded: "fault",
    h.KeysSampled: "fault",
}  # fmt: skip

_ROLES = ("injector", "worker", "master", "authority", "store", "outside")
"""Lanes in this order, from left to right."""

_TIMES = frozenset(
    {
        "timestamp",
        "origin",
        "source_watermark",
        "input_watermark",
        "low_watermark",
        "horizon",
        "due",
        "set_at",
        "hold",
        "below",
    }
)
"""Fields that are times in microseconds."""


def spacetime_html(
    history: Sequence[h.Event],
    verdicts: Mapping[str, Verdict],
    *,
    title: str,
    subtitle: str = "",
    rates: FailureRates | None = None,
    pipelines: Sequence[Pipeline] = (),
    names: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Draw a run as a page.

    Args:
        history: the run's events.
        verdicts: the run's verdicts; each violation can be shown with its causal past.
        title: title of the page and the figure.
        subtitle: one line: the pipeline, the protocol.
        rates: how often the run fails if it continues in another way, drawn beside the time; ``None``: not measured.
        pipelines: the versions that ran, whose codecs decode the values; without one, bytes are shown in hexadecimal digits.
        names: what the paper calls the processes at these addresses.
    """
    return page_of(document_of(history, verdicts, title, subtitle, rates, pipelines, names))


def role_of(address: str) -> str:
    """Return the role of the process at an address.

    >>> role_of("worker-3"), role_of("queries/0"), role_of("")
    ('worker', 'injector', '')
    """
    if not address:
        return ""
    if address in (STORE, "outside"):
        return address
    return "injector" if "/" in address else address.partition("-")[0]


def lanes_of(history: Iterable[h.Event]) -> list[str]:
    """Return the processes that play a part, in the order of the figure; unknown roles come last."""
    processes: set[str] = set()
    for event in history:
        processes.add(event.process)
        if isinstance(event, h.AckSent):
            processes.add(event.to)
    return sorted(processes - {""}, key=_place)


def _place(address: str) -> tuple[int, list[tuple[str, int]]]:
    """Return the sort key of a lane: by role, then by number, so that worker-10 is after worker-9."""
    role = role_of(address)
    parts = re.findall(r"(\D*)(\d*)", address)
    place = _ROLES.index(role) if role in _ROLES else len(_ROLES)
    return place, [(text, int(number or -1)) for text, number in parts]


def document_of(
    history: Sequence[h.Event],
    verdicts: Mapping[str, Verdict],
    title: str,
    subtitle: str,
    rates: FailureRates | None = None,
    pipelines: Sequence[Pipeline] = (),
    names: Mapping[str, str] = MappingProxyType({}),
) -> dict[str, Any]:
    """Return everything to draw: lanes, events, messages, tenures, outages, watermarks and violations; all texts are harmless."""
    lanes = lanes_of(history)
    place = {address: number for number, address in enumerate(lanes)}
    links = links_of(history)
    causes = Causes(history) if isinstance(history, h.History) and history.activations else None
    messages = [message for message in messages_of(links) if _carried(history, causes, message)]
    losses = losses_of(history)
    story, codecs = narrate(history, verdicts, pipelines=pipelines), Codecs(pipelines)
    events = [
        _event(codecs.readable(event), place, lost=number in losses) for number, event in enumerate(history)
    ]
    violations = [
        _violation(history, name, verdict, verdicts, links, pipelines)
        for name, verdict in verdicts.items() if isinstance(verdict, Violated)
    ]  # fmt: skip
    document = {
        "title": title,
        "subtitle": subtitle,
        "lanes": [
            {"address": address, "role": role_of(address), "name": names.get(address, address)} for address in lanes
        ],
        "events": [{**event, "label": _with_names(event["label"], names)} for event in events],
        "links": [[link.cause, link.effect, link.kind.value, link.label] for link in messages],
        "stubs": [[number, place[address], kind] for number, address, kind in _stubs(history, causes, messages)],
        "tenures": [
            {
                "lane": place[tenure.owner], "computation": tenure.computation, "interval": str(tenure.interval),
                "sequencer": tenure.sequencer, "begin": tenure.scan_begun, "replaced": tenure.replaced, "end": tenure.forgotten,
            }
            for tenure in tenures_of(history) if tenure.scan_begun is not None and tenure.owner in place
        ],
        "outages": [
            {"lane": place[o.process], "kind": o.kind, "begin": o.begin, "end": o.end, "strikes": len(o.details)}
            for o in outages_of(history) if o.process in place
        ],
        "watermarks": _watermarks(history),
        "verdicts": _with_names(violations, names),
        "told": story.invariant if story else "",
        "story": _with_names(
            {"sentences": _highlights(history, events), "moral": ["No rule is violated."] * bool(verdicts)}, names
        ),
        "rates": [[point.at_us, point.rate] for point in rates.points] if rates else [],
        "jump": _jump(rates),
    }  # fmt: skip
    shown: dict[str, Any] = harmless_of(document)
    return shown


def _with_names(document: Any, names: Mapping[str, str]) -> Any:
    """Return a document whose texts call the processes by their names.

    >>> _with_names(["From worker-1 to worker-12."], {"worker-1": "B"})
    ['From B to worker-12.']
    """
    match document:
        case str():
            for address, name in names.items():
                document = re.sub(rf"(?<![\w/.-]){re.escape(address)}(?![\w/-]|\.\w)", name, document)
            return document
        case dict():
            return {field: _with_names(value, names) for field, value in document.items()}
        case list():
            return [_with_names(value, names) for value in document]
        case _:
            return document


def _highlights(history: Sequence[h.Event], events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the story of a run without violations: its faults, changes of owners and refused writes; then records, results."""
    outages = {outage.begin: struck(history, outage) for outage in outages_of(history)}
    owned, ranks = set[str](), dict[int, int]()
    for number, event in enumerate(history):
        match event:
            case h.IntervalMinted():
                if event.computation in owned:
                    ranks[number] = 0
                owned.add(event.computation)
            case h.WriteRefused() | h.UserCodeFailed() | h.DeadLettered():
                ranks[number] = 0
            case h.Injected() | h.Output():
                ranks[number] = 1
            case _:
                pass
    ranks |= dict.fromkeys(outages, 0)
    kept = sorted(sorted(ranks, key=lambda number: (ranks[number], number))[:LONGEST])
    texts = {
        number: f"At {seconds(history[number].at_us)} {history[number].process}: "
        + ", ".join(filter(None, (events[number]["label"], events[number]["detail"])))
        for number in kept
    }
    return [{"event": number, "text": outages.get(number) or f"{texts[number]}."} for number in kept]


def _jump(rates: FailureRates | None) -> dict[str, Any] | None:
    """Return the event at which the rate of failure rises most, and what to say of it."""
    if rates is None or rates.jump is None or rates.rise is None:
        return None
    first, last = rates.jump
    before, after = rates.rise
    where = "here" if first == last else f"between event {first} and this one"
    text = f"{where}, the share of continuations that fail rises from {before.rate:.0%} to {after.rate:.0%}"
    return {"event": last, "text": text.replace("%", " %")}


def _carried(history: Sequence[h.Event], causes: Causes | None, message: Link) -> bool:
    """Return whether a message was really sent from the one event to the other.

    A recovery scan finds a row long after the write, and a record that comes again is ACKed again: the write led to that, but its
    reply did not. Without recorded causes, each message is taken to be real.
    """
    if causes is None or not isinstance(history, h.History) or message.kind is not LinkKind.REPLY:
        return True
    origin, store = causes.activation_of(message.cause), history[message.cause].process
    activation = causes.sender_of(message.effect)
    while activation is not None and activation > origin and causes.process_of(activation) == store:
        activation = history.activations[activation].cause
    return activation == origin


def _stubs(
    history: Sequence[h.Event], causes: Causes | None, messages: Iterable[Link]
) -> Iterator[tuple[int, str, str]]:
    """Yield the messages of which only one end is an event: (its number, the process at the other end, what it is).

    The master's request for a sequencer leaves no event at the master (``asked``), nor does a scan's read at the store
    (``answered``). A lost ACK leaves no event at the sender, nor does a repeated one (``acks``).
    """
    acknowledged = {message.cause for message in messages if message.kind is LinkKind.ACK}
    master = ""
    for number, event in enumerate(history):
        sender = causes.sender_of(number) if causes is not None else None
        asker = causes.process_of(sender) if causes is not None and sender is not None else ""
        match event:
            case h.RoleClaimed(role="master"):
                master = event.holder.partition("#")[0]
            case h.IntervalMinted() if asker or master:
                yield number, asker or master, "asked"
            case h.ScanEnded() if asker == STORE:
                yield number, asker, "answered"
            case h.AckSent() if number not in acknowledged and event.to != event.process:
                yield number, event.to, "acks"
            case _:
                pass


def _violation(
    history: Sequence[h.Event],
    name: str,
    violated: Violated,
    verdicts: Mapping[str, Verdict],
    links: list[Link],
    pipelines: Sequence[Pipeline],
) -> dict[str, Any]:
    witness = numbers_of(history, violated.witness)
    until = -1 if violated.awaited else end_of(history, name, witness)
    story = narrate(history, verdicts, name, pipelines)
    sentences = story.sentences if story else ()
    texts = {sentence.text for sentence in sentences}
    return {
        "name": name,
        "title": rule(name).title if is_invariant(name) else violated.message,
        "message": violated.message,
        "witness": witness,
        "subject": sorted(subject_of(history, witness, links, until)),
        "sentences": [{"event": sentence.event, "text": sentence.text} for sentence in sentences],
        "moral": [text for text in story.paragraphs if text not in texts] if story else [],
    }


def _event(event: h.Event, place: Mapping[str, int], *, lost: bool) -> dict[str, Any]:
    document = {
        "at": event.at_us,
        "lane": place.get(event.process, -1),
        "type": type(event).__name__,
        "group": _GROUPS[type(event)],
        "label": f"{_label(event)} (lost)" if lost else _label(event),
        "detail": _detail(event),
        "fields": {
            name: _field(name, getattr(event, name))
            for name in event.__struct_fields__
            if name not in ("at_us", "process")
        },
    }
    mark = _mark(event)
    return {**document, "mark": mark} if mark else document


def _label(event: h.Event) -> str:
    """Return what happened in a few words; `_detail` tells the values."""
    match event:
        case h.Output():
            return f"receive from {event.production.stream}"
        case h.Acked():
            return f"receive the ACK of {event.record_id}"
        case _:
            return phrase(event)


def _detail(event: h.Event) -> str:
    """Return the decoded values that an event carries, whole."""
    match event:
        case h.Injected():
            return "; ".join(dict.fromkeys(map(_record, event.productions)))
        case h.Executed() if event.productions:
            productions = "; ".join(dict.fromkeys(map(_record, event.productions)))
            return f"produces {productions}"
        case h.Output():
            return _record(event.production)
        case h.Applied() if event.delta.state is not None:
            return f"state: {_decoded(bytes(event.delta.state)) or 'the initial one'}"
        case h.UserCodeFailed():
            return event.error
        case _:
            return ""


def _record(production: Production) -> str:
    return f"{production.key!r} at {seconds(production.timestamp)}: {_decoded(production.value)}"


def _decoded(value: bytes) -> str:
    r"""Return a value as its codec wrote it if that is text, otherwise in hexadecimal digits.

    >>> _decoded(b'{"count":1}'), _decoded(b"\xff\x00")
    ('{"count":1}', '0xff00')
    """
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"0x{value.hex()}"


def _mark(event: h.Event) -> str:
    """Return what is special about an event, for its sign."""
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


def _field(name: str, value: object) -> Any:
    """Return a field's value for people: times in seconds."""
    return seconds(value) if name in _TIMES and isinstance(value, int) else _plain(value)


def _plain(value: object) -> Any:
    """Return a value for a browser, whose numbers have 53 bits: the ends of time by name, bytes decoded."""
    match value:
        case Version():
            return str(value)
        case int() if value >= MAX_TIME:
            return "end"
        case int() if value <= MIN_TIME:
            return "unknown"
        case bytes():
            return _decoded(value)
        case tuple():
            return [_plain(item) for item in value]
        case msgspec.Struct():
            return {name: _field(name, getattr(value, name)) for name in value.__struct_fields__}
        case _:
            return msgspec.to_builtins(value)


def _watermarks(history: Sequence[h.Event]) -> list[dict[str, Any]]:
    """Return what the authority broadcast for each computation and injector, as steps: (number of the event, value)."""
    steps: dict[str, list[tuple[int, Any]]] = {}
    for number, event in enumerate(history):
        if isinstance(event, h.Published):
            for name, progress in event.values:
                known = steps.setdefault(name, [])
                value = _plain(progress.low_watermark)
                if not known or known[-1][1] != value:
                    known.append((number, value))
    return [{"name": name, "steps": known} for name, known in steps.items()]
