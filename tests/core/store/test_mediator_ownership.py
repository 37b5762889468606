"""The mediator of the store (MillWheel 6.2, 7.1): sequencers, the assignment table, fenced journals."""

import pytest

from headrace import KeyInterval
from headrace.history import (
    ComputationRemoved,
    IntervalMinted,
    RoleClaimed,
    VersionAdopted,
)
from headrace.store.mediator import MASTER_ROLE
from headrace.wire import messages as m
from headrace.wire.keys import ALL_KEYS
from headrace.wire.messages import Progress
from tests.core.driver import LEFT, RIGHT, Shop
from tests.core.store.mediator_rig import change, delta, shop, write

AUTHORITY = "authority-0"


def owners(at: Shop) -> list[tuple[str, int, str]]:
    return [
        (str(assignment.interval), assignment.sequencer, assignment.owner)
        for assignment in at.table.assignments
    ]


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
    assert sorted(assignment.sequencer for assignment in at.table.assignments) == [2, 3]


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


def test_a_removed_computation_no_longer_has_an_owner() -> None:
    at = shop()
    at.store(write(delta()))
    table = at.mint(topology=1, removed=("counter",))
    assert table == m.Table(2, 1, (), ())
    assert at.store(write(delta(number=2))) == m.Refused(7, 0)
    assert at.of(ComputationRemoved) == [ComputationRemoved(0, "store", "counter")]


def test_retiring_computations_are_in_the_table() -> None:
    at = shop()
    table = at.mint(topology=1, retiring=("counter",))
    assert (table.topology, table.retiring, len(table.assignments)) == (1, ("counter",), 1)


def test_the_history_records_when_another_version_is_deployed() -> None:
    at = shop()
    assert at.of(VersionAdopted) == []
    at.mint(topology=1, retiring=("counter",))
    at.mint(topology=1, removed=("counter",))
    assert at.of(VersionAdopted) == [VersionAdopted(0, "store", 1)]


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
    assert [assignment.owner for assignment in reply.table.assignments] == ["worker-2"]


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


def test_only_one_of_two_claimants_with_the_same_epoch_gets_the_role() -> None:
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


def test_the_count_of_renewals_rises_with_each_sign_of_the_holder() -> None:
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
        m.JournalWatermarks(0, AUTHORITY, 1, (), (m.IntervalReporter("counter", 99),)),
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


def journal(at: Shop, progress: Progress, *reporters: m.Reporter) -> m.Reply:
    at.store(m.Claim(0, AUTHORITY, 0, "authority-0.0"))
    return at.store(m.JournalWatermarks(9, AUTHORITY, 1, (("counter", progress),), reporters))


def journaled(at: Shop) -> Progress:
    reply = at.store(
        m.Scan(9, "counter", at.mediator.live_sequencer("counter", ""), ALL_KEYS, None, ("counter",))
    )
    assert isinstance(reply, m.Scanned)
    return dict(reply.progress).get("counter", Progress())


def test_watermarks_that_rest_on_live_reports_are_journaled() -> None:
    at = shop(LEFT, RIGHT)
    assert journal(
        at, Progress(50, 5), m.IntervalReporter("counter", 1), m.IntervalReporter("counter", 2)
    ) == m.Journaled(9)
    assert journaled(at) == Progress(50, 5)


def test_one_stale_report_prevents_the_whole_journal_entry() -> None:
    """A worker reports, and is replaced before the authority journals.
    Its optimism must not get in between the mint and the new owner's first report."""
    at = shop(LEFT, RIGHT)
    at.mint(change(LEFT, "worker-1"))
    assert journal(
        at, Progress(50, 5), m.IntervalReporter("counter", 1), m.IntervalReporter("counter", 2)
    ) == m.Journaled(9, (m.IntervalReporter("counter", 1),))
    assert journaled(at) == Progress()
    assert journal(
        at, Progress(50, 5), m.IntervalReporter("counter", 3), m.IntervalReporter("counter", 2)
    ) == m.Journaled(9)
    assert journaled(at) == Progress(50, 5)


def test_an_injectors_report_is_live_as_long_as_its_epoch() -> None:
    at = shop()
    at.store(m.Claim(0, "feed/0", 0, "feed/0#1"))
    assert journal(at, Progress(50, 5), m.ProcessReporter("feed", 0, 1)) == m.Journaled(9)
    at.store(m.Claim(0, "feed/0", 1, "feed/0#2"))
    assert journal(at, Progress(60, 6), m.ProcessReporter("feed", 0, 1)) == m.Journaled(
        9, (m.ProcessReporter("feed", 0, 1),)
    )
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
    assert at.store(m.Claim(9, role, 1, "feed/0#2")) == m.Claimed(
        9, 2, ((role, Progress(50, 5)),), 7, m.Table()
    )
