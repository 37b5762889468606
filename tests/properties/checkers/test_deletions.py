"""S13 and L3: each on a History that it must pass, on one that it must not, and on a broken store."""

import dataclasses

import msgspec
import pytest

from headrace import MAX_TIME, SECOND, EngineOptions
from headrace.history import FaultStruck, Healed, History, Resent
from headrace.store.mediator import Mediator, StoredRow
from headrace.wire import messages as m
from headrace_properties.checkers import judge
from headrace_properties.verdict import Holds, Violated
from headrace_sim import ClusterOptions, Protocol, simulate
from tests.properties.checkers.steps import (
    COUNT,
    QUERY,
    Row,
    Table,
    add,
    back,
    check,
    collect,
    end,
    holds,
    inject,
    own,
    publish,
    query,
    report,
    run,
    spares,
    take,
    unknown,
    violates,
    wait,
)
from tests.properties.stories import Story, begin, healthy, record
from tests.sim.rig import letters, mail

CALM = ClusterOptions(
    engine=dataclasses.replace(EngineOptions(), collect_period_us=SECOND // 10, id_slack_us=0)
)


def collected() -> Story:
    """A query is counted, and its id collected."""
    story = begin()
    story.take("counter", 1, story.inject(0, 100, origin=5))
    story.report(300, horizon=10)
    story.collect("counter", 10, 1)
    return story


def test_the_slack_is_kept() -> None:
    story = collected()
    options = EngineOptions(id_slack_us=1)
    assert isinstance(judge(story.events, story.pipelines, options)["S13"], Violated)


class HastyCollector(Mediator):
    """Deletes the ids of records that can still be sent again."""

    def _collect(self, request: m.CollectIds) -> m.Reply:
        return super()._collect(msgspec.structs.replace(request, below=MAX_TIME))


class NoCollector(Mediator):
    """Keeps all ids for ever."""

    def _collect(self, request: m.CollectIds) -> m.Reply:
        return m.Collected(request.request)


class Hoarder(Mediator):
    """Keeps all checkpoints for ever."""

    def _delete(self, request: m.Write, rows: dict[str, StoredRow], *, is_latest: bool) -> None:
        del request, rows, is_latest


def run_on(mediator: type[Mediator]) -> History:
    """A run that goes on for long after its first records."""
    pipeline = mail()
    feed = letters(pipeline, 60, every_us=SECOND // 5)
    return simulate(pipeline, feed, options=CALM, protocol=Protocol("broken", mediator=mediator))


def test_a_store_that_collects_too_much_is_caught() -> None:
    assert isinstance(judge(run_on(HastyCollector), [mail()], CALM.engine)["S13"], Violated)


def test_stores_that_delete_nothing_are_caught() -> None:
    assert isinstance(judge(run_on(Mediator), [mail()], CALM.engine)["L3"], Holds)
    for broken in (NoCollector, Hoarder):
        assert isinstance(judge(run_on(broken), [mail()], CALM.engine)["L3"], Violated), broken


# fmt: off
HISTORIES: Table = {
    # S13
    "an id that nobody can send again may be collected": (
        collected,
        holds("S13", 1)),
    "without a collection nothing is known": (
        begin,
        unknown("S13")),
    "an id must not go before its injector is past it": (
        begin, inject(0, 100, origin=5), take("counter", 1, query(0, 100, origin=5)), report(300, horizon=5),
        collect("counter", 6, 1),
        violates("S13", "injector queries/0 was not past it by the slack")),
    "an id must not go while work upstream is as old": (
        begin, inject(0, 100, origin=5),
        take("counter", 1, query(0, 100, origin=5), record("counter@1.1#0", "detector", 100, origin=5)),
        report(300, horizon=10), collect("detector", 10, 0),
        violates("S13", "was unfinished")),
    "no more ids go than lie behind the horizon": (
        begin, inject(0, 100, origin=5), take("counter", 1, query(0, 100, origin=5)), report(300, horizon=10),
        collect("counter", 5, 1),
        violates("S13", "1 ids were deleted, and 0 lay before it")),
    "an injector must not send again what was collected": (
        collected, inject(0, 100, origin=5),
        violates("S13", "was sent again by queries/0"),
        back(), add(Resent, "queries/0", "queries/0:0", "counter"),
        violates("S13")),
    "an owner must not run what was collected and a zombie does not count": (
        collected, own("counter", 3, "worker-1"), run("counter", 2, record("queries/0:0", "counter", 100, origin=5)),
        spares("S13"),
        run("counter", 1, record("queries/0:0", "counter", 100, origin=5), sequencer=3, process="worker-1"),
        violates("S13", "was run again by worker-1")),

    # L3
    "a deleted checkpoint has drained": (
        healthy,
        holds("L3")),
    "without anything to delete nothing is known": (
        begin, end(),
        unknown("L3", "nothing was to be deleted")),
    "a checkpoint that arrived long ago must be gone": (
        begin, inject(0, 100), take("counter", 1, QUERY, COUNT), take("detector", 1, COUNT, sequencer=2), end(),
        spares("L3"),
        back(), wait(2_000), end(),
        violates("L3", "the checkpoint of counter@1.1#0")),
    # Its sender was told of the ACK, and died before it could delete it.
    "a checkpoint may stay for a while after the heal": (
        begin, inject(0, 100), take("counter", 1, QUERY, COUNT), take("detector", 1, COUNT, sequencer=2), wait(2_000),
        add(Healed, "", ()), end(),
        spares("L3"),
        back(), wait(2_000), end(),
        violates("L3", "the checkpoint of counter@1.1#0")),
    "an id far behind the horizon must be gone": (
        begin, inject(0, 100, origin=5), take("counter", 1, query(0, 100, origin=5)),
        publish("queries", 10, horizon=5 * SECOND), wait(4_000), end(),
        spares("L3"),
        back(), wait(4_000), end(),
        violates("L3", "id queries/0:0 is still in a row")),
    # Found by a search: its owner was paused nearly all the time.
    **{f"an id may stay for a while after {what}": (
        begin, inject(0, 100, origin=5), take("counter", 1, query(0, 100, origin=5)),
        publish("queries", 10, horizon=5 * SECOND), wait(4_000), disturbance, wait(4_000), end(),
        spares("L3"),
        back(), wait(4_000), end(),
        violates("L3", "id queries/0:0 is still in a row"))
        for what, disturbance in {
            "its owner was revived": add(FaultStruck, "worker-0", "revive", ""),
            "the store was struck": add(FaultStruck, "store", "drop", ""),
            "its keys went to another owner": own("counter", 3, "worker-1"),
        }.items()},
    "a fault at another worker is no reason to keep an id": (
        begin, inject(0, 100, origin=5), take("counter", 1, query(0, 100, origin=5)),
        publish("queries", 10, horizon=5 * SECOND), wait(4_000), add(FaultStruck, "worker-2", "revive", ""), wait(4_000),
        end(), violates("L3", "id queries/0:0 is still in a row")),
}
# fmt: on


@pytest.mark.parametrize("row", HISTORIES.values(), ids=HISTORIES)
def test_checkers_give_the_expected_verdicts(row: Row) -> None:
    check(row)
