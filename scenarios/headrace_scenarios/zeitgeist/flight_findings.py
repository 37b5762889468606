"""Zeitgeist's findings in the flights: dips, spikes and late records (MillWheel 2, 4.5), for tables and charts.

Rule of this file: everything comes from the pipeline's output, on any host; nothing is looked up in the data.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from headrace import HOUR
from headrace_properties.reference import Emitted
from headrace_scenarios.zeitgeist.computations import Anomaly, AnomalyKind, Compared
from headrace_scenarios.zeitgeist.flight_log import LogOptions, midnight_us
from headrace_scenarios.zeitgeist.flights import HOURLY, pipeline

BLIZZARD = (date(2013, 2, 8), date(2013, 2, 10))
"""The winter storm that closed New York's airports: start date and end date (exclusive)."""

_NIGHT_US = 15 * HOUR
"""Choice: reports of one airline that are closer than this are one dip, because there is too little traffic at night."""


@dataclass(frozen=True, slots=True)
class Dip:
    """Missing departures of an airline.

    Attributes:
        key: the airline's code.
        start_us: start of the first low bucket, event time in microseconds.
        end_us: end of the last low bucket.
        reports: number of buckets for which the dip was reported.
        expected: departures predicted in this time.
        departed: departures that were not late, in this time.
    """

    key: str
    start_us: int
    end_us: int
    reports: int
    expected: float
    departed: int


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings of a run.

    Attributes:
        options: the flights that it read.
        comparisons: complete buckets by airline and start.
        dips: dips by start.
        spikes: reported spikes by start.
        late: number of dropped records by airline.
    """

    options: LogOptions
    comparisons: Mapping[str, Mapping[int, Compared]]
    dips: tuple[Dip, ...]
    spikes: tuple[Anomaly, ...]
    late: Counter[str]

    def dips_in(self, days: tuple[date, date]) -> tuple[Dip, ...]:
        """Return the dips that overlap these days: start date and end date (exclusive)."""
        first_us, until_us = map(midnight_us, days)
        return tuple(dip for dip in self.dips if dip.start_us < until_us and dip.end_us > first_us)

    def total(self, start: int) -> tuple[float, int]:
        """Return the totals of all airlines in one bucket: (expected, departed)."""
        buckets = [comparison[start] for comparison in self.comparisons.values() if start in comparison]
        return sum(bucket.expected or 0.0 for bucket in buckets), sum(bucket.count for bucket in buckets)

    @property
    def airlines(self) -> tuple[str, ...]:
        """The airlines, largest first."""
        traffic = {
            key: sum(bucket.count for bucket in buckets.values()) for key, buckets in self.comparisons.items()
        }
        return tuple(sorted(traffic, key=lambda key: (-traffic[key], key)))


def find(outputs: Counter[Emitted], options: LogOptions) -> Findings:
    """Derive the findings from a run's output.

    Args:
        outputs: the run's outputs.
        options: the flights that it read. After their end every airline is silent; these dips are left out.
    """
    until_us = midnight_us(options.until)
    comparisons: defaultdict[str, dict[int, Compared]] = defaultdict(dict)
    for bucket in _values(outputs, "comparisons"):
        if bucket.start < until_us:
            comparisons[bucket.key][bucket.start] = bucket
    anomalies = [anomaly for anomaly in _values(outputs, "anomalies") if anomaly.start < until_us]
    anomalies.sort(key=lambda anomaly: (anomaly.start, anomaly.key))
    dips = [anomaly for anomaly in anomalies if anomaly.kind is AnomalyKind.DIP]
    return Findings(
        options,
        comparisons,
        tuple(sorted(_dips(dips, comparisons), key=lambda dip: (dip.start_us, dip.key))),
        tuple(anomaly for anomaly in anomalies if anomaly.kind is AnomalyKind.SPIKE),
        Counter(departure.carrier for departure in _values(outputs, "late")),
    )


def _values(outputs: Counter[Emitted], stream: str) -> Iterator[Any]:
    codec = pipeline.codec(stream)
    return (codec.decode(output.value) for output in outputs.elements() if output.stream == stream)


def _dips(reports: Iterable[Anomaly], comparisons: Mapping[str, Mapping[int, Compared]]) -> Iterator[Dip]:
    """Join an airline's hourly reports into dips."""
    runs: defaultdict[str, list[list[int]]] = defaultdict(list)
    for report in reports:
        of_airline = runs[report.key]
        if of_airline and report.start - of_airline[-1][-1] < _NIGHT_US:
            of_airline[-1].append(report.start)
        else:
            of_airline.append([report.start])
    for key, airline_runs in runs.items():
        for starts in airline_runs:
            yield _dip(key, starts, comparisons[key])


def _dip(key: str, starts: list[int], compared: Mapping[int, Compared]) -> Dip:
    """Return how many buckets after the start of a dip its first report comes, once confidence is high enough."""
    start_us = starts[0] - (HOURLY.dip_confidence - 1) * HOURLY.window_us
    end_us = starts[-1] + HOURLY.window_us
    buckets = [one for start, one in compared.items() if start_us <= start < end_us]
    expected = sum(bucket.expected or 0.0 for bucket in buckets)
    return Dip(key, start_us, end_us, len(starts), expected, sum(bucket.count for bucket in buckets))
