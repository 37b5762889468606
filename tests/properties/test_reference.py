"""The reference: semantics one by one, and agreement with the simulated cluster."""

import dataclasses
from collections import Counter
from collections.abc import Callable

import pytest

from headrace import (
    MAX_TIME,
    SECOND,
    Computation,
    Context,
    DeadLetter,
    MalformedRecordError,
    Pipeline,
    Productions,
    Record,
    Timer,
    UserCodeError,
)
from headrace_properties.reference import Emitted, RunResult, run_reference
from headrace_properties.results import outputs_of, result_of
from headrace_scenarios import zeitgeist
from headrace_sim import NO_FAULTS, FaultSchedule, Feed, FeedBuilder, simulate
from headrace_sim.faults import Crash, Pause

Hook = Callable[[Context, Record], None]


class Scripted(Computation):
    """Does what a test tells it to; timers produce their tag."""

    def __init__(self, on_record: Hook) -> None:
        self._on_record = on_record

    def process_record(self, context: Context, record: Record) -> None:
        self._on_record(context, record)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.state.setdefault("fired", []).append(timer.tag)
        context.produce("out", timer.tag)


def pipeline_of(on_record: Hook, **switches: object) -> Pipeline:
    pipeline = Pipeline("scripted")
    pipeline.injector("in", processes=2)
    pipeline.add(Scripted(on_record), name="stage", inputs=["in"], outputs=["out"], **switches)  # type: ignore[arg-type]
    return pipeline


def out(value: str, timestamp: int) -> Emitted:
    return Emitted("out", "k", value.encode(), timestamp)


def run(pipeline: Pipeline, *arrivals: tuple[int, str, int], end: bool = True) -> RunResult:
    """Arrivals: (wall time, value, timestamp); the value ``watermark`` is one, of both processes."""
    builder = FeedBuilder(pipeline)
    for at_us, value, timestamp in arrivals:
        if value == "watermark":
            builder.watermark(at_us=at_us, low_watermark=timestamp)
            builder.watermark(at_us=at_us, low_watermark=timestamp, process=1)
        else:
            builder.record(at_us=at_us, value=value, timestamp=timestamp, key="k")
    feed = builder.build()
    if not end:
        feed = Feed(
            tuple(entry for entry in feed.entries if getattr(entry.event, "low_watermark", 0) != MAX_TIME)
        )
    return run_reference(pipeline, feed)


def test_a_record_is_handled_in_order_of_arrival_with_state() -> None:
    def collect(context: Context, record: Record) -> None:
        context.state.setdefault("seen", []).append(record.value)

    outcome = run(pipeline_of(collect), (1, "b", 20), (2, "a", 10))
    assert outcome == RunResult(Counter(), {("stage", "k"): b'{"seen":["b","a"]}'})


def test_a_state_that_is_the_initial_one_again_is_left_out() -> None:
    def toggle(context: Context, record: Record) -> None:
        if record.value == "set":
            context.state["x"] = 1
        else:
            context.clear_state()

    assert run(pipeline_of(toggle), (1, "set", 1)).states
    assert not run(pipeline_of(toggle), (1, "set", 1), (2, "clear", 2)).states


def set_timer(context: Context, record: Record) -> None:
    context.set_timer(record.value, record.timestamp)


def test_timers_fire_in_order_when_the_watermark_of_all_processes_has_come() -> None:
    def later(context: Context, record: Record) -> None:
        context.set_timer(record.value, record.timestamp + 100)

    arrivals = [(1, "b", 20), (2, "a", 20), (3, "c", 10)]
    outcome = run(pipeline_of(later), *arrivals, (4, "watermark", 119), end=False)
    assert outcome.outputs == Counter([out('"c"', 110)])
    outcome = run(pipeline_of(later), *arrivals, (4, "watermark", 120), end=False)
    assert outcome.states == {("stage", "k"): b'{"fired":["c","a","b"]}'}


def test_a_timer_that_is_due_fires_before_the_next_record() -> None:
    def note(context: Context, record: Record) -> None:
        context.state.setdefault("fired", []).append(record.value.upper())
        set_timer(context, record)

    outcome = run(pipeline_of(note), (1, "watermark", 50), (2, "a", 60), (3, "b", 10), (4, "c", 70))
    assert outcome.states == {("stage", "k"): b'{"fired":["A","B","b","C","a","c"]}'}


