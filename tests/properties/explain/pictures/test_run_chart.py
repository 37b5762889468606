"""Any run drawn in event time."""

from datetime import UTC, datetime

import pytest

from headrace import SECOND, Pipeline
from headrace.dataflow import AtCount, AtPeriod, FixedWindows, after_watermark, read
from headrace.history import Event
from headrace_properties.explain.pictures.run_chart import NothingToDrawError, chart_of
from headrace_sim import FeedBuilder, simulate
from tests.sim.rig import letters, mail

TEAM = (
    read("scores", bounded=True)
    .window_into(FixedWindows(2 * SECOND))
    .trigger(after_watermark(early=AtPeriod(SECOND), late=AtCount(1)))
    .allowed_lateness(10 * SECOND)
    .accumulating()
    .sum(name="totals")
    .to("team_totals")
    .pipeline("team")
)
SCORES = [("red", 5, 1.0, 1.5), ("red", 70, 1.2, 2.7), ("blue", 3, 2.0, 2.2), ("red", 1234, 3.0, 3.1)]
"""Key, value, event time and arrival, seconds."""


def played(pipeline: Pipeline = TEAM, *, origin_us: int = 0) -> list[Event]:
    builder = FeedBuilder(pipeline)
    for key, value, event_s, at_s in SCORES:
        timestamp = origin_us + round(event_s * SECOND)
        builder.record(at_us=round(at_s * SECOND), value=value, timestamp=timestamp, key=key)
    return list(simulate(pipeline, builder.build()))


def test_elements_panes_and_watermark_of_the_key_with_the_most_results_are_drawn() -> None:
    chart = chart_of(played(), TEAM)
    assert chart.title == "team: totals of 'red'"
    assert [(arrival.event_us, arrival.label) for arrival in chart.arrivals] == [
        (1_000_000, "5"), (1_200_000, "70"), (3_000_000, ""),
    ]  # fmt: skip
    arrived = [arrival_s.at_us / SECOND for arrival_s in chart.arrivals]
    assert all(
        at_s <= arrival_s < at_s + 0.1
        for arrival_s, (_, _, _, at_s) in zip(arrived, SCORES[:2] + SCORES[3:], strict=True)
    )
    early, second, last = chart.results
    assert [(result.start_us, result.end_us, result.value) for result in chart.results] == [
        (max(0, chart.across[0]), 2 * SECOND, "5"), (max(0, chart.across[0]), 2 * SECOND, "75"), (2 * SECOND, 4 * SECOND, "1234"),
    ]  # fmt: skip
    assert (
        early.begin_us == second.begin_us == chart.arrivals[0].at_us < early.at_us < second.at_us < last.at_us
    )
    assert early.words == "Pane(5 in Window[0.000000s, 2.000000s), early, index 0)"
    (line,) = chart.watermarks
    assert line == sorted(line)
    assert line[-1] == (chart.across[1], chart.up[1]), "at the end it is past everything"
    assert chart.ideal


def test_a_key_can_be_chosen_and_one_without_results_is_refused() -> None:
    events = played()
    assert chart_of(events, TEAM, "blue").title == "team: totals of 'blue'"
    with pytest.raises(NothingToDrawError, match=r"nothing to draw of team: .* with key 'green'"):
        chart_of(events, TEAM, "green")


def test_event_times_of_today_are_dates_and_have_no_ideal_watermark() -> None:
    origin_us = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp()) * SECOND
    chart = chart_of(played(origin_us=origin_us), TEAM)
    assert not chart.ideal
    assert chart.event_tick(origin_us + SECOND) == "2026-01-01\n00:00:01"
    assert chart.tick(1_500_000) == "1.5 s"


def test_outputs_that_are_no_panes_are_drawn_where_they_belong() -> None:
    pipeline = mail()
    chart = chart_of(list(simulate(pipeline, letters(pipeline))), pipeline)
    assert chart.title.startswith("mail: counter of ")
    assert all(result.start_us == result.end_us for result in chart.results)
    assert chart.results[0].words.startswith("counts: ")


def test_a_run_without_outputs_says_so() -> None:
    with pytest.raises(
        NothingToDrawError, match="nothing to draw of team: no result of a computation went outside"
    ):
        chart_of([], TEAM)
