"""What holds a low watermark back, and what follows it (MillWheel 4.5, 4.6, 5.2, 7.2, 8.4)."""

from collections.abc import Callable

import pytest

from headrace import (
    MAX_TIME,
    MILLISECOND,
    MIN_TIME,
    SECOND,
    Clock,
    Computation,
    Context,
    OptionsError,
    Pipeline,
    Record,
    Timer,
)
from headrace import history as h
from headrace.injector.file_injector import FileInjectorSource
from headrace.wire.effects import SourceEvent
from headrace.wire.messages import Progress
from headrace_properties.results import outputs_of
from headrace_sim import FaultSchedule, Feed, FeedBuilder, FeedEntry, simulate
from headrace_sim import faults as f
from tests.sim.rig import (
    CITIES,
    HEAL_US,
    Run,
    Sorter,
    WindowCounter,
    assert_as_reference,
    assert_sound,
    city,
    letters,
    mail,
    run,
    with_engine,
)

AT = 2 * SECOND

Hook = Callable[[Context, Record], None]


class Scripted(Computation):
    """Does what a test says; timers produce their tag."""

    def __init__(self, on_record: Hook) -> None:
        self._on_record = on_record

    def process_record(self, context: Context, record: Record) -> None:
        self._on_record(context, record)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("out", timer.tag)


def scripted(on_record: Hook) -> Pipeline:
    pipeline = Pipeline("scripted")
    pipeline.injector("in")
    pipeline.add(Scripted(on_record), name="stage", inputs=["in"], outputs=["out"])
    return pipeline


def watermarks(done: Run, name: str) -> list[tuple[int, int]]:
    """(when, what) was broadcast of a computation's or injector's low watermark."""
    found = [(e.at_us, dict(e.values).get(name, Progress()).low_watermark) for e in done.all(h.Published)]
    return [(at_us, low) for at_us, low in found if low != MIN_TIME]


def fired(done: Run, computation: str) -> list[h.Executed]:
    return [
        event
        for event in done.all(h.Executed)
        if event.timer is not None and event.computation == computation
    ]


# Wall timers, and holds


def wall_pipeline(hold: bool) -> Pipeline:  # noqa: FBT001  a parameter of the tests
    def set_alarm(context: Context, record: Record) -> None:
        context.set_wall_timer("alarm", context.wall_time + SECOND, hold=record.timestamp if hold else None)

    return scripted(set_alarm)


@pytest.mark.parametrize("hold", [True, False], ids=["with a hold", "without"])
@pytest.mark.parametrize("fault", ["none", "crash", "zombie"])
def test_a_wall_timer_holds_the_watermark_if_requested(fault: str, hold: bool) -> None:  # noqa: FBT001  a parameter of the test
    """The source is long past the timer's hold when the timer rings, once, after a second of wall time."""
    pipeline = wall_pipeline(hold)
    builder = FeedBuilder(pipeline)
    builder.record(at_us=AT, value=1, timestamp=AT, key="k")
    builder.watermark(at_us=AT + 10, low_watermark=10 * SECOND)
    builder.watermark(at_us=5 * SECOND, low_watermark=11 * SECOND)
    strike: dict[str, list[f.AnyFault]] = {
        "none": [],
        "crash": [f.Crash(at_us=AT + 500 * MILLISECOND, process="worker-0", restart_after_us=SECOND)],
        "zombie": [f.Pause(at_us=AT + 500 * MILLISECOND, process="worker-0", for_us=3 * SECOND)],
    }
    done = run(pipeline, builder.build(), *strike[fault])
    assert_sound(done)
    writes = [event for event in done.all(h.Applied) if event.delta.fired]
    assert len(writes) == 1
    assert done.outputs == {("out", b'"alarm"'): 1}
    rung_us = writes[0].at_us
    assert rung_us >= AT + SECOND
    if fault == "none":
        assert rung_us < AT + SECOND + 60 * MILLISECOND
    passed_us = next(at_us for at_us, low in watermarks(done, "stage") if low > AT)
    assert passed_us > rung_us if hold else passed_us < AT + SECOND


