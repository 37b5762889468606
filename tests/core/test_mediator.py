"""The mediator of the store (MillWheel 6.2, 7.1): feed a request, assert the reply and what it left behind."""

from collections.abc import Iterable

import pytest

from millrace import MAX_TIME, KeyInterval
from millrace import _messages as m
from millrace._keys import ALL_KEYS
from millrace._mediator import MASTER_ROLE, Mediator
from millrace._messages import MintChange, Progress
from millrace._options import EngineOptions
from millrace._records import Clock
from millrace._rows import Production, RowDelta, RowImage, StoredTimer, Version
from millrace._time import MIN_TIME
from millrace.history import Applied, ComputationRemoved, IdsCollected, IntervalMinted, RoleClaimed, WriteRefused
from tests.core.driver import QUIET, Shop

LEFT, RIGHT = KeyInterval("", "m"), KeyInterval("m")
AUTHORITY = "authority-0"


def change(interval: KeyInterval = ALL_KEYS, owner: str = "worker-0", computation: str = "counter") -> MintChange:
    return MintChange(computation, interval, owner, 1)


def shop(*intervals: KeyInterval, page_rows: int = 1_000) -> Shop:
    """A store in which "counter" has these intervals, with sequencers 1, 2 ..."""
    made = Shop(options=EngineOptions(scan_page_rows=page_rows))
    made.mint(*map(change, intervals or (ALL_KEYS,)))
    return made


def delta(key: str = "dog", number: int = 1, state: bytes = b"1", seen: Iterable[tuple[str, int]] = ()) -> RowDelta:
    return RowDelta(key, number, state=state, seen=tuple(seen))


def write(*deltas: RowDelta, sequencer: int = 1, request: int = 7) -> m.Write:
    return m.Write(request, "counter", sequencer, deltas)


def image(
    key: str = "dog", state: bytes = b"1", version: Version = Version(1, 1), seen: Iterable[tuple[str, int]] = ()
) -> RowImage:
    return RowImage(key, version, state, MAX_TIME, (), (), tuple(seen))


def read(at: Shop, key: str = "dog", sequencer: int = 1) -> m.Reply:
    return at.store(m.Read(9, "counter", sequencer, key))


def owners(at: Shop) -> list[tuple[str, int, str]]:
    return [(str(one.interval), one.sequencer, one.owner) for one in at.table.assignments]


def timer(tag: str, timestamp: int, set_by: Version) -> StoredTimer:
    return StoredTimer(tag, timestamp, Clock.WATERMARK, timestamp, overdue=False, hold=None, set_by=set_by, origin=0)


def production(record_id: str, consumer: str = "sink") -> Production:
    return Production(record_id, "counts", consumer, "dog", b"1", timestamp=10, origin=1)


# Writes (6.2)


def test_a_write_of_the_owner_is_applied() -> None:
    at = shop()
    assert at.store(write(delta())) == m.Written(7)
    assert at.row("dog") == image()
    assert at.of(Applied, WriteRefused) == [Applied(0, "store", "counter", 1, 1, delta())]


def test_a_write_of_a_replaced_owner_is_refused_whole_and_names_the_live_sequencer() -> None:
    at = shop()
    at.mint(change(owner="worker-1"))
    assert at.store(write(delta("cat"), delta("dog"))) == m.Refused(7, 2)
    assert (at.row("cat"), at.row("dog")) == (None, None)
    assert at.of(Applied, WriteRefused) == [WriteRefused(0, "store", "counter", 1, 2, ("cat", "dog"))]


def test_the_sequencer_is_checked_when_the_write_is_applied_not_when_it_was_issued() -> None:
    """A zombie's write is issued while it owns the key, and is held back on the wire.
    The key changes hands and the new owner writes; then the zombie's write comes."""
    at = shop()
    delayed = write(delta(state=b"zombie", number=1))
    at.mint(change(owner="worker-1"))
    at.store(write(delta(state=b"owner"), sequencer=2))
    assert at.store(delayed) == m.Refused(7, 2)
    assert at.row("dog") == image(state=b"owner", version=Version(2, 1))


@pytest.mark.parametrize("keys", [("ant", "dog", "zebra"), ("zebra", "ant", "dog"), ("ant", "zebra", "dog")], ids=", ".join)
def test_one_key_outside_the_interval_makes_the_whole_write_refused(keys: tuple[str, ...]) -> None:
    at = shop(LEFT, RIGHT)
    live = at.mediator.live_sequencer("counter", keys[0])
    assert at.store(write(*map(delta, keys))) == m.Refused(7, live)
    assert [at.row(key) for key in keys] == [None, None, None]
    assert at.of(Applied, WriteRefused) == [WriteRefused(0, "store", "counter", 1, live, keys)]


