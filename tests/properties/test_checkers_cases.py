"""The hard cases that `reached` counts, and the checkers on runs of the simulated cluster."""

from millrace.history import DuplicateDropped, ProcessStarted, RoleClaimed, WriteRefused
from millrace_properties.checkers import CASES, judge, reached
from millrace_properties.verdict import Holds
from millrace_scenarios import zeitgeist
from millrace_sim import simulate
from tests.properties.stories import Story, begin, healthy, timer


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


def test_a_run_of_the_cluster_without_faults_holds() -> None:
    for pipeline in (zeitgeist.pipeline, zeitgeist.weak_pipeline):
        history = simulate(pipeline, zeitgeist.feed(1), seed=1)
        verdicts = judge(history, [pipeline])
        verdicts.pop("S5-weak", None)
        assert {name: verdict for name, verdict in verdicts.items() if not isinstance(verdict, Holds)} == {}
