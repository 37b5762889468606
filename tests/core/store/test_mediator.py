"""The mediator of the store (MillWheel 6.2, 7.1): feed a request, assert the reply and what it left behind."""

from collections.abc import Iterable

import pytest

from headrace import MAX_TIME, KeyInterval
from headrace.api.records import Clock
from headrace.api.time import MIN_TIME
from headrace.history import (
    Applied,
    CheckpointsDeleted,
    IdsCollected,
    WriteRefused,
)
from headrace.store.mediator import Mediator
from headrace.wire import messages as m
from headrace.wire.messages import STORE, Progress
from headrace.wire.rows import Production, RowDelta, RowImage, StoredTimer, Version
from tests.core.driver import LEFT, QUIET, RIGHT, Shop
from tests.core.store.mediator_rig import change, delta, shop, write

FIRST = Version(1, 1)


def image(
    key: str = "dog",
    state: bytes = b"1",
    version: Version = FIRST,
    seen: Iterable[tuple[str, int]] = (),
) -> RowImage:
    return RowImage(key, version, state, MAX_TIME, (), (), tuple(seen))


def read(at: Shop, key: str = "dog", sequencer: int = 1) -> m.Reply:
    return at.store(m.Read(9, "counter", sequencer, key))


def timer(tag: str, timestamp: int, set_by: Version) -> StoredTimer:
    return StoredTimer(
        tag, timestamp, Clock.WATERMARK, timestamp, overdue=False, hold=None, set_by=set_by, origin=0
    )


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


@pytest.mark.parametrize(
    "keys", [("ant", "dog", "zebra"), ("zebra", "ant", "dog"), ("ant", "zebra", "dog")], ids=", ".join
)
def test_one_key_outside_the_interval_makes_the_whole_write_refused(keys: tuple[str, ...]) -> None:
    at = shop(LEFT, RIGHT)
    live = at.mediator.live_sequencer("counter", keys[0])
    assert at.store(write(*map(delta, keys))) == m.Refused(7, live)
    assert [at.row(key) for key in keys] == [None, None, None]
    assert at.of(Applied, WriteRefused) == [WriteRefused(0, "store", "counter", 1, live, keys)]


def test_a_sequencer_is_live_only_for_its_own_computation() -> None:
    at = shop()
    at.mint(change(computation="other"))
    assert at.store(write(delta(), sequencer=2)) == m.Refused(7, 1)


def test_a_write_to_a_computation_without_owner_is_refused() -> None:
    at = Shop()
    assert at.store(write(delta())) == m.Refused(7, 0)


def test_a_repeated_write_is_applied_once_and_answered_again() -> None:
    at = shop()
    assert at.store(write(delta(state=b"1"))) == m.Written(7)
    assert at.store(write(delta(state=b"1"), request=7)) == m.Written(7)
    assert len(at.of(Applied)) == 1


def test_a_delayed_first_copy_cannot_undo_a_later_write() -> None:
    """The first copy of a write is delayed; its repetition is taken, and then a second write of the row.
    When the first copy comes at last, it is answered and changes nothing."""
    at = shop()
    first = write(
        RowDelta(
            "dog", 1, state=b"1", set_timers=(timer("t", 5, Version(1, 1)),), productions=(production("p"),)
        )
    )
    second = write(
        RowDelta("dog", 2, state=b"2", fired=(timer("t", 5, Version(1, 1)),)),
        request=8,
        delivered=(("dog", "p", "sink"),),
    )
    at.store(first)
    at.store(second)
    after = at.row("dog")
    assert at.store(first) == m.Written(7)
    assert at.row("dog") == after == image(state=b"2", version=Version(1, 2))


def test_in_a_repeated_batch_only_the_rows_written_since_are_left_alone() -> None:
    at = shop()
    at.store(write(delta("dog", 3, b"newer")))
    assert at.store(write(delta("cat", 1, b"c"), delta("dog", 2, b"older"))) == m.Written(7)
    assert (at.row("cat"), at.row("dog")) == (
        image("cat", b"c"),
        image("dog", b"newer", Version(1, 3)),
    )


def test_a_new_owner_counts_from_one_again_and_counts_as_newer() -> None:
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
    first, moved, other = (
        timer("a", 5, Version(1, 1)),
        timer("a", 9, Version(1, 2)),
        timer("b", 7, Version(1, 1)),
    )
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
    at.store(
        write(
            RowDelta("dog", 1, productions=(production("p", "x"), production("p", "y"), production("q", "x")))
        )
    )
    at.store(write(delivered=(("dog", "p", "x"), ("dog", "never", "x"))))
    row = at.row("dog")
    assert row is not None
    assert row.productions == (production("p", "y"), production("q", "x"))


def test_checkpoints_are_deleted_with_other_rows_and_each_is_reported_once() -> None:
    """One write changes a row and deletes a checkpoint of another; it comes twice, with rows of its own in between."""
    at = shop()
    at.store(write(RowDelta("dog", 1, productions=(production("p"), production("q")))))
    gone = write(delta("cat", 2), delivered=(("dog", "p", "sink"), ("owl", "r", "sink")))
    assert at.store(gone) == m.Written(7)
    at.store(write(delta("dog", 3)))
    assert at.store(gone) == m.Written(7)
    assert at.of(CheckpointsDeleted) == [
        CheckpointsDeleted(0, STORE, "counter", 1, 1, (("dog", "p", "sink"),)),
    ]
    row = at.row("dog")
    assert row is not None
    assert (row.version, row.productions) == (Version(1, 3), (production("q"),))


def test_a_deletion_of_a_former_owner_is_refused_whole() -> None:
    at = shop()
    at.store(write(RowDelta("dog", 1, productions=(production("p"),))))
    at.mint(change())
    assert at.store(write(delivered=(("dog", "p", "sink"), ("owl", "r", "sink")))) == m.Refused(7, 2)
    assert at.of(WriteRefused) == [WriteRefused(0, STORE, "counter", 1, 2, ("dog", "owl"))]
    row = at.row("dog")
    assert row is not None
    assert row.productions == (production("p"),)


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


def scan(
    at: Shop, after: str | None = None, sequencer: int = 1, progress_of: tuple[str, ...] = ()
) -> m.Reply:
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


def test_scans_return_the_requested_journaled_progress() -> None:
    at = shop(LEFT, RIGHT)
    at.journal(50, 5, of="feed")
    at.journal(60, 6, of="other")
    assert scan(at, progress_of=("counter", "feed")) == m.Scanned(9, (), None, (("feed", Progress(50, 5)),))


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
    at.mediator.table = m.Table(1, 0, (), at.table.assignments[:1])
    with pytest.raises(AssertionError, match="cover"):
        at.mediator.check_invariants()


def test_an_empty_store_is_in_order() -> None:
    Mediator(Shop(options=QUIET).history).check_invariants()
