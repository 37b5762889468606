"""Workloads by what their records and timers go through: stages, windows, holds, scans, errors, sources."""

import dataclasses
from collections.abc import Callable, Sequence
from random import Random

import msgspec

from headrace import (
    MAX_TIME,
    MILLISECOND,
    MIN_TIME,
    SECOND,
    Computation,
    DeadLetter,
    Pipeline,
    Productions,
    TypedCodec,
)
from headrace.history import Executed, FaultStruck, History, Published, SourceHeld
from headrace.injector.file_injector import FileInjectorSource
from headrace.wire.effects import SourceEvent, SourceWatermark
from headrace.wire.rows import StoredTimer
from headrace_properties.proof.workloads.workload import RECORDS, SHORT, Workload, city, letters, same
from headrace_properties.proof.workloads.workload_computations import (
    HOUR_US,
    Counting,
    Echo,
    Failing,
    Holding,
    Patient,
    Prompt,
    Refusing,
    Reminders,
    Slips,
    Sorter,
    Stragglers,
    SumPerSecond,
    Sums,
    TimerChain,
    Windows,
)
from headrace_sim import Feed, FeedBuilder, FeedEntry, Uniform


def tallies(productions: Productions = Productions.STRONG) -> Workload:
    """Return two stages of `SumPerSecond` over five records in some disorder.

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
    """Return a computation by key, and the same again by the keys' first letters.

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
    feed = letters(pipeline, name, late=late, records=records, quiet_us=2 * SECOND if late else 0)
    return Workload(name, pipeline, feed, SHORT, settled=exactly_once)


def late_start() -> Workload:
    """Return echoes that begin when the cluster has run for a while.

    A worker that has seen nothing yet can be replaced, by one that owns nothing else.
    """
    one = two_stages("late start", Echo)
    feed = letters(one.pipeline, "late start", begin_us=3 * SECOND)
    return dataclasses.replace(one, feed=feed, options=msgspec.structs.replace(SHORT, workers=4))


def long_quiet() -> Workload:
    """Return echoes, and then nothing for so long that all that is to be forgotten is."""
    one = two_stages("long quiet", Echo)
    return dataclasses.replace(one, feed=letters(one.pipeline, "long quiet", quiet_us=10 * SECOND))


def slow_scans(productions: Productions = Productions.STRONG, *, exactly_once: bool = True) -> Workload:
    """Return windows whose rows are scanned asynchronously (6.2), one at a time and slowly, while records come for them.

    Args:
        productions: of both stages.
        exactly_once: of both stages.
    """
    name = "slow scans" if productions is Productions.STRONG else "weak slow scans"
    one = two_stages(name, Windows, productions, exactly_once=exactly_once)
    one = one.varied(name, asynchronous_scans=True, scan_page_rows=1)
    options = msgspec.structs.replace(one.options, store_scan=Uniform(50 * MILLISECOND, 400 * MILLISECOND))
    feed = letters(one.pipeline, name, records=20, keys=["aa", "ab", "ac", "ad", "ae", "af", "ba"])
    return dataclasses.replace(one, feed=feed, options=options)


def forked() -> Workload:
    """Return two injectors; one stream that two computations read, and one computation that reads two streams."""
    pipeline = Pipeline("forked")
    pipeline.injector("letters")
    pipeline.injector("cards")
    pipeline.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"])
    pipeline.add(Windows("first"), name="first", inputs=["sent", "cards"], outputs=["first"])
    pipeline.add(Windows("second"), name="second", inputs=["sent"], outputs=["second"])
    return Workload("forked", pipeline, letters(pipeline, "forked"), SHORT, settled=True)


def holding() -> Workload:
    """Return state with a hold and wall timers, and windows behind it."""
    pipeline = Pipeline("holding")
    pipeline.injector("letters")
    pipeline.add(Holding("kept"), name="keepers", inputs=["letters"], outputs=["kept"])
    pipeline.add(Windows("sums"), name="windows", inputs=["kept"], outputs=["sums"])
    return Workload("holding", pipeline, letters(pipeline, "holding"), SHORT, settled=True)


