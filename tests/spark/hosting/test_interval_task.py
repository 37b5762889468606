"""Key intervals in micro-batches, without Spark: the same outputs as the plain sequential reference, whatever the batches."""

import json
from collections import Counter as Bag
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import SECOND, Computation, Context, HeadraceError, Pipeline, Record, Timer, UserCodeError
from headrace.api.time import MAX_TIME
from headrace.spark.host_errors import SparkHostError
from headrace.spark.hosting import interval_task as _interval_task
from headrace.spark.hosting.chunks import ROWS_IN_CHUNK, Chunks
from headrace.spark.hosting.history_sample import Sample
from headrace.spark.runtime.event_time import END_MS
from headrace.store import mediator as _mediator
from headrace.store.mediator import StoredRow
from headrace.wire.effects import SourceRecord
from headrace.wire.rows import RowDelta
from headrace.worker.running import MOST_IN_STEP
from headrace_properties.reference import run_reference
from headrace_scenarios import zeitgeist
from headrace_sim import Feed, FeedBuilder
from headrace_sim.feed import FeedEntry
from tests.sim.rig import WindowCounter, city, letters, mail
from tests.spark.microbatches import Query, Store, bounded_outputs, query, run_in_batches

SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=4)


@given(sizes=SIZES, intervals=st.integers(1, 5), fused=st.booleans())
def test_the_outputs_are_the_references_whatever_the_batches(
    *, sizes: list[int], intervals: int, fused: bool
) -> None:
    pipeline = mail(processes=2)
    feed = letters(pipeline)
    running = run_in_batches(pipeline, feed, sizes, intervals=intervals, fused=fused)
    assert running.outputs == run_reference(pipeline, feed).outputs


@pytest.mark.parametrize("fused", [False, True])
def test_zeitgeist_comes_out_as_in_the_reference(*, fused: bool) -> None:
    pipeline = zeitgeist.pipeline
    feed = zeitgeist.feed(7, replace(zeitgeist.EVENING, late_share=0.0))
    running = run_in_batches(pipeline, feed, [50], fused=fused)
    expected = run_reference(pipeline, feed).outputs
    assert running.outputs == expected
    assert {emitted.stream for emitted in expected} >= {"anomalies"}


class Batcher(Computation):
    """Keeps letters for two seconds of wall time, and the watermark back at the oldest of them."""

    def initial_state(self) -> list[list[object]]:
        return []

    def process_record(self, context: Context, record: Record) -> None:
        context.state = [*context.state, [record.timestamp, record.value]]
        oldest = min(timestamp for timestamp, _ in context.state)
        context.set_wall_timer("flush", context.wall_time + 2 * SECOND, hold=oldest)

    def process_timer(self, context: Context, timer: Timer) -> None:
        for timestamp, value in context.state:
            context.produce("sorted", value, timestamp=timestamp)
        context.clear_state()


def held_pipeline() -> Pipeline:
    pipeline = Pipeline("held")
    pipeline.injector("mail")
    pipeline.add(Batcher(), name="batcher", inputs={"mail": city}, outputs=["sorted"])
    pipeline.add(WindowCounter(), name="counter", inputs={"sorted": city}, outputs=["counts", "late"])
    return pipeline


def run_with_a_clock(pipeline: Pipeline, feed: Feed, size: int, *, history: bool | Sample = False) -> Query:
    running, entries = query(pipeline, history=history), list(feed.entries)
    while entries:
        running.batch(entries[:size], tick=True)
        entries = entries[size:]
    for _ in range(10):
        running.now_us += SECOND
        running.batch(tick=True)
    running.batch()
    return running


@pytest.mark.parametrize("size", [1, 4, 10])
def test_what_a_wall_timer_holds_back_is_not_late_downstream(size: int) -> None:
    pipeline = held_pipeline()
    feed = letters(pipeline)
    assert run_with_a_clock(pipeline, feed, size).outputs == run_reference(pipeline, feed).outputs


def test_untold_holds_would_make_it_late(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_interval_task._IntervalTask, "_tell_holds", lambda _self: None)
    pipeline = held_pipeline()
    outputs = run_with_a_clock(pipeline, letters(pipeline), 1).outputs
    assert any(output.stream == "late" for output in outputs)


def test_a_wall_timer_needs_somebody_to_tell_the_time() -> None:
    running = query(held_pipeline(), clock=False)
    with pytest.raises(
        SparkHostError, match=r"'batcher' set a wall timer.*clock_us=, an option of deploy and of attach"
    ):
        running.batch(letters(held_pipeline()).entries[:1])


def test_state_of_its_own_future_is_refused() -> None:
    """A checkpoint is put together from two backups: the state is of later micro-batches than the log says."""
    running = query(_counting())
    for number in (1, 2):
        running.batch([_entry(running.plan.pipeline, number)])
    before = dict(running.outputs)
    for again in (0, 1):
        running.number = again
        message = rf"'count/\d' has state of micro-batch 1, but micro-batch {again} needs the state before it\. .*backup"
        with pytest.raises(SparkHostError, match=message):
            running.batch([_entry(running.plan.pipeline, 3)])
    assert running.outputs == before
    running.number = 2
    running.batch([_entry(running.plan.pipeline, 3)])
    assert len(running.outputs) == 3


