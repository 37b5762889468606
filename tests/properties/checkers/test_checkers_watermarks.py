"""S10, S10-horizon, S11 and L4, each on a History that it must pass and on one that it must not."""

import pytest

from headrace import MAX_TIME, MIN_TIME, Clock, Computation, Productions
from headrace.history import ComputationRemoved, DuplicateDropped, FaultStruck, Published, RoleClaimed
from headrace.wire.messages import Progress
from headrace.wire.rows import Production
from headrace_properties.verdict import Holds, Unknown
from tests.properties.explain.stories import Story, begin, counting, record, timer


def held(time: int) -> Story:
    """A story whose injector has come to 1000; a record at ``time`` is durable on its way to the detector."""
    story = begin()
    query = story.inject(0, time, origin=7)
    story.take("counter", 1, query, record("counter@1.1#0", "detector", time, origin=7))
    story.report(1_000)
    story.publish("queries", 1_000)
    return story


# S10


def test_a_broadcast_past_an_undelivered_production_is_caught() -> None:
    story = held(100)
    story.publish("counter", 101)
    message = story.violated("S10")
    assert "the low watermark of 'counter' was broadcast as 0.000101s" in message
    assert (
        "while record counter@1.1#0 of 'counter' to 'detector' (key 'cats', timestamp 0.000100s)" in message
    )


def test_a_broadcast_up_to_pending_work_holds() -> None:
    story = held(100)
    story.publish("counter", 100)
    story.publish("detector", 100)
    assert story.verdicts()["S10"] == Holds(3)


def test_work_upstream_holds_the_watermark_of_all_downstream() -> None:
    story = held(100)
    story.publish("detector", 101)
    assert "the low watermark of 'detector' was broadcast" in story.violated("S10")


def test_a_record_that_is_applied_holds_nothing_any_more() -> None:
    story = held(100)
    story.take("detector", 1, record("counter@1.1#0", "detector", 100, origin=7), sequencer=2)
    story.publish("counter", 900)
    assert isinstance(story.verdicts()["S10"], Holds)


def test_an_accepted_record_holds_its_injectors_watermark() -> None:
    story = begin()
    story.inject(0, 100)
    story.publish("queries", 101)
    assert "record queries/0:0 of 'queries' to 'counter'" in story.violated("S10")


def test_a_record_that_was_injected_late_holds_nothing() -> None:
    story = begin()
    story.inject(0, 100, watermark=101)
    story.publish("queries", 900)
    assert story.verdicts()["S10"] == Holds(1)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"set_timers": (timer("w", 200, 1),)}, "watermark timer 'w' of key 'cats' at 'counter'"),
        ({"hold": 200}, "the state of key 'cats' at 'counter' (which holds 0.000200s)"),
    ],
)
def test_timers_and_held_state_hold_the_watermark(changes: dict[str, object], what: str) -> None:
    story = begin()
    query = story.inject(0, 100)
    story.take("counter", 1, query, **changes)  # type: ignore[arg-type]
    story.publish("queries", 1_000)
    story.publish("counter", 200)
    assert story.verdicts()["S10"] == Holds(2)
    story.publish("counter", 201)
    assert what in story.violated("S10")


def test_a_hold_that_is_released_and_a_timer_that_is_cancelled_hold_nothing() -> None:
    story = begin()
    story.take("counter", 1, story.inject(0, 100), set_timers=(timer("w", 200, 1),), hold=200)
    story.take("counter", 2, story.inject(1, 150), cancelled=("w",), hold=MAX_TIME)
    story.publish("counter", 900)
    assert story.verdicts()["S10"] == Holds(1)


def test_a_timer_that_is_moved_holds_at_its_new_time() -> None:
    story = begin()
    story.take("counter", 1, story.inject(0, 100), set_timers=(timer("w", 200, 1),))
    story.take("counter", 2, story.inject(1, 150), set_timers=(timer("w", 300, 2),))
    story.publish("counter", 300)
    assert story.verdicts()["S10"] == Holds(1)
    story.publish("counter", 301)
    story.violated("S10")


