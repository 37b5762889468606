"""The report's pictures: drawn from its data, the same each time, with every curve visible."""

import re
from pathlib import Path

import pytest

from headrace_benchmarks.section8.plots import draw
from headrace_benchmarks.section8.reporting import Measured, Report

PLOTS = Path(__file__).parents[2] / "docs/report"
MEASURED = Report.from_bytes((PLOTS / "runs.json").read_bytes()).measured


@pytest.mark.parametrize("measured", MEASURED, ids=lambda measured: measured.name)
def test_each_picture_of_the_report_is_drawn_from_its_data(measured: Measured) -> None:
    assert draw(measured) == (PLOTS / f"{measured.name}.svg").read_bytes()


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