def test_a_live_sequencer_of_another_computation_is_none_here() -> None:
    at = shop()
    at.mint(change(computation="other"))
    assert at.store(write(delta(), sequencer=2)) == m.Refused(7, 1)


def test_a_write_to_a_computation_without_owner_is_refused() -> None:
    at = Shop()
    assert at.store(write(delta())) == m.Refused(7, 0)


def test_a_repeated_write_is_taken_once_and_answered_again() -> None:
    at = shop()
    assert at.store(write(delta(state=b"1"))) == m.Written(7)
    assert at.store(write(delta(state=b"1"), request=7)) == m.Written(7)
    assert len(at.of(Applied)) == 1


def test_a_delayed_first_copy_can_not_undo_a_later_write() -> None:
    """The first copy of a write is delayed; its repetition is taken, and then a second write of the row.
    When the first copy comes at last, it is answered and changes nothing."""
    at = shop()
    first = write(RowDelta("dog", 1, state=b"1", set_timers=(timer("t", 5, Version(1, 1)),), productions=(production("p"),)))
    second = write(
        RowDelta("dog", 2, state=b"2", fired=(timer("t", 5, Version(1, 1)),), delivered=(("p", "sink"),)), request=8
    )
    at.store(first)
    at.store(second)
    after = at.row("dog")
    assert at.store(first) == m.Written(7)
    assert at.row("dog") == after == image(state=b"2", version=Version(1, 2))


def test_of_a_repeated_batch_only_the_rows_that_have_moved_on_are_left_alone() -> None:
    at = shop()
    at.store(write(delta("dog", 3, b"newer")))
    assert at.store(write(delta("cat", 1, b"c"), delta("dog", 2, b"older"))) == m.Written(7)
    assert (at.row("cat"), at.row("dog")) == (
        image("cat", b"c"),
        image("dog", b"newer", Version(1, 3)),
    )


def test_a_new_owner_counts_from_one_again_and_is_taken_for_newer() -> None:
    at = shop()
    at.store(write(delta(number=50)))
    at.mint(change(owner="worker-1"))
    at.store(write(delta(number=1, state=b"2"), sequencer=2))
    assert at.row("dog") == image(state=b"2", version=Version(2, 1))


# What a delta does to a row


def test_a_delta_without_state_leaves_it_and_an_empty_one_clears_it() -> None:
    at = shop()
    at.store(write(delta(state=b"1")))
    at.store(write(RowDelta("dog", 2)))
    assert at.row("dog") == image(version=Version(1, 2))
    at.store(write(RowDelta("dog", 3, state=b"")))
    assert at.row("dog") == image(state=b"", version=Version(1, 3))


def test_a_delta_without_hold_leaves_it() -> None:
    at = shop()
    at.store(write(RowDelta("dog", 1, hold=5)))
    at.store(write(RowDelta("dog", 2)))
    row = at.row("dog")
    assert row is not None
    assert row.hold == 5


def test_a_timer_set_again_moves_and_a_cancelled_one_is_gone() -> None:
    at = shop()
    first, moved, other = timer("a", 5, Version(1, 1)), timer("a", 9, Version(1, 2)), timer("b", 7, Version(1, 1))
    at.store(write(RowDelta("dog", 1, set_timers=(first, other))))
    at.store(write(RowDelta("dog", 2, set_timers=(moved,), cancelled=("b",))))
    row = at.row("dog")
    assert row is not None
    assert row.timers == (moved,)


def test_a_fired_timer_that_was_set_again_since_stays() -> None:
    at = shop()
    fired, again = timer("a", 5, Version(1, 1)), timer("a", 9, Version(1, 2))
    at.store(write(RowDelta("dog", 1, set_timers=(fired,))))
    at.store(write(RowDelta("dog", 2, fired=(fired,), set_timers=(again,))))
    row = at.row("dog")
    assert row is not None
    assert row.timers == (again,)
    at.store(write(RowDelta("dog", 3, fired=(fired,))))
    assert at.row("dog") == RowImage("dog", Version(1, 3), b"", MAX_TIME, (again,), (), ())


