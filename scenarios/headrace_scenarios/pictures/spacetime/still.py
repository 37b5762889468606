"""A run as a still picture: one SVG file without scripts or style sheets, for a README or a paper.

It shows what led to the violation; of a run that violates nothing, every record, step, write and change of ownership. The page
(`spacetime_html`) draws the same data, and there a reader chooses.
"""

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from headrace import format_time
from headrace.history import Event
from headrace_properties.verdict import Verdict
from headrace_scenarios.pictures.spacetime import document_of

_INK, _FAINT, _RULE, _BAD = "#1a1a1a", "#6b6b6b", "#d4d4d4", "#c0261c"
_COLOURS = {
    "record": "#1f5fa8",
    "run": _INK,
    "write": "#1c7c3c",
    "ack": "#7a7a7a",
    "ownership": "#b06400",
    "watermark": "#7b3fa0",
    "fault": _BAD,
}
_LINKS = {"reply": "write"}
"""The group of events to which a kind of message belongs, where it has another name."""
_DASHES = {"ack": "5 3", "reply": "5 3", "watermark": "1.5 3"}
_BAD_MARKS = ("stale", "refused")
_LANE, _GUTTER, _LABEL, _LETTERS = 190, 84, 10, 26
_HEAD, _ROW, _GAP, _IDLE_US = 92, 13, 14, 200_000
_FEW_REPORTS = 6
_USUAL = ("ProcessStarted", "RoleClaimed", "CheckpointsDeleted", "IdsCollected")
"""They are left out where nothing is to be explained."""


@dataclass(slots=True)
class _Plan:
    """Where everything is.

    Attributes:
        data: what `document_of` returned.
        shown: numbers of the events in the picture, in order.
        x: of each lane that has one of them.
        y: of each of them.
        idle: stretches of time without events: (y, microseconds).
        height: of the picture.
    """

    data: dict[str, Any]
    shown: list[int]
    x: dict[int, int] = field(default_factory=dict)
    y: dict[int, float] = field(default_factory=dict)
    idle: list[tuple[float, int]] = field(default_factory=list)
    height: float = _HEAD

    @property
    def width(self) -> int:
        """Of the picture."""
        return _GUTTER + (len(self.x) or 1) * _LANE + 20

    def event(self, number: int) -> dict[str, Any]:
        """What is known of an event."""
        found: dict[str, Any] = self.data["events"][number]
        return found

    def height_of(self, number: int | None) -> float:
        """Where an event is, or would be between those that are shown; ``None``: the end of the run."""
        if number is None:
            return self.height - 8
        return next((self.y[one] for one in self.shown if one >= number), self.height - 8)


def spacetime_svg(
    history: Sequence[Event], verdicts: Mapping[str, Verdict], *, title: str, subtitle: str = ""
) -> str:
    """Draw a run.

    Args:
        history: what happened.
        verdicts: on it; the picture shows what led to the violation that is explained.
        title: of the picture.
        subtitle: one line: the pipeline, the protocol.
    """
    data = document_of(history, verdicts, title, subtitle)
    told = next((one for one in data["verdicts"] if one["name"] == data["told"]), None)
    witness = set(told["witness"]) if told else set()
    plan = _arrange(data, _choose(data, told))
    parts = [*_head(plan, told), *_outages(plan), *_lanes(plan), *_owners(plan), *_idle(plan)]
    parts += [*_messages(plan), *(part for number in plan.shown for part in _event(plan, number, witness))]
    fonts = "Helvetica Neue, Helvetica, Arial, DejaVu Sans, sans-serif"
    size = f'width="{plan.width}" height="{plan.height:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="{fonts}" font-size="11">',
        f"<title>{escape(title)}</title>",
        f'<rect {size} fill="#ffffff"/>',
        *parts,
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def _choose(data: dict[str, Any], told: dict[str, Any] | None) -> list[int]:
    events = data["events"]
    subject = sorted({*told["subject"], *told["witness"]} if told else range(len(events)))
    reports = [number for number in subject if events[number]["group"] == "watermark"]
    left_out = set(reports) - set(told["witness"] if told else ()) if len(reports) > _FEW_REPORTS else set()
    for one in data["outages"]:
        if one["strikes"] > 1:  # the first of many stands for all, beside the band
            left_out |= {
                n for n in subject if n > one["begin"] and _struck(events[n]) == (one["lane"], one["kind"])
            }
    if told is None:
        left_out |= {
            number
            for number in subject
            if events[number]["group"] == "ack" or events[number]["type"] in _USUAL
        }
    shown = [number for number in subject if number not in left_out and events[number]["lane"] >= 0]
    busy = {events[number]["lane"] for number in shown if events[number]["group"] != "fault"}
    return [number for number in shown if events[number]["lane"] in busy]


def _struck(event: dict[str, Any]) -> tuple[int, str] | None:
    """Where which fault struck, if that is what happened."""
    return (event["lane"], event["fields"]["kind"]) if event["type"] == "FaultStruck" else None


def _arrange(data: dict[str, Any], shown: list[int]) -> _Plan:
    plan = _Plan(data, shown)
    lanes = sorted({data["events"][number]["lane"] for number in shown})
    plan.x = {lane: _GUTTER + place * _LANE + 30 for place, lane in enumerate(lanes)}
    bottoms: dict[int, float] = {}
    y, last = float(_HEAD), None
    for number in shown:
        event = plan.event(number)
        passed = 0 if last is None else event["at"] - last
        step = 3.2 * math.log2(1 + passed / 200)
        above = len(_lines(plan, number)) * _ROW
        free = max(y + step, bottoms.get(event["lane"], 0) + above + 4, _HEAD + above)
        if passed > _IDLE_US:
            free = max(free, y + 40)
            plan.idle.append(((y + free) / 2, passed))
        y = plan.y[number] = free
        bottoms[event["lane"]] = y + 6
        last = event["at"]
    plan.height = y + 32
    return plan


