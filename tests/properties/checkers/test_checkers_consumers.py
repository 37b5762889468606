"""S17: on Histories that it must pass, on some that it must not, and on broken engines; and L5 where versions change."""

import pytest

from headrace import SECOND, Computation, Pipeline
from headrace.history import (
    ComputationRemoved,
    Event,
    Injected,
    IntervalMinted,
    ProcessStarted,
    VersionAdopted,
)
from headrace.wire.messages import ChangeTopology
from headrace.wire.rows import Production
from headrace_properties.checkers import judge, reached
from headrace_properties.mutants import protocol_named
from headrace_properties.search.workloads import WORKLOADS
from headrace_properties.verdict import Holds, Unknown, Violated
from headrace_sim import FaultSchedule, simulate
from headrace_sim import faults as f
from tests.properties.explain.stories import Story, counting, healthy

PLAIN = counting()


def with_reader(name: str, stream: str, of: Pipeline = PLAIN) -> Pipeline:
    changed = of.copy()
    changed.add(Computation(), name=name, inputs=[stream])
    return changed


AUDITED = with_reader("auditor", "counts")
ARCHIVED = with_reader("archivist", "counts")
COPIED = with_reader("copier", "queries")


def begun(*versions: Pipeline) -> Story:
    """Every computation of every version has an owner; sequencer 1 is the counter's."""
    story = Story(*versions)
    for sequencer, name in enumerate(
        dict.fromkeys(name for version in versions for name in version.computations), 1
    ):
        story.own(name, sequencer)
    return story


def adopt(story: Story, version: int, *processes: str) -> None:
    for process in processes:
        story.add(VersionAdopted(story.tick(), process, version))


def addressed(record_id: str, stream: str, *consumers: str) -> tuple[Production, ...]:
    return tuple(Production(record_id, stream, one, "cats", b"1", 100, 0) for one in consumers)


def count(
    story: Story, *consumers: str, number: int = 1, sequencer: int = 1, process: str = "worker-0"
) -> None:
    """A query is counted, and the count is addressed to these."""
    (query,) = addressed(f"queries/0:{number}", "queries", "counter")
    made = addressed(f"counter@{sequencer}.{number}#0", "counts", *consumers)
    story.run("counter", number, query, *made, sequencer=sequencer, process=process)


def inject(story: Story, *consumers: str, offset: int = 0) -> None:
    made = addressed(f"queries/0:{offset}", "queries", *consumers)
    story.add(Injected(story.tick(), "queries/0", offset, 0, made))


# One version


def test_a_healthy_run_addresses_each_record_to_all_its_consumers() -> None:
    assert healthy().verdicts()["S17"] == Holds(3)


def test_without_a_record_nothing_is_known() -> None:
    assert begun(PLAIN).verdicts()["S17"] == Unknown("no record was made")


def test_a_consumer_that_is_left_out_is_named() -> None:
    story = begun(AUDITED)
    count(story, "detector", "auditor")
    assert story.verdicts()["S17"] == Holds(1)
    count(story, "auditor", number=2)
    assert "made record counter@1.2#0" in story.violated("S17")
    assert "not to 'detector'" in story.violated("S17")


@pytest.mark.parametrize(
    "consumers", [("detector", "counter"), ("detector", "detector")], ids=["another", "twice"]
)
def test_nobody_else_gets_a_record_and_nobody_gets_it_twice(consumers: tuple[str, ...]) -> None:
    story = begun(PLAIN)
    count(story, *consumers)
    assert f"out of turn to {consumers[1]!r}" in story.violated("S17")


def test_a_stream_without_a_consumer_goes_outside_only() -> None:
    story = begun(PLAIN)
    (seen,) = addressed("counter@1.1#0", "counts", "detector")
    story.run("detector", 1, seen, *addressed("detector@2.1#0", "dips", "counter"), sequencer=2)
    assert "not to ''" in story.violated("S17")


# Several versions


def test_an_added_consumer_gets_what_is_made_by_those_who_know_of_it() -> None:
    story = begun(PLAIN, AUDITED)
    count(story, "detector")
    adopt(story, 1, "store")
    count(story, "detector", number=2)
    adopt(story, 1, "worker-0")
    count(story, "detector", "auditor", number=3)
    assert story.verdicts()["S17"] == Holds(3)
    count(story, "detector", number=4)
    assert "which works by version 1 of the pipeline" in story.violated("S17")
    assert "not to 'auditor'" in story.violated("S17")


def test_nobody_is_fed_by_those_who_do_not_know_of_it() -> None:
    story = begun(PLAIN, AUDITED)
    adopt(story, 1, "store", "worker-1")
    count(story, "detector", "auditor")
    assert "out of turn to 'auditor'" in story.violated("S17")


def test_what_an_added_consumer_was_sent_it_must_apply() -> None:
    """It is addressed to the auditor, who never applies it: that is a loss, and no matter of addresses."""
    story = begun(PLAIN, AUDITED)
    adopt(story, 1, "store", "worker-0")
    made = addressed("counter@1.1#0", "counts", "detector", "auditor")
    (query,) = addressed("queries/0:0", "queries", "counter")
    story.take("counter", 1, query, *made)
    story.take("detector", 1, made[0], sequencer=2)
    story.end()
    assert story.broken() & {"S17", "S1"} == {"S1"}
    assert "to 'auditor'" in story.violated("S1")


def test_a_consumer_that_has_left_need_not_get_anything() -> None:
    story = begun(AUDITED, PLAIN)
    adopt(story, 1, "store")
    story.add(ComputationRemoved(story.tick(), "store", "auditor"))
    count(story, "detector")
    assert story.verdicts()["S17"] == Holds(1)
    count(story, "auditor", number=2)
    assert "not to 'detector'" in story.violated("S17")