def test_a_wall_timer_without_a_hold_holds_nothing() -> None:
    story = begin()
    story.take("counter", 1, story.inject(0, 100), set_timers=(timer("w", 200, 1, clock=Clock.WALL),))
    story.publish("counter", 900)
    assert story.verdicts()["S10"] == Holds(1)


def test_a_windows_production_holds_though_the_input_has_passed_it() -> None:
    """The timer at 200 fires when the input is at 1000; its production at 200 is not late."""
    story = begin()
    window = timer("w", 200, 1)
    story.take("counter", 1, story.inject(0, 100), set_timers=(window,))
    story.report(1_000)
    story.publish("queries", 1_000)
    story.publish("counter", 200)
    story.fire("counter", 2, window, record("counter@1.2#0", "detector", 200), watermark=1_000)
    story.publish("counter", 201)
    assert "record counter@1.2#0" in story.violated("S10")


def test_what_a_late_record_leads_to_holds_nothing_behind_the_injectors() -> None:
    story = begin()
    story.report(1_000)
    story.publish("queries", 1_000)
    query = story.inject(0, 100, watermark=1_000)
    story.take(
        "counter", 1, query, record("counter@1.1#0", "detector", 100), set_timers=(timer("w", 1_200, 1),)
    )
    story.publish("counter", 1_000)
    assert story.verdicts()["S10"] == Holds(2)
    story.publish("counter", 1_201)
    assert "timer 'w'" in story.violated("S10")


@pytest.mark.parametrize("broadcast", ["before", "afterwards"])
def test_what_a_late_record_leads_to_at_the_very_watermark_is_not_late(broadcast: str) -> None:
    story = begin()
    story.report(1_000)
    story.publish("queries", 1_000)
    if broadcast == "before":
        story.publish("counter", 1_000)
    query = story.inject(0, 100, watermark=1_000)
    story.take("counter", 1, query, set_timers=(timer("w", 1_000, 1),))
    story.publish("counter", 1_000)
    assert isinstance(story.verdicts()["S10"], Holds)
    story.publish("counter", 1_001)
    assert "timer 'w'" in story.violated("S10")


def test_what_a_late_record_leads_to_holds_nothing_before_its_owner_knows_of_it() -> None:
    """The reply to the write is lost; the owner reports on, and learns later that the timer is durable, and late."""
    story = begin()
    story.report(1_000)
    query = story.inject(0, 100, watermark=1_000)
    story.run("counter", 1, query)
    story.write("counter", 1, seen=((query.record_id, 0),), set_timers=(timer("w", 1_200, 1),))
    story.report(1_300)
    story.publish("queries", 1_300)
    story.publish("counter", 1_300)
    story.ack("counter", query.record_id)
    story.publish("counter", 1_400)
    assert isinstance(story.verdicts()["S10"], Holds)


def test_work_that_is_born_behind_a_broadcast_is_late() -> None:
    story = begin()
    story.publish("counter", 500)
    story.take("counter", 1, story.inject(0, 100, watermark=101), record("counter@1.1#0", "detector", 100))
    story.publish("counter", 600)
    assert story.verdicts()["S10"] == Holds(2)


def test_a_production_that_eluded_a_scan_makes_the_watermark_wrong() -> None:
    """Figure 12's second form: the zombie's commit lets A forget the record, and B-prime does not know what came of it."""
    story = begin()
    query = story.inject(0, 100)
    count = record("counter@1.1#0", "detector", 100)
    story.run("counter", 1, query, count)
    story.own("counter", 3, "worker-1")
    story.write("counter", 1, live=3, seen=((query.record_id, 0),), productions=(count,))
    story.ack("counter", query.record_id)
    story.report(1_000)
    story.publish("queries", 1_000)
    story.publish("counter", 1_000)
    assert "while record counter@1.1#0" in story.violated("S10")
    assert {"S6", "S7", "S10"} <= story.broken()


def weak_in_flight() -> tuple[Story, Production]:
    """A weak step has sent its production, and is not committed; the consumer has set a timer for it."""
    story = begin(counting(productions=Productions.WEAK))
    query = story.inject(0, 100)
    count = record("queries/0:0>counter#0", "detector", 100)
    story.run("counter", 1, query, count)
    story.report(1_000)
    story.take("detector", 1, count, sequencer=2, set_timers=(timer("w", 150, 1, sequencer=2),))
    return story, query


