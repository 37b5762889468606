"""Zeitgeist finds what the generator planted, nothing else, in any order of arrival."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from headrace import (
    MAX_TIME,
    MIN_TIME,
    SECOND,
    ComputationSpec,
    Context,
    Encoded,
    Pipeline,
    Productions,
    Record,
    Timer,
)
from headrace.api.context import Emission, TimerRequest
from headrace.wire.effects import SourceRecord, SourceWatermark
from headrace_scenarios.zeitgeist import (
    EVENING,
    SEARCHES,
    Anomaly,
    AnomalyKind,
    OpenBuckets,
    WindowCount,
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

Step = Emission | int
"""What a computation meets next: a record, or its input watermark."""

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


@dataclass
class Node:
    """One computation by itself: its rows and timers in plain dicts, its hooks run one after another."""

    spec: ComputationSpec
    pipeline: Pipeline
    rows: dict[str, Encoded] = field(default_factory=dict)
    timers: dict[str, dict[str, int]] = field(default_factory=dict)
    produced: list[Emission] = field(default_factory=list)
    low_watermark: int = MIN_TIME

    def run(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if isinstance(step, int):
                self.low_watermark = max(self.low_watermark, step)
                for key in sorted(self.timers):
                    self.fire(key)
            else:
                self.deliver(step)
        assert not any(self.timers.values())

    def deliver(self, emission: Emission) -> None:
        value = self.pipeline.codec(emission.stream).decode(emission.value)
        late = emission.timestamp < self.low_watermark
        record = Record(emission.key, value, emission.timestamp, emission.stream, late)
        record.key = self.spec.inputs[emission.stream](record)
        context = self.context(record.key, record.timestamp)
        self.spec.computation.process_record(context, record)
        self.commit(context)
        self.fire(record.key)

    def fire(self, key: str) -> None:
        timers = self.timers.setdefault(key, {})
        while timers and (first := min((at, tag) for tag, at in timers.items()))[0] <= self.low_watermark:
            at, tag = first
            del timers[tag]
            context = self.context(key, at)
            self.spec.computation.process_timer(context, Timer(tag, at))
            self.commit(context)

    def context(self, key: str, cause_us: int) -> Context:
        return Context(self.spec, key, self.rows.get(key, b""), cause_us, self.low_watermark, 0, cause_us)

    def commit(self, context: Context) -> None:
        state = context.new_state()
        if state is not None:
            self.rows[context.key] = state
        for tag, request in (context.timers or {}).items():
            assert isinstance(request, TimerRequest)
            self.timers.setdefault(context.key, {})[tag] = request.timestamp
        self.produced += context.emissions or []


@dataclass
class Outcome:
    """The results of a run: productions by stream, sorted, and the rows that are not empty."""

    streams: dict[str, list[tuple[int, Any]]]
    states: dict[tuple[str, str], bytes]

    def anomalies(self, kind: AnomalyKind, before_us: int = MAX_TIME) -> list[tuple[str, int]]:
        found: list[Anomaly] = [value for _, value in self.streams["anomalies"]]
        return [
            (anomaly.key, anomaly.start)
            for anomaly in found
            if anomaly.kind is kind and anomaly.start < before_us
        ]


def as_injected(log: SearchLog) -> Iterator[Step]:
    """The order of the feed, with the watermark that the injector's processes have together."""
    low_watermarks = dict.fromkeys(pipeline.injectors["searches"].addresses(), MIN_TIME)
    for entry in log.feed.entries:
        match entry.event:
            case SourceRecord(stream=stream, key=key, value=value, timestamp=timestamp):
                yield Emission(stream, key, value, timestamp)
            case SourceWatermark(low_watermark=low_watermark):
                low_watermarks[entry.address] = low_watermark
                yield min(low_watermarks.values())


def in_time_order(emissions: Iterable[Emission]) -> Iterator[Step]:
    for emission in sorted(emissions, key=lambda record: record.timestamp):
        yield emission.timestamp
        yield emission
    yield MAX_TIME


def shuffled(emissions: Iterable[Emission], random: Random) -> Iterator[Step]:
    """Any order, with a watermark that now and then is as eager as truth allows."""
    left = list(emissions)
    random.shuffle(left)
    while left:
        if random.random() < 0.7:
            yield min(emission.timestamp for emission in left)
        yield left.pop()
    yield MAX_TIME


def shuffled_searches(log: SearchLog, random: Random) -> Iterator[Step]:
    """As `shuffled`, with the same searches late."""
    records = [step for step in as_injected(log) if isinstance(step, Emission)]
    late = {arrival.timestamp for arrival in log.late}
    yield from shuffled([record for record in records if record.timestamp not in late], random)
    yield from (record for record in records if record.timestamp in late)


def run(log: SearchLog, random: Random | None = None, of: Pipeline = pipeline) -> Outcome:
    """Run the computations one after another; with `random`, in a random order of arrival."""
    emissions: list[Emission] = []
    states: dict[tuple[str, str], bytes] = {}
    for name, spec in of.computations.items():
        inputs = [emission for emission in emissions if emission.stream in spec.inputs]
        steps = in_time_order(inputs) if random is None else shuffled(inputs, random)
        if "searches" in spec.inputs:
            steps = as_injected(log) if random is None else shuffled_searches(log, random)
        node = Node(spec, of)
        node.run(steps)
        emissions += node.produced
        states |= {(name, key): bytes(state) for key, state in node.rows.items() if state}
    streams: dict[str, list[tuple[int, Any]]] = {stream: [] for stream in of.streams}
    for emission in emissions:
        streams[emission.stream].append(
            (emission.timestamp, of.codec(emission.stream).decode(emission.value))
        )
    return Outcome({stream: sorted(values, key=repr) for stream, values in streams.items()}, states)


