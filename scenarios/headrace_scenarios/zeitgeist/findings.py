"""What Zeitgeist found in the flights: its output as dips, spikes and late records (MillWheel 2, 4.5), for tables and charts.

Rule of this file: everything is read off the pipeline's output, whichever host made it; nothing is looked up in the data.
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
"""The winter storm that closed New York's airports: the first day, and the day after the last."""

_NIGHT_US = 15 * HOUR
"""Choice: reports of one airline that are less apart are one dip: at night there is too little traffic to tell."""


@dataclass(frozen=True, slots=True)
class Dip:
    """An airline's departures stayed away.

    Attributes:
        key: the airline's code.
        start_us: begin of the first bucket that was low, event time in microseconds.
        end_us: end of the last one.
        reports: buckets for which the dip was reported.
        expected: departures predicted from begin to end.
        departed: departures in time from begin to end.
    """

    key: str
    start_us: int
    end_us: int
    reports: int
    expected: float
    departed: int


@dataclass(frozen=True, slots=True)
class Findings:
    """The output of a run.

    Attributes:
        options: which flights it was of.
        comparisons: airline to its complete buckets, by begin.
        dips: by begin.
        spikes: as reported, by begin.
        late: dropped records, by airline.
    """

    options: LogOptions
    comparisons: Mapping[str, Mapping[int, Compared]]
    dips: tuple[Dip, ...]
    spikes: tuple[Anomaly, ...]
    late: Counter[str]

    def dips_in(self, days: tuple[date, date]) -> tuple[Dip, ...]:
        """Those that touch these days: the first, and the day after the last."""
        first_us, until_us = map(midnight_us, days)
        return tuple(dip for dip in self.dips if dip.start_us < until_us and dip.end_us > first_us)

    def total(self, start: int) -> tuple[float, int]:
        """All airlines together in one bucket: (expected, departed)."""
        found = [comparison[start] for comparison in self.comparisons.values() if start in comparison]
        return sum(one.expected or 0.0 for one in found), sum(one.count for one in found)

    @property
    def airlines(self) -> tuple[str, ...]:
        """The airlines, the largest first."""
        traffic = {key: sum(one.count for one in found.values()) for key, found in self.comparisons.items()}
        return tuple(sorted(traffic, key=lambda key: (-traffic[key], key)))


def find(outputs: Counter[Emitted], options: LogOptions) -> Findings:
    """Read a run's output.

    Args:
        outputs: what it sent outside.
        options: which flights it was of. When they end, every airline is silent, and rightly a dip; this is not told.
    """
    until_us = midnight_us(options.until)
    comparisons: defaultdict[str, dict[int, Compared]] = defaultdict(dict)
    for one in _values(outputs, "comparisons"):
        if one.start < until_us:
            comparisons[one.key][one.start] = one
    anomalies = [one for one in _values(outputs, "anomalies") if one.start < until_us]
    anomalies.sort(key=lambda one: (one.start, one.key))
    dips = [anomaly for anomaly in anomalies if anomaly.kind is AnomalyKind.DIP]
    return Findings(
        options,
        comparisons,
        tuple(sorted(_dips(dips, comparisons), key=lambda dip: (dip.start_us, dip.key))),
        tuple(anomaly for anomaly in anomalies if anomaly.kind is AnomalyKind.SPIKE),
        Counter(one.carrier for one in _values(outputs, "late")),
    )


def _values(outputs: Counter[Emitted], stream: str) -> Iterator[Any]:
    codec = pipeline.codec(stream)
    return (codec.decode(output.value) for output in outputs.elements() if output.stream == stream)


def _dips(reports: Iterable[Anomaly], comparisons: Mapping[str, Mapping[int, Compared]]) -> Iterator[Dip]:
    """Join the reports of an airline, hour by hour, to dips."""
    runs: defaultdict[str, list[list[int]]] = defaultdict(list)
    for report in reports:
        of_airline = runs[report.key]
        if of_airline and report.start - of_airline[-1][-1] < _NIGHT_US:
            of_airline[-1].append(report.start)
        else:
            of_airline.append([report.start])
    for key, found in runs.items():
        for starts in found:
            yield _dip(key, starts, comparisons[key])


def _dip(key: str, starts: list[int], compared: Mapping[int, Compared]) -> Dip:
    """The first report comes when confidence is high enough: so many buckets after the dip began."""
    start_us = starts[0] - (HOURLY.dip_confidence - 1) * HOURLY.window_us
    end_us = starts[-1] + HOURLY.window_us
    buckets = [one for start, one in compared.items() if start_us <= start < end_us]
    expected = sum(bucket.expected or 0.0 for bucket in buckets)
    return Dip(key, start_us, end_us, len(starts), expected, sum(bucket.count for bucket in buckets))
