"""S7, S8, S9 and L1, each on a History that it must pass and on one that it must not."""

import pytest

from headrace import Clock
from headrace.history import Executed
from headrace.wire.rows import StoredTimer
from headrace_properties.verdict import Holds, Unknown
from tests.properties.explain.stories import Story, begin, counting, healthy, record, timer


def with_timer(*timers: StoredTimer) -> Story:
    """A first record sets these timers, in write 1.1."""
    story = begin()
    story.take("counter", 1, story.inject(0, 100), set_timers=timers)
    story.report(1_000)
    return story


# S7 (Figure 12)


def zombie_timer(*, fires: bool) -> Story:
    """A zombie's write with a timer is applied after its successor has scanned; a later owner finds the timer."""
    story = begin()
    query = story.inject(0, 100)
    lost = timer("w17", 200, 1)
    story.run("counter", 1, query)
    story.own("counter", 3, "worker-1")
    story.write("counter", 1, sequencer=1, live=3, seen=((query.record_id, 0),), set_timers=(lost,))
    story.ack("counter", query.record_id)
    story.report(300)
    story.publish("queries", 300)
    story.tick(12_000)
    if fires:
        story.mint("counter", 4, "worker-2")
        story.scan("counter", 4, "worker-2", timers=(("cats", "w17"),))
        story.fire("counter", 1, lost, sequencer=4, watermark=300)
    story.end()
    return story


def test_a_timer_that_eludes_the_scan_is_a_violation_though_a_later_owner_fires_it() -> None:
    story = zombie_timer(fires=True)
    message = story.violated("S7")
    assert "timer 'w17' of key 'cats' at 'counter' eluded its owner: it was due at 0.012000s" in message
    assert "fired only 12.004000s later" in message
    assert "worker-1 (sequencer 3) had scanned 'counter' ['', end) at 0.008000s" in message
    assert "a write under sequencer 1 was applied at 0.009000s (MillWheel 6.2, Figure 12)" in message
    assert story.broken() - {"L4"} == {"S6", "S7"}


def test_a_timer_that_eludes_the_scan_and_never_fires_is_named_by_liveness_too() -> None:
    story = zombie_timer(fires=False)
    assert "it was due at 0.012000s and did not fire" in story.violated("S7")
    assert "watermark timer 'w17' of key 'cats' at 'counter'" in story.violated("L1")


def test_a_write_that_is_applied_between_the_scans_read_and_its_end_is_found_by_the_scan() -> None:
    story = begin()
    query = story.inject(0, 100)
    story.run("counter", 1, query)
    story.mint("counter", 3, "worker-1")
    story.write(
        "counter", 1, sequencer=1, live=3, seen=((query.record_id, 0),), set_timers=(timer("w", 200, 1),)
    )
    story.scan("counter", 3, "worker-1")
    assert "timer 'w' of key 'cats' at 'counter' eluded its owner" in story.violated("S7")


def test_a_checkpointed_production_that_eludes_the_scan_is_named() -> None:
    story = begin()
    query = story.inject(0, 100)
    count = record("counter@1.1#0", "detector", 100)
    story.run("counter", 1, query, count)
    story.own("counter", 3, "worker-1")
    story.write("counter", 1, live=3, seen=((query.record_id, 0),), productions=(count,))
    assert (
        "production counter@1.1#0 of 'counter' to 'detector' eluded its owner, was never delivered"
        in story.violated("S7")
    )
    story.take("detector", 1, count, sequencer=2)
    assert "and arrived only 0.002000s later" in story.violated("S7")


def test_a_lost_timer_that_the_owner_sets_anew_is_lost_no_more() -> None:
    story = zombie_timer(fires=False)
    story.events.pop()
    story.take(
        "counter", 1, story.inject(1, 150), sequencer=3, set_timers=(timer("w17", 200, 1, sequencer=3),)
    )
    assert "until it was set anew or cancelled at" in story.violated("S7")


def test_a_write_that_leaves_timers_alone_still_changes_the_row_behind_the_owners_back() -> None:
    story = begin()
    story.own("counter", 3, "worker-1")
    story.write("counter", 1, live=3)
    assert "the row changed behind its back" in story.violated("S7")


def test_a_scan_that_brings_what_no_row_has_is_caught() -> None:
    story = begin()
    story.mint("counter", 3, "worker-1")
    story.scan("counter", 3, "worker-1", timers=(("cats", "ghost"),))
    assert "its scan brought [('cats', 'ghost')], which no row has" in story.violated("S7")


def test_a_scan_that_finds_timers_and_checkpoints_agrees_with_the_rows() -> None:
    story = begin()
    count = record("counter@1.1#0", "detector", 100)
    story.take("counter", 1, story.inject(0, 100), count, set_timers=(timer("w", 200, 1),))
    story.mint("counter", 3, "worker-1")
    story.scan(
        "counter", 3, "worker-1", timers=(("cats", "w"),), productions=((count.record_id, "detector"),)
    )
    assert story.verdicts()["S7"] == Holds(3)


def test_a_scan_that_ends_after_its_owner_was_replaced_does_not_matter() -> None:
    story = begin()
    story.mint("counter", 3, "worker-1")
    story.own("counter", 4, "worker-2")
    story.take("counter", 1, story.inject(0, 100), sequencer=4, set_timers=(timer("w", 200, 1, sequencer=4),))
    story.scan("counter", 3, "worker-1")
    assert story.verdicts()["S7"] == Holds(3)


# S8


def test_a_timer_that_overtakes_an_earlier_one_is_caught() -> None:
    early, late = timer("a", 200, 1), timer("b", 300, 1)
    story = with_timer(early, late)
    story.fire("counter", 2, late)
    assert "timer 'b' (due 0.000300s) of key 'cats' at 'counter' fired at" in story.violated("S8")
    assert "before timer 'a' (due 0.000200s)" in story.violated("S8")