def test_a_record_behind_the_watermark_is_late() -> None:
    def tell(context: Context, record: Record) -> None:
        context.produce("out", "late" if record.late else "on time")

    outcome = run(pipeline_of(tell), (1, "watermark", 50), (2, "a", 49), (3, "b", 50))
    assert outcome.outputs == Counter([out('"late"', 49), out('"on time"', 50)])


def test_a_hold_keeps_the_watermark_from_those_downstream() -> None:
    def hold(context: Context, record: Record) -> None:
        context.hold_watermark(record.timestamp if record.value == "hold" else None)
        context.produce("held", record.value)

    pipeline = Pipeline("two stages")
    pipeline.injector("in")
    pipeline.add(Scripted(hold), name="first", inputs=["in"], outputs=["held"])
    pipeline.add(Scripted(set_timer), name="second", inputs=["held"], outputs=["out"])
    builder = FeedBuilder(pipeline)
    builder.record(at_us=1, value="hold", timestamp=10, key="k")
    builder.watermark(at_us=2, low_watermark=100)
    builder.record(at_us=3, value="release", timestamp=5, key="k")
    outcome = run_reference(pipeline, builder.build())
    assert outcome.states["second", "k"] == b'{"fired":["hold","release"]}'


def test_wall_timers_fire_with_the_feeds_time_and_later_only_if_they_hold() -> None:
    def wall(context: Context, record: Record) -> None:
        context.set_wall_timer("soon", context.wall_time + 5, hold=None)
        context.set_wall_timer("held", context.wall_time + 50, hold=record.timestamp)
        context.set_wall_timer("never", context.wall_time + 90)

    outcome = run(pipeline_of(wall), (10, "a", 7), (20, "watermark", 8))
    assert sorted(output.value for output in outcome.outputs) == [b'"held"', b'"soon"']


def test_user_code_that_raises_stops_or_goes_to_the_dead_letters() -> None:
    def fail(context: Context, record: Record) -> None:
        raise ValueError(record.value)

    with pytest.raises(UserCodeError):
        run(pipeline_of(fail), (1, "a", 7))
    (letter,) = run(pipeline_of(fail, on_failure=DeadLetter("dead")), (1, "a", 7)).outputs
    assert letter.stream == "dead"
    assert b"ValueError: a" in letter.value


def test_a_malformed_record_stops_or_goes_to_the_dead_letters() -> None:
    for policy in (None, DeadLetter("dead")):
        pipeline = Pipeline("strict")
        pipeline.injector("in", on_malformed=policy)
        pipeline.add(Scripted(set_timer), name="stage", inputs=["in"], outputs=["out"])
        builder = FeedBuilder(pipeline)
        builder.raw(at_us=1, data=b"{", timestamp=3)
        if policy is None:
            with pytest.raises(MalformedRecordError):
                run_reference(pipeline, builder.build())
        else:
            (letter,) = run_reference(pipeline, builder.build()).outputs
            assert (letter.stream, letter.timestamp) == ("dead", 3)


def test_weak_and_strong_productions_have_the_same_result() -> None:
    def pass_on(context: Context, record: Record) -> None:
        context.produce("out", record.value)

    arrivals = [(1, "a", 1), (2, "b", 2)]
    weak = pipeline_of(pass_on, productions=Productions.WEAK, exactly_once=False)
    assert run(weak, *arrivals) == run(pipeline_of(pass_on), *arrivals)


FAULTS = FaultSchedule(
    (
        Crash(at_us=1 * SECOND, process="worker-0", restart_after_us=SECOND // 2),
        Pause(at_us=2 * SECOND, process="worker-1", for_us=3 * SECOND),
        Crash(at_us=3 * SECOND, process="searches/0", restart_after_us=SECOND // 4),
        Crash(at_us=4 * SECOND, process="authority-0.0", restart_after_us=SECOND),
    )
)


@pytest.mark.parametrize("pipeline", [zeitgeist.pipeline, zeitgeist.weak_pipeline], ids=["strong", "weak"])
@pytest.mark.parametrize("faults", [NO_FAULTS, FAULTS], ids=["healthy", "faulty"])
@pytest.mark.parametrize("seed", range(3))
def test_the_cluster_has_the_references_result(seed: int, faults: FaultSchedule, pipeline: Pipeline) -> None:
    """No search is late at its source: when one is late depends on how fast watermarks travel."""
    feed = zeitgeist.feed(seed, dataclasses.replace(zeitgeist.EVENING, late_share=0.0))
    expected = run_reference(pipeline, feed)
    history = simulate(pipeline, feed, faults=faults, seed=seed)
    assert expected.outputs
    assert result_of(history) == expected
    assert outputs_of(history) == expected.outputs
