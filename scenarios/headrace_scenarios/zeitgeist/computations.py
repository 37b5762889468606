"""Zeitgeist (MillWheel 2, Figures 1, 2, 3 and 9): which search queries are spiking, which are dipping?

    searches -> WindowCounter -> window_counts -> ModelCalculator -> model_updates
                                      |                                   |
                                      +-------> SpikeDetector <-----------+
                                      +-------> DipDetector   <-----------+  -> anomalies

Searches are counted in one-second buckets. A model for each query learns from the counts, and predicts the next one. Traffic far
above the prediction is a spike; traffic that stays well below it is a dip.

What comes out is a function of what went in and of which searches were late, but never of the order of arrival: wherever order
would matter, the code waits for the low watermark.

The computations know nothing of searches: `headrace_scenarios.zeitgeist.flights` runs them over real departures.
"""

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass, field

from headrace import (
    MILLISECOND,
    SECOND,
    Computation,
    Context,
    Pipeline,
    Productions,
    Record,
    Timer,
    TypedCodec,
)
from headrace_scenarios.zeitgeist.queries import (
    Disturbance,
    QueryTraffic,
    TrafficOptions,
    UserSearch,
    generate_searches,
)
from headrace_sim.feed import Feed


@dataclass(frozen=True, slots=True)
class ZeitgeistOptions:
    """What is counted in which buckets, and how far off is unusual. The defaults are for searches.

    Attributes:
        window_us: width of a bucket, microseconds of event time (2: one second).
        quiet_windows: empty buckets that are counted after a key's last record. More would tell no more, and the run could not
            end.
        lead_windows: the model predicts so many buckets ahead; 1: the next one.
        warm_up_windows: a past of fewer buckets predicts nothing.
        model_weight: part of the newest bucket in the model; more while the model is young.
        spike_deviations: a spike is this many standard deviations above the prediction.
        dip_factor: a bucket below this part of the prediction makes a dip likelier.
        dip_min_expected: where less is expected in a bucket, it is too little to tell a dip.
        dip_confidence: buckets in a row that make a dip (``kConfidenceThreshold`` in Figure 9).
    """

    window_us: int = SECOND
    quiet_windows: int = 3
    lead_windows: int = 1
    warm_up_windows: int = 3
    model_weight: float = 0.1
    spike_deviations: float = 4.0
    dip_factor: float = 0.5
    dip_min_expected: float = 1.0
    dip_confidence: int = 3

    def start_of(self, timestamp: int) -> int:
        """Begin of the bucket that an event time is in."""
        return timestamp - timestamp % self.window_us


SEARCHES = ZeitgeistOptions()
"""Zeitgeist's own buckets, of one second."""


@dataclass(frozen=True, slots=True)
class WindowCount:
    """On ``window_counts``: how often a key was seen in the bucket that begins at ``start``. The bucket is complete."""

    key: str
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class RunningCount:
    """On a stream of running counts: as `WindowCount`, but more may come."""

    key: str
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class ModelUpdate:
    """On ``model_updates``: the traffic expected for a key in the bucket that begins at ``start``."""

    key: str
    start: int
    mean: float
    deviation: float


class AnomalyKind(enum.Enum):
    """What is unusual."""

    SPIKE = "spike"
    DIP = "dip"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """On ``anomalies``: what an external system gives notice of (``AnomalyMessage`` in Figure 3).

    Attributes:
        key: whose traffic.
        kind: more than usual, or less.
        start: begin of the bucket, event time in microseconds.
        count: of a dip: the bucket's count. Of a spike: the count that gave it away, the smallest one above the threshold.
        expected: the model's mean.
    """

    key: str
    kind: AnomalyKind
    start: int
    count: int
    expected: float


@dataclass(frozen=True, slots=True)
class Compared:
    """On a stream of comparisons: a complete bucket beside what was expected; ``None``: the model could not tell yet."""

    key: str
    start: int
    count: int
    expected: float | None


@dataclass(slots=True)
class OpenBuckets:
    """A key's buckets that are still open, how many empty ones came last, and how many records were dropped."""

    counts: dict[int, int] = field(default_factory=dict)
    quiet: int = 0
    dropped: int = 0


def behind_the_watermark(record: Record) -> bool:
    """Tell whether the system found a record late (4.5)."""
    return record.late