def test_two_timers_of_one_step_fire_in_order() -> None:
    early, late = timer("a", 200, 1), timer("b", 300, 1)
    for first, second, holds in ((early, late, True), (late, early, False)):
        story = with_timer(early, late)
        story.run("counter", 2, first, watermark=300)
        story.run("counter", 2, second, watermark=300)
        story.write("counter", 2, fired=(first, second))
        assert isinstance(story.verdicts()["S8"], Holds) is holds


def test_an_earlier_timer_that_the_step_cancels_is_not_overtaken() -> None:
    early, late = timer("a", 200, 1), timer("b", 300, 1)
    story = with_timer(early, late)
    story.fire("counter", 2, late, cancelled=("a",))
    assert story.verdicts()["S8"] == Holds(1)


def test_timers_of_the_two_clocks_do_not_wait_for_each_other() -> None:
    wall, late = timer("a", 200, 1, clock=Clock.WALL), timer("b", 300, 1)
    story = with_timer(wall, late)
    story.fire("counter", 2, late)
    assert story.verdicts()["S8"] == Holds(1)


def test_a_timer_that_the_step_sets_is_not_overtaken_by_the_one_that_fires() -> None:
    late = timer("b", 300, 1)
    story = with_timer(late)
    story.fire("counter", 2, late, set_timers=(timer("a", 200, 2),))
    assert story.verdicts()["S8"] == Holds(1)


def test_without_a_timer_nothing_is_known_of_timers() -> None:
    story = begin()
    story.take("counter", 1, story.inject(0, 100))
    story.end()
    verdicts = story.verdicts()
    assert {name: type(verdicts[name]) for name in ("S8", "S9", "L1")} == {
        "S8": Unknown,
        "S9": Unknown,
        "L1": Unknown,
    }


# S9


def test_a_timer_that_fires_twice_is_caught() -> None:
    window = timer("w", 200, 1)
    story = with_timer(window)
    story.fire("counter", 2, window)
    story.fire("counter", 3, window)
    assert "timer 'w' of key 'cats' at 'counter', set by version 1.1, fired twice" in story.violated("S9")


def test_a_timer_that_is_set_anew_may_fire_again() -> None:
    window, again = timer("w", 200, 1), timer("w", 300, 2)
    story = with_timer(window)
    story.fire("counter", 2, window, set_timers=(again,))
    story.fire("counter", 3, again)
    assert story.verdicts()["S9"] == Holds(2)


def test_a_timer_that_was_moved_does_not_fire() -> None:
    window = timer("w", 200, 1)
    story = with_timer(window)
    story.take("counter", 2, story.inject(1, 100), set_timers=(timer("w", 400, 2),))
    story.fire("counter", 3, window)
    assert "was not pending" in story.violated("S9")


def test_a_timer_that_runs_before_its_input_watermark_is_caught() -> None:
    window = timer("w", 200, 1)
    story = with_timer(window)
    story.fire("counter", 2, window, watermark=199)
    assert "due at 0.000200s, ran at" in story.violated("S9")
    assert "when its input watermark was 0.000199s" in story.violated("S9")


def test_a_worker_that_believes_too_much_is_caught_by_what_injectors_reported() -> None:
    window = timer("w", 2_000, 1)
    story = with_timer(window)
    story.fire("counter", 2, window, watermark=2_000)
    assert "not even the injectors were so far" in story.violated("S9")


def test_a_wall_timer_does_not_wait_for_the_watermark() -> None:
    window = timer("w", 2_000, 1, clock=Clock.WALL)
    story = with_timer(window)
    story.fire("counter", 2, window, watermark=0)
    assert story.verdicts()["S9"] == Holds(1)


# L1


def test_a_due_timer_that_has_not_fired_at_rest_is_stuck() -> None:
    story = with_timer(timer("w", 200, 1))
    story.publish("queries", 200)
    story.tick(1_000)
    story.end()
    message = story.violated("L1")
    assert (
        "watermark timer 'w' of key 'cats' at 'counter' (due 0.000200s), set at 0.007000s, has been due since 0.010000s"
        in message
    )


def test_a_timer_that_is_not_due_may_wait() -> None:
    story = with_timer(timer("w", 200, 1))
    story.publish("queries", 199)
    story.end()
    assert story.verdicts()["L1"] == Unknown("no watermark timer came due")


@pytest.mark.parametrize(
    ("why", "late_ms", "stuck"),
    [
        ("deadline", 4_000, False),
        ("deadline", 5_000, True),
        ("quiescent", 100, False),
        ("quiescent", 1_000, True),
    ],
)
def test_the_end_of_a_run_leaves_a_due_timer_some_time(why: str, late_ms: int, *, stuck: bool) -> None:
    story = with_timer(timer("w", 200, 1))
    story.publish("queries", 200)
    story.tick(late_ms)
    story.end(why)
    assert ("L1" in story.broken()) is stuck


def test_a_timer_waits_for_the_slowest_sender() -> None:
    pipeline = counting()
    pipeline.injector("more", outputs=["queries"])
    story = begin(pipeline)
    story.take("counter", 1, story.inject(0, 100), set_timers=(timer("w", 200, 1),))
    story.publish("queries", 200)
    story.tick(1_000)
    story.end()
    assert "L1" not in story.broken()
    story.events.pop()
    story.publish("more", 200)
    story.tick(1_000)
    story.end()
    story.violated("L1")


def test_the_healthy_story_runs_user_code_for_its_timer() -> None:
    assert [event.timer.tag for event in healthy().events if isinstance(event, Executed) and event.timer] == [
        "w"
    ]
