"""The report's pictures: drawn from its data, the same each time, with every curve visible."""

import re
from pathlib import Path

import msgspec
import pytest

from headrace_benchmarks.section8.plots import draw
from headrace_benchmarks.section8.reporting import ExperimentReport, ExperimentResult

PLOTS = Path(__file__).parents[2] / "docs/report"
MEASURED = ExperimentReport.from_bytes((PLOTS / "runs.json").read_bytes()).measured


NUMBER = re.compile(r"(?<![\w#.-])-?\d+(?:\.\d+)?(?:e-?\d+)?(?!\w)")
HASH = re.compile(r"\b[mp][0-9a-f]{10}\b")
VISIBLE = 0.01
"""A hundredth of a point: the last digits of a place differ between processors, and a curve that moves less looks the same."""


def shape(svg: str) -> tuple[list[str], list[float]]:
    """What stands in a picture, but for numbers and names that are hashes of numbers, and the numbers."""
    names = {name: f"name {place}" for place, name in enumerate(dict.fromkeys(HASH.findall(svg)))}
    svg = HASH.sub(lambda found: names[found[0]], svg)
    return NUMBER.split(svg), [float(number) for number in NUMBER.findall(svg)]


def looks_the_same(one: str, other: str) -> bool:
    (texts, numbers), (other_texts, other_numbers) = shape(one), shape(other)
    return texts == other_texts and other_numbers == pytest.approx(numbers, rel=0, abs=VISIBLE)


@pytest.mark.parametrize("measured", MEASURED, ids=lambda measured: measured.name)
def test_each_picture_of_the_report_is_drawn_from_its_data(measured: ExperimentResult) -> None:
    assert looks_the_same(draw(measured).decode(), (PLOTS / f"{measured.name}.svg").read_text())


def test_a_picture_looks_the_same_with_other_last_digits_and_differs_with_other_data() -> None:
    svg = (PLOTS / "figure-14.svg").read_text()
    elsewhere = re.sub(r"\d+\.\d{5,}", lambda found: f"{float(found[0]) + 1e-6:.6f}", svg)
    elsewhere = HASH.sub(lambda found: found[0][0] + found[0][:0:-1], elsewhere)
    assert elsewhere != svg
    assert looks_the_same(svg, elsewhere)
    measured = next(measured for measured in MEASURED if measured.name == "figure-14")
    samples = tuple(
        msgspec.structs.replace(sample, values=[(*name, 1.01 * value) for *name, value in sample.values])
        if sample.point == "100 CPUs"
        else sample
        for sample in measured.samples
    )
    other = draw(msgspec.structs.replace(measured, samples=samples))
    assert not looks_the_same(svg, other.decode())


@pytest.mark.parametrize("name", ["authority", "depth", "figure-16", "recovery", "skew"])
def test_curves_that_meet_differ_by_their_dashes(name: str) -> None:
    svg = draw(next(measured for measured in MEASURED if measured.name == name)).decode()
    curves = re.findall(
        r"fill: none; stroke-dasharray: ([\d., ]+); [^\"]*stroke: (#\w+)|fill: none; stroke: (#\w+)", svg
    )
    dashes: dict[str, set[str]] = {}
    for dash, dashed, solid in curves:
        dashes.setdefault(dashed or solid, set()).add(dash)
    curves_dashes = [
        dashes[colour] - {""} for colour in ("#c25a00", "#1c7c3c", "#b3261e") if colour in dashes
    ]
    assert all(curves_dashes), "each after the first is dashed"
    assert len(set(map(frozenset, curves_dashes))) == len(curves_dashes)


def test_no_bar_of_strong_and_weak_dwarfs_the_others_of_its_column() -> None:
    svg = draw(next(measured for measured in MEASURED if measured.name == "strong-weak")).decode()
    bars = re.findall(r'<path d="M ([\d.]+) [\d.]+ \nL ([\d.]+) [^"]*"[^>]*fill: #0b62a4', svg)
    widths: dict[str, list[float]] = {}
    for left, right in bars:
        widths.setdefault(left, []).append(float(right) - float(left))
    assert len(widths) == 4
    for column in widths.values():
        assert max(column) < 50 * min(width for width in column if width > 0)


def test_no_curve_of_figure_13_hides_another() -> None:
    measured = next(measured for measured in MEASURED if measured.name == "figure-13")
    svg = draw(measured).decode()
    curves = re.findall(r"fill: none; stroke: (#\w+); stroke-width: ([\d.]+)", svg)
    widths = {colour: float(width) for colour, width in curves}
    order = list(
        dict.fromkeys(
            colour for colour, _ in curves if colour in ("#9cc9ee", "#f6c08f", "#0b62a4", "#c25a00")
        )
    )
    assert len(order) == 4
    wide, thin = order[:2], order[2:]
    assert min(widths[colour] for colour in wide) > 3 * max(widths[colour] for colour in thin)
