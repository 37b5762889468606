"""A grouping as a computation: how its records are stamped, and what its timers wait for and hold."""

from typing import Any, cast

from headrace import SECOND, Clock, Context, Encoded, Record, Timer
from headrace.api.codecs import decode_state
from headrace.dataflow import (
    AtCount,
    AtPeriod,
    Engine,
    FixedWindows,
    GroupByKeyAndWindow,
    MicroBatch,
    Pane,
    PCollection,
    Repeat,
    Sessions,
    Window,
    read,
)

END = 4 * SECOND
FIRST = Window(0, END)


class Stage:
    """One computation's row of one key; each hook gets the state that the last one left."""

    def __init__(self, scores: PCollection[Any], name: str, engine: Engine | None = None) -> None:
        self.spec = scores.to("out").pipeline("games", engine=engine).computations[name]
        self.state: Encoded = b""

    def holds(self) -> list[int | None]:
        """What its wall timers hold, in order of their times."""
        grouping = cast("GroupByKeyAndWindow", self.spec.computation).grouping
        state = decode_state(self.spec.state_codec, self.state)
        return [alarm.hold for alarm in sorted(grouping.alarms(state)) if alarm.clock is Clock.WALL]

    def record(self, value: Any, timestamp: int, low_watermark: int, wall_time: int = 0) -> Context:
        context = self._context(timestamp, low_watermark, wall_time)
        stream = next(iter(self.spec.inputs))
        self.spec.computation.process_record(context, Record("key", value, timestamp, stream))
        return self._kept(context)

    def timer(self, timer: Timer, low_watermark: int, wall_time: int = 0) -> Context:
        context = self._context(timer.timestamp, low_watermark, wall_time)
        self.spec.computation.process_timer(context, timer)
        return self._kept(context)

    def _context(self, cause_us: int, low_watermark: int, wall_time: int) -> Context:
        return Context(self.spec, "key", self.state, cause_us, low_watermark, wall_time, cause_us)

    def _kept(self, context: Context) -> Context:
        self.state = context.new_state() or self.state
        return context


def timers(context: Context) -> list[tuple[Clock, int, int | None]]:
    requests = [request for request in (context.timers or {}).values() if request is not None]
    return sorted(
        ((timer_request.clock, timer_request.timestamp, timer_request.hold) for timer_request in requests),
        key=lambda one: one[1],
    )


def walls(context: Context) -> list[tuple[Clock, int, int | None]]:
    return [timer for timer in timers(context) if timer[0] is Clock.WALL]


def stamps(context: Context) -> list[int]:
    return [emission.timestamp for emission in context.emissions or []]


def test_a_pane_leaves_with_the_timer_at_its_windows_end_and_is_stamped_with_it() -> None:
    stage = Stage(read("scores").window_into(FixedWindows(END)).sum(), "sum")
    assert timers(stage.record(5, SECOND, 0)) == [(Clock.WATERMARK, END, None)]
    fired = stage.timer(Timer("at", END), END)
    assert stamps(fired) == [END]
    assert timers(fired) == []


def test_a_second_grouping_waits_for_all_that_the_first_stamps_with_a_windows_end() -> None:
    """At a low watermark of the end, panes that are stamped so may still come; a microsecond later, none."""
    stage = Stage(read("scores").window_into(FixedWindows(END)).sum().sum(), "sum-2")
    first = stage.record(Pane(5, FIRST, END - 1), END, END)
    assert (stamps(first), timers(first)) == ([], [(Clock.WATERMARK, END + 1, None)])
    assert stamps(stage.record(Pane(6, FIRST, END - 1), END, END)) == []
    assert stamps(stage.timer(Timer("at", END + 1), END + 1)) == [END + 1]


