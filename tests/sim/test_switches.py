"""The switches of computations and of the engine: what each gains, and that the other guarantees hold (6.1, 8.3)."""

import msgspec
import pytest

from headrace import MILLISECOND, SECOND, Computation, Context, Eviction, Pipeline, Productions, Record, Timer
from headrace import history as h
from headrace.wire.messages import MoveInterval
from headrace_sim import ClusterOptions, FeedBuilder, Uniform
from headrace_sim import faults as f
from tests.sim.rig import (
    CHECKED,
    CITIES,
    HEAL_US,
    Run,
    Sorter,
    WindowCounter,
    assert_as_reference,
    assert_sound,
    calm_owner,
    city,
    letters,
    mail,
    run,
    storm,
    with_engine,
)

AT = 2 * SECOND


def half_weak() -> Pipeline:
    """The sorter, which is a stateless function, has weak productions; the counter's stay strong."""
    return mail().with_computation("sorter", productions=Productions.WEAK)


# Weak productions (6.1.2, 6.1.3)


def test_a_weak_computation_sends_before_it_writes() -> None:
    pipeline = half_weak()
    done = run(pipeline, letters(pipeline))
    assert_sound(done)
    assert_as_reference(done)
    sent = {e.record_id: e.at_us for e in done.all(h.Delivered) if e.computation == "counter"}
    runs = [event for event in done.all(h.Executed) if event.computation == "sorter"]
    written = {
        (e.sequencer, e.delta.number): e.at_us for e in done.all(h.Applied) if e.computation == "sorter"
    }
    assert all(
        sent[production.record_id] < written[run_.version.sequencer, run_.version.number]
        for run_ in runs
        for production in run_.productions
    )


def test_a_weak_step_of_a_stateless_function_without_exactly_once_needs_no_write_at_all() -> None:
    pipeline = half_weak().with_computation("sorter", exactly_once=False)
    done = run(pipeline, letters(pipeline))
    assert_sound(done)
    assert_as_reference(done)
    assert [event for event in done.all(h.Applied) if event.computation == "sorter"] == []


@pytest.mark.parametrize("restart_after_us", [100 * MILLISECOND, 3 * SECOND])
@pytest.mark.parametrize("late_us", [0, 700, 2_500, 6_000])
@pytest.mark.parametrize("crashed", ["worker-0", "worker-1", "worker-2"])
def test_weak_productions_lose_nothing_when_a_worker_crashes(
    crashed: str, late_us: int, restart_after_us: int
) -> None:
    """At, and shortly after, the arrival of a letter: while it runs, is sent, is ACKed, is written."""
    pipeline = half_weak()
    crash = f.Crash(at_us=AT + late_us, process=crashed, restart_after_us=restart_after_us)
    done = run(pipeline, letters(pipeline), crash)
    assert_sound(done)
    assert_as_reference(done)


def test_a_weak_straggler_is_checkpointed_and_survives_its_senders_crash() -> None:
    """The counter is cut off; the sorter checkpoints, ACKs, and crashes: its successor finds the letters in its rows."""
    pipeline = half_weak()
    counter, sorter = calm_owner("counter", "arco"), calm_owner("sorter", "zeno")
    done = run(
        pipeline,
        letters(pipeline),
        f.Partition(at_us=AT, side=(counter,), other=(sorter, "worker-0"), for_us=2 * SECOND),
        f.Crash(at_us=AT + 1_500 * MILLISECOND, process=sorter, restart_after_us=SECOND),
        options=with_engine(straggler_delay_us=400 * MILLISECOND),
    )
    assert_sound(done)
    assert_as_reference(done)
    checkpointed = {event.record_id for event in done.all(h.Checkpointed)}
    assert checkpointed
    found = {
        record_id for event in done.all(h.ScanEnded) if event.at_us > AT for record_id, _ in event.productions
    }
    assert checkpointed & found


@pytest.mark.parametrize("seed", range(5))
def test_weak_productions_survive_every_kind_of_fault_at_once(seed: int) -> None:
    """Late letters are counted as such, each exactly once; nothing else is missing or doubled."""
    pipeline = half_weak()
    done = run(pipeline, letters(pipeline), *storm("mail/0", "sorter"), seed=seed)
    assert_sound(done)
    assert letters_counted(done) == 60


class Alarm(Computation):
    """A letter sets an alarm for a second later; the next one for the same city calls it off."""

    def process_record(self, context: Context, record: Record) -> None:
        if record.value["number"] == 0:
            context.set_timer("alarm", record.timestamp + SECOND)
        else:
            context.cancel_timer("alarm")

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("sorted", {"city": context.key, "number": 1})


