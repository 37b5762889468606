"""The generator makes what its options say, the same each time, and tells what it planted."""

import hashlib
import os
import subprocess
import sys
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from headrace import MAX_TIME, MIN_TIME, MINUTE, SECOND, OptionsError, Pipeline, TypedCodec
from headrace.wire.effects import SourceRecord, SourceWatermark
from headrace_scenarios.zeitgeist.search_traffic import (
    Disturbance,
    QueryTraffic,
    SearchLog,
    TrafficOptions,
    UserSearch,
    generate_searches,
)

QUIET = TrafficOptions(
    traffic=(QueryTraffic("cat videos", per_second=5.0), QueryTraffic("météo", per_second=3.0)),
    duration_us=20 * SECOND,
    late_share=0.01,
)


def source(processes: int = 2) -> Pipeline:
    pipeline = Pipeline("source")
    pipeline.injector("searches", processes=processes)
    pipeline.stream("searches", TypedCodec(UserSearch))
    return pipeline


def generate(options: TrafficOptions = QUIET, seed: int = 1) -> SearchLog:
    return generate_searches(source(), options, seed)


def times(log: SearchLog, query: str) -> list[int]:
    return [arrival.timestamp for arrival in log.arrivals if arrival.query == query]


def per_second(log: SearchLog, query: str, start_us: int, end_us: int) -> float:
    searches = sum(start_us <= time < end_us for time in times(log, query))
    return searches * SECOND / (end_us - start_us)


def feed_hash(seed: int) -> str:
    return hashlib.sha256(msgspec.msgpack.encode(generate(seed=seed).feed)).hexdigest()


def test_one_seed_gives_one_feed_and_another_seed_another() -> None:
    assert generate(seed=1) == generate(seed=1)
    assert generate(seed=1).feed != generate(seed=2).feed


@pytest.mark.parametrize("hash_seed", ["0", "1"])
def test_feed_does_not_depend_on_the_hash_seed(hash_seed: str) -> None:
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": path}
    command = "from tests.scenarios.zeitgeist.test_search_traffic import feed_hash; print(feed_hash(5))"
    found = subprocess.run(
        [sys.executable, "-c", command], env=environment, capture_output=True, text=True, check=True
    )
    assert found.stdout.strip() == feed_hash(5)


def test_planting_a_spike_does_not_shift_the_searches_of_other_queries() -> None:
    spike = Disturbance("cat videos", start_us=5 * SECOND, duration_us=SECOND, factor=10.0)
    disturbed = generate(replace(QUIET, disturbances=(spike,)))
    assert times(disturbed, "météo") == times(generate(), "météo")
    assert times(disturbed, "cat videos") != times(generate(), "cat videos")


def test_spikes_and_dips_are_planted_where_the_log_says() -> None:
    spike = Disturbance("cat videos", start_us=5 * SECOND, duration_us=2 * SECOND, factor=10.0)
    dip = Disturbance("météo", start_us=8 * SECOND, duration_us=6 * SECOND, factor=0.0)
    log = generate(replace(QUIET, disturbances=(spike, dip)))
    assert (log.spikes, log.dips) == ((spike,), (dip,))
    assert per_second(log, "cat videos", 5 * SECOND, 7 * SECOND) > 30
    assert per_second(log, "cat videos", 7 * SECOND, 20 * SECOND) < 10
    assert per_second(log, "météo", 8 * SECOND, 14 * SECOND) == 0
    assert per_second(log, "météo", 14 * SECOND, 20 * SECOND) > 0


def test_rate_swings_over_the_day_around_its_mean() -> None:
    traffic = QueryTraffic("television listings", per_second=20.0, swing=0.8, peak_us=15 * SECOND)
    log = generate(TrafficOptions((traffic,), duration_us=MINUTE, day_us=MINUTE))
    evening = per_second(log, "television listings", 10 * SECOND, 20 * SECOND)
    night = per_second(log, "television listings", 40 * SECOND, 50 * SECOND)
    assert evening > 30
    assert night < 10
    assert per_second(log, "television listings", 0, MINUTE) == pytest.approx(20, rel=0.1)


def test_large_regularity_makes_even_gaps() -> None:
    traffic = QueryTraffic("météo", per_second=4.0)
    even = generate(TrafficOptions((traffic,), duration_us=20 * SECOND, regularity=1e6))
    assert set(even.counts(SECOND).values()) == {4}
    poisson = generate(TrafficOptions((traffic,), duration_us=20 * SECOND))
    assert len(set(poisson.counts(SECOND).values())) > 2


def test_arrivals_are_in_disorder_and_on_all_processes() -> None:
    log = generate()
    arrivals = [arrival.at_us for arrival in log.arrivals]
    assert arrivals != sorted(arrivals)
    assert [arrival.timestamp for arrival in log.arrivals] == sorted(
        arrival.timestamp for arrival in log.arrivals
    )
    assert {arrival.process for arrival in log.arrivals} == {0, 1}


def test_late_searches_and_no_others_are_behind_the_estimate_of_every_process() -> None:
    for seed in range(20):
        log = generate(seed=seed)
        estimates = dict.fromkeys(["searches/0", "searches/1"], MIN_TIME)
        behind = []
        for entry in log.feed.entries:
            match entry.event:
                case SourceWatermark(low_watermark=estimate):
                    estimates[entry.address] = estimate
                case SourceRecord(timestamp=timestamp) if timestamp < min(estimates.values()):
                    behind.append(timestamp)
                case SourceRecord(timestamp=timestamp):
                    assert timestamp >= max(estimates.values())
        assert sorted(behind) == [arrival.timestamp for arrival in log.late]
        assert len(behind) == -(-len(log.arrivals) // 100)
        assert set(estimates.values()) == {MAX_TIME}


def test_pace_replays_the_source_faster_and_leaves_event_time_alone() -> None:
    slow, fast = generate(), generate(replace(QUIET, pace=2.0))
    assert [arrival.timestamp for arrival in fast.arrivals] == [
        arrival.timestamp for arrival in slow.arrivals
    ]
    assert fast.feed.end_us == pytest.approx(slow.feed.end_us / 2, abs=2)


def test_counts_leave_out_late_searches() -> None:
    log = generate()
    assert log.counts(SECOND).total() == len(log.arrivals) - len(log.late)


def test_no_traffic_is_a_feed_that_ends_at_once() -> None:
    log = generate(TrafficOptions((), duration_us=SECOND))
    assert [entry.event for entry in log.feed.entries] == [SourceWatermark(0, MAX_TIME, arrived_us=0)] * 2


@pytest.mark.parametrize(
    ("option", "value"), [("late_by_us", 1), ("late_share", 1.5), ("pace", 0), ("processes", 0)]
)
def test_options_that_cannot_be_met_are_refused_by_name(option: str, value: Any) -> None:
    with pytest.raises(OptionsError, match=option):
        replace(QUIET, **{option: value})


def test_more_processes_than_the_injector_has_are_refused() -> None:
    with pytest.raises(OptionsError, match="process"):
        generate_searches(source(processes=1), QUIET, seed=1)
