"""Figure 16's mechanism in small: what a cache keeps need not be read, and what that costs is by bytes."""

import pytest

from headrace import Eviction
from headrace_benchmarks.section8.caching import COSTS, Buffering, load_of
from headrace_benchmarks.section8.figure_16 import EXPERIMENT, part_of, place_of
from headrace_benchmarks.section8.paper import FACTOR, ONCE, STRAIGHT

RATE = 60


def reads(
    part: float, eviction: Eviction = Eviction.BOUNDARY, *, records: int = 1, sessions: int = 1
) -> float:
    load = Buffering(
        part, eviction, rows_a_second=RATE, records=records, record_bytes=2_000, sessions=sessions
    )
    return load_of(load, seed=0).reads


def test_without_a_cache_each_session_is_read_once_to_end_and_once_for_each_record_but_the_first() -> None:
    for records in (1, 3):
        assert reads(0.0, records=records) == pytest.approx(records, rel=0.2)


def test_by_boundary_what_is_kept_is_what_is_found() -> None:
    """Half of the working set fits; the watermark's lag makes the waiting set somewhat larger."""
    assert 0.5 < reads(0.5) / reads(0.0) < 0.7
    assert reads(1.5) == 0


def test_lru_evicts_what_is_fetched_next_until_everything_fits() -> None:
    assert reads(0.8, Eviction.LRU) == reads(0.0, Eviction.LRU)
    assert reads(1.5, Eviction.LRU) == 0


def test_a_row_that_is_about_to_be_written_again_is_kept_by_lru_and_not_by_boundary() -> None:
    assert reads(0.25, Eviction.LRU, records=3) == pytest.approx(1, rel=0.2)
    assert reads(0.25, records=3) > 2


def test_sessions_that_have_ended_take_no_room_however_many_they_are() -> None:
    assert reads(0.5, sessions=6) <= reads(0.5, sessions=1) + 0.02


def test_a_read_costs_as_much_as_bigtables_evaluation_says() -> None:
    """Without what the worker does: two messages at the store, a block and a kilobyte are 1 / 1,212 s."""
    at_the_worker = 2 * COSTS.message + COSTS.code_kb
    assert COSTS.of_read(1_000) - at_the_worker == pytest.approx(1_000_000 / 1_212, rel=0.01)
    assert COSTS.of_read(1_000) > 2 * COSTS.of_write(1_000), "reads incur a higher cost than writes (8.3)"


def test_each_size_has_a_place_in_the_table() -> None:
    assert part_of(place_of(0.75)) == 0.75
    assert part_of(FACTOR) is None


@pytest.mark.slow
def test_cpu_falls_on_a_line_and_by_more_than_a_factor_of_two() -> None:
    found = {place: value for place, _, value in EXPERIMENT.sample(ONCE, 0).values}
    assert found[STRAIGHT] > 0.98
    assert 2 < found[FACTOR] < 3.5
