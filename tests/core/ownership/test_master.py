"""The master (MillWheel 7.1): feed an event, assert all effects."""

from dataclasses import replace

import pytest

from headrace.history import History, ProcessStarted
from headrace.ownership.master import Master
from headrace.store.election import Standing
from headrace.wire.effects import Send, Start, Wake, WakeAt
from headrace.wire.keys import KeyInterval
from headrace.wire.messages import (
    STORE,
    ChangeTopology,
    Claim,
    Claimed,
    Heartbeat,
    IntervalLoad,
    MergeIntervals,
    Message,
    Mint,
    Minted,
    MoveInterval,
    Peek,
    Peeked,
    Refused,
    Renew,
    Renewed,
    SplitInterval,
    Table,
    Unavailable,
)
from tests.core.inputs import EXAMPLES
from tests.core.ownership.master_bench import (
    FIRST,
    HALVES,
    LEFT,
    OPTIONS,
    RIGHT,
    Bench,
    asks,
    change,
    pipeline,
)

# Taking over


def test_a_fresh_master_claims_and_then_wakes_every_heartbeat_period() -> None:
    history = History()
    master = Master("master-0", [pipeline()], OPTIONS, history)
    assert master.handle(0, Start(1)) == [Send(STORE, Peek(FIRST, "master")), WakeAt(500)]
    assert master.handle(1, Peeked(FIRST, 0, 0)) == [Send(STORE, Claim(FIRST + 1, "master", 0, "master-0#1"))]
    assert master.handle(2, Claimed(FIRST + 1, 1, (), 0, Table())) == [WakeAt(102)]
    assert master.handle(102, Wake()) == [WakeAt(202)]
    assert master.handle(202, Wake()) == [WakeAt(302)]
    assert history.events == [ProcessStarted(0, "master-0", 1)]


def test_a_standby_listens_says_nothing_and_keeps_no_verbs() -> None:
    master = Master("master-1", [pipeline()], OPTIONS, History())
    assert master.handle(0, Start(1)) == [WakeAt(250_000)]
    assert master.handle(1, Heartbeat("w0", 1, 0)) == []
    assert master.handle(2, SplitInterval("a", "g")) == []
    assert master.handle(3, Minted(9, HALVES)) == []
    master.check_invariants()


def test_the_first_intervals_are_minted_two_heartbeat_periods_after_the_claim() -> None:
    bench = Bench(table=Table())
    bench.beat("w1", "w0", "source/0", version=0)
    assert bench.wake() == []
    assert bench.wake(99) == []
    effects = bench.wake(1)
    assert effects == asks(1, change(LEFT, "w0"), change(RIGHT, "w1"))
    assert bench.minted(effects) == [Send(to, bench.table) for to in ("source/0", "w0", "w1")]


def test_nothing_is_minted_without_live_workers() -> None:
    bench = Bench(table=Table())
    bench.beat("source/0")
    assert [bench.wake() for _ in range(5)] == [[]] * 5
    bench.beat("w0")
    assert bench.wake() == asks(1, change(LEFT, "w0"), change(RIGHT, "w0"))


def test_the_existing_assignment_is_kept_and_announced_at_once() -> None:
    bench = Bench()
    assert bench.beat("w0", version=3) == [Send("w0", HALVES)]
    assert bench.beat("w1", "source/0", version=4) == []
    assert bench.settle("w0", "w1") == []


def test_a_fresh_master_gives_owners_a_whole_timeout_to_be_heard() -> None:
    bench = Bench()
    bench.beat("w0")
    for _ in range(9):
        bench.beat("w0")
        assert bench.wake() == []
    bench.beat("w0")
    assert bench.wake() == []  # exactly the time-out
    assert bench.wake(1) == asks(1, change(RIGHT, "w0"))


# Liveness


def test_a_worker_that_falls_silent_is_replaced() -> None:
    bench = Bench()
    assert bench.settle("w0", "w1", "w2") == []
    for _ in range(8):
        bench.beat("w0", "w2")
        assert bench.wake() == []
    bench.beat("w0", "w2")
    effects = bench.wake()
    assert effects == asks(1, change(RIGHT, "w2"))
    assert bench.minted(effects) == [Send(to, bench.table) for to in ("w0", "w2")]