def test_a_wall_timer_that_is_set_again_moves() -> None:
    def snooze(context: Context, record: Record) -> None:
        context.set_wall_timer("alarm", context.wall_time + SECOND, hold=record.timestamp)

    pipeline = scripted(snooze)
    builder = FeedBuilder(pipeline)
    for number in range(3):
        builder.record(at_us=AT + number * 600 * MILLISECOND, value=number, timestamp=AT, key="k")
    done = run(pipeline, builder.build())
    assert_sound(done)
    (rung,) = fired(done, "stage")
    assert rung.timer is not None
    assert rung.timer.clock is Clock.WALL
    assert 0 <= rung.at_us - (AT + 2_200 * MILLISECOND) < 60 * MILLISECOND


@pytest.mark.parametrize("fault", ["none", "crash"])
def test_a_wall_timers_productions_after_the_end_can_be_windowed(fault: str) -> None:
    """The alarm rings when the watermark is at the end of time, which no window's end could come after."""
    pipeline = wall_pipeline(hold=False)

    class Windows(WindowCounter):
        def process_record(self, context: Context, record: Record) -> None:
            context.set_timer("window", (record.timestamp // SECOND + 1) * SECOND)

        def process_timer(self, context: Context, timer: Timer) -> None:
            context.produce("counts", timer.timestamp)

    pipeline.add(Windows(), name="windows", inputs=["out"], outputs=["counts"])
    builder = FeedBuilder(pipeline)
    builder.record(at_us=AT, value=1, timestamp=AT, key="k")
    crash = f.Crash(at_us=AT + 500 * MILLISECOND, process="worker-0", restart_after_us=SECOND)
    done = run(pipeline, builder.build(), *([crash] if fault == "crash" else []))
    assert_sound(done)
    (rung,) = fired(done, "stage")
    assert rung.input_watermark == MAX_TIME
    assert done.outputs == {("counts", str(AT + SECOND).encode()): 1}


def hold_or_release(context: Context, record: Record) -> None:
    context.hold_watermark(record.timestamp if record.value == "hold" else None)
    context.produce("out", record.value)


@pytest.mark.parametrize("crash", [False, True], ids=["calm", "its owner crashes"])
def test_a_hold_of_the_state_keeps_the_watermark(crash: bool) -> None:  # noqa: FBT001  a parameter of the test
    pipeline = scripted(hold_or_release)
    builder = FeedBuilder(pipeline)
    builder.record(at_us=AT, value="hold", timestamp=AT, key="k")
    builder.watermark(at_us=AT + 10, low_watermark=10 * SECOND)
    builder.record(at_us=AT + 2 * SECOND, value="release", timestamp=10 * SECOND, key="k")
    faults = [f.Crash(at_us=AT + SECOND, process="worker-0", restart_after_us=SECOND)] if crash else []
    done = run(pipeline, builder.build(), *faults)
    assert_sound(done)
    released_us = next(e.at_us for e in done.all(h.Applied) if e.delta.hold == MAX_TIME)
    held = [low for at_us, low in watermarks(done, "stage") if at_us < released_us]
    assert held
    assert max(held) <= AT
    assert max(low for at_us, low in watermarks(done, "in") if at_us < released_us) == 10 * SECOND
    assert watermarks(done, "stage")[-1][1] == MAX_TIME


def test_a_hold_that_is_never_released_is_named_at_the_end_of_the_run() -> None:
    """Not a fault of the protocol, but of the code: the verdict says whose state it is."""
    pipeline = scripted(hold_or_release)
    builder = FeedBuilder(pipeline)
    builder.record(at_us=AT, value="hold", timestamp=AT, key="k")
    done = run(pipeline, builder.build())
    assert done.all(h.RunEnded)[0].why == "deadline"
    with pytest.raises(
        AssertionError, match=r"the state of key 'k' at 'stage' \(which holds 2\.000000s\) is pending"
    ):
        assert_sound(done)


# Percentiles


def test_a_consumer_of_a_percentile_does_not_wait_for_a_straggler() -> None:
    """Eight letters are stuck, three of them old: the strict counter waits for all, the eager one for the newer 60 %."""
    pipeline = Pipeline("mail")
    pipeline.injector("mail")
    pipeline.add(Sorter(), name="sorter", inputs=["mail"], outputs=["sorted"])
    for name, percentile in (("strict", 100.0), ("eager", 60.0)):
        pipeline.add(
            WindowCounter(), name=name, inputs={"sorted": city}, outputs=["counts", "late"], watermark_percentile=percentile
        )  # fmt: skip
    feed = letters(pipeline)
    stuck = f.Hold(
        at_us=AT - 60 * MILLISECOND, message="Deliver", source="mail/0", count=8, for_us=1_500 * MILLISECOND
    )
    options = with_engine(retry_us=3 * SECOND, retry_max_us=3 * SECOND)
    done = run(pipeline, feed, stuck, options=options)
    assert_sound(done)
    released_us = AT + 1_440 * MILLISECOND
    during = {
        name: [e for e in fired(done, name) if AT + 200 * MILLISECOND < e.at_us < released_us]
        for name in ("strict", "eager")
    }
    assert during["eager"]
    assert during["strict"] == []
    late = {
        name: [e for e in done.all(h.Executed) if e.computation == name and e.late]
        for name in ("strict", "eager")
    }
    assert late["strict"] == []
    assert len(late["eager"]) == 3


@pytest.mark.parametrize("seed", range(3))
def test_a_percentile_of_100_is_the_low_watermark(seed: int) -> None:
    pipeline = mail(watermark_percentile=100.0)
    faults = [f.Crash(at_us=AT, process="worker-0", restart_after_us=SECOND)]
    done = run(pipeline, letters(pipeline), *faults, seed=seed)
    assert_sound(done)
    assert_as_reference(done)


# Injectors


LIMIT_US = 500 * MILLISECOND


def ahead(skew_limit_us: int | None, from_us: int) -> Run:
    """Two sources: one is at its time, the other gives the next seconds all at once."""
    pipeline = Pipeline("mail")
    pipeline.injector("mail", processes=2, skew_limit_us=skew_limit_us)
    pipeline.add(Sorter(), name="sorter", inputs=["mail"], outputs=["sorted"])
    pipeline.add(WindowCounter(), name="counter", inputs={"sorted": city}, outputs=["counts", "late"])
    builder = FeedBuilder(pipeline)
    builder.watermark(at_us=SECOND, low_watermark=SECOND, process=1)
    for number in range(30):
        value = {"city": CITIES[number % len(CITIES)], "number": number}
        at_us = SECOND + number * 100 * MILLISECOND
        builder.record(at_us=at_us, value=value, timestamp=at_us, key="anna")
        builder.watermark(at_us=at_us, low_watermark=at_us)
        builder.record(at_us=from_us, value=value, timestamp=at_us + 10 * MILLISECOND, key="bruno", process=1)
        builder.watermark(at_us=from_us, low_watermark=at_us, process=1)
    done = run(pipeline, builder.build())
    assert_sound(done)
    assert_as_reference(done)
    assert [event for event in done.all(h.Executed) if event.late] == []
    return done


def farthest_ahead_us(done: Run) -> int:
    """How far a record was ahead of the slowest broadcast low watermark when it was injected; unknown ones are `SECOND`."""
    slowest = {"sorter": SECOND, "counter": SECOND}
    farthest = 0
    for event in done.history:
        if isinstance(event, h.Published):
            known = {
                name: value.low_watermark for name, value in event.values if value.low_watermark != MIN_TIME
            }
            slowest |= {name: low for name, low in known.items() if name in slowest}
        elif isinstance(event, h.Injected):
            farthest = max(farthest, event.productions[0].timestamp - min(slowest.values()))
    return farthest


def test_an_injector_with_a_skew_limit_does_not_run_ahead() -> None:
    """8.4: beyond the limit, records wait for the slowest low watermark, which the other process keeps at the wall clock."""
    assert farthest_ahead_us(ahead(LIMIT_US, 1_500 * MILLISECOND)) <= LIMIT_US


def test_an_injector_with_a_skew_limit_does_not_run_ahead_before_the_first_broadcast_either() -> None:
    assert farthest_ahead_us(ahead(LIMIT_US, SECOND)) <= LIMIT_US


def test_processes_whose_sources_begin_far_apart_do_not_run_ahead_of_each_other() -> None:
    """One source begins five seconds of event time after the other, and has given all that it has before anything is known."""
    pipeline = Pipeline("mail")
    pipeline.injector("mail", processes=2, skew_limit_us=LIMIT_US)
    pipeline.add(WindowCounter(), name="counter", inputs={"mail": city}, outputs=["counts", "late"])
    builder = FeedBuilder(pipeline)
    for number in range(20):
        value, step_us = {"city": "riva", "number": number}, number * 100 * MILLISECOND
        builder.record(at_us=SECOND + step_us, value=value, timestamp=SECOND + step_us)
        builder.watermark(at_us=SECOND + step_us, low_watermark=SECOND + step_us)
        builder.watermark(at_us=0, low_watermark=6 * SECOND + step_us, process=1)
        builder.record(at_us=0, value=value, timestamp=6 * SECOND + step_us, process=1)
    done = run(pipeline, builder.build())
    assert_sound(done)
    assert_as_reference(done)
    injected: dict[str, int] = {}
    slowest = MIN_TIME
    for event in done.history:
        if isinstance(event, h.Published):
            slowest = max(slowest, dict(event.values).get("counter", Progress()).low_watermark)
        elif isinstance(event, h.Injected):
            injected[event.process] = injected.get(event.process, 0) + 1
            assert event.productions[0].timestamp <= slowest + LIMIT_US
    assert injected == {"mail/0": 20, "mail/1": 20}


def test_without_a_skew_limit_it_runs_ahead() -> None:
    assert farthest_ahead_us(ahead(None, 1_500 * MILLISECOND)) > 4 * LIMIT_US


@pytest.mark.parametrize("fault", ["paused", "crashed", "cut off"])
def test_a_process_of_an_injector_that_is_missing_holds_the_watermark(fault: str) -> None:
    """From before the first record until the heal nobody hears of mail/1: the windows of mail/0 stay open (5.2)."""
    pipeline = mail(processes=3)
    faults: dict[str, f.AnyFault] = {
        "paused": f.Pause(at_us=500 * MILLISECOND, process="mail/1", for_us=60 * SECOND),
        "crashed": f.Crash(at_us=500 * MILLISECOND, process="mail/1"),
        "cut off": f.Partition(at_us=500 * MILLISECOND, side=("mail/1",), for_us=60 * SECOND),
    }
    done = run(pipeline, letters(pipeline), faults[fault])
    assert_sound(done)
    assert_as_reference(done)
    assert [low for at_us, low in watermarks(done, "mail") if at_us < HEAL_US] == []
    assert [event for event in fired(done, "counter") if event.at_us < HEAL_US] == []
    assert [event for event in done.all(h.Injected) if event.process == "mail/0" and event.at_us < HEAL_US]


@pytest.mark.parametrize("number", range(3))
def test_an_injectors_process_that_crashes_reads_again_and_nothing_counts_twice(number: int) -> None:
    pipeline = mail(processes=3)
    crashes = [
        f.Crash(
            at_us=AT + again * 500 * MILLISECOND, process=f"mail/{number}", restart_after_us=200 * MILLISECOND
        )
        for again in range(3)
    ]
    acks = f.Noise(at_us=SECOND, for_us=3 * SECOND, drop=0.5, kinds=("Ack",))
    done = run(pipeline, letters(pipeline), *crashes, acks)
    assert_sound(done)
    assert_as_reference(done)
    ids = [event.productions[0].record_id for event in done.all(h.Injected)]
    assert len(ids) > len(set(ids)) == 60, "some were read again"


# The file injector of Figure 10


def file_feed() -> Feed:
    """Three log files, of which the oldest is finished last; each letter is stamped within its file's time."""
    source = FileInjectorSource()
    entries: list[FeedEntry] = []

    def take(at_us: int, events: list[SourceEvent]) -> None:
        entries.extend(FeedEntry(at_us, "mail/0", event) for event in events)

    def read(at_us: int, file: str, number: int, timestamp: int) -> None:
        value = b'{"city":"%s","number":%d}' % (CITIES[number % 5].encode(), number)
        take(at_us, source.record(file, "mail", "anna", value, timestamp))

    for number, created_us in enumerate((SECOND, 2 * SECOND, 3 * SECOND)):
        take(created_us, source.receive(f"{number}.log", created_us))
        for line in range(10):
            read(
                created_us + line * 1_000,
                f"{number}.log",
                number * 10 + line,
                created_us + line * 90 * MILLISECOND,
            )
    take(3_500 * MILLISECOND, source.finish("1.log"))
    take(3_600 * MILLISECOND, source.finish("2.log"))
    read(4_400 * MILLISECOND, "0.log", 30, SECOND + 950 * MILLISECOND)
    take(4_500 * MILLISECOND, source.finish("0.log"))
    take(5 * SECOND, source.end())
    return Feed(tuple(entries))


@pytest.mark.parametrize("crash", [False, True], ids=["calm", "the injector crashes"])
def test_the_low_watermark_of_files_is_the_oldest_unfinished_one(crash: bool) -> None:  # noqa: FBT001  a parameter of the test
    """Two files are finished, and their windows stay open for the oldest one's last line, which is not late."""
    pipeline = mail()
    faults = (
        [f.Crash(at_us=3_700 * MILLISECOND, process="mail/0", restart_after_us=200 * MILLISECOND)]
        if crash
        else []
    )
    done = run(pipeline, file_feed(), *faults)
    assert_sound(done)
    assert_as_reference(done)
    assert max(low for at_us, low in watermarks(done, "mail") if at_us < 4_500 * MILLISECOND) == SECOND
    assert not any(event.late for event in done.all(h.Executed))
    assert all(event.at_us > 4_500 * MILLISECOND for event in fired(done, "counter"))
    assert sum(done.outputs.values()) == 15
    assert outputs_of(done.history).total() == 15


# Authorities


@pytest.mark.parametrize(
    "fault", [f.Crash, f.Pause, None], ids=lambda fault: fault.__name__ if fault else "calm"
)
@pytest.mark.parametrize("shard", range(2))
def test_the_authority_can_be_sharded(shard: int, fault: type[f.Fault] | None) -> None:
    """Each shard has some of the computations; one of them fails over."""
    options = with_engine(authority_shards=2)
    pipeline = mail()
    names = {
        number: [n for n in ("mail", "sorter", "counter") if options.engine.shard_of(n) == number]
        for number in range(2)
    }
    assert all(names.values())
    address = f"authority-{shard}.0"
    faults: list[f.AnyFault] = []
    if fault is f.Crash:
        faults = [f.Crash(at_us=AT, process=address, restart_after_us=3 * SECOND)]
    elif fault is f.Pause:
        faults = [f.Pause(at_us=AT, process=address, for_us=3 * SECOND)]
    done = run(pipeline, letters(pipeline), *faults, options=options)
    assert_sound(done)
    assert_as_reference(done)
    for number in range(2):
        said = {
            name
            for e in done.all(h.Published)
            if e.process.startswith(f"authority-{number}")
            for name, _ in e.values
        }
        assert said == set(names[number])
    if fault is not None:
        assert f"authority-{shard}.1" in {event.process for event in done.all(h.Published)}


def test_a_late_record_still_arrives_before_the_end_of_the_feed() -> None:
    """The last record is to come four seconds later, and the source says by a watermark of its own that it ends before."""
    pipeline = mail()
    builder = FeedBuilder(pipeline)
    for number in range(2):
        at_us = SECOND + number * SECOND
        builder.record(at_us=at_us, value={"city": "Riva", "number": number}, timestamp=at_us)
    builder.watermark(at_us=3 * SECOND, low_watermark=MAX_TIME)
    late = f.LateRecords(at_us=SECOND + 1, process="mail/0", count=1, by_us=4 * SECOND)
    history = simulate(pipeline, builder.build(), faults=FaultSchedule((late,), heal_at_us=6 * SECOND))
    assert {type(event).__name__ for event in history} >= {"FaultStruck"}
    assert len([event for event in history if isinstance(event, h.Injected)]) == 2


def test_a_record_behind_the_end_of_its_source_is_refused() -> None:
    builder = FeedBuilder(mail())
    builder.watermark(at_us=3 * SECOND, low_watermark=MAX_TIME)
    builder.record(at_us=4 * SECOND, value={"city": "Riva", "number": 1}, timestamp=0)
    with pytest.raises(
        OptionsError, match="at_us=4000000: expected before 3000000, where the source of mail/0 ends"
    ):
        builder.build()
