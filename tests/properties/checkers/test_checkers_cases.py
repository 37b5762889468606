"""The hard cases that `reached` counts, and the checkers on runs of the simulated cluster."""

import msgspec

from headrace import Clock, KeyInterval
from headrace.history import (
    Delivered,
    DuplicateDropped,
    Healed,
    ProcessStarted,
    Published,
    Resent,
    RoleClaimed,
    ScanBegun,
    WriteRefused,
)
from headrace.wire.messages import Progress
from headrace_properties.checkers import CASES, judge, reached
from headrace_properties.verdict import Holds
from headrace_scenarios import zeitgeist
from headrace_sim import simulate
from tests.properties.explain.stories import Story, begin, healthy, timer


def cases(story: Story) -> dict[str, int]:
    """What came up at all."""
    return {case: count for case, count in reached(story.events).items() if count}


def test_every_case_is_counted_even_if_it_never_came_up() -> None:
    assert reached([]) == dict.fromkeys(CASES, 0)


def test_a_healthy_run_reaches_no_fault() -> None:
    assert cases(healthy()) == {"a timer was set": 1, "a timer fired": 1, "an id was collected": 1}


def test_a_refused_write_of_a_zombie_is_reached() -> None:
    """The zombie has run a step when its interval is taken away; its write comes after its successor's scan."""
    story = begin()
    query = story.inject(0, 100)
    story.run("counter", 1, query)
    story.mint("counter", 3, "worker-1")
    refused = WriteRefused(story.tick(), "store", "counter", 1, 3, ("cats",))
    story.add(refused)
    expected = {
        "ownership changed": 1,
        "ownership changed with a write in flight": 1,
        "a write was refused": 1,
    }
    assert cases(story) == expected
    story.scan("counter", 3, "worker-1")
    story.add(refused)
    assert cases(story) == {**expected, "a write was refused": 2, "a zombie's write came late": 1}


def test_a_zombies_applied_write_is_reached() -> None:
    story = begin()
    story.write("counter", 1, live=3)
    assert cases(story) == {"a zombie's write was applied": 1}


def test_a_scan_that_finds_something_is_reached() -> None:
    story = begin()
    story.scan("counter", 3, timers=(("cats", "w"),), productions=(("counter@1.1#0", "detector"),))
    assert cases(story) == {"a scan found timers": 1, "a scan found checkpointed productions": 1}


def test_duplicates_restarts_and_takeovers_are_reached() -> None:
    story = Story()
    story.add(DuplicateDropped(1, "worker-0", "counter", "cats", "queries/0:0", "id"))
    story.add(DuplicateDropped(2, "worker-0", "counter", "cats", "queries/0:0", "horizon"))
    story.add(ProcessStarted(3, "worker-0", 1))
    story.add(ProcessStarted(4, "worker-0", 2))
    story.add(RoleClaimed(5, "store", "master", 1, "master-0"))
    story.add(RoleClaimed(6, "store", "master", 2, "master-1"))
    assert cases(story) == {
        "a duplicate arrived": 2,
        "a duplicate came behind the horizon": 1,
        "a process restarted": 1,
        "a standby took over": 1,
    }


def test_shared_steps_cancellations_and_holds_are_reached() -> None:
    story = begin()
    window = timer("w", 200, 1)
    story.write("counter", 1, seen=(("a", 0), ("b", 0)), set_timers=(window,), hold=7, cancelled=("v",))
    assert cases(story) == {
        "a step took several records or timers": 1,
        "a timer was set": 1,
        "a timer was cancelled": 1,
        "a state held the watermark": 1,
    }


def test_what_becomes_of_records_is_reached() -> None:
    """A late query is re-sent though it was ACKed, and comes once more when its id is gone; its injector reads it again."""
    story = begin()
    query = story.inject(0, 100, watermark=200, origin=5)
    story.take("counter", 1, query)
    story.add(Resent(story.tick(), "queries/0", query.record_id, "counter"))
    story.collect("counter", 6, 1)
    story.add(DuplicateDropped(story.tick(), "worker-0", "counter", "cats", query.record_id, "horizon"))
    story.inject(0, 100, origin=5)
    story.run("counter", 2, query)
    assert cases(story) == {
        "a record was late from the source": 1,
        "a delivery was re-sent": 1,
        "an ACK was lost": 1,
        "an id was collected": 1,
        "a duplicate arrived": 1,
        "a duplicate came behind the horizon": 1,
        "a duplicate came after its id was collected": 1,
        "an injector read its source again": 1,
        "user code ran again for a record": 1,
    }


def test_what_becomes_of_timers_is_reached() -> None:
    story = begin()
    overdue = msgspec.structs.replace(timer("w", 200, 1), overdue=True)
    wall = timer("v", 10, 1, clock=Clock.WALL)
    story.write("counter", 1, set_timers=(overdue, wall))
    story.write("counter", 1, sequencer=3, fired=(wall,))
    story.add(Published(story.tick(), "authority-0.0", (("counter", Progress(5, 0, ((80.0, 7),))),)))
    assert cases(story) == {
        "a timer was set": 2,
        "a timer was set behind the watermark": 1,
        "a timer fired": 1,
        "a wall timer fired": 1,
        "a timer fired at another owner than set it": 1,
        "a percentile watermark was ahead": 1,
    }


def test_what_becomes_of_intervals_is_reached() -> None:
    """A scan meets a late write, and is cut short by a split; an authority dies before the new owners have reported."""
    story = Story()
    story.mint("counter", 1)
    story.mint("counter", 2, "worker-1")
    story.add(ScanBegun(story.tick(), "worker-1", "counter", KeyInterval(), 2))
    story.add(WriteRefused(story.tick(), "store", "counter", 1, 2, ("cats",)))
    story.mint("counter", 3, "worker-1", KeyInterval("", "m"))
    story.mint("counter", 4, "worker-2", KeyInterval("m"))
    story.add(RoleClaimed(story.tick(), "store", "authority-0", 2, "authority-0.1"))
    story.add(RoleClaimed(story.tick(), "store", "queries/0", 2, "queries/0"))
    story.add(Delivered(story.tick(), "worker-0", "counter", "cats", "queries/0:0", "queries/0"))
    story.mint("counter", 5)
    story.add(Healed(story.tick(), "", ("worker-1",)))
    assert cases(story) == {
        "ownership changed": 3,
        "a write was refused": 1,
        "a scan overlapped a late write": 1,
        "a scan was cut short": 1,
        "an interval was split": 1,
        "intervals were merged": 1,
        "a standby took over": 1,
        "an authority was replaced while an interval was missing": 1,
        "a delivery reached a stale owner": 1,
        "a process stayed bad": 1,
    }


def test_a_run_of_the_cluster_without_faults_holds() -> None:
    for pipeline in (zeitgeist.pipeline, zeitgeist.weak_pipeline):
        history = simulate(pipeline, zeitgeist.feed(1), seed=1)
        verdicts = judge(history, [pipeline])
        verdicts.pop("S5-weak", None)
        assert {name: verdict for name, verdict in verdicts.items() if not isinstance(verdict, Holds)} == {}
