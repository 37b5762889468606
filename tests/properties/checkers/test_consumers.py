"""S17: on Histories that it must pass, on some that it must not, and on broken engines; and L5 where versions change."""

from functools import partial

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
from headrace_properties.checkers import judge
from headrace_properties.checkers.consumers import OtherPipelineError
from headrace_properties.proof.mutants import protocol_named
from headrace_properties.proof.workloads import WORKLOADS
from headrace_properties.verdict import Holds, Violated
from headrace_sim import FaultSchedule, simulate
from headrace_sim import faults as f
from tests.properties.checkers.steps import (
    COUNT,
    QUERY,
    Row,
    Table,
    add,
    back,
    check,
    end,
    holds,
    mint,
    reaches,
    run,
    spares,
    step,
    take,
    unknown,
    violates,
    wait,
)
from tests.properties.stories import Story, counting, healthy

PLAIN = counting()


def with_reader(name: str, stream: str, of: Pipeline = PLAIN) -> Pipeline:
    other = of.copy()
    other.add(Computation(), name=name, inputs=[stream])
    return other


AUDITED = with_reader("auditor", "counts")
ARCHIVED = with_reader("archivist", "counts")
COPIED = with_reader("copier", "queries")
REPLACED = PLAIN.without("detector").without("counter")
REPLACED.add(Computation(), name="other", inputs=["queries"], outputs=["counts"])


def begun(*versions: Pipeline) -> Story:
    """Every computation of every version has an owner; sequencer 1 is the counter's."""
    story = Story(*versions)
    for sequencer, name in enumerate(
        dict.fromkeys(name for version in versions for name in version.computations), 1
    ):
        story.own(name, sequencer)
    return story


@step
def adopt(story: Story, version: int, *processes: str) -> None:
    for process in processes:
        story.add(VersionAdopted(story.tick(), process, version))


def addressed(record_id: str, stream: str, *consumers: str) -> tuple[Production, ...]:
    return tuple(Production(record_id, stream, consumer, "cats", b"1", 100, 0) for consumer in consumers)


@step
def count(
    story: Story, *consumers: str, number: int = 1, sequencer: int = 1, process: str = "worker-0"
) -> None:
    """A query is counted, and the count is addressed to these."""
    (query,) = addressed(f"queries/0:{number}", "queries", "counter")
    made = addressed(f"counter@{sequencer}.{number}#0", "counts", *consumers)
    story.run("counter", number, query, *made, sequencer=sequencer, process=process)


@step
def inject(story: Story, *consumers: str, offset: int = 0) -> None:
    made = addressed(f"queries/0:{offset}", "queries", *consumers)
    story.add(Injected(story.tick(), "queries/0", offset, 0, made))


# Runs