def test_a_zombies_weak_productions_for_a_cancelled_timer_do_not_count() -> None:
    """It slept while its successor called the alarm off; when it wakes, it rings, and the horizon has long passed that."""
    pipeline = Pipeline("mail")
    pipeline.injector("mail")
    pipeline.add(
        Alarm(), name="alarm", inputs={"mail": city}, outputs=["sorted"], productions=Productions.WEAK
    )
    pipeline.add(WindowCounter(), name="counter", inputs={"sorted": city}, outputs=["counts", "late"])
    builder = FeedBuilder(pipeline)
    for number, at_us in enumerate((AT, 2 * AT)):
        value = {"city": "arco", "number": number}
        builder.record(at_us=at_us, value=value, timestamp=at_us - number * AT, key="anna")
    builder.watermark(at_us=5 * SECOND, low_watermark=10 * SECOND)
    builder.watermark(at_us=8 * SECOND, low_watermark=11 * SECOND)
    pause = f.Pause(at_us=AT + SECOND // 2, process="worker-0", for_us=4_500 * MILLISECOND)
    done = run(pipeline, builder.build(), pause, heal_at_us=9 * SECOND)
    assert done.struck("revive")[0].detail == "zombie"
    (rung,) = [event for event in done.all(h.Executed) if event.timer is not None]
    assert (rung.process, rung.at_us >= 7 * SECOND) == ("worker-0", True)
    assert [event.by for event in done.all(h.DuplicateDropped)] == ["horizon"]
    assert [event.process for event in done.all(h.IntervalDropped) if event.computation == "alarm"] == [
        "worker-0"
    ]
    assert_sound(done)
    assert done.outputs == {}


def letters_counted(done: Run) -> int:
    """All letters that came out: in a window's count, or late."""
    return sum(
        times * (msgspec.json.decode(value)["count"] if stream == "counts" else 1)
        for (stream, value), times in done.outputs.items()
    )


# Exactly-once off (6.1.3)


def test_without_exactly_once_a_letter_counts_at_least_once() -> None:
    pipeline = mail(exactly_once=False)
    acks = f.Noise(at_us=SECOND, for_us=3 * SECOND, drop=0.5, kinds=("Ack",))
    done = run(pipeline, letters(pipeline), acks)
    assert_sound(done)
    assert letters_counted(done) > 60
    assert {e.by for e in done.all(h.DuplicateDropped)} <= {"in progress"}
    ran = {event.cause for event in done.all(h.Executed) if event.computation == "sorter"}
    assert len(ran) == 60


def test_without_exactly_once_no_ids_are_kept() -> None:
    pipeline = mail(exactly_once=False)
    done = run(pipeline, letters(pipeline))
    assert_sound(done)
    assert_as_reference(done)
    assert all(event.delta.seen == () for event in done.all(h.Applied))
    assert done.all(h.IdsCollected) == []


@pytest.mark.parametrize("seed", range(3))
def test_exactly_once_can_be_switched_off_for_one_computation_alone(seed: int) -> None:
    """The sorter may run a letter twice, and then makes two; the counter takes each of them once.

    One that is made so late that no sender can owe it any more is a remnant there (6.1.1): the letter was counted before.
    """
    pipeline = mail().with_computation("sorter", exactly_once=False)
    done = run(pipeline, letters(pipeline), *storm("mail/0", "counter"), seed=seed)
    assert_sound(done)
    made = {
        production.record_id
        for e in done.all(h.Applied)
        for production in e.delta.productions
        if production.consumer == "counter"
    }
    remnants = {e.record_id for e in done.all(h.DuplicateDropped) if e.by is h.KnownBy.HORIZON} & made
    taken = {id_ for e in done.all(h.Applied) if e.computation == "counter" for id_, _ in e.delta.seen}
    assert taken == made - (remnants - taken)
    assert letters_counted(done) == len(taken) >= 60


# Cache and batches: they change what a run costs, never what it comes to


def outputs(options: ClusterOptions, *faults: f.AnyFault) -> Run:
    pipeline = mail()
    done = run(pipeline, letters(pipeline), *faults, options=options)
    assert_sound(done)
    assert_as_reference(done)
    return done


FAULTS: tuple[f.AnyFault, ...] = (
    f.Crash(at_us=AT, process="worker-1", restart_after_us=SECOND),
    f.Pause(at_us=AT + 500 * MILLISECOND, process="worker-0", for_us=2 * SECOND),
)


@pytest.mark.parametrize("faults", [(), FAULTS], ids=["calm", "with faults"])
@pytest.mark.parametrize("eviction", Eviction)
@pytest.mark.parametrize("cache_bytes", [0, 150, 400, 1 << 20])
def test_the_size_of_the_cache_does_not_change_the_output(
    cache_bytes: int, eviction: Eviction, faults: tuple[f.AnyFault, ...]
) -> None:
    outputs(with_engine(cache_bytes=cache_bytes, eviction=eviction), *faults)


def reads(done: Run) -> int:
    return len(done.struck("store_errors"))


def test_without_a_cache_every_step_reads_its_row() -> None:
    """A store that fails some reads counts them for us: none are asked for with a cache, many without."""
    failing = f.StoreErrors(at_us=AT, for_us=2 * SECOND, rate=0.5)
    assert reads(outputs(with_engine(cache_bytes=1 << 20), failing)) == 0
    assert reads(outputs(with_engine(cache_bytes=0), failing)) > 20


@pytest.mark.parametrize("faults", [(), FAULTS], ids=["calm", "with faults"])
@pytest.mark.parametrize(("batch", "in_flight"), [(1, 1), (1, 4), (2, 1), (64, 4)])
def test_the_size_of_a_commit_does_not_change_the_output(
    batch: int, in_flight: int, faults: tuple[f.AnyFault, ...]
) -> None:
    slow_store = msgspec.structs.replace(
        with_engine(commit_batch=batch, commits_in_flight=in_flight), store_write=Uniform(20_000, 80_000)
    )
    outputs(slow_store, *faults)


def test_records_of_one_key_share_a_commit_if_allowed() -> None:
    """A slow store: while a key's write is under way, several more of its letters come."""

    def most(batch: int) -> int:
        pipeline = mail()
        options = msgspec.structs.replace(
            with_engine(commit_batch=batch), store_write=Uniform(200_000, 300_000)
        )
        done = run(pipeline, letters(pipeline, 200, every_us=5 * MILLISECOND), options=options)
        assert_sound(done)
        assert_as_reference(done)
        return max(len(event.delta.seen) for event in done.all(h.Applied))

    assert most(64) > 4
    assert most(2) == 2
    assert most(1) == 1


# Collecting ids (6.1.1)


@pytest.mark.parametrize("weak", [False, True], ids=["strong", "weak"])
@pytest.mark.parametrize("seed", range(4))
def test_a_remnant_that_arrives_after_its_id_was_collected_is_not_applied(seed: int, weak: bool) -> None:  # noqa: FBT001  a parameter of the test
    """Doubles are up to four seconds late; ids are collected as soon as nobody can send them again."""
    pipeline = half_weak() if weak else mail()
    late_doubles = f.Noise(
        at_us=SECOND, for_us=3 * SECOND, duplicate=0.7, delay_us=4 * SECOND, kinds=("Deliver",)
    )
    options = with_engine(id_slack_us=0, collect_period_us=100 * MILLISECOND)
    done = run(pipeline, letters(pipeline), late_doubles, options=options, seed=seed, heal_at_us=9 * SECOND)
    assert_sound(done)
    assert_as_reference(done)
    collected = done.all(h.IdsCollected)
    assert sum(event.count for event in collected) == 120
    dropped = [event for event in done.all(h.DuplicateDropped) if event.by == "horizon"]
    assert len(dropped) > 20
    first_us = min(event.at_us for event in collected)
    assert all(event.at_us > first_us for event in dropped[-20:])


def test_a_remnant_is_refused_by_an_owner_that_never_saw_the_record() -> None:
    """The interval has left and come back, and the ids were collected, when the second copies come: a scan tells the horizon."""
    pipeline = mail()
    counter = calm_owner("counter", "arco")
    done = run(
        pipeline,
        letters(pipeline, 20),
        f.Noise(at_us=SECOND, for_us=SECOND, duplicate=1.0, delay_us=8 * SECOND, kinds=("Deliver",)),
        f.Operate(at_us=4 * SECOND, verb=MoveInterval("counter", "arco")),
        f.Operate(at_us=5 * SECOND, verb=MoveInterval("counter", "arco", counter)),
        options=with_engine(id_slack_us=0, collect_period_us=100 * MILLISECOND),
        heal_at_us=10 * SECOND,
    )
    assert_sound(done)
    assert_as_reference(done)
    (scanned,) = [event for event in done.all(h.ScanEnded) if event.at_us > 5 * SECOND]
    remnants = [
        event
        for event in done.all(h.DuplicateDropped)
        if event.at_us > scanned.at_us and event.process == counter and event.computation == "counter"
    ]
    assert {event.by for event in remnants} == {"horizon"}


def test_ids_are_kept_for_the_slack() -> None:
    pipeline = mail()
    done = run(
        pipeline,
        letters(pipeline),
        options=with_engine(id_slack_us=2 * SECOND, collect_period_us=100 * MILLISECOND),
    )
    assert_sound(done)
    for event in done.all(h.IdsCollected):
        assert event.below <= event.at_us - 2 * SECOND or event.below > HEAL_US


# The smallest cluster


def test_one_worker_one_master_and_one_authority_are_enough() -> None:
    pipeline = mail()
    alone = msgspec.structs.replace(with_engine(masters=1, authority_replicas=1), workers=1)
    crashes = [
        f.Crash(at_us=AT + number * 600 * MILLISECOND, process=name, restart_after_us=200 * MILLISECOND)
        for number, name in enumerate(("worker-0", "master-0", "authority-0.0"))
    ]
    done = run(pipeline, letters(pipeline), *crashes, options=alone)
    assert_sound(done)
    assert_as_reference(done)


def test_a_pipeline_of_one_stage_with_no_state_is_a_pipeline() -> None:
    pipeline = Pipeline("post")
    pipeline.injector("mail")
    pipeline.add(Sorter(), name="sorter", inputs={"mail": city}, outputs=["sorted"])
    done = run(pipeline, letters(pipeline))
    assert_sound(done)
    assert_as_reference(done)
    assert {event.key for event in done.all(h.Executed)} == set(CITIES)
    assert CHECKED.workers == 3
