"""Timers (MillWheel 4.6): per key by tag, in order, exactly once, on the watermark or on the worker's clock."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace import MAX_TIME, MIN_TIME, Clock, Context, EngineOptions, Productions, Record, Timer
from headrace.history import Executed, InputWatermarkAdvanced
from headrace.wire import messages as m
from headrace.wire.effects import Send, Wake
from headrace.wire.messages import STORE
from headrace.wire.rows import RowDelta, StoredTimer, Version
from tests.core.driver import QUIET, WORKER, Rig, Scripted, ack, click, counter, result, sent, watermark

Asked = Sequence[tuple[str, int | None]]
"""(tag, event time) of timers to set; ``None``: to cancel."""

BATCHED = replace(QUIET, commit_batch=8, commits_in_flight=1)


class Alarms:
    """A worker whose records set the timers that they name, and what has fired.

    Args:
        options: of the engine.
        then: tag to the timers that its handler sets when it fires for the first time.
    """

    def __init__(
        self, options: EngineOptions = QUIET, then: Mapping[str, Asked] | None = None, **switches: float
    ) -> None:
        self.then = dict(then or {})
        self.fired: list[tuple[str, int]] = []
        self.rig = Rig(counter(Scripted(self.on_record, self.on_timer), **switches), options=options)  # type: ignore[arg-type]
        self.records = 0

    def on_record(self, context: Context, record: Record) -> None:
        self.ask(context, record.value)

    def on_timer(self, context: Context, timer: Timer) -> None:
        self.fired.append((timer.tag, timer.timestamp))
        self.ask(context, self.then.pop(timer.tag, ()))

    def ask(self, context: Context, asked: Asked) -> None:
        for tag, at in asked:
            if at is None:
                context.cancel_timer(tag)
            else:
                context.set_timer(tag, at)

    def set(self, *asked: tuple[str, int | None], key: str = "dog") -> None:
        """A record sets these."""
        self.records += 1
        self.rig.settle(click(f"r{self.records}", key, timestamp=MAX_TIME - 1, value=asked))

    def advance(self, low: int) -> list[tuple[str, int]]:
        """The watermark advances; return what fires now."""
        self.fired.clear()
        self.rig.settle(watermark(low, horizon=0))
        return self.fired.copy()


def stored(
    tag: str, at: int, due: int | None = None, *, number: int = 1, overdue: bool = False
) -> StoredTimer:
    return StoredTimer(
        tag, at, Clock.WATERMARK, at if due is None else due, overdue, None, Version(1, number), origin=1
    )


# When they fire


def test_a_timer_fires_when_the_watermark_has_reached_it_and_not_before() -> None:
    alarms = Alarms()
    alarms.set(("t", 50))
    assert [alarms.advance(low) for low in (49, 50, 51)] == [[], [("t", 50)], []]


def test_a_timer_is_set_and_removed_by_the_writes_of_its_steps() -> None:
    def fire(context: Context, timer: Timer) -> None:
        context.produce("counts", timer.tag)

    rig = Rig(counter(Scripted(lambda context, _: context.set_timer("t", 50), fire)))
    rig.feed(click("r1"))
    timer = stored("t", 50)
    assert rig.write().deltas == (RowDelta("dog", 1, set_timers=(timer,), seen=(("r1", 1),)),)
    assert rig.answer() == [ack("r1")]
    production = result("counter@1.2#0", "t", timestamp=50, origin=1)
    assert rig.feed(watermark(60, horizon=0)) == [
        Send(
            STORE,
            m.Write(
                rig.write().request,
                "counter",
                1,
                (RowDelta("dog", 2, fired=(timer,), productions=(production,)),),
            ),
        )
    ]
    assert rig.answer() == [sent(production)]
    row = rig.shop.row("dog")
    assert row is not None
    assert row.timers == ()


def test_only_durable_timers_fire() -> None:
    """A handler sets a timer that is due already: it waits for the write that sets it, and then fires at once."""
    alarms = Alarms()
    alarms.advance(100)
    alarms.rig.feed(click("r1", timestamp=200, value=[("t", 50)]))
    timer = stored("t", 50, due=100, overdue=True)
    assert alarms.rig.write().deltas == (RowDelta("dog", 1, set_timers=(timer,), seen=(("r1", 1),)),)
    assert alarms.fired == []
    alarms.rig.answer()
    assert alarms.fired == [("t", 50)]
    assert [delta.fired for delta in alarms.rig.write().deltas] == [(timer,)]


def test_a_timer_that_is_due_while_its_key_is_in_commit_waits_for_the_answer() -> None:
    alarms = Alarms()
    alarms.set(("t", 50))
    alarms.rig.feed(click("r2", value=[]))
    alarms.rig.feed(watermark(60, horizon=0))
    assert alarms.fired == []
    alarms.rig.answer()
    assert alarms.fired == [("t", 50)]


def orderly() -> tuple[Rig, list[str]]:
    """A worker that shares writes, whose record r1 sets timer t at 50; and the order in which things run."""
    order: list[str] = []

    def on_record(context: Context, record: Record) -> None:
        order.append(record.record_id)
        if record.record_id == "r1":
            context.set_timer("t", 50)

    return Rig(counter(Scripted(on_record, lambda _, timer: order.append(timer.tag))), options=BATCHED), order


def test_due_timers_fire_before_the_records_that_wait() -> None:
    rig, order = orderly()
    rig.settle(click("r1"))
    rig.feed(click("r2"))
    rig.feed(click("r3"))
    rig.feed(watermark(60, horizon=0))
    rig.settle(Wake())
    assert order == ["r1", "r2", "t", "r3"]


def test_nothing_overtakes_a_timer_that_a_record_sets_and_that_is_due_already() -> None:
    rig, order = orderly()
    rig.settle(watermark(100, horizon=0))
    for record_id in ("r0", "r1", "r2"):
        rig.feed(click(record_id, timestamp=200))
    rig.settle(Wake())
    assert order == ["r0", "r1", "t", "r2"]


def test_no_timer_fires_while_the_watermark_is_unknown() -> None:
    alarms = Alarms()
    alarms.set(("t", MIN_TIME + 1))
    assert alarms.fired == []
    assert alarms.advance(MIN_TIME + 1) == [("t", MIN_TIME + 1)]


def test_a_timer_at_the_latest_time_fires_when_the_source_has_ended() -> None:
    alarms = Alarms()
    alarms.set(("t", MAX_TIME - 1))
    assert [alarms.advance(low) for low in (MAX_TIME - 2, MAX_TIME)] == [[], [("t", MAX_TIME - 1)]]


# In which order


@pytest.mark.parametrize("options", [QUIET, BATCHED], ids=["single", "batched"])
@pytest.mark.parametrize(
    ("asked", "then", "expected"),
    [
        ([("b", 20), ("a", 30), ("c", 10)], {}, ["c", "b", "a"]),
        ([("b", 20), ("a", 20)], {}, ["a", "b"]),
        ([("a", 10), ("b", 30)], {"a": [("c", 20)]}, ["a", "c", "b"]),
        ([("a", 10), ("b", 30)], {"a": [("c", 30)]}, ["a", "b", "c"]),
        ([("a", 10), ("b", 10), ("c", 20)], {"a": [("x", 5)]}, ["a", "b", "x", "c"]),
        ([("a", 10), ("c", 20)], {"a": [("y", 7), ("x", 7), ("z", 5)]}, ["a", "z", "x", "y", "c"]),
        ([("a", 10), ("b", 20)], {"a": [("b", 999)]}, ["a"]),
        ([("a", 10), ("b", 20), ("c", 25)], {"a": [("b", 30)]}, ["a", "c", "b"]),
        ([("a", 10), ("b", 20)], {"a": [("b", None)]}, ["a"]),
        ([("a", 10)], {"a": [("a", 20)]}, ["a", "a"]),
        ([("a", 10)], {"a": [("b", 20)], "b": [("c", 20)], "c": [("d", 100)], "d": [("e", 101)]}, ["a", "b", "c", "d"]),
    ],
    ids=[
        "by time", "by tag", "new between", "new with equal time", "overdue after those already due", "overdue by time and tag",
        "moved away", "moved behind", "cancelled", "again", "chain",
    ],
)  # fmt: skip
def test_when_the_watermark_jumps_past_many_they_fire_in_order_with_those_that_handlers_set(
    options: EngineOptions, asked: Asked, then: Mapping[str, Asked], expected: list[str]
) -> None:
    alarms = Alarms(options, then)
    alarms.set(*asked)
    assert [tag for tag, _ in alarms.advance(100)] == expected


def test_a_timer_set_at_or_before_the_watermark_fires_at_once() -> None:
    alarms = Alarms()
    alarms.advance(100)
    alarms.set(("a", 100), ("b", 30), ("c", 101))
    assert alarms.fired == [("b", 30), ("a", 100)]
    assert alarms.advance(101) == [("c", 101)]


class Model:
    """What should fire, by a plain list that is searched."""

    def __init__(self, then: Mapping[str, Asked]) -> None:
        self.then = dict(then)
        self.pending: dict[str, tuple[int, bool, int]] = {}
        self.watermark = MIN_TIME
        self.fired: list[tuple[str, int]] = []

    def ask(self, asked: Asked, handler_time: int) -> None:
        for tag, at in asked:
            if at is None:
                self.pending.pop(tag, None)
            else:
                self.pending[tag] = (max(at, handler_time), at <= handler_time, at)

    def run(self) -> None:
        while due := [(order, tag) for tag, order in self.pending.items() if order[0] <= self.watermark]:
            order, tag = min(due)
            del self.pending[tag]
            self.fired.append((tag, order[2]))
            self.ask(self.then.pop(tag, ()), order[0])


times = st.integers(0, 12)
tags = st.sampled_from("abcd")
asks = st.lists(st.tuples(tags, times | st.none()), max_size=4)


@given(
    st.dictionaries(tags, asks),
    st.lists(times | asks, max_size=12),
    st.sampled_from([QUIET, BATCHED, replace(BATCHED, commit_batch=2), replace(QUIET, cache_bytes=0)]),
    st.sampled_from(Productions),
)
def test_in_whatever_way_timers_are_set_they_fire_as_a_plain_list_says(
    then: Mapping[str, Asked], moves: list[int | Asked], options: EngineOptions, productions: Productions
) -> None:
    alarms, model = Alarms(options, then, productions=productions), Model(then)  # type: ignore[arg-type]
    for move in [*moves, 20]:
        if isinstance(move, int):
            model.watermark = max(model.watermark, move)
            alarms.rig.settle(watermark(move, horizon=0))
        else:
            model.ask(move, model.watermark)
            alarms.set(*move)
        model.run()
        assert alarms.fired == model.fired
        row = alarms.rig.shop.row("dog")
        pending = (
            {timer.tag: (timer.due, timer.overdue, timer.timestamp) for timer in row.timers} if row else {}
        )
        assert pending == model.pending, "what is left in the row is what is left to fire"


# Setting again, cancelling


def test_setting_a_tag_again_moves_its_timer() -> None:
    alarms = Alarms()
    alarms.set(("t", 50))
    alarms.set(("t", 80))
    assert [alarms.advance(low) for low in (60, 80, 100)] == [[], [("t", 80)], []]
    alarms.set(("t", 150))
    alarms.set(("t", 120))
    assert [alarms.advance(low) for low in (120, 150)] == [[("t", 120)], []]


def test_of_two_settings_in_one_step_the_last_one_counts() -> None:
    alarms = Alarms()
    alarms.set(("t", 50), ("t", 70), ("u", 50), ("u", None), ("v", None), ("v", 60))
    assert alarms.advance(100) == [("v", 60), ("t", 70)]


def test_a_cancelled_timer_does_not_fire() -> None:
    alarms = Alarms()
    alarms.set(("t", 50), ("u", 50))
    alarms.set(("t", None), ("never set", None))
    assert alarms.advance(100) == [("u", 50)]


def test_timers_of_different_keys_are_different_timers() -> None:
    alarms = Alarms()
    alarms.set(("t", 50), key="cat")
    alarms.set(("t", 60), key="dog")
    assert [alarms.advance(low) for low in (55, 65)] == [[("t", 50)], [("t", 60)]]


def test_a_timer_fires_once_however_often_the_watermark_and_the_write_are_repeated() -> None:
    alarms = Alarms()
    alarms.set(("t", 50))
    alarms.rig.feed(watermark(60, horizon=0))
    (request,) = alarms.rig.open
    alarms.rig.feed(watermark(70, horizon=0))
    alarms.rig.shop.store(request)
    alarms.rig.answer()
    assert alarms.advance(80) == []
    assert (
        len([event for event in alarms.rig.shop.history if isinstance(event, Executed) and event.timer]) == 1
    )


# Wall timers


def wall(
    at: int,
    hold: int | None = None,
    on_timer: Callable[[Context, Timer], None] | None = None,
    options: EngineOptions = QUIET,
) -> Rig:
    """A worker one of whose records has set a wall timer."""

    def produce(context: Context, timer: Timer) -> None:
        context.produce("counts", timer.tag)

    on_record = Scripted(lambda context, _: context.set_wall_timer("w", at, hold), on_timer or produce)
    return Rig(counter(on_record), options=options)


def test_a_wall_timer_asks_to_be_woken_and_fires_when_the_clock_has_reached_it() -> None:
    rig = wall(70)
    assert rig.settle(click("r1")) == [ack("r1")]
    assert rig.wakes[0] == 70
    assert rig.feed(Wake(), at=69) == []
    assert [type(effect) for effect in rig.feed(Wake(), at=70)] == [Send]
    assert rig.settle(Wake()) == [sent(result("counter@1.2#0", "w", timestamp=10))]
    assert rig.feed(Wake(), at=71) == []


def test_a_wall_timer_ignores_the_watermark() -> None:
    rig = wall(70)
    rig.settle(click("r1"))
    assert rig.settle(watermark(MAX_TIME, horizon=0)) == []


def test_a_wall_timer_in_the_past_fires_at_once() -> None:
    rig = wall(70)
    rig.now = 100
    assert rig.settle(click("r1")) == [ack("r1"), sent(result("counter@1.2#0", "w", timestamp=10))]


@pytest.mark.parametrize(
    ("hold", "low", "expected"),
    [
        (30, 20, 30),
        (30, 90, 30),
        (None, 20, 20),
        (None, MIN_TIME, 10),
        (None, MAX_TIME, 10),
        (30, MAX_TIME, 30),
    ],
)
def test_what_a_wall_timer_makes_has_its_hold_or_else_the_watermark_as_timestamp(
    hold: int | None, low: int, expected: int
) -> None:
    """At the ends of time there is no watermark to go by: then it is the time of the record that set it."""
    rig = wall(70, hold)
    rig.settle(click("r1"))
    rig.settle(watermark(low, horizon=0))
    assert rig.wake(70) == [sent(result("counter@1.2#0", "w", timestamp=expected))]


def test_wall_timers_fire_in_the_order_of_their_clock() -> None:
    fired: list[str] = []

    def on_record(context: Context, _: Record) -> None:
        for tag, at in (("b", 60), ("a", 60), ("c", 50), ("d", 80)):
            context.set_wall_timer(tag, at)

    rig = Rig(counter(Scripted(on_record, lambda _, timer: fired.append(timer.tag))))
    rig.settle(click("r1"))
    rig.wake(70)
    assert fired == ["c", "a", "b"]


def test_a_wall_timer_is_not_lost_when_the_clock_is_put_back_while_its_row_is_read() -> None:
    """It is due, and its row is not cached. While the row is read the clock jumps back, and it is due no longer.
    It fires when the clock has come round to it again."""
    rig = wall(70, options=replace(QUIET, cache_bytes=0))
    rig.settle(click("r1"))
    rig.feed(Wake(), at=70)
    assert isinstance(rig.request(), m.Read)
    rig.answer(at=20)
    assert rig.wakes[0] == 70
    assert rig.wake(69) == []
    assert rig.wake(70) == [sent(result("counter@1.3#0", "w", timestamp=10))]


def test_a_wall_timer_is_not_lost_when_the_clock_is_put_back_while_its_key_rests() -> None:
    """Its handler fails once. Before the key runs again the clock jumps back."""
    failures = iter([True, False])

    def fails_once(context: Context, timer: Timer) -> None:
        if next(failures):
            raise OSError(5)
        context.produce("counts", timer.tag)

    rig = wall(70, on_timer=fails_once, options=replace(QUIET, user_code_retry_us=10, sweep_period_us=1))
    rig.settle(click("r1"))
    assert rig.wake(70) == []
    assert rig.wake(20) == []
    assert rig.wake(69) == []
    assert rig.wake(70) == [sent(result("counter@1.4#0", "w", timestamp=10))]


def test_setting_a_tag_again_may_change_its_clock() -> None:
    fired: list[Clock] = []

    def on_record(context: Context, record: Record) -> None:
        if record.record_id == "r1":
            context.set_timer("t", 50)
        else:
            context.set_wall_timer("t", 50)

    rig = Rig(counter(Scripted(on_record, lambda _, timer: fired.append(timer.clock))))
    rig.settle(click("r1"))
    rig.settle(click("r2"))
    rig.settle(watermark(100, horizon=0))
    assert fired == []
    rig.wake(50)
    assert fired == [Clock.WALL]


# What handlers see


def test_handlers_see_the_watermark_and_records_behind_it_are_late() -> None:
    seen: list[tuple[int, bool]] = []
    rig = Rig(counter(Scripted(lambda context, record: seen.append((context.low_watermark, record.late)))))
    rig.settle(click("r1", timestamp=10))
    rig.settle(watermark(50, horizon=0))
    for number, timestamp in enumerate((49, 50, 51), 2):
        rig.settle(click(f"r{number}", timestamp=timestamp))
    assert seen == [(MIN_TIME, False), (50, True), (50, False), (50, False)]


def test_the_watermark_never_goes_back_for_a_worker() -> None:
    alarms = Alarms()
    alarms.advance(100)
    alarms.advance(50)
    alarms.set(("t", 70))
    assert alarms.fired == [("t", 70)]
    assert alarms.rig.shop.of(InputWatermarkAdvanced) == [
        InputWatermarkAdvanced(0, WORKER, "counter", 1, 100)
    ]


def test_a_timer_handler_sees_what_was_asked_for_also_if_it_fires_late() -> None:
    seen: list[tuple[Timer, int]] = []
    rig = Rig(
        counter(
            Scripted(
                lambda context, _: context.set_timer("t", 50),
                lambda context, timer: seen.append((timer, context.low_watermark)),
            )
        )
    )
    rig.settle(watermark(100, horizon=0))
    rig.settle(click("r1", timestamp=200))
    assert seen == [(Timer("t", 50), 100)]


# Percentile watermarks (7.2)


def test_a_consumer_of_a_percentile_has_its_timers_and_lateness_by_it() -> None:
    alarms = Alarms(watermark_percentile=90.0)
    alarms.set(("t", 50))
    alarms.rig.settle(watermark(10, 0, percentiles={90.0: 60}))
    assert alarms.fired == [("t", 50)]
    alarms.rig.settle(click("late", timestamp=55, value=[]))
    (executed,) = [
        event for event in alarms.rig.shop.history if isinstance(event, Executed) and event.cause == "late"
    ]
    assert (executed.late, executed.input_watermark) == (True, 60)


def test_an_unknown_or_lagging_percentile_is_not_below_the_low_watermark() -> None:
    alarms = Alarms(watermark_percentile=90.0)
    alarms.set(("t", 50))
    alarms.rig.settle(watermark(49, 0))
    assert alarms.fired == []
    alarms.rig.settle(watermark(50, 0, percentiles={90.0: 20, 50.0: 500}))
    assert alarms.fired == [("t", 50)]


def test_without_a_percentile_the_heuristic_is_not_followed() -> None:
    alarms = Alarms()
    alarms.set(("t", 50))
    alarms.rig.settle(watermark(10, 0, percentiles={90.0: 60}))
    assert alarms.fired == []