def test_checkpoints_are_known_by_id_and_consumer() -> None:
    at = shop()
    at.store(write(RowDelta("dog", 1, productions=(production("p", "x"), production("p", "y"), production("q", "x")))))
    at.store(write(RowDelta("dog", 2, delivered=(("p", "x"), ("never", "x")))))
    row = at.row("dog")
    assert row is not None
    assert row.productions == (production("p", "y"), production("q", "x"))


def test_ids_accumulate() -> None:
    at = shop()
    at.store(write(delta(seen=[("r1", 1)])))
    at.store(write(delta(number=2, seen=[("r2", 2)])))
    assert at.row("dog") == image(version=Version(1, 2), seen=[("r1", 1), ("r2", 2)])


# Reads and scans (7.1)


def test_reads_need_a_live_sequencer() -> None:
    at = shop(LEFT, RIGHT)
    at.store(write(delta()))
    assert read(at) == m.RowRead(9, image())
    assert read(at, "cat") == m.RowRead(9, None)
    assert read(at, sequencer=2) == m.Refused(9, 1)
    at.mint(change(LEFT, "worker-1"))
    assert read(at) == m.Refused(9, 3)


def scan(at: Shop, after: str | None = None, sequencer: int = 1, progress_of: tuple[str, ...] = ()) -> m.Reply:
    interval = {1: LEFT, 2: RIGHT}.get(sequencer, LEFT)
    return at.store(m.Scan(9, "counter", sequencer, interval, after, progress_of))


def test_scans_need_a_live_sequencer() -> None:
    at = shop(LEFT, RIGHT)
    at.mint(change(LEFT, "worker-1"))
    assert scan(at) == m.Refused(9, 3)


@pytest.mark.parametrize(
    ("rows", "pages"),
    [
        ([], [[]]),
        (["a"], [["a"]]),
        (["a", "b"], [["a", "b"]]),
        (["a", "b", "c"], [["a", "b"], ["c"]]),
        (["d", "c", "b", "a"], [["a", "b"], ["c", "d"]]),
        (["l", "m", "z", "a", "b"], [["a", "b"], ["l"]]),
    ],
    ids=["none", "one", "a page", "one more", "two pages", "with others' rows"],
)
def test_scans_come_in_pages_in_the_order_of_keys(rows: list[str], pages: list[list[str]]) -> None:
    at = shop(LEFT, RIGHT, page_rows=2)
    for key in rows:
        at.store(write(delta(key), sequencer=1 if key < "m" else 2))
    after: str | None = None
    for page in pages:
        reply = scan(at, after)
        assert isinstance(reply, m.Scanned)
        assert [row.key for row in reply.rows] == page
        after = reply.after
        assert after == (None if page is pages[-1] else page[-1])


def test_a_row_that_is_new_since_the_last_scan_is_scanned() -> None:
    at = shop(LEFT, RIGHT)
    at.store(write(delta("b")))
    scan(at)
    at.store(write(delta("a")))
    assert scan(at) == m.Scanned(9, (image("a"), image("b")), None, ())


def test_scans_tell_the_journaled_progress_that_was_asked_for() -> None:
    at = shop(LEFT, RIGHT)
    at.journal(50, 5, of="feed")
    at.journal(60, 6, of="other")
    assert scan(at, progress_of=("counter", "feed")) == m.Scanned(9, (), None, (("feed", Progress(50, 5)),))


# Sequencers (6.2)


def test_a_mint_gives_each_interval_a_new_sequencer_and_the_table_is_sorted() -> None:
    at = Shop()
    at.mint(change(RIGHT, "worker-1"), change(LEFT), change(computation="adder"))
    assert at.table == m.Table(
        1, 0, (), (
            m.Assignment("adder", ALL_KEYS, 3, "worker-0", 1),
            m.Assignment("counter", LEFT, 2, "worker-0", 1),
            m.Assignment("counter", RIGHT, 1, "worker-1", 1),
        ),
    )  # fmt: skip
    assert at.of(IntervalMinted) == [
        IntervalMinted(0, "store", "counter", RIGHT, 1, "worker-1", 1),
        IntervalMinted(0, "store", "counter", LEFT, 2, "worker-0", 1),
        IntervalMinted(0, "store", "adder", ALL_KEYS, 3, "worker-0", 1),
    ]


