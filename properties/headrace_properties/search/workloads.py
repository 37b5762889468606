"""Small pipelines with their input: what broken protocols are run on, and what every single fault is tried on.

A run takes a few milliseconds, so that a search can afford thousands. The engine must be sound on each of them; between them they
use every part of the protocol.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from random import Random
from typing import Any

import msgspec

from headrace import (
    MAX_TIME,
    MILLISECOND,
    MIN_TIME,
    SECOND,
    Computation,
    Context,
    DeadLetter,
    Pipeline,
    Productions,
    Record,
    Timer,
)
from headrace.history import Executed, FaultStruck, History, IntervalMinted
from headrace.injector.file_injector import FileInjectorSource
from headrace.wire.effects import SourceEvent, SourceWatermark
from headrace.wire.keys import ALL_KEYS
from headrace_properties.search.application import Application
from headrace_sim import ClusterOptions, Feed, FeedBuilder, FeedEntry, Uniform

RECORDS = 5


@dataclass(frozen=True, slots=True)
class Workload:
    """A pipeline with its input, and the cluster that it runs on.

    Attributes:
        name: what reports call it.
        pipeline: the pipeline.
        feed: makes the input from a seed.
        options: of the cluster.
        versions: further versions of the pipeline, that an operator may put in force while it runs (3).
        settled: its result depends neither on the order of arrival nor on the faults, as long as no record is late from
            the source: then it is what the plain reference makes of the feed.
        unexpected: says what in a run's History is not as it must be on this workload, in plain Python; ``""``: nothing.
    """

    name: str
    pipeline: Pipeline
    feed: Callable[[int], Feed]
    options: ClusterOptions = field(default_factory=ClusterOptions)
    settled: bool = False
    versions: tuple[Pipeline, ...] = ()
    unexpected: Callable[[History], str] = lambda _: ""

    @property
    def deployed(self) -> tuple[Pipeline, ...]:
        """All versions; the first is in force from the start."""
        return (self.pipeline, *self.versions)

    @property
    def application(self) -> Application:
        """It, as a search takes it."""
        return Application(self.deployed, self.feed)

    def varied(self, name: str, *, grace_us: int | None = None, **engine: object) -> "Workload":
        """The same under another name, with other options of the engine."""
        options = engine_options(self.options, grace_us, **engine)
        return dataclasses.replace(self, name=name, options=options)


class SumPerSecond(Computation):
    """Adds up, and tells the sum at the end of each second of event time.

    Args:
        output: the stream that the sums go to.
    """

    def __init__(self, output: str) -> None:
        self._output = output

    def initial_state(self) -> int:
        """Nothing yet."""
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        """Add a number."""
        context.state += record.value
        context.set_timer("end", record.timestamp // SECOND * SECOND + SECOND - 1)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Tell the sum."""
        del timer
        context.produce(self._output, context.state)


def city(record: Record) -> str:
    """The second stage's key: the first letter of the first stage's."""
    return record.key[0]


def tallies(productions: Productions = Productions.STRONG) -> Workload:
    """Two stages of `SumPerSecond` over five records in some disorder.

    Args:
        productions: of both stages.
    """
    pipeline = Pipeline("tallies")
    pipeline.injector("letters")
    pipeline.add(
        SumPerSecond("sent"), name="senders", inputs=["letters"], outputs=["sent"], productions=productions
    )
    pipeline.add(
        SumPerSecond("received"),
        name="cities",
        inputs={"sent": city},
        outputs=["received"],
        productions=productions,
    )

    def feed(seed: int) -> Feed:
        random, builder, at_us = Random(f"{seed}/tallies"), FeedBuilder(pipeline), 300 * MILLISECOND
        for _ in range(RECORDS):
            at_us += random.randrange(200 * MILLISECOND)
            timestamp = at_us - random.randrange(300 * MILLISECOND)
            key = random.choice(["ab", "ac", "ba"])
            builder.record(at_us=at_us, value=1, timestamp=timestamp, key=key)
            builder.watermark(at_us=at_us + 1, low_watermark=at_us - 300 * MILLISECOND)
        return builder.build()

    return Workload("tallies" if productions is Productions.STRONG else "weak tallies", pipeline, feed)


class Echo(Computation):
    """Adds up, and passes each record on.

    Args:
        output: the stream that they go to.
    """

    def __init__(self, output: str) -> None:
        self._output = output

    def initial_state(self) -> int:
        """Nothing yet."""
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        """Add a number, and pass it on."""
        context.state += record.value
        context.produce(self._output, record.value)