def test_a_zombie_that_is_heard_again_learns_that_it_was_replaced() -> None:
    bench = Bench()
    bench.settle("w0", "w1")
    for _ in range(8):
        bench.beat("w0")
        bench.wake()
    bench.minted(bench.wake())
    assert bench.beat("w1", version=4) == [Send("w1", bench.table)]
    assert bench.wake() == []


def test_a_worker_that_was_restarted_has_lost_its_intervals() -> None:
    bench = Bench()
    bench.settle("w0", "w1")
    bench.beat("w1", incarnation=2)
    assert bench.wake() == asks(1, change(RIGHT, "w1", 2))


def test_a_heartbeat_of_a_former_incarnation_is_no_sign_of_life() -> None:
    bench = Bench()
    bench.settle("w0", "w1")
    bench.beat("w1", incarnation=2)
    bench.minted(bench.wake())
    assert bench.beat("w1", incarnation=1, version=1) == []
    assert bench.wake() == []


def test_an_injector_never_gets_intervals() -> None:
    bench = Bench(table=Table())
    bench.beat("source/0", "w0")
    bench.wake()
    assert bench.wake() == asks(1, change(LEFT, "w0"), change(RIGHT, "w0"))


def test_a_master_that_slept_listens_before_it_declares_anybody_dead() -> None:
    bench = Bench()
    bench.settle("w0", "w1")
    assert bench.wake(50_000) == []
    assert bench.wake() == []
    bench.beat("w0")
    assert [bench.wake() for _ in range(9)] == [[]] * 9
    bench.beat("w0")
    assert bench.wake() == asks(1, change(RIGHT, "w0"))


def test_a_clock_that_is_put_back_kills_nobody_and_stops_nothing() -> None:
    bench = Bench()
    bench.settle("w0", "w1")
    bench.now = 50
    for _ in range(11):
        assert bench.wake() == []
        bench.beat("w0")
    assert bench.wake(1) == asks(1, change(RIGHT, "w0"))


def test_a_heartbeat_tells_a_master_that_its_clock_was_put_back() -> None:
    """A master whose clock jumps ahead asks for its next wake then. When the clock is put back, that is hours away."""
    master = Master("master-0", [pipeline()], OPTIONS, History())
    for now, event in (
        (0, Start(1)), (1, Peeked(FIRST, 0, 0)), (2, Claimed(FIRST + 1, 1, (), 0, Table())),
        (1_000_000, Wake()),
    ):  # fmt: skip
        master.handle(now, event)
    (wake,) = [effect for effect in master.handle(150, Heartbeat("w0", 1, 0)) if isinstance(effect, WakeAt)]
    assert wake.at_us <= 250


def test_an_interval_that_its_live_owner_does_not_list_is_minted_anew() -> None:
    # w1 knows the table, but has lost the interval (or never began to scan it).
    bench = Bench()
    bench.settle("w0", "w1")
    lost = Heartbeat("w1", 1, 4)
    bench.handle(lost)
    for _ in range(40):
        bench.beat("w0")
        bench.handle(lost)
        assert bench.wake() == []
    bench.handle(lost)
    assert bench.wake() == asks(1, change(RIGHT, "w1"))


def test_an_interval_whose_scan_takes_long_is_left_alone() -> None:
    bench = Bench()
    bench.settle("w0", "w1")
    (right,) = [each.sequencer for each in bench.master.table.assignments if each.owner == "w1"]
    for _ in range(120):
        bench.beat("w0")
        bench.handle(Heartbeat("w1", 1, 4, scanning=(right,)))
        assert bench.wake() == []


def test_an_interval_that_is_listed_in_time_is_left_alone() -> None:
    bench = Bench()
    bench.settle("w0", "w1")
    for turn in range(120):
        bench.beat("w0")
        bench.handle(Heartbeat("w1", 1, 4)) if turn % 30 else bench.beat("w1")
        assert bench.wake() == []


def test_an_owner_that_does_not_know_the_table_yet_has_lost_nothing() -> None:
    bench = Bench()
    bench.settle("w0", "w1")
    for _ in range(60):
        bench.beat("w0")
        assert bench.handle(Heartbeat("w1", 1, 3)) == [Send("w1", HALVES)]
        assert bench.wake() == []


