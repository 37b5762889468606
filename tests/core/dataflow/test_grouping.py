"""Grouping by key and window (Dataflow 2.2.2, 2.3): merging, refinement, lateness, retractions that arrive, the three engines."""

from collections.abc import Sequence
from typing import Any

import pytest

from headrace import MAX_TIME, Clock
from headrace.dataflow import (
    COUNT,
    LIST,
    MAX,
    MEAN,
    SUM,
    Accumulation,
    AfterDelay,
    Alarm,
    AnyOf,
    AtCount,
    AtPeriod,
    AtWatermark,
    Batch,
    CombineFn,
    Element,
    FixedWindows,
    GlobalWindows,
    Grouping,
    KeyState,
    MicroBatch,
    Repeat,
    Sessions,
    SlidingWindows,
    Timing,
    Window,
    WindowMergeError,
    top,
)
from tests.core.dataflow.key import Key, short

RETRACTING = Accumulation.ACCUMULATING_AND_RETRACTING
EACH = Repeat(AtCount(1))


def key(**options: Any) -> Key:
    return Key(
        Grouping(**{"windows": FixedWindows(100), "combine": SUM, "allowed_lateness_us": None, **options})
    )


# Refinement


@pytest.mark.parametrize(
    ("accumulation", "expected"),
    [
        (Accumulation.DISCARDING, [[7], [7], [8]]),
        (Accumulation.ACCUMULATING, [[7], [14], [22]]),
        (RETRACTING, [[7], [("-", 7), 14], [("-", 14), 22]]),
    ],
)
def test_how_panes_of_one_window_relate(accumulation: Accumulation, expected: list[list[Any]]) -> None:
    one = key(accumulation=accumulation, trigger=Repeat(AtPeriod(60)))
    found = []
    for minute, value in enumerate((7, 7, 8)):
        one.element(value, 0, at=60 * minute + 1)
        panes = one.clock(60 * minute + 60)
        found.append([("-", pane.value) if pane.retraction else pane.value for pane in panes])
    assert found == expected


def test_a_pane_says_when_it_was_emitted_and_which_it_is() -> None:
    one = key(trigger=EACH)
    panes = one.element(1, 0) + one.element(2, 0)
    one.watermark(100)
    panes += one.element(3, 0) + one.element(4, 0)
    said = [(pane.timing, pane.index) for pane in panes]
    assert said == [(Timing.EARLY, 0), (Timing.EARLY, 1), (Timing.LATE, 2), (Timing.LATE, 3)]


def test_a_pane_lies_in_its_window_at_its_end() -> None:
    one = key()
    one.element(1, 30)
    assert [pane.time for pane in one.watermark(100)] == [99]


def test_a_pane_of_the_global_window_has_the_time_of_its_newest_element_or_the_watermark() -> None:
    one = key(windows=GlobalWindows(), trigger=EACH)
    assert [pane.time for pane in one.element(1, 30)] == [30]
    assert [pane.time for pane in one.element(1, 20)] == [30]
    one.watermark(50)
    assert [pane.time for pane in one.element(1, 40)] == [50]


def test_windows_are_emitted_as_they_end() -> None:
    one = key(windows=SlidingWindows(100, 50))
    one.element(1, 70)
    one.element(2, 10)
    assert short(one.watermark(400)) == [(2, -50, 50), (3, 0, 100), (1, 50, 150)]


# Merging


def test_a_merge_takes_back_what_each_part_said() -> None:
    one = key(windows=Sessions(10), trigger=Repeat(AtWatermark()), accumulation=RETRACTING)
    one.element(7, 20)
    one.element(5, 0)
    assert short(one.watermark(30)) == [(5, 0, 10), (7, 20, 30)]
    merged = one.element(9, 10)
    assert short(merged) == [("-", 5, 0, 10), ("-", 7, 20, 30), (21, 0, 30)]
    assert [(pane.timing, pane.index) for pane in merged] == [
        (Timing.LATE, 0),
        (Timing.LATE, 0),
        (Timing.LATE, 2),
    ]


def test_a_merge_loses_nothing_that_is_buffered_and_emits_nothing() -> None:
    one = key(windows=Sessions(10), accumulation=RETRACTING)
    assert [one.element(value, time) for value, time in ((7, 20), (5, 0), (9, 10))] == [[], [], []]
    assert short(one.watermark(30)) == [(21, 0, 30)]


def test_an_element_that_would_join_a_finished_window_is_dropped_and_the_open_one_stays() -> None:
    one = key(windows=Sessions(10), trigger=AtWatermark())
    one.element(5, 0)
    assert short(one.watermark(10)) == [(5, 0, 10)]
    one.element(7, 20)
    assert (one.element(9, 10), one.state.dropped) == ([], 1)
    assert short(one.watermark(30)) == [(7, 20, 30)]


