"""A run as a still picture: one SVG file without scripts or style sheets, for a README or a paper.

It shows what led to the violation; for a run without violations, every record, step, write and change of ownership. The page
(`spacetime_html`) draws the same data, and lets the reader choose.
"""

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from headrace import Pipeline
from headrace.history import Event
from headrace_properties.explain.event_summaries import seconds
from headrace_properties.search.inevitability import FailureRates
from headrace_properties.verdict import Verdict
from headrace_scenarios.pictures.spacetime import document_of

_INK, _FAINT, _RULE, _BAD = "#1a1a1a", "#5f5f5f", "#dedede", "#c0261c"
_COLOURS = {
    "record": "#1f5fa8",
    "run": _INK,
    "write": "#1c7c3c",
    "ack": "#7a7a7a",
    "ownership": "#b06400",
    "watermark": "#7b3fa0",
    "fault": _BAD,
}
_LINKS = {"reply": "write", "asked": "ownership", "answered": "write", "acks": "ack"}
"""Group of events whose colour a kind of message has, if the names differ."""
_DASHES = {"ack": "5 3", "acks": "5 3", "reply": "5 3", "answered": "5 3", "watermark": "1.5 3"}
_BAD_MARKS = ("stale", "refused")
_GUTTER, _LANE, _WIDTH, _TEXT_WIDTH, _MARGIN = 104, 76, 960, 400, 14
"""Pixels: the column of times, the distance of lanes, the whole picture and its column of text (at least), the edge."""
_SIZE, _SMALL, _ROW = 14, 12, 19
_IDLE_US = 200_000
_STRIP = 34
_SLANT = math.radians(35)
_STUB = 13
_FEW_REPORTS = 6
_DETAIL_LINES = 3
_LEAST = 40
"""Pixels: a word that no line can hold begins on a line with this much room."""
_USUAL = ("ProcessStarted", "RoleClaimed", "CheckpointsDeleted", "IdsCollected")
"""Left out where nothing is to be explained."""


@dataclass(slots=True)
class _Plan:
    """Where everything is, in pixels.

    Attributes:
        data: the result of `document_of`.
        shown: numbers of the events in the picture, in order.
        heading: lines above the lanes: (text, size, colour).
        x: position of each lane shown.
        y: position of each event's mark.
        lines: lines of text of each event: (text, whether it is a detail). The first begins with the process.
        start: position of the start of the run.
        idle: stretches of time without events: (y, microseconds).
        height: of the picture.
    """

    data: dict[str, Any]
    shown: list[int]
    heading: list[tuple[str, int, str]] = field(default_factory=list)
    x: dict[int, int] = field(default_factory=dict)
    y: dict[int, float] = field(default_factory=dict)
    lines: dict[int, list[tuple[str, bool]]] = field(default_factory=dict)
    start: float = 0
    idle: list[tuple[float, int]] = field(default_factory=list)
    height: float = 0

    @property
    def text(self) -> int:
        """Left edge of the column of text."""
        return self.gutter + len(self.x) * _LANE + 6

    @property
    def gutter(self) -> int:
        """Left edge of the lanes."""
        return _GUTTER + (_STRIP + 12 if self.data["rates"] else 0)

    @property
    def width(self) -> int:
        """Width of the picture."""
        return max(_WIDTH, self.text + _TEXT_WIDTH)

    @property
    def slanted(self) -> bool:
        """Whether the names of lanes are too long to stand side by side."""
        return any(width_of(self.name(lane), _SIZE, bold=True) > _LANE - 8 for lane in self.x)

    def name(self, lane: int) -> str:
        """Return the address of a lane's process."""
        found: str = self.data["lanes"][lane]["address"]
        return found

    def event(self, number: int) -> dict[str, Any]:
        """Return an event's data."""
        found: dict[str, Any] = self.data["events"][number]
        return found

    def height_of(self, number: int | None) -> float:
        """Return where an event is, or would be between those that are shown; ``None``: the end of the run."""
        if number is None:
            return self.height - 8
        return next((self.y[shown] for shown in self.shown if shown >= number), self.height - 8)

    def height_at(self, at_us: int) -> float:
        """Return where a time is, between the events around it."""
        y, before_us = self.start, self.data["events"][0]["at"]
        for number in self.shown:
            after_us = self.event(number)["at"]
            if after_us > at_us:
                part = (at_us - before_us) / (after_us - before_us) if after_us > before_us else 0
                return y + (self.y[number] - y) * max(part, 0)
            y, before_us = self.y[number], after_us
        return y


