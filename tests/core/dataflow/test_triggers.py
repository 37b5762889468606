"""When in processing time (Dataflow 2.3): each trigger by itself, and composed."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from headrace import MAX_TIME, Clock, OptionsError
from headrace.dataflow import (
    END_OF_TIME,
    SUM,
    AfterDelay,
    Alarm,
    AllOf,
    AnyOf,
    AtCount,
    AtPeriod,
    AtWatermark,
    Custom,
    FixedWindows,
    Grouping,
    Instant,
    Repeat,
    RepeatUntil,
    SequenceOf,
    Sessions,
    Trigger,
    Wanted,
    When,
    Window,
)
from tests.core.dataflow.key import Key, short


def key(trigger: Trigger, windows: Any = FixedWindows(100)) -> Key:  # noqa: B008  a value
    return Key(Grouping(windows=windows, trigger=trigger, combine=SUM, allowed_lateness_us=None))


def values(panes: Iterable[Any]) -> list[Any]:
    return [pane.value for pane in panes]


def test_at_watermark_fires_when_the_end_is_reached_and_no_earlier() -> None:
    one = key(Repeat(AtWatermark()))
    assert one.element(5, 10) == []
    assert one.watermark(99) == []
    assert short(one.watermark(100)) == [(5, 0, 100)]


def test_a_repeated_watermark_trigger_fires_with_each_late_element() -> None:
    one = key(Repeat(AtWatermark()))
    one.watermark(100)
    assert values(one.element(5, 10)) == [5]
    assert values(one.element(7, 11)) == [7]


def test_a_period_is_aligned_and_takes_what_arrives_on_its_boundary() -> None:
    one = key(Repeat(AtPeriod(60)))
    assert one.element(1, 0, at=59) == []
    assert one.element(2, 0, at=60) == []
    assert values(one.clock(60)) == [3]
    assert one.element(4, 0, at=61) == []
    assert values(one.clock(200)) == [4]


def test_an_element_after_a_boundary_is_not_in_its_pane() -> None:
    one = key(Repeat(AtPeriod(60)))
    one.element(1, 0, at=59)
    assert values(one.element(2, 0, at=61)) == [1]


def test_an_idle_period_sets_no_timer_and_starts_at_the_boundary_after() -> None:
    one = key(Repeat(AtPeriod(60)))
    one.element(1, 0, at=10)
    one.clock(60)
    assert one.grouping.alarms(one.state) == set()
    assert one.element(2, 0, at=200) == []
    assert values(one.clock(240)) == [2]


def test_a_period_in_a_sequence_begins_with_its_first_element() -> None:
    one = key(SequenceOf(AtPeriod(60), AtPeriod(60), Repeat(AtCount(1))))
    one.element(1, 0, at=10)
    assert values(one.clock(60)) == [1]
    assert one.clock(120) == []
    assert one.element(2, 0, at=121) == []
    assert values(one.clock(180)) == [2]


def test_a_count_begins_anew_when_it_has_fired() -> None:
    one = key(Repeat(AtCount(2)))
    assert [values(one.element(value, 0)) for value in (1, 2, 3, 4, 5)] == [[], [3], [], [7], []]


def test_a_delay_begins_with_the_first_element_after_the_last_firing() -> None:
    one = key(Repeat(AfterDelay(50)))
    one.element(1, 0, at=10)
    one.element(2, 0, at=60)
    assert values(one.clock(60)) == [3]
    assert one.element(3, 0, at=80) == []
    assert one.clock(129) == []
    assert values(one.clock(130)) == [3]


def test_a_predicate_sees_what_the_pane_would_say() -> None:
    one = key(Repeat(When(lambda total: total >= 10)))
    assert [values(one.element(6, 0)) for _ in range(4)] == [[], [12], [], [12]]


def test_repeat_until_fires_once_more_and_is_finished() -> None:
    one = key(RepeatUntil(AtCount(1), AtWatermark()))
    assert values(one.element(1, 10)) == [1]
    assert one.watermark(100) == []
    assert one.element(2, 10) == []
    assert one.state.dropped == 1


def test_a_sequence_goes_on_when_a_part_is_finished() -> None:
    one = key(SequenceOf(AtCount(2), AtCount(3), Repeat(AtCount(1))))
    assert [values(one.element(1, 0)) for _ in range(7)] == [[], [2], [], [], [3], [1], [1]]


def test_a_part_of_a_sequence_that_starts_behind_the_watermark_fires_with_the_next_element() -> None:
    one = key(SequenceOf(AtWatermark(), AtWatermark(), Repeat(AtCount(2))))
    one.element(1, 10)
    assert values(one.watermark(100)) == [1]
    assert one.watermark(500) == []
    assert [values(one.element(2, 10)) for _ in range(3)] == [[2], [], [4]]


def test_any_of_fires_with_the_first_and_starts_all_anew() -> None:
    one = key(Repeat(AnyOf(AtCount(2), AtPeriod(60))))
    one.element(1, 0, at=10)
    assert values(one.clock(60)) == [1]
    assert [values(one.element(2, 0, at=70)) for _ in range(3)] == [[], [4], []]
    assert values(one.clock(120)) == [2]


def test_all_of_waits_for_the_last() -> None:
    one = key(Repeat(AllOf(AtCount(2), AtPeriod(60))))
    one.element(1, 0, at=10)
    assert one.clock(60) == []
    assert values(one.element(1, 0, at=70)) == [2]


def test_a_finished_trigger_lets_go_of_everything() -> None:
    one = key(AtCount(1))
    assert values(one.element(1, 0)) == [1]
    assert one.element(2, 0) == []
    assert (one.state.dropped, one.grouping.alarms(one.state)) == (1, set())


def test_figure_14_the_furthest_advanced_part_of_a_sequence_wins_a_merge() -> None:
    one = key(SequenceOf(RepeatUntil(AtPeriod(60), AtWatermark()), Repeat(AtWatermark())), Sessions(10))
    one.element(5, 0, at=1)
    one.element(7, 20, at=1)
    assert short(one.watermark(10)) == [(5, 0, 10)]
    assert one.element(9, 10, at=2) == []
    assert short(one.watermark(30)) == [(16, 0, 30)]


def test_counts_add_up_and_periods_keep_the_earliest_in_a_merge() -> None:
    one = key(Repeat(AtCount(3)), Sessions(10))
    one.element(1, 0)
    one.element(1, 20)
    assert short(one.element(1, 10)) == [(3, 0, 30)]


class EveryOther:
    """A trigger of the user's own: at each second element, or ten microseconds after one, or when the watermark is at 50."""

    def start(self, instant: Instant) -> list[int]:
        return [0, 0]

    def on_element(self, state: list[int], value: Any, instant: Instant) -> list[int]:
        return [state[0] + 1, instant.now + 10]

    def is_ready(self, state: list[int], instant: Instant) -> bool:
        return state[0] == 2 or 0 < state[1] <= instant.now or instant.watermark >= 50

    def wanted(self, state: list[int], window: Window) -> Iterable[Wanted]:
        return [Wanted(50, Clock.WATERMARK), *([Wanted(state[1], Clock.WALL)] if state[0] else [])]

    def merge(self, states: Sequence[list[int]], instant: Instant) -> list[int]:
        return [sum(state[0] for state in states), max(state[1] for state in states)]