def refusing() -> Workload:
    """Return user code that fails, with a stream for dead letters."""
    pipeline = Pipeline("refusing")
    pipeline.injector("letters")
    pipeline.add(
        Refusing(), name="readers", inputs=["letters"], outputs=["read", "unread"], on_failure=DeadLetter("unread"),
    )  # fmt: skip
    pipeline.add(Echo("done"), name="echo", inputs=["read"], outputs=["done"])
    pipeline.add(Counting(), name="clerks", inputs=["unread"], outputs=["counted"])
    return Workload("refusing", pipeline, letters(pipeline, "refusing"), SHORT, settled=True)


def failing(*, share_state: bool, crammed: bool = False) -> Workload:
    """Return user code that fails in records and timers, whose runs may share a state within a step.

    Args:
        share_state: they do.
        crammed: many records come at once.
    """
    name = "cramming" if crammed else "sharing" if share_state else "failing timers"
    pipeline = Pipeline(name)
    pipeline.injector("letters")
    pipeline.add(
        Failing(), name="adders", inputs={"letters": city}, outputs=["sums", "failed"], on_failure=DeadLetter("failed"),
        state_codec=TypedCodec(Sums), share_state=share_state,
    )  # fmt: skip
    pipeline.add(Counting(), name="clerks", inputs=["failed"], outputs=["counted"])
    records, gap_ms = (40, 3) if crammed else (16, 10)
    feed = letters(pipeline, name, records=records, gap_ms=gap_ms, lag_us=800 * MILLISECOND)
    return Workload(name, pipeline, feed, SHORT, settled=True)


def sparing() -> Workload:
    """Return many records at once, whose runs share a state that some of them do not look at."""
    pipeline = Pipeline("sparing")
    pipeline.injector("letters")
    pipeline.add(
        Failing(fails=False), name="adders", inputs={"letters": city}, outputs=["sums"], state_codec=TypedCodec(Sums),
        share_state=True,
    )  # fmt: skip
    feed = letters(pipeline, "sparing", records=40, gap_ms=3, lag_us=800 * MILLISECOND)
    one = Workload("sparing", pipeline, feed, SHORT, settled=True)
    return one.varied("sparing", commit_linger_us=10 * MILLISECOND)


def late_owners() -> Workload:
    """Return echoes whose owners take seconds to scan their rows, while their senders try again and again."""
    one = two_stages("late owners", Echo).varied("late owners", store_timeout_us=5 * SECOND)
    options = msgspec.structs.replace(one.options, store_scan=Uniform(2 * SECOND, 3 * SECOND))
    return dataclasses.replace(one, options=options)


def hurried() -> Workload:
    """Return the same, with senders that try again much sooner, and soon as seldom as they ever do."""
    one = late_owners().varied("hurried", retry_us=50 * MILLISECOND, retry_max_us=200 * MILLISECOND)
    return dataclasses.replace(one, feed=letters(one.pipeline, "hurried", begin_us=SECOND))


def crowd() -> Workload:
    """Return echoes and windows of many intervals, whose times lie within milliseconds: each interval has another watermark."""
    pipeline = Pipeline("crowd")
    keys = [f"{letter}{number}" for letter in "ab" for number in range(5)]
    pipeline.injector("letters")
    pipeline.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"], split_at=keys[1:])
    pipeline.add(Windows("sums"), name="windows", inputs=["sent"], outputs=["sums"], split_at=keys[1:])

    def feed(seed: int) -> Feed:
        random, builder, at_us = Random(f"{seed}/crowd"), FeedBuilder(pipeline), 800 * MILLISECOND
        for number in range(4 * RECORDS):
            at_us += random.randrange(20 * MILLISECOND)
            timestamp = 500 * MILLISECOND + 300 * number + random.randrange(3 * MILLISECOND)
            builder.record(at_us=at_us, value=number, timestamp=timestamp, key=random.choice(keys))
            builder.watermark(at_us=at_us + 1, low_watermark=500 * MILLISECOND + 300 * number)
        return builder.build()

    return Workload("crowd", pipeline, feed, SHORT, settled=True)