def test_whose_sequencer_is_newer_than_a_version_knows_of_it() -> None:
    story = begun(PLAIN, AUDITED)
    adopt(story, 1, "store")
    story.mint("counter", 9, "worker-1")
    count(story, "detector", sequencer=9, process="worker-1")
    message = story.violated("S17")
    assert "by version 0 of the pipeline" in message
    assert "minted when version 1 was in force" in message


def test_it_may_know_of_a_later_one_as_well() -> None:
    story = begun(PLAIN, AUDITED)
    adopt(story, 1, "store")
    story.mint("counter", 9, "worker-1")
    adopt(story, 0, "store", "worker-1")
    count(story, "detector", sequencer=9, process="worker-1")
    assert story.verdicts()["S17"] == Holds(1)


def test_an_incarnation_begins_with_the_first_version() -> None:
    story = begun(PLAIN, AUDITED)
    adopt(story, 1, "store", "worker-0")
    story.add(ProcessStarted(story.tick(), "worker-0", 2))
    count(story, "detector", "auditor")
    assert "out of turn to 'auditor'" in story.violated("S17")


def test_who_retires_goes_on_by_the_version_that_it_retires_from() -> None:
    without = PLAIN.without("detector").without("counter")
    without.add(Computation(), name="other", inputs=["queries"], outputs=["counts"])
    story = begun(PLAIN, AUDITED, without)
    adopt(story, 2, "store", "worker-0")
    count(story, "detector")
    assert story.verdicts()["S17"] == Holds(1)
    count(story, "detector", "auditor", number=2)
    assert "out of turn to 'auditor'" in story.violated("S17")


def test_an_injector_feeds_the_version_that_it_knows_and_may_owe_those_that_retire() -> None:
    story = begun(COPIED, PLAIN)
    inject(story, "counter", "copier")
    adopt(story, 1, "store", "queries/0")
    inject(story, "counter", "copier")
    inject(story, "counter", offset=1)
    assert story.verdicts()["S17"] == Holds(3)
    inject(story, "copier", offset=2)
    assert "not to 'counter'" in story.violated("S17")


def test_an_injector_owes_nothing_to_who_has_left() -> None:
    story = begun(COPIED, PLAIN)
    adopt(story, 1, "store", "queries/0")
    story.add(ComputationRemoved(story.tick(), "store", "copier"))
    inject(story, "counter", "copier")
    assert "out of turn to 'copier'" in story.violated("S17")


def test_cases_of_versions_are_counted() -> None:
    story = begun(PLAIN, AUDITED)
    adopt(story, 1, "store")
    count(story, "detector")
    adopt(story, 1, "worker-0")
    count(story, "detector", "auditor", number=2)
    story.add(ProcessStarted(story.tick(), "worker-0", 2))
    count(story, "detector", number=3)
    cases = reached(story.events)
    assert cases["a version was put in force"] == 1
    assert cases["a record was made by a version out of force"] == 2


# L5


def test_an_owner_that_never_learns_of_the_version_in_force_is_told_when_its_time_is_over() -> None:
    story = begun(PLAIN, AUDITED)
    story.tick(10_000)
    adopt(story, 1, "store")
    story.tick(4_000)
    story.end()
    assert "L5" not in story.broken()
    story.events.pop()
    story.tick(2_000)
    story.end()
    assert "does not know that version 1 of the pipeline is in force" in story.violated("L5")
    story.events.pop()
    adopt(story, 1, "worker-0")
    story.end()
    assert "L5" not in story.broken()


# Runs

CHANGE = FaultSchedule((f.Operate(at_us=SECOND // 2, verb=ChangeTopology(1)),), 4 * SECOND)


def run(workload: str, protocol: str = "sound", faults: FaultSchedule = CHANGE) -> list[Event]:
    one = WORKLOADS[workload]
    found = simulate(
        one.deployed, one.feed(0), options=one.options, faults=faults, protocol=protocol_named(protocol)
    )
    return list(found)


@pytest.mark.parametrize("workload", ["changing", "weak changing", "gaining"])
def test_a_change_is_known_to_the_store_first_and_then_to_every_owner_and_injector(workload: str) -> None:
    events = run(workload)
    adopted = [one for one in events if isinstance(one, VersionAdopted)]
    assert adopted[0].process == "store"
    owners = {one.owner for one in events if isinstance(one, IntervalMinted)}
    assert {one.process for one in adopted[1:]} == {*owners, "letters/0"}
    assert {one.version for one in adopted} == {1}
    assert isinstance(judge(events, WORKLOADS[workload].deployed)["S17"], Holds)


@pytest.mark.parametrize(
    ("workload", "protocol"),
    [("changing", "an old owner keeps its version"), ("gaining", "an injector keeps its version")],
)
def test_engines_that_keep_to_a_version_are_caught(workload: str, protocol: str) -> None:
    verdict = judge(run(workload, protocol), WORKLOADS[workload].deployed)["S17"]
    assert isinstance(verdict, Violated)


def test_one_who_restarts_learns_of_the_version_again() -> None:
    """The injector's process dies when it knows of the change, and must feed the added consumer when it is back."""
    crash = f.Crash(at_us=SECOND, process="letters/0", restart_after_us=SECOND // 5)
    events = run("gaining", faults=FaultSchedule((*CHANGE.faults, crash), 5 * SECOND))
    adopted = [one for one in events if isinstance(one, VersionAdopted) and one.process == "letters/0"]
    assert len(adopted) == 2
    assert any(isinstance(one, Injected) and one.at_us > adopted[1].at_us for one in events)
    assert isinstance(judge(events, WORKLOADS["gaining"].deployed)["S17"], Holds)