class Tens:
    """A strategy of the user's own: windows of ten, which merge if they begin in the same hundred."""

    def assign_windows(self, element: Element) -> list[Window]:
        start = element.time // 10 * 10
        return [Window(start, start + 10)]

    def merge_windows(self, windows: Sequence[Window]) -> list[Window]:
        found: dict[int, Window] = {}
        for window in windows:
            known = found.setdefault(window.start // 100, window)
            merged = Window(min(known.start, window.start), max(known.end, window.end))
            found[window.start // 100] = merged
        return list(found.values())


def test_a_strategy_of_ones_own_assigns_and_merges() -> None:
    one = key(windows=Tens())
    for value, time in ((1, 35), (2, 95), (4, 100)):
        one.element(value, time)
    assert short(one.watermark(110)) == [(3, 30, 100), (4, 100, 110)]


def test_a_strategy_that_loses_a_window_is_told_so() -> None:
    class Losing:
        def assign_windows(self, element: Any) -> list[Window]:
            return [Window(element.time, element.time + 10)]

        def merge_windows(self, windows: Any) -> list[Window]:
            return list(windows)[:1]

    one = Key(Grouping(windows=Losing()))
    one.element(1, 0)
    with pytest.raises(WindowMergeError, match="covered by exactly one"):
        one.element(1, 50)


# Lateness


def test_state_is_collected_when_the_allowed_lateness_is_over() -> None:
    one = key(allowed_lateness_us=50, accumulation=Accumulation.ACCUMULATING)
    one.element(5, 0)
    assert short(one.watermark(100)) == [(5, 0, 100)]
    assert short(one.element(6, 1)) == [(11, 0, 100)]
    one.watermark(149)
    assert short(one.element(1, 2)) == [(12, 0, 100)]
    one.watermark(150)
    assert one.state.windows == []
    assert (one.element(9, 3), one.state.dropped) == ([], 1)


def test_without_a_limit_late_data_are_taken_for_ever() -> None:
    one = key()
    one.watermark(10**9)
    assert short(one.element(5, 0)) == [(5, 0, 100)]


def test_a_late_element_of_a_session_that_is_open_is_not_too_late() -> None:
    one = key(windows=Sessions(10), allowed_lateness_us=0)
    one.element(5, 8)
    one.watermark(12)
    assert one.element(6, 0) == []
    assert short(one.watermark(18)) == [(11, 0, 18)]


def test_what_the_trigger_has_not_let_go_goes_out_when_the_window_is_over() -> None:
    one = key(trigger=Repeat(AtCount(3)), allowed_lateness_us=50)
    one.element(5, 0)
    one.element(6, 0)
    assert one.watermark(149) == []
    assert short(one.watermark(150)) == [(11, 0, 100)]
    assert (one.state.dropped, one.state.windows) == (0, [])


def test_at_the_end_of_the_input_it_goes_out_also_without_a_limit() -> None:
    one = key(trigger=Repeat(AtPeriod(60)))
    one.element(5, 0)
    assert one.watermark(10**9) == []
    assert short(one.watermark(MAX_TIME)) == [(5, 0, 100)]
    assert one.grouping.alarms(one.state) == set()
    assert short(one.element(6, 1) + one.watermark(MAX_TIME)) == [(6, 0, 100)]


# Retractions that arrive

VALUES = (5, 3, 8)


@pytest.mark.parametrize(
    ("combine", "expected"),
    [(SUM, 8), (COUNT, 2), (MEAN, 4.0), (MAX, 5), (LIST, [3, 5]), (top(1), [5])],
    ids=["sum", "count", "mean", "max", "list", "top"],
)
@pytest.mark.parametrize("first", [True, False], ids=["the retraction first", "the element first"])
def test_what_is_taken_back_is_as_if_it_had_never_come(
    combine: CombineFn, expected: object, *, first: bool
) -> None:
    one = key(combine=combine, takes_retractions=True, accumulation=RETRACTING)
    if first:
        one.element(8, 0, retraction=True)
    for value in VALUES:
        one.element(value, 0)
    if not first:
        one.element(8, 0, retraction=True)
    assert [pane.value for pane in one.watermark(100)] == [expected]


@pytest.mark.parametrize("combine", [SUM, LIST], ids=["sum", "list"])
def test_a_window_with_nothing_left_takes_back_its_pane_and_says_no_more(combine: CombineFn) -> None:
    one = key(combine=combine, takes_retractions=True, accumulation=RETRACTING, trigger=EACH)
    (said,) = one.element(5, 0)
    (taken_back,) = one.element(5, 0, retraction=True)
    assert (taken_back.value, taken_back.retraction, taken_back.index) == (said.value, True, said.index)
    assert one.element(5, 0)[0].retraction is False


def test_accumulating_a_window_with_nothing_left_says_nothing_s_value() -> None:
    one = key(combine=LIST, takes_retractions=True, accumulation=Accumulation.ACCUMULATING, trigger=EACH)
    one.element(5, 0)
    assert [(pane.value, pane.retraction) for pane in one.element(5, 0, retraction=True)] == [([], False)]


def test_discarding_takes_back_what_went_out_before() -> None:
    one = key(combine=LIST, takes_retractions=True, trigger=Repeat(AtCount(2)))
    one.element(5, 0)
    one.element(6, 0)
    one.element(5, 0, retraction=True)
    panes = one.element(7, 0)
    assert [(pane.value, pane.retraction) for pane in panes] == [([5], True), ([7], False)]


def test_discarding_a_sum_says_the_difference() -> None:
    one = key(takes_retractions=True, trigger=Repeat(AtCount(2)))
    one.element(5, 0)
    one.element(6, 0)
    one.element(5, 0, retraction=True)
    assert [(pane.value, pane.retraction) for pane in one.element(7, 0)] == [(2, False)]


def test_a_pane_is_not_changed_by_what_comes_after_it() -> None:
    """Also before the row is written: two elements of one hook may share it."""
    grouping = Grouping(
        windows=FixedWindows(100), combine=LIST, trigger=EACH, accumulation=Accumulation.ACCUMULATING
    )
    state = KeyState()
    (first,) = grouping.element(state, Element("key", 1, 0), 0, 0)
    grouping.element(state, Element("key", 2, 0), 0, 0)
    assert first.value == [1]


# Engines


def test_batch_waits_for_the_end_and_then_emits_in_order() -> None:
    one = key(engine=Batch())
    one.element(2, 150)
    one.element(1, 0)
    assert one.watermark(10**9) == []
    assert short(one.watermark(MAX_TIME)) == [(1, 0, 100), (2, 100, 200)]


def test_micro_batch_emits_each_changed_window_once_a_batch() -> None:
    one = key(engine=MicroBatch(60), accumulation=Accumulation.ACCUMULATING)
    one.element(1, 150, at=10)
    one.element(2, 0, at=60)
    assert short(one.clock(60)) == [(2, 0, 100), (1, 100, 200)]
    one.element(3, 10, at=61)
    assert short(one.clock(120)) == [(5, 0, 100)]
    assert one.clock(600) == []


def test_a_percentile_watermark_fires_before_the_low_watermark() -> None:
    one = key(trigger=Repeat(AtWatermark(percentile=90)))
    one.element(5, 0)
    assert short(one.grouping.percentile(one.state, 90, 99, one.now, 10)) == []
    assert short(one.grouping.percentile(one.state, 90, 100, one.now, 10)) == [(5, 0, 100)]
    assert short(one.element(6, 0)) == [(6, 0, 100)]


def test_a_percentile_watermark_asks_no_trigger_that_has_finished() -> None:
    one = key(trigger=AnyOf(AtCount(1), AtWatermark(percentile=90)))
    assert short(one.element(5, 0)) == [(5, 0, 100)]
    assert short(one.grouping.percentile(one.state, 90, 100, one.now, 10)) == []


def test_a_percentile_watermark_is_never_behind_the_low_watermark() -> None:
    one = key(trigger=Repeat(AtWatermark(percentile=90)))
    one.element(5, 0)
    assert short(one.watermark(100)) == [(5, 0, 100)]


# State


def test_a_key_whose_windows_are_collected_is_as_new() -> None:
    one = key(allowed_lateness_us=0)
    one.element(5, 0)
    one.watermark(MAX_TIME)
    assert one.state == Key(one.grouping).state


def test_alarms_at_one_time_hold_what_the_earliest_window_needs() -> None:
    one = key(trigger=Repeat(AfterDelay(50)))
    one.element(5, 150)
    one.element(5, 50)
    (alarm,) = (alarm for alarm in one.grouping.alarms(one.state) if alarm.clock is Clock.WALL)
    assert (alarm.time, alarm.hold) == (50, 100)


def test_a_key_asks_for_one_time_of_each_clock_however_many_windows_are_open() -> None:
    one = key(trigger=Repeat(AnyOf(AtPeriod(60), AtWatermark())))
    for start in range(1000, 0, -100):
        one.element(1, start, at=1)
    assert one.grouping.alarms(one.state) == {
        Alarm(200, Clock.WATERMARK),
        Alarm(60, Clock.WALL, 200),
    }
    assert [pane.window.start for pane in one.watermark(400)] == [100, 200, 300]
    assert one.grouping.alarms(one.state) == {
        Alarm(500, Clock.WATERMARK),
        Alarm(60, Clock.WALL, 500),
    }
