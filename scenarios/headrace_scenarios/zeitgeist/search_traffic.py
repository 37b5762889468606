"""The source of Zeitgeist's input (MillWheel 2): search queries from a seeded generator.

Every query has a base rate that swings over the day, and planted spikes and dips on top. Searches reach the
injector's processes out of order. The source's own watermark is an estimate, "no search is more than the slack behind", and a few
stragglers break it: they are the late records of 4.5. What was planted is recorded, so that a test can compare.

Each concern draws from a random stream of its own, named by the seed, the concern and the query: one more spike or one
more query does not shift the other draws.
"""

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random

from headrace import MILLISECOND, SECOND, OptionsError, Pipeline
from headrace_sim.feed import Feed, FeedBuilder

_STEP_US = 10 * MILLISECOND


@dataclass(frozen=True, slots=True)
class UserSearch:
    """The value of a record from the source: a search. Its time is the record's timestamp.

    Attributes:
        query: text of the search.
    """

    query: str


@dataclass(frozen=True, slots=True)
class QueryTraffic:
    """The usual rate of one query.

    Attributes:
        query: its text.
        per_second: mean rate over a day, searches in a second of event time.
        swing: amplitude of the daily swing, as a fraction of the mean, 0 to 1.
        peak_us: event time of a peak, microseconds.
    """

    query: str
    per_second: float
    swing: float = 0.0
    peak_us: int = 0


@dataclass(frozen=True, slots=True)
class Disturbance:
    """An unusual stretch: a spike (factor above 1), a dip (below 1) or silence (0).

    Attributes:
        query: text of the query.
        start_us: event time at which it begins, microseconds.
        duration_us: how long it lasts.
        factor: factor of the rate.
    """

    query: str
    start_us: int
    duration_us: int
    factor: float

    def covers(self, query: str, time_us: int) -> bool:
        """Return whether it affects the query at this event time."""
        return query == self.query and self.start_us <= time_us < self.start_us + self.duration_us


@dataclass(frozen=True, slots=True)
class TrafficOptions:
    """Options of the generator. Times are microseconds of event time, by the source's clock.

    Attributes:
        traffic: the queries and their usual rates.
        duration_us: end of the searches, which begin at 0.
        disturbances: the planted spikes and dips.
        day_us: period of the daily swing.
        regularity: how even the gaps between searches are (shape of their gamma distribution): 1: a Poisson process;
            large: like a clock.
        delay_us: mean time from search to arrival, exponential, cut at the slack.
        watermark_period_us: period at which each process publishes its estimate.
        watermark_slack_us: the estimate: every search up to this long ago has arrived.
        late_share: fraction of searches that break the estimate, rounded up to whole searches.
        late_by_us: how far behind the estimate they arrive, at least; at most twice as far.
        processes: processes of the injector; each search arrives at a random one.
        pace: microseconds of event time in one of wall time: above 1, the source is replayed faster than it was written.
    """

    traffic: tuple[QueryTraffic, ...]
    duration_us: int
    disturbances: tuple[Disturbance, ...] = ()
    day_us: int = 24 * 3600 * SECOND
    regularity: float = 1.0
    delay_us: int = 100 * MILLISECOND
    watermark_period_us: int = 250 * MILLISECOND
    watermark_slack_us: int = SECOND
    late_share: float = 0.0
    late_by_us: int = SECOND
    processes: int = 2
    pace: float = 1.0

    def __post_init__(self) -> None:
        """Refuse invalid options."""
        if self.late_by_us <= self.watermark_period_us:
            wanted = "more than watermark_period_us, or late searches may be in time"
            raise OptionsError("late_by_us", self.late_by_us, wanted)
        if not 0 <= self.late_share <= 1:
            raise OptionsError("late_share", self.late_share, "between 0 and 1")
        times = ("duration_us", "day_us", "delay_us", "watermark_period_us")
        for name in (*times, "regularity", "processes", "pace"):
            if getattr(self, name) <= 0:
                raise OptionsError(name, getattr(self, name), "more than 0")


@dataclass(frozen=True, slots=True)
class SearchArrival:
    """A search on its way into the pipeline.

    Attributes:
        query: text of the search.
        timestamp: event time, microseconds.
        at_us: arrival at the injector, wall time since the start of the run, microseconds.
        process: number of the injector process that it reaches.
        late: whether it was planted to arrive behind the source's watermark.
    """

    query: str
    timestamp: int
    at_us: int
    process: int
    late: bool


