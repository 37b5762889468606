"""Zeitgeist finds what the generator planted, nothing else, in any order of arrival."""

from collections import Counter
from random import Random
from typing import Any

import pytest

from headrace import MAX_TIME, MIN_TIME, SECOND, Context, Productions
from headrace.history import Delivered
from headrace_properties.reference import Emitted, RunResult, run_reference
from headrace_scenarios.zeitgeist import (
    EVENING,
    SEARCHES,
    AnomalyKind,
    OpenBuckets,
    build,
    feed,
    pipeline,
    weak_pipeline,
)
from headrace_scenarios.zeitgeist.search_traffic import (
    Disturbance,
    QueryTraffic,
    SearchLog,
    TrafficOptions,
    UserSearch,
    generate_searches,
)
from headrace_sim import Feed, FeedBuilder, simulate

COUNTING = pipeline.without("spike_detector").without("dip_detector").without("model_calculator")
"""Its first stage by itself, whose counts go outside."""

SEEDS = range(40)

EVENING_NEWS = TrafficOptions(
    traffic=(
        QueryTraffic("cat videos", per_second=15.0),
        QueryTraffic("météo", per_second=20.0),
        QueryTraffic("tahrir square", per_second=30.0),
        QueryTraffic("television listings", per_second=25.0, swing=0.4, peak_us=40 * SECOND),
    ),
    duration_us=40 * SECOND,
    disturbances=(
        Disturbance("cat videos", start_us=20 * SECOND, duration_us=2 * SECOND, factor=6.0),
        Disturbance("tahrir square", start_us=25 * SECOND, duration_us=5 * SECOND, factor=0.1),
    ),
    day_us=160 * SECOND,
    late_share=0.001,
)
"""Larger, with the noise of a Poisson process; the dip is not silence."""


def values(outputs: Counter[Emitted], stream: str) -> list[tuple[int, Any]]:
    """Timestamp and value of each record on a stream."""
    codec = pipeline.codec(stream)
    return sorted(
        [
            (output.timestamp, codec.decode(output.value))
            for output in outputs.elements()
            if output.stream == stream
        ],
        key=repr,
    )


def anomalies(found: RunResult, kind: AnomalyKind, before_us: int = MAX_TIME) -> list[tuple[str, int]]:
    told = [anomaly for _, anomaly in values(found.outputs, "anomalies")]
    return [(one.key, one.start) for one in told if one.kind is kind and one.start < before_us]


def run(log: SearchLog) -> RunResult:
    return run_reference(pipeline, log.feed)


def in_any_order(log: SearchLog, random: Random) -> Feed:
    """Any order, with a watermark that now and then is as eager as truth allows; the same searches are late."""
    builder, late = FeedBuilder(pipeline), set(log.late)
    left = [arrival for arrival in log.arrivals if arrival not in late]
    random.shuffle(left)
    order = [*left, *log.late]
    for at_us, arrival in enumerate(order):
        known_us = min((waiting.timestamp for waiting in left[at_us:]), default=log.end_us + 60 * SECOND)
        if at_us == len(left) or random.random() < 0.7:
            for process in (0, 1):
                builder.watermark(at_us=at_us, low_watermark=known_us, process=process)
        builder.record(at_us=at_us, value=UserSearch(arrival.query), timestamp=arrival.timestamp)
    return builder.build()


