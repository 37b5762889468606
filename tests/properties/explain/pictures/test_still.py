"""The still picture of a run: well-formed, of this run, laid out so that it can be read, and the same each time."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations, pairwise
from pathlib import Path
from xml.etree import ElementTree as ET

import matplotlib as mpl
import msgspec
import pytest
from PIL import ImageFont

from headrace.history import Acked, AckSent, History, IntervalMinted, Output
from headrace_properties.explain.pictures.spacetime.still import spacetime_svg
from headrace_properties.verdict import Violated
from headrace_scenarios.catalogue import SCENARIOS
from headrace_scenarios.scenario import ScenarioRun
from tests.properties.stories import healthy

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def zombie() -> ScenarioRun:
    return SCENARIOS["zombie-timer"].run("sequencers")


def drawn(outcome: ScenarioRun) -> ET.Element:
    return ET.fromstring(picture(outcome))  # noqa: S314  it was written a line above


def picture(outcome: ScenarioRun) -> str:
    return spacetime_svg(outcome.history, outcome.verdicts, title="A <zombie>'s write", subtitle="B")


def texts(root: ET.Element) -> list[str]:
    return ["".join(element.itertext()) for element in root.iter(f"{SVG}text")]


def test_it_names_the_broken_rule_and_shows_what_led_to_it(zombie: ScenarioRun) -> None:
    said = texts(drawn(zombie))
    assert said[:3] == ["A <zombie>'s write", "B", "S6 violated: only the latest owner writes"]
    lanes = ["searches/0", "worker-0", "worker-1", "worker-2", "master-0", "store"]
    assert [box.text for box in boxes(drawn(zombie)) if box.turned] == lanes
    assert any(line.startswith("store STALE write 2.2") for line in said)
    assert any(line.startswith("worker-1 delay_commit") for line in said)
    assert "start of the run" in said


def test_both_ends_of_the_violation_are_ringed(zombie: ScenarioRun) -> None:
    rings = [element for element in drawn(zombie).iter(f"{SVG}circle") if element.get("r") == "10"]
    assert len(rings) == len(zombie.violations["S6"].witness) == 2


def test_an_owner_that_was_replaced_is_dashed_from_then_on(zombie: ScenarioRun) -> None:
    dashed = [
        element for element in drawn(zombie).iter(f"{SVG}line") if element.get("stroke-dasharray") == "3 2"
    ]
    assert len(dashed) == 1


def test_a_run_that_violates_nothing_shows_its_steps_and_the_refused_write() -> None:
    said = texts(drawn(SCENARIOS["zombie-timer"].run()))
    assert not any("violated" in line for line in said)
    assert any(line.startswith("store REFUSE write of 2") for line in said)
    assert "worker-3" not in said  # only faults struck there
    assert [line for line in said if "partition" in line] == [  # each strikes dozens of messages
        "worker-1 partition begins",
        "master-0 partition begins",
    ]


def test_a_broken_promise_says_what_was_meant(zombie: ScenarioRun) -> None:
    broken = Violated("no count is lost: 1 of 2", zombie.violations["S6"].witness)
    svg = spacetime_svg(zombie.history.events, {"complete counts": broken}, title="A run")
    said = texts(ET.fromstring(svg))  # noqa: S314  it was written a line above
    assert said[1] == "complete counts violated: no count is lost: 1 of 2"


def test_values_are_decoded(zombie: ScenarioRun) -> None:
    said = texts(drawn(zombie))
    assert "'cat videos' at 1.200 s: \"second\"" in said
    assert 'state: {"1":1}' in said


def test_a_picture_is_the_same_each_time_and_needs_nothing_beside_it(zombie: ScenarioRun) -> None:
    svg = picture(zombie)
    assert svg == picture(SCENARIOS["zombie-timer"].run("sequencers"))
    assert svg.count("http") == 1  # the name of SVG itself
    assert "script" not in svg
    assert "style" not in svg


@pytest.mark.parametrize("length", [0, 1, 12])
def test_a_run_that_has_only_begun_is_drawn_too(length: int) -> None:
    events = healthy().events[:length]
    assert ET.fromstring(spacetime_svg(events, {}, title="")).tag == f"{SVG}svg"  # noqa: S314


# The layout, measured in the widest font that it asks for

FONTS = Path(mpl.get_data_path()) / "fonts/ttf"


@dataclass(frozen=True)
class Box:
    """Where a text is: its baseline from here, over this length, in this direction."""

    text: str
    left: float
    right: float
    top: float
    bottom: float
    turned: bool

    def meets(self, other: "Box") -> bool:
        across = min(self.right, other.right) - max(self.left, other.left)
        return across > 0.5 and min(self.bottom, other.bottom) - max(self.top, other.top) > 0.5

    def is_crossed(self, x1: float, y1: float, x2: float, y2: float) -> bool:
        enter, leave = 0.0, 1.0
        for start, way, low, high in (
            (x1, x2 - x1, self.left, self.right),
            (y1, y2 - y1, self.top, self.bottom),
        ):
            if way == 0:
                if not low < start < high:
                    return False
                continue
            ends = sorted(((low - start) / way, (high - start) / way))
            enter, leave = max(enter, ends[0]), min(leave, ends[1])
        return enter < leave


def length_of(text: str, size: float, weight: str | None) -> float:
    """The length of a text in pixels."""
    font = ImageFont.truetype(str(FONTS / f"DejaVuSans{'-Bold' if weight else ''}.ttf"), 100)
    return font.getlength(text) * size / 100


def boxes(root: ET.Element) -> list[Box]:
    found = []
    for element in root.iter(f"{SVG}text"):
        size, x, y = (float(element.get(name, "14")) for name in ("font-size", "x", "y"))
        parts = [(element.text or "", element.get("font-weight"))]
        for span in element:
            parts += [
                (span.text or "", span.get("font-weight")),
                (span.tail or "", element.get("font-weight")),
            ]
        width = sum(length_of(text, size, weight) for text, weight in parts)
        left = x - width * {"end": 1, "middle": 0.5}.get(element.get("text-anchor", ""), 0)
        turned = element.get("transform") is not None
        box = Box(
            "".join(text for text, _ in parts), left, left + width, y - 0.76 * size, y + 0.2 * size, turned
        )
        found.append(box)
    return found


def lines(root: ET.Element, *, guides: bool = False) -> Iterator[tuple[float, float, float, float]]:
    for line in root.iter(f"{SVG}line"):
        if guides or line.get("class") != "guide":
            yield tuple(float(line.get(name, "")) for name in ("x1", "y1", "x2", "y2"))  # type: ignore[misc]


def drawing_of(history: History) -> ET.Element:
    svg = spacetime_svg(history.events, {}, title="A run", subtitle="under faults")
    return ET.fromstring(svg)  # noqa: S314  it was written a line above


@pytest.fixture
def root(history: History) -> ET.Element:
    """The picture of a scenario, and of runs under random faults."""
    return drawing_of(history)


def test_no_text_overlaps_another_or_leaves_the_picture(root: ET.Element) -> None:
    level = [box for box in boxes(root) if not box.turned]
    assert len(level) > 30
    meeting = [(first.text, second.text) for first, second in combinations(level, 2) if first.meets(second)]
    assert not meeting
    width, height = float(root.get("width", "")), float(root.get("height", ""))
    outside = [box.text for box in level if box.left < 0 or box.right > width or box.bottom > height]
    assert not outside


def test_no_line_crosses_a_text(root: ET.Element) -> None:
    level = [box for box in boxes(root) if not box.turned]
    drawn_lines = list(lines(root, guides=True))
    assert len(drawn_lines) > 30
    crossed = [(box.text, line) for box in level for line in drawn_lines if box.is_crossed(*line)]
    assert not crossed


def test_names_of_lanes_keep_their_distance_and_stand_above_all_lines(root: ET.Element) -> None:
    names = [box for box in boxes(root) if box.turned]
    top = min(y for _, y1, _, y2 in lines(root) for y in (y1, y2))
    assert names
    assert all(box.bottom < top for box in names)
    heading = max(box.bottom for box in boxes(root) if not box.turned and box.bottom < names[0].bottom)
    assert all(box.top - (box.right - box.left) * math.sin(math.radians(35)) > heading for box in names)
    for left, right in pairwise(names):
        assert (right.left - left.left) * math.sin(math.radians(35)) > 14


def test_each_process_that_plays_a_part_has_a_lane(zombie: ScenarioRun) -> None:
    root, events = drawn(zombie), zombie.history.events
    named = set(texts(root))
    assert {event.owner for event in events if isinstance(event, IntervalMinted)} <= named
    assert "master-0" in named


def test_each_ack_goes_to_the_lane_of_its_addressee(zombie: ScenarioRun) -> None:
    root = drawn(zombie)
    x_of = {box.text: box.left for box in boxes(root) if box.turned}
    acks = [box for box in boxes(root) if " ACK " in box.text and "receive" not in box.text]
    arrows = [line for line in root.iter(f"{SVG}line") if line.get("class") in ("ack", "acks")]
    to = {event.record_ids: event.to for event in zombie.history if isinstance(event, AckSent)}
    assert acks
    for ack in acks:
        addressee = next(address for ids, address in to.items() if ack.text.endswith(f"ACK {', '.join(ids)}"))
        middle = (ack.top + ack.bottom) / 2
        near = [line for line in arrows if abs(float(line.get("y1", "")) - middle) < 12]
        assert any(abs(float(line.get("x2", "")) - x_of[addressee]) < 15 for line in near), ack.text


def test_a_lost_ack_still_points_to_its_addressee(zombie: ScenarioRun) -> None:
    events = [event for event in zombie.history if not isinstance(event, Acked)]
    svg = spacetime_svg(events, zombie.verdicts, title="")
    stubs = [
        line
        for line in ET.fromstring(svg).iter(f"{SVG}line")  # noqa: S314  it was written a line above
        if line.get("class") == "acks"
    ]
    assert stubs


def test_text_that_users_chose_is_escaped_and_broken_into_lines(zombie: ScenarioRun) -> None:
    long = b'{"</text><script>alert(1)</script>":"\x00\x1b[31m' + b"W" * 300 + b'"}'
    events = [
        msgspec.structs.replace(event, production=msgspec.structs.replace(event.production, value=long))
        if isinstance(event, Output)
        else event
        for event in SCENARIOS["zombie-timer"].run().history
    ]
    svg = spacetime_svg(events, {}, title="<script>" * 40, subtitle="W" * 300)
    root = ET.fromstring(svg)  # noqa: S314  it was written a line above
    assert "<script" not in svg
    assert all(box.right <= float(root.get("width", "")) for box in boxes(root))
    assert any("<script>" in text for text in texts(root))
    assert any(r"\x00\x1b[31m" in text for text in texts(root))