def test_a_lost_interval_that_was_moved_is_no_longer_lost() -> None:
    bench = Bench()
    bench.settle("w0", "w1")
    bench.handle(Heartbeat("w1", 1, 4))
    bench.minted(bench.handle(MoveInterval("a", "m", "w0")))
    for _ in range(50):
        bench.beat("w0", "w1")
        assert bench.wake() == []


def test_a_worker_that_was_only_heard_long_ago_gets_nothing() -> None:
    bench = Bench(table=Table(), heard=[Heartbeat("w0", 1, 0)])
    assert bench.settle("w1") == asks(1, change(LEFT, "w1"), change(RIGHT, "w1"))


# Minting


def test_an_unanswered_mint_is_sent_again_as_it_was() -> None:
    bench = Bench()
    bench.settle("w0", "w1")
    asked = bench.handle(SplitInterval("a", "g"))
    (send,) = asked
    assert isinstance(send, Send)
    assert isinstance(send.message, Mint)
    bench.handle(Unavailable(send.message.request))
    resent = []
    for _ in range(10):
        bench.beat("w0", "w1")
        resent.append(bench.wake())
    assert resent == [[], [], [], [], asked] * 2
    assert len(bench.minted(asked)) == 2
    assert bench.handle(Minted(send.message.request, bench.table)) == []  # the answer to another copy


def test_a_mint_is_asked_again_when_the_clock_is_put_back() -> None:
    bench = Bench()
    bench.settle("w0", "w1")
    asked = bench.handle(SplitInterval("a", "g"))
    bench.now = 50
    assert bench.wake(0) == []
    assert [bench.wake() for _ in range(5)] == [[], [], [], [], asked]


def test_a_verb_that_arrives_during_a_mint_waits_for_it() -> None:
    bench = Bench()
    bench.settle("w0", "w1")
    asked = bench.handle(SplitInterval("a", "g"))
    assert bench.handle(SplitInterval("stranger", "g")) == []
    assert bench.handle(MoveInterval("a", "h", "w1")) == []
    assert bench.handle(MergeIntervals("a", "m")) == []
    assert bench.handle(SplitInterval("a", "t")) == []
    effects = bench.minted(asked)
    assert effects[2:] == asks(2, change(KeyInterval("g", "m"), "w1"), request=2)
    effects = bench.minted(effects[2:])
    assert effects[2:] == asks(
        3, change(KeyInterval("m", "t"), "w1"), change(KeyInterval("t"), "w1"), request=3
    )


def test_a_verb_that_arrives_before_the_master_has_listened_waits() -> None:
    bench = Bench()
    assert bench.handle(SplitInterval("a", "g")) == []
    assert bench.settle("w0", "w1") == asks(
        1, change(KeyInterval("", "g"), "w0"), change(KeyInterval("g", "m"), "w0")
    )


@pytest.mark.parametrize(
    "verb",
    [
        MoveInterval("a", "c", "w9"),
        MoveInterval("b", "c"),
        SplitInterval("a", "m"),
        SplitInterval("b", "m"),
        MergeIntervals("a", "z"),
        MergeIntervals("b", "z"),
        ChangeTopology(0),
        ChangeTopology(7),
        ChangeTopology(-1),
    ],
)
def test_a_verb_that_cannot_be_done_is_ignored(verb: Message) -> None:
    bench = Bench()
    bench.settle("w0", "w1")
    assert bench.handle(verb) == []
    bench.beat("w0", "w1")
    assert bench.wake() == []


def test_a_refused_mint_ends_the_tenure_and_everything_pending() -> None:
    bench = Bench()
    bench.settle("w0", "w1")
    asked = bench.handle(SplitInterval("a", "g"))
    bench.handle(MoveInterval("a", "m", "w0"))
    assert bench.handle(Refused(bench.mint(asked).request, 2)) == []
    assert not bench.master.is_active
    assert bench.beat("w0", version=0) == []
    assert bench.handle(Minted(FIRST + 2, bench.table)) == []
    assert bench.wake() == []