def searched(seed: int, options: TrafficOptions = EVENING) -> SearchLog:
    return generate_searches(pipeline, options, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_planted_spike_and_dip_are_found_and_nothing_else(seed: int) -> None:
    # Cats spike in the bucket at 5 s. Tahrir Square is silent from 4 s on: the third empty bucket makes it a dip
    # (or the second, where both late searches are missing from the bucket before).
    outcome = run(searched(seed))
    assert anomalies(outcome, AnomalyKind.SPIKE) == [("cat videos", 5 * SECOND)]
    dips = anomalies(outcome, AnomalyKind.DIP, before_us=EVENING.duration_us)
    assert dips[-1] == ("tahrir square", 6 * SECOND)
    assert dips[:-1] in ([], [("tahrir square", 5 * SECOND)])


@pytest.mark.parametrize("seed", SEEDS)
def test_window_counts_are_right_and_end_with_quiet_windows(seed: int) -> None:
    log = searched(seed)
    counts = [count for _, count in values(run_reference(COUNTING, log.feed).outputs, "window_counts")]
    expected = log.counts(SEARCHES.window_us)
    assert {(count.key, count.start): count.count for count in counts if count.count} == expected
    for traffic in EVENING.traffic:
        last = max(start for query, start in expected if query == traffic.query)
        after = [count.start for count in counts if count.key == traffic.query and count.start > last]
        assert sorted(after) == [
            last + number * SEARCHES.window_us for number in range(1, SEARCHES.quiet_windows + 1)
        ]


def test_a_window_is_stamped_with_its_end() -> None:
    windows = values(run_reference(COUNTING, searched(1).feed).outputs, "window_counts")
    assert all(timestamp == window.start + SEARCHES.window_us for timestamp, window in windows)


@pytest.mark.parametrize("seed", SEEDS)
def test_late_searches_are_dropped_counted_and_reported(seed: int) -> None:
    log = searched(seed)
    outcome = run(log)
    late = sorted((arrival.timestamp, arrival.query) for arrival in log.late)
    assert len(late) == 2
    assert sorted((timestamp, search.query) for timestamp, search in values(outcome.outputs, "late")) == late
    codec = pipeline.computations["window_counter"].state_codec
    states = [codec.decode(state) for (name, _), state in outcome.states.items() if name == "window_counter"]
    assert sum(state.dropped for state in states) == len(late)


@pytest.mark.parametrize("seed", SEEDS)
def test_order_of_arrival_changes_neither_output_nor_state(seed: int) -> None:
    log = searched(seed)
    in_order = run(log)
    for order in range(3):
        assert run_reference(pipeline, in_any_order(log, Random(order))) == in_order


def test_nothing_stays_open_when_the_run_has_drained() -> None:
    # What remains: how many searches were dropped, the models, one prediction for a bucket that never came.
    outcome = run(searched(1))
    for (name, _), state in outcome.states.items():
        left = pipeline.computations[name].state_codec.decode(state)
        match name:
            case "window_counter":
                assert left == OpenBuckets(dropped=left.dropped)
                assert left.dropped > 0
            case "model_calculator":
                assert left.waiting == {}
            case "spike_detector":
                assert (left.counts, len(left.predictions)) == ({}, 1)
            case _:
                assert (left.comparison.counts, len(left.comparison.predictions)) == ({}, 1)


def test_query_that_comes_back_after_a_long_silence_is_counted_afresh() -> None:
    # Searched for at 0.5 s and at 60.5 s: each time its bucket and the quiet ones, not a minute of empty buckets.
    for told in (True, False):  # by watermarks, or all at once in the end
        builder = FeedBuilder(COUNTING)
        for at_us in (SECOND // 2, 60 * SECOND + SECOND // 2):
            for process in (0, 1) if told else ():
                builder.watermark(at_us=at_us, low_watermark=at_us, process=process)
            builder.record(at_us=at_us, value=UserSearch("comet"), timestamp=at_us)
        counts = values(run_reference(COUNTING, builder.build()).outputs, "window_counts")
        assert sorted(count.start // SECOND for _, count in counts) == [0, 1, 2, 3, 60, 61, 62, 63]


@pytest.mark.parametrize("seed", range(5))
def test_planted_anomalies_stand_out_from_noise_and_trend(seed: int) -> None:
    log = searched(seed, EVENING_NEWS)
    outcome = run(log)
    spikes = anomalies(outcome, AnomalyKind.SPIKE)
    assert ("cat videos", 20 * SECOND) in spikes
    assert set(spikes) <= {("cat videos", 20 * SECOND), ("cat videos", 21 * SECOND)}
    dips = anomalies(outcome, AnomalyKind.DIP, before_us=log.end_us)
    assert ("tahrir square", 27 * SECOND) in dips
    assert {query for query, _ in dips} == {"tahrir square"}


def test_when_all_searching_ends_every_query_dips() -> None:
    dips = anomalies(run(searched(1)), AnomalyKind.DIP)
    assert ("météo", EVENING.duration_us + 2 * SEARCHES.window_us) in dips


def test_weak_detectors_report_the_same() -> None:
    weak = [name for name, spec in weak_pipeline.computations.items() if spec.productions is Productions.WEAK]
    assert weak == ["dip_detector", "spike_detector"]
    assert run_reference(weak_pipeline, searched(1).feed) == run(searched(1))


def test_each_computation_starts_in_three_intervals_and_each_has_work() -> None:
    queries = sorted(traffic.query for traffic in EVENING.traffic)
    for spec in pipeline.computations.values():
        assert len(spec.split_at) == 2
        assert {sum(boundary <= query for boundary in spec.split_at) for query in queries} == {0, 1, 2}


def test_feed_of_verify_is_small_and_needs_few_deliveries() -> None:
    for seed in range(5):
        small = feed(seed)
        assert 50 <= small.records <= 60
        assert 3 * SECOND < small.end_us < 6 * SECOND
        deliveries = sum(isinstance(event, Delivered) for event in simulate(pipeline, small))
        assert 200 <= deliveries + small.records <= 400


def test_graph_is_that_of_figure_1() -> None:
    assert pipeline.senders("window_counter") == ("searches",)
    assert pipeline.senders("model_calculator") == ("window_counter",)
    for detector in ("spike_detector", "dip_detector"):
        assert pipeline.senders(detector) == ("model_calculator", "window_counter")
    assert pipeline.output_streams == ("anomalies", "late")


def test_state_of_a_new_query_takes_no_room() -> None:
    spec = pipeline.computations["window_counter"]
    context = Context(spec, "comet", b"", 0, MIN_TIME, 0, 0)
    assert context.state == OpenBuckets()
    assert context.new_state() is None


def test_build_takes_other_splits_and_processes() -> None:
    other = build(processes=5, split_at=("q",))
    assert len(other.injectors["searches"].addresses()) == 5
    assert {spec.split_at for spec in other.computations.values()} == {("q",)}
