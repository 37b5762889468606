"""S12 and L5: each on a History that it must pass, on one that it must not, and on a broken engine; S11 over several owners."""

import dataclasses

import msgspec
import pytest

from headrace import SECOND, KeyInterval
from headrace.history import FaultStruck, Healed, IntervalDropped, ProcessStarted
from headrace.watermarks.authority import WatermarkAuthority
from headrace.wire.messages import Progress
from headrace_properties.checkers import judge
from headrace_properties.verdict import Holds, Unknown, Violated
from headrace_sim import ClusterOptions, FaultSchedule, Protocol, simulate
from headrace_sim import faults as f
from tests.properties.explain.stories import Story, begin, healthy
from tests.sim.rig import calm_owner, letters, mail

LOW, HIGH = KeyInterval("", "m"), KeyInterval("m")


def halves() -> Story:
    """The counter has two owners."""
    story = Story()
    story.own("counter", 1, interval=LOW)
    story.own("counter", 2, "worker-1", HIGH)
    return story


# S12


def test_the_authority_may_say_what_all_owners_have_computed() -> None:
    story = halves()
    story.owner_reports("counter", 30, interval=LOW)
    story.owner_reports("counter", 50, sequencer=2, interval=HIGH)
    story.publish("counter", 30)
    assert story.verdicts()["S12"] == Holds(1)
    story.publish("counter", 31)
    assert "exceeds what was known of ['', 'm')" in story.violated("S12")


def test_a_missing_interval_holds_the_rest_back() -> None:
    story = halves()
    story.owner_reports("counter", 30, interval=LOW)
    story.publish("counter", 30)
    assert "exceeds what was known of ['m', end)" in story.violated("S12")


def test_an_interval_that_is_missing_has_its_last_known_value() -> None:
    story = begin()
    story.owner_reports("counter", 30)
    story.mint("counter", 3, "worker-1", LOW)
    story.mint("counter", 4, "worker-2", HIGH)
    story.owner_reports("counter", 90, sequencer=3, interval=LOW)
    story.publish("counter", 30)
    assert "S12" not in story.broken()
    story.publish("counter", 31)
    story.violated("S12")


def test_what_a_zombie_reports_does_not_count() -> None:
    story = begin()
    story.mint("counter", 3, "worker-1")
    story.owner_reports("counter", 30)
    story.publish("counter", 30)
    story.violated("S12")


def test_horizons_are_held_to_the_reports_too() -> None:
    story = begin()
    story.owner_reports("counter", 30, 3)
    story.publish("counter", 30, 4)
    assert "its horizon" in story.violated("S12")


def test_an_injector_that_has_not_reported_holds_its_own_back() -> None:
    story = begin()
    story.owner_reports("counter", 0)
    story.publish("queries", 10)
    assert "queries/0 had not reported so much" in story.violated("S12")


def test_a_host_whose_owners_report_nothing_has_no_authority() -> None:
    story = begin()
    story.publish("counter", 30)
    assert story.verdicts()["S12"] == Unknown("no owner reported its progress")


class Optimist(WatermarkAuthority):
    """Takes the greatest of the intervals' values, and not the least."""

    __slots__ = ()

    def progress(self, name: str) -> Progress:
        greatest = max(entry.low_watermark for entry in self.map_of(name).entries())
        return super().progress(name).at_least(Progress(greatest))


def test_an_authority_that_overlooks_an_interval_is_caught() -> None:
    """What one owner sends is held on the wire, and holds its interval; the other's goes on."""
    pipeline, protocol = mail(), Protocol("optimist", authority=Optimist)
    held = f.Hold(
        at_us=SECOND,
        message="Deliver",
        source=calm_owner("sorter", "anna"),
        target=calm_owner("counter", "riva"),
        count=3,
        for_us=SECOND,
    )
    history = simulate(pipeline, letters(pipeline), faults=FaultSchedule((held,)), protocol=protocol)
    assert isinstance(judge(history, [pipeline])["S12"], Violated)


# S11 over several owners


def test_a_new_owner_begins_where_the_ones_before_it_had_been() -> None:
    story = begin()
    story.advance("counter", 50)
    story.mint("counter", 3, "worker-1")
    story.scan("counter", 3, "worker-1")
    story.advance("counter", 49, sequencer=3, process="worker-1")
    assert "worker-1 took the input of 'counter'" in story.violated("S11")


def test_an_owner_of_old_may_be_behind() -> None:
    story = halves()
    story.advance("counter", 50)
    story.advance("counter", 40, sequencer=2, process="worker-1")
    assert "S11" not in story.broken()


# L5


def ended(story: Story, after_ms: int = 6_000) -> Story:
    story.tick(after_ms)
    story.end()
    return story


def test_owners_that_have_scanned_own() -> None:
    assert ended(begin()).verdicts()["L5"] == Holds(2)


def test_a_host_without_scans_is_not_judged_by_them() -> None:
    story = Story()
    story.mint("counter", 1)
    assert ended(story).verdicts()["L5"] == Unknown("this host has no recovery scans")


def test_keys_that_nobody_was_given_are_told() -> None:
    story = Story()
    story.own("counter", 1, interval=LOW)
    assert "only ['', 'm') of 'counter'" in ended(story).violated("L5")


def test_an_owner_that_never_scans_is_told_when_its_time_is_over() -> None:
    story = begin()
    story.mint("counter", 3, "worker-1")
    assert "L5" not in ended(story, 4_000).broken()
    story.events.pop()
    assert "has not scanned it, or dropped it" in ended(story, 2_000).violated("L5")


def test_an_owner_that_dropped_its_interval_is_told() -> None:
    story = begin()
    story.add(IntervalDropped(story.tick(), "worker-0", "counter", KeyInterval(), 1, "table"))
    ended(story).violated("L5")


def test_an_owner_that_stays_bad_must_be_replaced() -> None:
    story = begin()
    story.add(FaultStruck(story.tick(), "worker-0", "pause", ""))
    story.add(Healed(story.tick(), "", ("worker-0",)))
    assert "its owner worker-0 (sequencer 1) has stopped" in ended(story).violated("L5")


def test_an_owner_that_began_anew_owns_nothing_and_is_told_when_its_time_is_over() -> None:
    story = begin()
    story.tick(6_000)
    story.add(ProcessStarted(story.tick(), "worker-0", 2))
    assert "L5" not in ended(story, 4_000).broken()
    story.events.pop()
    story.add(ProcessStarted(story.tick(), "worker-0", 3))  # a third life does not excuse the second
    assert "has begun anew without it" in ended(story, 2_000).violated("L5")


@pytest.mark.parametrize("patience_us", [SECOND, 1_000 * SECOND])
def test_a_master_that_does_not_replace_the_dead_is_caught(patience_us: int) -> None:
    """A worker crashes for good. Its intervals go to others once its heartbeats are missed, and not before."""
    pipeline, base = mail(), ClusterOptions(grace_us=10 * SECOND)
    engine = dataclasses.replace(base.engine, heartbeat_timeout_us=patience_us)
    options = msgspec.structs.replace(base, engine=engine)
    faults = FaultSchedule((f.Crash(at_us=2 * SECOND, process="worker-0"),), 3 * SECOND, ("worker-0",))
    verdicts = judge(
        simulate(pipeline, letters(pipeline), options=options, faults=faults), [pipeline], engine
    )
    assert isinstance(verdicts["L5"], Holds if patience_us == SECOND else Violated)


def test_a_healthy_run_says_no_more_than_its_owners() -> None:
    assert healthy().verdicts()["S12"] == Holds(4)