def test_what_a_weak_production_in_flight_leads_to_holds_the_watermark() -> None:
    story, query = weak_in_flight()
    story.write("counter", 1, seen=((query.record_id, 0),))
    story.publish("detector", 151)
    assert "timer 'w' of key 'cats' at 'detector'" in story.violated("S10")


def test_a_weak_production_holds_by_its_cause_until_it_is_checkpointed() -> None:
    story = begin(counting(productions=Productions.WEAK))
    query = story.inject(0, 100)
    count = record("queries/0:0>counter#0", "detector", 100)
    story.run("counter", 1, query, count)
    story.publish("counter", 101)
    assert "record queries/0:0 of 'queries'" in story.violated("S10")
    story.events.pop()
    story.write("counter", 1, seen=((query.record_id, 0),), productions=(count,))
    story.publish("counter", 101)
    assert "record queries/0:0>counter#0 of 'counter'" in story.violated("S10")


def test_a_worker_that_acts_upon_a_watermark_past_pending_work_is_caught() -> None:
    story = held(100)
    story.advance("detector", 100, sequencer=2)
    assert isinstance(story.verdicts()["S10"], Holds)
    story.advance("detector", 101, sequencer=2)
    assert "worker-0 took 0.000101s for the input watermark of 'detector'" in story.violated("S10")


def test_a_percentile_watermark_may_pass_pending_work() -> None:
    story = begin(counting(watermark_percentile=50.0))
    story.inject(0, 100)
    story.advance("counter", 900)
    assert "S10" not in story.broken()


def test_a_production_to_a_computation_that_was_removed_holds_nothing() -> None:
    story = held(100)
    story.add(ComputationRemoved(story.tick(), "store", "detector"))
    story.publish("counter", 900)
    story.end()
    assert not story.broken() - {"L4"}


def test_what_joins_a_running_topology_behind_a_computation_is_late_for_it() -> None:
    """The detector has come to 500 when a second, slower counter begins to feed it."""
    before = counting()
    after = counting()
    after.add(Computation(), name="slow", inputs=["queries"], outputs=["counts"])
    story = begin(before, after)
    story.publish("queries", 90)
    story.publish("detector", 500)
    story.own("slow", 3)
    query = story.inject(0, 100)
    story.take("counter", 1, query)
    story.publish("detector", 600)
    assert "S10" not in story.broken()


# S10-horizon


def test_a_horizon_past_the_origin_of_an_unfinished_record_is_caught() -> None:
    story = held(100)
    story.publish("counter", 100, horizon=7)
    assert isinstance(story.verdicts()["S10-horizon"], Holds)
    story.publish("detector", 100, horizon=8)
    message = story.violated("S10-horizon")
    assert "the horizon of 'detector' was broadcast as 0.000008s" in message
    assert "record counter@1.1#0 of 'counter'" in message


def test_late_records_hold_the_horizon_like_any() -> None:
    story = begin()
    story.inject(0, 100, watermark=900, origin=7)
    story.publish("queries", 900, horizon=8)
    story.violated("S10-horizon")


def test_of_two_copies_of_a_record_the_older_origin_holds_the_horizon() -> None:
    story = begin()
    story.inject(0, 100, origin=9)
    story.inject(0, 100, origin=7)
    story.publish("queries", 100, horizon=8)
    story.violated("S10-horizon")


def test_remnants_of_code_without_exactly_once_are_not_unfinished() -> None:
    """A record is run twice, strong; what the second run made is refused behind the horizon (6.1.3)."""
    story = begin(counting(exactly_once=False))
    query = story.inject(0, 100, origin=7)
    for number in (1, 2):
        count = record(f"counter@1.{number}#0", "detector", 100, origin=7)
        story.run("counter", number, query, count)
        story.write("counter", number, productions=(count,))
        story.ack("counter", query.record_id)
        if number == 1:
            story.take("detector", 1, count, sequencer=2)
            story.report(900, horizon=8)
            story.publish("counter", 900, horizon=8)
    story.add(DuplicateDropped(story.tick(), "worker-0", "detector", "cats", "counter@1.2#0", "horizon"))
    story.ack("detector", "counter@1.2#0")
    story.publish("counter", 950, horizon=9)
    story.end()
    assert not story.broken() - {"L4"}


