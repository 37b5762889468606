"""How a run ends: at rest, and not before."""

import pytest

from millrace_sim import Cluster, start
from tests.sim.disturbances import COUNTER
from tests.sim.rig import CHECKED, letters, mail


def at_rest() -> Cluster:
    """A cluster that has done everything."""
    pipeline = mail()
    cluster = start(pipeline, letters(pipeline), options=CHECKED)
    cluster.run_to_the_end()
    assert cluster.quiescent
    return cluster


@pytest.mark.parametrize("restarts", [True, False])
def test_nothing_is_at_rest_before_every_interval_has_an_owner_that_has_scanned_it(
    restarts: bool,  # noqa: FBT001  a parameter of the test
) -> None:
    """The owner is gone: what its rows still hold is known to nobody, until a successor has scanned them."""
    cluster = at_rest()
    cluster.crash(COUNTER)
    if restarts:
        cluster.restart(COUNTER)
    orphans = {one.sequencer for one in cluster.table.assignments if one.owner == COUNTER}
    assert orphans
    while not cluster.quiescent:
        cluster.advance(1_000)
    assert not orphans & {one.sequencer for one in cluster.table.assignments}
    for one in cluster.table.assignments:
        node = cluster.nodes[one.owner]
        assert node.incarnation == one.incarnation
        assert one.sequencer in {owned.sequencer for owned in node.process.intervals}


def test_a_paused_owner_is_not_at_rest() -> None:
    cluster = at_rest()
    cluster.pause(COUNTER)
    assert not cluster.quiescent
    cluster.revive(COUNTER)
    assert cluster.quiescent
