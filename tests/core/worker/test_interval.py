"""What a worker owns (MillWheel 3, 7.1): tables and topologies arrive, intervals begin and end."""

from dataclasses import replace

from headrace import MAX_TIME, Pipeline
from headrace.history import DropCause, IntervalDropped
from headrace.wire import messages as m
from headrace.wire.effects import Send, Wake
from headrace.wire.keys import ALL_KEYS
from headrace.wire.messages import STORE, MintChange, Table
from tests.core.driver import (
    FEED,
    FIRST,
    LEFT,
    QUIET,
    RIGHT,
    WORKER,
    Rig,
    Scripted,
    Shop,
    ack,
    click,
    counted,
    counter,
    outside_acks,
    result,
    sent,
    watermark,
)

# Deliveries that are not for it


def test_a_delivery_for_a_key_of_others_is_ignored() -> None:
    shop = Shop(counter(split_at=["m"]))
    shop.mint(MintChange("counter", LEFT, WORKER, 1), MintChange("counter", RIGHT, "worker-1", 1))
    rig = Rig(shop)
    rig.settle(shop.table)
    assert rig.feed(click("r1", "zebra")) == []
    assert rig.feed(m.Deliver(result("p", 1, consumer="somebody"), FEED)) == []
    assert len(rig.feed(click("r1", "ant"))) == 1


def test_an_ack_of_something_unknown_is_ignored() -> None:
    assert Rig(counter()).feed(outside_acks("x")) == []


# Tables (7.1)


def scans(rig: Rig) -> list[tuple[str, int]]:
    return [(str(request.interval), request.sequencer) for request in rig.open if isinstance(request, m.Scan)]


def test_a_new_interval_is_scanned_for_its_rows_and_its_senders_progress() -> None:
    rig = Rig(Shop(counter()))
    rig.shop.assign_all()
    effects = rig.feed(rig.shop.table)
    scan = m.Scan(rig.request().request, "counter", 1, ALL_KEYS, None, ("counter", "feed"))
    assert effects == [Send(STORE, scan)]
    assert rig.answer() == []
    assert len(rig.feed(click("r1"))) == 1, "now it works"


def test_older_tables_and_the_same_one_again_are_ignored() -> None:
    rig = Rig(counter())
    first = rig.shop.table
    second = rig.shop.mint(MintChange("counter", ALL_KEYS, "worker-1", 1))
    assert rig.feed(second) == []
    assert rig.feed(first) == []
    assert rig.feed(second) == []
    assert rig.worker.intervals == ()


def test_assignments_of_another_incarnation_are_not_mine() -> None:
    shop = Shop(counter())
    shop.assign_all(incarnation=1)
    rig = Rig(shop, incarnation=2)
    assert rig.feed(shop.table) == []
    assert rig.worker.intervals == ()


def test_a_table_ends_lost_assignments_and_begins_new_ones() -> None:
    """An interval is split; the worker keeps the lower part under a new sequencer.
    The write that was under way does not count any more, whatever its answer."""
    rig = Rig(counter())
    rig.feed(click("r1"))
    (request,) = rig.asked()
    written = rig.shop.store(request)
    rig.shop.mint(MintChange("counter", LEFT, WORKER, 1), MintChange("counter", RIGHT, "worker-1", 1))
    assert rig.feed(rig.shop.table) == [Send(STORE, rig.request())]
    assert scans(rig) == [("['', 'm')", 2)]
    assert rig.feed(written) == []
    assert rig.shop.of(IntervalDropped) == [
        IntervalDropped(0, WORKER, "counter", ALL_KEYS, 1, DropCause.TABLE)
    ]
    assert rig.answer() == [sent(result(FIRST, 1))], "the scan finds the checkpoint"
    assert rig.feed(click("r1")) == [ack("r1")]


def test_an_interval_that_stays_mine_is_not_scanned_again() -> None:
    rig = Rig(counter(split_at=["m"]))
    rig.settle(click("r1", "ant"))
    rig.shop.mint(MintChange("counter", RIGHT, "worker-1", 1))
    assert rig.feed(rig.shop.table) == []
    assert rig.feed(click("r2", "ant")) == [
        Send(STORE, m.Write(rig.write().request, "counter", 1, (counted(2, 2, "r2", key="ant"),)))
    ]


def test_heartbeats_name_the_table_in_use_and_each_intervals_load() -> None:
    rig = Rig(
        counter(), options=replace(QUIET, heartbeat_period_us=100, sweep_period_us=50, delete_delay_us=10**9)
    )
    rig.settle(click("r1"))
    rig.feed(Wake(), at=50)
    effects = rig.feed(Wake(), at=100)
    assert len(effects) == 2
    assert isinstance(effects[0], Send)
    beat = effects[0].message
    assert isinstance(beat, m.Heartbeat)
    (load,) = beat.loads
    assert (beat.table_version, load.sequencer, load.records, load.pending) == (1, 1, 1, 0)
    assert effects[1] == Send("master-1", beat)
    assert rig.worker.intervals[0].take_load(retires=True).pending == 1


def test_a_loaded_interval_names_a_key_that_would_halve_it() -> None:
    rig = Rig(counter(), options=replace(QUIET, split_load=3))
    for number, key in enumerate("cab"):
        assert rig.worker.intervals[0].take_load(retires=False).split_key == ""
        for again in range(3 if key == "b" else 1):
            rig.settle(click(f"r{number}.{again}", key))
    load = rig.worker.intervals[0].take_load(retires=False)
    assert (load.split_key, load.records) == ("b", 3)
    assert rig.worker.intervals[0].take_load(retires=False).records == 0


