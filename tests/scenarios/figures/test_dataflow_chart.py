"""The Dataflow paper's figures, drawn: SVG, PNG and a page (2.4)."""

from pathlib import Path

import pytest

from headrace_properties.explain.pictures.event_time_chart import ChartError
from headrace_scenarios.figures.dataflow import figures, steps
from headrace_scenarios.figures.dataflow_chart import Drawing, text_of
from tests.core.dataflow.model import run_model

pytest.importorskip("matplotlib")


def drawing(number: int) -> Drawing:
    figure = figures()[number]
    return Drawing(figure, run_model(figure.query, steps()).panes)


@pytest.mark.parametrize("number", figures())
def test_every_figure_is_drawn_with_its_panes(number: int, tmp_path: Path) -> None:
    drawn = drawing(number)
    drawn.save(tmp_path / "figure.svg")
    svg = (tmp_path / "figure.svg").read_text()
    for index, pane in enumerate(drawn.panes):
        assert (f'<g id="pane-{index}">' in svg) is not pane.retraction


def test_the_same_panes_make_the_same_svg(tmp_path: Path) -> None:
    for name in ("one.svg", "other.svg"):
        drawing(14).save(tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "other.svg").read_bytes()


def test_a_page_has_the_drawing_in_it_and_says_what_each_pane_is(tmp_path: Path) -> None:
    drawing(14).save(tmp_path / "figure.html")
    page = (tmp_path / "figure.html").read_text()
    assert "<svg" in page
    assert "<?xml" not in page
    assert "<title>25 of [12:02:26.7, 12:05:20.0), on time, index 2, emitted at 12:07:36.0</title>" in page
    assert '<tr class="back"><td>12:08:20.0</td><td>-25 of ' in page
    assert "http" not in page.replace("http://www.w3.org", "").replace("http://purl.org", "").replace(
        "http://creativecommons.org", ""
    ).replace("https://matplotlib.org", "")


def test_a_png_is_one(tmp_path: Path) -> None:
    drawing(6).save(tmp_path / "figure.png")
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_another_kind_of_picture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ChartError, match=r"its name must end with one of \.svg, \.png, \.html"):
        drawing(6).save(tmp_path / "figure.gif")


def test_panes_as_text_say_when_and_what() -> None:
    assert text_of(drawing(12).panes[-2:]).splitlines() == [
        "12:08:20.0  14 of [12:00:00.0, 12:02:00.0), late, index 1",
        "12:09:21.0  12 of [12:06:00.0, 12:08:00.0), on time, index 0",
    ]