class WindowCounter(Computation):
    """Counts records by key and bucket (Figure 2; the Windower of Figure 9).

    A bucket is done when the low watermark has passed it. Late records are dropped, and counted (4.5). A key that has fallen
    silent gets a few empty buckets: they are what a dip is seen by.

    Args:
        options: the buckets.
        is_late: tells which records are to be dropped.
        running: stream on which each record's count is told at once, before the bucket is complete; ``""``: none.
    """

    def __init__(
        self,
        options: ZeitgeistOptions = SEARCHES,
        is_late: Callable[[Record], bool] = behind_the_watermark,
        running: str = "",
    ) -> None:
        self._options = options
        self._is_late = is_late
        self._running = running

    def initial_state(self) -> OpenBuckets:
        """No bucket is open."""
        return OpenBuckets()

    def process_record(self, context: Context, record: Record) -> None:
        """Count a record, and ask to be called when its bucket is complete."""
        state: OpenBuckets = context.state
        if self._is_late(record):
            state.dropped += 1
            context.produce("late", record.value)
            return
        start = self._options.start_of(record.timestamp)
        state.counts[start] = state.counts.get(start, 0) + 1
        context.set_timer(str(start), start + self._options.window_us)
        if self._running:
            context.produce(self._running, RunningCount(context.key, start, state.counts[start]))

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Produce the bucket, and go on to the next unless it has been silent for long."""
        state: OpenBuckets = context.state
        start = timer.timestamp - self._options.window_us
        count = state.counts.pop(start, 0)
        context.produce("window_counts", WindowCount(context.key, start, count))
        state.quiet = 0 if count else state.quiet + 1
        if state.quiet < self._options.quiet_windows:
            context.set_timer(str(timer.timestamp), timer.timestamp + self._options.window_us)
        else:
            state.quiet = 0  # back to the initial state: a forgotten key takes no room


@dataclass(slots=True)
class Past:
    """Exponentially weighted mean and variance of the counts of like buckets."""

    windows: int = 0
    mean: float = 0.0
    variance: float = 0.0

    @property
    def deviation(self) -> float:
        """Standard deviation of the counts, which scatter at least as a Poisson process does."""
        return math.sqrt(max(self.variance, self.mean, 1.0))

    def learn(self, count: int, options: ZeitgeistOptions) -> None:
        """Take in one more. The first ones weigh equally; later on, no single spike passes for history."""
        surprise = count - self.mean
        if self.windows >= options.warm_up_windows:
            surprise = min(surprise, options.spike_deviations * self.deviation)
        self.windows += 1
        weight = max(options.model_weight, 1 / self.windows)
        self.mean += weight * surprise
        self.variance = (1 - weight) * (self.variance + weight * surprise**2)


@dataclass(slots=True)
class Model:
    """A key's past, by season, and the counts whose turn is still to come."""

    waiting: dict[int, int] = field(default_factory=dict)
    seasons: dict[str, Past] = field(default_factory=dict)


def one_season(start: int) -> str:
    """All buckets are alike: the model is of what came last."""
    del start
    return ""