def test_a_trigger_of_ones_own_uses_arrivals_and_timers_of_both_clocks() -> None:
    one = key(Repeat(Custom(EveryOther())))
    assert one.element(1, 0, at=5) == []
    assert values(one.element(2, 0, at=6)) == [3]
    assert one.element(3, 0, at=7) == []
    assert values(one.clock(17)) == [3]
    one.element(4, 0, at=18)
    assert values(one.watermark(50)) == [4]


def test_a_trigger_of_ones_own_that_is_not_ready_is_not_asked_for_ever() -> None:
    class Never(EveryOther):
        def is_ready(self, state: list[int], instant: Instant) -> bool:
            return False

    one = key(Repeat(Custom(Never())))
    one.element(1, 0, at=5)
    assert one.clock(15) == []
    assert one.watermark(60) == []
    (over,) = one.grouping.alarms(one.state)
    assert over == Alarm(END_OF_TIME, Clock.WATERMARK)


def test_the_end_of_time_completes_every_window() -> None:
    one = key(Repeat(AtWatermark()))
    one.element(1, 0)
    assert values(one.watermark(MAX_TIME)) == [1]


@pytest.mark.parametrize("make", [SequenceOf, AnyOf, AllOf])
def test_a_composition_of_nothing_is_refused(make: Any) -> None:
    with pytest.raises(OptionsError, match="at least one"):
        make()


@pytest.mark.parametrize(
    "make", [AtCount, AtPeriod, AfterDelay, lambda number: AtWatermark(percentile=number)]
)
def test_a_number_out_of_range_is_refused(make: Any) -> None:
    for number in (0, -1):
        with pytest.raises(OptionsError):
            make(number)