def forgetful() -> Workload:
    """Return echoes of keys that come back when their owner has forgotten them, and their rows are in the store alone (6.2)."""
    one = two_stages("forgetful", Echo).varied(
        "forgetful", cache_bytes=0, collect_period_us=100 * MILLISECOND
    )
    return dataclasses.replace(one, feed=letters(one.pipeline, "forgetful", records=8, gap_ms=1_500))


def prompt() -> Workload:
    """Return timers that are due when they are set, while more records wait for the same key.

    Beside them, windows follow a percentile watermark (7.2); of so few records, none is an outlier.
    """
    pipeline = Pipeline("prompt")
    pipeline.injector("letters")
    pipeline.add(Prompt("counts"), name="clerks", inputs=["letters"], outputs=["counts"])
    pipeline.add(
        Windows("sums"), name="windows", inputs=["letters"], outputs=["sums"], watermark_percentile=99
    )
    feed = letters(pipeline, "prompt", records=12, gap_ms=20)
    return Workload("prompt", pipeline, feed, SHORT, settled=True)


def malformed() -> Workload:
    """Return input that cannot be read, with a stream for its dead letters."""
    pipeline = Pipeline("malformed")
    pipeline.injector("letters", outputs=["letters", "unread"], on_malformed=DeadLetter("unread"))
    pipeline.add(Echo("sent"), name="senders", inputs=["letters"], outputs=["sent"])
    pipeline.add(Counting(), name="clerks", inputs=["unread"], outputs=["counted"])

    def feed(seed: int) -> Feed:
        random, builder, at_us = Random(f"{seed}/malformed"), FeedBuilder(pipeline), 300 * MILLISECOND
        for number in range(2 * RECORDS):
            at_us += random.randrange(200 * MILLISECOND)
            data = b"{" if number % 3 == 1 else str(number).encode()
            builder.raw(at_us=at_us, data=data, timestamp=at_us, key=random.choice(["ab", "ac", "ba"]))
            builder.watermark(at_us=at_us + 1, low_watermark=at_us - 300 * MILLISECOND)
        return builder.build()

    return Workload("malformed", pipeline, feed, SHORT, settled=True)


def apart() -> Workload:
    """Return two injectors with a skew limit, and one source that is hours ahead of the other (8.4): all that it has waits."""
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


def reminders() -> Workload:
    """Return wall timers that hold nothing, and a source that is quiet for long before its end."""
    pipeline = Pipeline("reminders")
    pipeline.injector("letters")
    pipeline.add(Reminders(), name="clerks", inputs=["letters"], outputs=["reminders"])
    return Workload("reminders", pipeline, letters(pipeline, "reminders", quiet_us=10 * SECOND), SHORT)