def spacetime_svg(
    history: Sequence[Event],
    verdicts: Mapping[str, Verdict],
    *,
    title: str,
    subtitle: str = "",
    rates: FailureRates | None = None,
    pipelines: Sequence[Pipeline] = (),
) -> str:
    """Draw a run as a still picture.

    Args:
        history: the run's events.
        verdicts: the run's verdicts; the picture shows what led to the violation that is explained.
        title: title of the picture.
        subtitle: one line: the pipeline, the protocol.
        rates: how often the run fails if it continues in another way, drawn beside the time; ``None``: not measured.
        pipelines: the versions that ran, whose codecs decode the values.
    """
    data = document_of(history, verdicts, title, subtitle, rates, pipelines)
    told = next((verdict for verdict in data["verdicts"] if verdict["name"] == data["told"]), None)
    witness = set(told["witness"]) if told else set()
    plan = _arrange(data, _choose(data, told), told, witness)
    parts = [
        *_head(plan),
        *_guides(plan),
        *_outages(plan),
        *_lanes(plan),
        *_owners(plan),
        *_times(plan),
        *_rates(plan),
    ]
    parts += [*_messages(plan), *(part for number in plan.shown for part in _event(plan, number, witness))]
    fonts = "Helvetica Neue, Helvetica, Arial, DejaVu Sans, sans-serif"
    size = f'width="{plan.width}" height="{plan.height:.0f}"'
    view = f'viewBox="0 0 {plan.width} {plan.height:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} {view} font-family="{fonts}" font-size="{_SIZE}">',
        f"<title>{_xml(title)}</title>",
        f'<rect {size} fill="#ffffff"/>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def width_of(text: str, size: float, *, bold: bool = False) -> float:
    """Estimate the width of a text in the widest usual font, pixels; it is never wider."""
    ems = sum(next((width for letters, width in _EMS if letter in letters), 0.66) for letter in text)
    ems += 0.34 * sum(ord(letter) > 0x2FF for letter in text)
    return ems * size * (1.12 if bold else 1)


_EMS = (("ijl|'.,:;! ftrI()[]/\\-\"`", 0.46), ("mwMW@%", 1.0), ("ABCDEFGHJKLNOPQRSTUVXYZ=+<>#~^&$", 0.84))


def wrapped(text: str, width: float, size: float, *, bold: bool = False) -> list[str]:
    """Break a text at spaces and commas into lines of at most this width, pixels; a word that is too long is broken, too."""
    lines = [""]
    for word in re.split(r"(?= )|(?<=,)", _visible(re.sub(r"\s+", " ", text))):
        rest = word
        while width_of(lines[-1] + rest, size, bold=bold) > width:
            fits = width_of(rest, size, bold=bold) <= width
            if lines[-1] and (fits or width - width_of(lines[-1], size, bold=bold) < _LEAST):
                lines.append("")
                rest = rest.lstrip()
                continue
            room = width - width_of(lines[-1], size, bold=bold)
            cut = next((n for n in range(len(rest), 1, -1) if width_of(rest[:n], size, bold=bold) <= room), 1)
            if cut >= len(rest):
                break
            lines[-1], rest = lines[-1] + rest[:cut], rest[cut:]
            lines.append("")
        lines[-1] += rest
    return lines


def _choose(data: dict[str, Any], told: dict[str, Any] | None) -> list[int]:
    events = data["events"]
    subject = sorted({*told["subject"], *told["witness"]} if told else range(len(events)))
    reports = [number for number in subject if events[number]["group"] == "watermark"]
    left_out = set(reports) - set(told["witness"] if told else ()) if len(reports) > _FEW_REPORTS else set()
    for outage in data["outages"]:
        if outage["strikes"] > 1:  # the first of many stands for all, beside the band
            left_out |= {
                n
                for n in subject
                if n > outage["begin"] and _struck(events[n]) == (outage["lane"], outage["kind"])
            }
    if told is None:
        left_out |= {
            number
            for number in subject
            if events[number]["group"] == "ack" or events[number]["type"] in _USUAL
        }
    shown = {number for number in subject if number not in left_out and events[number]["lane"] >= 0}
    for cause, effect, kind, _ in data[
        "links"
    ]:  # an ACK goes to where it is received, a write comes from user code
        if kind == "ack" and cause in shown:
            shown.add(effect)
        elif kind == "write" and effect in shown and effect in subject:
            shown.add(cause)
    if data["jump"] and events[data["jump"]["event"]]["lane"] >= 0:
        shown.add(data["jump"]["event"])
    busy = {events[number]["lane"] for number in shown if events[number]["group"] != "fault"}
    busy |= {lane for number, lane, _ in data["stubs"] if number in shown}
    return sorted(number for number in shown if events[number]["lane"] in busy)