def test_a_move_kills_the_moved_intervals_sequencer_and_no_other() -> None:
    at = shop(LEFT, RIGHT)
    at.mint(change(LEFT, "worker-1"))
    assert owners(at) == [("['', 'm')", 3, "worker-1"), ("['m', end)", 2, "worker-0")]
    assert at.store(write(delta("ant"), sequencer=1)) == m.Refused(7, 3)
    assert at.store(write(delta("ant"), sequencer=3)) == m.Written(7)
    assert at.store(write(delta("zebra"), sequencer=2)) == m.Written(7)


def test_a_split_kills_the_sequencer_of_the_whole() -> None:
    at = shop()
    at.mint(change(LEFT), change(RIGHT))
    assert owners(at) == [("['', 'm')", 2, "worker-0"), ("['m', end)", 3, "worker-0")]
    for key, live in (("ant", 2), ("zebra", 3)):
        assert at.store(write(delta(key), sequencer=1)) == m.Refused(7, live)
        assert at.store(write(delta(key), sequencer=live)) == m.Written(7)
        assert at.store(write(delta(key), sequencer=5 - live)) == m.Refused(7, live)


def test_a_merge_kills_the_sequencers_of_both_parts() -> None:
    at = shop(LEFT, RIGHT)
    at.mint(change())
    assert owners(at) == [("['', end)", 3, "worker-0")]
    assert at.store(write(delta("ant"), sequencer=1)) == m.Refused(7, 3)
    assert at.store(write(delta("zebra"), sequencer=2)) == m.Refused(7, 3)
    assert at.store(write(delta("ant"), delta("zebra"), sequencer=3)) == m.Written(7)


def test_sequencers_only_rise_also_over_computations() -> None:
    at = shop()
    at.mint(change(computation="adder"))
    at.mint(change())
    assert sorted(one.sequencer for one in at.table.assignments) == [2, 3]


@pytest.mark.parametrize(
    "changes",
    [
        [KeyInterval("", "k")],
        [KeyInterval("", "k"), KeyInterval("l", "m")],
        [KeyInterval("", "k"), KeyInterval("j", "m")],
        [KeyInterval("", "z")],
        [LEFT, LEFT],
        [KeyInterval("k", "z")],
    ],
    ids=["less", "hole", "overlap", "into the next", "twice", "across"],
)
def test_a_mint_that_does_not_cover_exactly_what_it_replaces_is_our_bug(changes: list[KeyInterval]) -> None:
    at = shop(LEFT, RIGHT)
    with pytest.raises(AssertionError, match="without an owner"):
        at.mint(*map(change, changes))


def test_the_first_mint_of_a_computation_covers_all_keys() -> None:
    with pytest.raises(AssertionError, match="without an owner"):
        Shop().mint(change(LEFT))


def test_a_removed_computation_has_no_owner_any_more() -> None:
    at = shop()
    at.store(write(delta()))
    table = at.mint(topology=1, removed=("counter",))
    assert table == m.Table(2, 1, (), ())
    assert at.store(write(delta(number=2))) == m.Refused(7, 0)
    assert at.of(ComputationRemoved) == [ComputationRemoved(0, "store", "counter")]


def test_retiring_computations_stand_in_the_table() -> None:
    at = shop()
    table = at.mint(topology=1, retiring=("counter",))
    assert (table.topology, table.retiring, len(table.assignments)) == (1, ("counter",), 1)


# The master's epoch and numbers


def test_an_old_masters_mint_is_refused_and_changes_nothing() -> None:
    at = shop()
    before = at.table
    assert at.store(m.Claim(9, MASTER_ROLE, 1, "master-1")) == m.Claimed(9, 2, (), 0, before)
    assert at.store(m.Mint(9, 1, 99, (change(owner="worker-1"),), 0)) == m.Refused(9, 2)
    assert at.store(m.Mint(9, 2, 1, (), 0)) == m.Minted(9, m.Table(2, 0, (), before.assignments))


def test_a_repeated_mint_gets_the_same_table() -> None:
    at = shop()
    mint = m.Mint(9, 1, 2, (change(owner="worker-1"),), 0)
    first = at.store(mint)
    assert at.store(mint) == first
    assert len(at.of(IntervalMinted)) == 2


def test_a_mint_of_a_lower_number_is_ignored() -> None:
    at = shop()
    late = m.Mint(8, 1, 2, (change(owner="worker-1"),), 0)
    second = at.store(m.Mint(9, 1, 3, (change(owner="worker-2"),), 0))
    assert isinstance(second, m.Minted)
    assert at.store(late) == m.Minted(8, second.table)