class ModelCalculator(Computation):
    """Keeps the historical model of each key (Figures 1 and 2), and predicts a bucket to come.

    A mean that forgets depends on the order of its values: the watermark timer brings the buckets in order.

    Args:
        options: the buckets, and how the model learns.
        season: gives buckets that are alike (by the begin of each) one name, "so that expected changes in traffic will not
            cause false positives" (2).
    """

    def __init__(
        self, options: ZeitgeistOptions = SEARCHES, season: Callable[[int], str] = one_season
    ) -> None:
        self._options = options
        self._season = season

    def initial_state(self) -> Model:
        """Nothing is known."""
        return Model()

    def process_record(self, context: Context, record: Record) -> None:
        """Keep a bucket until those before it are in."""
        context.state.waiting[record.value.start] = record.value.count
        context.set_timer(str(record.value.start), record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Learn the bucket that ends now, and predict one to come."""
        model: Model = context.state
        options = self._options
        start = timer.timestamp - options.window_us
        past = model.seasons.setdefault(self._season(start), Past())
        past.learn(model.waiting.pop(start), options)
        ahead = start + options.lead_windows * options.window_us
        known = model.seasons.get(self._season(ahead), Past())
        if known.windows >= options.warm_up_windows:
            update = ModelUpdate(context.key, ahead, known.mean, known.deviation)
            context.produce("model_updates", update)


@dataclass(slots=True)
class Comparison:
    """A join by bucket: counts without their prediction, predictions without their count."""

    counts: dict[int, int] = field(default_factory=dict)
    predictions: dict[int, ModelUpdate] = field(default_factory=dict)

    def add(self, value: WindowCount | RunningCount | ModelUpdate) -> None:
        """Note one side of a bucket. Of running counts the largest is the newest, in whichever order they come."""
        match value:
            case WindowCount(start=start, count=count) | RunningCount(start=start, count=count):
                self.counts[start] = max(count, self.counts.get(start, 0))
            case ModelUpdate(start=start):
                self.predictions[start] = value

    def forget(self, start: int) -> None:
        """Drop a bucket."""
        self.counts.pop(start, None)
        self.predictions.pop(start, None)

    def forget_until(self, start: int) -> None:
        """Drop this bucket and all before it."""
        self.counts = {other: count for other, count in self.counts.items() if other > start}
        self.predictions = {other: update for other, update in self.predictions.items() if other > start}


class SpikeDetector(Computation):
    """Reports a bucket with far more traffic than predicted (Figures 1 and 3).

    Spikes are reported at once, without waiting for the watermark (4.6): "delayed data would only add to the total". From running
    counts a spike is known before its bucket is complete. Count and prediction may come in any order: whichever completes the
    evidence brings the report, once, with the same value and timestamp; only its record id tells which one it was. The one timer
    here is a broom: it sweeps out a bucket to which, says the watermark, nothing more is to come.

    Args:
        options: the buckets, and what is far more.
    """

    def __init__(self, options: ZeitgeistOptions = SEARCHES) -> None:
        self._options = options

    def initial_state(self) -> Comparison:
        """Nothing to compare."""
        return Comparison()

    def process_record(self, context: Context, record: Record) -> None:
        """Compare as soon as both sides of a bucket are there."""
        state: Comparison = context.state
        state.add(record.value)
        start, end = record.value.start, record.value.start + self._options.window_us
        count, expected = state.counts.get(start), state.predictions.get(start)
        if count is not None and expected is not None and count >= (least := self._least(expected)):
            spike = Anomaly(context.key, AnomalyKind.SPIKE, start, least, expected.mean)
            context.produce("anomalies", spike, timestamp=end)
            del state.predictions[start]  # so that it is reported once
        if isinstance(record.value, WindowCount) and expected is not None:
            state.forget(start)
        elif not isinstance(record.value, ModelUpdate):
            context.set_timer(str(start), end)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Forget the bucket: what has no counterpart gets none any more."""
        context.state.forget_until(timer.timestamp - self._options.window_us)

    def _least(self, expected: ModelUpdate) -> int:
        """The smallest count that is a spike."""
        return math.floor(expected.mean + self._options.spike_deviations * expected.deviation) + 1


@dataclass(slots=True)
class DipState:
    """What is to be compared, and for how many buckets in a row the traffic has been low."""

    comparison: Comparison = field(default_factory=Comparison)
    confidence: int = 0

    def update_confidence(self, count: int, expected: ModelUpdate | None, options: ZeitgeistOptions) -> bool:
        """Grow surer with each low bucket, start anew with any other; tell whether this one makes a dip."""
        mean = 0.0 if expected is None else expected.mean
        low = mean >= options.dip_min_expected and count < options.dip_factor * mean
        self.confidence = self.confidence + 1 if low else 0
        return self.confidence >= options.dip_confidence


class DipDetector(Computation):
    """Reports a key whose traffic stays well below the prediction (Figure 9).

    Confidence grows over consecutive buckets, so they are taken in order, by watermark timer. A prediction is older than the
    count of its bucket: when the timer at the count's timestamp fires, the prediction is there or there is none.

    Args:
        options: the buckets, and what is well below.
        comparisons: stream on which every comparison is told, for a chart; ``""``: none.
    """

    def __init__(self, options: ZeitgeistOptions = SEARCHES, comparisons: str = "") -> None:
        self._options = options
        self._comparisons = comparisons

    def initial_state(self) -> DipState:
        """No confidence."""
        return DipState()

    def process_record(self, context: Context, record: Record) -> None:
        """Keep what came, and compare when those before it are in."""
        context.state.comparison.add(record.value)
        if isinstance(record.value, WindowCount):
            context.set_timer(str(record.value.start), record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Compare a bucket's count to what was expected, and report a dip if sure enough."""
        state: DipState = context.state
        start = timer.timestamp - self._options.window_us
        count, expected = state.comparison.counts[start], state.comparison.predictions.get(start)
        state.comparison.forget_until(start)
        if state.update_confidence(count, expected, self._options) and expected is not None:
            context.produce("anomalies", Anomaly(context.key, AnomalyKind.DIP, start, count, expected.mean))
        if self._comparisons:
            mean = None if expected is None else expected.mean
            context.produce(self._comparisons, Compared(context.key, start, count, mean))


def search_query(record: Record) -> str:
    """Key the searches by their query (``SearchQuery`` in Figure 3); what is made of them keeps that key."""
    query: str = record.value.query
    return query


def build(processes: int = 2, split_at: tuple[str, ...] = ("m", "te")) -> Pipeline:
    """Join the computations as in Figure 1.

    Args:
        processes: of the injector.
        split_at: keys at which each computation's key space is divided from the start.
    """
    zeitgeist = Pipeline("zeitgeist")
    zeitgeist.injector("searches", processes=processes)
    zeitgeist.stream("searches", TypedCodec(UserSearch))
    zeitgeist.stream("late", TypedCodec(UserSearch))
    zeitgeist.stream("window_counts", TypedCodec(WindowCount))
    zeitgeist.stream("model_updates", TypedCodec(ModelUpdate))
    zeitgeist.stream("anomalies", TypedCodec(Anomaly))
    zeitgeist.add(
        WindowCounter(),
        name="window_counter",
        inputs={"searches": search_query},
        outputs=["window_counts", "late"],
        state_codec=TypedCodec(OpenBuckets),
        split_at=split_at,
    )
    zeitgeist.add(
        ModelCalculator(),
        name="model_calculator",
        inputs=["window_counts"],
        outputs=["model_updates"],
        state_codec=TypedCodec(Model),
        split_at=split_at,
    )
    zeitgeist.add(
        SpikeDetector(),
        name="spike_detector",
        inputs=["window_counts", "model_updates"],
        outputs=["anomalies"],
        state_codec=TypedCodec(Comparison),
        split_at=split_at,
    )
    zeitgeist.add(
        DipDetector(),
        name="dip_detector",
        inputs=["window_counts", "model_updates"],
        outputs=["anomalies"],
        state_codec=TypedCodec(DipState),
        split_at=split_at,
    )
    return zeitgeist


pipeline = build()
"""Zeitgeist with strong productions."""

weak_pipeline = pipeline.with_computation("spike_detector", productions=Productions.WEAK).with_computation(
    "dip_detector", productions=Productions.WEAK
)
"""Zeitgeist with weak productions where they do no harm (6.1.3).

What a detector tells of a bucket is the same whichever of count and prediction comes second, so nothing is lost or told
wrongly. But the second one is the cause, and after a crash that may be the other one: then the same words go out under another
id. S5-weak finds it.
"""

EVENING = TrafficOptions(
    traffic=(
        QueryTraffic("cat videos", per_second=1.0),
        QueryTraffic("météo", per_second=2.0),
        QueryTraffic("tahrir square", per_second=3.0),
        QueryTraffic("television listings", per_second=1.5, swing=0.5, peak_us=7 * SECOND),
    ),
    duration_us=7 * SECOND,
    disturbances=(
        Disturbance("cat videos", start_us=5 * SECOND, duration_us=SECOND, factor=10.0),
        Disturbance("tahrir square", start_us=4 * SECOND, duration_us=3 * SECOND, factor=0.0),
    ),
    day_us=28 * SECOND,
    regularity=100.0,
    delay_us=150 * MILLISECOND,
    watermark_slack_us=800 * MILLISECOND,
    late_share=0.03,
    pace=1.75,
)
"""A small evening: a steady query, one with a trend, a spike, a dip to silence, disorder and two late searches."""


def feed(seed: int, options: TrafficOptions = EVENING) -> Feed:
    """Make the input that `pipeline` is verified with.

    Args:
        seed: of the generator's random streams.
        options: what to make; default: about 55 searches in 5 seconds.
    """
    return generate_searches(pipeline, options, seed).feed