CHANGE = FaultSchedule((f.Operate(at_us=SECOND // 2, verb=ChangeTopology(1)),), 4 * SECOND)


def changed(workload: str, protocol: str = "sound", faults: FaultSchedule = CHANGE) -> list[Event]:
    one = WORKLOADS[workload]
    found = simulate(
        one.deployed, one.feed(0), options=one.options, faults=faults, protocol=protocol_named(protocol)
    )
    return list(found)


@pytest.mark.parametrize("workload", ["changing", "weak changing", "gaining"])
def test_a_change_is_known_to_the_store_first_and_then_to_every_owner_and_injector(workload: str) -> None:
    events = changed(workload)
    adopted = [event for event in events if isinstance(event, VersionAdopted)]
    assert adopted[0].process == "store"
    owners = {event.owner for event in events if isinstance(event, IntervalMinted)}
    assert {change.process for change in adopted[1:]} == {*owners, "letters/0"}
    assert {change.version for change in adopted} == {1}
    assert isinstance(judge(events, WORKLOADS[workload].deployed)["S17"], Holds)


@pytest.mark.parametrize(
    ("workload", "protocol"),
    [("changing", "an old owner keeps its version"), ("gaining", "an injector keeps its version")],
)
def test_engines_that_keep_to_a_version_are_caught(workload: str, protocol: str) -> None:
    verdict = judge(changed(workload, protocol), WORKLOADS[workload].deployed)["S17"]
    assert isinstance(verdict, Violated)


def test_a_restarted_process_learns_the_version_again() -> None:
    """The injector's process dies when it knows of the change, and must feed the added consumer when it is back."""
    crash = f.Crash(at_us=SECOND, process="letters/0", restart_after_us=SECOND // 5)
    events = changed("gaining", faults=FaultSchedule((*CHANGE.faults, crash), 5 * SECOND))
    adopted = [
        event for event in events if isinstance(event, VersionAdopted) and event.process == "letters/0"
    ]
    assert len(adopted) == 2
    assert any(isinstance(event, Injected) and event.at_us > adopted[1].at_us for event in events)
    assert isinstance(judge(events, WORKLOADS["gaining"].deployed)["S17"], Holds)


# fmt: off
HISTORIES: Table = {
    # One version
    "a healthy run addresses each record to all its consumers": (
        healthy,
        holds("S17", 3)),
    "without a record nothing is known": (
        partial(begun, PLAIN),
        unknown("S17", "no record was made")),
    "a consumer that is left out is named": (
        partial(begun, AUDITED), count("detector", "auditor"),
        holds("S17", 1),
        count("auditor", number=2),
        violates("S17", "made record counter@1.2#0", "not to 'detector'")),
    "nobody else gets a record": (
        partial(begun, PLAIN), count("detector", "counter"),
        violates("S17", "out of turn to 'counter'")),
    "nobody gets a record twice": (
        partial(begun, PLAIN), count("detector", "detector"),
        violates("S17", "out of turn to 'detector'")),
    "a stream without a consumer goes outside only": (
        partial(begun, PLAIN), run("detector", 1, COUNT, *addressed("detector@2.1#0", "dips", "counter"), sequencer=2),
        violates("S17", "not to ''")),

    # Several versions
    "an added consumer gets what is made by those who know of it": (
        partial(begun, PLAIN, AUDITED), count("detector"), adopt(1, "store"), count("detector", number=2),
        adopt(1, "worker-0"), count("detector", "auditor", number=3),
        holds("S17", 3),
        count("detector", number=4),
        violates("S17", "which works by version 1 of the pipeline", "not to 'auditor'")),
    "nobody is fed by those who do not know of it": (
        partial(begun, PLAIN, AUDITED), adopt(1, "store", "worker-1"), count("detector", "auditor"),
        violates("S17", "out of turn to 'auditor'")),
    # It is addressed to the auditor, who never applies it: that is a loss, and no matter of addresses.
    "what an added consumer was sent it must apply": (
        partial(begun, PLAIN, AUDITED), adopt(1, "store", "worker-0"),
        take("counter", 1, QUERY, *addressed("counter@1.1#0", "counts", "detector", "auditor")),
        take("detector", 1, COUNT, sequencer=2), end(),
        violates("S1", "to 'auditor'"), spares("S17")),
    "a consumer that has left need not get anything": (
        partial(begun, AUDITED, PLAIN), adopt(1, "store"), add(ComputationRemoved, "store", "auditor"), count("detector"),
        holds("S17", 1),
        count("auditor", number=2),
        violates("S17", "not to 'detector'")),
    "whose sequencer is newer than a version knows of it": (
        partial(begun, PLAIN, AUDITED), adopt(1, "store"), mint("counter", 9, "worker-1"),
        count("detector", sequencer=9, process="worker-1"),
        violates("S17", "by version 0 of the pipeline", "minted when version 1 was in force")),
    "it may know of a later one as well": (
        partial(begun, PLAIN, AUDITED), adopt(1, "store"), mint("counter", 9, "worker-1"), adopt(0, "store", "worker-1"),
        count("detector", sequencer=9, process="worker-1"),
        holds("S17", 1)),
    "an incarnation begins with the first version": (
        partial(begun, PLAIN, AUDITED), adopt(1, "store", "worker-0"), add(ProcessStarted, "worker-0", 2),
        count("detector", "auditor"),
        violates("S17", "out of turn to 'auditor'")),
    "who retires goes on by the version that it retires from": (
        partial(begun, PLAIN, AUDITED, REPLACED), adopt(2, "store", "worker-0"), count("detector"),
        holds("S17", 1),
        count("detector", "auditor", number=2),
        violates("S17", "out of turn to 'auditor'")),
    "an injector feeds the version that it knows and may owe those that retire": (
        partial(begun, COPIED, PLAIN), inject("counter", "copier"), adopt(1, "store", "queries/0"),
        inject("counter", "copier"), inject("counter", offset=1),
        holds("S17", 3),
        inject("copier", offset=2),
        violates("S17", "not to 'counter'")),
    "an injector owes nothing to who has left": (
        partial(begun, COPIED, PLAIN), adopt(1, "store", "queries/0"), add(ComputationRemoved, "store", "copier"),
        inject("counter", "copier"),
        violates("S17", "out of turn to 'copier'")),
    "cases of versions are counted": (
        partial(begun, PLAIN, AUDITED), adopt(1, "store"), count("detector"), adopt(1, "worker-0"),
        count("detector", "auditor", number=2), add(ProcessStarted, "worker-0", 2), count("detector", number=3),
        reaches({
            "a process restarted": 1, "a version was put in force": 1, "a record was made by a version out of force": 2,
        })),

    # L5
    "an owner that never learns of the version in force is told when its time is over": (
        partial(begun, PLAIN, AUDITED), wait(10_000), adopt(1, "store"), wait(4_000), end(),
        spares("L5"),
        back(), wait(2_000), end(),
        violates("L5", "does not know that version 1 of the pipeline is in force"),
        back(), adopt(1, "worker-0"), end(),
        spares("L5")),
}
# fmt: on


@pytest.mark.parametrize("row", HISTORIES.values(), ids=HISTORIES)
def test_checkers_give_the_expected_verdicts(row: Row) -> None:
    check(row)


@pytest.mark.parametrize(
    ("story", "told"),
    [
        ((partial(begun, PLAIN), run("stranger", 1, QUERY, *addressed("x", "counts", "detector"))), "it has no 'stranger'"),
        ((partial(begun, PLAIN, AUDITED), adopt(2, "store")), "store adopts version 2 of 2"),
    ],
)  # fmt: skip
def test_a_history_of_other_code_is_refused(story: Row, told: str) -> None:
    with pytest.raises(OtherPipelineError, match=told):
        check((*story, Story.verdicts))