@dataclass(frozen=True, slots=True)
class SearchLog:
    """The searches of a run: its input, and the ground truth for its output.

    Attributes:
        feed: the injector's input.
        arrivals: all searches by event time.
        spikes: planted stretches with more traffic than usual.
        dips: planted stretches with less.
        end_us: event time at which all searching ends. (From here on every query is silent, and rightly a dip.)
    """

    feed: Feed
    arrivals: tuple[SearchArrival, ...]
    spikes: tuple[Disturbance, ...]
    dips: tuple[Disturbance, ...]
    end_us: int

    @property
    def late(self) -> tuple[SearchArrival, ...]:
        """The searches that break the source's estimate."""
        return tuple(arrival for arrival in self.arrivals if arrival.late)

    def counts(self, window_us: int) -> Counter[tuple[str, int]]:
        """Count the searches that are not late by query and start of window."""
        in_time = (arrival for arrival in self.arrivals if not arrival.late)
        return Counter((search.query, search.timestamp - search.timestamp % window_us) for search in in_time)


def generate_searches(pipeline: Pipeline, options: TrafficOptions, seed: int) -> SearchLog:
    """Make the input of a run: the same for the same arguments, on every machine.

    Args:
        pipeline: its first injector gets the searches, on its first output, whose codec takes a `UserSearch`.
        options: options of the generator.
        seed: root of all random streams.

    Raises:
        OptionsError: the injector has fewer processes than the options say.
        CodecError: the stream's codec refuses a `UserSearch`.
    """
    arrivals = _arrivals(options, seed)
    builder = FeedBuilder(pipeline)
    for arrival in arrivals:
        builder.record(
            at_us=arrival.at_us,
            value=UserSearch(arrival.query),
            timestamp=arrival.timestamp,
            process=arrival.process,
        )
    last_us = max((arrival.at_us for arrival in arrivals), default=0) * options.pace
    for now_us in range(options.watermark_period_us, int(last_us), options.watermark_period_us):
        for process in range(options.processes):
            estimate = now_us - options.watermark_slack_us
            builder.watermark(at_us=int(now_us / options.pace), low_watermark=estimate, process=process)
    return SearchLog(
        feed=builder.build(),
        arrivals=tuple(arrivals),
        spikes=tuple(disturbance for disturbance in options.disturbances if disturbance.factor > 1),
        dips=tuple(disturbance for disturbance in options.disturbances if disturbance.factor < 1),
        end_us=options.duration_us,
    )


def _arrivals(options: TrafficOptions, seed: int) -> list[SearchArrival]:
    searches = sorted(
        (time, usual.query) for usual in options.traffic for time in _times(options, usual, seed)
    )
    delays, lateness = Random(f"{seed}/delays"), Random(f"{seed}/lateness")
    processes = Random(f"{seed}/processes")
    late = set(lateness.sample(range(len(searches)), math.ceil(options.late_share * len(searches))))
    arrivals = []
    for number, (timestamp, query) in enumerate(searches):
        delay_us = min(delays.expovariate(1 / options.delay_us), options.watermark_slack_us)
        if number in late:
            delay_us = options.watermark_slack_us + options.late_by_us * lateness.uniform(1, 2)
        at_us = int((timestamp + delay_us) / options.pace)
        process = processes.randrange(options.processes)
        arrivals.append(SearchArrival(query, timestamp, at_us, process, number in late))
    return arrivals


def _times(options: TrafficOptions, traffic: QueryTraffic, seed: int) -> Iterator[int]:
    """Yield the event times of one query's searches, one each time the rate's integral grows by the next gap."""
    gaps, places = Random(f"{seed}/gaps/{traffic.query}"), Random(f"{seed}/places/{traffic.query}")
    due = gaps.random()
    integral = 0.0
    for start_us in range(0, options.duration_us, _STEP_US):
        integral += _per_second(options, traffic, start_us) * _STEP_US / SECOND
        while integral >= due:
            yield start_us + places.randrange(_STEP_US)
            due += gaps.gammavariate(options.regularity, 1 / options.regularity)


def _per_second(options: TrafficOptions, traffic: QueryTraffic, time_us: int) -> float:
    rate = traffic.per_second
    rate *= 1 + traffic.swing * math.cos(2 * math.pi * (time_us - traffic.peak_us) / options.day_us)
    for disturbance in options.disturbances:
        if disturbance.covers(traffic.query, time_us):
            rate *= disturbance.factor
    return rate