def _struck(event: dict[str, Any]) -> tuple[int, str] | None:
    """Return where which fault struck, if that is what happened."""
    return (event["lane"], event["fields"]["kind"]) if event["type"] == "FaultStruck" else None


def _arrange(data: dict[str, Any], shown: list[int], told: dict[str, Any] | None, witness: set[int]) -> _Plan:
    plan = _Plan(data, shown)
    known = set(shown)
    lanes = {data["events"][number]["lane"] for number in shown}
    lanes |= {lane for number, lane, _ in data["stubs"] if number in known}
    plan.x = {lane: plan.gutter + place * _LANE + _LANE // 2 for place, lane in enumerate(sorted(lanes))}
    width = plan.width - 2 * _MARGIN
    plan.heading = [(line, 18, _INK) for line in wrapped(data["title"], width, 18, bold=True)]
    subtitle = wrapped(data["subtitle"], width, _SIZE) if data["subtitle"] else []
    plan.heading += [(line, _SIZE, _FAINT) for line in subtitle]
    if told:
        broken = f"{told['name']} violated: {told['title']}"
        plan.heading += [(line, _SIZE, _BAD) for line in wrapped(broken, width, _SIZE, bold=True)]
    longest = max((width_of(plan.name(lane), _SIZE, bold=True) for lane in plan.x), default=0)
    names = longest * math.sin(_SLANT) + 14 if plan.slanted else 22
    top = 14 + 22 * len(plan.heading) + names
    plan.start = top + 16
    top, last = plan.start + 16, None
    for number in shown:
        event = plan.event(number)
        passed = 0 if last is None else event["at"] - last
        if passed > _IDLE_US:
            plan.idle.append((top + 8, passed))
            top += 26
        else:
            top += 1.4 * math.log2(1 + passed / 200)
        lines = plan.lines[number] = _lines(plan, number, bold=number in witness)
        plan.y[number] = top + _ROW / 2
        top += len(lines) * _ROW + 7
        last = event["at"]
    plan.height = top + 20
    return plan


def _lines(plan: _Plan, number: int, *, bold: bool) -> list[tuple[str, bool]]:
    """Return an event's lines of text; the process comes first."""
    event = plan.event(number)
    begun = (o["kind"] for o in plan.data["outages"] if o["begin"] == number and o["strikes"] > 1)
    label = next((f"{kind} begins" for kind in begun), event["label"])
    width = plan.width - plan.text - _MARGIN
    text = wrapped(f"{plan.name(event['lane'])}  {label}".replace("  ", " \u00a0"), width, _SIZE, bold=bold)
    detail = wrapped(event["detail"], width, _SMALL) if event["detail"] else []
    if len(detail) > _DETAIL_LINES:
        detail = [*detail[: _DETAIL_LINES - 1], f"{detail[_DETAIL_LINES - 1][:-2]}…"]
    if plan.data["jump"] and plan.data["jump"]["event"] == number:
        detail += wrapped(plan.data["jump"]["text"], width, _SMALL)
    return [(line, False) for line in text] + [(line, True) for line in detail]


def _text(x: float, y: float, text: str, colour: str = _INK, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" {more}>{_xml(text)}</text>'


def _xml(text: str) -> str:
    return escape(_visible(text), quote=False)


def _visible(text: str) -> str:
    """Replace each character that XML forbids, or that cannot be seen, by its number."""
    return "".join(letter if letter.isprintable() else f"\\x{ord(letter):02x}" for letter in text)


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" {more}/>'


def _head(plan: _Plan) -> Iterator[str]:
    for place, (line, size, colour) in enumerate(plan.heading):
        bold = 'font-weight="700"' if colour != _FAINT else ""
        yield _text(_MARGIN, 26 + 22 * place, line, colour, f'font-size="{size}" {bold}')
    y = plan.start - 18
    for lane, x in plan.x.items():
        turned = f'transform="rotate(-35 {x} {y:.1f})"' if plan.slanted else 'text-anchor="middle"'
        yield _text(x, y, plan.name(lane), more=f'font-weight="700" {turned}')


def _guides(plan: _Plan) -> Iterator[str]:
    """Lead the eye from each mark to its text."""
    for number in plan.shown:
        y = plan.y[number]
        yield _line(plan.x[plan.event(number)["lane"]], y, plan.text - 4, y, _RULE, 'class="guide"')


def _lanes(plan: _Plan) -> Iterator[str]:
    for x in plan.x.values():
        yield _line(x, plan.start, x, plan.height - 8, "#8a8a8a", 'class="lane"')
        yield _line(x - 7, plan.start, x + 7, plan.start, _INK, 'stroke-width="2.5"')
    if plan.x:
        yield _text(plan.text, plan.start + 5, "start of the run", _FAINT)


def _times(plan: _Plan) -> Iterator[str]:
    first = plan.data["events"][0]["at"] if plan.data["events"] else 0
    more = f'text-anchor="end" font-size="{_SMALL}"'
    yield _text(_GUTTER - 12, plan.start + 4, seconds(first), _FAINT, more)
    for number in plan.shown:
        yield _text(_GUTTER - 12, plan.y[number] + 4, seconds(plan.event(number)["at"]), _FAINT, more)
    for y, passed in plan.idle:
        yield _text(_GUTTER - 12, y + 6, f"+{passed / 1e6:.1f} s ⋮", "#9a9a9a", more)


def _rates(plan: _Plan) -> Iterator[str]:
    """Draw the rate of failure beside the time: the wider, the more ways to continue the run fail."""
    points = plan.data["rates"]
    if not points:
        return
    last_us = plan.event(plan.shown[-1])["at"] if plan.shown else points[-1][0]
    for place, (at_us, rate) in enumerate(points):
        if at_us > last_us:
            break
        until_us = points[place + 1][0] if place + 1 < len(points) else last_us
        top, bottom = plan.height_at(at_us), plan.height_at(min(until_us, last_us))
        size = f'width="{_STRIP * rate:.1f}" height="{bottom - top:.1f}"'
        yield f'<rect class="rate" x="{_GUTTER}" y="{top:.1f}" {size} fill="#e58a82"><title>{rate:.0%}</title></rect>'
    yield _line(_GUTTER, plan.start, _GUTTER, plan.height - 8, _RULE)
    yield _line(_GUTTER + _STRIP, plan.start, _GUTTER + _STRIP, plan.height - 8, _RULE)
    middle, y = _GUTTER + _STRIP / 2, plan.start - 8
    yield _text(middle, y, "fails", _BAD, f'font-size="{_SMALL}" text-anchor="middle"')


def _outages(plan: _Plan) -> Iterator[str]:
    """Draw bands behind the lanes, as long as the faults last."""
    for outage in plan.data["outages"]:
        if outage["lane"] in plan.x and plan.shown and outage["begin"] <= plan.shown[-1]:
            x, top, bottom = (
                plan.x[outage["lane"]],
                plan.height_of(outage["begin"]),
                plan.height_of(outage["end"]),
            )
            yield (
                f'<rect x="{x - 8}" y="{top:.1f}" width="16" height="{bottom - top:.1f}" fill="#f3d9d6">'
                f"<title>{_xml(outage['kind'])}</title></rect>"
            )


def _owners(plan: _Plan) -> Iterator[str]:
    """Draw a bar for each interval: solid while its worker owns it, dashed while the worker only believes so."""
    about = {plan.event(number)["fields"].get("computation") for number in plan.shown}
    for tenure in plan.data["tenures"]:
        if (
            tenure["lane"] not in plan.x
            or tenure["computation"] not in about
            or tenure["begin"] > plan.shown[-1]
        ):
            continue
        x, top, bottom = (
            plan.x[tenure["lane"]] - 14,
            plan.height_of(tenure["begin"]),
            plan.height_of(tenure["end"]),
        )
        lost = (
            bottom
            if tenure["replaced"] is None
            else max(top, min(bottom, plan.height_of(tenure["replaced"])))
        )
        what = f"{tenure['computation']} {tenure['interval']}, sequencer {tenure['sequencer']}"
        yield f"<g><title>{_xml(what)}</title>"
        yield _line(x, top, x, lost, _COLOURS["ownership"], 'stroke-width="4"')
        if bottom > lost + 1:
            yield _line(x, lost, x, bottom, _BAD, 'stroke-width="4" stroke-dasharray="3 2"')
        yield "</g>"


def _messages(plan: _Plan) -> Iterator[str]:
    """Draw arrows between events, and between an event and a process where the other end is no event."""
    for cause, effect, kind, _ in plan.data["links"]:
        if cause in plan.y and effect in plan.y:
            bad = plan.event(effect).get("mark") in _BAD_MARKS and kind == "write"
            ends = [(plan.x[plan.event(number)["lane"]], plan.y[number]) for number in (cause, effect)]
            yield from _arrow(*ends[0], *ends[1], kind, bad=bad)
    for number, lane, kind in plan.data["stubs"]:
        if number in plan.y:
            x, y = plan.x[plan.event(number)["lane"]], plan.y[number]
            if kind != "acks":
                yield f'<circle cx="{plan.x[lane]}" cy="{y - _STUB:.1f}" r="3" fill="{_COLOURS[_LINKS[kind]]}"/>'
                yield from _arrow(plan.x[lane], y - _STUB, x, y, kind)
            else:
                yield from _arrow(x, y, plan.x[lane], y + _STUB, kind)


def _arrow(x1: float, y1: float, x2: float, y2: float, kind: str, *, bad: bool = False) -> Iterator[str]:
    if x1 == x2:
        return
    colour = _BAD if bad else _COLOURS[_LINKS.get(kind, kind)]
    length = math.hypot(x2 - x1, y2 - y1)
    dx, dy = (x2 - x1) / length, (y2 - y1) / length
    tip_x, tip_y = x2 - dx * 6, y2 - dy * 6
    corners = [
        (tip_x, tip_y),
        (tip_x - dx * 9 - dy * 3.6, tip_y - dy * 9 + dx * 3.6),
        (tip_x - dx * 9 + dy * 3.6, tip_y - dy * 9 - dx * 3.6),
    ]
    dash = f'stroke-dasharray="{_DASHES[kind]}"' if kind in _DASHES else ""
    more = f'class="{kind}" stroke-width="{2.2 if bad else 1.5}" {dash}'
    yield _line(x1 + dx * 5, y1 + dy * 5, tip_x - dx * 7, tip_y - dy * 7, colour, more)
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    yield f'<polygon points="{points}" fill="{colour}"/>'


def _event(plan: _Plan, number: int, witness: set[int]) -> Iterator[str]:
    event, y = plan.event(number), plan.y[number]
    x, name = plan.x[event["lane"]], plan.name(event["lane"])
    bad = number in witness or event.get("mark") in _BAD_MARKS or event["group"] == "fault"
    weight = 'font-weight="700"' if number in witness else ""
    for place, (line, detail) in enumerate(plan.lines[number]):
        at = y + 5 + place * _ROW
        if detail:
            yield _text(plan.text, at, line, _FAINT, f'font-size="{_SMALL}"')
        elif place == 0 and line.startswith(name):
            yield (
                f'<text x="{plan.text:.1f}" y="{at:.1f}" fill="{_BAD if bad else _INK}" {weight}>'
                f'<tspan font-weight="700">{_xml(name)}</tspan>{_xml(line[len(name) :])}</text>'
            )
        else:
            yield _text(plan.text, at, line, _BAD if bad else _INK, weight)
    yield _sign(event, x, y)
    if number in witness:
        yield f'<circle cx="{x}" cy="{y:.1f}" r="10" fill="none" stroke="{_BAD}" stroke-width="2"/>'


def _sign(event: dict[str, Any], x: float, y: float) -> str:
    colour = _BAD if event.get("mark") in _BAD_MARKS else _COLOURS[event["group"]]
    cross = f"M{x - 4.5} {y - 4.5:.1f} l9 9 m0 -9 l-9 9"
    match event.get("mark") or event["group"]:
        case "refused":
            return (
                f'<rect x="{x - 5}" y="{y - 5:.1f}" width="10" height="10" fill="#ffffff" stroke="{colour}"/>'
                f'<path d="{cross}" stroke="{colour}" stroke-width="1.6"/>'
            )
        case "stale" | "write" | "sets timer":
            return f'<rect x="{x - 4.5}" y="{y - 4.5:.1f}" width="9" height="9" fill="{colour}"/>'
        case "fault":
            return f'<path d="{cross}" stroke="{colour}" stroke-width="2.2"/>'
        case "ownership":
            return f'<path d="M{x} {y - 5.5:.1f} l5.5 5.5 l-5.5 5.5 l-5.5 -5.5 z" fill="{colour}"/>'
        case "watermark":
            return f'<rect x="{x - 6}" y="{y - 1.8:.1f}" width="12" height="3.6" fill="{colour}"/>'
        case "record" | "timer":
            return (
                f'<circle cx="{x}" cy="{y:.1f}" r="4" fill="#ffffff" stroke="{colour}" stroke-width="1.8"/>'
            )
        case _:
            return (
                f'<circle cx="{x}" cy="{y:.1f}" r="{2.6 if event["group"] == "ack" else 4}" fill="{colour}"/>'
            )
