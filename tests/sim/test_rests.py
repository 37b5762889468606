"""A source may be silent for hours: that time is skipped, and nothing else is."""

import pytest

from headrace import HOUR, MINUTE, SECOND, Computation, Context, Pipeline, Record, Timer
from headrace.history import (
    Applied,
    Executed,
    History,
    Injected,
    IntervalMinted,
    Resent,
    Rested,
    RoleClaimed,
    SourceHeld,
)
from headrace_properties.results import outputs_of
from headrace_sim import (
    Arrivals,
    ClusterOptions,
    Does,
    FaultSchedule,
    Feed,
    FeedBuilder,
    Priorities,
    Step,
    StepFault,
    simulate,
    start,
)
from headrace_sim import faults as f
from tests.sim.rig import (
    Run,
    Sorter,
    assert_as_reference,
    assert_sound,
    calm_owner,
    finished,
    letters,
    mail,
    with_engine,
)

LATER_US = HOUR // 2
EVENTS = 50_000
"""As many as ten minutes of heartbeats and renewals have."""


class Reminder(Computation):
    """Answers a record half an hour later, and holds the watermark for it."""

    def process_record(self, context: Context, record: Record) -> None:
        context.set_wall_timer(str(record.value), context.wall_time + LATER_US, hold=record.timestamp)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("reminders", timer.tag)


def reminders() -> tuple[Pipeline, Feed]:
    """Two records, a day apart; the reminder of the second comes after all sources have ended."""
    pipeline = Pipeline("reminders")
    pipeline.injector("notes")
    pipeline.add(Reminder(), name="reminder", inputs=["notes"], outputs=["reminders"])
    builder = FeedBuilder(pipeline)
    for number, at_us in enumerate((SECOND, 24 * HOUR)):
        builder.record(at_us=at_us, value=number, timestamp=at_us, key="a")
        builder.watermark(at_us=at_us, low_watermark=at_us)
    return pipeline, builder.build()


def run(
    pipeline: Pipeline, feed: Feed, *faults: f.AnyFault | StepFault, heal_at_us: int = 0, options: ClusterOptions | None = None
) -> Run:  # fmt: skip
    """Run to the end, in few events."""
    timed = tuple(fault for fault in faults if not isinstance(fault, StepFault))
    tied = tuple(fault for fault in faults if isinstance(fault, StepFault))
    schedule = FaultSchedule(timed, heal_at_us, at_steps=tied)
    cluster = start(pipeline, feed, faults=schedule, options=options)
    cluster.kernel.most_events = EVENTS
    cluster.run_until(schedule.heals_at_us)
    cluster.heal()
    cluster.run_to_the_end()
    return finished(cluster, pipeline, feed)


def rested_us(history: History) -> int:
    return sum(event.for_us for event in history if isinstance(event, Rested))


def silent_letters(pipeline: Pipeline) -> Feed:
    """Letters, with a day of silence after each."""
    return letters(pipeline, 10, every_us=24 * HOUR)


def test_days_of_silence_cost_no_events_and_nobody_notices_them() -> None:
    pipeline = mail()
    done = run(pipeline, silent_letters(pipeline))
    assert_sound(done)
    assert_as_reference(done)
    assert rested_us(done.history) > 8 * 24 * HOUR
    assert max(event.at_us for event in done.all(RoleClaimed)) < SECOND
    assert max(event.at_us for event in done.all(IntervalMinted)) < SECOND