class Windows(Computation):
    """Adds up by the half second of event time, and tells the sum of each at its end.

    Args:
        output: the stream that the sums go to.
    """

    def __init__(self, output: str) -> None:
        self._output = output

    def process_record(self, context: Context, record: Record) -> None:
        """Add a number to its window."""
        # A record at its end is of the next one: it may still come when the watermark is there.
        end = record.timestamp // WINDOW_US * WINDOW_US + WINDOW_US
        context.state[str(end)] = context.state.get(str(end), 0) + record.value
        context.set_timer(str(end), end)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Tell a sum."""
        context.produce(self._output, context.state.pop(timer.tag, 0))


class Holding(Computation):
    """Keeps what comes for a while of wall time, and holds the watermark for it until then.

    Args:
        output: the stream that it then goes to.
    """

    def __init__(self, output: str) -> None:
        self._output = output

    def process_record(self, context: Context, record: Record) -> None:
        """Keep it."""
        kept = context.state.setdefault("kept", [])
        kept.append([record.timestamp, record.value])
        context.hold_watermark(min(timestamp for timestamp, _ in kept))
        context.set_wall_timer("pass on", context.wall_time + 300 * MILLISECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Pass all of it on, and let go."""
        del timer
        for timestamp, value in context.state.pop("kept", []):
            context.produce(self._output, value, timestamp=timestamp)
        context.clear_state()