def searched(seed: int, options: TrafficOptions = EVENING) -> SearchLog:
    return generate_searches(pipeline, options, seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_planted_spike_and_dip_are_found_and_nothing_else(seed: int) -> None:
    # Cats spike in the bucket at 5 s. Tahrir Square is silent from 4 s on: the third empty bucket makes it a dip
    # (or the second, where both late searches are missing from the bucket before).
    outcome = run(searched(seed))
    assert outcome.anomalies(AnomalyKind.SPIKE) == [("cat videos", 5 * SECOND)]
    dips = outcome.anomalies(AnomalyKind.DIP, before_us=EVENING.duration_us)
    assert dips[-1] == ("tahrir square", 6 * SECOND)
    assert dips[:-1] in ([], [("tahrir square", 5 * SECOND)])


@pytest.mark.parametrize("seed", SEEDS)
def test_window_counts_are_right_and_end_with_quiet_windows(seed: int) -> None:
    log = searched(seed)
    counts: list[WindowCount] = [value for _, value in run(log).streams["window_counts"]]
    expected = log.counts(SEARCHES.window_us)
    assert {(count.key, count.start): count.count for count in counts if count.count} == expected
    for traffic in EVENING.traffic:
        last = max(start for query, start in expected if query == traffic.query)
        after = [count.start for count in counts if count.key == traffic.query and count.start > last]
        assert sorted(after) == [
            last + number * SEARCHES.window_us for number in range(1, SEARCHES.quiet_windows + 1)
        ]


def test_a_window_is_stamped_with_its_end() -> None:
    windows = run(searched(1)).streams["window_counts"]
    assert all(timestamp == window.start + SEARCHES.window_us for timestamp, window in windows)


@pytest.mark.parametrize("seed", SEEDS)
def test_late_searches_are_dropped_counted_and_reported(seed: int) -> None:
    log = searched(seed)
    outcome = run(log)
    late = sorted((arrival.timestamp, arrival.query) for arrival in log.late)
    assert len(late) == 2
    assert sorted((timestamp, search.query) for timestamp, search in outcome.streams["late"]) == late
    codec = pipeline.computations["window_counter"].state_codec
    states = [codec.decode(state) for (name, _), state in outcome.states.items() if name == "window_counter"]
    assert sum(state.dropped for state in states) == len(late)


@pytest.mark.parametrize("seed", SEEDS)
def test_order_of_arrival_changes_neither_output_nor_state(seed: int) -> None:
    log = searched(seed)
    in_order = run(log)
    for order in range(3):
        assert run(log, random=Random(order)) == in_order


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
    value = pipeline.codec("searches").encode(UserSearch("comet"))
    searches = [Emission("searches", "", value, second * SECOND + SECOND // 2) for second in (0, 60)]
    known_at_once: list[Step] = [*searches, MAX_TIME]
    for steps in (in_time_order(searches), known_at_once):
        node = Node(pipeline.computations["window_counter"], pipeline)
        node.run(steps)
        assert [emission.timestamp // SECOND - 1 for emission in node.produced] == [
            0,
            1,
            2,
            3,
            60,
            61,
            62,
            63,
        ]


@pytest.mark.parametrize("seed", range(5))
def test_planted_anomalies_stand_out_from_noise_and_trend(seed: int) -> None:
    log = searched(seed, EVENING_NEWS)
    outcome = run(log)
    spikes = outcome.anomalies(AnomalyKind.SPIKE)
    assert ("cat videos", 20 * SECOND) in spikes
    assert set(spikes) <= {("cat videos", 20 * SECOND), ("cat videos", 21 * SECOND)}
    dips = outcome.anomalies(AnomalyKind.DIP, before_us=log.end_us)
    assert ("tahrir square", 27 * SECOND) in dips
    assert {query for query, _ in dips} == {"tahrir square"}


def test_when_all_searching_ends_every_query_dips() -> None:
    dips = run(searched(1)).anomalies(AnomalyKind.DIP)
    assert ("météo", EVENING.duration_us + 2 * SEARCHES.window_us) in dips


def test_weak_detectors_report_the_same() -> None:
    weak = [name for name, spec in weak_pipeline.computations.items() if spec.productions is Productions.WEAK]
    assert weak == ["dip_detector", "spike_detector"]
    assert run(searched(1), of=weak_pipeline) == run(searched(1))


def test_each_computation_starts_in_three_intervals_and_each_has_work() -> None:
    queries = sorted(traffic.query for traffic in EVENING.traffic)
    for spec in pipeline.computations.values():
        assert len(spec.split_at) == 2
        assert {sum(boundary <= query for boundary in spec.split_at) for query in queries} == {0, 1, 2}


def test_feed_of_verify_is_small_and_needs_few_deliveries() -> None:
    for seed in SEEDS:
        small = feed(seed)
        assert 50 <= small.records <= 60
        assert 3 * SECOND < small.end_us < 6 * SECOND
        outcome = run(searched(seed))
        consumers = {stream: len(pipeline.consumers(stream)) for stream in pipeline.streams}
        deliveries = sum(len(values) * consumers[stream] for stream, values in outcome.streams.items())
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