def _lines(plan: _Plan, number: int) -> list[str]:
    event = plan.event(number)
    label = event["label"]
    for one in plan.data["outages"]:
        if one["begin"] == number and one["strikes"] > 1:
            label = f"{one['kind']} begins"
    return textwrap.wrap(label, _LETTERS) or [""]


def _text(x: float, y: float, text: str, colour: str = _INK, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" {more}>{escape(text, quote=False)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, colour: str, more: str = "") -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" {more}/>'


def _head(plan: _Plan, told: dict[str, Any] | None) -> Iterator[str]:
    yield _text(8, 18, plan.data["title"], more='font-size="14" font-weight="700"')
    yield _text(8, 33, plan.data["subtitle"], _FAINT)
    if told:
        yield _text(8, 48, f"{told['name']} violated: {told['title']}", _BAD, 'font-weight="700"')
    for lane, x in plan.x.items():
        yield _text(x - 6, 68, plan.data["lanes"][lane]["address"], more='font-weight="700" font-size="12"')
    yield _line(0, 75, plan.width, 75, _RULE)


def _lanes(plan: _Plan) -> Iterator[str]:
    for x in plan.x.values():
        yield _line(x, 75, x, plan.height - 8, "#8a8a8a")


def _outages(plan: _Plan) -> Iterator[str]:
    """Bands behind the lanes, as long as the faults last."""
    for one in plan.data["outages"]:
        if one["lane"] in plan.x and plan.shown and one["begin"] <= plan.shown[-1]:
            x, top, bottom = plan.x[one["lane"]], plan.height_of(one["begin"]), plan.height_of(one["end"])
            yield (
                f'<rect x="{x - 7}" y="{top:.1f}" width="14" height="{bottom - top:.1f}" fill="#f3d9d6">'
                f"<title>{escape(one['kind'])}</title></rect>"
            )


def _owners(plan: _Plan) -> Iterator[str]:
    """A bar for each interval: solid while its worker owns it, dashed while the worker only believes so."""
    about = {plan.event(number)["fields"].get("computation") for number in plan.shown}
    for one in plan.data["tenures"]:
        if one["lane"] not in plan.x or one["computation"] not in about or one["begin"] > plan.shown[-1]:
            continue
        x, top, bottom = plan.x[one["lane"]] - 16, plan.height_of(one["begin"]), plan.height_of(one["end"])
        lost = bottom if one["replaced"] is None else max(top, min(bottom, plan.height_of(one["replaced"])))
        what = f"{one['computation']} {one['interval']}, sequencer {one['sequencer']}"
        yield f"<g><title>{escape(what)}</title>"
        yield _line(x, top, x, lost, _COLOURS["ownership"], 'stroke-width="3"')
        if bottom > lost + 1:
            yield _line(x, lost, x, bottom, _BAD, 'stroke-width="3" stroke-dasharray="3 2"')
        yield "</g>"


def _idle(plan: _Plan) -> Iterator[str]:
    for y, passed in plan.idle:
        yield _text(_GUTTER - 44, y, f"+{passed / 1e6:.1f} s", _FAINT, 'font-size="9" text-anchor="middle"')


def _messages(plan: _Plan) -> Iterator[str]:
    """Arrows between the events at their ends."""
    for cause, effect, kind, _ in plan.data["links"]:
        if cause not in plan.y or effect not in plan.y:
            continue
        x1, x2 = (plan.x[plan.event(number)["lane"]] for number in (cause, effect))
        if x1 == x2:
            continue
        y1, y2 = plan.y[cause], plan.y[effect]
        bad = plan.event(effect).get("mark") in _BAD_MARKS and kind == "write"
        colour = _BAD if bad else _COLOURS[_LINKS.get(kind, kind)]
        length = math.hypot(x2 - x1, y2 - y1)
        dx, dy = (x2 - x1) / length, (y2 - y1) / length
        tip_x, tip_y = x2 - dx * 6, y2 - dy * 6
        corners = [
            (tip_x, tip_y),
            (tip_x - dx * 8 - dy * 3.2, tip_y - dy * 8 + dx * 3.2),
            (tip_x - dx * 8 + dy * 3.2, tip_y - dy * 8 - dx * 3.2),
        ]
        dash = f'stroke-dasharray="{_DASHES[kind]}"' if kind in _DASHES else ""
        more = f'stroke-width="{1.8 if bad else 1.2}" {dash}'
        yield _line(x1 + dx * 5, y1 + dy * 5, tip_x - dx * 6, tip_y - dy * 6, colour, more)
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        yield f'<polygon points="{points}" fill="{colour}"/>'


def _event(plan: _Plan, number: int, witness: set[int]) -> Iterator[str]:
    event, y, lines = plan.event(number), plan.y[number], _lines(plan, number)
    x = plan.x[event["lane"]]
    bad = number in witness or event.get("mark") in _BAD_MARKS or event["group"] == "fault"
    before = [one for one in plan.shown if one < number]
    if not before or y - plan.y[before[-1]] >= _ROW:
        yield _text(_GUTTER - 12, y + 4, format_time(event["at"]), _FAINT, 'text-anchor="end" font-size="10"')
    halo = 'paint-order="stroke" stroke="#ffffff" stroke-width="3" stroke-linejoin="round"'
    weight = 'font-weight="700"' if number in witness else ""
    indent = 14 if number in witness else _LABEL
    for place, line in enumerate(lines):
        top = y - (len(lines) - 1 - place) * _ROW - 3
        yield _text(x + indent, top, line, _BAD if bad else _INK, f"{halo} {weight}")
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