def test_a_new_master_counts_its_mints_from_one() -> None:
    at = shop()
    at.store(m.Mint(9, 1, 50, (change(owner="worker-1"),), 0))
    at.store(m.Claim(9, MASTER_ROLE, 1, "master-1"))
    reply = at.store(m.Mint(9, 2, 1, (change(owner="worker-2"),), 0))
    assert isinstance(reply, m.Minted)
    assert [one.owner for one in reply.table.assignments] == ["worker-2"]


# Fenced journals


def test_a_claim_raises_the_epoch_and_returns_what_was_journaled() -> None:
    at = shop()
    at.journal(50, 5)
    assert at.store(m.Claim(9, AUTHORITY, 1, "authority-0.1")) == m.Claimed(
        9, 2, (("feed", Progress(50, 5)),), 0, at.table
    )
    assert at.of(RoleClaimed)[1:] == [
        RoleClaimed(0, "store", AUTHORITY, 1, "authority-0.0"),
        RoleClaimed(0, "store", AUTHORITY, 2, "authority-0.1"),
    ]


def test_of_two_that_saw_the_same_epoch_one_gets_the_role() -> None:
    at = Shop()
    first = at.store(m.Claim(9, AUTHORITY, 0, "authority-0.0"))
    assert at.store(m.Claim(9, AUTHORITY, 0, "authority-0.1")) == m.Refused(9, 1)
    assert at.store(m.Claim(9, AUTHORITY, 0, "authority-0.0")) == first, "its repetition is answered alike"


def test_every_request_of_a_former_holder_is_refused() -> None:
    at = Shop()
    at.store(m.Claim(0, AUTHORITY, 0, "authority-0.0"))
    at.store(m.Claim(0, AUTHORITY, 1, "authority-0.1"))
    former: list[m.Request] = [
        m.Renew(9, AUTHORITY, 1),
        m.JournalWatermarks(9, AUTHORITY, 1, (("feed", Progress(50, 5)),), ()),
        m.JournalPosition(9, AUTHORITY, 1, 7, Progress(50, 5)),
    ]
    assert [at.store(request) for request in former] == [m.Refused(9, 2)] * 3
    assert at.store(m.Claim(0, AUTHORITY, 2, "authority-0.2")) == m.Claimed(0, 3, (), 0, m.Table())


def test_the_count_of_renewals_moves_whenever_the_holder_shows_itself() -> None:
    at = Shop()

    def renewals(role: str = AUTHORITY) -> int:
        reply = at.store(m.Peek(9, role))
        assert isinstance(reply, m.Peeked)
        return reply.renewals

    assert at.store(m.Peek(9, AUTHORITY)) == m.Peeked(9, 0, 0)
    seen = [renewals()]
    for request in (
        m.Claim(0, AUTHORITY, 0, "authority-0.0"),
        m.Renew(0, AUTHORITY, 1),
        m.JournalWatermarks(0, AUTHORITY, 1, (), ()),
        m.JournalPosition(0, AUTHORITY, 1, 0, Progress()),
        m.JournalWatermarks(0, AUTHORITY, 1, (), (("counter", 99),)),
    ):
        at.store(request)
        seen.append(renewals())
    assert seen == sorted(set(seen))
    before = renewals()
    at.store(m.Renew(0, AUTHORITY, 0))
    assert renewals() == before, "a refused one does not count"
    before = renewals(MASTER_ROLE)
    at.mint(change())
    assert renewals(MASTER_ROLE) > before


def journal(at: Shop, progress: Progress, *reports: tuple[str, int]) -> m.Reply:
    at.store(m.Claim(0, AUTHORITY, 0, "authority-0.0"))
    return at.store(m.JournalWatermarks(9, AUTHORITY, 1, (("counter", progress),), reports))


def journaled(at: Shop) -> Progress:
    reply = at.store(m.Scan(9, "counter", at.mediator.live_sequencer("counter", ""), ALL_KEYS, None, ("counter",)))
    assert isinstance(reply, m.Scanned)
    return dict(reply.progress).get("counter", Progress())


def test_watermarks_that_rest_on_live_reports_are_journaled() -> None:
    at = shop(LEFT, RIGHT)
    assert journal(at, Progress(50, 5), ("counter", 1), ("counter", 2)) == m.Journaled(9)
    assert journaled(at) == Progress(50, 5)


