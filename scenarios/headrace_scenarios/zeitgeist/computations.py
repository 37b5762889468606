"""Zeitgeist (MillWheel 2, Figures 1, 2, 3 and 9): which search queries are spiking, which are dipping?

    searches -> WindowCounter -> window_counts -> ModelCalculator -> model_updates
                                      |                                   |
                                      +-------> SpikeDetector <-----------+
                                      +-------> DipDetector   <-----------+  -> anomalies

Searches are counted in one-second buckets. A model for each query learns from the counts, and predicts the next one. Traffic far
above the prediction is a spike; traffic that stays well below it is a dip.

The output depends on the input and on which searches were late, but never on the order of arrival: wherever order would matter,
the code waits for the low watermark.

The computations are not specific to searches: `headrace_scenarios.zeitgeist.flights` runs them on real departures.
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
    OptionsError,
    Pipeline,
    Productions,
    Record,
    Timer,
    TypedCodec,
)
from headrace.api.specs import KeyExtractor
from headrace_scenarios.zeitgeist.search_traffic import (
    Disturbance,
    QueryTraffic,
    TrafficOptions,
    UserSearch,
    generate_searches,
)
from headrace_sim.feed import Feed


@dataclass(frozen=True, slots=True)
class ZeitgeistOptions:
    """Options: buckets, model and thresholds. The defaults are for searches.

    Attributes:
        window_us: width of a bucket, microseconds of event time (2: one second).
        quiet_windows: empty buckets that are counted after a key's last record; without a limit, a run would not end.
        lead_windows: how many buckets ahead the model predicts; 1: the next one.
        warm_up_windows: number of buckets that the model needs before it predicts.
        model_weight: weight of the newest bucket in the model, 0 to 1; more while the model is young.
        spike_deviations: a spike is this many standard deviations above the prediction.
        dip_factor: a bucket below this fraction of the prediction counts towards a dip.
        dip_min_expected: a bucket with a lower prediction does not count towards a dip.
        dip_confidence: low buckets in a row that make a dip (``kConfidenceThreshold`` in Figure 9).
        ends_us: event time at which the data are known to end, microseconds; no empty bucket after it counts towards a dip.
            ``None``: not known.

    Raises:
        OptionsError: an option is out of its range.
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
    ends_us: int | None = None

    def __post_init__(self) -> None:
        """Refuse options that make no sense."""
        for option in ("window_us", "lead_windows", "dip_confidence"):
            if getattr(self, option) < 1:
                raise OptionsError(option, getattr(self, option), "at least 1")
        for option in ("quiet_windows", "warm_up_windows", "spike_deviations", "dip_min_expected"):
            if getattr(self, option) < 0:
                raise OptionsError(option, getattr(self, option), "at least 0")
        for option in ("model_weight", "dip_factor"):
            if not 0 <= getattr(self, option) <= 1:
                raise OptionsError(option, getattr(self, option), "from 0 to 1")

    def start_of(self, timestamp: int) -> int:
        """Return the start of the bucket that contains an event time."""
        return timestamp - timestamp % self.window_us


SEARCHES = ZeitgeistOptions()
"""Zeitgeist's own options: buckets of one second."""


@dataclass(frozen=True, slots=True)
class WindowCount:
    """A record of ``window_counts``: a key's count in the bucket that begins at ``start``, which is complete."""

    key: str
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class RunningCount:
    """A record of a stream of running counts: as `WindowCount`, but the bucket may be incomplete."""

    key: str
    start: int
    count: int


@dataclass(frozen=True, slots=True)
class ModelUpdate:
    """A record of ``model_updates``: a key's expected traffic in the bucket that begins at ``start``."""

    key: str
    start: int
    mean: float
    deviation: float


class AnomalyKind(enum.Enum):
    """Kinds of anomalies."""

    SPIKE = "spike"
    DIP = "dip"


