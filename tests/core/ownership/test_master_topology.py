"""The master while the topology changes (MillWheel 3, 7.1): computations join at once, and leave when they have drained."""

from headrace.wire.effects import Send
from headrace.wire.keys import ALL_KEYS
from headrace.wire.messages import ChangeTopology, Heartbeat, IntervalLoad, Mint, Table
from tests.core.ownership.master_bench import HALVES, LEFT, RIGHT, Bench, asks, change, pipeline, row


def test_added_computations_get_their_intervals_and_are_fed_once_everybody_knows_them() -> None:
    """An owner that did not count a new sender could let its watermark pass what that one sends: first all must know of
    it, workers and injectors; a worker that has only been heard of with an older table keeps them waiting."""
    bench = Bench(pipeline(), pipeline("b"))
    bench.settle("w0", "w1", "source/0")
    before = bench.table.version
    effects = bench.handle(ChangeTopology(1))
    assert effects == asks(1, change(ALL_KEYS, "w0", name="b"), joining=1)
    bench.minted(effects)
    assert bench.beat("w0", "source/0") == []
    assert not any(
        isinstance(effect.message, Mint)
        for effect in bench.beat("w1", version=before)
        if isinstance(effect, Send)
    )
    assert bench.beat("w1") == asks(2, request=2, topology=1)


def test_a_change_that_waits_for_everybody_survives_a_new_master_and_can_be_taken_back() -> None:
    joining = Table(4, 0, (), (*HALVES.assignments, row(ALL_KEYS, 3, "w0", name="b")), 1)
    bench = Bench(pipeline(), pipeline("b"), table=joining)
    bench.beat("w0", "w1", "source/0")
    bench.wake()
    assert bench.wake() == asks(1, topology=1)
    bench = Bench(pipeline(), pipeline("b"), table=joining)
    bench.settle("w0", "w1")
    assert bench.handle(ChangeTopology(0)) == asks(1, retiring=("b",))


def test_a_change_of_topology_waits_for_a_worker() -> None:
    bench = Bench(pipeline(), pipeline("b"), table=Table())
    for _ in range(5):
        bench.wake()
    assert bench.handle(ChangeTopology(1)) == []
    bench.beat("w0")
    effects = bench.wake()
    assert effects == asks(1, change(LEFT, "w0"), change(RIGHT, "w0"))
    effects = bench.minted(effects)
    assert effects[1:] == asks(2, change(ALL_KEYS, "w0", name="b"), request=2, joining=1)


WITH_B = Table(4, 0, (), (*HALVES.assignments, row(ALL_KEYS, 3, "w0", name="b")))
DRAINING = Table(4, 1, ("b",), WITH_B.assignments)


def test_a_removed_computation_drains_and_then_leaves() -> None:
    bench = Bench(pipeline("b"), pipeline(), table=WITH_B)
    everybody = ("w0", "w1", "source/0")
    bench.settle(*everybody)
    effects = bench.handle(ChangeTopology(1))
    assert effects == asks(1, topology=1, retiring=("b",))
    bench.minted(effects)
    assert bench.wake() == []  # nobody has said that it knows
    bench.beat(*everybody)
    effects = bench.wake()
    assert effects == asks(2, request=2, topology=1, retiring=("b",))  # the mark
    bench.minted(effects)
    bench.beat(*everybody)
    effects = bench.wake()
    assert effects == asks(3, request=3, topology=1, removed=("b",))
    assert bench.minted(effects) == [Send(to, bench.table) for to in ("source/0", "w0", "w1")]
    assert [assignment.computation for assignment in bench.table.assignments] == ["a", "a"]
    bench.beat(*everybody)
    assert bench.wake() == []


def test_a_draining_computation_keeps_owners_that_live() -> None:
    bench = Bench(pipeline("b"), pipeline(), table=DRAINING)
    bench.settle("w0", "w1")
    bench.beat("w0", incarnation=2)
    assert bench.wake() == asks(
        1, change(LEFT, "w0", 2), change(ALL_KEYS, "w0", 2, "b"), topology=1, retiring=("b",)
    )


def test_an_expected_injector_process_that_is_missing_keeps_a_computation_from_leaving() -> None:
    bench = Bench(pipeline("b"), pipeline(), table=DRAINING)
    assert bench.settle("w0", "w1") == []
    bench.beat("source/0")
    assert bench.wake() == asks(1, topology=1, retiring=("b",))


def test_an_owner_that_is_silent_and_not_replaced_yet_keeps_a_computation_from_leaving() -> None:
    heard = Heartbeat("w1", 1, 4, (IntervalLoad("a", 2, 0, 0, "", 0),), (("b", 1),))
    bench = Bench(pipeline("b"), pipeline(), table=DRAINING, heard=[heard])
    bench.beat("w0", "source/0")
    for _ in range(9):
        bench.beat("w0", "source/0")
        assert bench.wake() == []


def test_a_heartbeat_that_was_overtaken_takes_nothing_back() -> None:
    bench = Bench(pipeline("b"), pipeline(), table=DRAINING)
    bench.settle("w0", "w1")
    bench.beat("source/0")
    bench.beat("source/0", version=3)
    assert bench.wake() == asks(1, topology=1, retiring=("b",))


def test_a_computation_that_is_put_back_while_it_drains_stays() -> None:
    bench = Bench(pipeline("b"), pipeline(), table=DRAINING)
    bench.settle("w0", "w1")
    effects = bench.handle(ChangeTopology(0))
    assert effects == asks(1, topology=0)
    bench.minted(effects)
    bench.beat("w0", "w1", "source/0")
    assert bench.wake() == []


def test_draining_continues_through_the_next_change() -> None:
    bench = Bench(pipeline("b"), pipeline(), pipeline("c"), table=DRAINING)
    bench.settle("w0", "w1")
    assert bench.handle(ChangeTopology(2)) == asks(
        1, change(ALL_KEYS, "w1", name="c"), topology=1, retiring=("b",), joining=2
    )