def test_one_stale_report_and_nothing_is_journaled() -> None:
    """A worker reports, and is replaced before the authority journals.
    Its optimism must not get in between the mint and the new owner's first report."""
    at = shop(LEFT, RIGHT)
    at.mint(change(LEFT, "worker-1"))
    assert journal(at, Progress(50, 5), ("counter", 1), ("counter", 2)) == m.Journaled(9, (("counter", 1),))
    assert journaled(at) == Progress()
    assert journal(at, Progress(50, 5), ("counter", 3), ("counter", 2)) == m.Journaled(9)
    assert journaled(at) == Progress(50, 5)


def test_an_injectors_report_is_live_as_long_as_its_epoch() -> None:
    at = shop()
    at.store(m.Claim(0, "feed/0", 0, "feed/0#1"))
    assert journal(at, Progress(50, 5), ("feed/0", 1)) == m.Journaled(9)
    at.store(m.Claim(0, "feed/0", 1, "feed/0#2"))
    assert journal(at, Progress(60, 6), ("feed/0", 1)) == m.Journaled(9, (("feed/0", 1),))
    assert journaled(at) == Progress(50, 5)


def test_journaled_progress_never_goes_back() -> None:
    at = shop()
    journal(at, Progress(50, 5, ((90.0, 70),)))
    journal(at, Progress(40, 6, ((90.0, 60),)))
    assert journaled(at) == Progress(50, 6, ((90.0, 70),))


def test_an_injectors_position_and_progress_never_go_back() -> None:
    at = Shop()
    role = "feed/0"
    at.store(m.Claim(0, role, 0, "feed/0#1"))
    assert at.store(m.JournalPosition(9, role, 1, 7, Progress(50, 5))) == m.Journaled(9)
    at.store(m.JournalPosition(9, role, 1, 6, Progress(40, 4)))
    assert at.store(m.Claim(9, role, 1, "feed/0#2")) == m.Claimed(9, 2, ((role, Progress(50, 5)),), 7, m.Table())


# Collecting ids (6.1.1)


def collect(at: Shop, below: int, sequencer: int = 1, interval: KeyInterval = LEFT) -> m.Reply:
    return at.store(m.CollectIds(9, "counter", sequencer, interval, below))


def test_collecting_deletes_the_ids_below_and_no_others() -> None:
    at = shop(LEFT, RIGHT)
    at.store(write(delta("ant", seen=[("r4", 4), ("r5", 5), ("r6", 6)]), delta("dog", seen=[("r1", 1)])))
    at.store(write(delta("zebra", seen=[("r2", 2)]), sequencer=2))
    assert collect(at, 5) == m.Collected(9)
    assert at.row("ant") == image("ant", seen=[("r5", 5), ("r6", 6)])
    assert at.row("dog") == image("dog")
    assert at.row("zebra") == image("zebra", version=Version(2, 1), seen=[("r2", 2)])
    assert at.of(IdsCollected) == [IdsCollected(0, "store", "counter", LEFT, 5, 2)]


def test_collecting_again_or_with_less_changes_nothing() -> None:
    at = shop(LEFT, RIGHT)
    at.store(write(delta(seen=[("r4", 4), ("r5", 5)])))
    for below in (5, 5, 3, MIN_TIME):
        assert collect(at, below) == m.Collected(9)
    assert at.row("dog") == image(seen=[("r5", 5)])
    assert len(at.of(IdsCollected)) == 1


def test_collecting_needs_a_live_sequencer() -> None:
    at = shop(LEFT, RIGHT)
    at.store(write(delta(seen=[("r4", 4)])))
    at.mint(change(LEFT, "worker-1"))
    assert collect(at, 5) == m.Refused(9, 3)
    assert at.row("dog") == image(seen=[("r4", 4)])


# Invariants


def test_a_table_that_disagrees_with_the_live_sequencers_is_noticed() -> None:
    at = shop(LEFT, RIGHT)
    at.mediator._live["counter"][9] = LEFT
    with pytest.raises(AssertionError, match="disagree"):
        at.mediator.check_invariants()


def test_a_hole_between_live_intervals_is_noticed() -> None:
    at = shop(LEFT, RIGHT)
    del at.mediator._live["counter"][2]
    at.mediator._table = m.Table(1, 0, (), at.table.assignments[:1])
    with pytest.raises(AssertionError, match="cover"):
        at.mediator.check_invariants()


def test_an_empty_store_is_in_order() -> None:
    Mediator(Shop(options=QUIET).history).check_invariants()