@dataclass(frozen=True, slots=True)
class Anomaly:
    """A record of ``anomalies``, from which an external system sends notifications (``AnomalyMessage`` in Figure 3).

    Attributes:
        key: key with the unusual traffic.
        kind: spike or dip.
        start: start of the bucket, event time in microseconds.
        count: of a dip, the bucket's count; of a spike, the smallest count above the threshold.
        expected: the model's mean.
    """

    key: str
    kind: AnomalyKind
    start: int
    count: int
    expected: float


@dataclass(frozen=True, slots=True)
class Compared:
    """A record of a stream of comparisons: a complete bucket and its prediction; ``None``: the model had none yet."""

    key: str
    start: int
    count: int
    expected: float | None


@dataclass(slots=True)
class OpenBuckets:
    """A key's open buckets, the number of its latest empty buckets, and the number of dropped records."""

    counts: dict[int, int] = field(default_factory=dict)
    quiet: int = 0
    dropped: int = 0


def behind_the_watermark(record: Record) -> bool:
    """Return whether the system found a record late (4.5)."""
    return record.late


def one_each(record: Record) -> int:
    """Count each record once."""
    del record
    return 1


class WindowCounter(Computation):
    """Counts records by key and bucket (Figure 2; the Windower of Figure 9).

    A bucket is complete when the low watermark has passed it. Late records are dropped and counted (4.5). A key that falls silent
    gets a few empty buckets, which show a dip.

    Args:
        options: options of the buckets.
        is_late: tells which records to drop.
        running: stream that gets each record's count at once, before the bucket is complete; ``""``: none.
        weight: how much a record counts, such as the count that it carries; default: 1.
    """

    def __init__(
        self,
        options: ZeitgeistOptions = SEARCHES,
        is_late: Callable[[Record], bool] = behind_the_watermark,
        running: str = "",
        weight: Callable[[Record], int] = one_each,
    ) -> None:
        self._options = options
        self._is_late = is_late
        self._running = running
        self._weight = weight

    def initial_state(self) -> OpenBuckets:
        """Start without open buckets."""
        return OpenBuckets()

    def process_record(self, context: Context, record: Record) -> None:
        """Count a record, and set a timer for the end of its bucket."""
        state: OpenBuckets = context.state
        if self._is_late(record):
            state.dropped += 1
            context.produce("late", record.value)
            return
        start = self._options.start_of(record.timestamp)
        state.counts[start] = state.counts.get(start, 0) + self._weight(record)
        context.set_timer(str(start), start + self._options.window_us)
        if self._running:
            context.produce(self._running, RunningCount(context.key, start, state.counts[start]))

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Produce the bucket, and go on to the next unless the key has been silent for too long."""
        state: OpenBuckets = context.state
        options, end = self._options, timer.timestamp
        start = end - options.window_us
        count = state.counts.pop(start, 0)
        context.produce("window_counts", WindowCount(context.key, start, count))
        state.quiet = 0 if count else state.quiet + 1
        if state.quiet < options.quiet_windows and (options.ends_us is None or end < options.ends_us):
            context.set_timer(str(end), end + options.window_us)
        else:
            state.quiet = 0  # back to the initial state: a forgotten key needs no space


@dataclass(slots=True)
class Past:
    """Exponentially weighted mean and variance of the counts of similar buckets."""

    windows: int = 0
    mean: float = 0.0
    variance: float = 0.0

    @property
    def deviation(self) -> float:
        """The standard deviation of the counts, which is at least that of a Poisson process."""
        return math.sqrt(max(self.variance, self.mean, 1.0))

    def learn(self, count: int, options: ZeitgeistOptions) -> None:
        """Add a count. The first ones weigh equally; later, the limit keeps a single spike from dominating."""
        surprise = count - self.mean
        if self.windows >= options.warm_up_windows:
            surprise = min(surprise, options.spike_deviations * self.deviation)
        self.windows += 1
        weight = max(options.model_weight, 1 / self.windows)
        self.mean += weight * surprise
        self.variance = (1 - weight) * (self.variance + weight * surprise**2)


@dataclass(slots=True)
class Model:
    """A key's history by season, and the counts not learned yet."""

    waiting: dict[int, int] = field(default_factory=dict)
    seasons: dict[str, Past] = field(default_factory=dict)


