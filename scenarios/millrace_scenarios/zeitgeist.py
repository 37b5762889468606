"""Zeitgeist (MillWheel 2, Figures 1, 2, 3 and 9): which search queries are spiking, which are dipping?

    searches -> WindowCounter -> window_counts -> ModelCalculator -> model_updates
                                      |                                   |
                                      +-------> SpikeDetector <-----------+
                                      +-------> DipDetector   <-----------+  -> anomalies

Searches are counted in one-second buckets. A model for each query learns from the counts, and predicts the next one. Traffic far
above the prediction is a spike; traffic that stays well below it is a dip.

What comes out is a function of what went in and of which searches were late, but never of the order of arrival: wherever order
would matter, the code waits for the low watermark.
"""

import enum
import math
from dataclasses import dataclass, field

from millrace import (
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
from millrace_scenarios.queries import Disturbance, QueryTraffic, Search, SearchOptions, generate_searches
from millrace_sim.feed import Feed

WINDOW_US = SECOND
"""Width of a bucket (2)."""

QUIET_WINDOWS = 3
"""Empty buckets that are counted after a query's last search. More would tell no more, and the run could not end."""

WARM_UP_WINDOWS = 3
"""A model that has seen fewer buckets predicts nothing."""

MODEL_WEIGHT = 0.1
"""Part of the newest bucket in the model; more while the model is young."""

SPIKE_DEVIATIONS = 4.0
"""A spike is this many standard deviations above the prediction."""

DIP_FACTOR = 0.5
"""A bucket below this part of the prediction makes a dip likelier."""

DIP_MIN_EXPECTED = 1.0
"""Queries that are expected less often in a bucket are too rare to tell."""

DIP_CONFIDENCE = 3
"""Buckets in a row that make a dip (``kConfidenceThreshold`` in Figure 9)."""


@dataclass(frozen=True, slots=True)
class WindowCount:
    """On ``window_counts``: how often a query was searched for in the bucket that begins at ``start``."""

    query: str
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class ModelUpdate:
    """On ``model_updates``: the traffic expected for a query in the bucket that begins at ``start``."""

    query: str
    start: int
    mean: float
    deviation: float


class AnomalyKind(enum.Enum):
    """What is unusual."""

    SPIKE = "spike"
    DIP = "dip"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """On ``anomalies``: what an external system gives notice of (``AnomalyMessage`` in Figure 3)."""

    query: str
    kind: AnomalyKind
    start: int
    count: int
    expected: float


@dataclass(slots=True)
class WindowState:
    """A query's buckets that are still open, how many empty ones came last, and how many searches were dropped."""

    counts: dict[int, int] = field(default_factory=dict)
    quiet: int = 0
    dropped: int = 0


class WindowCounter(Computation):
    """Counts searches by query and one-second bucket (Figure 2; the Windower of Figure 9).

    A bucket is done when the low watermark has passed it. Late searches are dropped, and counted (4.5). A query that has fallen
    silent gets a few empty buckets: they are what a dip is seen by.
    """

    def initial_state(self) -> WindowState:
        """No bucket is open."""
        return WindowState()

    def process_record(self, context: Context, record: Record) -> None:
        """Count a search, and ask to be called when its bucket is complete."""
        state: WindowState = context.state
        if record.late:
            state.dropped += 1
            context.produce("late", record.value)
            return
        start = record.timestamp - record.timestamp % WINDOW_US
        state.counts[start] = state.counts.get(start, 0) + 1
        context.set_timer(str(start), start + WINDOW_US)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Produce the bucket, and go on to the next unless it has been silent for long."""
        state: WindowState = context.state
        start = timer.timestamp - WINDOW_US
        count = state.counts.pop(start, 0)
        context.produce("window_counts", WindowCount(context.key, start, count))
        state.quiet = 0 if count else state.quiet + 1
        if state.quiet < QUIET_WINDOWS:
            context.set_timer(str(timer.timestamp), timer.timestamp + WINDOW_US)
        else:
            state.quiet = 0  # back to the initial state: a forgotten query takes no room


@dataclass(slots=True)
class Model:
    """A query's past: exponentially weighted mean and variance of its counts, and the counts whose turn is still to come."""

    waiting: dict[int, int] = field(default_factory=dict)
    windows: int = 0
    mean: float = 0.0
    variance: float = 0.0

    @property
    def deviation(self) -> float:
        """Standard deviation of the counts, which scatter at least as a Poisson process does."""
        return math.sqrt(max(self.variance, self.mean, 1.0))

    @property
    def ready(self) -> bool:
        """It has seen enough to predict."""
        return self.windows >= WARM_UP_WINDOWS

    def learn(self, count: int) -> None:
        """Take in the next bucket. The first ones weigh equally; later on, no single spike passes for history."""
        surprise = count - self.mean
        if self.ready:
            surprise = min(surprise, SPIKE_DEVIATIONS * self.deviation)
        self.windows += 1
        weight = max(MODEL_WEIGHT, 1 / self.windows)
        self.mean += weight * surprise
        self.variance = (1 - weight) * (self.variance + weight * surprise**2)


class ModelCalculator(Computation):
    """Keeps the historical model of each query (Figures 1 and 2), and predicts the next bucket.

    A mean that forgets depends on the order of its values: the watermark timer brings the buckets in order.
    """

    def initial_state(self) -> Model:
        """Nothing is known."""
        return Model()

    def process_record(self, context: Context, record: Record) -> None:
        """Keep a bucket until those before it are in."""
        context.state.waiting[record.value.start] = record.value.count
        context.set_timer(str(record.value.start), record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Learn the bucket, and predict the one after it, which begins now."""
        model: Model = context.state
        model.learn(model.waiting.pop(timer.timestamp - WINDOW_US))
        if model.ready:
            update = ModelUpdate(context.key, timer.timestamp, model.mean, model.deviation)
            context.produce("model_updates", update)


@dataclass(slots=True)
class Comparison:
    """A join of the two streams by bucket: counts without their prediction, predictions without their count."""

    counts: dict[int, int] = field(default_factory=dict)
    predictions: dict[int, ModelUpdate] = field(default_factory=dict)

    def add(self, value: WindowCount | ModelUpdate) -> None:
        """Note one side of a bucket."""
        match value:
            case WindowCount(start=start, count=count):
                self.counts[start] = count
            case ModelUpdate(start=start):
                self.predictions[start] = value

    def is_complete(self, start: int) -> bool:
        """Tell whether both sides of a bucket are there."""
        return start in self.counts and start in self.predictions

    def forget_until(self, start: int) -> None:
        """Drop this bucket and all before it."""
        self.counts = {other: count for other, count in self.counts.items() if other > start}
        self.predictions = {other: update for other, update in self.predictions.items() if other > start}


class SpikeDetector(Computation):
    """Reports a bucket with far more traffic than predicted (Figures 1 and 3).

    Spikes are reported at once, without timers (4.6). Count and prediction may come in either order: whichever is second brings
    the report, with the same value and timestamp; only its record id tells which one it was. The one timer here is a broom:
    it sweeps out a count for which, says the watermark, no prediction is to come.
    """

    def initial_state(self) -> Comparison:
        """Nothing to compare."""
        return Comparison()

    def process_record(self, context: Context, record: Record) -> None:
        """Compare as soon as both sides of a bucket are there."""
        state: Comparison = context.state
        state.add(record.value)
        start = record.value.start
        if state.is_complete(start):
            count, expected = state.counts.pop(start), state.predictions.pop(start)
            if count > expected.mean + SPIKE_DEVIATIONS * expected.deviation:
                spike = Anomaly(context.key, AnomalyKind.SPIKE, start, count, expected.mean)
                context.produce("anomalies", spike, timestamp=start + WINDOW_US)
        elif start in state.counts:
            context.set_timer(str(start), record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Forget what has no counterpart."""
        context.state.forget_until(timer.timestamp - WINDOW_US)


@dataclass(slots=True)
class DipState:
    """What is to be compared, and for how many buckets in a row the traffic has been low."""

    comparison: Comparison = field(default_factory=Comparison)
    confidence: int = 0

    def update_confidence(self, count: int, expected: ModelUpdate | None) -> None:
        """Grow surer with each low bucket; start anew with any other."""
        mean = 0.0 if expected is None else expected.mean
        low = mean >= DIP_MIN_EXPECTED and count < DIP_FACTOR * mean
        self.confidence = self.confidence + 1 if low else 0


class DipDetector(Computation):
    """Reports a query whose traffic stays well below the prediction (Figure 9).

    Confidence grows over consecutive buckets, so they are taken in order, by watermark timer. A prediction is older than the
    count of its bucket: when the timer at the count's timestamp fires, the prediction is there or there is none.
    """

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
        start = timer.timestamp - WINDOW_US
        count, expected = state.comparison.counts[start], state.comparison.predictions.get(start)
        state.comparison.forget_until(start)
        state.update_confidence(count, expected)
        if expected is not None and state.confidence >= DIP_CONFIDENCE:
            context.produce("anomalies", Anomaly(context.key, AnomalyKind.DIP, start, count, expected.mean))


def search_query(record: Record) -> str:
    """Key every stream by the query (``SearchQuery`` in Figure 3)."""
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
    zeitgeist.stream("searches", TypedCodec(Search))
    zeitgeist.stream("late", TypedCodec(Search))
    zeitgeist.stream("window_counts", TypedCodec(WindowCount))
    zeitgeist.stream("model_updates", TypedCodec(ModelUpdate))
    zeitgeist.stream("anomalies", TypedCodec(Anomaly))
    zeitgeist.add(
        WindowCounter(),
        name="window_counter",
        inputs={"searches": search_query},
        outputs=["window_counts", "late"],
        state_codec=TypedCodec(WindowState),
        split_at=split_at,
    )
    zeitgeist.add(
        ModelCalculator(),
        name="model_calculator",
        inputs={"window_counts": search_query},
        outputs=["model_updates"],
        state_codec=TypedCodec(Model),
        split_at=split_at,
    )
    zeitgeist.add(
        SpikeDetector(),
        name="spike_detector",
        inputs={"window_counts": search_query, "model_updates": search_query},
        outputs=["anomalies"],
        state_codec=TypedCodec(Comparison),
        split_at=split_at,
    )
    zeitgeist.add(
        DipDetector(),
        name="dip_detector",
        inputs={"window_counts": search_query, "model_updates": search_query},
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

EVENING = SearchOptions(
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


def feed(seed: int, options: SearchOptions = EVENING) -> Feed:
    """Make the input that `pipeline` is verified with.

    Args:
        seed: of the generator's random streams.
        options: what to make; default: about 55 searches in 5 seconds.
    """
    return generate_searches(pipeline, options, seed).feed
