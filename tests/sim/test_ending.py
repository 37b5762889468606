"""A run ends only once it is at rest."""

import pytest

from headrace import (
    MILLISECOND,
    SECOND,
    Computation,
    Context,
    EngineOptions,
    Pipeline,
    Record,
    Timer,
)
from headrace.history import FaultStruck, Output, RunEnded
from headrace.wire.effects import Send
from headrace_properties.checkers import judge
from headrace_properties.proof.workloads import Counting
from headrace_properties.verdict import Unknown, Violated
from headrace_sim import Cluster, ClusterOptions, Constant, FeedBuilder, simulate, start
from headrace_sim.faults import DropMessages
from tests.sim.disturbances import AT, COUNTER
from tests.sim.rig import CHECKED, assert_as_reference, assert_sound, finished, letters, mail, owner
from tests.sim.wires.test_departures import SENT, SOON, arrivals


def at_rest() -> Cluster:
    """A cluster that has done everything."""
    pipeline = mail()
    cluster = start(pipeline, letters(pipeline), options=CHECKED)
    cluster.run_to_the_end()
    assert cluster.quiescent
    return cluster


@pytest.mark.parametrize("restarts", [True, False])
def test_a_run_is_not_at_rest_before_every_interval_has_an_owner_that_has_scanned_it(
    restarts: bool,  # noqa: FBT001  a parameter of the test
) -> None:
    """The owner is gone: what its rows still hold is known to nobody, until a successor has scanned them."""
    cluster = at_rest()
    cluster.crash(COUNTER)
    if restarts:
        cluster.restart(COUNTER)
    orphans = {
        assignment.sequencer for assignment in cluster.table.assignments if assignment.owner == COUNTER
    }
    assert orphans
    while not cluster.quiescent:
        cluster.advance(1_000)
    assert not orphans & {assignment.sequencer for assignment in cluster.table.assignments}
    for assignment in cluster.table.assignments:
        node = cluster.nodes[assignment.owner]
        assert node.incarnation == assignment.incarnation
        assert assignment.sequencer in {owned.sequencer for owned in node.process.intervals}


def test_a_paused_owner_is_not_at_rest() -> None:
    cluster = at_rest()
    cluster.pause(COUNTER)
    assert not cluster.quiescent
    cluster.revive(COUNTER)
    assert cluster.quiescent


# Slow machines


def test_a_slowed_machines_pending_messages_are_sent_as_soon_as_it_is_healed() -> None:
    """Each message takes it a second, so that it is far behind; healed, it has a few milliseconds of work left."""
    pipeline = mail()
    cluster = start(pipeline, letters(pipeline), options=CHECKED)
    cluster.run_until(AT)
    cluster.slow(COUNTER, 200_000)
    cluster.advance(SECOND)
    node = cluster.nodes[COUNTER]
    assert node.busy_until_us > cluster.kernel.now + 10 * SECOND
    healed_us = cluster.kernel.now
    cluster.heal()
    assert node.busy_until_us < healed_us + 10 * MILLISECOND
    cluster.run_to_the_end()
    done = finished(cluster, pipeline, letters(pipeline))
    assert_sound(done)
    assert_as_reference(done)
    assert done.all(RunEnded)[-1].at_us < healed_us + 5 * SECOND


@pytest.mark.parametrize("send", SENT.values(), ids=SENT)
@pytest.mark.parametrize(("before", "after", "takes"), [(1, 10, 10), (10, 1, 0.1)])
def test_a_machines_pending_messages_depend_on_its_present_speed(
    send: Send, before: int, after: int, takes: float
) -> None:
    pipeline = mail()
    cluster = start(pipeline, letters(pipeline))
    cluster.run_until(AT)
    cluster.slow(COUNTER, before)
    cluster.host.wire.transmit(cluster.nodes[COUNTER], send, AT + SOON)
    cluster.slow(COUNTER, after)
    cluster.advance(SECOND)
    (at_us,) = arrivals(cluster)
    assert AT + SOON * takes < at_us < AT + SOON * takes + 2 * MILLISECOND


# Slow, or stuck


def hourglass(
    records: int, write_us: int, *, grace_us: int, limit_us: int = ClusterOptions().limit_us
) -> tuple[Pipeline, Cluster]:
    """Records of one key, each of which is a write of its own that takes so long: no faults, only work."""
    pipeline = Pipeline("hourglass")
    pipeline.injector("in")
    pipeline.add(Counting(), name="counter", inputs=["in"], outputs=["counted"])
    builder = FeedBuilder(pipeline)
    for number in range(records):
        at_us = SECOND + number
        builder.record(at_us=at_us, value=number, timestamp=at_us, key="k")
    engine = EngineOptions(commit_batch=1)
    options = ClusterOptions(
        engine=engine, store_write=Constant(write_us), grace_us=grace_us, limit_us=limit_us
    )
    return pipeline, start(pipeline, builder.build(), options=options)


def ended(cluster: Cluster) -> RunEnded:
    end = cluster.history.events[-1]
    assert isinstance(end, RunEnded)
    return end


