"""S12 and L5: each on a History that it must pass, on one that it must not, and on a broken engine; S11 over several owners."""

import dataclasses

import msgspec
import pytest

from headrace import SECOND, KeyInterval
from headrace.history import FaultStruck, Healed, IntervalDropped, ProcessStarted
from headrace.watermarks.authority import WatermarkAuthority
from headrace.wire.messages import Progress
from headrace_properties.checkers import judge
from headrace_properties.verdict import Holds, Violated
from headrace_sim import ClusterOptions, FaultSchedule, Protocol, simulate
from headrace_sim import faults as f
from tests.properties.checkers.steps import (
    Row,
    Table,
    add,
    advance,
    back,
    check,
    end,
    holds,
    mint,
    own,
    owner_reports,
    publish,
    scan,
    spares,
    unknown,
    violates,
    wait,
)
from tests.properties.stories import Story, begin, healthy
from tests.sim.rig import calm_owner, letters, mail

LOW, HIGH = KeyInterval("", "m"), KeyInterval("m")


def halves() -> Story:
    """The counter has two owners."""
    story = Story()
    story.own("counter", 1, interval=LOW)
    story.own("counter", 2, "worker-1", HIGH)
    return story


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


# L5


def ended(story: Story, after_ms: int = 6_000) -> Story:
    story.tick(after_ms)
    story.end()
    return story


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


# fmt: off
HISTORIES: Table = {
    # S12
    "the authority may say what all owners have computed": (
        halves, owner_reports("counter", 30, interval=LOW), owner_reports("counter", 50, sequencer=2, interval=HIGH),
        publish("counter", 30),
        holds("S12", 1),
        publish("counter", 31),
        violates("S12", "exceeds what was known of ['', 'm')")),
    "a missing interval holds the rest back": (
        halves, owner_reports("counter", 30, interval=LOW), publish("counter", 30),
        violates("S12", "exceeds what was known of ['m', end)")),
    "an interval that is missing has its last known value": (
        begin, owner_reports("counter", 30), mint("counter", 3, "worker-1", LOW), mint("counter", 4, "worker-2", HIGH),
        owner_reports("counter", 90, sequencer=3, interval=LOW), publish("counter", 30),
        spares("S12"),
        publish("counter", 31),
        violates("S12")),
    "what a zombie reports does not count": (
        begin, mint("counter", 3, "worker-1"), owner_reports("counter", 30), publish("counter", 30),
        violates("S12")),
    "horizons are held to the reports too": (
        begin, owner_reports("counter", 30, 3), publish("counter", 30, 4),
        violates("S12", "its horizon")),
    "an injector that has not reported holds its own back": (
        begin, owner_reports("counter", 0), publish("queries", 10),
        violates("S12", "queries/0 had not reported so much")),
    "a host whose owners report nothing has no authority": (
        begin, publish("counter", 30),
        unknown("S12", "no owner reported its progress")),

    # S11 over several owners
    "a new owner begins where the ones before it had been": (
        begin, advance("counter", 50), mint("counter", 3, "worker-1"), scan("counter", 3, "worker-1"),
        advance("counter", 49, sequencer=3, process="worker-1"),
        violates("S11", "worker-1 took the input of 'counter'")),
    "an owner of old may be behind": (
        halves, advance("counter", 50), advance("counter", 40, sequencer=2, process="worker-1"),
        spares("S11")),
    "owners that have scanned own": (
        begin, wait(6_000), end(),
        holds("L5", 2)),
    "a host without scans is not judged by them": (
        Story, mint("counter", 1), wait(6_000), end(),
        unknown("L5", "this host has no recovery scans")),
    "keys that nobody was given are told": (
        Story, own("counter", 1, interval=LOW), wait(6_000), end(),
        violates("L5", "only ['', 'm') of 'counter'")),
    "an owner that never scans is told when its time is over": (
        begin, mint("counter", 3, "worker-1"), wait(4_000), end(),
        spares("L5"),
        back(), wait(2_000), end(),
        violates("L5", "has not scanned it, or dropped it")),
    "an owner that dropped its interval is told": (
        begin, add(IntervalDropped, "worker-0", "counter", KeyInterval(), 1, "table"), wait(6_000), end(),
        violates("L5")),
    "an owner that stays bad must be replaced": (
        begin, add(FaultStruck, "worker-0", "pause", ""), add(Healed, "", ("worker-0",)), wait(6_000), end(),
        violates("L5", "its owner worker-0 (sequencer 1) has stopped")),
    "an owner that began anew owns nothing and is told when its time is over": (
        begin, wait(6_000), add(ProcessStarted, "worker-0", 2), wait(4_000), end(),
        spares("L5"),
        back(), add(ProcessStarted, "worker-0", 3), wait(2_000), end(),
        violates("L5", "has begun anew without it")),
    "a healthy run says no more than its owners": (
        healthy,
        holds("S12", 4)),
}
# fmt: on


@pytest.mark.parametrize("row", HISTORIES.values(), ids=HISTORIES)
def test_checkers_give_the_expected_verdicts(row: Row) -> None:
    check(row)