def test_the_hosts_cpu_time_of_user_code_is_divided_among_intervals() -> None:
    """Each interval runs once and is charged for it at once; then three runs, two of them the second one's, share a charge."""
    rig = Rig(counter(split_at=["m"]))
    left, right = rig.worker.intervals
    for key, cpu_us in (("ant", 10), ("zebra", 700)):
        rig.settle(click(f"r {key}", key))
        rig.worker.charge(cpu_us)
    for number, key in enumerate(("ant", "yak", "zebra")):
        rig.settle(click(f"r{number}", key))
    rig.worker.charge(300)
    rig.worker.charge(50)  # what ran no user code is nobody's
    assert [interval.take_load(retires=False).cpu_us for interval in (left, right)] == [110, 900]
    assert [interval.take_load(retires=False).cpu_us for interval in (left, right)] == [0, 0], (
        "since the last heartbeat"
    )


def test_an_interval_that_takes_much_cpu_time_names_a_key_that_would_halve_it() -> None:
    rig = Rig(counter(), options=replace(QUIET, split_load=1_000, split_cpu_us=500))
    for key, split_key in (("a", ""), ("b", ""), ("c", "b")):
        rig.settle(click(f"r {key}", key))
        rig.worker.charge(500 if key == "c" else 499)
        assert rig.worker.intervals[0].take_load(retires=False).split_key == split_key


def test_runs_are_not_recorded_for_a_host_that_charges_nothing() -> None:
    rig = Rig(counter(), options=replace(QUIET, heartbeat_period_us=100, sweep_period_us=50))
    rig.settle(click("r1"))
    assert len(rig.worker.uncharged_runs) == 1
    rig.wake(100)
    assert rig.worker.uncharged_runs == []
    rig.settle(click("r2"))
    rig.worker.charge(7)
    rig.settle(click("r3"))
    rig.wake(200)
    assert len(rig.worker.uncharged_runs) == 1, "this one is still to be charged"


def test_during_its_scan_an_interval_is_told_of_without_a_load() -> None:
    shop = Shop(counter(), options=replace(QUIET, heartbeat_period_us=100, sweep_period_us=50))
    shop.assign_all()
    rig = Rig(shop)
    rig.feed(shop.table)
    beats = [effect.message for effect in rig.feed(Wake(), at=100) if isinstance(effect, Send)]
    (assignment,) = shop.table.assignments
    assert beats == [m.Heartbeat(WORKER, 1, table_version=1, scanning=(assignment.sequencer,))] * 2


def test_what_it_knew_of_progress_serves_a_new_interval_and_never_goes_back() -> None:
    shop = Shop(counter(split_at=["m"]))
    shop.mint(MintChange("counter", LEFT, WORKER, 1), MintChange("counter", RIGHT, "worker-1", 1))
    rig = Rig(shop)
    rig.settle(shop.table)
    rig.settle(watermark(90, 9))
    rig.settle(watermark(50, 5))
    shop.mint(MintChange("counter", RIGHT, WORKER, 1))
    rig.settle(shop.table)
    assert [(interval.soft.low_watermark, interval.soft.horizon) for interval in rig.worker.intervals] == [
        (90, 9),
        (90, 9),
    ]


# Topology (3)


def changing() -> Shop:
    """A sink is fed by a counter until, in the second version, the counter is gone and the feed alone reaches it."""
    first = counter()
    first.add(Scripted(), name="sink", inputs=["counts", "clicks"])
    second = Pipeline("clicks")
    second.injector("feed", outputs=["clicks"])
    second.add(Scripted(), name="sink", inputs=["clicks"])
    return Shop(first, second)


def test_a_senders_leaving_advances_the_input_watermark_of_those_it_fed() -> None:
    """The feed has ended and said so; the counter has drained and leaves before its own end was broadcast.
    Nobody will ever broadcast anything again: the sink must see now that nothing holds it back."""
    shop = changing()
    rig = Rig(shop)
    shop.assign_all(others={"counter": "worker-8"})
    rig.settle(shop.table)
    rig.settle(watermark(MAX_TIME))
    shop.mint(topology=1, retiring=("counter",))
    rig.settle(shop.table)
    shop.mint(topology=1, removed=("counter",))
    rig.settle(shop.table)
    rig.settle(watermark(MAX_TIME))
    assert rig.interval.soft.timer_watermark == MAX_TIME


def test_debts_to_a_retiring_computation_are_reported_to_the_masters_wherever_they_are() -> None:
    """One production was sent, one is in a write that is under way, and one waits for the next write."""
    first = counter()
    first.add(Scripted(), name="sink", inputs=["counts"])
    options = replace(QUIET, heartbeat_period_us=100, sweep_period_us=50, commits_in_flight=1)
    shop = Shop(first, first.without("sink"), options=options)
    rig = Rig(shop)
    shop.assign_all(others={"sink": "worker-9"})
    rig.settle(shop.table)
    rig.settle(click("r1", "a"))
    rig.feed(click("r2", "b"))
    rig.feed(click("r3", "c"))
    shop.mint(topology=1, retiring=("sink",))
    rig.feed(shop.table)

    def owing(at: int) -> tuple[tuple[str, int], ...]:
        (beat, _) = [
            effect.message
            for effect in rig.feed(Wake(), at)
            if isinstance(effect, Send) and isinstance(effect.message, m.Heartbeat)
        ]
        return beat.owing

    assert owing(100) == (("sink", 2),)
    rig.answer()
    assert owing(200) == (("sink", 2),), "the third ran under the new version, which knows no sink"
    rig.feed(m.Ack("sink", ("counter@1.1#0", "counter@1.2#0")))
    assert owing(300) == ()


def test_a_worker_without_a_table_owns_nothing() -> None:
    rig = Rig(Shop(counter()))
    assert rig.feed(Table()) == []
    assert rig.feed(click("r1")) == []