def test_what_a_source_has_comes_at_its_time_and_is_done_with_before_the_next_rest() -> None:
    """A watermark that has just come must reach the last computation first, though each has done all that it knows of."""
    pipeline = mail()
    builder = FeedBuilder(pipeline)
    for number in range(50):
        at_us = number * HOUR + SECOND // 10
        builder.record(at_us=at_us, value={"city": "arco", "number": number}, timestamp=at_us, key="a")
        builder.watermark(at_us=at_us + SECOND, low_watermark=at_us + MINUTE)
    feed = builder.build()
    done = run(pipeline, feed)
    assert_as_reference(done)
    assert [event.at_us for event in done.all(SourceHeld)] == [entry.at_us for entry in feed.entries]
    executed = [event.at_us for event in done.all(Executed)]
    assert {at_us // HOUR for at_us in executed} == set(range(50))
    assert max(at_us % HOUR for at_us in executed) < 3 * SECOND


def test_wall_timers_fire_in_time_while_sources_are_silent_and_once_they_have_ended() -> None:
    done = run(*reminders())
    assert_sound(done)
    fired = [event.at_us for event in done.all(Executed) if event.timer is not None]
    assert [at_us // SECOND for at_us in fired] == [1 + LATER_US // SECOND, (24 * HOUR + LATER_US) // SECOND]


def test_a_fault_strikes_in_the_middle_of_silence_and_is_recovered_from_before_it_goes_on() -> None:
    pipeline = mail()
    at_us = 30 * HOUR + 7
    crash = f.Crash(at_us=at_us, process=calm_owner("counter", "arco"), restart_after_us=None)
    done = run(pipeline, silent_letters(pipeline), crash, heal_at_us=40 * HOUR)
    assert_sound(done)
    assert_as_reference(done)
    assert done.struck("crash")[0].at_us == at_us
    minted = [event.at_us for event in done.all(IntervalMinted) if event.at_us > SECOND]
    assert minted
    assert at_us < min(minted) < at_us + 3 * SECOND


def test_silence_is_not_skipped_while_something_is_unfinished() -> None:
    """ACKs are lost, so that senders try again and again."""
    pipeline = mail()
    lost = f.Noise(at_us=MINUTE, for_us=2 * MINUTE, drop=1.0, kinds=("Ack",))
    cluster = start(pipeline, letters(pipeline, 2, every_us=MINUTE), faults=FaultSchedule((lost,), HOUR))
    cluster.run_until(MINUTE)
    before_us = rested_us(cluster.history)
    cluster.run_until(3 * MINUTE)
    assert rested_us(cluster.history) == before_us > MINUTE // 2
    cluster.run_until(HOUR)
    assert rested_us(cluster.history) > HOUR // 2


def test_a_source_that_waits_for_one_hours_behind_lets_the_cluster_rest() -> None:
    pipeline = Pipeline("two")
    for name in ("early", "late"):
        pipeline.injector(name, skew_limit_us=HOUR)
    pipeline.add(Sorter(), name="sorter", inputs=["early", "late"], outputs=["sorted"])
    builder = FeedBuilder(pipeline)
    for number in range(5):
        for name, lag_us in (("early", 0), ("late", 5 * HOUR)):
            timestamp = SECOND + number * 9 * HOUR
            at_us = timestamp + lag_us
            builder.record(at_us=at_us, value=number, timestamp=timestamp, key="a", injector=name)
            builder.watermark(at_us=at_us, low_watermark=timestamp, injector=name)
    done = run(pipeline, builder.build())
    assert_sound(done)
    assert_as_reference(done)
    injected = [event.at_us // HOUR for event in done.all(Injected) if event.process == "early/0"]
    assert injected == [5, 14, 23, 32, 41], "each waits until the other source has come as far"


@pytest.mark.parametrize("tables", [1, 2], ids=["nobody knows an owner", "only the injector does"])
def test_nobody_waits_awake_for_a_master_that_is_down_for_days(tables: int) -> None:
    """An injector that knows of an owner sends it what it has, again and again; the owner has never heard of that."""
    pipeline = mail()
    crash = f.Crash(at_us=0, process="master-0", restart_after_us=None)
    before = StepFault(Step("master-0", Does.SENDS, "Table", tables), crash)
    done = run(
        pipeline, silent_letters(pipeline), before, heal_at_us=100 * HOUR, options=with_engine(masters=1)
    )
    assert_sound(done)
    assert_as_reference(done)
    assert bool(done.all(Resent)) == (tables == 2)
    assert min(event.at_us for event in done.all(Applied)) > 100 * HOUR


@pytest.mark.parametrize(
    "arrivals", [Arrivals(), Arrivals(priorities=Priorities(seed=1, depth=2, messages=50))]
)
def test_orders_of_arrival_have_rests_too(arrivals: Arrivals) -> None:
    pipeline = mail()
    history = simulate(pipeline, silent_letters(pipeline), arrivals=arrivals, most_events=EVENTS)
    assert outputs_of(history) == outputs_of(simulate(pipeline, silent_letters(pipeline)))
    assert rested_us(history) > 8 * 24 * HOUR


def test_looking_for_a_rest_is_no_arrival_that_could_come_sooner_or_later() -> None:
    pipeline, arrivals = mail(), Arrivals()
    simulate(pipeline, silent_letters(pipeline), arrivals=arrivals)
    nowhere = [arrival.at_us for arrival in arrivals.handled if not arrival.place]
    assert [at_us for at_us in nowhere if 0 < at_us < 9 * 24 * HOUR] == []


def test_shorter_rests_are_not_skipped() -> None:
    pipeline = mail()
    assert rested_us(run(pipeline, letters(pipeline, 20, every_us=6 * SECOND)).history) == 0
