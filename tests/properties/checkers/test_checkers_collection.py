"""S13 and L3: each on a History that it must pass, on one that it must not, and on a broken store."""

import dataclasses

import msgspec

from headrace import MAX_TIME, SECOND, EngineOptions
from headrace.history import Healed, History, Resent
from headrace.store.mediator import Mediator, StoredRow
from headrace.wire import messages as m
from headrace_properties.checkers import judge
from headrace_properties.verdict import Holds, Unknown, Violated
from headrace_sim import ClusterOptions, Protocol, simulate
from tests.properties.explain.stories import Story, begin, healthy, record
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


# S13


def test_an_id_that_nobody_can_send_again_may_be_collected() -> None:
    assert collected().verdicts()["S13"] == Holds(1)


def test_without_a_collection_nothing_is_known() -> None:
    assert isinstance(begin().verdicts()["S13"], Unknown)


def test_the_slack_is_kept() -> None:
    story = collected()
    options = EngineOptions(id_slack_us=1)
    assert isinstance(judge(story.events, story.pipelines, options)["S13"], Violated)


def test_an_id_must_not_go_before_its_injector_is_past_it() -> None:
    story = begin()
    story.take("counter", 1, story.inject(0, 100, origin=5))
    story.report(300, horizon=5)
    story.collect("counter", 6, 1)
    assert "injector queries/0 was not past it by the slack" in story.violated("S13")


def test_an_id_must_not_go_while_work_upstream_is_as_old() -> None:
    story = begin()
    count = record("counter@1.1#0", "detector", 100, origin=5)
    story.take("counter", 1, story.inject(0, 100, origin=5), count)
    story.report(300, horizon=10)
    story.collect("detector", 10, 0)
    assert "was unfinished" in story.violated("S13")


def test_no_more_ids_go_than_lie_behind_the_horizon() -> None:
    story = begin()
    story.take("counter", 1, story.inject(0, 100, origin=5))
    story.report(300, horizon=10)
    story.collect("counter", 5, 1)
    assert "1 ids were deleted, and 0 lay before it" in story.violated("S13")


def test_an_injector_must_not_send_again_what_was_collected() -> None:
    story = collected()
    story.inject(0, 100, origin=5)
    assert "was sent again by queries/0" in story.violated("S13")
    story = collected()
    story.add(Resent(story.tick(), "queries/0", "queries/0:0", "counter"))
    story.violated("S13")


def test_an_owner_must_not_run_what_was_collected_and_a_zombie_does_not_count() -> None:
    story = collected()
    query = record("queries/0:0", "counter", 100, origin=5)
    story.own("counter", 3, "worker-1")
    story.run("counter", 2, query)
    assert "S13" not in story.broken()
    story.run("counter", 1, query, sequencer=3, process="worker-1")
    assert "was run again by worker-1" in story.violated("S13")


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


# L3


def test_a_deleted_checkpoint_has_drained() -> None:
    assert isinstance(healthy().verdicts()["L3"], Holds)


def test_without_anything_to_delete_nothing_is_known() -> None:
    story = begin()
    story.end()
    assert story.verdicts()["L3"] == Unknown("nothing was to be deleted")


def test_a_checkpoint_that_arrived_long_ago_must_be_gone() -> None:
    story = begin()
    count = record("counter@1.1#0", "detector", 100)
    story.take("counter", 1, story.inject(0, 100), count)
    story.take("detector", 1, count, sequencer=2)
    story.end()
    assert "L3" not in story.broken()
    story.events.pop()
    story.tick(2_000)
    story.end()
    assert "the checkpoint of counter@1.1#0" in story.violated("L3")


def test_a_checkpoint_may_stay_for_a_while_after_the_heal() -> None:
    """Its sender was told of the ACK, and died before it could delete it."""
    story = begin()
    count = record("counter@1.1#0", "detector", 100)
    story.take("counter", 1, story.inject(0, 100), count)
    story.take("detector", 1, count, sequencer=2)
    story.tick(2_000)
    story.add(Healed(story.tick(), "", ()))
    story.end()
    assert "L3" not in story.broken()
    story.events.pop()
    story.tick(2_000)
    story.end()
    assert "the checkpoint of counter@1.1#0" in story.violated("L3")


def test_an_id_far_behind_the_horizon_must_be_gone() -> None:
    story = begin()
    story.take("counter", 1, story.inject(0, 100, origin=5))
    story.publish("queries", 10, horizon=5 * SECOND)
    story.tick(4_000)
    story.end()
    assert "L3" not in story.broken()
    story.events.pop()
    story.tick(4_000)
    story.end()
    assert "id queries/0:0 is still in a row" in story.violated("L3")


def test_stores_that_delete_nothing_are_caught() -> None:
    assert isinstance(judge(run_on(Mediator), [mail()], CALM.engine)["L3"], Holds)
    for broken in (NoCollector, Hoarder):
        assert isinstance(judge(run_on(broken), [mail()], CALM.engine)["L3"], Violated), broken