def test_a_wall_timer_comes_after_what_arrives_on_its_boundary_and_holds_the_windows_end() -> None:
    trigger = Repeat(AtPeriod(60))
    stage = Stage(
        read("scores").allowed_lateness(None).window_into(FixedWindows(END)).trigger(trigger).sum(), "sum"
    )
    assert walls(stage.record(5, SECOND, 0, wall_time=60)) == [(Clock.WALL, 61, END)]


def test_a_wall_timer_of_a_second_grouping_holds_for_its_own_stamp() -> None:
    summed = read("scores").allowed_lateness(None).window_into(FixedWindows(END)).sum()
    stage = Stage(summed.trigger(Repeat(AtPeriod(60))).sum(), "sum-2")
    assert walls(stage.record(Pane(5, FIRST, END - 1), END, 0, wall_time=1)) == [(Clock.WALL, 61, END + 1)]


def test_nothing_is_held_for_a_window_that_is_past_or_global() -> None:
    trigger = Repeat(AtPeriod(60))
    past = Stage(
        read("scores").allowed_lateness(None).window_into(FixedWindows(END)).trigger(trigger).sum(), "sum"
    )
    assert walls(past.record(5, SECOND, END, wall_time=1)) == [(Clock.WALL, 61, None)]
    everywhere = Stage(read("scores").trigger(trigger).sum(), "sum")
    assert walls(everywhere.record(5, SECOND, 0, wall_time=1)) == [(Clock.WALL, 61, None)]


def test_what_was_on_time_is_held_for_until_the_clock_lets_it_go_though_the_watermark_has_passed() -> None:
    trigger = Repeat(AtPeriod(60))
    stage = Stage(
        read("scores").allowed_lateness(None).window_into(FixedWindows(END)).trigger(trigger).sum(), "sum"
    )
    assert walls(stage.record(5, SECOND, 0, wall_time=1)) == [(Clock.WALL, 61, END)]
    stage.record(6, SECOND, END, wall_time=2)
    assert stage.holds() == [END]


def test_a_late_element_does_not_let_go_of_what_its_batch_has_on_time() -> None:
    """A hold behind the watermark is none: that of the late window must not stand for both."""
    stage = Stage(
        read("scores").allowed_lateness(None).window_into(FixedWindows(END)).sum(), "sum", MicroBatch(60)
    )
    assert walls(stage.record(5, 2 * END, END, wall_time=1)) == [(Clock.WALL, 61, 3 * END)]
    assert timers(stage.record(6, 0, END, wall_time=2)) == []
    assert stage.holds() == [3 * END]


def test_a_count_waits_for_its_window_to_be_over() -> None:
    scores = read("scores").allowed_lateness(SECOND).window_into(FixedWindows(END))
    stage = Stage(scores.trigger(Repeat(AtCount(2))).sum(), "sum")
    assert timers(stage.record(5, SECOND, 0)) == [(Clock.WATERMARK, END + SECOND, None)]
    assert stamps(stage.timer(Timer("at", END + SECOND), END + SECOND)) == [END + SECOND]


def test_a_retraction_is_stamped_with_its_cause_where_that_is_later_than_its_window() -> None:
    trigger = Repeat(AtCount(1))
    sessions = (
        read("scores")
        .allowed_lateness(None)
        .window_into(Sessions(SECOND))
        .trigger(trigger)
        .accumulating_and_retracting()
    )
    stage = Stage(sessions.sum(), "sum")
    assert stamps(stage.record(5, 0, 0)) == [SECOND]
    assert stamps(stage.record(6, SECOND, 0)) == [SECOND, 2 * SECOND]
    assert stamps(stage.record(7, 2 * SECOND, 0)) == [2 * SECOND, 3 * SECOND]
    assert stamps(stage.record(8, 0, 3 * SECOND)) == [3 * SECOND, 3 * SECOND]


def test_a_pane_of_the_global_window_is_stamped_after_its_event_time() -> None:
    stage = Stage(read("scores").trigger(Repeat(AtCount(1))).sum(), "sum")
    context = stage.record(5, SECOND, 0)
    assert stamps(context) == [SECOND + 1]