def test_a_refused_renewal_ends_the_tenure() -> None:
    bench = Bench(options=replace(OPTIONS, lease_us=400))
    bench.beat("w0", "w1")
    assert bench.wake() == [Send(STORE, Renew(FIRST + 2, "master", 1))]
    bench.handle(Refused(FIRST + 2, 2))
    assert not bench.master.is_active


def test_a_mint_counts_as_a_renewal() -> None:
    bench = Bench(options=replace(OPTIONS, lease_us=400))
    bench.beat("w0", "w1")
    for turn in range(2):
        bench.wake()
        bench.handle(Renewed(FIRST + 2 + turn))
    bench.now += 50
    bench.minted(bench.handle(SplitInterval("a", "g")))
    assert bench.wake(50) == []
    assert bench.wake(50) == [Send(STORE, Renew(FIRST + 5, "master", 1))]


def test_mints_are_numbered_from_the_start_in_each_tenure() -> None:
    bench = Bench()
    bench.settle("w0", "w1")
    bench.minted(bench.handle(SplitInterval("a", "g")))
    bench.handle(Refused(bench.mint(bench.handle(MergeIntervals("a", ""))).request, 2))
    bench.now += 1_000_000
    bench.wake()
    bench.handle(Peeked(FIRST + 4, 2, 5))
    bench.wake(1_000_000)
    bench.handle(Peeked(FIRST + 5, 2, 5))
    bench.handle(Claimed(FIRST + 6, 3, (), 0, bench.table))
    bench.settle("w0", "w1")
    (send,) = bench.handle(MergeIntervals("a", ""))
    assert isinstance(send, Send)
    assert isinstance(send.message, Mint)
    assert (send.message.epoch, send.message.number) == (3, 1)


def test_intervals_follow_the_load_once_in_a_period() -> None:
    bench = Bench(options=replace(OPTIONS, balance_period_us=1_000, split_load=100))
    bench.settle("w0", "w1", "w2")
    hot = Heartbeat("w0", 1, 4, (IntervalLoad("a", 1, 101, 0, "g", 0),))
    for _ in range(7):
        bench.handle(hot)
        bench.beat("w1", "w2")
        assert bench.wake() == []
    bench.handle(hot)
    bench.beat("w1", "w2")
    effects = bench.wake()
    assert effects == asks(1, change(KeyInterval("", "g"), "w0"), change(KeyInterval("g", "m"), "w2"))
    bench.minted(effects)
    for _ in range(9):
        bench.handle(Heartbeat("w0", 1, 5, (IntervalLoad("a", 100, 101, 0, "c", 0),)))
        bench.beat("w1", "w2")
        assert bench.wake() == []
    bench.beat("w1", "w2")
    assert bench.wake() == asks(
        2, change(KeyInterval("", "c"), "w0"), change(KeyInterval("c", "g"), "w1"), request=2
    )


REPLIES: set[type] = {Minted, Peeked, Claimed, Renewed, Refused, Unavailable}
TAKEN: set[type] = {Wake, Heartbeat, MoveInterval, SplitInterval, MergeIntervals, ChangeTopology, *REPLIES}
DECLARED: dict[Standing, set[type]] = {Standing.NEW: {Start}, Standing.STANDBY: TAKEN, Standing.ACTIVE: TAKEN}


def standing(state: Standing) -> Master:
    if state is Standing.ACTIVE:
        return Bench().master
    master = Master("master-1", [pipeline()], OPTIONS, History())
    if state is Standing.STANDBY:
        master.handle(0, Start(1))
    return master


@pytest.mark.parametrize("kind", EXAMPLES, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("state", Standing, ids=lambda state: state.value)
def test_each_input_in_each_standing_is_declared_or_raises(state: Standing, kind: type) -> None:
    master = standing(state)
    assert ((state, kind) in Master.transitions) == (kind in DECLARED[state])
    if kind not in DECLARED[state]:
        with pytest.raises(AssertionError, match=f"master-[01] is {state.value} and got {kind.__name__}"):
            master.handle(1_000, EXAMPLES[kind])
        return
    master.handle(1_000, EXAMPLES[kind])
    master.check_invariants()


def test_the_table_has_no_other_inputs() -> None:
    assert {kind for _, kind in Master.transitions} == {Start, *TAKEN}
