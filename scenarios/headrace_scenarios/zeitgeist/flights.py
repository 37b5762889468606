"""Zeitgeist on real data (MillWheel 2, Figures 1, 2 and 9): which airlines' departures are spiking, which are dipping?

    departures -> WindowCounter -> window_counts --> ModelCalculator -> model_updates
                        |                |                                |    |
                        |                +-----> DipDetector <------------+    |   -> anomalies, comparisons
                        +-> running_counts ----> SpikeDetector <---------------+   -> anomalies
                        +-> late

The computations are those of `headrace_scenarios.zeitgeist`; the records are the departures of
`headrace_scenarios.zeitgeist.flight_log`.
Departures are counted by airline and scheduled hour. The model learns hours of working days, Saturdays and Sundays separately.

* **Spikes without waiting** (4.6): every departure's count goes to the spike detector at once. The prediction is there by then:
  the model looks further ahead than the low watermark's slack.
* **Dips by low watermark** (4.5, Figure 9): an hour is judged when the watermark has passed its end. Only then is a missing
  departure known to be missing.
* **Late records** are dropped, counted, and produced to ``late`` (4.5).

The output does not depend on the host: neither on the order of arrival nor on the lag of watermarks, and the log decides which
records are late. So two hosts can be compared record by record.
"""

from datetime import date, timedelta

from headrace import HOUR, SECOND, Pipeline, Record
from headrace.api.specs import KeyExtractor
from headrace_properties.promises import Moment, at_end
from headrace_scenarios.zeitgeist.computations import ZeitgeistOptions, anomaly_pipeline
from headrace_scenarios.zeitgeist.flight_log import AIRPORTS, Departure, LogOptions, flight_log, local
from headrace_scenarios.zeitgeist.promises import buckets_in_order, late_searches_are_told
from headrace_sim.feed import Feed

HOURLY = ZeitgeistOptions(
    window_us=HOUR,
    quiet_windows=48,
    lead_windows=6,
    warm_up_windows=3,
    model_weight=0.1,
    spike_deviations=4.0,
    dip_factor=0.5,
    dip_min_expected=3.0,
    dip_confidence=3,
)
"""Options for buckets of an hour.

An hour is the shortest time in which a large airline has enough departures to judge (UA: about 9), and three in a row make a dip.
An airline is forgotten after two silent days: longer than any night or storm. Predictions are six hours ahead: the
watermark's slack of four, the bucket itself, and one for those that leave early.
"""


def by_carrier(record: Record) -> str:
    """Key departures by airline."""
    carrier: str = record.value.carrier
    return carrier


def by_destination(record: Record) -> str:
    """Key departures by destination."""
    dest: str = record.value.dest
    return dest


def is_late(record: Record) -> bool:
    """Return whether a record is late: according to the log on every host, or too late for the host from a faulty source."""
    return record.late or bool(record.value.late)


def hour_of_day(start: int) -> str:
    """Return the season of an hour in New York: hours of working days, Saturdays and Sundays are distinct.

    >>> hour_of_day(1_360_357_200_000_000)  # Friday, 8 February 2013, 4 p.m.
    'work16'
    """
    then = local(start)
    kind = {5: "sat", 6: "sun"}.get(then.weekday(), "work")
    return f"{kind}{then.hour:02}"


def build(
    key: KeyExtractor = by_carrier,
    options: ZeitgeistOptions = HOURLY,
    split_at: tuple[str, ...] = ("B", "EV", "V"),
) -> Pipeline:
    """Join the computations as in Figure 1.

    Args:
        key: the consumer's key extractor, by which departures are counted (4.2).
        options: options of the buckets.
        split_at: keys at which each computation's key space is divided from the start.
    """
    return anomaly_pipeline(
        "flights", "departures", Departure, key, options=options, season=hour_of_day, is_late=is_late, running=True,
        comparisons=True, processes=len(AIRPORTS), split_at=split_at,
    )  # fmt: skip


pipeline = build()
"""The pipeline that counts departures by airline."""


@at_end
def no_departure_is_lost(moment: Moment) -> None:
    """Each departure is late, or is counted in one hour that is compared with its prediction."""
    compared = sum(comparison.value.count for comparison in moment.outputs("comparisons"))
    late, departures = len(moment.outputs("late")), len(moment.inputs("departures"))
    assert compared + late == departures, f"{departures} departures, {compared} compared and {late} late"


promises = [buckets_in_order, late_searches_are_told, no_departure_is_lost]

SIMULATED_DAY_US = SECOND
"""Wall time of a replayed day in simulations, microseconds."""


def feed(seed: int) -> Feed:
    """Make the input for verifying `pipeline`: two days of three small airlines.

    Args:
        seed: chooses the days: 0 is the blizzard, and each next seed is a week later.

    Raises:
        NoFlightsError: the flights' data are not installed.
    """
    first = date(2013, 2, 8) + timedelta(weeks=seed % 45)
    options = LogOptions(
        first=first, until=first + timedelta(days=2), carriers=("AS", "FL", "VX"), day_us=2 * SECOND
    )
    return flight_log(options).feed(pipeline)