def one_season(start: int) -> str:
    """Use one season for all buckets: the model covers the latest ones."""
    del start
    return ""


class ModelCalculator(Computation):
    """Keeps the historical model of each key (Figures 1 and 2), and predicts a future bucket.

    A weighted mean depends on the order of its values, so the watermark timer takes the buckets in order.

    Args:
        options: options of the buckets and the model.
        season: maps the start of a bucket to the name of its season, "so that expected changes in traffic will not cause
            false positives" (2).
    """

    def __init__(
        self, options: ZeitgeistOptions = SEARCHES, season: Callable[[int], str] = one_season
    ) -> None:
        self._options = options
        self._season = season

    def initial_state(self) -> Model:
        """Start without history."""
        return Model()

    def process_record(self, context: Context, record: Record) -> None:
        """Keep a bucket until all earlier ones have arrived."""
        context.state.waiting[record.value.start] = record.value.count
        context.set_timer(str(record.value.start), record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Learn the bucket that ends now, and predict a future one."""
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
        """Store one side of a bucket. The largest running count is the newest, in any order of arrival."""
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

    Spikes are reported at once, without waiting for the watermark (4.6): "delayed data would only add to the total". With running
    counts a spike is known before its bucket is complete. Count and prediction may arrive in any order: the second one causes the
    report, once, with the same value and timestamp; only the record id depends on the order. The only timer deletes a bucket
    once, according to the watermark, nothing more can arrive for it.

    Args:
        options: options of the buckets and of spikes.
    """

    def __init__(self, options: ZeitgeistOptions = SEARCHES) -> None:
        self._options = options

    def initial_state(self) -> Comparison:
        """Start with nothing to compare."""
        return Comparison()

    def process_record(self, context: Context, record: Record) -> None:
        """Compare a bucket as soon as both sides have arrived."""
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
        """Delete the bucket: its other side can no longer arrive."""
        context.state.forget_until(timer.timestamp - self._options.window_us)

    def _least(self, expected: ModelUpdate) -> int:
        """Return the smallest count that is a spike."""
        return math.floor(expected.mean + self._options.spike_deviations * expected.deviation) + 1


@dataclass(slots=True)
class DipState:
    """Buckets to compare, and how many in a row were low."""

    comparison: Comparison = field(default_factory=Comparison)
    confidence: int = 0

    def update_confidence(self, count: int, expected: ModelUpdate | None, options: ZeitgeistOptions) -> bool:
        """Count low buckets in a row; return whether this one makes a dip."""
        mean = 0.0 if expected is None else expected.mean
        low = mean >= options.dip_min_expected and count < options.dip_factor * mean
        self.confidence = self.confidence + 1 if low else 0
        return self.confidence >= options.dip_confidence


class DipDetector(Computation):
    """Reports a key whose traffic stays well below the prediction (Figure 9).

    Confidence grows over consecutive buckets, so a watermark timer takes them in order. A prediction is older than the count of
    its bucket: when the timer at the count's timestamp fires, the prediction has arrived or there is none.

    Args:
        options: options of the buckets and of dips.
        comparisons: stream that gets every comparison, for a chart; ``""``: none.
    """

    def __init__(self, options: ZeitgeistOptions = SEARCHES, comparisons: str = "") -> None:
        self._options = options
        self._comparisons = comparisons

    def initial_state(self) -> DipState:
        """Start without confidence."""
        return DipState()

    def process_record(self, context: Context, record: Record) -> None:
        """Store one side of a bucket, and compare it after all earlier buckets."""
        context.state.comparison.add(record.value)
        if isinstance(record.value, WindowCount):
            context.set_timer(str(record.value.start), record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Compare a bucket's count with its prediction, and report a dip if confidence is high enough."""
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
    """Key searches by their query (``SearchQuery`` in Figure 3); everything derived from them keeps that key."""
    query: str = record.value.query
    return query


def anomaly_pipeline(
    name: str,
    source: str,
    record_type: type,
    key: KeyExtractor,
    *,
    options: ZeitgeistOptions = SEARCHES,
    season: Callable[[int], str] = one_season,
    weight: Callable[[Record], int] = one_each,
    is_late: Callable[[Record], bool] = behind_the_watermark,
    running: bool = False,
    comparisons: bool = False,
    processes: int = 1,
    split_at: tuple[str, ...] = (),
) -> Pipeline:
    """Join the computations as in Figure 1, for records of any kind.

    Args:
        name: name of the pipeline.
        source: name of its injector, and of the stream of records.
        record_type: class of their values.
        key: by what they are counted (4.2).
        options: options of buckets, model and thresholds.
        season: as for `ModelCalculator`.
        weight: as for `WindowCounter`.
        is_late: as for `WindowCounter`.
        running: whether spikes are found in running counts, before their bucket is complete, instead of in complete ones.
        comparisons: whether every comparison of the dip detector goes to the stream ``comparisons``.
        processes: number of the injector's processes.
        split_at: keys at which each computation's key space is divided from the start.
    """
    pipeline = Pipeline(name)
    pipeline.injector(source, processes=processes)
    running_counts, compared = "running_counts" * running, "comparisons" * comparisons
    types = {
        source: record_type, "late": record_type, running_counts: RunningCount, "window_counts": WindowCount,
        "model_updates": ModelUpdate, "anomalies": Anomaly, compared: Compared,
    }  # fmt: skip
    for stream, carried in types.items():
        if stream:
            pipeline.stream(stream, TypedCodec(carried))
    pipeline.add(
        WindowCounter(options, is_late, running_counts, weight),
        name="window_counter",
        inputs={source: key},
        outputs=[stream for stream in ("window_counts", running_counts, "late") if stream],
        ordered=running,  # a running count is told at each record, in whatever order they come
        state_codec=TypedCodec(OpenBuckets),
        share_state=True,
        split_at=split_at,
    )
    pipeline.add(
        ModelCalculator(options, season),
        name="model_calculator",
        inputs=["window_counts"],
        outputs=["model_updates"],
        state_codec=TypedCodec(Model),
        share_state=True,
        split_at=split_at,
    )
    pipeline.add(
        SpikeDetector(options),
        name="spike_detector",
        inputs=[running_counts or "window_counts", "model_updates"],
        outputs=["anomalies"],
        state_codec=TypedCodec(Comparison),
        share_state=True,
        split_at=split_at,
    )
    pipeline.add(
        DipDetector(options, compared),
        name="dip_detector",
        inputs=["window_counts", "model_updates"],
        outputs=[stream for stream in ("anomalies", compared) if stream],
        state_codec=TypedCodec(DipState),
        share_state=True,
        split_at=split_at,
    )
    return pipeline


def build(processes: int = 2, split_at: tuple[str, ...] = ("m", "te")) -> Pipeline:
    """Make Zeitgeist itself, which counts searches.

    Args:
        processes: number of the injector's processes.
        split_at: keys at which each computation's key space is divided from the start.
    """
    return anomaly_pipeline(
        "zeitgeist", "searches", UserSearch, search_query, processes=processes, split_at=split_at
    )


pipeline = build()
"""Zeitgeist with strong productions."""

weak_pipeline = pipeline.with_computation("spike_detector", productions=Productions.WEAK).with_computation(
    "dip_detector", productions=Productions.WEAK
)
"""Zeitgeist with weak productions where they do no harm (6.1.3).

A detector reports the same for a bucket whether count or prediction arrives second, so no report is lost or wrong. But the second
one is its cause, and after a crash the other one may be second: then the same report goes out under another id. S5-weak finds it.
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
"""A small input: a steady query, one with a trend, a spike, a dip to silence, disorder and two late searches."""


def feed(seed: int, options: TrafficOptions = EVENING) -> Feed:
    """Make the input for verifying `pipeline`.

    Args:
        seed: seed of the generator's random streams.
        options: options of the generator; default: about 55 searches in 5 seconds.
    """
    return generate_searches(pipeline, options, seed).feed