# S11


def test_a_low_watermark_that_goes_back_is_caught() -> None:
    story = begin()
    story.publish("counter", 200, horizon=5)
    story.publish("counter", 199, horizon=5)
    assert (
        "broadcast the progress of 'counter' at 0.006000s with a low watermark of 0.000199s"
        in story.violated("S11")
    )


def test_a_horizon_that_goes_back_is_caught() -> None:
    story = begin()
    story.publish("counter", 200, horizon=5)
    story.publish("counter", 200, horizon=4, process="authority-0.1")
    assert "with a horizon of 0.000004s, after 0.000005s" in story.violated("S11")


def test_a_percentile_that_goes_back_is_caught() -> None:
    story = begin()
    for time in (300, 299):
        progress = Progress(200, 5, ((90.0, time),))
        story.add(Published(story.tick(), "authority-0.0", (("counter", progress),)))
    assert "with a 90 % watermark of 0.000299s" in story.violated("S11")


def test_a_new_authority_that_knows_less_than_was_broadcast_is_caught() -> None:
    story = begin()
    story.publish("counter", 200, process="authority-0.0")
    story.add(RoleClaimed(story.tick(), "store", "authority-0", 2, "authority-0.1"))
    story.publish("counter", 100, process="authority-0.1")
    story.violated("S11")


def test_a_replaced_authority_may_repeat_what_it_had_journaled() -> None:
    story = begin()
    story.add(RoleClaimed(story.tick(), "store", "authority-0", 1, "authority-0.0#1"))
    story.publish("counter", 200, process="authority-0.0")
    story.add(RoleClaimed(story.tick(), "store", "authority-0", 2, "authority-0.1#1"))
    story.publish("counter", 300, process="authority-0.1")
    story.publish("counter", 250, process="authority-0.0")
    assert isinstance(story.verdicts()["S11"], Holds)


def test_an_input_watermark_that_goes_back_is_caught_for_one_owner_only() -> None:
    story = begin()
    story.advance("counter", 200)
    story.advance("counter", 100, sequencer=3, process="worker-1")
    assert isinstance(story.verdicts()["S11"], Holds)
    story.advance("counter", 199)
    assert "worker-0 took the input of 'counter'" in story.violated("S11")


def test_an_injector_that_reports_less_after_a_restart_is_caught() -> None:
    story = begin()
    story.report(200, horizon=5)
    story.report(200, horizon=4)
    assert "injector queries/0 reported at" in story.violated("S11")


# L4


def test_a_watermark_that_stops_behind_its_injectors_is_caught() -> None:
    story = held(100)
    story.publish("counter", 100)
    story.end()
    message = story.violated("L4")
    assert "the low watermark of 'counter' stands at 0.000100s at the end" in message
    assert "its injectors had reported 0.001000s; record counter@1.1#0" in message


def test_watermarks_that_reach_their_injectors_hold() -> None:
    story = begin()
    story.report(300)
    story.publish("counter", 300)
    story.publish("detector", MAX_TIME)
    story.end()
    assert story.verdicts()["L4"] == Holds(2)


def test_a_deadline_leaves_a_watermark_some_time() -> None:
    for late_ms, stuck in ((100, False), (6_000, True)):
        story = begin()
        story.report(300)
        story.tick(late_ms)
        story.end("deadline")
        assert ("L4" in story.broken()) is stuck


def test_a_computation_that_was_removed_need_not_arrive() -> None:
    story = begin()
    story.report(300)
    story.publish("counter", 300)
    story.add(ComputationRemoved(story.tick(), "store", "detector"))
    story.end()
    assert story.verdicts()["L4"] == Holds(1)


def test_without_a_report_nothing_is_known_of_the_aim() -> None:
    story = begin()
    story.report(MIN_TIME)
    story.end()
    assert story.verdicts()["L4"] == Unknown("no injector reported a low watermark")


def test_an_unhealed_run_is_not_asked_to_arrive() -> None:
    story = held(100)
    story.add(FaultStruck(story.tick(), "worker-0", "pause", ""))
    story.end("deadline")
    assert isinstance(story.verdicts()["L4"], Unknown)