def test_a_run_that_makes_progress_is_not_ended_by_its_grace() -> None:
    _, cluster = hourglass(50, 200 * MILLISECOND, grace_us=2 * SECOND)
    cluster.run_to_the_end()
    assert ended(cluster).why == "quiescent"
    assert ended(cluster).at_us > SECOND + 5 * 2 * SECOND


def test_a_run_that_still_makes_progress_at_its_limit_is_ended_and_its_liveness_is_unknown() -> None:
    pipeline, cluster = hourglass(50, 200 * MILLISECOND, grace_us=2 * SECOND, limit_us=4 * SECOND)
    cluster.run_to_the_end()
    assert ended(cluster).why == "limit"
    assert 5 * SECOND <= ended(cluster).at_us < 6 * SECOND
    verdicts = judge(cluster.history, [pipeline])
    for name in ("L2", "L4"):
        verdict = verdicts[name]
        assert isinstance(verdict, Unknown), name
        assert "still made progress" in verdict.why
        assert "for 'counter'" in verdict.why
    assert not [verdict for verdict in verdicts.values() if isinstance(verdict, Violated)]


def test_a_run_that_is_stuck_is_ended_by_its_grace_and_names_what_is_left() -> None:
    """The injector's records are lost on the wire, again and again: what it sends anew is no progress."""
    pipeline, cluster = hourglass(50, MILLISECOND, grace_us=10 * SECOND)
    cluster.run_until(SECOND - 1)
    cluster.network.begin(
        DropMessages(at_us=0, message="Deliver", target=owner(cluster, "counter", "k"), count=10**9)
    )
    cluster.run_to_the_end()
    assert ended(cluster).why == "deadline"
    assert ended(cluster).at_us < SECOND + 15 * SECOND
    verdict = judge([event for event in cluster.history if not isinstance(event, FaultStruck)], [pipeline])[
        "L2"
    ]
    assert isinstance(verdict, Violated)
    assert "50 records for 'counter'" in verdict.message


class Patient(Computation):
    """Passes a record on when it has waited for long."""

    def process_record(self, context: Context, record: Record) -> None:
        context.hold_watermark(record.timestamp)
        context.set_wall_timer("go", context.wall_time + 30 * SECOND)

    def process_timer(self, context: Context, timer: Timer) -> None:
        context.hold_watermark(None)
        context.produce("gone", timer.tag)


def test_a_run_that_waits_for_a_wall_timer_is_not_stuck() -> None:
    pipeline = Pipeline("patient")
    pipeline.injector("in")
    pipeline.add(Patient(), name="patient", inputs=["in"], outputs=["gone"])
    builder = FeedBuilder(pipeline)
    builder.record(at_us=SECOND, value=1, timestamp=SECOND, key="k")
    options = ClusterOptions(grace_us=2 * SECOND)
    done = simulate(pipeline, builder.build(), options=options)
    end = done.events[-1]
    assert isinstance(end, RunEnded)
    assert end.why == "quiescent"
    assert end.at_us > 31 * SECOND


# Wall timers


class Served(Computation):
    """Takes half a second for each record, and then goes on with the next. ``again``: and sets its timer for ever."""

    def __init__(self, *, again: bool = False) -> None:
        self.again = again

    def process_record(self, context: Context, record: Record) -> None:
        context.state.setdefault("waiting", []).append(record.value)
        if len(context.state["waiting"]) == 1:
            context.set_wall_timer("done", context.wall_time + SECOND // 2)

    def process_timer(self, context: Context, timer: Timer) -> None:
        if context.state["waiting"]:
            context.produce("done", context.state["waiting"].pop(0))
        if context.state["waiting"] or self.again:
            context.set_wall_timer("done", context.wall_time + SECOND // 2)


def served(*, again: bool = False) -> tuple[int, int]:
    """Run three jobs of half a second that come at once; return how many were done, and when the run ended."""
    pipeline = Pipeline("server")
    pipeline.injector("jobs")
    pipeline.add(Served(again=again), name="server", inputs=["jobs"], outputs=["done"])
    builder = FeedBuilder(pipeline)
    for number in range(3):
        builder.record(at_us=SECOND, key="s", value=number, timestamp=SECOND)
    history = simulate(pipeline, builder.build(), options=ClusterOptions(grace_us=5 * SECOND), seed=0)
    ended = history[-1]
    assert isinstance(ended, RunEnded)
    assert ended.why == "quiescent"
    return sum(isinstance(event, Output) for event in history), ended.at_us


def test_a_run_does_not_end_before_wall_timers_that_are_soon_due() -> None:
    """The timers hold no watermark: without the wait, the run would end when its input does, with no job done."""
    done, ended_us = served()
    assert done == 3
    assert ended_us < 4 * SECOND


def test_timers_that_are_set_for_ever_do_not_keep_a_run_going() -> None:
    done, ended_us = served(again=True)
    assert done == 3
    assert 5 * SECOND < ended_us < 8 * SECOND
