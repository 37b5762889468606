"""A new owner's recovery in small: with asynchronous scans records do not wait for the last row (6.2)."""

from headrace_benchmarks.section8.recoveries import (
    ASYNCHRONOUS,
    EARLY,
    MEDIAN,
    SCAN,
    WAITS,
    pipeline,
    run_recovery,
    sample,
)
from headrace_properties.checkers import judge
from headrace_properties.search.judging import violations


def figures(point: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = {WAITS: {}, ASYNCHRONOUS: {}}
    for place, figure, value in sample(point, 0).values:
        found[place.rpartition(", ")[2]][figure] = value
    return found


def test_records_wait_for_the_whole_scan_or_only_for_a_read() -> None:
    found = figures("1,600 keys")
    assert found[WAITS][EARLY] == 0
    assert found[WAITS][MEDIAN] > found[WAITS][SCAN]
    assert found[ASYNCHRONOUS][EARLY] > 90
    assert found[ASYNCHRONOUS][MEDIAN] < found[WAITS][MEDIAN] / 2


def test_a_scan_of_one_page_is_the_same_both_ways() -> None:
    found = figures("100 keys")
    assert found[WAITS] == found[ASYNCHRONOUS]


def test_what_is_processed_during_the_scan_breaks_nothing() -> None:
    history = run_recovery(400, 1, asynchronous=True)
    assert violations(judge(history, [pipeline()])) == {}
