"""What a machine's CPU has not come to send when it stops: sent when it goes on, never if it has crashed, wherever it goes to."""

import pytest

from headrace import MILLISECOND, SECOND
from headrace import history as h
from headrace.delivery.routing import OUTSIDE_ADDRESS
from headrace.wire.effects import Send
from headrace.wire.messages import STORE, Deliver, Write
from headrace.wire.rows import Production, RowDelta
from headrace_sim import Cluster, start
from tests.sim.disturbances import AT, COUNTER, SORTER
from tests.sim.rig import letters, mail

SOON = 10 * MILLISECOND
"""What the CPU takes to come to it."""

PAUSE = 100 * MILLISECOND
"""Too short for anybody to be replaced."""

NAME = "by hand"


VALUE = b'{"city":"arco","number":0}'

LATE = 100 * SECOND
"""An origin that no horizon has passed."""

SENT = {
    "to a machine": Send(
        SORTER, Deliver(Production(NAME, "mail", "sorter", "zeno", VALUE, LATE, LATE), COUNTER)
    ),
    "to the store": Send(STORE, Write(0, NAME, 0, (RowDelta("key", 1),))),
    "to the outside": Send(
        OUTSIDE_ADDRESS, Deliver(Production(NAME, "counts", "", "arco", VALUE, LATE, LATE), COUNTER)
    ),
}
EVERYWHERE = pytest.mark.parametrize("send", SENT.values(), ids=SENT)


def sending(send: Send) -> Cluster:
    """A cluster whose counter's CPU is about to send a message."""
    pipeline = mail()
    cluster = start(pipeline, letters(pipeline))
    cluster.run_until(AT)
    cluster.host.wire.transmit(cluster.nodes[COUNTER], send, AT + SOON)
    return cluster


def arrivals(cluster: Cluster) -> list[int]:
    """When it arrived, microseconds."""
    return [
        event.at_us
        for event in cluster.history
        if (isinstance(event, h.Delivered) and event.record_id == NAME)
        or (isinstance(event, h.WriteRefused) and event.computation == NAME)
        or (isinstance(event, h.Output) and event.production.record_id == NAME)
    ]


@EVERYWHERE
def test_it_takes_the_cpu_and_then_the_wire(send: Send) -> None:
    cluster = sending(send)
    cluster.advance(PAUSE)
    (at_us,) = arrivals(cluster)
    assert AT + SOON < at_us < AT + SOON + 2 * MILLISECOND


@EVERYWHERE
def test_a_machine_that_is_paused_before_sends_it_when_it_continues(send: Send) -> None:
    cluster = sending(send)
    cluster.pause(COUNTER)
    cluster.advance(PAUSE)
    assert arrivals(cluster) == []
    cluster.revive(COUNTER)
    cluster.advance(PAUSE)
    (at_us,) = arrivals(cluster)
    assert AT + PAUSE < at_us < AT + PAUSE + 2 * MILLISECOND


@EVERYWHERE
def test_a_machine_that_is_paused_twice_sends_it_when_it_finally_continues(
    send: Send,
) -> None:
    cluster = sending(send)
    cluster.pause(COUNTER)
    cluster.advance(PAUSE)
    cluster.revive(COUNTER)
    cluster.pause(COUNTER)
    cluster.advance(PAUSE)
    assert arrivals(cluster) == []
    cluster.revive(COUNTER)
    cluster.advance(PAUSE)
    assert len(arrivals(cluster)) == 1


@EVERYWHERE
def test_messages_that_left_a_machine_before_it_was_paused_arrive(send: Send) -> None:
    cluster = sending(send)
    cluster.run_until(AT + SOON + 1)
    cluster.pause(COUNTER)
    cluster.advance(PAUSE)
    assert len(arrivals(cluster)) == 1


@EVERYWHERE
@pytest.mark.parametrize("paused_before", [False, True])
def test_a_machine_that_crashes_before_never_sends_it(
    send: Send,
    paused_before: bool,  # noqa: FBT001  a parameter of the test
) -> None:
    cluster = sending(send)
    if paused_before:
        cluster.pause(COUNTER)
        cluster.advance(PAUSE)
    cluster.crash(COUNTER)
    cluster.restart(COUNTER)
    cluster.advance(PAUSE)
    assert arrivals(cluster) == []