def patient() -> Workload:
    """Return user code that fails, and is tried again much later, while wall timers come due for the same keys.

    Few records share a write, rows do not stay in memory (6.2), and in the end nothing happens for a while.
    """
    pipeline = Pipeline("patient")
    pipeline.injector("letters")
    pipeline.add(
        Patient(), name="clerks", inputs={"letters": city}, outputs=["reminders", "failed"], on_failure=DeadLetter("failed"),
    )  # fmt: skip
    feed = letters(pipeline, "patient", records=24, quiet_us=3 * SECOND // 2)
    return Workload("patient", pipeline, feed, SHORT).varied(
        "patient", user_code_retry_us=300 * MILLISECOND, user_code_attempts=2, retry_us=2 * SECOND, cache_bytes=0,
        collect_period_us=100 * MILLISECOND, commit_batch=3,
    )  # fmt: skip


def uneven() -> Workload:
    """Return windows that follow a percentile watermark (7.2) of two sources, one of which is seconds behind the other."""
    pipeline = Pipeline("uneven")
    pipeline.injector("letters")
    pipeline.injector("cards")
    pipeline.add(Echo("sent"), name="senders", inputs=["letters", "cards"], outputs=["sent"])
    pipeline.add(Sorter(), name="sorters", inputs=["sent"], outputs=["sorted"], watermark_percentile=60)

    def feed(seed: int) -> Feed:
        random, builder, at_us = Random(f"{seed}/uneven"), FeedBuilder(pipeline), 300 * MILLISECOND
        for number in range(3 * RECORDS):
            at_us += random.randrange(300 * MILLISECOND)
            injector, behind_us = ("cards", 2 * SECOND) if number % 2 else ("letters", 0)
            key, timestamp = random.choice(["ab", "ac", "ba"]), max(at_us - behind_us, 0)
            builder.record(at_us=at_us, value=number, timestamp=timestamp, key=key, injector=injector)
            builder.watermark(at_us=at_us + 1, low_watermark=timestamp, injector=injector)
        return builder.build()

    return Workload("uneven", pipeline, feed, SHORT, settled=True, unexpected=_ahead_of_a_source)


def _ahead_of_a_source(history: History) -> str:
    """Say which timer went ahead of what one of the two sources had still to say (5.2, 7.2)."""
    watermarks = {"letters/0": MIN_TIME, "cards/0": MIN_TIME}
    for event in history:
        match event:
            case SourceHeld(what=SourceWatermark(low_watermark=low_us)):
                watermarks[event.process] = max(watermarks[event.process], low_us)
            case Executed(computation="sorters", timer=StoredTimer(due=due)) if due > min(
                watermarks.values()
            ):
                return f"the sorters' timer {due} fired at {event.at_us} us, and the sources had said {watermarks}"
            case _:
                pass
    return ""


def outliers() -> Workload:
    """Return windows that follow a percentile watermark (7.2), behind work that stays pending for long."""
    pipeline = Pipeline("outliers")
    pipeline.injector("letters")
    pipeline.add(Stragglers(), name="keepers", inputs=["letters"], outputs=["kept"])
    pipeline.add(Sorter(), name="sorters", inputs=["kept"], outputs=["sorted"], watermark_percentile=80)
    feed = letters(pipeline, "outliers", records=15, gap_ms=900)
    return Workload("outliers", pipeline, feed, SHORT, unexpected=_held_up)


def _held_up(history: History) -> str:
    """Say that no timer of a computation went ahead of the work that it may leave behind, if nothing disturbed the run.

    Nothing is said if its percentile was seldom ahead: no timer need have been due then.
    """
    low_us, ahead, times_ahead = MIN_TIME, 0, 0
    for event in history:
        match event:
            case FaultStruck():
                return ""
            case Published(values=values) if "keepers" in dict(values):
                progress = dict(values)["keepers"]
                low_us = progress.low_watermark
                times_ahead += any(reached > low_us for _, reached in progress.percentiles)
            case Executed(computation="sorters", timer=StoredTimer(due=due)):
                ahead += due > low_us
            case _:
                pass
    return "" if ahead or times_ahead in (1, 2) else "the sorters' timers waited for the low watermark"


def chains() -> Workload:
    """Return timers that timers set, due before others of the same key that are due already."""
    pipeline = Pipeline("chains")
    pipeline.injector("letters")
    pipeline.add(TimerChain("counts"), name="clerks", inputs={"letters": city}, outputs=["counts"])
    feed = letters(pipeline, "chains", records=8, lag_us=1_200 * MILLISECOND)
    return Workload("chains", pipeline, feed, SHORT, settled=True)


def slips() -> Workload:
    """Return `Slips` with dead letters, then a `Sorter` that follows a percentile watermark (7.2)."""
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
