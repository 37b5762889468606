"""MillWheel's weak spots, in small: a hot key, and hours of skew (8.4)."""

import pytest

from headrace import HOUR, SECOND
from headrace_benchmarks.section8.hot_key import BEHIND, TWO_PHASES, sample
from headrace_benchmarks.section8.paper import BUSIEST
from headrace_benchmarks.section8.skew import LIMIT_US, run_skewed


def hot(point: str) -> dict[str, float]:
    return {figure: value for _, figure, value in sample(point, 0, for_us=SECOND).values}


def test_one_machine_handles_the_whole_hot_key_and_falls_behind() -> None:
    spread, hottest = hot("0 %"), hot("90 %")
    assert spread[BUSIEST] < 20
    assert hottest[BUSIEST] > 85
    assert spread[BEHIND] < 0.5
    assert hottest[BEHIND] > 1.5


def test_in_two_phases_no_machine_does_much_more_than_another() -> None:
    found = hot(TWO_PHASES)
    assert found[BUSIEST] < 25
    assert found[BEHIND] < 1


def test_buffering_follows_the_skew_unless_there_is_a_limit() -> None:
    one, four = (run_skewed(hours, None, 0) for hours in (1, 4))
    assert four.buffered_bytes > 2 * one.buffered_bytes
    assert four.skew_us == pytest.approx(4 * HOUR, rel=0.1)
    limited = run_skewed(4, LIMIT_US, 0)
    assert limited.buffered_bytes == pytest.approx(one.buffered_bytes, rel=0.3)
    assert limited.skew_us <= LIMIT_US


def test_records_not_injected_yet_are_late_and_not_lost() -> None:
    unlimited, limited = (run_skewed(2, limit_us, 0) for limit_us in (None, LIMIT_US))
    assert unlimited.waiting_bytes == 0 < limited.waiting_bytes
    assert unlimited.windows == limited.windows
