"""Where in event time (Dataflow 2.2)."""

from itertools import permutations

import pytest

from headrace import OptionsError
from headrace.dataflow import GLOBAL, Element, FixedWindows, GlobalWindows, Sessions, SlidingWindows, Window


def at(time: int, key: str = "key") -> Element:
    return Element(key, 1, time)


def test_the_global_window_holds_everything() -> None:
    assert list(GlobalWindows().assign_windows(at(-5))) == [GLOBAL]


@pytest.mark.parametrize(("time", "start"), [(0, 0), (119, 0), (120, 120), (-1, -120)])
def test_a_fixed_window_begins_at_a_multiple_of_its_size(time: int, start: int) -> None:
    assert list(FixedWindows(120).assign_windows(at(time))) == [Window(start, start + 120)]


def test_fixed_windows_can_be_shifted() -> None:
    assert list(FixedWindows(120, offset_us=50).assign_windows(at(49))) == [Window(-70, 50)]


def test_a_phase_spread_shifts_keys_apart_and_each_key_always_by_the_same() -> None:
    windows = FixedWindows(1000, phase_spread=True)
    ends = {next(iter(windows.assign_windows(at(0, key)))).end for key in ("a", "b", "c", "d")}
    assert len(ends) == 4
    assert list(windows.assign_windows(at(0, "a"))) == list(windows.assign_windows(at(0, "a")))


def test_figure_3_an_element_is_in_each_sliding_window_that_overlaps_it() -> None:
    windows = SlidingWindows(120, 60)
    assert list(windows.assign_windows(at(0))) == [Window(-60, 60), Window(0, 120)]
    assert list(windows.assign_windows(at(60))) == [Window(0, 120), Window(60, 180)]


def test_sliding_windows_with_gaps_leave_elements_out() -> None:
    windows = SlidingWindows(10, 60)
    assert list(windows.assign_windows(at(9))) == [Window(0, 10)]
    assert list(windows.assign_windows(at(10))) == []


@pytest.mark.parametrize("size", [7, 60, 61, 120])
@pytest.mark.parametrize("period", [1, 7, 60])
def test_sliding_windows_are_those_that_contain_the_time(size: int, period: int) -> None:
    for time in range(-130, 130, 7):
        every = [Window(s, s + size) for s in range(-420, 420, 1) if s % period == 0]
        expected = [window for window in every if window.contains(time)]
        assert list(SlidingWindows(size, period).assign_windows(at(time))) == expected


def test_figure_4_sessions_that_overlap_merge() -> None:
    windows = [Window(2, 32), Window(57, 87), Window(20, 50)]
    assert list(Sessions(30).merge_windows(windows)) == [Window(2, 50), Window(57, 87)]


def test_sessions_that_touch_merge_unless_section_1_2_is_asked_for() -> None:
    windows = [Window(0, 30), Window(30, 60)]
    assert list(Sessions(30).merge_windows(windows)) == [Window(0, 60)]
    assert list(Sessions(30, touching_merge=False).merge_windows(windows)) == windows


def test_sessions_merge_in_any_order() -> None:
    windows = [Window(0, 30), Window(10, 90), Window(20, 25), Window(91, 100)]
    merged = {tuple(Sessions(30).merge_windows(order)) for order in permutations(windows)}
    assert merged == {(Window(0, 90), Window(91, 100))}


@pytest.mark.parametrize("size", [0, -1, 1.5, True])
def test_a_length_that_is_none_is_refused(size: int) -> None:
    for make in (FixedWindows, Sessions):
        with pytest.raises(OptionsError, match="positive int"):
            make(size)
    with pytest.raises(OptionsError, match="period_us"):
        SlidingWindows(10, size)