class Prompt(Computation):
    """Sets a timer for each record that is due at once, and counts the records that overtake one: none may (4.6).

    Args:
        output: the stream that the counts go to.
    """

    def __init__(self, output: str) -> None:
        self._output = output

    def initial_state(self) -> dict[str, Any]:
        """Nothing is due, and nothing has overtaken it."""
        return {"due": [], "overtaken": 0}

    def process_record(self, context: Context, record: Record) -> None:
        """Set a timer; one that was due and is still pending was overtaken."""
        state, tag = context.state, str(record.value)
        state["overtaken"] += len(state["due"])
        if context.low_watermark >= 0:
            state["due"].append(tag)
        context.set_timer(tag, 0)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Report the count."""
        state = context.state
        state["due"] = [tag for tag in state["due"] if tag != timer.tag]
        context.produce(self._output, state["overtaken"])


class Chain(Computation):
    """Sets timers in timers: three more behind the end of each window. It counts those that fire out of order: none may (4.6).

    Args:
        output: the stream that the counts go to.
    """

    def __init__(self, output: str) -> None:
        self._output = output

    def initial_state(self) -> dict[str, int]:
        """None has fired."""
        return {"last": 0, "overtaken": 0}

    def process_record(self, context: Context, record: Record) -> None:
        """Set the first timer of its window."""
        end = record.timestamp // WINDOW_US * WINDOW_US + WINDOW_US
        context.set_timer(str(end), end)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Count, and set the next timer of the chain."""
        state, at = context.state, timer.timestamp
        state["overtaken"] += at < state["last"]
        state["last"] = max(at, state["last"])
        if timer.tag.count("+") < 3:
            context.set_timer(f"{timer.tag}+", at + WINDOW_US // 4)
        context.produce(self._output, state["overtaken"])


class Refusing(Computation):
    """Passes on what it can read, and fails on the rest."""

    def process_record(self, context: Context, record: Record) -> None:
        """Fail on every third number."""
        if record.value % 3 == 0:
            raise ValueError(record.value)
        context.produce("read", record.value)


class Counting(Computation):
    """Counts what comes, whatever it is, and says so each time."""

    def process_record(self, context: Context, record: Record) -> None:
        """One more."""
        del record
        context.state["count"] = context.state.get("count", 0) + 1
        context.produce("counted", 1)


WINDOW_US = 500 * MILLISECOND
HOUR_US = 3_600 * SECOND


def _letters(
    pipeline: Pipeline,
    name: str,
    *,
    lag_us: int = 400 * MILLISECOND,
    late: bool = False,
    records: int = RECORDS,
    quiet_us: int = 0,
    begin_us: int = 300 * MILLISECOND,
    gap_ms: int = 400,
    keys: Sequence[str] = ("ab", "ac", "ba"),
) -> Callable[[int], Feed]:
    """Numbers for a few keys in bursts and some disorder, spread over all processes of all injectors.

    Args:
        pipeline: whose input.
        name: of the random stream.
        lag_us: how far the source's watermark is behind; nothing is late from the source with 300 ms or more.
        late: some records come behind the watermark, all the same.
        records: how many.
        quiet_us: how long nothing comes before the end.
        begin_us: when the first comes, or a little later.
        gap_ms: less than this between two of them.
        keys: of the records.
    """

    def feed(seed: int) -> Feed:
        random, builder, at_us = Random(f"{seed}/{name}"), FeedBuilder(pipeline), begin_us
        doors = [
            (spec.name, number) for spec in pipeline.injectors.values() for number in range(spec.processes)
        ]
        for number in range(records):
            at_us += random.choice([0, 1, random.randrange(gap_ms)]) * MILLISECOND
            injector, process = doors[number % len(doors)]
            timestamp = at_us - random.randrange(300 * MILLISECOND)
            if late and number % 3 == 2:
                timestamp -= min(timestamp, SECOND)
            builder.record(
                at_us=at_us, value=number + 1, timestamp=timestamp, key=random.choice(keys),
                injector=injector, process=process,
            )  # fmt: skip
            for door, process in doors:
                low_us = max(at_us - lag_us, 0)
                builder.watermark(at_us=at_us + 1, low_watermark=low_us, injector=door, process=process)
        builder.watermark(at_us=at_us + quiet_us // 4 + 2, low_watermark=at_us)
        builder.watermark(at_us=at_us + quiet_us + 2, low_watermark=at_us + 1)
        return builder.build()

    return feed


def engine_options(options: ClusterOptions, grace_us: int | None = None, **engine: object) -> ClusterOptions:
    """Change options of a cluster's engine, and its ``grace_us`` if that is given."""
    changed = dataclasses.replace(options.engine, **engine)  # type: ignore[arg-type]
    return msgspec.structs.replace(options, engine=changed, grace_us=grace_us or options.grace_us)


SHORT = ClusterOptions(grace_us=15 * SECOND)
"""What has not come after so long never will; runs that never end cost the most."""


def two_stages(
    name: str,
    make: Callable[[str], Computation],
    productions: Productions = Productions.STRONG,
    *,
    exactly_once: bool = True,
    processes: int = 1,
    skew_limit_us: int | None = None,
    late: bool = False,
    records: int = RECORDS,
) -> Workload:
    """A computation by key, and the same again by the keys' first letters.

    Args:
        name: of the workload.
        make: makes the computation, for its output stream.
        productions: of both stages.
        exactly_once: of both stages.
        processes: of the injector.
        skew_limit_us: of the injector (8.4).
        late: some records are late from the source.
        records: how many records.
    """
    pipeline = Pipeline(name)
    pipeline.injector("letters", processes=processes, skew_limit_us=skew_limit_us)
    for stage, inputs, output in (
        ("senders", {"letters": same}, "sent"),
        ("cities", {"sent": city}, "received"),
    ):
        pipeline.add(
            make(output), name=stage, inputs=inputs, outputs=[output], productions=productions, exactly_once=exactly_once,
            split_at=["b"] if stage == "senders" else (),
        )  # fmt: skip
    feed = _letters(pipeline, name, late=late, records=records, quiet_us=2 * SECOND if late else 0)
    return Workload(name, pipeline, feed, SHORT, settled=exactly_once)


def late_start() -> Workload:
    """Echoes that begin when the cluster has run for a while.

    A worker can be replaced that has seen nothing yet, by one that owns nothing else.
    """
    one = two_stages("late start", Echo)
    feed = _letters(one.pipeline, "late start", begin_us=3 * SECOND)
    return dataclasses.replace(one, feed=feed, options=msgspec.structs.replace(SHORT, workers=4))


def long_quiet() -> Workload:
    """Echoes, and then nothing for so long that all that is to be forgotten is."""
    one = two_stages("long quiet", Echo)
    return dataclasses.replace(one, feed=_letters(one.pipeline, "long quiet", quiet_us=10 * SECOND))


def same(record: Record) -> str:
    """The record's own key."""
    return record.key


def slow_scans(productions: Productions = Productions.STRONG) -> Workload:
    """Windows whose rows are scanned asynchronously (6.2), one at a time and slowly, while records come for them.

    Args:
        productions: of both stages.
    """
    name = "slow scans" if productions is Productions.STRONG else "weak slow scans"
    one = two_stages(name, Windows, productions).varied(name, asynchronous_scans=True, scan_page_rows=1)
    options = msgspec.structs.replace(one.options, store_scan=Uniform(50 * MILLISECOND, 400 * MILLISECOND))
    feed = _letters(one.pipeline, name, records=20, keys=["aa", "ab", "ac", "ad", "ae", "af", "ba"])
    return dataclasses.replace(one, feed=feed, options=options)


def forked() -> Workload:
    """Two injectors; one stream that two computations read, and one computation that reads two streams."""
    pipeline = Pipeline("forked")
    pipeline.injector("letters")
    pipeline.injector("cards")
    pipeline.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"])
    pipeline.add(Windows("first"), name="first", inputs=["sent", "cards"], outputs=["first"])
    pipeline.add(Windows("second"), name="second", inputs=["sent"], outputs=["second"])
    return Workload("forked", pipeline, _letters(pipeline, "forked"), SHORT, settled=True)


def holding() -> Workload:
    """State with a hold and wall timers, and windows behind it."""
    pipeline = Pipeline("holding")
    pipeline.injector("letters")
    pipeline.add(Holding("kept"), name="keepers", inputs=["letters"], outputs=["kept"])
    pipeline.add(Windows("sums"), name="windows", inputs=["kept"], outputs=["sums"])
    return Workload("holding", pipeline, _letters(pipeline, "holding"), SHORT, settled=True)


def refusing() -> Workload:
    """User code that fails, with a stream for dead letters."""
    pipeline = Pipeline("refusing")
    pipeline.injector("letters")
    pipeline.add(
        Refusing(), name="readers", inputs=["letters"], outputs=["read", "unread"], on_failure=DeadLetter("unread"),
    )  # fmt: skip
    pipeline.add(Echo("done"), name="echo", inputs=["read"], outputs=["done"])
    pipeline.add(Counting(), name="clerks", inputs=["unread"], outputs=["counted"])
    return Workload("refusing", pipeline, _letters(pipeline, "refusing"), SHORT, settled=True)


def prompt() -> Workload:
    """Timers that are due when they are set, while more records wait for the same key.

    Beside them, windows follow a percentile watermark (7.2); of so few records, none is an outlier.
    """
    pipeline = Pipeline("prompt")
    pipeline.injector("letters")
    pipeline.add(Prompt("counts"), name="clerks", inputs=["letters"], outputs=["counts"])
    pipeline.add(
        Windows("sums"), name="windows", inputs=["letters"], outputs=["sums"], watermark_percentile=99
    )
    feed = _letters(pipeline, "prompt", records=12, gap_ms=20)
    return Workload("prompt", pipeline, feed, SHORT, settled=True)


def malformed() -> Workload:
    """Input that cannot be read, with a stream for its dead letters."""
    pipeline = Pipeline("malformed")
    pipeline.injector("letters", outputs=["letters", "unread"], on_malformed=DeadLetter("unread"))
    pipeline.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"])
    pipeline.add(Counting(), name="clerks", inputs=["unread"], outputs=["counted"])

    def feed(seed: int) -> Feed:
        random, builder, at_us = Random(f"{seed}/malformed"), FeedBuilder(pipeline), 300 * MILLISECOND
        for number in range(2 * RECORDS):
            at_us += random.randrange(200 * MILLISECOND)
            data = b"{" if number % 3 == 1 else str(number).encode()
            key = random.choice(["ab", "ac", "ba"])
            builder.raw(at_us=at_us, data=data, timestamp=at_us, key=key)
            builder.watermark(at_us=at_us + 1, low_watermark=at_us - 300 * MILLISECOND)
        return builder.build()

    return Workload("malformed", pipeline, feed, SHORT, settled=True)


def apart() -> Workload:
    """Two injectors with a skew limit, and one source that is hours ahead of the other (8.4): all that it has waits."""
    pipeline = Pipeline("apart")
    pipeline.injector("letters", skew_limit_us=HOUR_US)
    pipeline.injector("cards", skew_limit_us=HOUR_US)
    pipeline.add(Windows("sums"), name="windows", inputs=["letters", "cards"], outputs=["sums"])

    def feed(seed: int) -> Feed:
        random, builder, at_us = Random(f"{seed}/apart"), FeedBuilder(pipeline), 300 * MILLISECOND
        for number in range(2 * RECORDS):
            at_us += random.randrange(300 * MILLISECOND)
            injector, ahead_us = ("cards", 2 * HOUR_US) if number % 2 else ("letters", 0)
            key = random.choice(["ab", "ac", "ba"])
            builder.record(at_us=at_us, value=number, timestamp=at_us + ahead_us, key=key, injector=injector)
            builder.watermark(at_us=at_us + 1, low_watermark=at_us + ahead_us, injector=injector)
        return builder.build()

    return Workload("apart", pipeline, feed, SHORT, settled=True)


def draining() -> Workload:
    """Two versions: the computation that leaves has two consumers, which both wait for what it still has."""
    versions = []
    for clerk in ("auditor", "archivist"):
        one = Pipeline("draining")
        one.injector("letters")
        one.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"])
        one.add(Windows("told"), name=clerk, inputs={"sent": city}, outputs=["told"])
        one.add(Windows("sums"), name="readers", inputs=["told"], outputs=["sums"])
        one.add(Echo("copies"), name="copyists", inputs={"told": city}, outputs=["copies"])
        versions.append(one)
    feed = _letters(versions[0], "draining", records=8)
    return Workload("draining", versions[0], feed, SHORT, versions=(versions[1],))


class Reminders(Computation):
    """Answers each record a while of wall time later, and holds nothing for it."""

    def process_record(self, context: Context, record: Record) -> None:
        """Set a timer for it."""
        context.set_wall_timer(str(record.value), context.wall_time + 300 * MILLISECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Answer it."""
        context.produce("reminders", timer.tag)


def reminders() -> Workload:
    """Wall timers that hold nothing, and a source that is quiet for long before its end."""
    pipeline = Pipeline("reminders")
    pipeline.injector("letters")
    pipeline.add(Reminders(), name="clerks", inputs=["letters"], outputs=["reminders"])
    return Workload("reminders", pipeline, _letters(pipeline, "reminders", quiet_us=10 * SECOND), SHORT)


class Stragglers(Computation):
    """Passes records on, but keeps every third for two seconds of wall time, and holds the watermark for it until then."""

    def process_record(self, context: Context, record: Record) -> None:
        """Pass it on, or keep it."""
        if record.value % 3:
            context.produce("kept", record.value)
        else:
            tag = str(record.value)
            context.state[tag] = record.value
            context.set_wall_timer(tag, context.wall_time + 2 * SECOND, hold=record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Pass it on."""
        context.produce("kept", context.state.pop(timer.tag))


def outliers() -> Workload:
    """Windows that follow a percentile watermark (7.2), behind work that stays pending for long."""
    pipeline = Pipeline("outliers")
    pipeline.injector("letters")
    pipeline.add(Stragglers(), name="keepers", inputs=["letters"], outputs=["kept"])
    pipeline.add(Sorter(), name="sorters", inputs=["kept"], outputs=["sorted"], watermark_percentile=80)
    return Workload("outliers", pipeline, _letters(pipeline, "outliers", records=15, gap_ms=900), SHORT)


def chains() -> Workload:
    """Timers that timers set, due before others of the same key that are due already."""
    pipeline = Pipeline("chains")
    pipeline.injector("letters")
    pipeline.add(Chain("counts"), name="clerks", inputs={"letters": city}, outputs=["counts"])
    feed = _letters(pipeline, "chains", records=8, lag_us=1_200 * MILLISECOND)
    return Workload("chains", pipeline, feed, SHORT, settled=True)


class Slips(Computation):
    """Adds up by second of event time, with all that a step can do: holds, wall timers, cancelled timers, failures.

    A negative number is refused. While something is new, the state holds the low watermark; a wall timer lets it go.
    """

    def process_record(self, context: Context, record: Record) -> None:
        """Add a number."""
        if record.value < 0:
            raise ValueError(record.value)
        second = str(record.timestamp // SECOND)
        context.state[second] = context.state.get(second, 0) + record.value
        context.hold_watermark(record.timestamp)
        context.set_timer(second, (record.timestamp // SECOND + 1) * SECOND - 1)
        context.set_wall_timer("let go", context.wall_time + 300 * MILLISECOND, hold=record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Tell a second's sum, or let the watermark go."""
        context.hold_watermark(None)
        if timer.tag != "let go":
            context.cancel_timer("let go")
            context.produce("slips", context.state.pop(timer.tag))


class Sorter(Computation):
    """Passes on what comes when the watermark that it follows has reached it."""

    def process_record(self, context: Context, record: Record) -> None:
        """Keep it until then."""
        context.state.setdefault(str(record.timestamp), []).append(record.value)
        context.set_timer(str(record.timestamp), record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Pass it on."""
        for value in context.state.pop(timer.tag):
            context.produce("sorted", value)


def slips() -> Workload:
    """`Slips` with dead letters, then a `Sorter` that follows a percentile watermark (7.2)."""
    pipeline = Pipeline("slips")
    pipeline.injector("numbers")
    refused = DeadLetter("refused")
    pipeline.add(
        Slips(), name="adders", inputs=["numbers"], outputs=["slips"], on_failure=refused, split_at=["b"]
    )
    pipeline.add(
        Sorter(), name="sorters", inputs={"slips": city}, outputs=["sorted"], watermark_percentile=80
    )

    def feed(seed: int) -> Feed:
        random, builder, at_us = Random(f"{seed}/slips"), FeedBuilder(pipeline), 300 * MILLISECOND
        for number in range(2 * RECORDS):
            at_us += 10 * MILLISECOND + random.randrange(300 * MILLISECOND)
            timestamp = max(at_us - random.randrange(400 * MILLISECOND), 0)
            value = -1 if number == RECORDS else number + 1
            builder.record(
                at_us=at_us, value=value, timestamp=timestamp, key=random.choice(["ab", "ac", "ba"])
            )
            builder.watermark(at_us=at_us + 1, low_watermark=at_us - 400 * MILLISECOND)
        return builder.build()

    return Workload("slips", pipeline, feed)


def changing(productions: Productions = Productions.STRONG) -> Workload:
    """Two versions: one of the computations of the first is replaced by another in the second; both feed the same reader.

    Args:
        productions: of all of them.
    """
    name = "changing" if productions is Productions.STRONG else "weak changing"
    versions = []
    for clerk in ("auditor", "archivist"):
        one = Pipeline(name)
        one.injector("letters")
        one.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"], productions=productions)
        one.add(Windows("told"), name=clerk, inputs={"sent": city}, outputs=["told"], productions=productions)
        one.add(Windows("sums"), name="readers", inputs=["told"], outputs=["sums"], productions=productions)
        versions.append(one)
    return Workload(name, versions[0], _letters(versions[0], name, records=8), SHORT, versions=(versions[1],))


def gaining() -> Workload:
    """Two versions: in the second, a stream of the injector and one of a computation have one consumer more, the same one."""
    one = Pipeline("gaining")
    one.injector("letters")
    one.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"])
    one.add(Windows("sums"), name="readers", inputs={"sent": city}, outputs=["sums"])
    other = one.copy()
    other.add(Echo("copies"), name="auditor", inputs={"letters": same, "sent": city}, outputs=["copies"])
    feed = _letters(one, "gaining", records=8, gap_ms=1_500)  # long enough for a change to come in between
    return Workload("gaining", one, feed, SHORT, versions=(other,))


def withdrawing() -> Workload:
    """Two versions: a chain of two computations leaves, the first of which feeds the second, and may come back."""
    one, other = Pipeline("withdrawing"), Pipeline("withdrawing")
    for pipeline in (one, other):
        pipeline.injector("letters")
    one.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"])
    one.add(Windows("told"), name="clerks", inputs={"sent": city}, outputs=["told"])
    one.add(Windows("sums"), name="readers", inputs=["told"], outputs=["sums"])
    other.add(Windows("sums"), name="readers", inputs=["letters"], outputs=["sums"])
    feed = _letters(one, "withdrawing", records=8, gap_ms=800)
    return Workload("withdrawing", one, feed, SHORT, versions=(other,))


def files() -> Workload:
    """Log files (5.2, Figure 10): the source's watermark is the creation time of the oldest that is not read to its end."""
    pipeline = Pipeline("files")
    pipeline.injector("logs")
    pipeline.add(Windows("sums"), name="windows", inputs=["logs"], outputs=["sums"])
    return Workload("files", pipeline, read_files, SHORT, settled=True)


def read_files(seed: int) -> Feed:
    """Read a few files, some of them at once.

    Raises:
        AssertionError: the source's events are not those of Figure 10, as told by all that happened before each.
    """
    random, source = Random(f"{seed}/files"), FileInjectorSource()
    entries: list[FeedEntry] = []
    unfinished: dict[str, int] = {}
    at_us, published, newest_us, left = 300 * MILLISECOND, MIN_TIME, MIN_TIME, 4

    def take(events: Sequence[SourceEvent], expected: int | None) -> None:
        assert [type(event) for event in events] == ([] if expected is None else [SourceWatermark])
        for event in events:
            assert isinstance(event, SourceWatermark)
            assert event.low_watermark == source.low_watermark == expected
        put(events)

    def put(events: Sequence[SourceEvent]) -> None:
        for event in events:
            assert (event.offset, event.arrived_us) == (len(entries), newest_us)
            entries.append(FeedEntry(at_us, "logs/0", event))

    while left or unfinished:
        at_us += random.randrange(150) * MILLISECOND
        is_new = left and (not unfinished or random.random() < 0.4)
        name = f"{left}.log" if is_new else random.choice(sorted(unfinished))
        if is_new or random.random() < 0.4:
            if is_new:
                left -= 1
                unfinished[name] = at_us - random.randrange(200) * MILLISECOND
                newest_us = max(newest_us, unfinished[name])
                events = source.receive(name, unfinished[name])
            else:
                del unfinished[name]
                events = source.finish(name)
            oldest_us = min(unfinished.values(), default=MIN_TIME)
            published, before = max(published, oldest_us), published
            take(events, published if published > before else None)
        else:
            key, timestamp = (
                random.choice(["ab", "ac", "ba"]),
                unfinished[name] + random.randrange(300) * MILLISECOND,
            )
            (read,) = source.record(name, "logs", key, b"1", timestamp)
            assert (read.stream, read.key, read.timestamp) == ("logs", key, timestamp)  # type: ignore[union-attr]
            put([read])
        assert source.unfinished == unfinished
    take(source.end(), MAX_TIME)
    return Feed(tuple(entries))


class Witness(Computation):
    """Testifies to all that it is told."""

    def process_record(self, context: Context, record: Record) -> None:
        """Tell of a record, and set a timer of each kind."""
        context.state["count"] = context.state.get("count", 0) + record.value
        said = [record.record_id, record.key, record.stream, record.late]
        context.produce("told", [*said, *_around(context), record.timestamp])
        context.set_timer("event", record.timestamp + WINDOW_US)
        context.set_wall_timer("wall", context.wall_time + 200 * MILLISECOND)
        context.set_wall_timer("held", context.wall_time + 300 * MILLISECOND, hold=record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        """Tell of a timer."""
        said = [timer.tag, timer.clock.value, timer.timestamp]
        context.produce("told", [*said, *_around(context)], timestamp=max(context.stamp, 0))


def _around(context: Context) -> list[Any]:
    return [context.key, context.low_watermark, context.wall_time]


def witnesses() -> Workload:
    """What user code is told, of each record and timer and of the times: it is what the History says of that run."""
    pipeline = Pipeline("witnesses")
    pipeline.injector("letters")
    pipeline.add(Witness(), name="witnesses", inputs=["letters"], outputs=["told"], split_at=["b"])
    feed = _letters(pipeline, "witnesses", records=8, late=True)
    return Workload("witnesses", pipeline, feed, SHORT, unexpected=_misled)


def _misled(history: History) -> str:
    """Say what user code was told that is not so; a machine's clock is right to a second, unless somebody sets it."""
    is_set = any(isinstance(event, FaultStruck) for event in history)
    for event in history:
        if not isinstance(event, Executed) or not event.productions:
            continue
        (told,) = {production.value for production in event.productions}
        *said, wall = msgspec.json.decode(told)[: 7 if event.timer is None else 6]
        timer, low = event.timer, event.input_watermark
        if timer is None:
            if event.late != (event.timestamp < low):
                return f"{event.cause} is flagged {event.late}, and the watermark is {low}"
            expected = [event.cause, event.key, "letters", event.late, event.key, low]
        else:
            expected = [timer.tag, timer.clock.value, timer.timestamp, event.key, low]
        if said != expected or not (is_set or abs(wall - event.at_us) < 1_100 * MILLISECOND):
            return f"{event.cause} was told {said} at {wall}, and not {expected} at {event.at_us}"
    return ""


def busy() -> Workload:
    """More records for a while than an interval may have, and then none: it is split, moved and merged again (7.1)."""
    pipeline = Pipeline("busy")
    pipeline.injector("letters")
    pipeline.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"])
    keys = [f"{letter}{number}" for letter in "abcd" for number in range(3)]
    feed = _letters(
        pipeline, "busy", records=90, gap_ms=110, keys=keys, quiet_us=4 * SECOND, begin_us=700 * MILLISECOND
    )
    one = Workload("busy", pipeline, feed, SHORT, unexpected=_unbalanced)
    return one.varied(
        "busy", balance_period_us=400 * MILLISECOND, split_load=_HOT, merge_load=_COLD, overload=1.5
    )


def _unbalanced(history: History) -> str:
    """Say what was done for no load, or not done for it, if nothing disturbed the run."""
    if any(isinstance(event, FaultStruck) for event in history):
        return ""
    mints = [event for event in history if isinstance(event, IntervalMinted)]
    runs = [event for event in history if isinstance(event, Executed)]
    if mints[-1].interval != ALL_KEYS or not any(mint.interval != ALL_KEYS for mint in mints):
        return f"the key space was not divided and joined again, but ended as {mints[-1].interval}"
    if len({mint.owner for mint in mints}) < 2:
        return "nobody shared the work"
    known = {ALL_KEYS: mints[0]}
    for at_us, changes in groupby(mints[1:], lambda mint: mint.at_us):
        new = {mint.interval: mint for mint in changes}
        for interval, mint in new.items():
            hosts = [one.at_us for host, one in known.items() if host.overlaps(interval)]
            came = [run.at_us for run in runs if run.at_us < at_us and interval.contains(run.key)]
            if interval in known and known[interval].owner == mint.owner:
                return f"{interval} was minted again for its owner at {at_us} us"
            if len(hosts) == 1 and not came:
                return f"{interval} was split off at {at_us} us, and had no records"
            starts = range(at_us - 600 * MILLISECOND, at_us - _BEAT_US, 50 * MILLISECOND)
            fewest = min(sum(start <= one < start + _BEAT_US for one in came) for start in starts)
            if (
                len(hosts) > 1 and fewest >= 2 * _COLD and max(hosts) < starts[0]
            ):  # a new owner has counted few
                return f"{interval} was merged at {at_us} us, and had {fewest} records in a heartbeat"
        known = {host: told for host, told in known.items() if not any(host.overlaps(one) for one in new)}
        known |= new
    return ""


_BEAT_US = 250 * MILLISECOND
_HOT, _COLD = 5, 3
"""Records in a heartbeat's time with which an interval is split, and merged."""


def _all() -> list[Workload]:
    weak = Productions.WEAK
    echoes, windows = two_stages("echoes", Echo), two_stages("windows", Windows)
    weak_windows = two_stages("weak windows", Windows, weak)
    bursts = two_stages("bursts", Echo, records=12)
    return [
        tallies(), tallies(weak), slips(), changing(), changing(weak),
        echoes, windows, weak_windows, bursts, forked(), holding(), refusing(), late_start(),
        long_quiet(),
        two_stages("weak echoes", Echo, weak),
        two_stages("late windows", Windows, late=True),
        two_stages("two processes", Windows, processes=2),
        two_stages("at least once", Echo, weak, exactly_once=False),
        weak_windows.varied("stragglers", straggler_delay_us=MILLISECOND, sweep_period_us=2 * MILLISECOND),
        bursts.varied("crowded filter", bloom_capacity=1, bloom_error=0.9),
        bursts.varied("short memory", bloom_capacity=1, cache_bytes=0, collect_period_us=100 * MILLISECOND),
        echoes.varied("eager collection", collect_period_us=100 * MILLISECOND, id_slack_us=0),
        windows.varied("no cache", cache_bytes=0),
        windows.varied("one row a page", scan_page_rows=1),
        gaining(),
        prompt(),
        two_stages("limited", Windows, skew_limit_us=100 * MILLISECOND).varied("limited", cache_bytes=300),
        chains(),
        slow_scans(), slow_scans(weak),
        outliers(),
        reminders(),
        malformed(), apart(), draining(),
        withdrawing(), files(), witnesses(), busy(),
        windows.varied("two shards", authority_shards=2),
    ]  # fmt: skip


WORKLOADS: dict[str, Workload] = {workload.name: workload for workload in _all()}
"""By name."""