def test_an_interval_is_called_twice_in_a_micro_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Spark calls for the records, and then for the timer that the watermark has reached."""
    running = query(_counting())
    running.batch([_entry(running.plan.pipeline, 1)])
    monkeypatch.setattr(Store, "is_begun", lambda _store: True)
    running.number = 0
    running.batch([_entry(running.plan.pipeline, 2)])
    assert len(running.outputs) == 2


def _counting(**switches: object) -> Pipeline:
    pipeline = Pipeline("counting")
    pipeline.injector("mail")
    pipeline.add(_Count(), name="count", inputs=["mail"], outputs=["counted"], **switches)  # type: ignore[arg-type]
    return pipeline


class _Count(Computation):
    def initial_state(self) -> int:
        return 0

    def process_record(self, context: Context, record: Record) -> None:
        if record.value == "bad":
            raise ValueError("a bad letter")
        context.state = context.state + 1
        context.produce("counted", context.state)


def _entry(pipeline: Pipeline, number: int, *, key: str = "anna", value: object = 1) -> FeedEntry:
    builder = FeedBuilder(pipeline)
    builder.record(at_us=number * SECOND, value=value, timestamp=number * SECOND, key=key)
    entry = builder.build().entries[0]
    assert isinstance(entry.event, SourceRecord)
    event = SourceRecord(number, "mail", key, entry.event.value, number * SECOND, number * SECOND)
    return FeedEntry(number * SECOND, "mail/0", event)


def test_many_records_of_one_key_are_taken_in_several_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    # What a step has is in tuples, copied for each of its records: a micro-batch of one key was quadratic.
    writes = list[RowDelta]()

    class Row(StoredRow):
        __slots__ = ()

        def apply(self, sequencer: int, delta: RowDelta) -> None:
            writes.append(delta)
            super().apply(sequencer, delta)

    monkeypatch.setattr(_mediator, "StoredRow", Row)
    running = query(_counting())
    count = 3 * MOST_IN_STEP
    running.batch([_entry(running.plan.pipeline, number) for number in range(1, count + 1)])
    assert [int(output.value) for output in running.outputs] == list(range(1, count + 1))
    steps = len(writes)
    assert 3 <= steps <= 5


def test_a_record_that_its_source_repeats_counts_once() -> None:
    running = query(_counting())
    first, second = _entry(running.plan.pipeline, 1), _entry(running.plan.pipeline, 2)
    running.batch([first, first])
    running.batch([first, second])
    assert Bag(output.value for output in running.outputs.elements()) == Bag([b"1", b"2"])


def test_without_exactly_once_it_counts_again() -> None:
    running = query(_counting(exactly_once=False))
    first = _entry(running.plan.pipeline, 1)
    running.batch([first])
    running.batch([first])
    assert Bag(output.value for output in running.outputs.elements()) == Bag([b"1", b"2"])


def test_ids_are_forgotten_when_the_source_is_past_them() -> None:
    running = query(_counting())
    pipeline = running.plan.pipeline
    running.batch([_entry(pipeline, 1)])
    store = next(iter(store for store in running.stores.values() if store.chunks))
    chunks = Chunks(store, running.plan.intervals)
    row = chunks.row("anna")
    assert row is not None
    assert list(row.seen) == ["mail/0:1"]
    running.watermark_ms = 3_600_000
    running.batch([_entry(pipeline, 4_000)])
    row = Chunks(store, running.plan.intervals).row("anna")
    assert row is not None
    assert list(row.seen) == ["mail/0:4000"]


def test_user_code_that_keeps_failing_fails_the_task_with_its_name_and_key() -> None:
    running = query(_counting())
    with pytest.raises(
        UserCodeError, match=r"computation 'count', key 'anna': user code failed 3 times"
    ) as caught:
        running.batch([_entry(running.plan.pipeline, 1, value="bad")])
    assert isinstance(caught.value, HeadraceError)


def test_only_chunks_with_work_are_read() -> None:
    running = query(_counting(), intervals=1)
    pipeline = running.plan.pipeline
    keys = [f"key {number}" for number in range(ROWS_IN_CHUNK * 8)]
    running.batch([_entry(pipeline, number, key=key) for number, key in enumerate(keys, 1)])
    (store,) = running.stores.values()
    assert len(store.chunks) >= 8
    store.reads = store.writes = 0
    running.batch([_entry(pipeline, 10_000, key="key 5"), _entry(pipeline, 10_001, key="key 5")])
    assert (store.reads, store.writes) == (1, 1)
    chunks = Chunks(store, 1)
    assert chunks.header.rows == len(keys)
    states = {key: row.state for key in keys if (row := chunks.row(key)) is not None}
    assert states == {key: b"3" if key == "key 5" else b"1" for key in keys}


def test_a_row_in_its_initial_state_takes_no_room() -> None:
    class Toggle(Computation):
        def process_record(self, context: Context, record: Record) -> None:
            if context.state:
                context.clear_state()
            else:
                context.state = {"on": True}

    pipeline = Pipeline("toggle")
    pipeline.injector("mail")
    pipeline.add(Toggle(), name="toggle", inputs=["mail"], exactly_once=False)
    running = query(pipeline, intervals=1)
    running.batch([_entry(pipeline, 1)])
    (store,) = running.stores.values()
    assert store.chunks
    running.batch([_entry(pipeline, 2)])
    assert not store.chunks


def test_at_the_sources_end_everything_fires() -> None:
    pipeline = mail()
    running = run_in_batches(pipeline, letters(pipeline), [1000])
    assert running.watermark_ms == END_MS
    assert all(store.timer_ms is None for store in running.stores.values())


class Reminder(Computation):
    """Reminds of each letter after some seconds."""

    def __init__(self, after_s: int) -> None:
        self._after_us = after_s * SECOND

    def process_record(self, context: Context, record: Record) -> None:
        context.set_timer("remind", record.timestamp + self._after_us)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.produce("reminders", timer.timestamp)


def test_one_operator_for_all_levels_has_the_timer_of_those_that_are_left() -> None:
    """The early reminder is removed before its timer is due. Spark calls for it all the same, and then for the late one."""
    pipeline = Pipeline("reminders")
    pipeline.injector("mail")
    for name, after_s in (("early", 1), ("late", 3)):
        pipeline.add(Reminder(after_s), name=name, inputs=["mail"], outputs=["reminders"], exactly_once=False)
    running = query(pipeline, intervals=1, fused=True)
    running.batch([_entry(pipeline, 1)])
    assert running.fused.timer_ms == 2_000
    left = query(pipeline.without("early"), intervals=1, fused=True)
    left.fused, left.number = running.fused, running.number
    for watermark_ms, timer_ms, values in ((2_500, 4_000, []), (4_000, None, [b"4000000"])):
        left.watermark_ms = watermark_ms
        left.batch()
        assert left.fused.timer_ms == timer_ms
        assert [output.value for output in left.outputs] == values


@pytest.mark.parametrize("name", ["mail", "zeitgeist"])
def test_bounded_input_comes_to_the_same(name: str) -> None:
    pipeline = mail(processes=2) if name == "mail" else zeitgeist.pipeline
    feed = (
        letters(pipeline) if name == "mail" else zeitgeist.feed(7, replace(zeitgeist.EVENING, late_share=0.0))
    )
    assert bounded_outputs(pipeline, feed) == run_reference(pipeline, feed).outputs


class _Trace(Computation):
    """Says what has run for its key when a timer fires, which each record moves unless it is even."""

    def initial_state(self) -> list[str]:
        return []

    def process_record(self, context: Context, record: Record) -> None:
        context.state = [*context.state, f"record {record.timestamp}"]
        context.set_timer("odd" if record.timestamp % 2 else "even", record.timestamp + record.value)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.state = [*context.state, f"{timer.tag} {timer.timestamp}"]
        context.produce("traces", context.state, timestamp=timer.timestamp)


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(1, 30), st.integers(0, 9)),
        max_size=12,
        unique_by=lambda one: one[:2],
    )
)
def test_timers_of_a_key_come_between_its_records_in_bounded_input(came: list[tuple[str, int, int]]) -> None:
    """By hand: before each record, the timers that are due by its timestamp; after the last, all of them."""
    pipeline = Pipeline("traces")
    pipeline.injector("mail")
    pipeline.add(_Trace(), name="trace", inputs=["mail"], outputs=["traces"], exactly_once=False)
    builder, expected = FeedBuilder(pipeline), list[tuple[str, list[str]]]()
    for number, (key, at, delay) in enumerate(came):
        builder.record(at_us=number, stream="mail", key=key, value=delay, timestamp=at)
    for key in "ab":
        trace, timers = list[str](), dict[str, int]()
        for at, delay in [*sorted((at, delay) for other, at, delay in came if other == key), (MAX_TIME, 0)]:
            for due, tag in sorted((due, tag) for tag, due in timers.items() if due <= at):
                trace.append(f"{tag} {due}")
                expected.append((key, list(trace)))
                del timers[tag]
            trace.append(f"record {at}")
            timers["odd" if at % 2 else "even"] = at + delay
    outputs = bounded_outputs(pipeline, builder.build())
    assert sorted((one.key, json.loads(one.value)) for one in outputs.elements()) == sorted(expected)


@pytest.mark.parametrize("fused", [False, True])
def test_a_consumer_that_is_added_learns_what_is_held_back(*, fused: bool) -> None:
    """Letters wait in the batcher when the counter is added. None of them may be late there."""
    pipeline = held_pipeline()
    entries = list(letters(pipeline).entries)
    running = query(pipeline.without("counter"), fused=fused)
    running.batch(entries[:20], tick=True)
    running.batch()
    running.plan = replace(query(pipeline, fused=fused).plan, wake_until=running.number)
    for at in range(20, len(entries), 4):
        running.batch(entries[at : at + 4], tick=at > 20)
    for _ in range(10):
        running.now_us += SECOND
        running.batch(tick=True)
    assert [output for output in running.outputs if output.stream == "late"] == []
